"""Every metric moves, by the right amount, when what it counts happens."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from harness.lakes import Lake
from harness.questions import ask, one
from service.watching import until
from thermocline import meters
from thermocline.config import HotSettings, Settings, WorkSettings
from thermocline.feed import committing
from thermocline.service.state import SEEN, DatabaseState
from thermocline.stack import Stack
from thermocline.work import units
from thermocline.work.job import Hopeless, Plan
from thermocline.work.node import Node
from thermocline.work.units import Halted, Wanted
from thermocline.work.worker import Worker

if TYPE_CHECKING:
    import psycopg

    from thermocline.work.job import Target
    from thermocline.work.units import Claim

QUICK = WorkSettings(poll=0.05, in_process=True)


def counted() -> dict[str, float]:
    """Every sample of this process, as name{a=1,b=2}."""
    found: dict[str, float] = {}
    for meter in meters.ALL:
        for family in meter.collect():
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[f"{sample.name.removeprefix('thermocline_')}{{{labels}}}"] = sample.value
    return found


def moved(before: dict[str, float], *names: str) -> dict[str, float]:
    now = counted()
    return {
        name: now[name] - before.get(name, 0)
        for name in now
        if now[name] != before.get(name, 0) and name.startswith(names)
    }


def seen(dsn: str) -> dict[str, float]:
    """Every sample that is read from the database, as name{1,2}."""
    found = {}
    for family in DatabaseState(lambda: dsn).collect():
        for sample in family.samples:
            labels = f"{{{','.join(sample.labels.values())}}}" if sample.labels else ""
            found[sample.name.removeprefix("thermocline_") + labels] = sample.value
    return found


# ---- counted by the process ----------------------------------------------------------------------


class Told:
    """Ends as its scope says."""

    kind: ClassVar[str] = "told"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "nobody"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self, db: psycopg.Connection) -> None:
        self._db = db

    def plan(self, target: Target, claim: Claim) -> Plan:
        claim.check()
        return Plan(target)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        assert plan.lines == ()
        match claim.unit.scope:
            case "retry" | "dead":
                raise RuntimeError("it failed")
            case "failed":
                raise Hopeless("it will never do")
            case "handed_back":
                ask(self._db, "UPDATE thermocline.work_unit SET max_attempts = 1 WHERE id = %s", claim.unit.id)
                ask(self._db, "INSERT INTO thermocline.work_stop (what) VALUES ('told')")
                raise Halted("not now")
            case "lost":
                ask(self._db, "UPDATE thermocline.work_unit SET owner = 'thief' WHERE id = %s", claim.unit.id)
        return {}


@pytest.mark.parametrize("outcome", ["done", "retry", "failed", "dead", "handed_back", "lost"])
def test_attempts_are_counted_by_their_outcome(db: psycopg.Connection, dsn: str, outcome: str) -> None:
    units.enqueue(db, Wanted("told", scope=outcome, max_attempts=1 if outcome == "dead" else 3))
    before = counted()
    worker = Worker(dsn, {"told": Told(db)}, QUICK)
    # A unit that waits for its next attempt may come round within the same run: one attempt is enough.
    if outcome == "retry":
        ask(db, "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.not_before := now() + interval '1 day'; RETURN NEW; END $$")  # fmt: skip
        ask(db, "CREATE TRIGGER later BEFORE UPDATE ON thermocline.work_unit FOR EACH ROW"
            " WHEN (NEW.status = 'pending') EXECUTE FUNCTION later()")  # fmt: skip
    worker.run(once=True)
    expected = {
        f"work_attempts_total{{kind=told,outcome={outcome}}}": 1,
        "work_unit_seconds_count{kind=told}": 1,
    }
    if outcome == "lost":
        expected["work_leases_lost_total{kind=told}"] = 1
    assert moved(before, "work_attempts", "work_unit_seconds_count", "work_leases") == expected
    took = moved(before, "work_unit_seconds_sum")["work_unit_seconds_sum{kind=told}"]
    assert 0 < took < 60


def test_a_unit_that_killed_its_workers_is_counted_as_dead(db: psycopg.Connection, dsn: str) -> None:
    number = units.enqueue(db, Wanted("told", max_attempts=1))
    units.claim(db, "victim", ["told"], dsn)
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() WHERE id = %s", number)
    before = counted()
    Worker(dsn, {"told": Told(db)}, QUICK).run(once=True)
    assert moved(before, "work_attempts") == {"work_attempts_total{kind=told,outcome=dead}": 1}


@pytest.fixture
def stack(dsn: str, tmp_path: Path) -> Stack:
    (tmp_path / "home").mkdir()
    return Stack(Settings(home=tmp_path / "home", hot=HotSettings(dsn=dsn), work=QUICK))


def test_retention_is_counted_by_table(db: psycopg.Connection, dsn: str, tmp_path: Path) -> None:
    """Rows and bytes are those that the audit has."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    stack = Stack(lake.stack.settings.model_copy(update={"work": QUICK}))
    ask(db, "SELECT lakets.add_retention_policy('m', '2 days')")
    with lake.feeding():
        before = counted()
        deadline = time.monotonic() + 300
        while not one(db, "SELECT count(*) FROM thermocline.audit WHERE action = 'drop_chunk'"):
            assert time.monotonic() < deadline, "it did not come to that"
            ask(db, "DELETE FROM thermocline.schedule_run WHERE kind = 'retention'")
            ask(db, "UPDATE thermocline.work_unit SET not_before = now(), attempt = 0 WHERE status = 'pending'")
            Node(stack, kinds=["retention"]).once()
    rows, size = ask(db, "SELECT sum(row_count), sum(bytes) FROM thermocline.audit WHERE action = 'drop_chunk'")[0]
    found = moved(before, "chunk_retention")
    assert found["chunk_retention_rows_dropped_total{table=public.m}"] == rows > 0
    assert found["chunk_retention_bytes_freed_total{table=public.m}"] == size > 0
    assert found["chunk_retention_runs_total{status=ok,table=public.m}"] == 1


