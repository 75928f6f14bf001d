"""The decoder of the change stream: hand-made messages, a row-by-row reference, and a real server."""

from __future__ import annotations

import itertools
import json
import struct
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from thermocline.errors import ExitCode, ThermoclineError
from thermocline.feed import types
from thermocline.feed.pgoutput import Column, Decoded, Decoder, IncompleteRow, Relation
from thermocline.feed.types import UnsupportedType
from thermocline.feed.wire import MalformedStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
EPOCH_MICROSECONDS = 946_684_800_000_000

# ---- an encoder of its own -------------------------------------------------------------------

Cell = bytes | None | str
"""As the encoder takes it: None is NULL, "u" unchanged, and bytes begin with their tag."""


def b(layout: str, *values: Any) -> bytes:
    return b"b" + struct.pack(">" + layout, *values)


def t(text: str) -> bytes:
    return b"t" + text.encode()


def begin(lsn: int, time: int = 0, xid: int = 1) -> bytes:
    return b"B" + struct.pack(">qqI", lsn, time, xid)


def commit(lsn: int, time: int = 0) -> bytes:
    return b"C\0" + struct.pack(">qqq", lsn, lsn + 8, time)


def relation(oid: int, columns: Sequence[tuple[str, int, int]], name: str = "m", space: str = "public") -> bytes:
    described = b"".join(b"\1" + n.encode() + b"\0" + struct.pack(">Ii", kind, mod) for n, kind, mod in columns)
    names = space.encode() + b"\0" + name.encode() + b"\0"
    return b"R" + struct.pack(">I", oid) + names + b"f" + struct.pack(">H", len(columns)) + described


def row(cells: Sequence[Cell]) -> bytes:
    parts = [struct.pack(">H", len(cells))]
    for cell in cells:
        if isinstance(cell, bytes):
            parts.append(cell[:1] + struct.pack(">i", len(cell) - 1) + cell[1:])
        else:
            parts.append(b"n" if cell is None else b"u")
    return b"".join(parts)


def insert(oid: int, cells: Sequence[Cell]) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(cells)


def update(oid: int, old: Sequence[Cell], new: Sequence[Cell]) -> bytes:
    return b"U" + struct.pack(">I", oid) + b"O" + row(old) + b"N" + row(new)


def delete(oid: int, cells: Sequence[Cell]) -> bytes:
    return b"D" + struct.pack(">I", oid) + b"O" + row(cells)


def truncate(oids: Sequence[int], options: int = 0) -> bytes:
    return b"T" + struct.pack(f">iB{len(oids)}I", len(oids), options, *oids)


def message(transactional: bool, lsn: int, prefix: str, content: bytes) -> bytes:
    head = b"M" + struct.pack(">Bq", transactional, lsn) + prefix.encode() + b"\0"
    return head + struct.pack(">i", len(content)) + content


def user_type(oid: int, space: str, name: str) -> bytes:
    return b"Y" + struct.pack(">I", oid) + space.encode() + b"\0" + name.encode() + b"\0"


def block(*messages: bytes) -> pa.Array:
    return pa.array(messages, pa.binary())


def numeric(number: Decimal) -> bytes:
    """The binary form: groups of four digits without zeros at either end."""
    if number.is_nan():
        return b("hhHh", 0, 0, 0xC000, 0)
    if number.is_infinite():
        return b("hhHh", 0, 0, 0xF000 if number < 0 else 0xD000, 0)
    whole, _, fraction = f"{abs(number):f}".partition(".")
    dscale = len(fraction)
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    digits = whole + fraction.ljust(-(-dscale // 4) * 4, "0")
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups = groups[:-1]
    sign = 0x4000 if number < 0 else 0
    return b(f"hhHh{len(groups)}h", len(groups), weight if groups else 0, sign, dscale, *groups)


# ---- a decoder of its own, row by row --------------------------------------------------------


@dataclass
class Expected:
    """What the stream says, one object per row."""

    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    truncates: list[tuple[int, int, tuple[int, ...], bool, bool]] = field(default_factory=list)
    messages: list[tuple[int | None, int, int | None, str, bytes]] = field(default_factory=list)
    end: int | None = None
    transactions: int = 0


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 1

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def get(self, layout: str) -> Any:
        return struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))[0]

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        return self.take(end + 1 - self.at)[:-1].decode()

    def row(self) -> list[tuple[str, bytes]]:
        found = []
        for _ in range(self.get("H")):
            tag = self.take(1).decode()
            found.append((tag, self.take(self.get("i")) if tag in "tb" else b""))
        return found


def reference(messages: Sequence[bytes]) -> Expected:
    expected = Expected()
    shapes: dict[int, tuple[str, list[tuple[str, int, int]]]] = {}
    lsn = time = xid = position = 0
    for data in messages:
        cursor, kind = Cursor(data), data[:1].decode()
        if kind == "B":
            lsn, time, xid, position = cursor.get("q"), cursor.get("q"), cursor.get("I"), 0
        elif kind == "C":
            cursor.take(9)
            expected.end = cursor.get("q")
            expected.transactions += 1
        elif kind == "R":
            oid, name = cursor.get("I"), f"{cursor.text()}.{cursor.text()}"
            cursor.take(1)
            columns = []
            for _ in range(cursor.get("H")):
                cursor.take(1)
                columns.append((cursor.text(), cursor.get("I"), cursor.get("i")))
            shapes[oid] = (name, columns)
        elif kind == "T":
            count, options = cursor.get("i"), cursor.get("B")
            oids = tuple(cursor.get("I") for _ in range(count))
            expected.truncates.append((lsn, 2 * position, oids, bool(options & 1), bool(options & 2)))
            position += 1
        elif kind == "M":
            inside, own, prefix = cursor.get("B"), cursor.get("q"), cursor.text()
            content = cursor.take(cursor.get("i"))
            place = (lsn, 2 * position) if inside else (None, None)
            expected.messages.append((place[0], own, place[1], prefix, content))
            position += inside
        elif kind in "IUD":
            name, columns = shapes[cursor.get("I")]
            cursor.take(1)
            tuples = [cursor.row()]
            if kind == "U":
                cursor.take(1)
                new = cursor.row()
                tuples.append([old if cell[0] == "u" else cell for old, cell in zip(tuples[0], new, strict=True)])
            changes = {"I": ["insert"], "D": ["delete"], "U": ["update_preimage", "update_postimage"]}[kind]
            for second, (change, cells) in enumerate(zip(changes, tuples, strict=True)):
                expected.rows.append(
                    (
                        name,
                        {
                            "_change_type": change,
                            "_lsn": lsn,
                            "_seq": 2 * position + second,
                            "_xid": xid,
                            "_timestamp": time + EPOCH_MICROSECONDS,
                            **reference_values(columns, cells),
                        },
                    )
                )
            position += 1
    return expected


