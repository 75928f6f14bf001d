"""Both tiers as one: the same question has the same answer before and after chunks have left PostgreSQL."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.lakes import Lake
from thermocline.errors import Refused
from thermocline.gate import drop
from thermocline.gate.sides import NotProven
from thermocline.lake.reads import HistoryLost, NotAHistory, NotAQuestion
from thermocline.reads.standing import UnknownTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

BASE = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
GIVE_UP_AFTER = 180.0
_numbers = itertools.count(1)


@pytest.fixture
def lake(stack: Stack, spark: SparkSession, lake_dsn: str) -> Lake:
    return Lake(lake_dsn, stack)


@pytest.fixture
def table(lake: Lake) -> Iterator[str]:
    """A synced table of a name of its own, with rows, duplicates and late changes, all of it in the lake."""
    name = f"across_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {name} (ts timestamptz NOT NULL, id int, v float8, tag text)",
        f"INSERT INTO {name} SELECT '{BASE}'::timestamptz + g * interval '1 hour', g, g / 7.0, 't' || g % 3"
        " FROM generate_series(0, 71) g",
        f"INSERT INTO {name} SELECT '{BASE}', 1, '-0', NULL FROM generate_series(1, 3)",
        f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{name}')",
    )
    lake.drain()
    lake.run(
        f"UPDATE {name} SET tag = 'changed' WHERE id % 5 = 0",
        f"DELETE FROM {name} WHERE id % 7 = 0",
        f"DELETE FROM {name} WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM {name} WHERE tag IS NULL LIMIT 1)",
    )
    lake.drain()
    yield name
    lake.run(f"SELECT lakets.disable_sync('{name}')")


@contextmanager
def asking(lake: Lake, table: str) -> Iterator[list[Counter[tuple[Any, ...]]]]:
    """Somebody reads the table again and again while the block lasts; what was answered."""
    answers: list[Counter[tuple[Any, ...]]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(rows(lake, table))

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            yield answers
        finally:
            stop.set()
        asked.result()


def rows(lake: Lake, table: str, **bounds: Any) -> Counter[tuple[Any, ...]]:
    with lake.stack.reader().across(f"public.{table}", **bounds) as frame:
        return Counter(tuple(row) for row in frame.collect())


def let_go(lake: Lake, table: str, day: int) -> None:
    """Prove a day's chunk and drop it."""
    ((oid,),) = lake.run(
        "SELECT m.chunk_oid::bigint FROM lakets._chunk_metadata m JOIN lakets._chronotable_registry r"
        f" ON r.id = m.chronotable_id WHERE r.table_name = '{table}' AND range_start = '{BASE + timedelta(days=day)}'"
    )
    prover = lake.stack.prover(on_spark=day == 0)
    give_up_at = time.monotonic() + GIVE_UP_AFTER
    with lake.feeding():
        while True:
            try:
                assert prover.prove(oid).equal
            except NotProven as error:  # a chunk that had to be attached again is copied again
                assert error.reason == "not_covered"
                assert time.monotonic() < give_up_at, "it was not copied again"
                time.sleep(0.2)
                continue
            outcome = drop.drop_chunk(lake.dsn, oid, check_lake=prover.look)
            if outcome.reason is None or outcome.reason.code != "busy" or time.monotonic() > give_up_at:
                break
    assert outcome.reason is None


