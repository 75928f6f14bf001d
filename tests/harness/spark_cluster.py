"""A Spark standalone cluster on loopback: one master, one worker, from the pyspark package itself."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from harness.homes import CACHE
from thermocline.config import JavaSettings
from thermocline.lake import java

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Start it, yield its address, end it."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = os.environ | {
        "JAVA_HOME": str(java.find(JavaSettings(), CACHE).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder),
    }
    deploy = "org.apache.spark.deploy"
    quiet = ["--webui-port", "0"]
    size = ["--cores", "1", "--memory", "1g"]
    roles = [
        [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), *quiet],
        [f"{deploy}.worker.Worker", *size, *quiet, "--work-dir", str(folder), address],
    ]
    started = []
    try:
        for role in roles:
            log = (folder / f"{role[0]}.log").open("w")
            started.append(subprocess.Popen([program, *role], env=environment, stdout=log, stderr=log, cwd=folder))
            log.close()
        _wait_for_worker(folder)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def _wait_for_worker(folder: Path) -> None:
    deadline = time.monotonic() + 90
    log = folder / "org.apache.spark.deploy.worker.Worker.log"
    while "Successfully registered with master" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
