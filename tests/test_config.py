"""Settings: where each comes from, what is refused and how the refusal helps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline import config
from thermocline.errors import ConfigFileUnreadable, ExitCode, Misconfigured, UnknownSetting
from thermocline.masking import masked, masked_address

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes import Command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, without any file of the developer's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path


def test_the_defaults_run_on_one_laptop(folder: Path) -> None:
    loaded = config.load()
    assert loaded.settings.home == folder / "user" / ".thermocline"
    assert loaded.settings.hot.dsn is None
    assert loaded.settings.spark.master == "local[*]"
    assert {value.origin for value in loaded.values()} == {"default"}


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "thermocline.toml").write_text('[hot]\nport = 5555\n[spark]\ndriver_memory = "2g"\n')
    monkeypatch.setenv("THERMOCLINE_HOT_PORT", "6666")
    loaded = config.load()
    assert loaded.settings.hot.port == 6666
    assert loaded.settings.spark.driver_memory == "2g"
    origins = {value.key: value.origin for value in loaded.values()}
    assert origins["hot.port"] == "THERMOCLINE_HOT_PORT"
    assert origins["spark.driver_memory"] == str(folder / "thermocline.toml")
    assert origins["spark.master"] == "default"


def test_the_file_in_the_home_is_read_when_there_is_none_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "elsewhere"
    home.mkdir()
    (home / "thermocline.toml").write_text("[hot]\nversion = 16\n")
    monkeypatch.setenv("THERMOCLINE_HOME", str(home))
    assert config.load().settings.hot.version == 16
    named = folder / "named.toml"
    named.write_text("[hot]\nport = 7777\n")
    monkeypatch.setenv("THERMOCLINE_CONFIG", str(named))
    assert (config.load().settings.hot.port, config.load().settings.hot.version) == (7777, 18)


@pytest.mark.parametrize(
    ("text", "wrong", "nearest"),
    [
        ("[hot]\nprot = 1\n", "hot.prot", "hot.port"),
        ("[spark]\nmastre = 'x'\n", "spark.mastre", "spark.master"),
        ("hom = '/x'\n", "hom", "home"),
        ("[hott]\nport = 1\n", "hott", "hot.port"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(folder: Path, text: str, wrong: str, nearest: str) -> None:
    (folder / "thermocline.toml").write_text(text)
    with pytest.raises(UnknownSetting) as caught:
        config.load()
    assert repr(wrong) in caught.value.message
    assert nearest in caught.value.message
    assert caught.value.exit_code is ExitCode.CONFIGURATION


def test_an_unknown_variable_is_named_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_HOT_DNS", "x")
    with pytest.raises(UnknownSetting, match="THERMOCLINE_HOT_DNS; the nearest is THERMOCLINE_HOT_DSN"):
        config.load()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("THERMOCLINE_HOT_PORT", "70000"),
        ("THERMOCLINE_HOT_PORT", "many"),
        ("THERMOCLINE_HOT_VERSION", "17"),
        ("THERMOCLINE_SPARK_DRIVER_MEMORY", "lots"),
        ("THERMOCLINE_SPARK_SHUFFLE_PARTITIONS", "0"),
        ("THERMOCLINE_LAKE_CATALOG", "hive"),
        ("THERMOCLINE_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_names_setting_and_origin(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(Misconfigured) as caught:
        config.load()
    assert variable in caught.value.message


@pytest.mark.parametrize("content", [b"[hot\n", b"\xff\xfe", b"home = \n"])
def test_a_damaged_file_is_named(folder: Path, content: bytes) -> None:
    (folder / "thermocline.toml").write_bytes(content)
    with pytest.raises(ConfigFileUnreadable, match=r"thermocline\.toml"):
        config.load()


def test_a_named_file_that_is_not_there_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_CONFIG", str(folder / "nowhere.toml"))
    with pytest.raises(ConfigFileUnreadable, match=r"nowhere\.toml"):
        config.load()


def test_properties_come_from_the_file_and_as_json_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "thermocline.toml").write_text('[lake.properties]\n"s3.endpoint" = "http://x"\n')
    monkeypatch.setenv("THERMOCLINE_SPARK_CONF", '{"spark.ui.enabled": "true"}')
    settings = config.load().settings
    assert settings.lake.properties == {"s3.endpoint": "http://x"}
    assert settings.spark.conf == {"spark.ui.enabled": "true"}


def test_properties_that_are_not_json_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_LAKE_PROPERTIES", "s3.endpoint=http://x")
    with pytest.raises(Misconfigured, match="lake") as caught:
        config.load()
    assert "JSON" in caught.value.next_step


def test_config_shows_no_secret(command: Command) -> None:
    command.home.mkdir()
    (command.home / "thermocline.toml").write_text(
        '[hot]\ndsn = "postgresql://me:s3cr3t@db/metrics"\n'
        '[lake]\nuri = "postgresql://me:s3cr3t@other/catalog"\n'
        '[lake.properties]\n"s3.secret-access-key" = "s3cr3t"\n"adls.account-key" = "s3cr3t"\n'
        '"header.Authorization" = "s3cr3t"\n"s3.endpoint" = "http://u:s3cr3t@x"\n'
    )
    for arguments in (["config"], ["config", "--json"]):
        ended = command.run(*arguments)
        assert ended.code == 0, ended.err
        assert "s3cr3t" not in ended.out
        assert "postgresql://me:***@db/metrics" in ended.out
        assert "http://u:***@x" in ended.out


def test_a_settings_file_of_a_strangers_is_not_read(folder: Path) -> None:
    file = folder / "thermocline.toml"
    file.write_text('[java]\nhome = "/tmp/evil"\n')
    file.chmod(0o666)
    with pytest.raises(ConfigFileUnreadable, match="may be written by anybody"):
        config.load()


def test_an_empty_variable_is_an_unset_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THERMOCLINE_HOME", "THERMOCLINE_HOT_PORT", "THERMOCLINE_HOT_DSN"):
        monkeypatch.setenv(name, "")
    loaded = config.load()
    assert loaded.settings.home == folder / "user" / ".thermocline"
    assert (loaded.settings.hot.port, loaded.settings.hot.dsn) == (None, None)


# Any letter at all: whoever chose the password did not ask us.
PASSWORDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=6).filter(
    lambda password: "***" not in password and password.strip() == password and len(set(password)) > 4
)


@given(PASSWORDS)
def test_no_password_in_an_address_is_shown(password: str) -> None:
    quoted = "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"
    for dsn, right in (
        (
            f"postgresql://user:{quote(password, safe='')}@host:5432/db?sslmode=require",
            "postgresql://user:***@host:5432/db?sslmode=require",
        ),
        (f"host=h user=u password={quoted}", "postgresql://u:***@h/"),
        (f"postgresql://user:{password}@host:5432/db", "postgresql://user:***@host:5432/db"),
        (f"host=h password={password}", "postgresql://:***@h/"),
    ):
        shown = masked_address(dsn).replace(right, "")  # what is no secret may hold the same letters
        assert password not in shown
        assert quote(password, safe="") not in shown


@given(PASSWORDS.filter(lambda password: not set(password) & set(" '\"&\\")))
def test_no_password_in_a_text_survives_masking(password: str) -> None:
    for text in (
        f"cannot reach postgresql://user:{password}@host:5432/db",
        f"host=h password={password} user=u",
        f"password = '{password}'",
        f'"jdbc.password": "{password}", "x": 1',
        f"s3.secret-access-key={password}",
    ):
        kept = masked(text)
        for name in ("password", "secret-access-key", "cannot reach postgresql://user:", "@host:5432/db"):
            kept = kept.replace(name, "")
        assert password not in kept
