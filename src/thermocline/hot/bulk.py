"""Whole result sets as Arrow, through ADBC: streamed batch by batch, never all at once."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, dbapi
from adbc_driver_manager import Error as AdbcError
from adbc_driver_postgresql import StatementOptions
from psycopg.conninfo import make_conninfo

from thermocline.errors import Busy, Refused, Unreachable
from thermocline.hot.connection import NO_TRANSACTION_TIMEOUT, OPTIONS, PLAINLY, check_dsn, where
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adbc_driver_manager import AdbcDatabase

BATCH_BYTES = 16 << 20
_GONE = ("server closed the connection", "could not connect", "Connection refused", "terminating connection")


class BulkReadFailed(Refused):
    """PostgreSQL refused a bulk read."""

    code = "hot.bulk_read"


def stream(dsn: str, query: str, *, first: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a query. The statements in `first` run before it in the same session."""
    parts = check_dsn(dsn)
    parts["client_encoding"] = "utf8"
    parts["application_name"] = "thermocline bulk"
    parts["options"] = f"{parts.get('options', '')} {OPTIONS} {PLAINLY} -c jit=off".strip()
    with _named(dsn), _session(make_conninfo(**parts)) as session, session.cursor() as cursor:
        for statement in (NO_TRANSACTION_TIMEOUT, *first):
            cursor.execute(statement)
        cursor.adbc_statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)})
        cursor.execute(query)
        with cursor.fetch_record_batch() as batches:
            yield from batches


class _Kept:
    """Stands for a database where a session would close it."""

    def close(self) -> None:
        """Not with the session: the next one opens it again."""


@lru_cache(maxsize=8)
def _database(conninfo: str, _process: int) -> AdbcDatabase:
    """What the driver has learned of a database; it holds no session.

    It reads every type and every column that there is, some 70 ms with a hundred chunks, so a process does it once.
    What is made later it need not know: a type that it has not heard of comes in its binary form.
    """
    database: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
    return database


def _session(conninfo: str) -> dbapi.Connection:
    session = AdbcConnection(_database(conninfo, os.getpid()))
    return dbapi.Connection(cast("AdbcDatabase", _Kept()), session, autocommit=True)


@contextmanager
def _named(dsn: str) -> Iterator[None]:
    """The driver's errors become ours; what it meets while rows come, Arrow tells as an OSError."""
    try:
        yield
    except (AdbcError, pa.ArrowException, OSError) as error:
        said = masked(str(error).strip().replace("\n", " "))
        if "is active for PID" in said or "lock timeout" in said:
            raise Busy(f"PostgreSQL at {where(dsn)}: {said}") from error
        if any(text in said for text in _GONE):
            raise Unreachable(f"PostgreSQL at {where(dsn)} went away: {said}") from error
        raise BulkReadFailed(f"PostgreSQL at {where(dsn)} did not answer: {said}") from error
