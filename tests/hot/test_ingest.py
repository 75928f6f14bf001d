"""Metric tables, the number of their series, and ingest of JSON into them."""

from __future__ import annotations

import json
import random
from typing import Any

import psycopg
import pytest

from harness.questions import ask, one, refused
from harness.roles import role

LONG = "ä" * 31 + "x"  # 63 bytes
INGEST = "SELECT lakets.ingest_batch('readings', %s)"


# ---- metric tables ----------------------------------------------------------------------------


def columns(db: psycopg.Connection, table: str) -> list[tuple[Any, ...]]:
    return ask(
        db,
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        table,
    )


def test_a_metric_table_is_a_chronotable_with_tags_and_fields(db: psycopg.Connection) -> None:
    ((made,),) = ask(db, "SELECT lakets.create_metric_table('cpu', '{host,region}', '{used,idle}')")
    assert ask(db, "SELECT id, time_column, chunk_interval::text FROM lakets._chronotable_registry") == [
        (made, "time", "1 day")
    ]
    assert columns(db, "cpu") == [
        ("time", "timestamp with time zone", True),
        ("host", "text", True),
        ("region", "text", True),
        ("used", "double precision", False),
        ("idle", "double precision", False),
    ]
    indexes = dict(ask(db, "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'cpu'"))
    assert indexes["idx_cpu_series"].endswith('USING btree (host, region, "time" DESC)')
    assert indexes["idx_cpu_brin"].endswith('USING brin ("time")')
    db.execute("INSERT INTO cpu VALUES (now(), 'a', 'eu', 1, 2)")
    assert ask(db, "SELECT host, used FROM cpu") == [("a", 1.0)]


def test_names_of_any_kind_work(db: psycopg.Connection) -> None:
    db.execute(f'CREATE SCHEMA "{LONG}"'.encode())
    asked = "SELECT lakets.create_metric_table(%s, %s, %s, '1 hour', p_schema_name => %s)"
    ask(db, asked, LONG, [LONG, 'a"b', "select"], ["Value %"], LONG)
    sql_name = f'"{LONG}"."{LONG}"'
    assert [name for name, *_ in columns(db, sql_name)] == ["time", LONG, 'a"b', "select", "Value %"]
    assert len(ask(db, "SELECT FROM pg_index WHERE indrelid = %s::regclass", sql_name)) == 3
    rows = [{"time": "2100-01-01", LONG: "x", 'a"b': "y", "select": "z", "Value %": 1.5}]
    with pytest.raises(psycopg.Error, match="no partition"):
        ask(db, "SELECT lakets.ingest_batch(%s, %s, %s)", LONG, json.dumps(rows), LONG)
    ((now,),) = ask(db, "SELECT now()::text")
    rows[0]["time"] = now
    assert ask(db, "SELECT lakets.ingest_batch(%s, %s, %s)", LONG, json.dumps(rows), LONG) == [(1,)]
    stats = ask(db, "SELECT * FROM lakets.cardinality_stats(%s, %s)", LONG, LONG)
    assert [row[0] for row in stats] == [LONG, 'a"b', "select"]
    dead = ask(db, "SELECT dead_key FROM lakets.alert_deadman('d', %s, %s, '1 microsecond', %s)", LONG, LONG, LONG)
    assert dead == [("x",)]


