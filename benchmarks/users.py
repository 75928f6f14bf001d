"""Other users of a table while something is done to it: readers of some seconds and writers, each statement timed."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

_SHORTEST, _LONGEST = 0.5, 2.0
_BETWEEN_WRITES = 0.002
# The whole table is locked for the reader before anything is read; then it takes as long as it is told.
_READ = "SELECT count(*), pg_sleep({seconds}) FROM (SELECT v1 FROM {table} LIMIT 1000) few"
_WRITE = "INSERT INTO {table} VALUES (now(), %s, 1.5, 2.5, 7, 'user')"


@dataclass(frozen=True)
class Statement:
    """One statement: what it was for, when it began and ended, and what it took beyond what it was told to take."""

    kind: str
    began: float
    ended: float
    took: float


@dataclass
class Users:
    """What the users saw; complete when the block has ended."""

    statements: list[Statement] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def longest(self, kind: str, windows: list[tuple[float, float]]) -> float:
        """The longest statement of a kind that ran in one of these windows."""
        return max((one.took for one in self._within(kind, windows)), default=0.0)

    def count(self, kind: str, windows: list[tuple[float, float]]) -> int:
        """How many there were."""
        return len(self._within(kind, windows))

    def _within(self, kind: str, windows: list[tuple[float, float]]) -> list[Statement]:
        return [
            one
            for one in self.statements
            if one.kind == kind and any(one.began < end and one.ended > begin for begin, end in windows)
        ]


@contextmanager
def users(dsn: str, table: str, readers: int = 4, writers: int = 2) -> Iterator[Users]:
    """Users in a process of their own, whose times are not disturbed by ours."""
    seen = Users()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, dsn, table, readers, writers), daemon=True)
    process.start()
    ours.recv()
    try:
        yield seen
    finally:
        ours.send("end")
        statements, errors = ours.recv()
        seen.statements += [Statement(*one) for one in statements]
        seen.errors += errors
        process.join()


def _run(pipe: Connection, dsn: str, table: str, readers: int, writers: int) -> None:
    done = threading.Event()
    statements: list[tuple[str, float, float, float]] = []
    errors: list[str] = []

    def use(kind: str, number: int) -> None:
        chance = random.Random(number)
        with psycopg.connect(dsn, autocommit=True) as session:
            while not done.is_set():
                seconds = chance.uniform(_SHORTEST, _LONGEST) if kind == "reader" else 0.0
                began = time.monotonic()
                try:
                    _statement(session, kind, table, seconds, chance.randrange(1000))
                except psycopg.Error as error:
                    errors.append(f"{kind}: {error.sqlstate} {error.diag.message_primary}")
                    time.sleep(_BETWEEN_WRITES)
                    continue
                ended = time.monotonic()
                statements.append((kind, began, ended, ended - began - seconds))
                if kind == "writer":
                    time.sleep(_BETWEEN_WRITES)

    kinds = ["reader"] * readers + ["writer"] * writers
    threads = [threading.Thread(target=use, args=(kind, number)) for number, kind in enumerate(kinds)]
    for thread in threads:
        thread.start()
    time.sleep(_LONGEST)
    pipe.send("ready")
    pipe.recv()
    done.set()
    for thread in threads:
        thread.join()
    pipe.send((statements, errors))


def _statement(session: psycopg.Connection[Any], kind: str, table: str, seconds: float, value: int) -> None:
    if kind == "reader":
        session.execute(_READ.format(table=table, seconds=seconds).encode()).fetchall()
    else:
        session.execute(_WRITE.format(table=table).encode(), [value], prepare=True)
