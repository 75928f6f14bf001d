"""Mirrors: what happens to a table in shadow mode, its mirror is what the table is, and no writer suffers for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness import feed_children
from harness.feed_children import Run
from harness.lakes import BASE, NOON, Lake, chunk
from harness.mirrors import SHADOW, Writers, require_same, shadow
from harness.roles import role
from harness.schedules import mirror_points
from harness.sessions import Session, alone
from thermocline.reads import moments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


WAITING = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                   AND query ~ '_mend_mirror')
"""


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


@pytest.fixture
def synced(lake: Lake) -> Lake:
    lake.run(SHADOW)
    lake.drain()
    return lake


# ---- hazards ---------------------------------------------------------------------------------


@pytest.mark.promise("001-21")
def test_m1_a_dropped_chunk_leaves_the_mirror_without_a_word_in_the_history(synced: Lake) -> None:
    before = synced.history("_shadow_m").num_rows
    synced.let_go(0)
    synced.drain()
    kept = f"SELECT count(*) FILTER (WHERE ts < '{BASE + timedelta(days=1)}'), count(*) FROM lakets_cdf._shadow_m"
    assert synced.run(kept) == [(0, 48)]
    assert synced.history("_shadow_m").num_rows == before, "nothing is deleted in the lake"
    assert sum(synced.folded("_shadow_m").values()) == 72
    assert synced.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(0,)]
    synced.run("VACUUM lakets_cdf._shadow_m", "UPDATE m SET v = 0")
    synced.drain()
    assert shadow(synced) == synced.hot()
    synced.let_go(1, 2)
    synced.drain()
    synced.run("VACUUM lakets_cdf._shadow_m")
    assert synced.run("SELECT pg_relation_size('lakets_cdf._shadow_m')") == [(0,)]


def test_m1_a_chunk_that_is_dropped_by_others_and_made_again_is_mirrored_as_it_is(synced: Lake) -> None:
    synced.run("SELECT lakets._ensure_partitions(id, 1, 3) FROM lakets._chronotable_registry")
    ((name, start),) = synced.run(
        "SELECT chunk_name, range_start FROM lakets._chunk_metadata WHERE range_start > now() ORDER BY 2 LIMIT 1"
    )
    synced.run(f"INSERT INTO m SELECT '{start}', g, g FROM generate_series(1, 5) g")
    require_same(synced)
    synced.run(f"DROP TABLE {name}", "SELECT lakets._reconcile()", f"INSERT INTO m VALUES ('{start}', 77, 0)")
    require_same(synced)
    synced.run("DELETE FROM m WHERE id = 77")
    require_same(synced)


def test_m2_columns_come_go_and_are_renamed_beside_writers(synced: Lake) -> None:
    row = "INSERT INTO m (ts, id) VALUES ('{}', {})"
    for number, change in enumerate(
        [
            "ALTER TABLE m ADD COLUMN extra int DEFAULT 5",
            "ALTER TABLE m RENAME COLUMN v TO value",
            "ALTER TABLE m RENAME COLUMN id TO v; ALTER TABLE m RENAME COLUMN extra TO id;"
            " ALTER TABLE m RENAME COLUMN v TO extra",
            "ALTER TABLE m ALTER COLUMN id TYPE bigint",
            "ALTER TABLE m DROP COLUMN value",
            "ALTER TABLE m DROP COLUMN extra; ALTER TABLE m ADD COLUMN extra text DEFAULT 'x'",
            "ALTER TABLE m RENAME COLUMN ts TO at; ALTER TABLE m RENAME COLUMN at TO ts",
        ]
    ):
        synced.run(
            *change.split("; "),
            row.format(NOON[0], 100 + number),
            "UPDATE m SET id = id + 1 WHERE id % 7 = 0",
            f"DELETE FROM {chunk(1)} WHERE id % 11 = {number}",
        )
        for _ in range(3):
            synced.drain()
        assert shadow(synced) == synced.hot(), change
        synced.run(row.format(NOON[1], 200 + number), "UPDATE m SET id = id + 1 WHERE id % 5 = 0")
        assert shadow(synced) == synced.hot(), change
        columns = (
            "SELECT attnum, attname FROM pg_attribute"
            " WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY 1"
        )
        assert synced.run(columns.format("lakets_cdf._shadow_m")) == synced.run(columns.format("m"))
    synced.drain()
    synced.let_go(0, 1, 2)


