"""Jars: fetched once, verified, offline ever after, and a clear word when they cannot be had."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from harness.processes import Command
from thermocline.config import JavaSettings, Settings
from thermocline.errors import JarCorrupt, JarsUnavailable
from thermocline.home import Home
from thermocline.lake import jars, java
from thermocline.lake.catalogs import CatalogDescription, describe
from thermocline.lake.jars import Jar

CONTENT = b"not really a jar"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A Maven repository in a folder, as a company's mirror would be, and Ivy settings that name it."""
    folder = tmp_path / "mirror" / "org" / "example" / "thing" / "1.0"
    folder.mkdir(parents=True)
    (folder / "thing-1.0.jar").write_bytes(CONTENT)
    (folder / "thing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing</artifactId><version>1.0</version></project>"
    )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='mirror'/><resolvers>"
        f"<ibiblio name='mirror' m2compatible='true' root='file:{tmp_path}/mirror'/>"
        "</resolvers></ivysettings>"
    )
    return settings


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def thing(content: bytes = CONTENT) -> Jar:
    return Jar("org.example:thing:1.0", hashlib.sha256(content).hexdigest())


def test_a_jar_is_fetched_once_and_never_again(mirror: Path, home: Home) -> None:
    found = java.find(JavaSettings(), home)
    said: list[str] = []
    assert jars.missing([thing()], home) == [thing()]
    jars.fetch([thing()], home, found, ivy_settings=mirror, progress=said.append)
    assert said == ["fetching thing-1.0.jar"]
    assert jars.missing([thing()], home) == []
    (path,) = jars.paths([thing()], home)
    assert path.read_bytes() == CONTENT
    shutil.rmtree(mirror.parent / "mirror")
    jars.fetch([thing()], home, found, ivy_settings=mirror, progress=said.append)
    assert len(said) == 1


def test_a_jar_that_is_not_the_tested_one_is_refused(mirror: Path, home: Home) -> None:
    other = thing(b"what was tested")
    with pytest.raises(JarCorrupt, match=r"org\.example:thing:1\.0"):
        jars.fetch([other], home, java.find(JavaSettings(), home), ivy_settings=mirror)
    assert jars.missing([other], home) == [other]
    assert list(home.ivy.rglob("*.jar.verified")) == []
    # What a bad mirror gave once is not remembered: a mended one is believed.
    (mirror.parent / "mirror/org/example/thing/1.0/thing-1.0.jar").write_bytes(b"what was tested")
    jars.fetch([other], home, java.find(JavaSettings(), home), ivy_settings=mirror)
    assert jars.missing([other], home) == []
    assert list(home.ivy.glob("fetch-*")) == []


def test_doctor_sees_a_jar_that_changed_without_changing_its_size(mirror: Path, home: Home) -> None:
    jars.fetch([thing()], home, java.find(JavaSettings(), home), ivy_settings=mirror)
    assert jars.damaged([thing()], home) == []
    (path,) = jars.paths([thing()], home)
    path.write_bytes(CONTENT[::-1])
    assert jars.damaged([thing()], home) == [thing()]


def test_a_jar_that_was_cut_short_is_fetched_again(mirror: Path, home: Home) -> None:
    found = java.find(JavaSettings(), home)
    jars.fetch([thing()], home, found, ivy_settings=mirror)
    (path,) = jars.paths([thing()], home)
    path.write_bytes(CONTENT[:5])
    assert jars.missing([thing()], home) == [thing()]
    jars.fetch([thing()], home, found, ivy_settings=mirror)
    assert path.read_bytes() == CONTENT


def test_a_jar_that_nobody_has_is_named(mirror: Path, home: Home) -> None:
    unknown = Jar("org.example:nothing:1.0", "0" * 64)
    with pytest.raises(JarsUnavailable, match=r"org\.example:nothing:1\.0"):
        jars.fetch([unknown], home, java.find(JavaSettings(), home), ivy_settings=mirror)
    assert list(home.ivy.glob("fetch-*")) == []


def test_the_first_start_without_a_network_says_so_and_starts_nothing(tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='closed'/><resolvers>"
        "<ibiblio name='closed' m2compatible='true' root='http://127.0.0.1:1/'/></resolvers></ivysettings>"
    )
    command = Command(tmp_path / "home", {"THERMOCLINE_SPARK_IVY_SETTINGS": str(settings)})
    ended = command.run("up", "--json")
    assert ended.code == 5
    assert ended.json["error"]["code"] == "jars.unavailable"
    assert "Connection refused" in ended.json["error"]["message"]
    assert "network" in ended.json["error"]["next_step"]
    assert not (command.home / "postgres").exists(), "nothing is half made"
    assert list(command.home.rglob("*.jar")) == []


def test_amazons_bundle_comes_only_with_s3() -> None:
    def described(**lake: object) -> list[CatalogDescription]:
        return list(describe(Settings(lake=lake), Home(Path("/x")), "").values())

    assert jars.AWS not in jars.needed(described())
    assert jars.AWS in jars.needed(described(warehouse="s3://bucket/warehouse"))
    rest = {"catalog": "rest", "uri": "http://c", "warehouse": "by_name"}
    assert jars.AWS not in jars.needed(described(**rest))
    assert jars.AWS in jars.needed(described(**rest, properties={"s3.region": "eu-west-1"}))
