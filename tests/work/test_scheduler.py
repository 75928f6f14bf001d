"""The scheduler: units are made when they are due, once, whatever number of schedulers there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import ask, one, refused
from harness.roles import role
from thermocline.config import HotSettings, Settings
from thermocline.stack import Stack
from thermocline.work import scheduler as scheduling
from thermocline.work.jobs import KINDS, jobs
from thermocline.work.scheduler import Scheduler

if TYPE_CHECKING:
    from pathlib import Path

    from thermocline.work.job import Job


@pytest.fixture
def stack(dsn: str, tmp_path: Path) -> Stack:
    return Stack(Settings(home=tmp_path / "home", hot=HotSettings(dsn=dsn)))


@pytest.fixture
def scheduler(stack: Stack, dsn: str) -> Scheduler:
    return Scheduler(dsn, jobs(stack))


def table(db: psycopg.Connection, name: str = "m") -> int:
    ask(db, f"CREATE TABLE {name} (ts timestamptz NOT NULL, v int)")
    number: int = one(db, f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')")
    return number


def made(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return ask(db, "SELECT kind, chronotable_id FROM thermocline.work_unit ORDER BY kind, chronotable_id")


def end_all(db: psycopg.Connection) -> None:
    ask(db, "UPDATE thermocline.work_unit SET status = 'done', lease_until = NULL, ended_at = now()")


def hours_later(db: psycopg.Connection, hours: float) -> None:
    ask(
        db,
        "UPDATE thermocline.schedule_run"
        " SET last_at = last_at - %s * interval '1 h', next_at = next_at - %s * interval '1 h'",
        hours,
        hours,
    )


def test_every_kind_has_a_schedule_for_all_tables(db: psycopg.Connection) -> None:
    found = ask(db, "SELECT kind FROM thermocline.schedule WHERE chronotable_id IS NULL AND enabled")
    assert {kind for (kind,) in found} == set(KINDS)


def test_units_are_made_for_the_tables_that_need_them(db: psycopg.Connection, scheduler: Scheduler) -> None:
    plain, tiered = table(db), table(db, "n")
    ask(db, "SELECT lakets.add_tiered_retention_policy('n', '2 days', '7 days')")
    ask(db, "SELECT lakets.create_rollup('daily', 'SELECT lakets.time_bucket(''1 day'', ts) AS day, count(*) AS n"
        " FROM m GROUP BY 1', '1 day')")  # fmt: skip
    assert scheduler.tick() == 6
    assert made(db) == [
        ("partitions", plain),
        ("partitions", tiered),
        ("prune", None),
        ("refresh", plain),
        ("retention", tiered),
        ("tier", tiered),
    ]
    assert ask(db, "SELECT kind, destructive, lane FROM thermocline.work_unit WHERE lane IS NOT NULL ORDER BY 1") == [
        ("retention", True, f"maintenance {tiered}"),
        ("tier", False, f"maintenance {tiered}"),
    ]
    assert scheduler.tick() == 0


def test_a_unit_is_due_again_when_its_time_comes_and_missed_runs_are_one(
    db: psycopg.Connection, scheduler: Scheduler
) -> None:
    table(db)
    scheduler.tick()
    end_all(db)
    assert scheduler.tick() == 0
    hours_later(db, 9.5)
    assert scheduler.tick() == 2
    assert scheduler.tick() == 0
    assert ask(db, "SELECT kind, count(*) FROM thermocline.work_unit GROUP BY kind ORDER BY kind") == [
        ("partitions", 2),
        ("prune", 2),
    ]
    (ahead,) = ask(db, "SELECT extract(epoch FROM next_at - now()) FROM thermocline.schedule_run WHERE kind = 'prune'")
    assert 0 < ahead[0] <= 1800 + 1, "half past, as before"
    hours_later(db, 3)
    assert scheduler.tick() == 0, "they are still open, which is enough"
    assert one(db, "SELECT min(next_at) > now() FROM thermocline.schedule_run WHERE kind <> 'x'")


def test_many_schedulers_at_once_make_each_unit_once_w16(db: psycopg.Connection, stack: Stack, dsn: str) -> None:
    tables = [table(db, f"t{number}") for number in range(5)]
    for turn in range(3):
        barrier = threading.Barrier(4)

        def tick(barrier: threading.Barrier = barrier) -> int:
            scheduler = Scheduler(dsn, jobs(stack))
            barrier.wait(60)
            return scheduler.tick()

        with ThreadPoolExecutor(4) as pool:
            counted = [future.result(60) for future in [pool.submit(tick) for _ in range(4)]]
        assert sum(counted) == len(tables) + 1
        # Ended between two ticks: the time that was computed keeps the others from making them again.
        end_all(db)
        assert Scheduler(dsn, jobs(stack)).tick() == 0
        assert one(db, "SELECT count(*) FROM thermocline.work_unit") == (len(tables) + 1) * (turn + 1)
        hours_later(db, 2)


def test_work_for_the_whole_database_has_no_schedules_of_tables(db: psycopg.Connection, stack: Stack) -> None:
    table(db)
    told = dict(ask(db, "SELECT kind, by_table FROM thermocline.schedule"))
    assert told == {kind: job.targets is not None for kind, job in jobs(stack).items()}
    refused(db, "SELECT lakets.schedule_set('tier', p_every => '2000000000 days')", "work cannot be due every")
    refused(db, "SELECT lakets.schedule_set('prune', 'm', p_every => '1 day')", "prune is for the whole database")


def test_a_table_of_its_own_schedule_and_one_that_is_switched_off(db: psycopg.Connection, scheduler: Scheduler) -> None:
    first, second = table(db), table(db, "n")
    ask(db, "SELECT lakets.schedule_set('partitions', 'n', p_every => '1 day')")
    ask(db, "SELECT lakets.schedule_set('prune', p_enabled => false)")
    scheduler.tick()
    end_all(db)
    hours_later(db, 1)
    scheduler.tick()
    assert [row for row in made(db) if row[0] == "partitions"] == [("partitions", first)] * 2 + [("partitions", second)]
    assert "prune" not in {kind for kind, _ in made(db)}
    assert one(db, "SELECT lakets.schedule_reset('partitions', 'n')")
    end_all(db)
    assert scheduler.tick() == 1, "the hour that is over is enough for the schedule for all"


def test_a_rule_that_was_changed_counts_at_once(db: psycopg.Connection, scheduler: Scheduler) -> None:
    table(db)
    ask(db, "SELECT lakets.schedule_set('partitions', p_every => '7 days')")
    scheduler.tick()
    end_all(db)
    hours_later(db, 1)
    ask(db, "SELECT lakets.schedule_set('partitions', p_every => '10 minutes')")
    assert scheduler.tick() == 2  # with prune
    end_all(db)
    ask(db, "SELECT lakets.schedule_set('partitions', p_cron => '0 3 1 1 *')")
    assert scheduler.tick() == 0
    assert one(db, "SELECT next_at > now() FROM thermocline.schedule_run WHERE kind = 'partitions'")


def test_outside_its_window_work_is_not_made_and_not_begun(db: psycopg.Connection, scheduler: Scheduler) -> None:
    from thermocline.work import units

    table(db)
    around = one(
        db, "SELECT to_char(now() - interval '2 h', 'HH24:MI') || '-' || to_char(now() + interval '2 h', 'HH24:MI')"
    )
    ask(db, "SELECT lakets.schedule_set('partitions', p_window => %s)", f"pauses {around}")
    ask(db, "SELECT lakets.schedule_set('prune', p_window => %s)", f"runs {around}")
    assert scheduler.tick() == 1
    assert made(db) == [("prune", None)]
    ask(db, "SELECT lakets.schedule_set('prune', p_window => %s)", f"pauses {around}")
    assert units.claim(db, "one", KINDS, "") == [], "it was made before the pause began"
    ask(db, "UPDATE thermocline.work_unit SET schedule_id = NULL")
    assert len(units.claim(db, "one", KINDS, "")) == 1, "one that somebody asked for does not wait for a window"
    ask(db, "SELECT lakets.schedule_set('partitions', p_window => '')")
    assert scheduler.tick() == 1


def test_windows_over_midnight(db: psycopg.Connection) -> None:
    asked = "SELECT thermocline._work_window_open(%s, %s, %s, %s)"
    for start, end, means, at, open_ in [
        ("22:00", "06:00", "runs", "2026-01-01 23:00Z", True),
        ("22:00", "06:00", "runs", "2026-01-01 05:59Z", True),
        ("22:00", "06:00", "runs", "2026-01-01 06:00Z", False),
        ("22:00", "06:00", "pauses", "2026-01-01 23:00Z", False),
        ("09:00", "17:00", "pauses", "2026-01-01 09:00Z", False),
        ("09:00", "17:00", "pauses", "2026-01-01 17:00Z", True),
        ("09:00", "17:00", "runs", "2026-01-01 18:00+02", True),
        (None, None, None, "2026-01-01 18:00Z", True),
    ]:
        assert one(db, asked, start, end, means, at) is open_, (start, end, means, at)


def test_d18_a_schedule_that_cannot_be_understood_stops_no_other_and_says_so(
    db: psycopg.Connection, scheduler: Scheduler
) -> None:
    first, second = table(db), table(db, "n")
    ask(db, "SELECT lakets.schedule_set('partitions', 'm', p_cron => '50-10 * * * *')")
    assert scheduler.tick() == 2
    assert made(db) == [("partitions", second), ("prune", None)]
    (problem,) = ask(db, "SELECT problem FROM lakets.schedule_show() WHERE table_name = 'm'")
    assert "'50-10 * * * *' is no cron line" in problem[0]
    ask(db, "SELECT lakets.schedule_set('partitions', 'm', p_every => '1 hour')")
    assert scheduler.tick() == 1
    assert ("partitions", first) in made(db)


def test_a_run_that_came_late_is_not_followed_by_another_too_soon(db: psycopg.Connection, scheduler: Scheduler) -> None:
    table(db)
    ask(db, "SELECT lakets.schedule_set('partitions', p_every => '1 hour')")
    scheduler.tick()
    end_all(db)
    left = (
        "SELECT round(extract(epoch FROM next_at - now()) / 60) FROM thermocline.schedule_run WHERE kind = 'partitions'"
    )
    hours_later(db, 1 + 20 / 60)
    scheduler.tick()
    assert one(db, left) == 40, "twenty minutes late, and the grid is kept"
    end_all(db)
    hours_later(db, 40.1 / 60)
    scheduler.tick()
    assert one(db, left) == 60


def test_d18_what_breaks_again_and_again_is_left_alone_for_longer_and_longer(
    db: psycopg.Connection, scheduler: Scheduler
) -> None:
    table(db)
    table(db, "n")
    ask(db, "SELECT lakets.add_retention_policy('m', '7 days')")
    rests: dict[str, list[int]] = {"partitions": [], "retention": []}
    for _ in range(12):
        scheduler.tick()
        for kind, found in rests.items():
            (row,) = ask(db, "SELECT extract(epoch FROM next_at - last_at)::float8 FROM thermocline.schedule_run"
                         " WHERE kind = %s AND chronotable_id = 1", kind)  # fmt: skip
            found.append(round(row[0] / 60))
        ask(db, "UPDATE thermocline.work_unit SET status = CASE chronotable_id WHEN 1 THEN 'dead' ELSE 'done' END,"
            " ended_at = now() WHERE status = 'pending'")  # fmt: skip
        ask(db, "UPDATE thermocline.schedule_run SET last_at = last_at - (next_at - now()), next_at = now()")
    assert rests["partitions"] == [5, 5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60]
    assert rests["retention"] == [60, 60, 60, 60, 60, 80, 160, 320, 640, 1280, 1440, 1440]
    other = "SELECT extract(epoch FROM next_at - now()) / 60 FROM thermocline.schedule_run WHERE kind = 'partitions'"
    scheduler.tick()
    assert one(db, f"{other} AND chronotable_id = 2") <= 5, "the table beside it"
    ask(db, "UPDATE thermocline.work_unit SET settled_by = 1 WHERE status = 'dead'")
    ask(db, "UPDATE thermocline.work_unit SET status = 'done', ended_at = now() WHERE status = 'pending'")
    ask(db, "UPDATE thermocline.schedule_run SET next_at = now()")
    scheduler.tick()
    assert one(db, f"{other} AND chronotable_id = 1") <= 5, "done once, and all is as before"


def test_d18_a_kind_of_work_whose_tables_cannot_be_asked_for_stops_no_other(
    db: psycopg.Connection, stack: Stack, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = table(db)
    every = jobs(stack)
    ask(db, "ALTER TABLE lakets._rollup_registry RENAME COLUMN source_chronotable_id TO gone")
    monkeypatch.setattr(scheduling.log, "exception", lambda *_, **told: seen.append(told["kind"]))
    seen: list[str] = []
    assert list(every).index("refresh") < list(every).index("prune")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        Scheduler(dsn, every).tick()
    assert made(db) == [("partitions", number), ("prune", None)]
    assert "refresh" in seen


def test_nonsense_is_refused_by_sql(db: psycopg.Connection) -> None:
    table(db)
    set_ = "SELECT lakets.schedule_set("
    refused(db, f"{set_}'nothing')", "no kind of work called 'nothing'")
    refused(db, f"{set_}'tier', 'gone')", "public.gone is not a ChronoTable")
    refused(db, f"{set_}'tier', p_every => '-1 hour')", "due every -01:00:00")
    refused(db, f"{set_}'tier', p_every => '1 month')", "due every 1 mon")
    refused(db, f"{set_}'tier', p_every => '1 hour', p_cron => '* * * * *')", "not both")
    refused(db, f"{set_}'tier', p_cron => 'daily')", "'daily' is no cron line")
    for line, field in [
        ("61 * * * *", "61"),
        ("30 25 * * *", "25"),
        ("0 3 0 * *", "0"),
        ("0 3 * 1-13 *", "1-13"),
        ("0 3 * * mon-8", "mon-8"),
        ("0 noon * * *", "noon"),
    ]:
        refused(db, f"{set_}'tier', p_cron => %s)", rf"is no cron line: {field}\n", line)
    for line in ("*/5 0-23/2 1,15 jan-MAR mon-fri", "0 3 * * 7", "59 23 31 12 0", "0 3 L * 5#2"):
        ask(db, f"{set_}'tier', p_cron => %s)", line)
        assert one(db, "SELECT cron FROM lakets.schedule_show() WHERE kind = 'tier'") == line
    for window in ("22-06", "runs 22:00-22:00", "runs 25:00-06:00", "naps 01:00-02:00"):
        refused(db, f"{set_}'tier', p_window => %s)", "is no window", window)


def test_owners_set_the_schedules_of_their_tables_and_nobody_elses(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "SELECT thermocline._grant_roles()")
    table(db)
    with role(
        dsn, "keeper", "", "GRANT lakets_admin TO {role}", "GRANT CREATE, USAGE ON SCHEMA public TO {role}"
    ) as keepers:
        with psycopg.connect(keepers, autocommit=True) as keeper:
            table(keeper, "mine")
            assert one(keeper, "SELECT lakets.schedule_set('tier', 'mine', p_every => '1 day')") > 100
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"must be owner of table public\.m"):
                ask(keeper, "SELECT lakets.schedule_set('tier', 'm', p_every => '1 day')")
        ask(db, "SELECT lakets.drop_chronotable('mine')")
    assert ask(db, "SELECT FROM thermocline.schedule WHERE chronotable_id IS NOT NULL") == [], "they go with the table"


def test_every_job_says_what_it_is(stack: Stack) -> None:
    from thermocline.hot.statements import query

    found: dict[str, Job] = jobs(stack)
    for kind, job in found.items():
        assert job.kind == kind
        assert (type(job).__doc__ or "").endswith(".")
        if job.targets:
            assert "SELECT" in query(job.targets)
    assert [kind for kind, job in found.items() if job.destructive] == ["retention", "settle", "rehydrate"]
