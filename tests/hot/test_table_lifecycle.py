"""A ChronoTable over its life: another chunk length, what waits for tiering, and the end of it."""

from __future__ import annotations

import itertools
from datetime import timedelta

import psycopg
import pytest

from harness.questions import ask, refused
from harness.sessions import Session


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
    [
        (None, "the chunk interval is NULL\n"),
        ("0", "is not positive"),
        ("-1 day", "is not positive"),
        ("1 month 1 day", "mixes months"),
        ("0.5 s", "whole"),
    ],
)
def test_a_chunk_length_that_makes_no_sense_changes_nothing(
    db: psycopg.Connection, interval: str | None, reason: str
) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=rf"public\.metrics.*{reason}"):
        db.execute("SELECT lakets.set_chunk_interval('metrics', %s::interval)", [interval])
    assert ask(db, "SELECT chunk_interval FROM lakets._chronotable_registry") == [(timedelta(days=1),)]
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.nothing is not a ChronoTable"):
        db.execute("SELECT lakets.set_chunk_interval('nothing', '1 day')")


LASTS = "SELECT max(range_end) - now() FROM lakets.show_chunks('metrics')"


@pytest.mark.parametrize(
    ("rule", "gap"),
    [
        ("p_every => '7 days'", timedelta(days=7)),
        ("p_every => '20 hours', p_window => 'runs 02:00-03:00'", timedelta(hours=43)),
        ("p_every => '20 hours', p_window => 'pauses 22:00-02:00'", timedelta(hours=24)),
        ("p_cron => '7 * * * *'", timedelta(hours=1)),
        ("p_cron => '0 3 * * *'", timedelta(days=1)),
        ("p_cron => '0 3 * * mon,Thu'", timedelta(days=7)),
        ("p_cron => '0 3 1 * 1'", timedelta(days=7)),
        ("p_cron => '0 3 31 * *'", timedelta(days=62)),
        ("p_cron => '0 3 1 */3 *'", timedelta(days=366)),
    ],
)
def test_chunks_last_until_the_next_run_of_their_schedule_k3(db: psycopg.Connection, rule: str, gap: timedelta) -> None:
    ask(db, f"SELECT lakets.schedule_set('partitions', 'metrics', {rule})")
    assert ask(db, "SELECT thermocline._chunk_gap(id) FROM lakets._chronotable_registry") == [(gap,)]
    ((lasts,),) = ask(db, LASTS)
    assert lasts > gap, "from the moment on that it is set"
    db.execute("SELECT lakets.set_chunk_interval('metrics', '2 days')")
    ask(db, "SELECT lakets._ensure_partitions(id, 1, lakets._chunks_ahead(chunk_interval, id))"
            " FROM lakets._chronotable_registry")  # fmt: skip
    ((lasts,),) = ask(db, LASTS)
    assert lasts > gap + timedelta(days=1), "and a day without a run"


@pytest.mark.parametrize(
    "call",
    [
        "schedule_set('partitions', 'metrics', p_cron => '0 3 29 2 *')",
        "schedule_set('partitions', p_cron => '0 3 * * 1#5')",
        "schedule_set('partitions', p_cron => '0 3 */7 * 1')",
        "set_chunk_interval('metrics', '15 minutes')",
        "schedule_reset('partitions', 'metrics')",
        "create_chronotable('other', 'ts', '1 minute')",
    ],
)
def test_chunks_that_would_not_last_until_the_next_run_are_refused_k3(db: psycopg.Connection, call: str) -> None:
    if "reset" in call:
        ask(db, "SELECT lakets.schedule_set('partitions', 'metrics', p_every => '1 hour')")
        ask(db, "SELECT lakets.set_chunk_interval('metrics', '15 minutes')")
    if "schedule_set" not in call:
        ask(db, "SELECT lakets.schedule_set('partitions', p_every => '7 days')")
    db.execute("CREATE TABLE other (ts timestamptz NOT NULL)")
    state = (
        "SELECT array_agg(s ORDER BY s.id) FILTER (WHERE s.kind = 'partitions'), (SELECT array_agg(r) FROM"
        " lakets._chronotable_registry r), (SELECT count(*) FROM lakets._chunk_metadata) FROM thermocline.schedule s"
    )
    before = ask(db, state)
    refused(db, f"SELECT lakets.{call}", r"made for .* ahead, and up to .* may pass between two runs")
    assert ask(db, state) == before


def test_short_chunks_are_made_for_the_schedule_and_48_more_k3(db: psycopg.Connection) -> None:
    ask(db, "SELECT lakets.schedule_set('partitions', p_every => '1 hour')")
    asked = "SELECT lakets._chunks_ahead('1 minute'), lakets._chunks_ahead('1 hour'), lakets._chunks_ahead('1 day')"
    assert ask(db, asked) == [(60 + 48, 1 + 24, 3)]
    assert ask(db, "SELECT lakets._chunks_ahead('1 second')") == [(548,)]


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
    ((*row, run, verdicts),) = ask(db, "SELECT * FROM lakets.show_tiering_status('metrics')")
    chunks = len(ask(db, "SELECT FROM lakets.show_chunks('metrics')"))
    assert row == ["public", "metrics", "3 days", chunks, 0, 6, 0, 0, "NONE", None, False]
    assert (run, verdicts) == (None, None)
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