def reference_values(columns: list[tuple[str, int, int]], cells: list[tuple[str, bytes]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    odd = {}
    for (name, oid, typmod), (tag, data) in zip(columns, cells, strict=True):
        value, told = (None, None) if tag == "n" else reference_value(oid, typmod, tag, data)
        values[name] = repr(value) if isinstance(value, float) else value
        if told is not None:
            odd[name] = told
    return {**values, "_unrepresentable": odd or None}


NUMBERS = {types.INT2: "h", types.INT4: "i", types.INT8: "q", types.OID: "I", types.FLOAT8: "d"}


def reference_value(oid: int, typmod: int, tag: str, data: bytes) -> tuple[Any, str | None]:
    text = data.decode() if tag == "t" else ""
    if oid == types.FLOAT4:
        return struct.unpack(">f", data if tag == "b" else struct.pack(">f", float(text)))[0], None
    if oid in NUMBERS:
        parse = float if oid == types.FLOAT8 else int
        return (parse(text) if tag == "t" else struct.unpack(">" + NUMBERS[oid], data)[0]), None
    if oid == types.BOOL:
        return (text == "t" if tag == "t" else data == b"\1"), None
    if oid == types.BYTEA:
        return (bytes.fromhex(text[2:]) if tag == "t" else data), None
    if oid == types.UUID:
        return (text if tag == "t" else str(uuid.UUID(bytes=data))), None
    if oid == types.DATE:
        return reference_date(text, data)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        return reference_timestamp(text, data)
    if oid == types.NUMERIC:
        return reference_numeric(typmod, text or numeric_text(data))
    return (data[1:] if oid == types.JSONB and tag == "b" else data).decode(), None


def reference_date(text: str, data: bytes) -> tuple[int | None, str | None]:
    if text:
        return (None, text) if "inf" in text else ((date.fromisoformat(text) - date(1970, 1, 1)).days, None)
    (days,) = struct.unpack(">i", data)
    told = {2**31 - 1: "infinity", -(2**31): "-infinity"}.get(days)
    return (None, told) if told else (days + 10_957, None)


def reference_timestamp(text: str, data: bytes) -> tuple[int | None, str | None]:
    if text:
        if "inf" in text:
            return None, text
        moment = datetime.fromisoformat(text)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
        return since // timedelta(microseconds=1) + EPOCH_MICROSECONDS, None
    (raw,) = struct.unpack(">q", data)
    told = {2**63 - 1: "infinity", -(2**63): "-infinity"}.get(raw)
    return (None, told) if told else (raw + EPOCH_MICROSECONDS, None)


def numeric_text(data: bytes) -> str:
    count, weight, sign, dscale, *groups = struct.unpack(f">hhHh{len(data) // 2 - 4}h", data)
    if sign > 0x4000:
        return {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign]
    assert count == len(groups)
    unscaled = sum(group * 10_000 ** (count - 1 - at) for at, group in enumerate(groups))
    number = Decimal(f"{unscaled}E{4 * (weight - count + 1)}")
    return f"{'-' if sign else ''}{number:.{dscale}f}"


def reference_numeric(typmod: int, text: str) -> tuple[Any, str | None]:
    if typmod == -1:
        return text, None
    precision, scale = (typmod - 4) >> 16, (typmod - 4) & 0x7FF
    number = Decimal(text)
    if not number.is_finite() or number.copy_abs() >= 10 ** (precision - scale):
        return None, text
    return number.quantize(Decimal(1).scaleb(-scale), context=Context(prec=60)), None


# ---- comparing -------------------------------------------------------------------------------


def told_rows(decoded: Sequence[Decoded]) -> list[tuple[str, dict[str, Any]]]:
    """Every row with plain values; dates and times as numbers, since Python's own end at the year 9999."""
    found = []
    for part in decoded:
        for change in part.changes:
            table = change.rows
            for at, column in enumerate(table.schema):
                if pa.types.is_temporal(column.type):
                    plain = pa.int32() if pa.types.is_date(column.type) else pa.int64()
                    table = table.set_column(at, column.name, table.column(at).cast(plain))
            order = [(r["_lsn"], r["_seq"]) for r in table.select(["_lsn", "_seq"]).to_pylist()]
            assert order == sorted(order)
            for one in table.to_pylist():
                values = {k: repr(v) if isinstance(v, float) else v for k, v in one.items()}
                odd = values["_unrepresentable"]
                values["_unrepresentable"] = json.loads(odd) if odd else None
                found.append((str(change.relation), values))
    return sorted(found, key=lambda one: (one[1]["_lsn"], one[1]["_seq"]))


def as_expected(decoded: Sequence[Decoded]) -> Expected:
    truncates = [one for part in decoded for one in part.truncates]
    messages = [one for part in decoded for one in part.messages]
    ends = [part.end_lsn for part in decoded if part.end_lsn is not None]
    return Expected(
        rows=told_rows(decoded),
        truncates=[(one.lsn, one.seq, one.relations, one.cascade, one.restart_seqs) for one in truncates],
        messages=[(one.lsn, one.own_lsn, one.seq, one.prefix, one.content) for one in messages],
        end=ends[-1] if ends else None,
        transactions=sum(part.transactions for part in decoded),
    )


def decode_in_blocks(messages: Sequence[bytes], size: int, decoder: Decoder | None = None) -> list[Decoded]:
    decoder = decoder or Decoder()
    return [decoder.decode(block(*messages[at : at + size])) for at in range(0, len(messages), size)]


# ---- any schedule ----------------------------------------------------------------------------

LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001
INFINITE = st.sampled_from([t("infinity"), t("-infinity")])
FLOATS = st.floats(width=32)
ANY_DATE = st.one_of(st.integers(-2_451_545, 2_145_031_948), st.sampled_from([2**31 - 1, -(2**31)]))
ANY_TIME = st.one_of(
    st.integers(-211_813_488_000_000_000, 2**63 - 1 - EPOCH_MICROSECONDS),
    st.sampled_from([2**63 - 1, -(2**63)]),
)


def integers(layout: str, bits: int) -> st.SearchStrategy[bytes]:
    numbers = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.one_of(numbers.map(lambda n: b(layout, n)), numbers.map(lambda n: t(str(n))))


def decimals(precision: int, scale: int) -> st.SearchStrategy[bytes]:
    whole = st.integers(-(10**precision) + 1, 10**precision - 1)
    numbers = whole.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))
    some = st.one_of(numbers, st.sampled_from([Decimal("NaN"), Decimal(10) ** (precision - scale)]))
    return st.one_of(some.map(numeric), some.map(lambda n: t("NaN" if n.is_nan() else f"{n:.{scale}f}")))


