"""Debezium's embedded engine without a sink: events are made and counted, in the form that costs it least.

Its jars come from Maven Central through Ivy, once, into the cache that the tests use too. The little program
around it is compiled by Eclipse's compiler, which is a jar among them: the packaged Java has none of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from benchmarks import scratch
from benchmarks.frame import Seconds, progress
from benchmarks.peers.backlog import TABLE
from thermocline.config import JavaSettings
from thermocline.home import Home
from thermocline.lake import jars, java

if TYPE_CHECKING:
    from benchmarks.peers.backlog import Backlog

VERSION, _COMPILER = "3.6.1.Final", "3.46.100"
_WANTED = [
    ("io.debezium", "debezium-embedded", VERSION, "true"),
    ("io.debezium", "debezium-connector-postgres", VERSION, "true"),
    ("org.eclipse.jdt", "ecj", _COMPILER, "false"),
]
_SOURCE = Path(__file__).with_name("Drain.java")
_CACHE = Home(Path(sys.prefix) / ".test-home")
_FOLDER = _CACHE.root / f"debezium-{VERSION}"
_HEAP = "-Xmx2g"


@dataclass(frozen=True)
class Drained:
    """What the engine did: its time from the first event to the last, and from its start to the last."""

    events: int
    seconds: Seconds
    seconds_with_start: Seconds


def drain(backlog: Backlog, timeout: float = 900, **properties: str) -> Drained:
    """Read the backlog once; the engine's own settings can be given with _ for the dot: max_batch_size='8192'."""
    program = java.find(JavaSettings(), _CACHE).executable
    classpath = prepare(program)
    with scratch.folder() as folder, backlog.slot_copy() as slot:
        settings = _settings(backlog, slot) | {name.replace("_", "."): value for name, value in properties.items()}
        # In a file: a password does not belong on a command line.
        (folder / "engine.properties").write_text("".join(f"{name}={_escaped(settings[name])}\n" for name in settings))
        command: list[str | Path] = [program, _HEAP, "-cp", classpath, "Drain"]
        command += [folder / "engine.properties", str(backlog.changes)]
        said = json.loads(scratch.run_program(command, scratch.environment(), folder, timeout).splitlines()[-1])
    return Drained(said["events"], Seconds(said["seconds"]), Seconds(said["seconds_with_start"]))


def prepare(program: Path | None = None) -> str:
    """Fetch the jars and compile the program, if that was not done before; returns the class path."""
    program = program or java.find(JavaSettings(), _CACHE).executable
    if not (_FOLDER / "complete").exists():
        progress(f"Fetching Debezium {VERSION} ...")
        _fetch(program)
    classes = _FOLDER / f"classes-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}"
    libraries = str(_FOLDER / "jars" / "*")
    command: list[str | Path]
    if not (classes / "Drain.class").exists():
        given = os.pathsep.join(map(str, sorted((_FOLDER / "jars").glob("*.jar"))))
        command = [program, "-cp", libraries, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none"]
        command += ["-classpath", given, "-d", classes, _SOURCE]
        scratch.run_program(command, scratch.environment(), _FOLDER)
    return os.pathsep.join([str(classes), libraries])


def _fetch(program: Path) -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        f"<dependency org='{group}' name='{name}' rev='{version}' conf='default->default' transitive='{transitive}'/>"
        for group, name, version, transitive in _WANTED
    )
    (_FOLDER / "ivy.xml").write_text(
        "<ivy-module version='2.0'><info organisation='thermocline' module='debezium'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    pattern = str(_FOLDER / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command = [str(program), "-cp", jars.ivy_classpath(), "org.apache.ivy.Main", "-ivy", str(_FOLDER / "ivy.xml")]
    command += ["-cache", str(_CACHE.ivy / "cache"), "-confs", "default", "-retrieve", pattern]
    subprocess.run(command, check=True, capture_output=True)
    (_FOLDER / "complete").touch()


def _settings(backlog: Backlog, slot: str) -> dict[str, str]:
    server = conninfo_to_dict(backlog.dsn)
    return {
        "name": "drain",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "topic.prefix": "drain",
        "database.hostname": str(server["host"]),
        "database.port": str(server.get("port") or 5432),
        "database.user": str(server["user"]),
        "database.password": str(server.get("password") or ""),
        "database.dbname": str(server["dbname"]),
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": backlog.publication,
        "publication.autocreate.mode": "disabled",
        "table.include.list": f"public[.]{TABLE}",
        "snapshot.mode": "no_data",
        # Larger than the defaults of 2,048 and 8,192, so that it never waits for itself.
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "5",
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
