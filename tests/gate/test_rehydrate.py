"""Ranges that have left PostgreSQL come back from the lake, row for row, and are hot again."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.both_tiers import Aggregate
from harness.lakes import BASE, NOON, Lake, age, chunk
from thermocline.config import WorkSettings
from thermocline.errors import Refused
from thermocline.gate import rehydrate
from thermocline.gate.rehydrate import NothingToBring
from thermocline.stack import Stack
from thermocline.work.node import Node, desk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from thermocline.gate.rehydrate import RangeLine

DAY = timedelta(days=1)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path)


def back(lake: Lake, first: int, last: int, until: timedelta | None = None) -> list[RangeLine]:
    """Bring back the days from the first to the last, beside a feed."""
    with lake.feeding():
        rehydrator = lake.stack.rehydrator(on_spark=False)
        return rehydrator.bring_back("m", BASE + first * DAY, BASE + (last + 1) * DAY, until)


def work(lake: Lake, kind: str) -> None:
    """What a node does of one kind of work now."""
    stack = Stack(lake.stack.settings.model_copy(update={"work": WorkSettings(in_process=True)}))
    desk(stack).add(kind, "m")
    tally = Node(stack, kinds=[kind]).worker.run(once=True)
    assert not tally.broken, tally


def test_a_dropped_day_comes_back_row_for_row_and_nothing_of_it_streams_again(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    before, entries = lake.hot(), lake.history().num_rows
    lake.let_go(0, 1)
    (line,) = back(lake, 0, 0)
    assert (line.verdict, line.rows, line.reason) == ("back", 24, "equal")
    lake.drain()
    assert lake.history().num_rows == entries, "nothing streamed"
    assert {row for row in before if row[0] < BASE + DAY} == {row for row in lake.hot() if row[0] < BASE + DAY}
    assert lake.content() == before
    ((status, kept),) = lake.run(
        f"SELECT status, kept_until::text FROM lakets._chunk_metadata WHERE chunk_name = 'public.{chunk(0)}'"
    )
    assert (status, kept) == ("active", "infinity")
    ((action, rows, reason),) = lake.run(
        "SELECT action, row_count, reason FROM thermocline.audit ORDER BY id DESC LIMIT 1"
    )
    assert (action, rows) == ("rehydrate", 24), reason
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")


def test_corrections_flow_to_the_lake_and_it_is_let_go_again_on_proof(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    back(lake, 0, 0)
    lake.run(
        "UPDATE m SET v = -1 WHERE id = 3", "DELETE FROM m WHERE id = 4", f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)"
    )
    hot = lake.hot()
    lake.drain()
    lake.assert_same()
    lake.let_go(0)
    assert lake.content() == hot
    (line,) = back(lake, 0, 0)
    assert line.rows == 24
    assert lake.hot() == hot


def test_updated_deleted_doubled_and_reinserted_rows_come_back_as_often_as_they_were(lake: Lake) -> None:
    lake.with_days("id int, v float8", "g % 5, g % 3").synced()
    lake.drain()
    for number in range(3):
        lake.run(
            f"UPDATE m SET v = {number} WHERE id = {number}",
            "DELETE FROM m WHERE ctid = ANY (ARRAY(SELECT ctid FROM m LIMIT 3))",
            f"INSERT INTO m SELECT '{NOON[0]}', 1, 1 FROM generate_series(1, 4)",
            f"DELETE FROM m WHERE ctid IN (SELECT ctid FROM m WHERE ts = '{NOON[0]}' AND id = 1 LIMIT 2)",
        )
        lake.drain()
    before = lake.hot()
    lake.let_go(0)
    back(lake, 0, 0)
    assert lake.hot() == before


ODD = (
    "n numeric, ts2 timestamptz, d date, b bytea, j jsonb, t text, f float4, u uuid, i interval, a int[], c char(3),"
    " g2 int GENERATED ALWAYS AS (length(t)) STORED"
)


def test_every_kind_of_value_comes_back(lake: Lake) -> None:
    lake.run(
        f"CREATE TABLE m (ts timestamptz NOT NULL, {ODD})",
        f"INSERT INTO m (ts, n, ts2, d, b, j, t, f, u, i, a, c) VALUES"
        f" ('{NOON[0]}', 'NaN', 'infinity', '-infinity', '\\x00ff0a', '{{\"a\": [1, \"x\"]}}', E'a\"b\\n,\\\\.', '-0',"
        "  gen_random_uuid(), '1 mon 2 days 03:04:05.6', '{1,NULL,3}', 'ab'),"
        f" ('{NOON[0]}', 12345678901234567890.123456789, '0044-03-15 12:00:00+00 BC', '20000-01-01', '', 'null', '',"
        "  'NaN', NULL, '-1 year', '{}', ''),"
        f" ('{NOON[0]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
        "SELECT lakets.enable_sync('m')",
    )
    lake.drain()
    before = lake.run("SELECT m::text FROM m ORDER BY 1")
    lake.let_go(0)
    assert lake.run("SELECT count(*) FROM m") == [(0,)]
    back(lake, 0, 0)
    assert lake.run("SELECT m::text FROM m ORDER BY 1") == before


def test_columns_that_came_and_went_since_then(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    lake.run(
        "ALTER TABLE m ADD COLUMN note text DEFAULT 'none'",
        "ALTER TABLE m RENAME COLUMN v TO value",
        "ALTER TABLE m DROP COLUMN id",
    )
    lake.drain()
    back(lake, 0, 0)
    assert lake.run(f"SELECT count(*), count(DISTINCT value), min(note) FROM m WHERE ts < '{BASE + DAY}'") == [
        (24, 24, "none")
    ]
    lake.run("UPDATE m SET note = 'seen' WHERE value = 0")
    lake.drain()
    assert lake.content() == lake.hot()


def test_what_cannot_be_brought_back_is_said_and_nothing_is_changed(lake: Lake) -> None:
    lake.with_days()
    rehydrator = lake.stack.rehydrator(on_spark=False)
    with pytest.raises(NothingToBring, match="it is in PostgreSQL"):
        rehydrator.bring_back("m", BASE, BASE + DAY)
    with pytest.raises(NothingToBring, match="never been a chunk"):
        rehydrator.bring_back("m", BASE - 900 * DAY, BASE - 899 * DAY)
    with pytest.raises(Refused, match="is not a range of m"):
        rehydrator.bring_back("m", BASE + DAY, BASE)
    with pytest.raises(Refused, match="nope"):
        rehydrator.bring_back("nope", BASE, BASE + DAY)
    lake.run(f"SELECT lakets.drop_chunks('m', now() - '{BASE + DAY}'::timestamptz)")
    with pytest.raises(NothingToBring, match="the lake does not have it"):
        rehydrator.bring_back("m", BASE, BASE + DAY)
    lake.synced().drain()
    lake.let_go(1)
    lines = rehydrator.plan("m", BASE - DAY, BASE + 3 * DAY)
    assert [line.reason for line in lines if line.range_start >= BASE] == ["not_in_lake", "dropped", "resident"]
    lake.run("SELECT lakets.disable_sync('m')")
    with pytest.raises(NothingToBring, match="not synced"):
        rehydrator.bring_back("m", BASE + DAY, BASE + 2 * DAY)
    assert lake.run("SELECT count(*) FROM thermocline.rehydration") == [(0,)]


def test_without_a_feed_it_stays_in_the_lake_with_a_reason(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    with monkeypatch.context() as impatient:
        impatient.setattr("thermocline.gate.receipt._START", 0)
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY)
    assert (line.verdict, line.reason) == ("stays", "feed_behind")
    ((staged, reason),) = lake.run("SELECT staged_oid, reason FROM thermocline.rehydration")
    assert staged is None
    assert reason.startswith("feed_behind: No feed")
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).carry_out()
    assert line.verdict == "back"


def test_two_at_once_bring_it_back_once(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    before = lake.hot()
    lake.let_go(0, 1)
    told: list[str] = []

    def bring() -> None:
        lines = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + 2 * DAY)
        told.extend(f"{line.verdict} {line.reason}" for line in lines)

    with lake.feeding():
        threads = [threading.Thread(target=bring) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(told) <= {"back equal", "deferred busy", "bring back dropped", "stays resident"}, told
    assert told.count("back equal") == 2
    assert lake.hot() == before
    assert lake.run("SELECT count(*) FROM thermocline.audit WHERE action = 'rehydrate'") == [(2,)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, when a range is loaded and not yet attached."""
    left = [act]

    def at(point: str) -> None:
        if point == "rehydrate.loaded" and left:
            left.pop()()

    monkeypatch.setattr(rehydrate, "crash_point", at)


