"""The way back, and reads across the tiers: a rehydrate beside COPY, and a question that only PostgreSQL answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.frame import Report, Times, interleave, progress, shown, timed
from benchmarks.ground import size
from benchmarks.jdbc import SUMS, from_postgres
from thermocline.gate.drop import Result, drop_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.ground import Ground
    from thermocline.gate.rehydrate import Rehydrator

_ROUNDS = 5
_READS = 5


def measure(report: Report, place: Ground) -> None:
    """Chunks of a million rows each; BENCH_CHUNK makes them smaller meanwhile."""
    rows = size("BENCH_CHUNK", 1_000_000)
    on = replace(place, per_day=rows)
    on.make_table("back", rows * (_ROUNDS + 1), filled=True)
    on.run("SELECT lakets.enable_sync('back')")
    on.drain()
    with on.feeding():
        with report.part("rehydrate"):
            _rehydrate(report, on, rows)
        with report.part("a resident range across the tiers"):
            _resident(report, on, rows)
    on.run(*(f"SELECT lakets.drop_chronotable('{name}')" for name in ("back", *map("fresh{}".format, range(_ROUNDS)))))


def _rehydrate(report: Report, on: Ground, rows: int) -> None:
    """Each of the oldest chunks is let go and comes back; the same rows are written by COPY into another table."""
    prover, rehydrator = on.stack.prover(), on.stack.rehydrator()
    (text,) = on.copy_blocks(rows, rows)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    brought, copied = [], []
    for number in range(_ROUNDS):
        oid, _ = on.chunks("back")[number]
        assert prover.prove(oid).equal
        assert drop_chunk(on.dsn, oid, check_lake=prover.look).result is Result.DROPPED
        start = today - timedelta(days=_ROUNDS + 1 - number)
        on.make_table(f"fresh{number}", rows)
        bring = partial(_bring, rehydrator, start, rows)
        contenders: dict[str, Callable[[], object]] = {
            "rehydrate": bring,
            "COPY": partial(on.copy, f"fresh{number}", [text]),
        }
        taken = {}
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            on.run("CHECKPOINT")
            taken[name] = timed(contenders[name])
        brought.append(taken["rehydrate"])
        copied.append(taken["COPY"])
        progress(f"  {number + 1} of {_ROUNDS}: rehydrate {shown(brought[-1])} s, COPY {shown(copied[-1])} s")
    times, beside = Times(tuple(brought)), Times(tuple(copied))
    report.show_times(f"rehydrate of {rows:,} rows", times, "waits for the feed, loads, reads back, compares, attaches")
    report.show_times("COPY of the same rows", beside, "into a fresh chunk of a table that is not synced")
    report.check("rehydrate / COPY", times.over(beside), "<= 2")


def _bring(rehydrator: Rehydrator, start: datetime, rows: int) -> None:
    (line,) = rehydrator.bring_back("back", start, start + timedelta(days=1))
    assert (line.verdict, line.rows) == ("back", rows), line


def _resident(report: Report, on: Ground, rows: int) -> None:
    """The newest chunk; an older one has left, so the lake would have to be asked for that."""
    prover = on.stack.prover()
    oid, _ = on.chunks("back")[0]
    assert prover.prove(oid).equal
    assert drop_chunk(on.dsn, oid, check_lake=prover.look).result is Result.DROPPED
    _, newest = on.chunks("back")[-1]
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    reader = on.stack.reader()

    def across() -> None:
        with reader.across("back", today - timedelta(days=1), today) as frame:
            assert frame.selectExpr(*SUMS).collect()[0][0] == rows

    def alone() -> None:
        assert from_postgres(on, newest).selectExpr(*SUMS).collect()[0][0] == rows

    across()
    alone()
    times = interleave({"across": across, "PostgreSQL alone": alone}, _READS)
    report.show_times("a resident day across the tiers", times["across"], "as of one snapshot")
    report.show_times("the same from PostgreSQL alone", times["PostgreSQL alone"], "Spark's JDBC by two connections")
    report.check("across the tiers / PostgreSQL alone", times["across"].over(times["PostgreSQL alone"]), "<= 1.5")
