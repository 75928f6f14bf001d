"""The slot: whoever moves or removes it is noticed before anything is passed by, and it goes with the last table."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from harness.crash_servers import CrashServer
from harness.lakes import NOON, Lake
from harness.processes import Command
from harness.trials import on_the_way
from thermocline.feed import feed as feeds
from thermocline.feed import reading
from thermocline.feed.refusals import SlotLost
from thermocline.hot import install
from thermocline.service.parts import FeedPart

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import SparkSession

    from thermocline.feed.records import Progress
    from thermocline.stack import Stack

MOVE = "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM thermocline.stream"
MOVE_TO_RECORD = "SELECT pg_replication_slot_advance(slot_name, position) FROM thermocline.stream"
WRITE_MORE = f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1)"
DROP = "SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


def write(lake: Lake, number: int = 1000) -> None:
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', {number}, 1)")


def require_resync(lake: Lake) -> None:
    """Nothing says that the lake has what it lacks, and there is a way out."""
    assert lake.run("SELECT committed_lsn <= position FROM thermocline.synced_table, thermocline.stream") == [(True,)]
    assert lake.stack.resync_feed() == 1
    lake.drain()
    lake.assert_same()


def test_g10_a_slot_that_somebody_moves_while_a_feed_runs_is_noticed(lake: Lake) -> None:
    with lake.feed() as feed:
        write(lake)
        lake.run(MOVE)
        with pytest.raises(SlotLost, match="somebody else has moved it"):
            feed.step()
        with pytest.raises(SlotLost, match="somebody else has moved it"):
            feed.tend()
    require_resync(lake)


def test_g10_also_when_more_is_written_after_it(lake: Lake) -> None:
    with lake.feed() as feed:
        write(lake)
        lake.run(MOVE)
        write(lake, 1001)
        ((before,),) = lake.run("SELECT position FROM thermocline.stream")
        with pytest.raises(SlotLost, match="somebody else has moved it"):
            feed.drain()
    assert lake.run("SELECT position FROM thermocline.stream") == [(before,)]
    require_resync(lake)


@pytest.mark.parametrize(("module", "point"), [(feeds, "batch.planned"), (reading, "read.before_peek")])
def test_g10_a_slot_that_is_moved_right_before_it_is_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, module: ModuleType, point: str
) -> None:
    """The look before the batch was too early: the one before its commit tells."""
    with lake.feed() as feed:
        write(lake)
        on_the_way(monkeypatch, module, point, lambda: lake.run(MOVE, WRITE_MORE))
        with pytest.raises(SlotLost, match="somebody else has moved it"):
            feed.drain()
    monkeypatch.undo()
    require_resync(lake)


def test_a_slot_that_is_moved_over_what_was_read_costs_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with lake.feed() as feed:
        write(lake)
        on_the_way(monkeypatch, feeds, "batch.recorded", lambda: lake.run(MOVE_TO_RECORD))
        feed.drain()
        write(lake, 1001)
        feed.drain()
    lake.assert_same()


@pytest.mark.parametrize("how", ["tend", "step", "drain"])
def test_g10_a_slot_that_somebody_drops_while_a_feed_runs_is_noticed(lake: Lake, how: str) -> None:
    with lake.feed() as feed:
        write(lake)
        lake.run(DROP)
        with pytest.raises(SlotLost, match="is gone"):
            getattr(feed, how)()
    require_resync(lake)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "told"), [(DROP, "is gone"), (MOVE, "somebody else has moved it")])
def test_g10_on_spark_a_slot_that_is_lost_ends_the_feed(
    stack: Stack, spark: SparkSession, lake_dsn: str, change: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    lake = Lake(lake_dsn, stack).with_days(table="slot_m")
    try:
        lake.run("SELECT lakets.enable_sync('slot_m')")
        with lake.stack.feed() as service:
            assert service.drain().caught_up
            tend = service._feed.tend

            def lost_after_it() -> Progress:
                progress = tend()
                lake.run(f"INSERT INTO slot_m VALUES ('{NOON[1]}', 1000, 1)", change)
                return progress

            monkeypatch.setattr(service._feed, "tend", lost_after_it)
            with pytest.raises(SlotLost, match=told):
                service.drain()
        assert lake.stack.resync_feed() >= 1
        with lake.stack.feed() as service:
            assert service.drain().caught_up
        lake.assert_same("slot_m")
    finally:
        lake.run("SELECT lakets.drop_chronotable('slot_m')")


def test_a_standby_keeps_the_slot_where_postgres_can(lake: Lake, major: int) -> None:
    if major >= 17:
        assert lake.run("SELECT failover FROM pg_replication_slots WHERE database = current_database()") == [(True,)]
    assert slots(lake) == 1


# ---- its end ---------------------------------------------------------------------------------


def slots(lake: Lake) -> int:
    ((count,),) = lake.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    return int(count)


@pytest.mark.promise("001-18")
@pytest.mark.parametrize(
    "leave", ["SELECT lakets.disable_sync('m')", "SELECT lakets.drop_chronotable('m')", "DROP TABLE m"]
)
def test_the_slot_goes_with_the_last_table_also_while_a_feed_runs(lake: Lake, leave: str) -> None:
    with lake.feed() as feed:
        feed.tend()
        assert slots(lake) == 1
        lake.run(leave)
        feed.tend()
        assert slots(lake) == 0
        assert lake.run("SELECT count(*) FROM thermocline.stream") == [(0,)]
        assert feed.step() is None
        assert feed.drain().caught_up
        if leave != "SELECT lakets.disable_sync('m')":
            lake.run("DROP TABLE IF EXISTS m")
            lake.with_days(table="n").run("SELECT lakets.enable_sync('n')")
        else:
            lake.synced()
        for _ in range(3):
            feed.drain()
        assert slots(lake) == 1
    lake.assert_same("m" if "disable" in leave else "n")


def test_a_table_that_is_set_aside_keeps_the_slot(lake: Lake) -> None:
    lake.run("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'for a test'")
    with lake.feed() as feed:
        feed.tend()
        assert slots(lake) == 1
        assert feed.tend().set_aside == ("public.m",)


@pytest.mark.parametrize("forgotten", [False, True])
def test_feed_once_removes_a_slot_that_nobody_needs(lake: Lake, dsn: str, forgotten: bool) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    lake.run("SELECT lakets.drop_chronotable('m')")
    if forgotten:  # as a crash leaves it
        lake.run("DELETE FROM thermocline.stream")
        assert command.run("feed", "status", "--json").json["slot_state"] == "left over"
    assert slots(lake) == 1
    ended = command.run("feed", "--once", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["slot"].startswith("thermocline_")
    assert slots(lake) == 0
    again = command.run("feed", "--once", "--json")
    assert (again.code, again.json["error"]["code"]) == (3, "refused")


def test_the_service_removes_a_slot_that_nobody_needs(lake: Lake) -> None:
    lake.run("SELECT lakets.drop_chronotable('m')")
    stop, told = threading.Event(), list[str]()
    part = threading.Thread(target=FeedPart(lake.stack).run, args=(stop, lambda _state, why: told.append(why)))
    part.start()
    try:
        deadline = time.monotonic() + 60
        while slots(lake) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        stop.set()
        part.join(60)
    assert slots(lake) == 0
    assert set(told) == {"no table is synced"}


@pytest.mark.slow
def test_m11_a_slot_that_the_server_gives_up_is_told_and_begun_anew(tmp_path: Path, major: int) -> None:
    server = CrashServer(tmp_path / "server", major)
    server.start()
    try:
        install.install(server.server().dsn)
        lake = Lake.of(server.server().dsn, tmp_path / "home").with_days().synced()
        lake.drain()
        lake.run("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'", "SELECT pg_reload_conf()")
        while lake.run("SHOW max_slot_wal_keep_size") != [("64MB",)]:
            time.sleep(0.01)
        ((left,),) = lake.run("SELECT safe_bytes FROM lakets.feed_slot()")
        assert 64 << 20 < left <= 80 << 20, "the segment of the slot, and four more"
        ((later,),) = lake.run(
            "SELECT pg_logical_emit_message(true, 'test', repeat('x', 2000000))",
            "SELECT safe_bytes FROM lakets.feed_slot()",
        )
        assert 2_000_000 <= left - later < 3_000_000
        lake.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        write(lake)
        with lake.feed() as feed:
            for _ in range(4):
                lake.run("SELECT pg_logical_emit_message(false, 'test', 'more')", "SELECT pg_switch_wal()")
            lake.run("CHECKPOINT")
            assert lake.run("SELECT wal_status, kept_bytes, pinned_bytes, safe_bytes FROM lakets.feed_slot()") == [
                ("lost", None, None, None)
            ]
            with pytest.raises(SlotLost, match="was invalidated"):
                feed.step()
        found = lake.stack.feed_status()
        assert found.slot_state == "lost"
        assert {one.alarm: one.next_step for one in found.alarms}["slot_lost"].startswith("`thermocline feed resync")
        with pytest.raises(SlotLost, match="was invalidated"), lake.feed():
            pass
        assert lake.stack.resync_feed() == 1
        lake.drain()
        lake.assert_same()
    finally:
        server.stop()
