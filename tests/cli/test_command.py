"""The command: help, JSON, exit codes, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
from typer.main import get_group

from harness.homes import home_with_jars
from harness.processes import Command, finished
from thermocline import __version__
from thermocline.cli.main import app
from thermocline.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from harness.servers import Server

VERBS = sorted(get_group(app).commands)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_an_example_and_json(command: Command, verb: str) -> None:
    ended = command.run(verb, "--help")
    assert ended.code == 0
    assert "Example:" in ended.out
    assert "--json" in ended.out


def test_the_help_lists_every_verb_and_what_the_exit_codes_mean(command: Command) -> None:
    ended = command.run("--help")
    for verb in VERBS:
        assert f"  {verb} " in ended.out
    for code in ExitCode:
        assert f"{code.value} {code.name.lower()}" in " ".join(ended.out.split())


@pytest.mark.parametrize("arguments", [["nonsense"], ["up", "--nonsense"], ["up", "too", "many"], []])
def test_what_is_not_understood_exits_with_2(command: Command, arguments: list[str]) -> None:
    ended = command.run(*arguments)
    assert ended.code == 2
    assert "Usage:" in ended.out + ended.err
    assert not command.home.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["up", "--nonsense"], "--nonsense"),
        (["work", "--concurrency", "0"], "--concurrency"),
        (["work", "list", "--limit", "many"], "--limit"),
    ],
)
def test_programs_are_told_in_json_what_is_not_understood(command: Command, arguments: list[str], said: str) -> None:
    ended = command.run(*arguments, "--json")
    assert ended.code == 2
    assert ended.json["error"]["code"] == "usage"
    assert said in ended.json["error"]["message"]
    assert ended.json["error"]["exit_code"] == 2
    assert "--help" in ended.json["error"]["next_step"]
    assert ended.err == ""


def test_version(command: Command) -> None:
    assert command.run("version", "--json").json["thermocline"] == __version__
    assert f"Thermocline {__version__}" in command.run("version").out


@pytest.mark.parametrize("verb", ["status", "config", "version", "doctor", "dsn", "psql"])
def test_what_only_tells_makes_no_home(command: Command, verb: str) -> None:
    command.run(verb)
    assert not command.home.exists()


def test_before_the_first_up_the_server_is_simply_not_there(command: Command) -> None:
    status = command.run("status", "--json")
    assert (status.code, status.json["running"]) == (5, False)
    dsn = command.run("dsn", "--json")
    assert (dsn.code, dsn.json["error"]["next_step"]) == (5, "Start it with `thermocline up`.")
    assert command.run("down", "--json").json == {"stopped": False}


@pytest.mark.parametrize(
    ("dsn", "code", "error"),
    [
        ("postgresql://me:hunter22@127.0.0.1:1/x", 5, "hot.unreachable"),
        ("postgresql://me:hunter22@no-such-host.invalid/x", 5, "hot.unreachable"),
        ("not a dsn with password=hunter22 in it", 4, "config.invalid"),
        ("postgresql://me:hunter22@hunter22@127.0.0.1:1/x", 4, "config.invalid"),
        ("postgresql://me:hunter22@127.0.0.1:abc/x", 4, "config.invalid"),
        ("postgresql://me:hunter22%8A@127.0.0.1:1/x", 4, "config.invalid"),
        ("postgresql://me:hunter22@%2Fvar%2Frun/x", 4, "config.invalid"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_its_password(
    tmp_path: Path, dsn: str, code: int, error: str
) -> None:
    command = Command(home_with_jars(tmp_path / "home").root, {"THERMOCLINE_HOT_DSN": dsn})
    for verb in ("up",) if "%2F" in dsn else ("up", "status"):
        ended = command.run(verb, "--json")
        assert (ended.code, ended.json["error"]["code"]) == (code, error)
        assert ended.json["error"]["next_step"]
        assert "hunter22" not in ended.out + ended.err
    if error == "config.invalid" and "%2F" not in dsn:
        return
    logged = (command.home / "logs" / "thermocline.log").read_text()
    assert "hunter22" not in logged


def test_an_external_server_is_used_and_left_alone(server: Server, tmp_path: Path) -> None:
    home = home_with_jars(tmp_path / "home")
    with server.database() as dsn:
        command = Command(home.root, {"THERMOCLINE_HOT_DSN": dsn})
        up = command.run("up", "--json")
        assert up.code == 0, up.out
        assert (up.json["embedded"], up.json["started"], up.json["installed"]) == (False, False, True)
        assert not (home.root / "postgres").exists()
        status = command.run("status", "--json").json
        assert (status["running"], status["installed"], status["lake_tables"]) == (True, __version__, 0)
        assert command.run("doctor", "--json").code == 0
        assert command.run("down", "--json").json == {"stopped": False}
        assert command.run("up", "--reset-password", "--json").code == 4
        assert command.run("uninstall", "--json").code == 3
        assert command.run("uninstall", "--yes", "--json").json == {"uninstalled": True, "kept": None}
        with psycopg.connect(dsn) as session:
            row = session.execute("SELECT to_regnamespace('lakets'), to_regnamespace('thermocline')")
            assert row.fetchone() == (None, None)


def test_a_server_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    """No such server can be had here, so the oldest that is allowed is moved instead."""
    from thermocline.errors import ServerUnsuited
    from thermocline.hot import connection

    monkeypatch.setattr(connection, "OLDEST_MAJOR", 99)
    with pytest.raises(ServerUnsuited, match="needs 99"), connection.connect(dsn):
        pass


def test_psql_gets_the_password_by_its_environment_only(embedded_home: Command) -> None:
    embedded_home.run("up")
    ended = embedded_home.run("psql", "--", "-Atc", "SELECT current_database()")
    assert (ended.code, ended.out.strip()) == (0, "thermocline")
    shown = embedded_home.run("psql", "--json").json
    assert "password" not in shown["dsn"]
    password = embedded_home.run("dsn").out.split(":")[2].split("@")[0]
    process = embedded_home.start("psql", "--", "-Atc", "SELECT pg_sleep(600)")
    try:
        deadline = time.monotonic() + 120
        while "psql" not in psutil.Process(process.pid).name():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert password not in " ".join(psutil.Process(process.pid).cmdline())
    finally:
        process.send_signal(signal.SIGTERM)
        finished(process)


def test_a_reader_that_goes_away_is_no_error(command: Command) -> None:
    process = command.start("config")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_json_is_exactly_one_object_also_for_errors(command: Command) -> None:
    ended = command.run("up", "--json", THERMOCLINE_HOT_PROT="1")
    assert ended.code == 4
    assert json.loads(ended.out)["error"]["code"] == "config.unknown_key"
    assert ended.err == ""
    text = command.run("up", THERMOCLINE_HOT_PROT="1")
    assert text.out == ""
    assert "THERMOCLINE_HOT_PORT" in text.err
    assert "What to do:" in text.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_may_not_be_written_to(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    ended = Command(closed / "home").run("doctor", "--json")
    checks = {check["check"]: check["verdict"] for check in ended.json["checks"]}
    assert (ended.code, checks["home"]) == (4, "failed")


def test_the_callers_environment_does_not_bend_our_sessions(embedded_home: Command) -> None:
    bent = {"PGCLIENTENCODING": "SQL_ASCII", "PGDATESTYLE": "German", "PGHOSTADDR": "127.9.9.9", "PGSERVICE": "x"}
    assert embedded_home.run("up", **bent).code == 0
    for name, value in bent.items():
        assert embedded_home.run("doctor", "--json", **{name: value}).code == 0, name


def test_a_closed_or_full_output_is_no_traceback(command: Command) -> None:
    for target in (">&-", ">/dev/full"):
        ended = subprocess.run(
            ["/bin/sh", "-c", f'"$0" -m thermocline version --json {target}', sys.executable],
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in ended.stderr


def test_version_and_short_help(command: Command) -> None:
    assert command.run("--version").out.strip() == __version__
    assert "Example:" in command.run("up", "-h").out


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["Starting Spark", "Copying them"])
def test_ctrl_c_in_the_demo_stops_it_cleanly(embedded_home: Command, moment: str) -> None:
    process = embedded_home.start("demo")
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith(moment):
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    ended = finished(process)
    assert ended.code == 130, said + ended.err
    assert "Stopped by Ctrl-C" in ended.err
    assert "Traceback" not in ended.err
    assert embedded_home.run("status", "--json").json["running"] is False


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)  # all of it, twice
def test_the_demo_lets_a_day_go_on_proof_and_stops_what_it_started(embedded_home: Command) -> None:
    for keep in (False, True):
        ended = finished(embedded_home.start("demo", "--json", *(["--keep"] if keep else [])), 800)
        assert ended.code == 0, ended.out + ended.err
        told = ended.json
        assert told["rows_written_while_streaming"] > 3 * 1000, "new ones for three seconds, and corrections"
        assert 0 < told["seconds_from_commit_to_lake"] < 60, "it commits each second; other work may hold it up"
        assert told["answers_agree"] is True
        assert told["rows_answered"] == 3 * 1440 * 50 - 3 + 4 * 1000 + 1
        assert told["rows_left_in_postgresql"] == 2 * 1440 * 50 + 4 * 1000 + 1
        assert told["receipt"]["rows"] == 1440 * 50 - 3
        assert told["refused"]["reason"] == "busy"
        for repaired, readings in zip(told["repaired"], (60, 1440), strict=True):
            mean = (repaired["mean_before"] * readings + 81) / (readings + 1)
            assert repaired["mean_after"] == pytest.approx(mean)
        assert [one["readings"] for one in told["late"]] == [1440 * 50 - 3, 1440 * 50 - 2, 1440 * 50 - 2]
        assert [one["rows_in_postgresql"] for one in told["late"]] == [0, 1, 0]
        assert told["wide"]["shown_as_incomplete"] is True
        assert told["wide"]["recomputed"] == told["wide"]["in_postgresql"] + 1440 * 50 - 2 == 3 * 1440 * 50 - 1
        back = told["back"]
        assert (back["rows"], back["corrected"]) == (1440 * 50 - 2, 1441)
        by_day = back["sensor_in_daily_rollup_after"] - back["sensor_in_daily_rollup_before"]
        by_week = back["sensor_in_weekly_rollup_after"] - back["sensor_in_weekly_rollup_before"]
        assert (by_day, by_week) == pytest.approx((2, 2 * 1441 / (3 * 1440 + 2)), abs=0.002)
        status = embedded_home.run("status", "--json").json
        assert (status["running"], status["lake_tables"]) == ((True, 1) if keep else (False, None))


_LOST = """
import os, signal, sys, time
from thermocline.cli import main

signal.signal(signal.SIGINT, main._on_interrupt)
sys.unraisablehook = main._on_unraisable

class Fork:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

Fork()
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("came again")
"""


def test_ctrl_c_that_comes_where_errors_are_thrown_away_comes_again() -> None:
    ended = subprocess.run([sys.executable, "-c", _LOST], capture_output=True, text=True, timeout=60)
    assert (ended.stdout.strip(), ended.stderr) == ("came again", "")
