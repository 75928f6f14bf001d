"""Procrastinate, a job queue in PostgreSQL, draining jobs that do nothing from the same server.

It comes from PyPI, once, into the cache that the tests use, and runs in processes of its own: no dependency of ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import scratch
from benchmarks.frame import progress

VERSION = "3.10.0"
_FOLDER = Path(sys.prefix) / ".test-home" / f"procrastinate-{VERSION}"
_PROGRAM = Path(__file__).with_name("procrastinate_program.py")


def prepare() -> None:
    """Fetch it, if that was not done before."""
    if not (_FOLDER / "procrastinate").exists():
        progress(f"Fetching procrastinate {VERSION} ...")
        partly = _FOLDER.with_name(f"{_FOLDER.name}-{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(partly)]
        subprocess.run([*command, f"procrastinate=={VERSION}", "psycopg[binary]"], check=True)
        partly.rename(_FOLDER)


def command(*arguments: str) -> list[str]:
    """Runs `procrastinate_program.py`."""
    return [sys.executable, "-P", str(_PROGRAM), *arguments]


def environment() -> dict[str, str]:
    """In which it is found."""
    return scratch.environment(PYTHONPATH=str(_FOLDER))
