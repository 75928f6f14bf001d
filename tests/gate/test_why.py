"""What a person is told of one chunk: what stands between it and its removal, since when, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness.lakes import BASE, NOON, Lake, chunk
from harness.processes import Command
from harness.sessions import Session
from thermocline.errors import Refused
from thermocline.gate.why import UnknownChunk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


def reasons(lake: Lake, day: int = 0) -> list[str]:
    return [one.reason for one in lake.stack.why(chunk(day)).obstacles]


def test_from_its_making_to_its_going(lake: Lake) -> None:
    told = lake.stack.why(chunk(0))
    assert told.summary == "It stays: its table has no retention policy, so nothing is ever to drop it."
    assert (told.table, told.state, told.range_start, told.obstacles) == ("public.m", "active", BASE, ())

    lake.run("SELECT lakets.add_retention_policy('m', '30 days')")
    assert "its retention policy has not come to it yet" in lake.stack.why(chunk(0)).summary
    lake.run("SELECT lakets.remove_retention_policy('m')", "SELECT lakets.add_retention_policy('m', '1 hour')")
    told = lake.stack.why(chunk(0))
    assert told.summary.endswith(
        "goes with the next run of retention: its table is not synced, so that it needs no proof."
    )

    lake.synced()
    assert reasons(lake) == ["feed_not_streaming", "not_covered", "no_receipt"]
    assert "and stays: the feed of its table is SNAPSHOTTING" in lake.stack.why(chunk(0)).summary
    lake.drain()
    told = lake.stack.why(chunk(0))
    assert [one.reason for one in told.obstacles] == ["no_receipt"]
    assert told.obstacles[0].since is not None
    assert "compares it with the lake and drops it on proof" in told.summary

    with lake.feeding():
        lake.stack.lifecycle("m", on_spark=False).verify()
        told = lake.stack.why(chunk(0))
        assert (told.receipt is not None, told.obstacles) == (True, ())
        assert told.summary.endswith("goes with the next run of retention: it is proven in the lake.")
        lake.run(f"UPDATE m SET v = 0 WHERE ts = '{BASE}'")
        assert reasons(lake)[0] == "changed_since_receipt"
    with Session(lake.dsn) as writer:  # and no feed, which uses it for moments
        writer.run("INSERT INTO m VALUES (%s, 1, 1)", [NOON[0]])
        told = lake.stack.why(chunk(0))
        assert [one.pid for one in told.held_by] == [writer.pid]
        assert "sessions use it: 1" in told.summary
    with lake.feeding():
        lake.stack.lifecycle("m", on_spark=False).retention()
    told = lake.stack.why(chunk(0))
    assert (told.state, told.obstacles) == ("dropped", ())
    assert "It has left PostgreSQL on" in told.summary
    assert "on receipt" in told.summary
    assert (told.verdict, told.reason) == ("gone", "dropped")
    assert "thermocline rehydrate" in told.next_step


def test_receipts_say_whether_they_count(lake: Lake) -> None:
    assert lake.stack.receipts() == []
    lake.synced().drain()
    with lake.feeding():
        gate = lake.stack.lifecycle("m", on_spark=False)
        gate.verify(chunk(0))
        gate.verify(chunk(0))
        gate.verify(chunk(1))
    lake.let_go(1)
    found = [(one.chunk.removeprefix("public."), one.rows, one.standing) for one in reversed(lake.stack.receipts("m"))]
    assert found == [
        (chunk(0), 24, "there is a newer one"),
        (chunk(0), 24, "it is the newest"),
        (chunk(1), 24, "its chunk is dropped"),
        (chunk(1), 24, "its chunk was dropped on it"),
    ]
    assert [one.chunk for one in lake.stack.receipts(chunk=chunk(0), most=1)] == [f"public.{chunk(0)}"]


def test_what_is_not_there_is_said_to_be_unknown(lake: Lake) -> None:
    with pytest.raises(UnknownChunk, match="There is no chunk nothing"):
        lake.stack.why("nothing")
    with pytest.raises(Refused, match="nothing"):
        lake.stack.receipts("nothing")
    with pytest.raises(UnknownChunk, match="There is no chunk nothing"):
        lake.stack.receipts("m", "nothing")
    assert lake.stack.receipts("m", chunk(0)) == []
    with pytest.raises(UnknownChunk, match=r"public\.m is a table, not a chunk") as told:
        lake.stack.why("m")
    assert "thermocline chunks m" in told.value.next_step


def test_chunks_of_one_name_are_told_apart_by_their_schema(lake: Lake) -> None:
    lake.run(
        "CREATE SCHEMA plant",
        "CREATE TABLE plant.m (ts timestamptz NOT NULL)",
        f"INSERT INTO plant.m VALUES ('{BASE}')",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day', 'plant')",
    )
    with pytest.raises(UnknownChunk, match=r"several chunks .* of plant\.m, public\.m"):
        lake.stack.why(chunk(0))
    assert lake.stack.why(f"plant.{chunk(0)}").table == "plant.m"


def test_the_commands_tell_people_and_programs(lake: Lake) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    lake.run("SELECT lakets.add_tiered_retention_policy('m', '1 hour', '2 hours')")
    told = command.run("why", chunk(0), "--json").json
    assert (told["chunk"], told["obstacles"][0]["reason"]) == (f"public.{chunk(0)}", "not_synced")
    said = command.run("why", chunk(0)).out
    assert "its table is not synced" in said
    assert "lakets.enable_sync" in said
    unknown = command.run("why", "nothing")
    assert (unknown.code, "thermocline chunks" in unknown.err) == (3, True)
    assert command.run("receipts", "--json").json == {"receipts": []}
    assert f"no receipt of {chunk(0)}" in command.run("receipts", "--chunk", chunk(0)).out


def test_dry_runs_have_the_columns_that_the_runs_have(lake: Lake) -> None:
    lake.synced().drain()
    lake.run("SELECT lakets.add_tiered_retention_policy('m', '1 hour', '2 hours')")
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    titles = "Chunk  Range, UTC  Rows  Bytes  State  Verdict  Reason  Since, UTC  Why, and what to do"
    for verb in ("tier", "retention"):
        told = command.run(verb, "m", "--dry-run").out.splitlines()
        (heading,) = (line for line in told if line.startswith("Chunk "))
        assert re.split(r"\s{2,}", heading.strip()) == titles.split("  ")
