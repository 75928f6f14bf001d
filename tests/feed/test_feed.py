"""The feed without Spark: what PostgreSQL commits is in the lake, once and in order, whatever happens between."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import BASE, LATELY, NOON, Lake, chunk
from harness.sessions import Session
from thermocline.errors import Busy
from thermocline.feed.reading import Block, read
from thermocline.feed.refusals import FeedTaken, OtherHistory, OwnershipLost, PublicationLost, SlotLost
from thermocline.hot import bulk
from thermocline.hot.binaries import Binaries
from thermocline.hot.positions import number, text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """A ChronoTable of day chunks over the last days, not yet synced."""
    return Lake.of(dsn, tmp_path / "home").with_days("id int, v float8, tag text", "g, g / 7.0, 't' || g")


@pytest.fixture
def synced(lake: Lake) -> Lake:
    lake.synced().drain()
    return lake


def status(lake: Lake) -> list[tuple[str, str | None]]:
    return [(one, reason) for one, reason in lake.run("SELECT status, reason FROM thermocline.synced_table")]


def test_what_was_there_before_is_copied_once(synced: Lake) -> None:
    synced.assert_same()
    assert status(synced) == [("STREAMING", None)]
    kinds = Counter(synced.history()["_change_type"].to_pylist())
    assert kinds["insert"] == 72
    assert synced.run("SELECT sum(row_count), count(DISTINCT position) = count(*) FROM thermocline.chunk_copy") == [
        (72, True)
    ]


def test_changes_stream_in_order_with_old_and_new_rows(synced: Lake) -> None:
    synced.run(
        f"INSERT INTO m VALUES ('{NOON[2]}', 1000, 1.5, NULL)",
        "UPDATE m SET v = 2.5 WHERE id = 1000",
        "DELETE FROM m WHERE id = 1000",
    )
    synced.drain()
    changes = [(row["_change_type"], row["v"]) for row in synced.history().to_pylist() if row["id"] == 1000]
    assert changes == [
        ("insert", 1.5),
        ("update_preimage", 1.5),
        ("update_postimage", 2.5),
        ("delete", 2.5),
    ]
    synced.assert_same()


def test_m9_rows_of_one_copy_share_a_position_and_differ_in_their_place(synced: Lake) -> None:
    with psycopg.connect(synced.dsn) as session, session.cursor().copy("COPY m FROM STDIN") as copy:
        for number_of in range(500):
            copy.write_row((NOON[1], 2000 + number_of, 0.0, "copied"))
    synced.drain()
    rows = [row for row in synced.history().to_pylist() if row["tag"] == "copied"]
    assert len({row["_lsn"] for row in rows}) == 1
    assert [row["id"] for row in sorted(rows, key=lambda row: row["_seq"])] == list(range(2000, 2500))
    assert len({(row["_lsn"], row["_seq"]) for row in rows}) == 500


def test_m13_savepoints_moves_and_conflicts_are_what_happened(lake: Lake) -> None:
    lake.run("ALTER TABLE m ADD CONSTRAINT one UNIQUE (ts, id)", "SELECT lakets.enable_sync('m')")
    lake.drain()
    with psycopg.connect(lake.dsn) as session:
        session.execute("INSERT INTO m VALUES (%s, 1, 1, 'kept')", [NOON[1]])
        session.execute("SAVEPOINT s")
        session.execute("INSERT INTO m VALUES (%s, 2, 1, 'undone')", [NOON[1]])
        session.execute("ROLLBACK TO s")
        session.execute("UPDATE m SET ts = ts + interval '1 day' WHERE id = 1 AND tag = 'kept'")
        session.execute(
            "INSERT INTO m VALUES (%s, 1, 9, 'x') ON CONFLICT (ts, id) DO UPDATE SET tag = 'met'", [NOON[2]]
        )
    lake.run(f"BEGIN; INSERT INTO m VALUES ('{NOON[3]}', 3, 1, 'rolled back'); ROLLBACK")
    lake.drain()
    lake.assert_same()
    tags = [row["tag"] for row in lake.history().to_pylist() if row["id"] in (1, 2, 3)]
    assert "undone" not in tags
    assert "rolled back" not in tags
    assert [row[3] for row in lake.folded() if row[1] == 1 and row[3] == "met"] == ["met"]


@pytest.mark.parametrize("what", ["m", chunk(2)])
def test_g9_truncate_of_root_or_of_one_chunk_empties_the_lakes_content(synced: Lake, what: str) -> None:
    synced.run(f"BEGIN; TRUNCATE {what}; INSERT INTO m VALUES ('{NOON[2]}', 7, 7, 'after'); COMMIT")
    synced.drain()
    synced.assert_same()
    assert sum(synced.folded().values()) == (1 if what == "m" else 49)


def test_g9_a_detached_chunk_that_is_truncated_resets_nothing(synced: Lake) -> None:
    synced.run(f"ALTER TABLE m DETACH PARTITION {chunk(2)}", f"TRUNCATE {chunk(2)}")
    synced.drain()
    assert sum(synced.folded().values()) == 72


def test_m16_a_writer_that_was_open_at_the_join_is_waited_for(synced: Lake) -> None:
    synced.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v text)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
    )
    writer = Session(synced.dsn)
    try:
        writer.run("INSERT INTO n VALUES (%s, 'before the join')", [LATELY])
        synced.run("SELECT lakets.enable_sync('n')")
        with synced.feed() as feed:
            assert feed.drain().joining == ("public.n",)
            assert ("JOINING", None) in status(synced)
            writer.run("INSERT INTO n VALUES (%s, 'after the join')", [LATELY])
            writer.commit()
            assert feed.drain().caught_up
    finally:
        writer.close()
    synced.assert_same("n")
    assert sum(synced.folded("n").values()) == 2


def test_the_first_feed_says_that_it_waits_for_open_transactions(lake: Lake) -> None:
    lake.run("SELECT lakets.enable_sync('m')")
    writer = Session(lake.dsn)
    try:
        writer.run("INSERT INTO m VALUES (%s, 1, 1, 'open')", [NOON[1]])
        with lake.feed() as feed:
            assert feed.drain().joining == ("public.m",)
            writer.commit()
            assert feed.drain().caught_up
    finally:
        writer.close()
    lake.assert_same()


def test_m16_m21_a_copy_does_not_wait_in_front_of_writers(lake: Lake) -> None:
    lake.run("SELECT lakets.enable_sync('m')")
    writer = Session(lake.dsn)
    try:
        with lake.feed() as feed:
            feed.ledger.join(1)
            writer.run("INSERT INTO m VALUES (%s, 1, 1, 'open')", [NOON[2]])
            progress = feed.drain()
            assert progress.uncopied == 1
            writer.run("INSERT INTO m VALUES (%s, 2, 1, 'still open')", [NOON[2]])
            writer.commit()
            assert feed.drain().caught_up
    finally:
        writer.close()
    lake.assert_same()


def test_g4_what_was_written_between_disable_and_enable_is_copied(synced: Lake) -> None:
    synced.run(
        "SELECT lakets.disable_sync('m')",
        f"INSERT INTO m VALUES ('{NOON[1]}', 5, 5, 'unsynced')",
        "DELETE FROM m WHERE id < 10",
        "SELECT lakets.enable_sync('m')",
    )
    assert synced.run("SELECT count(*) FROM thermocline.chunk_copy") == [(0,)]
    synced.drain()
    synced.assert_same()


def test_new_chunks_are_covered_by_their_creation(synced: Lake) -> None:
    synced.run(
        f"SELECT lakets._ensure_partitions(1, 1, 1, '{BASE - timedelta(days=9)}')",
        f"INSERT INTO m VALUES ('{BASE - timedelta(days=7)}', 1, 1, 'new chunk')",
    )
    synced.drain()
    synced.assert_same()
    assert synced.run("SELECT count(*) FROM thermocline.chunk_copy WHERE how = 'created'")[0][0] >= 3


def test_m14_progress_never_passes_what_is_flushed(synced: Lake) -> None:
    synced.run(f"SET synchronous_commit = off; INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'async')")
    synced.drain()
    position, flushed = synced.run("SELECT position::text, pg_current_wal_flush_lsn()::text FROM thermocline.stream")[0]
    assert number(position) <= number(flushed)
    synced.run("SELECT pg_logical_emit_message(true, 'x', '')")
    synced.drain()
    synced.assert_same()


@pytest.mark.promise("000-17")
def test_quiet_tables_and_a_flood_of_other_changes_move_progress(synced: Lake) -> None:
    synced.run(
        "CREATE TABLE other (x text)", "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 30000)"
    )
    ((written,),) = synced.run("SELECT pg_current_wal_flush_lsn()")
    synced.drain()
    behind = synced.run(f"SELECT '{written}' - committed_lsn < 1000000 FROM thermocline.synced_table")
    assert behind == [(True,)]
    assert synced.history().num_rows == 72 + synced.run("SELECT count(*) FROM lakets.show_chunks('m')")[0][0]


def test_m11_a_transaction_of_any_size_passes_in_small_blocks(synced: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    synced.run(f"INSERT INTO m SELECT '{NOON[1]}', g, g, 'one transaction' FROM generate_series(1, 60000) g")
    monkeypatch.setattr(bulk, "BATCH_BYTES", 256 << 10)
    with synced.feed() as feed:
        stream = feed.ledger.stream()
        slot = feed.ledger.slot_state(stream.slot) if stream else None
        assert stream is not None
        assert slot is not None
        parts = list(read(feed.reading(stream, slot.flushed)[0]))
    blocks = [part.rows.num_rows for part in parts if isinstance(part, Block)]
    assert sum(blocks) == 60000
    assert max(blocks) < 10000
    synced.drain()
    synced.assert_same()


def test_m11_a_long_transaction_that_keeps_the_log_is_shown(synced: Lake) -> None:
    writer = Session(synced.dsn)
    try:
        writer.run("INSERT INTO m VALUES (%s, 1, 1, 'open')", [NOON[1]])
        ((began,),) = synced.run("SELECT pg_current_wal_lsn()")
        synced.run(
            "CREATE TABLE other (x text)", "INSERT INTO other SELECT repeat('x', 900) FROM generate_series(1, 5000)"
        )
        synced.drain()
        kept = synced.stack.feed_status().retained_bytes
        assert kept is not None
        assert kept > 4_000_000
        ((now, slot, *state, confirmed, told, pinned, safe),) = synced.run(
            "SELECT pg_current_wal_lsn(), * FROM lakets.feed_slot()"
        )
        assert synced.run("SELECT slot_name FROM thermocline.stream") == [(slot,)]
        assert state == ["pgoutput", False, "reserved"]
        read_up_to = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
        assert synced.run(read_up_to) == [(confirmed,)]
        assert told == number(now) - number(confirmed) + pinned
        assert kept - 100_000 < told < kept + 100_000
        assert number(confirmed) - number(began) < pinned < told < pinned + 1_000_000, "the feed has read all of it"
        assert pinned > 4_000_000
        assert safe is None, "the server knows no limit"
    finally:
        writer.close()
    for _ in range(3):
        synced.run("CHECKPOINT")  # tells the slot which transactions are still there
        synced.drain()
    assert synced.run("SELECT kept_bytes < 1000000, pinned_bytes < 1000000 FROM lakets.feed_slot()") == [(True, True)]


def test_the_slot_is_shown_in_sql_to_readers_and_while_it_is_there(synced: Lake) -> None:
    """Also one that a crash has left behind."""
    shown = "SELECT slot_name, plugin, wal_status FROM lakets.feed_slot()"
    ((slot,),) = synced.run("SELECT slot_name FROM thermocline.stream")
    with psycopg.connect(synced.dsn) as session:
        session.execute("SET ROLE lakets_read")
        assert session.execute(shown.encode()).fetchall() == [(slot, "pgoutput", "reserved")]
    synced.run("SELECT lakets.disable_sync('m')", "DELETE FROM thermocline.stream")
    assert synced.run(shown) == [(slot, "pgoutput", "reserved")]
    with synced.feed() as feed:
        feed.tend()
    assert synced.run("SELECT * FROM lakets.feed_slot()") == []


# ---- one owner, one history ------------------------------------------------------------------


def test_a_second_feed_is_refused(synced: Lake) -> None:
    with synced.feed(), pytest.raises(FeedTaken), synced.feed():
        pass


def test_a_feed_that_has_ended_owns_nothing_however_long_its_session_lives(
    synced: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has much to do ends a session some time after it was told to."""
    lingering: list[psycopg.Connection] = []

    def linger(session: psycopg.Connection) -> None:
        lingering.append(session)

    with synced.feed():
        monkeypatch.setattr(psycopg.Connection, "close", linger)
    monkeypatch.undo()
    try:
        assert lingering
        assert synced.run("SELECT thermocline._feed_runs()") == [(False,)]
        with synced.feed():
            assert synced.run("SELECT thermocline._feed_runs()") == [(True,)]
    finally:
        for session in lingering:
            session.close()


