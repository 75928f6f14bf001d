"""History tables as the feed leaves them in the lake, of entries that a test names."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thermocline.lake import history
from thermocline.lake.columns import AT_UTC, OWN_COLUMNS, Look, SourceColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from pyiceberg.catalog import Catalog

    Row = dict[str, Any]
    Position = tuple[int, int]

HOUR, TICK = timedelta(hours=1), timedelta(microseconds=1)
VALUES = (0.0, -0.0, math.nan, None, 1.5)
GRIDS = {
    "timestamptz": (AT_UTC, 6 * HOUR),
    "timestamp": (pa.timestamp("us"), 6 * HOUR),
    "date": (pa.date32(), 24 * HOUR),
}
CHUNKS = 4
_numbers = itertools.count(1)


@dataclass(frozen=True)
class HistoryTable:
    """A history table and what may be put into it."""

    name: str
    schema: pa.Schema
    opened: history.History

    def append(self, *entries: Row) -> int:
        """One commit with these entries, NULL in what they do not name; returns its snapshot."""
        return self.append_table(pa.Table.from_pylist(list(entries), self.schema))

    def append_table(self, entries: pa.Table) -> int:
        """One commit with a whole table."""
        return self.opened.append(self.opened.write(entries), {history.BATCH: f"test-{next(_numbers)}"})


def create(
    catalog: Catalog,
    columns: Mapping[str, pa.DataType],
    *,
    time_column: str = "ts",
    unit: str = "day",
) -> HistoryTable:
    """An empty history table with a name of its own."""
    number = next(_numbers)
    name = f"histories.lb_t{number}_history"
    names = {history.SOURCE: f"public.t{number}", history.TIME_COLUMN: time_column}
    look = Look(number, [SourceColumn(at, *one) for at, one in enumerate(columns.items(), 1)], names, 0)
    made = history.open_or_create(catalog, name, look, unit=unit, chronotable=number)
    return HistoryTable(name, pa.schema({**columns, **OWN_COLUMNS}), made)


def change(kind: str, at: Position, row: Row) -> Row:
    """What one change leaves in the history."""
    return row | {"_change_type": kind, "_lsn": at[0], "_seq": at[1], "_xid": at[0]}


def insert(at: Position, row: Row) -> Row:
    return change("insert", at, row)


def delete(at: Position, row: Row) -> Row:
    return change("delete", at, row)


def update(at: Position, old: Row, new: Row) -> list[Row]:
    """Both images; they take this place in their transaction and the next one."""
    return [change("update_preimage", at, old), change("update_postimage", (at[0], at[1] + 1), new)]


def reset(at: Position, start: datetime | date, end: datetime, *, time_column: str = "ts") -> Row:
    """What a TRUNCATE leaves: `start` is of the time column's own kind, `end` an instant."""
    return change("truncate", at, {time_column: start, "_range_end": end})


def copy(lsn: int, start: datetime | date, end: datetime, rows: Iterable[Row]) -> list[Row]:
    """What the copy of a chunk leaves: a reset, and its rows after it."""
    return [reset((lsn, -1), start, end), *(insert((lsn, seq), row) for seq, row in enumerate(rows))]


@dataclass
class Source:
    """A table of four chunks that lives through random steps, and what the feed and copies write of it.

    It is there before the feed is, so that its first rows, and what happens to them, reach the lake in part
    only; then each chunk is copied. Commits have the positions 10, 20, ...; copies 1000, ...; then 2000, ....
    """

    kind: str
    start: datetime
    rows: list[Row] = field(default_factory=list)
    entries: list[Row] = field(default_factory=list)
    states: list[tuple[int, list[Row]]] = field(default_factory=list)

    def live(self, before: list[int], steps: list[list[int]]) -> Source:
        for number in before:
            self.rows.append(self._row(number))
        half = len(steps) // 2
        for at, step in enumerate(steps[:half]):
            self._transaction(10 * (at + 1), step)
        for chunk in range(CHUNKS):
            self._copy(1000 + 10 * chunk, chunk, chunk + 1)
            self._transaction(1005 + 10 * chunk, before[chunk : chunk + 1])
        for at, step in enumerate(steps[half:]):
            self._transaction(2000 + 10 * at, step)
            if step[0] % 5 == 0:
                first = step[0] % CHUNKS
                self._copy(2005 + 10 * at, first, min(first + 2, CHUNKS))
        return self

    def edge(self, chunk: int) -> datetime:
        return self.start + chunk * GRIDS[self.kind][1]

    def content(self, chunk: int, upto: float) -> list[Row]:
        """What was in the chunk at this position."""
        reached = [rows for lsn, rows in self.states if lsn <= upto]
        return [row for row in reached[-1] if self._chunk(row) == chunk]

    def _transaction(self, lsn: int, numbers: list[int]) -> None:
        seq = 0
        for number in numbers:
            what, rest = number % 8, number // 8
            if what in (3, 4) and self.rows:
                old = self.rows.pop(rest % len(self.rows))
                self.rows.append(self._row(rest))
                self.entries += update((lsn, seq), old, self.rows[-1])
            elif what in (5, 6) and self.rows:
                self.entries.append(delete((lsn, seq), self.rows.pop(rest % len(self.rows))))
            elif what == 7:
                chunk = rest % CHUNKS
                self.rows = [row for row in self.rows if self._chunk(row) != chunk]
                self.entries.append(reset((lsn, seq), self._time(self.edge(chunk)), self.edge(chunk + 1)))
            else:
                self.rows.append(self._row(rest))
                self.entries.append(insert((lsn, seq), self.rows[-1]))
            seq += 2
        self.states.append((lsn, list(self.rows)))

    def _copy(self, lsn: int, first: int, end: int) -> None:
        rows = [row for row in self.rows if first <= self._chunk(row) < end]
        self.entries += copy(lsn, self._time(self.edge(first)), self.edge(end), rows)

    def _row(self, number: int) -> Row:
        number, value = divmod(number, len(VALUES))
        number, chunk = divmod(number, CHUNKS)
        start, end = self.edge(chunk), self.edge(chunk + 1)
        moment = (start, start + HOUR, end - TICK)[number % 3]
        return {"ts": self._time(moment), "id": number % 2, "value": VALUES[value]}

    def _chunk(self, row: Row) -> int:
        at = row["ts"]
        if not isinstance(at, datetime):
            at = datetime(at.year, at.month, at.day, tzinfo=UTC)
        return (at.replace(tzinfo=UTC) - self.start) // GRIDS[self.kind][1]

    def _time(self, moment: datetime) -> datetime | date:
        return {"timestamptz": moment, "timestamp": moment.replace(tzinfo=None), "date": moment.date()}[self.kind]
