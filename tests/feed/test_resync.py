"""Copying again what the lake does not have as it should: a table, or one chunk of it, while the stream goes on."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from harness.lakes import BASE, NOON, Lake, chunk
from harness.sessions import Session
from thermocline.errors import Refused
from thermocline.feed.clock import Clock
from thermocline.feed.status import with_disk

if TYPE_CHECKING:
    from pathlib import Path

    from harness.crash_servers import CrashServer
    from thermocline.feed.feed import Feed

LOW_LIMIT = "DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET lakets.wal_alarm_mb = 1', current_database()); END$$"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home").with_days()
    found.synced().drain()
    return found


def damage(lake: Lake, row: int) -> None:
    """Somebody deletes a row in the lake by hand."""
    with lake.stack.catalog() as catalog:
        catalog.load_table("public.lb_m_history").delete(f"id = {row}")


def proven(lake: Lake, day: int) -> bool:
    with lake.feeding():
        return lake.stack.prover(on_spark=False).prove(lake.chunk_oid(day)).equal


def resets(lake: Lake) -> int:
    return sum(one == "truncate" for one in lake.history()["_change_type"].to_pylist())


def test_g11_a_chunk_that_the_lake_does_not_have_whole_is_copied_again(lake: Lake) -> None:
    damage(lake, 5)
    assert not proven(lake, 0)
    before = resets(lake)
    assert lake.stack.resync_table("m", chunk(0)) == 1
    lake.drain()
    assert resets(lake) == before + 1
    assert proven(lake, 0)
    lake.assert_same()


def test_g11_a_table_is_copied_again_while_it_is_written_to(lake: Lake) -> None:
    damage(lake, 5)
    damage(lake, 30)
    with lake.feed() as feed:
        assert lake.stack.resync_table("public.m") == lake.run("SELECT count(*) FROM lakets.show_chunks('m')")[0][0]
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)", "DELETE FROM m WHERE id = 31")
        while not feed.drain().caught_up:
            pass
    lake.assert_same()
    assert proven(lake, 0)


def test_a_table_that_was_set_aside_joins_again(lake: Lake) -> None:
    lake.run("ALTER TABLE m ADD COLUMN _seq int")
    assert lake.drain().set_aside == ("public.m",)
    with pytest.raises(Refused, match="the table is set aside"):
        lake.stack.resync_table("m", chunk(0))
    lake.run("ALTER TABLE m DROP COLUMN _seq", f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
    assert lake.stack.resync_table("m") > 0
    assert not lake.drain().set_aside
    lake.assert_same()


@pytest.mark.parametrize(
    ("table", "chunk", "reason"),
    [
        ("nowhere", None, "nowhere"),
        ("m", "m_19990101_000000", "it has no resident chunk m_19990101_000000"),
        ("n", None, "it is not synced"),
    ],
)
def test_what_cannot_be_copied_again_is_refused(lake: Lake, table: str, chunk: str | None, reason: str) -> None:
    lake.run("CREATE TABLE n (ts timestamptz NOT NULL)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    with pytest.raises(Refused, match=reason):
        lake.stack.resync_table(table, chunk)


# ---- how far it is, and what is wrong --------------------------------------------------------


def alarms(lake: Lake) -> dict[str, str]:
    return {one.alarm: one.next_step for one in lake.stack.feed_status().alarms}


def test_status_tells_lag_in_bytes_and_seconds_and_rows_a_second(lake: Lake) -> None:
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, g FROM generate_series(1, 6000) g")
    lake.drain()
    found = lake.stack.feed_status()
    (table,) = found.tables
    assert table.entries == 6072
    assert 10 < table.rows_per_second <= 102  # 6072 in a minute, and some time has passed
    assert table.behind_seconds is not None
    assert found.behind_seconds == pytest.approx(table.behind_seconds, abs=5)
    assert (table.behind_bytes or 0) < 1_000_000
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, g FROM generate_series(1, 20000) g", "SELECT pg_sleep(1.1)")
    later = lake.stack.feed_status().tables[0]
    assert (later.behind_bytes or 0) > 1_000_000
    assert (later.behind_seconds or 0) > table.behind_seconds + 1
    assert later.rows_per_second < table.rows_per_second
    assert lake.run("SELECT lag_bytes > 1000000, lag_seconds > 1, covered = chunks FROM lakets.feed_status()") == [
        (True, True, True)
    ]


def test_a_feed_that_never_ran_is_told(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    assert not alarms(lake)
    assert alarms(lake.synced()).keys() == {"feed_stopped"}


def test_what_is_wrong_with_the_feed_is_told_with_a_next_step(lake: Lake) -> None:
    assert alarms(lake).keys() == {"feed_stopped"}
    with lake.feed():
        assert not alarms(lake)
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, g FROM generate_series(1, 20000) g")
    lake.run(LOW_LIMIT)
    assert "`thermocline feed`" in alarms(lake)["log_kept"]
    lake.run("SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream")
    assert "resync" in alarms(lake)["slot_missing"]


def write_elsewhere(lake: Lake) -> None:
    """Eight megabytes of log that no synced table has to do with."""
    lake.run("CREATE TABLE other (x text)", "INSERT INTO other SELECT repeat('x', 900) FROM generate_series(1, 9000)")


def read_on(lake: Lake, feed: Feed) -> None:
    """Changes that move the slot; a checkpoint tells it which transactions are still there."""
    for _ in range(3):
        lake.run("CHECKPOINT", f"INSERT INTO m VALUES ('{NOON[1]}', 3, 3)")
        feed.drain()


def test_m11_a_transaction_that_keeps_the_log_is_named(lake: Lake) -> None:
    lake.run(LOW_LIMIT)
    with lake.feed() as feed:
        with Session(lake.dsn) as writer:
            ((since, database),) = writer.run("SELECT now()::text, current_database()")
            writer.run("INSERT INTO m VALUES (%s, 1, 1)", [NOON[1]])
            write_elsewhere(lake)
            feed.drain()
            assert alarms(lake)["log_kept"] == (
                f"A transaction in the database {database} has been open since {since}: end it,"
                f" or SELECT pg_terminate_backend({writer.pid})."
            )
        assert alarms(lake)["log_kept"] == (
            "The transaction that kept it has ended: PostgreSQL lets it go when the feed has read a little more."
        )
        read_on(lake, feed)
        assert not alarms(lake)


def test_m11_whoever_wrote_first_keeps_the_log_not_whoever_began_first(lake: Lake) -> None:
    lake.run(LOW_LIMIT)
    with lake.feed() as feed, Session(lake.dsn) as early, Session(lake.dsn) as writer:
        early.run("SELECT 1")
        writer.run("INSERT INTO m VALUES (%s, 1, 1)", [NOON[1]])
        write_elsewhere(lake)
        early.run("INSERT INTO m VALUES (%s, 2, 2)", [NOON[1]])
        feed.drain()
        assert f"pg_terminate_backend({writer.pid})" in alarms(lake)["log_kept"]


def test_m11_a_transaction_in_another_database_that_keeps_the_log_is_named(lake: Lake, empty_dsn: str) -> None:
    lake.run(LOW_LIMIT)
    with lake.feed() as feed, Session(empty_dsn) as writer:
        ((since, database),) = writer.run("SELECT now()::text, current_database()")
        writer.run("CREATE TABLE theirs ()")
        write_elsewhere(lake)
        feed.drain()
        end_it = f"end it, or SELECT pg_terminate_backend({writer.pid})."
        assert alarms(lake)["log_kept"] == (
            f"A transaction in the database {database} has been open since {since}: {end_it}"
        )
        with psycopg.connect(lake.dsn) as session:
            session.execute("SET ROLE lakets_read")  # may not see since when
            told = session.execute("SELECT next_step FROM lakets.feed_alarms() WHERE alarm = 'log_kept'").fetchall()
            assert told == [(f"A transaction in the database {database} is open: {end_it}",)]


@pytest.mark.parametrize("there", [True, False], ids=["its own database", "another database"])
def test_m11_a_prepared_transaction_that_keeps_the_log_is_named(
    crashing: CrashServer, crashing_dsn: str, tmp_path: Path, there: bool
) -> None:
    lake = Lake.of(crashing_dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    lake.run(LOW_LIMIT)
    address = crashing_dsn if there else crashing.server().dsn
    gid = f"it's {id(lake)}"
    ended = sql.SQL("ROLLBACK PREPARED {}").format(gid)
    with psycopg.connect(address, autocommit=True) as session:
        session.execute("BEGIN")
        session.execute("CREATE TABLE theirs ()")
        session.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
    try:
        ((prepared, database),) = lake.run("SELECT prepared::text, database FROM pg_prepared_xacts")
        assert (database == conninfo_to_dict(crashing_dsn)["dbname"]) == there
        write_elsewhere(lake)
        with lake.feed() as feed:
            feed.drain()
            quoted = gid.replace("'", "''")
            assert alarms(lake)["log_kept"] == (
                f"A transaction was prepared at {prepared} and has not ended: COMMIT PREPARED '{quoted}'"
                f" or ROLLBACK PREPARED '{quoted}', in the database {database}."
            )
            with psycopg.connect(address, autocommit=True) as session:
                session.execute(ended)
            read_on(lake, feed)
            assert not alarms(lake)
    finally:
        with psycopg.connect(address, autocommit=True) as session, suppress(psycopg.errors.UndefinedObject):
            session.execute(ended)


def test_a_disk_that_fills_is_told_before_it_is_full(lake: Lake) -> None:
    found = lake.stack.feed_status()
    assert found.retained_bytes
    assert with_disk(found, 3 * found.retained_bytes) == found
    assert with_disk(found, found.retained_bytes).alarms[-1].alarm == "disk_filling"


def test_the_clock_tells_the_last_moment_that_is_surely_in_the_lake() -> None:
    clock = Clock()
    for end in (10, 20, 20, 30):
        clock.saw(end, BASE + timedelta(seconds=end))
    assert clock.reached(9) is None
    assert clock.reached(25) == BASE + timedelta(seconds=20)
    clock.forget(25)
    assert clock.reached(19) is None
    assert clock.reached(25) == BASE + timedelta(seconds=20), "several tables ask for the same position"
    assert clock.reached(30) == BASE + timedelta(seconds=30)


def test_only_the_owner_may_have_a_table_copied_again(lake: Lake) -> None:
    with psycopg.connect(lake.dsn) as session:
        session.execute("CREATE ROLE stranger_of_resync; GRANT lakets_admin TO stranger_of_resync")
        session.execute("SET ROLE stranger_of_resync")
        with pytest.raises(psycopg.errors.Error, match="owner"):
            session.execute("SELECT lakets.resync('m')")
        session.rollback()
