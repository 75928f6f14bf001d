"""Gap filling, zones, carrying forward, deltas, rates, histograms; first and last against a reference in Python."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.questions import ask, one, refused

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
TIMES = st.timedeltas(timedelta(days=-20000), timedelta(days=20000)).map(ORIGIN.__add__)
NUMBERS = st.floats(-1e6, 1e6)


def plan(db: psycopg.Connection, statement: str) -> str:
    return "\n".join(line for (line,) in ask(db, f"EXPLAIN (VERBOSE, COSTS OFF) {statement}"))


# ---- zones ------------------------------------------------------------------------------------


def bucket(db: psycopg.Connection, interval: str, at: str, zone: str) -> str:
    asked = "SELECT lakets.time_bucket(%s::interval, %s::timestamptz, p_timezone => %s)::text"
    return str(one(db, asked, interval, at, zone))


def test_days_of_a_zone_begin_at_its_midnight(db: psycopg.Connection) -> None:
    assert bucket(db, "1 day", "2026-07-01 21:59+00", "Europe/Berlin") == "2026-06-30 22:00:00+00"
    assert bucket(db, "1 day", "2026-07-01 22:00+00", "Europe/Berlin") == "2026-07-01 22:00:00+00"
    assert bucket(db, "1 month", "2026-03-31 22:30+00", "Europe/Berlin") == "2026-03-31 22:00:00+00"
    assert bucket(db, "1 day", "2026-07-01 21:59+00", "UTC") == "2026-07-01 00:00:00+00"


def test_the_day_on_which_the_clock_is_changed_is_one_bucket(db: psycopg.Connection) -> None:
    hours = "FROM generate_series(timestamptz '2026-10-24 22:00+00', '2026-10-25 23:59+00', '30 minutes') t"
    counted = f"SELECT lakets.time_bucket('1 day', t, p_timezone => 'Europe/Berlin')::text, count(*) {hours} GROUP BY 1"
    assert ask(db, counted + " ORDER BY 1") == [("2026-10-24 22:00:00+00", 50), ("2026-10-25 23:00:00+00", 2)]


def test_an_hour_that_the_clock_shows_twice_is_two_buckets(db: psycopg.Connection) -> None:
    assert bucket(db, "1 hour", "2026-10-25 00:30+00", "Europe/Berlin") == "2026-10-25 00:00:00+00"
    assert bucket(db, "1 hour", "2026-10-25 01:30+00", "Europe/Berlin") == "2026-10-25 01:00:00+00"


def test_a_midnight_that_comes_twice_begins_one_day(db: psycopg.Connection) -> None:
    """On the Azores the clock goes from 01:00 back to 00:00."""
    starts = {bucket(db, "1 day", f"2026-10-25 {hour:02}:30+00", "Atlantic/Azores") for hour in range(24)}
    assert starts == {"2026-10-25 00:00:00+00"}


@settings(max_examples=25)
@given(
    times=st.lists(TIMES, min_size=1, max_size=40),
    interval=st.sampled_from(["15 minutes", "1 hour", "6 hours", "1 day", "7 days", "1 month"]),
    zone=st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_a_bucket_of_a_zone_holds_its_time_and_starts_itself(
    dsn: str, times: list[datetime], interval: str, zone: str
) -> None:
    with psycopg.connect(dsn) as session:
        rows = session.execute(
            "SELECT b <= t, lakets.time_bucket(i, b, p_timezone => z) = b FROM unnest(%s::timestamptz[]) t,"
            " (SELECT %s::interval, %s) p(i, z), lakets.time_bucket(i, t, p_timezone => z) b",
            [times, interval, zone],
        ).fetchall()
    assert set(rows) == {(True, True)}


def test_an_origin_of_ones_own_is_an_instant(db: psycopg.Connection) -> None:
    asked = (
        "SELECT lakets.time_bucket('7 days', '2026-07-01 12:00+00', '2026-06-29 00:00+02', 'Europe/Berlin')"
        " = timestamptz '2026-06-29 00:00+02'"
    )
    assert one(db, asked) is True


def test_an_unknown_zone_is_refused(db: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match='time zone "Europe/Nowhere" not recognized'):
        bucket(db, "1 day", "2026-01-01", "Europe/Nowhere")
    assert one(db, "SELECT lakets.time_bucket('1 day', now(), p_timezone => NULL)") is None


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        ("lakets.time_bucket('1 day', ts)", "date_bin('1 day'::interval, ts"),
        ("lakets.locf(v)", "v"),
        ("lakets.locf(v, 1)", "COALESCE(v"),
        ("lakets.delta(v, 1)", "CASE WHEN"),
        ("lakets.rate(v, 1, ts, ts)", "NULLIF"),
        ("lakets.histogram(v, 0, 1, 10)", "width_bucket(v"),
    ],
)
def test_the_planner_sees_through_them(db: psycopg.Connection, expression: str, seen: str) -> None:
    db.execute("CREATE TABLE t (ts timestamptz, v float8)")
    (shown,) = [line for line in plan(db, f"SELECT {expression} FROM t").splitlines() if "Output" in line]
    assert seen in shown
    assert "lakets.time_bucket" not in shown
    assert expression.partition("(")[0] not in shown


def test_rows_of_other_chunks_are_not_read_for_a_bucket(db: psycopg.Connection) -> None:
    """What the planner sees through it can also compare with the chunks' bounds."""
    db.execute("CREATE TABLE t (ts timestamptz NOT NULL, v float8)")
    db.execute("INSERT INTO t VALUES ('2026-01-01 00:00+00')")
    db.execute("SELECT lakets.create_chronotable('t', 'ts', '1 month')")
    shown = plan(db, "SELECT * FROM t WHERE ts >= lakets.time_bucket('1 month', timestamptz '2026-03-10 12:00+00')")
    assert "t_20260301_000000" in shown
    assert "t_20260201_000000" not in shown