def test_a_feed_that_fails_in_a_transaction_owns_nothing_either(synced: Lake) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), synced.feed() as feed:
        feed.ledger._session.execute("SELECT 1 / 0")
    with synced.feed():
        pass


def test_a_feed_that_was_asleep_finds_out_that_another_took_over(synced: Lake) -> None:
    with synced.feed() as asleep:
        synced.run("UPDATE thermocline.stream SET epoch = epoch + 1")  # as the next owner does
        synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'x')")
        with pytest.raises(OwnershipLost):
            asleep.drain()
    synced.drain()
    synced.assert_same()


def test_g10_a_slot_that_is_gone_is_noticed_and_a_resync_is_the_way_out(synced: Lake) -> None:
    synced.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'missed')",
    )
    with pytest.raises(SlotLost, match="is gone"), synced.feed():
        pass
    assert synced.stack.resync_feed() == 1
    synced.drain()
    synced.assert_same()


def test_g10_a_slot_that_somebody_moved_is_noticed(synced: Lake) -> None:
    synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'skipped')")
    synced.run("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM thermocline.stream")
    with pytest.raises(SlotLost, match="somebody else has moved it"), synced.feed():
        pass


@pytest.mark.parametrize("column", ["system_identifier", "timeline"])
def test_g10_another_servers_history_is_refused(synced: Lake, column: str) -> None:
    synced.run(f"UPDATE thermocline.stream SET {column} = {column} + 1")
    with pytest.raises(OtherHistory), synced.feed():
        pass


