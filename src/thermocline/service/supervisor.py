"""Keeps the parts of the service running: one that fails is shown as degraded and started anew after a while."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from thermocline import log as logs
from thermocline import meters
from thermocline.errors import ThermoclineError
from thermocline.masking import masked
from thermocline.work import backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = logs.get(__name__)
_LONGEST_PAUSE = 60.0
# A part that ran for so long before it failed begins again with short pauses.
_CALM = 300.0


class State(StrEnum):
    """How a part is. Waiting is as good as running: there is nothing for it to do."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    DEGRADED = "degraded"
    STOPPED = "stopped"


class Part(Protocol):
    """One thing that the service does."""

    name: str

    def run(self, stop: threading.Event, tell: Callable[[State, str], None]) -> None:
        """Until told to stop; says how it is. What it raises makes it fail."""


@dataclass(frozen=True)
class Standing:
    """How a part is, since when, and how often it failed."""

    state: State
    why: str = ""
    since: datetime | None = None
    restarts: int = 0
    last_error: str | None = None


class EndedByItself(ThermoclineError):
    """A part of the service ended without being told to."""

    code = "service.ended"
    next_step_by_default = "It is started again; the log says more."


class Supervisor:
    """Each part has a thread of its own."""

    def __init__(
        self,
        parts: Sequence[Part],
        stop: threading.Event,
        *,
        first_pause: float = 1.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called when the standing of a part has changed."""
        self._stop = stop
        self._changed = changed
        self._first_pause = first_pause
        self._lock = threading.Lock()
        self._standings = {part.name: Standing(State.STARTING) for part in parts}
        self._threads = [
            threading.Thread(target=self._keep, args=(part,), name=part.name, daemon=True) for part in parts
        ]

    @property
    def standings(self) -> dict[str, Standing]:
        """How each part is."""
        with self._lock:
            return dict(self._standings)

    @property
    def alive(self) -> bool:
        """Whether every part is looked after."""
        return all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start every part."""
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> list[str]:
        """Wait for the parts to end, for so long in all; returns those that have not."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _keep(self, part: Part) -> None:
        failures = 0
        while not self._stop.is_set():
            began = time.monotonic()
            self._tell(part.name, State.STARTING, "")
            try:
                part.run(self._stop, lambda state, why: self._tell(part.name, state, why))
                if not self._stop.is_set():
                    raise EndedByItself(f"The {part.name} ended by itself.")
            except Exception as error:  # whatever it is, the others go on and this one is tried again
                failures = 1 if time.monotonic() - began > _CALM else failures + 1
                pause = backoff.wait_after(failures, first=self._first_pause, most=_LONGEST_PAUSE)
                self._failed(part.name, error, pause)
                self._stop.wait(pause)
        self._tell(part.name, State.STOPPED, "")

    def _tell(self, name: str, state: State, why: str) -> None:
        with self._lock:
            before = self._standings[name]
            if (before.state, before.why) == (state, why) or (before.state, state) == (State.DEGRADED, State.STARTING):
                return  # one that failed is degraded until it runs again
            self._standings[name] = Standing(state, why, datetime.now(UTC), before.restarts, before.last_error)
        meters.PART_UP.labels(name).set(state in (State.RUNNING, State.WAITING))
        log.info("part", part=name, state=str(state), why=why)
        self._changed()

    def _failed(self, name: str, error: Exception, pause: float) -> None:
        said = error.message if isinstance(error, ThermoclineError) else f"{type(error).__name__}: {error}"
        said = masked((said.strip().splitlines() or [type(error).__name__])[0])
        with self._lock:
            before = self._standings[name]
            self._standings[name] = Standing(State.DEGRADED, said, datetime.now(UTC), before.restarts + 1, said)
        meters.PART_UP.labels(name).set(0)
        meters.PART_RESTARTS.labels(name).inc()
        unexpected = None if isinstance(error, ThermoclineError) else error
        log.error("part failed", part=name, message=said, again_in_seconds=round(pause, 1), exc_info=unexpected)
        self._changed()
