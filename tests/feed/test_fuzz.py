"""Damaged bytes in the stream: an error of ours, or what is still there as a plain reader reads it; nothing else."""

from __future__ import annotations

import json
import struct
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from feed.test_real_stream import Source, source
from harness.pgoutput import (
    Cell,
    Unusual,
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
    t,
    truncate,
    update,
    user_type,
)
from thermocline.errors import ThermoclineError
from thermocline.feed.pgoutput import Decoder
from thermocline.hot import types
from thermocline.hot.connection import PLAINLY
from thermocline.hot.spelling import Speller

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["source"]  # the fixture

EVERY = [
    ("flag", types.BOOL, -1),
    ("i2", types.INT2, -1),
    ("i4", types.INT4, -1),
    ("i8", types.INT8, -1),
    ("o", types.OID, -1),
    ("f4", types.FLOAT4, -1),
    ("f8", types.FLOAT8, -1),
    ("txt", types.TEXT, -1),
    ("raw", types.BYTEA, -1),
    ("d", types.DATE, -1),
    ("ts", types.TIMESTAMP, -1),
    ("tz", types.TIMESTAMPTZ, -1),
    ("n", types.NUMERIC, (10 << 16 | 2) + 4),
    ("free", types.NUMERIC, -1),
    ("u", types.UUID, -1),
    ("jb", types.JSONB, -1),
]
SENT: list[Cell] = [
    b("B", 1), b("h", -2), b("i", 3), b("q", -4), b("I", 5), b("f", 1.5), b("d", -2.5), b"bplain", b"b\x00\xff",
    b("i", 8000), b("q", 7 * 10**14), b("q", -(10**14)), numeric(Decimal("-12345.67")), numeric(Decimal("1e30")),
    b"b" + bytes(range(16)), b'b\x01{"a": 1}',
]  # fmt: skip
TOLD: list[Cell] = [
    t("f"), t("-2"), t("3"), t("-4"), t("5"), t("1.5"), t("-2.5"), t("läßt"), t("\\x00ff"), t("2024-02-29"),
    t("2024-02-29 12:34:56.789"), t("2024-02-29 12:34:56+05:30"), t("-12345.67"), t("1e2".replace("e", "")), t(
        "00010203-0405-0607-0809-0a0b0c0d0e0f"), t('{"a": 1}'),
]  # fmt: skip
NULLS: list[Cell] = [None] * len(EVERY)
KEPT: list[Cell] = ["u"] * len(EVERY)
STREAM = [
    begin(100),
    user_type(9000, "public", "mood"),
    relation(1, EVERY),
    insert(1, SENT),
    insert(1, TOLD),
    insert(1, NULLS),
    update(1, SENT, TOLD),
    update(1, TOLD, KEPT),
    delete(1, SENT),
    message(True, 7, "thermocline", b'{"event": "fence"}'),
    truncate([1]),
    commit(100),
    message(False, 9, "p", b""),
    begin(200),
    insert(1, TOLD),
    commit(200),
]


