"""One synced table with its lake, and what may be done to it while the feed is at work, for tests of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import feed_children
from harness.feed_children import Outcome, Run
from harness.homes import home_with_jars
from harness.lakes import Lake
from harness.verdicts import History
from thermocline.config import CatalogSettings, FeedSettings, HotSettings, Settings
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def lake_of(home: Path, dsn: str, *, uri: str | None = None, warehouse: Path | None = None) -> Lake:
    """A lake whose catalog may be somewhere else."""
    settings = Settings(
        home=home_with_jars(home).root,
        hot=HotSettings(dsn=dsn),
        feed=FeedSettings(interval=0),
        lake=CatalogSettings(uri=uri, warehouse=str(warehouse) if warehouse else None),
    )
    return Lake(dsn, Stack(settings))


def prepare(lake: Lake) -> None:
    """A table that is synced and in the lake."""
    lake.run(
        "CREATE TABLE m (ts timestamptz NOT NULL, id int, v float8, tag text)",
        "INSERT INTO m SELECT now() + g * interval '3 hours', g, g, 'before' FROM generate_series(-12, 5) g",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
        "SELECT lakets.enable_sync('m')",
    )
    lake.drain()


def write(lake: Lake, first: int, tag: str = "new") -> None:
    """New rows with ids from `first` on, and changes of old ones."""
    lake.run(
        f"INSERT INTO m SELECT now() + g * interval '3 hours', {first} + g, g, '{tag}' FROM generate_series(0, 9) g",
        f"UPDATE m SET v = v + 1 WHERE id % 3 = {first % 3}",
        f"DELETE FROM m WHERE id % 5 = {first % 5}",
    )


def require_all(lake: Lake) -> None:
    """Everything is there, once, in order."""
    History(lake, "m").require_each_once()
    History(lake, "m").require_chains()
    lake.assert_same()


def run(lake: Lake, prepare: Callable[[], None] | None = None, kill_at: str | None = None) -> Outcome:
    """A feed in a process of its own, until everything is in the lake."""
    return feed_children.run_in_turn(Run(lake.stack.settings, kill_at=kill_at, prepare=prepare))


def on_the_way(monkeypatch: pytest.MonkeyPatch, module: Any, point: str, do: Callable[[], object]) -> None:
    """Do something once, when the feed in this process comes to a point."""
    done: list[str] = []

    def reached(name: str) -> None:
        if name == point and not done:
            done.append(name)
            do()

    monkeypatch.setattr(module, "crash_point", reached)
