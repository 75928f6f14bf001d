"""The service: starts the parts, answers for them over HTTP, and ends them in good order."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psycopg
from prometheus_client import ProcessCollector

from thermocline import log as logs
from thermocline import meters
from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.masking import masked
from thermocline.service.http import Watch
from thermocline.service.parts import FeedPart, SchedulerPart, WorkerPart
from thermocline.service.state import DatabaseState
from thermocline.service.supervisor import State, Supervisor
from thermocline.work.worker import GRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thermocline.config import ServiceSettings, WorkSettings
    from thermocline.service.supervisor import Part
    from thermocline.stack import Stack

log = logs.get(__name__)
_PATIENCE = 2
# What the worker has beyond its grace to hand things back, and the feed to finish its batch.
_LAST_SECONDS = 60.0
_GOOD = (State.RUNNING, State.WAITING)


class Service:
    """Feed, scheduler and worker in one process, with at most one Spark driver."""

    def __init__(
        self,
        stack: Stack,
        *,
        settings: ServiceSettings | None = None,
        work: WorkSettings | None = None,
        parts: Sequence[Part] | None = None,
    ) -> None:
        self._stack = stack
        self._settings = settings or stack.settings.service
        self._stop = threading.Event()
        if parts is None:
            worker = WorkerPart(stack, work or stack.settings.work)
            parts = (FeedPart(stack), SchedulerPart(stack), worker)
        self._url = ""
        self._tell: Callable[[str], None] = lambda _news: None
        self._supervisor = Supervisor(parts, self._stop, changed=self._changed)

    def stop(self) -> None:
        """Begin nothing more, finish or hand back what runs."""
        self._stop.set()

    def run(self, tell: Callable[[str], None] = lambda _news: None) -> None:
        """Until stopped; says where it answers once it does, and which part is in trouble.

        Refuses an address that is taken before it starts.
        """
        state = DatabaseState(lambda: self._stack.dsn)
        process = ProcessCollector(registry=None)
        with Watch(
            self._settings.host, self._settings.port, meters.REGISTRY, healthy=self.healthy, ready=self.ready
        ) as watch:
            meters.REGISTRY.register(state)
            meters.REGISTRY.register(process)
            try:
                log.info("service started", url=watch.url)
                self._url, self._tell = watch.url, tell
                self._changed()
                self._supervisor.start()
                self._stop.wait()
                log.info("service stops")
                left = self._supervisor.join(GRACE + _LAST_SECONDS)
                if left:
                    log.error("parts did not end", parts=left)
                log.info("service stopped")
            finally:
                self._stop.set()
                meters.REGISTRY.unregister(state)
                meters.REGISTRY.unregister(process)

    def _changed(self) -> None:
        """Say where it answers, and which parts are in trouble."""
        standings = self._supervisor.standings.items()
        degraded = [f"; {name} is degraded: {part.why}" for name, part in standings if part.state is State.DEGRADED]
        self._tell(f"{self._url}/readyz, {self._url}/metrics{''.join(degraded)}")

    def healthy(self) -> tuple[bool, dict[str, Any]]:
        """Whether the process is worth keeping: every part is looked after, in whatever state it is."""
        alive = self._supervisor.alive or self._stop.is_set()
        return alive, {"healthy": alive}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything does its work: the database answers, and no part is starting, failed or stopping.

        Tables that the feed has set aside are named; the others go on, so they are no reason not to be ready.
        """
        database, set_aside = self._look()
        parts = self._supervisor.standings
        good = database is None and not self._stop.is_set() and all(part.state in _GOOD for part in parts.values())
        told = {name: asdict(part) for name, part in parts.items()}
        return good, {"ready": good, "database": database or "answers", "parts": told, "set_aside": set_aside}

    def _look(self) -> tuple[str | None, dict[str, str]]:
        """What is wrong with the database, and the tables that are set aside, with the reason."""
        try:
            with connect(self._stack.dsn, timeout=_PATIENCE) as session:
                return None, dict(session.execute(query("service_set_aside")).fetchall())
        except ThermoclineError as error:
            return error.message, {}
        except psycopg.Error as error:
            return masked(f"{type(error).__name__}: {error}".splitlines()[0]), {}