def test_m2_a_writer_with_an_old_snapshot_does_not_fail_for_new_columns(synced: Lake) -> None:
    with Session(synced.dsn) as old:
        old.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.run("SELECT 1 FROM pg_class LIMIT 1")
        synced.run("ALTER TABLE m ADD COLUMN extra int", "ALTER TABLE m DROP COLUMN v")
        synced.drain()
        old.run("INSERT INTO m (ts, id, extra) VALUES (%s, 100, 1)", [NOON[0]])
        old.commit()
    synced.drain()
    assert shadow(synced) == synced.hot()
    assert (NOON[0], 100, 1) in shadow(synced)
    synced.let_go(0)


IMAGES = [
    """'{"a": 1}'""",
    """'{"a":1}'""",
    "NULL",
]


def test_m3_rows_are_told_apart_to_the_bit(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE o (ts timestamptz NOT NULL, doc json, f float8, n numeric, t text)",
        f"INSERT INTO o VALUES ('{NOON[0]}')",
        "SELECT lakets.create_chronotable('o', 'ts', '1 day')",
        "SELECT lakets.enable_sync('o', p_mode => 'shadow')",
    )
    lake.drain()
    values = [
        f"('{NOON[0]}', {doc}, {f}, {n}, {t})"
        for doc in IMAGES
        for f in ("0", "'-0'", "'NaN'", "NULL")
        for n in ("1.0", "1.000", "'NaN'", "NULL")
        for t in ("''", "NULL", "repeat('x', 10000)")
    ]
    lake.run(f"INSERT INTO o VALUES {', '.join(values)}")
    told = "SELECT doc::text, f::text, n::text, t FROM {} "
    for gone in (
        "doc::text = '{\"a\":1}' AND f::text = '-0'",
        "n::text = '1.000' AND f::text = '0'",
        "f = 'NaN' AND n IS NULL",
        "t = ''",
    ):
        lake.run(f"DELETE FROM o WHERE {gone}")
        mirrored = Counter(lake.run(told.format("lakets_cdf._shadow_o")))
        assert mirrored == Counter(lake.run(told.format("o"))), gone
    lake.run("UPDATE o SET n = 1.00 WHERE n = 1")
    assert Counter(lake.run(told.format("lakets_cdf._shadow_o"))) == Counter(lake.run(told.format("o")))
    assert lake.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(0,)]


@pytest.mark.parametrize("time", ["timestamp", "date"])
def test_m3_domains_enums_generated_columns_and_other_times_are_mirrored(lake: Lake, time: str) -> None:
    lake.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE FUNCTION nobody() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN"
        " IF current_user <> session_user THEN RAISE 'with rights of others'; END IF; RETURN true; END$$",
        "CREATE DOMAIN price AS numeric(10, 2) CHECK (VALUE > 0 AND nobody())",
        f"CREATE TABLE d (at {time} NOT NULL, p price, m mood, tags text[],"
        " double numeric GENERATED ALWAYS AS (p * 2) STORED)",
        f"INSERT INTO d SELECT '{BASE}'::timestamptz AT TIME ZONE 'UTC' + g * interval '1 day', g + 1, 'sad', '{{a}}'"
        " FROM generate_series(0, 2) g",
        "SELECT lakets.create_chronotable('d', 'at', '1 day')",
        "SELECT lakets.enable_sync('d', p_mode => 'shadow')",
    )
    lake.drain()
    lake.run(
        "UPDATE d SET m = 'glad', p = p + 1 WHERE p = 2",
        "DELETE FROM d WHERE p = 1",
        "INSERT INTO d (at, p, tags) SELECT max(at), 7.5, '{x,y}' FROM d",
        "ALTER TABLE d ADD COLUMN later price DEFAULT 3",
        "UPDATE d SET p = 9 WHERE p = 7.5",
    )
    lake.drain()
    names = "at, p, m, tags, later"
    mirrored = lake.run(f"SELECT {names} FROM lakets_cdf._shadow_d ORDER BY p")
    assert mirrored == lake.run(f"SELECT {names} FROM d ORDER BY p")
    assert len(mirrored) == 3
    ((oid,),) = lake.run(
        "SELECT min(chunk_oid)::bigint FROM lakets._chunk_metadata m JOIN pg_class c ON c.oid = m.chunk_oid"
        " WHERE m.chronotable_id = (SELECT id FROM lakets._chronotable_registry WHERE table_name = 'd')"
    )
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(oid).equal


