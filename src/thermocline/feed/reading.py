"""Reading the slot: a bounded peek, decoded into blocks of rows, each of one table. Nothing is consumed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from thermocline.ahead import ahead
from thermocline.crash import crash_point
from thermocline.feed.mirrors import MIRROR, Mirrors
from thermocline.feed.pgoutput import Decoder
from thermocline.feed.shapes import ShapeUnknown
from thermocline.hot import bulk
from thermocline.hot.positions import text
from thermocline.hot.spelling import Speller
from thermocline.lake import history
from thermocline.lake.columns import SourceColumn

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from thermocline.errors import ThermoclineError
    from thermocline.feed.pgoutput import LogicalMessage
    from thermocline.feed.shapes import Shape
    from thermocline.hot.rows import Column

PREFIX = "thermocline"
_ANEW = "Then disable_sync and enable_sync: the table is copied anew, and what has left PostgreSQL stays in the lake."
_OF_CHUNKS = ("chunk_created", "chunk_truncated")
_SEALED = (*_OF_CHUNKS, MIRROR)
_SESSION = (
    "SET logical_decoding_work_mem = '256MB'",
    "SET work_mem = '64MB'",
    # When we die, the server is to notice while it decodes, not when it has something to send: it holds the slot.
    # On some systems it cannot, and that is all right.
    "DO $$BEGIN SET client_connection_check_interval = '500ms'; EXCEPTION WHEN OTHERS THEN NULL; END$$",
)


@dataclass(frozen=True)
class SyncedTable:
    """A table of the stream: how it comes, where it goes, and up to where it is there already."""

    id: int
    oid: int
    published: int
    """What streams: the table itself, or its mirror in shadow mode."""
    joined_at: datetime
    """Which of the times it is that the table is synced: it may leave and join anew, in another mode."""
    source: str
    columns: tuple[Column, ...]
    time_column: str
    unit: str
    lake_table: str
    marker: int
    """The stream below this position is in the lake."""
    read_to: int
    """The stream was read up to here, which may be further: it had nothing of this table since then."""
    shape: Shape | None = None
    """How its rows become rows of the history; a table without one is passed by."""

    @property
    def is_mirrored(self) -> bool:
        """Whether it is synced in shadow mode."""
        return self.published != self.oid

    @property
    def lake_columns(self) -> tuple[SourceColumn, ...]:
        """The source's columns in the lake's types."""
        return tuple(SourceColumn(column.number, column.name, column.lake_type) for column in self.columns)

    @property
    def time_kind(self) -> pa.DataType:
        """What its times are in the lake."""
        return next(column.lake_type for column in self.columns if column.name == self.time_column)


@dataclass(frozen=True)
class Reading:
    """One batch to be read: everything that a reader needs, wherever it runs."""

    dsn: str = field(repr=False)
    slot: str
    publication: str
    end: int
    tables: Mapping[int, SyncedTable]
    """By the oid of the table in the stream."""
    forms: Mapping[int, int]
    seal: bytes = field(repr=False)
    """By which messages about chunks are known to be ours."""

    def upto(self, end: int, tables: Container[int] | None = None) -> Reading:
        """The same up to another end, and of these tables only: whatever else is there is passed by."""
        chosen = {oid: one for oid, one in self.tables.items() if tables is None or one.id in tables}
        return replace(self, end=end, tables=chosen)


@dataclass(frozen=True)
class Block:
    """Rows of one table, in stream order."""

    table: int
    rows: pa.Table


@dataclass(frozen=True)
class Ending:
    """What a reading found besides rows."""

    end: int
    """At or past the end that was asked for: a transaction is read whole."""
    transactions: int = 0
    markers: Mapping[int, int] = field(default_factory=dict)
    """The tables that were read, and the position that each of them was read from."""
    created: tuple[tuple[int, int, int | None, int | None], ...] = ()
    """Chunks whose creation was read: oid, position, file, and the transaction that attached each."""
    truncated: tuple[tuple[int, int, int], ...] = ()
    """Chunks whose TRUNCATE was read: oid, position and file."""
    firsts: Mapping[int, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    """By table and number of a column with a default: the place of the first row that has a value of its own."""
    troubles: Mapping[int, str] = field(default_factory=dict)
    """Tables that cannot be read any more, and why."""
    strange: frozenset[int] = frozenset()
    """Tables with rows that had columns which nobody knew when the reading began."""
    told: bool = False
    """Whether somebody's message was read who may wait for it."""
    held: Mapping[int, ThermoclineError] = field(default_factory=dict)
    """Tables whose files the store did not take: nothing of theirs is in the batch."""


