"""The feed on Spark as a process of its own: `python -m harness.feed_process HOME SETTINGS`.

It reads orders from its input, one JSON object a line, and answers each with one: drain this database, and kill the
Python workers at this point. With THERMOCLINE_KILL_AT set it is itself that dies there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.feed_children import Outcome
from thermocline import crash
from thermocline.config import FeedSettings, HotSettings, Settings, SparkSettings
from thermocline.errors import ThermoclineError
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_SECONDS = 120
_TESTS = Path(__file__).parents[1]


def settings(home: str, dsn: str, more: Mapping[str, Any] | None = None) -> Settings:
    """Of the process, and of whoever looks at what it did; with further sections, in place of these."""
    sections: dict[str, Any] = {
        "feed": FeedSettings(interval=0),
        "spark": SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}),
    }
    return Settings(home=Path(home), hot=HotSettings(dsn=dsn), **(sections | dict(more or {})))


class FeedProcess:
    """A driver that lives for as many orders as it is given, or until it is killed."""

    def __init__(self, home: Path, kill_at: str | None = None, more: Mapping[str, Any] | None = None) -> None:
        self.home = home
        environment = {k: v for k, v in os.environ.items() if not k.startswith("THERMOCLINE_")}
        environment |= {"PYTHONPATH": str(_TESTS), crash.VARIABLE: kill_at or ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.feed_process", str(home), json.dumps(more or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def drain(self, dsn: str, kill_workers_at: str | None = None) -> Outcome:
        """Bring a database to the lake."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"dsn": dsn, "kill": kill_workers_at}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer:
            return Outcome(**json.loads(answer))
        code = self._process.wait(_SECONDS)
        return Outcome("killed") if code == -signal.SIGKILL else Outcome("failed", "died", f"exit code {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """It, and the Java that it started, which outlives a driver that was killed for a moment."""
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


# ---- in the process --------------------------------------------------------------------------


def _drain(home: str, more: Mapping[str, Any], order: dict[str, Any]) -> Outcome:
    stack = Stack(settings(home, order["dsn"], more))
    workers = stack.spark().sparkContext.environment  # the workers of what is registered from now on
    workers.pop(crash.VARIABLE, None)
    if order["kill"]:
        workers[crash.VARIABLE] = order["kill"]
    try:
        with stack.feed() as service:
            return Outcome("done", caught_up=service.drain().caught_up)
    except ThermoclineError as error:
        return Outcome("failed", error.code, error.message, is_clear=True)
    except Exception as error:  # whoever gave the order is told, whatever it is
        return Outcome("failed", type(error).__name__, (str(error).strip().splitlines() or [""])[0])


def main() -> None:
    """Take orders until there are no more."""
    for line in sys.stdin:
        outcome = _drain(sys.argv[1], json.loads(sys.argv[2]), json.loads(line))
        sys.stdout.write(json.dumps(outcome.__dict__) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
