"""The Iceberg catalogs `lake` (live) and `cold`: each described once, opened by Spark and by PyIceberg."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from thermocline.errors import CatalogFailed, Misconfigured
from thermocline.lake.address import PostgresAddress
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

    from thermocline.config import CatalogSettings, Settings
    from thermocline.home import Home

LAKE, COLD = "lake", "cold"
_S3 = re.compile(r"s3[an]?://")


@dataclass(frozen=True)
class CatalogDescription:
    """One catalog: where it is kept, where its files are, and how each engine is told so."""

    name: str
    kind: str
    uri: str = field(repr=False)
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def schema(self) -> str:
        """The PostgreSQL schema that holds a JDBC catalog."""
        return f"thermocline_{self.name}"

    def for_spark(self) -> dict[str, str]:
        """Spark properties. They hold a password: set them on a running session, never on a command line."""
        common = {"warehouse": self.warehouse, "cache-enabled": "false"}
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
        common = {"warehouse": self.warehouse}
        if self.kind == "jdbc":
            common |= {
                "type": "sql",
                "uri": self._address.sqlalchemy_url(self.schema),
                "init_catalog_tables": "false",
            }
        else:
            common |= {"type": "rest", "uri": self.uri}
        return common | _both_regions(self.properties)

    def open(self) -> Catalog:
        """The catalog through PyIceberg: no Java involved."""
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(self.name, **self.for_pyiceberg())
        except Exception as error:  # every driver has its own; here they become ours
            raise CatalogFailed(
                f"The catalog {self.name} cannot be opened: {masked(str(error).splitlines()[0])}"
            ) from error

    @cached_property
    def _address(self) -> PostgresAddress:
        return PostgresAddress.parse(self.uri, f"the catalog {self.name}")


def describe(settings: Settings, home: Home, hot_dsn: str) -> dict[str, CatalogDescription]:
    """Both catalogs, by name; what is not set lies on the hot tier's PostgreSQL and in the home."""
    return {
        LAKE: _describe(LAKE, settings.lake, home, hot_dsn),
        COLD: _describe(COLD, settings.cold, home, hot_dsn),
    }


def warehouses(settings: Settings, home: Home) -> dict[str, str]:
    """Where the files of each catalog are, without asking anybody."""
    return {
        name: (chosen.warehouse or f"file://{home.warehouse(name)}").rstrip("/")
        for name, chosen in ((LAKE, settings.lake), (COLD, settings.cold))
    }


def _describe(name: str, chosen: CatalogSettings, home: Home, hot_dsn: str) -> CatalogDescription:
    if chosen.catalog == "rest":
        if not chosen.uri:
            raise Misconfigured(f"{name}.catalog is rest, but {name}.uri is not set.")
        uri, warehouse = chosen.uri, chosen.warehouse or ""
    else:
        uri = chosen.uri or hot_dsn
        warehouse = chosen.warehouse or f"file://{home.warehouse(name)}"
    if warehouse.startswith("/"):
        warehouse = f"file://{warehouse}"
    return CatalogDescription(name, chosen.catalog, uri, warehouse.rstrip("/"), chosen.properties)


def _both_regions(properties: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's Java calls it client.region, PyIceberg s3.region; saying either is enough."""
    merged = dict(properties)
    region = merged.get("client.region") or merged.get("s3.region")
    if region:
        merged.setdefault("client.region", region)
        merged.setdefault("s3.region", region)
    return merged
