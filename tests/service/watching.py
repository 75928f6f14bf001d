"""The service as a process, and its answers over HTTP."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import Command


def until(happened: Callable[[], Any], seconds: float = 180) -> Any:
    """What it answers, once it is something."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)
    return found


def asked(url: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 (our own address)
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(url: str) -> dict[str, float]:
    """Every sample by its name and its labels, as name{a=1,b=2}, without our prefix."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(asked(f"{url}/metrics")[1]):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix("thermocline_") + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


class Running:
    """`thermocline run` on a free port, which its log names."""

    def __init__(self, command: Command, *arguments: str) -> None:
        self._log = command.home / "logs" / "thermocline.log"
        before = self._urls()
        self.process: subprocess.Popen[str] = command.start("run", "--port", "0", *arguments)
        try:
            self.url: str = until(lambda: self._urls()[len(before) :])[0]
        except BaseException:
            self.end()
            raise

    def _urls(self) -> list[str]:
        return [line["url"] for line in log_lines(self._log) if line["event"] == "service started"]

    def readiness(self) -> dict[str, Any]:
        """What /readyz says; whether the status agrees is checked."""
        status, body = asked(f"{self.url}/readyz")
        said: dict[str, Any] = json.loads(body)
        assert (status == 200) == said["ready"]
        return said

    def wait_until_ready(self) -> dict[str, Any]:
        """What it says then: the next time the database may be slow to answer."""
        found: dict[str, Any] = until(lambda: (said := self.readiness())["ready"] and said)
        return found

    def children(self, name: str) -> list[psutil.Process]:
        """Those of its processes that are called like this."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it may just have ended
                if name in child.name() and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def log_lines(file: Path) -> list[dict[str, Any]]:
    """What was logged so far, without a line that is just being written."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if re.fullmatch(r"\{.*\}", line)]
