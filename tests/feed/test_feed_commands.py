"""The commands of the feed as a person runs them: what they print, what they refuse, and with which code they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake, chunk
from harness.processes import Command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


@pytest.fixture
def command(lake: Lake) -> Command:
    return Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})


def chunks(lake: Lake) -> int:
    ((count,),) = lake.run("SELECT count(*) FROM lakets.show_chunks('m')")
    return int(count)


def test_feed_status_in_words(lake: Lake, command: Command) -> None:
    ((slot,),) = lake.run("SELECT slot_name::text FROM thermocline.stream")
    shown = command.run("feed", "status")
    assert shown.code == 0, shown.err
    for told in (f"{slot}, ready", "public.m", "STREAMING", "60 s", f"{chunks(lake)} of {chunks(lake)}"):
        assert told in shown.out
    assert "Alarm: tables are synced, and no feed is running" in shown.out


def test_feed_status_for_programs(lake: Lake, command: Command) -> None:
    lake.run("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'for a test'")
    found = command.run("feed", "status", "--json").json
    ((slot, position),) = lake.run("SELECT slot_name::text, position::text FROM thermocline.stream")
    assert (found["running"], found["slot"], found["slot_state"]) == (False, slot, "ready")
    assert found["position"] == position
    assert found["retained_bytes"] > 0
    (table,) = found["tables"]
    assert (table["table"], table["status"], table["reason"]) == ("public.m", "SKIPPED", "for a test")
    assert (table["lake_table"], table["chunks"]) == ("public.lb_m_history", chunks(lake))
    assert table["entries"] == 72
    assert {one["alarm"] for one in found["alarms"]} == {"feed_stopped", "table_set_aside"}


def test_feed_resync_of_a_chunk_and_of_a_table(lake: Lake, command: Command) -> None:
    for arguments, count in (((chunk(1),), 1), ((), chunks(lake))):
        chosen = ("--chunk", *arguments) if arguments else ()
        ended = command.run("feed", "resync", "public.m", *chosen, "--yes", "--json")
        assert ended.code == 0, ended.err
        assert ended.json == {"table": "public.m", "chunks": count}
        assert lake.run("SELECT count(*) FROM thermocline.chunk_copy") == [(chunks(lake) - count,)]
        lake.drain()
    lake.assert_same()


def test_feed_resync_of_everything(lake: Lake, command: Command) -> None:
    lake.run("SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream")
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
    ended = command.run("feed", "resync", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert ended.json == {"tables": 1}
    lake.drain()
    lake.assert_same()


@pytest.mark.parametrize(
    ("arguments", "told", "next_step"),
    [
        (["public.m"], "copies every resident chunk of public.m again", "--yes"),
        (["public.m", "--chunk", chunk(1)], f"copies {chunk(1)} of public.m again", "--yes"),
        ([], "every resident chunk of every synced table", "--yes"),
        (["--chunk", chunk(1), "--yes"], "Of which table is the chunk?", "resync TABLE --chunk CHUNK --yes"),
    ],
)
def test_feed_resync_does_nothing_unless_it_is_meant(
    lake: Lake, command: Command, arguments: list[str], told: str, next_step: str
) -> None:
    copies = "SELECT chunk_oid, position FROM thermocline.chunk_copy ORDER BY chunk_oid"
    before = lake.run(copies)
    ended = command.run("feed", "resync", *arguments, "--json")
    assert (ended.code, ended.json["error"]["code"]) == (3, "refused")
    assert told in ended.json["error"]["message"]
    assert next_step in ended.json["error"]["next_step"]
    assert lake.run(copies) == before


@pytest.mark.slow
def test_sql_as_of_a_position(lake: Lake, command: Command) -> None:
    ((position,),) = lake.run("SELECT pg_logical_emit_message(true, 'test', 'now')::text")
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
    lake.drain()
    question = "SELECT count(*) AS rows, max(id) AS newest FROM m"
    then = command.run("sql", question, "--as-of", position, "--json")
    assert then.code == 0, then.err
    assert then.json == {"rows": [{"rows": 72, "newest": 71}], "more": False}
    some = command.run("sql", "SELECT id AS Id FROM m ORDER BY id", "--limit", "2", "--json")
    assert some.json == {"rows": [{"Id": 0}, {"Id": 1}], "more": True}
