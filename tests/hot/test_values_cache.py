"""The last-value cache: newest by time, right after every kind of write, and nobody waits who need not."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.questions import ask, refused
from harness.roles import role
from harness.sessions import Session

# Days around now: chunks from an old one until today would be many.
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = f"timestamptz '{TODAY:%Y-%m-%d} 00:00+00'"
FIRST, SECOND = (f"readings_{TODAY + timedelta(days=days):%Y%m%d}_000000" for days in (0, 1))
INSERT = "INSERT INTO readings VALUES (%s::timestamptz, %s, %s)"
CACHED = "SELECT sensor, v, extract(epoch FROM last_updated - " + DAY + ")::int FROM _lvc_readings ORDER BY sensor"
TRUTH = (
    "SELECT DISTINCT ON (sensor) sensor, v, extract(epoch FROM ts - " + DAY + ")::int FROM readings"
    " WHERE sensor IS NOT NULL ORDER BY sensor, ts DESC"
)


@pytest.fixture
def cached(db: psycopg.Connection) -> psycopg.Connection:
    """A table over three days with the newest value of two sensors in its cache."""
    db.execute("CREATE TABLE readings (ts timestamptz NOT NULL, sensor int, v float8)")
    db.execute(
        f"INSERT INTO readings VALUES ({DAY} + '2 days', NULL, 0), ({DAY}, 1, 10), ({DAY} + '9 s', 2, 20)".encode()
    )
    db.execute("SELECT lakets.create_chronotable('readings', 'ts', '1 day')")
    db.execute("SELECT lakets.enable_lvc('readings', '{sensor}', '{v}')")
    return db


def write(db: psycopg.Connection, sensor: int, seconds: float, v: float, table: str = "readings") -> None:
    db.execute(f"INSERT INTO {table} VALUES ({DAY} + %s * interval '1 s', %s, %s)".encode(), [seconds, sensor, v])


# ---- what is in it ----------------------------------------------------------------------------


def test_what_is_there_is_cached_when_it_is_enabled(cached: psycopg.Connection) -> None:
    assert ask(cached, CACHED) == [(1, 10, 0), (2, 20, 9)]
    shape = ask(
        cached,
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = '_lvc_readings'::regclass AND attnum > 0 ORDER BY attnum",
    )
    assert shape == [
        ("sensor", "integer", True),
        ("v", "double precision", False),
        ("last_updated", "timestamp with time zone", True),
    ]
    assert ask(
        cached,
        "SELECT conname, contype::text FROM pg_constraint WHERE conrelid = '_lvc_readings'::regclass AND contype = 'p'",
    ) == [("_lvc_readings_pkey", "p")]


def test_the_newest_by_time_stays_whatever_comes_later(cached: psycopg.Connection) -> None:
    write(cached, 1, 5, 11)
    write(cached, 1, 3, 99)
    write(cached, 1, 5, 98)
    cached.execute(
        f"INSERT INTO readings VALUES ({DAY} + '7 s', 3, 1), ({DAY} + '8 s', 3, 2), ({DAY} + '6 s', 3, 3)".encode()
    )
    write(cached, 4, 1, 4)
    assert ask(cached, CACHED) == [(1, 11, 5), (2, 20, 9), (3, 2, 8), (4, 4, 1)]


def test_copy_is_seen(cached: psycopg.Connection) -> None:
    with cached.cursor().copy("COPY readings FROM STDIN") as rows:
        rows.write_row((TODAY + timedelta(days=1), 7, 70))
        rows.write_row((TODAY, 7, 71))
    assert (7, 70, 86400) in ask(cached, CACHED)


def test_an_update_is_seen(cached: psycopg.Connection) -> None:
    write(cached, 1, 5, 11)
    cached.execute("UPDATE readings SET v = 12 WHERE v = 11")
    assert ask(cached, CACHED)[0] == (1, 12, 5)
    cached.execute(f"UPDATE readings SET ts = {DAY} - interval '1 s' WHERE v = 12 AND false".encode())
    cached.execute(f"UPDATE readings SET ts = {DAY} + '1 day' WHERE v = 10".encode())
    assert ask(cached, CACHED)[0] == (1, 10, 86400)
    cached.execute("UPDATE readings SET sensor = 5 WHERE sensor = 2")
    assert ask(cached, CACHED) == [(1, 10, 86400), (5, 20, 9)]
    cached.execute("UPDATE readings SET sensor = NULL WHERE sensor = 5")
    assert ask(cached, CACHED) == [(1, 10, 86400)]


def test_a_delete_brings_back_what_was_before(cached: psycopg.Connection) -> None:
    write(cached, 1, 5, 11)
    cached.execute("DELETE FROM readings WHERE v = 11")
    assert ask(cached, CACHED) == [(1, 10, 0), (2, 20, 9)]
    cached.execute("DELETE FROM readings WHERE sensor = 1")
    assert ask(cached, CACHED) == [(2, 20, 9)]


def test_truncate_empties_what_it_emptied(cached: psycopg.Connection) -> None:
    write(cached, 1, 86400, 11)
    cached.execute(f"TRUNCATE {SECOND}".encode())
    assert ask(cached, CACHED) == [(1, 10, 0), (2, 20, 9)]
    cached.execute("TRUNCATE readings")
    assert ask(cached, CACHED) == []


def test_writes_to_a_chunk_itself_are_seen(cached: psycopg.Connection) -> None:
    chunk = FIRST
    write(cached, 1, 5, 11, chunk)
    assert ask(cached, CACHED)[0] == (1, 11, 5)
    cached.execute(f"UPDATE {chunk} SET v = 12 WHERE v = 11".encode())
    assert ask(cached, CACHED)[0] == (1, 12, 5)
    cached.execute(f"DELETE FROM {chunk} WHERE v = 12".encode())
    assert ask(cached, CACHED)[0] == (1, 10, 0)


def test_a_chunk_that_is_made_later_is_watched_too(cached: psycopg.Connection) -> None:
    ahead = TODAY + timedelta(days=9)
    ask(cached, "SELECT lakets._ensure_partitions(id, 1, 3, %s, %s) FROM lakets._chronotable_registry", ahead, ahead)
    cached.execute(f"INSERT INTO readings_{ahead:%Y%m%d}_000000 VALUES (%s, 1, 77)".encode(), [ahead])
    assert ask(cached, CACHED)[0][:2] == (1, 77)


def test_a_dropped_chunk_leaves_the_last_value_known(cached: psycopg.Connection) -> None:
    day = TODAY - timedelta(days=1)  # there already, unless midnight has passed since
    ask(cached, "SELECT lakets._ensure_partitions(id, 1, 3, %s, %s) FROM lakets._chronotable_registry", day, day)
    write(cached, 3, -80000, 30)
    cached.execute("SELECT lakets.drop_chunks('readings', '0')")
    assert ask(cached, "SELECT 1 FROM readings WHERE sensor = 3") == []
    assert ask(cached, CACHED)[-1] == (3, 30, -80000)


def test_an_upsert_is_seen(cached: psycopg.Connection) -> None:
    cached.execute("DELETE FROM readings WHERE sensor IS NULL")
    cached.execute("ALTER TABLE readings ADD PRIMARY KEY (sensor, ts)")
    cached.execute(
        f"INSERT INTO readings VALUES ({DAY}, 1, 15), ({DAY} + '1 s', 2, 25), ({DAY} + '1 s', 3, 35)"
        " ON CONFLICT (sensor, ts) DO UPDATE SET v = excluded.v".encode()
    )
    assert ask(cached, CACHED) == [(1, 15, 0), (2, 20, 9), (3, 35, 1)]


CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "move", "delete", "chunk"]), st.integers(1, 3), st.integers(0, 4)),
    max_size=12,
)


@settings(max_examples=12)
@given(changes=CHANGES)
def test_the_cache_is_what_a_query_would_find(dsn: str, changes: list[tuple[str, int, int]]) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE TABLE readings (ts timestamptz NOT NULL, sensor int, v float8)")
        session.execute(f"INSERT INTO readings VALUES ({DAY} + '3 days', 9, 0)".encode())
        session.execute("SELECT lakets.create_chronotable('readings', 'ts', '1 day')")
        session.execute("SELECT lakets.enable_lvc('readings', '{sensor}', '{v}')")
        for number, (what, sensor, step) in enumerate(changes):
            at = f"{DAY} + interval '{step * 7} hours {number} seconds'"
            session.execute(
                {
                    "insert": f"INSERT INTO readings SELECT {at} - n * interval '1 s', {sensor}, {number} - n"
                    " FROM generate_series(0, 1) n",
                    "update": f"UPDATE readings SET v = v + 1000, sensor = {step} WHERE sensor = {sensor}",
                    "move": f"UPDATE readings SET ts = ts + interval '{step} hours' WHERE sensor = {sensor}",
                    "delete": f"DELETE FROM readings WHERE sensor = {sensor}"
                    f" AND v >= (SELECT max(v) FROM readings WHERE sensor = {sensor})",
                    "chunk": f"TRUNCATE {SECOND}",
                }[what].encode()
            )
        # ties of time are the first's here and anybody's there, so times and keys are compared
        found = [(key, at) for key, _, at in session.execute(CACHED.encode())]
        assert found == [(key, at) for key, _, at in session.execute(TRUTH.encode())]
        session.rollback()


# ---- writers at once --------------------------------------------------------------------------


def test_writers_of_different_series_do_not_wait(cached: psycopg.Connection, dsn: str) -> None:
    at = TODAY + timedelta(minutes=1)
    with Session(dsn) as one, Session(dsn) as other:
        one.run(INSERT, [at, 1, 100])
        other.run("SET lock_timeout = '2s'")
        other.run(INSERT, [at, 2, 200])
        other.run(INSERT, [at, 3, 300])
        other.commit()
        one.commit()
    assert ask(cached, CACHED) == [(1, 100, 60), (2, 200, 60), (3, 300, 60)]


def test_writers_of_one_series_take_turns_and_the_newest_stays(cached: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as one, Session(dsn) as other:
        one.run(INSERT, [TODAY + timedelta(seconds=60), 1, 60])
        waiting = other.start(INSERT, [TODAY + timedelta(seconds=50), 1, 50])
        other.wait_until_blocked()
        one.commit()
        waiting.result(timeout=60)
        other.commit()
    assert ask(cached, CACHED)[0] == (1, 60, 60)


def test_a_deleter_and_a_late_writer_of_one_series_miss_nothing(cached: psycopg.Connection, dsn: str) -> None:
    """The newest row goes while another, older than it, comes: the late one is the newest in the end."""
    write(cached, 1, 90, 90)
    with Session(dsn) as deleter, Session(dsn) as writer:
        deleter.run("DELETE FROM readings WHERE v = 90")
        waiting = writer.start(INSERT, [TODAY + timedelta(seconds=30), 1, 30])
        writer.wait_until_blocked()
        deleter.commit()
        waiting.result(timeout=60)
        writer.commit()
    assert ask(cached, CACHED)[0] == (1, 30, 30)
    with Session(dsn) as deleter, Session(dsn) as writer:
        writer.run(INSERT, [TODAY + timedelta(seconds=20), 1, 20])
        waiting = deleter.start("DELETE FROM readings WHERE v = 30")
        deleter.wait_until_blocked()
        writer.commit()
        waiting.result(timeout=60)
        deleter.commit()
    assert ask(cached, CACHED)[0] == (1, 20, 20)


def test_writers_in_opposite_order_do_not_deadlock(cached: psycopg.Connection, dsn: str) -> None:
    """Each statement writes the same series, in an order of its own; some take rows away."""

    def write_all(seed: int) -> None:
        order = random.Random(seed)
        with psycopg.connect(dsn, autocommit=True) as session:
            for number in range(40):
                sensors = list(range(10, 30))
                order.shuffle(sensors)
                second = order.randrange(80000)
                if number % 8 == 7:
                    session.execute("DELETE FROM readings WHERE sensor = ANY (%s) AND v::int %% 3 = 0", [sensors[:9]])
                    continue
                session.execute(
                    "INSERT INTO readings SELECT %s, s, %s FROM unnest(%s::int[]) s",
                    [TODAY + timedelta(seconds=second), second, sensors],
                )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_all, range(4)))
    assert ask(cached, CACHED) == ask(cached, TRUTH)


def test_transactions_that_write_series_in_opposite_order_deadlock_and_lose_nothing(
    cached: psycopg.Connection, dsn: str
) -> None:
    """Across statements the order is the application's. PostgreSQL ends one of the two, which tries again."""
    with Session(dsn) as one, Session(dsn) as other:
        one.run(INSERT, [TODAY + timedelta(seconds=60), 1, 100])
        other.run(INSERT, [TODAY + timedelta(seconds=61), 2, 200])
        first = one.start(INSERT, [TODAY + timedelta(seconds=62), 2, 201])
        one.wait_until_blocked()
        second = other.start(INSERT, [TODAY + timedelta(seconds=63), 1, 101])
        ended = {session: answer.exception(timeout=60) for session, answer in ((one, first), (other, second))}
        lost = [session for session, error in ended.items() if error]
        assert [type(ended[session]) for session in lost] == [psycopg.errors.DeadlockDetected]
        for session in ended:
            session.rollback() if session in lost else session.commit()
        lost[0].run(INSERT, [TODAY + timedelta(seconds=64), 1, 102])
        lost[0].run(INSERT, [TODAY + timedelta(seconds=65), 2, 202])
        lost[0].commit()
    assert ask(cached, CACHED) == [(1, 102, 64), (2, 202, 65)]
    assert ask(cached, CACHED) == ask(cached, TRUTH)


