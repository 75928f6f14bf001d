"""What a ChronoTable needs from time to time: chunks for the next days, and a registry that agrees with the catalog."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors as pg

from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

T = TypeVar("T")
_PATIENCE = 10.0
_PAUSE = 0.2


_FAILED = "it could not be seen to"


@dataclass(frozen=True)
class Finding:
    """A table or a chunk that was not as it is registered, and what became of it."""

    object: str
    finding: str
    done: str

    @property
    def open(self) -> bool:
        """Whether somebody has to decide."""
        return self.done.startswith("left alone")

    @property
    def failed(self) -> bool:
        """Whether it is an error that was met, which may pass."""
        return self.finding.startswith(_FAILED)


@dataclass(frozen=True)
class Maintained:
    """A table: how many chunks were made, and what else was found."""

    table: str
    chunks_made: int
    findings: tuple[Finding, ...]


def maintain(dsn: str, table: str | None = None, *, timeout: int = 10) -> list[Maintained]:
    """Make missing chunks and reconcile, table by table, each in a transaction of its own.

    Our functions give way soon, so that nobody queues behind them; it is tried again for some seconds.
    """
    schema, name = names.split(table) if table else (None, None)
    done = []
    with connect(dsn, timeout=timeout, autocommit=True) as session:
        for number, title in session.execute(query("maintained_tables"), {"table": name, "schema": schema}).fetchall():
            findings: tuple[Finding, ...]
            try:
                findings = _patiently(_reconciled, session, number)
            except psycopg.Error as error:
                findings = (_failed(session, title, error),)
            made = 0
            try:
                made = _patiently(_made, session, number)
            except psycopg.Error as error:  # the others go on
                findings = (*findings, _failed(session, title, error))
            done.append(Maintained(title, made, findings))
        session.execute("SELECT lakets._prune_marks()")
    return done


def reconcile(session: Connection, table: int, title: str) -> tuple[Finding, ...]:
    """Bring registry and catalog into agreement for one table; what goes wrong is a finding, too."""
    try:
        return _reconciled(session, table)
    except psycopg.Error as error:
        return (_failed(session, title, error),)


def _reconciled(session: Connection, table: int) -> tuple[Finding, ...]:
    with session.transaction():
        found = session.execute("SELECT object, finding, done FROM lakets._reconcile(%s)", [table])
        return tuple(Finding(*row) for row in found)


def _made(session: Connection, table: int) -> int:
    row = session.execute(query("maintain_partitions"), {"id": table}).fetchone()
    return row[0] if row and row[0] else 0


def _patiently(step: Callable[[Connection, int], T], session: Connection, table: int) -> T:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return step(session, table)
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _failed(session: Connection, title: str, error: psycopg.Error) -> Finding:
    if session.closed:
        raise error
    said = error.diag.message_primary or str(error)
    hint = error.diag.message_hint or "remove what is in the way; it is tried again"
    return Finding(title, f"{_FAILED}: {said}", f"left alone: {hint}")
