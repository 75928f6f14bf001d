"""The jars that Spark needs beyond its own: fetched once by Ivy, checked by hash, offline ever after."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from thermocline import log as logs
from thermocline.errors import JarCorrupt, JarsUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from thermocline.home import Home
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.java import Java

log = logs.get(__name__)

_MARK = "verified"


@dataclass(frozen=True)
class Jar:
    """One jar by its Maven coordinate, as in spark.jars.packages, and the hash of the tested file."""

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its name in the folder of jars."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group}_{artifact}-{version}.jar"


ICEBERG = Jar(
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
)
POSTGRES = Jar(
    "org.postgresql:postgresql:42.7.14",
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
)
AWS = Jar(
    "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
    "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
)


def needed(catalogs: Iterable[CatalogDescription]) -> list[Jar]:
    """The jars for these catalogs: Amazon's bundle only where one of them uses S3."""
    return [ICEBERG, POSTGRES, *([AWS] if any(catalog.uses_s3 for catalog in catalogs) else [])]


def missing(jars: Iterable[Jar], home: Home) -> list[Jar]:
    """Those that have to be fetched."""
    return [jar for jar in jars if not _is_verified(jar, home)]


def damaged(jars: Iterable[Jar], home: Home) -> list[Jar]:
    """Those that are there but no longer what was fetched; every byte is looked at."""
    return [jar for jar, path in zip(jars, paths(jars, home), strict=True) if _sha256(path) != jar.sha256]


def paths(jars: Iterable[Jar], home: Home) -> list[Path]:
    """Where the jars are."""
    return [_folder(home) / jar.file_name for jar in jars]


def fetch(
    jars: Iterable[Jar],
    home: Home,
    java: Java,
    *,
    ivy_settings: Path | None = None,
    progress: Callable[[str], None] = lambda _line: None,
) -> None:
    """Fetch what is missing: afterwards every jar is whole and verified, or there is an error and none is."""
    wanted = missing(jars, home)
    if not wanted:
        return
    home.require_space()
    # A folder and a cache of its own: what a bad mirror gave once is not remembered, what a kill left is swept.
    # Callers hold the home's lock, so nobody else is at it.
    for left in home.ivy.glob("fetch-*"):
        shutil.rmtree(left, ignore_errors=True)
    work = home.ivy / f"fetch-{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        _run_ivy(wanted, work, java, ivy_settings, progress)
        _folder(home).mkdir(parents=True, exist_ok=True)
        for jar in wanted:
            fetched = work / jar.file_name
            _verify(jar, fetched)
            fetched.rename(_folder(home) / jar.file_name)
            home.write(_mark(jar, home), f"{jar.sha256} {_size(jar, home)}\n")
            log.info("jar fetched", coordinate=jar.coordinate)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(
    wanted: list[Jar],
    work: Path,
    java: Java,
    ivy_settings: Path | None,
    progress: Callable[[str], None],
) -> None:
    (work / "ivy.xml").write_text(_ivy_module(wanted))
    command = [str(java.executable), "-cp", ivy_classpath(), "org.apache.ivy.Main"]
    command += [
        "-ivy",
        str(work / "ivy.xml"),
        "-cache",
        str(work / "cache"),
        "-confs",
        "default",
    ]
    command += ["-retrieve", str(work / "[organisation]_[artifact]-[revision].[ext]")]
    if ivy_settings is not None:
        command += ["-settings", str(ivy_settings)]
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        try:
            for line in ivy.stdout or ():
                said.append(line.rstrip())
                if started := re.match(r"downloading \S*/([^/\s]+\.jar)", line):
                    progress(f"fetching {started[1]}")
        except BaseException:
            ivy.kill()
            raise
    absent = [jar for jar in wanted if not (work / jar.file_name).is_file()]
    if ivy.returncode != 0 or absent:
        log.warning("ivy failed", said=said[-40:])
        names = ", ".join(jar.coordinate for jar in absent or wanted)
        raise JarsUnavailable(f"Cannot fetch {names}: {_reason(said)}")


def _ivy_module(wanted: list[Jar]) -> str:
    lines = []
    for jar in wanted:
        group, artifact, version = (quoteattr(part) for part in jar.coordinate.split(":"))
        lines.append(
            f"<dependency org={group} name={artifact} rev={version} conf='default->default' transitive='false'/>"
        )
    return (
        "<ivy-module version='2.0'><info organisation='thermocline' module='jars'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def ivy_classpath() -> str:
    """Ivy and its command line come with Spark."""
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    found = [*folder.glob("ivy-*.jar"), *folder.glob("commons-cli-*.jar")]
    return os.pathsep.join(str(jar) for jar in found)


def _reason(said: list[str]) -> str:
    for word in ("PKIX path building failed", "UnknownHost", "Connection refused", "timed out"):
        for line in said:
            if word in line:
                return line.strip()
    return next((line.strip() for line in said if "not found" in line), "no answer from Maven")


def _verify(jar: Jar, file: Path) -> None:
    found = _sha256(file)
    if found != jar.sha256:
        raise JarCorrupt(
            f"{jar.coordinate} was fetched, but it is not the tested file: its SHA-256 is {found}.",
            next_step="Check your Maven mirror; nothing was installed.",
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _folder(home: Home) -> Path:
    return home.ivy / "jars"


def _mark(jar: Jar, home: Home) -> Path:
    return _folder(home) / f"{jar.file_name}.{_MARK}"


def _size(jar: Jar, home: Home) -> int:
    return (_folder(home) / jar.file_name).stat().st_size


def _is_verified(jar: Jar, home: Home) -> bool:
    """Hashed once when fetched; from then on the mark and the size must agree."""
    try:
        return _mark(jar, home).read_text() == f"{jar.sha256} {_size(jar, home)}\n"
    except OSError:
        return False
