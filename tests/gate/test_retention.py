"""Policies, and what SQL callers get of them: flags, drops in their own transaction, notices for what stays."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import refused
from harness.sessions import Session

if TYPE_CHECKING:
    from gate.metrics import Metrics


def run(metrics: Metrics, call: str) -> Any:
    metrics.notices.clear()
    return metrics.one(f"SELECT lakets.{call}")


def said(metrics: Metrics) -> list[tuple[str, str | None]]:
    return [(severity, detail) for severity, _, detail in metrics.notices]


# ---- the decision table ----------------------------------------------------------------------


def test_plain_retention_of_a_table_that_is_not_synced_drops_outright(plain: Metrics) -> None:
    policy = run(plain, "add_retention_policy('metrics', '3 days')")
    assert run(plain, "execute_retention('metrics')") == 2
    assert [plain.status(day) for day in range(4)] == ["dropped", "dropped", "active", "active"]
    assert plain.ask("SELECT row_count, forced, reason, evidence ->> 'gated' FROM thermocline.audit ORDER BY id") == [
        (24, False, f"retention policy {policy}: drop_after 3 days", "false"),
        (24, False, f"retention policy {policy}: drop_after 3 days", "false"),
    ]
    assert plain.ask("SELECT receipt_id, receipt_position FROM thermocline.dropped_range") == [(None, None)] * 2
    assert plain.one("SELECT count(DISTINCT trap_oid) FROM thermocline.dropped_range") == 1, "one trap for neighbours"
    assert plain.one("SELECT last_run_at IS NOT NULL FROM lakets.show_retention_policy('metrics')")
    assert run(plain, "execute_retention('metrics')") == 0


@pytest.mark.promise("000-29")
def test_plain_retention_brings_rollups_up_to_date_and_asks_for_no_proof(plain: Metrics) -> None:
    plain.ask(
        "SELECT lakets.create_rollup('hourly', 'SELECT lakets.time_bucket(''1 hour'', ts) AS bucket, sensor,"
        " sum(v) AS total FROM metrics GROUP BY 1, 2', '1 hour')"
    )
    plain.ask(plain.late(0))
    assert plain.ask("SELECT total FROM _rollup_hourly WHERE sensor = 99") == []
    run(plain, "add_retention_policy('metrics', '3 days')")
    assert run(plain, "execute_retention('metrics')") == 2
    assert plain.ask("SELECT bucket, total FROM _rollup_hourly WHERE sensor = 99") == [(plain.start, 1.0)]
    assert plain.ask("SELECT evidence ->> 'gated', row_count FROM thermocline.audit ORDER BY id") == [
        ("false", 25),
        ("false", 24),
    ]


@pytest.mark.promise("000-25")
def test_a_synced_table_is_gated_whatever_the_policy(metrics: Metrics) -> None:
    run(metrics, "add_retention_policy('metrics', '1 day')")
    metrics.receipt(1)
    assert run(metrics, "execute_retention('metrics')") == 1
    assert [metrics.status(day) for day in range(4)] == ["active", "dropped", "active", "active"]
    assert said(metrics) == [("NOTICE", "no_receipt")] * 3


@pytest.mark.promise("000-26", "000-28")
def test_tiered_retention_is_gated_although_nothing_is_synced(plain: Metrics) -> None:
    run(plain, "add_tiered_retention_policy('metrics', '1 day', '2 days')")
    assert run(plain, "execute_retention('metrics')") == 0
    assert said(plain) == [("NOTICE", "not_synced")] * 3
    assert plain.one("SELECT count(*) FROM metrics") == 72


def test_a_table_whose_sync_was_ended_is_not_gated_any_more(metrics: Metrics) -> None:
    run(metrics, "add_retention_policy('metrics', '4 days')")
    metrics.ask("UPDATE thermocline.synced_table SET status = 'TERMINATED'")
    assert run(metrics, "execute_retention('metrics')") == 1


def test_a_table_that_is_synced_between_the_decision_and_the_drop_is_gated(plain: Metrics) -> None:
    evidence = plain.one("SELECT thermocline._claim_chunk(%s, NULL, false) ->> 'gated'", plain.chunk())
    assert evidence == "false"
    run(plain, "add_tiered_retention_policy('metrics', '1 day', '2 days')")
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        plain.ask("SELECT thermocline._drop_chunk(%s, NULL, false)", plain.chunk())
    assert caught.value.diag.message_detail == "gated"
    plain.ask("SELECT thermocline._drop_chunk(%s, NULL, false, true, 'by force')", plain.chunk())
    assert plain.ask("SELECT forced, reason FROM thermocline.audit") == [(True, "by force")]


@pytest.mark.promise("000-30")
def test_force_skips_the_gate_and_is_audited(metrics: Metrics) -> None:
    run(metrics, "add_tiered_retention_policy('metrics', '1 day', '4 days')")
    assert run(metrics, "execute_retention('metrics')") == 0
    assert run(metrics, "execute_retention('metrics', p_force => true)") == 1
    assert metrics.ask("SELECT forced, row_count, evidence ->> 'fingerprint' IS NOT NULL FROM thermocline.audit") == [
        (True, 24, True)
    ]
    assert metrics.ask("SELECT receipt_id, drop_position IS NOT NULL FROM thermocline.dropped_range") == [(None, True)]


def test_force_leaves_alone_what_is_no_longer_our_chunk_g16(metrics: Metrics) -> None:
    """A user has detached it, so it is the user's now; identity is the oid, not the name."""
    run(metrics, "add_retention_policy('metrics', '4 days')")
    metrics.ask(f"ALTER TABLE metrics DETACH PARTITION {metrics.name()}")
    assert run(metrics, "execute_retention('metrics', p_force => true)") == 0
    assert said(metrics) == [("NOTICE", "moved")]
    assert metrics.one(f"SELECT count(*) FROM {metrics.name()}") == 24


