"""The one typed settings object: thermocline.toml and THERMOCLINE_* variables, each value with its origin."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from thermocline.errors import ConfigFileUnreadable, Misconfigured, UnknownSetting
from thermocline.masking import is_secret, masked, masked_address

PREFIX = "THERMOCLINE_"
FILE_NAME = "thermocline.toml"
# Variables that are not settings: where the file is, what a test run may set.
RESERVED = ("THERMOCLINE_CONFIG", "THERMOCLINE_KILL_AT", "THERMOCLINE_TEST_DSN")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _expand(path: Path | None) -> Path | None:
    return path.expanduser() if path else None


class HotSettings(_Section):
    """The hot tier: PostgreSQL."""

    dsn: SecretStr | None = Field(None, description="An external server, as a libpq URI; unset: the embedded one.")
    version: int = Field(18, description="Major version of the embedded server: 16 or 18.")
    port: int | None = Field(None, ge=1, le=65535, description="Port of the embedded server; unset: a free one, kept.")
    run_as: str | None = Field(
        None,
        description="User that runs the embedded server when we are root; unset: postgres, else nobody.",
    )
    shared_buffers: str = Field(
        "128MB",
        pattern=r"^[1-9][0-9]*(kB|MB|GB)$",
        description="PostgreSQL's shared_buffers in the embedded server.",
    )
    connect_timeout: int = Field(10, ge=1, le=600, description="Seconds to wait for a connection to PostgreSQL.")

    @field_validator("version")
    @classmethod
    def _is_embedded(cls, version: int) -> int:
        if version not in (16, 18):
            raise ValueError("the embedded server is 16 or 18")
        return version

    @field_validator("dsn")
    @classmethod
    def _not_empty(cls, dsn: SecretStr | None) -> SecretStr | None:
        return dsn if dsn and dsn.get_secret_value().strip() else None


class JavaSettings(_Section):
    """The Java that runs Spark."""

    _expanded = field_validator("home")(_expand)

    home: Path | None = Field(
        None, description="A JAVA_HOME of 17 or newer; unset: the system's, else the packaged one."
    )


class SparkSettings(_Section):
    """The Spark session."""

    master: str = Field("local[*]", min_length=1, description="Any Spark master URL.")
    driver_memory: str = Field("1g", pattern=r"^[1-9][0-9]*[mg]$", description="Heap of the driver, as 512m or 2g.")
    shuffle_partitions: int | None = Field(None, ge=1, description="Unset: twice the cores of this machine.")
    _expanded = field_validator("ivy_settings")(_expand)

    ivy_settings: Path | None = Field(
        None, description="An Ivy settings file, for fetching jars through a company mirror."
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Any further Spark property, by its own name.")


class CatalogSettings(_Section):
    """One Iceberg catalog."""

    catalog: Literal["jdbc", "rest"] = Field(
        "jdbc", description="jdbc keeps the catalog in PostgreSQL; rest asks a REST catalog."
    )
    uri: str | None = Field(
        None, description="Address of the catalog; with jdbc a libpq URI, unset: the hot tier's PostgreSQL."
    )
    warehouse: str | None = Field(
        None, description="Where the files are: a folder or s3://...; unset: a folder in the home."
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Any further Iceberg catalog property, as s3.endpoint; used by Spark and PyIceberg.",
    )

    @model_validator(mode="after")
    def _rest_has_an_address(self) -> Self:
        if self.catalog == "rest" and not self.uri:
            raise ValueError("catalog is rest, so uri must be set")
        return self


class FeedSettings(_Section):
    """The change feed."""

    interval: float = Field(
        60,
        ge=0,
        le=3600,
        description="Seconds between two commits to the lake of a table without an interval of its own;"
        " sooner when a batch is full.",
    )
    window_mb: int = Field(1024, ge=1, le=4096, description="Most of the write-ahead log that one batch takes, in MB.")


class WorkSettings(_Section):
    """Background work: what `thermocline work` does by itself."""

    concurrency: int = Field(2, ge=1, le=64, description="Units of work that one node runs at once.")
    poll: float = Field(2, ge=0.05, le=60, description="Seconds between two looks for work when there was none.")
    lease: float = Field(
        120, ge=1, le=3600, description="Seconds after which a unit whose worker is silent is taken over."
    )
    in_process: bool = Field(
        False, description="Compare chunks with the lake in the node's own process; otherwise on Spark."
    )
    drops_per_run: int = Field(100, ge=1, description="Most chunks that one run of retention drops from one table.")
    keep_days: int = Field(7, ge=1, description="Days for which units that are done can be looked up.")


class ServiceSettings(_Section):
    """The service, `thermocline run`: where it answers for health and metrics."""

    host: str = Field(
        "127.0.0.1", min_length=1, description="Address to listen at. Nothing asks who is there, so it is loopback."
    )
    port: int = Field(9464, ge=0, le=65535, description="Port to listen at; 0: any free one, which the log names.")


class LogSettings(_Section):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is written to the log file."
    )


def default_home() -> Path:
    """The folder that holds everything when nothing else is said."""
    return Path("~/.thermocline").expanduser()


class Settings(BaseSettings):
    """Everything that can be set. The defaults run on one laptop with nothing else installed."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    home: Path = Field(
        default_factory=default_home,
        description="Folder of the embedded server, the warehouse, the jars and the logs.",
    )
    hot: HotSettings = HotSettings()
    java: JavaSettings = JavaSettings()
    spark: SparkSettings = SparkSettings()
    lake: CatalogSettings = CatalogSettings()
    cold: CatalogSettings = CatalogSettings()
    feed: FeedSettings = FeedSettings()
    work: WorkSettings = WorkSettings()
    service: ServiceSettings = ServiceSettings()
    log: LogSettings = LogSettings()

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return Path(os.path.abspath(home.expanduser()))  # noqa: PTH100 (a link in it must stay)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` hands over: it reads the sources itself, to know where a value is from."""
        return (init_settings,)


