"""Everything that speaks against dropping a chunk, each on its own: what is missing or unknown refuses too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from gate.metrics import Metrics


def oldest(metrics: Metrics, statement: str) -> None:
    """Run a statement; {chunk} is the oldest chunk's name."""
    metrics.ask(statement.replace("{chunk}", metrics.name()))


def test_nothing_speaks_against_a_chunk_with_a_good_receipt(metrics: Metrics) -> None:
    metrics.receipt()
    assert metrics.codes() == []
    assert metrics.codes(1) == ["no_receipt"]


CASES = [
    # coverage and feed (G4, G5)
    ("DELETE FROM thermocline.receipt", ["no_receipt"]),
    ("DELETE FROM thermocline.chunk_copy", ["not_covered"]),
    ("DELETE FROM thermocline.synced_table", ["not_synced"]),
    ("UPDATE thermocline.synced_table SET status = 'TERMINATED'", ["not_synced"]),
    ("UPDATE thermocline.synced_table SET table_oid = 1", ["not_synced"]),
    ("UPDATE thermocline.synced_table SET status = 'JOINING'", ["feed_not_streaming"]),
    ("UPDATE thermocline.synced_table SET status = 'SNAPSHOTTING'", ["feed_not_streaming"]),
    ("UPDATE thermocline.synced_table SET status = 'SKIPPED'", ["feed_not_streaming"]),
    # another history (G10)
    ("DELETE FROM thermocline.stream", ["other_history"]),
    ("UPDATE thermocline.receipt SET system_identifier = 1", ["other_history"]),
    ("UPDATE thermocline.receipt SET timeline = 2", ["other_history"]),
    ("UPDATE thermocline.receipt SET slot_name = 'other'", ["other_history"]),
    ("UPDATE thermocline.receipt SET epoch = 4", ["other_history"]),
    ("UPDATE thermocline.stream SET system_identifier = 1", ["other_history"]),
    ("UPDATE thermocline.stream SET timeline = 2", ["other_history"]),
    ("UPDATE thermocline.stream SET slot_name = 'other'", ["other_history"]),
    ("UPDATE thermocline.stream SET created_at = clock_timestamp()", ["other_history"]),
    ("UPDATE thermocline.stream SET timeline = 2; UPDATE thermocline.receipt SET timeline = 2", ["other_history"]),
    (
        "UPDATE thermocline.stream SET system_identifier = 1; UPDATE thermocline.receipt SET system_identifier = 1",
        ["other_history"],
    ),
    # a receipt that is no longer good
    ("UPDATE thermocline.receipt SET next_xid = '4294967296'", ["receipt_stale"]),
    ("UPDATE thermocline.receipt SET range_end = range_end + interval '1 hour'", ["receipt_stale"]),
    # the lake (G17)
    ("UPDATE thermocline.receipt SET lake_checked_at = NULL", ["lake_unchecked"]),
    ("UPDATE thermocline.receipt SET lake_checked_at = now() - interval '61 seconds'", ["lake_unchecked"]),
    ("UPDATE thermocline.receipt SET lake_checked_at = now() + interval '1 minute'", ["lake_unchecked"]),
    ("UPDATE thermocline.synced_table SET lake_table = 'public.other'", ["lake_changed"]),
    # the chunk itself (G7, G8, G9, G16, G20, G21)
    ("INSERT INTO {chunk} SELECT ts, 99, v, mood FROM {chunk} LIMIT 1", ["changed_since_receipt"]),
    ("UPDATE {chunk} SET v = v WHERE sensor = 1", ["changed_since_receipt"]),
    ("DELETE FROM {chunk} WHERE sensor = 1", ["changed_since_receipt"]),
    ("SET session_replication_role = replica; DELETE FROM {chunk} WHERE sensor = 1", ["changed_since_receipt"]),
    ("TRUNCATE {chunk}", ["rewritten"]),
    ("TRUNCATE metrics", ["rewritten"]),
    ("ALTER TABLE metrics ALTER COLUMN v TYPE numeric", ["rewritten", "columns_changed"]),
    ("ALTER TABLE metrics ADD COLUMN n int DEFAULT 5", ["columns_changed"]),
    ("ALTER TABLE metrics RENAME COLUMN v TO w", ["columns_changed"]),
    ("ALTER TABLE metrics DROP COLUMN v", ["columns_changed"]),
    ("ALTER TYPE mood RENAME VALUE 'calm' TO 'still'", ["columns_changed"]),
    ("ALTER TYPE mood ADD VALUE 'odd' BEFORE 'wild'", ["columns_changed"]),
    ("ALTER TABLE metrics ADD COLUMN d int GENERATED ALWAYS AS (sensor * 2) STORED", ["rewritten", "columns_changed"]),
    ("ALTER TABLE metrics DETACH PARTITION {chunk}", ["moved"]),
    ("DROP TABLE {chunk}", ["gone"]),
    ("UPDATE lakets._chunk_metadata SET range_end = range_end - interval '1 hour'", ["moved"]),
    ("UPDATE lakets._chunk_metadata SET status = 'dropped'", ["unknown_chunk"]),
]


