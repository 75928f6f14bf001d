"""Recompute of a RollUp from the lake, beside the same aggregate in Spark as a person would write it on the history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from benchmarks.frame import Report, interleave
from benchmarks.ground import size
from thermocline.gate.drop import Result, drop_chunk
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.ground import Ground

_DAYS = 30
_REPEATS = 3
_HOURLY = (
    "SELECT lakets.time_bucket('1 hour', ts) AS bucket, sensor, count(*) AS n, sum(v1) AS total, avg(v2) AS mean,"
    " min(v1) AS low, max(v1) AS high, sum(n) AS counted FROM gone GROUP BY 1, 2"
)


def measure(report: Report, place: Ground) -> None:
    """Hourly buckets of thirty days whose rows are in the lake alone; BENCH_RECOMPUTE makes them fewer meanwhile."""
    rows = size("BENCH_RECOMPUTE", 6_000_000)
    on = replace(place, per_day=rows // _DAYS)
    on.make_table("gone", rows // _DAYS * _DAYS, filled=True)
    on.run("SELECT lakets.enable_sync('gone')", f"SELECT lakets.create_rollup('hourly', $q${_HOURLY}$q$)")
    on.drain()
    _let_go(on)
    with report.part("recompute"):
        _recompute(report, on, rows)
    on.run("SELECT lakets.drop_rollup('hourly')", "SELECT lakets.drop_chronotable('gone')")


def _let_go(on: Ground) -> None:
    prover = on.stack.prover()
    with on.feeding():
        for oid, name in on.chunks("gone"):
            assert prover.prove(oid).equal, f"{name} is not proven"
            assert drop_chunk(on.dsn, oid, check_lake=prover.look).result is Result.DROPPED, name


def _recompute(report: Report, on: Ground, rows: int) -> None:
    recomputer = on.stack.recomputer()
    before = on.run("SELECT count(*), sum(n), sum(counted) FROM _rollup_hourly")

    def recompute() -> None:
        assert recomputer.run("hourly").buckets >= _DAYS * 24

    def by_hand() -> None:
        """Whoever knows that rows were only ever added need not fold anything."""
        history = on.spark.table(f"{LAKE}.public.lb_gone_history")
        assert _aggregates(history.where("_change_type = 'insert'")) == before[0][0]

    def across() -> None:
        with on.stack.reader().across("gone") as frame:
            assert _aggregates(frame) == before[0][0]

    contenders = {"recompute": recompute, "by hand": by_hand, "across": across}
    for contender in contenders.values():
        contender()
    times = interleave(contenders, _REPEATS)
    assert on.run("SELECT count(*), sum(n), sum(counted) FROM _rollup_hourly") == before
    report.show_times(
        f"recompute from {rows:,} rows", times["recompute"], "planned, computed, and replaced in PostgreSQL"
    )
    report.show_times("the same in Spark by hand", times["by hand"], "inserts of the history; fetched, and thrown away")
    report.show_times("the same across the tiers", times["across"], "each row once, whatever was done to it")
    report.check("recompute / Spark by hand", times["recompute"].median / times["by hand"].median, "<= 2")


def _aggregates(rows: DataFrame) -> int:
    """How many there are, once they have been fetched."""
    answer = rows.groupBy(sql.date_trunc("hour", "ts").alias("bucket"), "sensor").agg(
        sql.count("*"), sql.sum("v1"), sql.avg("v2"), sql.min("v1"), sql.max("v1"), sql.sum("n")
    )
    return int(answer.toArrow().num_rows)
