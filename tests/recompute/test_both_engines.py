"""The same rows through both engines: what Spark computes from the lake is what PostgreSQL had stored, type by type."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from harness.recomputing import forget, let_all_go, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lakes import Lake

# A zone in which the clock is put back and forward within these days, and times before 1970.
FIRST = "2024-10-26 00:00:00+00"
COLUMNS = (
    'ts timestamptz NOT NULL, k text, c text COLLATE "C", i int, s smallint, b bigint, f float8, r real,'
    " n numeric(12,3),"
    " u numeric, d date, at timestamp, ok boolean, id uuid, mood engine_mood, raw bytea, v varchar(20)"
)
ROWS = f"""
    INSERT INTO engines SELECT '{FIRST}'::timestamptz + g * interval '37 minutes',
        nullif('d' || g % 5, 'd3'),
        (ARRAY['Zoë', 'a', 'B', 'ä', E'tab\\there', E'back\\\\slash', E'line\\nfeed', '', NULL])[1 + g % 9],
        CASE WHEN g % 11 <> 0 THEN (g % 7 - 3) * 300000000 END, (g % 5 - 2)::smallint,
        (g % 13 - 6) * 1500000000000000000,
        CASE WHEN g % 50 = 7 THEN 'NaN'::float8 WHEN g % 60 = 8 THEN 'Infinity' WHEN g % 60 = 38 THEN '-Infinity'
             WHEN g % 9 = 0 THEN '-0' ELSE sqrt(g) - 7 END,
        (g % 17) / 7.0, (g % 19 - 9) * 123456.789, CASE WHEN g % 3 = 0 THEN g / 8.0 ELSE g % 4 END,
        '2024-02-28'::date + g % 5, '1969-12-31 23:59:59.999999'::timestamp + g * interval '1 second',
        nullif(g % 3, 2) = 1,
        ('00000000-0000-0000-0000-00000000000' || g % 4)::uuid, (ARRAY['sad', 'glad'])[1 + g % 2]::engine_mood,
        decode(lpad(to_hex(g), 4, '0'), 'hex'), 'v' || g % 6
    FROM generate_series(0, 399) g
