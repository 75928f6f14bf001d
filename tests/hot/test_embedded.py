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

from harness.crash_servers import free_port
from harness.homes import home_with_jars, local_mirror
from harness.processes import Command, finished
from thermocline.home import Home
from thermocline.hot.service_user import ServiceUser
from thermocline.lake import jars

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.sql
def test_up_gives_a_server_as_promised(embedded_home: Command, major: int) -> None:
    up = embedded_home.run("up", "--json")
    assert up.code == 0, up.err
    assert up.json["started"] is True
    assert up.json["home"] == str(embedded_home.home)
    assert up.json["warehouse"] == f"file://{embedded_home.home}/warehouse/embedded-{major}/lake"
    assert up.json["postgres"].startswith(f"{major}.")
    with psycopg.connect(up.json["dsn"]) as session:
        settings: dict[str, str] = dict(session.execute("SELECT name, setting FROM pg_settings").fetchall())
        password = session.execute("SELECT rolpassword FROM pg_authid WHERE rolname = current_user").fetchone()
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


def test_up_at_once_on_a_new_home_fetches_once_and_gives_one_server(tmp_path: Path, major: int) -> None:
    mirror = local_mirror(tmp_path, [jars.ICEBERG, jars.POSTGRES])
    command = Command(
        tmp_path / "home",
        {"THERMOCLINE_HOT_VERSION": str(major), "THERMOCLINE_SPARK_IVY_SETTINGS": str(mirror)},
    )
    try:
        ended = [finished(rival) for rival in [command.start("up", "--json") for _ in range(3)]]
        assert [one.code for one in ended] == [0, 0, 0], [one.out for one in ended]
        assert len({one.json["pid"] for one in ended}) == 1
    finally:
        command.run("down")


def test_down_stops_it_and_says_when_there_was_nothing(embedded_home: Command) -> None:
    pid = embedded_home.run("up", "--json").json["pid"]
    assert embedded_home.run("down", "--json").json == {"stopped": True}
    assert not is_alive(pid)
    assert embedded_home.run("down", "--json").json == {"stopped": False}


@pytest.mark.parametrize("whole_family", [False, True], ids=["postmaster", "every process"])
def test_kill_9_of_the_server_and_up_brings_it_back_with_its_data(embedded_home: Command, whole_family: bool) -> None:
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
    # The worst case that a crash can leave: the pid lives on, as a process of the same user.
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