@pytest.mark.promise("000-14", "000-20")
def test_g4_g5_g7_g8_g9_g10_g16_g17_g20_g21_each_reason_alone_refuses(metrics: Metrics) -> None:
    """Found by the one re-check, however it came about."""
    metrics.receipt()
    chunk = metrics.chunk()
    found = []
    for changed, _ in CASES:
        metrics.ask("BEGIN")
        for statement in changed.split("; "):
            oldest(metrics, statement)
        found.append((changed, metrics.codes_of(chunk)))
        metrics.ask("ROLLBACK")
    assert found == CASES
    assert metrics.codes() == [], "every one was undone"


@pytest.mark.promise("000-16")
def test_g2_positions_are_a_report_and_never_the_proof(metrics: Metrics) -> None:
    """Neither a feed that is far ahead lets a chunk go, nor one that seems behind keeps it: receipt and rows decide."""
    compared = (
        "SELECT t.committed_lsn >= m.last_write_lsn FROM lakets._chunk_metadata m, wal2delta.tables t"
        " WHERE m.chunk_oid = %s"
    )
    metrics.ask("UPDATE lakets._chunk_metadata SET last_write_lsn = '0/1'")
    assert metrics.one(compared, metrics.chunk()) is True
    assert metrics.codes() == ["no_receipt"]
    metrics.receipt()
    oldest(metrics, "UPDATE {chunk} SET v = 99 WHERE sensor = 1")
    assert metrics.one(compared, metrics.chunk()) is True
    assert metrics.codes() == ["changed_since_receipt"]
    metrics.receipt()
    metrics.ask("UPDATE lakets._chunk_metadata SET last_write_lsn = 'FFFF/0'")
    assert metrics.one(compared, metrics.chunk()) is False
    assert metrics.codes() == []


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ("SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream", "other_history"),
        ("VACUUM FULL {chunk}", "rewritten"),
    ],
)
def test_a_lost_slot_or_a_rewrite_refuses_g10_g20(metrics: Metrics, changed: str, code: str) -> None:
    metrics.receipt()
    oldest(metrics, changed)
    assert metrics.codes() == [code]


def test_g10_a_fingerprint_is_worth_nothing_once_its_transaction_numbers_may_come_again(metrics: Metrics) -> None:
    metrics.receipt()
    age = (
        "UPDATE thermocline.receipt SET next_xid ="
        " (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - %s)::text::xid8"
    )
    # Servers of the tests are too young for that many transactions, so the number wraps below zero: refused as well.
    metrics.ask(age, 0)
    assert metrics.codes() == []
    metrics.ask(age, 2**31 + 100)
    assert metrics.codes() == ["receipt_stale"]


