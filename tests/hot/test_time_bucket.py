"""lakets.time_bucket against a reference in Python, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.questions import refused

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


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("interval", ["0", "-1 day", "-1 month", "1 day -24 hours"])
def test_an_interval_without_a_length_is_refused(db: psycopg.Connection, interval: str, zone: str) -> None:
    for call in ("time_bucket(%s::interval, now(),", "time_bucket_gapfill(%s::interval, now(), now(),"):
        asked = f"SELECT lakets.{call} p_timezone => %s)"
        refused(db, asked, "there are no buckets of '.*': their length is not positive", interval, zone)


def test_an_interval_that_makes_no_grid_is_refused(dsn: str) -> None:
    with pytest.raises(psycopg.Error, match="cannot be binned"):
        ask(dsn, "1 month 1 day", [ORIGIN])


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


@pytest.mark.parametrize(
    "interval", ["25 minutes", "45 minutes", "70 minutes", "90 minutes", "5 hours", "1 day", "36 hours"]
)
@pytest.mark.parametrize(
    ("zone", "day"),
    [("Europe/Berlin", "2026-10-24"), ("America/New_York", "2026-10-31"), ("Australia/Lord_Howe", "2026-04-04"),
     ("America/St_Johns", "2006-10-28"), ("America/Havana", "2026-10-31"), ("Antarctica/Troll", "2026-10-24")],
)  # fmt: skip
def test_r14_buckets_do_not_go_back_when_the_clock_does(dsn: str, interval: str, zone: str, day: str) -> None:
    """In St John's the clock was put back a minute after midnight, so that even a day had begun and not begun."""
    with psycopg.connect(dsn) as session:
        found = session.execute(
            "SELECT t, b, lakets.time_bucket(%(i)s::interval, b, '2000-01-01 00:00+00', %(z)s)"
            " FROM generate_series(%(d)s::timestamptz, %(d)s::timestamptz + interval '60 hours', '150 seconds') t,"
            " lakets.time_bucket(%(i)s::interval, t, '2000-01-01 00:00+00', %(z)s) b ORDER BY t",
            {"i": interval, "z": zone, "d": day},
        ).fetchall()
    starts = [start for _, start, _ in found]
    assert starts == sorted(starts)
    assert all(start <= at for at, start, _ in found)
    assert all(again == start for _, start, again in found)


def test_r14_a_bucket_that_was_open_stays_so_until_the_clock_shows_the_next_start(dsn: str) -> None:
    """In Berlin it is 02:00 twice, at midnight and at one by UTC; 02:15 is a start that night."""
    with psycopg.connect(dsn) as session:
        session.execute("SET timezone = 'UTC'")
        found = session.execute(
            "SELECT DISTINCT to_char(b, 'HH24:MI'), to_char(b AT TIME ZONE 'Europe/Berlin', 'HH24:MI'), b FROM"
            " generate_series('2026-10-24 23:00+00'::timestamptz, '2026-10-25 02:59+00', '1 minute') t,"
            " lakets.time_bucket('45 minutes', t, '2026-10-24 22:00+00', 'Europe/Berlin') b ORDER BY b"
        ).fetchall()
    assert [row[:2] for row in found] == [
        ("22:45", "00:45"),
        ("23:30", "01:30"),
        ("00:15", "02:15"),
        ("01:15", "02:15"),
        ("02:00", "03:00"),
        ("02:45", "03:45"),
    ]
