"""The worker: detaches under readers, drops or attaches back, and finishes what a crash left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.sessions import Session
from thermocline import crash
from thermocline.errors import Refused
from thermocline.gate.drop import Outcome, Result, carry_out, drop_chunk, merge_traps, read_state, recover
from thermocline.gate.drop_plan import Candidate, Reason, Verdict, plan_drops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gate.metrics import Metrics

POINTS = ("drop.planned", "drop.intent_recorded", "drop.detached", "drop.before_commit", "drop.done")
WORKER = (
    "import sys\n"
    "from thermocline.gate.drop import drop_chunk\n"
    "print(drop_chunk(sys.argv[1], int(sys.argv[2]), patience=float(sys.argv[3])).result)\n"
)


def worker(metrics: Metrics, kill_at: str | None = None, patience: float = 10) -> subprocess.Popen[str]:
    """The worker in a process of its own."""
    environment = os.environ | ({crash.VARIABLE: kill_at} if kill_at else {})
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, metrics.dsn, str(metrics.chunk()), str(patience)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def code(outcome: Outcome) -> str | None:
    return outcome.reason.code if outcome.reason else None


def place(metrics: Metrics, chunk: int) -> str:
    """Where the chunk stands: attached, pending, detached or gone."""
    return str(
        metrics.one(
            "SELECT coalesce((SELECT CASE WHEN inhdetachpending THEN 'pending' ELSE 'attached' END FROM pg_inherits"
            " WHERE inhrelid = %s), (SELECT 'detached' FROM pg_class WHERE oid = %s), 'gone')",
            chunk,
            chunk,
        )
    )


def recovered(metrics: Metrics) -> list[Outcome]:
    """Recovery, as soon as the server has noticed that the worker is dead."""
    deadline = time.monotonic() + 60
    while True:
        outcomes = recover(metrics.dsn)
        if not any(code(outcome) == "busy" for outcome in outcomes) or time.monotonic() > deadline:
            return outcomes
        time.sleep(0.05)


# ---- the ordinary way ------------------------------------------------------------------------


def test_a_chunk_that_may_go_goes(metrics: Metrics) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    looked: list[int] = []
    outcome = drop_chunk(metrics.dsn, chunk, reason="because", check_lake=looked.append)
    assert outcome == Outcome(chunk, metrics.name(), Result.DROPPED)
    assert looked == [chunk, chunk], "before it is touched, and right before the drop"
    assert metrics.status() == "dropped"
    assert metrics.ask("SELECT reason, forced, row_count FROM thermocline.audit") == [("because", False, 24)]
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(metrics.late())


def test_a_chunk_that_may_not_go_is_not_touched(metrics: Metrics) -> None:
    chunk = metrics.chunk()
    outcome = drop_chunk(metrics.dsn, chunk)
    assert (outcome.result, code(outcome)) == (Result.STAYS, "no_receipt")
    assert place(metrics, chunk) == "attached"
    assert metrics.one("SELECT count(*) FROM thermocline.chunk_copy WHERE chunk_oid = %s", chunk) == 1


def test_a_tiered_chunk_whose_proof_is_gone_loses_its_flag(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask("SELECT lakets.tier_chunk(%s)", metrics.name())
    metrics.ask(metrics.late())
    assert code(drop_chunk(metrics.dsn, metrics.chunk())) == "changed_since_receipt"
    assert metrics.status() == "active"


def test_a_role_whose_transactions_are_serializable_by_default_can_be_a_worker_g19(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',"
        " current_database()); END $$"
    )
    assert drop_chunk(metrics.dsn, metrics.chunk()).result is Result.DROPPED


def test_a_lake_that_cannot_be_looked_at_keeps_the_chunk(metrics: Metrics) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    looks: Iterator[bool] = iter((True, False))

    def second_look_fails(_chunk: int) -> None:
        if not next(looks):
            raise Refused("the lake was rolled back", next_step="Find out why.")

    outcome = drop_chunk(metrics.dsn, chunk, check_lake=second_look_fails)
    assert outcome.reason == Reason("lake_unchecked", "the lake was rolled back", "Find out why.")
    assert place(metrics, chunk) == "attached"


# ---- back again ------------------------------------------------------------------------------


def test_g16_a_write_to_the_detached_chunk_attaches_it_back_to_be_copied_anew(metrics: Metrics) -> None:
    """Nothing of it is in the stream, so only the re-check can see it."""
    metrics.receipt()
    metrics.ask("SELECT lakets.tier_chunk(%s)", metrics.name())
    chunk = metrics.chunk()
    looks = iter((False, True))

    def write_when_detached(_chunk: int) -> None:
        if next(looks):
            assert place(metrics, chunk) == "detached"
            metrics.ask(f"INSERT INTO {metrics.name()} (ts, sensor) VALUES ('{metrics.start.isoformat()}', 98)")

    outcome = drop_chunk(metrics.dsn, chunk, check_lake=write_when_detached)
    assert (outcome.result, code(outcome)) == (Result.STAYS, "changed_since_receipt")
    assert place(metrics, chunk) == "attached"
    assert metrics.one("SELECT count(*) FROM metrics") == 73
    assert metrics.status() == "active"
    assert metrics.codes() == ["not_covered"]
    assert metrics.ask("SELECT action, object FROM thermocline.audit") == [("attach_back", metrics.name())]
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0
    metrics.ask(metrics.late())


def test_a_chunk_that_somebody_reads_by_its_name_is_attached_back(metrics: Metrics) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    with Session(metrics.dsn) as reader:

        def read_when_detached(_chunk: int) -> None:
            if place(metrics, chunk) == "detached":
                reader.run(f"SELECT count(*) FROM {metrics.name()}")

        # ATTACH needs the same lock, so it stays detached until the reader has ended.
        outcome = drop_chunk(metrics.dsn, chunk, check_lake=read_when_detached, patience=2)
        assert (outcome.result, code(outcome)) == (Result.DEFERRED, "busy")
        assert place(metrics, chunk) == "detached"
        assert metrics.status() == "active", "still hot: readers across the tiers find it in thermocline.detaching"
    assert [outcome.result for outcome in recovered(metrics)] == [Result.DROPPED]


def test_what_postgresql_itself_refuses_to_drop_is_attached_back(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask(f"CREATE TABLE mine (kept {metrics.name()})")
    outcome = drop_chunk(metrics.dsn, metrics.chunk())
    assert outcome.result is Result.STAYS
    assert outcome.reason
    assert outcome.reason.code == "failed"
    assert "column kept of table public.mine depends on type" in outcome.reason.message
    assert "CASCADE" not in outcome.reason.next_step
    assert place(metrics, metrics.chunk()) == "attached"


def test_rows_that_others_refer_to_keep_their_chunk(metrics: Metrics) -> None:
    metrics.receipt(0)
    metrics.receipt(1)
    metrics.ask(
        "CREATE TABLE notes (sensor int, ts timestamptz, FOREIGN KEY (sensor, ts) REFERENCES metrics (sensor, ts))"
    )
    metrics.ask("INSERT INTO notes SELECT sensor, ts FROM metrics ORDER BY ts LIMIT 1")
    outcome = drop_chunk(metrics.dsn, metrics.chunk())
    assert "foreign key" in (outcome.reason.message if outcome.reason else "")
    assert place(metrics, metrics.chunk()) == "attached"
    assert drop_chunk(metrics.dsn, metrics.chunk(1)).result is Result.DROPPED


def test_a_table_with_a_default_partition_is_told_so(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask("CREATE TABLE rest PARTITION OF metrics DEFAULT")
    outcome = drop_chunk(metrics.dsn, metrics.chunk())
    assert outcome.result is Result.DEFERRED
    assert "default partition" in (outcome.reason.message if outcome.reason else "")
    assert place(metrics, metrics.chunk()) == "attached"
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0


# ---- others at the same time -----------------------------------------------------------------


def test_g22_constant_readers_and_generic_plan_writers_do_not_starve_it(metrics: Metrics) -> None:
    """Statements that last, one after the other in four sessions, never all idle; none of them fails."""
    for day in range(3):
        metrics.receipt(day)
    stop = threading.Event()
    failures: list[str] = []
    counts = [0] * 4

    def use(number: int) -> None:
        with psycopg.connect(metrics.dsn, autocommit=True) as session:
            session.execute("SET plan_cache_mode = force_generic_plan")
            while not stop.is_set():
                try:
                    if number < 2:
                        session.execute("SELECT count(*), pg_sleep(0.2) FROM metrics")
                    else:
                        session.execute(
                            "UPDATE metrics SET v = v + 1 WHERE ts >= %s AND ts < %s",
                            [metrics.start.replace(year=2000), metrics.start.replace(year=2001)],
                            prepare=True,
                        )
                    counts[number] += 1
                except psycopg.Error as error:
                    failures.append(str(error))

    threads = [threading.Thread(target=use, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + 60
        while min(counts) == 0:
            assert time.monotonic() < deadline, counts
            time.sleep(0.01)
        outcomes = [drop_chunk(metrics.dsn, metrics.chunk(day)) for day in range(3)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [outcome.result for outcome in outcomes] == [Result.DROPPED] * 3
    assert failures == []


def test_a_long_transaction_defers_it_before_anything_is_touched(metrics: Metrics) -> None:
    """Half detached, the chunk would be in nobody's queries for as long as that transaction likes."""
    metrics.receipt()
    with Session(metrics.dsn) as reader:
        reader.run("SELECT count(*) FROM metrics")
        outcome = drop_chunk(metrics.dsn, metrics.chunk(), patience=0.5)
        assert (outcome.result, code(outcome)) == (Result.DEFERRED, "busy")
        assert place(metrics, metrics.chunk()) == "attached"
        assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0


