"""The Spark session: made in one place, quiet, in UTC, with both catalogs, on a laptop or a cluster."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import signal
import sys
import threading
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from thermocline import log as logs
from thermocline.errors import SparkFailed
from thermocline.masking import SECRET_NAMES, masked

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from thermocline.config import SparkSettings
    from thermocline.home import Home
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.java import Java

log = logs.get(__name__)

# By this a session of ours is known.
_MARK = "spark.thermocline.home"
# Two threads that need Spark at once start it once.
_STARTING = threading.Lock()
# Variables of somebody else's Spark.
_FOREIGN = ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def configuration(settings: SparkSettings, home: Home, jars: Iterable[Path]) -> dict[str, str]:
    """What the session starts with, as far as it may stand on a command line: there is no secret in it."""
    cores = os.cpu_count() or 1
    chosen = {
        "spark.master": settings.master,
        "spark.app.name": "thermocline",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": _java_options(home),
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.local.dir": str(home.spark),
        "spark.sql.warehouse.dir": str(home.spark / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions or 2 * cores),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # What passes to Python in one piece; rows of the feed are blocks of some MB each.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": f"(?i){SECRET_NAMES}",
        _MARK: str(home.root),
    }
    if settings.master.startswith("local"):
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return chosen | settings.conf


def open_session(
    settings: SparkSettings,
    home: Home,
    java: Java,
    jars: Iterable[Path],
    catalogs: Mapping[str, CatalogDescription],
) -> SparkSession:
    """The one session of this process, with the catalogs set on it. One whose Java has died is replaced."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _STARTING:
        _forget_the_dead()
        _prepare(settings, home, java)
        active = SparkContext._active_spark_context
        if active is None:
            _start(settings, home, jars, catalogs)
            log.info("spark started", master=settings.master, java=java.version, source=java.source)
        elif active.getConf().get(_MARK) != str(home.root):
            raise SparkFailed(
                "This process has a Spark session that Thermocline did not make, or of another home.",
                next_step="Stop it first: Thermocline's session has jars and settings that cannot be added later.",
            )
        return SparkSession.builder.getOrCreate()


def _forget_the_dead() -> None:
    """PySpark keeps a context whose Java is gone, and would hand it out for ever."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or process.poll() is None:
        return
    log.error("spark died", code=process.returncode)
    gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _prepare(settings: SparkSettings, home: Home, java: Java) -> None:
    """What has to be so before Spark is asked for anything."""
    from pyspark.logger import PySparkLogger

    for folder in (home.spark, home.root / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    # The bridge to Java logs a stack trace for every call that is cut short; the error itself is enough.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # So does Spark for every question that it does not understand.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ["JAVA_HOME"] = str(java.home)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Tasks run our own code: with this Python, or with the one that a cluster is said to have it in.
    os.environ["PYSPARK_PYTHON"] = settings.conf.get("spark.pyspark.python", sys.executable)


def _start(
    settings: SparkSettings, home: Home, jars: Iterable[Path], catalogs: Mapping[str, CatalogDescription]
) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(configuration(settings, home, jars).items()))
    output = home.root / "logs" / "spark-driver.log"
    try:
        with output.open("ab") as file, _launched_with(home, catalogs), _or_ended():
            gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
        on_interrupt = signal.getsignal(signal.SIGINT)
        SparkContext(conf=conf, gateway=gateway)
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler calls Java from within the signal, which breaks the call that was cut short.
            signal.signal(signal.SIGINT, on_interrupt)
    except Exception as error:  # py4j, pyspark and the system each have their own
        raise _start_failure(output, error) from error


@contextmanager
def _or_ended() -> Iterator[None]:
    """Java that is just starting does not notice that we have given up: it is ended then."""
    from pyspark import java_gateway

    gateway: Any = java_gateway
    plain = gateway.Popen
    started: list[subprocess.Popen[bytes]] = []

    def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(plain(*arguments, **options))
        return started[-1]

    gateway.Popen = noted
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        gateway.Popen = plain


@contextmanager
def _launched_with(home: Home, catalogs: Mapping[str, CatalogDescription]) -> Iterator[None]:
    """Hand Java the catalogs in a file that only we can read, and nothing of the caller's Spark.

    They hold passwords, so they may not stand on a command line; and they must be a part of Spark's
    configuration, not of a session's, because only there does Spark keep them out of its event log.
    """
    lines = [f"{key}={_escaped(value)}" for catalog in catalogs.values() for key, value in catalog.for_spark().items()]
    file = home.spark / f"catalogs-{secrets.token_hex(4)}.properties"
    home.write(file, "\n".join(lines) + "\n")
    before = {name: os.environ.pop(name, None) for name in _FOREIGN}
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(file))} pyspark-shell"
    try:
        yield
    finally:
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        os.environ.update({name: value for name, value in before.items() if value is not None})
        file.unlink()


def _escaped(value: str) -> str:
    """As Java's properties files want it: a backslash doubled, everything beyond ASCII by its number."""
    doubled = value.replace("\\", "\\\\")
    return "".join(letter if " " < letter <= "~" else f"\\u{ord(letter):04x}" for letter in doubled)


def _java_options(home: Home) -> str:
    with as_file(files("thermocline.lake") / "log4j2.properties") as file:
        quiet = file
    return (
        f'-Duser.timezone=UTC "-Dlog4j2.configurationFile=file:{quiet}"'
        f' "-Dthermocline.spark.log={home.root / "logs" / "spark.log"}"'
    )


def _start_failure(output: Path, error: Exception) -> SparkFailed:
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    telling = [line for line in lines if "Exception" in line or line.startswith("Error")]
    reason = masked((telling or [str(error)])[-1].strip())
    return SparkFailed(f"Spark did not start: {reason}", next_step=f"Look into {output}.")
