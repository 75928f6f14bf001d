"""When work is due, as a pure question."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from thermocline.work.schedule import BadSchedule, Rule, Window, parse_every, parse_window

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday
HOURLY = Rule(timedelta(hours=1))


def test_missed_runs_collapse_into_one_and_the_grid_is_kept() -> None:
    assert HOURLY.next_run(NOON, NOON) == NOON + timedelta(hours=1)
    assert HOURLY.next_run(NOON, NOON + timedelta(hours=7, minutes=20)) == NOON + timedelta(hours=8)
    assert HOURLY.next_run(None, NOON) == NOON + timedelta(hours=1)
    assert HOURLY.next_run(NOON + timedelta(days=1), NOON) == NOON + timedelta(hours=1), "the clock was set back"


def test_cron_is_utc_and_comes_after_now() -> None:
    sundays = Rule(cron="0 3 * * 0")
    assert sundays.next_run(None, NOON) == datetime(2026, 3, 8, 3, tzinfo=UTC)
    assert sundays.next_run(NOON, datetime(2026, 3, 8, 3, tzinfo=UTC)) == datetime(2026, 3, 15, 3, tzinfo=UTC)
    in_tokyo = NOON.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00+09:00").tzinfo)
    assert Rule(cron="30 12 * * *").next_run(None, in_tokyo) == NOON + timedelta(minutes=30)


def test_a_new_rule_is_due_at_once_by_an_interval_and_in_its_time_by_cron() -> None:
    assert HOURLY.first_run(None, NOON) == NOON
    assert HOURLY.first_run(NOON - timedelta(minutes=20), NOON) == NOON + timedelta(minutes=40)
    assert HOURLY.first_run(NOON - timedelta(days=2), NOON) == NOON
    assert Rule(cron="0 13 * * *").first_run(None, NOON) == NOON + timedelta(hours=1)


@given(
    every=st.integers(1, 10**7),
    since=st.integers(0, 10**9),
)
def test_the_next_run_is_on_the_grid_after_now_and_no_later_than_needed(every: int, since: int) -> None:
    rule = Rule(timedelta(seconds=every))
    now = NOON + timedelta(seconds=since)
    found = rule.next_run(NOON, now)
    assert now < found <= now + timedelta(seconds=every)
    assert (found - NOON) % timedelta(seconds=every) == timedelta(0)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(cron="61 * * * *"),
        Rule(cron="nonsense"),
        Rule(cron="0 0 30 2 *"),
        Rule(timedelta(0)),
        Rule(timedelta(seconds=-5)),
        Rule(),
        Rule(timedelta(hours=1), "* * * * *"),
    ],
    ids=repr,
)
def test_nonsense_is_refused_with_what_to_do(rule: Rule) -> None:
    with pytest.raises(BadSchedule) as caught:
        rule.check()
    assert caught.value.next_step


@given(
    start=st.times(),
    end=st.times(),
    means=st.sampled_from(["runs", "pauses"]),
    moment=st.datetimes(min_value=datetime(2000, 1, 2), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_a_window_opens_as_soon_as_it_can(start: time, end: time, means: str, moment: datetime) -> None:
    assume(start != end)
    window = Window(start, end, means)
    opens = window.next_open(moment)
    assert moment <= opens <= moment + timedelta(days=1)
    assert window.next_open(opens) == opens, "it is open then"
    if opens > moment:
        just_before = opens - timedelta(microseconds=1)
        assert window.next_open(just_before) == opens, "it is closed until then"


def test_intervals_and_windows_as_people_write_them() -> None:
    told = ["30s", "5m", "5 minutes", "2h", "1 hour", "1d", "2 days", "1.5h"]
    assert [parse_every(text).total_seconds() for text in told] == [30, 300, 300, 7200, 3600, 86400, 172800, 5400]
    assert parse_window("runs 22:00-06:00") == Window(time(22), time(6), "runs")
    assert str(parse_window("pauses 9:00-17:30")) == "pauses 09:00-17:30"
    for bad in ("", "5", "5 months", "-1h", "0s", "1e9d"):
        with pytest.raises(BadSchedule):
            parse_every(bad)
    for bad in ("", "22:00-06:00", "runs 25:00-06:00", "runs 06:00-06:00", "sleeps 01:00-02:00", "runs 1-2"):
        with pytest.raises(BadSchedule):
            parse_window(bad)
