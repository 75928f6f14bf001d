"""The home: one folder that holds everything Thermocline keeps on this machine, and what lies where in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline.errors import DiskFull, HomeNotUsable

if TYPE_CHECKING:
    from pathlib import Path

# A new server takes 60 MB, its write-ahead log and the jars as much again.
_LEAST_FREE = 300 * 1024 * 1024


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

    def warehouse(self, catalog: str) -> Path:
        """The files of a catalog's tables when they are kept on this machine."""
        return self.root / "warehouse" / catalog

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
        """Refuse a home that cannot hold what is coming; makes nothing."""
        nearest = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            reason = "may not be written to" if nearest.is_dir() else "is not a folder"
            raise HomeNotUsable(f"The home {self.root} cannot be used: {nearest} {reason}.")
        free = shutil.disk_usage(nearest).free
        if free < _LEAST_FREE:
            raise DiskFull(
                f"The disk of {self.root} has {free // 1024**2} MB left;"
                f" {_LEAST_FREE // 1024**2} MB are needed."
            )

    def prepare(self) -> None:
        """Make the home if it is not there; refuse, with nothing made, when it cannot be used."""
        self.check()
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(b"thermocline")
        except OSError as error:
            raise HomeNotUsable(
                f"The home {self.root} cannot be used: {os.strerror(error.errno or 0)}."
            ) from error
