"""Types without a place of their own in the lake: there they are what PostgreSQL writes, however they came."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.lakes import NOON, Lake
from thermocline.hot.connection import PLAINLY
from thermocline.hot.spelling import Speller, _copied
from thermocline.hot.types import UnsupportedType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Name, type and values.
ODD: list[tuple[str, str, list[str]]] = [
    ("span", "interval", ["1 year 2 mons -3 days 04:05:06.7", "-00:00:00.000001", "0"]),
    ("hour", "time", ["00:00:00", "23:59:59.999999", "24:00:00"]),
    ("hour_there", "timetz", ["12:00:00+05:30", "00:00:00-15:59:59"]),
    ("host", "inet", ["::1", "10.1.2.3/8", "fe80::1/64"]),
    ("net", "cidr", ["10.0.0.0/8", "2001:db8::/32"]),
    ("mac", "macaddr", ["08:00:2b:01:02:03"]),
    ("mac8", "macaddr8", ["08:00:2b:01:02:03:04:05"]),
    ("counts", "int4[]", ["{}", "{1,2,NULL}", "{{1,2},{3,4}}", "[0:1]={7,8}"]),
    ("words", "text[]", ['{"",NULL,"NULL","a b","läßt \\"🐘\\"","{x}"}']),
    ("prices", "numeric(10,2)[]", ["{1.50,NaN,-99999999.99}"]),
    ("times", "timestamptz[]", ['{"2024-02-29 12:34:56.789012+05:30",infinity}']),
    ("spans", "interval[]", ['{"1 mon",-5s}']),
    ("raws", "bytea[]", ['{"\\\\x00ff",""}']),
    ("moods", "mood[]", ['{happy,"so so"}']),
    ("range", "int4range", ["[1,10)", "empty", "(,5]"]),
    ("during", "tstzrange", ['["2024-01-01 00:00+00","2024-02-01 00:00+00")']),
    ("exactly", "numrange", ["[-0.50,1e20]", "(,)"]),
    ("holes", "nummultirange", ["{[1.5,2.5],(7,8)}", "{}"]),
    ("spot", "point", ["(1.5,-2)", "(0.1,1e300)"]),
    ("shape", "polygon", ["((0,0),(1,0),(1,1))"]),
    ("ray", "line", ["{1,-2,0.1}"]),
    ("piece", "lseg", ["[(0,0),(-0,1e-300)]"]),
    ("frame", "box", ["(0,0),(1,Infinity)"]),
    ("way", "path", ["[(0,0),(1,0)]", "((0,0),(1,0))"]),
    ("ring", "circle", ["<(1,NaN),0.5>"]),
    ("bits", "bit(3)", ["101"]),
    ("more_bits", "varbit", ["", "10101010101"]),
    ("lexemes", "tsvector", ["a:1A fat:2 'cat''s':3"]),
    ("asked", "tsquery", ["'fat':*A & !'cat''s'"]),
    ("place", "pg_lsn", ["16/B374D848"]),
    ("path", "jsonpath", ["$.a[*] ? (@ > 1)"]),
    ("few", "few", ["{1,2,3}"]),
    ("rating", "grades", ['[happy,"so so"]']),
    ("price", "price", ["1.5", "-99999999.99", "NaN"]),
    ("pause", "pause", ["90 minutes"]),
    ("label", "label", ["", "läßt"]),
    ("feels", "feels", ["so so"]),
    ("twice", "twice", ["-7"]),
    ("share", "share", ["0.1", "Infinity"]),
    ("moment", "moment", ["2024-02-29 12:34:56.789012+05:30"]),
    ("raw", "raw", ["", "\\x00ff"]),
    ("yes", "yes", ["t", "f"]),
    ("code", "char(4)", ["ab", "", "läßt"]),
    ("coded", "coded", ["ab", "", "läßt"]),
]
DOMAINS = {
    "few": "int4[] CHECK (cardinality(value) < 9)", "price": "numeric(10,2)", "pause": "interval",
    "label": "varchar(9)", "feels": "mood", "once": "int4", "twice": "once", "share": "float8", "moment": "timestamptz",
    "raw": "bytea", "yes": "bool", "coded": "char(4)",
}  # fmt: skip
# Those that have a place of their own in the lake; and a char(n), which has all its blanks there, and none as a text.
PLACED = ("twice", "share", "moment", "raw", "yes", "code", "coded")
TYPES = Path(__file__).parents[2] / "docs" / "reference" / "history-tables.md"
SETTINGS = [setting.strip() for setting in PLAINLY.split("-c ") if setting.strip()]


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """A table with a column of each, and rows of each."""
    odd = Lake.of(dsn, tmp_path / "home")
    odd.run(
        "CREATE TYPE mood AS ENUM ('happy', 'so so', 'sad')",
        "CREATE TYPE grades AS RANGE (subtype = mood)",
        *(f"CREATE DOMAIN {name} AS {kind}" for name, kind in DOMAINS.items()),
        f"CREATE TABLE m (ts timestamptz NOT NULL, id int, {', '.join(f'{name} {kind}' for name, kind, _ in ODD)})",
    )
    write(odd, 1)
    write(odd, 2)
    odd.run("SELECT lakets.create_chronotable('m', 'ts', '1 day')", f"DELETE FROM m WHERE ts = '{NOON[2]}'")
    return odd


def write(lake: Lake, day: int) -> None:
    """A row of NULLs, and one for each value."""
    with psycopg.connect(lake.dsn) as session:
        session.execute("INSERT INTO m (ts, id) VALUES (%s, -1)", [NOON[day]])
        for at, (name, kind, values) in enumerate(ODD):
            for value in values:
                statement = f"INSERT INTO m (ts, id, {name}) VALUES (%s, %s, %s::{kind})"
                session.execute(statement.encode(), [NOON[day], at, value])


def in_postgres(lake: Lake) -> list[tuple[object, ...]]:
    """Every row with its texts, as they are written for the lake."""
    names = ", ".join(name if name in PLACED else f"{name}::text" for name, _, _ in ODD)
    return sorted(lake.run(*(f"SET {setting}" for setting in SETTINGS), f"SELECT ts, id, {names} FROM m"), key=repr)


def in_lake(lake: Lake) -> list[tuple[object, ...]]:
    names = ["ts", "id", *(name for name, _, _ in ODD)]
    rows = [(row["_change_type"], tuple(row[name] for name in names)) for row in lake.history().to_pylist()]
    found = [row for kind, row in rows if kind in ("insert", "update_postimage")]
    for kind, row in rows:
        if kind in ("delete", "update_preimage"):
            found.remove(row)
    return sorted(found, key=repr)


def test_m12_copied_and_streamed_they_are_what_postgres_writes(lake: Lake) -> None:
    lake.synced().drain()
    copied = in_lake(lake)
    assert copied == in_postgres(lake)
    assert ("P1Y2M-3DT4H5M6.7S",) in {row[2:3] for row in copied}
    write(lake, 2)
    lake.run(
        f"UPDATE m SET id = id + 100 WHERE ts = '{NOON[2]}'",
        f"DELETE FROM m WHERE ts = '{NOON[1]}' AND words IS NULL",
        "UPDATE m SET words = '{new}' WHERE words IS NOT NULL",
    )
    lake.drain()
    assert lake.run("SELECT status, reason FROM thermocline.synced_table") == [("STREAMING", None)]
    assert in_lake(lake) == in_postgres(lake)
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify()
    assert {line.verdict for line in lines} == {"proven"}


def test_m17_renamed_labels_inside_of_arrays_and_ranges_have_the_chunks_copied_again(lake: Lake) -> None:
    lake.synced().drain()
    lake.run("ALTER TYPE mood RENAME VALUE 'so so' TO 'middling'")
    lake.drain()
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify()
    assert {line.verdict for line in lines} == {"proven"}
    ((newest,),) = lake.run("SELECT max(position)::text FROM thermocline.chunk_copy")
    assert newest
    told = {row["moods"] for row in lake.history().to_pylist()}
    assert "{happy,middling}" in told


def test_a_column_added_later_has_its_default_in_the_lake_as_it_is_written(lake: Lake) -> None:
    lake.synced().drain()
    lake.run("ALTER TABLE m ADD COLUMN wait interval DEFAULT '90 minutes', ADD COLUMN list int[] DEFAULT '{1,2}'")
    write(lake, 2)
    lake.drain()
    rows = [row for row in lake.history().to_pylist() if row["_change_type"] == "insert" and row["ts"] == NOON[2]]
    assert {(row["wait"], row["list"]) for row in rows} == {("PT1H30M", "{1,2}")}
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify()
    assert {line.verdict for line in lines} == {"proven"}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("money", "reads differently"),
        ("regclass", "reads differently"),
        ("regtype[]", "reads differently"),
        ("pair", "is composite"),
        ("pair[]", "is composite"),
    ],
)
def test_what_is_not_kept_is_refused_by_name_at_once_and_later(dsn: str, tmp_path: Path, kind: str, why: str) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run("CREATE TYPE pair AS (a int, b int)", f"ALTER TABLE m ADD COLUMN odd {kind}")
    with pytest.raises(psycopg.errors.RaiseException, match=rf"its column odd has the type \S+, which {why}"):
        lake.run("SELECT lakets.enable_sync('m')")
    lake.run("ALTER TABLE m DROP COLUMN odd")
    lake.synced().drain()
    lake.run(f"ALTER TABLE m ADD COLUMN odd {kind}")
    lake.drain()
    ((status, reason),) = lake.run("SELECT status, reason FROM thermocline.synced_table")
    assert status == "SKIPPED"
    assert f"The column odd has a type that {why}" in reason


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [("tsquery", "", "malformed tsquery"), ("pause[]", "{P2D}", "value for domain pause violates")],
)
def test_m12_what_postgres_sends_and_does_not_read_back_sets_its_own_table_aside(
    dsn: str, tmp_path: Path, kind: str, value: str, why: str
) -> None:
    """An empty tsquery, and an element of a domain that demands more by now."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().with_days(table="n")
    lake.run(
        "CREATE DOMAIN pause AS interval",
        f"ALTER TABLE m ADD COLUMN odd {kind}",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, '{value}')",
        "SELECT lakets.enable_sync('n')",
    )
    lake.synced().drain()
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1, '{value}')",
        f"INSERT INTO n VALUES ('{NOON[1]}', 1001, 1)",
        "ALTER DOMAIN pause ADD CHECK (value < interval '1 day') NOT VALID",
    )
    assert lake.drain().set_aside == ("public.m",)
    lake.assert_same("n")
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert "public.m.odd: PostgreSQL does not say what values of type" in reason
    assert why in reason
    lake.run("SELECT lakets.resync('m')")
    assert lake.drain().set_aside == ()
    assert lake.content()[NOON[1], 1001, 1.0, value] == 1