@dataclass(frozen=True)
class Value:
    """One setting in force, fit to be shown: its secrets are masked."""

    key: str
    shown: str | int | dict[str, str] | None
    origin: str


@dataclass(frozen=True)
class Loaded:
    """The settings in force and where each came from."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None

    def values(self) -> Iterator[Value]:
        """Every setting with its value, masked, and its origin."""
        for key in known_keys():
            section, _, leaf = key.rpartition(".")
            holder = getattr(self.settings, section) if section else self.settings
            yield Value(key, _masked(getattr(holder, leaf)), self.origins.get(key, "default"))


def known_keys() -> list[str]:
    """Every setting by its dotted name."""
    return [key for key, _ in described_keys()]


def described_keys() -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted name, with pydantic's description of the field."""
    for name, field in Settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for leaf, inner in kind.model_fields.items():
                yield f"{name}.{leaf}", inner
        else:
            yield name, field


def variable(key: str) -> str:
    """The environment variable of a setting: hot.dsn is THERMOCLINE_HOT_DSN."""
    return PREFIX + key.replace(".", "_").upper()


def load() -> Loaded:
    """Read file and environment; refuse what is unknown or wrong, by name."""
    _refuse_unknown_variables()
    file = _config_file()
    from_file = _read_toml(file) if file else {}
    from_environment = _read_environment()
    origins: dict[str, str] = {}
    merged: dict[str, Any] = {}
    for source, origin in (
        (from_file, lambda _key: str(file)),
        (from_environment, variable),
    ):
        for key, value in _leaves(source):
            if key not in known_keys():
                raise UnknownSetting(
                    f"{origin(key)}: there is no setting {key!r}{_nearest(key, known_keys())}",
                    next_step=f"Correct it in {origin(key)}.",
                )
            origins[key] = origin(key)
            section, _, leaf = key.rpartition(".")
            (merged.setdefault(section, {}) if section else merged)[leaf] = value
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise Misconfigured(
            _explain(error, origins),
            next_step="Correct it there; docs/reference/settings.md lists every setting.",
        ) from error
    return Loaded(settings, origins, file)


def _config_file() -> Path | None:
    named = os.environ.get("THERMOCLINE_CONFIG")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigFileUnreadable(
                f"THERMOCLINE_CONFIG names {path}, which is not a file.",
                next_step="Unset THERMOCLINE_CONFIG or point it at your thermocline.toml.",
            )
        return path
    home = Path(os.environ.get(variable("home")) or default_home()).expanduser()
    for file in (Path.cwd() / FILE_NAME, home / FILE_NAME):
        if file.is_file():
            _refuse_a_strangers(file)
            return file
    return None


def _refuse_a_strangers(file: Path) -> None:
    """A settings file says which programs are run, so it must not be somebody else's."""
    status = file.stat()
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o002:
        whose = "may be written by anybody" if status.st_mode & 0o002 else "belongs to another user"
        raise ConfigFileUnreadable(
            f"{file} {whose}, so it is not read.",
            next_step="Go to another folder, make the file yours, or name it with THERMOCLINE_CONFIG.",
        )


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigFileUnreadable(f"{file} cannot be read: {error}") from error


def _read_environment() -> dict[str, Any]:
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError as error:
        raise Misconfigured(
            f"A THERMOCLINE_ variable cannot be read: {error}.",
            next_step='Write a table of properties as JSON: {"s3.endpoint": "http://..."}.',
        ) from error


def _refuse_unknown_variables() -> None:
    known = [variable(key) for key in known_keys()]
    for name in os.environ:
        if name.upper().startswith(PREFIX) and name not in known and name not in RESERVED:
            raise UnknownSetting(
                f"There is no setting for the variable {name}{_nearest(name, known)}",
                next_step=f"Unset {name} or correct its name.",
            )


def _leaves(source: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    sections = {key.partition(".")[0] for key in known_keys() if "." in key}
    for name, value in source.items():
        if name in sections and isinstance(value, Mapping):
            for leaf, inner in value.items():
                yield f"{name}.{leaf}", inner
        else:
            yield name, value


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"; the nearest is {close[0]}." if close else "."


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    reasons = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        key = ".".join(str(part) for part in one["loc"][:2])
        origin = next((o for k, o in origins.items() if k == key or k.startswith(key + ".")), "")
        meaning = next((field.description for known, field in described_keys() if known == key), None)
        reasons.append(
            f"{key}{f' (from {origin})' if origin else ''}: {one['msg']}{f' ({meaning})' if meaning else ''}"
        )
    return "Wrong setting: " + "; ".join(reasons)


def _masked(value: Any) -> str | int | dict[str, str] | None:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, SecretStr):
        return masked_address(value.get_secret_value())
    if isinstance(value, dict):
        return {key: "***" if is_secret(key) else masked(inner) for key, inner in value.items()}
    return masked(str(value))
