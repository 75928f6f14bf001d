"""Ground for measuring: folders, processes and servers of a benchmark's own, all gone again when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.frame import Seconds, progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What the caller has set for Thermocline, PostgreSQL, Spark, make and git must not change the figures.
_NOT_INHERITED = ("THERMOCLINE_", "PG", "SPARK_", "PYSPARK_", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "GIT_")
_NOT_INHERITED_NAMES = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NAME"}
_ANSWERED = "answered"
_GRACE_SECONDS = 20.0


class ProgramFailed(Exception):
    """A program that was to be measured did not do its work."""


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is removed with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="thermocline-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)
    if Path(name).exists():
        progress(f"Could not be removed: {name}")


def environment(**variables: str) -> dict[str, str]:
    """The caller's environment without settings of the things that are measured, and these variables."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_NOT_INHERITED) and name not in _NOT_INHERITED_NAMES
    }
    return inherited | variables


def run_program(command: Sequence[str | Path], env: Mapping[str, str], cwd: Path, seconds: float = 300) -> str:
    """Run it to its end and return what it wrote to stdout; it and its children never outlive this call."""
    with subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            _end_group(process.pid)
            raise
    if process.returncode != 0:
        raise ProgramFailed(f"{Path(command[0]).name} ended with {process.returncode}:\n{_tail(out + err)}")
    return out


# ---- a Python process that answers and then waits --------------------------------------------


@dataclass(frozen=True)
class Answer:
    """A process that has done its work and waits, and how long that took from its start."""

    pid: int
    seconds: Seconds


@contextmanager
def answering(program: str, env: Mapping[str, str], cwd: Path, timeout: float = 300) -> Iterator[Answer]:
    """A fresh Python that runs the program and then waits; on leaving, it and its children are gone."""
    program = f"import sys\n{program}\nprint({_ANSWERED!r}, flush=True)\nsys.stdin.read()\n"
    errors = cwd / "answering.log"
    with errors.open("wb") as file:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    too_late = threading.Timer(timeout, _end_group, [process.pid])
    too_late.start()
    try:
        if not any(line.strip() == _ANSWERED for line in process.stdout or ()):
            raise ProgramFailed(f"No answer; the process said:\n{_tail(errors.read_text(errors='replace'))}")
        took = Seconds(time.perf_counter() - began)
        too_late.cancel()
        yield Answer(process.pid, took)
        _close(process)
        _wait_for_group(process.pid)
    finally:
        too_late.cancel()
        _end_group(process.pid)
        _close(process)
        process.wait()


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


# ---- a home with a server --------------------------------------------------------------------


@dataclass(frozen=True)
class ScratchHome:
    """The real command on a home of its own."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process use this home and nothing else."""
        return environment(THERMOCLINE_HOME=str(self.root))

    def thermocline(self, *arguments: str) -> str:
        """Run the installed command, as a user does."""
        command = Path(sys.executable).with_name("thermocline")
        return run_program([command, *arguments], self.environment, self.root.parent)

    def facts_of_up(self) -> dict[str, Any]:
        """What `up` says, the server being up afterwards."""
        said: dict[str, Any] = json.loads(self.thermocline("up", "--json"))
        return said


@contextmanager
def stopped_afterwards(root: Path) -> Iterator[ScratchHome]:
    """A home whose server, if one is started, is stopped whatever happens."""
    home = ScratchHome(root)
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield home
    finally:
        home.thermocline("down")


# ---- ending what was started -----------------------------------------------------------------


def _members(group: int) -> list[psutil.Process]:
    """The living processes of a process group; those that only wait to be reaped do not count."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return found


def _wait_for_group(group: int) -> bool:
    deadline = time.monotonic() + _GRACE_SECONDS
    while _members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _end_group(group: int) -> None:
    """End the processes that one of ours started as its group; politely first."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in _members(group):
            try:
                process.send_signal(how)
            except psutil.Error:
                continue
        if _wait_for_group(group):
            return


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
