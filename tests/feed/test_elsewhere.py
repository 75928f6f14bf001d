"""The same feed on a cluster, with its files on S3, with a REST catalog, and on the older PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness import feed_children, feed_process, servers
from harness.feed_children import Run
from harness.feed_process import FeedProcess
from harness.homes import home_with_jars
from harness.lakes import Lake
from harness.rest_catalog import rest_catalog
from harness.s3 import objects, properties, s3_server
from harness.schedules import chunk_name
from harness.spark_cluster import standalone_cluster
from thermocline.lake import jars
from thermocline.lake.address import PostgresAddress
from thermocline.lake.recovery import CannotAdopt
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLES = ("m", "n")
# Where a feed dies that is not on Spark: before the files are committed, right after, and before the slot moves.
POINTS = ["write.done", "lake.appended", "batch.committed", "batch.recorded"]


class Place:
    """Two tables and their lake, somewhere."""

    def __init__(self, home: Path, dsn: str, more: Mapping[str, Any]) -> None:
        self.home, self.dsn, self.more = home, dsn, more
        self.lake = Lake(dsn, Stack(feed_process.settings(str(home), dsn, more)))
        for table in TABLES:
            self.lake.run(
                f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v float8, tag text)",
                f"INSERT INTO {table} SELECT date_trunc('day', now()) + g * interval '1 hour', g, g, 'before'"
                " FROM generate_series(-100, 20) g",
                f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
                f"SELECT lakets.enable_sync('{table}')",
            )

    def write(self, number: int) -> None:
        """Something of everything that the stream can carry."""
        for table in TABLES:
            self.lake.run(
                f"INSERT INTO {table} (ts, id, tag) SELECT now() + g * interval '9 hours', {number} + g, 'new'"
                " FROM generate_series(-3, 3) g",
                f"UPDATE {table} SET v = {number} WHERE id % 3 = {number % 3}",
                f"UPDATE {table} SET ts = ts + interval '1 day' WHERE id % 7 = {number % 7} AND ts < now()",
                f"DELETE FROM {table} WHERE id % 5 = {number % 5}",
                f"BEGIN; TRUNCATE {chunk_name(table, -1)}; INSERT INTO {table} (ts, id)"
                f" SELECT date_trunc('day', now()) - interval '9 hours', {number}; COMMIT",
            )

    def live_on_spark(self) -> None:
        """From the first copy through changes of every kind, also of the columns."""
        with FeedProcess(self.home, more=self.more) as driver:
            for number in range(2):
                self.write(10 * number)
                if number:
                    self.lake.run("ALTER TABLE n ADD COLUMN extra int DEFAULT 5", "UPDATE n SET extra = 1 WHERE id = 3")
                for _ in range(2):
                    outcome = driver.drain(self.dsn)
                    assert outcome.how == "done", outcome
                assert outcome.caught_up
                self.require_all()

    def die_and_live(self) -> None:
        """Without Spark: killed at each point, then gone on."""
        for number, point in enumerate(POINTS):
            self.write(number)
            run = Run(self.lake.stack.settings, kill_at=point)
            assert feed_children.run(run).how == "killed"
            outcome = feed_children.run_in_turn(Run(self.lake.stack.settings))
            assert outcome.how == "done", outcome
        assert feed_children.run(Run(self.lake.stack.settings)).caught_up
        self.require_all()

    def require_all(self) -> None:
        for table in TABLES:
            assert self.lake.content(table) == self.lake.hot(table), table


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    feed_children.warm_up()
    return home_with_jars(tmp_path_factory.mktemp("spark") / "home", [jars.ICEBERG, jars.POSTGRES, jars.AWS]).root


def test_the_feed_on_a_cluster_of_two_workers(home: Path, dsn: str, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path / "cluster", workers=2) as master:
        conf = {
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            # Nothing begins before both are there, however long their processes take to start.
            "spark.cores.max": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
        }
        place = Place(home, dsn, {"spark": {"master": master, "conf": conf}})
        place.live_on_spark()
        logs = [
            "".join(log.read_text() for log in (tmp_path / "cluster" / f"worker{number}").rglob("stderr"))
            for number in range(2)
        ]
    assert all("Running task" in log for log in logs), "both have had something to do"


def test_the_feed_with_its_files_on_s3(home: Path, dsn: str, s3: str) -> None:
    more = {"lake": {"warehouse": "s3://lake/jdbc", "properties": properties(s3)}}
    place = Place(home, dsn, more)
    place.live_on_spark()
    place.die_and_live()
    written = objects(s3, "jdbc/public/lb_m_history/data/")
    assert [key for key in written if key.endswith(".parquet")]


@pytest.fixture
def of_catalog(server: Server) -> Iterator[str]:
    """The database in which the REST catalog keeps its pointers."""
    with server.database() as dsn:
        yield dsn


@pytest.fixture
def rest(of_catalog: str, s3: str) -> Iterator[dict[str, Any]]:
    """A REST catalog with its files on S3; yields the settings of a lake that uses it."""
    address = PostgresAddress.parse(of_catalog, "the REST catalog")
    described = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": address.jdbc_url(),
        "jdbc.user": address.user,
        "jdbc.password": address.password,
        "warehouse": "s3://lake/rest",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    with rest_catalog(described | properties(s3)) as running:
        yield {"lake": {"catalog": "rest", "uri": running, "properties": properties(s3)}}


def test_the_feed_with_a_rest_catalog(home: Path, dsn: str, rest: dict[str, Any], s3: str) -> None:
    place = Place(home, dsn, rest)
    place.live_on_spark()
    place.die_and_live()
    written = objects(s3, "rest/public/lb_m_history/data/")
    assert [key for key in written if key.endswith(".parquet")]


def test_m18_a_rest_catalog_that_was_restored_gets_back_what_it_forgot(
    home: Path, dsn: str, of_catalog: str, rest: dict[str, Any]
) -> None:
    place = Place(home, dsn, rest)
    place.lake.drain()
    with psycopg.connect(of_catalog, autocommit=True) as session:
        session.execute("CREATE TABLE backup AS SELECT * FROM iceberg_tables")
        for number in range(2):
            place.write(number)
            place.lake.drain()
        session.execute("DELETE FROM iceberg_tables")
        session.execute("INSERT INTO iceberg_tables TABLE backup")
    lines = place.lake.stack.recover_lake()
    assert [(line.table, line.verdict) for line in lines] == [(f"public.lb_{one}_history", "adopt") for one in TABLES]
    with pytest.raises(CannotAdopt, match="overwrite is not supported") as caught:  # this server's: it says what to do
        place.lake.stack.recover_lake(execute=True)
    assert str(lines[0].newest) in caught.value.next_step
    with place.lake.stack.catalog() as catalog:
        for line in lines:
            assert line.newest is not None
            catalog.drop_table(line.table)
            catalog.register_table(line.table, line.newest)
    assert [line.verdict for line in place.lake.stack.recover_lake()] == ["current", "current"]
    place.write(2)
    place.lake.drain()
    place.require_all()


def test_the_feed_on_the_older_postgres(home: Path, tmp_path: Path) -> None:
    with (
        servers.server(tmp_path / "sixteen", 16) as running,
        running.template() as template,
        running.database(template) as dsn,
    ):
        place = Place(home, dsn, {})
        assert place.lake.run("SHOW server_version_num")[0][0].startswith("16")
        place.live_on_spark()
        place.die_and_live()
