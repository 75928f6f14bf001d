"""The gate's numbers for many chunks: receipts of many small ones, memory of a receipt, verdicts on thousands."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

from benchmarks import ground, scratch
from benchmarks.frame import interleave, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.frame import Report
    from benchmarks.ground import Ground

_SMALL_CHUNKS = 200
_ROUNDS = 3
_CHUNKS_AT_ONCE = 250
_RECEIPT = """
import sys
from pathlib import Path
from thermocline.config import Settings
from thermocline.stack import Stack

stack = Stack(Settings(home=Path({home!r}), spark={{"driver_memory": "1g"}}))
found = stack.prover().prove({oid})
assert found.equal, found.message
"""
# As the gate writes them, without a lake: what they say of the chunks is true.
_RECEIPTS = """
INSERT INTO thermocline.receipt
    (chronotable_id, chunk_oid, chunk_name, range_start, range_end, row_count, fingerprint, relfilenode, columns,
     hash_one, hash_two, position, lake_table, lake_snapshot, lake_checked_at,
     system_identifier, timeline, slot_name, epoch)
SELECT m.chronotable_id, m.chunk_oid, m.chunk_name, m.range_start, m.range_end,
       e.row_count, e.fingerprint, e.relfilenode, e.columns,
       1, 2, pg_current_wal_lsn(), s.lake_table, 7, clock_timestamp(),
       f.system_identifier, f.timeline, f.slot_name, f.epoch
FROM lakets._chunk_metadata m
JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id AND t.table_name = 'thousands'
CROSS JOIN LATERAL thermocline._chunk_evidence(m.chunk_oid) e
JOIN thermocline.synced_table s ON s.chronotable_id = m.chronotable_id
CROSS JOIN thermocline.stream f
"""


def receipts_of_small_chunks(report: Report, on: Ground) -> None:
    """Two hundred chunks in one run beside one with all their rows; BENCH_SMALL makes them smaller meanwhile."""
    each = ground.size("BENCH_SMALL", 50_000)
    rows = each * _SMALL_CHUNKS
    for name, per_day, count in (("small", each, rows), ("large", rows, rows), ("tenth", rows // 10, rows // 10)):
        progress(f"  {count:,} rows in chunks of {per_day:,} ...")
        replace(on, per_day=per_day).make_table(name, count, filled=True)
        on.run(f"SELECT lakets.enable_sync('{name}')")
    on.drain()
    (large,), (tenth,) = on.chunks("large"), on.chunks("tenth")
    with on.feeding():
        prover, gate = on.stack.prover(), on.stack.lifecycle("small")

        def many() -> None:
            lines = gate.verify()
            assert sum(line.verdict == "proven" and bool(line.rows) for line in lines) >= _SMALL_CHUNKS, lines

        def one() -> None:
            found = prover.prove(large[0])
            assert found.equal, found.message

        one()
        times = interleave({"many": many, "one": one}, _ROUNDS)
        report.show_times(f"receipts of {_SMALL_CHUNKS} chunks of {each:,} rows", times["many"], "in one run")
        report.show_times(f"receipt of one chunk of {rows:,} rows", times["one"])
        report.check("many small receipts / one large", times["many"].median / times["one"].median, "<= 2")
        _memory(report, on, [tenth[0], large[0]])


def _memory(report: Report, on: Ground, chunks: Sequence[int]) -> None:
    """Of the Python processes alone, driver and workers, at their largest, with a heap of 1 GB for the other side."""
    peaks = []
    for oid in chunks:
        program = _RECEIPT.format(home=str(on.stack.home.root), oid=oid)
        with scratch.folder() as folder, scratch.answering(program, scratch.environment(), folder, 1800) as answer:
            peaks.append(_largest(answer.pid))
    for oid, peak in zip(chunks, peaks, strict=True):
        ((rows,),) = on.run(
            f"SELECT row_count FROM thermocline.receipt WHERE chunk_oid = {oid} ORDER BY id DESC LIMIT 1"
        )
        report.show(
            f"Python's memory for a receipt of {rows:,} rows", peak / 2**20, "MB", "driver and workers, heap of 1 GB"
        )
    report.check("memory of a large receipt / of a small one", peaks[1] / peaks[0], "<= 1.2")


def _largest(pid: int) -> int:
    """The highest use of memory so far of a Python process and of those that it started, the largest of them."""
    driver = psutil.Process(pid)
    found = []
    for process in (driver, *driver.children(recursive=True)):
        if "python" in process.name():
            with Path(f"/proc/{process.pid}/status").open() as file:
                found += [int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")]
    return max(found)


def verdicts_on_thousands(report: Report, on: Ground) -> None:
    """Chunks of an hour with a row each, all due and with a receipt; BENCH_CHUNKS makes them fewer meanwhile."""
    count = ground.size("BENCH_CHUNKS", 5_000)
    on.run(
        f"CREATE TABLE thousands ({ground.COLUMNS})",
        "SELECT lakets.create_chronotable('thousands', 'ts', '1 hour')",
        "SELECT lakets.enable_sync('thousands')",
    )
    progress(f"  making {count:,} chunks ...")
    for begin in range(0, count, _CHUNKS_AT_ONCE):
        some = min(_CHUNKS_AT_ONCE, count - begin)
        on.run(
            f"SELECT lakets._ensure_partitions(r.id, 1, 3, min(m.range_start) - interval '1 hour' * {some})"
            " FROM lakets._chronotable_registry r JOIN lakets._chunk_metadata m ON m.chronotable_id = r.id"
            " WHERE r.table_name = 'thousands' GROUP BY r.id"
        )
    on.run(
        "INSERT INTO thousands (ts, sensor) SELECT range_start, 1 FROM lakets.show_chunks('thousands')",
        "SELECT lakets.add_tiered_retention_policy('thousands', '1 second', '1 minute')",
    )
    on.drain()
    on.run(
        _RECEIPTS, "ANALYZE thermocline.receipt, thermocline.chunk_copy, lakets._chunk_metadata, pg_class, pg_attribute"
    )
    asked = b"SELECT * FROM thermocline._verdicts(lakets._chronotable_id('thousands', 'public'))"
    with psycopg.connect(on.dsn, autocommit=True) as session:
        found = session.execute(asked).fetchall()
        dropping = sum(row[5] == "drop" for row in found)
        assert dropping >= count, f"{dropping} of {len(found)} are to go"
        times = interleave({"verdicts": partial(_fetch, session, asked)}, 10)
    report.show_times(f"verdicts on {len(found):,} chunks", times["verdicts"], "in a session that has asked before")
    report.check("verdicts on thousands of chunks", times["verdicts"].median * 1000, "< 200 ms")


def _fetch(session: psycopg.Connection, statement: bytes) -> None:
    session.execute(statement).fetchall()