def test_g12_a_chunk_dropped_by_hand_is_reported_and_with_force_taken_note_of(metrics: Metrics) -> None:
    run(metrics, "add_retention_policy('metrics', '4 days')")
    metrics.ask(f"DROP TABLE {metrics.name()}")
    assert run(metrics, "execute_retention('metrics')") == 0
    assert said(metrics) == [("NOTICE", "gone")]
    assert run(metrics, "execute_retention('metrics', p_force => true)") == 1
    assert metrics.status() == "dropped"
    assert metrics.ask("SELECT forced, row_count, evidence ->> 'gone' FROM thermocline.audit") == [(True, None, "true")]
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        metrics.ask(metrics.late())


def test_metadata_without_any_partition_is_tolerated(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '30 days')")
    plain.ask(
        "INSERT INTO lakets._chunk_metadata (chronotable_id, chunk_name, range_start, range_end)"
        " VALUES (%s, 'public.ghost', '2020-01-01', '2020-01-02')",
        plain.id,
    )
    assert run(plain, "execute_retention('metrics', p_force => true)") == 1
    assert plain.one("SELECT status FROM lakets._chunk_metadata WHERE chunk_name = 'public.ghost'") == "dropped"


def test_drop_chunks_follows_the_same_rules(metrics: Metrics) -> None:
    metrics.receipt(0)
    assert run(metrics, "drop_chunks('metrics', '3 days')") == 1
    assert said(metrics) == [("NOTICE", "no_receipt")]
    assert metrics.one("SELECT reason FROM thermocline.audit") == "drop_chunks: older than 3 days"
    with pytest.raises(psycopg.errors.RaiseException, match="p_older_than is missing"):
        run(metrics, "drop_chunks('metrics', NULL)")
    with pytest.raises(psycopg.errors.RaiseException, match=r"p_force is NULL for public\.metrics"):
        run(metrics, "execute_retention('metrics', p_force => NULL)")


@pytest.mark.parametrize("age", ["-1 days", "-1 second", "1 day -25 hours"])
def test_chunks_that_are_not_over_are_not_dropped_by_a_negative_age(plain: Metrics, age: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=r"p_older_than is .* for public\.metrics"):
        run(plain, f"drop_chunks('metrics', '{age}')")
    assert plain.one("SELECT count(*) FROM thermocline.audit") == 0


# ---- many chunks, other people ---------------------------------------------------------------


def test_g14_one_call_drops_so_many_and_no_more(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '1 day')")
    plain.ask("SET lakets.max_drops_per_call = 2")
    assert run(plain, "execute_retention('metrics')") == 2
    assert plain.notices[0][1] == "more chunks of public.metrics are due; one call drops 2 at most"
    assert run(plain, "execute_retention('metrics')") == 2
    assert plain.notices == []
    assert run(plain, "execute_retention('metrics')") == 0


@pytest.mark.parametrize("most", ["0", "-3", "all", "1.5", "99999999999"])
@pytest.mark.parametrize("call", ["execute_retention('metrics')", "drop_chunks('metrics', '1 day')"])
def test_g14_a_number_of_drops_that_is_none_is_refused_and_nothing_is_dropped(
    plain: Metrics, most: str, call: str
) -> None:
    run(plain, "add_retention_policy('metrics', '1 day')")
    plain.ask(f"SET lakets.max_drops_per_call = '{most}'")
    refused(plain.db, f"SELECT lakets.{call}", f"lakets.max_drops_per_call is '{most}', which is no number of chunks")
    assert plain.one("SELECT count(*) FROM metrics") == 72
    assert plain.one("SELECT last_run_at FROM lakets._policy_registry") is None
    plain.ask("RESET lakets.max_drops_per_call")
    assert run(plain, call) == 4