def test_a_publication_that_is_gone_is_noticed(synced: Lake) -> None:
    synced.run("DROP PUBLICATION thermocline")
    with pytest.raises(PublicationLost), synced.feed():
        pass
    assert synced.stack.resync_feed() == 1
    synced.drain()
    synced.assert_same()


def test_a_slot_in_use_by_another_program_is_named(synced: Lake, major: int) -> None:
    ((slot,),) = synced.run("SELECT slot_name FROM thermocline.stream")
    program = Binaries.of(major).program("pg_recvlogical")
    options = ["-o", "proto_version=1", "-o", "publication_names=thermocline", "-s", "0", "-F", "0", "-f", "/dev/null"]
    other = subprocess.Popen([program, "-d", synced.dsn, "--slot", slot, "--start", *options])
    try:
        while not synced.run("SELECT 1 FROM pg_replication_slots WHERE active AND database = current_database()"):
            time.sleep(0.05)
        synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'x')")
        with synced.feed() as feed, pytest.raises(Busy, match="is active for PID"):
            feed.drain()
    finally:
        other.kill()
        other.wait()
    while synced.run("SELECT 1 FROM pg_replication_slots WHERE active AND database = current_database()"):
        time.sleep(0.05)
    synced.drain()
    synced.assert_same()


