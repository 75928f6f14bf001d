"""Sessions that are kept for whoever needs one next, and never more of them than so many."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import TransactionStatus

from thermocline.errors import Busy
from thermocline.hot.connection import lender, open_session, where, without_transaction_timeout
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from psycopg import Connection

_IDLE_SECONDS = 60.0


class Pool:
    """Sessions of one address for the threads it is lent to. What one has set in a session, the next does not find."""

    def __init__(self, dsn: str, size: int, *, timeout: int = 10) -> None:
        self.dsn = dsn
        self.size = size
        self._timeout = timeout
        self._room = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Connection]] = deque()
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """In this block whoever connects to the address, in this thread, gets a session from here."""
        before = lender.set(self)
        try:
            yield
        finally:
            lender.reset(before)

    @contextmanager
    def session(self, *, autocommit: bool) -> Iterator[Connection]:
        """A session for a block: committed when it ends well, rolled back otherwise."""
        if not self._room.acquire(timeout=self._timeout):
            raise Busy(f"All {self.size} sessions that this node may have with {where(self.dsn)} are in use.")
        try:
            session = self._ready()
            try:
                session.autocommit = autocommit
                yield session
                if not session.closed:
                    session.commit()
            except BaseException:
                with suppress(psycopg.Error):  # one that is gone has nothing to roll back
                    session.rollback()
                raise
            finally:
                self._take_back(session)
        finally:
            self._room.release()

    def trim(self, idle: float = _IDLE_SECONDS) -> None:
        """End those that nobody has needed for so long."""
        ended = []
        with self._lock:
            while self._idle and time.monotonic() - self._idle[0][0] >= idle:
                ended.append(self._idle.popleft()[1])
        for session in ended:
            session.close()

    def close(self) -> None:
        """End all; what is still lent ends when it comes back."""
        self._closed = True
        self.trim(0)

    def __enter__(self) -> Self:
        self._closed = False
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _ready(self) -> Connection:
        """One that was used last and is still alive, or a new one."""
        while True:
            with self._lock:
                session = self._idle.pop()[1] if self._idle else None
            if session is None:
                return open_session(self.dsn, timeout=self._timeout)
            try:
                session.execute("SELECT 1")
                return session
            except psycopg.Error:
                session.close()

    def _take_back(self, session: Connection) -> None:
        try:
            if not session.closed and session.info.transaction_status == TransactionStatus.IDLE:
                session.autocommit = True
                session.execute(query("session_reset"), prepare=False)
                without_transaction_timeout(session)
                with self._lock:
                    if not self._closed:
                        self._idle.append((time.monotonic(), session))
                        return
        except psycopg.Error:
            pass  # it is not fit for anybody else
        session.close()