def test_one_chunks_failure_is_a_warning_and_the_rest_goes(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '3 days')")
    plain.ask(f"CREATE TABLE mine (kept {plain.name()})")
    assert run(plain, "execute_retention('metrics')") == 1
    ((severity, words, _),) = plain.notices
    assert severity == "WARNING"
    assert words.startswith(f"{plain.name()} could not be dropped: cannot drop table")
    assert [plain.status(day) for day in (0, 1)] == ["active", "dropped"]
    assert plain.one("SELECT count(*) FROM thermocline.audit") == 1


@pytest.mark.parametrize("referring", ["metrics", "notes"])
def test_chunks_of_a_table_that_a_foreign_key_refers_to_go_unless_a_row_does(plain: Metrics, referring: str) -> None:
    """Be it its own key: what nobody refers to goes, the rest stays with the name of the key."""
    if referring == "notes":
        plain.ask("CREATE TABLE notes ()")
        plain.ask("INSERT INTO notes DEFAULT VALUES")
    plain.ask(f"ALTER TABLE {referring} ADD to_sensor int, ADD to_ts timestamptz")
    plain.ask(
        f"ALTER TABLE {referring} ADD CONSTRAINT answers FOREIGN KEY (to_sensor, to_ts) REFERENCES metrics (sensor, ts)"
    )
    if referring == "metrics":  # a row of the last day to one of the second
        plain.ask(
            "UPDATE metrics SET (to_sensor, to_ts) = (SELECT sensor, ts FROM metrics WHERE v = 30) WHERE v = 70",
        )
    else:
        plain.ask("UPDATE notes SET (to_sensor, to_ts) = (SELECT sensor, ts FROM metrics WHERE v = 30)")
    assert run(plain, "drop_chunks('metrics', '3 days')") == 1
    assert plain.notices == [
        (
            "WARNING",
            f"{plain.name(1)} stays: rows of public.{referring} refer to rows of it by the foreign key answers",
            "referred_to",
        )
    ]
    assert [plain.status(day) for day in range(3)] == ["dropped", "active", "active"]
    assert plain.ask("SELECT count(*), sum(row_count) FROM thermocline.audit") == [(1, 24)]
    plain.ask(f"UPDATE {referring} SET to_sensor = NULL")
    assert run(plain, "drop_chunks('metrics', '3 days')") == 1
    assert plain.notices == []
    assert plain.one("SELECT count(*) FROM metrics") == 24
    assert plain.ask("SELECT range_start, trap_oid IS NOT NULL FROM thermocline.dropped_range ORDER BY 1") == [
        (plain.start, True),
        (plain.start + timedelta(days=1), True),
    ]
    assert plain.ask("SELECT * FROM lakets._reconcile()") == []


def test_what_is_in_use_is_deferred_and_nobody_waits_for_us_afterwards(plain: Metrics) -> None:
    """The locks of a deferred drop go at once, although the caller's transaction goes on."""
    run(plain, "add_retention_policy('metrics', '3 days')")
    with Session(plain.dsn) as reader, Session(plain.dsn) as caller, Session(plain.dsn) as writer:
        reader.run("SELECT count(*) FROM metrics")
        assert caller.run("SELECT lakets.execute_retention('metrics')") == [(0,)]
        writer.run(plain.late())
        writer.run("LOCK TABLE metrics IN SHARE ROW EXCLUSIVE MODE")
    assert plain.status() == "active"


def test_a_busy_chunk_is_deferred_and_the_others_go(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '3 days')")
    with Session(plain.dsn) as reader:
        reader.run(f"SELECT count(*) FROM {plain.name()}")
        assert run(plain, "execute_retention('metrics')") == 1
        assert plain.notices[0][:2] == ("NOTICE", f"{plain.name()} is in use, its drop is deferred")
    assert [plain.status(day) for day in (0, 1)] == ["active", "dropped"]


def test_two_retentions_at_once_do_not_wait_for_each_other(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '3 days')")
    with Session(plain.dsn) as first:
        assert first.run("SELECT lakets.execute_retention('metrics')") == [(2,)]
        assert run(plain, "execute_retention('metrics')") == 0
        first.commit()


