"""PostgreSQL's logical replication messages (pgoutput, protocol 1): blocks of them in, Arrow tables out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from thermocline.errors import Refused
from thermocline.hot import types
from thermocline.hot.wire import MalformedStream, Messages, from_numpy, numbers_at

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from thermocline.hot.wire import Body, Bytes, Longs, Mask

    Spelled = types.Spelled | None

KINDS = b"BCORYIUDTM"
BEGIN, COMMIT, ORIGIN, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = KINDS
NEW_TUPLE, OLD_TUPLE, KEY_TUPLE = b"NOK"
CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete")
OWN_COLUMNS = ("_change_type", "_lsn", "_seq", "_xid", "_timestamp", "_unrepresentable", "_range_end")


class IncompleteRow(Refused):
    """A change came without the whole of its row."""

    code = "feed.incomplete_row"
    next_step_by_default = "Run ALTER TABLE … REPLICA IDENTITY FULL; for the table and each of its partitions."


@dataclass(frozen=True)
class Column:
    """A column as the stream describes it."""

    name: str
    type_oid: int
    typmod: int
    key: bool


@dataclass(frozen=True)
class Relation:
    """A table as the stream describes it; with publish_via_partition_root, the root."""

    oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class RelationChanges:
    """The rows of one table in one shape, in stream order."""

    relation: Relation
    rows: pa.Table


@dataclass(frozen=True)
class Truncate:
    """A TRUNCATE; (lsn, seq) orders it among the changes."""

    lsn: int
    seq: int
    xid: int
    timestamp: datetime
    relations: tuple[int, ...]
    cascade: bool
    restart_seqs: bool


@dataclass(frozen=True)
class LogicalMessage:
    """What pg_logical_emit_message sent. One outside of transactions has no commit and no place in one."""

    lsn: int | None
    own_lsn: int
    seq: int | None
    prefix: str
    content: bytes
    transactional: bool
    timestamp: datetime | None = field(default=None, compare=False)
    """When its transaction was committed."""


@dataclass(frozen=True)
class Decoded:
    """What a block held. A transaction may have begun in an earlier block and may go on in the next."""

    changes: list[RelationChanges] = field(default_factory=list)
    truncates: list[Truncate] = field(default_factory=list)
    messages: list[LogicalMessage] = field(default_factory=list)
    unfit: dict[int, Refused] = field(default_factory=dict)
    """Tables, by oid, with changes here that cannot be told, and why; none of their changes are above."""
    end_lsn: int | None = None
    """End of the last transaction that was committed in this block."""
    transactions: int = 0
    """How many were."""


class Decoder:
    """Decodes one stream, block after block; between blocks it keeps a transaction and the tables seen.

    `forms` tells for types that are not built in (enums, types of extensions) which built-in type has the
    same binary form; `types.type_sent_by` finds it. Domains need no entry: the stream names their base.
    `tables` are the oids of those to be read, all by default; the changes of others are passed by.
    `spelled` writes values of types without a place of their own in the lake as texts.
    After an error the decoder is as it was before the block.
    """

    def __init__(
        self,
        forms: Mapping[int, int] | None = None,
        tables: Container[int] | None = None,
        spelled: Spelled = None,
    ) -> None:
        self._forms = dict(forms or {})
        self._spelled = spelled
        self._tables = tables
        self._bases: dict[int, int] = {}
        self._relations: dict[int, Relation] = {}
        self._open: _Transaction | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether the last block ended inside a transaction."""
        return self._open is not None

    def decode(self, block: pa.Array) -> Decoded:
        """Decode the next block: a binary array with one message per element."""
        messages = Messages.of(block, KINDS)
        if not len(messages):
            return Decoded()
        course = _Course.of(messages, self._open)
        relations, bases = dict(self._relations), dict(self._bases)
        described = _descriptions(messages, relations, bases)
        forms = bases | self._forms
        changes: list[RelationChanges] = []
        unfit: dict[int, Refused] = {}
        for relation, which in _by_relation(messages, self._relations, described):
            if relation.oid in unfit or (self._tables is not None and relation.oid not in self._tables):
                continue
            try:
                rows = _rows(messages, course, relation, which, forms, self._spelled)
                changes.append(RelationChanges(relation, rows))
            except (IncompleteRow, types.UnsupportedType) as refused:
                unfit[relation.oid] = refused
        decoded = Decoded(
            changes=[change for change in changes if change.relation.oid not in unfit],
            unfit=unfit,
            truncates=[_truncate(messages, course, at) for at in messages.of_kind(TRUNCATE)],
            messages=[_message(messages, course, at) for at in messages.of_kind(MESSAGE)],
            end_lsn=course.end_lsn,
            transactions=course.commits,
        )
        self._relations, self._bases, self._open = relations, bases, course.open
        return decoded


