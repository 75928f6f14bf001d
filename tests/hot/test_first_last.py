"""lakets.first and lakets.last: any type, ties, NULLs, infinity, parallel workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.questions import ask

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
TIMES = st.timedeltas(timedelta(days=-200000), timedelta(days=200000)).map(ORIGIN.__add__)
CLOSE = st.timedeltas(timedelta(0), timedelta(microseconds=3)).map(ORIGIN.__add__)


@settings(max_examples=40)
@given(
    rows=st.lists(
        st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | TIMES | CLOSE), min_size=1, max_size=30
    )
)
def test_the_value_at_the_end_and_the_first_seen_of_equals(
    dsn: str, rows: list[tuple[int | None, datetime | None]]
) -> None:
    timed = [(value, at) for value, at in rows if at is not None]
    with psycopg.connect(dsn) as session:
        ((first, last),) = session.execute(
            "SELECT lakets.first(v, t), lakets.last(v, t) FROM unnest(%s::bigint[], %s::timestamptz[]) u(v, t)",
            [[value for value, _ in rows], [at for _, at in rows]],
        ).fetchall()
    assert first == (min(timed, key=lambda row: row[1])[0] if timed else None)
    assert last == (max(timed, key=lambda row: row[1])[0] if timed else None)


@pytest.mark.parametrize(
    ("kind", "early", "late"),
    [
        ("float8", "0.1", "1e308"),
        ("float4", "0.1", "2"),
        ("bigint", "9007199254740993", "9007199254740995"),
        ("smallint", "1", "2"),
        ("numeric", "0.12345678901234567890", "2"),
        ("text", "a", ""),
        ("varchar(3)", "abc", "d"),
        ("boolean", "true", "false"),
        ("jsonb", '{"a": [1]}', "null"),
        ("uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"),
        ("timestamptz", "2026-01-01 00:00:00+00", "infinity"),
        ("regclass", "pg_class", "pg_type"),
        ("mood", "glad", "sad"),
        ("pair", "(1,x)", "(,)"),
        ("float8[]", "{0.1,NULL,NaN}", "{1e308,0.30000000000000004}"),
        ("float4[]", "{}", "{{1.1},{2}}"),
        ("timestamptz[]", "{2026-01-01 00:00:00.000001+00,infinity}", "{NULL}"),
        ("timestamp[]", "{01.02.2026 00:00:00.000001}", "{01.03.2026}"),
        ("interval[]", '{"-1 mon +1 day -00:00:01"}', "{1 s}"),
        ("text[]", '{"a,\\"b",NULL,"NULL",""}', "{}"),
        ("jsonb[]", '{"{\\"a\\": [1]}"}', "{null}"),
        ("bytea[]", '{"\\\\x00ff"}', "{}"),
        ("mood[]", "{glad,NULL}", "{sad}"),
        ("pair[]", '{"(1,x)"}', '{"(,)"}'),
        ("regclass[]", "{pg_class}", "{pg_type}"),
    ],
)
def test_any_type_comes_back_as_it_is(db: psycopg.Connection, kind: str, early: str, late: str) -> None:
    db.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')")
    db.execute("CREATE TYPE pair AS (n int, t text)")
    db.execute("SET extra_float_digits = 0")
    db.execute("SET datestyle = 'German'")
    db.execute("SET intervalstyle = 'sql_standard'")
    rows = ask(
        db,
        f"SELECT lakets.first(v, t) IS NOT DISTINCT FROM %s::{kind}, lakets.last(v, t) IS NOT DISTINCT FROM %s::{kind},"
        f" pg_typeof(lakets.first(v, t)) = '{kind}'::regtype"
        f" FROM (VALUES (%s::{kind}, timestamptz '2026-01-02'), (%s::{kind}, '2026-01-01')) u(v, t)",
        *[early, late, late, early],
    )
    assert rows == [(True, True, True)]


def test_arrays_come_back_with_their_bounds_and_to_the_last_digit(db: psycopg.Connection) -> None:
    ask(db, "CREATE DOMAIN readings AS float8[]")
    rows = (
        "(VALUES ('[2:3]={0.1,NULL}'::float8[], timestamptz '2026-01-01'), (NULL, '2025-01-01'), ('{}', '2026-01-02'),"
        " ('{{1e+308,1},{2,NaN}}', '2026-01-03'), ('{9}', NULL)) u (v, t)"
    )
    for kind in ("float8[]", "readings"):
        for condition, first, last in [
            ("true", None, "{{1e+308,1},{2,NaN}}"),
            ("v IS NOT NULL", "[2:3]={0.1,NULL}", "{{1e+308,1},{2,NaN}}"),
            ("t < '2026-01-03'", None, "{}"),
            ("false", None, None),
        ]:
            asked = f"SELECT lakets.first(v::{kind}, t)::text, lakets.last(v::{kind}, t)::text FROM {rows}"
            assert ask(db, f"{asked} WHERE {condition}") == [(first, last)], (kind, condition)


def test_infinite_times_are_the_ends_of_time(db: psycopg.Connection) -> None:
    rows = ask(
        db,
        "SELECT lakets.first(v, t), lakets.last(v, t) FROM (VALUES (1, timestamptz '294276-12-31 23:59:59.999999+00'),"
        " (2, 'infinity'), (3, '4713-01-01 00:00+00 BC'), (4, '-infinity')) u(v, t)",
    )
    assert rows == [(4, 2)]


def test_a_microsecond_counts_in_every_century(db: psycopg.Connection) -> None:
    for year in ("1066", "1999", "2026", "2300", "9999", "200000"):
        rows = ask(
            db,
            f"SELECT lakets.first(v, t), lakets.last(v, t) FROM (SELECT n, timestamptz '{year}-06-15 12:34:56.5+00'"
            " + n * interval '1 microsecond' FROM unnest('{3,1,2,0}'::int[]) n) u(v, t)",
        )
        assert rows == [(0, 3)], year


def test_no_rows_and_null_values_and_groups(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT lakets.first(1, now()) WHERE false") == [(None,)]
    rows = ask(
        db,
        "SELECT g, lakets.first(v, t), lakets.last(v, t) FROM (VALUES (1, 'a', timestamptz '2026-01-01'),"
        " (1, NULL, '2026-01-02'), (2, NULL, '2026-01-01'), (2, 'b', '2026-01-02'), (3, 'c', NULL)) u(g, v, t)"
        " GROUP BY g ORDER BY g",
    )
    assert rows == [(1, "a", None), (2, None, "b"), (3, None, None)]


def test_they_work_over_windows(db: psycopg.Connection) -> None:
    rows = ask(db, "SELECT lakets.last(n, now() - n * interval '1 s') OVER (ORDER BY n) FROM generate_series(1, 3) n")
    assert rows == [(1,), (1,), (1,)]


def test_workers_join_what_they_found(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE r AS SELECT n, now() + n * interval '1 s' AS t FROM generate_series(1, 20000) n")
    db.execute("ANALYZE r")
    for setting in ("parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0"):
        db.execute(f"SET {setting}".encode())
    asked = "SELECT lakets.first(n, t), lakets.last(n, t) FROM r"
    shown = "\n".join(line for (line,) in ask(db, f"EXPLAIN {asked}"))
    assert "Partial Aggregate" in shown
    assert ask(db, asked) == [(1, 20000)]
    arrays = "SELECT lakets.first(ARRAY[n], t), lakets.last(ARRAY[n], t) FROM r"
    assert "Partial Aggregate" in "\n".join(line for (line,) in ask(db, f"EXPLAIN {arrays}"))
    assert ask(db, arrays) == [([1], [20000])]


def test_an_attackers_schema_changes_nothing(db: psycopg.Connection) -> None:
    db.execute("CREATE SCHEMA evil")
    db.execute(
        "CREATE FUNCTION evil.wrong(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.wrong);"
        "CREATE FUNCTION evil.array_lower(anyarray, int) RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    db.execute("SET search_path = evil, pg_catalog")
    asked = "SELECT lakets.last(n, timestamptz '2026-01-01' - n * interval '1 s') FROM generate_series(1, 3) n"
    assert ask(db, asked) == [(1,)]
