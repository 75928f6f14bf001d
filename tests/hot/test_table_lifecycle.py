"""A ChronoTable over its life: another chunk length, what waits for tiering, and the end of it."""

from __future__ import annotations

import itertools
from datetime import timedelta

import psycopg
import pytest

from harness.questions import ask


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """With a table of ten days."""
    db.execute("CREATE TABLE metrics (ts timestamptz NOT NULL, v float8)")
    db.execute("INSERT INTO metrics SELECT now() - g * interval '1 day', g FROM generate_series(0, 9) g")
    db.execute("SELECT lakets.create_chronotable('metrics', 'ts', '1 day')")
    return db


@pytest.mark.parametrize("interval", ["7 days", "6 hours", "1 month"])
def test_another_chunk_length_leaves_no_gap_and_no_overlap(db: psycopg.Connection, interval: str) -> None:
    before = ask(db, "SELECT chunk_name, range_start, range_end FROM lakets.show_chunks('metrics')")
    db.execute("SELECT lakets.set_chunk_interval('metrics', %s::interval)", [interval])
    db.execute(
        "SELECT lakets._ensure_partitions(id, 1, 3, NULL, now() + interval '70 days') FROM lakets._chronotable_registry"
    )
    after = ask(db, "SELECT chunk_name, range_start, range_end FROM lakets.show_chunks('metrics')")
    assert set(before) <= set(after)
    assert len(after) > len(before)
    assert all(one[2] == two[1] for one, two in itertools.pairwise(after))
    assert after[-1][2] > before[-1][2] + timedelta(days=60)
    assert ask(db, f"SELECT lakets.time_bucket('{interval}', max(range_end)) = max(range_end)"
                   " FROM lakets._chunk_metadata") == [(True,)]  # fmt: skip
    db.execute("INSERT INTO metrics SELECT now() + g * interval '6 hours', g FROM generate_series(0, 270) g")
    made = ask(db, "SELECT lakets._ensure_partitions(id) FROM lakets._chronotable_registry")
    assert made == [(0,)]


@pytest.mark.parametrize(
    ("interval", "reason"),
    [("0", "is not positive"), ("-1 day", "is not positive"), ("1 month 1 day", "mixes months"), ("0.5 s", "whole")],
)
def test_a_chunk_length_that_makes_no_sense_changes_nothing(db: psycopg.Connection, interval: str, reason: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=rf"public\.metrics.*{reason}"):
        db.execute("SELECT lakets.set_chunk_interval('metrics', %s::interval)", [interval])
    assert ask(db, "SELECT chunk_interval FROM lakets._chronotable_registry") == [(timedelta(days=1),)]
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.nothing is not a ChronoTable"):
        db.execute("SELECT lakets.set_chunk_interval('nothing', '1 day')")


def test_what_waits_for_tiering(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT * FROM lakets.show_tiering_status()") == []
    assert ask(db, "SELECT * FROM lakets._get_chunks_to_tier('metrics')") == []
    db.execute("SELECT lakets.add_tiering_policy('metrics', '3 days')")
    waiting = ask(db, "SELECT chunk_id, chunk_name, range_start, range_end FROM lakets._get_chunks_to_tier('metrics')")
    assert waiting == ask(
        db,
        "SELECT id, chunk_name, range_start, range_end FROM lakets._chunk_metadata"
        " WHERE range_end <= now() - interval '3 days' ORDER BY range_start",
    )
    assert len(waiting) == 6  # from nine to four days ago
    ((*row, run),) = ask(db, "SELECT * FROM lakets.show_tiering_status('metrics')")
    chunks = len(ask(db, "SELECT FROM lakets.show_chunks('metrics')"))
    assert row == ["public", "metrics", "3 days", chunks, 0, 6, 0, 0, "NONE", None, False]
    assert run is None
    assert ask(db, "SELECT table_name FROM lakets.show_tiering_status()") == [("metrics",)]
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.other is not a ChronoTable"):
        db.execute("SELECT * FROM lakets.show_tiering_status('other')")


def test_sizes_of_what_is_tiered_and_dropped(db: psycopg.Connection) -> None:
    db.execute("SELECT lakets.add_tiered_retention_policy('metrics', '3 days', '5 days')")
    db.execute(
        "UPDATE lakets._chunk_metadata SET status = 'tiered' WHERE id IN (SELECT chunk_id FROM"
        " lakets._get_chunks_to_tier('metrics') LIMIT 2)"
    )
    ((size,),) = ask(
        db, "SELECT sum(pg_total_relation_size(chunk_oid)) FROM lakets._chunk_metadata WHERE status = 'tiered'"
    )
    found = "SELECT tiered_chunks, pending_chunks, reclaimable_bytes, reclaimed_bytes FROM lakets.show_tiering_status()"
    assert ask(db, found) == [(2, 4, size, 0)]
    ((dropped,),) = ask(db, "SELECT lakets.execute_retention('metrics', p_force => true)")
    assert dropped == 4
    ((tiered, pending, reclaimable, reclaimed),) = ask(db, found)
    assert (tiered, pending, reclaimable) == (0, 2, 0)
    assert reclaimed >= size


def test_a_dropped_chronotable_leaves_nothing_but_an_audit_row_and_the_lake(db: psycopg.Connection) -> None:
    heard: list[str] = []
    db.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    db.execute("CREATE VIEW seen AS SELECT * FROM metrics")
    db.execute("SELECT lakets.enable_sync('metrics')")
    db.execute("ANALYZE metrics")
    db.execute("SELECT lakets.drop_chronotable('metrics')")
    assert ask(db, "SELECT count(*) FROM pg_class WHERE relname LIKE 'metrics%' OR relname = 'seen'") == [(0,)]
    for table in ("lakets._chronotable_registry", "lakets._chunk_metadata", "thermocline.synced_table"):
        assert ask(db, f"SELECT count(*) FROM {table}") == [(0,)]
    ((action, thing, rows, size, forced, lake),) = ask(
        db, "SELECT action, object, row_count, bytes, forced, evidence ->> 'lake_table' FROM thermocline.audit"
    )
    assert (action, thing, rows, forced) == ("drop_chronotable", "public.metrics", 10, True)
    assert size > 0
    assert lake == "public.lb_metrics_history"
    assert any("what is in the lake stays: public.lb_metrics_history" in one for one in heard)
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.metrics is not a ChronoTable"):
        db.execute("SELECT lakets.drop_chronotable('metrics')")
    db.execute("CREATE TABLE metrics (ts timestamptz NOT NULL, v float8)")
    db.execute("SELECT lakets.create_chronotable('metrics', 'ts', '1 day')")  # the name is free again