# ---- transactions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Transaction:
    lsn: int
    timestamp: int
    xid: int
    position: int
    """Of the next change in it."""


def _kinds(of: bytes) -> Mask:
    known = np.zeros(256, np.bool_)
    known[list(of)] = True
    return known


# PostgreSQL writes no record of the log that is larger; the commit is the last record of its transaction.
_LARGEST_RECORD = 1 << 30
_THOUSAND_YEARS = 365_000 * 86_400 * 1_000_000
_CHANGES = _kinds(bytes([INSERT, UPDATE, DELETE]))
_COUNTED = _kinds(bytes([INSERT, UPDATE, DELETE, TRUNCATE]))


@dataclass(frozen=True)
class _Course:
    """The transactions of a block: for each message the number of its transaction and its place there."""

    number: Longs
    position: Longs
    lsn: Longs
    timestamp: Longs
    xid: Longs
    end_lsn: int | None
    commits: int
    open: _Transaction | None

    @staticmethod
    def of(messages: Messages, before: _Transaction | None) -> _Course:
        """Transaction 0 is the one that was open before; refuses changes outside of any."""
        begins, commits = np.flatnonzero(messages.kinds == BEGIN), np.flatnonzero(messages.kinds == COMMIT)
        number = np.cumsum(messages.kinds == BEGIN)
        depth = number - np.cumsum(messages.kinds == COMMIT) + (before is not None)
        # What the stream says besides (tables, types, origins) is said again by each reader when it needs it,
        # so only what the transaction itself holds may count: a position is the same in every reading.
        counted = _COUNTED[messages.kinds]
        told = np.flatnonzero(messages.kinds == MESSAGE)
        if (messages.ends[told] - messages.starts[told] < 2).any():
            raise MalformedStream("A message ends before it should.")
        counted[told] = messages.data[messages.starts[told] + 1] & 1
        if (depth[begins] != 1).any() or (depth[commits] != 0).any() or (depth[counted] != 1).any():
            raise MalformedStream("A transaction begins, ends or goes on out of turn.")
        first = before or _Transaction(0, 0, 0, 0)
        lsn, time, xid = messages.fields(begins, 21, (1, "i8"), (9, "i8"), (17, "u4"))
        if (np.abs(time) > _THOUSAND_YEARS).any():
            raise MalformedStream("A transaction was committed more than a thousand years from now.")
        lsn = np.concatenate([[first.lsn], lsn])
        timestamp = np.concatenate([[first.timestamp], time + types.EPOCH_MICROSECONDS])
        xid = np.concatenate([[first.xid], xid.astype(np.int64)])
        commit_lsn, end_lsn = messages.fields(commits, 26, (2, "i8"), (10, "i8"))
        if (commit_lsn != lsn[number[commits]]).any():
            raise MalformedStream("A transaction is committed at another place than it said.")
        if (np.diff(lsn if before else lsn[1:]) <= 0).any():
            raise MalformedStream("A transaction was committed before the one that came before it.")
        if (end_lsn <= commit_lsn).any() or (end_lsn - commit_lsn > _LARGEST_RECORD).any():
            raise MalformedStream("A transaction ends at a place where it cannot.")
        total = np.cumsum(counted)
        base = np.concatenate([[-first.position], total[begins]])
        last = int(number[-1])
        after = _Transaction(int(lsn[last]), int(timestamp[last]), int(xid[last]), int(total[-1] - base[last]))
        return _Course(
            number,
            total - 1 - base[number],
            lsn,
            timestamp,
            xid,
            int(end_lsn[-1]) if len(commits) else None,
            len(commits),
            after if depth[-1] else None,
        )


# ---- tables ----------------------------------------------------------------------------------


def _descriptions(
    messages: Messages, relations: dict[int, Relation], bases: dict[int, int]
) -> dict[int, list[tuple[int, Relation]]]:
    """Which tables are described anew in the block, and where; brings what is known up to date."""
    described: dict[int, list[tuple[int, Relation]]] = {}
    for at in sorted(messages.of_kind(RELATION) + messages.of_kind(TYPE)):
        body = messages.body(at)
        (oid,) = body.numbers("I")
        namespace, name = body.text() or "pg_catalog", body.text()
        if messages.kinds[at] == TYPE:
            base = types.type_named(name) if namespace == "pg_catalog" else None
            bases.update({oid: base} if base else {})
        else:
            identity, count = body.numbers("BH")
            relation = Relation(oid, namespace, name, chr(identity), tuple(_column(body) for _ in range(count)))
            if len({column.name for column in relation.columns}) < count:
                raise MalformedStream(f"{relation} has two columns of one name.")
            if relations.get(oid) != relation:
                relations[oid] = relation
                described.setdefault(oid, []).append((at, relation))
        body.end()
    return described


