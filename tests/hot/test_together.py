"""A table in use: writers, maintenance and retention at once, for a minute, and then every row is accounted for."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask, one
from harness.sessions import Session
from thermocline.hot.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60
KEPT = timedelta(seconds=5)  # drop_after
LATEST = timedelta(seconds=12)  # how late a row may be: some meet a trap

Row = tuple[datetime, int, int]


class Writer:
    """Writes rows by COPY and INSERT, some of them late, and remembers what was acknowledged and what was refused."""

    def __init__(self, number: int, begin: datetime) -> None:
        self.number = number
        self.acknowledged: list[Row] = []
        self.refused = 0
        self._begin = begin
        self._random = random.Random(number)
        self._rows = 0

    def write(self, dsn: str, ends: threading.Event) -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute("SET lock_timeout = '5s'")  # nobody is kept waiting for long
            while not ends.is_set():
                rows = [self._row() for _ in range(self._random.choice([1, 1, 20, 200]))]
                try:
                    self._send(session, rows)
                except psycopg.errors.RaiseException as error:
                    assert "is too late" in str(error)
                    assert min(at for at, *_ in rows) < datetime.now(UTC) - KEPT
                    self.refused += len(rows)
                else:
                    self.acknowledged += rows
                time.sleep(0.002)

    def _send(self, session: psycopg.Connection, rows: list[Row]) -> None:
        match self._random.randrange(3):
            case 0:
                with session.cursor().copy("COPY readings FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
            case 1:
                self._insert(session, rows)
            case _:  # several statements in one transaction, which is open for a while
                with session.transaction():
                    for part in (rows[:1], rows[1:]):
                        self._insert(session, part)
                        time.sleep(self._random.uniform(0, 0.05))

    def _insert(self, session: psycopg.Connection, rows: list[Row]) -> None:
        columns = [[row[at] for row in rows] for at in range(3)]
        session.execute("INSERT INTO readings SELECT * FROM unnest(%s::timestamptz[], %s::int[], %s::int[])", columns)

    def _row(self) -> Row:
        self._rows += 1
        late = timedelta(0)
        chance = self._random.random()
        if chance < 0.02:
            late = self._random.uniform(0.9, 1) * LATEST
        elif chance < 0.2:
            late = self._random.random() * KEPT
        return max(self._begin, datetime.now(UTC) - late), self.number, self._rows


@pytest.mark.slow
def test_g14_k3_writers_maintenance_and_retention_share_a_table_and_no_row_is_lost(
    db: psycopg.Connection, dsn: str
) -> None:
    """Chunks of a second, kept for five: each second one is made and one is dropped, under two writers."""
    begin = datetime.now(UTC)
    db.execute("CREATE TABLE readings (ts timestamptz NOT NULL, writer int, n int, PRIMARY KEY (writer, n, ts))")
    db.execute("SELECT lakets.create_chronotable('readings', 'ts', '1 second')")
    ask(db, "SELECT lakets.add_retention_policy('readings', %s)", KEPT)
    writers = [Writer(number, begin) for number in range(2)]
    ends = threading.Event()

    def maintenance() -> None:
        while not ends.is_set():
            for table in maintain(dsn):
                assert table.findings == ()
            ends.wait(0.5)

    def retention() -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            session.add_notice_handler(lambda said: warnings.append(str(said.message_primary)))
            session.execute("SET client_min_messages = warning")
            while not ends.is_set():
                session.execute("SELECT lakets.execute_retention('readings')")
                ends.wait(0.3)

    warnings: list[str] = []
    jobs: list[Callable[[], None]] = [partial(writer.write, dsn, ends) for writer in writers]
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(job) for job in [*jobs, maintenance, retention]]
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not any(job.done() for job in running):
            time.sleep(0.2)
        ends.set()
        for job in running:
            job.result(timeout=60)

    assert warnings == []
    gone = ask(
        db,
        "SELECT range_start, range_end, row_count FROM thermocline.audit WHERE action = 'drop_chunk'"
        " ORDER BY range_start",
    )
    assert len(gone) > SECONDS / 2
    assert gone == sorted(set(gone)), "no range is dropped twice"
    written = [row for writer in writers for row in writer.acknowledged]
    resident = [row for row in written if not any(start <= row[0] < end for start, end, _ in gone)]
    assert sorted(ask(db, "SELECT ts, writer, n FROM readings")) == sorted(resident)
    assert len(written) == len(resident) + sum(rows for *_, rows in gone)
    for start, end, rows in gone:
        assert rows == sum(start <= at < end for at, *_ in written)
    assert all(writer.acknowledged and writer.refused for writer in writers)
    assert ask(db, "SELECT * FROM lakets._reconcile()") == []
    assert one(db, "SELECT count(*) FROM lakets._chunk_metadata WHERE status <> 'dropped'") == one(
        db,
        "SELECT count(*) FROM pg_inherits i JOIN lakets._chunk_metadata m ON m.chunk_oid = i.inhrelid"
        " WHERE i.inhparent = 'readings'::regclass",
    )


def test_k3_a_chunk_behind_a_foreign_key_keeps_nobody_waiting_and_is_made_when_it_can_be(
    db: psycopg.Connection, dsn: str
) -> None:
    """ATTACH waits for writers of the table that is referred to, and other writers would wait behind it."""
    db.execute("CREATE TABLE devices (id int PRIMARY KEY, seen int)")
    db.execute("INSERT INTO devices VALUES (1), (2)")
    db.execute("CREATE TABLE readings (ts timestamptz NOT NULL, device int REFERENCES devices)")
    db.execute("SELECT lakets.create_chronotable('readings', 'ts', '1 hour')")
    chunks = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'readings'::regclass"
    before = one(db, chunks)
    with Session(dsn) as holder, Session(dsn) as maker, Session(dsn) as writer:
        holder.run("UPDATE devices SET seen = 1 WHERE id = 1")
        making = maker.start("SELECT lakets._ensure_partitions(id, 1, 30) FROM lakets._chronotable_registry")
        writer.run("SET lock_timeout = '1s'")
        while not making.done():  # the first transaction is still open
            writer.run("UPDATE devices SET seen = 1 WHERE id = 2")
            writer.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable, match=r"public\.devices is written to") as refusal:
            making.result()
        assert refusal.value.diag.message_hint
        maker.rollback()
        assert one(db, chunks) == before

        db.execute("UPDATE lakets._chronotable_registry SET chunk_interval = '12 hours'")
        with ThreadPoolExecutor(1) as pool:
            maintained = pool.submit(maintain, dsn)
            time.sleep(1.5)
            assert not maintained.done()
            holder.commit()
            (table,) = maintained.result(timeout=60)
    assert (table.chunks_made, table.findings) == (one(db, chunks) - before, ())
    assert table.chunks_made > 0
