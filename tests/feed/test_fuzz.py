"""Damaged bytes in the stream: an error of ours, or what is still there as a plain reader reads it; nothing else."""

from __future__ import annotations

import json
import struct
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_network
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
    from collections.abc import Callable, Iterator

    Kinds = dict[str, tuple[str, st.SearchStrategy[str]]]

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


ANY: Kinds = {
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
# A domain over each of them, and one over one of these: as the type beneath, but without its length or precision.
DOMAINS: Kinds = {f"{name}_domain": (f"of_{name}", some) for name, (_, some) in ANY.items()}
DOMAINS["i4_twice_domain"] = ("of_of_i4", ANY["i4"][1])
OVER = {f"of_{name}": kind for name, (kind, _) in ANY.items()} | {"of_of_i4": "of_i4"}
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


def streamed(source: Source, kinds: Kinds, data: st.DataObject) -> None:
    """Four rows with values of these kinds, and nothing else in the slot."""
    values = {name: data.draw(st.lists(st.none() | some, min_size=4, max_size=4)) for name, (_, some) in kinds.items()}
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    source.run("DROP TABLE IF EXISTS anything", f"CREATE TABLE anything (at int4, {columns})")
    source.session.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", [source.slot])
    places = sql.SQL(", ").join(
        sql.SQL("%s::{}").format(sql.SQL(kind)) for kind in ("int4", *(kind for kind, _ in kinds.values()))
    )
    with source.session.transaction():
        for at in range(4):
            row = [at, *(values[name][at] for name in kinds)]
            source.session.execute(sql.SQL("INSERT INTO anything VALUES ({})").format(places), row)


def shown(source: Source, texts: list[str]) -> list[tuple[Any, ...]]:
    asked = f"SELECT {', '.join(texts)} FROM anything ORDER BY at"
    return psycopg.Cursor(source.session).execute(asked.encode()).fetchall()


def decoded(source: Source, binary: bool, speller: Speller | None = None) -> list[dict[str, Any]]:
    found = Decoder(source.forms(), None, speller).decode(block(*source.peek(binary)))
    assert not found.unfit
    (change,) = found.changes
    assert change.rows["_unrepresentable"].null_count == 4
    rows: list[dict[str, Any]] = change.rows.to_pylist()
    return rows


@pytest.fixture
def with_domains(source: Source) -> Source:
    source.run(*(f"CREATE DOMAIN {name} AS {kind}" for name, kind in OVER.items()))
    return source


@pytest.mark.parametrize("binary", [True, False])
@settings(max_examples=25)
@given(data=st.data())
def test_m12_any_value_of_any_type_is_what_postgres_writes(
    with_domains: Source, binary: bool, data: st.DataObject
) -> None:
    kinds = ANY | DOMAINS
    streamed(with_domains, kinds, data)
    # As a text a char(n) loses the blanks at its end; in the lake it has all n characters, as SELECT shows it.
    plainly = [name if name.partition("_")[0] in ("f4", "f8", "bp") else f"{name}::text" for name in kinds]
    told_rows = shown(with_domains, plainly)
    for found, told in zip(decoded(with_domains, binary), told_rows, strict=True):
        for name, text in zip(kinds, told, strict=True):
            base = name.partition("_")[0]
            if base == "f4" and text is not None:
                assert repr(np.float32(found[name])) == repr(np.float32(text)), name
            elif base in ("f4", "f8"):
                assert repr(found[name]) == repr(text), name
            elif base == "tz" and text is not None:
                assert found[name] == _moment(text), name
            elif base == "ts" and text is not None:
                assert found[name] == datetime.fromisoformat(text), name
            else:
                assert written(base, found[name]) == text, name
            if base == "bp" and text is not None:
                assert len(found[name]) == 40, name


@pytest.mark.parametrize("binary", [True, False])
def test_m12_xml_is_what_postgres_writes(source: Source, binary: bool) -> None:
    try:
        source.ask("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without libxml")
    values = ["<a/>", "läßt <b c='1'>\n</b>", '<?xml version="1.0" standalone="yes"?><a>&#228;</a>', "", None]
    source.run("CREATE TABLE anything (at int4, x xml)")
    with source.session.transaction():
        source.session.cursor().executemany("INSERT INTO anything VALUES (%s, %s)", list(enumerate(values)))
    found = [row["x"] for row in source.rows(binary)]
    assert found == [text for (text,) in shown(source, ["x::text"])]


def _moment(text: str) -> datetime:
    """As PostgreSQL writes it in UTC."""
    return datetime.fromisoformat(text.removesuffix("+00")).replace(tzinfo=UTC) + timedelta()


# ---- what only PostgreSQL can read -----------------------------------------------------------


def quoted(words: list[str | None]) -> str:
    """An array of texts as PostgreSQL reads it."""
    escaped = (one and one.replace("\\", "\\\\").replace('"', '\\"') for one in words)
    return "{" + ",".join("NULL" if one is None else f'"{one}"' for one in escaped) + "}"


def arrays(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.none() | of, max_size=5).map(quoted)


def ranges(of: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """With and without bounds, either of them in it or not."""
    marks = st.tuples(st.sampled_from("[("), st.sampled_from("])"))

    def told(both: tuple[Any, Any], marks: tuple[str, str]) -> str:
        low, high = both if None in both else sorted(both)
        first, last = ("" if one is None else f'"{one}"' for one in (low, high))
        return f"{marks[0]}{first},{last}{marks[1]}"

    return st.just("empty") | st.builds(told, st.tuples(st.none() | of, st.none() | of), marks)


def multiranges(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(of, max_size=4).map(lambda some: "{" + ",".join(some) + "}")


def points(least: int, most: int, form: str) -> st.SearchStrategy[str]:
    """So many of them; -0, infinities and NaN too."""
    one = st.builds("({!r},{!r})".format, st.floats(), st.floats())
    return st.lists(one, min_size=least, max_size=most).map(lambda some: form.format(",".join(some)))


def lexemes() -> st.SearchStrategy[str]:
    """Words with places and weights, quoted."""
    place = st.builds("{}{}".format, st.integers(1, 16383), st.sampled_from(["", "A", "B", "C", "D"]))
    word = st.text("ab 'ä\\:", min_size=1, max_size=5).map(lambda w: w.replace("\\", "\\\\").replace("'", "''"))
    places = st.lists(place, max_size=3).map(lambda some: ":" * bool(some) + ",".join(some))
    return st.lists(st.builds("'{}'{}".format, word, places), max_size=4).map(" ".join)


def spans() -> st.SearchStrategy[str]:
    return st.builds("{} mons {} days {} us".format, *map(around, (10**6, 10**6, 10**15)))


def around(most: int) -> st.SearchStrategy[int]:
    return st.integers(-most, most)


def hosts() -> st.SearchStrategy[str]:
    four, six = st.ip_addresses(v=4), st.ip_addresses(v=6)
    return st.builds("{}/{}".format, four, st.integers(0, 32)) | st.builds("{}/{}".format, six, st.integers(0, 128))


def hexes(count: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=count, max_size=count).map(lambda raw: raw.hex(":"))


WHOLE = st.integers(-(2**31), 2**31 - 2)
EXACT = decimals(30, 12).map(Decimal)
LABELS = ["happy", "so so", 'with "quotes"', "läßt", "{}", "NULL", "\\"]
SPELLED: Kinds = {
    "span": ("interval", spans()),
    "hour": ("time", st.times().map(str)),
    "there": ("timetz", st.builds("{}{}{:02}:{:02}:{:02}".format, st.times(), st.sampled_from("+-"), st.integers(0, 14),
                                  st.integers(0, 59), st.integers(0, 59))),
    "host": ("inet", hosts()),
    "net": ("cidr", hosts().map(lambda host: str(ip_network(host, strict=False)))),
    "mac": ("macaddr", hexes(6)),
    "mac8": ("macaddr8", hexes(8)),
    "counts": ("int4[]", arrays(WHOLE.map(str))),
    "tags": ("text[]", arrays(words())),
    "prices": ("numeric(10,2)[]", arrays(decimals(10, 2) | st.just("NaN"))),
    "sums": ("numeric[]", arrays(decimals(60, 17) | st.sampled_from(["NaN", "Infinity", "-Infinity"]))),
    "times": ("timestamptz[]", arrays(ANY["tz"][1] | st.sampled_from(["infinity", "-infinity"]))),
    "spans": ("interval[]", arrays(spans())),
    "raws": ("bytea[]", arrays(ANY["raw"][1])),
    "fixed": ("char(4)[]", arrays(st.text("a ä", max_size=4))),
    "between": ("int4range", ranges(WHOLE)),
    "exactly": ("numrange", ranges(EXACT)),
    "during": ("tstzrange", ranges(moments(1, 9999))),
    "gaps": ("int4multirange", multiranges(ranges(WHOLE))),
    "holes": ("nummultirange", multiranges(ranges(EXACT))),
    "shifts": ("tstzmultirange", multiranges(ranges(moments(1, 9999)))),
    "spot": ("point", points(1, 1, "{}")),
    "ray": ("line", st.builds("{{{},{},{}}}".format, st.integers(1, 10**9), around(10**9), st.floats())),
    "piece": ("lseg", points(2, 2, "[{}]")),
    "frame": ("box", points(2, 2, "{}")),
    "way": ("path", points(1, 5, "[{}]") | points(1, 5, "({})")),
    "shape": ("polygon", points(1, 5, "({})")),
    "ring": ("circle", st.builds("<{},{!r}>".format, points(1, 1, "{}"), st.floats(0, allow_nan=False))),
    "bits": ("bit(7)", st.text("01", min_size=7, max_size=7)),
    "more": ("varbit", st.text("01", max_size=40)),
    "lexed": ("tsvector", lexemes()),
    "asked": ("tsquery", st.sampled_from(["'ä'", "'a' & !'b c'", "'fat':*AB <2> ('x''y' | 'z')", "!!'ä'"])),
    "place": ("pg_lsn", st.integers(0, 2**64 - 1).map(lambda at: f"{at >> 32:X}/{at & 0xFFFFFFFF:X}")),
    "way_in": ("jsonpath", st.builds("{} $.{}[*] ? (@ > {} && @ != {})".format, st.sampled_from(["lax", "strict"]),
                                     st.sampled_from(["a", '"b c"', "*", "ä"]), decimals(20, 5),
                                     st.text('ab."\\ä').map(json.dumps))),
    "feels": ("feeling", st.sampled_from(LABELS)),
    "felt": ("feeling[]", arrays(st.sampled_from(LABELS))),
    "scale": ("feelings", st.sampled_from(["empty", "(,)", '[happy,"so so"]', '("so so",läßt]'])),
    "few": ("few", arrays(WHOLE.map(str))),
    "pause": ("pause", spans()),
    "pauses": ("pause[]", arrays(spans())),
    "mood": ("mood", st.sampled_from(LABELS)),
    "inside": ("inside", ranges(WHOLE)),
}  # fmt: skip


@pytest.fixture
def with_types(source: Source) -> Source:
    labels = ", ".join(f"'{one}'" for one in LABELS)
    source.run(
        f"CREATE TYPE feeling AS ENUM ({labels})",
        "CREATE TYPE feelings AS RANGE (subtype = feeling)",
        "CREATE DOMAIN few AS int4[] CHECK (cardinality(value) < 9)",
        "CREATE DOMAIN pause AS interval CHECK (isfinite(value))",
        "CREATE DOMAIN mood AS feeling",
        "CREATE DOMAIN inside AS int4range",
        *(f"SET {one.strip()}" for one in PLAINLY.split("-c ") if one.strip()),
    )
    return source


@pytest.fixture
def speller(dsn: str) -> Iterator[Speller]:
    with ExitStack() as resources:
        yield Speller(dsn, resources)


@pytest.mark.parametrize("group", range(4))
@settings(max_examples=15)
@given(data=st.data())
def test_m12_any_value_that_is_spelled_is_what_postgres_writes(
    with_types: Source, speller: Speller, group: int, data: st.DataObject
) -> None:
    kinds = {name: SPELLED[name] for name in list(SPELLED)[group::4]}
    streamed(with_types, kinds, data)
    told_rows = shown(with_types, [f"{name}::text" for name in kinds])
    for found, told in zip(decoded(with_types, True, speller), told_rows, strict=True):
        assert {name: found[name] for name in kinds} == dict(zip(kinds, told, strict=True))