def test_runs_of_retention_are_counted_by_how_they_ended(db: psycopg.Connection, stack: Stack) -> None:
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    ask(db, "SELECT lakets.add_retention_policy('m', '100 years')")
    before = counted()
    Node(stack, kinds=["retention"]).once()
    assert moved(before, "chunk_retention") == {"chunk_retention_runs_total{status=noop,table=public.m}": 1}
    before = counted()
    meters.attempt_ended("retention", "public.m", "retry", 1, None)
    meters.attempt_ended("retention", "public.m", "lost", 1, None)
    meters.attempt_ended("retention", "public.m", "handed_back", 1, None)
    assert moved(before, "chunk_retention") == {
        "chunk_retention_runs_total{status=error,table=public.m}": 1,
        "chunk_retention_runs_total{status=lost_lease,table=public.m}": 1,
    }


# ---- read from the database ----------------------------------------------------------------------


def test_units_are_shown_by_kind_and_status(db: psycopg.Connection, dsn: str) -> None:
    assert seen(dsn)["work_units{tier,pending}"] == 0
    ask(db, "INSERT INTO thermocline.work_unit (kind, scope, not_before)"
        " SELECT 'tier', g::text, now() - g * interval '1 hour' FROM generate_series(1, 6) g")  # fmt: skip
    units.claim(db, "me", ["tier"], dsn)  # the oldest
    for status, scope in (("dead", "1"), ("failed", "2"), ("done", "3")):
        ask(db, "UPDATE thermocline.work_unit SET status = %s, ended_at = now() WHERE scope = %s", status, scope)
    ask(db, "INSERT INTO thermocline.work_stop (what) VALUES ('tier')")
    found = seen(dsn)
    assert [found[f"work_units{{tier,{status}}}"] for status in ("pending", "claimed", "failed", "dead")] == [
        2,
        1,
        1,
        1,
    ]
    ask(db, "UPDATE thermocline.work_unit SET settled_by = 7 WHERE status = 'dead'")
    assert seen(dsn)["work_units{tier,dead}"] == 0, "the same was done since"
    assert 5 * 3600 <= found["work_oldest_seconds{tier}"] < 5 * 3600 + 600
    assert found["work_oldest_seconds{prune}"] == 0
    assert found["work_stopped{tier}"] == 1
    assert (found["database_up"], found["feed_up"]) == (1, 0)
    assert abs(found["clock_skew_seconds"]) < 5


