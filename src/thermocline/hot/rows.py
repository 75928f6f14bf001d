"""The rows of a table as the lake holds them: read in bulk, in the lake's types, under one snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from thermocline.hot import bulk, types
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection

    from thermocline.hot.wire import Converted

UNREPRESENTABLE = "_unrepresentable"

# Types that ADBC hands over as the lake holds them, apart from their width. Not text: what streams as text may be of a
# type of the user's that has no binary form at all, and to cast a text to itself costs nothing.
_NATIVE = {types.BOOL, types.INT2, types.INT4, types.INT8, types.FLOAT4, types.FLOAT8, types.VARCHAR,
           types.BPCHAR, types.NAME, types.BYTEA}  # fmt: skip
# Types that are read in the form in which they stream, and converted by the same code.
_SENT = {
    types.DATE: "date_send",
    types.TIMESTAMP: "timestamp_send",
    types.TIMESTAMPTZ: "timestamptz_send",
    types.NUMERIC: "numeric_send",
    types.UUID: "uuid_send",
}


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, the built-in type that it has in the end, and its place in the lake."""

    name: str
    type_oid: int
    typmod: int
    number: int = field(default=0, compare=False)
    """In its table, a chunk's in the table that it is a part of: it stays the same, whatever the column is called."""
    against: str | None = field(default=None, compare=False)
    """Why its type cannot be kept in the lake, if so."""

    @property
    def lake_type(self) -> pa.DataType:
        """What it is in the lake."""
        if self.against:
            raise types.UnsupportedType(f"The column {self.name} has a type that {self.against}.")
        return types.lake_type(self.type_oid, self.typmod)


@dataclass(frozen=True)
class Pages:
    """A part of a table: its pages from the first to before the last."""

    first: int
    last: int

    @property
    def condition(self) -> str:
        """As SQL; the end is open, so that a table that grows is never cut."""
        return f"ctid >= '({self.first},0)'::tid AND ctid < '({self.last},0)'::tid"


MOST_PAGES = 2**32 - 1
# What one task reads: 64 MB of a table.
_PAGES_OF_A_PART = 8192


def columns_of(session: Connection, table_oid: int) -> tuple[Column, ...]:
    """The columns of a table, domains and enums resolved."""
    return columns_of_all(session, [table_oid])[table_oid]


def columns_of_all(session: Connection, tables: Sequence[int]) -> dict[int, tuple[Column, ...]]:
    """The columns of many tables, by the table's oid."""
    found: dict[int, list[Column]] = {table: [] for table in tables}
    asked = {"tables": list(tables), "known": types.with_place()}
    for table, name, oid, typmod, sender, number, against in session.execute(query("columns_of_tables"), asked):
        kind = types.type_sent_by(sender) or oid if oid >= 16384 else oid
        found[table].append(Column(name, kind, typmod, number, against))
    return {table: tuple(columns) for table, columns in found.items()}


def missing_of(session: Connection, table_oid: int) -> dict[int, Any]:
    """What rows read in columns that came after them with a default, by number; only what the lake can hold."""
    session.execute(query("columns_plainly"))
    told: dict[int, str] = dict(session.execute(query("columns_missing"), {"table": table_oid}).fetchall())
    found: dict[int, Any] = {}
    for column in columns_of(session, table_oid) if told else ():
        if column.number in told:
            value = types.from_text(told[column.number], column.type_oid, column.typmod)
            found |= {} if value is None else {column.number: value}
    return found


def split(pages: int) -> list[Pages]:
    """A table of so many pages in parts of about the same size; the last one has no end."""
    parts = -(-pages // _PAGES_OF_A_PART)
    bounds = [pages * part // parts for part in range(parts)]
    return [Pages(first, last) for first, last in zip(bounds, [*bounds[1:], MOST_PAGES], strict=False)]


def read(
    dsn: str,
    relation: str,
    columns: Sequence[Column],
    *,
    finite: str | None = None,
    snapshot: str | None = None,
    pages: Pages | None = None,
) -> Iterator[pa.Table]:
    """The rows of a table, a batch at a time, with `_unrepresentable` as the last column.

    `relation` is a quoted name. `finite` names a column known to have no infinite value: the time of a chunk.
    """
    chosen = sql.SQL(", ").join(_expression(column, finite) for column in columns) or sql.SQL("NULL")
    statement = sql.SQL("SELECT {} FROM ONLY ").format(chosen).as_string(None) + relation
    if pages:
        statement += f" WHERE {pages.condition}"
    # Somebody may want all of the table and wait for the session that holds the snapshot, and we would wait behind
    # him: nobody would see that we wait for each other. So we give way.
    first = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET LOCAL lock_timeout = '2s'"]
    if snapshot:
        first.append(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)).as_string(None))
    for batch in bulk.stream(dsn, statement, first=first):
        yield _converted(batch, columns, finite)


def _expression(column: Column, finite: str | None) -> sql.Composable:
    name = sql.Identifier(column.name)
    if column.type_oid in _NATIVE or column.name == finite:
        return name
    unbounded = column.type_oid == types.NUMERIC and pa.types.is_string(column.lake_type)
    if column.type_oid in _SENT and not unbounded:
        return sql.SQL("{}({})").format(sql.Identifier(_SENT[column.type_oid]), name)
    if column.type_oid == types.OID:
        return sql.SQL("{}::int8").format(name)
    return sql.SQL("{}::text").format(name)


def _converted(batch: pa.RecordBatch, columns: Sequence[Column], finite: str | None) -> pa.Table:
    arrays: dict[str, pa.Array] = {}
    odd: dict[int, dict[str, str]] = {}
    for at, column in enumerate(columns):
        array = batch.column(at)
        if column.name == finite or not pa.types.is_binary(array.type) or column.type_oid == types.BYTEA:
            arrays[column.name] = array.cast(column.lake_type)
            continue
        converted = _as_streamed(array, column)
        arrays[column.name] = converted.values
        for row, text in converted.unrepresentable.items():
            odd.setdefault(row, {})[column.name] = text
    arrays[UNREPRESENTABLE] = types.unrepresentable_column(odd, batch.num_rows)
    return pa.table(arrays)


def _as_streamed(array: pa.Array, column: Column) -> Converted:
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    content = array.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    absent = array.is_null().to_numpy(zero_copy_only=False)
    tags = np.where(absent, np.uint8(types.NULL_TAG), np.uint8(types.BINARY_TAG))
    return types.convert(data, tags, offsets[:-1], np.diff(offsets), column.type_oid, column.typmod)