def test_no_tags_are_fine(db: psycopg.Connection) -> None:
    ask(db, "SELECT lakets.create_metric_table('m', '{}', '{v}')")
    assert ask(db, "SELECT to_regclass('idx_m_series')") == [(None,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("NULL, '{a}', '{v}'", "an argument is NULL"),
        ("'m', NULL, '{v}'", "metric table m: an argument is NULL"),
        ("'m', '{a}', '{}'", r"public\.m: it has no field"),
        ("'m', '{a,a}', '{v}'", "the column a is there twice"),
        ("'m', '{a}', '{time}'", 'the column "time" is there twice'),
        ("'m', '{a,NULL}', '{v}'", "a column name is NULL"),
        ("'m', '{a}', ARRAY[repeat('v', 64)]", "has 64 bytes"),
        ("repeat('m', 64), '{a}', '{v}'", "the name has 64 bytes"),
        ("'there', '{a}', '{v}'", r"public\.there: it is there already"),
        ("'m', '{a}', '{v}', '1 day', 'Nowhere'", 'there is no schema "Nowhere"'),
        ("'m', '{a}', '{v}', '-1 day'", "is not positive"),
    ],
)
def test_a_metric_table_that_cannot_be_is_refused(db: psycopg.Connection, arguments: str, message: str) -> None:
    db.execute("CREATE TABLE there ()")
    refused(db, f"SELECT lakets.create_metric_table({arguments})", message)
    assert ask(db, "SELECT to_regclass('m')") == [(None,)]


# ---- cardinality ------------------------------------------------------------------------------


@pytest.fixture
def tagged(db: psycopg.Connection) -> psycopg.Connection:
    db.execute("CREATE TABLE tagged (host text, n int, zone text)")
    db.execute(
        "INSERT INTO tagged SELECT 'h' || g % 5, g, CASE WHEN g % 2 = 0 THEN 'z' END FROM generate_series(1, 20) g"
    )
    return db


def test_each_text_column_is_counted(tagged: psycopg.Connection) -> None:
    rows = ask(
        tagged,
        "SELECT column_name, distinct_values, total_rows, pct_of_rows::text FROM lakets.cardinality_stats('tagged')",
    )
    assert rows == [("host", 5, 20, "25.00"), ("zone", 1, 20, "5.00")]
    tagged.execute("TRUNCATE tagged")
    assert ask(tagged, "SELECT sum(distinct_values), sum(pct_of_rows) FROM lakets.cardinality_stats('tagged')") == [
        (0, 0)
    ]


@pytest.mark.parametrize(
    ("most", "status"), [(9, "CRITICAL"), (10, "WARNING"), (12, "WARNING"), (13, "OK"), (100000, "OK")]
)
def test_series_are_held_against_a_bound(tagged: psycopg.Connection, most: int, status: str) -> None:
    rows = ask(tagged, "SELECT * FROM lakets.cardinality_check('tagged', %s)", most)
    assert rows == [(status, 10, most, "host, zone")]


