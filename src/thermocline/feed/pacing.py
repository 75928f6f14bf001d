"""When a batch is due, and of which tables: each has its own interval between two commits.

A slot has one place, and each look at it begins there. So it stays where the slowest table is, and what lies between
is read again for every batch of a faster one. That is bounded: once it is more than a little, every table takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline.hot.positions import number

if TYPE_CHECKING:
    from collections.abc import Mapping

# So much of the log makes a batch at once, without waiting for any interval; a batch may be larger than that.
FULL_BYTES = 128 << 20
# So much of it is read again and again for the tables that are due; with more than that, all of them are.
HELD_BYTES = 16 << 20
# What the lake did not take is tried again after so long, also when nothing new has come.
RETRY_SECONDS = 5
_NO_TABLE = 0


@dataclass(frozen=True)
class Waiting:
    """What waits for the next batch."""

    confirmed: int
    """Where the slot stands."""
    flushed: int
    wanted: bool
    """Whether somebody waits for it."""
    tables: Mapping[int, float | None]
    """Seconds between two commits of each, where they are its own."""
    held: frozenset[int] = frozenset()
    """Those that the lake has not taken."""

    @classmethod
    def told(cls, row: tuple[Any, ...]) -> Waiting:
        """As PostgreSQL says it."""
        confirmed, flushed, wanted, intervals, held = row
        tables = {int(table): seconds if seconds is None else float(seconds) for table, seconds in intervals.items()}
        return cls(number(confirmed), number(flushed), wanted, tables, frozenset(held))


@dataclass(frozen=True)
class Due:
    """A batch that is due."""

    end: int
    tables: tuple[int, ...] | None
    """Which take part; None: all of them."""


class Pace:
    """Decides. What it remembers may be lost: then every table is due.

    Intervals are counted from one moment for all tables, so that those with the same one have their commits together.
    """

    def __init__(self, interval: float | None, window: int) -> None:
        """`interval` is that of tables without one of their own; with None there are no intervals at all."""
        self._interval = interval
        self._window = window
        self._turns: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._tried: dict[int, float] = {}

    def next(self, waiting: Waiting, now: float) -> Due | None:
        """The batch that is due now. It counts as made: each table is asked for the same part of the log once."""
        end = min(waiting.flushed, waiting.confirmed + self._window)
        tables = waiting.tables or {_NO_TABLE: None}
        if end <= waiting.confirmed:
            return None
        behind = waiting.flushed - waiting.confirmed
        everything = self._interval is None or waiting.wanted or behind >= min(FULL_BYTES, self._window)
        due = [
            table
            for table, own in tables.items()
            if (self._ends.get(table, 0) < end and (everything or self._is_due(table, own, now)))
            or (table in waiting.held and now - self._tried.get(table, float("-inf")) >= RETRY_SECONDS)
        ]
        if not due:
            return None
        everything = everything or behind >= HELD_BYTES
        chosen = tables if everything else due
        self._ends = {table: at for table, at in self._ends.items() if table in tables}
        self._ends |= dict.fromkeys(chosen, end)
        self._tried = {table: at for table, at in self._tried.items() if table in tables} | dict.fromkeys(chosen, now)
        self._turns = {table: turn for table, turn in self._turns.items() if table in tables}
        self._turns |= {table: self._turn(tables[table], now) for table in chosen}
        return Due(end, None if len(chosen) == len(tables) else tuple(sorted(chosen)))

    def _is_due(self, table: int, own: float | None, now: float) -> bool:
        turn = self._turn(own, now)
        return turn == 0 or self._turns.get(table) != turn

    def _turn(self, own: float | None, now: float) -> int:
        """Which interval of a table this moment lies in, from 1 on; 0 for one that does not wait."""
        interval = own if own is not None else self._interval or 0
        return 1 + int(now // interval) if interval else 0
