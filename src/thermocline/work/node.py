"""A node of background work: a scheduler and a worker in one process. As many as wanted may run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import ThermoclineError
from thermocline.work.desk import Desk
from thermocline.work.jobs import UnknownKind, jobs, require
from thermocline.work.scheduler import TICK, Scheduler
from thermocline.work.worker import GRACE, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.stack import Stack
    from thermocline.work.worker import Tally

log = logs.get(__name__)


class Node:
    """Makes what is due and does what is there, until it is stopped."""

    def __init__(self, stack: Stack, *, kinds: Sequence[str] | None = None, concurrency: int | None = None) -> None:
        if kinds is not None and not kinds:
            raise UnknownKind("No kind of work is named.")
        require(kinds or ())
        settings = stack.settings.work
        if concurrency is not None:
            settings = settings.model_copy(update={"concurrency": concurrency})
        every = jobs(stack)
        timeout = stack.settings.hot.connect_timeout
        self._scheduler = Scheduler(stack.dsn, every, timeout=timeout)
        self.worker = Worker(stack.dsn, every, settings, kinds=kinds, timeout=timeout)
        self._stop = threading.Event()

    def stop(self) -> None:
        """Begin nothing more, finish or hand back what runs."""
        self._stop.set()
        self.worker.stop()

    def once(self) -> Tally:
        """Make what is due, do all of it, and end."""
        self._scheduler.tick()
        return self.worker.run(once=True)

    def run(self, *, grace: float = GRACE) -> Tally:
        """Until stopped."""
        ticking = threading.Thread(target=self._tick, name="scheduler", daemon=True)
        ticking.start()
        try:
            return self.worker.run(grace=grace)
        finally:
            self._stop.set()
            ticking.join(TICK)

    def _tick(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            wait = TICK
            try:
                self._scheduler.tick()
            except ThermoclineError as error:
                log.warning("nothing scheduled", code=error.code, message=error.message)
            except Exception:  # the next tick may do better
                log.exception("nothing scheduled")


def desk(stack: Stack) -> Desk:
    """Work as people see it."""
    return Desk(stack, jobs(stack))
