"""The gate's work as a process of its own, with a feed in it or beside it, that can be killed at any named point."""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import thermocline
from harness.lakes import Lake
from thermocline.errors import Refused
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from thermocline.config import Settings

PATIENCE = 3
_GATE = Path(thermocline.__file__).parent / "gate"


def points(prefixes: tuple[str, ...]) -> list[str]:
    """The named points of the gate that begin like one of these."""
    found = {
        name
        for file in _GATE.glob("*.py")
        for name in re.findall(r'crash_point\("([\w.]+)"\)', file.read_text("utf-8"))
    }
    return sorted(name for name in found if name.startswith(prefixes))


def verify(table: str, settings: Settings, *, with_feed: bool) -> str:
    """Compare every resident chunk of a table."""
    with _stack(settings, with_feed) as stack:
        return _told(stack.lifecycle(table, on_spark=False, patience=PATIENCE).verify())


def tier(table: str, settings: Settings, *, with_feed: bool) -> str:
    """Flag what is due."""
    with _stack(settings, with_feed) as stack:
        return _told(stack.lifecycle(table, on_spark=False, patience=PATIENCE).tier())


def retention(table: str, settings: Settings, *, with_feed: bool) -> str:
    """Drop what is due and proven."""
    with _stack(settings, with_feed) as stack:
        return _told(stack.lifecycle(table, on_spark=False, patience=PATIENCE).retention())


def settle(tables: Sequence[str], settings: Settings, *, with_feed: bool) -> str:
    """Let late rows of some tables go that the lake has."""
    with _stack(settings, with_feed) as stack:
        return _told(
            line for table in tables for line in stack.late_rows(table, on_spark=False, patience=PATIENCE).settle()
        )


def rehydrate(table: str, start: datetime, end: datetime, settings: Settings, *, with_feed: bool) -> str:
    """Bring back what has left of a range."""
    with _stack(settings, with_feed) as stack:
        try:
            return _told(stack.rehydrator(on_spark=False, patience=PATIENCE).bring_back(table, start, end))
        except Refused as error:  # by the plan, or by the database when a late row has just come
            if "can be brought back" not in error.message:
                raise
            return error.message


@contextmanager
def _stack(settings: Settings, with_feed: bool) -> Iterator[Stack]:
    stack = Stack(settings)
    with Lake(stack.dsn, stack).feeding() if with_feed else nullcontext():
        yield stack


def _told(lines: Iterable[Any]) -> str:
    return ", ".join(f"{line.verdict} {line.reason}" for line in lines)
