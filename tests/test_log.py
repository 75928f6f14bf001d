"""Logs: JSON in the home, silent as a library, and never a secret."""

from __future__ import annotations

import json
import logging
import stat
from typing import TYPE_CHECKING

import pytest

from thermocline import log as logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "logs" / "thermocline.log"
    for handler in list(logging.getLogger("thermocline").handlers):
        handler.close()
        logging.getLogger("thermocline").removeHandler(handler)
    logging.getLogger("thermocline").addHandler(logging.NullHandler())


def lines(file: Path) -> list[dict[str, object]]:
    """Of this module: a thread that another test left behind may say something, too."""
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in found if line["logger"] == "thermocline.test"]


def test_each_line_is_json_with_time_level_and_names(tmp_path: Path, file: Path) -> None:
    logs.set_up(tmp_path)
    logs.get("thermocline.test").info("chunk dropped", table="metrics", rows=3)
    (line,) = lines(file)
    assert {k: line[k] for k in ("event", "level", "table", "rows", "logger")} == {
        "event": "chunk dropped",
        "level": "info",
        "table": "metrics",
        "rows": 3,
        "logger": "thermocline.test",
    }
    assert str(line["timestamp"]).endswith("Z")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_secret_is_written_by_name_in_text_or_in_a_traceback(tmp_path: Path, file: Path) -> None:
    logs.set_up(tmp_path)
    log = logs.get("thermocline.test")
    log.info("open", dsn="postgresql://me:hunter22@db/x", password="hunter22", nested={"token": "hunter22"})
    try:
        raise RuntimeError("cannot reach postgresql://me:hunter22@db/x")
    except RuntimeError:
        log.exception("failed")
    assert "hunter22" not in file.read_text()
    assert "RuntimeError" in str(lines(file)[1]["exception"])


def test_the_level_is_honoured(tmp_path: Path, file: Path) -> None:
    logs.set_up(tmp_path, "warning")
    logs.get("thermocline.test").info("quiet")
    logs.get("thermocline.test").warning("loud")
    assert [line["event"] for line in lines(file)] == ["loud"]


def test_without_a_home_nothing_is_made_and_nothing_fails(tmp_path: Path, file: Path) -> None:
    logs.set_up(tmp_path / "nowhere")
    logs.get("thermocline.test").error("lost")
    assert not (tmp_path / "nowhere").exists()


def test_as_a_library_it_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logs.get("thermocline.test").warning("nobody asked")
    assert capsys.readouterr() == ("", "")
