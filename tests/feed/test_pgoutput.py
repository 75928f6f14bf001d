"""The decoder of the change stream: hand-made messages, and any schedule held against a row-by-row reader."""

from __future__ import annotations

import itertools
import re
import struct
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.pgoutput import (
    EPOCH,
    EPOCH_MICROSECONDS,
    Cell,
    as_expected,
    b,
    begin,
    block,
    commit,
    decode_in_blocks,
    delete,
    insert,
    message,
    numeric,
    reference,
    relation,
    row,
    t,
    told_rows,
    truncate,
    update,
    user_type,
)
from thermocline.feed.pgoutput import Column, Decoded, Decoder, IncompleteRow, Relation
from thermocline.hot import types
from thermocline.hot.wire import MalformedStream

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
    wrong = Decoder().decode(block(*messages)).unfit[1]
    assert wrong.code == "feed.unsupported_type"
    assert re.search(r"public\.m\.e.*50002", wrong.message)


def test_origins_are_passed_over() -> None:
    origin = b"O" + struct.pack(">q", 1) + b"there\0"
    decoded = Decoder().decode(block(begin(1), origin, relation(1, ONE), insert(1, [None, None]), commit(1)))
    assert decoded.changes[0].rows["_seq"].to_pylist() == [0]


def test_a_column_with_a_name_of_ours_is_refused() -> None:
    messages = [begin(1), relation(1, [("_lsn", types.INT4, -1)]), insert(1, [b("i", 1)]), commit(1)]
    assert "_lsn" in Decoder().decode(block(*messages)).unfit[1].message


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
    good = insert(1, [b("i", 1), None])
    other = [relation(2, ONE), insert(2, [b("i", 2), None])]
    decoded = Decoder().decode(block(begin(1), relation(1, ONE), good, *other, change, good, commit(1)))
    assert list(decoded.unfit) == [1]
    wrong = decoded.unfit[1]
    assert isinstance(wrong, IncompleteRow)
    assert "public.m" in wrong.message
    assert wrong.code == "feed.incomplete_row"
    assert "REPLICA IDENTITY FULL" in wrong.next_step
    # Nothing of that table is told, all of the others is.
    assert [(one.relation.oid, one.rows["a"].to_pylist()) for one in decoded.changes] == [(2, [2])]


def test_tables_that_are_not_read_are_passed_by() -> None:
    broken = b"D" + struct.pack(">I", 1) + b"K" + row([b("i", 1), None])
    messages = [begin(1), relation(1, ONE), broken, relation(2, ONE), insert(2, [b("i", 2), None]), commit(1)]
    decoded = Decoder(tables={2}).decode(block(*messages))
    assert not decoded.unfit
    assert [one.relation.oid for one in decoded.changes] == [2]
    assert decoded.changes[0].rows["_seq"].to_pylist() == [2]  # the place of a change does not depend on who reads


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
    with suppress(MalformedStream):
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