def _column(body: Body) -> Column:
    (flags,) = body.numbers("B")
    name = body.text()
    type_oid, typmod = body.numbers("Ii")
    return Column(name, type_oid, typmod, bool(flags & 1))


def _by_relation(
    messages: Messages, before: dict[int, Relation], described: dict[int, list[tuple[int, Relation]]]
) -> list[tuple[Relation, Longs]]:
    """The changes of each table in each shape that it had in the block, by first appearance."""
    changes = np.flatnonzero(_CHANGES[messages.kinds])
    if (messages.ends[changes] - messages.starts[changes] < 6).any():
        raise MalformedStream("A change ends before its row.")
    oids = numbers_at(messages.data, messages.starts[changes] + 1, "u4")
    order = np.argsort(oids, kind="stable")
    found: list[tuple[Relation, Longs]] = []
    for of_one in np.split(order, np.flatnonzero(np.diff(oids[order])) + 1) if len(order) else []:
        oid = int(oids[of_one[0]])
        which = changes[of_one]
        shapes = described.get(oid, [])
        pieces = np.split(which, np.searchsorted(which, [at for at, _ in shapes]))
        for relation, piece in zip((before.get(oid), *(shape for _, shape in shapes)), pieces, strict=True):
            if not len(piece):
                continue
            if relation is None:
                raise MalformedStream(f"A change of table {oid}, which was not described before.")
            found.append((relation, piece))
    return sorted(found, key=lambda one: int(one[1][0]))


# ---- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cells:
    """One column of many tuples: how each value comes, and where it lies."""

    tags: Bytes
    starts: Longs
    lengths: Longs

    def rearranged(self, others: _Cells, order: Longs) -> _Cells:
        return _Cells(
            np.concatenate([self.tags, others.tags])[order],
            np.concatenate([self.starts, others.starts])[order],
            np.concatenate([self.lengths, others.lengths])[order],
        )


def _walk(data: Bytes, at: Longs, ends: Longs, columns: int) -> tuple[list[_Cells], Longs]:
    """All tuples at once, column by column; returns the columns, and where the tuples end."""
    _require(at + 2 <= ends)
    if (numbers_at(data, at, "u2") != columns).any():
        raise MalformedStream("A row has another number of columns than its table.")
    at = at + 2
    cells: list[_Cells] = []
    for _ in range(columns):
        _require(at < ends)
        tags = data[at]
        sized = (tags == types.BINARY_TAG) | (tags == types.TEXT_TAG)
        if sized.all():
            _require(at + 5 <= ends)
            lengths = numbers_at(data, at + 1, "i4").astype(np.int64)
            after = at + 5 + lengths
        else:
            if not (sized | (tags == types.NULL_TAG) | (tags == types.UNCHANGED_TAG)).all():
                raise MalformedStream("A value comes in an unknown way.")
            _require((at + 5 <= ends)[sized])
            lengths = np.zeros(len(at), np.int64)
            lengths[sized] = numbers_at(data, at[sized] + 1, "i4")
            after = at + 1 + 4 * sized + lengths
        _require((lengths >= 0) & (after <= ends))
        cells.append(_Cells(tags, at + 5, lengths))
        at = after
    return cells, at


def _require(inside: Mask) -> None:
    if not inside.all():
        raise MalformedStream("A change ends inside its row.")


def _rows(
    messages: Messages, course: _Course, relation: Relation, which: Longs, forms: Mapping[int, int], spelled: Spelled
) -> pa.Table:
    """The table of changes: one row for an insert or a delete, two for an update."""
    reserved = [column.name for column in relation.columns if column.name in OWN_COLUMNS]
    if reserved:
        raise types.UnsupportedType(
            f"{relation} has a column {reserved[0]}, a name that the lake uses.",
            next_step="Rename the column.",
        )
    cells, second, order = _tuples(messages, relation, which)
    of_message = which if order is None else np.repeat(which, 1 + (messages.kinds[which] == UPDATE))
    number = course.number[of_message]
    kinds = messages.kinds[of_message]
    change = np.where(kinds == DELETE, 3, np.where(kinds == UPDATE, 1 + second, 0))
    arrays: dict[str, pa.Array] = {
        "_change_type": pa.array(CHANGE_TYPES).take(pa.array(change)),
        "_lsn": pa.array(course.lsn[number]),
        "_seq": pa.array(2 * course.position[of_message] + second),
        "_xid": pa.array(course.xid[number]),
        "_timestamp": from_numpy(course.timestamp[number], pa.timestamp("us", "UTC")),
    }
    unrepresentable: dict[int, dict[str, str]] = {}
    for column, found in zip(relation.columns, cells, strict=True):
        if (found.tags == types.UNCHANGED_TAG).any():
            raise IncompleteRow(f"{relation}.{column.name}: a large value that did not change was not sent.")
        oid = forms.get(column.type_oid, column.type_oid)
        try:
            place = found.tags, found.starts, found.lengths
            converted = types.convert(messages.data, *place, oid, column.typmod, spelled)
        except (MalformedStream, types.UnsupportedType) as wrong:
            where = f"{relation}.{column.name}: {wrong.message}"
            raise type(wrong)(where, next_step=wrong.next_step) from wrong
        arrays[column.name] = converted.values
        for row, text in converted.unrepresentable.items():
            unrepresentable.setdefault(row, {})[column.name] = text
    return pa.table(arrays | {"_unrepresentable": types.unrepresentable_column(unrepresentable, len(of_message))})


