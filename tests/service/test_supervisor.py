"""Parts are kept running: one that fails is degraded and comes back, the others do not notice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from service.watching import until
from thermocline import meters
from thermocline.errors import Refused
from thermocline.service.supervisor import State, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Fragile:
    """Runs, but for so many times."""

    def __init__(self, name: str, failures: list[Exception | None]) -> None:
        self.name = name
        self.failures = failures
        self.go = threading.Event()

    def run(self, stop: threading.Event, tell: Callable[[State, str], None]) -> None:
        if self.failures:
            failure = self.failures.pop(0)
            if failure is None:
                return
            raise failure
        tell(State.RUNNING, "")
        stop.wait()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def restarts(name: str) -> float:
    return meters.REGISTRY.get_sample_value("thermocline_service_part_restarts_total", {"part": name}) or 0


def up(name: str) -> float | None:
    return meters.REGISTRY.get_sample_value("thermocline_service_part_up", {"part": name})


def test_a_part_that_fails_is_started_again_and_the_others_go_on(stop: threading.Event) -> None:
    failing = Fragile("failing", [Refused("not now"), RuntimeError("bad\nluck"), None])
    steady = Fragile("steady", [])
    before = restarts("failing")
    supervisor = Supervisor([failing, steady], stop, first_pause=0.01)
    supervisor.start()
    until(lambda: supervisor.standings["failing"].state is State.RUNNING)
    found = supervisor.standings
    assert (found["failing"].restarts, found["failing"].last_error) == (3, "The failing ended by itself.")
    assert restarts("failing") - before == 3
    assert (up("failing"), up("steady")) == (1, 1)
    until(lambda: supervisor.standings["steady"].state is State.RUNNING)
    assert supervisor.standings["steady"].restarts == 0
    stop.set()
    assert supervisor.join(30) == []
    assert {part.state for part in supervisor.standings.values()} == {State.STOPPED}


def test_a_part_is_degraded_until_it_runs_again(stop: threading.Event) -> None:
    part = Fragile("broken", [RuntimeError("password=hunter2 is wrong")])
    supervisor = Supervisor([part], stop, first_pause=600)
    supervisor.start()
    until(lambda: supervisor.standings["broken"].state is State.DEGRADED)
    standing = supervisor.standings["broken"]
    assert "RuntimeError" in standing.why
    assert "hunter2" not in standing.why
    assert up("broken") == 0
    assert supervisor.alive
    stop.set()
    assert supervisor.join(30) == [], "a pause ends when it is told to stop"
