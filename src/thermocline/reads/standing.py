"""How a table stands at one moment: what of it is resident, what has left, and where each range is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg
from psycopg import sql as pgsql
from psycopg.rows import dict_row

from thermocline.errors import Refused
from thermocline.hot import names, positions, rows
from thermocline.hot.statements import query
from thermocline.lake.segments import Cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import Connection

    from thermocline.hot.rows import Column

    Range = tuple[datetime, datetime]

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class UnknownTable(Refused):
    """There is no ChronoTable of that name."""

    code = "reads.unknown_table"
    next_step_by_default = "SELECT schema_name, table_name FROM lakets._chronotable_registry; lists them."


@dataclass(frozen=True)
class Source:
    """Where the rows of some times come from."""

    table: str
    range_start: datetime | None
    """None where there is no first moment."""
    range_end: datetime | None
    tier: str
    """postgresql, lake, both or none"""
    what: str


@dataclass(frozen=True)
class Chunk:
    """A resident chunk, or a trap with late rows."""

    oid: int
    name: str
    start: datetime
    end: datetime
    pages: int


@dataclass(frozen=True)
class Standing:
    """Both tiers of a table at one moment."""

    time_column: str
    columns: tuple[Column, ...]
    missing: Mapping[int, Any]
    """What older rows read in columns that came with a default, by number."""
    snapshot: str
    chunks: tuple[Chunk, ...]
    late: tuple[Chunk, ...]
    """Traps with late rows: what the lake has of their ranges counts beside them, up to its cut."""
    lake_table: str | None
    """None while all of the table is resident."""
    cuts: tuple[Cut, ...]
    nowhere: tuple[tuple[datetime, datetime], ...]
    """Ranges that are in no tier."""
    owed_by: tuple[str, ...]
    """Identities of the lake's table under which ranges were dropped."""
    owed_at: int
    """The furthest position at which one was."""

    @cached_property
    def elsewhere(self) -> list[Range]:
        """Times of which the lake is not asked: what is resident, and what is nowhere."""
        return merged([*((chunk.start, chunk.end) for chunk in self.chunks), *self.nowhere])

    def has(self, within: Range) -> bool:
        """Whether the lake need not be asked for any of these times."""
        return any(start <= within[0] and within[1] <= end for start, end in self.elsewhere)


def stand(session: Connection, table: str) -> Standing | None:
    """What is resident and what is not, under one snapshot; None when a chunk went away before it was held."""
    schema, name = names.split(table)
    try:
        # Before the snapshot: whatever it shows attached cannot be dropped any more.
        session.execute(pgsql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(pgsql.Identifier(schema, name)))
    except pg.UndefinedTable as error:
        raise UnknownTable(f"There is no table {schema}.{name}.") from error
    row = session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone()
    if row is None:
        raise UnknownTable(f"{schema}.{name} is not a ChronoTable.")
    number, oid, time_column, lake_table, began = row
    foreign = session.execute(query("read_foreign"), {"oid": oid}).fetchone()
    if foreign:
        raise Refused(
            f"{schema}.{name} has the partition {foreign[0]}, which is not a chunk: its rows would be missing.",
            next_step="Move its rows into the table, and drop or detach it.",
        )
    cursor = session.cursor(row_factory=dict_row)
    chunks = [Chunk(**one) for one in cursor.execute(query("read_resident"), {"table": number})]
    try:
        for chunk in chunks:  # those that a worker has detached are not covered by the lock on the root
            session.execute(_trusted(f"LOCK TABLE ONLY {chunk.name} IN ACCESS SHARE MODE"))
        late = _late(session, number)
    except pg.UndefinedTable:
        return None
    if late is None:
        return None
    cuts = [Cut(*one) for one in session.execute(query("read_cuts"), {"table": number})]
    nowhere = session.execute(query("read_nowhere"), {"table": number}).fetchall()
    uuids, position = session.execute(query("read_owed"), {"table": number}).fetchone() or ((), 0)
    (snapshot,) = session.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
    return Standing(
        time_column,
        rows.columns_of(session, oid),
        rows.missing_of(session, oid),
        snapshot,
        tuple(chunks),
        late,
        lake_table if began else None,
        tuple(cuts),
        tuple((start, end) for start, end in nowhere),
        tuple(uuids),
        position,
    )


def _late(session: Connection, number: int) -> tuple[Chunk, ...] | None:
    """The late rows of ranges that have left; None when some were settled before they were held."""
    found = []
    for trap in session.cursor(row_factory=dict_row).execute(query("read_late"), {"table": number}).fetchall():
        session.execute(_trusted(f"LOCK TABLE ONLY {trap['name']} IN ACCESS SHARE MODE"))
        # A trap that came after the lock on the root may have been emptied since the snapshot, which shows it full.
        row = session.execute(query("read_late_pages"), {"oid": trap["oid"], "file": trap.pop("file")}).fetchone()
        if row is None:
            return None
        if row[0]:
            found.append(Chunk(**trap, pages=row[0]))
    return tuple(found)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same times in as few ranges as can be, in order."""
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def sources(table: str, standing: Standing) -> list[Source]:
    """The ranges of a table in order of time, neighbours of one tier together."""
    found = [Source(table, *_span(run), "postgresql", _counted(len(run))) for run in _runs(standing.chunks)]
    found += [
        Source(table, one.start, one.end, "both", f"late rows in {one.name}, beside the lake") for one in standing.late
    ]
    found += [
        Source(table, start, end, "none", "dropped outright, and not in the lake") for start, end in standing.nowhere
    ]
    if standing.lake_table:
        edges = [FIRST, *(edge for range_ in standing.elsewhere for edge in range_), LAST]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            if start < end:
                first, last = (None if at in (FIRST, LAST) else at for at in (start, end))
                found.append(Source(table, first, last, "lake", _of_lake(standing, start, end)))
    return sorted(found, key=lambda one: (one.range_start or FIRST, one.tier))


def _of_lake(standing: Standing, start: datetime, end: datetime) -> str:
    cuts = sorted({cut.lsn for cut in standing.cuts if cut.start < end and start < cut.end})
    upto = f", up to {', '.join(map(positions.text, cuts))}" if cuts else ""
    return f"{standing.lake_table}{upto}"


def _runs(chunks: Iterable[Chunk]) -> list[list[Chunk]]:
    """Chunks one after the other without a gap."""
    runs: list[list[Chunk]] = []
    for chunk in sorted(chunks, key=lambda one: one.start):
        if runs and runs[-1][-1].end == chunk.start:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def _span(run: list[Chunk]) -> Range:
    return run[0].start, run[-1].end


def _counted(chunks: int) -> str:
    return "1 chunk" if chunks == 1 else f"{chunks} chunks"


def at_utc(moment: datetime | None, otherwise: datetime) -> datetime:
    """An instant; one without a zone is in UTC."""
    if moment is None:
        return otherwise
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _trusted(text: str) -> Any:
    return text
