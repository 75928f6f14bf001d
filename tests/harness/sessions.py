"""Real concurrent sessions: a writer held open, a statement that waits for a lock and is seen waiting."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


Rows = list[tuple[Any, ...]]


class Session:
    """A session in a thread of its own, so that a test can go on while a statement of it waits.

    Nothing is committed unless the test says so: a transaction begins with the first statement
    and stays open, as an application's would.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection = psycopg.connect(dsn)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.pid = self._connection.info.backend_pid

    def start(self, statement: LiteralString, parameters: Sequence[Any] = ()) -> Future[list[tuple[Any, ...]]]:
        """Run a statement without waiting for it."""
        return self._thread.submit(self._execute, statement, parameters)

    def run(self, statement: LiteralString, parameters: Sequence[Any] = ()) -> Rows:
        """Run a statement and wait for its rows."""
        return self.start(statement, parameters).result(timeout=60)

    def commit(self) -> None:
        """End the transaction well."""
        self._thread.submit(self._connection.commit).result(timeout=60)

    def rollback(self) -> None:
        """Undo the transaction."""
        self._thread.submit(self._connection.rollback).result(timeout=60)

    def wait_until_blocked(self, seconds: float = 20) -> None:
        """Return once PostgreSQL itself says that this session waits for a lock."""
        deadline = time.monotonic() + seconds
        with psycopg.connect(self._dsn, autocommit=True) as watcher:
            while time.monotonic() < deadline:
                row = watcher.execute(
                    "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", [self.pid]
                ).fetchone()
                if row and row[0]:
                    return
                time.sleep(0.01)
        raise AssertionError(f"session {self.pid} never waited for a lock")

    def _execute(self, statement: LiteralString, parameters: Sequence[Any]) -> Rows:
        cursor = self._connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """End the session; what was not committed is gone, and the server has seen that."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        with suppress(psycopg.Error):
            self._connection.rollback()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._connection.cancel()
        self.close()
