"""The whole stack as one object: what `up` starts, and what the rooms above are handed."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING

from thermocline.errors import PasswordRejected, ThermoclineError, Unreachable
from thermocline.home import Home
from thermocline.hot import install, inventory, maintenance, rollups, suitability
from thermocline.hot.binaries import Binaries
from thermocline.hot.connection import check_dsn, connect, where, without_secrets
from thermocline.hot.embedded import RESET_PASSWORD, EmbeddedServer
from thermocline.lake import catalogs, jars, java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from psycopg import Connection
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from thermocline.config import Settings
    from thermocline.feed.feed import Feed
    from thermocline.feed.outlook import Outlook
    from thermocline.feed.service import Service
    from thermocline.feed.status import FeedStatus
    from thermocline.gate.late import LateRows
    from thermocline.gate.lifecycle import Lifecycle
    from thermocline.gate.receipt import Prover
    from thermocline.gate.rehydrate import Rehydrator
    from thermocline.gate.why import Receipt, Why
    from thermocline.hot.inventory import ChronoTable, Chunk, Policy
    from thermocline.hot.maintenance import Maintained
    from thermocline.hot.rollups import Checked, Item, Refreshed, RollUp
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.java import Java
    from thermocline.lake.recovery import Recovery
    from thermocline.lake.tasks import Runner
    from thermocline.reads.across import Reader
    from thermocline.reads.places import Places
    from thermocline.recompute.recompute import Recomputer

    Step = Callable[[str], AbstractContextManager[Callable[[str], None]]]


@dataclass(frozen=True)
class Up:
    """What `up` brought about."""

    dsn: str
    home: str
    warehouse: str
    embedded: bool
    started: bool
    installed: bool
    postgres: str
    pid: int | None
    sql: str
    java: str
    port_moved_from: int | None


@dataclass(frozen=True)
class Status:
    """What runs and what it holds, without starting anything."""

    home: str
    embedded: bool
    running: bool
    pid: int | None
    server: str
    postgres: str | None
    installed: str | None
    lake_tables: int | None
    warehouse: str


class Stack:
    """PostgreSQL, Spark and the Iceberg catalogs of one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.home = Home(settings.home)
        self._external = settings.hot.dsn.get_secret_value() if settings.hot.dsn else None
        self._server = EmbeddedServer(self.home, settings.hot)

    @property
    def is_embedded(self) -> bool:
        """Whether the hot tier is the server that Thermocline runs itself."""
        return self._external is None

    @property
    def dsn(self) -> str:
        """How to connect to the hot tier; refuses when the embedded server does not run."""
        return self._external or self._server.dsn()

    @property
    def dsn_without_password(self) -> str:
        """The same, fit for a command line, where everybody can read it."""
        return without_secrets(self.dsn)

    @property
    def password_environment(self) -> dict[str, str]:
        """The password, as libpq's programs take it from their environment."""
        password = check_dsn(self.dsn).get("password")
        return {"PGPASSWORD": password} if password else {}

    def psql_program(self) -> str | None:
        """The packaged psql, where there is one."""
        try:
            return Binaries.of(self.settings.hot.version).program("psql")
        except ThermoclineError:
            return None

    @property
    def warehouse(self) -> str:
        """Where the live lake's files are."""
        return self._describe("")[catalogs.LAKE].warehouse or "as the REST catalog says"

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A session on the hot tier; what fails says what helps there."""
        with self._advised(), connect(self.dsn, timeout=self.settings.hot.connect_timeout) as session:
            yield session

    @contextmanager
    def _advised(self) -> Iterator[None]:
        """Errors of the embedded server get the next step that helps there."""
        try:
            yield
        except PasswordRejected as error:
            raise PasswordRejected(
                error.message, next_step=RESET_PASSWORD if self.is_embedded else error.next_step
            ) from error
        except Unreachable as error:
            if self.is_embedded and self._server.running():
                raise Unreachable(
                    f"The embedded server runs but does not answer: {error.message}",
                    next_step="Run `thermocline down`, then `thermocline up`.",
                ) from error
            if not self.is_embedded:
                raise Unreachable(
                    error.message, next_step="Check that the server runs, and host and port in hot.dsn."
                ) from error
            raise

    def up(self, step: Step, *, reset_password: bool = False) -> Up:
        """Fetch what is missing, start the server, install the SQL; each only if it is needed.

        The network comes first: when it fails, nothing has been started.
        """
        self.home.prepare()
        for catalog in self.described_catalogs().values():
            catalog.check()
        runtime = self.java
        self._fetch_jars(step)
        started = False
        if self.is_embedded and (reset_password or self._server.running() is None):
            with step(f"Starting PostgreSQL {self.settings.hot.version}"):
                started = self._server.start(reset_password=reset_password)
        elif self.is_embedded:
            self._server.start()
        with self.session() as session:
            facts = suitability.look(session)
            suitability.require(facts)
            installed = not install.is_current(session)
        if installed:
            with step("Installing SQL"):
                installed = install.install(self.dsn, timeout=self.settings.hot.connect_timeout)
        running = self._server.running() if self.is_embedded else None
        return Up(
            dsn=self.dsn,
            home=str(self.home.root),
            warehouse=self.warehouse,
            embedded=self.is_embedded,
            started=started,
            installed=installed,
            postgres=facts.version,
            pid=running.pid if running else None,
            sql=install.Release().version,
            java=f"{runtime.version} ({runtime.source})",
            port_moved_from=self._server.port_moved_from,
        )

    @property
    def is_running(self) -> bool:
        """Whether the embedded server runs."""
        return self.is_embedded and self._server.running() is not None

    def down(self) -> bool:
        """Stop what is embedded; true if it ran."""
        return self.is_embedded and self._server.stop()

    def uninstall(self) -> list[str]:
        """Take our schemas out of the database; returns those that were kept."""
        return install.uninstall(self.dsn, timeout=self.settings.hot.connect_timeout)

    def status(self) -> Status:
        """What runs; starts nothing. A server that is not up is a status, not an error."""
        running = self._server.running() if self.is_embedded else None
        version = release = tables = None
        up = bool(running) or not self.is_embedded
        if up:
            with self.session() as session:
                version = session.info.parameter_status("server_version")
                present = install.installed(session)
            if present:
                release = present.version
                tables = self.catalog_descriptions[catalogs.LAKE].count_tables()
        return Status(
            home=str(self.home.root),
            embedded=self.is_embedded,
            running=up,
            pid=running.pid if running else None,
            server=self._place(running.port if running else None),
            postgres=version,
            installed=release,
            lake_tables=tables,
            warehouse=self.warehouse,
        )

    def _place(self, port: int | None) -> str:
        if self._external:
            return where(self._external)
        return f"127.0.0.1:{port}" if port else "embedded, not running"

    # ---- the lake ------------------------------------------------------------------------

    @cached_property
    def java(self) -> Java:
        """The Java that runs Spark."""
        return java.find(self.settings.java, self.home)

    @property
    def catalog_descriptions(self) -> dict[str, CatalogDescription]:
        """Both Iceberg catalogs, described."""
        return self._describe(self.dsn)

    def catalog(self, name: str = catalogs.LAKE) -> Catalog:
        """A catalog through PyIceberg, without Java; close it, or use it in a `with` block."""
        return self.catalog_descriptions[name].open()

    def spark(self) -> SparkSession:
        """The Spark session of this process."""
        from thermocline.lake import spark

        wanted = self.needed_jars()
        return spark.open_session(
            self.settings.spark,
            self.home,
            self.java,
            jars.paths(wanted, self.home),
            self.catalog_descriptions,
        )

    def needed_jars(self) -> list[jars.Jar]:
        """The jars that Spark needs for these catalogs."""
        return jars.needed(self._describe("").values())

    def described_catalogs(self) -> dict[str, CatalogDescription]:
        """Both catalogs as far as they can be described without a server."""
        return self._describe(self._external or "")

    def _describe(self, dsn: str) -> dict[str, CatalogDescription]:
        return catalogs.describe(self.settings, self.home, dsn)

    def _fetch_jars(self, step: Step) -> None:
        wanted = jars.missing(self.needed_jars(), self.home)
        if not wanted:
            return
        # One fetch at a time: Ivy's cache is not made for two. Whoever waited finds them there.
        with step("Fetching jars for Spark, once") as progress, self.home.exclusively():
            jars.fetch(
                wanted,
                self.home,
                self.java,
                ivy_settings=self.settings.spark.ivy_settings,
                progress=progress,
            )

    # ---- the feed ------------------------------------------------------------------------

    @contextmanager
    def feed(self) -> Iterator[Service]:
        """The feed on Spark, owned while the block lasts; refuses when another one runs."""
        from thermocline.feed.service import Service
        from thermocline.lake.tasks import OnSpark

        spark = self.spark()
        with self._advised(), self.own_feed(OnSpark(lambda: spark)) as feed:
            yield Service(feed, spark, self.settings.feed, self.home.spark / "feed")

    @contextmanager
    def feeding(self) -> Iterator[Event]:
        """The feed on Spark beside what the block does; the event is set once it has tended the tables, or failed.

        What ended the feed before its time is raised after the block.
        """
        tended = Event()
        with self.feed() as service, ThreadPoolExecutor(1, "feed") as beside:
            running = beside.submit(service.run, lambda _progress: tended.set())
            running.add_done_callback(lambda _ended: tended.set())
            try:
                yield tended
            finally:
                service.stop()
        running.result()

    def own_feed(self, runner: Runner | None = None) -> Feed:
        """The feed itself, to be used in a `with` block; without a runner everything is done in this process."""
        from thermocline.feed.feed import Feed

        lake = self.catalog_descriptions[catalogs.LAKE]
        return Feed(self.dsn, lake, self.settings.feed, runner, timeout=self.settings.hot.connect_timeout)

    def tables(self) -> list[ChronoTable]:
        """Every ChronoTable."""
        with self._advised():
            return inventory.tables(self.dsn, timeout=self.settings.hot.connect_timeout)

    def chunks(self, table: str) -> list[Chunk]:
        """The resident chunks of a table."""
        with self._advised():
            return inventory.chunks(self.dsn, table, timeout=self.settings.hot.connect_timeout)

    def maintain(self, table: str | None = None) -> list[Maintained]:
        """Make the chunks of the next time and reconcile, for one table or for all."""
        with self._advised():
            return maintenance.maintain(self.dsn, table, timeout=self.settings.hot.connect_timeout)

    def policies(self) -> list[Policy]:
        """Every policy."""
        with self._advised():
            return inventory.policies(self.dsn, timeout=self.settings.hot.connect_timeout)

    def rollups(self) -> list[RollUp]:
        """Every RollUp, dependencies first."""
        with self._advised():
            return rollups.rollups(self.dsn, timeout=self.settings.hot.connect_timeout)

    def explain_rollup(self, name: str) -> tuple[RollUp, list[Item]]:
        """A RollUp, and what its next refresh will do and why."""
        with self._advised():
            return rollups.explain(self.dsn, name, timeout=self.settings.hot.connect_timeout)

    def refresh_rollups(self, name: str | None = None, *, now: bool = False) -> list[Refreshed]:
        """Refresh a RollUp after those it is made from, or all of them; `now` minds no lag."""
        with self._advised():
            return rollups.refresh(self.dsn, name, now=now, timeout=self.settings.hot.connect_timeout)

    def check_rollup(
        self, name: str, start: datetime | None = None, end: datetime | None = None, *, repair: bool = False
    ) -> Checked:
        """Compare a RollUp with its source, and compute anew what differs if asked to."""
        with self._advised():
            return rollups.check(self.dsn, name, start, end, repair=repair, timeout=self.settings.hot.connect_timeout)

    def feed_status(self) -> FeedStatus:
        """How far the feed has come, and what is wrong with it."""
        from thermocline.feed.status import status, with_disk

        with self._advised():
            found = status(self.dsn, timeout=self.settings.hot.connect_timeout)
        return with_disk(found, shutil.disk_usage(self.home.root).free) if self.is_embedded else found

    def watching(self, news: Callable[[Outlook], None]) -> AbstractContextManager[None]:
        """What is left for the feed to do, told beside what the block does."""
        from thermocline.feed.outlook import watching

        return watching(self.feed_status, news)

    def resync_feed(self) -> int:
        """Begin the stream anew; returns how many tables will be copied again."""
        from thermocline.feed.resync import resync

        with _without_feed():
            return resync(self.dsn, timeout=self.settings.hot.connect_timeout)

    def resync_table(self, table: str, chunk: str | None = None) -> int:
        """Let the feed copy a synced table again, or one chunk of it; returns how many chunks."""
        from thermocline.feed.resync import resync_table

        with self._advised():
            return resync_table(self.dsn, table, chunk, timeout=self.settings.hot.connect_timeout)

    def recover_lake(self, table: str | None = None, *, execute: bool = False, unknown: bool = False) -> list[Recovery]:
        """What the lake's catalog has forgotten of its history tables; with `execute` it is told again."""
        from thermocline.feed.recovery import recover

        lake = self.catalog_descriptions[catalogs.LAKE]
        timeout = self.settings.hot.connect_timeout
        with self._advised(), _without_feed():
            return recover(self.dsn, lake, table, execute=execute, unknown=unknown, timeout=timeout)

    # ---- the gate ------------------------------------------------------------------------

    def lifecycle(self, table: str, *, on_spark: bool = True, patience: float = 10) -> Lifecycle:
        """The gate of one table; comparisons run on Spark, started for the first of them, or in this process."""
        from thermocline.gate.lifecycle import Lifecycle

        return Lifecycle(self.dsn, self.prover(on_spark=on_spark), table, patience=patience)

    def late_rows(self, table: str | None = None, *, on_spark: bool = True, patience: float = 10) -> LateRows:
        """Late rows that went to the lake, of one table or of all; compared on Spark or in this process."""
        from thermocline.gate.late import LateRows

        return LateRows(self.dsn, self.prover(on_spark=on_spark), table, patience=patience)

    def why(self, chunk: str) -> Why:
        """What stands between a chunk and its removal."""
        from thermocline.gate.why import why

        return why(self.dsn, chunk)

    def receipts(self, table: str | None = None, chunk: str | None = None, most: int = 50) -> list[Receipt]:
        """Proofs that the lake held chunks, the newest first."""
        from thermocline.gate.why import receipts

        return receipts(self.dsn, table, chunk, most)

    def prover(self, *, on_spark: bool = True) -> Prover:
        """Makes receipts."""
        from thermocline.gate.receipt import Prover
        from thermocline.lake.tasks import InProcess, OnSpark

        runner: Runner = OnSpark(self.spark) if on_spark else InProcess()
        return Prover(self.dsn, self.catalog_descriptions[catalogs.LAKE], runner)

    def rehydrator(self, *, on_spark: bool = True, patience: float = 10) -> Rehydrator:
        """Brings ranges back from the lake."""
        from thermocline.gate.rehydrate import Rehydrator

        return Rehydrator(self.dsn, self.prover(on_spark=on_spark), patience=patience)

    # ---- reads ---------------------------------------------------------------------------

    def reader(self) -> Reader:
        """Answers from both tiers as one."""
        from thermocline.reads.across import Reader

        return Reader(self.dsn, self.spark())

    def places(self) -> Places:
        """Where the rows of a question are, without Spark."""
        from thermocline.reads.places import Places

        return Places(self.dsn)

    def recomputer(self) -> Recomputer:
        """Computes RollUps anew from both tiers; Spark is started once there is something to compute."""
        from thermocline.recompute.recompute import Recomputer

        return Recomputer(self.dsn, self.reader, timeout=self.settings.hot.connect_timeout)


@contextmanager
def _without_feed() -> Iterator[None]:
    """Whoever is no feed is told that one is in the way."""
    from thermocline.feed.refusals import FeedTaken

    try:
        yield
    except FeedTaken as error:
        raise FeedTaken(
            "A feed is running for this database, and this is done without one.",
            next_step="Stop `thermocline feed` or `thermocline run`, do it, and start them again.",
        ) from error
