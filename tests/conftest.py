"""Fixtures that every room's tests use."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING
from zlib import crc32

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from harness import servers
from harness.homes import home_with_jars
from harness.processes import Command
from harness.seeds import SCHEDULES
from thermocline.config import HotSettings, Settings
from thermocline.lake import jars
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from harness.servers import Server

# How long it takes to draw values says something of the machine only, and how many are too large something of chance.
settings.register_profile(
    "ours",
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ours")

# Most Javas of a run live for seconds: what the second compiler costs, half of all, they never get back.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--postgres", type=int, choices=[16, 18], default=18, help="major version of the embedded server")
    parser.addoption("--schedules", type=int, default=SCHEDULES, help="how many random schedules are played")
    parser.addoption("--schedule-seed", type=int, help="play this schedule only, as often as --schedules says or once")
    parser.addoption("--one-in", type=int, default=1, help="run one in so many of the tests outside the core")


def pytest_configure(config: pytest.Config) -> None:
    """A folder of the run's own: pytest's shared one is closed again whenever another run begins."""
    if config.option.basetemp is None:
        folder = tempfile.mkdtemp(prefix="thermocline-tests-")
        config.option.basetemp = f"{folder}/run"
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever talks SQL to the run's server is marked `sql`, whatever touches Spark `spark`, by what it asks for.

    With `--one-in` the core is run, and of the rest one in so many, other ones each time.
    """
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if "server" in names:
            item.add_marker(pytest.mark.sql)
        if "spark" in names:
            item.add_marker(pytest.mark.spark)
    seed, one_in = config.getoption("randomly_seed", 0), config.getoption("--one-in")
    chosen = [item for item in items if _is_core(item) or crc32(f"{seed} {item.nodeid}".encode()) % one_in == 0]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def _is_core(item: pytest.Item) -> bool:
    """What asks PostgreSQL itself: all of the hot tier, and what is quick of the gate."""
    dear = item.get_closest_marker("slow") or item.get_closest_marker("spark")
    return item.path.parent.name in ("hot", "acceptance") or (item.path.parent.name == "gate" and not dear)


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees its own settings only."""
    for name in list(os.environ):
        if name.startswith("THERMOCLINE_") and name != "THERMOCLINE_TEST_DSN":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def major(request: pytest.FixtureRequest) -> int:
    """The major version of the embedded server in this run."""
    chosen: int = request.config.getoption("--postgres")
    return chosen


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, major: int) -> Iterator[Server]:
    """One server for the whole run."""
    with servers.server(tmp_path_factory.mktemp("server") / "home", major) as running:
        yield running


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    """The database that `dsn` is cloned from."""
    with server.template() as name:
        yield name


@pytest.fixture
def empty_dsn(server: Server) -> Iterator[str]:
    """A database with nothing of ours in it."""
    with server.database() as dsn:
        yield dsn


@pytest.fixture
def dsn(server: Server, template: str) -> Iterator[str]:
    """A database of the test's own with our SQL installed."""
    with server.database(template) as dsn:
        yield dsn


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    """A session in UTC on the test's database, each statement its own transaction."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        yield session


@pytest.fixture
def embedded_home(tmp_path: Path, major: int) -> Iterator[Command]:
    """The command with an own home and an embedded server of its own, stopped afterwards."""
    home = home_with_jars(tmp_path / "home")
    command = Command(home.root, {"THERMOCLINE_HOT_VERSION": str(major)})
    yield command
    command.run("down")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command with an own, empty home, for what starts no server."""
    return Command(tmp_path / "home")


@pytest.fixture(scope="session")
def lake_dsn(server: Server, template: str) -> Iterator[str]:
    """The database of the Spark session's catalogs: it lasts as long as the session."""
    with server.database(template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, lake_dsn: str) -> Stack:
    """A stack on the run's server."""
    home = home_with_jars(tmp_path_factory.mktemp("lake") / "home", [jars.ICEBERG, jars.POSTGRES, jars.AWS])
    return Stack(Settings(home=home.root, hot=HotSettings(dsn=lake_dsn)))


@pytest.fixture(scope="session")
def spark(stack: Stack) -> Iterator[SparkSession]:
    """One Spark for the whole run, with Amazon's bundle for the tests of S3."""
    all_jars = jars.paths([jars.ICEBERG, jars.POSTGRES, jars.AWS], stack.home)
    events = stack.home.root / "events"
    events.mkdir()
    extra = {
        "spark.jars": ",".join(map(str, all_jars)),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
    }
    with_s3 = stack.settings.model_copy(update={"spark": stack.settings.spark.model_copy(update={"conf": extra})})
    session = Stack(with_s3).spark()
    yield session
    session.stop()
