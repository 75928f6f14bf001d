"""A server that may crash, for schedules: see tests/harness/schedules.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import crash_servers, feed_children
from harness.lakes import Lake
from thermocline.config import FeedSettings
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.crash_servers import CrashServer


@pytest.fixture(scope="session")
def crashing(tmp_path_factory: pytest.TempPathFactory, major: int) -> Iterator[CrashServer]:
    """A server for those who let it crash."""
    feed_children.warm_up()
    with crash_servers.crash_server(tmp_path_factory.mktemp("crashing") / "home", major) as running:
        yield running


@pytest.fixture(scope="session")
def crashing_template(crashing: CrashServer) -> Iterator[str]:
    """The database that those of the crashing server are cloned from."""
    with crashing.server().template() as name:
        yield name


@pytest.fixture
def crashing_dsn(crashing: CrashServer, crashing_template: str) -> Iterator[str]:
    """A database on the server that may crash."""
    with crashing.server().database(crashing_template) as dsn:
        yield dsn


@pytest.fixture
def make_lake(tmp_path: Path) -> Callable[[str], Lake]:
    """Lakes with small batches, for databases of the test's."""

    def make(dsn: str, window_mb: int = 128) -> Lake:
        settings = Lake.of(dsn, tmp_path / "home").stack.settings
        chosen = FeedSettings(interval=0, window_mb=window_mb)
        return Lake(dsn, Stack(settings.model_copy(update={"feed": chosen})))

    return make