def test_m4_twins_that_two_sessions_delete_at_once_are_both_gone(synced: Lake) -> None:
    synced.run(f"INSERT INTO m SELECT '{NOON[0]}', 100, 1 FROM generate_series(1, 6)")
    with Session(synced.dsn) as one, Session(synced.dsn) as other, Session(synced.dsn) as third:
        some: Any = (
            "DELETE FROM m WHERE ctid = ANY (ARRAY(SELECT ctid FROM m WHERE id = 100 FOR UPDATE SKIP LOCKED LIMIT 2))"
        )
        one.run(some)
        other.run(some)
        third.run(some)
        third.rollback()
        other.commit()
        one.commit()
    assert shadow(synced)[(NOON[0], 100, 1.0)] == 2
    assert synced.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(0,)]
    require_same(synced)


def test_m5_rows_are_found_by_an_index_whatever_the_mirror_holds(synced: Lake) -> None:
    synced.run(
        f"INSERT INTO m SELECT '{NOON[0]}', g, 0 FROM generate_series(1000, 21000) g", "ANALYZE lakets_cdf._shadow_m"
    )
    index = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'lakets_cdf._shadow_m'::regclass"
    ((made,),) = synced.run(index)
    assert made.endswith("USING btree (ts, hash_record(ROW(id)))")
    with psycopg.connect(synced.dsn, autocommit=True) as session:
        alone(session)  # what others have counted is told when their sessions end
        counters = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = '_shadow_m'"
        session.execute("SELECT pg_stat_force_next_flush()")
        (before,) = session.execute(counters).fetchall()
        session.execute("DELETE FROM m WHERE id BETWEEN 2000 AND 2009")
        session.execute("UPDATE m SET v = 1 WHERE id BETWEEN 3000 AND 3009")
        session.execute("SELECT pg_stat_force_next_flush()")
        (after,) = session.execute(counters).fetchall()
    assert after[0] == before[0], "the mirror is never read from end to end"
    assert after[1] - before[1] == 20, "one row is looked at for each that went"


@pytest.mark.parametrize("table", ['we"ird ; Name', "t" * 63, "ü" * 30, "rollup_x"])
def test_m7_any_name_has_a_mirror_of_its_own(lake: Lake, table: str) -> None:
    quoted = table.replace('"', '""')
    lake.run('CREATE SCHEMA "other\'s"')
    for schema in ("public", "other's"):
        lake.run(
            f'CREATE TABLE "{schema}"."{quoted}" ("the ""time" timestamptz NOT NULL, "Value %s" int)',
            f"""INSERT INTO "{schema}"."{quoted}" VALUES ('{NOON[0]}', 1)""",
        )
        with psycopg.connect(lake.dsn, autocommit=True) as session:
            session.execute(
                "SELECT lakets.create_chronotable(%s, 'the \"time', '1 day', p_schema_name => %s)", [table, schema]
            )
            session.execute("SELECT lakets.enable_sync(%s, %s, 'shadow')", [table, schema])
    lake.drain()
    found = lake.run("SELECT shadow_oid::regclass::text FROM thermocline.synced_table ORDER BY chronotable_id")
    assert len(set(found)) == 2
    for (mirror,), schema, number in zip(found, ("public", "other's"), (10, 20), strict=True):
        lake.run(f'UPDATE "{schema}"."{quoted}" SET "Value %s" = {number}')
        assert lake.run(f"SELECT * FROM {mirror}") == [(NOON[0], number)]
    assert lake.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(0,)]