def test_two_workers_at_one_chunk_drop_it_once(metrics: Metrics) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    seen: list[Outcome] = []

    def second_worker(_chunk: int) -> None:
        seen.append(drop_chunk(metrics.dsn, chunk))
        seen.extend(recover(metrics.dsn))

    assert drop_chunk(metrics.dsn, chunk, check_lake=second_worker).result is Result.DROPPED
    assert [(outcome.result, code(outcome)) for outcome in seen] == [(Result.DEFERRED, "busy")] * 3
    assert metrics.one("SELECT count(*) FROM thermocline.audit") == 1


def test_an_sql_caller_leaves_a_chunk_alone_that_the_worker_is_at(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask("SELECT lakets.add_retention_policy('metrics', '4 days')")

    def retention(_chunk: int) -> None:
        if place(metrics, metrics.chunk()) == "detached":
            assert metrics.one("SELECT lakets.execute_retention('metrics')") == 0

    assert drop_chunk(metrics.dsn, metrics.chunk(), check_lake=retention).result is Result.DROPPED


# ---- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_g22_killed_at_any_point_it_is_finished_by_the_next_worker(metrics: Metrics, point: str) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    process = worker(metrics, point)
    assert process.communicate(timeout=120)[0] == ""
    assert process.returncode == -signal.SIGKILL
    recovered(metrics)
    outcome = drop_chunk(metrics.dsn, chunk)
    assert outcome.result is Result.DROPPED or code(outcome) == "unknown_chunk"
    assert metrics.status() == "dropped"
    assert metrics.one("SELECT count(*) FROM metrics") == 48
    assert metrics.one("SELECT count(*) FROM thermocline.audit WHERE action = 'drop_chunk'") == 1
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0
    assert [event["event"] for event in metrics.events()].count("chunk_dropped") == 1
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(metrics.late())


@pytest.mark.parametrize("point", ["drop.intent_recorded", "drop.detached", "drop.before_commit"])
def test_g22_killed_at_any_point_a_row_written_meanwhile_is_kept(metrics: Metrics, point: str) -> None:
    metrics.receipt()
    chunk = metrics.chunk()
    process = worker(metrics, point)
    process.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while metrics.one("SELECT count(*) FROM pg_locks WHERE relation = %s AND mode = 'AccessExclusiveLock'", chunk):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    metrics.ask(f"INSERT INTO {metrics.name()} (ts, sensor) VALUES ('{metrics.start.isoformat()}', 98)")
    outcomes = recovered(metrics)
    assert place(metrics, chunk) == "attached"
    assert metrics.one("SELECT count(*) FROM metrics") == 73
    if point == "drop.intent_recorded":
        assert outcomes == []
        assert metrics.codes() == ["changed_since_receipt"]
    else:
        assert [code(outcome) for outcome in outcomes] == ["changed_since_receipt"]
        assert metrics.codes() == ["not_covered"]


def test_g22_killed_after_it_was_attached_back_it_is_in_the_table_and_nothing_is_left_to_finish(
    metrics: Metrics,
) -> None:
    metrics.receipt()
    metrics.ask(f"CREATE TABLE mine (kept {metrics.name()})")
    process = worker(metrics, "drop.attached_back")
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == -signal.SIGKILL
    assert place(metrics, metrics.chunk()) == "attached"
    assert metrics.one("SELECT count(*) FROM metrics") == 72
    assert recovered(metrics) == []
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0
    metrics.ask("DROP TABLE mine")
    assert metrics.codes() == ["not_covered"], "it is copied anew first"


def test_g22_killed_while_it_detaches_the_pending_detach_is_finished(metrics: Metrics) -> None:
    """The worker and its session die while the detach waits for a reader that came at the wrong moment."""
    metrics.receipt()
    chunk = metrics.chunk()
    with Session(metrics.dsn) as reader:
        metrics.ask("BEGIN")
        metrics.ask("LOCK TABLE thermocline.detaching IN SHARE MODE")  # holds the worker right before its intent
        process = worker(metrics, patience=120)
        blocked = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'thermocline'"
            " AND datname = current_database()"
        )
        with psycopg.connect(metrics.dsn, autocommit=True) as watcher:
            deadline = time.monotonic() + 100
            while watcher.execute(blocked.encode()).fetchone() != (1,):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            reader.run("SELECT count(*) FROM metrics")
            metrics.ask("COMMIT")
            while place(metrics, chunk) != "pending":
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.kill()
            process.communicate()
            ours = "FROM pg_stat_activity WHERE application_name = 'thermocline' AND datname = current_database()"
            watcher.execute(f"SELECT pg_terminate_backend(pid) {ours}".encode())
            while watcher.execute(f"SELECT count(*) {ours}".encode()).fetchone() != (0,):
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert place(metrics, chunk) == "pending"
        assert [code(outcome) for outcome in recover(metrics.dsn, patience=0.5)] == ["detach_pending"]
        assert place(metrics, chunk) == "pending", "the reader is still there"
        reader.run("SELECT count(*) FROM metrics")
    assert [outcome.result for outcome in recovered(metrics)] == [Result.DROPPED]
    assert place(metrics, chunk) == "gone"
    assert metrics.one("SELECT count(*) FROM metrics") == 48