POLICIES = {
    "retention": "SELECT lakets.add_retention_policy('metrics', '5 days')",
    "tiered_retention": "SELECT lakets.add_tiered_retention_policy('metrics', '3 days', '5 days')",
}


@pytest.mark.parametrize("won", [True, False])
@pytest.mark.parametrize(("first", "second"), [("retention", "tiered_retention"), ("tiered_retention", "retention")])
def test_of_two_retention_policies_added_at_once_one_is_refused_g15(
    db: psycopg.Connection, dsn: str, first: str, second: str, won: bool
) -> None:
    with Session(dsn) as one, Session(dsn) as two:
        one.run(POLICIES[first])
        waiting = two.start(POLICIES[second])
        two.wait_until_blocked()
        if won:
            one.commit()
            refusal = rf"public\.metrics has a {first} policy already"
            with pytest.raises(psycopg.errors.RaiseException, match=refusal) as caught:
                waiting.result(60)
            assert "remove_retention_policy('metrics', 'public')" in (caught.value.diag.message_hint or "")
        else:
            one.rollback()
            waiting.result(60)
            two.commit()
    assert ask(db, "SELECT policy_type FROM lakets._policy_registry") == [(first if won else second,)]


def test_drop_chunks_keeps_what_tiered_retention_wants_in_the_lake_and_nobody_syncs(db: psycopg.Connection) -> None:
    heard: list[tuple[str | None, str | None]] = []
    db.execute(POLICIES["tiered_retention"])
    db.add_notice_handler(lambda notice: heard.append((notice.severity_nonlocalized, notice.message_detail)))
    before = ask(db, "SELECT count(*) FROM metrics")
    assert ask(db, "SELECT lakets.drop_chunks('metrics', '5 days')") == [(0,)]
    aged = "SELECT count(*) FROM lakets._chunk_metadata WHERE range_end <= now() - interval '5 days'"
    assert heard == [("NOTICE", "not_synced")] * ask(db, aged)[0][0]
    assert len(heard) == 4
    assert ask(db, "SELECT count(*) FROM metrics") == before
    assert ask(db, "SELECT DISTINCT status FROM lakets._chunk_metadata") == [("active",)]


def hint_for_a_late_row(db: psycopg.Connection, days: int) -> str:
    with pytest.raises(psycopg.errors.RaiseException, match=r"a row of public\.metrics is too late") as caught:
        db.execute("INSERT INTO metrics VALUES (now() - %s * interval '1 day', 1)", [days])
    return caught.value.diag.message_hint or ""


NOWHERE = (
    "They were dropped outright: the lake does not have them, and no chunk is made for them again. Keep chunks for"
    " longer than rows may be late, by a retention policy with a longer drop_after."
)


def test_the_hint_for_a_late_row_names_no_way_that_is_refused(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT lakets.drop_chunks('metrics', '5 days')") == [(4,)]
    assert hint_for_a_late_row(db, 8) == NOWHERE
    with pytest.raises(psycopg.errors.RaiseException, match="it is not synced"):
        db.execute("SELECT lakets.set_late_rows('metrics', 'lake')")
    with pytest.raises(psycopg.errors.RaiseException, match="the lake does not have it"):
        db.execute("SELECT * FROM lakets.rehydrate('metrics', now() - interval '8 days', now() - interval '7 days')")
    made = "SELECT lakets._ensure_partitions(id, 1, 3, %s, %s) FROM lakets._chronotable_registry"
    ((first, last),) = ask(db, "SELECT min(range_start), max(range_start) FROM thermocline.dropped_range")
    assert ask(db, made, first, last) == [(0,)]


def test_the_hint_for_a_late_row_of_a_range_that_the_lake_has_names_every_way_out(db: psycopg.Connection) -> None:
    """Also where such ranges and others lie side by side: one trap for each kind, whatever is merged."""
    assert ask(db, "SELECT lakets.drop_chunks('metrics', '5 days')") == [(4,)]
    newer = "range_start >= (SELECT max(range_start) - interval '1 day' FROM thermocline.dropped_range)"
    ask(db, f"UPDATE thermocline.dropped_range SET in_lake = {newer}")
    assert ask(db, "SELECT thermocline._merge_traps(id) FROM lakets._chronotable_registry") == [(2,)]
    assert ask(db, "SELECT in_lake, range_end - range_start FROM thermocline.trap ORDER BY 1") == [
        (False, timedelta(days=2)),
        (True, timedelta(days=2)),
    ]
    assert hint_for_a_late_row(db, 9) == NOWHERE
    hint = hint_for_a_late_row(db, 6)
    for way in ("Keep chunks for longer", "SELECT lakets.set_late_rows(<table>, 'lake')", "`thermocline rehydrate`"):
        assert way in hint
    assert ask(db, "SELECT thermocline._merge_traps(id) FROM lakets._chronotable_registry") == [(0,)]


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