def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """One message with some bytes changed, cut out, put in, or doubled."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(changed) - 1, 0)))
        match draw(st.sampled_from(["byte", "bit", "cut", "in", "double", "number"])):
            case "byte" if changed:
                changed[at] = draw(st.integers(0, 255))
            case "bit" if changed:
                changed[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del changed[at : at + draw(st.integers(1, 9))]
            case "in":
                changed[at:at] = draw(st.binary(min_size=1, max_size=9))
            case "double":
                changed[at:at] = changed[at : at + draw(st.integers(1, 30))]
            case "number":  # a length, a count, a type: the largest, the smallest, one off
                width, layout = draw(st.sampled_from([(2, ">h"), (4, ">i"), (8, ">q")]))
                bound = 1 << (8 * width - 1)
                number = draw(st.sampled_from([0, 1, -1, bound - 1, -bound, width]))
                changed[at : at + width] = struct.pack(layout, number)
    return bytes(changed)


@st.composite
def damaged_streams(draw: st.DrawFn) -> list[bytes]:
    messages = list(STREAM)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(messages) - 1))
        match draw(st.sampled_from(["damage", "damage", "damage", "drop", "repeat", "swap"])):
            case "damage":
                messages[at] = damaged(draw, messages[at])
            case "drop":
                del messages[at]
            case "repeat":
                messages.insert(at, messages[at])
            case "swap":
                other = draw(st.integers(0, len(messages) - 1))
                messages[at], messages[other] = messages[other], messages[at]
    return messages


@settings(max_examples=500)
@given(messages=damaged_streams(), size=st.integers(1, 20))
def test_m12_damaged_bytes_give_an_error_of_ours_or_what_a_plain_reader_sees(messages: list[bytes], size: int) -> None:
    try:
        decoded = decode_in_blocks(messages, size)
    except ThermoclineError as error:
        assert error.code.startswith("feed.")
        assert error.message
        assert error.next_step
        return
    if any(part.unfit for part in decoded):
        return
    for part in decoded:
        for change in part.changes:
            change.rows.validate(full=True)
    try:
        expected = reference(messages)
    except Unusual:
        return
    found = as_expected(decoded)
    assert found.rows == expected.rows
    assert found.truncates == expected.truncates
    assert found.messages == expected.messages
    assert (found.end, found.transactions) == (expected.end, expected.transactions)


@settings(max_examples=300)
@given(messages=st.lists(st.binary(max_size=60), max_size=8))
@example([b"R" + bytes(40)])
@example([b"I" + bytes(40)])
def test_noise_is_no_stream(messages: list[bytes]) -> None:
    try:
        decoded = Decoder().decode(block(*messages))
    except ThermoclineError as error:
        assert error.code.startswith("feed.")
        return
    assert not decoded.changes


# ---- what PostgreSQL itself writes -----------------------------------------------------------


def moments(first: int, last: int) -> st.SearchStrategy[datetime]:
    return st.datetimes(datetime(first, 1, 1), datetime(last, 12, 31))  # noqa: DTZ001 (zones come later)


def words() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def decimals(digits: int, scale: int) -> st.SearchStrategy[str]:
    """Exactly: arithmetic of Python's decimals would round to 28 digits."""
    numbers = st.integers(-(10**digits) + 1, 10**digits - 1)
    return numbers.map(lambda n: f"{Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)):f}")


ANY: dict[str, tuple[str, st.SearchStrategy[str]]] = {
    "flag": ("bool", st.sampled_from(["t", "f"])),
    "i2": ("int2", st.integers(-(2**15), 2**15 - 1).map(str)),
    "i4": ("int4", st.integers(-(2**31), 2**31 - 1).map(str)),
    "i8": ("int8", st.integers(-(2**63), 2**63 - 1).map(str)),
    "o": ("oid", st.integers(0, 2**32 - 1).map(str)),
    "f4": ("float4", st.floats(width=32).map(repr)),
    "f8": ("float8", st.floats().map(repr)),
    "txt": ("text", words()),
    "vc": ("varchar(40)", words()),
    "bp": ("char(40)", words()),
    "nm": ("name", st.text("abc_ 9", max_size=20)),
    "c": ('"char"', st.sampled_from("aZ~ 0")),
    "js": ("json", st.dictionaries(st.text("ab"), st.integers() | st.text("ä\"\\x")).map(json.dumps)),
    "jb": ("jsonb", st.dictionaries(st.text("ab"), st.integers() | st.text("ä\"\\x")).map(json.dumps)),
    "raw": ("bytea", st.binary(max_size=40).map(lambda raw: "\\x" + raw.hex())),
    "d": ("date", st.dates().map(str)),
    "ts": ("timestamp", moments(1, 9999).map(str)),
    "tz": ("timestamptz", moments(2, 9998).flatmap(
        lambda at: st.integers(-15 * 60, 15 * 60).map(
            lambda minutes: f"{at}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"))),
    "n1": ("numeric(10,2)", decimals(10, 2)),
    "n2": ("numeric(38,10)", decimals(38, 10)),
    "n3": ("numeric(38,38)", decimals(38, 38)),
    "n4": ("numeric(18,0)", decimals(18, 0)),
    "n5": ("numeric", decimals(60, 17)),
    "n6": ("numeric(50,5)", decimals(50, 5)),
    "u": ("uuid", st.uuids().map(str)),
}  # fmt: skip
_TEMPORAL: dict[str, Callable[[Any], str]] = {
    "d": str,
    "ts": lambda at: at.isoformat(" "),
    "tz": lambda at: (datetime(1970, 1, 1, tzinfo=UTC) + (at - datetime(1970, 1, 1, tzinfo=UTC))).isoformat(" "),
}