def test_a_table_without_text_has_no_series(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE t (n int)")
    assert ask(db, "SELECT * FROM lakets.cardinality_stats('t')") == []
    assert ask(db, "SELECT * FROM lakets.cardinality_check('t')") == [("OK", 0, 100000, "")]


@pytest.mark.parametrize("function", ["cardinality_stats", "cardinality_check"])
def test_a_table_that_is_not_there_is_named(db: psycopg.Connection, function: str) -> None:
    refused(db, f"SELECT lakets.{function}('No')", r'there is no table public\."No"')
    refused(db, f"SELECT lakets.{function}('t', p_schema_name => 'nowhere')", "there is no schema nowhere")
    refused(db, f"SELECT lakets.{function}(NULL)", "the name of the table is NULL")
    db.execute("CREATE TABLE t (n int)")
    if function == "cardinality_check":
        refused(db, "SELECT lakets.cardinality_check('t', 0)", r"public\.t against 0 series")


# ---- ingest -----------------------------------------------------------------------------------


@pytest.fixture
def readings(db: psycopg.Connection) -> psycopg.Connection:
    db.execute(
        "CREATE TABLE readings (id bigserial, ts timestamptz NOT NULL DEFAULT now(), sensor text, v float8 DEFAULT -1,"
        " tags jsonb, list int[], exact numeric(6, 2))"
    )
    db.execute("SELECT lakets.create_chronotable('readings', 'ts')")
    return db


def ingest(db: psycopg.Connection, data: Any) -> int:
    return int(one(db, INGEST, json.dumps(data)))


def test_a_batch_becomes_rows(readings: psycopg.Connection) -> None:
    data = [
        {"sensor": "a", "v": 1.25, "tags": {"x": [1, None]}, "list": [1, 2], "exact": "12.345"},
        {"sensor": "ö'\"", "v": None},
        {"v": 3},
    ]
    assert ingest(readings, data) == 3
    rows = ask(
        readings, "SELECT id, ts = now() OR ts < now(), sensor, v, tags, list, exact::text FROM readings ORDER BY id"
    )
    assert rows == [
        (1, True, "a", 1.25, {"x": [1, None]}, [1, 2], "12.35"),
        (2, True, "ö'\"", None, None, None, None),
        (3, True, None, 3.0, None, None, None),
    ]


def test_what_no_object_names_takes_its_default(readings: psycopg.Connection) -> None:
    assert ingest(readings, [{"sensor": "a"}, {"sensor": "b"}]) == 2
    assert ask(readings, "SELECT DISTINCT v FROM readings") == [(-1.0,)]


def test_an_empty_batch_is_done(readings: psycopg.Connection) -> None:
    assert ingest(readings, []) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"sensor": "a"}, r"public\.readings: p_data is object, not an array"),
        (None, "p_data is null, not an array"),
        ([{"sensor": "a"}, 3], "an element of p_data is not an object"),
        ([[{"sensor": "a"}]], "an element of p_data is not an object"),
        ([{}], "no object names a column"),
        ([{"sensor": "a"}, {"sensor": "b", "Sensor": 1, "w": 2}], 'it has no column "Sensor", w'),
        ([{"v); DROP TABLE readings; --": 1}], "it has no column"),
    ],
)
def test_a_batch_that_would_lose_something_is_refused(readings: psycopg.Connection, data: Any, message: str) -> None:
    refused(readings, INGEST, message, json.dumps(data))
    assert ask(readings, "SELECT count(*) FROM readings") == [(0,)]


def test_an_empty_list_among_the_objects_is_refused(readings: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match="must be an array of objects"):
        ingest(readings, [{"sensor": "a"}, []])
    assert ask(readings, "SELECT count(*) FROM readings") == [(0,)]


def test_a_value_of_the_wrong_type_is_refused_and_nothing_is_written(readings: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match="invalid input syntax for type double precision"):
        ingest(readings, [{"v": 1}, {"v": "much"}])
    assert ask(readings, "SELECT count(*) FROM readings") == [(0,)]


def test_ingest_needs_no_more_than_the_right_to_insert(readings: psycopg.Connection, dsn: str) -> None:
    grants = (
        "GRANT USAGE ON SCHEMA lakets TO {role}",
        "GRANT INSERT ON readings TO {role}",
        "GRANT USAGE ON SEQUENCE readings_id_seq TO {role}",
    )
    with role(dsn, "ingesting", "", *grants) as application, psycopg.connect(application) as session:
        session.execute("SELECT lakets.ingest_batch('readings', '[{\"v\": 1}]')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT lakets.ingest_batch('_version', '[{\"version\": \"1\"}]', 'lakets')")


