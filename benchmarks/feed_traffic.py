"""The feed under traffic of other kinds: many tables, updates and deletes, tiny transactions, latency, two workers."""

from __future__ import annotations

import json
import random
import secrets
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import psycopg

from benchmarks import scratch
from benchmarks.frame import Seconds, Times, interleave, progress, shown, timed
from benchmarks.ground import COLUMNS, PER_TRANSACTION
from benchmarks.peers import recvlogical
from benchmarks.peers.backlog import Backlog
from benchmarks.peers.cluster import standalone_cluster
from thermocline.feed.feed import Feed
from thermocline.hot.positions import number
from thermocline.lake import history, java
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.frame import Report
    from benchmarks.ground import Ground
    from thermocline.feed.batches import Batch

_ROUNDS = 3
_TABLES = 20
_SYNCED, _ACTIVE = 200, 5
_BATCHES = 30
_FAR = 4
_PROBES = 150
_NEWEST = "SELECT metadata_location FROM thermocline_lake.iceberg_tables WHERE table_name = 'lb_probe_history'"
_REPOSITORY = Path(__file__).resolve().parents[1]
_PROGRAM = Path(__file__).with_name("_feed_program.py")


@contextmanager
def backlog(on: Ground, table: str, changes: int, write: Callable[[], str]) -> Iterator[Backlog]:
    """Changes of a synced table, with a publication and a slot for the peers before them."""
    name = f"peers_{secrets.token_hex(6)}"
    on.run(
        f"CREATE PUBLICATION {name} FOR TABLE {table} WITH (publish_via_partition_root = true)",
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
    )
    try:
        progress(f"  writing {changes:,} changes ...")
        yield Backlog(on.dsn, changes, name, name, write())
    finally:
        on.run(f"SELECT pg_drop_replication_slot('{name}')", f"DROP PUBLICATION {name}")


def drained(on: Ground) -> Seconds:
    """The feed from its start until everything is in the lake."""
    with on.stack.feed() as service:
        return Seconds(timed(lambda: service.drain()))


# ---- many tables -----------------------------------------------------------------------------


