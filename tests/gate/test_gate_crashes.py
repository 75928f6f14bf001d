"""The gate killed at every named point: each row is in PostgreSQL or in the lake, and the drop goes through later."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import thermocline
from harness.lakes import BASE, Lake, age
from harness.processes import Command

GATE = Path(thermocline.__file__).parent / "gate"
POINTS = sorted(
    {name for file in GATE.glob("*.py") for name in re.findall(r'crash_point\("([^"]+)"\)', file.read_text())}
)
WAY_BACK = [point for point in POINTS if point.startswith("rehydrate.")]
# A chunk is attached back only when it changed while it was detached; that has a test of its own.
REACHED = [point for point in POINTS if point.startswith(("receipt.", "drop.")) and point != "drop.attached_back"]


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, tag text", "g, 't' || g").synced()
    lake.run(f"SELECT lakets.add_tiered_retention_policy('m', '{age(2)}', '{age(0)}')")
    lake.drain()
    return lake


def everywhere(lake: Lake) -> Counter[tuple[Any, ...]]:
    """Resident chunks from PostgreSQL, detached ones too, and the rest from the lake."""
    resident = lake.run(
        "SELECT chunk_oid::regclass::text, range_start, range_end FROM lakets._chunk_metadata WHERE status <> 'dropped'"
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for name, _, _ in resident:
        found += Counter(lake.run(f"SELECT * FROM {name}"))
    for row, count in lake.folded().items():
        if not any(start <= row[0] < end for _, start, end in resident):
            found[row] += count
    return found


def test_there_are_kill_points_in_receipt_and_drop() -> None:
    assert len([point for point in POINTS if point.startswith("receipt.")]) >= 5
    assert len([point for point in POINTS if point.startswith("drop.")]) >= 5


@pytest.mark.parametrize("point", REACHED)
def test_g22_killed_at_any_point_of_receipt_and_drop_nothing_is_lost(lake: Lake, point: str) -> None:
    before = everywhere(lake)
    assert sum(before.values()) == 72
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    with lake.feeding():
        killed = command.run("retention", "m", "--in-process", "--json", kill_at=point)
        assert killed.was_killed, killed.out + killed.err
        assert everywhere(lake) == before
        # Somebody writes before anyone comes back to it.
        late = f"INSERT INTO m VALUES ('{BASE + timedelta(days=2, hours=5)}', 100, 'meanwhile')"
        lake.run(late)
        ended = command.run("retention", "m", "--in-process", "--json")
        assert ended.code == 0, ended.out + ended.err
    lake.drain()
    dropped = lake.run("SELECT count(*) FROM lakets._chunk_metadata WHERE status = 'dropped'")
    assert dropped == [(1,)]
    assert lake.run("SELECT count(*) FROM thermocline.detaching") == [(0,)]
    assert lake.run("SELECT count(*), sum(row_count) FROM thermocline.audit") == [(1, 24)]
    after = everywhere(lake)
    assert sum((after - before).values()) == 1
    assert before - after == Counter()


@pytest.mark.parametrize("point", WAY_BACK)
def test_g22_killed_at_any_point_of_the_way_back_nothing_is_lost_or_doubled(lake: Lake, point: str) -> None:
    before = everywhere(lake)
    lake.let_go(0)
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    start, end = (f"{BASE + timedelta(days=day):%Y-%m-%d}" for day in (0, 1))
    asked = ["rehydrate", "m", "--from", start, "--to", end, "--in-process", "--json"]
    with lake.feeding():
        killed = command.run(*asked, kill_at=point)
        assert killed.was_killed, killed.out + killed.err
        assert everywhere(lake) == before
        assert sum(lake.hot().values()) in (48, 72), "never a part of it"
        if point != "rehydrate.attached":
            ended = command.run(*asked)
            assert ended.code == 0, ended.out + ended.err
    assert everywhere(lake) == before
    assert lake.hot() == before
    assert lake.run("SELECT count(*) FROM thermocline.rehydration") == [(0,)]
    assert lake.run("SELECT count(*), sum(row_count) FROM thermocline.audit WHERE action = 'rehydrate'") == [(1, 24)]
    lake.run("UPDATE m SET tag = 'corrected' WHERE id = 5")
    lake.drain()
    lake.assert_same()