"""
BY = "FROM engines GROUP BY 1"
HOUR = "lakets.time_bucket('1 hour', ts) AS bucket"
QUERIES = {
    "plain": (
        "1 hour",
        f"SELECT {HOUR}, k, count(*) AS n, count(i) AS some, sum(s) AS s2, sum(i) AS s4, sum(b) AS s8,"
        f" sum(n) AS sn, sum(u) AS su,"
        " avg(s) AS a2, avg(i) AS a4, avg(b) AS a8, avg(n) AS an, avg(u) AS au, min(u) AS lu,"
        " max(u) AS hu, min(n) AS ln,"
        " max(b) AS hb, min(s) AS ls, min(d) AS ld, max(at) AS hat, max(ts) AS hts,"
        " bool_and(ok) AS every_ok, bool_or(ok) AS any_ok"
        " FROM engines GROUP BY 1, k",
    ),
    "floats": (
        "6 hours",
        "SELECT lakets.time_bucket('6 hours', ts) AS bucket, s, sum(f) AS total, avg(f) AS mean,"
        " min(f) AS low, max(f) AS high,"
        " avg(r) AS mean_r, max(r) AS high_r, stddev(f) AS sd, var_pop(r) AS vp, stddev_pop(f) AS sp,"
        " variance(r) AS va,"
        " sum(f * 2.5 - 1) AS more, count(*) FILTER (WHERE f > 3) AS above, count(*) FILTER (WHERE f = 'NaN') AS nans,"
        " count(*) FILTER (WHERE f IN (0, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 'NaN')) AS listed,"
        " sum(abs(f)) FILTER (WHERE f < 1) AS small, sum(f / 4) AS quarter FROM engines GROUP BY 1, s",
    ),
    "texts": (
        "1 day",
        "SELECT lakets.time_bucket('1 day', ts) AS bucket, c, mood, min(c) AS low, max(c) AS high,"
        " count(DISTINCT k) AS kinds,"
        " count(DISTINCT id) AS ids, count(*) FILTER (WHERE c < 'b') AS below,"
        " count(*) FILTER (WHERE k LIKE 'd%') AS d,"
        " count(*) FILTER (WHERE k IN ('d1', 'd2')) AS listed, count(*) FILTER (WHERE v NOT IN ('v1',"
        " 'v2')) AS unlisted,"
        " sum(length(c)) AS letters, lakets.first(c, ts) AS first, lakets.last(raw, ts) AS last,"
        " lakets.first(mood, ts) AS m,"
        " max(c || '!') AS loud, count(*) FILTER (WHERE mood = 'sad') AS sad,"
        " count(DISTINCT d) AS days FROM engines GROUP BY 1, c, mood",
    ),
    "branches": (
        "1 hour",
        f"SELECT {HOUR}, ok, i % 4 AS modulo, sum(CASE WHEN i > 0 THEN n ELSE 0 END) AS positive,"
        f" sum(i / 7) AS seventh,"
        " sum(i::bigint * 3 - s) AS mixed, sum(coalesce(n, 0) * 1.10) AS gross, round(avg(coalesce(i,"
        " 0)), 2) AS rounded,"
        " count(nullif(s, 0)) AS nonzero, max(greatest(i, s)) AS greatest, sum(-b) AS negated,"
        " sum(CASE s WHEN 1 THEN 10 WHEN 2 THEN 20 END) AS mapped, count(*) FILTER (WHERE ok IS NOT TRUE) AS not_ok,"
        " (max(i) - min(i))::float8 / count(*) AS slope, coalesce(sum(i) / nullif(count(i), 0), -1) AS whole,"
        " 'x' || count(*)::text AS said, count(*) FILTER (WHERE d >= '2024-03-01' AND at < '1970-01-01"
        " 00:01:00') AS dated,"
        " count(*) FILTER (WHERE i IS DISTINCT FROM s OR NOT ok) AS distinct_from, sum(n::float8) AS doubled"
        " FROM engines WHERE k <> 'd4' AND (ts > '2024-10-26 06:00:00+00' OR i BETWEEN -5 AND 5)"
        " GROUP BY 1, 2, 3 HAVING count(*) > 0 AND sum(s) IS NOT NULL",
    ),
    "berlin_days": (
        "1 day",
        "SELECT lakets.time_bucket('1 day', ts, p_timezone => 'Europe/Berlin')"
        f" AS bucket, count(*) AS n, sum(i) AS s {BY}",
    ),
    "berlin_trunc": (
        "1 day",
        "SELECT date_trunc('day', ts, 'Europe/Berlin')"
        f" AS bucket, count(*) AS n, sum(i) AS s {BY}",
    ),
    "local_hours": ("1 hour", f"SELECT date_trunc('hour', ts AT TIME ZONE 'UTC') AS bucket, count(*) AS n {BY}"),
    "months": ("1 month", f"SELECT lakets.time_bucket('1 month', ts) AS bucket, count(*) AS n, sum(n) AS s {BY}"),
    "origin": (
        "6 hours",
        "SELECT lakets.time_bucket('6 hours', ts, '2001-01-01 01:30:00+00')"
        f" AS bucket, count(*) AS n {BY}",
    ),
    "bins": (
        "90 minutes",
        "SELECT date_bin('90 minutes', ts, '2001-01-01 00:10:00+00')"
        f" AS bucket, max(i) AS high {BY}",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def engines(both: Lake) -> Iterator[Lake]:
    """A table of all types with a RollUp for each query, all of its rows in the lake alone."""
    both.run(
        "CREATE TYPE engine_mood AS ENUM ('sad', 'glad')",
        f"CREATE TABLE engines ({COLUMNS})",
        ROWS,
        "SELECT lakets.create_chronotable('engines', 'ts', '200 days')",
        "SELECT lakets.enable_sync('engines')",
        *(f"SELECT lakets.create_rollup('{name}', $q${query}$q$, '{step}')" for name, (step, query) in QUERIES.items()),
    )
    let_all_go(both, "engines", datetime(2025, 9, 1, tzinfo=UTC))
    assert both.run("SELECT count(*) FROM engines") == [(0,)]
    yield both
    both.run("SELECT lakets.drop_chronotable('engines')", "DROP TYPE engine_mood")


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        # Sums of floating-point numbers depend on the order of the rows.
        return repr(left) == repr(right) or left == right or abs(left - right) <= 1e-9 * max(abs(left), abs(right))
    return str(left) == str(right) or (isinstance(left, Decimal) and bool(left == right == 0))  # 0 or 0.000


@pytest.mark.parametrize("name", QUERIES)
def test_r10_spark_gives_what_postgresql_had(engines: Lake, name: str) -> None:
    before = stored(engines, name)
    assert before
    forget(engines, name)
    done = engines.stack.recomputer().run(name)
    after = stored(engines, name)
    assert done.rows >= len(after) == len(before)
    for left, right in zip(before, after, strict=True):
        assert all(map(equal, left, right)), (left, right)


@pytest.mark.parametrize(("kind", "step"), [("timestamp", "1 hour"), ("date", "1 day")])
def test_r10_times_without_a_zone(both: Lake, kind: str, step: str) -> None:
    table, name = f"plain_{kind}", f"of_{kind}"
    query = f"SELECT date_bin('{step}', ts::timestamp, '2001-01-01') AS bucket, max(ts) AS last, count(*) AS n"
    both.run(
        f"CREATE TABLE {table} (ts {kind} NOT NULL, v int)",
        f"INSERT INTO {table} SELECT ('{FIRST}'::timestamptz AT TIME ZONE 'UTC' + g * interval '7 hours')::{kind}, g"
        " FROM generate_series(0, 49) g",
        f"SELECT lakets.create_chronotable('{table}', 'ts', '200 days')",
        f"SELECT lakets.enable_sync('{table}')",
        f"SELECT lakets.create_rollup('{name}', $q${query} FROM {table} GROUP BY 1$q$, '{step}')",
    )
    let_all_go(both, table, datetime(2025, 9, 1, tzinfo=UTC))
    before = stored(both, name)
    forget(both, name)
    both.stack.recomputer().run(name)
    assert before == stored(both, name) != []
    both.run(f"SELECT lakets.drop_chronotable('{table}')")
