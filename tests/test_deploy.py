"""The examples in deploy/ name commands, settings and files that there are."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import typer.main

from thermocline.cli.main import app
from thermocline.config import ServiceSettings, Settings
from thermocline.errors import ExitCode
from thermocline.service import service
from thermocline.work.worker import GRACE

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINER = (DEPLOY / "Containerfile").read_text()


def commands() -> set[str]:
    group = typer.main.get_command(app)
    return set(group.commands)  # type: ignore[attr-defined]


def read(unit: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read_string(unit.read_text())
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_calls_commands_that_there_are(unit: Path) -> None:
    calls = {key: value for key, value in read(unit)["Service"].items() if key.startswith("Exec")}
    assert "ExecStart" in calls
    for call in calls.values():
        program, name = call.split()
        assert Path(program).name == "thermocline"
        assert name in commands()


def test_the_service_is_given_the_time_that_it_takes_to_end() -> None:
    told = read(DEPLOY / "thermocline.service")["Service"]
    assert int(told["TimeoutStopSec"]) > GRACE + service._LAST_SECONDS
    never = {int(code) for code in told["RestartPreventExitStatus"].split()}
    assert never == {ExitCode.USAGE, ExitCode.CONFIGURATION}


def test_every_setting_that_they_give_is_one() -> None:
    texts = [CONTAINER, *(unit.read_text() for unit in UNITS)]
    given = {name for text in texts for name in re.findall(r"THERMOCLINE_[A-Z_]+", text)}
    fields = Settings.model_fields
    for name in given:
        first, _, rest = name.removeprefix("THERMOCLINE_").lower().partition("_")
        assert first in fields, name
        section = fields[first].annotation
        assert not rest or rest in section.model_fields, name  # type: ignore[union-attr]


def test_the_container_is_made_of_files_that_there_are() -> None:
    copied = [line.split()[1:-1] for line in CONTAINER.splitlines() if line.startswith("COPY")]
    assert copied
    assert all((ROOT / name).exists() for names in copied for name in names)
    (called,) = re.findall(r"^ENTRYPOINT (.*)$", CONTAINER, re.MULTILINE)
    assert set(re.findall(r"thermocline (\w+)", called)) <= commands()
    port = str(ServiceSettings().port)
    assert re.findall(r"^EXPOSE (\d+)$", CONTAINER, re.MULTILINE) == [port]
    assert f"127.0.0.1:{port}/healthz" in CONTAINER