def written(name: str, value: Any) -> Any:
    """A value of the lake in PostgreSQL's own words, or in its own type where those have several ways."""
    if value is None:
        return None
    if name in _TEMPORAL:
        return _TEMPORAL[name](value)
    if name == "flag":
        return "true" if value else "false"
    if name == "raw":
        return "\\x" + value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if isinstance(value, str) else str(value)


@pytest.mark.parametrize("binary", [True, False])
@settings(max_examples=25)
@given(data=st.data())
def test_m12_any_value_of_any_type_is_what_postgres_writes(source: Source, binary: bool, data: st.DataObject) -> None:
    values = {name: data.draw(st.lists(st.none() | some, min_size=4, max_size=4)) for name, (_, some) in ANY.items()}
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in ANY.items())
    source.run("DROP TABLE IF EXISTS anything", f"CREATE TABLE anything (at int4, {columns})")
    places = sql.SQL(", ").join(
        sql.SQL("%s::{}").format(sql.SQL(kind)) for kind in ("int4", *(kind for kind, _ in ANY.values()))
    )
    before = source.ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0]
    with source.session.transaction():
        for at in range(4):
            row = [at, *(values[name][at] for name in ANY)]
            source.session.execute(sql.SQL("INSERT INTO anything VALUES ({})").format(places), row)
    texts = ", ".join(name if name in ("f4", "f8") else f"{name}::text" for name in ANY)
    shown = psycopg.Cursor(source.session).execute(f"SELECT {texts} FROM anything ORDER BY at".encode()).fetchall()
    (change,) = (
        one
        for part in [Decoder(source.forms()).decode(block(*source.peek(binary)))]
        for one in part.changes
        if one.rows["_lsn"][0].as_py() >= before
    )
    assert change.rows["_unrepresentable"].null_count == 4
    for found, told in zip(change.rows.to_pylist(), shown, strict=True):
        for name, text in zip(ANY, told, strict=True):
            if name == "f4" and text is not None:
                assert repr(np.float32(found[name])) == repr(np.float32(text)), name
            elif name in ("f4", "f8"):
                assert repr(found[name]) == repr(text), name
            elif name == "tz" and text is not None:
                assert found[name] == _moment(text), name
            elif name == "ts" and text is not None:
                assert found[name] == datetime.fromisoformat(text), name
            elif name == "bp" and text is not None:
                assert found[name] is not None
                assert found[name].rstrip(" ") == text.rstrip(" "), name
            else:
                assert written(name, found[name]) == text, name


def _moment(text: str) -> datetime:
    """As PostgreSQL writes it in UTC."""
    return datetime.fromisoformat(text.removesuffix("+00")).replace(tzinfo=UTC) + timedelta()


# ---- what only PostgreSQL can read -----------------------------------------------------------


def quoted(words: list[str | None]) -> str:
    """An array of texts as PostgreSQL reads it."""
    escaped = (one and one.replace("\\", "\\\\").replace('"', '\\"') for one in words)
    return "{" + ",".join("NULL" if one is None else f'"{one}"' for one in escaped) + "}"


def arrays_of_numbers() -> st.SearchStrategy[str]:
    numbers = st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=6)
    return numbers.map(lambda found: "{" + ",".join("NULL" if one is None else str(one) for one in found) + "}")


