"""The command as a process of its own: run, run twice at once, killed at a named point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thermocline import crash

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as a program reads it: exactly one JSON object."""
        return json.loads(self.out)

    @property
    def was_killed(self) -> bool:
        """Whether it died of SIGKILL."""
        return self.code == -signal.SIGKILL


@dataclass(frozen=True)
class Command:
    """The thermocline command with a home of its own and nothing of the caller's settings."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, kill_at: str | None = None, **variables: str) -> subprocess.Popen[str]:
        """Start it without waiting."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("THERMOCLINE_")}
        environment = inherited | {"THERMOCLINE_HOME": str(self.home), "COLUMNS": "200"}
        if kill_at:
            environment[crash.VARIABLE] = kill_at
        return subprocess.Popen(
            [sys.executable, "-m", "thermocline", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home.parent,
            env=environment | self.environment | variables,
        )

    def run(self, *arguments: str, kill_at: str | None = None, **variables: str) -> Ended:
        """Run it to its end."""
        return finished(self.start(*arguments, kill_at=kill_at, **variables))


def finished(process: subprocess.Popen[str], seconds: float = 540) -> Ended:
    """Wait for a process that was started; on a machine with much to do, one with Spark takes minutes."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ended(process.returncode, out, err)
