"""The embedded PostgreSQL server: made, started, found again, stopped; safe against crashes and rivals."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import (
    Busy,
    DiskFull,
    HomeNotUsable,
    PasswordRejected,
    PortTaken,
    ServerFailed,
    Unreachable,
)
from thermocline.hot.binaries import Binaries
from thermocline.hot.service_user import ServiceUser
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from thermocline.config import HotSettings
    from thermocline.home import Home

log = logs.get(__name__)

# Not "thermocline": the schema of that name would come first in the role's search_path.
ROLE = "postgres"
DATABASE = "thermocline"
RESET_PASSWORD = "Give the server a new password with `thermocline up --reset-password`."  # noqa: S105
HOST = "127.0.0.1"
_CONF = "thermocline.conf"
_HBA = f"""\
# Written by Thermocline: loopback only, password always.
host all         all {HOST}/32 scram-sha-256
host replication all {HOST}/32 scram-sha-256
"""
_LOCK_SECONDS = 120
_START_SECONDS = 300


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    pid: int
    port: int


class EmbeddedServer:
    """The one server of a home. Every method may be called by several processes at once."""

    def __init__(self, home: Home, settings: HotSettings) -> None:
        self.home = home
        self.settings = settings
        self.major = settings.version
        self.folder = home.server(self.major)
        self.data = self.folder / "data"

    # ---- what is there -------------------------------------------------------------------

    def running(self) -> Running | None:
        """The server, if one runs on our data; a stale or foreign pid file counts as none."""
        lines = self._pid_file()
        if len(lines) < 4 or not (lines[0].isdigit() and lines[3].isdigit()):
            return None
        pid = int(lines[0])
        return Running(pid, int(lines[3])) if self._is_our_postmaster(pid) else None

    def exists(self) -> bool:
        """Whether a server was ever made in this home."""
        try:
            return (self.data / "PG_VERSION").is_file()
        except PermissionError as error:
            raise self._not_ours() from error

    def dsn(self) -> str:
        """How to connect to the server that runs."""
        running = self.running()
        if running is None:
            raise Unreachable(
                "The embedded PostgreSQL server is not running.",
                next_step="Start it with `thermocline up`.",
            )
        return f"postgresql://{ROLE}:{self._password()}@{HOST}:{running.port}/{DATABASE}"

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise self._not_ours() from error

    def _not_ours(self) -> HomeNotUsable:
        return HomeNotUsable(
            f"The server in {self.folder} belongs to another user.",
            next_step="Run as that user or as root, or set THERMOCLINE_HOME to a folder of your own.",
        )

    def _is_our_postmaster(self, pid: int) -> bool:
        """A pid alone proves nothing: it may have been given to another process since."""
        try:
            process = psutil.Process(pid)
            return "postgres" in process.name() and Path(process.cwd()) == self.data.resolve()
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            # Not our process, hence not our server: ours runs as us, or we are root.
            return False

    def _password(self) -> str:
        file = self.home.password(self.major)
        try:
            password = file.read_text("ascii").strip()
        except FileNotFoundError as error:
            raise PasswordRejected(f"The password file {file} is gone.", next_step=RESET_PASSWORD) from error
        except (OSError, UnicodeDecodeError) as error:
            raise PasswordRejected(
                f"The password file {file} is damaged.", next_step=RESET_PASSWORD
            ) from error
        if not password or not set(password) <= set(_LETTERS):
            raise PasswordRejected(f"The password file {file} is damaged.", next_step=RESET_PASSWORD)
        return password

    # ---- start ---------------------------------------------------------------------------

    def start(self, *, reset_password: bool = False) -> bool:
        """Bring the server up; true if it had to be started. Safe to call twice at once."""
        binaries = Binaries.of(self.major)
        with self._exclusively():
            user = self._service_user()
            if reset_password and self.exists():
                self._stop_postmaster(binaries, user)
            elif self.running() is not None:
                self._wait_until_ready()
                return False
            self._make_folders(user, binaries)
            if not self.exists():
                self._initialise(binaries, user)
            elif reset_password:
                self._set_password(binaries, user, self.data)
            self._password()  # refuse now rather than after the start
            self._start_postmaster(binaries, user)
            crash_point("up.started")
            return True

    def _service_user(self) -> ServiceUser:
        if os.geteuid() == 0 and self.data.is_dir() and (owner := self.data.stat().st_uid) != 0:
            return ServiceUser(str(owner), owner, self.data.stat().st_gid)
        return ServiceUser.choose(self.settings.run_as)

    def _make_folders(self, user: ServiceUser, binaries: Binaries) -> None:
        try:
            (self.folder / "log").mkdir(mode=0o700, parents=True, exist_ok=True)
        except PermissionError as error:
            raise self._not_ours() from error
        for folder in (self.folder, self.folder / "log"):
            user.own(folder)
        user.let_pass(self.folder)
        user.let_pass(binaries.folder)

    def _initialise(self, binaries: Binaries, user: ServiceUser) -> None:
        """Make the data folder beside its place and rename it, so that it is whole or absent."""
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        log.info("initdb", major=self.major, data=str(self.data))
        try:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            self._run(
                user,
                [binaries.program("initdb"), "--pgdata", str(new), "--username", ROLE]
                + ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions"]
                + (locale if self.major >= 17 else []),
            )
            crash_point("up.initdb")
            conf = (new / "postgresql.conf").read_text()
            self._write(user, new / "postgresql.conf", f"include '{_CONF}'\n{conf}")
            self._write(user, new / "pg_hba.conf", _HBA)
            self._write(user, new / _CONF, self._conf())
            self._set_password(binaries, user, new)
            self._single_user(binaries, user, new, f"CREATE DATABASE {DATABASE}")
            crash_point("up.before_rename")
            new.rename(self.data)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _sync_folder(self.folder)

    def _set_password(self, binaries: Binaries, user: ServiceUser, data: Path) -> None:
        password = "".join(secrets.choice(_LETTERS) for _ in range(32))
        self._single_user(binaries, user, data, f"ALTER ROLE {ROLE} PASSWORD '{password}'")
        file = self.home.password(self.major)
        new = file.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(password + "\n")
            out.flush()
            os.fsync(out.fileno())
        new.rename(file)

    def _single_user(self, binaries: Binaries, user: ServiceUser, data: Path, statement: str) -> None:
        command = [binaries.program("postgres"), "--single", "-D", str(data)]
        self._run(user, [*command, "-c", "exit_on_error=true", "postgres"], text=statement + "\n")

    def _conf(self) -> str:
        """Written anew at every start; what stands below the include in postgresql.conf wins."""
        return _settings_file(
            {
                "listen_addresses": HOST,
                "unix_socket_directories": "",
                "password_encryption": "scram-sha-256",
                "max_connections": "100",
                "shared_buffers": self.settings.shared_buffers,
                "wal_level": "logical",
                "max_wal_senders": "20",
                "max_replication_slots": "20",
                "max_wal_size": "2GB",
                "max_locks_per_transaction": "1024",
                "timezone": "UTC",
                "log_timezone": "UTC",
                "lc_messages": "C",
                "logging_collector": "on",
                "log_directory": str(self.folder / "log"),
                "log_filename": "postgres-%a.log",
                "log_truncate_on_rotation": "on",
                "log_rotation_age": "1d",
                "log_rotation_size": "0",
                "log_line_prefix": "%m [%p] %q%u@%d %a ",
            }
        )

    def _start_postmaster(self, binaries: Binaries, user: ServiceUser) -> None:
        self._remove_stale_pid_file()
        self._write(user, self.data / _CONF, self._conf())
        deadline = time.monotonic() + _START_SECONDS
        while True:
            port = self._choose_port()
            out = self.folder / "log" / "start.log"
            out.unlink(missing_ok=True)
            command = [binaries.program("pg_ctl"), "start", "--pgdata", str(self.data), "--wait"]
            command += ["--silent", "--timeout", str(_START_SECONDS), "--log", str(out)]
            result = self._popen(user, [*command, "--options", f"-p {port}"])
            if result.returncode == 0:
                self._remember_port(port)
                log.info("postgres started", major=self.major, port=port)
                return
            said = out.read_text(errors="replace") if out.exists() else result.stdout
            if self.running() is not None:  # somebody's orphaned pg_ctl was quicker
                self._wait_until_ready()
                return
            again = self._may_try_again(said, port)
            if not again or time.monotonic() > deadline:
                raise _start_failure(said, out)
            time.sleep(0.3)

    def _may_try_again(self, said: str, port: int) -> bool:
        if "Address already in use" in said:
            if self.settings.port is not None:
                raise PortTaken(f"Port {port}, set by hot.port, is taken by another program.")
            self.home.port(self.major).unlink(missing_ok=True)
            return True
        # Backends of a postmaster that was killed are still on their way out.
        return "is still in use" in said or "lock file" in said

    def _remove_stale_pid_file(self) -> None:
        """A crash leaves postmaster.pid behind, and its pid may live on as another process."""
        lines = self._pid_file()
        if not lines or not (lines[0].isdigit() and self._is_our_postmaster(int(lines[0]))):
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _choose_port(self) -> int:
        if self.settings.port is not None:
            if not _is_free(self.settings.port):
                raise PortTaken(f"Port {self.settings.port}, set by hot.port, is taken by another program.")
            return self.settings.port
        try:
            remembered = int(self.home.port(self.major).read_text())
        except (OSError, ValueError):
            remembered = 0
        if 0 < remembered < 65536 and _is_free(remembered):
            return remembered
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        if remembered:
            log.warning("remembered port taken", port=remembered, now=port)
        return port

    def _remember_port(self, port: int) -> None:
        file = self.home.port(self.major)
        new = file.with_suffix(".port.new")
        new.write_text(f"{port}\n")
        new.rename(file)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            lines = self._pid_file()
            if len(lines) >= 8 and lines[7].strip() == "ready":
                return
            if self.running() is None:
                break
            time.sleep(0.05)
        raise ServerFailed(
            "The embedded PostgreSQL server is starting up but does not get ready.",
            next_step=f"Look into {self.folder / 'log'}.",
        )

    # ---- stop ----------------------------------------------------------------------------

    def stop(self) -> bool:
        """Stop the server, closing its sessions; true if one ran."""
        if not self.home.root.is_dir():
            return False
        with self._exclusively():
            return self._stop_postmaster(Binaries.of(self.major), self._service_user())

    def _stop_postmaster(self, binaries: Binaries, user: ServiceUser) -> bool:
        """Ask politely, then firmly, then kill: PostgreSQL recovers from its log at the next start."""
        running = self.running()
        if running is None:
            return False
        for mode, seconds in (("fast", 30), ("immediate", 5)):
            command = [binaries.program("pg_ctl"), "stop", "--pgdata", str(self.data), f"--mode={mode}"]
            self._popen(user, [*command, "--silent", "--wait", "--timeout", str(seconds)])
            if self.running() is None:
                log.info("postgres stopped", major=self.major, mode=mode)
                return True
        self._kill(running.pid)
        log.warning("postgres killed", major=self.major, pid=running.pid)
        return True

    def _kill(self, pid: int) -> None:
        with suppress(psutil.NoSuchProcess):
            postmaster = psutil.Process(pid)
            family = [postmaster, *postmaster.children(recursive=True)]
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family, timeout=10)

    # ---- running programs, files, the lock -----------------------------------------------

    def _popen(
        self, user: ServiceUser, command: list[str], text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment | {"LC_ALL": "C", "TZ": "UTC"},
            cwd=self.folder,
            check=False,
            **user.popen,
        )

    def _run(self, user: ServiceUser, command: list[str], text: str = "") -> None:
        result = self._popen(user, command, text)
        if result.returncode != 0:
            raise _start_failure(f"{Path(command[0]).name}: {masked(result.stdout.strip())}")

    def _write(self, user: ServiceUser, file: Path, text: str) -> None:
        file.write_text(text)
        file.chmod(0o600)
        user.own(file)

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """One starter or stopper at a time; the kernel lets go of the lock when its holder dies."""
        with self.home.lock.open("w") as file:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Busy(
                            f"Another thermocline has been starting or stopping the server in"
                            f" {self.home.root} for {_LOCK_SECONDS} s."
                        ) from None
                    time.sleep(0.05)
            yield


_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"


def _settings_file(settings: Mapping[str, str]) -> str:
    lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()]
    return "\n".join(["# Written by Thermocline at every start.", *lines, ""])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _start_failure(said: str, file: Path | None = None) -> ServerFailed | DiskFull:
    last = " / ".join(line.strip() for line in said.strip().splitlines()[-4:])
    if "No space left on device" in said:
        return DiskFull(f"The disk is full: {last}")
    next_step = f"Look into {file}." if file else None
    return ServerFailed(f"The embedded PostgreSQL did not do as asked: {last}", next_step=next_step)
