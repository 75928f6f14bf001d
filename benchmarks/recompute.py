"""Recompute of a RollUp from the lake, beside the same aggregate in Spark as one would write it by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from benchmarks.frame import Report, interleave
from benchmarks.ground import size
from thermocline.gate.drop import Result, drop_chunk

if TYPE_CHECKING:
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
        with on.stack.reader().across("gone") as frame:
            answer = frame.groupBy(sql.date_trunc("hour", "ts").alias("bucket"), "sensor").agg(
                sql.count("*"), sql.sum("v1"), sql.avg("v2"), sql.min("v1"), sql.max("v1"), sql.sum("n")
            )
            assert answer.toArrow().num_rows == before[0][0]

    recompute()
    by_hand()
    times = interleave({"recompute": recompute, "by hand": by_hand}, _REPEATS)
    assert on.run("SELECT count(*), sum(n), sum(counted) FROM _rollup_hourly") == before
    report.show_times(
        f"recompute from {rows:,} rows", times["recompute"], "planned, computed, and replaced in PostgreSQL"
    )
    report.show_times("the same in Spark by hand", times["by hand"], "aggregates fetched, and thrown away")
    report.check("recompute / Spark by hand", times["recompute"].median / times["by hand"].median, "<= 2")
