"""The gate's numbers: a receipt beside Spark's own sums, a drop beside a scan, and a drop among readers and writers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from benchmarks import gate_many, ground, recompute, way_back
from benchmarks.frame import Report, Seconds, Times, interleave, progress, shown, timed
from benchmarks.jdbc import SUMS, from_postgres
from benchmarks.users import users
from thermocline.gate.drop import Result, drop_chunk
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.ground import Ground
    from thermocline.gate.drop import Outcome
    from thermocline.gate.receipt import Prover

_RECEIPTS = 5
_QUIET_DROPS = 5
_BUSY_DROPS = 5
_SETTLE_SECONDS = 3.0
_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
_OWN_SUMS = ("sum(CAST(_lsn AS double))", "sum(_seq)", "sum(length(_change_type))")


def run() -> Report:
    """Chunks of a million rows each; BENCH_CHUNK makes them smaller meanwhile. Then the way back, and many chunks."""
    report = Report("gate")
    with ground.prepared() as on:
        measure(report, on)
        way_back.measure(report, on)
        recompute.measure(report, on)
        with report.part("receipts of many chunks"):
            gate_many.receipts_of_small_chunks(report, on)
        with report.part("verdicts"):
            gate_many.verdicts_on_thousands(report, on)
    return report


def measure(report: Report, place: Ground) -> None:
    """Receipts and drops."""
    rows = ground.size("BENCH_CHUNK", 1_000_000)
    on = replace(place, per_day=rows)
    on.make_table("leaving", rows * (_QUIET_DROPS + _BUSY_DROPS), filled=True)
    on.run("SELECT lakets.enable_sync('leaving')")
    on.drain()  # returns when every chunk is covered and the table streams
    with on.feeding():
        prover = on.stack.prover()
        chunks = on.chunks("leaving")
        with report.part("receipt"):
            _receipt(report, on, prover, chunks[0], rows)
        for oid, name in chunks:
            assert prover.prove(oid).equal, f"{name} is not proven"
        with report.part("drop of a quiet chunk"):
            _quiet_drop(report, on, prover, chunks[:_QUIET_DROPS])
        with report.part("drop among users"):
            _busy_drop(report, on, prover, chunks[_QUIET_DROPS:])
    on.run("SELECT lakets.drop_chronotable('leaving')")


# ---- the receipt -----------------------------------------------------------------------------


def _receipt(report: Report, on: Ground, prover: Prover, chunk: tuple[int, str], rows: int) -> None:
    oid, name = chunk

    def receipt() -> None:
        found = prover.prove(oid)
        assert found.equal, found.message
        assert found.hot.rows == rows

    def sums() -> None:
        hot = from_postgres(on, name).selectExpr(*SUMS).collect()[0]
        lake = _lake(on, oid).selectExpr(*SUMS, *_OWN_SUMS).collect()[0]
        assert hot[0] == lake[0] == rows, (hot[0], lake[0])

    receipt()
    sums()
    times = interleave({"receipt": receipt, "Spark's sums": sums}, _RECEIPTS)
    report.show_times(f"receipt of {rows:,} rows", times["receipt"], "both sides compared by the hash of every row")
    report.show_times("Spark's sums of the same", times["Spark's sums"], "JDBC by two connections, and Iceberg")
    report.check("receipt / Spark's sums", times["receipt"].median / times["Spark's sums"].median, "<= 2")


def _lake(on: Ground, oid: int) -> DataFrame:
    ((start, end),) = on.run(
        "SELECT range_start::text, range_end::text FROM lakets._chunk_metadata"
        f" WHERE chunk_oid = {oid} AND status <> 'dropped'"
    )
    within = f"ts >= timestamp '{start}' AND ts < timestamp '{end}' AND _change_type <> 'truncate'"
    return on.spark.table(f"{LAKE}.public.lb_leaving_history").where(within)


# ---- the drop --------------------------------------------------------------------------------


def _drop(on: Ground, prover: Prover, oid: int, patience: float = 10) -> Outcome:
    return drop_chunk(on.dsn, oid, check_lake=prover.look, patience=patience)


def _quiet_drop(report: Report, on: Ground, prover: Prover, chunks: list[tuple[int, str]]) -> None:
    """Each chunk is scanned, which also brings it into memory, scanned again for the time, and dropped."""
    scans, drops = [], []
    for number, (oid, name) in enumerate(chunks):
        scans.append(_scan(on, name))
        began = time.perf_counter()
        outcome = _drop(on, prover, oid)
        drops.append(Seconds(time.perf_counter() - began))
        assert outcome.result is Result.DROPPED, outcome
        progress(f"  {number + 1} of {len(chunks)}: scan {shown(scans[-1])} s, drop {shown(drops[-1])} s")
    scan, drop = Times(tuple(scans)), Times(tuple(drops))
    report.show_times("scan of a chunk", scan, "SELECT count(*), sum(v1)")
    report.show_times("drop of a chunk", drop, "with a receipt, nobody else there")
    report.check("drop / scan", drop.median / scan.median, "<= 8")


def _scan(on: Ground, name: str) -> float:
    """The statement alone, the second time, in a session that is open already: connecting would make it look dear."""
    statement = f"SELECT count(*), sum(v1) FROM {name}".encode()
    with psycopg.connect(on.dsn, autocommit=True) as session:
        session.execute(statement).fetchall()
        return timed(lambda: session.execute(statement).fetchall())


def _busy_drop(report: Report, on: Ground, prover: Prover, chunks: list[tuple[int, str]]) -> None:
    """Windows with a drop and windows without take turns; both are of the same length."""
    with_drop, without, results = [], [], []
    ((deadlocks,),) = on.run(_DEADLOCKS)
    with users(on.dsn, "leaving") as seen:
        for number, (oid, _) in enumerate(chunks):
            began = time.monotonic()
            results.append(_drop(on, prover, oid))
            ended = time.monotonic()
            with_drop.append((began, ended))
            time.sleep(max(_SETTLE_SECONDS, ended - began))
            without.append((ended, time.monotonic()))
            progress(f"  {number + 1} of {len(chunks)}: {results[-1].result} in {shown(ended - began)} s")
    ((later,),) = on.run("SELECT pg_stat_force_next_flush()", _DEADLOCKS)
    took = Times(tuple(end - begin for begin, end in with_drop))
    report.show_times("drop of a chunk among users", took, "4 readers of 0.5 to 2 s, 2 writers")
    for kind, what in (("writer", "longest statement of a writer"), ("reader", "longest start of a reader")):
        during, otherwise = seen.longest(kind, with_drop), seen.longest(kind, without)
        counts = f"{seen.count(kind, with_drop)} and {seen.count(kind, without)} statements"
        report.show(f"{what}, with a drop", during * 1000, "ms", f"{shown(otherwise * 1000)} ms without; {counts}")
        # Where this much comes up without a drop, the machine is too busy to tell what a drop adds.
        report.check(f"{what}, without a drop", otherwise * 1000, "<= 50 ms")
        report.check(f"{what}: delayed by", max(0.0, during - otherwise) * 1000, "<= 50 ms")
    for error in sorted(set(seen.errors)):
        progress(f"  {error}")
    got_through = sum(one.result is Result.DROPPED for one in results)
    report.check("drops that got through, of all", got_through / len(chunks), ">= 1")
    report.check("deadlocks", later - deadlocks, "== 0")
    report.check("statements of users that failed", len(seen.errors), "== 0")
