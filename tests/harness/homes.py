"""Homes for tests: their jars are fetched once per environment and linked, never downloaded per test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from thermocline.config import JavaSettings
from thermocline.home import Home
from thermocline.lake import jars, java

# Beside the packages, so that it lives as long as they do.
CACHE = Home(Path(sys.prefix) / ".test-home")


def fetch_jars(wanted: list[jars.Jar]) -> None:
    """Fetch into the shared cache what is not there yet; one worker does, the others wait for it."""
    CACHE.root.mkdir(parents=True, exist_ok=True)
    if jars.missing(wanted, CACHE):
        with CACHE.exclusively():
            if missing := jars.missing(wanted, CACHE):
                jars.fetch(missing, CACHE, java.find(JavaSettings(), CACHE))


def local_mirror(folder: Path, wanted: list[jars.Jar]) -> Path:
    """A Maven repository in a folder with these jars in it; returns Ivy settings that name it."""
    fetch_jars(wanted)
    for jar, path in zip(wanted, jars.paths(wanted, CACHE), strict=True):
        group, artifact, version = jar.coordinate.split(":")
        place = folder / "mirror" / group.replace(".", "/") / artifact / version
        place.mkdir(parents=True)
        os.link(path, place / f"{artifact}-{version}.jar")
        (place / f"{artifact}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
            f"<artifactId>{artifact}</artifactId><version>{version}</version></project>"
        )
    settings = folder / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='mirror'/><resolvers>"
        f"<ibiblio name='mirror' m2compatible='true' root='file:{folder}/mirror'/>"
        "</resolvers></ivysettings>"
    )
    return settings


def home_with_jars(root: Path, wanted: list[jars.Jar] | None = None) -> Home:
    """A home whose jars are there already."""
    wanted = wanted or [jars.ICEBERG, jars.POSTGRES]
    fetch_jars(wanted)
    home = Home(root)
    (home.ivy / "jars").mkdir(parents=True, exist_ok=True)
    for jar in jars.paths(wanted, CACHE):
        for file in jar.parent.glob(f"{jar.name}*"):
            link = home.ivy / "jars" / file.name
            if not link.exists():
                os.link(file, link)
    return home
