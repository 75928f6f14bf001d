"""What the benchmarks of feed, gate and ingest stand on: a server, a warm Spark session, and tables of measurements."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import scratch
from benchmarks.frame import progress
from thermocline.config import Settings
from thermocline.hot.statements import query
from thermocline.lake.catalogs import LAKE
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import SparkSession

COLUMNS = "ts timestamptz NOT NULL, sensor int8, v1 float8, v2 float8, n int4, tag text"
PER_TRANSACTION = 10_000
PER_DAY = 1_000_000
_PATIENCE = 600

# Rows end before today, so that the chunks around now, which are made anyway, stay the only empty ones.
_ROW = """
    date_trunc('day', now(), 'UTC') - {days} * interval '24 h' + (i % {span}) * (interval '24 h' / {per_day}),
    i % 1000, i * 0.37, sin(i), (i % 100)::int4, 'tag' || lpad((i % 1000)::text, 3, '0')
"""


def size(name: str, default: int) -> int:
    """A number of rows, smaller while a benchmark is being worked at."""
    return int(os.environ.get(name, default))


def ask(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements in UTC, each in a transaction of its own; returns the rows of the last."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        for statement in statements:
            cursor = session.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Ground:
    """A server, its lake, and the Spark session of this process."""

    stack: Stack
    spark: SparkSession
    per_day: int = PER_DAY
    """Rows of a chunk."""

    @property
    def dsn(self) -> str:
        """How to connect."""
        return self.stack.dsn

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; returns the rows of the last."""
        return ask(self.dsn, *statements)

    def make_table(self, name: str, rows: int, *, filled: bool = False) -> None:
        """A ChronoTable with chunks of a day for so many rows; not synced."""
        self.run(
            f"CREATE TABLE {name} ({COLUMNS})",
            f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
            f"SELECT lakets._ensure_partitions(id, 1, 3, now() - interval '1 day' * {self._days(rows)}, now())"
            f" FROM lakets._chronotable_registry WHERE table_name = '{name}'",
        )
        if filled:
            self.insert(name, rows, per_transaction=self.per_day)
            self.run("CHECKPOINT", f"VACUUM (ANALYZE) {name}")

    def insert(self, name: str, rows: int, per_transaction: int = PER_TRANSACTION) -> str:
        """Write so many rows over the days that they fill; returns the position of the log after them, flushed."""
        row = self._row(rows)
        with psycopg.connect(self.dsn, autocommit=True) as session:
            for begin in range(0, rows, per_transaction):
                last = min(begin + per_transaction, rows) - 1
                session.execute(f"INSERT INTO {name} SELECT {row} FROM generate_series({begin}, {last}) i".encode())
            found = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert found is not None
        return str(found[0])

    def _days(self, rows: int) -> int:
        return max(1, -(-rows // self.per_day))

    def _row(self, rows: int) -> str:
        days = self._days(rows)
        return _ROW.format(days=days, span=days * self.per_day, per_day=self.per_day)

    def copy_blocks(self, rows: int, per_transaction: int = PER_TRANSACTION) -> list[bytes]:
        """The same rows as text for COPY, one block for each transaction."""
        row = self._row(rows)
        blocks = []
        with psycopg.connect(self.dsn) as session:
            for begin in range(0, rows, per_transaction):
                last = min(begin + per_transaction, rows) - 1
                ask = f"COPY (SELECT {row} FROM generate_series({begin}, {last}) i) TO STDOUT"
                with session.cursor().copy(ask.encode()) as copy:
                    blocks.append(b"".join(bytes(part) for part in copy))
        return blocks

    def copy(self, name: str, blocks: list[bytes]) -> float:
        """Write blocks by COPY, a transaction each; returns how long that took."""
        began = time.perf_counter()
        with psycopg.connect(self.dsn) as session:
            for block in blocks:
                with session.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                    copy.write(block)
                session.commit()
        return time.perf_counter() - began

    def chunks(self, name: str) -> list[tuple[int, str]]:
        """The resident chunks that have rows, oldest first: oid and quoted name."""
        return [
            (oid, chunk)
            for oid, chunk in self.run(
                "SELECT m.chunk_oid::bigint, format('%I.%I', n.nspname, c.relname)"
                " FROM lakets._chunk_metadata m JOIN lakets._chronotable_registry t ON t.id = m.chronotable_id"
                " JOIN pg_class c ON c.oid = m.chunk_oid JOIN pg_namespace n ON n.oid = c.relnamespace"
                f" WHERE t.table_name = '{name}' AND m.status <> 'dropped' AND pg_relation_size(m.chunk_oid) > 0"
                " ORDER BY m.range_start"
            )
        ]

    def lake_rows(self, name: str) -> int:
        """How many entries the history of a table has."""
        snapshot = self._newest_snapshot(name)
        return int(snapshot.summary.get("total-records") or 0) if snapshot and snapshot.summary else 0

    def committed_at(self, name: str) -> float:
        """When the newest snapshot of a history was committed, in seconds of the clock."""
        snapshot = self._newest_snapshot(name)
        return snapshot.timestamp_ms / 1000 if snapshot else 0

    def _newest_snapshot(self, name: str) -> Snapshot | None:
        with self.stack.catalog(LAKE) as catalog:
            return catalog.load_table(f"public.lb_{name}_history").current_snapshot()

    def drain(self) -> None:
        """Bring everything to the lake now."""
        with self.stack.feed() as service:
            done = service.drain()
        assert done.caught_up, done

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """The feed beside everything else, its stream running already."""
        with self.stack.feeding() as tended:
            tended.wait(60)
            yield

    def wait_for_lake(self, name: str) -> None:
        """Ask the feed for everything that is committed now, as whoever waits for it does, until the lake has it."""
        with psycopg.connect(self.dsn, autocommit=True) as session:
            found = session.execute("SELECT id FROM lakets._chronotable_registry WHERE table_name = %s", [name])
            (table,) = found.fetchone() or (0,)
            (fence,) = session.execute(query("receipt_fence"), {"table": table}).fetchone() or ("",)
            deadline = time.monotonic() + _PATIENCE
            while time.monotonic() < deadline:
                row = session.execute(query("receipt_progress"), {"table": table, "fence": fence}).fetchone()
                if row and row[0]:
                    return
                time.sleep(0.02)
        raise TimeoutError(f"The lake does not have {name} up to {fence} after {_PATIENCE} s.")


@contextmanager
def prepared(per_day: int = PER_DAY) -> Iterator[Ground]:
    """A home of its own with its server, and Spark; both are gone afterwards."""
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        home.facts_of_up()
        stack = Stack(Settings(home=home.root))
        progress("Starting Spark ...")
        spark = stack.spark()
        try:
            yield Ground(stack, spark, per_day)
        finally:
            spark.stop()
