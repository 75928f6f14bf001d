"""A Spark standalone cluster on loopback: one master and some workers, from the pyspark package itself."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 90


@contextmanager
def standalone_cluster(folder: Path, java_home: Path, workers: int = 1) -> Iterator[str]:
    """Start it, yield its address, end it. Each worker has one core."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    quiet = ["--webui-port", "0"]
    master = [f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), *quiet]
    size = ["--cores", "1", "--memory", "1g"]
    worker = [f"{_DEPLOY}.worker.Worker", *size, *quiet, "--host", "127.0.0.1", "--work-dir"]
    environment = os.environ | {
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder),
    }
    with ExitStack() as started:
        started.enter_context(_running(master, folder / "master.log", environment))
        logs = [folder / f"worker{number}.log" for number in range(workers)]
        for log in logs:
            started.enter_context(_running([*worker, str(log.with_suffix("")), address], log, environment))
        for log in logs:
            _wait_for_worker(log)
        yield address


@contextmanager
def _running(role: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with log.open("w") as out:
        process = subprocess.Popen([program, *role], env=environment, stdout=out, stderr=out, cwd=log.parent)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for_worker(log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while "Successfully registered with master" not in log.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f"A worker of Spark did not start:\n{log.read_text()}")
        time.sleep(0.2)
