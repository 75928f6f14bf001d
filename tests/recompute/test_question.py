"""What Spark is asked for: what is not known to come out as in PostgreSQL is refused by name, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from harness.questions import ask
from thermocline.errors import Refused
from thermocline.recompute.expressions import NotOnSpark
from thermocline.recompute.recompute import Recomputer

if TYPE_CHECKING:
    import psycopg


COLUMNS = (
    'ts timestamptz NOT NULL, k text, c text COLLATE "C", i int, s smallint, b bigint, f float8, r real,'
    " n numeric(12,3),"
    " u numeric, d date, j jsonb, ok boolean, fixed char(4), id uuid, other timestamptz"
)


def no_spark() -> NoReturn:
    raise AssertionError("Spark was asked for")


@pytest.fixture
def recomputer(db: psycopg.Connection, dsn: str) -> Recomputer:
    ask(db, f"CREATE TABLE m ({COLUMNS})")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    return Recomputer(dsn, no_spark)


def made(db: psycopg.Connection, items: str, rest: str = "", keys: str = "") -> None:
    query = f"SELECT lakets.time_bucket('1 hour', ts) AS hour, {items} FROM m {rest} GROUP BY 1{keys}"
    ask(db, "SELECT lakets.create_rollup('r', %s)", query)


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ("array_agg(i)", "array_agg"),
        ("string_agg(k, ',')", "string_agg"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY f)", "percentile_cont"),
        ("mode() WITHIN GROUP (ORDER BY i)", "mode"),
        ("stddev(i)", "stddev of integer"),
        ("variance(n)", "variance of numeric"),
        ("sum(r)", "sum of real"),
        ("sum(DISTINCT i)", r"sum\(DISTINCT\)"),
        ("count(DISTINCT f)", r"count\(DISTINCT\) of double precision"),
        ("count(DISTINCT j)", r"count\(DISTINCT\) of jsonb"),
        ("count(DISTINCT fixed)", r"count\(DISTINCT\) of character"),
        ("max(fixed)", "max of character"),
        ("sum(s + s)", r"smallint \+ smallint"),
        ("sum(n / 3)", r"numeric / numeric"),
        ("sum(round(f))", "round"),
        ("sum(f::int)", "cast of double precision to integer"),
        ("count(*) FILTER (WHERE k ~ 'a.*')", "operator ~"),
        ("count(*) FILTER (WHERE lower(k) = 'a')", "lower"),
        ("sum(extract(hour FROM ts AT TIME ZONE 'UTC'))", "EXTRACT"),
        ("sum((j ->> 'a')::int)", "->>"),
        ("bit_or(i)", "bit_or"),
        ("count(*) FILTER (WHERE k LIKE 'a\\_%')", "LIKE"),
        ("max(n * n * n * n)", "more digits"),
        ("min(u + 1)", "more digits"),
        ("regr_slope(f, f)", "regr_slope"),
    ],
)
def test_r10_what_spark_cannot_compute_is_refused_by_name(
    db: psycopg.Connection, recomputer: Recomputer, items: str, named: str
) -> None:
    made(db, f"{items} AS x")
    with pytest.raises(NotOnSpark, match=named) as error:
        recomputer.plan("r")
    assert error.value.code == "rollup.not_on_spark"


@pytest.mark.parametrize(
    ("items", "rest", "keys", "named"),
    [
        ("lower(k) AS x, count(*) AS n", "", ", 2", "lower"),
        ("u AS x, count(*) AS n", "", ", 2", "key of type numeric"),
        ("fixed AS x, count(*) AS n", "", ", 2", "key of type character"),
        ("lakets.time_bucket('1 day', other) AS x, count(*) AS n", "", ", 2", "time_bucket"),
        ("count(*) AS n", "WHERE date_trunc('day', other, 'UTC') = ts", "", "date_trunc"),
        ("count(*) AS n", "WHERE j @> '{}'", "", "@>"),
    ],
)
def test_r10_keys_and_conditions_that_spark_cannot_compute_are_refused_by_name(
    db: psycopg.Connection, recomputer: Recomputer, items: str, rest: str, keys: str, named: str
) -> None:
    made(db, items, rest, keys)
    with pytest.raises(NotOnSpark, match=named):
        recomputer.plan("r")


def test_texts_sorted_by_another_rule_are_refused_and_by_their_bytes_are_not(
    db: psycopg.Connection, recomputer: Recomputer
) -> None:
    ask(db, "CREATE COLLATION by_locale (provider = libc, locale = 'C.UTF-8')")
    ask(db, "ALTER TABLE m ALTER k TYPE text COLLATE by_locale")
    made(db, "max(k) AS x")
    with pytest.raises(NotOnSpark, match="max of text: it is sorted by other rules"):
        recomputer.plan("r")
    ask(db, "SELECT lakets.drop_rollup('r')")
    made(db, "max(c) AS x, count(*) FILTER (WHERE c < 'b') AS n")
    assert recomputer.plan("r").lines == ()


def test_an_aggregate_of_a_users_own_is_refused_by_name(db: psycopg.Connection, recomputer: Recomputer) -> None:
    ask(db, "CREATE AGGREGATE sum_of(int) (SFUNC = int4pl, STYPE = int)")
    made(db, "sum_of(i) AS x")
    with pytest.raises(NotOnSpark, match=r"public\.sum_of"):
        recomputer.plan("r")


def test_what_is_asked_for_wrongly_is_refused(db: psycopg.Connection, recomputer: Recomputer) -> None:
    from datetime import UTC, datetime

    made(db, "count(*) AS n")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for end in (moment, datetime(2025, 1, 1, tzinfo=UTC)):
        with pytest.raises(Refused, match="Cannot recompute r from 2026-01-01"):
            recomputer.plan("r", moment, end)
    with pytest.raises(Refused, match="there is no RollUp nobody"):
        recomputer.plan("nobody")
    with pytest.raises(Refused, match="All rows of r there are in PostgreSQL"):
        recomputer.run("r")
