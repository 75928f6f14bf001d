"""Both sides of a chunk, part by part, in the same columns and types: what PostgreSQL has and what the lake has."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from psycopg import errors as pg
from psycopg.rows import dict_row

from thermocline.errors import Refused
from thermocline.hot import positions, rows
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake import scans
from thermocline.lake.columns import arrow
from thermocline.lake.segments import Cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import numpy.typing as npt
    from psycopg import Connection

    from thermocline.hot.rows import Column, Pages
    from thermocline.lake.history import History
    from thermocline.lake.scans import RangeFile

    Signed = tuple[pa.Table, npt.NDArray[np.int64]]
    """Rows, and for each 1, -1 or 0: whether it counts for or against."""


class NotProven(Refused):
    """The lake does not provably hold a chunk."""

    code = "gate.not_proven"
    next_step_by_default = "The reason code says what is missing; it is tried again."

    def __init__(self, reason: str = "not_proven", message: str | None = None, next_step: str | None = None) -> None:
        self.reason = reason
        super().__init__(message, next_step=next_step)


@dataclass(frozen=True)
class Chunk:
    """A chunk that is to be proven, or the trap of ranges that have left, with the late rows that it holds."""

    oid: int
    name: str
    """Quoted, with its schema."""
    table: int
    source: str
    start: datetime
    end: datetime
    time_column: str
    lake_table: str
    lake_snapshot: int | None
    copied_at: int
    """Position of its copy, or of its creation, in the stream."""
    columns: tuple[Column, ...] = field(repr=False)
    settled: tuple[Cut, ...] = ()
    """Of a trap: its ranges, and up to where the lake has all that is not in it. What is compared lies above."""
    upto: int | None = None
    """Of a range that comes back: up to where the lake is proven to be right."""

    @property
    def compared(self) -> tuple[str, ...]:
        """What is compared: every column, and the text of what the lake's types cannot hold."""
        return (*(column.name for column in self.columns), rows.UNREPRESENTABLE)


@dataclass(frozen=True)
class HotPart:
    """Some pages of a chunk under a snapshot."""

    dsn: str = field(repr=False)
    chunk: Chunk
    snapshot: str
    pages: Pages

    def read(self) -> Iterator[Signed]:
        """Its rows; the text of what the lake's types cannot hold is their last column."""
        of = self.chunk
        found = rows.read(
            self.dsn, of.name, of.columns, finite=of.time_column, snapshot=self.snapshot, pages=self.pages
        )
        for block in found:
            yield block, np.ones(block.num_rows, np.int64)


@dataclass(frozen=True)
class LakePart:
    """A file of the history."""

    chunk: Chunk
    file: RangeFile
    columns: tuple[tuple[str, Any], ...]
    """Their names in the lake, and the types that both sides are brought to."""

    def read(self) -> Iterator[Signed]:
        """Its rows of the chunk's range."""
        for batch, signs in self.file.read():
            arrays = [batch.column(name).cast(kind) for name, kind in self.columns]
            yield pa.table(arrays, names=list(self.chunk.compared)), signs


Part = HotPart | LakePart


class Readable(Protocol):
    """Rows of one side."""

    def read(self) -> Iterator[Signed]:
        """A block at a time."""


@dataclass(frozen=True)
class Standing:
    """A chunk at one moment: its columns then, what it physically was, and how it is read."""

    chunk: Chunk
    evidence: dict[str, Any]
    parts: tuple[HotPart, ...]


def chunk_of(control: Connection, oid: int) -> Chunk:
    """A resident chunk; refuses one that there is nothing to compare with yet."""
    row = control.cursor(row_factory=dict_row).execute(query("receipt_chunk"), {"chunk": oid}).fetchone()
    if row is None:
        raise NotProven("unknown_chunk", f"There is no resident chunk {oid}.", "lakets.show_chunks lists them.")
    name = row["name"]
    _require_synced(row)
    if row["status"] == "SKIPPED":
        raise NotProven(
            "feed_not_streaming",
            f"{name}: the stream passes {row['source']} by.",
            "`thermocline feed status` says why, and what to do.",
        )
    if row["copied_at"] is None:
        step = "Wait until the feed has copied it." if feed_runs(control) else "No feed is running: `thermocline feed`."
        raise NotProven("not_covered", f"{name} is not copied to the lake yet.", step)
    return _chunk(control, oid, row, copied_at=positions.number(row["copied_at"]))


