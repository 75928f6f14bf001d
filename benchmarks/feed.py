"""The feed's numbers: a backlog drained beside its peers, the first copy, COPY beside it, memory, other traffic."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import psutil

from benchmarks import feed_traffic, ground
from benchmarks.frame import Report, Seconds, Times, interleave, progress, shown, timed
from benchmarks.ground import PER_TRANSACTION
from benchmarks.peers import debezium, recvlogical
from thermocline.feed.on_spark import Carrier
from thermocline.hot import bulk
from thermocline.lake.tasks import OnSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from benchmarks.ground import Ground
    from benchmarks.peers.backlog import Backlog

_ROUNDS = 3
_SAMPLE_SECONDS = 0.05


def run() -> Report:
    """All parts on one server and one Spark session.

    BENCH_CHANGES makes them smaller while they are worked at, and BENCH_PARTS names those that are to run, by commas.
    """
    changes = ground.size("BENCH_CHANGES", 4_000_000)
    report = Report("feed")
    with ground.prepared() as on:
        parts: dict[str, Callable[[], None]] = {
            "drain": lambda: _drain(report, on, changes),
            "first copy": lambda: _first_copy(report, on, changes * 5 // 4),
            "COPY beside the feed": lambda: _ingest(report, on, changes),
            "memory": lambda: _memory(report, on, changes),
            "many tables": lambda: feed_traffic.spread(report, on, changes // 2),
            "shadow mode": lambda: feed_traffic.shadow(report, on, changes // 8),
            "updates and deletes": lambda: feed_traffic.updates(report, on, changes // 4),
            "one row in a transaction": lambda: feed_traffic.single_rows(report, on, changes // 10),
            "latency": lambda: feed_traffic.latency(report, on),
            "200 synced tables": lambda: feed_traffic.many_tables(report, on),
            "two workers": lambda: feed_traffic.workers(report, on, changes),
        }
        chosen = [name for name in os.environ.get("BENCH_PARTS", "").split(",") if name] or list(parts)
        for name in chosen:
            with report.part(name):
                parts[name]()
    return report


# ---- the backlog -----------------------------------------------------------------------------


def _drain(report: Report, on: Ground, changes: int) -> None:
    """Every round has a backlog of its own, which all of them read: the feed's slot goes on, its peers' are copies."""
    debezium.prepare()
    on.make_table("m", 2 * changes)  # as many as the largest part writes
    on.run("SELECT lakets.enable_sync('m')")
    on.insert("m", PER_TRANSACTION)
    on.drain()
    on.insert("m", PER_TRANSACTION)
    on.drain()  # the first drain copies, this one streams: now everything is warm

    streaming: list[float] = []

    def feed(_made: Backlog) -> Seconds:
        with on.stack.feed() as service, _first_batch() as first:
            took = timed(lambda: service.drain())
        streaming.append(on.committed_at("m") - first[0])
        return Seconds(took)

    contenders: dict[str, Callable[[Backlog], Seconds]] = {
        "feed": feed,
        "pg_recvlogical": recvlogical.drain,
        "Debezium": lambda made: debezium.drain(made).seconds,
    }
    taken: dict[str, list[float]] = {}
    for number in range(_ROUNDS):
        before = on.lake_rows("m")
        with feed_traffic.backlog(on, "m", changes, lambda: on.insert("m", changes)) as made:
            for name in list(contenders)[:: -1 if number % 2 else 1]:
                took = timed(partial(contenders[name], made))
                taken.setdefault(name, []).append(took)
                progress(f"  {name}, {number + 1} of {_ROUNDS}: {shown(took)} s, {changes / took:,.0f} changes/s")
        arrived = on.lake_rows("m") - before
        assert arrived == changes, f"{arrived} of {changes} changes are in the lake"
    taken["feed, first batch to last commit"] = streaming
    times = {name: Times(tuple(seconds)) for name, seconds in taken.items()}
    notes = {
        "feed": "into committed snapshots, through Spark; from its start until its slot has moved on",
        "feed, first batch to last commit": "the same without start and end",
        "pg_recvlogical": "TCP, /dev/null",
        "Debezium": "embedded engine, no sink, first event to last",
    }
    for name, note in notes.items():
        report.show_times(f"{changes:,} changes: {name}", times[name], f"{_rate(changes, times[name])}; {note}")
    report.check("feed / pg_recvlogical", times["pg_recvlogical"].median / times["feed"].median, ">= 1.0")
    streamed = times["feed, first batch to last commit"].median
    report.check("feed / Debezium, both from the first to the last", times["Debezium"].median / streamed, ">= 6")


@contextmanager
def _first_batch() -> Iterator[list[float]]:
    """When batches began: what Debezium is timed from, its start left out."""
    began: list[float] = []
    carry = Carrier.carry

    def noted(carrier: Carrier, ends: DataFrame) -> None:
        began.append(time.time())
        carry(carrier, ends)

    with patch.object(Carrier, "carry", noted):
        yield began


# ---- the first copy --------------------------------------------------------------------------


def _first_copy(report: Report, on: Ground, rows: int) -> None:
    on.make_table("filled", rows, filled=True)
    chunks = [name for _, name in on.chunks("filled")]

    def copy() -> Seconds:
        """From the start of copying to the last chunk covered; a table is copied anew each time it is synced anew."""
        on.run("SELECT lakets.enable_sync('filled')")
        with on.stack.own_feed(OnSpark(lambda: on.spark)) as feed:
            took = timed(lambda: _until_covered(feed.tend))
        on.run("SELECT lakets.disable_sync('filled')")
        with on.stack.catalog() as catalog:
            catalog.drop_table("public.lb_filled_history")
        return Seconds(took)

    def read() -> None:
        chosen = "ts, sensor, v1, v2, n, tag"
        found = sum(
            batch.num_rows for name in chunks for batch in bulk.stream(on.dsn, f"SELECT {chosen} FROM ONLY {name}")
        )
        assert found == rows, f"{found} of {rows} rows were read"

    times = interleave({"first copy": copy, "ADBC": read}, _ROUNDS)
    report.show_times(f"{rows:,} rows: first copy", times["first copy"], _rate(rows, times["first copy"]))
    report.show_times(f"{rows:,} rows: ADBC", times["ADBC"], f"{_rate(rows, times['ADBC'])}; read, nothing written")
    report.check("first copy / ADBC", times["ADBC"].median / times["first copy"].median, ">= 0.5")


def _until_covered(tend: Callable[[], object]) -> None:
    while not getattr(tend(), "caught_up", False):
        time.sleep(0.1)


# ---- COPY ------------------------------------------------------------------------------------


def _ingest(report: Report, on: Ground, rows: int) -> None:
    """The same blocks into a table that is not synced, one whose feed is stopped, and one whose feed runs."""
    on.make_table("apart", rows)
    blocks = on.copy_blocks(rows)
    lags: list[float] = []

    def quiet(call: Callable[[], float]) -> Callable[[], Seconds]:
        def called() -> Seconds:
            on.run("TRUNCATE apart", "CHECKPOINT")
            return Seconds(call())

        return called

    def stopped() -> float:
        took = on.copy("m", blocks)
        on.drain()
        return took

    def running() -> float:
        with on.feeding():
            began = time.perf_counter()
            took = on.copy("m", blocks)
            on.wait_for_lake("m")
            lags.append((time.perf_counter() - began) / took)
        return took

    on.copy("apart", blocks)
    contenders = {"not synced": lambda: on.copy("apart", blocks), "feed stopped": stopped, "feed running": running}
    times = interleave({name: quiet(call) for name, call in contenders.items()}, _ROUNDS)
    for name, found in times.items():
        report.show_times(f"COPY of {rows:,} rows: {name}", found, _rate(rows, found))
    report.show("until the lake has it / COPY", sorted(lags)[len(lags) // 2], "x", f"largest {shown(max(lags))}")
    plain = times["not synced"].median
    report.check("COPY, feed stopped / not synced", plain / times["feed stopped"].median, ">= 0.95")
    report.check("COPY, feed running / not synced", plain / times["feed running"].median, ">= 0.7")
    report.check("in the lake within, times the COPY", sorted(lags)[len(lags) // 2], "<= 1.8")


# ---- memory ----------------------------------------------------------------------------------


def _memory(report: Report, on: Ground, changes: int) -> None:
    """The largest Python worker of Spark at any moment; more rows must not make it larger."""
    peaks: dict[str, float] = {}
    for what, rows, per_transaction in (
        ("backlog", changes, PER_TRANSACTION),
        ("backlog of twice as many", 2 * changes, PER_TRANSACTION),
        ("one transaction", changes // 2, changes // 2),
        ("one transaction of four times as many", 2 * changes, 2 * changes),
    ):
        on.insert("m", rows, per_transaction)
        _end_workers()
        with _watched() as peak:
            on.drain()
        peaks[what] = max(peak.values(), default=0) / 1e9
        report.show(f"{rows:,} rows, {what}", peaks[what], "GB", f"largest of {len(peak)} Python workers of Spark")
        report.check(f"memory of a worker, {what}", peaks[what], "< 1 GB")
    for one, more in (
        ("backlog", "backlog of twice as many"),
        ("one transaction", "one transaction of four times as many"),
    ):
        report.check(f"memory, {more} / {one}", peaks[more] / peaks[one], "<= 1.15")


def _end_workers() -> None:
    """What a process has grown to, it keeps: each measurement begins with new ones, which Spark's daemon starts."""
    pythons = _pythons()
    daemons = {process.pid for process in pythons}
    for process in pythons:
        with suppress(psutil.Error):
            if process.ppid() in daemons:
                process.kill()
                process.wait(10)


def _pythons() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if "python" in one.name()]


@contextmanager
def _watched() -> Iterator[dict[int, int]]:
    """Peaks of resident bytes by process id, taken while the block lasts, of the Pythons below our Java."""
    peaks: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            with suppress(psutil.Error):
                for process in _pythons():
                    peaks[process.pid] = max(peaks.get(process.pid, 0), process.memory_info().rss)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def _rate(rows: int, times: Times) -> str:
    return f"{rows / times.median:,.0f} rows/s"
