"""The parts of the service: the feed, the scheduler, the worker. Spark is started by the first that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thermocline.service.supervisor import State
from thermocline.work.jobs import jobs
from thermocline.work.scheduler import TICK, Scheduler
from thermocline.work.worker import GRACE, Worker

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from thermocline.config import WorkSettings
    from thermocline.stack import Stack

    Tell = Callable[[State, str], None]

_LOOK_SECONDS = 5.0
_NOTHING_SYNCED = "no table is synced"
_ELSEWHERE = "another process runs the feed"


class FeedPart:
    """Brings changes to the lake once a table is synced, unless another process does."""

    name = "feed"

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def run(self, stop: threading.Event, tell: Tell) -> None:
        """Until told to stop."""
        while not stop.is_set():
            stands = self._stack.feed_status()
            if not stands.tables and stands.slot and not stands.running:
                self._end()
            if not stands.tables or stands.running:
                tell(State.WAITING, _ELSEWHERE if stands.running else _NOTHING_SYNCED)
                stop.wait(_LOOK_SECONDS)
                continue
            self._feed(stop, tell)

    def _end(self) -> None:
        """The last table was dropped: the slot goes, too, for it would keep the log for nobody."""
        with self._stack.own_feed() as feed:
            feed.tend()

    def _feed(self, stop: threading.Event, tell: Tell) -> None:
        from thermocline.feed.refusals import FeedTaken  # with Arrow and all: only once a table is synced

        try:
            with self._stack.feed() as service:
                tell(State.RUNNING, "")
                service.run(lambda _progress: service.stop() if stop.is_set() else None)
        except FeedTaken:  # it was quicker
            tell(State.WAITING, _ELSEWHERE)
            stop.wait(_LOOK_SECONDS)


class SchedulerPart:
    """Makes the work that is due."""

    name = "scheduler"

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def run(self, stop: threading.Event, tell: Tell) -> None:
        """Until told to stop."""
        scheduler = Scheduler(self._stack.dsn, jobs(self._stack), timeout=self._stack.settings.hot.connect_timeout)
        wait = 0.0
        while not stop.wait(wait):
            scheduler.tick()
            tell(State.RUNNING, "")
            wait = TICK


class WorkerPart:
    """Does it."""

    name = "worker"

    def __init__(self, stack: Stack, settings: WorkSettings, *, grace: float = GRACE) -> None:
        self._stack = stack
        self._settings = settings
        self._grace = grace

    def run(self, stop: threading.Event, tell: Tell) -> None:
        """Until told to stop; what runs then is finished or handed back."""
        timeout = self._stack.settings.hot.connect_timeout

        def told(trouble: str | None) -> None:
            tell(State.RUNNING if trouble is None else State.DEGRADED, trouble or "")

        worker = Worker(self._stack.dsn, jobs(self._stack), self._settings, timeout=timeout, stop=stop, told=told)
        worker.run(grace=self._grace)
