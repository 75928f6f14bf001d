"""Pacing: how many units of a class run at once over all nodes, and how much they may read and do in a second."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

_NAP = 0.5


@contextmanager
def seat(session: Connection, job_class: str) -> Iterator[int | None]:
    """One of the seats of a class while the block lasts; None when all are taken.

    A seat is an advisory lock of the session: it is free again when its holder dies, and a worker that sleeps past its
    lease still has it, so there are never more at work than there are seats.
    """
    row = session.execute(query("work_seat"), {"class": job_class}).fetchone()
    try:
        yield row[0] if row else None
    finally:
        if row and not session.closed:
            session.execute(query("work_seat_free"), {"class": job_class, "seat": row[0]})


class Budget:
    """The bytes and operations that all nodes together may spend on a class, drawn from one bucket in PostgreSQL.

    Spending is never refused, it is waited for: whoever draws more than there is owes, and waits until it is paid.
    """

    def __init__(self, dsn: str, job_class: str) -> None:
        self._dsn = dsn
        self._class = job_class
        self._pause = threading.Event()

    def spend(
        self,
        *,
        size: float = 0,
        operations: float = 0,
        check: Callable[[], None] = lambda: None,
    ) -> float:
        """Draw bytes and operations, wait as long as that takes, say how long; `check` may end the wait by raising."""
        with connect(self._dsn, autocommit=True) as session:
            values = {"class": self._class, "bytes": size, "operations": operations}
            row = session.execute(query("work_spend"), values).fetchone()
        wait = left = float(row[0]) if row else 0.0
        while left > 0:
            check()
            self._pause.wait(min(left, _NAP))
            left -= _NAP
        return wait
