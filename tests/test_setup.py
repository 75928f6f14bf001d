"""Setting up: the right Python is found, and a machine without one is told what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "find-python.sh"


def python(folder: Path, name: str, version: str) -> None:
    """A python that says its version and fails every check of being new enough, or passes it."""
    folder.mkdir(exist_ok=True)
    good = "exit 0" if version >= "3.11" else "exit 1"
    program = folder / name
    program.write_text(f'#!/bin/sh\n[ "$1" = "--version" ] && echo "Python {version}" && exit 0\n{good}\n')
    program.chmod(0o755)


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", SCRIPT, *arguments], env={"PATH": str(path)}, capture_output=True, text=True, check=True
    )


def test_a_new_enough_python_is_found_behind_an_old_one(tmp_path: Path) -> None:
    python(tmp_path, "python3", "3.09")
    python(tmp_path, "python3.12", "3.12")
    assert run(tmp_path).stdout.strip() == str(tmp_path / "python3.12")


@pytest.mark.parametrize("version", ["3.09", None])
def test_a_python_that_is_too_old_or_none_is_named(tmp_path: Path, version: str | None) -> None:
    if version:
        python(tmp_path, "python3", version)
    assert run(tmp_path).stdout == ""
    said = run(tmp_path, "--explain").stderr
    assert "Thermocline needs Python 3.11 to 3.14" in said
    assert (f"Python {version}" if version else "no python3 at all") in said
    assert "make PYTHON=" in said


def test_make_stops_with_that_message_and_makes_nothing(tmp_path: Path) -> None:
    for name in ("Makefile", "scripts", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    ended = subprocess.run(["make", "PYTHON=", "setup"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "Thermocline needs Python 3.11 to 3.14" in ended.stderr
    assert not (tmp_path / ".venv").exists()