@pytest.mark.promise("002-35")
def test_feed_chunks_and_rollups_are_shown(db: psycopg.Connection, dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    ask(db, "SELECT lakets.create_rollup('hourly', %s)",
        "SELECT lakets.time_bucket('1 hour', ts) AS at, count(*) AS n FROM m GROUP BY 1")  # fmt: skip
    table = "public.m"
    chunks = one(db, "SELECT count(*) FROM lakets.show_chunks('m')")
    with lake.feeding():
        until(lambda: one(db, "SELECT count(*) FROM thermocline.chunk_copy") == chunks)
        running = seen(dsn)
    assert running["feed_up"] == 1
    assert running[f"feed_table_chunks{{{table}}}"] == running[f"chunks{{{table},active}}"] == chunks
    ask(db, "INSERT INTO m SELECT ts, id + 1000, v FROM m, generate_series(1, 50)")
    ask(db, "UPDATE thermocline.stream SET current_at = now() - interval '90 s'")
    late = seen(dsn)
    ask(db, "UPDATE lakets._rollup_registry SET last_refreshed_at = now() - interval '1 hour'")
    ask(
        db,
        "UPDATE lakets._chunk_metadata SET status = 'tiered' WHERE id = (SELECT min(id) FROM lakets._chunk_metadata)",
    )
    ask(db, "UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'to see it'")
    ask(db, "INSERT INTO thermocline.plan (kind, chronotable_id, object, destructive, lines)"
        " SELECT 'retention', id, 'public.m', true, '[{\"action\": \"stays\", \"why\": \"no_receipt: there is none\"},"
        " {\"action\": \"drop\", \"why\": \"proven: it is\"}]' FROM lakets._chronotable_registry")  # fmt: skip
    found = seen(dsn)
    assert found["feed_up"] == 0
    behind = one(db, "SELECT pg_current_wal_lsn() - position FROM thermocline.stream")
    assert running["feed_lag_bytes"] < late["feed_lag_bytes"] <= behind
    assert late["feed_log_kept_bytes"] >= late["feed_lag_bytes"]
    assert late[f"feed_table_lag_bytes{{{table}}}"] >= late["feed_lag_bytes"]
    assert f"feed_table_lag_bytes{{{table}}}" not in found  # it is not in the stream
    assert 90 <= late["feed_lag_seconds"] < 690
    entries = one(db, "SELECT entries FROM thermocline.synced_table")
    assert found[f"feed_table_entries{{{table}}}"] == entries == one(db, "SELECT count(*) / 51 FROM m")
    assert 0 < found[f"feed_table_entries_per_second{{{table}}}"] <= entries / 60
    assert found[f"feed_table_chunks_covered{{{table}}}"] == one(db, "SELECT count(*) FROM thermocline.chunk_copy")
    assert (running[f"feed_table_set_aside{{{table}}}"], found[f"feed_table_set_aside{{{table}}}"]) == (0, 1)
    assert [found[f"chunks{{{table},{status}}}"] for status in ("active", "tiered", "dropped")] == [chunks - 1, 1, 0]
    assert found[f"chunks_refused{{{table},no_receipt}}"] == 1
    assert running["rollup_dirty_buckets{hourly}"] == 0 < found["rollup_dirty_buckets{hourly}"]
    assert 3600 <= found["rollup_staleness_seconds{hourly}"] < 4200
    names = {name.partition("{")[0] for name in (*found, *late, "work_stopped")}
    assert names == set(SEEN), "and there is no other"


def test_commits_that_another_one_came_before_are_counted(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    before = counted()
    intruders = iter([1, 2])

    def intrude(point: str) -> None:
        if point == "batch.before_append" and next(intruders, None):
            with lake.stack.catalog() as catalog, catalog.load_table("public.lb_m_history").transaction() as other:
                other.update_snapshot().merge_append().commit()

    monkeypatch.setattr(committing, "crash_point", intrude)
    lake.run("INSERT INTO m SELECT max(ts), 100, 1 FROM m")
    lake.drain()
    assert moved(before, "lake_commit") == {"lake_commit_conflicts_total{table=public.lb_m_history}": 2}
    lake.assert_same()


def test_buckets_that_a_refresh_has_to_compute_again_are_counted(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    for name in ("hourly", "hourly_too"):
        ask(db, "SELECT lakets.create_rollup(%s, %s)", name,
            "SELECT lakets.time_bucket('1 hour', ts) AS at, count(*) AS n FROM m GROUP BY 1")  # fmt: skip
    today = one(db, "SELECT date_trunc('day', now(), 'UTC')")
    for hours in (1, 1, 2, 4):
        ask(db, "INSERT INTO m VALUES (%s - %s * interval '1 h', 1)", today, hours)
    assert seen(dsn)["rollup_dirty_buckets{hourly}"] == 3
    ask(db, "SELECT lakets.refresh_rollup('hourly')")
    assert [seen(dsn)[f"rollup_dirty_buckets{{{name}}}"] for name in ("hourly", "hourly_too")] == [0, 3]


@pytest.mark.parametrize("off_by", [90, -700])
def test_clocks_that_differ_are_shown(dsn: str, monkeypatch: pytest.MonkeyPatch, off_by: int) -> None:
    ours = time.time
    monkeypatch.setattr(time, "time", lambda: ours() + off_by)
    assert abs(seen(dsn)["clock_skew_seconds"] + off_by) < 5


def test_a_database_that_cannot_be_read_is_not_up(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "ALTER TABLE thermocline.work_unit RENAME TO elsewhere")
    assert seen(dsn) == {"database_up": 0}


def test_without_a_database_only_that_is_said() -> None:
    assert seen("postgresql://nobody@127.0.0.1:1/none") == {"database_up": 0}


@pytest.mark.promise("002-37")
def test_the_reference_names_every_metric_and_no_other(db: psycopg.Connection, dsn: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(thermocline_\w+)`", page, re.MULTILINE))
    registry = CollectorRegistry()
    for collector in (*meters.ALL, DatabaseState(lambda: dsn)):
        registry.register(collector)
    exposed = {line.split()[2] for line in generate_latest(registry).decode().splitlines() if line.startswith("# TYPE")}
    assert exposed == listed