def test_a_live_server_seen_under_another_pid_is_never_started_again(embedded_home: Command, major: int) -> None:
    """As from another container on the same folder: the pid file says nothing, the lock of its life does."""
    up = embedded_home.run("up", "--json").json
    pid_file = Home(embedded_home.home).server(major) / "data" / "postmaster.pid"
    content = pid_file.read_text()
    pid_file.write_text("\n".join(["999999999", *content.splitlines()[1:], ""]))
    process = embedded_home.start("up", "--json")
    time.sleep(3)
    assert process.poll() is None, "it waits for the server that it cannot see"
    assert pid_file.exists()
    pid_file.write_text(content)
    process.kill()
    finished(process)
    assert embedded_home.run("up", "--json").json["pid"] == up["pid"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_follows_no_link_that_the_servers_user_made(embedded_home: Command, major: int, tmp_path: Path) -> None:
    """Whoever can run programs as the server's user must not gain a file of root's by it."""
    dsn = embedded_home.run("up", "--json").json["dsn"]
    victim = tmp_path / "victim"
    victim.write_text("root's")
    victim.chmod(0o644)
    with psycopg.connect(dsn, autocommit=True) as session:
        for name in ("thermocline.conf", "pg_hba.conf", "../log/start.log"):
            session.execute(f"COPY (SELECT 1) TO PROGRAM 'ln -sf {victim} {name}'".encode())
        shown = session.execute("SELECT count(*) FROM pg_settings WHERE name = 'port'").fetchone()
    assert shown == (1,)
    embedded_home.run("down")
    embedded_home.run("up")
    assert victim.read_text() == "root's"
    assert (victim.stat().st_uid, stat.S_IMODE(victim.stat().st_mode)) == (0, 0o644)


def test_the_server_does_not_know_the_callers_secrets(embedded_home: Command) -> None:
    dsn = embedded_home.run("up", "--json", AWS_SECRET_ACCESS_KEY="hunter22").json["dsn"]
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("CREATE TEMP TABLE known (line text)")
        session.execute("COPY known FROM PROGRAM 'env'")
        lines = session.execute("SELECT line FROM known").fetchall()
    assert lines
    assert not [line for (line,) in lines if "hunter22" in line]


def test_a_second_major_version_in_one_home_is_refused(embedded_home: Command, major: int) -> None:
    embedded_home.run("up")
    other = embedded_home.run("up", "--json", THERMOCLINE_HOT_VERSION=str({16: 18, 18: 16}[major]))
    assert (other.code, other.json["error"]["code"]) == (3, "refused")
    assert f"PostgreSQL {major}" in other.json["error"]["message"]


def test_nothing_of_the_home_is_open_to_others_whatever_the_umask(tmp_path: Path, major: int) -> None:
    command = Command(tmp_path / "home", {"THERMOCLINE_HOT_VERSION": str(major)})
    home_with_jars(command.home)
    old = os.umask(0)
    try:
        assert command.run("up").code == 0
    finally:
        os.umask(old)
        command.run("down")
    writable = [
        path
        for path in command.home.rglob("*")
        if not path.is_symlink() and path.lstat().st_mode & 0o022 and "ivy" not in path.parts
    ]
    assert [path for path in writable if "data" not in path.parts and path.name not in ("home", "18")] == []


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
    port = free_port()
    up = embedded_home.run("up", "--json", THERMOCLINE_HOT_PORT=str(port))
    assert up.code == 0, up.err
    assert f"@127.0.0.1:{port}/" in up.json["dsn"]


@pytest.mark.parametrize("damage", ["empty", "garbage", "gone", "another"])
def test_a_damaged_password_is_named_and_can_be_reset(embedded_home: Command, major: int, damage: str) -> None:
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
    doctor = Command(tmp_path / "file").run("doctor", "--json")
    assert doctor.code == 4
    assert {c["check"]: c["verdict"] for c in doctor.json["checks"]}["home"] == "failed"
    assert Command(tmp_path / "file").run("status", "--json").code == 5


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
        left = [path.name for path in disk.rglob("*") if path.is_file()]
        assert set(left) <= {"lock", "thermocline.log"}
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_damaged_data_folder_is_named_and_left_alone(embedded_home: Command, major: int) -> None:
    embedded_home.run("up")
    embedded_home.run("down")
    data = Home(embedded_home.home).server(major) / "data"
    (data / "PG_VERSION").unlink()
    before = sorted(path.name for path in data.iterdir())
    ended = embedded_home.run("up", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "hot.start_failed")
    assert "PG_VERSION" in ended.json["error"]["message"]
    assert sorted(path.name for path in data.iterdir()) == before


def test_a_server_that_does_not_start_says_why(embedded_home: Command, major: int) -> None:
    embedded_home.run("up")
    embedded_home.run("down")
    conf = Home(embedded_home.home).server(major) / "data" / "postgresql.conf"
    conf.write_text(conf.read_text() + "\nshared_preload_libraries = 'no_such_library'\n")
    ended = embedded_home.run("up", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "hot.start_failed")
    assert "no_such_library" in ended.json["error"]["message"]


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
    home = tmp_path / ("long " * 15).strip() / "it's a 'home' with ü; and (more) & 100%"
    command = Command(home, {"THERMOCLINE_HOT_VERSION": str(major)})
    home.mkdir(parents=True)
    home_with_jars(home)
    try:
        up = command.run("up", "--json")
        assert up.code == 0, up.err + up.out
        assert query(command, "SELECT 1") == 1
    finally:
        command.run("down")


@pytest.mark.parametrize("letter", [*list('"$`\\#?,'), "\n"])
def test_a_home_with_a_letter_that_no_engine_bears_is_refused(tmp_path: Path, letter: str) -> None:
    ended = Command(tmp_path / f"a{letter}b").run("up", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (4, "home.not_usable")
    assert not (tmp_path / f"a{letter}b").exists()


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
    old = psutil.Process(embedded_home.run("up", "--json").json["pid"])
    shutil.rmtree(embedded_home.home)
    home_with_jars(embedded_home.home)
    try:
        assert embedded_home.run("up", "--json").json["started"] is True
    finally:
        old.kill()
