"""The one SQL function that drops a chunk: what it leaves behind, whom it gives way to, and what it never does."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.sessions import Session

if TYPE_CHECKING:
    from gate.metrics import Metrics

DROP = "SELECT thermocline._drop_chunk(%s)"


def refusal(caught: pytest.ExceptionInfo[psycopg.Error]) -> str | None:
    return caught.value.diag.message_detail


def test_a_drop_leaves_a_record_in_stream_registry_and_audit(metrics: Metrics) -> None:
    receipt = metrics.receipt()
    chunk, name = metrics.chunk(), metrics.name()
    size = metrics.one("SELECT pg_total_relation_size(%s)", chunk)
    position = metrics.drop()
    assert not metrics.is_there()
    assert metrics.one("SELECT count(*) FROM metrics") == 48
    assert metrics.ask(
        "SELECT status, row_count, size_bytes FROM lakets._chunk_metadata WHERE chunk_oid = %s", chunk
    ) == [("dropped", 24, size)]
    assert metrics.ask(
        "SELECT d.chunk_oid::bigint, d.receipt_id, d.receipt_position = r.position, d.drop_position::text,"
        " d.drop_position > r.position, d.trap_oid IS NOT NULL"
        " FROM thermocline.dropped_range d JOIN thermocline.receipt r ON r.id = d.receipt_id"
    ) == [(chunk, receipt, True, position, True, True)]
    assert metrics.ask(
        "SELECT who, action, object, row_count, bytes, forced, reason, evidence #>> '{receipt,id}',"
        " evidence ->> 'drop_position' FROM thermocline.audit"
    ) == [("postgres", "drop_chunk", name, 24, size, False, "asked for", str(receipt), position)]
    assert metrics.ask("SELECT count(*) FROM thermocline.chunk_copy WHERE chunk_oid = %s", chunk) == [(0,)]
    told = metrics.events()[-1]
    assert told["event"] == "chunk_dropped"
    assert (told["chronotable"], told["chunk"]) == (metrics.id, chunk)
    assert told["range_start"] == f"{metrics.start:%Y-%m-%dT%H:%M:%S}+00:00"


def test_a_drop_that_is_rolled_back_has_not_happened(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask("BEGIN")
    metrics.drop()
    metrics.ask("ROLLBACK")
    assert metrics.is_there()
    assert metrics.codes() == []
    assert [event["event"] for event in metrics.events()] == []
    assert metrics.one("SELECT count(*) FROM thermocline.audit") == 0


@pytest.mark.promise("000-15")
def test_g13_an_empty_chunk_needs_a_receipt_and_goes_with_one(metrics: Metrics) -> None:
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop(3)
    assert refusal(caught) == "no_receipt"
    metrics.receipt(3)
    metrics.drop(3)
    assert metrics.status(3) == "dropped"
    assert metrics.one("SELECT row_count FROM thermocline.audit") == 0


def test_g20_a_chunk_emptied_after_its_receipt_stays(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask(f"TRUNCATE {metrics.name()}")
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop()
    assert refusal(caught) == "rewritten"
    metrics.receipt(3)
    metrics.ask(metrics.late(3))
    metrics.ask(f"TRUNCATE {metrics.name(3)}")
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop(3)
    assert refusal(caught) == "rewritten", "as empty as at the receipt, and still another file"


def test_g5_a_policy_that_comes_and_goes_changes_nothing_about_coverage(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask("SELECT lakets.add_tiering_policy('metrics', '1 day')")
    metrics.ask("SELECT lakets.remove_tiering_policy('metrics')")
    metrics.ask(metrics.late())
    metrics.ask("SELECT lakets.add_tiering_policy('metrics', '1 day')")
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop()
    assert refusal(caught) == "changed_since_receipt"


def test_g1_g3_a_writer_that_is_still_open_is_given_way_to(metrics: Metrics) -> None:
    metrics.receipt()
    with Session(metrics.dsn) as writer:
        writer.run(metrics.late())
        waited = []
        for _ in range(10):  # what is more than its own patience is the machine's
            began = time.monotonic()
            with pytest.raises(psycopg.errors.LockNotAvailable):
                metrics.drop()
            waited.append(time.monotonic() - began)
            if waited[-1] < 0.9:
                break
        assert min(waited) < 0.9, "less than deadlock_timeout"
        assert metrics.ask("SELECT lakets.tier_chunk(%s)", metrics.name()) == [(False,)]
        assert metrics.notices[-1][1] == f"{metrics.name()} is in use and not tiered now"
        writer.commit()
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop()
    assert refusal(caught) == "changed_since_receipt"
    assert metrics.one("SELECT count(*) FROM metrics WHERE sensor = 99") == 1


def test_g3_a_writer_that_ends_while_the_drop_waits_for_it_is_seen(metrics: Metrics) -> None:
    """The check runs with a snapshot that is younger than the lock, or it would be blind to that row."""
    metrics.receipt()
    with Session(metrics.dsn) as writer, Session(metrics.dsn) as dropper:
        writer.run(metrics.late())
        waiting = dropper.watch().start(DROP, [metrics.chunk()])
        dropper.wait_until_blocked()
        writer.commit()
        with pytest.raises(psycopg.errors.RaiseException, match="it had 24 then and has 25 now"):
            waiting.result(timeout=20)
        dropper.rollback()
    assert metrics.is_there()


def test_g18_in_a_cycle_of_locks_the_drop_gives_way_and_the_writer_goes_on(metrics: Metrics) -> None:
    """The writer uses the table, the drop has the old chunk and wants the table, the writer wants the chunk."""
    metrics.receipt()
    with Session(metrics.dsn) as writer, Session(metrics.dsn) as dropper:
        writer.run(metrics.late(2))
        dropping = dropper.watch().start(DROP, [metrics.chunk()])
        dropper.wait_until_blocked()
        writing = writer.start(metrics.late())
        with pytest.raises(psycopg.errors.LockNotAvailable):
            dropping.result(timeout=20)
        dropper.rollback()
        writing.result(timeout=20)
        writer.commit()
    assert metrics.one("SELECT count(*) FROM metrics WHERE sensor = 99") == 2


def test_g18_while_somebody_waits_for_it_the_drop_does_not_wait_at_all(metrics: Metrics) -> None:
    """The writer has waited almost long enough to search for deadlocks: it must find none of ours."""
    metrics.receipt()
    with Session(metrics.dsn) as writer, Session(metrics.dsn) as dropper:
        writer.run(metrics.late(2))
        dropper.run(f"LOCK TABLE {metrics.name()} IN SHARE MODE")
        writing = writer.start(metrics.late())
        writer.wait_until_blocked()
        time.sleep(0.7)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            dropper.run(DROP, [metrics.chunk()])
        dropper.rollback()
        writing.result(timeout=20)
        writer.commit()
    assert metrics.one("SELECT count(*) FROM metrics WHERE sensor = 99") == 2


def test_g18_many_writers_and_drops_at_once_cost_no_writer_its_transaction(metrics: Metrics) -> None:
    """Writers touch new and old chunks in one transaction, in both orders, while drops take every lock there is."""
    began = time.monotonic()
    numbers = itertools.count(100)
    failures: list[str] = []
    written: list[int] = []
    drops: list[bool] = []

    def goes_on() -> bool:
        """For some seconds, and for longer where the machine has other things to do."""
        lasted = time.monotonic() - began
        return lasted < 5 or (lasted < 120 and (len(written) <= 50 or len(drops) <= 5))

    def write(days: tuple[int, ...]) -> None:
        with psycopg.connect(metrics.dsn) as session:
            while goes_on():
                try:
                    for day in days:
                        session.execute(metrics.late(day, next(numbers)).encode())
                    session.commit()
                    written.append(1)
                except psycopg.Error as error:
                    failures.append(str(error))
                    session.rollback()

    def drop() -> None:
        with psycopg.connect(metrics.dsn, autocommit=True) as session:
            while goes_on():
                try:
                    with session.transaction(force_rollback=True):
                        session.execute("SELECT thermocline._drop_chunk(%s, NULL, false, true)", [metrics.chunk(1)])
                        drops.append(True)
                except psycopg.errors.LockNotAvailable:
                    drops.append(False)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, days) for days in ((3, 1), (1, 3), (3, 2, 1))]
        for running in (pool.submit(drop), *writers):
            running.result()
    assert failures == []
    assert len(written) > 50
    assert len(drops) > 5


def test_g18_a_table_that_a_chunk_refers_to_is_given_way_to_as_well(plain: Metrics) -> None:
    plain.ask("CREATE TABLE sensors (id int PRIMARY KEY)")
    plain.ask("INSERT INTO sensors SELECT generate_series(0, 99)")
    plain.ask("ALTER TABLE metrics ADD FOREIGN KEY (sensor) REFERENCES sensors")
    drop = "SELECT thermocline._drop_chunk(%s, NULL, false)"
    with Session(plain.dsn) as reader:
        reader.run("SELECT count(*) FROM sensors")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            plain.ask(drop, plain.chunk())
        reader.commit()
        plain.ask(drop, plain.chunk())
    assert plain.one("SELECT count(*) FROM metrics") == 48


def test_two_drops_of_one_chunk_at_once_drop_it_once(metrics: Metrics) -> None:
    metrics.receipt()
    with Session(metrics.dsn) as first, Session(metrics.dsn) as second:
        first.run("SELECT thermocline._claim_chunk(%s, NULL, true)", [metrics.chunk()])
        with pytest.raises(psycopg.errors.LockNotAvailable, match="could not obtain lock on row"):
            second.run(DROP, [metrics.chunk()])
        second.rollback()
        first.run(DROP, [metrics.chunk()])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.run(DROP, [metrics.chunk()])
        second.rollback()
        first.commit()
        with pytest.raises(psycopg.errors.RaiseException) as caught:
            second.run(DROP, [metrics.chunk()])
        assert refusal(caught) == "unknown_chunk"
        second.rollback()
    assert metrics.one("SELECT count(*) FROM thermocline.audit") == 1


def test_what_depends_on_a_chunk_keeps_it(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.ask(f"CREATE VIEW mine AS SELECT * FROM {metrics.name()}")
    assert metrics.codes() == ["depended_on"]
    metrics.ask("DROP VIEW mine")
    metrics.ask(f"CREATE FUNCTION mine() RETURNS bigint RETURN (SELECT count(*) FROM {metrics.name()})")
    assert metrics.codes(gated=False) == ["depended_on"]
    metrics.ask("DROP FUNCTION mine")
    metrics.ask(f"CREATE TABLE mine (kept {metrics.name()})")
    assert metrics.codes() == []
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        metrics.drop()
    assert metrics.is_there()


def test_nothing_is_removed_that_was_not_claimed(metrics: Metrics) -> None:
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.ask("SELECT thermocline._remove_chunk(%s, '{}', true, 'by hand')", metrics.chunk())
    assert refusal(caught) == "not_claimed"
    assert metrics.is_there()


def test_the_audit_can_only_grow(metrics: Metrics) -> None:
    metrics.receipt()
    metrics.drop()
    for statement in (
        "DELETE FROM thermocline.audit",
        "UPDATE thermocline.audit SET who = 'nobody'",
        "TRUNCATE thermocline.audit",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            metrics.ask(statement)
    assert metrics.one("SELECT count(*) FROM thermocline.audit") == 1


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_other_time_columns_in_other_zones(metrics: Metrics, kind: str) -> None:
    """A bound is compared as text, so it must not depend on who asks."""
    metrics.ask("SET timezone = 'America/Los_Angeles'")
    metrics.ask("SET datestyle = 'German'")
    metrics.ask(f"CREATE TABLE other (at {kind} NOT NULL)")
    metrics.ask("INSERT INTO other SELECT (now() - interval '5 days')")
    metrics.ask("SELECT lakets.create_chronotable('other', 'at', '1 day')")
    chunk = metrics.one("SELECT tableoid::bigint FROM other")
    assert metrics.codes_of(chunk, gated=False) == []
    metrics.ask("SELECT thermocline._drop_chunk(%s, NULL, false)", chunk)
    assert metrics.ask("SELECT count(*) FROM other") == [(0,)]
    with pytest.raises(psycopg.errors.RaiseException, match="have left PostgreSQL"):
        metrics.ask("INSERT INTO other SELECT (now() - interval '5 days')")