def test_g17_a_lake_that_was_rolled_back_is_noticed(synced: Lake) -> None:
    synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'lost in the lake')")
    synced.drain()
    with synced.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        before = table.metadata.snapshots[-2].snapshot_id
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(before)
    synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 2, 1, 'after')")
    with synced.feed() as feed:
        feed.drain()
    ((state, reason),) = status(synced)
    assert state == "SKIPPED"
    assert reason is not None
    assert "rolled back" in reason
    # The way out that it names.
    synced.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    synced.drain()
    synced.assert_same()
    assert status(synced) == [("STREAMING", None)]


def test_a_new_column_is_followed(synced: Lake) -> None:
    with synced.feed() as feed:
        synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'before')")
        synced.run("ALTER TABLE m ADD COLUMN extra int", f"INSERT INTO m VALUES ('{NOON[1]}', 2, 1, 'after', 5)")
        feed.drain()
    synced.assert_same()
    assert {row["extra"] for row in synced.history().to_pylist() if row["tag"] == "after"} == {5}


def test_a_type_that_changes_sets_the_table_aside_until_it_is_synced_anew(synced: Lake) -> None:
    synced.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v int)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')"
    )
    synced.run("SELECT lakets.enable_sync('n')")
    synced.drain()
    synced.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'x')",
        "ALTER TABLE m ALTER COLUMN id TYPE text",
        f"INSERT INTO n VALUES ('{LATELY}', 1)",
    )
    with synced.feed() as feed:
        feed.drain()
    ((state, reason),) = synced.run("SELECT status, reason FROM thermocline.synced_table WHERE chronotable_id = 1")
    assert state == "SKIPPED"
    assert "the column id is int in the lake and string now" in reason
    assert synced.run("SELECT count(*) FROM thermocline.chunk_copy WHERE chronotable_id = 1") == [(0,)]
    synced.assert_same("n")  # the others go on