def test_a_begun_drop_whose_chunk_somebody_removed_is_forgotten(metrics: Metrics) -> None:
    metrics.receipt()
    worker(metrics, "drop.detached").communicate(timeout=120)
    metrics.ask(f"DROP TABLE {metrics.name()}")
    assert [code(outcome) for outcome in recovered(metrics)] == ["gone"]
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0


# ---- the plan --------------------------------------------------------------------------------


def test_the_plan_lists_every_due_chunk_with_its_reason(metrics: Metrics) -> None:
    policy = metrics.one("SELECT lakets.add_retention_policy('metrics', '2 days')")
    metrics.receipt(0)
    metrics.receipt(1)
    metrics.ask(metrics.late(1))
    metrics.ask("UPDATE thermocline.receipt SET lake_checked_at = NULL")
    state = read_state(metrics.dsn, "metrics", with_rows=True)
    assert [(line.chunk.name, line.verdict, line.reason) for line in plan_drops(state)] == [
        (metrics.name(0), Verdict.DROP, "due"),
        (metrics.name(1), Verdict.STAYS, "changed_since_receipt"),
        (metrics.name(2), Verdict.STAYS, "no_receipt"),
    ]
    assert plan_drops(state)[0].message == f"retention policy {policy}: drop_after 2 days; proven in the lake"
    assert [line.reason for line in plan_drops(read_state(metrics.dsn))] == ["due", "due", "no_receipt"], "without rows"
    assert read_state(metrics.dsn, "other") == []


