"""A REST catalog and an S3 warehouse by setting: both engines, on real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from harness.rest_catalog import rest_catalog
from harness.s3 import objects, properties, s3_server
from thermocline.config import CatalogSettings, HotSettings, Settings
from thermocline.lake.address import PostgresAddress
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from harness.servers import Server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """An S3 server with one bucket; yields its address."""
    with s3_server() as address:
        yield address


def both_ways(spark: SparkSession, stack: Stack) -> None:
    """Each engine reads and commits what the other wrote, through the settings alone."""
    description = stack.catalog_descriptions["cold"]
    for key, value in description.for_spark().items():
        spark.conf.set(key, value)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS cold.far")
    spark.sql("CREATE TABLE cold.far.readings (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO cold.far.readings VALUES (1)")
    with stack.catalog("cold") as catalog:
        table = catalog.load_table("far.readings")
        table.append(pa.table({"id": [2]}))
        rows = spark.sql("SELECT id FROM cold.far.readings ORDER BY id").collect()
        assert [row.id for row in rows] == [1, 2]
        assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_warehouse_on_s3_with_the_catalog_in_postgres(
    spark: SparkSession, server: Server, template: str, stack: Stack, s3: str
) -> None:
    with server.database(template) as dsn:
        cold = CatalogSettings(warehouse="s3://lake/jdbc", properties=properties(s3))
        settings = Settings(home=stack.home.root, hot=HotSettings(dsn=dsn), cold=cold)
        both_ways(spark.newSession(), Stack(settings))
    assert len([key for key in objects(s3, "jdbc/far/readings/data/") if key.endswith(".parquet")]) == 2


def test_a_rest_catalog_with_its_files_on_s3(spark: SparkSession, server: Server, stack: Stack, s3: str) -> None:
    s3_settings = properties(s3)
    with server.database() as dsn:
        address = PostgresAddress.parse(dsn, "the REST catalog")
        with rest_catalog(
            {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": address.jdbc_url(),
                "jdbc.user": address.user,
                "jdbc.password": address.password,
                "warehouse": "s3://lake/rest",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            }
            | s3_settings
        ) as rest:
            cold = CatalogSettings(catalog="rest", uri=rest, properties=s3_settings)
            settings = Settings(home=stack.home.root, hot=HotSettings(dsn=dsn), cold=cold)
            both_ways(spark.newSession(), Stack(settings))
    assert len([key for key in objects(s3, "rest/far/readings/data/") if key.endswith(".parquet")]) == 2