def test_the_slot_goes_with_the_last_table(synced: Lake) -> None:
    synced.run("SELECT lakets.disable_sync('m')")
    with synced.feed():
        pass
    assert synced.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert synced.run("SELECT count(*) FROM thermocline.stream") == [(0,)]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("price money", "its column price has the type money"),
        ("_lsn int", "its column _lsn has a name that the lake uses"),
        ('"TAG" text', "differ only in upper and lower case"),
    ],
)
def test_what_the_lake_cannot_hold_is_refused_by_name(lake: Lake, column: str, reason: str) -> None:
    lake.run(f"ALTER TABLE m ADD COLUMN {column}")
    with pytest.raises(psycopg.errors.RaiseException, match=reason):
        lake.run("SELECT lakets.enable_sync('m')")
    assert lake.run("SELECT count(*) FROM pg_publication") == [(0,)]
    assert lake.run("SELECT sync_enabled FROM lakets._chronotable_registry") == [(False,)]


def test_positions_are_written_as_postgres_does() -> None:
    assert number("16/B374D848") == 0x16_B374_D848
    assert text(0x16_B374_D848) == "16/B374D848"
    assert number(text(0)) == 0


def test_busy_is_what_a_taken_feed_is() -> None:
    assert issubclass(FeedTaken, Busy)


@pytest.mark.promise("000-09", "000-18")
def test_the_stream_tells_when_a_chunk_was_last_written_to(synced: Lake) -> None:
    """By one batch that has days on both sides of one that nobody has touched, and much else after them."""
    days = [BASE + timedelta(days=day) for day in range(3)]
    told = "SELECT range_start, last_write_lsn, last_modified_at FROM lakets._chunk_metadata ORDER BY 1"
    before = {start: (lsn, at) for start, lsn, at in synced.run(told)}
    ((began,),) = synced.run("SELECT clock_timestamp()")
    synced.run(
        f"UPDATE m SET v = 99 WHERE ts = '{NOON[0]}'",
        f"DELETE FROM m WHERE ts = '{NOON[2]}'",
        "CREATE TABLE noise AS SELECT g, repeat('x', 100) FROM generate_series(1, 10000) g",
    )
    synced.drain()
    after = {start: (lsn, at) for start, lsn, at in synced.run(told)}
    changes = [(row["ts"], row["_lsn"]) for row in synced.history().to_pylist()]
    for day in (days[0], days[2]):
        newest = max(lsn for ts, lsn in changes if day <= ts < day + timedelta(days=1))
        lsn, at = after.pop(day)
        assert number(lsn) == newest
        assert began <= at
        assert before.pop(day) != (lsn, at)
    assert after == before, "the day between, and every other"
    assert before[days[1]][0] is None
    ((passed,),) = synced.run(
        "SELECT committed_lsn >= (SELECT max(last_write_lsn) FROM lakets._chunk_metadata) FROM thermocline.synced_table"
    )
    assert passed
