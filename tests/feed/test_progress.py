"""What `wal2delta.tables` says of a table, from its first day to its last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.lakes import Lake

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", ["direct", "shadow"])
def test_every_state_is_told_with_its_reason(dsn: str, tmp_path: Path, mode: str) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()

    def told() -> Any:
        streamed = "lakets_cdf._shadow_m" if mode == "shadow" else "m"
        ((name, *rest),) = lake.run(
            "SELECT table_oid::regclass::text, status, committed_lsn IS NOT NULL, reason FROM wal2delta.tables"
        )
        assert name == streamed
        return tuple(rest)

    lake.run(f"SELECT lakets.enable_sync('m', p_mode => '{mode}')")
    assert told() == ("SNAPSHOTTING", False, None)
    lake.drain()
    assert told() == ("STREAMING", True, None)
    lake.run("ALTER TABLE m ADD COLUMN price money", "UPDATE m SET price = 1 WHERE id < 5")
    with lake.feed() as feed:
        feed.drain()
    status, _, reason = told()
    assert status == "SKIPPED"
    assert reason.startswith("The column price has a type that reads differently")
    lake.run("ALTER TABLE m DROP COLUMN price", "SELECT lakets.resync('m')")
    lake.drain()
    assert told() == ("STREAMING", True, None)
    assert lake.content() == lake.hot()
    lake.run("SELECT lakets.disable_sync('m')")
    rows = lake.run("SELECT status, reason FROM wal2delta.tables")
    assert rows == [("TERMINATED", "sync was ended by disable_sync")]


def test_progress_over_what_others_write_costs_no_commit_in_the_lake(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()

    def snapshot() -> int | None:
        with lake.stack.catalog() as catalog:
            return catalog.load_table("public.lb_m_history").metadata.current_snapshot_id

    before = snapshot()
    lake.run("CREATE TABLE other (x text)", "INSERT INTO other SELECT repeat('x', 900) FROM generate_series(1, 5000)")
    ((written,),) = lake.run("SELECT pg_current_wal_insert_lsn()::text")
    lake.drain()
    told = "SELECT committed_lsn >= {0!r}, position >= {0!r} FROM thermocline.synced_table, thermocline.stream"
    assert lake.run(told.format(written)) == [(True, True)]
    confirmed = "SELECT confirmed_flush_lsn >= {!r} FROM pg_replication_slots WHERE database = current_database()"
    assert lake.run(confirmed.format(written)) == [(True,)]
    assert snapshot() == before


def test_how_far_a_table_is_in_the_lake_is_not_told_unless_it_streams(dsn: str, tmp_path: Path) -> None:
    """Whoever compares a position with it fails closed."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    asked = "SELECT lakets._cdf_committed_lsn('m') IS NULL"
    assert lake.run(asked) == [(True,)]
    lake.drain()
    assert lake.run(asked) == [(False,)]
    for status in ("JOINING", "SNAPSHOTTING", "SKIPPED"):
        lake.run(f"UPDATE thermocline.synced_table SET status = '{status}'")
        assert lake.run("SELECT committed_lsn IS NULL FROM thermocline.synced_table") == [(False,)]
        assert lake.run(asked) == [(True,)], status
    lake.run("UPDATE thermocline.synced_table SET status = 'STREAMING'")
    assert lake.run(asked) == [(False,)]
    lake.run("SELECT lakets.disable_sync('m')")
    assert lake.run("SELECT status FROM thermocline.synced_table") == [("TERMINATED",)]
    assert lake.run(asked) == [(True,)]