def test_m8_an_application_without_rights_on_the_mirror_writes(synced: Lake) -> None:
    grants = ("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON m TO {role}",)
    with role(synced.dsn, "shadow_writer", "", *grants) as writer, psycopg.connect(writer, autocommit=True) as session:
        session.execute("INSERT INTO m VALUES (%s, 100, 1)", [NOON[0]])
        session.execute("UPDATE m SET v = 2 WHERE id = 100")
        session.execute("DELETE FROM m WHERE id = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT count(*) FROM lakets_cdf._shadow_m")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT thermocline._drop_shadow(1)")
        require_same(synced)
        session.execute("TRUNCATE m")
    require_same(synced)


# ---- what happens to chunks ------------------------------------------------------------------


def test_truncate_of_the_table_and_of_a_chunk_empties_the_mirror(synced: Lake) -> None:
    synced.run(f"BEGIN; TRUNCATE {chunk(0)}; INSERT INTO m VALUES ('{NOON[0]}', 100, 1); COMMIT")
    assert shadow(synced) == synced.hot()
    require_same(synced)
    synced.run(f"BEGIN; TRUNCATE m; INSERT INTO m VALUES ('{NOON[1]}', 101, 1); COMMIT")
    assert shadow(synced) == synced.hot()
    require_same(synced)
    kinds = Counter(synced.history("_shadow_m")["_change_type"].to_pylist())
    assert "delete" not in kinds


def test_a_chunk_that_is_detached_written_to_and_attached_again_is_mirrored_anew(synced: Lake) -> None:
    start, end = BASE, BASE + timedelta(days=1)
    synced.run(f"ALTER TABLE m DETACH PARTITION {chunk(0)}")
    synced.run(f"INSERT INTO {chunk(0)} VALUES ('{NOON[0]}', 100, 1)", f"DELETE FROM {chunk(0)} WHERE id < 5")
    assert sum(shadow(synced).values()) == 72, "what is done to it apart is nobody's affair"
    synced.drain()
    synced.run(f"ALTER TABLE m ATTACH PARTITION {chunk(0)} FOR VALUES FROM ('{start}') TO ('{end}')")
    require_same(synced)


def test_a_partition_that_somebody_attaches_is_mirrored(synced: Lake) -> None:
    start = BASE - timedelta(days=3)
    synced.run(
        "CREATE TABLE mine (LIKE m)",
        f"INSERT INTO mine SELECT '{start}', g, g FROM generate_series(1, 10) g",
        f"ALTER TABLE m ATTACH PARTITION mine FOR VALUES FROM ('{start}') TO ('{start + timedelta(days=1)}')",
        "DELETE FROM m WHERE id = 3",
    )
    require_same(synced)
    synced.run("UPDATE mine SET v = 0 WHERE id = 4")
    assert shadow(synced) == synced.hot()
    require_same(synced)


def test_a_table_that_is_dropped_takes_its_mirror_along(synced: Lake) -> None:
    synced.run("SELECT lakets.drop_chronotable('m')")
    assert synced.run("SELECT count(*) FROM pg_class WHERE relnamespace = 'lakets_cdf'::regnamespace") == [(0,)]
    synced.with_days().run(SHADOW, "DROP TABLE m", "SELECT lakets._reconcile()")
    assert synced.run("SELECT count(*) FROM pg_class WHERE relnamespace = 'lakets_cdf'::regnamespace") == [(0,)]


# ---- beside writers --------------------------------------------------------------------------


