"""The tour that `thermocline demo` gives: one question asked of PostgreSQL, of Spark and of PyIceberg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake.address import PostgresAddress
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from datetime import date

    from thermocline.stack import Stack, Step

_NAMESPACE = "thermocline_demo"
_TABLE = f"{_NAMESPACE}.readings"

Day = tuple["date", int, float]


class AnswersDiffer(ThermoclineError):
    """The hot tier and the lake gave different answers to the same question."""

    code = "tour.answers_differ"


@dataclass(frozen=True)
class Told:
    """What the tour saw: rows per day, and named facts."""

    days: list[Day]
    facts: dict[str, Any]


class Tour:
    """Readings made in PostgreSQL, copied into the lake by Spark, and asked about in three ways."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    def run(self, step: Step) -> Told:
        """Everything in order; fails unless all three answers agree."""
        with step("Writing a week of readings into PostgreSQL"):
            hot = self._in_postgres()
        with step("Starting Spark"):
            spark = self.stack.spark()
        with step("Copying them into the lake with Spark"):
            self._copy()
        with step("Asking Spark"):
            by_spark = self._in_spark()
        spark.stop()  # when something fails or is interrupted, Java ends with this process
        with step("Asking PyIceberg, without Java"):
            by_pyiceberg, snapshot = self._in_pyiceberg()
        if not hot == by_spark == by_pyiceberg:
            raise AnswersDiffer(f"PostgreSQL {hot}, Spark {by_spark}, PyIceberg {by_pyiceberg}")
        return Told(
            hot,
            {
                "rows": sum(day[1] for day in hot),
                "answers_agree": True,
                "lake_table": f"{LAKE}.{_TABLE}",
                "snapshot": snapshot,
                "warehouse": self.stack.warehouse,
            },
        )

    def _in_postgres(self) -> list[Day]:
        with connect(self.stack.dsn) as session:
            session.execute(query("tour_make_readings"))
            return session.execute(query("tour_daily")).fetchall()

    def _copy(self) -> None:
        spark = self.stack.spark()
        address = PostgresAddress.parse(self.stack.dsn, "the hot tier")
        readings = (
            spark.read.format("jdbc")
            .option("url", address.jdbc_url())
            .option("driver", "org.postgresql.Driver")
            .option("user", address.user)
            .option("password", address.password)
            .option("dbtable", _TABLE)
            .option("partitionColumn", "sensor")
            .option("lowerBound", 1)
            .option("upperBound", 51)
            .option("numPartitions", 2)
            .load()
        )
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {LAKE}.{_NAMESPACE}")
        readings.writeTo(f"{LAKE}.{_TABLE}").using("iceberg").createOrReplace()

    def _in_spark(self) -> list[Day]:
        rows = (
            self.stack.spark()
            .sql(
                f"SELECT CAST(date_trunc('DAY', ts) AS DATE) AS day, count(*) AS readings,"
                f" round(avg(temperature), 3) AS mean FROM {LAKE}.{_TABLE} GROUP BY 1 ORDER BY 1"
            )
            .collect()
        )
        return [(row.day, row.readings, row.mean) for row in rows]

    def _in_pyiceberg(self) -> tuple[list[Day], int]:
        import pyarrow.compute as pc

        with self.stack.catalog(LAKE) as catalog:
            table = catalog.load_table(_TABLE)
            rows = table.scan().to_arrow()
        rows = rows.append_column("day", pc.cast(rows["ts"], "date32"))
        grouped = rows.group_by("day").aggregate([("temperature", "count"), ("temperature", "mean")])
        days = [
            (row["day"], row["temperature_count"], round(row["temperature_mean"], 3))
            for row in grouped.sort_by("day").to_pylist()
        ]
        snapshot = table.current_snapshot()
        return days, snapshot.snapshot_id if snapshot else 0
