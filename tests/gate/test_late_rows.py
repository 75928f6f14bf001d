"""Late rows for a range that has left PostgreSQL meet a trap, by whatever way they come."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.roles import role
from harness.sessions import Session

if TYPE_CHECKING:
    from gate.metrics import Metrics


def partitions(metrics: Metrics) -> int:
    return int(metrics.one("SELECT count(*) FROM pg_inherits WHERE inhparent = 'metrics'::regclass"))


def drop(metrics: Metrics, *days: int) -> None:
    for day in days:
        metrics.receipt(day)
        metrics.drop(day)


@pytest.mark.promise("000-42")
def test_a_late_row_is_refused_with_table_range_and_way_out(metrics: Metrics) -> None:
    drop(metrics, 0)
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.ask(metrics.late())
    end = metrics.start + timedelta(days=1)
    assert caught.value.diag.message_primary == (
        "a row of public.metrics is too late: its rows from"
        f" {metrics.start:%Y-%m-%d %H:%M:%S}+00 to {end:%Y-%m-%d %H:%M:%S}+00 have left PostgreSQL"
    )
    assert "Keep chunks for longer" in (caught.value.diag.message_hint or "")
    metrics.ask(metrics.late(1))


def test_it_is_refused_by_every_way(metrics: Metrics) -> None:
    drop(metrics, 0)
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(
            "UPDATE metrics SET ts = ts - interval '1 day', sensor = 98 WHERE ts = %s",
            metrics.start + timedelta(days=1),
        )
    with (
        pytest.raises(psycopg.errors.RaiseException, match="too late"),
        metrics.db.cursor().copy("COPY metrics (ts, sensor) FROM STDIN") as copy,
    ):
        copy.write_row((metrics.start, 1))
    metrics.ask("SET session_replication_role = replica")
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(metrics.late())
    metrics.ask("RESET session_replication_role")
    (trap,) = metrics.ask("SELECT trap_oid::regclass::text FROM thermocline.dropped_range")[0]
    metrics.ask(f"ALTER TABLE {trap} DISABLE TRIGGER ALL")
    with pytest.raises(psycopg.errors.CheckViolation):
        metrics.ask(metrics.late())


def test_a_role_with_rights_on_its_table_alone_is_told_too(metrics: Metrics) -> None:
    drop(metrics, 0)
    with (
        role(metrics.dsn, "late_app", "", "GRANT INSERT ON metrics TO {role}") as app,
        psycopg.connect(app) as session,
        pytest.raises(psycopg.errors.RaiseException, match="too late"),
    ):
        session.execute(metrics.late().encode())


def test_a_trap_is_no_chunk_and_a_dropped_range_is_not_made_again(metrics: Metrics) -> None:
    before = metrics.one("SELECT count(*) FROM lakets.show_chunks('metrics')")
    drop(metrics, 0, 1)
    assert metrics.one("SELECT count(*) FROM lakets.show_chunks('metrics')") == before - 2
    made = metrics.one("SELECT lakets._ensure_partitions(%s, 1, 3, %s, %s)", metrics.id, metrics.start, metrics.start)
    assert made == 0
    assert metrics.one("SELECT lakets._ensure_partitions(%s, 6, 3)", metrics.id) == 1, "only the one before them"
    assert metrics.status() == "dropped"


def test_updates_and_deletes_of_a_published_table_go_on_beside_a_trap_m19(metrics: Metrics) -> None:
    metrics.ask("ALTER TABLE metrics DROP CONSTRAINT metrics_pkey")
    drop(metrics, 0)
    metrics.ask("UPDATE metrics SET v = v + 1")
    metrics.ask("DELETE FROM metrics WHERE sensor = 1")
    metrics.ask("TRUNCATE metrics")
    assert metrics.one("SELECT count(*) FROM metrics") == 0
    told = [event["event"] for event in metrics.events()]
    assert told.count("chunk_truncated") == metrics.one("SELECT count(*) FROM lakets.show_chunks('metrics')"), (
        "a trap is never resident"
    )


def test_a_trap_is_set_while_readers_and_writers_are_open(metrics: Metrics) -> None:
    """A detached chunk is dropped and trapped under the locks of both."""
    metrics.receipt()
    metrics.ask(
        "INSERT INTO thermocline.detaching (chunk_oid, chronotable_id, bound, gated, reason)"
        " SELECT oid, %s, pg_get_expr(relpartbound, oid), true, 'test' FROM pg_class WHERE oid = %s",
        metrics.id,
        metrics.chunk(),
    )
    metrics.ask(f"ALTER TABLE metrics DETACH PARTITION {metrics.name()}")
    with Session(metrics.dsn) as reader, Session(metrics.dsn) as writer:
        reader.run("SELECT count(*) FROM metrics")
        writer.run(metrics.late(2))
        metrics.drop()
        with pytest.raises(psycopg.errors.RaiseException, match="too late"):
            writer.run(metrics.late())
    assert metrics.one("SELECT count(*) FROM thermocline.detaching") == 0


def test_neighbouring_traps_become_one_when_the_table_is_quiet(metrics: Metrics) -> None:
    before = partitions(metrics)
    drop(metrics, 0, 1, 2)
    assert partitions(metrics) == before
    with Session(metrics.dsn) as reader:
        reader.run("SELECT count(*) FROM metrics")
        assert metrics.one("SELECT thermocline._merge_traps(%s)", metrics.id) == 0, "not under a reader"
    assert metrics.one("SELECT thermocline._merge_traps(%s)", metrics.id) == 1
    assert partitions(metrics) == before - 2
    assert metrics.one("SELECT thermocline._merge_traps(%s)", metrics.id) == 0
    for day in range(3):
        with pytest.raises(psycopg.errors.RaiseException, match="too late"):
            metrics.ask(metrics.late(day))
    metrics.ask(metrics.late(3))


def test_a_trap_that_cannot_be_set_does_not_stop_the_drop(metrics: Metrics) -> None:
    metrics.receipt()
    trap = f"_trap_metrics_{metrics.start:%Y%m%d_%H%M%S}"
    metrics.ask(f"CREATE TABLE {trap} (mine int)")
    metrics.drop()
    assert not metrics.is_there()
    assert any("will meet no trap for now" in said for _, said, _ in metrics.notices)
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition"):
        metrics.ask(metrics.late())
    metrics.ask(f"DROP TABLE {trap}")
    metrics.ask("SELECT thermocline._set_traps(%s, false)", metrics.id)
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(metrics.late())


def test_columns_are_added_and_indexes_made_across_traps(metrics: Metrics) -> None:
    drop(metrics, 0)
    metrics.ask("ALTER TABLE metrics ADD COLUMN note text DEFAULT 'none'")
    metrics.ask("CREATE INDEX by_note ON metrics (note)")
    drop(metrics, 1)
    assert metrics.one("SELECT count(*) FROM metrics WHERE note = 'none'") == 24
