"""The Spark session: UTC, quiet, no secret where others can read it, and both catalogs by name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psutil
import psycopg
import pyarrow as pa
import pytest

from harness.homes import home_with_jars
from harness.spark_cluster import standalone_cluster
from thermocline import config
from thermocline.config import Settings, SparkSettings
from thermocline.errors import CatalogFailed, Misconfigured, SparkFailed
from thermocline.home import Home
from thermocline.lake import catalogs
from thermocline.lake import spark as sessions
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from harness.servers import Server


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_the_session_is_in_utc_and_fits_the_machine(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(2 * (os.cpu_count() or 1))
    (row,) = spark.sql("SELECT CAST(timestamp'2026-01-05 12:00:00' AS STRING) AS t").collect()
    assert row.t == "2026-01-05 12:00:00"


def test_no_password_is_on_any_command_line_or_in_the_environment(spark: SparkSession, stack: Stack) -> None:
    password = psycopg.conninfo.conninfo_to_dict(stack.dsn)["password"]
    assert spark.conf.get("spark.sql.catalog.lake.jdbc.password") == password, "it is in use"
    seen = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it may end at any moment
            assert str(password) not in " ".join(process.cmdline())
            assert str(password) not in " ".join(process.environ().values())
            seen.append(process.name())
    assert any("java" in name for name in seen)


def test_no_secret_is_in_sparks_event_log(spark: SparkSession, stack: Stack) -> None:
    """Every job is logged with the configuration it ran under; the fixture has the event log switched on."""
    spark.range(100).selectExpr("sum(id)").collect()
    password = str(psycopg.conninfo.conninfo_to_dict(stack.dsn)["password"])
    deadline = time.monotonic() + 60
    while "spark.sql.catalog.lake.uri" not in (logged := event_log(stack)):  # it is written beside the jobs
        assert time.monotonic() < deadline, "it is the log that would show it"
        time.sleep(0.1)
    assert password not in logged


def event_log(stack: Stack) -> str:
    files = (path for path in (stack.home.root / "events").rglob("*") if path.is_file())
    return "".join(path.read_text(errors="replace") for path in files)


def test_a_session_of_somebody_elses_is_not_taken_for_ours(spark: SparkSession, stack: Stack, tmp_path: Path) -> None:
    other = Stack(stack.settings.model_copy(update={"home": home_with_jars(tmp_path / "home").root}))
    with pytest.raises(SparkFailed, match="did not make"):
        other.spark()
    assert stack.spark().version == spark.version


def test_spark_prints_nothing_of_its_own(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    spark.range(1000).selectExpr("sum(id)").collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["lake", "cold"])
def test_spark_and_pyiceberg_read_and_commit_what_the_other_wrote(
    spark: SparkSession, stack: Stack, closing: ExitStack, name: str
) -> None:
    table = f"{name}.interop.readings"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.interop")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP, note STRING) USING iceberg")
    spark.sql(f"INSERT INTO {table} VALUES (1, timestamp'2026-01-05 12:00:00', 'from Spark')")

    catalog = closing.enter_context(stack.catalog(name))
    mine = catalog.load_table("interop.readings")
    assert mine.scan().to_arrow().to_pylist() == [{"id": 1, "ts": NOON, "note": "from Spark"}]
    mine.append(
        pa.table(
            {"id": [2], "ts": pa.array([NOON], pa.timestamp("us", "UTC")), "note": ["from PyIceberg"]},
        )
    )
    rows = spark.sql(f"SELECT id, note FROM {table} ORDER BY id").collect()
    assert [(row.id, row.note) for row in rows] == [(1, "from Spark"), (2, "from PyIceberg")]

    spark.sql(f"INSERT INTO {table} VALUES (3, timestamp'2026-01-05 12:00:00', 'again')")
    assert mine.refresh().scan().to_arrow().num_rows == 3
    assert len(mine.snapshots()) == 3

    made_here = catalog.create_table("interop.made_by_pyiceberg", mine.schema())
    made_here.append(mine.scan().to_arrow())
    assert spark.table(f"{name}.interop.made_by_pyiceberg").count() == 3
    other = "cold" if name == "lake" else "lake"
    with stack.catalog(other) as second:
        assert not second.table_exists("interop.made_by_pyiceberg"), "the catalogs are two"
    for made in ("readings", "made_by_pyiceberg"):
        spark.sql(f"DROP TABLE {name}.interop.{made} PURGE")


def test_two_commits_at_once_both_survive(spark: SparkSession, stack: Stack, closing: ExitStack) -> None:
    """The catalog's compare-and-set refuses the slower one, which then builds on the faster one's."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.interop")
    spark.sql("CREATE TABLE lake.interop.raced (id BIGINT) USING iceberg")
    stale = closing.enter_context(stack.catalog()).load_table("interop.raced")
    transaction = stale.transaction()
    transaction.append(pa.table({"id": [1]}))
    spark.sql("INSERT INTO lake.interop.raced VALUES (2)")
    transaction.commit_transaction()
    rows = spark.sql("SELECT id FROM lake.interop.raced ORDER BY id").collect()
    assert [row.id for row in rows] == [1, 2]
    spark.sql("DROP TABLE lake.interop.raced PURGE")