def test_the_newest_receipt_counts_and_an_older_one_is_stale(metrics: Metrics) -> None:
    first = metrics.receipt()
    second = metrics.receipt()
    verdict = "SELECT code FROM thermocline._chunk_verdict(%s, %s)"
    assert metrics.ask(verdict, metrics.chunk(), first) == [("receipt_stale",)]
    assert metrics.ask(verdict, metrics.chunk(), second) == []


def test_g17_the_lakes_own_pointer_is_as_good_as_a_fresh_look(metrics: Metrics) -> None:
    """With the catalog in this database, nothing has changed in the lake while the pointer stands still."""
    metrics.receipt()
    metrics.ask(
        "UPDATE thermocline.receipt SET lake_checked_at = now() - interval '1 hour', lake_checked_metadata = 'm1'"
    )
    assert metrics.codes() == ["lake_unchecked"], "the catalog is elsewhere, so nobody knows"
    metrics.ask(
        "INSERT INTO thermocline_lake.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
        " VALUES ('lake', 'public', 'lb_metrics_history', 'm1')"
    )
    assert metrics.codes() == []
    metrics.ask("UPDATE thermocline_lake.iceberg_tables SET metadata_location = 'm2'")
    assert metrics.codes() == ["lake_changed"]
    metrics.ask("UPDATE thermocline.receipt SET lake_checked_at = clock_timestamp()")
    assert metrics.codes() == [], "the feed goes on all the time; a look of this minute will do"


def test_g16_a_filled_table_attached_in_place_of_a_chunk_is_not_that_chunk(metrics: Metrics) -> None:
    metrics.receipt()
    chunk, name = metrics.chunk(), metrics.name()
    (bound,) = metrics.ask("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = %s", chunk)[0]
    metrics.ask(f"ALTER TABLE metrics DETACH PARTITION {name}")
    metrics.ask(f"CREATE TABLE impostor (LIKE {name} INCLUDING ALL)")
    metrics.ask(f"INSERT INTO impostor (ts, sensor) SELECT ts, sensor FROM {name}")
    metrics.ask(f"ALTER TABLE metrics ATTACH PARTITION impostor {bound}")
    metrics.ask(f"ALTER TABLE {name} RENAME TO before")
    metrics.ask(f"ALTER TABLE impostor RENAME TO {name.removeprefix('public.')}")
    assert metrics.codes_of(chunk) == ["moved"]
    assert metrics.codes_of(metrics.one("SELECT %s::regclass::oid::bigint", name)) == ["unknown_chunk"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_g19_an_older_snapshot_is_refused(metrics: Metrics, level: str) -> None:
    metrics.receipt()
    metrics.ask(f"BEGIN ISOLATION LEVEL {level}")
    assert metrics.codes() == ["isolation_level"]
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        metrics.drop()
    assert caught.value.diag.message_detail == "isolation_level"
    metrics.ask("ROLLBACK")
    assert metrics.is_there()


def test_an_ungated_drop_still_must_be_of_our_own_chunk(metrics: Metrics) -> None:
    assert metrics.codes(gated=False) == []
    metrics.ask(f"ALTER TABLE metrics DETACH PARTITION {metrics.name()}")
    assert metrics.codes(gated=False) == ["moved"]


def test_g22_a_detach_that_is_not_finished_is_told(metrics: Metrics) -> None:
    with psycopg.connect(metrics.dsn) as reader, psycopg.connect(metrics.dsn, autocommit=True) as other:
        reader.execute("SELECT count(*) FROM metrics").fetchall()
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(f"ALTER TABLE metrics DETACH PARTITION {metrics.name()} CONCURRENTLY".encode())
        assert metrics.codes() == ["detach_pending"]


def test_every_refusal_says_in_words_what_is_wrong_and_what_to_do(metrics: Metrics) -> None:
    metrics.ask("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'no room'")
    rows = metrics.ask("SELECT message, next_step FROM thermocline._chunk_verdict(%s)", metrics.chunk())
    assert rows == [
        ("the feed of its table is SKIPPED: no room", "Wait until the feed streams; `thermocline feed` runs it."),
        ("it has no receipt: nobody has compared it with the lake yet", "`thermocline verify` compares it."),
    ]
