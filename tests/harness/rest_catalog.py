"""A real Iceberg REST catalog: the server that Iceberg's own tests use, fetched once, run as a process."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from harness.crash_servers import free_port
from harness.homes import CACHE, fetch_jars
from thermocline.config import JavaSettings
from thermocline.lake import jars, java

if TYPE_CHECKING:
    from collections.abc import Iterator

_ICEBERG, _JETTY = "1.11.0", "12.1.3"
# What Spark does not bring along: organisation, module, version, classifiers.
_WANTED = [
    ("org.apache.iceberg", "iceberg-open-api", _ICEBERG, ["test-fixtures"]),
    ("org.apache.iceberg", "iceberg-core", _ICEBERG, ["", "tests"]),
    *(
        ("org.apache.iceberg", name, _ICEBERG, [""])
        for name in ("iceberg-api", "iceberg-common", "iceberg-bundled-guava", "iceberg-aws")
    ),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY, [""]),
    *(
        ("org.eclipse.jetty", f"jetty-{name}", _JETTY, [""])
        for name in ("http", "io", "security", "server", "session", "util")
    ),
    *(
        ("org.eclipse.jetty.compression", f"jetty-compression-{name}", _JETTY, [""])
        for name in ("common", "gzip", "server")
    ),
    ("jakarta.servlet", "jakarta.servlet-api", "6.0.0", [""]),
    ("org.apache.httpcomponents.client5", "httpclient5", "5.6.1", [""]),
    ("org.apache.httpcomponents.core5", "httpcore5", "5.4", [""]),
    ("org.apache.httpcomponents.core5", "httpcore5-h2", "5.4", [""]),
    ("com.github.ben-manes.caffeine", "caffeine", "2.9.3", [""]),
    ("dev.failsafe", "failsafe", "3.3.2", [""]),
]
_FOLDER = CACHE.root / "rest-catalog"


def _ivy_module() -> str:
    lines = []
    for organisation, module, version, classifiers in _WANTED:
        artifacts = "".join(
            f"<artifact name='{module}' type='jar' ext='jar'"
            + (f" m:classifier='{classifier}'/>" if classifier else "/>")
            for classifier in classifiers
        )
        lines.append(
            f"<dependency org='{organisation}' name='{module}' rev='{version}' conf='default->default'"
            f" transitive='false'>{artifacts}</dependency>"
        )
    return (
        "<ivy-module version='2.0' xmlns:m='http://ant.apache.org/ivy/maven'>"
        "<info organisation='thermocline' module='rest-catalog'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _fetch(java_program: Path) -> None:
    """One worker does, the others wait for it."""
    with CACHE.exclusively():
        if not (_FOLDER / "complete").exists():
            _retrieve(java_program)
            (_FOLDER / "complete").touch()


def _retrieve(java_program: Path) -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / "ivy.xml").write_text(_ivy_module())
    pattern = str(_FOLDER / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command = [str(java_program), "-cp", jars.ivy_classpath(), "org.apache.ivy.Main"]
    command += ["-ivy", str(_FOLDER / "ivy.xml"), "-cache", str(CACHE.ivy / "cache"), "-confs", "default"]
    said = subprocess.run([*command, "-retrieve", pattern], check=False, capture_output=True, text=True)
    assert said.returncode == 0, f"the REST catalog could not be fetched: {said.stdout[-4000:]}{said.stderr[-1000:]}"


@contextmanager
def rest_catalog(settings: dict[str, str]) -> Iterator[str]:
    """Run the server with these catalog properties; yields its address."""
    program = java.find(JavaSettings(), CACHE).executable
    fetch_jars([jars.POSTGRES, jars.AWS])
    _fetch(program)
    port = free_port()
    spark_jars = Path(pyspark.__file__).parent / "jars"
    classpath = [str(_FOLDER / "jars" / "*"), *map(str, jars.paths([jars.POSTGRES, jars.AWS], CACHE))]
    environment = {_variable(key): value for key, value in settings.items()}
    command = [str(program), "-cp", os.pathsep.join([*classpath, str(spark_jars / "*")])]
    server = subprocess.Popen(
        [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
        env=os.environ | environment | {"CATALOG_REST_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(server, address)
        yield address
    finally:
        server.kill()
        server.communicate()


def _variable(key: str) -> str:
    return "CATALOG_" + key.replace("-", "__").replace(".", "_").upper()


def _wait(server: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/v1/config", timeout=5).close()  # noqa: S310 (loopback)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    server.kill()
    raise AssertionError(f"the REST catalog did not start: {server.communicate()[1].decode()[-2000:]}")
