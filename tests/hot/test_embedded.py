"""The embedded server: one per home, whatever is started twice, killed, damaged or taken."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from harness.processes import Command, finished
from thermocline.home import Home
from thermocline.hot.service_user import ServiceUser

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sql


def query(command: Command, statement: str) -> object:
    dsn = command.run("dsn").out.strip()
    with psycopg.connect(dsn) as session:
        row = session.execute(statement.encode()).fetchone()
    return row and row[0]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_up_gives_a_server_as_promised(embedded_home: Command, major: int) -> None:
    up = embedded_home.run("up", "--json")
    assert up.code == 0, up.err
    assert up.json["started"] is True
    assert up.json["home"] == str(embedded_home.home)
    assert up.json["warehouse"] == f"file://{embedded_home.home}/warehouse/lake"
    assert up.json["postgres"].startswith(f"{major}.")
    with psycopg.connect(up.json["dsn"]) as session:
        settings: dict[str, str] = dict(session.execute("SELECT name, setting FROM pg_settings").fetchall())
        password = session.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = current_user"
        ).fetchone()
    assert settings["wal_level"] == "logical"
    assert settings["max_locks_per_transaction"] == "1024"
    assert settings["listen_addresses"] == "127.0.0.1"
    assert settings["unix_socket_directories"] == ""
    assert settings["fsync"] == "on"
    assert settings["TimeZone"] == "UTC"
    assert password is not None
    assert password[0].startswith("SCRAM-SHA-256$")


def test_it_listens_on_loopback_only_and_runs_unprivileged(embedded_home: Command) -> None:
    pid = embedded_home.run("up", "--json").json["pid"]
    process = psutil.Process(pid)
    listening = {c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    assert process.uids().effective != 0


def test_the_password_is_readable_by_its_owner_only(embedded_home: Command, major: int) -> None:
    embedded_home.run("up")
    mode = Home(embedded_home.home).password(major).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_wrong_password_is_not_let_in(embedded_home: Command) -> None:
    dsn = embedded_home.run("up", "--json").json["dsn"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn.replace("postgres:", "postgres:x"))


def test_a_second_up_changes_nothing_and_keeps_the_port(embedded_home: Command) -> None:
    first = embedded_home.run("up", "--json").json
    second = embedded_home.run("up", "--json").json
    assert (second["started"], second["installed"]) == (False, False)
    assert (second["dsn"], second["pid"]) == (first["dsn"], first["pid"])
    embedded_home.run("down")
    third = embedded_home.run("up", "--json").json
    assert third["started"] is True
    assert third["dsn"] == first["dsn"], "port and password are remembered"


def test_up_twice_in_parallel_gives_one_server(embedded_home: Command) -> None:
    rivals = [embedded_home.start("up", "--json") for _ in range(3)]
    ended = [finished(rival) for rival in rivals]
    assert [one.code for one in ended] == [0, 0, 0], [one.err for one in ended]
    assert len({one.json["pid"] for one in ended}) == 1
    assert sorted(one.json["started"] for one in ended) == [False, False, True]


def test_down_stops_it_and_says_when_there_was_nothing(embedded_home: Command) -> None:
    pid = embedded_home.run("up", "--json").json["pid"]
    assert embedded_home.run("down", "--json").json == {"stopped": True}
    assert not is_alive(pid)
    assert embedded_home.run("down", "--json").json == {"stopped": False}


@pytest.mark.parametrize("whole_family", [False, True], ids=["postmaster", "every process"])
def test_kill_9_of_the_server_and_up_brings_it_back_with_its_data(
    embedded_home: Command, whole_family: bool
) -> None:
    up = embedded_home.run("up", "--json").json
    with psycopg.connect(up["dsn"], autocommit=True) as session:
        session.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    postmaster = psutil.Process(up["pid"])
    family = [postmaster, *(postmaster.children(recursive=True) if whole_family else [])]
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    again = embedded_home.run("up", "--json")
    assert again.code == 0, again.err
    assert again.json["pid"] != up["pid"]
    assert query(embedded_home, "SELECT count(*) FROM kept") == 1000


def test_a_wedged_server_is_stopped_all_the_same(embedded_home: Command) -> None:
    up = embedded_home.run("up", "--json").json
    postmaster = psutil.Process(up["pid"])
    postmaster.suspend()  # it hears no signal but SIGKILL
    assert embedded_home.run("status", "--json", THERMOCLINE_HOT_CONNECT_TIMEOUT="2").code == 5
    assert embedded_home.run("down", "--json").json == {"stopped": True}
    assert not is_alive(up["pid"])
    assert embedded_home.run("up").code == 0


@pytest.mark.parametrize(
    "point", ["up.initdb", "up.before_rename", "up.started", "install.migrated", "install.before_commit"]
)
def test_kill_9_of_up_at_any_point_leaves_nothing_half_made(embedded_home: Command, point: str) -> None:
    assert embedded_home.run("up", kill_at=point).was_killed
    after = embedded_home.run("up", "--json")
    assert after.code == 0, after.err
    assert query(embedded_home, "SELECT version FROM thermocline.release") is not None
    server = Home(embedded_home.home).server(int(after.json["postgres"].split(".")[0]))
    assert not (server / "data.new").exists()


def test_a_pid_file_whose_pid_is_now_somebody_else_is_stale(embedded_home: Command, major: int) -> None:
    up = embedded_home.run("up", "--json").json
    psutil.Process(up["pid"]).kill()
    pid_file = Home(embedded_home.home).server(major) / "data" / "postmaster.pid"
    # The worst case: the pid lives, as the same user, and is even a program called postgres.
    owner = ServiceUser.choose(None)
    innocent = subprocess.Popen(["sleep", "300"], **owner.popen)
    try:
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(innocent.pid), *lines[1:], ""]))
        after = embedded_home.run("up", "--json")
        assert after.code == 0, after.err
        assert innocent.poll() is None, "a process that is not ours is never touched"
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.parametrize("content", ["", "not a number\n", "999999999\n"])
def test_a_damaged_pid_file_is_no_obstacle(embedded_home: Command, major: int, content: str) -> None:
    embedded_home.run("up")
    embedded_home.run("down")
    pid_file = Home(embedded_home.home).server(major) / "data" / "postmaster.pid"
    pid_file.write_text(content)
    assert embedded_home.run("up", "--json").code == 0


def test_a_remembered_port_that_is_taken_is_replaced(embedded_home: Command, major: int) -> None:
    embedded_home.run("up")
    embedded_home.run("down")
    remembered = Home(embedded_home.home).port(major)
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = somebody.getsockname()[1]
        remembered.write_text(f"{taken}\n")
        up = embedded_home.run("up", "--json")
        assert up.code == 0, up.err
        assert f":{taken}/" not in up.json["dsn"]
        assert int(remembered.read_text()) != taken


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(embedded_home: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = str(somebody.getsockname()[1])
        up = embedded_home.run("up", "--json", THERMOCLINE_HOT_PORT=port)
    assert up.code == 6
    assert up.json["error"]["code"] == "hot.port_taken"
    assert port in up.json["error"]["message"]


def test_a_port_that_was_asked_for_is_used(embedded_home: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    up = embedded_home.run("up", "--json", THERMOCLINE_HOT_PORT=str(port))
    assert up.code == 0, up.err
    assert f"@127.0.0.1:{port}/" in up.json["dsn"]


@pytest.mark.parametrize("damage", ["empty", "garbage", "gone", "another"])
def test_a_damaged_password_is_named_and_can_be_reset(
    embedded_home: Command, major: int, damage: str
) -> None:
    embedded_home.run("up")
    file = Home(embedded_home.home).password(major)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "garbage": b"\xff\x00'; DROP", "another": b"abcdef\n"}[damage])
    refused = embedded_home.run("status", "--json")
    assert refused.code == 4
    assert refused.json["error"]["code"] == "hot.password"
    assert "--reset-password" in refused.json["error"]["next_step"]
    assert embedded_home.run("up", "--json").code == 4
    mended = embedded_home.run("up", "--reset-password", "--json")
    assert mended.code == 0, mended.out
    assert query(embedded_home, "SELECT 1") == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_home_that_is_a_file_or_in_a_closed_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = Command(tmp_path / "file").run("up", "--json")
    assert ended.code == 4
    assert ended.json["error"]["code"] == "home.not_usable"
    assert "THERMOCLINE_HOME" in ended.json["error"]["next_step"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_named_and_nothing_is_left_half_made(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount")
    try:
        ended = Command(disk / "home").run("up", "--json")
        assert ended.code == 1
        assert ended.json["error"]["code"] == "disk.full"
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_ctrl_c_during_up_leaves_nothing_half_made(embedded_home: Command, major: int) -> None:
    process = embedded_home.start("up")
    data = Home(embedded_home.home).server(major)
    while not list(data.glob("data*")):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    ended = finished(process)
    # The signal may have met the very end of the work; then it is simply up.
    assert ended.code in (130, 0), ended.err
    if ended.code == 130:
        assert "half made" in ended.err
    assert not (data / "data.new").exists()
    assert embedded_home.run("up").code == 0


def test_a_home_deeper_than_a_socket_path_may_be_and_with_odd_letters(tmp_path: Path, major: int) -> None:
    home = tmp_path / ("long " * 15).strip() / "it's a 'home' with ü"
    command = Command(home, {"THERMOCLINE_HOT_VERSION": str(major)})
    home.mkdir(parents=True)
    from harness.homes import home_with_jars

    home_with_jars(home)
    try:
        up = command.run("up", "--json")
        assert up.code == 0, up.err + up.out
        assert query(command, "SELECT 1") == 1
    finally:
        command.run("down")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to somebody else")
def test_root_hands_the_server_over_without_opening_its_folders(embedded_home: Command) -> None:
    closed = embedded_home.home.parent
    closed.chmod(0o700)
    assert embedded_home.run("up").code == 0
    assert not closed.stat().st_mode & 0o007, "others still may not enter"
    user = ServiceUser.choose(None)
    listing = subprocess.run(["ls", closed], capture_output=True, **user.popen)
    assert listing.returncode != 0, "the right to pass is not the right to look"


def test_a_home_that_was_deleted_under_a_running_server_starts_afresh(embedded_home: Command) -> None:
    from harness.homes import home_with_jars

    old = psutil.Process(embedded_home.run("up", "--json").json["pid"])
    shutil.rmtree(embedded_home.home)
    home_with_jars(embedded_home.home)
    try:
        assert embedded_home.run("up", "--json").json["started"] is True
    finally:
        old.kill()
