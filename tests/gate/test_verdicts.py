"""The verdict on every chunk: one function decides it, and whoever shows it shows the same."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from psycopg.rows import dict_row

from gate.test_verdict import CASES
from thermocline.gate.drop_plan import Candidate, Reason, plan_drops
from thermocline.gate.lifecycle import Lifecycle, provable
from thermocline.gate.why import why
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from gate.metrics import Metrics
    from thermocline.gate.receipt import Prover

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 10, tzinfo=UTC)
PAST, TO_COME = NOW - timedelta(days=1), NOW + timedelta(days=1)

# state, begun, drop due, tier due, what speaks against it, why the last comparison failed; verdict, reason
DECIDED: list[tuple[Any, ...]] = [
    ("active", False, None, None, None, None, "keep", "no_policy"),
    ("active", False, TO_COME, None, None, None, "keep", "not_due"),
    ("active", False, TO_COME, TO_COME, "no_receipt", "changing", "keep", "not_due"),
    ("tiered", False, TO_COME, PAST, None, None, "keep", "proven"),
    ("tiered", False, None, PAST, "no_receipt", None, "keep", "proven"),
    ("active", False, TO_COME, PAST, None, None, "would tier", "due"),
    ("active", False, TO_COME, PAST, "no_receipt", None, "would tier", "due"),
    ("active", False, TO_COME, PAST, "changed_since_receipt", "changing", "would tier", "changing"),
    ("active", False, TO_COME, PAST, "lake_unchecked", None, "would tier", "due"),
    ("active", False, TO_COME, PAST, "no_receipt", "content_differs", "stays", "content_differs"),
    ("active", False, TO_COME, PAST, "not_synced", None, "stays", "not_synced"),
    ("active", False, PAST, PAST, None, None, "drop", "due"),
    ("tiered", False, PAST, PAST, "lake_changed", None, "drop", "due"),
    ("tiered", False, PAST, PAST, "lake_unchecked", None, "drop", "due"),
    ("tiered", False, PAST, PAST, "changed_since_receipt", None, "would drop", "changed_since_receipt"),
    ("active", False, PAST, None, "no_receipt", "feed_behind", "would drop", "feed_behind"),
    ("active", False, PAST, None, "no_receipt", "content_differs", "stays", "content_differs"),
    ("active", False, PAST, None, "moved", "content_differs", "stays", "moved"),
    ("active", False, PAST, None, "busy", None, "stays", "busy"),
    ("active", False, PAST, None, "a code of tomorrow", None, "stays", "a code of tomorrow"),
    ("active", True, PAST, PAST, "detach_pending", None, "finish", "begun"),
    ("tiered", True, None, None, None, None, "finish", "begun"),
]


def test_one_function_decides(db: psycopg.Connection) -> None:
    asked = "SELECT * FROM thermocline._verdict(%s, %s, %s, %s, %s, %s, %s)"
    found = [db.execute(asked, [*given[:4], NOW, *given[4:6]]).fetchone() for given in DECIDED]
    assert found == [(verdict, reason) for *_, verdict, reason in DECIDED]


def test_a_run_plans_what_people_are_told(db: psycopg.Connection) -> None:
    """Whatever speaks against a chunk that is due: what SQL calls it, and what the plan of a run makes of it."""
    codes = {None, "lake_unchecked", "lake_changed", "a code of tomorrow", *(codes[0] for _, codes in CASES)}
    asked = "SELECT * FROM thermocline._verdict('active', %s, %s, NULL, %s, %s, NULL)"
    for begun, code in itertools.product([False, True], codes):
        told = db.execute(asked, [begun, PAST, NOW, code]).fetchone()
        against = Reason(code, "words", "a step") if code else None
        due = Candidate(1, "c", "public", "m", PAST, NOW, 0, "active", 0, True, 1, "a policy", begun, against)
        (planned,) = plan_drops([due])
        verdict = "would drop" if provable(planned) else str(planned.verdict)
        assert told == (verdict, planned.reason), code


def test_thousands_at_once_are_told_what_each_is_told_alone(metrics: Metrics) -> None:
    """But for the bounds, for which each has to be locked."""
    metrics.receipt()
    chunk = metrics.chunk()
    both = (
        "SELECT ARRAY(SELECT code FROM thermocline._chunk_verdict(%s, NULL, true, false)),"
        " (SELECT codes FROM thermocline._chunks_against(ARRAY[%s]::oid[], true))"
    )
    for changed, _ in CASES:
        if "range_end - interval" in changed:
            continue
        metrics.ask("BEGIN")
        for statement in changed.split("; "):
            metrics.ask(statement.replace("{chunk}", metrics.name()))
        ((alone, together),) = metrics.ask(both, chunk, chunk)
        metrics.ask("ROLLBACK")
        assert alone == together, changed


def shown(metrics: Metrics) -> dict[str, dict[str, Any]]:
    found = metrics.one("SELECT verdicts FROM lakets.show_tiering_status('metrics', p_verdicts => true)")
    return {one["chunk"]: one for one in found}


KEYS = ("state", "verdict", "reason", "message", "next_step")


def assert_same_everywhere(metrics: Metrics) -> dict[str, dict[str, Any]]:
    """In SQL, in both dry runs as far as they speak of a chunk, and in why."""
    in_sql = shown(metrics)
    assert len(in_sql) == metrics.one("SELECT count(*) FROM lakets.show_chunks('metrics')")
    gate = Lifecycle(metrics.dsn, cast("Prover", None), "metrics")
    dropping = {line.chunk: line for line in gate.retention(dry_run=True)}
    flagging = {line.chunk: line for line in gate.tier(dry_run=True) if line.chunk not in dropping}
    for chunk, line in (dropping | flagging).items():
        assert {key: getattr(line, key) for key in KEYS} == {key: in_sql[chunk][key] for key in KEYS}
        assert line.since == datetime.fromisoformat(in_sql[chunk]["since"])
        assert (line.bytes > 0, line.rows is not None) == (True, True)
    for chunk, told in in_sql.items():
        one = why(metrics.dsn, chunk)
        assert (one.state, one.verdict, one.reason, one.next_step) == tuple(
            told[key] for key in ("state", "verdict", "reason", "next_step")
        )
        assert one.since == datetime.fromisoformat(told["since"])
    assert {chunk for chunk, told in in_sql.items() if told["verdict"] != "keep"} == dropping.keys() | flagging.keys()
    return in_sql


@pytest.mark.promise("000-19", "000-21")
def test_status_dry_runs_and_why_say_the_same_of_every_chunk(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_tiered_retention_policy('metrics', '36 hours', '84 hours')")

    def verdicts() -> list[tuple[str, str]]:
        found = assert_same_everywhere(metrics)
        return [(found[metrics.name(day)]["verdict"], found[metrics.name(day)]["reason"]) for day in range(4)]

    day_and_a_half = [("would drop", "no_receipt"), ("would tier", "due")]
    assert verdicts()[0] == day_and_a_half[0]
    assert verdicts()[2] == day_and_a_half[1]
    assert verdicts()[3] == ("keep", "not_due") or verdicts()[3] == day_and_a_half[1]
    metrics.receipt(0)
    assert verdicts()[0] == ("drop", "due")
    metrics.receipt(2)
    assert metrics.one("SELECT lakets.tier_chunk(%s)", metrics.name(2)) is True
    assert verdicts()[2] == ("keep", "proven")
    metrics.ask("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'for a test'")
    assert verdicts()[0] == ("stays", "feed_not_streaming")
    assert shown(metrics)[metrics.name()]["message"] == "the feed of its table is SKIPPED: for a test"
    metrics.ask("UPDATE thermocline.synced_table SET status = 'STREAMING', reason = NULL")
    metrics.ask(f"ALTER TABLE metrics DETACH PARTITION {metrics.name()}")
    assert verdicts()[0] == ("stays", "moved")


def test_a_write_since_the_receipt_that_the_feed_has_seen_is_told_everywhere(metrics: Metrics) -> None:
    """The stream tells the times that a file has rows of, from first to last; the rows say which chunks it was."""
    metrics.ask("SELECT lakets.add_tiered_retention_policy('metrics', '36 hours', '60 hours')")
    metrics.receipt(0)
    metrics.receipt(1)
    metrics.ask(metrics.late(0))
    first, last = metrics.start, metrics.start + 2 * DAY
    seen = {"tables": [metrics.id], "firsts": [first], "lasts": [last], "positions": ["0/1"]}
    metrics.db.execute(query("feed_record_writes"), seen)
    found = assert_same_everywhere(metrics)
    written, beside = found[metrics.name(0)], found[metrics.name(1)]
    assert (written["verdict"], written["reason"]) == ("would drop", "changed_since_receipt")
    assert written["message"].endswith("it had 24 then and has 25 now")
    assert (beside["verdict"], beside["reason"]) == ("drop", "due")
    metrics.ask("SET ROLE lakets_read")
    assert shown(metrics)[metrics.name(0)]["verdict"] == "drop", (
        "who may not read the rows is told what is known without"
    )
    metrics.ask("RESET ROLE")


def test_a_table_that_is_not_synced(plain: Metrics) -> None:
    plain.ask("SELECT lakets.add_tiering_policy('metrics', '36 hours')")
    plain.ask("SELECT lakets.add_retention_policy('metrics', '84 hours')")
    found = assert_same_everywhere(plain)
    assert (found[plain.name()]["verdict"], found[plain.name()]["reason"]) == ("drop", "due"), "outright"
    assert (found[plain.name(2)]["verdict"], found[plain.name(2)]["reason"]) == ("stays", "not_synced")
    assert "lakets.enable_sync" in found[plain.name(2)]["next_step"]


@pytest.mark.promise("000-40")
def test_a_write_into_a_tiered_chunk_is_shown_with_its_reason(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_tiered_retention_policy('metrics', '12 hours', '100 days')")
    metrics.receipt(1)
    assert metrics.one("SELECT lakets.tier_chunk(%s)", metrics.name(1)) is True
    metrics.ask(metrics.late(1))
    assert metrics.one("SELECT lakets.tier_chunk(%s)", metrics.name(1)) is False
    told = assert_same_everywhere(metrics)[metrics.name(1)]
    assert (told["state"], told["verdict"], told["reason"]) == ("active", "would tier", "changed_since_receipt")
    assert "rows were written after its receipt was made" in told["message"]
    metrics.receipt(1)
    metrics.ask("DELETE FROM thermocline.unproven")  # as storing a receipt does
    assert assert_same_everywhere(metrics)[metrics.name(1)]["reason"] == "due"


def test_whoever_may_only_read_is_told_the_verdicts(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_tiered_retention_policy('metrics', '36 hours', '84 hours')")
    metrics.receipt(0)
    as_owner = shown(metrics)
    metrics.ask("SET ROLE lakets_read")
    as_reader = shown(metrics)
    metrics.ask("RESET ROLE")
    assert as_reader == as_owner


def test_without_being_asked_for_them_the_status_tells_no_verdicts(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_tiering_policy('metrics', '36 hours')")
    with psycopg.connect(metrics.dsn, row_factory=dict_row) as session:
        row = session.execute("SELECT * FROM lakets.show_tiering_status('metrics')").fetchone()
    assert row is not None
    assert list(row)[-2:] == ["last_run_at", "verdicts"], "what is published stands where it stood"
    assert row["verdicts"] is None
