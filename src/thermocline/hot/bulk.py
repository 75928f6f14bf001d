"""Whole result sets as Arrow, through ADBC: streamed batch by batch, never all at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from adbc_driver_postgresql import StatementOptions, dbapi
from psycopg.conninfo import make_conninfo

from thermocline.errors import Busy, Refused, Unreachable
from thermocline.hot.connection import NO_TRANSACTION_TIMEOUT, OPTIONS, check_dsn, where
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    parts["options"] = f"{parts.get('options', '')} {OPTIONS} -c timezone=UTC -c jit=off".strip()
    with _named(dsn), dbapi.connect(make_conninfo(**parts), autocommit=True) as session, session.cursor() as cursor:
        for statement in (NO_TRANSACTION_TIMEOUT, *first):
            cursor.execute(statement)
        cursor.adbc_statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)})
        cursor.execute(query)
        with cursor.fetch_record_batch() as batches:
            yield from batches


@contextmanager
def _named(dsn: str) -> Iterator[None]:
    """The driver's errors become ours."""
    try:
        yield
    except (AdbcError, pa.ArrowException) as error:
        said = masked(str(error).strip().replace("\n", " "))
        if "is active for PID" in said or "lock timeout" in said:
            raise Busy(f"PostgreSQL at {where(dsn)}: {said}") from error
        if any(text in said for text in _GONE):
            raise Unreachable(f"PostgreSQL at {where(dsn)} went away: {said}") from error
        raise BulkReadFailed(f"PostgreSQL at {where(dsn)} did not answer: {said}") from error