def test_g19_a_call_in_an_older_snapshot_drops_nothing(plain: Metrics) -> None:
    run(plain, "add_retention_policy('metrics', '3 days')")
    plain.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert run(plain, "execute_retention('metrics', p_force => true)") == 0
    plain.ask("COMMIT")
    assert said(plain) == [("NOTICE", "isolation_level")] * 2


# ---- tiered ----------------------------------------------------------------------------------


@pytest.mark.promise("000-03", "000-08")
def test_tier_chunk_flags_and_removes_nothing(metrics: Metrics) -> None:
    assert run(metrics, f"tier_chunk('{metrics.name()}')") is False
    assert said(metrics) == [("NOTICE", "no_receipt")]
    metrics.receipt()
    assert run(metrics, f"tier_chunk('{metrics.name()}')") is True
    assert metrics.status() == "tiered"
    assert metrics.one("SELECT tiered_at IS NOT NULL FROM lakets._chunk_metadata WHERE chunk_oid = %s", metrics.chunk())
    assert metrics.one("SELECT count(*) FROM metrics") == 72
    assert run(metrics, f"tier_chunk('{metrics.name()}')") is True
    assert run(metrics, "tier_chunk('public.nothing')") is False
    run(metrics, f"untier_chunk('{metrics.name()}')")
    assert metrics.status() == "active"
    with pytest.raises(psycopg.errors.RaiseException, match="is not a tiered chunk"):
        run(metrics, f"untier_chunk('{metrics.name()}')")
    without_schema = metrics.name().removeprefix("public.")
    assert without_schema != metrics.name()
    assert run(metrics, f"tier_chunk('{without_schema}')") is True
    run(metrics, f"untier_chunk('{without_schema}')")
    assert metrics.status() == "active"


def test_the_lock_of_tier_chunk_ends_with_the_call(metrics: Metrics) -> None:
    metrics.receipt()
    with Session(metrics.dsn) as caller, Session(metrics.dsn) as writer:
        assert caller.run("SELECT lakets.tier_chunk(%s)", [metrics.name()]) == [(True,)]
        writer.run(metrics.late())
        writer.commit()
        caller.commit()
    assert metrics.status() == "tiered"


@pytest.mark.promise("000-40")
def test_a_late_write_to_a_tiered_chunk_puts_it_back_under_the_gate(metrics: Metrics) -> None:
    run(metrics, "add_tiered_retention_policy('metrics', '1 day', '4 days')")
    metrics.receipt()
    run(metrics, f"tier_chunk('{metrics.name()}')")
    metrics.ask(metrics.late())
    assert run(metrics, "execute_retention('metrics')") == 0
    assert said(metrics) == [("NOTICE", "changed_since_receipt")]
    assert metrics.status() == "active"
    metrics.receipt()
    assert run(metrics, f"tier_chunk('{metrics.name()}')") is True
    metrics.ask(f"UPDATE {metrics.name()} SET v = 0")
    assert run(metrics, f"tier_chunk('{metrics.name()}')") is False
    assert metrics.status() == "active"


def test_a_feed_that_stands_still_leaves_the_flag(metrics: Metrics) -> None:
    run(metrics, "add_retention_policy('metrics', '4 days')")
    metrics.receipt()
    run(metrics, f"tier_chunk('{metrics.name()}')")
    metrics.ask("UPDATE thermocline.synced_table SET status = 'SKIPPED'")
    assert run(metrics, "execute_retention('metrics')") == 0
    assert metrics.status() == "tiered"


# ---- policies --------------------------------------------------------------------------------


def test_policies_are_kept_and_shown_as_text(metrics: Metrics) -> None:
    metrics.ask("SET intervalstyle = 'iso_8601'")
    tiering = run(metrics, "add_tiering_policy('metrics', '7 days')")
    retention = run(metrics, "add_tiered_retention_policy('metrics', '7 days', '90 days')")
    assert metrics.ask("SELECT * FROM lakets.show_tiering_policy('metrics')") == [(tiering, "7 days", True, None)]
    assert metrics.ask("SELECT * FROM lakets.show_retention_policy('metrics', 'public')") == [
        (retention, "tiered_retention", "90 days", "7 days", True, None)
    ]
    assert metrics.one("SELECT count(*) FROM lakets._chunk_metadata WHERE last_write_lsn IS NULL") == 0
    registry = "SELECT tiering_enabled, extract(day FROM retention_interval)::int FROM lakets._chronotable_registry"
    assert metrics.ask(registry) == [(True, 90)]
    run(metrics, "remove_retention_policy('metrics')")
    assert metrics.ask(registry) == [(True, None)]
    run(metrics, "remove_tiering_policy('metrics')")
    assert metrics.ask(registry) == [(False, None)]
    run(metrics, "remove_tiering_policy('metrics')")
    assert metrics.notices[0][1] == "public.metrics has no such policy"


