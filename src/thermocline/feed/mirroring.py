"""Keeping mirrors true beside their writers: they follow columns, are filled chunk by chunk, and lose what has left.

Writers keep a mirror by triggers, and never wait for it. Where one could not, he leaves a doubt. Whatever is doubted,
and each chunk before its copy, is compared with its mirror here, in one transaction that sees both at one moment: a
crash undoes it, and it is done again. The history hears nothing of it, for the chunk is copied next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg
from psycopg import sql

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg import Connection

    from thermocline.feed.copying import Chunk
    from thermocline.feed.reading import SyncedTable

log = logs.get(__name__)
# How many rows of what has left PostgreSQL are taken out in one transaction.
_REMOVED_ROWS = 50_000
_TIMES = 20
_BUSY = (pg.LockNotAvailable, pg.DeadlockDetected)
_MENDABLE = "Let the role of the feed read all of it; `thermocline feed resync TABLE --yes` then lets it join again."
_NEXT_STEP = "Drop what depends on it; `thermocline feed resync TABLE --yes` then makes it anew."


def tend(dsn: str, tables: Iterable[SyncedTable], *, timeout: int) -> int:
    """Let mirrors follow the columns of their tables, and see to what is doubted; one pass.

    Returns of how many that could not be done now, because somebody writes.
    """
    mirrored = [table for table in tables if table.is_mirrored]
    if not mirrored:
        return 0
    with connect(dsn, timeout=timeout) as session:
        return sum(not _settle(session, table) for table in mirrored)


def _settle(session: Connection, table: SyncedTable) -> bool:
    lagging, doubted = session.execute(query("mirror_state"), {"table": table.id}).fetchone() or (False, False)
    session.commit()
    try:
        if lagging:
            session.execute("SELECT thermocline._follow_mirror(%s)", [table.id])
            crash_point("mirror.following")
            session.commit()
            crash_point("mirror.followed")
            log.info("mirror follows", table=table.source)
        removed = 0
        for _ in range(_TIMES if doubted else 0):
            (count,) = session.execute(
                "SELECT thermocline._settle_doubts(%s, %s)", [table.id, _REMOVED_ROWS]
            ).fetchall()[0]
            crash_point("mirror.settling")
            session.commit()
            crash_point("mirror.settled")
            removed += count
            if count < _REMOVED_ROWS:
                break
        if removed:
            log.info("mirror pruned", table=table.source, rows=removed)
    except _BUSY as error:
        session.rollback()
        log.info("mirror busy", table=table.source, reason=error.diag.message_primary)
        return False
    except (psycopg.ProgrammingError, psycopg.InternalError, psycopg.DataError) as error:  # as a view of its columns
        session.rollback()
        _set_aside(session, table, f"Its mirror cannot follow it: {error.diag.message_primary}. {_NEXT_STEP}")
    return True


def _set_aside(session: Connection, table: SyncedTable, reason: str) -> None:
    session.execute(query("feed_set_aside"), {"table": table.id, "reason": reason})
    session.commit()
    log.warning("table set aside", table=table.source, reason=reason)


def mended(
    dsn: str, chunks: Sequence[Chunk], tables: Mapping[int, SyncedTable], *, timeout: int
) -> tuple[list[Chunk], int]:
    """Those of the chunks that can be copied, in shadow mode once their mirrors are right; and how many cannot."""
    ready = [
        one
        for one in chunks
        if one.table in tables and (not tables[one.table].is_mirrored or _mend(dsn, one, tables[one.table], timeout))
    ]
    return ready, sum(one.table in tables for one in chunks) - len(ready)


def _mend(dsn: str, chunk: Chunk, table: SyncedTable, timeout: int) -> bool:
    """Make the mirror of a chunk what the chunk is; false when that cannot be done now."""
    with connect(dsn, timeout=timeout) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # Less than it takes PostgreSQL to look for a deadlock: a writer who waits for us as well is never its victim.
        session.execute("SET LOCAL lock_timeout = '400ms'")
        try:
            # Locks come before the snapshot, or a TRUNCATE in between would show an empty table.
            session.execute(sql.SQL("LOCK TABLE ONLY " + chunk.name + " IN ACCESS SHARE MODE"))
            rows = session.execute("SELECT thermocline._mend_mirror(%s::oid)", [chunk.oid]).fetchall()[0][0]
            crash_point("mirror.mending")
            session.commit()
        except (*_BUSY, pg.SerializationFailure, pg.UndefinedTable, pg.NoDataFound) as error:
            session.rollback()
            log.info("mirror busy", chunk=chunk.name, reason=error.diag.message_primary)
            return False
        except pg.InsufficientPrivilege as error:
            session.rollback()
            _set_aside(session, table, f"{chunk.name} cannot be mirrored: {error.diag.message_primary}. {_MENDABLE}")
            return False
    crash_point("mirror.mended")
    if rows:
        log.info("chunk mirrored", chunk=chunk.name, rows=rows)
    return True
