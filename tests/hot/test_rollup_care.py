"""What people ask of a RollUp: what waits and why, whether it is right, and that it never shows a part as the whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import ask, one
from harness.sessions import Session
from thermocline.hot import rollups

if TYPE_CHECKING:
    from typing import LiteralString

HOURLY: LiteralString = (
    "SELECT lakets.time_bucket('1 hour', ts) AS hour, device, sum(v) AS total, avg(f) AS mean FROM m GROUP BY 1, 2"
)
WEEKLY: LiteralString = "SELECT lakets.time_bucket('7 days', ts) AS week, count(*) AS n FROM m GROUP BY 1"


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """A table of ten days with chunks of a day, three devices and one without a name."""
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, device text, v int, f float8)")
    db.execute(
        "INSERT INTO m SELECT now() - g * interval '10 minutes', nullif('d' || g % 4, 'd3'), g, g * 0.1"
        " FROM generate_series(0, 1440) g"
    )
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    return db


def make(db: psycopg.Connection, name: str, query: str, interval: str) -> None:
    ask(db, "SELECT lakets.create_rollup(%s, %s, %s)", name, query, interval)
    ask(db, "SELECT lakets.create_rollup_view(%s, NULL)", name)
    ask(db, "UPDATE lakets._rollup_registry SET refresh_lag = '0'")


@pytest.fixture
def hourly(db: psycopg.Connection) -> psycopg.Connection:
    make(db, "hourly", HOURLY, "1 hour")
    assert one(db, "SELECT lakets.refresh_rollup('hourly')")
    return db


def items(db: psycopg.Connection, name: str = "hourly") -> dict[str, Any]:
    return {row[0]: row[1:] for row in ask(db, "SELECT * FROM lakets.explain_rollup(%s)", name)}


def check(db: psycopg.Connection, *asked: Any) -> list[tuple[Any, ...]]:
    return ask(db, "SELECT bucket, keys, difference, stored, computed FROM lakets.check_rollup(%s, %s, %s)", *asked)


# ---- what waits ------------------------------------------------------------------------------


def test_what_is_dirty_why_since_when_and_what_it_costs(hourly: psycopg.Connection) -> None:
    assert items(hourly).keys() == {"newest"}
    ask(hourly, "ANALYZE m, _rollup_hourly")
    ((began,),) = ask(hourly, "SELECT clock_timestamp()")
    at = ask(hourly, "SELECT now() - interval '50 hours'")[0][0]
    ask(hourly, "INSERT INTO m VALUES (%s, 'd1', 1, 1), (%s, 'd2', 1, 1)", at, at)
    found = items(hourly)
    assert found.keys() == {"marks", "keys", "newest"}
    reason, since, first, last, how_many, _ = found["marks"]
    assert (reason, first, last, how_many) == ("late_write", at, at, 2)
    assert since >= began
    _, _, start, end, keys, rows = found["keys"]
    assert start <= at < end
    assert end - start == timedelta(hours=1)
    assert keys == 2
    assert 1 <= rows <= 12  # six rows of an hour and four devices, two of them read
    ask(hourly, "SELECT lakets.refresh_rollup('hourly')")
    assert items(hourly).keys() == {"newest"}


def test_marks_say_who_has_made_them(hourly: psycopg.Connection) -> None:
    chunk = one(hourly, "SELECT chunk_name FROM lakets.show_chunks('m') ORDER BY range_start OFFSET 3 LIMIT 1")
    ask(hourly, f"TRUNCATE {chunk}")
    ask(hourly, "SELECT lakets.invalidate_rollup_range('hourly', now() - interval '30 h', now() - interval '29 h')")
    reasons = [row[0] for row in ask(hourly, "SELECT reason FROM lakets.explain_rollup('hourly') WHERE item = 'marks'")]
    assert sorted(reasons) == ["by_hand", "chunk_changed"]
    _, _, start, end, buckets, rows = items(hourly)["buckets"]
    assert buckets == 26
    assert end - start >= timedelta(hours=24)
    assert rows > 0


def test_a_transaction_that_holds_the_watermark_is_named(hourly: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as writer:
        writer.run("INSERT INTO m VALUES (now(), 'd1', 1, 1)")
        pid = writer.run("SELECT pg_backend_pid()")[0][0]
        reason, since, *_ = items(hourly)["holder"]
        assert f"process {pid}" in reason
        assert since <= datetime.now(UTC)
        writer.rollback()
        assert f"process {pid}" not in str(items(hourly).get("holder"))


def test_a_lag_and_tracking_that_is_off_are_said(hourly: psycopg.Connection) -> None:
    ask(hourly, "UPDATE lakets._rollup_registry SET refresh_lag = '1 hour'")
    ask(hourly, "SELECT lakets.disable_rollup_invalidation('hourly')")
    found = items(hourly)
    refreshed = one(hourly, "SELECT last_refreshed_at FROM lakets._rollup_registry")
    assert found["lag"][3] == refreshed + timedelta(hours=1)
    assert "enable_rollup_invalidation" in found["untracked"][0]


def test_a_column_that_was_renamed_is_said_and_nothing_changes(hourly: psycopg.Connection) -> None:
    before = ask(hourly, "SELECT watermark, seen FROM lakets._rollup_registry")
    ask(hourly, "ALTER TABLE m RENAME COLUMN v TO value")
    with pytest.raises(psycopg.errors.RaiseException, match=r"cannot refresh the RollUp hourly.*column.*v") as refusal:
        ask(hourly, "SELECT lakets.refresh_rollup('hourly')")
    assert "lakets.drop_rollup('hourly')" in str(refusal.value.diag.message_hint)
    assert ask(hourly, "SELECT watermark, seen FROM lakets._rollup_registry") == before
    ask(hourly, "ALTER TABLE m RENAME COLUMN value TO v")
    assert one(hourly, "SELECT lakets.refresh_rollup('hourly')")


# ---- whether it is right ---------------------------------------------------------------------


def test_a_rollup_that_is_right_has_no_difference(hourly: psycopg.Connection) -> None:
    assert check(hourly, "hourly", None, None) == []
    ask(hourly, "INSERT INTO m VALUES (now() - interval '50 hours', 'd1', 1, 1)")
    assert check(hourly, "hourly", None, None) == []  # the next refresh computes it
    ask(hourly, "UPDATE _rollup_hourly SET mean = mean * (1 + 1e-12)")
    assert check(hourly, "hourly", None, None) == []


def test_differences_are_found_key_by_key_and_mended(hourly: psycopg.Connection) -> None:
    whole = ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2")
    hours = [row[0] for row in ask(hourly, "SELECT DISTINCT hour FROM _rollup_hourly ORDER BY 1")]
    ask(hourly, "UPDATE _rollup_hourly SET total = total + 1 WHERE hour = %s AND device IS NULL", hours[20])
    ask(hourly, "UPDATE _rollup_hourly SET mean = 'Infinity' WHERE hour = %s AND device = 'd0'", hours[20])
    ask(hourly, "DELETE FROM _rollup_hourly WHERE hour = %s AND device = 'd1'", hours[30])
    ask(hourly, "INSERT INTO _rollup_hourly VALUES (%s, 'ghost', 1, 1)", hours[40] + timedelta(minutes=3))
    found = check(hourly, "hourly", None, None)
    assert [(row[0], row[1], row[2]) for row in found] == [
        (hours[20], {"device": None}, "differs"),
        (hours[20], {"device": "d0"}, "differs"),
        (hours[30], {"device": "d1"}, "missing"),
        (hours[40] + timedelta(minutes=3), {"device": "ghost"}, "extra"),
    ]
    lost = found[2]
    assert lost[3] is None
    assert lost[4]["device"] == "d1"
    assert [row[2] for row in check(hourly, "hourly", hours[30], hours[31])] == ["missing"]
    assert one(hourly, "SELECT lakets.repair_rollup('hourly')") == 3
    assert check(hourly, "hourly", None, None) == []
    assert ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2") == whole


def test_what_is_mended_is_mended_in_what_is_made_from_it(hourly: psycopg.Connection) -> None:
    daily = "SELECT lakets.time_bucket('1 day', hour) AS day, sum(total) AS total FROM _rollup_hourly GROUP BY 1"
    make(hourly, "daily", daily, "1 day")
    right = ask(hourly, "TABLE _rollup_rt_daily ORDER BY 1")
    ask(hourly, "UPDATE _rollup_hourly SET total = total + 5 WHERE hour < now() - interval '3 days'")
    ask(hourly, "SELECT lakets.repair_rollup('daily')")
    assert ask(hourly, "TABLE _rollup_rt_daily ORDER BY 1") != right
    ask(hourly, "SELECT lakets.repair_rollup('hourly')")
    assert ask(hourly, "TABLE _rollup_rt_daily ORDER BY 1") == right


def test_a_check_beside_late_writers_finds_nothing(hourly: psycopg.Connection, dsn: str) -> None:
    """Rows, marks and what is stored are all as of one moment."""
    with Session(dsn) as writer:
        for n in range(20):
            writer.run(
                "INSERT INTO m SELECT now() - random() * interval '9 days', 'd1', 1, 1 FROM generate_series(1, 50)"
            )
            pending = writer.start("COMMIT")
            assert check(hourly, "hourly", None, None) == []
            pending.result(timeout=60)
            if n % 5 == 0:
                ask(hourly, "SELECT lakets.refresh_rollup('hourly')")


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_a_check_in_any_type_of_time_and_zone(db: psycopg.Connection, kind: str) -> None:
    ask(db, f"CREATE TABLE p (t {kind} NOT NULL, v int)")
    ask(db, f"INSERT INTO p SELECT (now() - g * interval '1 day')::{kind}, g FROM generate_series(0, 9) g")
    ask(db, "SELECT lakets.create_chronotable('p', 't', '1 day')")
    ask(db, "SET timezone = 'Pacific/Auckland'")
    make(
        db,
        "days",
        "SELECT date_bin('1 day', t::timestamp, '2000-01-01') AS day, sum(v) AS total FROM p GROUP BY 1",
        "1 day",
    )
    assert check(db, "days", None, None) == []
    ask(db, "UPDATE _rollup_days SET total = 0 WHERE day < now() - interval '3 days'")
    wrong = check(db, "days", None, None)
    assert len(wrong) >= 5
    assert one(db, "SELECT lakets.repair_rollup('days')") == len(wrong)
    assert check(db, "days", None, None) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("nowhere", None, None), "there is no RollUp nowhere"),
        (("hourly", "2026-01-02", "2026-01-01"), "cannot check hourly from"),
        (("hourly", "infinity", None), "cannot check hourly from"),
    ],
)
def test_what_cannot_be_checked_is_said(hourly: psycopg.Connection, asked: tuple[Any, ...], said: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=said):
        check(hourly, *asked)


def test_from_python(hourly: psycopg.Connection, dsn: str) -> None:
    ask(hourly, "DELETE FROM _rollup_hourly WHERE hour < now() - interval '9 days'")
    found = rollups.check(dsn, "hourly")
    assert {one.difference for one in found.differences} == {"missing"}
    assert found.repaired_buckets == 0
    mended = rollups.check(dsn, "hourly", repair=True)
    assert mended.repaired_buckets == len({one.bucket for one in found.differences})
    assert rollups.check(dsn, "hourly").differences == []
    (listed,) = rollups.rollups(dsn)
    assert (listed.name, listed.source, listed.marks, listed.incomplete_ranges) == ("hourly", "public.m", 0, 0)
    (done,) = rollups.refresh(dsn, None)
    assert (done.rollup, done.refreshed, done.why_not) == ("hourly", True, "")
    assert done.ms > 0
    ask(hourly, "UPDATE lakets._rollup_registry SET refresh_lag = '1 hour'")
    ask(hourly, "INSERT INTO m VALUES (now() - interval '50 hours', 'd1', 1, 1)")
    assert rollups.check(dsn, "hourly").waiting_buckets == 1
    assert [(one.refreshed, one.why_not) for one in rollups.refresh(dsn, "hourly")] == [
        (False, "its refresh_lag is not over")
    ]
    assert [one.refreshed for one in rollups.refresh(dsn, "hourly", now=True)] == [True]
    assert rollups.check(dsn, "hourly").waiting_buckets == 0


# ---- never a part as the whole ---------------------------------------------------------------


def drop_days(db: psycopg.Connection, age: int, *, force: bool = False) -> None:
    ask(db, "SELECT lakets.add_retention_policy('m', %s::interval)", f"{age} days")
    ask(db, "SELECT lakets.execute_retention('m', p_force => %s)", force)
    ask(db, "SELECT lakets.remove_retention_policy('m')")


def weeks(db: psycopg.Connection, relation: str) -> dict[datetime, int]:
    return dict(ask(db, f"SELECT week, n FROM {relation}"))


def test_r2_a_rollup_that_is_made_after_rows_have_left_shows_no_part_of_a_bucket(db: psycopg.Connection) -> None:
    drop_days(db, 3)
    oldest = one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')")
    make(db, "weekly", WEEKLY, "7 days")
    touched = one(db, "SELECT lakets.time_bucket('7 days', %s - interval '1 us')", oldest)
    assert touched not in weeks(db, "_rollup_weekly")
    assert touched not in weeks(db, "_rollup_rt_weekly")
    assert any(row[0] == "incomplete" for row in ask(db, "SELECT * FROM lakets.explain_rollup('weekly')"))
    ask(db, "SELECT lakets.refresh_rollup('weekly')")
    ask(db, "INSERT INTO m VALUES (now(), 'd1', 1, 1)")
    whole = f"SELECT * FROM ({WEEKLY}) w WHERE week > %s"
    assert weeks(db, "_rollup_rt_weekly") == dict(ask(db, whole, touched))
    assert check(db, "weekly", None, None) == []


def test_r2_a_forced_drop_hides_buckets_that_were_never_whole(db: psycopg.Connection) -> None:
    """Those that were keep their last value; the others wait for the lake, and nothing else is lost."""
    make(db, "hourly", HOURLY, "1 hour")
    make(db, "weekly", WEEKLY, "7 days")
    ask(db, "SELECT lakets.refresh_rollup_cascade()")
    hours, shown = ask(db, "TABLE _rollup_rt_hourly"), weeks(db, "_rollup_rt_weekly")
    whole = one(db, "SELECT complete_until FROM lakets._rollup_registry WHERE name = 'weekly'")
    ask(db, "INSERT INTO m VALUES (now() - interval '2 minutes', 'fresh', 1, 1)")
    drop_days(db, 1, force=True)
    oldest = one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')")
    now = one(db, "SELECT lakets.time_bucket('7 days', now())")
    cut = one(db, "SELECT lakets.time_bucket('7 days', %s - interval '1 us')", oldest)  # the last week that lost rows
    expected = {week: n for week, n in shown.items() if week + timedelta(days=7) <= whole}
    if cut < now:
        expected[now] = one(db, "SELECT count(*) FROM m WHERE ts >= %s", now)
    assert weeks(db, "_rollup_rt_weekly") == expected
    assert set(ask(db, "TABLE _rollup_rt_hourly")) >= set(hours)
    assert ask(db, "SELECT FROM _rollup_rt_hourly WHERE device = 'fresh'") == [()]
    ask(db, "SELECT lakets.refresh_rollup_cascade()")
    assert set(ask(db, "TABLE _rollup_rt_hourly")) >= set(hours)
    assert ask(db, "SELECT FROM _rollup_rt_hourly WHERE device = 'fresh'") == [()]


def test_r2_what_is_made_from_an_incomplete_rollup_is_incomplete(db: psycopg.Connection) -> None:
    drop_days(db, 3)
    make(db, "hourly", HOURLY, "1 hour")
    make(
        db,
        "monthly",
        "SELECT lakets.time_bucket('1 month', hour) AS month, sum(total) AS total FROM _rollup_hourly GROUP BY 1",
        "1 month",
    )
    oldest = one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')")
    month = one(db, "SELECT lakets.time_bucket('1 month', %s - interval '1 us')", oldest)
    assert month not in {row[0] for row in ask(db, "TABLE _rollup_rt_monthly")}
    ask(db, "SELECT lakets.refresh_rollup_cascade()")
    assert month not in {row[0] for row in ask(db, "TABLE _rollup_rt_monthly")}


def test_r2_a_forced_drop_leaves_what_stays_exact(db: psycopg.Connection) -> None:
    """A chunk in the middle goes by force before anything was refreshed: the days before it are still read."""
    make(db, "hourly", HOURLY, "1 hour")
    ask(db, "UPDATE lakets._rollup_registry SET complete_until = now() - interval '8 days', watermark = NULL")
    ask(db, "INSERT INTO m VALUES (now() - interval '2 days', 'late', 1, 1)")
    ask(db, "DELETE FROM lakets._rollup_invalidation_log")  # as if it had been fresh when it was written
    due = "SELECT chunk_oid FROM lakets._chunk_metadata WHERE range_end <= now() - interval '1 day'"
    middle = one(db, f"{due} ORDER BY range_start DESC LIMIT 1")
    before = ask(db, "SELECT hour, device, total FROM _rollup_rt_hourly WHERE hour < now() - interval '3 days'")
    ask(db, "SELECT thermocline._drop_chunk(%s, NULL, false, true)", middle)
    after = ask(db, "SELECT hour, device, total FROM _rollup_rt_hourly WHERE hour < now() - interval '3 days'")
    assert sorted(after, key=str) == sorted(before, key=str)


@pytest.mark.slow
def test_r1_a_year_of_hours_is_there_after_a_thousand_refreshes(db: psycopg.Connection) -> None:
    """Retention has taken nearly all of the source; rows come late into what is left, and marks are made by hand."""
    ask(db, "DELETE FROM m")
    ask(
        db,
        "SELECT lakets._ensure_partitions(1, 1, 3, now() - interval '365 days', now())",
    )
    hours = "generate_series(date_trunc('hour', now()) - interval '365 days', now() - interval '1 hour', '1 hour') t"
    ask(db, f"INSERT INTO m SELECT t, 'd', 1, 1 FROM {hours}")
    make(db, "hourly", HOURLY, "1 hour")
    ask(db, "SET lakets.max_drops_per_call = 1000")
    drop_days(db, 3)
    cut = one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')")
    kept = ask(db, "SELECT * FROM _rollup_hourly WHERE hour < %s ORDER BY 1", cut)
    assert len(kept) > 361 * 24
    for n in range(1000):
        ask(db, "INSERT INTO m VALUES (%s + %s * interval '1 minute', 'd', 1, 1)", cut, n)
        if n % 100 == 0:
            ask(db, "SELECT lakets.invalidate_rollup_range('hourly', now() - interval '1 year', now())")
        assert one(db, "SELECT lakets.refresh_rollup('hourly')")
    assert ask(db, "SELECT * FROM _rollup_hourly WHERE hour < %s ORDER BY 1", cut) == kept
    assert ask(db, "SELECT * FROM _rollup_rt_hourly WHERE hour < %s ORDER BY 1", cut) == kept
    assert one(db, "SELECT sum(total) FROM _rollup_rt_hourly WHERE hour >= %s", cut) == one(db, "SELECT sum(v) FROM m")
