"""Timelake's materialised rollups, on the same rows: a library over Iceberg files, so without transactions of rows.

It comes from PyPI, once, into the cache that the tests use, and runs in a process of its own: no dependency of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import scratch
from benchmarks.frame import progress

VERSION = "0.7.0"
NOTE = f"timelake {VERSION}, a folder on disk"
_FOLDER = Path(sys.prefix) / ".test-home" / f"timelake-{VERSION}"
_PROGRAM = Path(__file__).with_name("timelake_program.py")


def measure(folder: Path, devices: int, days: int, late: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each piece of work, by its name."""
    prepare()
    arguments = [str(folder / "lake"), *map(str, (devices, days, late, rounds))]
    env = scratch.environment(PYTHONPATH=str(_FOLDER))
    # -P: else this file, beside the program, would be what it imports.
    said = scratch.run_program([sys.executable, "-P", _PROGRAM, *arguments], env, folder, seconds=600)
    found: dict[str, list[float]] = json.loads(said.splitlines()[-1])
    return found


def prepare() -> None:
    """Fetch it, if that was not done before; it finds pyarrow here."""
    if not (_FOLDER / "timelake").exists():
        progress(f"Fetching timelake {VERSION} ...")
        partly = _FOLDER.with_name(f"{_FOLDER.name}-{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partly)]
        subprocess.run([*command, f"timelake=={VERSION}"], check=True)
        partly.rename(_FOLDER)
