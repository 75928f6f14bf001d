"""The list of promises is whole, and the count of those that are held is honest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import promises

ROOT = Path(__file__).parents[1]
PER_DOCUMENT = {"000": 43, "001": 21, "002": 37, "003": 61, "004": 39}


def test_every_promise_is_listed_once_with_a_sentence() -> None:
    known = promises.promises()
    expected = [f"{group}-{n:02}" for group, count in PER_DOCUMENT.items() for n in range(1, count + 1)]
    assert list(known) == expected
    assert all(len(sentence.split()) >= 5 for sentence in known.values())


def test_the_report_names_the_tests_and_ends_with_the_count() -> None:
    lines = promises.report({"000-01": "a", "000-02": "b"}, {"000-02": {"tests/x.py::test_y"}})
    assert lines == [
        "not yet 000-01  a",
        "held    000-02  b",
        "          tests/x.py::test_y",
        "1 of 2 held",
    ]


def test_a_promise_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SystemExit, match="999-01"):
        promises.report({"000-01": "a"}, {"999-01": {"tests/x.py::test_y"}})


def test_the_command_reads_the_markers_of_the_real_tests() -> None:
    ended = subprocess.run(
        [sys.executable, "scripts/promises.py"], cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = ended.stdout.splitlines()[-1].split()
    assert last[1:] == ["of", "201", "held"]
    assert int(last[0]) == sum(line.startswith("held") for line in ended.stdout.splitlines())