def of_precision(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


VALUES: dict[tuple[int, int], st.SearchStrategy[bytes]] = {
    (types.INT2, -1): integers("h", 16),
    (types.INT4, -1): integers("i", 32),
    (types.INT8, -1): integers("q", 64),
    (types.OID, -1): st.integers(0, 2**32 - 1).map(lambda n: b("I", n)),
    (types.FLOAT4, -1): st.one_of(FLOATS.map(lambda n: b("f", n)), FLOATS.map(lambda n: t(repr(n)))),
    (types.FLOAT8, -1): st.one_of(st.floats().map(lambda n: b("d", n)), st.floats().map(lambda n: t(repr(n)))),
    (types.BOOL, -1): st.sampled_from([b"b\0", b"b\1", b"tt", b"tf"]),
    (types.TEXT, -1): st.one_of(LETTERS.map(t), LETTERS.map(lambda s: b"b" + s.encode())),
    (types.JSONB, -1): st.one_of(LETTERS.map(t), LETTERS.map(lambda s: b"b\1" + s.encode())),
    (types.BYTEA, -1): st.one_of(
        st.binary(max_size=9).map(b"b".__add__), st.binary().map(lambda s: t("\\x" + s.hex()))
    ),
    (types.DATE, -1): st.one_of(
        ANY_DATE.map(lambda n: b("i", n)), MOMENTS.map(lambda m: t(m.date().isoformat())), INFINITE
    ),
    (types.TIMESTAMP, -1): st.one_of(
        ANY_TIME.map(lambda n: b("q", n)), MOMENTS.map(lambda m: t(m.isoformat(" "))), INFINITE
    ),
    (types.TIMESTAMPTZ, -1): st.one_of(
        ANY_TIME.map(lambda n: b("q", n)), MOMENTS.map(lambda m: t(m.isoformat(" ") + "+05:30")), INFINITE
    ),
    (types.UUID, -1): st.uuids().flatmap(lambda u: st.sampled_from([b"b" + u.bytes, t(str(u))])),
    (types.NUMERIC, of_precision(10, 2)): decimals(10, 2),
    (types.NUMERIC, of_precision(38, 10)): decimals(38, 10),
    (types.NUMERIC, of_precision(5, 5)): decimals(5, 5),
    (types.NUMERIC, of_precision(19, 0)): decimals(19, 0),
    (types.NUMERIC, -1): decimals(50, 20),
    (99_999, -1): LETTERS.map(t),
}
COLUMNS = st.lists(st.sampled_from(sorted(VALUES)), max_size=5).map(
    lambda kinds: [(f"c{at}", *kind) for at, kind in enumerate(kinds)]
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Transactions over a few tables whose columns change now and then."""
    shapes: dict[int, list[tuple[str, int, int]]] = {}
    found = []

    def cells(columns: list[tuple[str, int, int]], unchanged: bool = False) -> list[Cell]:
        rare: st.SearchStrategy[Cell] = st.just("u") if unchanged else st.none()
        return [draw(st.one_of(VALUES[oid, mod], st.none(), rare)) for _, oid, mod in columns]

    for number in range(draw(st.integers(0, 5))):
        lsn = 100 * (number + 1)
        if draw(st.booleans()):
            found.append(message(False, lsn - 50, "loose", draw(st.binary(max_size=5))))
        found.append(begin(lsn, draw(st.integers(-(10**15), 10**15)), draw(st.integers(0, 2**32 - 1))))
        for kind in draw(st.lists(st.sampled_from("IIIUUDTMRY"), max_size=8)):
            oid = draw(st.integers(1, 3))
            if oid not in shapes or kind == "R":
                shapes[oid] = draw(COLUMNS) if oid not in shapes or draw(st.booleans()) else shapes[oid]
                found.append(relation(oid, shapes[oid], f"table{oid}"))
            columns = shapes[oid]
            if kind == "I":
                found.append(insert(oid, cells(columns)))
            elif kind == "D":
                found.append(delete(oid, cells(columns)))
            elif kind == "U":
                found.append(update(oid, cells(columns), cells(columns, unchanged=True)))
            elif kind == "T":
                found.append(truncate(draw(st.lists(st.integers(1, 3), max_size=3)), draw(st.integers(0, 3))))
            elif kind == "M":
                found.append(message(True, lsn - 10, draw(LETTERS), draw(st.binary(max_size=5))))
            elif kind == "Y":
                found.append(user_type(77_777, "public", "mood"))
        found.append(commit(lsn))
    return found


@settings(max_examples=150)
@given(data=st.data(), messages=streams())
def test_m9_m12_any_schedule_in_any_blocks_is_what_a_row_by_row_reader_sees(
    data: st.DataObject, messages: list[bytes]
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=6)))
    decoder, parts = Decoder(), []
    for first, last in itertools.pairwise([0, *cuts, len(messages)]):
        kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
        # A slice of a larger array has offsets that do not begin at zero.
        parts.append(decoder.decode(pa.array([b"?", *messages[first:last], b"?"], kind).slice(1, last - first)))
    assert as_expected(parts) == reference(messages)
    assert not decoder.in_transaction
    keys = [(one["_lsn"], one["_seq"]) for _, one in told_rows(parts)]
    assert len(keys) == len(set(keys))


# ---- hand-made messages ----------------------------------------------------------------------

ONE = [("a", types.INT4, -1), ("b", types.TEXT, -1)]


def test_a_transaction_becomes_a_table() -> None:
    decoded = Decoder().decode(
        block(
            begin(10, 5, 7),
            relation(1, ONE),
            insert(1, [b("i", 1), t("x")]),
            update(1, [b("i", 1), t("x")], [b("i", 2), None]),
            delete(1, [b("i", 2), None]),
            commit(10),
        )
    )
    (change,) = decoded.changes
    assert change.relation == Relation(
        1, "public", "m", "f", (Column("a", types.INT4, -1, True), Column("b", types.TEXT, -1, True))
    )
    assert change.rows.schema == pa.schema(
        [
            ("_change_type", pa.string()),
            ("_lsn", pa.int64()),
            ("_seq", pa.int64()),
            ("_xid", pa.int64()),
            ("_timestamp", pa.timestamp("us", "UTC")),
            ("a", pa.int32()),
            ("b", pa.string()),
            ("_unrepresentable", pa.string()),
        ]
    )
    assert change.rows.select(["_change_type", "_seq", "a", "b"]).to_pylist() == [
        {"_change_type": "insert", "_seq": 0, "a": 1, "b": "x"},
        {"_change_type": "update_preimage", "_seq": 2, "a": 1, "b": "x"},
        {"_change_type": "update_postimage", "_seq": 3, "a": 2, "b": None},
        {"_change_type": "delete", "_seq": 4, "a": 2, "b": None},
    ]
    assert set(change.rows["_lsn"].to_pylist()) == {10}
    assert set(change.rows["_timestamp"].to_pylist()) == {EPOCH + timedelta(microseconds=5)}
    assert (decoded.end_lsn, decoded.transactions) == (18, 1)


def test_an_empty_block_says_nothing() -> None:
    assert Decoder().decode(block()) == Decoded()
    assert Decoder().decode(pa.array([], pa.large_binary())) == Decoded()


def test_what_is_no_binary_array_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="binary array"):
        Decoder().decode(pa.array(["B"]))


def test_m9_positions_do_not_depend_on_what_a_reader_is_told_again() -> None:
    """A second reading sends the description at another place; the rows keep their place."""
    rows = [insert(1, [b("i", n), None]) for n in range(4)]
    first = [begin(1), relation(1, ONE), *rows, commit(1)]
    again = [
        begin(1),
        relation(1, ONE),
        *rows[:2],
        user_type(9, "public", "x"),
        relation(1, ONE),
        *rows[2:],
        commit(1),
    ]
    assert told_rows(decode_in_blocks(first, 99)) == told_rows(decode_in_blocks(again, 3))
    assert len(decode_in_blocks(again, 99)[0].changes) == 1


def test_a_new_shape_in_mid_block_begins_a_new_table() -> None:
    wider = [*ONE, ("c", types.BOOL, -1)]
    decoded = Decoder().decode(
        block(
            begin(1),
            relation(1, ONE),
            insert(1, [b("i", 1), None]),
            relation(1, wider),
            insert(1, [b("i", 2), None, b"b\1"]),
            relation(1, ONE),
            insert(1, [b("i", 3), None]),
            commit(1),
        )
    )
    assert [change.rows["a"].to_pylist() for change in decoded.changes] == [[1], [2], [3]]
    assert [len(change.relation.columns) for change in decoded.changes] == [2, 3, 2]


def test_a_table_of_pg_catalog_and_one_without_columns() -> None:
    decoded = Decoder().decode(block(begin(1), relation(1, [], space=""), insert(1, []), insert(1, []), commit(1)))
    assert str(decoded.changes[0].relation) == "pg_catalog.m"
    assert decoded.changes[0].rows.num_rows == 2


def test_domains_take_the_form_of_their_base_and_enums_that_of_text() -> None:
    columns = [("d", 50_001, -1), ("e", 50_002, -1)]
    messages = [
        begin(1),
        user_type(50_001, "", "int4"),
        user_type(50_002, "public", "mood"),
        relation(1, columns),
        insert(1, [b("i", 5), b"bhappy"]),
        commit(1),
    ]
    rows = Decoder({50_002: types.TEXT}).decode(block(*messages)).changes[0].rows
    assert rows.select(["d", "e"]).to_pylist() == [{"d": 5, "e": "happy"}]
    with pytest.raises(UnsupportedType, match=r"public\.m\.e.*50002") as wrong:
        Decoder().decode(block(*messages))
    assert wrong.value.code == "feed.unsupported_type"


def test_origins_are_passed_over() -> None:
    origin = b"O" + struct.pack(">q", 1) + b"there\0"
    decoded = Decoder().decode(block(begin(1), origin, relation(1, ONE), insert(1, [None, None]), commit(1)))
    assert decoded.changes[0].rows["_seq"].to_pylist() == [0]


def test_a_column_with_a_name_of_ours_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="_lsn"):
        Decoder().decode(block(begin(1), relation(1, [("_lsn", types.INT4, -1)]), insert(1, [b("i", 1)]), commit(1)))


def test_m12_an_unchanged_large_value_comes_from_the_old_row() -> None:
    big = b"b" + b"x" * 5000
    messages = [
        begin(1),
        relation(1, ONE),
        update(1, [b("i", 1), big], [b("i", 2), "u"]),
        update(1, [b("i", 2), b"b"], [b("i", 3), "u"]),
        update(1, [b("i", 3), None], [b("i", 4), b"bnew"]),
        commit(1),
    ]
    rows = Decoder().decode(block(*messages)).changes[0].rows
    assert rows["a"].to_pylist() == [1, 2, 2, 3, 3, 4]
    assert rows["b"].to_pylist() == ["x" * 5000, "x" * 5000, "", "", None, "new"]


@pytest.mark.parametrize(
    "change",
    [
        b"U" + struct.pack(">I", 1) + b"N" + row([b("i", 1), "u"]),
        b"U" + struct.pack(">I", 1) + b"N" + row([b("i", 1), None]),
        b"U" + struct.pack(">I", 1) + b"K" + row([b("i", 1), None]) + b"N" + row([b("i", 2), "u"]),
        b"D" + struct.pack(">I", 1) + b"K" + row([b("i", 1), None]),
        update(1, [b("i", 1), "u"], [b("i", 1), "u"]),
        insert(1, [b("i", 1), "u"]),
    ],
)
def test_m12_a_row_that_is_not_whole_is_refused(change: bytes) -> None:
    with pytest.raises(IncompleteRow, match=r"public\.m") as wrong:
        Decoder().decode(block(begin(1), relation(1, ONE), change, commit(1)))
    assert wrong.value.code == "feed.incomplete_row"
    assert "REPLICA IDENTITY FULL" in wrong.value.next_step
    assert isinstance(wrong.value, ThermoclineError)
    assert wrong.value.exit_code is ExitCode.REFUSED


def test_after_an_error_the_decoder_is_as_before() -> None:
    decoder = Decoder()
    decoder.decode(block(begin(1), relation(1, ONE), insert(1, [b("i", 1), None])))
    with pytest.raises(MalformedStream):
        decoder.decode(block(insert(1, [b("i", 2), None]), commit(1), relation(1, []), begin(2), b"?"))
    assert decoder.in_transaction
    decoded = decoder.decode(block(insert(1, [b("i", 2), None]), commit(1)))
    assert decoded.changes[0].rows.select(["_seq", "a"]).to_pylist() == [{"_seq": 2, "a": 2}]


WHOLE = [
    begin(1),
    relation(1, ONE),
    user_type(9, "public", "mood"),
    insert(1, [b("i", 1), t("text")]),
    update(1, [b("i", 1), None], [b("i", 2), b"b"]),
    delete(1, [b("i", 1), None]),
    truncate([1, 2]),
    message(True, 1, "prefix", b"content"),
    commit(1),
]


@pytest.mark.parametrize("which", range(len(WHOLE)))
def test_a_message_that_is_cut_or_too_long_is_malformed(which: int) -> None:
    for length in range(len(WHOLE[which])):
        broken = [*WHOLE[:which], WHOLE[which][:length], *WHOLE[which + 1 :]]
        with pytest.raises(MalformedStream) as wrong:
            Decoder().decode(block(*broken))
        assert wrong.value.code == "feed.malformed"
    with pytest.raises(MalformedStream):
        Decoder().decode(block(*WHOLE[:which], WHOLE[which] + b"\0", *WHOLE[which + 1 :]))


@settings(max_examples=300)
@given(which=st.integers(0, len(WHOLE) - 1), data=st.data())
def test_any_changed_byte_is_decoded_or_refused_but_never_breaks(which: int, data: st.DataObject) -> None:
    changed = bytearray(WHOLE[which])
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedStream, IncompleteRow, UnsupportedType):
        Decoder().decode(block(*WHOLE[:which], bytes(changed), *WHOLE[which + 1 :]))


ROW = insert(1, [None, None])


@pytest.mark.parametrize(
    "messages",
    [
        [b"?"],
        [b"S" + bytes(5)],
        [commit(1)],
        [begin(1), begin(2)],
        [begin(1), commit(2)],
        [begin(1), commit(1), commit(1)],
        [relation(1, ONE), ROW],
        [relation(1, ONE), begin(1), commit(1), ROW],
        [message(True, 1, "p", b"")],
        [truncate([1])],
        [begin(1), ROW, commit(1)],
        [begin(1), ROW, relation(1, ONE), commit(1)],
        [begin(1), relation(1, ONE), insert(1, [None]), commit(1)],
        [begin(1), relation(1, ONE), insert(1, [b("h", 1), None]), commit(1)],
        [begin(1), relation(1, ONE), insert(1, [None, b"b\xff"]), commit(1)],
        [begin(1), relation(1, ONE), insert(1, [None, None]).replace(b"N", b"O"), commit(1)],
        [begin(1), relation(1, ONE), insert(1, [None, None]).replace(b"n", b"x"), commit(1)],
    ],
)
def test_what_pgoutput_does_not_send_is_malformed(messages: list[bytes]) -> None:
    with pytest.raises(MalformedStream):
        Decoder().decode(block(*messages))


def test_a_missing_message_is_malformed() -> None:
    with pytest.raises(MalformedStream):
        Decoder().decode(pa.array([begin(1), None], pa.binary()))


def test_a_value_that_is_none_names_its_column() -> None:
    with pytest.raises(MalformedStream, match=r"public\.m\.a"):
        Decoder().decode(block(begin(1), relation(1, ONE), insert(1, [t("one"), None]), commit(1)))


# ---- a real server ---------------------------------------------------------------------------

PEEK = (
    "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
    " 'publication_names', 'p', 'binary', %s, 'messages', 'true')"
)


class Source:
    """A database with a slot and a publication of everything."""

    def __init__(self, session: psycopg.Connection, slot: str) -> None:
        self.session, self.slot = session, slot

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement.encode())

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.session.execute(statement.encode()).fetchall()
        return found

    def peek(self, binary: bool = True) -> list[bytes]:
        return [data for (data,) in self.session.execute(PEEK, [self.slot, str(binary).lower()])]

    def forms(self) -> dict[int, int]:
        """What enums and the like look like, as a reader would ask for it."""
        found = self.ask(
            "SELECT t.oid, f.proname FROM pg_type t LEFT JOIN pg_proc f ON f.oid = t.typsend WHERE t.oid >= 16384"
        )
        named = {oid: types.type_sent_by(function) for oid, function in found}
        return {oid: form for oid, form in named.items() if form is not None}

    def rows(self, binary: bool = True) -> list[dict[str, Any]]:
        """Of the one table that changed in the one shape that it had."""
        (change,) = Decoder(self.forms()).decode(block(*self.peek(binary))).changes
        found: list[dict[str, Any]] = change.rows.to_pylist()
        return found


@pytest.fixture
def source(dsn: str) -> Iterator[Source]:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute("CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
        slot = f"pgoutput_{session.info.dbname}"
        session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        try:
            yield Source(session, slot)
        finally:
            session.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def history(source: Source, size: int) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Kind, table and values of every change, in order."""
    parts = decode_in_blocks(source.peek(), size, Decoder(source.forms()))
    return [
        (one["_change_type"], name.removeprefix("public."), tuple(v for k, v in one.items() if k[0] != "_"))
        for name, one in told_rows(parts)
    ]


def replayed(changes: list[tuple[str, str, tuple[Any, ...]]], table: str) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for kind, of, values in changes:
        if of == table:
            rows[values] += 1 if kind in ("insert", "update_postimage") else -1
            assert rows[values] >= 0
    return +rows


# Name, type, and values that the lake holds as they are.
KEPT: list[tuple[str, str, list[str]]] = [
    ("i2", "int2", ["-32768", "32767", "0"]),
    ("i4", "int4", ["-2147483648", "2147483647"]),
    ("i8", "int8", ["-9223372036854775808", "9223372036854775807"]),
    ("f4", "float4", ["1.5", "NaN", "Infinity", "-0"]),
    ("f8", "float8", ["1e-300", "NaN", "-Infinity", "0.1"]),
    ("flag", "bool", ["true", "false"]),
    ("txt", "text", ["", "plain", "läßt 🐘", " "]),
    ("vc", "varchar(9)", ["", "short"]),
    ("bp", "char(5)", ["", "ab"]),
    ("c", '"char"', ["x", ""]),
    ("nm", "name", ["a_name"]),
    ("js", "json", ['{"a":  1}']),
    ("jb", "jsonb", ['{"b": [1, null]}', "null"]),
    ("raw", "bytea", ["\\x", "\\x00ff10"]),
    ("d", "date", ["2024-02-29", "1999-12-31", "0001-01-01", "9999-12-31"]),
    ("ts", "timestamp", ["2024-02-29 12:34:56.789012", "0001-01-01 00:00:00"]),
    ("tz", "timestamptz", ["2024-02-29 12:34:56.789012+05:30", "1900-01-01 00:00:00+00"]),
    ("n1", "numeric(10,2)", ["0", "-0.05", "99999999.99", "100000.10", "-12345678.9"]),
    ("n2", "numeric(38,10)", ["9999999999999999999999999999.9999999999", "-1e-10", "1e27", "-10000"]),
    ("n3", "numeric(38,38)", ["0.12345678901234567890123456789012345678", "-1e-38"]),
    ("n4", "numeric(18,0)", ["999999999999999999", "-1"]),
    ("n5", "numeric", ["0.000100", "-1234567890123456789012345678901234567890.5", "NaN", "Infinity", "1e20"]),
    ("n6", "numeric(50,5)", ["-1.1", "100000"]),
    ("n7", "numeric(2,-3)", ["-45678", "0"]),
    ("n8", "numeric(3,5)", ["0.00123", "0"]),
    ("u", "uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]),
    ("o", "oid", ["4294967295", "0"]),
    ("mood", "mood", ["happy", "so so"]),
    ("small", "small", ["7", "0"]),
    ("acl", "aclitem", ["=r/" + '"%s"']),
]
# Those that are strings in the lake and something else to psycopg.
AS_TEXT = {"js", "jb", "n5", "n6", "n7", "n8", "u", "acl", "mood"}


@pytest.mark.parametrize("binary", [True, False])
def test_m12_every_type_is_in_the_lake_as_select_shows_it(source: Source, binary: bool) -> None:
    source.run(
        "CREATE TYPE mood AS ENUM ('happy', 'so so')",
        "CREATE DOMAIN small AS int4 CHECK (value < 100)",
        f"CREATE TABLE every (n int4, {', '.join(f'{name} {kind}' for name, kind, _ in KEPT)})",
        "ALTER TABLE every REPLICA IDENTITY FULL",
        "INSERT INTO every (n) VALUES (-1)",
    )
    ((user,),) = source.ask("SELECT current_user")
    numbers = itertools.count()
    for name, kind, values in KEPT:
        for value in values:
            text = value.replace("%s", user)
            source.session.execute(
                sql.SQL("INSERT INTO every (n, {}) VALUES ({}, {}::{})").format(
                    sql.Identifier(name),
                    next(numbers),
                    text,
                    sql.SQL(kind),
                )
            )
    wanted = ", ".join(f"{name}::text" if name in AS_TEXT else name for name, _, _ in KEPT)
    expected = source.ask(f"SELECT n, {wanted} FROM every ORDER BY n")
    rows = source.rows(binary)
    assert len(rows) == len(expected) == next(numbers) + 1
    for one, row_of_server in zip(rows, expected, strict=True):
        assert one["_unrepresentable"] is None
        for name, value in zip(["n", *(name for name, _, _ in KEPT)], row_of_server, strict=True):
            assert repr(one[name]) == repr(value) or (one[name] == value and value != 0), (name, value)


def test_m12_what_the_lake_cannot_hold_is_told_in_words(source: Source) -> None:
    values = {
        "d": ("date", ["infinity", "-infinity"]),
        "ts": ("timestamp", ["infinity", "-infinity", "294276-12-31 23:59:59.5"]),
        "tz": ("timestamptz", ["infinity", "-infinity", "294247-01-10 04:00:55+00"]),
        "n": ("numeric(10,2)", ["NaN"]),
    }
    source.run(
        f"CREATE TABLE odd (fine int4, {', '.join(f'{name} {kind}' for name, (kind, _) in values.items())})",
        *(
            f"INSERT INTO odd (fine, {name}) VALUES (1, '{value}')"
            for name, (_, some) in values.items()
            for value in some
        ),
        "INSERT INTO odd VALUES (2, 'infinity', 'infinity', '-infinity', 'NaN')",
        "INSERT INTO odd VALUES (3, '5874897-12-31', '294247-01-10 04:00:54.775807', '4713-01-01 00:00:00+00 BC', 1)",
    )
    for binary in (True, False):
        (change,) = Decoder().decode(block(*source.peek(binary))).changes
        told = [json.loads(text) if text else None for text in change.rows["_unrepresentable"].to_pylist()]
        assert told == [
            *({name: value} for name, (_, some) in values.items() for value in some),
            {"d": "infinity", "ts": "infinity", "tz": "-infinity", "n": "NaN"},
            None,
        ]
        assert change.rows["fine"].null_count == 0
        last = change.rows.slice(change.rows.num_rows - 1)
        ((days, early),) = source.ask(
            "SELECT d - '1970-01-01'::date, extract(epoch FROM tz)::int8 * 1000000 FROM odd WHERE fine = 3"
        )
        assert last["d"].cast(pa.int32()).to_pylist() == [days]
        assert last["ts"].cast(pa.int64()).to_pylist() == [2**63 - 1]
        assert last["tz"].cast(pa.int64()).to_pylist() == [early]
        assert all(last[name].null_count == 0 for name in values)
        assert all(change.rows[name].null_count == change.rows.num_rows - 1 for name in values)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int4[]", "{1,2}"), ("interval", "1 day"), ("inet", "::1"), ("pair", "(1,2)"), ("time", "12:00")],
)
def test_m12_a_type_without_a_place_in_the_lake_is_named(source: Source, kind: str, value: str) -> None:
    source.run(
        "CREATE TYPE pair AS (a int4, b int4)",
        f"CREATE TABLE strange (id int4, wrong {kind})",
        "INSERT INTO strange VALUES (1, NULL)",
    )
    assert source.rows()[0]["wrong"] is None
    source.run(f"INSERT INTO strange VALUES (1, '{value}')")
    with pytest.raises(UnsupportedType, match=r"public\.strange\.wrong"):
        source.rows()


def test_m12_an_unchanged_large_value_of_a_real_update(source: Source) -> None:
    source.run(
        "CREATE TABLE big (id int4 PRIMARY KEY, body text, note text)",
        "ALTER TABLE big ALTER body SET STORAGE EXTERNAL",
        "ALTER TABLE big REPLICA IDENTITY FULL",
        "INSERT INTO big SELECT n, repeat(n::text, 20000), NULL FROM generate_series(1, 3) n",
        "UPDATE big SET note = 'seen'",
        "UPDATE big SET body = '', note = NULL WHERE id = 2",
    )
    # The new row of an update that leaves the body alone: three columns, and the second is not sent.
    assert sum(b"N" + struct.pack(">H", 3) + b"b\0\0\0\4\0\0\0\1u" in data for data in source.peek()) == 1
    changes = history(source, 4)
    assert replayed(changes, "big") == Counter(source.ask("SELECT * FROM big"))
    assert changes == history(source, 1) == history(source, 999)
    source.run("ALTER TABLE big REPLICA IDENTITY DEFAULT", "UPDATE big SET note = 'lost' WHERE id = 1")
    with pytest.raises(IncompleteRow, match=r"public\.big"):
        history(source, 999)


def test_m9_m13_the_history_is_what_happened(source: Source) -> None:
    source.run(
        "CREATE TABLE root (at int4, v text, UNIQUE (at, v)) PARTITION BY RANGE (at)",
        "CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE leaf2 PARTITION OF root FOR VALUES FROM (100) TO (200)",
        *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("root", "leaf1", "leaf2")),
    )
    with source.session.cursor().copy("COPY root FROM STDIN") as copy:
        copy.write("1\tone\n2\t\n3\t\\N\n")
    source.run(
        "BEGIN",
        "INSERT INTO root VALUES (10, 'kept')",
        "SAVEPOINT s",
        "INSERT INTO root VALUES (11, 'rolled back')",
        "ROLLBACK TO s",
        "SAVEPOINT t",
        "INSERT INTO leaf1 VALUES (12, 'released')",
        "RELEASE t",
        "SELECT pg_logical_emit_message(true, 'fence', 'inside')",
        "COMMIT",
        "BEGIN",
        "INSERT INTO root VALUES (13, 'never')",
        "ROLLBACK",
        "UPDATE root SET at = 110 WHERE at = 10",
        "INSERT INTO root VALUES (1, 'one') ON CONFLICT (at, v) DO UPDATE SET v = 'conflict'",
        "INSERT INTO root VALUES (110, 'kept') ON CONFLICT DO NOTHING",
        # A commit must follow, because only what is flushed is decoded.
        "SELECT pg_logical_emit_message(false, 'loose', 'outside')",
        "DELETE FROM root WHERE at = 2",
    )
    changes = history(source, 999)
    assert changes == [
        ("insert", "root", (1, "one")),
        ("insert", "root", (2, "")),
        ("insert", "root", (3, None)),
        ("insert", "root", (10, "kept")),
        ("insert", "root", (12, "released")),
        ("delete", "root", (10, "kept")),
        ("insert", "root", (110, "kept")),
        ("update_preimage", "root", (1, "one")),
        ("update_postimage", "root", (1, "conflict")),
        ("delete", "root", (2, "")),
    ]
    assert all(history(source, size) == changes for size in (1, 2, 5))
    assert replayed(changes, "root") == Counter(source.ask("SELECT * FROM root"))
    decoded = Decoder().decode(block(*source.peek()))
    assert [(m.prefix, m.content, m.transactional, m.seq) for m in decoded.messages] == [
        ("fence", b"inside", True, 4),
        ("loose", b"outside", False, None),
    ]
    assert decoded.messages[0].lsn in decoded.changes[0].rows["_lsn"].to_pylist()
    # One COPY has one LSN for all of its rows, so only the position tells them apart.
    places = [(one["_lsn"], one["_seq"]) for _, one in told_rows([decoded])]
    assert len({lsn for lsn, _ in places[:3]}) == 1
    assert len(set(places)) == len(places)
    assert decoded.transactions == 5
    ((end,),) = source.ask("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")
    assert decoded.end_lsn is not None
    assert max(lsn for lsn, _ in places) < decoded.end_lsn <= end


def test_m13_truncate_has_its_place_in_the_history(source: Source) -> None:
    source.run(
        "CREATE TABLE a (id serial)",
        "CREATE TABLE b (id int4)",
        "BEGIN",
        "INSERT INTO b VALUES (1)",
        "TRUNCATE a, b RESTART IDENTITY CASCADE",
        "INSERT INTO b VALUES (2)",
        "COMMIT",
    )
    decoded = Decoder().decode(block(*source.peek()))
    (found,) = decoded.truncates
    assert set(found.relations) == {
        oid for (oid,) in source.ask("SELECT oid FROM pg_class WHERE relname IN ('a', 'b')")
    }
    assert (found.seq, found.cascade, found.restart_seqs) == (2, True, True)
    (rows,) = (change.rows for change in decoded.changes)
    assert rows["_seq"].to_pylist() == [0, 4]
    assert rows["_lsn"].to_pylist() == [found.lsn] * 2
    assert rows["_timestamp"].to_pylist() == [found.timestamp] * 2
    assert rows["_xid"].to_pylist() == [found.xid] * 2
    assert abs(found.timestamp - datetime.now(UTC)) < timedelta(minutes=5)


def test_columns_are_followed_through_changes_of_the_table(source: Source) -> None:
    source.run(
        "CREATE TABLE t (a int4, b text)",
        "INSERT INTO t VALUES (1, 'x')",
        "BEGIN",
        "INSERT INTO t VALUES (2, 'y')",
        "ALTER TABLE t ADD c numeric(5,1) DEFAULT 1.5",
        "INSERT INTO t VALUES (3, 'z')",
        "ALTER TABLE t DROP b",
        "INSERT INTO t VALUES (4)",
        "COMMIT",
        "ALTER TABLE t RENAME a TO a2",
        "INSERT INTO t VALUES (5, 9)",
    )
    decoded = Decoder().decode(block(*source.peek()))
    shapes = [
        [{k: v for k, v in one.items() if k[0] != "_"} for one in change.rows.to_pylist()] for change in decoded.changes
    ]
    assert shapes == [
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
        [{"a": 3, "b": "z", "c": Decimal("1.5")}],
        [{"a": 4, "c": Decimal("1.5")}],
        [{"a2": 5, "c": Decimal("9.0")}],
    ]


def test_m9_a_second_reader_with_smaller_blocks_sees_the_same_places(source: Source) -> None:
    source.run("CREATE TABLE many (id int4, t text)", "ALTER TABLE many REPLICA IDENTITY FULL")
    for first in range(0, 500, 50):
        source.run(f"INSERT INTO many SELECT n, repeat('x', n % 7) FROM generate_series({first}, {first + 49}) n")
    source.run("UPDATE many SET t = NULL WHERE id % 10 = 0", "DELETE FROM many WHERE id > 480")
    whole = as_expected(decode_in_blocks(source.peek(), 10_000))
    assert whole == as_expected(decode_in_blocks(source.peek(), 33)) == reference(source.peek())
    assert whole.transactions == 12
