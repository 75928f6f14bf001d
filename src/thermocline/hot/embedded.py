"""The embedded PostgreSQL server: made, started, found again, stopped; safe against crashes and rivals.

When we are root the server runs as somebody else, who owns `data` and `log` and nothing above them. So
nothing is ever written by root into a folder of that user's, where a link could lead it astray.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
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
    Refused,
    ServerFailed,
    Unreachable,
)
from thermocline.home import sync_folder
from thermocline.hot.binaries import MAJORS, Binaries
from thermocline.hot.server_conf import HBA, HOST, server_conf
from thermocline.hot.service_user import ServiceUser
from thermocline.masking import masked

if TYPE_CHECKING:
    from thermocline.config import HotSettings
    from thermocline.home import Home

log = logs.get(__name__)

# Not "thermocline": the schema of that name would come first in the role's search_path.
ROLE = "postgres"
DATABASE = "thermocline"
RESET_PASSWORD = "Give the server a new password with `thermocline up --reset-password`."  # noqa: S105
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
_START_SECONDS = 300
_DYING_SECONDS = 30
# What the server may know of the caller's environment: nothing that could be a secret.
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


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
        self.port_moved_from: int | None = None

    # ---- what is there -------------------------------------------------------------------

    def running(self) -> Running | None:
        """The server, if one runs on our data; a stale or foreign pid file counts as none."""
        lines = self._pid_file()
        if len(lines) < 4 or not (lines[0].isdigit() and lines[3].isdigit()):
            return None
        pid = int(lines[0])
        return Running(pid, int(lines[3])) if self._is_our_postmaster(pid) else None

    def exists(self) -> bool:
        """Whether a server was made in this home."""
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
            return (self.data / "postmaster.pid").read_text(errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError as error:
            raise self._not_ours() from error

    def _not_ours(self) -> HomeNotUsable:
        return HomeNotUsable(
            f"The server in {self.folder} belongs to another user.",
            next_step="Run as that user or as root, or set THERMOCLINE_HOME to a folder of your own.",
        )

    def _is_our_postmaster(self, pid: int) -> bool:
        """A pid alone proves nothing, and neither does a path: the folder itself is compared."""
        try:
            process = psutil.Process(pid)
            link = Path(f"/proc/{pid}/cwd")
            where = link if link.exists() else Path(process.cwd())
            return "postgres" in process.name() and where.samefile(self.data)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            # Not to be looked into, hence not ours: ours runs as us, or we are root.
            return False

    def _is_alive(self) -> bool:
        """Whether any process of a server on our data lives, wherever: they hold a lock as long as they live.

        A pid means nothing in another container on the same volume; the lock is the kernel's.
        """
        with suppress(FileNotFoundError), self._life_lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def _life_lock(self) -> Path:
        return self.folder / "life.lock"

    def _password(self) -> str:
        file = self.home.password(self.major)
        try:
            password = file.read_text("ascii").strip()
            if password and set(password) <= set(_LETTERS):
                return password
            state = "is damaged"
        except FileNotFoundError:
            state = "is gone"
        except PermissionError:
            state = "may not be read by us"
        except (OSError, UnicodeDecodeError):
            state = "is damaged"
        raise PasswordRejected(f"The password file {file} {state}.", next_step=RESET_PASSWORD)

    # ---- start ---------------------------------------------------------------------------

    def start(self, *, reset_password: bool = False) -> bool:
        """Bring the server up; true if it had to be started. Safe to call twice at once."""
        binaries = Binaries.of(self.major)
        with self.home.exclusively():
            if reset_password and self.exists():
                self._stop_running()
            elif self.running() is not None:
                self._wait_until_ready()
                return False
            user = self._service_user()
            self._make_folders(user, binaries)
            self._wait_for_the_dying()
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
        """Our own folder first; below it, what the server's user is to own is handed over as it is made."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._life_lock.touch(mode=0o600)
            user.make_folder(self.folder / "log")
        except PermissionError as error:
            raise self._not_ours() from error
        user.let_pass(self.folder)
        user.let_pass(binaries.folder)
        for half_made in self.folder.glob("data.new*"):
            shutil.rmtree(half_made, ignore_errors=True)

    def _wait_for_the_dying(self) -> None:
        """Processes of a server that was killed need a moment; a server that stays is not ours to start again."""
        deadline = time.monotonic() + _DYING_SECONDS
        while self._is_alive():
            if time.monotonic() > deadline:
                raise Busy(
                    f"A server that cannot be seen from here runs on {self.data}.",
                    next_step="It may run in another container on the same folder. Stop it there first.",
                )
            time.sleep(0.1)
        # Nobody lives, so whatever the file says is stale; PostgreSQL itself would believe a pid that lives on.
        with suppress(FileNotFoundError):
            (self.data / "postmaster.pid").unlink()

    def _initialise(self, binaries: Binaries, user: ServiceUser) -> None:
        """Make the data folder beside its place and rename it, so that it is whole or absent."""
        if self.data.exists():
            raise ServerFailed(
                f"The data folder {self.data} is damaged: it has no file PG_VERSION.",
                next_step="Bring it back from a backup. To begin with an empty server, move it away.",
            )
        for other in MAJORS:
            if other != self.major and (self.home.server(other) / "data").exists():
                raise Refused(
                    f"This home holds a server of PostgreSQL {other}; hot.version asks for {self.major}.",
                    next_step=f"Set hot.version to {other}, or THERMOCLINE_HOME to another folder.",
                )
        self.home.require_space()
        new = self.folder / f"data.new.{secrets.token_hex(4)}"
        log.info("initdb", major=self.major, data=str(self.data))
        try:
            user.make_folder(new)
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            self._run(
                user,
                [binaries.program("initdb"), "--pgdata", str(new), "--username", ROLE]
                + ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions"]
                + (locale if self.major >= 17 else []),
            )
            crash_point("up.initdb")
            self._set_password(binaries, user, new)
            self._single_user(binaries, user, new, f"CREATE DATABASE {DATABASE}")
            crash_point("up.before_rename")
            new.rename(self.data)
        except BaseException:
            for _ in range(20):  # a program that was just stopped may still be writing
                shutil.rmtree(new, ignore_errors=True)
                if not new.exists():
                    break
                time.sleep(0.1)
            raise
        sync_folder(self.folder)

    def _set_password(self, binaries: Binaries, user: ServiceUser, data: Path) -> None:
        password = "".join(secrets.choice(_LETTERS) for _ in range(32))
        self._single_user(binaries, user, data, f"ALTER ROLE {ROLE} PASSWORD '{password}'")
        self.home.write(self.home.password(self.major), password + "\n")

    def _single_user(self, binaries: Binaries, user: ServiceUser, data: Path, statement: str) -> None:
        command = [binaries.program("postgres"), "--single", "-D", str(data)]
        self._run(user, [*command, "-c", "exit_on_error=true", "postgres"], text=statement + "\n")

    def _start_postmaster(self, binaries: Binaries, user: ServiceUser) -> None:
        conf = self.home.root / f"postgres-{self.major}.conf"
        hba = self.home.root / f"postgres-{self.major}.hba"
        self.home.write(hba, HBA, mode=0o644)
        settings = server_conf(self.data, self.folder / "log", hba, self.settings.shared_buffers)
        self.home.write(conf, settings, mode=0o644)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            port = self._choose_port()
            out = self.folder / "log" / f"start-{secrets.token_hex(4)}.log"
            command = [binaries.program("postgres"), "-D", str(self.data)]
            self._detach(user, [*command, "-c", f"config_file={conf}", "-p", str(port)], out)
            if self._wait_until_ready(complain=False):
                _remove(out)
                self.home.write(self.home.port(self.major), f"{port}\n")
                log.info("postgres started", major=self.major, port=port)
                return
            said = _read(out) + self._newest_log()
            _remove(out)
            if "Address already in use" not in said or time.monotonic() > deadline:
                raise _start_failure(said, self.folder / "log")
            if self.settings.port is not None:
                raise PortTaken(f"Port {port}, set by hot.port, is taken by another program.")

    def _detach(self, user: ServiceUser, command: list[str], out: Path) -> None:
        """Start the server as nobody's child, holding the lock of its life; a shell does both, quoting nothing."""
        with self._life_lock.open("rb") as life:
            fcntl.flock(life, fcntl.LOCK_EX)
            script = 'out=$1; shift; "$@" </dev/null >"$out" 2>&1 &'
            self._run(user, ["/bin/sh", "-c", script, "sh", str(out), *command], pass_fds=(life.fileno(),))

    def _newest_log(self) -> str:
        """What the server wrote after it had taken its messages away from the terminal."""
        files = sorted((self.folder / "log").glob("postgres-*.log"), key=lambda file: file.lstat().st_mtime)
        lines = _read(files[-1]).splitlines() if files else []
        return "\n".join(line for line in lines[-8:] if "FATAL" in line or "could not" in line)

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
            self.port_moved_from = remembered
            log.warning("remembered port taken", port=remembered, now=port)
        return port

    def _wait_until_ready(self, *, complain: bool = True) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            lines = self._pid_file()
            if len(lines) >= 8 and lines[7].strip() == "ready":
                return True
            if not self._is_alive() and self.running() is None:
                break
            time.sleep(0.02)
        if complain:
            raise ServerFailed(
                "The embedded PostgreSQL server is starting up but does not get ready.",
                next_step=f"Look into {self.folder / 'log'}.",
            )
        return False

    # ---- stop ----------------------------------------------------------------------------

    def stop(self) -> bool:
        """Stop the server, closing its sessions; true if one ran."""
        if not self.home.root.is_dir() or self.running() is None:
            return False
        with self.home.exclusively():
            return self._stop_running()

    def _stop_running(self) -> bool:
        """Ask politely, then firmly, then kill: PostgreSQL recovers from its log at the next start."""
        running = self.running()
        if running is None:
            return False
        binaries, user = Binaries.of(self.major), self._service_user()
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

    # ---- running programs ----------------------------------------------------------------

    def _popen(
        self, user: ServiceUser, command: list[str], text: str = "", pass_fds: tuple[int, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        return subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment | {"LC_ALL": "C", "TZ": "UTC"},
            cwd="/",
            check=False,
            start_new_session=True,  # Ctrl-C is ours to handle
            pass_fds=pass_fds,
            **user.popen,
        )

    def _run(self, user: ServiceUser, command: list[str], text: str = "", pass_fds: tuple[int, ...] = ()) -> None:
        result = self._popen(user, command, text, pass_fds)
        if result.returncode != 0:
            raise _start_failure(f"{Path(command[0]).name}: {masked(result.stdout.strip())}")


def _read(file: Path) -> str:
    """The text of a file of the server's user, never of what a link there points at."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as content:
            return content.read()
    except OSError:
        return ""


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _start_failure(said: str, folder: Path | None = None) -> ServerFailed | DiskFull:
    last = " / ".join(line.strip() for line in said.strip().splitlines()[-4:])
    if "No space left on device" in said or "Check free disk space" in said:
        return DiskFull(f"The disk is full: {last}")
    next_step = f"Look into {folder}." if folder else None
    return ServerFailed(f"The embedded PostgreSQL did not do as asked: {last}", next_step=next_step)
