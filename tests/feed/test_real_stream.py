"""The decoder on what a real server streams: every type, every kind of change, any size of block."""

from __future__ import annotations

import itertools
import json
import struct
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from thermocline.feed.pgoutput import Decoder, IncompleteRow
from thermocline.hot import types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thermocline.errors import Refused

from harness.pgoutput import as_expected, block, decode_in_blocks, reference, told_rows

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

    def unfit(self) -> Refused:
        """Why the one table that changed cannot be told."""
        (refused,) = Decoder(self.forms()).decode(block(*self.peek())).unfit.values()
        return refused


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
        "INSERT INTO odd VALUES (4, '0001-01-01', '9999-12-31 23:59:59.999999', '0001-01-01 00:00:00+00', 1)",
    )
    for binary in (True, False):
        (change,) = Decoder().decode(block(*source.peek(binary))).changes
        told = [json.loads(text) if text else None for text in change.rows["_unrepresentable"].to_pylist()]
        assert told == [
            *({name: value} for name, (_, some) in values.items() for value in some),
            {"d": "infinity", "ts": "infinity", "tz": "-infinity", "n": "NaN"},
            {"d": "5874897-12-31", "ts": "294247-01-10 04:00:54.775807", "tz": "4713-01-01 00:00:00+00 BC"},
            None,
        ]
        assert change.rows["fine"].null_count == 0
        last = change.rows.slice(change.rows.num_rows - 1)
        ((days, early),) = source.ask(
            "SELECT d - '1970-01-01'::date, extract(epoch FROM tz)::int8 * 1000000 FROM odd WHERE fine = 4"
        )
        assert last["d"].cast(pa.int32()).to_pylist() == [days]
        assert last["ts"].cast(pa.int64()).to_pylist() == [253_402_300_799_999_999]
        assert last["tz"].cast(pa.int64()).to_pylist() == [early]
        assert all(last[name].null_count == 0 for name in values)
        assert all(change.rows[name].null_count == change.rows.num_rows - 1 for name in values if name != "n")


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
    assert "public.strange.wrong" in source.unfit().message


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
    assert isinstance(source.unfit(), IncompleteRow)


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
