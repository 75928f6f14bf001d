"""The feed on Spark: its driver is killed, its Python workers are killed, and the lake stays exact."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness import feed_process
from harness.feed_process import FeedProcess
from harness.homes import home_with_jars
from harness.lakes import Lake
from harness.schedules import Schedule
from harness.verdicts import Verdicts
from thermocline.feed.refusals import FeedTaken
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.crash_servers import CrashServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Where the driver dies, and where a worker does: of the stream's source, of the writing job, of a copy.
OF_THE_DRIVER = ["copy.committed", "batch.registered", "lake.appended", "batch.recorded"]
OF_WORKERS = ["read.before_peek", "read.in_peek", "read.after_peek", "write.before_file", "write.after_file",
              "write.done", "copy.in_read"]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with_jars(tmp_path_factory.mktemp("spark") / "home").root


@pytest.fixture(scope="module")
def driver(home: Path) -> Iterator[FeedProcess]:
    """One that is never killed itself."""
    with FeedProcess(home) as process:
        yield process


class Played:
    """The writes of a schedule, with the feed on Spark in between."""

    def __init__(self, seed: int, dsn: str, home: Path) -> None:
        self.dsn = dsn
        self._schedule = Schedule.of(seed)
        self.lake = Lake(dsn, Stack(feed_process.settings(str(home), dsn)))
        self.verdicts = Verdicts(self.lake, self._schedule.tables)
        self._writes = [act.statements for act in self._schedule.acts if act.kind == "write"]
        self.lake.run(*self._schedule.setup())
        if self._schedule.is_altered:  # a column that is there now and then: here it always is
            self.lake.run(*(f"ALTER TABLE {table} ADD COLUMN extra int" for table in self._schedule.tables))

    def sync(self) -> None:
        self.lake.run(*(f"SELECT lakets.enable_sync('{table}')" for table in self._schedule.tables))

    def write(self, count: int | None = None) -> None:
        """Some of what is to be written, or all that is left."""
        some, self._writes = self._writes[:count], self._writes[len(self._writes[:count]) :]
        with psycopg.connect(self.dsn) as session:
            session.execute("SET timezone = 'UTC'")
            session.commit()
            for statements in some:
                for statement in statements:
                    if not statement.startswith(("COPY", "TRUNCATE {")):
                        session.execute(statement.encode())
                session.commit()
            session.execute("INSERT INTO m SELECT moment(0, 1), NULL, 1, 'again' FROM generate_series(1, 3)")

    def drain(self, driver: FeedProcess) -> None:
        give_up_at = time.monotonic() + 60
        while (outcome := driver.drain(self.dsn)).code == FeedTaken.code and time.monotonic() < give_up_at:
            time.sleep(0.1)  # the session of one that was killed lives on for a moment
        assert outcome.how == "done", outcome
        assert outcome.caught_up
        self.verdicts.sample()

    def require_all(self, driver: FeedProcess) -> None:
        for _ in range(4):
            self.drain(driver)
            if not self.verdicts.uncovered():
                break
        assert not self.verdicts.uncovered()
        self.verdicts.require_all()


@pytest.fixture
def database(crashing: CrashServer, crashing_template: str) -> Iterator[str]:
    with crashing.server().database(crashing_template) as dsn:
        yield dsn


@pytest.mark.parametrize("point", OF_WORKERS)
def test_m10_a_worker_that_is_killed_ends_the_feed_with_an_error_and_the_next_run_is_right(
    driver: FeedProcess, home: Path, database: str, point: str
) -> None:
    played = Played(OF_WORKERS.index(point) + 100, database, home)
    played.sync()
    played.write(2)
    if not point.startswith("copy."):
        played.drain(driver)
        played.write(1)
    outcome = driver.drain(database, kill_workers_at=point)
    assert outcome.how == "failed", "a killed worker is an error, not something to pass over"
    played.verdicts.sample()
    played.write()
    played.require_all(driver)
    assert outcome.is_clear, outcome


@pytest.mark.parametrize("point", OF_THE_DRIVER)
def test_m10_a_driver_that_is_killed_loses_and_repeats_nothing(
    driver: FeedProcess, home: Path, database: str, point: str
) -> None:
    played = Played(OF_THE_DRIVER.index(point) + 200, database, home)
    played.sync()
    played.write(2)
    if not point.startswith("copy."):  # so that there is something to stream, whatever the copies have taken
        played.drain(driver)
        played.write(1)
    with ExitStack() as closing:
        writer = threading.Thread(target=played.write)
        doomed = closing.enter_context(FeedProcess(home, kill_at=point))
        writer.start()
        closing.callback(writer.join)
        assert doomed.drain(database).how == "killed"
    played.verdicts.sample()
    played.require_all(driver)