def test_a_table_is_filled_beside_its_writers(lake: Lake) -> None:
    lake.run(
        f"INSERT INTO m SELECT '{BASE}'::timestamptz + g * interval '1 minute', g % 72, g"
        " FROM generate_series(1, 4000) g"
    )
    with Writers(lake):
        lake.run(SHADOW)
        with lake.feed() as feed:
            for _ in range(5):
                feed.drain()
    for _ in range(3):
        with lake.feed() as feed:
            feed.drain()
    require_same(lake)
    lake.let_go(0, 1, 2)


def test_a_row_that_goes_while_the_mirror_is_filled_leaves_a_doubt_that_is_seen_to(lake: Lake) -> None:
    lake.run(SHADOW, "DELETE FROM m WHERE id = 3")
    assert lake.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(1,)]
    require_same(lake)
    with Session(lake.dsn) as old:
        old.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.run("SELECT count(*) FROM m")
        lake.run("TRUNCATE lakets_cdf._shadow_m", "SELECT lakets.resync('m')")
        lake.drain()
        old.run("DELETE FROM m WHERE id = 30")
        old.commit()
    lake.drain()
    require_same(lake)
    assert lake.run("SELECT count(*) FROM thermocline.mirror_doubt") == [(0,)]


def test_triggers_that_somebody_switches_off_are_put_back_and_what_they_missed_is_found(synced: Lake) -> None:
    synced.run(
        "ALTER TABLE m DISABLE TRIGGER ALL",
        f"DROP TRIGGER trg_lakets_sync ON {chunk(1)}",
        "DELETE FROM m WHERE id % 4 = 0",
        f"INSERT INTO {chunk(1)} VALUES ('{NOON[1]}', 100, 1)",
    )
    assert shadow(synced) != synced.hot()
    require_same(synced)
    assert synced.run("SELECT count(*) FROM thermocline._mirror_unwatched(1)") == [(0,)]


def test_a_table_whose_mirror_is_dropped_is_set_aside_and_its_writers_go_on(synced: Lake) -> None:
    synced.run(
        "DROP TABLE lakets_cdf._shadow_m", f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)", "DELETE FROM m WHERE id = 1"
    )
    with synced.feed() as feed:
        assert feed.drain().set_aside == ("public.m",)
    synced.run("SELECT lakets.resync('m')")
    require_same(synced)


def test_m17_while_a_mirror_is_doubted_no_state_of_its_table_is_known(synced: Lake) -> None:
    before = moments.known(synced.dsn, "m")
    synced.run("ALTER TABLE m ADD COLUMN extra int", f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1, 1)")
    with synced.feed() as feed:
        feed.step()  # the stream has passed what was written in doubt, which is not in it
        with pytest.raises(moments.NotThen):
            moments.known(synced.dsn, "m")
        feed.drain()
    require_same(synced)
    after = moments.known(synced.dsn, "m")
    assert after.first > before.last
    assert synced.run("SELECT status FROM wal2delta.tables") == [("STREAMING",)]


def test_a_writer_with_a_snapshot_from_before_the_mirror_is_not_missed(lake: Lake) -> None:
    with Session(lake.dsn) as old, Session(lake.dsn) as other:
        for session in (old, other):
            session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.run("SELECT count(*) FROM pg_class")
        lake.run(SHADOW)
        for _ in range(2):
            with lake.feed() as feed:
                feed.drain()
        old.run("INSERT INTO m VALUES (%s, 100, 1)", [NOON[0]])
        old.run("DELETE FROM m WHERE id = 3")
        old.commit()
        other.run(f"UPDATE {chunk(1)} SET v = 0 WHERE id = 30")
        other.commit()
    lake.drain()
    require_same(lake)


def test_a_mirror_that_cannot_follow_is_set_aside_and_its_writers_go_on(synced: Lake) -> None:
    synced.run("CREATE VIEW seen AS SELECT v FROM lakets_cdf._shadow_m", "ALTER TABLE m DROP COLUMN v")
    synced.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100)")
    with synced.feed() as feed:
        assert feed.drain().set_aside == ("public.m",)
    ((reason,),) = synced.run("SELECT reason FROM thermocline.synced_table")
    assert reason.startswith("Its mirror cannot follow it: cannot drop column v of table lakets_cdf._shadow_m")
    synced.run("DROP VIEW seen", "SELECT lakets.resync('m')")
    synced.drain()
    assert shadow(synced) == synced.hot()


