"""lakets.time_bucket against a reference in Python, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
TIMES = st.timedeltas(timedelta(days=-36500), timedelta(days=36500)).map(ORIGIN.__add__)


def ask(dsn: str, interval: str, times: list[datetime], origin: datetime = ORIGIN) -> list[datetime]:
    with psycopg.connect(dsn) as session:
        session.execute("SET timezone = 'UTC'")
        cursor = session.execute(
            "SELECT lakets.time_bucket(%s::interval, t, %s) FROM unnest(%s::timestamptz[])"
            " WITH ORDINALITY u(t, n) ORDER BY n",
            [interval, origin, times],
        )
        return [row[0] for row in cursor.fetchall()]


@settings(max_examples=20)
@given(times=st.lists(TIMES, min_size=1, max_size=50), minutes=st.integers(1, 60 * 24 * 400), origin=TIMES)
def test_fixed_buckets_are_multiples_from_the_origin(
    dsn: str, times: list[datetime], minutes: int, origin: datetime
) -> None:
    width = timedelta(minutes=minutes)
    expected = [origin + (t - origin) // width * width for t in times]
    assert ask(dsn, f"{minutes} minutes", times, origin) == expected


@settings(max_examples=20)
@given(times=st.lists(TIMES, min_size=1, max_size=50), months=st.integers(1, 40))
def test_month_buckets_follow_the_calendar(dsn: str, times: list[datetime], months: int) -> None:
    def start(t: datetime) -> datetime:
        number = ((t.year - 2000) * 12 + t.month - 1) // months * months
        return datetime(2000 + number // 12, number % 12 + 1, 1, tzinfo=UTC)

    assert ask(dsn, f"{months} months", times) == [start(t) for t in times]


def test_month_buckets_from_an_origin_inside_a_month(dsn: str) -> None:
    origin = datetime(2000, 1, 15, 6, tzinfo=UTC)
    times = [datetime(2024, 3, 15, 5, 59, tzinfo=UTC), datetime(2024, 3, 15, 6, tzinfo=UTC)]
    assert ask(dsn, "1 month", times, origin) == [
        datetime(2024, 2, 15, 6, tzinfo=UTC),
        datetime(2024, 3, 15, 6, tzinfo=UTC),
    ]


@settings(max_examples=20)
@given(times=st.lists(TIMES, min_size=1, max_size=50), months=st.integers(1, 30), day=st.integers(1, 31))
def test_a_months_bucket_holds_its_time_and_starts_itself(
    dsn: str, times: list[datetime], months: int, day: int
) -> None:
    origin = datetime(2000, 1, day, tzinfo=UTC)
    starts = ask(dsn, f"{months} months", times, origin)
    assert all(start <= t for start, t in zip(starts, times, strict=True))
    assert ask(dsn, f"{months} months", starts, origin) == starts
    nexts = [start + timedelta(days=31 * months + 4) for start in starts]
    assert all(t < after for t, after in zip(times, ask(dsn, f"{months} months", nexts, origin), strict=True))


def test_before_christ_there_was_no_year_nought(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("SET timezone = 'UTC'")
        row = session.execute(
            "SELECT lakets.time_bucket('1 month', '0001-06-15 00:00+00 BC')::text,"
            " lakets.time_bucket('1 year', '0004-06-15 00:00+00 BC')::text"
        ).fetchone()
    assert row == ("0001-06-01 00:00:00+00 BC", "0004-01-01 00:00:00+00 BC")


@pytest.mark.parametrize("interval", ["1 month 1 day", "0", "-1 day", "-1 month"])
def test_an_interval_that_makes_no_grid_is_refused(dsn: str, interval: str) -> None:
    with pytest.raises(psycopg.Error, match=r"stride must be|cannot be binned"):
        ask(dsn, interval, [ORIGIN])


def test_null_and_infinity_pass_through(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        row = session.execute(
            "SELECT lakets.time_bucket('1 day', NULL), lakets.time_bucket('1 month', 'infinity')::text"
        ).fetchone()
    assert row == (None, "infinity")


def test_the_planner_sees_through_it(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE TABLE t (ts timestamptz)")
        plan = session.execute("EXPLAIN (VERBOSE) SELECT lakets.time_bucket('1 day', ts) FROM t").fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "date_bin('1 day'::interval, ts" in text
    assert "time_bucket" not in text


@pytest.mark.parametrize(
    ("interval", "zone", "day"),
    [("70 minutes", "Europe/Berlin", "2010-03-28"), ("50 minutes", "Europe/Berlin", "2026-03-29"),
     ("2 hours", "Antarctica/Troll", "2026-03-29"), ("40 minutes", "America/New_York", "2026-03-08")],
)  # fmt: skip
def test_r14_a_bucket_whose_start_the_clock_skips_begins_when_it_is_put_forward(
    dsn: str, interval: str, zone: str, day: str
) -> None:
    with psycopg.connect(dsn) as session:
        found = session.execute(
            "SELECT t, lakets.time_bucket(%s::interval, t, '2000-01-01 00:00+00', %s),"
            " lakets.time_bucket(%s::interval, lakets.time_bucket(%s::interval, t, '2000-01-01 00:00+00', %s),"
            "                    '2000-01-01 00:00+00', %s)"
            " FROM generate_series(%s::timestamptz, %s::timestamptz + interval '1 day', interval '5 minutes') t",
            [interval, zone, interval, interval, zone, zone, day, day],
        ).fetchall()
    assert all(start <= at for at, start, _ in found)
    assert all(again == start for _, start, again in found)
    starts = [start for _, start, _ in found]
    assert starts == sorted(starts)
