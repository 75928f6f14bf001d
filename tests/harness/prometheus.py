"""A real Prometheus: the machine's own, or Debian's package unpacked into the cache that the tests use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.crash_servers import free_port
from harness.homes import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = CACHE.root / "prometheus"
_CONFIG = """
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: thermocline
    static_configs: [{{targets: ["{target}"]}}]
"""


def program(name: str) -> str | None:
    """Where `prometheus` or `promtool` is; None if this machine has none and cannot get one."""
    found = shutil.which(name)
    if found is None and not _FOLDER.exists():
        _fetch()
    unpacked = _FOLDER / "usr" / "bin" / name
    return found or (str(unpacked) if unpacked.is_file() else None)


def _fetch() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return
    partly = _FOLDER.with_name(f"prometheus-{os.getpid()}")
    partly.mkdir(parents=True)
    try:
        subprocess.run(["apt-get", "download", "prometheus"], cwd=partly, check=True, capture_output=True, timeout=120)
        (package,) = partly.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package.name, "."], cwd=partly, check=True, capture_output=True, timeout=120)
        partly.rename(_FOLDER)
    except (subprocess.SubprocessError, OSError, ValueError):
        shutil.rmtree(partly, ignore_errors=True)


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str) -> Any:
        """What its API answers; None while it does not."""
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=10) as answer:  # noqa: S310 (our own address)
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, question: str) -> float | None:
        """The one number that a question in its language has for an answer; None if there is none yet."""
        found = self.ask(f"query?query={quote(question)}")
        return float(found["result"][0]["value"][1]) if found and len(found["result"]) == 1 else None


@contextmanager
def scraping(executable: str, target: str, folder: Path) -> Iterator[Prometheus]:
    """Prometheus asks the target every two seconds while the block lasts."""
    folder.mkdir(parents=True)
    (folder / "prometheus.yml").write_text(_CONFIG.format(target=target))
    port = free_port()
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [executable, *(f"--{name}={value}" for name, value in options.items())], stdout=log, stderr=log, cwd=folder
        ) as process,
    ):
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