def test_a_sample_of_prometheus_becomes_a_row(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE samples (time timestamptz NOT NULL, metric_name text, labels jsonb, value float8)")
    db.execute("SELECT lakets.ingest_prometheus('samples', 'up', '{\"job\": \"a\"}', 1, '2026-01-05 00:00+00')")
    db.execute("SELECT lakets.ingest_prometheus('samples', 'up', NULL, 'NaN')")
    rows = ask(db, "SELECT time::text, metric_name, labels, value::text FROM samples WHERE labels IS NOT NULL")
    assert rows == [("2026-01-05 00:00:00+00", "up", {"job": "a"}, "1")]
    assert ask(db, "SELECT now() - time < '1 minute', value::text FROM samples WHERE labels IS NULL") == [(True, "NaN")]


def test_a_sample_that_has_no_place_is_refused(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE samples (time timestamptz NOT NULL, value float8)")
    refused(
        db,
        "SELECT lakets.ingest_prometheus('samples', 'up', '{}', 1)",
        r"public\.samples: it has no column metric_name, labels",
    )
    refused(db, "SELECT lakets.ingest_prometheus('samples', NULL, '{}', 1)", "has no metric name")
    refused(db, "SELECT lakets.ingest_prometheus('samples', 'up', '{}', 1, NULL)", "has no time")
    refused(db, "SELECT lakets.ingest_prometheus('nothing', 'up', '{}', 1)", r"there is no table public\.nothing")


def test_every_name_of_every_object_is_found(db: psycopg.Connection) -> None:
    """Alike, with fewer, with more, with others: against a plain list of all names."""
    chance = random.Random(7)
    names, values = ["", "a", "b", "aa", "time", "z", "é"], [None, 0, -1.5, "", "x", True, [], {}, {"a": 1}, [{"a": 1}]]

    def batch() -> list[dict[str, Any]]:
        usual = chance.sample(names, chance.randint(0, 4))
        return [
            {
                name: chance.choice(values)
                for name in (usual if chance.random() < 0.7 else chance.sample(names, chance.randint(0, 5)))
                + ([chance.choice(names)] if chance.random() < 0.2 else [])
            }
            for _ in range(chance.randint(1, 5))
        ]

    batches = [batch() for _ in range(2000)]
    found = ask(
        db,
        "SELECT lakets._names_in(b) FROM unnest(%s::jsonb[]) WITH ORDINALITY u (b, n) ORDER BY n",
        [json.dumps(objects) for objects in batches],
    )
    assert [set(listed) for (listed,) in found] == [{name for each in objects for name in each} for objects in batches]
    none = ["[1]", '[{"a": 1}, 2]', "[null]", '["a"]', '[{"a": 1}, "a"]', '[["a"]]']
    assert ask(db, "SELECT lakets._names_in(b) FROM unnest(%s::jsonb[]) b", none) == [(None,)] * len(none)


# ---- whose search_path ------------------------------------------------------------------------


@pytest.fixture
def watched(db: psycopg.Connection) -> psycopg.Connection:
    """Tables whose triggers and defaults name things of the application without their schema, as they may."""
    db.execute("CREATE SCHEMA app")
    db.execute("SET search_path = app, public")
    db.execute("CREATE TABLE heard (moment text, rows int, path text)")
    db.execute("CREATE FUNCTION zone() RETURNS text LANGUAGE sql AS $$ SELECT 'app' $$")
    db.execute("CREATE FUNCTION named() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN zone(); END $$")
    db.execute(
        "CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO heard VALUES (TG_WHEN || ' ' || TG_LEVEL, 1, current_setting('search_path'));"
        " RETURN NEW; END $$"
    )
    db.execute(
        "CREATE TABLE samples (time timestamptz NOT NULL, metric_name text, labels jsonb, value float8,"
        " by text DEFAULT named())"
    )
    db.execute("SELECT lakets.create_chronotable('samples', 'time', '1 day', 'app')")
    for when, level in (("BEFORE", "STATEMENT"), ("BEFORE", "ROW"), ("AFTER", "ROW"), ("AFTER", "STATEMENT")):
        db.execute(
            f"CREATE TRIGGER {when}_{level} {when} INSERT ON samples FOR EACH {level} EXECUTE FUNCTION hear()".encode()
        )
    return db


@pytest.mark.parametrize(
    "call",
    [
        "lakets.ingest_batch('samples', '[{\"time\": \"now\", \"value\": 1}]', 'app')",
        "lakets.ingest_prometheus('samples', 'up', '{}', 1, p_schema_name => 'app')",
    ],
)
def test_triggers_and_defaults_see_the_path_of_the_caller(watched: psycopg.Connection, call: str) -> None:
    ask(watched, f"SELECT {call}")
    assert ask(watched, "SELECT moment, path FROM heard") == [
        ("BEFORE STATEMENT", "app, public"),
        ("BEFORE ROW", "app, public"),
        ("AFTER ROW", "app, public"),
        ("AFTER STATEMENT", "app, public"),
    ]
    assert ask(watched, "SELECT value, by FROM samples") == [(1.0, "app")]
    assert ask(watched, "SHOW search_path") == [("app, public",)]


def test_no_search_path_bends_an_ingest(db: psycopg.Connection) -> None:
    """Whatever stands before pg_catalog in it: types, functions, operators and tables of the same names."""
    db.execute(
        'CREATE TABLE readings (ts timestamptz NOT NULL, name text, at date, tags jsonb, names text[], c "char",'
        " exact numeric(6, 2), span interval day to second(3), short varchar(3), flags bit varying(4), raw json,"
        " l time(0))"
    )
    db.execute("SELECT lakets.create_chronotable('readings', 'ts')")
    db.execute("CREATE SCHEMA evil")
    db.execute("CREATE TABLE evil.readings (LIKE readings)")
    for name in ("text", "date", "jsonb", "timestamptz", "json", "int4", "timestamp", "numeric", "varchar"):
        db.execute(f'CREATE DOMAIN evil."{name}" AS pg_catalog.int4 CHECK (false)'.encode())
    db.execute('CREATE DOMAIN evil."char" AS pg_catalog.int4 CHECK (false)')
    for function in (
        "jsonb_to_recordset(pg_catalog.jsonb) RETURNS SETOF record",
        "set_config(pg_catalog.text, pg_catalog.text, boolean) RETURNS pg_catalog.text",
        "current_setting(pg_catalog.text) RETURNS pg_catalog.text",
        "timezone(pg_catalog.text, pg_catalog.timestamptz) RETURNS pg_catalog.timestamp",
    ):
        db.execute(f"CREATE FUNCTION evil.{function} LANGUAGE plpgsql AS 'BEGIN RAISE $$bent$$; END'".encode())
    row = {
        "ts": "now", "name": "n", "at": "2026-01-05", "tags": {"a": 1}, "names": ["x"], "c": "c", "exact": 1.005,
        "span": "1 day 00:00:01.0004", "short": "abc", "flags": "101", "raw": [1], "l": "10:00:00.4",
    }  # fmt: skip
    db.execute("SET search_path = evil, pg_catalog, public")
    ask(db, "SELECT lakets.ingest_batch('readings', %s)", json.dumps([row]))
    db.execute("SET search_path = public")
    assert ask(
        db,
        "SELECT name, at::text, tags, names, c::text, exact::text, span::text, short, flags::text, raw, l::text"
        " FROM readings",
    ) == [("n", "2026-01-05", {"a": 1}, ["x"], "c", "1.01", "1 day 00:00:01", "abc", "101", [1], "10:00:00")]
    assert ask(db, "SELECT count(*) FROM evil.readings") == [(0,)]

    for kind in ("timestamptz", "timestamp", "date"):
        db.execute(f"CREATE TABLE s_{kind} (time {kind}, metric_name text, labels jsonb, value float8)".encode())
        db.execute("SET search_path = evil, pg_catalog, public")
        db.execute("SET timezone = 'Asia/Tokyo'")
        asked = "SELECT lakets.ingest_prometheus(%s, 'up', '{}', 1, '2026-01-05 22:30+00'::pg_catalog.timestamptz)"
        ask(db, asked, f"s_{kind}")
        db.execute("SET search_path = public")
        db.execute("SET timezone = 'UTC'")
        said = {"timestamptz": "2026-01-05 22:30:00+00", "timestamp": "2026-01-05 22:30:00", "date": "2026-01-05"}
        assert ask(db, f"SELECT time::text FROM s_{kind}") == [(said[kind],)]
