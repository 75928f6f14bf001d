"""The PostgreSQL of a test run: embedded, made for the run, or the one that THERMOCLINE_TEST_DSN names."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from thermocline.config import HotSettings
from thermocline.home import Home
from thermocline.hot import install
from thermocline.hot.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_numbers = itertools.count(1)
# Sessions end some time after they were asked to: so long we wait for the last ones of a database.
_PATIENCE = 60


@dataclass(frozen=True)
class Server:
    """A running server on which databases can be made."""

    dsn: str

    def with_database(self, name: str) -> str:
        """The address of another database on it."""
        return make_conninfo(self.dsn, dbname=name)

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """A database of its own, gone afterwards; yields its address."""
        name = f"tc_{os.getpid()}_{next(_numbers)}"
        # As files: that is quicker than block by block through the log, which feeds would have to read besides.
        self._run(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(name), sql.Identifier(template or "template1")
            )
        )
        try:
            yield self.with_database(name)
        finally:
            self.drop_slots(name)
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def drop_slots(self, database: str) -> None:
        """The slots of a database keep it from being dropped."""
        with psycopg.connect(self.dsn, autocommit=True) as session:
            session.execute(
                "SELECT pg_terminate_backend(active_pid, %s) FROM pg_replication_slots WHERE database = %s AND active",
                [_PATIENCE * 1000, database],
            )
            session.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [database]
            )

    @contextmanager
    def template(self) -> Iterator[str]:
        """A database with our SQL installed, to be cloned; yields its name."""
        name = f"tc_template_{os.getpid()}"
        self._run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            install.install(self.with_database(name))
            yield name
        finally:
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        """Make or drop a database, as soon as nobody is in it, or in its template, any more."""
        give_up_at = time.monotonic() + _PATIENCE
        with psycopg.connect(self.dsn, autocommit=True) as session:
            while True:
                try:
                    session.execute(statement)
                    return
                except psycopg.errors.ObjectInUse:
                    if time.monotonic() > give_up_at:
                        raise


@contextmanager
def server(folder: Path, major: int) -> Iterator[Server]:
    """One server for the whole run."""
    given = os.environ.get("THERMOCLINE_TEST_DSN")
    if given:
        yield Server(given)
        return
    embedded = EmbeddedServer(Home(folder), HotSettings(version=major))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        embedded.start()
        # Whoever is killed here, the machine goes on: what was written is there without being on the disk. And the
        # server does nothing of its own accord: its transactions would be in the way of what a test does just then.
        with psycopg.connect(embedded.dsn(), autocommit=True) as session:
            for setting in ("fsync", "full_page_writes", "autovacuum"):
                session.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
            session.execute("SELECT pg_reload_conf()")
        yield Server(embedded.dsn())
    finally:
        embedded.stop()
