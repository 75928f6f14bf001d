"""Values in a binary form that only PostgreSQL can read, spelled out by it: a column at a time, never one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors as pg

from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.hot.types import UnsupportedType

if TYPE_CHECKING:
    from contextlib import ExitStack

# What COPY begins with in its binary form, and ends with.
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
# Two values in each row: its number, of eight bytes, and the value.
_HEAD = np.dtype([("values", ">i2"), ("width", ">i4"), ("number", ">i8"), ("length", ">i4")])
# An array comes with its dimensions, the type of its elements and bounds; each element with its length.
_ARRAY_HEAD = 20
# What PostgreSQL says of values that it has sent and does not read back. Not that it is away, or short of something.
_UNREADABLE = (
    psycopg.DataError,
    psycopg.IntegrityError,  # a domain, as the element of an array, demands more by now
    psycopg.InternalError,  # an empty tsquery
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
    pg.ProtocolViolation,
)


class Speller:
    """Asks the server what values read. Its session begins with the first question and ends with the `resources`."""

    def __init__(self, dsn: str, resources: ExitStack) -> None:
        self._dsn = dsn
        self._resources = resources
        self._session: psycopg.Connection | None = None
        self._statements: dict[int, tuple[Any, Any]] = {}

    def __call__(self, type_oid: int, values: pa.Array) -> pa.Array:
        """Values of a type, none of them NULL, as texts."""
        if self._session is None:
            self._session = self._resources.enter_context(connect(self._dsn))
        session = self._session
        try:
            session.execute(query("columns_plainly"))
            into, ask = self._table(session, type_oid)
            with session.cursor().copy(into) as copy:
                copy.write(_copied(values))
            with session.cursor(binary=True) as cursor:
                cursor.execute(ask)
                result = cursor.pgresult
                texts, lengths = (result.get_value(0, 0), result.get_value(0, 1)) if result else (None, None)
        except _UNREADABLE as error:
            session.rollback()
            self._statements.pop(type_oid, None)
            raise UnsupportedType(
                f"PostgreSQL does not say what values of type {type_oid} read: {error.diag.message_primary or error}."
            ) from error
        session.commit()
        return _strings(bytes(texts or b""), bytes(lengths or b""), len(values))

    def _table(self, session: psycopg.Connection, type_oid: int) -> tuple[Any, Any]:
        """How values get into a table of the session's own, and how they are asked for there."""
        if type_oid not in self._statements:
            found = session.execute(query("spelling"), {"type": type_oid}).fetchone()
            if found is None:
                session.rollback()
                raise UnsupportedType(
                    f"PostgreSQL does not say what values of type {type_oid} read: it has no such type any more.",
                    next_step="Was it dropped with its extension? Then so was the column.",
                )
            make, into, ask = found
            session.execute(make)
            self._statements[type_oid] = into, ask
        return self._statements[type_oid]


def _copied(values: pa.Array) -> bytes:
    """Rows of a number and a value as COPY reads them."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    heads = np.zeros(len(values), _HEAD)
    heads["values"], heads["width"], heads["number"] = 2, 8, np.arange(len(values))
    heads["length"] = np.diff(offsets)
    # Heads and values in turns: where each begins in what is written.
    firsts = (offsets[:-1] - offsets[0]) + np.arange(len(values), dtype=np.int64) * _HEAD.itemsize
    rows = np.empty(len(content) + heads.nbytes, np.uint8)
    of_head = np.zeros(len(rows), np.bool_)
    of_head[(firsts[:, None] + np.arange(_HEAD.itemsize)).ravel()] = True
    rows[of_head], rows[~of_head] = heads.view(np.uint8), content
    return _SIGNATURE + rows.tobytes() + _TRAILER


def _strings(texts: bytes, lengths: bytes, count: int) -> pa.Array:
    """One text after another, and an array of PostgreSQL's with the length of each."""
    told = np.frombuffer(lengths, ">i4", offset=_ARRAY_HEAD).reshape(-1, 2)[:, 1] if count else np.empty(0, np.int32)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(told, out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