def test_whoever_empties_the_table_is_not_the_victim_of_a_comparison(synced: Lake) -> None:
    synced.run("ALTER TABLE m DISABLE TRIGGER ALL", "DELETE FROM m WHERE id = 5", "SELECT lakets._reconcile()")
    done = threading.Event()

    def tend() -> None:
        with synced.feed() as feed:
            while not done.is_set():
                feed.tend()

    comparing = threading.Thread(target=tend)
    with Session(synced.dsn) as writer:
        writer.run("INSERT INTO m VALUES (%s, 5, 5 / 7.0)", [BASE + timedelta(hours=5)])
        writer.run("DELETE FROM m WHERE id = 5")  # from the mirror it takes what the comparison is to take out
        comparing.start()
        try:
            deadline = time.monotonic() + 60
            while synced.run(WAITING) == [(False,)]:
                assert time.monotonic() < deadline
            writer.run("TRUNCATE m")
            writer.commit()
        finally:
            done.set()
            comparing.join()
    require_same(synced)


def test_an_administrator_who_owns_the_table_syncs_it_in_shadow_mode(lake: Lake) -> None:
    grants = (
        "GRANT lakets_admin TO {role}",
        "GRANT CREATE ON SCHEMA public TO {role}",
        "GRANT CREATE ON DATABASE {database} TO lakets_admin",
    )
    with role(lake.dsn, "shadow_admin", "", *grants) as owner:
        with psycopg.connect(owner, autocommit=True) as session:
            session.execute("CREATE TABLE mine (ts timestamptz NOT NULL, id int)")
            session.execute("INSERT INTO mine VALUES (%s, 1)", [NOON[0]])
            session.execute("SELECT lakets.create_chronotable('mine', 'ts', '1 day')")
            session.execute("SELECT lakets.enable_sync('mine', p_mode => 'shadow')")
            session.execute("INSERT INTO mine VALUES (%s, 2)", [NOON[0]])
        lake.drain()
        assert shadow(lake, "_shadow_mine") == lake.hot("mine")
        with psycopg.connect(owner, autocommit=True) as session:
            session.execute("SELECT lakets.enable_sync('mine', p_mode => 'direct')")
            session.execute("SELECT lakets.drop_chronotable('mine')")


# ---- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point", [*mirror_points(), "copy.registered", "copy.recorded", "batch.committed", "batch.recorded"]
)
def test_m10_a_feed_killed_at_any_point_leaves_mirror_and_history_exact(
    crashing_dsn: str, make_lake: Callable[[str], Lake], point: str
) -> None:
    lake = make_lake(crashing_dsn).with_days()

    def feed(kill_at: str | None = None) -> str:
        return feed_children.run_in_turn(Run(lake.stack.settings, "drain", kill_at)).how

    lake.run(SHADOW, "UPDATE m SET v = 0 WHERE id % 3 = 0")
    met = feed(point) == "killed"
    lake.run(
        "UPDATE m SET v = 1 WHERE id % 4 = 0",
        "DELETE FROM m WHERE id % 5 = 0",
        "ALTER TABLE m ADD COLUMN extra int DEFAULT 1",
    )
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1, 2)", f"TRUNCATE {chunk(2)}")
    met = feed(point) == "killed" or met
    lake.run(f"ALTER TABLE m DETACH PARTITION {chunk(1)}", f"DROP TABLE {chunk(1)}", "SELECT lakets._reconcile()")
    met = feed(point) == "killed" or met
    assert met, "the point was not met"
    for _ in range(3):
        assert feed() == "done"
    assert shadow(lake) == lake.hot()
    lake.let_go(0)
