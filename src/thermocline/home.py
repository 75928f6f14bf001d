"""The home: one folder that holds everything Thermocline keeps on this machine, and what lies where in it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline.errors import Busy, DiskFull, HomeNotUsable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A new server takes 60 MB, its write-ahead log and the jars as much again.
_LEAST_FREE = 300 * 1024 * 1024
_LOCK_SECONDS = 180
# Spark splits some paths at commas, Iceberg reads locations as addresses, shells expand the rest.
_ODD_LETTERS = set('"$`\\#?,')


@dataclass(frozen=True)
class Home:
    """Paths below the home."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held while something is being started or stopped."""
        return self.root / "lock"

    def server(self, major: int) -> Path:
        """The embedded server of one major version: its data and its logs."""
        return self.root / "postgres" / str(major)

    def password(self, major: int) -> Path:
        """The password of the embedded server, readable by its owner only."""
        return self.root / f"postgres-{major}.password"

    def port(self, major: int) -> Path:
        """The port that the embedded server was given."""
        return self.root / f"postgres-{major}.port"

    def warehouse(self, server: str, catalog: str) -> Path:
        """The files of a catalog's tables when they are kept on this machine.

        Each server's catalog has a folder of its own: two catalogs must never share a table's files.
        """
        return self.root / "warehouse" / server / catalog

    @property
    def ivy(self) -> Path:
        """The jars that were fetched for Spark."""
        return self.root / "ivy"

    @property
    def java(self) -> Path:
        """The private JAVA_HOME in front of the packaged Java."""
        return self.root / "java"

    @property
    def spark(self) -> Path:
        """Scratch space of Spark."""
        return self.root / "spark"

    def check(self) -> None:
        """Refuse a home that cannot be used; makes nothing."""
        odd = sorted(set(str(self.root)) & _ODD_LETTERS)
        if odd or not str(self.root).isprintable():
            raise HomeNotUsable(
                f"The home {str(self.root)!r} has a letter in its path that Spark, Java or Iceberg cannot bear:"
                f" {' '.join(odd) or 'one that cannot be printed'}"
            )
        nearest = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            reason = "may not be written to" if nearest.is_dir() else "is not a folder"
            raise HomeNotUsable(f"The home {self.root} cannot be used: {nearest} {reason}.")
        if shutil.disk_usage(nearest).total == 0:
            raise HomeNotUsable(f"The home {self.root} cannot be used: {nearest} is no place for files.")

    def require_space(self) -> None:
        """Refuse to begin what the disk cannot hold."""
        free = shutil.disk_usage(self.root).free
        if free < _LEAST_FREE:
            raise DiskFull(
                f"The disk of {self.root} has {free // 1024**2} MB left; {_LEAST_FREE // 1024**2} MB are needed."
            )

    def write(self, file: Path, text: str, *, mode: int = 0o600) -> None:
        """Write a file of the home as a whole or not at all, with exactly these rights, synced."""
        new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "w") as out:
            os.fchmod(descriptor, mode)
            owner = self.root.stat()
            if os.geteuid() == 0 and owner.st_uid != 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            out.write(text)
            out.flush()
            os.fsync(descriptor)
        new.rename(file)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """One process at a time fetches, starts or stops; the kernel frees the lock when its holder dies."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Busy(
                            f"Another thermocline has been at work in {self.root} for {_LOCK_SECONDS} s."
                        ) from None
                    time.sleep(0.05)
            yield

    def prepare(self) -> None:
        """Make the home if it is not there; refuse, with nothing made, when it cannot be used."""
        self.check()
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(b"thermocline")
        except OSError as error:
            raise HomeNotUsable(f"The home {self.root} cannot be used: {os.strerror(error.errno or 0)}.") from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
