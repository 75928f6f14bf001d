"""Parts are kept running: one that fails is degraded and comes back, the others do not notice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from service.watching import until
from thermocline import meters
from thermocline.config import ServiceSettings, Settings
from thermocline.errors import Refused
from thermocline.service.service import Service
from thermocline.service.supervisor import State, Supervisor
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
    until(lambda: (up("failing"), up("steady")) == (1, 1))
    assert supervisor.standings["steady"].state is State.RUNNING
    assert supervisor.standings["steady"].restarts == 0
    stop.set()
    assert supervisor.join(30) == []
    assert {part.state for part in supervisor.standings.values()} == {State.STOPPED}


def test_the_service_says_where_it_answers_and_what_is_in_trouble(tmp_path: Path) -> None:
    told: list[str] = []
    stack = Stack(Settings(home=tmp_path))
    failing = Fragile("failing", [Refused("not now")])
    service = Service(stack, settings=ServiceSettings(port=0), parts=[failing, Fragile("steady", [])])
    thread = threading.Thread(target=service.run, args=(told.append,))
    thread.start()
    try:
        until(lambda: any("degraded" in news for news in told) and "degraded" not in told[-1])
    finally:
        service.stop()
        thread.join(60)
    assert told[0].startswith("http://127.0.0.1:")
    assert told[0].endswith("/metrics")
    assert any(news == f"{told[0]}; failing is degraded: not now" for news in told)


def test_a_part_is_degraded_until_it_runs_again(stop: threading.Event) -> None:
    part = Fragile("broken", [RuntimeError("password=hunter2 is wrong")])
    supervisor = Supervisor([part], stop, first_pause=600)
    supervisor.start()
    until(lambda: supervisor.standings["broken"].state is State.DEGRADED)
    standing = supervisor.standings["broken"]
    assert "RuntimeError" in standing.why
    assert "hunter2" not in standing.why
    until(lambda: up("broken") == 0)
    assert supervisor.alive
    stop.set()
    assert supervisor.join(30) == [], "a pause ends when it is told to stop"