def trap_of(control: Connection, oid: int) -> Chunk:
    """The late rows of ranges that have left; refuses those that there is nothing to compare with."""
    row = control.cursor(row_factory=dict_row).execute(query("late_trap"), {"trap": oid}).fetchone()
    settled = [Cut(*one) for one in control.execute(query("late_settled"), {"trap": oid}) if one[2] is not None]
    if row is None or not settled:
        raise NotProven("gone", f"There are no late rows in {oid}.", "Nothing to do if that was meant.")
    _require_synced(row)
    if row["status"] != "STREAMING":
        raise NotProven(
            "feed_not_streaming",
            f"{row['name']}: the feed of {row['source']} is {row['status']}.",
            "`thermocline feed status` says why, and what to do.",
        )
    return replace(_chunk(control, oid, row, copied_at=0), settled=tuple(settled))


def _require_synced(row: dict[str, Any]) -> None:
    if row["status"] is None or row["status"] == "TERMINATED":
        told = f"{row['name']}: {row['source']} is not synced."
        raise NotProven("not_synced", told, "SELECT lakets.enable_sync(...), then the feed.")


def _chunk(control: Connection, oid: int, row: dict[str, Any], *, copied_at: int) -> Chunk:
    return Chunk(
        oid=oid,
        name=row["name"],
        table=row["table_id"],
        source=row["source"],
        start=row["range_start"],
        end=row["range_end"],
        time_column=row["time_column"],
        lake_table=row["lake_table"],
        lake_snapshot=row["lake_snapshot"],
        copied_at=copied_at,
        columns=rows.columns_of(control, oid),
    )


@contextmanager
def standing(dsn: str, chunks: Sequence[Chunk]) -> Iterator[list[Standing | NotProven]]:
    """Chunks under one snapshot, which lives as long as the block; the locks come first. Or why one cannot be."""
    with connect(dsn) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        session.execute("SET LOCAL lock_timeout = '2s'")
        refused = [_locked(session, chunk) for chunk in chunks]
        yield [no or _stood(dsn, session, chunk) for no, chunk in zip(refused, chunks, strict=True)]


def _locked(session: Connection, chunk: Chunk) -> NotProven | None:
    try:
        with session.transaction():
            session.execute(f"LOCK TABLE ONLY {chunk.name} IN ACCESS SHARE MODE".encode())
    except pg.LockNotAvailable:
        return NotProven("busy", f"{chunk.name} is locked by somebody else.", "It is tried again.")
    except pg.UndefinedTable:
        return _gone(chunk)
    return None


def _stood(dsn: str, session: Connection, chunk: Chunk) -> Standing | NotProven:
    cursor = session.cursor(row_factory=dict_row)
    found = cursor.execute(query("receipt_evidence"), {"chunk": chunk.oid}).fetchone()
    if found is None or found["row_count"] is None:
        return _gone(chunk)
    then = replace(chunk, columns=rows.columns_of(session, chunk.oid))
    snapshot, pages = found.pop("snapshot"), found.pop("pages")
    return Standing(then, found, tuple(HotPart(dsn, then, snapshot, part) for part in rows.split(pages)))


def _gone(chunk: Chunk) -> NotProven:
    return NotProven("gone", f"{chunk.name} is not there any more.", "Nothing to do if that was meant.")


def in_lake(history: History, *chunks: Chunk) -> list[LakePart]:
    """What the lake has of chunks; of a trap what has come since it was settled."""
    span = scans.Span(history.table, min(chunk.start for chunk in chunks), max(chunk.end for chunk in chunks))
    return [part for chunk in chunks for part in _parts(history, span, chunk)]


def _parts(history: History, span: scans.Span, chunk: Chunk) -> list[LakePart]:
    columns = (*_places(history, chunk), (rows.UNREPRESENTABLE, pa.string()))
    names = [name for name, _ in columns]
    files = span.files(chunk.start, chunk.end, names, above=chunk.settled, upto=chunk.upto)
    return [LakePart(chunk, file, columns) for file in files]


def _places(history: History, chunk: Chunk) -> list[tuple[str, Any]]:
    """What the columns of a chunk are called in the lake, and are there, in their order."""
    schema = history.metadata.schema()
    names = history.layout.names(schema)
    later = [column.name for column in chunk.columns if column.number not in names]
    if later:
        raise NotProven(
            "changing",
            f"{chunk.name}: the lake has no column {later[0]} yet.",
            "The feed follows changed columns; it is tried again.",
        )
    found = [names[column.number] for column in chunk.columns]
    return [(name, arrow(schema.find_field(name).field_type)) for name in found]


def feed_runs(control: Connection) -> bool:
    """Whether a feed is at work."""
    row = control.execute(query("feed_status")).fetchone()
    return bool(row and row[0])