def ranges() -> st.SearchStrategy[str]:
    """With and without bounds, either of them in it or not."""
    bound = st.none() | st.integers(-(2**31), 2**31 - 2)
    marks = st.tuples(st.sampled_from("[("), st.sampled_from("])"))

    def told(both: tuple[int | None, int | None], marks: tuple[str, str]) -> str:
        low, high = sorted(both) if None not in both else both  # type: ignore[type-var]
        return f"{marks[0]}{'' if low is None else low},{'' if high is None else high}{marks[1]}"

    return st.just("empty") | st.builds(told, st.tuples(bound, bound), marks)


def around(most: int) -> st.SearchStrategy[int]:
    return st.integers(-most, most)


LABELS = ["happy", "so so", 'with "quotes"', "läßt", "{}", "NULL", "\\"]
SPELLED: dict[str, tuple[str, st.SearchStrategy[str]]] = {
    "span": ("interval", st.builds("{} mons {} days {} us".format, *map(around, (10**6, 10**6, 10**15)))),
    "hour": ("time", st.times().map(str)),
    "there": ("timetz", st.builds("{}{}{:02}:{:02}:{:02}".format, st.times(), st.sampled_from("+-"), st.integers(0, 14),
                                  st.integers(0, 59), st.integers(0, 59))),
    "host": ("inet", st.ip_addresses(v=4).flatmap(lambda ip: st.integers(0, 32).map(lambda n: f"{ip}/{n}"))
             | st.ip_addresses(v=6).flatmap(lambda ip: st.integers(0, 128).map(lambda n: f"{ip}/{n}"))),
    "counts": ("int4[]", arrays_of_numbers()),
    "tags": ("text[]", st.lists(st.none() | words(), max_size=5).map(quoted)),
    "between": ("int4range", ranges()),
    "bits": ("bit(7)", st.text("01", min_size=7, max_size=7)),
    "more": ("varbit", st.text("01", max_size=40)),
    "feels": ("feeling", st.sampled_from(LABELS)),
    "felt": ("feeling[]", st.lists(st.none() | st.sampled_from(LABELS), max_size=4).map(quoted)),
    "few": ("few", arrays_of_numbers()),
}  # fmt: skip


@settings(max_examples=20)
@given(data=st.data())
def test_m12_any_value_that_is_spelled_is_what_postgres_writes(source: Source, dsn: str, data: st.DataObject) -> None:
    values = {
        name: data.draw(st.lists(st.none() | some, min_size=4, max_size=4)) for name, (_, some) in SPELLED.items()
    }
    if not source.ask("SELECT FROM pg_type WHERE typname = 'feeling'"):
        labels = ", ".join(f"'{one}'" for one in LABELS)
        source.run(
            f"CREATE TYPE feeling AS ENUM ({labels})", "CREATE DOMAIN few AS int4[] CHECK (cardinality(value) < 9)"
        )
        source.run(*(f"SET {one.strip()}" for one in PLAINLY.split("-c ") if one.strip()))
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in SPELLED.items())
    source.run("DROP TABLE IF EXISTS spelled", f"CREATE TABLE spelled (at int4, {columns})")
    places = sql.SQL(", ").join(
        sql.SQL("%s::{}").format(sql.SQL(kind)) for kind in ("int4", *(kind for kind, _ in SPELLED.values()))
    )
    before = source.ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0]
    with source.session.transaction():
        for at in range(4):
            row = [at, *(values[name][at] for name in SPELLED)]
            source.session.execute(sql.SQL("INSERT INTO spelled VALUES ({})").format(places), row)
    texts = ", ".join(f"{name}::text" for name in SPELLED)
    shown = psycopg.Cursor(source.session).execute(f"SELECT {texts} FROM spelled ORDER BY at".encode()).fetchall()
    with ExitStack() as resources:
        decoded = Decoder(source.forms(), None, Speller(dsn, resources)).decode(block(*source.peek()))
    (change,) = (one for one in decoded.changes if one.rows["_lsn"][0].as_py() >= before)
    assert not decoded.unfit
    assert change.rows["_unrepresentable"].null_count == 4
    for found, told in zip(change.rows.to_pylist(), shown, strict=True):
        assert {name: found[name] for name in SPELLED} == dict(zip(SPELLED, told, strict=True))
