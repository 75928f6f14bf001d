"""On the machine's own PostgreSQL, which may be older than the embedded ones, and with few locks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask, one
from harness.system_server import SystemServer, binaries
from thermocline.hot.install import install

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = binaries("plpgsql")
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="no PostgreSQL on this machine")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> SystemServer:
    assert PROGRAMS is not None
    return SystemServer(PROGRAMS, tmp_path_factory.mktemp("system"))


@pytest.fixture
def db(own: SystemServer) -> Iterator[psycopg.Connection]:
    """With few locks: what takes hundreds of them in one transaction fails."""
    few = {"max_locks_per_transaction": "10", "max_connections": "20", "autovacuum": "off", "wal_level": "logical"}
    with own.running(**few) as server, server.database() as dsn:
        install(dsn)
        with psycopg.connect(dsn, autocommit=True) as session:
            yield session


def test_gaps_are_filled_by_days_and_months_and_by_the_clock_of_a_zone(db: psycopg.Connection) -> None:
    db.execute("SET timezone = 'America/New_York'")  # its clock is put forward on the 8th of March
    filled = (
        "SELECT array_agg(to_char(b AT TIME ZONE 'UTC', 'MM-DD HH24') ORDER BY b) FROM lakets.time_bucket_gapfill({}) b"
    )
    assert one(db, filled.format("'1 day', '2026-03-07 05:00Z', '2026-03-10 01:00Z'")) == [
        "03-07 00", "03-08 00", "03-09 00", "03-10 00",
    ]  # fmt: skip
    assert one(db, filled.format("'1 month', '2025-12-31 12:00Z', '2026-02-01 00:00Z'")) == [
        "12-01 00", "01-01 00", "02-01 00",
    ]  # fmt: skip
    berlin = "'1 day', '2026-03-28 12:00Z', '2026-03-30 12:00Z', p_timezone => 'Europe/Berlin'"
    assert one(db, filled.format(berlin)) == ["03-27 23", "03-28 23", "03-29 22"]


@pytest.mark.parametrize("mode", ["direct", "shadow"])
def test_a_table_of_more_chunks_than_locks_is_dropped_by_following_the_hint(db: psycopg.Connection, mode: str) -> None:
    heard: list[str] = []
    db.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v text)")
    number = one(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    # Nothing of it is proven, so neither retention nor drop_chunks would remove a chunk.
    ask(db, "SELECT lakets.enable_sync('m', p_mode => %s)", mode)
    query = "SELECT lakets.time_bucket('1 day', ts) AS at, count(*) AS n FROM m GROUP BY 1"
    ask(db, "SELECT lakets.create_rollup('daily', %s, '1 day')", query)
    for day in range(0, 400, 10):
        ask(db, "SELECT lakets._ensure_partitions(%s, 0, 0, NULL, now() + %s * interval '1 day')", number, day)
    chunks = one(db, "SELECT count(*) FROM lakets.show_chunks('m')")
    assert chunks >= 391
    with pytest.raises(psycopg.errors.RaiseException, match=r"cannot drop public\.m with so many chunks") as caught:
        db.execute("SELECT lakets.drop_chronotable('m')")
    assert one(db, "SELECT count(*) FROM lakets.show_chunks('m')") == chunks
    assert one(db, "SELECT sync_enabled FROM lakets._chronotable_registry") is True
    told = re.search(r"CALL [^)]*\)", caught.value.diag.message_hint or "")
    assert told is not None
    ask(db, told[0])
    assert ask(db, "SELECT count(*) FROM pg_class WHERE relname ~ '^m(_|$)|^_rollup_daily|^_shadow'") == [(0,)]
    for table in ("lakets._chronotable_registry", "lakets._chunk_metadata", "lakets._rollup_registry"):
        assert ask(db, f"SELECT count(*) FROM {table}") == [(0,)]
    audited = ask(
        db, "SELECT (evidence ->> 'chunks')::int, evidence ->> 'lake_table' FROM thermocline.audit ORDER BY id"
    )
    assert sum(dropped for dropped, _ in audited) == chunks
    lake = {"direct": "public.lb_m_history", "shadow": "public.lb__shadow_m_history"}[mode]
    assert {table for _, table in audited} == {lake}
    assert heard[-1] == f"public.m and 0 chunks are dropped; what is in the lake stays: {lake}"