def spread(report: Report, on: Ground, changes: int) -> None:
    """The same changes in one table and in twenty, whose transactions take turns."""
    names = [f"spread{number}" for number in range(_TABLES)]
    for name in ("alone", *names):
        on.make_table(name, changes if name == "alone" else changes // _TABLES)
        on.run(f"SELECT lakets.enable_sync('{name}')")
        on.insert(name, 1000)
    on.drain()
    on.drain()

    def one() -> Seconds:
        on.insert("alone", changes)
        return drained(on)

    def many() -> Seconds:
        before = sum(on.lake_rows(name) for name in names)
        share = changes // _TABLES
        for begin in range(0, share, PER_TRANSACTION):
            for name in names:
                on.insert(name, min(PER_TRANSACTION, share - begin))
        took = drained(on)
        arrived = sum(on.lake_rows(name) for name in names) - before
        assert arrived == share * _TABLES, f"{arrived} of {share * _TABLES} changes are in the lake"
        return took

    times = interleave({"one table": one, f"{_TABLES} tables": many}, _ROUNDS)
    for name, found in times.items():
        report.show_times(f"{changes:,} changes of {name}", found, _rate(changes, found))
    ratio = times["one table"].median / times[f"{_TABLES} tables"].median
    report.check(f"backlog of {_TABLES} tables / of one", ratio, ">= 0.7")
    for name in ("alone", *names):
        _remove(on, name)


# ---- updates and deletes ---------------------------------------------------------------------


def updates(report: Report, on: Ground, changes: int) -> None:
    """Inserts of a table, then updates of half of its rows and deletes of the other half; every old row comes whole.

    An update is two entries in the lake, the old row and the new one; an insert and a delete are one each.
    """
    on.make_table("mutable", changes)
    on.run("SELECT lakets.enable_sync('mutable')", "ALTER TABLE mutable REPLICA IDENTITY FULL")
    on.insert("mutable", 1000)
    on.drain()
    on.drain()
    taken: dict[str, list[float]] = {"inserts": [], "updates and deletes": []}
    for number_of in range(_ROUNDS):
        on.run("TRUNCATE mutable")
        on.drain()
        before = on.lake_rows("mutable")
        on.insert("mutable", changes)
        taken["inserts"].append(drained(on))
        inserted = on.lake_rows("mutable") - before
        assert inserted == changes, f"{inserted} entries of {changes} inserts are in the lake"
        ((first, last),) = on.run("SELECT min(ts)::text, max(ts)::text FROM mutable")
        pieces = max(1, changes // PER_TRANSACTION)
        part = f"'{first}'::timestamptz + ('{last}'::timestamptz - '{first}'::timestamptz) * {{}}::float8 / {pieces}"
        written = {"UPDATE": 0, "DELETE": 0}
        with psycopg.connect(on.dsn, autocommit=True) as session:
            for piece in range(pieces):
                until = f"ts <= '{last}'" if piece == pieces - 1 else f"ts < {part.format(piece + 1)}"
                where = f"ts >= {part.format(piece)} AND {until}"
                what = "UPDATE mutable SET v1 = v1 + 1" if piece % 2 else "DELETE FROM mutable"
                written[what[:6]] += session.execute(f"{what} WHERE {where}".encode()).rowcount
        taken["updates and deletes"].append(drained(on))
        assert sum(written.values()) == changes, f"{written} are not {changes} changes"
        arrived, entries = on.lake_rows("mutable") - before - inserted, 2 * written["UPDATE"] + written["DELETE"]
        assert arrived == entries, f"{arrived} of {entries} entries of {changes} changes are in the lake"
        progress(f"  {number_of + 1} of {_ROUNDS}: {[shown(one[-1]) for one in taken.values()]} s")
    times = {name: Times(tuple(seconds)) for name, seconds in taken.items()}
    for name, found in times.items():
        report.show_times(f"{changes:,} {name}, full identity", found, _rate(changes, found))
    ratio = times["inserts"].median / times["updates and deletes"].median
    report.check("updates and deletes / inserts", ratio, ">= 0.6")
    _remove(on, "mutable")


# ---- shadow mode -----------------------------------------------------------------------------


def shadow(report: Report, on: Ground, rows: int) -> None:
    """The same blocks by COPY into a table that is not synced and into one in shadow mode; no feed runs meanwhile."""
    for name in ("plain", "mirrored"):
        on.make_table(name, rows)
    on.run("SELECT lakets.enable_sync('mirrored', p_mode => 'shadow')")
    on.drain()
    blocks = on.copy_blocks(rows)

    def ingest(table: str) -> Seconds:
        on.run("TRUNCATE plain, mirrored", "CHECKPOINT")
        return Seconds(on.copy(table, blocks))

    contenders = {"not synced": lambda: ingest("plain"), "shadow mode": lambda: ingest("mirrored")}
    times = interleave(contenders, 3 * _ROUNDS)
    for name, found in times.items():
        report.show_times(f"COPY of {rows:,} rows: {name}", found, _rate(rows, found))
    assert on.run("SELECT count(*) FROM lakets_cdf._shadow_mirrored") == on.run("SELECT count(*) FROM mirrored")
    report.check("COPY, shadow mode / not synced", times["not synced"].over(times["shadow mode"]), ">= 0.4")
    on.drain()
    for name in ("plain", "mirrored"):
        _remove(on, name)


# ---- one row in a transaction ----------------------------------------------------------------


def single_rows(report: Report, on: Ground, changes: int) -> None:
    """As many transactions as rows, beside PostgreSQL's own reader."""
    on.make_table("tiny", changes)
    on.run("SELECT lakets.enable_sync('tiny')")
    on.insert("tiny", 1000)
    on.drain()
    on.drain()

    def write() -> str:
        on.run(
            "SET synchronous_commit = off",
            f"DO $$ BEGIN FOR i IN 1..{changes} LOOP"
            " INSERT INTO tiny VALUES (now(), i % 1000, i * 0.37, sin(i), i % 100, 'tag'); COMMIT; END LOOP; END $$",
        )
        ((end,),) = on.run("SELECT pg_switch_wal()", "CHECKPOINT", "SELECT pg_current_wal_flush_lsn()::text")
        return str(end)

    taken: dict[str, list[float]] = {"feed": [], "pg_recvlogical": []}
    for number_of in range(_ROUNDS):
        before = on.lake_rows("tiny")
        with backlog(on, "tiny", changes, write) as made:
            calls: dict[str, Callable[[], Seconds]] = {
                "feed": lambda: drained(on),
                "pg_recvlogical": lambda made=made: recvlogical.drain(made),  # type: ignore[misc]
            }
            for name in list(calls)[:: -1 if number_of % 2 else 1]:
                taken[name].append(calls[name]())
                progress(f"  {name}, {number_of + 1} of {_ROUNDS}: {shown(taken[name][-1])} s")
        arrived = on.lake_rows("tiny") - before
        assert arrived == changes, f"{arrived} of {changes} changes are in the lake"
    times = {name: Times(tuple(seconds)) for name, seconds in taken.items()}
    for name, found in times.items():
        report.show_times(f"{changes:,} transactions of one row: {name}", found, _rate(changes, found))
    ratio = times["pg_recvlogical"].median / times["feed"].median
    report.check("one row in a transaction, feed / pg_recvlogical", ratio, ">= 0.5")
    _remove(on, "tiny")


# ---- how long a change takes -----------------------------------------------------------------


def latency(report: Report, on: Ground) -> None:
    """From the commit of a row to the commit of the snapshot that has it, with one second between two commits."""
    on.make_table("probe", 1000)
    on.run("SELECT lakets.enable_sync('probe')")
    on.drain()
    settings = on.stack.settings
    second = settings.model_copy(update={"feed": settings.feed.model_copy(update={"interval": 1})})
    lags: list[float] = []
    with Stack(second).feeding() as tended, on.stack.catalog() as catalog:
        tended.wait(60)
        waiting: list[tuple[int, float]] = []
        done, chance = threading.Event(), random.Random(1)

        def watch() -> None:
            seen = None
            while not done.wait(0.02):
                now, newest = time.time(), on.run(_NEWEST)
                if newest == seen:
                    continue
                seen = newest
                marker = history.History(catalog.load_table("public.lb_probe_history")).marker()
                here = [one for one in list(waiting) if one[0] <= marker]
                lags.extend(now - at for _, at in here)
                for one in here:
                    waiting.remove(one)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with psycopg.connect(on.dsn, autocommit=True) as session:
            for _ in range(_PROBES):
                time.sleep(chance.uniform(0.05, 0.35))
                session.execute("INSERT INTO probe VALUES (now(), 1, 1, 1, 1, 'probe')")
                at = time.time()
                row = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                waiting.append((number(row[0]) if row else 0, at))
        deadline = time.monotonic() + 30
        while waiting and time.monotonic() < deadline:
            time.sleep(0.5)
            on.run("INSERT INTO probe VALUES (now(), 2, 2, 2, 2, 'after')")
        done.set()
        watcher.join()
    assert len(lags) == _PROBES, f"{len(lags)} of {_PROBES} changes came to the lake within 30 s"
    kept = sorted(lags)
    p50, p95 = statistics.median(kept), kept[int(len(kept) * 0.95)]
    report.show("commit to visible, one second between commits", p50, "s", f"p95 {shown(p95)} s, {len(kept)} changes")
    report.check("commit to visible, p50", p50, "<= 2 s")
    report.check("commit to visible, p95", p95, "<= 4 s")
    _remove(on, "probe")


# ---- many tables of which few are written to -------------------------------------------------


def many_tables(report: Report, on: Ground) -> None:
    """What a batch of five tables costs, from its plan to the slot, when five are synced and when two hundred are."""
    names = [f"many{number_of}" for number_of in range(_SYNCED)]
    for name in names:
        on.run(
            f"CREATE TABLE {name} ({COLUMNS})",
            f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
        )
    active, idle = names[:_ACTIVE], names[_ACTIVE:]
    settings = on.stack.settings
    at_once = settings.model_copy(update={"feed": settings.feed.model_copy(update={"interval": 0.5})})
    taken: dict[str, list[float]] = {}
    for number_of, synced in enumerate((active, names, active)):
        wanted = "enable" if synced is names else "disable"
        if number_of == 0:
            on.run(*(f"SELECT lakets.enable_sync('{name}')" for name in active))
        else:
            on.run(*(f"SELECT lakets.{wanted}_sync('{name}')" for name in idle))
        on.drain()
        on.drain()
        progress(f"  {len(synced)} tables are synced ...")
        with _batches() as batches, Stack(at_once).feeding() as tended:
            tended.wait(60)
            deadline = time.monotonic() + 120
            while len(batches) < _BATCHES and time.monotonic() < deadline:
                for name in active:
                    on.insert(name, 1000)
                time.sleep(0.2)
        taken.setdefault(f"{len(synced)} synced", []).extend(batches[3:])
    times = {name: Times(tuple(seconds)) for name, seconds in taken.items()}
    for name, found in times.items():
        report.show_times(f"batch of {_ACTIVE} tables, {name}", found)
    ratio = times[f"{_SYNCED} synced"].median / times[f"{_ACTIVE} synced"].median
    report.check(f"batch of {_ACTIVE} tables, {_SYNCED} synced / {_ACTIVE}", ratio, "<= 1.3")
    for name in names:
        _remove(on, name)


@contextmanager
def _batches() -> Iterator[list[float]]:
    """How long batches take that had rows: from the look at the tables to the slot."""
    from thermocline.feed.on_spark import Carrier  # the stream's own way

    found: list[float] = []
    carry, settle = Carrier.carry, Feed.settle
    files: list[int] = []

    def settled(feed: Feed, batch: Batch) -> bool:
        files.append(len(batch.files))
        return settle(feed, batch)

    def timed_carry(carrier: Carrier, ends: object) -> None:
        files.clear()
        began = time.perf_counter()
        carry(carrier, ends)  # type: ignore[arg-type]
        if sum(files) >= _ACTIVE:
            found.append(time.perf_counter() - began)

    with patch.object(Carrier, "carry", timed_carry), patch.object(Feed, "settle", settled):
        yield found


# ---- a cluster -------------------------------------------------------------------------------


def workers(report: Report, on: Ground, changes: int) -> None:
    """The first copy and a backlog of four tables, on a standalone cluster of one worker and of two: only shown.

    Both clusters are on this machine, so that two workers share what one has for itself.
    """
    names = [f"far{number_of}" for number_of in range(_FAR)]
    for name in names:
        on.make_table(name, changes // _FAR, filled=True)
    found: dict[tuple[int, str], float] = {}
    home = java.find(on.stack.settings.java, on.stack.home).home
    for count in (1, 2):
        with scratch.folder() as folder, standalone_cluster(folder, home, count) as master:
            settings = {"THERMOCLINE_HOME": str(on.stack.home.root), "THERMOCLINE_SPARK_MASTER": master}
            environment = scratch.environment(**settings, PYTHONPATH=str(_REPOSITORY))
            said = scratch.run_program([sys.executable, _PROGRAM, str(changes), *names], environment, folder, 1800)
            for what, seconds in json.loads(said.strip().splitlines()[-1]).items():
                found[count, what] = seconds
                progress(f"  {what}, {count} workers: {shown(seconds)} s")
    for (count, what), seconds in found.items():
        rate = f"{changes / seconds:,.0f} rows/s"
        if count == 2:
            rate += f"; {shown(found[1, what] / seconds)} times as fast as one worker"
        report.show(f"{changes:,} rows of {_FAR} tables, {count} workers: {what}", seconds, "s", rate)
    for name in names:
        on.run(f"SELECT lakets.drop_chronotable('{name}')")


def _remove(on: Ground, name: str) -> None:
    on.run(f"SELECT lakets.disable_sync('{name}')", f"SELECT lakets.drop_chronotable('{name}')")


def _rate(rows: int, times: Times) -> str:
    return f"{rows / times.median:,.0f} changes/s"
