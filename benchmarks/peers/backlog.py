"""The changes that all readers get to read: one table, one publication, one slot that nobody moves."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "m"
PER_TRANSACTION = 10_000
PER_DAY = 1_000_000

_CREATE = """
    CREATE TABLE {table} (ts timestamptz NOT NULL, sensor int8, v1 float8, v2 float8, n int4, tag text)
    PARTITION BY RANGE (ts)
"""
_PARTITION = """
    CREATE TABLE {leaf} PARTITION OF {table}
    FOR VALUES FROM (timestamptz '2026-01-01 00:00Z' + {day} * interval '24 h')
    TO (timestamptz '2026-01-01 00:00Z' + {day} * interval '24 h' + interval '24 h')
"""
# About 80 bytes a change in binary form.
_INSERT = """
    INSERT INTO {table}
    SELECT timestamptz '2026-01-01 00:00Z' + i * (interval '24 h' / {per_day}),
           i % 1000, i * 0.37, sin(i), (i % 100)::int4, 'tag' || lpad((i % 1000)::text, 3, '0')
    FROM generate_series({first}::int8, {last}::int8) AS i
"""


@dataclass(frozen=True)
class Backlog:
    """Changes that wait in the WAL: `changes` of them between where the slot stands and `end`."""

    dsn: str
    changes: int
    slot: str
    publication: str
    end: str

    @contextmanager
    def slot_copy(self) -> Iterator[str]:
        """A slot at the same place, for one reader; gone afterwards."""
        name = f"peer_{secrets.token_hex(6)}"
        with psycopg.connect(self.dsn, autocommit=True) as session:
            session.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [self.slot, name])
        try:
            yield name
        finally:
            _drop_slot(self.dsn, name)

    def require_read(self, slot: str) -> None:
        """A reader that says it is done must have confirmed all of it."""
        with psycopg.connect(self.dsn) as session:
            row = session.execute(
                "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
                [self.end, slot],
            ).fetchone()
        assert row == (True,), "the reader stopped before the end of the backlog"


@contextmanager
def backlog(dsn: str, changes: int, per_transaction: int = PER_TRANSACTION) -> Iterator[Backlog]:
    """Table, publication through the root, slot and changes in a database of their own; the slot goes afterwards."""
    create_table(dsn, changes)
    slot = publication = f"peers_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
                sql.Identifier(publication), sql.Identifier(TABLE)
            )
        )
        session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    try:
        yield Backlog(dsn, changes, slot, publication, write(dsn, changes, per_transaction))
    finally:
        _drop_slot(dsn, slot)


def create_table(dsn: str, changes: int) -> None:
    """The table, with partitions of a day for so many changes."""
    table = sql.Identifier(TABLE)
    with psycopg.connect(dsn) as session:
        session.execute(sql.SQL(_CREATE).format(table=table))
        for day in range(changes // PER_DAY + 1):
            leaf = sql.Identifier(f"{TABLE}_{day}")
            session.execute(sql.SQL(_PARTITION).format(leaf=leaf, table=table, day=sql.Literal(day)))
            session.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(leaf))


def write(dsn: str, changes: int, per_transaction: int = PER_TRANSACTION, first: int = 0) -> str:
    """Insert so many rows, numbered from the first; returns the WAL position after them, flushed."""
    with psycopg.connect(dsn, autocommit=True) as session:
        for begin in range(first, first + changes, per_transaction):
            last = min(begin + per_transaction, first + changes) - 1
            session.execute(
                sql.SQL(_INSERT).format(
                    table=sql.Identifier(TABLE), per_day=sql.Literal(PER_DAY), first=begin, last=last
                )
            )
        row = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def _drop_slot(dsn: str, name: str) -> None:
    """A reader that has just ended may still hold its slot for a moment; it is told to let go."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(
            "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots"
            " WHERE slot_name = %s AND active_pid IS NOT NULL",
            [name],
        )
        session.execute("SELECT pg_drop_replication_slot(%s)", [name])