# ---- gap filling ------------------------------------------------------------------------------


def gapfill(dsn: str, interval: str, start: datetime, finish: datetime, **named: Any) -> list[datetime]:
    extra = "".join(f", {name} => %s" for name in named)
    with psycopg.connect(dsn) as session:
        session.execute("SET timezone = 'UTC'")
        asked = f"SELECT lakets.time_bucket_gapfill(%s::interval, %s, %s{extra})"
        return [at for (at,) in session.execute(asked.encode(), [interval, start, finish, *named.values()])]


@settings(max_examples=25)
@given(
    start=TIMES,
    steps=st.integers(0, 60),
    width=st.sampled_from(["1 second", "7 minutes", "1 hour", "1 day", "7 days", "1 month", "5 months", "1 year"]),
    origin=st.sampled_from([ORIGIN, datetime(2001, 5, 31, 7, tzinfo=UTC)]),
)
def test_gapfill_is_every_bucket_of_time_bucket(
    dsn: str, start: datetime, steps: int, width: str, origin: datetime
) -> None:
    """Against time_bucket at points that lie closer than the buckets are wide."""
    with psycopg.connect(dsn) as session:
        session.execute("SET timezone = 'UTC'")
        ((finish, expected),) = session.execute(
            "SELECT %(start)s + %(n)s * w, array(SELECT DISTINCT lakets.time_bucket(w, g, %(origin)s)"
            " FROM generate_series(%(start)s::timestamptz, %(start)s + %(n)s * w, w / 5) g"
            " UNION SELECT lakets.time_bucket(w, %(start)s + %(n)s * w, %(origin)s) ORDER BY 1)"
            " FROM (SELECT %(width)s::interval) u(w)",
            {"start": start, "n": steps, "width": width, "origin": origin},
        ).fetchall()
    assert gapfill(dsn, width, start, finish, p_origin=origin) == expected


