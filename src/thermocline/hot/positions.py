"""Positions in the write-ahead log, as numbers: 0/16B3748 is 23803720."""

from __future__ import annotations


def number(text: str) -> int:
    """The number of a position that PostgreSQL wrote."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def text(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
