"""The Spark session: made in one place, quiet, in UTC, with both catalogs, on a laptop or a cluster."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import SparkFailed
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from thermocline.config import SparkSettings
    from thermocline.home import Home
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.java import Java

log = logs.get(__name__)


def configuration(settings: SparkSettings, home: Home, jars: Iterable[Path]) -> dict[str, str]:
    """What the session starts with. It ends up on a command line, so there is no secret in it."""
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
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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
    """The one session of this process, with the catalogs set on it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    for folder in (home.spark, home.root / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java.home)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if SparkContext._active_spark_context is None:
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(configuration(settings, home, jars).items()))
        output = home.root / "logs" / "spark-driver.log"
        try:
            with output.open("ab") as file:
                gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
        except Exception as error:  # py4j, pyspark and the system each have their own
            raise _start_failure(output, error) from error
        log.info("spark started", master=settings.master, java=java.version, source=java.source)
    session = SparkSession.builder.getOrCreate()
    for catalog in catalogs.values():
        for key, value in catalog.for_spark().items():
            session.conf.set(key, value)
    return session


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