@pytest.mark.promise("000-23")
def test_g14_a_plan_is_carried_out_chunk_by_chunk_with_everything_checked_again(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_retention_policy('metrics', '2 days')")
    for day in range(3):
        metrics.receipt(day)
    plan = plan_drops(read_state(metrics.dsn, with_rows=True))
    metrics.ask(metrics.late(1))

    def look(chunk: int) -> None:
        metrics.ask("UPDATE thermocline.receipt SET lake_checked_at = clock_timestamp() WHERE chunk_oid = %s", chunk)

    outcomes = carry_out(metrics.dsn, plan, check_lake=look)
    assert [(outcome.result, code(outcome)) for outcome in outcomes] == [
        (Result.DROPPED, None),
        (Result.STAYS, "changed_since_receipt"),
        (Result.DROPPED, None),
    ]
    assert metrics.one("SELECT count(*) FROM metrics") == 25
    assert metrics.one("SELECT count(DISTINCT xmin::text) FROM thermocline.audit") == 2, "a transaction each"


def test_an_unsynced_table_is_planned_and_dropped_outright(plain: Metrics) -> None:
    plain.ask("SELECT lakets.add_retention_policy('metrics', '3 days')")
    plan = plan_drops(read_state(plain.dsn))
    assert "outright" in plan[0].message
    assert [outcome.result for outcome in carry_out(plain.dsn, plan)] == [Result.DROPPED] * 2
    assert plain.ask("SELECT count(DISTINCT trap_oid), count(*) FROM thermocline.dropped_range") == [(1, 2)]
    merge_traps(plain.dsn)


def candidate(number: int, against: Reason | None = None, *, begun: bool = False) -> Candidate:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    return Candidate(
        number,
        f"c{number}",
        "public",
        "t",
        start,
        start + timedelta(days=1),
        1,
        "active",
        None,
        True,
        7,
        "policy",
        begun,
        against,
    )


def test_g14_a_run_is_limited_and_what_is_refused_does_not_count() -> None:
    refused = Reason("no_receipt", "none", "wait")
    state = [candidate(0), candidate(1, refused), candidate(2), candidate(3), candidate(4, begun=True)]
    plan = plan_drops(state, most=2)
    assert [line.verdict for line in plan] == [Verdict.DROP, Verdict.STAYS, Verdict.DROP, Verdict.LATER, Verdict.FINISH]
    assert plan[3].message == "one run drops 2 chunks at most"
    assert plan[1].next_step == "wait"
    assert [line.verdict for line in plan_drops(state, most=0)].count(Verdict.DROP) == 0
