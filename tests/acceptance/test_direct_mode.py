"""What document 001 promises of the change feed where it needs no shadow: with its own names, in direct mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import BASE, Lake
from harness.transcripts import answer
from thermocline.gate.receipt import Prover
from thermocline.gate.sides import NotProven
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home")
    found.run(
        "CREATE TABLE metrics (time timestamptz NOT NULL, host text, cpu float8)",
        f"INSERT INTO metrics SELECT '{BASE}'::timestamptz + g * interval '1 hour', 'h' || g % 3, g"
        " FROM generate_series(0, 47) g",
        "SELECT lakets.create_chronotable('metrics', 'time', '1 day')",
    )
    return found


def said(lake: Lake, statement: str) -> list[str]:
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        return answer(session, statement)


@pytest.mark.promise("001-15", "001-16", "001-17")
def test_enable_sync_registers_warns_and_starts_nothing(lake: Lake) -> None:
    warning = "warning: no feed is running, so nothing of public.metrics reaches the lake yet"
    assert warning in said(lake, "SELECT lakets.enable_sync('metrics')")
    registered = lake.run("TABLE thermocline.synced_table")
    assert said(lake, "SELECT lakets.enable_sync('metrics')")[0] == (
        "notice: public.metrics is synced already, left as it is"
    )
    assert lake.run("TABLE thermocline.synced_table") == registered
    assert not lake.stack.feed_status().running
    assert lake.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    lake.drain()
    assert lake.folded("metrics", "time") == lake.hot("metrics")


@pytest.mark.promise("001-01", "001-19", "001-20")
def test_every_change_arrives_and_stays_when_sync_ends(lake: Lake) -> None:
    lake.run("SELECT lakets.enable_sync('metrics')")
    lake.drain()
    lake.run(
        f"INSERT INTO metrics VALUES ('{BASE}', 'new', 1)",
        "UPDATE metrics SET cpu = 2 WHERE host = 'new'",
        "DELETE FROM metrics WHERE host = 'h1'",
    )
    ((written,),) = lake.run("SELECT pg_current_wal_flush_lsn()")
    lake.drain()
    assert lake.folded("metrics", "time") == lake.hot("metrics")
    progress = f"SELECT table_oid::regclass::text, status, committed_lsn >= '{written}' FROM wal2delta.tables"
    assert lake.run(progress) == [("metrics", "STREAMING", True)]
    entries = lake.history("metrics")
    changes = ["insert", "update_preimage", "update_postimage", *["delete"] * 16]
    assert entries["_change_type"].to_pylist()[-len(changes) :] == changes
    lake.run("SELECT lakets.disable_sync('metrics')")
    with lake.feed():
        pass
    assert lake.history("metrics") == entries


@pytest.mark.promise("001-21")
def test_no_receipt_before_the_feed_has_passed_what_the_chunk_contained(lake: Lake) -> None:
    lake.run("SELECT lakets.enable_sync('metrics')")
    lake.drain()
    lake.run(f"INSERT INTO metrics VALUES ('{BASE}', 'late', 1)")
    ((chunk,),) = lake.run(f"SELECT chunk_oid::bigint FROM lakets._chunk_metadata WHERE range_start = '{BASE}'")
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[LAKE], patience=0.2)
    for what in ("SELECT lakets.tier_chunk(min(chunk_name)) FROM lakets.show_chunks('metrics')", "SELECT 1"):
        lake.run(what)
        with pytest.raises(NotProven) as behind:
            prover.prove(chunk)
        assert behind.value.reason == "feed_behind"
    assert lake.run("SELECT count(*) FROM thermocline.receipt") == [(0,)]
    assert lake.run("SELECT DISTINCT status FROM lakets._chunk_metadata") == [("active",)]
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(chunk).receipt
    assert lake.run("SELECT row_count FROM thermocline.receipt") == [(25,)]