def peek(reading: Reading) -> Iterator[pa.Array]:
    """The messages of the slot up to an end, as they come; the slot stays where it is."""
    statement = sql.SQL(
        "SELECT data FROM pg_logical_slot_peek_binary_changes({}, {}, NULL, 'proto_version', '1',"
        " 'publication_names', {}, 'binary', 'true', 'messages', 'true')"
    ).format(sql.Literal(reading.slot), sql.Literal(text(reading.end)), sql.Literal(f'"{reading.publication}"'))
    for batch in bulk.stream(reading.dsn, statement.as_string(None), first=_SESSION):
        yield batch.column(0)


def read(reading: Reading) -> Iterator[Block | Ending]:
    """Everything of one batch, block by block, and its ending last.

    Memory holds one block: a transaction of any size passes through.
    """
    with ExitStack() as resources:
        yield from _read(reading, Decoder(reading.forms, reading.tables, Speller(reading.dsn, resources)))


def _read(reading: Reading, decoder: Decoder) -> Iterator[Block | Ending]:
    end, transactions, told = reading.end, 0, False
    created: list[tuple[int, int, int | None, int | None]] = []
    truncated: list[tuple[int, int, int]] = []
    firsts: dict[int, dict[int, tuple[int, int]]] = {}
    troubles: dict[int, str] = {}
    strange: set[int] = set()
    by_id = {table.id: table for table in reading.tables.values()}
    mirrors = Mirrors()
    crash_point("read.before_peek")
    for data in ahead(peek(reading)):
        decoded = decoder.decode(data)
        end, transactions = max(end, decoded.end_lsn or 0), transactions + decoded.transactions
        for oid, refused in decoded.unfit.items():
            troubles.setdefault(reading.tables[oid].id, f"{refused.message} {refused.next_step} {_ANEW}")
        events = [(message, _event(message, reading.seal)) for message in decoded.messages]
        told = told or any(event and event["event"] != MIRROR for _, event in events)
        mirrors.hear(events)
        for change in decoded.changes:
            table = reading.tables[change.relation.oid]
            rows = mirrors.read(table.id, _above(change.rows, table.marker))
            if table.id in troubles or table.shape is None or not rows.num_rows:
                continue
            try:
                fitted = table.shape.fitted(rows)
            except ShapeUnknown as unknown:
                troubles[table.id] = f"{unknown.message} {unknown.next_step} {_ANEW}"
                continue
            for number in fitted.defaulted:
                place = rows["_lsn"][0].as_py(), rows["_seq"][0].as_py()
                firsts.setdefault(table.id, {}).setdefault(number, place)
            if not fitted.whole:
                strange.add(table.id)
            yield Block(table.id, fitted.rows)
        for message, event in events:
            of = by_id.get(event["chronotable"]) if event.get("event") in _OF_CHUNKS else None
            if of is None or message.lsn is None:
                continue
            if event["event"] == "chunk_created":
                # Also below the marker: the batch that had it may be in the lake without having been recorded.
                created.append((event["chunk"], message.lsn, event.get("file"), event.get("attached")))
                continue
            if event.get("file"):
                truncated.append((event["chunk"], message.lsn, event["file"]))
            if message.lsn >= of.marker and of.id not in troubles:
                yield Block(of.id, _reset(of, message, event))
        crash_point("read.in_peek")
    crash_point("read.after_peek")
    markers = {table.id: table.marker for table in reading.tables.values()}
    yield Ending(
        end, transactions, markers, tuple(created), tuple(truncated), firsts, troubles, frozenset(strange), told
    )


def _above(rows: pa.Table, marker: int) -> pa.Table:
    """Without the transactions that are in the lake already: after a crash the slot stands behind it."""
    if not rows.num_rows or rows["_lsn"][0].as_py() >= marker:  # positions only grow within a reading
        return rows
    return rows.filter(pc.greater_equal(rows["_lsn"], marker))


def _event(message: LogicalMessage, key: bytes) -> dict[str, Any]:
    if message.prefix != PREFIX or not message.transactional:
        return {}
    try:
        text, _, seal = message.content.partition(b"\n")
        event = json.loads(text)
        if event["event"] in _SEALED:
            fits = compare_digest(seal, sha256(key + sha256(key + text).digest()).hexdigest().encode())
        else:
            fits = isinstance(event["event"], str)
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
    ):  # anybody may send anything
        return {}
    return event if fits else {}


def _reset(table: SyncedTable, message: LogicalMessage, event: Mapping[str, Any]) -> pa.Table:
    place = message.lsn or 0, message.seq or 0
    span = moment(event["range_start"]), moment(event["range_end"])
    return history.resets(table.time_column, table.time_kind, [(*place, *span)], message.timestamp)


def moment(told: str) -> datetime:
    """A time as PostgreSQL writes it, in JSON or as text."""
    return datetime.fromisoformat(told).astimezone(UTC)