def test_m12_a_value_is_told_although_its_domain_demands_more_by_now(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run("CREATE DOMAIN pause AS interval", "CREATE DOMAIN rest AS pause", "ALTER TABLE m ADD COLUMN odd rest")
    lake.synced().drain()
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, '2 days')",
        "DELETE FROM m WHERE id = 1000",
        "ALTER DOMAIN pause ADD CHECK (value < interval '1 day')",
    )
    lake.drain()
    told = [(row["_change_type"], row["odd"]) for row in lake.history().to_pylist() if row["id"] == 1000]
    assert told == [("insert", "P2D"), ("delete", "P2D")]


def test_m17_generated_columns_are_in_the_lake_where_postgres_sends_them(dsn: str, tmp_path: Path, major: int) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run("ALTER TABLE m ADD COLUMN twice float8 GENERATED ALWAYS AS (v * 2) STORED")
    told: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as session:
        session.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        session.execute("SELECT lakets.enable_sync('m')")
    lake.drain()
    lake.run(
        f"INSERT INTO m (ts, id, v) VALUES ('{NOON[1]}', 1000, 4)",
        "UPDATE m SET v = 5 WHERE id = 1000",
        "ALTER TABLE m ADD COLUMN thrice float8 GENERATED ALWAYS AS (v * 3) STORED",
        "UPDATE m SET v = 6 WHERE id = 1000",
    )
    lake.drain()
    left_out = "public.m: its generated columns are left out of the lake: twice" in told
    newest = [row for row in lake.history().to_pylist() if row["id"] == 1000][-1]
    assert newest["v"] == 6
    sent = (False, 12, 18) if major >= 18 else (True, None, None)
    assert (left_out, newest.get("twice"), newest.get("thrice")) == sent
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify()
    assert {line.verdict for line in lines} == {"proven"}