def aware(found: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Spark hands times over without their zone, which is UTC."""
    return Counter((row[0].replace(tzinfo=None), *row[1:]) for row in found)


def test_the_same_answer_before_and_after_chunks_have_left(lake: Lake, table: str) -> None:
    before = aware(lake.run(f"SELECT * FROM {table}"))
    assert rows(lake, table) == before
    let_go(lake, table, 0)
    let_go(lake, table, 1)
    assert lake.run(f"SELECT count(*) FROM {table} WHERE ts < '{BASE + timedelta(days=2)}'") == [(0,)]
    assert rows(lake, table) == before
    middle = BASE + timedelta(hours=36)
    part = rows(lake, table, start=BASE + timedelta(hours=12), end=middle)
    assert part == Counter(
        {row: n for row, n in before.items() if 12 <= (row[0] - BASE.replace(tzinfo=None)) / timedelta(hours=1) < 36}
    )
    lake.run(f"SELECT lakets.disable_sync('{table}')", f"SELECT lakets.enable_sync('{table}')")
    assert rows(lake, table) == before  # synced anew, and no feed has run yet
    columns, answer = lake.stack.reader().answer(f"SELECT count(*), count(DISTINCT id) FROM {table}", 10)
    assert answer == [(sum(before.values()), len({row[1] for row in before}))]
    assert len(columns) == 2


def test_history_and_current_are_what_the_lake_has(lake: Lake, table: str) -> None:
    reader = lake.stack.reader()
    assert Counter(tuple(row) for row in reader.current(f"public.{table}").collect()) == aware(
        lake.run(f"SELECT * FROM {table}")
    )
    kinds = {row[0] for row in reader.history(table).select("_change_type").distinct().collect()}
    assert kinds == {"insert", "update_preimage", "update_postimage", "delete", "truncate"}
    _, ((count,),) = reader.answer(f"SELECT count(*) FROM {table}_history WHERE _change_type = 'delete'", 10)
    assert count == 12


@pytest.mark.parametrize("followed", [False, True], ids=["before the feed has looked", "after it"])
def test_m2_m17_changed_columns_of_rows_that_have_left(lake: Lake, table: str, followed: bool) -> None:
    let_go(lake, table, 0)
    before = rows(lake, table)
    lake.run(
        f"ALTER TABLE {table} RENAME v TO w",
        f"ALTER TABLE {table} ADD COLUMN extra text DEFAULT 'since'",
        f"ALTER TABLE {table} DROP COLUMN tag",
        f"ALTER TABLE {table} ADD COLUMN tag int",
        f"ALTER TABLE {table} RENAME ts TO at",
    )
    now = Counter({(row[0], row[1], row[2], "since", None): 0 for row in before})
    for row, count in before.items():
        now[(row[0], row[1], row[2], "since", None)] += count
    if followed:
        lake.drain()
    assert rows(lake, table) == now
    if followed:
        current = lake.stack.reader().current(table)
        assert (
            Counter(tuple(row[name] for name in ("at", "id", "w", "extra", "tag")) for row in current.collect()) == now
        )
        lake.run(f"ALTER TABLE {table} ALTER id TYPE bigint", f"UPDATE {table} SET id = 5000000000 WHERE id = 30")
        lake.drain()
        changed = Counter({(at, 5000000000 if one == 30 else one, *rest): n for (at, one, *rest), n in now.items()})
        assert rows(lake, table) == changed
    lake.run(f"ALTER TABLE {table} RENAME at TO ts")


@pytest.mark.promise("004-36")
def test_a_rollup_is_read_by_its_name(lake: Lake, table: str) -> None:
    """All of it is in PostgreSQL; the lake has it too once it is synced, with every refresh."""
    name, source = (
        f"of_{table}",
        f"SELECT lakets.time_bucket(''1 day'', ts) AS day, count(*) AS n FROM {table} GROUP BY 1",
    )
    lake.run(f"SELECT lakets.create_rollup('{name}', '{source}', '1 day')")
    reader, stored = lake.stack.reader(), f"_rollup_{name}"
    assert rows(lake, stored) == aware(lake.run(f"TABLE {stored}"))
    lake.run(f"SELECT lakets.enable_sync('{name}')")
    lake.drain()
    lake.run(f"INSERT INTO {table} VALUES ('{BASE}', 1, 1, 'late')", f"SELECT lakets.refresh_rollup('{name}')")
    lake.drain()
    now = aware(lake.run(f"TABLE {stored}"))
    assert Counter(tuple(row) for row in reader.current(f"public.{stored}").collect()) == now
    assert rows(lake, stored) == now
    _, ((total,),) = reader.answer(f"SELECT sum(n) FROM {stored}", 10)
    assert total == lake.run(f"SELECT count(*) FROM {table}")[0][0]
    lake.run(f"SELECT lakets.drop_rollup('{name}')")


def test_a_drop_that_the_feed_has_not_passed_is_read_at_its_receipt(lake: Lake, table: str) -> None:
    before = rows(lake, table)
    ((oid, name),) = lake.run(
        "SELECT m.chunk_oid::bigint, m.chunk_name FROM lakets._chunk_metadata m JOIN lakets._chronotable_registry r"
        f" ON r.id = m.chronotable_id WHERE r.table_name = '{table}' AND range_start = '{BASE}'"
    )
    prover = lake.stack.prover(on_spark=False)
    with lake.feeding():
        assert prover.prove(oid).equal
    # A row comes and goes: the chunk is what it was. Its insert reaches the lake before the drop, its delete does not.
    lake.run(f"INSERT INTO {table} VALUES ('{BASE}', 4711, 1, 'ghost')")
    lake.drain()
    lake.run(f"DELETE FROM {name} WHERE id = 4711")
    assert drop.drop_chunk(lake.dsn, oid, check_lake=prover.look).reason is None
    assert rows(lake, table) == before
    lake.drain()
    assert rows(lake, table) == before
    assert lake.run(f"SELECT count(*) FROM {table} WHERE id = 4711") == [(0,)]


def test_rows_across_the_tiers_stay_the_same_while_chunks_leave(lake: Lake, table: str) -> None:
    before = rows(lake, table)
    with asking(lake, table) as answers:
        let_go(lake, table, 2)
        let_go(lake, table, 1)
    assert answers
    assert all(answer == before for answer in answers)


def test_late_rows_are_there_once_while_they_are_settled_and_traps_are_merged(lake: Lake, table: str) -> None:
    lake.run(f"SELECT lakets.set_late_rows('{table}', 'lake')")
    let_go(lake, table, 0)
    before = rows(lake, table)
    late = [BASE + timedelta(hours=3), BASE + timedelta(hours=30)]
    lake.run(f"INSERT INTO {table} VALUES ('{late[0]}', 4711, 1, 'late')")
    expected = before + Counter({(late[0].replace(tzinfo=None), 4711, 1.0, "late"): 1})
    assert rows(lake, table) == expected, "at once"
    with asking(lake, table) as answers:
        settled(lake, table)
        let_go(lake, table, 1)
        drop.merge_traps(lake.dsn)
    assert answers
    assert all(answer == expected for answer in answers)
    lake.run(f"INSERT INTO {table} VALUES ('{late[1]}', 4712, 1, 'late')", f"DELETE FROM {table} WHERE id = 4711")
    expected += Counter({(late[1].replace(tzinfo=None), 4712, 1.0, "late"): 1})
    assert rows(lake, table) == expected, "what is settled is the lake's"
    lake.drain()
    assert rows(lake, table) == expected
    settled(lake, table)
    assert rows(lake, table) == expected
    assert lake.run(f"SELECT count(*) FROM {table} WHERE id IN (4711, 4712)") == [(0,)]


def settled(lake: Lake, table: str) -> None:
    """Readers come first, so it may take some attempts."""
    give_up_at = time.monotonic() + GIVE_UP_AFTER
    with lake.feeding():
        while True:
            (line,) = lake.stack.late_rows(f"public.{table}", on_spark=False).settle()
            if line.verdict == "settled":
                return
            assert line.reason == "busy", line
            assert time.monotonic() < give_up_at, "it was not settled"


def test_a_table_that_is_not_there_or_not_synced_is_named(lake: Lake) -> None:
    reader = lake.stack.reader()
    with pytest.raises(UnknownTable, match=r"public\.nothing"), reader.across("nothing"):
        pass
    lake.run(
        "CREATE TABLE unsynced (ts timestamptz NOT NULL, v int)",
        "SELECT lakets.create_chronotable('unsynced', 'ts', '1 day')",
        "INSERT INTO unsynced VALUES (now(), 1)",
    )
    with pytest.raises(Refused, match="not synced"):
        reader.history("unsynced")
    with reader.across("unsynced") as frame:
        assert frame.count() == 1
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        session.execute("DROP TABLE unsynced")
        session.execute("DELETE FROM lakets._chronotable_registry WHERE table_name = 'unsynced'")


@pytest.mark.parametrize(
    "told",
    [
        "DROP TABLE lake.public.lb_across_history",
        "CREATE TABLE lake.public.mine (a int) USING iceberg",
        "DELETE FROM lake.public.lb_across_history WHERE true",
        "INSERT INTO lake.public.lb_across_history SELECT * FROM lake.public.lb_across_history",
        "WITH a AS (SELECT 1) INSERT INTO lake.public.lb_across_history SELECT * FROM a",
        "FROM lake.public.x INSERT INTO lake.public.y SELECT * INSERT INTO lake.public.z SELECT *",
        "UPDATE lake.public.lb_across_history SET v = 1",
        "MERGE INTO lake.public.x USING lake.public.y ON true WHEN MATCHED THEN DELETE",
        "CALL lake.system.expire_snapshots('public.lb_across_history')",
        "ALTER TABLE lake.public.lb_across_history DROP COLUMN v",
        "TRUNCATE TABLE lake.public.lb_across_history",
        "SET spark.sql.session.timeZone = Asia/Tokyo",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "CACHE TABLE lake.public.lb_across_history",
    ],
)
def test_only_questions_are_answered(lake: Lake, told: str) -> None:
    with pytest.raises(NotAQuestion, match="Only questions are answered"):
        lake.stack.reader().answer(told, 10)


def test_questions_of_every_form_are_answered(lake: Lake, spark: SparkSession) -> None:
    reader = lake.stack.reader()
    assert reader.answer("WITH a AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT sum(x) FROM a", 10)[1] == [(3,)]
    assert reader.answer("VALUES (1), (2)", 10)[1] == [(1,), (2,)]
    assert reader.answer("SHOW NAMESPACES IN lake", 10)[0] == ["namespace"]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_names_that_spark_cannot_tell_apart_are_refused(lake: Lake) -> None:
    others = ['"Twins"', "twins", "twins_history", "twins_current"]
    for name in others:
        lake.run(
            f"CREATE TABLE {name} (ts timestamptz NOT NULL, v int)",
            f"SELECT lakets.create_chronotable('{name.strip(chr(34))}', 'ts', '1 day')",
        )
    reader = lake.stack.reader()
    try:
        for view in ("twins", "twins_history", "twins_current"):
            with pytest.raises(Refused, match="do not tell them apart") as refused:
                reader.answer(f"SELECT * FROM {view}", 10)
            assert f'across of "public"."{view}"' in refused.value.message
        assert 'current of "public"."twins" or across' in refused.value.message
        assert reader.answer("SELECT 1 AS one", 10) == (["one"], [(1,)])
    finally:
        for name in others:
            lake.run(f"SELECT lakets.drop_chronotable('{name.strip(chr(34))}')")


def test_another_history_under_the_same_name_does_not_answer_for_what_has_left(lake: Lake, table: str) -> None:
    before = rows(lake, table)
    let_go(lake, table, 0)
    assert rows(lake, table) == before
    name = f"public.lb_{table}_history"
    with lake.stack.catalog() as catalog:
        old = catalog.load_table(name)
        # Rolled back behind the drop: the same table, but not what was proven.
        oldest = min(old.snapshots(), key=lambda one: one.timestamp_ms)
        with old.manage_snapshots() as change:
            change.rollback_to_snapshot(oldest.snapshot_id)
    with pytest.raises(HistoryLost, match="rolled back"):
        rows(lake, table)
    with lake.stack.catalog() as catalog:
        old = catalog.load_table(name)
        location = old.metadata_location
        catalog.drop_table(name)
    with pytest.raises(NotAHistory):
        rows(lake, table)
    # The feed does not make it anew in silence: it sets the table aside.
    assert f"public.{table}" in lake.drain().set_aside
    ((status, reason),) = lake.run(
        "SELECT s.status, s.reason FROM thermocline.synced_table s JOIN lakets._chronotable_registry r"
        f" ON r.id = s.chronotable_id WHERE r.table_name = '{table}'"
    )
    assert status == "SKIPPED"
    assert "is not in the lake any more" in reason
    with pytest.raises(NotAHistory):
        rows(lake, table)
    # Synced anew, there is a new one; it has what is resident, and never answers for the rest.
    lake.run(f"SELECT lakets.disable_sync('{table}')", f"SELECT lakets.enable_sync('{table}')")
    assert f"public.{table}" not in lake.drain().set_aside
    with pytest.raises(HistoryLost, match="is not the table that held"):
        rows(lake, table)
    with lake.stack.catalog() as catalog:
        catalog.rename_table(name, f"{name}_new")
        catalog.register_table(name, location)
        old = catalog.load_table(name)
        newest = max(old.snapshots(), key=lambda one: one.timestamp_ms)
        with old.manage_snapshots() as change:
            change.set_current_snapshot(newest.snapshot_id)
    assert rows(lake, table) == before


def test_a_column_that_came_after_rows_had_left_is_null_in_them(lake: Lake, table: str) -> None:
    let_go(lake, table, 0)
    before = rows(lake, table)
    lake.run(f"ALTER TABLE {table} ADD COLUMN later int, ADD COLUMN note text")
    assert rows(lake, table) == Counter({(*row, None, None): n for row, n in before.items()})
    lake.drain()
    lake.run(f"UPDATE {table} SET later = 7")
    found = rows(lake, table)
    assert sum(n for row, n in found.items() if row[-2] == 7) == lake.run(f"SELECT count(*) FROM {table}")[0][0]
    assert sum(found.values()) == sum(before.values())


def test_what_was_forced_out_of_a_synced_table_is_still_answered(lake: Lake, table: str) -> None:
    """No proof was asked for, but every change had streamed."""
    before = rows(lake, table)
    lake.run(f"SELECT lakets.add_retention_policy('{table}', '3 days')")
    assert lake.run(f"SELECT lakets.execute_retention('{table}', p_force => true)")[0][0] >= 1
    lake.drain()
    assert rows(lake, table) == before


def test_what_was_deleted_and_dropped_outright_does_not_come_back(lake: Lake, table: str) -> None:
    """While nothing streamed, the lake has seen neither."""
    before = rows(lake, table)
    day = BASE + timedelta(days=1)
    lake.run(
        f"SELECT lakets.disable_sync('{table}')",
        f"DELETE FROM {table} WHERE ts < '{day}'",
        f"SELECT lakets.drop_chunks('{table}', now() - '{day}'::timestamptz)",
        f"SELECT lakets.enable_sync('{table}')",
    )
    lake.drain()
    kept = Counter({row: n for row, n in before.items() if row[0] >= day.replace(tzinfo=None)})
    assert rows(lake, table) == kept


def test_a_range_that_is_resident_does_not_ask_the_lake(lake: Lake, table: str) -> None:
    let_go(lake, table, 0)
    day = timedelta(days=1)
    asked = f"SELECT count(*) FROM {table} WHERE ts >= '{BASE + day}' AND ts < '{BASE + 2 * day}'"
    with lake.stack.reader().across(table, BASE + day, BASE + 2 * day) as frame:
        assert "lb_across" not in plan(frame)
        assert frame.count() == lake.run(asked)[0][0]
    with lake.stack.reader().across(table, BASE, BASE + 2 * day) as frame:
        assert "lb_across" in plan(frame)


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def test_where_each_range_comes_from_is_told(lake: Lake, table: str) -> None:
    let_go(lake, table, 1)
    first, second = (BASE + timedelta(days=day) for day in (1, 2))
    reader = lake.stack.reader()
    told = [(one.tier, one.range_start, one.range_end) for one in reader.sources(f"SELECT count(*) FROM {table}")]
    assert ("lake", first, second) in told
    (before,) = [one for one in told if one[0] == "postgresql" and one[2] == first]
    (after,) = [one for one in told if one[0] == "postgresql" and one[1] == second]
    assert before[1] is not None
    assert after[2] is not None
    assert after[2] > datetime.now(UTC)
    assert {one[0] for one in told} == {"lake", "postgresql"}
    (changes,) = reader.sources(f"SELECT count(*) FROM {table}_history")
    assert (changes.tier, changes.range_start) == ("lake", None)


def test_each_row_once_while_a_range_leaves_and_comes_back(lake: Lake, table: str) -> None:
    before = rows(lake, table)
    with asking(lake, table) as seen:
        let_go(lake, table, 0)
        with lake.feeding():
            lines = lake.stack.rehydrator(on_spark=True, patience=60).bring_back(table, BASE, BASE + timedelta(days=1))
        assert [line.verdict for line in lines] == ["back"]
    assert seen
    assert all(one == before for one in seen)
    assert rows(lake, table) == before


def test_rows_that_a_later_check_refuses_are_told_in_its_words_from_a_task_too(lake: Lake, table: str) -> None:
    let_go(lake, table, 0)
    lake.run(f"ALTER TABLE {table} ADD CONSTRAINT later CHECK (ts <> '{BASE}')")
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=True).bring_back(table, BASE, BASE + timedelta(days=1))
    assert (line.verdict, line.reason) == ("stays", "failed")
    assert 'violates check constraint "later"' in line.message