def test_neighbours_come_back_side_by_side(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a trap, which the first to come back replaces; no late row came, so that is nothing to the other."""
    lake.with_days().synced()
    lake.drain()
    before = lake.hot()
    lake.let_go(0, 1)
    assert lake.run("SELECT thermocline._merge_traps(lakets._chronotable_id('m', 'public'))") == [(1,)]
    other = lake.stack.rehydrator(on_spark=False)
    meanwhile(monkeypatch, lambda: other.bring_back("m", BASE + DAY, BASE + 2 * DAY))
    (line,) = back(lake, 0, 0)
    assert (line.verdict, line.reason) == ("back", "equal")
    assert lake.hot() == before


@pytest.mark.parametrize("settled", [False, True], ids=["waiting", "settled"])
def test_a_late_row_while_it_is_loaded_keeps_it_in_the_lake(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    lake.with_days().synced()
    lake.drain()
    before = lake.hot()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)

    def late() -> None:
        lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)")
        if settled:
            (line,) = lake.stack.late_rows("m", on_spark=False).settle()
            assert line.verdict == "settled", line

    meanwhile(monkeypatch, late)
    (line,) = back(lake, 0, 0)
    assert (line.verdict, line.reason) == ("stays", "late_rows")
    with lake.feeding():
        lake.stack.late_rows("m", on_spark=False).settle()
        (line,) = lake.stack.rehydrator(on_spark=False).carry_out()
    assert (line.verdict, line.rows) == ("back", 25)
    assert lake.hot() == before + Counter({(NOON[0], 99, 9.0): 1})


@pytest.mark.parametrize("crashed", [False, True], ids=["loading", "crashed"])
def test_what_is_released_while_it_is_loaded_does_not_come_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, crashed: bool
) -> None:
    lake.with_days().synced()
    lake.drain()
    before = lake.hot()
    lake.let_go(0)
    release = f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')"
    if crashed:
        lake.run(
            f"SELECT lakets.rehydrate('m', '{BASE}', '{BASE + DAY}')",
            f"SELECT thermocline._stage_range(lakets._chronotable_id('m', 'public'), '{BASE}')",
        )
        assert lake.run(release) == [(1,)]
        with lake.feeding():
            work(lake, "rehydrate")
    else:
        told: list[object] = []
        meanwhile(monkeypatch, lambda: told.extend(lake.run(release)))
        (line,) = back(lake, 0, 0)
        assert (line.verdict, line.reason, told) == ("stays", "not_wanted", [(1,)])
    assert lake.run("SELECT count(*) FROM thermocline.rehydration") == [(0,)]
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]
    assert lake.content() == before
    (line,) = back(lake, 0, 0)
    assert line.verdict == "back", "asked for again it comes"
    assert lake.hot() == before


def test_asked_for_again_it_is_kept_for_as_long_as_is_said_last(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0, 1)
    back(lake, 0, 0, timedelta(hours=1))
    kept = "SELECT round(extract(epoch FROM kept_until - now()) / 3600)::int FROM lakets._chunk_metadata"
    kept += " WHERE kept_until IS NOT NULL ORDER BY range_start"
    assert lake.run(kept) == [(1,)]
    first, second = back(lake, 0, 1, timedelta(hours=48))
    assert (first.verdict, first.reason, second.verdict) == ("stays", "kept", "back")
    assert lake.run(kept) == [(48,), (48,)]
    (line,) = back(lake, 0, 0, timedelta(hours=72))
    assert (line.verdict, line.reason) == ("stays", "kept")
    assert lake.run(kept) == [(72,), (48,)]
    with pytest.raises(NothingToBring, match="it is in PostgreSQL"):
        back(lake, 2, 2)


def test_why_says_of_a_chunk_that_came_back_what_becomes_of_it_without_a_policy(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    lake.run(f"SELECT lakets.rehydrate('m', '{BASE}', '{BASE + DAY}', '290000 years')")
    with lake.feeding():
        work(lake, "rehydrate")
    assert "is kept until 29" in lake.stack.why(chunk(0)).summary
    lake.run(f"SELECT lakets.rehydrate('m', '{BASE}', '{BASE + DAY}')")
    assert "is kept until it is released; then a node drops it" in lake.stack.why(chunk(0)).summary
    lake.run(f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')")
    assert "no longer kept: a node drops it" in lake.stack.why(chunk(0)).summary


def test_writers_and_readers_go_on_beside_it(lake: Lake) -> None:
    """Somebody who reads in an open transaction holds it up until he ends; then it goes on by itself."""
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    with psycopg.connect(lake.dsn) as reader:
        reader.execute("SELECT count(*) FROM m")
        with lake.feeding():
            rehydrator = lake.stack.rehydrator(on_spark=False, patience=0.5)
            (line,) = rehydrator.bring_back("m", BASE, BASE + DAY)
            assert (line.verdict, line.reason) == ("deferred", "busy")
            lake.run(f"INSERT INTO m VALUES ('{NOON[2]}', 1000, 1)")
            reader.rollback()
            (line,) = lake.stack.rehydrator(on_spark=False).carry_out()
    assert line.verdict == "back"
    assert lake.run("SELECT count(*) FROM m") == [(73,)]


def test_keys_indexes_foreign_keys_and_triggers_are_those_of_any_chunk(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE device (id int PRIMARY KEY)",
        "INSERT INTO device SELECT generate_series(0, 100)",
        "CREATE TABLE m (ts timestamptz NOT NULL, id int NOT NULL REFERENCES device, v float8 CHECK (v >= 0),"
        " PRIMARY KEY (ts, id))",
        f"INSERT INTO m SELECT '{BASE}'::timestamptz + g * interval '1 hour', g, g FROM generate_series(0, 71) g",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
        "CREATE INDEX by_v ON m (v)",
        "SELECT lakets.enable_sync('m')",
    )
    lake.drain()
    described = (
        "SELECT (SELECT array_agg(regexp_replace(pg_get_constraintdef(oid), ' NOT NULL.*', '') ORDER BY 1) FROM"
        f" pg_constraint WHERE conrelid = '{chunk(0)}'::regclass),"
        f" (SELECT count(*) FROM pg_index WHERE indrelid = '{chunk(0)}'::regclass),"
        " (SELECT array_agg(tgname::text || tgenabled::text ORDER BY tgname) FROM pg_trigger"
        f"  WHERE tgrelid = '{chunk(0)}'::regclass AND tgname NOT LIKE 'RI_%'),"
        f" (SELECT (relreplident, relowner, relhasindex) FROM pg_class WHERE oid = '{chunk(0)}'::regclass)"
    )
    before = lake.run(described)
    lake.let_go(0)
    back(lake, 0, 0)
    assert lake.run(described) == before
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 1000, 1)")
    lake.let_go(0)
    lake.run("DELETE FROM m", "DELETE FROM device WHERE id = 5")
    (line,) = back(lake, 0, 0)
    assert (line.verdict, line.reason) == ("stays", "failed")
    assert "foreign key" in line.message
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]


def test_r2_r8_a_bucket_that_was_incomplete_is_whole_once_its_days_are_back(lake: Lake) -> None:
    """It is shown, by the RollUp and by one that is made from it, before a refresh and after, and is frozen again."""
    lake.with_days("id int, v int, k text", "g, g, 'k' || g % 3").synced()
    lake.drain()
    rows = lake.hot()
    lake.let_go(0)
    one = Aggregate("wide", "m", 2)
    one.make(lake)
    lake.run(
        "SELECT lakets.create_rollup('wider', 'SELECT lakets.time_bucket(''4 days'', bucket,"
        f" ''{BASE.isoformat()}'') AS bucket, sum(n) AS n FROM _rollup_wide GROUP BY 1', '4 days')",
        "SELECT lakets.create_rollup_view('wider', NULL)",
        "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
    )
    assert one.require(lake, rows) == 1, "the first is not shown"
    assert lake.run("TABLE _rollup_rt_wider") == []
    back(lake, 0, 0)
    assert one.require(lake, rows, all_of_it=True) == 0
    for name in ("wide", "wider", "wide"):
        assert lake.run(f"SELECT lakets.refresh_rollup('{name}')") == [(True,)]
    assert lake.run("SELECT DISTINCT incomplete::text FROM lakets._rollup_registry") == [("{}",)]
    assert one.require(lake, rows, all_of_it=True) == 0
    assert lake.run("TABLE _rollup_rt_wider") == [(BASE, 72)]
    lake.let_go(0)
    lake.run("SELECT lakets.refresh_rollup('wide')")
    assert one.require(lake, rows, all_of_it=True) == 0, "frozen as it was"


def test_a_request_in_sql_is_carried_out_by_a_node_and_let_go_when_its_time_is_over(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    before = lake.hot()
    lake.let_go(0, 1)
    asked = lake.run(f"SELECT * FROM lakets.rehydrate('m', '{NOON[0]}', '{NOON[1]}', '7 days')")
    assert [row[2] for row in asked] == [24, 24]
    with lake.feeding():
        work(lake, "rehydrate")
    assert lake.hot() == before
    kept = lake.run("SELECT kept_until > now() + '6 days' FROM lakets._chunk_metadata WHERE kept_until IS NOT NULL")
    assert kept == [(True,), (True,)]
    assert lake.run(f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')") == [(1,)]
    with lake.feeding():
        work(lake, "rehydrate")
    assert lake.run("SELECT count(*) FROM m") == [(48,)]
    assert lake.content() == before
    ((reason,),) = lake.run("SELECT reason FROM thermocline.audit WHERE action = 'drop_chunk' ORDER BY id DESC LIMIT 1")
    assert "no longer kept" in reason


def test_a_request_in_sql_that_cannot_be_is_refused(lake: Lake) -> None:
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    for asked, told in (
        (f"'m', '{BASE + DAY}', '{BASE}'", "is not a range of m"),
        (f"'m', NULL, '{BASE}'", "is not a range of m"),
        (f"'m', '{BASE}', 'infinity'", "is not a range of m"),
        (f"'m', '{BASE}', '{BASE + DAY}', '-1 day'", "that is over already"),
        (f"'m', '{BASE}', '{BASE + DAY}', '1000000 years'", "longer than PostgreSQL can reckon"),
        (f"'m', '{BASE + DAY}', '{BASE + 2 * DAY}'", "it is in PostgreSQL"),
        (f"'nope', '{BASE}', '{BASE + DAY}'", "nope"),
    ):
        with pytest.raises(psycopg.Error, match=told):
            lake.run(f"SELECT * FROM lakets.rehydrate({asked})")
    assert lake.run("SELECT count(*) FROM thermocline.rehydration") == [(0,)]


def test_no_policy_takes_what_is_kept(lake: Lake) -> None:
    """By the command, by SQL and by force it stays, and everybody is told why; released, it goes."""
    lake.with_days().synced()
    lake.drain()
    lake.let_go(0)
    back(lake, 0, 0)
    lake.run(f"SELECT lakets.add_tiered_retention_policy('m', '1 hour', '{age(0)}')")
    gate = lake.stack.lifecycle("m", on_spark=False)
    with lake.feeding():
        for lines in (gate.retention(dry_run=True), gate.retention()):
            (line,) = (line for line in lines if line.chunk == f"public.{chunk(0)}")
            assert (line.verdict, line.reason) == ("stays", "kept")
        for call in (
            "execute_retention('m')",
            "execute_retention('m', p_force => true)",
            f"drop_chunks('m', '{age(0)}')",
        ):
            lake.run(f"SELECT lakets.{call}")
        told = lake.stack.why(chunk(0))
        assert (told.verdict, told.reason, told.obstacles[0].reason) == ("stays", "kept", "kept")
        assert "kept" in told.summary
        assert lake.run(f"SELECT count(*) FROM {chunk(0)}") == [(24,)]
        lake.run(f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')")
        assert "dropped" in {line.verdict for line in gate.retention() if line.chunk == f"public.{chunk(0)}"}