def test_columns_that_are_generated_when_they_are_read_are_refused(dsn: str, tmp_path: Path, major: int) -> None:
    if major < 18:
        pytest.skip("PostgreSQL has virtual columns from 18 on")
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run("ALTER TABLE m ADD COLUMN twice float8 GENERATED ALWAYS AS (v * 2) VIRTUAL")
    with pytest.raises(psycopg.errors.RaiseException, match="its column twice is generated when it is read"):
        lake.run("SELECT lakets.enable_sync('m')")


def test_spark_takes_an_array_of_numbers_from_its_text(spark: SparkSession) -> None:
    """As docs/reference/history-tables.md says."""
    way = "from_json(lower(translate('{1,2,NULL}', '{}', '[]')), 'array<int>')"
    assert way.replace("'{1,2,NULL}'", "counts") in TYPES.read_text("utf-8")
    assert spark.sql(f"SELECT {way}").collect()[0][0] == [1, 2, None]


# ---- the speller alone -----------------------------------------------------------------------

_INTERVAL, _INT4_ARRAY = 1186, 1007


def test_nothing_asked_is_nothing_told_and_one_session_is_enough(dsn: str) -> None:
    one_day = bytes(8) + (1).to_bytes(4) + bytes(4)
    with ExitStack() as resources:
        spell = Speller(dsn, resources)
        assert spell(_INTERVAL, pa.array([], pa.binary())).to_pylist() == []
        for count in (1, 3, 1000):
            assert spell(_INTERVAL, pa.array([one_day] * count, pa.binary())).to_pylist() == ["P1D"] * count
        with pytest.raises(UnsupportedType, match="values of type 1186"):
            spell(_INTERVAL, pa.array([b"123"], pa.binary()))
        assert spell(_INTERVAL, pa.array([one_day], pa.binary()).slice(0)).to_pylist() == ["P1D"]
        with pytest.raises(UnsupportedType, match="values of type 4000000000"):
            spell(4_000_000_000, pa.array([b"123"], pa.binary()))


@given(st.lists(st.binary(max_size=9), max_size=20), st.integers(0, 5))
def test_what_is_written_for_copy_is_what_one_would_write_by_hand(values: list[bytes], first: int) -> None:
    rows = b"".join(
        (2).to_bytes(2) + (8).to_bytes(4) + at.to_bytes(8) + len(value).to_bytes(4) + value
        for at, value in enumerate(values[first:])
    )
    header = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    assert _copied(pa.array(values, pa.binary()).slice(first)) == header + rows + b"\xff\xff"
