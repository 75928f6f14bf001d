"""The Iceberg catalogs `lake` (live) and `cold`: each described once, opened by Spark and by PyIceberg."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from thermocline.errors import CatalogFailed, ThermoclineError
from thermocline.lake.address import PostgresAddress
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.catalog import Catalog

    from thermocline.config import CatalogSettings, Settings
    from thermocline.home import Home

LAKE, COLD = "lake", "cold"
# By name: PyIceberg and pyarrow are loaded when a catalog is opened, not by every command.
_DURABLE_IO = "thermocline.lake.durable_io.DurableFileIO"
_S3 = re.compile(r"s3[an]?://")


@dataclass(frozen=True)
class CatalogDescription:
    """One catalog: where it is kept, where its files are, and how each engine is told so.

    `schema` is the PostgreSQL schema of a JDBC catalog that our SQL made; a catalog at an address of
    the user's own is used as it is, and made there if it is not.
    """

    name: str
    kind: str
    uri: str = field(repr=False)
    warehouse: str
    schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_s3(self) -> bool:
        """Whether Amazon's bundle is needed: the files, or the properties, speak of S3."""
        return bool(_S3.match(self.warehouse)) or any(key.startswith("s3.") for key in self.properties)

    def for_spark(self) -> dict[str, str]:
        """Spark properties. They hold a password, so they may not stand on a command line."""
        common = {"cache-enabled": "false"} | self._warehouse
        if _S3.match(self.warehouse):
            common["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        if self.kind == "jdbc":
            common |= {
                "type": "jdbc",
                "uri": self._address.jdbc_url(self.schema),
                "jdbc.user": self._address.user,
                "jdbc.password": self._address.password,
                "jdbc.schema-version": "V1",
            }
        else:
            common |= {"type": "rest", "uri": self.uri}
        prefix = f"spark.sql.catalog.{self.name}"
        merged = common | _both_regions(self.properties)
        return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {
            f"{prefix}.{key}": value for key, value in merged.items()
        }

    def for_pyiceberg(self) -> dict[str, str]:
        """Properties for PyIceberg."""
        common = {"py-io-impl": _DURABLE_IO} | self._warehouse
        if self.kind == "jdbc":
            common |= {
                "type": "sql",
                "uri": self._address.sqlalchemy_url(self.schema),
                "init_catalog_tables": "false" if self.schema else "true",
            }
        else:
            common |= {"type": "rest", "uri": self.uri}
        return common | _both_regions(self.properties)

    @property
    def _warehouse(self) -> dict[str, str]:
        return {"warehouse": self.warehouse} if self.warehouse else {}

    def check(self) -> None:
        """Refuse an address that one of the engines cannot use, before anything is started."""
        if self.kind == "jdbc" and self.uri:
            self.for_spark()

    def count_tables(self) -> int:
        """How many tables the catalog lists."""
        with self._named(), self._load() as catalog:
            waiting, count = list(catalog.list_namespaces()), 0
            while waiting:
                namespace = waiting.pop()
                count += len(catalog.list_tables(namespace))
                waiting += catalog.list_namespaces(namespace)
            return count

    def open(self) -> Catalog:
        """The catalog through PyIceberg, no Java involved; close it, or use it in a `with` block."""
        with self._named():
            return self._load()

    def _load(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(self.name, **self.for_pyiceberg())
        try:
            catalog.list_namespaces()  # a catalog of a database that is not there opens without a word
        except BaseException:
            catalog.close()
            raise
        return catalog

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ThermoclineError:
            raise
        except Exception as error:  # every driver has its own; here they become ours
            raise CatalogFailed(
                f"The catalog {self.name} cannot be used: {masked(str(error).splitlines()[0])}"
            ) from error

    @cached_property
    def _address(self) -> PostgresAddress:
        return PostgresAddress.parse(self.uri, f"the catalog {self.name}")


def describe(settings: Settings, home: Home, hot_dsn: str) -> dict[str, CatalogDescription]:
    """Both catalogs, by name; what is not set lies on the hot tier's PostgreSQL and in the home."""
    server = f"embedded-{settings.hot.version}"
    if settings.hot.dsn:
        server = PostgresAddress.parse(settings.hot.dsn.get_secret_value(), "hot.dsn").folder_name
    return {
        name: _describe(name, chosen, home, hot_dsn, server)
        for name, chosen in ((LAKE, settings.lake), (COLD, settings.cold))
    }


def _describe(name: str, chosen: CatalogSettings, home: Home, hot_dsn: str, server: str) -> CatalogDescription:
    uri = chosen.uri or hot_dsn
    # A REST catalog knows where its files are; naming a warehouse is choosing among those it has.
    default = "" if chosen.catalog == "rest" else f"file://{home.warehouse(server, name)}"
    warehouse = chosen.warehouse or default
    if warehouse.startswith("/"):
        warehouse = f"file://{warehouse}"
    schema = f"thermocline_{name}" if chosen.catalog == "jdbc" and not chosen.uri else None
    return CatalogDescription(name, chosen.catalog, uri, warehouse.rstrip("/"), schema, chosen.properties)


def _both_regions(properties: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's Java calls it client.region, PyIceberg s3.region; saying either is enough."""
    merged = dict(properties)
    region = merged.get("client.region") or merged.get("s3.region")
    if region:
        merged.setdefault("client.region", region)
        merged.setdefault("s3.region", region)
    return merged