def test_both_ends_are_in(dsn: str) -> None:
    first, last = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 7, tzinfo=UTC)
    assert gapfill(dsn, "1 day", first, last) == [first, first + timedelta(days=1), last]
    assert gapfill(dsn, "1 day", first + timedelta(hours=5), first + timedelta(hours=6)) == [first]
    assert gapfill(dsn, "1 day", last, first) == []
    months = gapfill(dsn, "1 month", datetime(2025, 12, 31, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    assert months == [
        datetime(2025, 12, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 2, 1, tzinfo=UTC),
    ]


def test_days_of_a_zone_are_filled_over_the_change_of_the_clock(dsn: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start, finish = datetime(2026, 3, 27, tzinfo=berlin), datetime(2026, 3, 31, tzinfo=berlin)
    found = gapfill(dsn, "1 day", start, finish, p_timezone="Europe/Berlin")
    assert found == [datetime(2026, 3, day, tzinfo=berlin) for day in (27, 28, 29, 30, 31)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("NULL, now(), now()", "one is NULL"),
        ("'1 day', NULL, now()", "one is NULL"),
        ("'1 day', now(), 'infinity'", "cannot fill from"),
        ("'0', now(), now()", "there are no buckets of '00:00:00'"),
        ("'1 month 1 day', now(), now()", "cannot be binned"),
    ],
)
def test_what_cannot_be_filled_is_refused(db: psycopg.Connection, arguments: str, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message):
        ask(db, f"SELECT lakets.time_bucket_gapfill({arguments})")


def test_a_gap_is_carried_over_and_interpolated(db: psycopg.Connection) -> None:
    """The query that people write: buckets, what was measured, and the neighbours of what was not."""
    rows = ask(
        db,
        """
        WITH measured (t, v) AS (VALUES (timestamptz '2026-01-01', 10.0::float8), ('2026-01-04', 40)),
        filled AS (
            SELECT b, m.v, lakets.last(p.v, p.t) AS prev, lakets.last(p.t, p.t) AS prev_t,
                   (SELECT lakets.first(n.v, n.t) FROM measured n WHERE n.t > b) AS next,
                   (SELECT lakets.first(n.t, n.t) FROM measured n WHERE n.t > b) AS next_t
            FROM lakets.time_bucket_gapfill('1 day', '2026-01-01', '2026-01-04') b
            LEFT JOIN measured m ON m.t = b LEFT JOIN measured p ON p.t < b GROUP BY b, m.v
        )
        SELECT lakets.locf(v, prev), lakets.interpolate(v, prev, next, prev_t, b, next_t) FROM filled ORDER BY b
        """,
    )
    assert rows == [(10, 10), (10, 20), (10, 30), (40, 40)]


# ---- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("locf(1, 2)", 1),
        ("locf(NULL, 2)", 2),
        ("locf(NULL)", None),
        ("interpolate(7, NULL, NULL, NULL, NULL, NULL)", 7),
        ("interpolate(NULL, 1, 2, '2026-01-01', '2026-01-01 06:00', '2026-01-02')", 1.25),
        ("interpolate(NULL, 1, 2, '2026-01-01', '2026-01-02', '2026-01-01')", 1),
        ("interpolate(NULL, NULL, 2, '2026-01-01', '2026-01-02', '2026-01-03')", None),
        ("interpolate(NULL, 1, 2, '2026-01-01', NULL, '2026-01-03')", None),
        ("delta(5, 3)", 2),
        ("delta(3, 5)", 3),
        ("delta(3, 5, false)", -2),
        ("delta(3, 5, NULL)", None),
        ("delta(3, NULL)", None),
        ("delta(NULL, 3)", None),
        ("delta(3, 'NaN')", math.nan),
        ("rate(5, 3, '2026-01-01 00:00:10', '2026-01-01')", 0.2),
        ("rate(3, 5, '2026-01-01 00:00:10', '2026-01-01')", 0.3),
        ("rate(3, 5, '2026-01-01 00:00:10', '2026-01-01', false)", -0.2),
        ("rate(5, 3, '2026-01-01', '2026-01-01')", None),
        ("rate(5, 3, NULL, '2026-01-01')", None),
        ("histogram(0, 0, 10, 5)", 0),
        ("histogram(1.999, 0, 10, 5)", 0),
        ("histogram(2, 0, 10, 5)", 1),
        ("histogram(10, 0, 10, 5)", 4),
        ("histogram(-1, 0, 10, 5)", 0),
        ("histogram('-Infinity', 0, 10, 5)", 0),
        ("histogram('Infinity', 0, 10, 5)", 4),
        ("histogram('NaN', 0, 10, 5)", None),
        ("histogram(NULL, 0, 10, 5)", None),
        ("histogram(1, NULL, 10, 5)", None),
        ("histogram(1, 0, 10, NULL)", None),
    ],
)
def test_values(db: psycopg.Connection, call: str, expected: float | None) -> None:
    found = one(db, f"SELECT lakets.{call}")
    assert found == expected or (expected is not None and math.isnan(expected) and math.isnan(found))


@pytest.mark.parametrize(
    "arguments", ["1, 0, 10, 0", "1, 10, 10, 5", "1, 10, 0, 5", "1, '-Infinity', 0, 5", "1, 0, 'NaN', 5"]
)
def test_a_histogram_that_cannot_be_drawn_is_refused(db: psycopg.Connection, arguments: str) -> None:
    refused(db, f"SELECT lakets.histogram({arguments})", "there is no histogram")


@settings(max_examples=25)
@given(counts=st.lists(st.integers(0, 1000), min_size=2, max_size=30))
def test_the_deltas_of_a_counter_are_its_growth(dsn: str, counts: list[int]) -> None:
    with psycopg.connect(dsn) as session:
        ((grown, per_second, plain),) = session.execute(
            "SELECT sum(lakets.delta(v, p)), sum(lakets.rate(v, p, at, before) * 3),"
            " sum(lakets.delta(v, p, false)) FROM (SELECT v, lag(v) OVER w AS p, at, lag(at) OVER w AS before FROM"
            " (SELECT v, now() + n * interval '3 seconds' AS at FROM unnest(%s::float8[]) WITH ORDINALITY u(v, n)) c"
            " WINDOW w AS (ORDER BY at)) r",
            [counts],
        ).fetchall()
    expected = sum(b - a if b >= a else b for a, b in itertools.pairwise(counts))
    assert grown == expected
    assert per_second == pytest.approx(expected)
    assert plain == counts[-1] - counts[0]


@settings(max_examples=25)
@given(value=NUMBERS, low=NUMBERS, width=st.floats(1e-3, 1e6), buckets=st.integers(1, 1000))
def test_a_histogram_never_leaves_its_buckets(dsn: str, value: float, low: float, width: float, buckets: int) -> None:
    with psycopg.connect(dsn) as session:
        asked = "SELECT lakets.histogram(%s, %s, %s, %s)"
        ((found,),) = session.execute(asked, [value, low, low + width, buckets]).fetchall()
    share = (value - low) / width * buckets
    assert 0 <= found < buckets
    assert abs(found - min(max(share, 0), buckets)) <= 1 + 1e-6 * buckets