def _tuples(messages: Messages, relation: Relation, which: Longs) -> tuple[list[_Cells], Longs, Longs | None]:
    """The rows of these changes: their columns, 1 for each that is the second of its message, and order.

    An order of None says that every message has one row.
    """
    kinds, ends = messages.kinds[which], messages.ends[which]
    marks = messages.data[messages.starts[which] + 5]
    complete = marks == np.where(kinds == INSERT, NEW_TUPLE, OLD_TUPLE)
    if not complete.all():
        kind, mark = int(kinds[~complete][0]), int(marks[~complete][0])
        if mark == KEY_TUPLE or (kind == UPDATE and mark == NEW_TUPLE):
            what = "an UPDATE" if kind == UPDATE else "a DELETE"
            raise IncompleteRow(f"{relation}: {what} came without the whole of the old row.")
        raise MalformedStream(f"{relation}: a change without a row.")
    cells, at = _walk(messages.data, messages.starts[which] + 6, ends, len(relation.columns))
    updates = np.flatnonzero(kinds == UPDATE)
    if not len(updates):
        _require_end(at, ends)
        return cells, np.zeros(len(which), np.int64), None
    _require(at[updates] < ends[updates])
    if (messages.data[at[updates]] != NEW_TUPLE).any():
        raise MalformedStream(f"{relation}: an UPDATE without a new row.")
    news, at[updates] = _walk(messages.data, at[updates] + 1, ends[updates], len(relation.columns))
    _require_end(at, ends)
    # Message n has its first row at place[n], and an update its second row right behind.
    rows = 1 + (kinds == UPDATE)
    place = np.cumsum(rows) - rows
    order = np.empty(len(which) + len(updates), np.int64)
    order[place] = np.arange(len(which))
    order[place[updates] + 1] = len(which) + np.arange(len(updates))
    merged = [old.rearranged(_filled(new, old, updates), order) for old, new in zip(cells, news, strict=True)]
    return merged, (order >= len(which)).astype(np.int64), order


def _filled(new: _Cells, old: _Cells, updates: Longs) -> _Cells:
    """New values, with the old ones where a large value is marked as unchanged."""
    unchanged = new.tags == types.UNCHANGED_TAG
    if not unchanged.any():
        return new
    return _Cells(
        np.where(unchanged, old.tags[updates], new.tags),
        np.where(unchanged, old.starts[updates], new.starts),
        np.where(unchanged, old.lengths[updates], new.lengths),
    )


def _require_end(at: Longs, ends: Longs) -> None:
    if (at != ends).any():
        raise MalformedStream("A change goes on after its row.")


# ---- what is not a row -----------------------------------------------------------------------


def _truncate(messages: Messages, course: _Course, at: int) -> Truncate:
    body = messages.body(at)
    count, options = body.numbers("iB")
    if count < 0:
        raise MalformedStream("A TRUNCATE of less than no table.")
    relations = body.numbers(f"{count}I")
    body.end()
    number = course.number[at]
    timestamp = _moment(course, at)
    return Truncate(
        lsn=int(course.lsn[number]),
        seq=2 * int(course.position[at]),
        xid=int(course.xid[number]),
        timestamp=timestamp,
        relations=relations,
        cascade=bool(options & 1),
        restart_seqs=bool(options & 2),
    )


def _message(messages: Messages, course: _Course, at: int) -> LogicalMessage:
    body = messages.body(at)
    flags, own_lsn = body.numbers("Bq")
    prefix = body.text()
    (length,) = body.numbers("i")
    content = body.take(length)
    body.end()
    transactional = bool(flags & 1)
    return LogicalMessage(
        lsn=int(course.lsn[course.number[at]]) if transactional else None,
        own_lsn=own_lsn,
        seq=2 * int(course.position[at]) if transactional else None,
        prefix=prefix,
        content=content,
        transactional=transactional,
        timestamp=_moment(course, at) if transactional else None,
    )


def _moment(course: _Course, at: int) -> datetime:
    """When the transaction of a message was committed."""
    since = timedelta(microseconds=int(course.timestamp[course.number[at]]))
    return datetime(1970, 1, 1, tzinfo=UTC) + since
