"""A PostgreSQL server of a test module's own, which may crash at any moment and come back."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from harness.servers import Server
from thermocline.config import HotSettings
from thermocline.home import Home
from thermocline.hot.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class CrashServer:
    """A server that keeps its port and its address over crashes."""

    def __init__(self, folder: Path, major: int, port: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self._embedded = EmbeddedServer(Home(folder), HotSettings(version=major, port=self.port))

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._embedded.data

    def server(self) -> Server:
        """As the harness knows servers."""
        return Server(self._embedded.dsn())

    def start(self) -> None:
        """Bring it up; after a crash it recovers first."""
        self._embedded.start()

    def stop(self) -> None:
        """Bring it down in good order."""
        self._embedded.stop()

    def crash(self) -> None:
        """An immediate stop: no checkpoint, no goodbye, what was not flushed is lost."""
        running = self._embedded.running()
        assert running is not None, "the server that is to crash does not run"
        os.kill(running.pid, signal.SIGQUIT)
        deadline = time.monotonic() + 120
        while self._embedded.running() is not None:
            assert time.monotonic() < deadline, "the server does not die"
            time.sleep(0.005)

    def crash_and_recover(self, down: float = 0) -> None:
        """Crash, stay away for a while, come back."""
        self.crash()
        time.sleep(down)
        self.start()


@contextmanager
def crash_server(folder: Path, major: int) -> Iterator[CrashServer]:
    """One that runs while the block lasts."""
    one = CrashServer(folder, major)
    try:
        one.start()
        with psycopg.connect(one.server().dsn, autocommit=True) as session:
            # What dies here is processes, never the machine: what was written is there, synced or not. Flushed is still
            # not the same as committed.
            session.execute("ALTER SYSTEM SET fsync = off")
            session.execute("ALTER SYSTEM SET max_prepared_transactions = 20")
            # What autovacuum locks and logs would be chance, and so would what a checkpoint that comes by saves.
            session.execute("ALTER SYSTEM SET autovacuum = off")
            session.execute("ALTER SYSTEM SET checkpoint_timeout = '1d'")
            # Some thousand sessions are opened here: a password that is quickly checked is enough.
            session.execute("SET scram_iterations = 1")
            session.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(session.info.password))
        one.stop()
        one.start()
        yield one
    finally:
        one.stop()


def free_port() -> int:
    """Below the ports that the system hands out, or somebody who calls a server that is down may get its port."""
    choice = random.SystemRandom()
    for _ in range(200):
        port = choice.randrange(20000, 30000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port found")
