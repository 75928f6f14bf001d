"""A range that came back is a chunk like any other: others are told of it, its changes flow, and its time may end."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from harness.both_tiers import Aggregate
from harness.lakes import BASE, Lake, age, chunk
from thermocline.gate.rehydrate import NothingToBring

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)
MESSAGES = (
    "SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, 'proto_version', '1',"
    " 'publication_names', 'thermocline', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')"
)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days("id int, v int, k text", "g, g, 'k' || g % 3")


def back(lake: Lake, until: timedelta | None = None) -> None:
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY, until)
    assert line.verdict == "back", line


def test_the_stream_is_told_that_it_is_back_where_it_was_attached(lake: Lake) -> None:
    lake.synced().drain()
    lake.let_go(0)
    slot = f"told_{lake.run('SELECT current_database()')[0][0]}"
    lake.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    try:
        back(lake)
        found = [
            bytes(data).split(b"thermocline\0", 1)[1][4:].splitlines()[0]
            for (data,) in lake.run(MESSAGES.format(slot=slot))
        ]
    finally:
        lake.run(f"SELECT pg_drop_replication_slot('{slot}')")
    (told,) = [one for one in map(json.loads, found) if one["event"] == "chunk_rehydrated"]
    ((number,),) = lake.run("SELECT lakets._chronotable_id('m', 'public')")
    assert (told["chronotable"], told["chunk"]) == (number, lake.chunk_oid(0))
    asked = f"SELECT '{told['range_start']}'::timestamptz, '{told['range_end']}'::timestamptz"
    assert lake.run(asked) == [(BASE, BASE + DAY)]


def test_an_update_of_what_came_back_reaches_a_daily_rollup(lake: Lake) -> None:
    lake.synced().drain()
    daily = Aggregate("daily", "m", 1)
    daily.make(lake)
    lake.run("SELECT lakets.refresh_rollup('daily')")
    lake.let_go(0)
    back(lake)
    lake.run("UPDATE m SET v = v + 1000 WHERE id < 24", "DELETE FROM m WHERE id = 7")
    lake.run("SELECT lakets.refresh_rollup('daily')")
    after = lake.hot()
    assert daily.require(lake, after, all_of_it=True) == 0
    lake.drain()
    lake.let_go(0)
    lake.run("SELECT lakets.refresh_rollup('daily')")
    assert daily.require(lake, after, all_of_it=True) == 0, "frozen as it was corrected"
    assert lake.content() == after


def test_what_was_to_stay_for_a_while_goes_when_that_is_over(lake: Lake) -> None:
    """Not a moment before it, whoever runs; then by the policy that has come to it."""
    lake.synced().drain()
    lake.let_go(0)
    back(lake, timedelta(hours=1))
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(0)}')")
    gate = lake.stack.lifecycle("m", on_spark=False)

    def verdict() -> tuple[str, str]:
        (line,) = (one for one in gate.retention() if one.chunk == f"public.{chunk(0)}")
        return line.verdict, line.reason

    with lake.feeding():
        assert verdict() == ("stays", "kept")
        lake.run("UPDATE lakets._chunk_metadata SET kept_until = now() WHERE kept_until IS NOT NULL")
        assert verdict() == ("dropped", "proven")
    assert lake.run("SELECT count(*) FROM m") == [(48,)]


def test_in_shadow_mode_it_is_refused_by_name_and_comes_back_once_the_table_is_in_direct_mode(lake: Lake) -> None:
    before = lake.hot()
    lake.run("SELECT lakets.enable_sync('m', p_mode => 'shadow')")
    lake.drain()
    lake.let_go(0)
    with pytest.raises(NothingToBring, match="synced in shadow mode") as error:
        lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY)
    assert error.value.next_step == "SELECT lakets.enable_sync('m', 'public', p_mode => 'direct') first."
    (line,) = lake.stack.rehydrator(on_spark=False).plan("m", BASE, BASE + DAY)
    assert (line.verdict, line.reason) == ("stays", "shadow_mode")
    lake.run("SELECT lakets.enable_sync('m', 'public', p_mode => 'direct')")
    lake.drain()
    back(lake)
    assert lake.hot() == before
