"""Shadow mode: what the document promises of it, from one mode to the other, RollUps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.lakes import NOON, Lake, chunk, fold
from harness.mirrors import DIRECT, SHADOW, Writers, require_same, shadow
from harness.transcripts import answer
from thermocline.feed.batches import carry
from thermocline.hot.positions import number

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

PUBLISHED = "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'thermocline' ORDER BY 1"
CHANGES = (
    f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1), ('{NOON[1]}', 101, NULL)",
    "UPDATE m SET v = v + 1 WHERE id < 5",
    "DELETE FROM m WHERE id IN (7, 30)",
)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


@pytest.fixture
def synced(lake: Lake) -> Lake:
    lake.run(SHADOW)
    lake.drain()
    return lake


def said(lake: Lake, statement: str) -> list[str]:
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        return answer(session, statement)


def changes(lake: Lake, count: int) -> list[tuple[Any, ...]]:
    """The last entries of the history: kind, id and v."""
    entries = lake.history("_shadow_m").slice(lake.history("_shadow_m").num_rows - count)
    return list(zip(*(entries[name].to_pylist() for name in ("_change_type", "id", "v")), strict=True))


# ---- what the document promises --------------------------------------------------------------


@pytest.mark.promise("001-02", "001-04", "001-05", "001-14")
def test_enable_sync_builds_a_mirror_and_its_triggers(lake: Lake) -> None:
    lake.run(SHADOW)
    assert lake.run(
        "SELECT c.relkind, c.relreplident, s.mode, s.shadow_oid = c.oid FROM pg_class c, thermocline.synced_table s"
        " WHERE c.oid = 'lakets_cdf._shadow_m'::regclass"
    ) == [("r", "f", "shadow", True)]
    triggers = (
        "SELECT tgname::text, tgenabled FROM pg_trigger WHERE tgrelid = '{}'::regclass AND tgname ~ 'lakets_sync'"
    )
    names = [f"trg_lakets_sync{event}" for event in ("", "_delete", "_truncate", "_update")]
    for relation in ("m", chunk(0), chunk(1), chunk(2)):
        assert sorted(lake.run(triggers.format(relation))) == [(name, "A") for name in names]
    of_each_row = "SELECT count(*) FROM pg_trigger WHERE tgname ~ 'lakets_sync' AND tgtype & 1 = 1"
    assert lake.run(of_each_row) == [(0,)], "they run for statements"
    assert lake.run(PUBLISHED) == [("_shadow_m",)]
    assert lake.run(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'lakets_cdf'::regnamespace AND relkind = 'p'"
    ) == [(0,)]
    assert lake.run("SELECT shadow_table_name, sync_enabled FROM lakets._chronotable_registry") == [("_shadow_m", True)]


@pytest.mark.promise("001-07", "001-08", "001-09", "001-12", "001-13")
def test_each_change_is_mirrored_and_the_history_tells_updates_as_updates(synced: Lake) -> None:
    require_same(synced)
    synced.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1), ('{NOON[1]}', 101, NULL)")
    assert shadow(synced) == synced.hot()
    synced.run("UPDATE m SET v = 2 WHERE id = 100")
    assert shadow(synced) == synced.hot()
    synced.run("DELETE FROM m WHERE id = 101")
    require_same(synced)
    assert changes(synced, 5) == [
        ("insert", 100, 1.0),
        ("insert", 101, None),
        ("update_preimage", 100, 1.0),
        ("update_postimage", 100, 2.0),
        ("delete", 101, None),
    ]
    assert synced.run("SELECT lake_table FROM thermocline.synced_table") == [("public.lb__shadow_m_history",)]


def called(lake: Lake, count: int) -> dict[str, Counter[str]]:
    """How often each function is called by a COPY, an INSERT, an UPDATE and a DELETE of so many rows."""
    inserted = f"SELECT '{NOON[0]}'::timestamptz, 1000 + g, g FROM generate_series(1, {count}) g"
    statements = {
        "COPY": "COPY m FROM STDIN",
        "INSERT": f"INSERT INTO m {inserted}",
        "UPDATE": "UPDATE m SET v = v + 1 WHERE id >= 1000",
        "DELETE": "DELETE FROM m WHERE id >= 1000",
    }
    found: dict[str, Counter[str]] = {}
    with psycopg.connect(lake.dsn) as session:
        session.execute("SET track_functions = 'all'")
        for kind, statement in statements.items():
            if kind == "COPY":
                with session.cursor().copy(statement.encode()) as copy:
                    for number in range(count):
                        copy.write_row((NOON[0], 1000 + number, 0.5))
            else:
                session.execute(statement.encode())
            told = session.execute("SELECT funcname, calls FROM pg_stat_xact_user_functions").fetchall()
            so_far: Counter[str] = Counter(dict(told))
            found[kind] = so_far - sum(found.values(), Counter())
    return found


def test_m6_sync_adds_calls_for_each_statement_and_none_for_each_row(lake: Lake) -> None:
    unsynced = [called(lake, count) for count in (1, 2000)]
    lake.run(SHADOW)
    lake.drain()
    synced = [called(lake, count) for count in (1, 2000)]
    of_one, of_many = (
        {kind: calls - plain[kind] for kind, calls in mirrored.items()}
        for mirrored, plain in zip(synced, unsynced, strict=True)
    )
    assert of_one == of_many
    assert [calls["_mirrored"] for calls in of_many.values()] == [1, 1, 1, 1]
    require_same(lake)


@pytest.mark.promise("001-13")
def test_a_transaction_of_several_statements_is_told_in_its_order(synced: Lake) -> None:
    synced.run(
        f"BEGIN; INSERT INTO m VALUES ('{NOON[0]}', 100, 1); SAVEPOINT a; UPDATE m SET v = 9 WHERE id = 100;"
        " ROLLBACK TO a; DELETE FROM m WHERE id = 3; UPDATE m SET v = 2 WHERE id IN (4, 100);"
        f" INSERT INTO m VALUES ('{NOON[1]}', 101, 1); COMMIT"
    )
    require_same(synced)
    assert [kind for kind, _, _ in changes(synced, 7)] == [
        "insert",
        "delete",
        *["update_preimage"] * 2,
        *["update_postimage"] * 2,
        "insert",
    ]


@pytest.mark.promise("001-06")
def test_writes_to_a_chunk_and_rows_that_move_are_mirrored(synced: Lake) -> None:
    synced.run(
        f"INSERT INTO {chunk(0)} VALUES ('{NOON[0]}', 100, 1)",
        f"UPDATE {chunk(0)} SET v = 5 WHERE id = 100",
        f"DELETE FROM {chunk(1)} WHERE id % 2 = 0",
        "UPDATE m SET ts = ts + interval '1 day' WHERE id IN (1, 2, 30)",
        f"MERGE INTO m USING (VALUES (5), (500)) n (id) ON m.id = n.id WHEN MATCHED THEN UPDATE SET v = 7"
        f" WHEN NOT MATCHED THEN INSERT VALUES ('{NOON[2]}', n.id, 0)",
        "DELETE FROM m WHERE false",
    )
    with psycopg.connect(synced.dsn) as session, session.cursor().copy("COPY m FROM STDIN") as rows:
        for day in range(3):
            rows.write_row((NOON[day], 900 + day, 0.5))
    assert shadow(synced) == synced.hot()
    require_same(synced)


@pytest.mark.promise("001-18", "001-19")
def test_disable_sync_drops_triggers_and_mirror_and_leaves_the_lake(synced: Lake) -> None:
    before = synced.history("_shadow_m")
    synced.run("SELECT lakets.disable_sync('m')")
    assert synced.run("SELECT to_regclass('lakets_cdf._shadow_m') IS NULL") == [(True,)]
    assert synced.run("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'trg_lakets_sync%'") == [(0,)]
    assert synced.run("SELECT count(*) FROM pg_publication WHERE pubname = 'thermocline'") == [(1,)]
    assert synced.run(PUBLISHED) == []
    for left in ("mirror", "mirror_doubt"):
        assert synced.run(f"SELECT count(*) FROM thermocline.{left}") == [(0,)]
    synced.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)", "DELETE FROM m WHERE id = 1")
    with synced.feed():
        pass
    assert synced.history("_shadow_m") == before
    synced.run(SHADOW)
    require_same(synced)


@pytest.mark.promise("001-20")
def test_progress_is_told_by_the_mirror(synced: Lake) -> None:
    ((written,),) = synced.run("SELECT pg_current_wal_flush_lsn()")
    synced.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)")
    synced.drain()
    told = f"SELECT table_oid::regclass::text, status, committed_lsn >= '{written}' FROM wal2delta.tables"
    assert synced.run(told) == [("lakets_cdf._shadow_m", "STREAMING", True)]
    asked = f"SELECT lakets._cdf_committed_lsn('_shadow_m') >= '{written}'"
    assert synced.run(asked) == [(True,)]


@pytest.mark.promise("001-10")
def test_a_table_with_a_key_and_one_without_are_mirrored_alike(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE k (ts timestamptz, id int, v text, PRIMARY KEY (ts, id))",
        f"INSERT INTO k SELECT '{NOON[0]}', g, 'a' FROM generate_series(1, 5) g",
        "SELECT lakets.create_chronotable('k', 'ts', '1 day')",
        "SELECT lakets.enable_sync('k', p_mode => 'shadow')",
    )
    lake.drain()
    lake.run(
        f"INSERT INTO k VALUES ('{NOON[0]}', 1, 'b'), ('{NOON[0]}', 9, 'b') ON CONFLICT (ts, id) DO UPDATE SET v = 'c'",
        "UPDATE k SET id = id + 100 WHERE id > 3",
    )
    lake.drain()
    assert shadow(lake, "_shadow_k") == lake.hot("k")
    assert lake.folded("_shadow_k") == lake.hot("k")


def test_the_mode_is_the_settings_unless_it_is_given(lake: Lake) -> None:
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        session.execute("SET lakets.sync_mode = 'shadow'")
        session.execute("SELECT lakets.enable_sync('m')")
        session.execute("SET lakets.sync_mode = 'direct'")
        assert answer(session, "SELECT lakets.enable_sync('m')")[0] == (
            "notice: public.m is synced already, left as it is"
        )
        session.execute("SELECT lakets.disable_sync('m')")
        session.execute("SET lakets.sync_mode = 'mirror'")
        refused = answer(session, "SELECT lakets.enable_sync('m')")[0]
        assert "there is no mode 'mirror' of sync, which the setting lakets.sync_mode names" in refused
        assert (
            "there is no mode 'sideways' of sync"
            in answer(session, "SELECT lakets.enable_sync('m', p_mode => 'sideways')")[0]
        )
    assert lake.run("SELECT status, mode FROM thermocline.synced_table") == [("TERMINATED", "shadow")]


# ---- from one mode to the other --------------------------------------------------------------


@pytest.mark.promise("001-03")
def test_a_table_is_switched_both_ways_beside_its_writers(lake: Lake) -> None:
    lake.run(DIRECT)
    lake.drain()
    held = lake.hot()
    ((before,),) = lake.run("SELECT pg_current_wal_lsn()")
    with Writers(lake), lake.feed() as feed:
        for switch in (SHADOW, DIRECT, SHADOW):
            for _ in range(3):
                feed.drain()
            lake.run(switch)
        for _ in range(3):
            feed.drain()
    for _ in range(3):
        with lake.feed() as feed:
            feed.drain()
    require_same(lake)
    old = [entry for entry in lake.history("m").to_pylist() if entry["_lsn"] <= number(before)]
    assert fold(old, "ts") == held, "the old history stays readable"
    lake.run(DIRECT)
    lake.drain()
    lake.assert_same()
    assert lake.run("SELECT to_regclass('lakets_cdf._shadow_m') IS NULL") == [(True,)]


@pytest.mark.promise("001-03")
@pytest.mark.parametrize(
    ("mode", "history", "other", "new_history"),
    [(DIRECT, "m", SHADOW, "_shadow_m"), (SHADOW, "_shadow_m", DIRECT, "m")],
    ids=["direct to shadow", "shadow to direct"],
)
def test_the_old_history_holds_what_the_table_held_at_the_switch(
    lake: Lake, mode: str, history: str, other: str, new_history: str
) -> None:
    lake.run(mode)
    lake.drain()
    first = lake.hot()
    ((copied,),) = lake.run("SELECT pg_current_wal_lsn()")
    lake.run(*CHANGES)
    lake.drain()
    held, entries = lake.hot(), lake.history(history)
    lake.run(other, f"INSERT INTO m VALUES ('{NOON[2]}', 102, 2)", "DELETE FROM m WHERE id = 100")
    lake.drain()
    assert lake.folded(new_history) == lake.hot() != held
    assert lake.history(history) == entries
    assert lake.folded(history) == held
    assert fold((one for one in entries.to_pylist() if one["_lsn"] <= number(copied)), "ts") == first


@pytest.mark.promise("001-03")
def test_a_table_whose_chunks_have_left_keeps_its_history_in_the_other_mode(synced: Lake) -> None:
    everything = synced.hot()
    synced.let_go(0)
    told = "notice: public.m is switched from shadow to direct mode; its history is {} from now on"
    assert said(synced, DIRECT)[0] == told.format("public.lb__shadow_m_history")
    synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 100, 1)")
    everything[(NOON[1], 100, 1.0)] += 1
    synced.drain()
    assert synced.folded("_shadow_m") == everything
    synced.let_go(1)
    synced.run(SHADOW)
    synced.drain()
    assert synced.folded("_shadow_m") == everything
    assert shadow(synced) == synced.hot()


def test_what_left_in_one_mode_is_found_in_the_other(stack: Stack, spark: SparkSession, lake_dsn: str) -> None:
    assert spark is not None
    lake = Lake(lake_dsn, stack).with_days()
    try:
        lake.run(SHADOW)
        lake.drain()
        lake.let_go(0)
        lake.run(DIRECT)
        lake.drain()
        lake.let_go(1)
        _, found = lake.stack.reader().answer("SELECT count(*), count(DISTINCT id), sum(id) FROM m", 10)
        assert [tuple(row) for row in found] == [(72, 72, 71 * 36)]
    finally:
        lake.run("SELECT lakets.drop_chronotable('m')")


def test_a_batch_that_was_read_before_a_switch_is_not_recorded_after_it(lake: Lake) -> None:
    lake.run(DIRECT)
    lake.drain()
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)")
    with lake.feed() as feed:
        feed.refresh()
        stream = feed.stream
        assert stream is not None
        slot = feed.ledger.slot_state(stream.slot)
        assert slot is not None
        batch = carry(*feed.reading(stream, slot.flushed))
        lake.run(SHADOW)
        feed.tend()
        feed.settle(batch)
        assert lake.run("SELECT committed_lsn FROM thermocline.synced_table") == [(None,)]
    assert 100 not in lake.history("m")["id"].to_pylist()
    require_same(lake)


# ---- RollUps ---------------------------------------------------------------------------------


@pytest.mark.promise("001-11")
def test_a_rollup_has_a_mirror_of_its_own(lake: Lake) -> None:
    question = "SELECT lakets.time_bucket(''2 hours'', ts) AS bucket, id % 3 AS k, sum(v) AS total FROM m GROUP BY 1, 2"
    lake.run(
        f"SELECT lakets.create_rollup('hours', '{question}', '2 hours')",
        "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
        "SELECT lakets.refresh_rollup('hours')",
        "SELECT lakets.enable_sync('hours', p_mode => 'shadow')",
    )
    lake.drain()
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)",
        "DELETE FROM m WHERE id = 30",
        "SELECT lakets.refresh_rollup('hours')",
    )
    lake.drain()
    assert lake.run("SELECT shadow_table_name FROM lakets._rollup_registry") == [("_shadow_rollup_hours",)]
    assert shadow(lake, "_shadow_rollup_hours") == lake.hot("_rollup_hours")
    assert lake.folded("_shadow_rollup_hours", "bucket") == lake.hot("_rollup_hours")
    lake.run("TRUNCATE _rollup_hours")
    lake.drain()
    assert lake.folded("_shadow_rollup_hours", "bucket") == shadow(lake, "_shadow_rollup_hours") == Counter()
    lake.run("SELECT lakets.drop_rollup('hours')")
    assert lake.run("SELECT to_regclass('lakets_cdf._shadow_rollup_hours') IS NULL") == [(True,)]


@pytest.mark.parametrize("name", ["hours", "public._rollup_hours"])
def test_a_rollup_whose_mirror_is_dropped_is_set_aside_and_comes_back(lake: Lake, name: str) -> None:
    lake.run(
        "SELECT lakets.create_rollup('hours', $$SELECT lakets.time_bucket('1 hour', ts) AS bucket, count(*) AS n"
        " FROM m GROUP BY 1$$, '1 hour')",
        "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
        "SELECT lakets.enable_sync('hours', p_mode => 'shadow')",
        SHADOW,
    )
    lake.drain()
    lake.run(
        "DROP TABLE lakets_cdf._shadow_rollup_hours",
        f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)",
        "SELECT lakets.refresh_rollup('hours')",
    )
    assert lake.drain().set_aside == ("public._rollup_hours",)
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert "feed resync TABLE --yes" in reason
    require_same(lake)
    lake.stack.resync_table(name)
    lake.drain()
    assert lake.run("SELECT DISTINCT status FROM thermocline.synced_table") == [("STREAMING",)]
    assert shadow(lake, "_shadow_rollup_hours") == lake.hot("_rollup_hours")
    assert lake.folded("_shadow_rollup_hours", "bucket") == lake.hot("_rollup_hours")
    require_same(lake)


@pytest.mark.parametrize(
    ("first", "second", "other_way"),
    [
        ("rollup_hourly", "hourly", "SELECT lakets.enable_sync('hourly', p_mode => 'direct')"),
        (
            "hourly",
            "rollup_hourly",
            "ALTER TABLE rollup_hourly RENAME TO renamed; SELECT lakets.enable_sync('renamed', p_mode => 'shadow')",
        ),
    ],
)
def test_a_table_and_a_rollup_whose_mirrors_would_have_one_name_are_refused(
    lake: Lake, first: str, second: str, other_way: str
) -> None:
    enable = "SELECT lakets.enable_sync('{}', p_mode => 'shadow')"
    named = {"rollup_hourly": "public.rollup_hourly", "hourly": "public._rollup_hourly"}
    lake.with_days(table="rollup_hourly").run(
        "SELECT lakets.create_rollup('hourly', $$SELECT lakets.time_bucket('1 hour', ts) AS bucket, count(*) AS n"
        " FROM m GROUP BY 1$$, '1 hour')",
        enable.format(first),
    )
    lake.drain()
    looks = (
        "SELECT * FROM thermocline.synced_table",
        PUBLISHED,
        "SELECT tgrelid, tgname FROM pg_trigger ORDER BY oid",
        "SELECT oid, relname FROM pg_class WHERE relnamespace = 'lakets_cdf'::regnamespace ORDER BY oid",
        "SELECT sync_enabled, shadow_table_name FROM lakets._chronotable_registry ORDER BY id",
        "SELECT sync_enabled, shadow_table_name FROM lakets._rollup_registry",
    )
    before = [lake.run(look) for look in looks]
    assert before[1] == [("_shadow_rollup_hourly",)]
    with pytest.raises(psycopg.errors.RaiseException) as refused:
        lake.run(enable.format(second))
    assert refused.value.diag.message_primary == (
        f"cannot sync {named[second]}: public.lb__shadow_rollup_hourly_history in the lake is the history of another"
        f" table, {named[first]}"
    )
    assert refused.value.diag.message_hint == (
        "Nothing was changed. Rename this table, or sync it in the other mode: its history has another name then."
    )
    assert [lake.run(look) for look in looks] == before
    lake.run(*other_way.split(";"))
    lake.drain()
    assert lake.run("SELECT status FROM thermocline.synced_table") == [("STREAMING",)] * 2
    source, column = ("rollup_hourly", "ts") if first == "rollup_hourly" else ("_rollup_hourly", "bucket")
    assert lake.folded("_shadow_rollup_hourly", column) == lake.hot(source)
    if second == "hourly":
        assert lake.folded("_rollup_hourly", "bucket") == lake.hot("_rollup_hourly")
    else:
        assert lake.folded("_shadow_renamed") == lake.hot("renamed")
