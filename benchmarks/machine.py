"""What the figures were taken on: enough to compare two runs, nothing that names a host or a folder."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from thermocline.config import HotSettings, JavaSettings
from thermocline.errors import ThermoclineError
from thermocline.home import Home
from thermocline.hot.binaries import Binaries
from thermocline.lake import java


def facts() -> dict[str, str]:
    """Cores, memory, load and versions, by name."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(psutil.cpu_count() or "unknown"),
        "memory": f"{psutil.virtual_memory().total / 1e9:.1f} GB",
        "load": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "PostgreSQL": _postgres(),
        "Spark": _package("pyspark"),
        "Java": _java(),
    }


def _postgres() -> str:
    try:
        program = Binaries.of(HotSettings().version).program("postgres")
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (ThermoclineError, OSError, subprocess.CalledProcessError):
        return "none"
    return said.split()[-1]


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _java() -> str:
    # Looking for the packaged Java writes its launcher into the home, so the home is one to throw away.
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = java.find(JavaSettings(), Home(Path(folder)))
        except ThermoclineError:
            return "none"
    return f"{found.version} ({found.source})"
