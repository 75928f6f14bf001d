"""The gate's commands from end to end: what they tell programs, how they exit, what PostgreSQL holds then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from harness.lakes import BASE, Lake, Row, chunk
from harness.processes import Command

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)
FIRST_DAY = ("--from", f"{BASE:%Y-%m-%d}", "--to", f"{BASE + DAY:%Y-%m-%d}")


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    synced = Lake.of(dsn, tmp_path / "home").with_days().synced()
    synced.drain()
    return synced


@pytest.fixture
def command(lake: Lake) -> Command:
    return Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})


@pytest.mark.slow
def test_a_falsified_chunk_is_repaired_and_its_receipt_is_listed(lake: Lake, command: Command) -> None:
    lake.falsify("delete", "id", 5)
    lake.falsify("insert", "id", 7)
    assert lake.folded() != lake.hot()
    assert lake.run("SELECT count(*) FROM thermocline.receipt") == [(0,)]
    with lake.feeding():
        repaired = command.run("verify", "m", "--repair", "--in-process", "--json")
    assert repaired.code == 0, repaired.err
    told = [one for one in repaired.json["chunks"] if one["rows"]]
    assert [(one["chunk"], one["rows"], one["verdict"], one["reason"], one["differences"]) for one in told] == [
        (f"public.{chunk(day)}", 24, "proven", "equal", []) for day in range(3)
    ]
    lake.assert_same()
    assert lake.run("SELECT action, object FROM thermocline.audit") == [("resync", f"public.{chunk(0)}")]

    kept = lake.run(
        "SELECT id, chunk_name, row_count, position::text, lake_table, lake_snapshot FROM thermocline.receipt"
        " WHERE row_count > 0 ORDER BY id DESC"
    )
    assert sorted(row[1] for row in kept) == [f"public.{chunk(day)}" for day in range(3)]
    listed = command.run("receipts", "m", "--json")
    assert listed.code == 0, listed.err
    names = ("id", "chunk", "rows", "position", "lake_table", "lake_snapshot")
    assert [tuple(one[name] for name in names) for one in listed.json["receipts"] if one["rows"]] == kept
    assert {one["standing"] for one in listed.json["receipts"]} == {"it is the newest"}
    first = next(one for one in listed.json["receipts"] if one["chunk"] == f"public.{chunk(0)}")
    assert [datetime.fromisoformat(first[name]) for name in ("range_start", "range_end")] == [BASE, BASE + DAY]
    assert first["made_by"] == lake.run("SELECT current_user::text")[0][0]
    said = command.run("receipts", "--chunk", chunk(0), COLUMNS="500")
    assert (said.code, f"public.{chunk(0)}" in said.out, chunk(1) in said.out) == (0, True, False), said.out


def _state(lake: Lake) -> list[list[Row]]:
    """All that a rehydrate changes."""
    return [
        lake.run(f"SELECT t::text FROM {table} t ORDER BY 1")
        for table in ("m", "lakets._chunk_metadata", "thermocline.rehydration", "thermocline.trap", "thermocline.audit")
    ] + [lake.run("SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') ORDER BY 1")]


@pytest.mark.slow
def test_a_range_is_planned_brought_back_for_a_week_and_released(lake: Lake, command: Command) -> None:
    whole = lake.hot()
    lake.let_go(0)
    kept = f"SELECT kept_until - now() FROM lakets._chunk_metadata WHERE chunk_name = 'public.{chunk(0)}'"
    before = _state(lake)
    planned = command.run("rehydrate", "m", *FIRST_DAY, "--until", "7d", "--dry-run", "--json")
    assert planned.code == 0, planned.err
    (line,) = planned.json["ranges"]
    assert [datetime.fromisoformat(line[name]) for name in ("range_start", "range_end")] == [BASE, BASE + DAY]
    assert (line["rows"], line["verdict"], line["reason"]) == (24, "bring back", "dropped")
    assert _state(lake) == before

    with lake.feeding():
        brought = command.run("rehydrate", "m", *FIRST_DAY, "--until", "7d", "--in-process", "--json")
    assert brought.code == 0, brought.err
    (line,) = brought.json["ranges"]
    assert (line["rows"], line["verdict"], line["reason"]) == (24, "back", "equal")
    assert lake.hot() == whole
    ((left,),) = lake.run(kept)
    assert 7 * DAY - timedelta(minutes=10) < left <= 7 * DAY
    assert lake.run("SELECT action, row_count FROM thermocline.audit ORDER BY id DESC LIMIT 1") == [("rehydrate", 24)]

    released = command.run("release", "m", *FIRST_DAY, "--json")
    assert (released.code, released.json) == (0, {"released": 1}), released.err
    ((left,),) = lake.run(kept)
    assert -timedelta(minutes=10) < left <= timedelta()
    assert lake.hot() == whole, "whoever drops it proves it first"
    again = command.run("release", "m", *FIRST_DAY)
    assert (again.code, "Nothing of that range is kept." in again.out) == (0, True)