def test_a_tiering_policy_on_a_table_that_is_not_synced_is_taken_with_a_notice(plain: Metrics) -> None:
    run(plain, "add_tiering_policy('metrics', '7 days')")
    assert plain.notices[0][1] == "public.metrics is not synced to the lake, so none of its chunks is tiered yet"
    run(plain, "add_retention_policy('metrics', '7 days')")
    assert plain.notices == []


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        ("add_retention_policy('metrics', '1 day')", None, "has a retention policy already"),
        ("add_tiering_policy('metrics', '1 day')", None, "has a tiering policy already"),
        (
            "add_retention_policy('metrics', '1 day')",
            "add_tiered_retention_policy('metrics', '1 day', '2 days')",
            "has a retention policy already",
        ),
        (
            "add_tiered_retention_policy('metrics', '1 day', '2 days')",
            "add_retention_policy('metrics', '1 day')",
            "has a tiered_retention policy already",
        ),
    ],
)
def test_g15_a_second_policy_of_a_kind_is_refused(plain: Metrics, first: str, second: str | None, match: str) -> None:
    run(plain, first)
    with pytest.raises(psycopg.errors.RaiseException, match=match) as caught:
        run(plain, second or first)
    assert "_policy('metrics', 'public') removes it." in (caught.value.diag.message_hint or "")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ("add_tiered_retention_policy('metrics', '2 days', '2 days')", "must be shorter than drop_after"),
        ("add_tiered_retention_policy('metrics', NULL, '2 days')", "needs a positive tier_after"),
        ("add_retention_policy('metrics', '0 days')", "needs a positive drop_after"),
        ("add_retention_policy('metrics', '-1 day')", "needs a positive drop_after"),
        ("add_tiering_policy('metrics', NULL)", "needs a positive after"),
        (
            "add_retention_policy('metrics', '1000000 years')",
            r"drop_after of the retention policy of public\.metrics is '1000000 years', which is no age of a chunk",
        ),
        (
            "add_tiered_retention_policy('metrics', '1 day', '1000000 years')",
            r"drop_after of the tiered_retention policy of public\.metrics is '1000000 years'",
        ),
        ("add_tiering_policy('metrics', '1000000 years')", r"after of the tiering policy of public\.metrics is"),
        ("drop_chunks('metrics', '1000000 years')", r"p_older_than of drop_chunks of public\.metrics is"),
        ("add_retention_policy('nothing', '1 day')", "is not a ChronoTable"),
        ("execute_retention('nothing')", "is not a ChronoTable"),
        ("remove_retention_policy('nothing')", "is not a ChronoTable"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(plain: Metrics, call: str, match: str) -> None:
    refused(plain.db, f"SELECT lakets.{call}", match)
    assert plain.ask("SELECT * FROM lakets._policy_registry") == []
    assert plain.ask("SELECT tiering_enabled, retention_interval FROM lakets._chronotable_registry") == [(False, None)]


@pytest.mark.parametrize("age", ['"1000000 years"', '"-1 day"', '"soon"', "null"])
def test_a_policy_that_makes_no_sense_is_refused_by_hand_too_and_before_it_is_carried_out(
    plain: Metrics, age: str
) -> None:
    """The worker reads the policies of all tables at once, so one that it could not read would stop the others."""
    run(plain, "add_retention_policy('metrics', '30 days')")
    changed = f"""UPDATE lakets._policy_registry SET config = '{{"drop_after": {age}}}'"""
    refused(
        plain.db, changed, r"drop_after of the retention policy of public\.metrics is .*, which is no age of a chunk"
    )
    plain.ask("SET session_replication_role = replica")
    plain.ask(changed)
    plain.ask("RESET session_replication_role")
    refused(plain.db, "SELECT lakets.execute_retention('metrics')", "which is no age of a chunk")
    refused(plain.db, "SELECT lakets.execute_retention('metrics', p_force => true)", "which is no age of a chunk")
    assert plain.one("SELECT count(*) FROM metrics") == 72


def test_without_a_policy_or_with_a_disabled_one_nothing_is_dropped(plain: Metrics) -> None:
    assert run(plain, "execute_retention('metrics')") == 0
    run(plain, "add_retention_policy('metrics', '1 day')")
    plain.ask("UPDATE lakets._policy_registry SET enabled = false")
    assert run(plain, "execute_retention('metrics', p_force => true)") == 0
    assert plain.one("SELECT count(*) FROM metrics") == 72
