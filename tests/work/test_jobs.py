"""The jobs, run by a node on real tables and a real lake."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.lakes import NOON, Lake, age
from harness.processes import Command
from harness.questions import ask, one
from thermocline.config import HotSettings, Settings, WorkSettings
from thermocline.gate import drop
from thermocline.gate.drop import Result
from thermocline.gate.lifecycle import Paused
from thermocline.stack import Stack
from thermocline.work import backoff, units
from thermocline.work.job import Target
from thermocline.work.jobs import jobs, lane
from thermocline.work.node import Node, desk
from thermocline.work.units import Claim, Halted, LeaseLost, Wanted
from thermocline.work.worker import Worker

if TYPE_CHECKING:
    from pathlib import Path


QUICK = WorkSettings(poll=0.05, in_process=True)


@pytest.fixture
def stack(dsn: str, tmp_path: Path) -> Stack:
    (tmp_path / "home").mkdir()
    return Stack(Settings(home=tmp_path / "home", hot=HotSettings(dsn=dsn), work=QUICK))


@pytest.fixture(autouse=True)
def once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed waits for an hour. Any wait may be the next one, so it could be tried again in the same run."""
    monkeypatch.setattr(backoff, "wait_after", lambda *_: 3600.0)


def days(db: psycopg.Connection, name: str = "m", count: int = 6) -> int:
    """A table with a row at each of the last noons, in chunks of a day, not synced."""
    ask(db, f"CREATE TABLE {name} (ts timestamptz NOT NULL, v int)")
    ask(
        db,
        f"INSERT INTO {name} SELECT date_trunc('day', now(), 'UTC') - g * interval '1 day' + interval '12 h', g"
        " FROM generate_series(1, %s) g",
        count,
    )
    number: int = one(db, f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')")
    return number


def did(stack: Stack, *kinds: str) -> dict[str, int]:
    return Node(stack, kinds=kinds or None).once().ended


def unit(db: psycopg.Connection, kind: str) -> tuple[Any, ...]:
    (row,) = ask(db, "SELECT status, last_error, result FROM thermocline.work_unit WHERE kind = %s", kind)
    return row


def claimed(db: psycopg.Connection, stack: Stack, kind: str, table: int | None) -> Claim:
    job = jobs(stack)[kind]
    units.enqueue(db, Wanted(kind, table, destructive=job.destructive, lane=lane(job, table)))
    (claim,) = units.claim(db, "me", [kind], stack.dsn)
    return claim


def target(number: int) -> Target:
    return Target(number, '"public"."m"', "public.m")


# ---- chunks, RollUps, pruning --------------------------------------------------------------------


def test_chunks_are_made_before_their_time_comes_k3(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    ask(db, "SELECT lakets.schedule_set('partitions', p_every => '7 days')")
    lasts = "SELECT max(range_end) - now() FROM lakets.show_chunks('m')"
    assert one(db, lasts) > timedelta(days=7), "made at once: the first run may be a week from now"
    ask(db, "SELECT lakets.set_chunk_interval('m', '4 days')")
    before = one(db, "SELECT count(*) FROM lakets.show_chunks('m')")
    assert did(stack, "partitions") == {"done": 1}
    made = one(db, "SELECT count(*) FROM lakets.show_chunks('m')") - before
    assert made > 0
    assert one(db, lasts) > timedelta(days=12), "three chunks, and one for the week's remainder"
    status, error, result = unit(db, "partitions")
    assert (status, error) == ("done", None)
    assert result == {"chunks_made": made, "findings": []}


def test_d18_a_table_that_cannot_be_maintained_stops_no_other(db: psycopg.Connection, stack: Stack) -> None:
    first, second = days(db), days(db, "n")
    ask(db, "SELECT lakets.set_chunk_interval('n', '1 hour')")
    ask(db, "UPDATE lakets._chronotable_registry SET chunk_interval = '1 microsecond' WHERE id = %s", first)
    assert did(stack, "partitions") == {"retry": 1, "done": 1}
    found = ask(db, "SELECT chronotable_id, status, attempt, last_error FROM thermocline.work_unit"
                " WHERE kind = 'partitions' ORDER BY 1")  # fmt: skip
    assert [row[:3] for row in found] == [(first, "pending", 1), (second, "done", 1)]
    assert "public.m: it could not be seen to" in found[0][3]
    assert "work.not_maintained" in found[0][3]


def test_rollups_are_refreshed_after_those_that_they_are_made_from(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    bucket = "SELECT lakets.time_bucket('{0}', {1}) AS at, {2} AS n FROM {3} GROUP BY 1"
    hourly = bucket.format("1 hour", "ts", "count(*)", "m")
    daily = bucket.format("1 day", "at", "sum(n)", "_rollup_hourly")
    ask(db, "SELECT lakets.create_rollup('hourly', %s)", hourly)
    ask(db, "SELECT lakets.create_rollup('daily', %s, '1 day')", daily)
    assert did(stack, "refresh") == {"done": 1}
    ask(db, "INSERT INTO m SELECT ts, 7 FROM m")
    for lag, refreshed in [("1 hour", []), ("0", ["hourly", "daily"])]:
        ask(db, "UPDATE lakets._rollup_registry SET refresh_lag = %s", lag)
        ask(db, "DELETE FROM thermocline.work_unit")
        ask(db, "DELETE FROM thermocline.schedule_run")
        assert did(stack, "refresh") == {"done": 1}
        assert unit(db, "refresh") == ("done", None, {"refreshed": refreshed})
    assert ask(db, "SELECT sum(n) FROM _rollup_daily") == [(12,)]


def test_d18_a_rollup_that_fails_stops_those_made_from_it_and_no_other(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    query = "SELECT lakets.time_bucket('1 hour', ts) AS at, count(*) AS n FROM m GROUP BY 1"
    for name in ("bad", "good"):
        ask(db, "SELECT lakets.create_rollup(%s, %s)", name, query)
    ask(db, "UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    ask(db, "INSERT INTO m SELECT ts, 7 FROM m")
    ask(db, "ALTER TABLE _rollup_bad ADD CHECK (n < 2)")
    assert did(stack, "refresh") == {"retry": 1}
    status, error, _ = unit(db, "refresh")
    assert status == "pending"
    assert error.startswith("bad: ")
    assert "good" not in error
    assert ask(db, "SELECT sum(n) FROM _rollup_good") == [(12,)]


def test_what_is_done_long_ago_is_forgotten_and_what_is_broken_later(db: psycopg.Connection, stack: Stack) -> None:
    for status, days_ago in [("done", 6), ("done", 8), ("cancelled", 8), ("dead", 8), ("failed", 31), ("dead", 31)]:
        ask(
            db,
            "INSERT INTO thermocline.work_unit (kind, scope, status, ended_at)"
            " VALUES ('x', %s, %s, now() - %s * interval '1 d')",
            f"{status} {days_ago}",
            status,
            days_ago,
        )
    for destructive, days_ago in [(True, 399), (True, 401), (False, 29), (False, 31)]:
        ask(
            db,
            "INSERT INTO thermocline.plan (kind, object, destructive, lines, made_at)"
            " VALUES ('x', %s, %s, '[]', now() - %s * interval '1 d')",
            str(days_ago),
            destructive,
            days_ago,
        )
    assert did(stack, "prune") == {"done": 1}
    assert unit(db, "prune")[2] == {"units": 4, "plans": 2}
    assert ask(db, "SELECT scope FROM thermocline.work_unit WHERE kind = 'x' ORDER BY 1") == [("dead 8",), ("done 6",)]
    assert ask(db, "SELECT object FROM thermocline.plan ORDER BY 1") == [("29",), ("399",)]


# ---- the gate ------------------------------------------------------------------------------------


def test_late_rows_are_let_go_once_the_lake_has_them_and_not_while_that_is_paused(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    stack = Stack(lake.stack.settings.model_copy(update={"work": QUICK}))
    lake.drain()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)")
    desk(stack).stop("destructive", "to look")
    with psycopg.connect(dsn, autocommit=True) as db, lake.feeding():
        assert did(stack, "settle") == {}
        assert one(db, "SELECT count(*) FROM m WHERE id = 100") == 1
        desk(stack).go_on("destructive")
        assert did(stack, "settle") == {"done": 1}
        status, error, result = unit(db, "settle")
        assert (status, error, result["rows"]) == ("done", None, 1)
        assert one(db, "SELECT count(*) FROM m WHERE id = 100") == 0
        assert one(db, "SELECT row_count FROM thermocline.audit WHERE action = 'settle_late_rows'") == 1


@pytest.mark.promise("000-07", "000-23")
def test_chunks_are_flagged_and_dropped_by_policy_once_the_lake_has_them(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.run(f"SELECT lakets.add_tiered_retention_policy('m', '{age(2)}', '{age(0)}')")
    ((drop_after,),) = lake.run("SELECT drop_after FROM lakets.show_retention_policy('m')")
    stack = Stack(lake.stack.settings.model_copy(update={"work": QUICK}))
    lake.drain()
    with lake.feeding():
        assert did(stack, "tier") == {"done": 1}
        assert did(stack, "retention") == {"done": 1}, "after the other, which proves what comes due soon"
    states = lake.run("SELECT status FROM lakets._chunk_metadata ORDER BY range_start LIMIT 4")
    assert states == [("dropped",), ("tiered",), ("tiered",), ("active",)]
    ((result, plan),) = lake.run("SELECT u.result, p.lines FROM thermocline.work_unit u"
                                 " JOIN thermocline.plan p ON p.id = u.plan_id WHERE u.kind = 'retention'")  # fmt: skip
    assert result["dropped"] == 1
    assert [(line["action"], line["why"].partition(":")[0]) for line in plan] == [("drop", "due")]
    ((reason, receipt),) = lake.run("SELECT reason, evidence ->> 'gated' FROM thermocline.audit")
    assert reason.endswith(f"drop_after {drop_after}")
    assert receipt == "true"
    assert lake.run("SELECT count(*) FROM m") == [(48,)]


def test_d16_the_plan_is_written_down_before_and_is_what_is_carried_out(db: psycopg.Connection, stack: Stack) -> None:
    number = days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    job = jobs(stack)["retention"]
    claim = claimed(db, stack, "retention", number)
    plan = job.plan(target(number), claim)
    assert [line.action for line in plan.lines] == ["drop"] * 3
    assert plan.policy is not None
    assert plan.policy.endswith("drop_after 3 days")
    ask(db, "SELECT lakets.remove_retention_policy('m')")
    ask(db, "SELECT lakets.add_retention_policy('m', '1 day')")
    assert job.execute(plan, claim)["dropped"] == 3, "a policy that has changed since is for the next plan"
    assert one(db, "SELECT count(*) FROM m") == 3


def test_d16_one_run_drops_so_many_chunks_at_most(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '1 day')")
    careful = QUICK.model_copy(update={"drops_per_run": 2})
    stack = Stack(stack.settings.model_copy(update={"work": careful}))
    assert did(stack, "retention") == {"done": 1}
    assert one(db, "SELECT count(*) FROM m") == 4
    (plan,) = desk(stack).plans(kind="retention")
    assert [line["action"] for line in plan.lines] == ["drop", "drop", "later", "later", "later"]
    assert plan.outcome is not None
    assert plan.outcome["dropped"] == 2


def test_a_drop_that_was_planned_and_not_done_is_done_after_a_crash(
    db: psycopg.Connection, stack: Stack, dsn: str
) -> None:
    days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    command = Command(stack.home.root, {"THERMOCLINE_HOT_DSN": dsn, "THERMOCLINE_WORK_IN_PROCESS": "true"})
    for point in ("work.planned", "work.plan_stored", "drop.detached", "work.before_end"):
        ended = command.run("work", "--once", "--kinds", "retention", "--concurrency", "1", kill_at=point)
        assert ended.was_killed, (point, ended)
        ask(db, "UPDATE thermocline.work_unit SET lease_until = now(), max_attempts = 9 WHERE status = 'claimed'")
    assert one(db, "SELECT count(*) FROM thermocline.plan WHERE destructive") >= 3
    assert did(stack, "retention") == {"done": 1}
    assert one(db, "SELECT count(*) FROM m") == 3
    assert one(db, "SELECT count(*) FROM thermocline.audit WHERE action = 'drop_chunk'") == 3, "each exactly once"


def test_d1_a_worker_that_was_overtaken_drops_nothing(db: psycopg.Connection, stack: Stack) -> None:
    number = days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    job = jobs(stack)["retention"]
    claim = claimed(db, stack, "retention", number)
    plan = job.plan(target(number), claim)
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now()")
    (other,) = units.claim(db, "other", ["retention"], stack.dsn)
    with pytest.raises(LeaseLost):
        job.execute(plan, claim)
    assert one(db, "SELECT count(*) FROM m") == 6
    assert job.execute(job.plan(target(number), other), other)["dropped"] == 3


def test_the_kill_switch_ends_a_run_before_its_next_chunk(db: psycopg.Connection, stack: Stack) -> None:
    number = days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    job = jobs(stack)["retention"]
    claim = claimed(db, stack, "retention", number)
    plan = job.plan(target(number), claim)
    assert desk(stack).stop("destructive", "to look") is True
    with pytest.raises(Halted):
        job.execute(plan, claim)
    assert one(db, "SELECT count(*) FROM m") == 6
    claim.end(db, units.Ending(units.Status.PENDING, counts=False))
    assert did(stack, "retention", "partitions") == {"done": 1}, "what is not destructive goes on"
    assert desk(stack).go_on("destructive") is True
    assert did(stack, "retention") == {"done": 1}
    assert one(db, "SELECT count(*) FROM m") == 3
    acts = ask(db, "SELECT action, object, reason FROM thermocline.audit WHERE action LIKE '%work' ORDER BY id")
    assert acts == [("stop_work", "destructive", "to look"), ("resume_work", "destructive", "")]


def test_a_chunk_whose_drop_is_stopped_halfway_is_attached_again(db: psycopg.Connection, dsn: str) -> None:
    number = days(db)
    oid = one(db, "SELECT chunk_oid::bigint FROM lakets._chunk_metadata WHERE chronotable_id = %s"
              " ORDER BY range_start LIMIT 1", number)  # fmt: skip
    asked: list[int] = []

    def fence(session: psycopg.Connection) -> None:
        asked.append(session.info.backend_pid)
        if len(asked) == 2:
            raise Halted

    outcome = drop.drop_chunk(dsn, oid, gated=False, fence=fence)
    assert len(asked) == 2
    assert outcome.result is not Result.DROPPED
    assert outcome.reason is not None
    assert outcome.reason.code == "work.halted"
    assert one(db, "SELECT count(*) FROM m") == 6
    assert ask(db, "TABLE thermocline.detaching") == []


def half_dropped(db: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch, table: str, policy: int) -> None:
    """Its oldest chunk was detached by a worker that died right after."""
    oid = one(db, "SELECT chunk_oid::bigint FROM lakets._chunk_metadata JOIN lakets._chronotable_registry t"
              " ON t.id = chronotable_id WHERE table_name = %s ORDER BY range_start LIMIT 1", table)  # fmt: skip

    def die(point: str) -> None:
        if point == "drop.detached":
            raise RuntimeError(point)

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(drop, "crash_point", die)
        drop.drop_chunk(dsn, oid, gated=False, policy=policy)
    assert one(db, f"SELECT count(*) FROM {table}") == 5
    assert one(db, "SELECT count(*) FROM thermocline.detaching") == 1


def test_a_run_finishes_no_other_tables_drops(
    db: psycopg.Connection, stack: Stack, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days(db)
    days(db, "n")
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    policy = one(db, "SELECT lakets.add_retention_policy('n', '3 days')")
    half_dropped(db, dsn, monkeypatch, "n", policy)
    desk(stack).add("retention", "m")
    ask(db, "SELECT lakets.schedule_set('retention', p_enabled => false)")
    assert did(stack, "retention") == {"done": 1}
    assert one(db, "SELECT count(*) FROM m") == 3
    assert one(db, "SELECT count(*) FROM thermocline.detaching") == 1
    assert all(row[0].startswith("public.m_") for row in ask(db, "SELECT object FROM thermocline.audit"))
    desk(stack).add("retention", "n")
    assert did(stack, "retention") == {"done": 1}
    assert one(db, "SELECT count(*) FROM n") == 3
    assert one(db, "SELECT count(*) FROM lakets._policy_registry WHERE last_run_at IS NOT NULL") == 2
    lines = ask(db, "SELECT l ->> 'action' FROM thermocline.plan p, jsonb_array_elements(p.lines) l"
                " WHERE p.object = 'public.n' ORDER BY 1")  # fmt: skip
    assert lines == [("drop",), ("drop",), ("finish",)]


def test_a_chunk_that_no_policy_wants_gone_any_more_comes_back(
    db: psycopg.Connection, stack: Stack, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days(db)
    days(db, "n")
    policy = one(db, "SELECT lakets.add_retention_policy('n', '3 days')")
    half_dropped(db, dsn, monkeypatch, "n", policy)
    ask(db, "SELECT lakets.remove_retention_policy('n')")
    assert did(stack, "partitions") == {"done": 2}
    assert one(db, "SELECT count(*) FROM n") == 6
    assert ask(db, "TABLE thermocline.detaching") == []


def test_nobody_drops_by_hand_what_is_paused(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    desk(stack).stop("destructive", "to look")
    with pytest.raises(Paused, match=r"destructive is paused since .* to look") as refusal:
        stack.lifecycle("m", on_spark=False).retention()
    assert "work pause destructive --off" in refusal.value.next_step
    for call in ("execute_retention('m')", "execute_retention('m', p_force => true)", "drop_chunks('m', '3 days')"):
        with pytest.raises(psycopg.errors.RaiseException, match=r"destructive is paused since .* to look"):
            ask(db, f"SELECT lakets.{call}")
    assert one(db, "SELECT count(*) FROM m") == 6
    desk(stack).go_on("destructive")
    assert one(db, "SELECT last_run_at FROM lakets.show_retention_policy('m')") is None
    ended = stack.lifecycle("m", on_spark=False).retention()
    assert one(db, "SELECT last_run_at FROM lakets.show_retention_policy('m')") is not None
    assert [(line.verdict, line.reason) for line in ended] == [("dropped", "outright")] * 3


def test_asking_for_what_waits_for_its_window_hurries_it(db: psycopg.Connection, stack: Stack) -> None:
    table = days(db)
    ask(db, "INSERT INTO thermocline.work_unit (kind, chronotable_id, schedule_id, not_before)"
        " SELECT 'partitions', %s, id, now() + interval '1 h' FROM thermocline.schedule WHERE kind = 'partitions'",
        table)  # fmt: skip
    assert did(stack, "partitions") == {}
    (waiting,) = ask(db, "SELECT id FROM thermocline.work_unit")[0]
    assert desk(stack).add("partitions", "m") == waiting
    assert did(stack, "partitions") == {"done": 1}


@pytest.mark.parametrize("by", ["SELECT lakets.drop_chronotable('m')", "DROP TABLE m"])
def test_a_table_that_is_dropped_while_its_unit_waits(db: psycopg.Connection, stack: Stack, by: str) -> None:
    table = days(db)
    number = desk(stack).add("partitions", "m")
    assert desk(stack).add("partitions", "m") == number
    ask(db, by)
    assert did(stack, "partitions") == {"cancelled": 1}
    status, error, _ = unit(db, "partitions")
    assert status == "cancelled"
    assert "was dropped while its partitions work waited" in error
    listed = {line.table: line.id for line in desk(stack).units()}
    assert listed.keys() == {"", f"dropped table {table}"}
    assert desk(stack).unit(listed[""])["table"] is None
    assert desk(stack).unit(number)["table"] == f"dropped table {table}"
    ask(db, "DELETE FROM thermocline.schedule_run")
    assert did(stack, "partitions") == {}, "nobody asks for what is gone"
    gone = [("table_gone",)] if by.startswith("DROP") else []
    assert ask(db, "SELECT action FROM thermocline.audit WHERE action = 'table_gone'") == gone


def test_a_table_that_is_renamed_while_its_unit_waits(db: psycopg.Connection, stack: Stack) -> None:
    days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    desk(stack).add("retention", "m")
    ask(db, 'ALTER TABLE m RENAME TO "Other.One"')
    assert did(stack, "partitions") == {"done": 1}
    assert did(stack, "retention") == {"done": 1}
    assert one(db, 'SELECT count(*) FROM "Other.One"') == 3


def _clock(off_by: float) -> float:
    return time.time() + off_by


def test_d7_a_clock_that_is_off_stops_what_is_destructive_and_decides_nothing_else(
    db: psycopg.Connection, stack: Stack
) -> None:
    days(db)
    ask(db, "SELECT lakets.add_retention_policy('m', '3 days')")
    desk(stack).add("retention", "m")
    desk(stack).add("partitions", "m")
    for seconds in (600, -600):
        worker = Worker(stack.dsn, jobs(stack), QUICK, wall_clock=partial(_clock, seconds))
        assert worker.run(once=True).ended.get("handed back") == 1
        ask(db, "UPDATE thermocline.work_unit SET not_before = now() WHERE status = 'pending'")
    assert unit(db, "partitions")[0] == "done"
    status, error, _ = unit(db, "retention")
    assert status == "pending"
    assert one(db, "SELECT attempt FROM thermocline.work_unit WHERE kind = 'retention'") == 0, "another node may do it"
    assert "clock of this machine differs by 600 s" in error
    assert one(db, "SELECT count(*) FROM m") == 6
    assert 0 <= one(db, "SELECT extract(epoch FROM now() - claimed_at) FROM thermocline.work_unit"
                    " WHERE kind = 'retention'") < 300, "leases are the database's"  # fmt: skip


def test_spark_is_not_started_when_no_unit_needs_it(
    db: psycopg.Connection, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    days(db)
    ask(db, "SELECT lakets.add_tiered_retention_policy('m', '10 days', '20 days')")
    days(db, "n")
    ask(db, "SELECT lakets.add_retention_policy('n', '3 days')")
    on_spark = Stack(stack.settings.model_copy(update={"work": QUICK.model_copy(update={"in_process": False})}))
    monkeypatch.setattr(on_spark, "spark", lambda: pytest.fail("Spark was started"))
    assert Node(on_spark).once().ended == {"done": 6}
    assert one(db, "SELECT count(*) FROM n") == 3


def test_a_unit_of_a_kind_that_this_release_does_not_know_is_left(db: psycopg.Connection, stack: Stack) -> None:
    units.enqueue(db, Wanted("from the future"))
    assert "from the future" not in did(stack)
    assert ask(db, "SELECT status, attempt FROM thermocline.work_unit WHERE kind = 'from the future'") == [
        ("pending", 0)
    ]


def test_a_node_with_nothing_to_compare_loads_neither_arrow_nor_iceberg(
    db: psycopg.Connection, stack: Stack, dsn: str
) -> None:
    """So an idle node is small: a few tens of megabytes, not two hundred."""
    days(db)
    ask(db, "SELECT lakets.add_tiered_retention_policy('m', '10 days', '20 days')")
    program = (
        "import sys, json; from pathlib import Path; from thermocline.config import Settings, HotSettings;"
        " from thermocline.stack import Stack; from thermocline.work.node import Node;"
        " stack = Stack(Settings(home=Path(sys.argv[1]), hot=HotSettings(dsn=sys.argv[2])));"
        " ended = Node(stack).once().ended;"
        " print(json.dumps([ended, [name for name in ('pyarrow', 'pandas', 'pyspark') if name in sys.modules]]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(stack.home.root), dsn], capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == [{"done": 4}, []]
