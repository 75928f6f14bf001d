"""Real concurrent sessions: a writer held open, a statement that waits for a lock and is seen waiting."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg

from thermocline.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    Params = Sequence[Any] | Mapping[str, Any]


Rows = list[tuple[Any, ...]]


def alone(session: psycopg.Connection, seconds: float = 60) -> None:
    """Return once nobody else is in the session's database: a session ends some time after it was closed."""
    deadline = time.monotonic() + seconds
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while session.execute(others).fetchone() != (0,):
        assert time.monotonic() < deadline, "others stay in the database"
        time.sleep(0.01)


def in_the_end(step: Callable[[], str], seconds: float = 60) -> str:
    """What comes of a step, once nobody is in its way: sessions of those that were killed live on for a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return step()
        except (Busy, psycopg.errors.LockNotAvailable):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Session:
    """A session in a thread of its own, so that a test can go on while a statement of it waits.

    Nothing is committed unless the test says so: a transaction begins with the first statement
    and stays open, as an application's would.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection = psycopg.connect(dsn)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._watcher: psycopg.Connection | None = None
        self.pid = self._connection.info.backend_pid

    def start(self, statement: LiteralString, parameters: Params = ()) -> Future[list[tuple[Any, ...]]]:
        """Run a statement without waiting for it."""
        return self._thread.submit(self._execute, statement, parameters)

    def run(self, statement: LiteralString, parameters: Params = ()) -> Rows:
        """Run a statement and wait for its rows."""
        return self.start(statement, parameters).result(timeout=60)

    def commit(self) -> None:
        """End the transaction well."""
        self._thread.submit(self._connection.commit).result(timeout=60)

    def rollback(self) -> None:
        """Undo the transaction."""
        self._thread.submit(self._connection.rollback).result(timeout=60)

    def watch(self) -> Self:
        """Have somebody look at this session from now on: one who came later could miss a wait that is short."""
        if self._watcher is None:
            self._watcher = psycopg.connect(self._dsn, autocommit=True)
        return self

    def wait_until_blocked(self, seconds: float = 60) -> None:
        """Return once PostgreSQL itself says that this session waits for a lock."""
        deadline = time.monotonic() + seconds
        watcher = self.watch()._watcher
        while watcher is not None and time.monotonic() < deadline:
            row = watcher.execute(
                "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", [self.pid]
            ).fetchone()
            if row and row[0]:
                return
            time.sleep(0.01)
        raise AssertionError(f"session {self.pid} never waited for a lock")

    def _execute(self, statement: LiteralString, parameters: Params) -> Rows:
        cursor = self._connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """End the session; what was not committed is gone, and the server has seen that."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        with suppress(psycopg.Error):
            self._connection.rollback()
        self._connection.close()
        if self._watcher is not None:
            self._watcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._connection.cancel()
        self.close()
