"""A table whose first day has left and whose late rows go to the lake, and what its tests ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import both_tiers
from harness.lakes import NOON, Lake

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from harness.lakes import Row
    from thermocline.gate.late import LateLine

LATE = "INSERT INTO m VALUES ('{at}', {id}, 'late')"


def with_late_rows(dsn: str, folder: Path) -> Lake:
    """Three days, of which the first has left, and whose late rows go to the lake."""
    lake = Lake.of(dsn, folder).with_days("id int, tag text", "g, 't' || g").synced()
    lake.drain()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    return lake


def late(lake: Lake, *ids: int, day: int = 0) -> None:
    """Late rows of a day, one by one."""
    for one in ids:
        lake.run(LATE.format(at=NOON[day], id=one))


def across(lake: Lake) -> Counter[Row]:
    """Each row once, wherever it lives."""
    return both_tiers.across(lake, "m")


def traps(lake: Lake) -> list[tuple[Any, ...]]:
    """Of each trap whether it lets rows in, and whether it has any."""
    return lake.run("SELECT is_open, size_bytes > 0 FROM thermocline.trap ORDER BY range_start")


def settle(lake: Lake, patience: float = 20) -> list[LateLine]:
    """Let go of late rows that the lake has."""
    with lake.feeding():
        return lake.stack.late_rows("m", on_spark=False, patience=patience).settle()


def verdicts(lake: Lake, patience: float = 20) -> list[tuple[str, str]]:
    """What became of each trap's late rows, and why."""
    return [(line.verdict, line.reason) for line in settle(lake, patience)]
