"""Pacing: how many units of a class run at once over all nodes, and how much they may read and do in a second.

And that they rest while the database is slow to answer, whoever makes it so.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline import log as logs
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from psycopg import Connection

log = logs.get(__name__)
_NAP = 0.5
_LOOK = 5.0  # after so many seconds of waiting it is seen whether the rate is another one
_LONGEST_NAP = 8.0
_LONGEST_REST = 60.0  # then a step is made all the same: on a server that is always slow, work is slow and not stuck


@dataclass(frozen=True)
class _Answer:
    """What the database says, and how long it took to say so."""

    owed: tuple[float, ...]
    """In bytes and in operations."""
    rates: tuple[float, ...]
    """How much of it a second pays."""
    seconds: float
    slow_after: float = math.inf


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
        """Draw bytes and operations, wait as long as that takes, say how long; `check` may end the wait by raising.

        A rate that is changed meanwhile counts from then on. While the database is slow to answer, it rests besides.
        """
        answer = self._ask("work_spend", size=size, operations=operations)
        self._rest(answer, check)
        owed, rates = answer.owed, answer.rates
        waited = 0.0
        while (left := max(amount / rate for amount, rate in zip(owed, rates, strict=True))) > 0:
            check()
            nap = min(left, _NAP)
            self._pause.wait(nap)
            waited += nap
            owed = tuple(max(0.0, amount - rate * nap) for amount, rate in zip(owed, rates, strict=True))
            if waited // _LOOK > (waited - nap) // _LOOK:
                rates = self._ask("work_rates").rates
        return waited

    def _rest(self, answer: _Answer, check: Callable[[], None]) -> None:
        """Do nothing while the database is slow but ask now and then, by drawing nothing, less and less often."""
        first, nap, rested = answer, _NAP, 0.0
        while answer.seconds > answer.slow_after and rested < _LONGEST_REST:
            check()
            self._pause.wait(nap)
            rested, nap = rested + nap, min(2 * nap, _LONGEST_NAP)
            answer = self._ask("work_spend")
        if rested:
            log.info("database slow", answered_in=round(first.seconds, 3), rested=rested, now=round(answer.seconds, 3))

    def _ask(self, statement: str, *, size: float = 0, operations: float = 0) -> _Answer:
        values = {"class": self._class, "bytes": size, "operations": operations}
        with connect(self._dsn, autocommit=True) as session:
            began = time.monotonic()
            row: Sequence[Any] = session.execute(query(statement), values).fetchone() or (0, 0, None, None, None)
            took = time.monotonic() - began
        bounds = tuple(math.inf if bound is None else float(bound) for bound in row[2:])
        return _Answer(tuple(float(amount) for amount in row[:2]), bounds[:2], took, bounds[2])


def paced(
    dsn: str, job_class: str, sizes: Mapping[str, int], check: Callable[[], None] = lambda: None
) -> Callable[[str], None]:
    """To be called by name before each thing is read: goes on once the budget has its bytes, and `check` agrees."""
    budget = Budget(dsn, job_class)

    def before(name: str) -> None:
        check()
        budget.spend(size=sizes.get(name, 0), operations=1, check=check)

    return before