def test_a_catalog_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path) -> None:
    described = catalogs.describe(Settings(), Home(tmp_path), "postgresql://me:hunter22@127.0.0.1:1/x")
    with pytest.raises(CatalogFailed, match="The catalog lake cannot be used") as caught:
        described["lake"].open()
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize(
    "dsn", ["postgresql:///metrics?host=/var/run&user=me", "host=a,b user=me", "dbname=x", "nonsense"]
)
def test_an_address_that_spark_cannot_use_is_refused(tmp_path: Path, dsn: str) -> None:
    described = catalogs.describe(Settings(), Home(tmp_path), dsn)
    with pytest.raises(Misconfigured, match="the catalog lake"):
        described["lake"].for_spark()


def test_a_rest_catalog_needs_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_LAKE_CATALOG", "rest")
    with pytest.raises(Misconfigured, match=r"lake.*uri must be set"):
        config.load()


@pytest.mark.slow
def test_a_master_that_does_not_exist_is_said_plainly(tmp_path: Path) -> None:
    """In a process of its own, because a process has one Spark."""
    home = home_with_jars(tmp_path / "home")
    program = (
        "import sys; from pathlib import Path\n"
        "from thermocline.config import *; from thermocline.stack import Stack\n"
        "from thermocline.errors import SparkFailed\n"
        f"s = Settings(home=Path({str(home.root)!r}), hot=HotSettings(dsn='postgresql://a:b@127.0.0.1:1/c'),"
        " spark=SparkSettings(master='nonsense://x'))\n"
        "try:\n    Stack(s).spark()\nexcept SparkFailed as e:\n    print(e.message); sys.exit(7)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 7, ended.stderr
    assert "nonsense" in ended.stdout or "Master" in ended.stdout


def test_settings_of_the_user_win(tmp_path: Path) -> None:
    chosen = sessions.configuration(
        SparkSettings(master="spark://h:7077", conf={"spark.ui.enabled": "true", "spark.cores.max": "4"}),
        Home(tmp_path),
        [],
    )
    assert chosen["spark.master"] == "spark://h:7077"
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.cores.max"] == "4"
    assert "spark.driver.host" not in chosen, "a cluster must be able to call back"


@pytest.mark.slow
def test_the_same_code_runs_on_a_cluster(tmp_path: Path, server: Server, template: str) -> None:
    """A standalone master and worker, as processes of their own; only spark.master is set."""
    home = home_with_jars(tmp_path / "home")
    with server.database(template) as dsn, standalone_cluster(tmp_path / "work") as master:
        program = (
            "from pathlib import Path\n"
            "from thermocline.config import *\nfrom thermocline.stack import Stack\n"
            f"s = Stack(Settings(home=Path({str(home.root)!r}), hot=HotSettings(dsn={dsn!r}),\n"
            f"    spark=SparkSettings(master={master!r}, conf={{'spark.executor.memory': '1g'}})))\n"
            "spark = s.spark()\n"
            "spark.sql('CREATE NAMESPACE lake.far')\n"
            "spark.range(1000).repartition(2).writeTo('lake.far.numbers').using('iceberg').create()\n"
            "total = spark.table('lake.far.numbers').selectExpr('sum(id)').first()[0]\n"
            "print(spark.sparkContext.master, total)\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400)
    assert ended.stdout.split() == [master, "499500"], ended.stderr
