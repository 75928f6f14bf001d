"""The copy of a chunk: all of its rows at one exact position of the log, in one commit."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused
from thermocline.feed import writing
from thermocline.feed.reading import Block, Ending
from thermocline.hot import rows
from thermocline.hot.connection import connect
from thermocline.hot.positions import number
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from psycopg import Connection
    from pyiceberg.manifest import DataFile

    from thermocline.feed.reading import SyncedTable
    from thermocline.feed.writing import Target

log = logs.get(__name__)
# Writers that come after us in the queue for the chunk wait no longer than this.
LOCK_MILLISECONDS = 50
# What is copied in one job: enough to keep every core busy, and no more snapshots open for no longer than that takes.
_PAGES_OF_A_JOB = 1 << 16
_CHUNKS_OF_A_JOB = 16


class ChunkBusy(Busy):
    """A chunk cannot be copied while a transaction that has written to it is open."""

    code = "feed.chunk_busy"
    next_step_by_default = "It is tried again; look for long transactions in pg_stat_activity."


class ChunkUnreadable(Refused):
    """The role of the feed may not read a chunk, or not all of its rows."""

    code = "feed.chunk_unreadable"
    next_step_by_default = (
        "Give that role the right to read all of it: GRANT SELECT, or BYPASSRLS where row security hides rows."
        " `thermocline feed resync TABLE --yes` then lets it join again."
    )


@dataclass(frozen=True)
class Chunk:
    """A chunk to be copied."""

    oid: int
    table: int
    name: str
    """Quoted, with its schema."""
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Standing:
    """A moment at which a chunk stands still: the snapshot shows exactly what was committed below the position."""

    chunk: Chunk
    snapshot: str
    position: int
    pages: int
    file: int
    """Which file the chunk has; another one tells that it was rewritten."""
    attached: int | None
    """Which transaction has attached it; another one tells that it was away. None for what is no partition."""


@dataclass(frozen=True)
class Copied:
    """A chunk whose rows are in files that nothing points at yet."""

    chunk: Chunk
    position: int
    file: int
    attached: int | None
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True)
class Part:
    """A part of a chunk for one task."""

    dsn: str = field(repr=False)
    table: SyncedTable
    standing: Standing
    pages: rows.Pages
    first_seq: int


@contextmanager
def standing_together(
    dsn: str, waiting: deque[Chunk], columns: Sequence[rows.Column], *, timeout: int
) -> Iterator[list[Standing]]:
    """The first of the chunks that wait, as many as make one job, each at its own moment; busy ones are left out."""
    with ExitStack() as moments:
        standing: list[Standing] = []
        while waiting and len(standing) < _CHUNKS_OF_A_JOB and sum(one.pages for one in standing) < _PAGES_OF_A_JOB:
            chunk = waiting.popleft()
            try:
                standing.append(moments.enter_context(standing_still(dsn, chunk, columns, timeout=timeout)))
            except Busy as error:
                log.info("chunk busy", chunk=chunk.name, reason=error.message)
        yield standing


@contextmanager
def standing_still(dsn: str, chunk: Chunk, columns: Sequence[rows.Column], *, timeout: int) -> Iterator[Standing]:
    """A snapshot and its position; the snapshot lives as long as the block."""
    with connect(dsn, timeout=timeout) as reader:
        # The lock comes before the snapshot, or a TRUNCATE in between would show an empty table.
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SET LOCAL lock_timeout = '2s'")
        _lock(reader, chunk, "ACCESS SHARE")
        with connect(dsn, timeout=timeout) as locker:
            locker.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{LOCK_MILLISECONDS}ms")))
            locker.execute("SET LOCAL synchronous_commit = on")
            _lock(locker, chunk, "SHARE")
            _require_same(locker, chunk, columns)
            crash_point("copy.locked")
            # Whoever had written to the chunk is visible now, and nobody writes until the position is taken.
            (position,) = _one(locker, query("copy_position"), {"table": chunk.table, "chunk": chunk.oid})
            crash_point("copy.positioned")
            snapshot, pages, file, attached = _one(reader, query("copy_snapshot"), {"chunk": chunk.oid})
            locker.commit()  # flushed past the position, too
            crash_point("copy.standing")
            (flushed,) = _one(locker, "SELECT pg_current_wal_flush_lsn()::text")
        if number(flushed) < number(position):
            raise Refused(f"The log is not on the disk up to {position}, so {chunk.name} cannot be copied now.")
        yield Standing(chunk, snapshot, number(position), pages, file, attached)


def _lock(session: Connection, chunk: Chunk, mode: str) -> None:
    try:
        session.execute(sql.SQL("LOCK TABLE ONLY " + chunk.name + " IN " + mode + " MODE"))
    except pg.LockNotAvailable as error:
        raise ChunkBusy(f"{chunk.name} is being written to by an open transaction.") from error
    except pg.UndefinedTable as error:
        raise ChunkBusy(f"{chunk.name} is not there any more, or has another name.") from error
    except pg.InsufficientPrivilege as error:
        raise ChunkUnreadable(f"{chunk.name} cannot be copied: {error.diag.message_primary}.") from error


def _require_same(locker: Connection, chunk: Chunk, columns: Sequence[rows.Column]) -> None:
    """Under the lock: the name is still that of the chunk, and its columns are those that are to be copied."""
    (same,) = _one(locker, "SELECT to_regclass(%s)::oid::bigint IS NOT DISTINCT FROM %s", [chunk.name, chunk.oid])
    if not same:
        raise ChunkBusy(f"{chunk.name} is the name of another table now.")
    if set(rows.columns_of(locker, chunk.oid)) != set(columns):
        raise ChunkBusy(f"The columns of {chunk.name} have just been changed.")
    (hidden,) = _one(locker, "SELECT row_security_active(%s::oid)", [chunk.oid])
    if hidden:
        raise ChunkUnreadable(f"{chunk.name} cannot be copied: row security hides rows of it from the feed.")


def _one(session: Connection, statement: Any, parameters: Any = None) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = session.execute(statement, parameters).fetchone()
    if row is None:
        raise Refused("PostgreSQL gave no answer to a question that always has one.")
    return row


def parts(dsn: str, table: SyncedTable, standing: Standing) -> list[Part]:
    """A chunk in parts of some ten thousand rows or more; none if it was empty. Each row has its own number."""
    # A page has fewer than 2^12 rows of at least a byte, so that the numbers of two parts never meet.
    return [Part(dsn, table, standing, pages, pages.first << 12) for pages in rows.split(standing.pages)]


def copy(target: Target, part: Part) -> Iterator[tuple[int, DataFile]]:
    """Read a part and write its files; each comes with the chunk that it is of."""
    for result in writing.write(_blocks(part), {part.table.id: target}):
        if not isinstance(result, Ending):
            yield part.standing.chunk.oid, result.data_file
        elif failed := result.held.get(part.table.id):
            raise failed


def _blocks(part: Part) -> Iterator[Block | Ending]:
    seq = part.first_seq
    found = rows.read(
        part.dsn,
        part.standing.chunk.name,
        part.table.columns,
        finite=part.table.time_column,
        snapshot=part.standing.snapshot,
        pages=part.pages,
    )
    for block in found:
        count = block.num_rows
        crash_point("copy.in_read")
        yield Block(
            part.table.id,
            block.append_column("_change_type", pa.repeat("insert", count))
            .append_column("_lsn", pa.repeat(pa.scalar(part.standing.position, pa.int64()), count))
            .append_column("_seq", pa.array(np.arange(seq, seq + count))),
        )
        seq += count
    yield Ending(part.standing.position)
