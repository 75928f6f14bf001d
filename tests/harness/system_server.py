"""A server of the machine's own PostgreSQL, if it has one: for extensions that the embedded one does not carry."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.crash_servers import free_port
from harness.servers import Server
from thermocline.hot.service_user import ServiceUser

if TYPE_CHECKING:
    from collections.abc import Iterator


def binaries(extension: str) -> Path | None:
    """Where its programs are, if it has this extension's library too."""
    config = shutil.which("pg_config")
    if config is None:
        return None
    places = [_said(config, option) for option in ("--bindir", "--pkglibdir")]
    bin_folder, libraries = (Path(place) for place in places)
    there = (bin_folder / "initdb").is_file() and (libraries / f"{extension}.so").is_file()
    return bin_folder if there else None


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class SystemServer:
    """A server that can be started with other settings each time."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._user = ServiceUser.choose(None)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder / "server"
        self._user.make_folder(self._folder)
        self._user.let_pass(self._folder)
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-D", str(self._data))

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @contextmanager
    def running(self, **settings: str) -> Iterator[Server]:
        """It runs while the block lasts."""
        port = free_port()
        given = {"port": str(port), "listen_addresses": "127.0.0.1", "unix_socket_directories": "", **settings}
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), "-l", log, "-o", options)
        try:
            yield Server(f"postgresql://postgres@127.0.0.1:{port}/postgres")
        finally:
            self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self._data))

    def _run(self, program: str, *arguments: str) -> None:
        # A server that stays would keep a pipe open, so what it says goes nowhere.
        subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self._folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, **self._user.popen,
        )  # fmt: skip