def test_transactions_that_write_series_in_one_order_do_not_deadlock(cached: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as one, Session(dsn) as other:
        one.run(INSERT, [TODAY + timedelta(seconds=60), 1, 100])
        waiting = other.start(INSERT, [TODAY + timedelta(seconds=61), 1, 101])
        other.wait_until_blocked()
        one.run(INSERT, [TODAY + timedelta(seconds=62), 2, 200])
        one.commit()
        waiting.result(timeout=60)
        other.run(INSERT, [TODAY + timedelta(seconds=63), 2, 201])
        other.commit()
    assert ask(cached, CACHED) == [(1, 101, 61), (2, 201, 63)]


def test_g8_rows_written_as_a_replica_are_in_the_cache(cached: psycopg.Connection) -> None:
    cached.execute("SET session_replication_role = replica")
    write(cached, 1, 5, 11)
    write(cached, 3, 6, 30, FIRST)
    assert ask(cached, CACHED) == [(1, 11, 5), (2, 20, 9), (3, 30, 6)]
    cached.execute("DELETE FROM readings WHERE v = 11")
    cached.execute("UPDATE readings SET v = 21 WHERE sensor = 2")
    assert ask(cached, CACHED) == [(1, 10, 0), (2, 21, 9), (3, 30, 6)]
    cached.execute("TRUNCATE readings")
    assert ask(cached, CACHED) == []


def test_a_writer_that_gives_up_leaves_no_trace(cached: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as one:
        one.run(INSERT, [TODAY + timedelta(minutes=1), 1, 100])
        one.rollback()
    assert ask(cached, CACHED)[0] == (1, 10, 0)


# ---- rights -----------------------------------------------------------------------------------


def test_an_application_needs_nothing_but_its_own_table(cached: psycopg.Connection, dsn: str) -> None:
    grants = ("GRANT INSERT, SELECT, DELETE, UPDATE ON readings TO {role}",)
    with role(dsn, "writing", "", *grants) as application, psycopg.connect(application) as session:
        session.execute(INSERT, [TODAY + timedelta(minutes=1), 1, 100])
        session.execute("UPDATE readings SET v = 101 WHERE v = 100")
        session.commit()
        assert ask(cached, CACHED)[0] == (1, 101, 60)
        session.execute("DELETE FROM readings WHERE v = 101")
        session.commit()
        for statement in (
            "UPDATE _lvc_readings SET v = 0",
            "DELETE FROM _lvc_readings",
            "SELECT * FROM lakets._lvc_registry",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement.encode())
            session.rollback()
    assert ask(cached, CACHED)[0] == (1, 10, 0)


def test_who_may_read_the_table_may_read_its_cache(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE readings (ts timestamptz NOT NULL, sensor int, v float8)")
    db.execute("SELECT lakets.create_chronotable('readings', 'ts', '1 day')")
    with role(dsn, "reading", "", "GRANT SELECT ON readings TO {role}") as reader:
        db.execute("SELECT lakets.enable_lvc('readings', '{sensor}', '{v}')")
        with psycopg.connect(reader) as session:
            assert session.execute("SELECT * FROM _lvc_readings").fetchall() == []


def test_who_may_see_that_there_is_a_cache_may_see_its_size(cached: psycopg.Connection, dsn: str) -> None:
    """Not what is in it: that takes the right to read the table."""
    counted = "SELECT chronotable, cached_series, enabled FROM lakets.lvc_stats()"
    with role(dsn, "watching", "", "GRANT lakets_read TO {role}") as viewer, psycopg.connect(viewer) as session:
        assert ask(session, counted) == [("public.readings", 2, True)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT * FROM _lvc_readings")
        session.rollback()
        cached.execute(
            "CREATE FUNCTION tell() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$ran$$; END'"
        )
        cached.execute("ALTER TABLE _lvc_readings ENABLE ROW LEVEL SECURITY")
        cached.execute("CREATE POLICY p ON _lvc_readings USING (tell())")
        assert ask(session, counted) == [("public.readings", None, True)]
    grant = "GRANT USAGE ON SCHEMA lakets, thermocline TO {role}"
    with role(dsn, "stranger", "", grant) as address, psycopg.connect(address) as session:
        for statement in ("SELECT * FROM lakets.lvc_stats()", "SELECT thermocline._cached_series(1)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement.encode())
            session.rollback()


def test_the_trigger_on_a_table_of_ones_own_does_nothing(cached: psycopg.Connection, dsn: str) -> None:
    with (
        role(
            dsn,
            "attacking",
            "",
            "GRANT CREATE, USAGE ON SCHEMA public TO {role}",
            "GRANT USAGE ON SCHEMA lakets TO {role}",
        ) as it,
        psycopg.connect(it) as session,
    ):
        session.execute("CREATE TABLE mine (ts timestamptz, sensor int, v float8)")
        session.execute(
            "CREATE TRIGGER t AFTER INSERT ON mine REFERENCING NEW TABLE AS new_rows"
            " FOR EACH STATEMENT EXECUTE FUNCTION lakets._lvc_changed('readings')"
        )
        session.execute("INSERT INTO mine VALUES ('2030-01-01', 1, 666)")
    assert ask(cached, CACHED)[0] == (1, 10, 0)


def test_a_writers_search_path_changes_nothing(cached: psycopg.Connection) -> None:
    cached.execute("CREATE SCHEMA evil")
    cached.execute("CREATE TABLE evil._lvc_readings (sensor int PRIMARY KEY, v float8, last_updated timestamptz)")
    cached.execute(
        "CREATE FUNCTION evil.pg_partition_root(regclass) RETURNS regclass LANGUAGE sql AS 'SELECT 0::regclass'"
    )
    cached.execute("SET search_path = evil, pg_catalog, public")
    write(cached, 1, 5, 11)
    cached.execute("SET search_path = public")
    assert ask(cached, CACHED)[0] == (1, 11, 5)


# ---- the functions ----------------------------------------------------------------------------


def test_latest_values_come_newest_first(cached: psycopg.Connection) -> None:
    rows = ask(
        cached, "SELECT * FROM lakets.latest_values('readings') r (sensor int, v float8, last_updated timestamptz)"
    )
    assert [row[:2] for row in rows] == [(2, 20), (1, 10)]
    assert ask(cached, "SELECT * FROM lakets.lvc_stats()") == [
        ("public.readings", "public._lvc_readings", 2, "sensor", "v", True)
    ]


def test_keys_of_several_columns_and_names_of_any_kind(db: psycopg.Connection) -> None:
    long = "ä" * 31 + "x"
    db.execute(
        f'CREATE TABLE "{long}"'
        ' ("When" date NOT NULL, "a b" text COLLATE "C", "select" uuid, "last" numeric(5,2))'.encode()
    )
    ask(db, "SELECT lakets.create_chronotable(%s, 'When', '1 day')", long)
    ask(db, "SELECT lakets.enable_lvc(%s, %s, %s)", long, ["a b", "select"], ["last", "When"])
    key = "00000000-0000-0000-0000-000000000001"
    db.execute(f'INSERT INTO "{long}" VALUES (now(), %s, %s, 1.5), (now(), %s, NULL, 2)'.encode(), ["x", key, "y"])
    rows = ask(
        db,
        "SELECT k, i::text, v::text, w = u::date FROM lakets.latest_values(%s)"
        " r (k text, i uuid, v numeric(5,2), w date, u timestamptz)",
        long,
    )
    assert rows == [("x", key, "1.50", True)]
    ask(db, "SELECT lakets.disable_lvc(%s)", long)


def test_a_cache_can_be_taken_away_and_made_anew(cached: psycopg.Connection) -> None:
    cached.execute("SELECT lakets.disable_lvc('readings')")
    assert ask(cached, "SELECT to_regclass('_lvc_readings')") == [(None,)]
    assert ask(
        cached,
        "SELECT count(*) FROM pg_trigger"
        " WHERE tgname LIKE 'trg_lakets_lvc%' AND tgrelid::regclass::text LIKE 'readings%'",
    ) == [(0,)]
    write(cached, 1, 5, 11)
    cached.execute("SELECT lakets.enable_lvc('readings', '{sensor}', '{}')")
    assert ask(cached, "SELECT sensor FROM _lvc_readings ORDER BY 1") == [(1,), (2,)]


def test_a_cache_goes_with_its_table(cached: psycopg.Connection) -> None:
    cached.execute("SELECT lakets.drop_chronotable('readings')")
    assert ask(cached, "SELECT to_regclass('_lvc_readings')") == [(None,)]
    assert ask(cached, "SELECT * FROM lakets.lvc_stats()") == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("enable_lvc('readings', '{sensor}', '{v}')", r"cache of public\.readings is enabled already"),
        ("enable_lvc('other', '{nothing}', '{v}')", r"public\.other: it has no column nothing"),
        ("enable_lvc('other', '{v}', '{v}')", "the column v is named twice"),
        ("enable_lvc('other', '{}', '{v}')", "it needs key columns"),
        ("enable_lvc('other', NULL, '{v}')", "it needs key columns"),
        ("enable_lvc('other', '{v}', NULL)", "it needs key columns and value columns"),
        ("enable_lvc('other', '{v,NULL}', '{}')", "a column name is NULL"),
        ("enable_lvc('other', '{v}', '{odd}')", "column odd is of type public.own, which is not"),
        ("enable_lvc('absent', '{v}', '{}')", r"there is no table public\.absent"),
        ("enable_lvc('plain', '{v}', '{}')", r"public\.plain is not a ChronoTable"),
        ("disable_lvc('other')", r"cache of public\.other is not enabled"),
        ("disable_lvc('absent')", r"there is no table public\.absent"),
        ("latest_values('other')", r"cache of public\.other is not enabled"),
        ("latest_values(NULL)", "the name of the table is NULL"),
    ],
)
def test_what_cannot_be_is_refused(cached: psycopg.Connection, call: str, message: str) -> None:
    cached.execute("CREATE DOMAIN own AS int CHECK (value > 0)")
    cached.execute("CREATE TABLE plain (v int)")
    cached.execute("CREATE TABLE other (ts timestamptz NOT NULL, v int, odd own)")
    cached.execute("SELECT lakets.create_chronotable('other', 'ts')")
    refused(cached, f"SELECT lakets.{call}", message)


def test_the_rows_of_an_attached_partition_are_in_the_cache(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE lv (ts timestamptz NOT NULL, sensor int, v int)")
    db.execute("SELECT lakets.create_chronotable('lv', 'ts', '1 day')")
    db.execute("SELECT lakets.enable_lvc('lv', '{sensor}', '{v}')")
    db.execute("INSERT INTO lv VALUES (now(), 1, 10)")
    db.execute("CREATE TABLE guest (LIKE lv INCLUDING ALL)")
    db.execute("INSERT INTO guest VALUES ('2020-01-02', 1, 5), ('2020-01-02', 2, 6)")
    db.execute("ALTER TABLE lv ATTACH PARTITION guest FOR VALUES FROM ('2020-01-01') TO ('2020-02-01')")
    db.execute("SELECT lakets._reconcile()")
    found = ask(
        db, "SELECT sensor, v FROM lakets.latest_values('lv') AS r (sensor int, v int, at timestamptz) ORDER BY 1"
    )
    assert found == [(1, 10), (2, 6)]
