"""A chunk as Spark reads it from PostgreSQL by itself, and what is added up of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.ground import Ground

SUMS = (
    "count(*)",
    "sum(CAST(unix_micros(ts) AS double))",
    "sum(sensor)",
    "sum(v1)",
    "sum(v2)",
    "sum(n)",
    "sum(length(tag))",
    "sum(CAST(hash(tag) AS long))",
)


def from_postgres(on: Ground, chunk: str) -> DataFrame:
    """A chunk by way of JDBC, which two connections read."""
    server = conninfo_to_dict(on.dsn)
    return (
        on.spark.read.format("jdbc")
        .option("url", f"jdbc:postgresql://{server['host']}:{server['port']}/{server['dbname']}")
        .option("user", str(server["user"]))
        .option("password", str(server.get("password") or ""))
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", chunk)
        .option("fetchsize", "10000")
        .option("partitionColumn", "sensor")
        .option("lowerBound", "0")
        .option("upperBound", "1000")
        .option("numPartitions", "2")
        .load()
    )
