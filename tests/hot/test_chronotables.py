"""ChronoTables: made from a table with or without rows, on a UTC grid, keeping what the table had."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from harness.questions import ask
from harness.roles import role
from harness.sessions import Session

OLDEST = "FROM lakets._chunk_metadata ORDER BY range_start LIMIT 1"


def metrics(db: psycopg.Connection, rows: int = 0, interval: str = "1 day") -> int:
    db.execute("CREATE TABLE metrics (ts timestamptz NOT NULL, sensor int, v float8)")
    db.execute(
        "INSERT INTO metrics SELECT timestamptz '2026-01-05 00:00+00' + g * interval '1 hour', g %% 7, g"
        " FROM generate_series(0, %s - 1) g",
        [rows],
    )
    ((made,),) = ask(db, "SELECT lakets.create_chronotable('metrics', 'ts', %s)", interval)
    return int(made)


def chunks(db: psycopg.Connection, table: str = "metrics") -> list[tuple[datetime, datetime]]:
    return ask(db, "SELECT range_start, range_end FROM lakets.show_chunks(%s)", table)


def test_an_empty_table_gets_one_chunk_behind_now_and_three_ahead(db: psycopg.Connection) -> None:
    metrics(db)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today + timedelta(days=n) for n in range(-1, 4)]
    assert chunks(db) == [(day, day + timedelta(days=1)) for day in days]


def test_a_table_with_rows_keeps_every_row_in_the_right_chunk(db: psycopg.Connection) -> None:
    metrics(db, rows=100)
    assert ask(db, "SELECT count(*), sum(v) FROM metrics") == [(100, 4950.0)]
    placed = ask(db, "SELECT tableoid::regclass::text, min(ts), max(ts), count(*) FROM metrics GROUP BY 1 ORDER BY 2")
    assert [row[0] for row in placed] == [f"metrics_2026010{n}_000000" for n in (5, 6, 7, 8, 9)]
    assert [row[3] for row in placed] == [24, 24, 24, 24, 4]
    first = ask(db, "SELECT * FROM lakets.show_chunks('metrics') LIMIT 1")[0]
    assert first[:6] == (
        "public.metrics_20260105_000000",
        datetime(2026, 1, 5, tzinfo=UTC),
        datetime(2026, 1, 6, tzinfo=UTC),
        "active",
        24,
        first[5],
    )
    assert first[5] > 0


def test_chunk_metadata_and_partitions_agree_by_oid(db: psycopg.Connection) -> None:
    made = metrics(db, rows=50)
    known = ask(db, "SELECT chunk_oid FROM lakets._chunk_metadata WHERE chronotable_id = %s ORDER BY 1", made)
    assert known == ask(db, "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'metrics'::regclass ORDER BY 1")


def test_every_chunk_can_be_updated_under_a_publication_m19(db: psycopg.Connection) -> None:
    """A leaf without a replica identity would make every UPDATE fail once the table is published."""
    metrics(db, rows=30)
    db.execute("CREATE PUBLICATION p FOR TABLE metrics WITH (publish_via_partition_root = true)")
    db.execute("UPDATE metrics SET v = v + 1")
    identities = ask(
        db,
        "SELECT DISTINCT relreplident FROM pg_class"
        " WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'metrics'::regclass)",
    )
    assert identities in ([("f",)], [(b"f",)])


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kathmandu", "Europe/Berlin", "UTC"])
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_the_grid_is_utc_whatever_the_session_says_k1(db: psycopg.Connection, zone: str, kind: str) -> None:
    db.execute("SELECT set_config('timezone', %s, false)", [zone])
    db.execute("SET datestyle = 'German'")
    db.execute(f"CREATE TABLE t (ts {kind} NOT NULL)".encode())
    db.execute("INSERT INTO t VALUES ('2026-03-29'), ('2026-10-25')")
    db.execute("SELECT lakets.create_chronotable('t', 'ts', '1 day')")
    db.execute("SET timezone = 'UTC'")
    db.execute("SET datestyle = 'ISO'")
    found = chunks(db, "t")
    assert all(start.hour == 0 and end - start == timedelta(days=1) for start, end in found)
    assert all(first[1] == second[0] for first, second in itertools.pairwise(found))
    assert ask(db, "SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize(
    ("interval", "first", "second"),
    [
        ("1 month", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)),
        ("3 months", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC)),
        ("1 year", datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_months_and_years_follow_the_calendar_k2(
    db: psycopg.Connection, interval: str, first: datetime, second: datetime
) -> None:
    db.execute("CREATE TABLE t (ts timestamptz NOT NULL)")
    db.execute("INSERT INTO t VALUES ('2024-01-31 23:59+00'), ('2024-02-29 12:00+00')")
    db.execute("SELECT lakets.create_chronotable('t', 'ts', %s)", [interval])
    found = chunks(db, "t")
    assert found[0] == (first, second)
    assert all(one[1] == two[0] for one, two in itertools.pairwise(found))
    ((reach,),) = ask(db, "SELECT now() + 3 * %s::interval", interval)
    assert found[-1][1] > reach, "three chunks ahead are there"
    assert ask(db, "SELECT count(*) FROM t") == [(2,)]


def test_what_the_table_had_is_kept_k4(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE SCHEMA odd")
    db.execute(
        'CREATE TABLE odd."My Table" ('
        ' id bigint GENERATED ALWAYS AS IDENTITY, n serial, "Time" timestamptz,'
        " price numeric(10, 2) DEFAULT 3 CHECK (price > 0),"
        " twice numeric GENERATED ALWAYS AS (price * 2) STORED,"
        ' PRIMARY KEY (id, "Time"), CONSTRAINT once UNIQUE (n, "Time"))'
    )
    db.execute('CREATE INDEX by_price ON odd."My Table" (price) WHERE price > 1')
    db.execute("COMMENT ON TABLE odd.\"My Table\" IS 'about it'")
    db.execute("COMMENT ON COLUMN odd.\"My Table\".price IS 'about price'")
    db.execute(
        'INSERT INTO odd."My Table" ("Time", price)'
        " SELECT now() - g * interval '1 hour', g FROM generate_series(1, 60) g"
    )
    with role(
        dsn,
        "keeper",
        "",
        "GRANT USAGE ON SCHEMA odd TO {role}",
        'GRANT SELECT, INSERT ON odd."My Table" TO {role}',
    ):
        db.execute("SELECT lakets.create_chronotable('My Table', 'Time', '1 day', 'odd')")
        assert ask(
            db,
            "SELECT has_table_privilege('keeper', 'odd.\"My Table\"', p)"
            " FROM unnest('{SELECT,INSERT,DELETE}'::text[]) p",
        ) == [(True,), (True,), (False,)]
    assert ask(db, 'SELECT count(*), sum(price), max(id), max(n), sum(twice) FROM odd."My Table"') == [
        (60, 1830, 60, 60, 3660)
    ]
    new = ask(db, 'INSERT INTO odd."My Table" ("Time") VALUES (now()) RETURNING id, n, price, twice')
    assert new == [(61, 61, 3, 6)]
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute('INSERT INTO odd."My Table" ("Time", price) VALUES (now(), -1)')
    names = ask(db, "SELECT indexname FROM pg_indexes WHERE schemaname = 'odd' AND tablename = 'My Table' ORDER BY 1")
    assert [name for (name,) in names] == ["My Table_pkey", "by_price", "idx_My Table_Time", "once"]
    types = ask(
        db,
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'odd.\"My Table\"'::regclass AND attname = 'price'",
    )
    assert types == [("numeric(10,2)",)]
    assert ask(db, "SELECT obj_description('odd.\"My Table\"'::regclass)") == [("about it",)]
    assert ask(db, "SELECT col_description('odd.\"My Table\"'::regclass, 4)") == [("about price",)]


def test_every_reason_against_it_is_listed_at_once_and_nothing_changes_k4(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE other (id int PRIMARY KEY)")
    db.execute("CREATE TABLE bad (id int PRIMARY KEY REFERENCES other, ts timestamptz)")
    db.execute("INSERT INTO other VALUES (1), (2)")
    db.execute("INSERT INTO bad VALUES (1, NULL), (2, 'infinity')")
    db.execute("CREATE MATERIALIZED VIEW seen AS SELECT * FROM bad")
    db.execute("CREATE TABLE later (id int REFERENCES bad, was bad)")
    db.execute("CREATE RULE quiet AS ON DELETE TO bad DO INSTEAD NOTHING")
    db.execute("CREATE VIEW all_of_it AS SELECT * FROM bad")
    db.execute("CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM all_of_it; END")
    db.execute("CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    db.execute(
        "CREATE TRIGGER rows AFTER INSERT ON bad REFERENCING NEW TABLE AS news FOR EACH ROW EXECUTE FUNCTION g()"
    )
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        db.execute("SELECT lakets.create_chronotable('bad', 'ts', '1 month 1 day')")
    said = str(caught.value)
    for reason in (
        "the chunk interval 1 mon 1 day mixes months",
        "2 of its rows have no finite ts",
        "its primary key bad_pkey does not contain the time column ts",
        "public.later refers to it with the foreign key later_id_fkey",
        "public.later has the column was of its row type",
        "the materialised view public.seen depends on it",
        "it has the rule quiet",
        "it has the trigger rows for each row with transition tables",
        "the function public.f() depends on it or on a view of it",
    ):
        assert reason in said
    assert caught.value.diag.message_hint == "Nothing was changed. Mend what is listed and call again."
    assert ask(db, "SELECT relkind::text FROM pg_class WHERE oid = 'bad'::regclass") == [("r",)]
    assert ask(db, "SELECT count(*) FROM lakets._chronotable_registry") == [(0,)]


@pytest.mark.parametrize(
    ("setup", "arguments", "reason"),
    [
        ("", "'t', 'ts'", "there is no table public.t"),
        ("CREATE TABLE t (ts date)", "'t', 'ts', p_schema_name => 'nowhere'", "there is no table nowhere.t"),
        ("CREATE TABLE t (ts date)", "'public.t', 'ts'", "the schema is an argument of its own"),
        ("CREATE TABLE t (ts text)", "'t', 'ts'", "is of type text"),
        ("CREATE TABLE t (ts timestamptz)", "'t', 'tss'", "it has no column tss"),
        ("CREATE TABLE t (ts timestamptz)", "'t', 'ts', NULL", "ChronoTable: the chunk interval is NULL\n"),
        ("CREATE TABLE t (ts timestamptz)", "'t', 'ts', '0'", "the chunk interval 00:00:00 is not positive"),
        ("CREATE TABLE t (ts timestamptz)", "'t', 'ts', '-1 day'", "is not positive"),
        ("CREATE TABLE t (ts timestamptz)", "'t', 'ts', '1.5 seconds'", "is not of whole seconds"),
        ("CREATE TABLE t (ts date)", "'t', 'ts', '1 hour'", "is a date"),
        ("CREATE TEMP TABLE t (ts date)", "'t', 'ts', p_schema_name => 'pg_temp'", "it is temporary"),
        ("CREATE UNLOGGED TABLE t (ts date)", "'t', 'ts'", "it is unlogged"),
        ("CREATE VIEW t AS SELECT now() AS ts", "'t', 'ts'", "it is a view"),
        ("CREATE TABLE t (ts date) PARTITION BY RANGE (ts)", "'t', 'ts'", "it is partitioned already"),
        ("CREATE TABLE t (a int UNIQUE, ts date)", "'t', 'ts'", "unique constraint t_a_key does not contain"),
        (
            "CREATE TABLE t (a int, ts date); CREATE UNIQUE INDEX u ON t (a)",
            "'t', 'ts'",
            "unique index public.u does not",
        ),
    ],
)
def test_bad_input_is_named(db: psycopg.Connection, setup: str, arguments: str, reason: str) -> None:
    db.execute(setup.encode() or b"SELECT 1")
    state = (
        "SELECT array_agg((oid, relname, relkind, relnatts) ORDER BY oid)::text,"
        " (SELECT count(*) FROM lakets._chronotable_registry), (SELECT count(*) FROM lakets._chunk_metadata)"
        " FROM pg_class"
    )
    before = ask(db, state)
    with pytest.raises(psycopg.errors.RaiseException, match=reason) as caught:
        db.execute(f"SELECT lakets.create_chronotable({arguments})".encode())
    assert caught.value.diag.message_hint == "Nothing was changed. Mend what is listed and call again."
    assert ask(db, state) == before


def test_a_row_with_an_absurd_time_does_not_make_a_million_chunks(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE t (ts timestamptz)")
    db.execute("INSERT INTO t VALUES ('0001-01-01'), (now())")
    with pytest.raises(psycopg.errors.RaiseException, match="more than 10000 chunks"):
        db.execute("SELECT lakets.create_chronotable('t', 'ts', '1 hour')")
    assert ask(db, "SELECT relkind::text FROM pg_class WHERE oid = 't'::regclass") == [("r",)]


def test_making_it_twice_is_refused_or_noticed(db: psycopg.Connection) -> None:
    made = metrics(db)
    with pytest.raises(psycopg.errors.RaiseException, match="it is one already; p_if_not_exists"):
        db.execute("SELECT lakets.create_chronotable('metrics', 'ts')")
    assert ask(db, "SELECT lakets.create_chronotable('metrics', 'ts', p_if_not_exists => true)") == [(made,)]


def test_two_conversions_at_once_one_wins(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE t (ts timestamptz)")
    with Session(dsn) as first, Session(dsn) as second:
        first.run("SELECT lakets.create_chronotable('t', 'ts')")
        waiting = second.start("SELECT lakets.create_chronotable('t', 'ts')")
        second.wait_until_blocked()
        first.commit()
        with pytest.raises(psycopg.Error):
            waiting.result(timeout=60)
    assert ask(db, "SELECT count(*) FROM lakets._chronotable_registry") == [(1,)]


def test_missing_chunks_are_made_once_by_many_callers_at_once(db: psycopg.Connection, dsn: str) -> None:
    made = metrics(db)

    def ensure(_caller: int) -> int:
        with psycopg.connect(dsn) as session:
            row = session.execute("SELECT lakets._ensure_partitions(%s, 10, 10)", [made]).fetchone()
            return int(row[0]) if row else 0

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(ensure, range(4)))
    assert sorted(counts) == [0, 0, 0, 16]
    assert len(chunks(db)) == 21


def test_a_chunk_is_made_while_a_reader_is_open(db: psycopg.Connection, dsn: str) -> None:
    made = metrics(db, rows=10)
    with Session(dsn) as reader:
        reader.run("SELECT count(*) FROM metrics")
        db.execute("SET lock_timeout = '5s'")
        assert ask(db, "SELECT lakets._ensure_partitions(%s, 1, 5)", made) == [(2,)]


def test_a_dropped_range_that_is_made_again_comes_back_to_life_k5(db: psycopg.Connection) -> None:
    made = metrics(db, rows=24)
    (name, oid) = ask(db, "SELECT chunk_name, chunk_oid FROM lakets._chunk_metadata ORDER BY range_start LIMIT 1")[0]
    db.execute(f"DROP TABLE {name}".encode())
    db.execute("UPDATE lakets._chunk_metadata SET status = 'dropped' WHERE chunk_oid = %s", [oid])
    ((again,),) = ask(db, "SELECT lakets._ensure_partitions(%s, 1, 3, '2026-01-05', '2026-01-05')", made)
    assert again == 1
    row = ask(
        db,
        "SELECT status, chunk_oid <> %s, chunk_name FROM lakets._chunk_metadata ORDER BY range_start LIMIT 1",
        oid,
    )
    assert row == [("active", True, name)]
    db.execute("INSERT INTO metrics VALUES ('2026-01-05 12:00+00', 1, 1)")


@pytest.mark.parametrize("at", ["min(range_start) - interval '1 microsecond'", "max(range_end)"])
def test_a_row_beyond_either_end_is_refused_by_postgresql_until_there_is_a_chunk_k3(
    db: psycopg.Connection, at: str
) -> None:
    made = metrics(db, rows=24)
    ((when,),) = ask(db, f"SELECT {at} FROM lakets._chunk_metadata")
    with pytest.raises(
        psycopg.errors.CheckViolation, match='no partition of relation "metrics" found for row'
    ) as caught:
        db.execute("INSERT INTO metrics VALUES (%s, 1, 1)", [when])
    assert caught.value.diag.message_hint is None
    with (
        pytest.raises(psycopg.errors.CheckViolation, match="no partition of relation"),
        db.cursor().copy("COPY metrics FROM STDIN") as copy,
    ):
        copy.write_row((when, 1, 1))
    assert ask(db, "SELECT lakets._ensure_partitions(%s, 1, 3, %s, %s)", made, when, when) == [(1,)]
    db.execute("INSERT INTO metrics VALUES (%s, 1, 1)", [when])
    assert ask(db, "SELECT count(*) FROM metrics WHERE ts = %s", when) == [(1,)]


def test_a_name_that_is_taken_is_an_error_that_names_it_m7(db: psycopg.Connection) -> None:
    made = metrics(db)
    db.execute("CREATE TABLE metrics_20200101_000000 (id int)")
    with pytest.raises(psycopg.errors.RaiseException, match="metrics_20200101_000000 is there already"):
        db.execute("SELECT lakets._ensure_partitions(%s, 1, 3, '2020-01-01', '2020-01-01')", [made])


def test_long_names_do_not_clash_m7(db: psycopg.Connection) -> None:
    long = "ü" * 31
    for name in (long, long[:-1] + "x"):
        db.execute(f'CREATE TABLE "{name}" (ts timestamptz)'.encode())
        db.execute("SELECT lakets.create_chronotable(%s, 'ts')", [name])
    names = ask(db, "SELECT chunk_name FROM lakets._chunk_metadata")
    assert len(set(names)) == len(names)


def test_creation_and_truncation_of_a_chunk_are_told_to_the_stream_g9(db: psycopg.Connection) -> None:
    db.execute("SELECT pg_create_logical_replication_slot('heard', 'pgoutput')")
    try:
        db.execute("CREATE PUBLICATION p WITH (publish_via_partition_root = true)")
        made = metrics(db, rows=24)
        ((oid,),) = ask(db, f"SELECT chunk_oid {OLDEST}")
        db.execute("SET session_replication_role = replica")
        db.execute("TRUNCATE metrics_20260105_000000")
        stream = ask(
            db,
            "SELECT data FROM pg_logical_slot_peek_binary_changes('heard', NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'p', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')",
        )
    finally:
        db.execute("SELECT pg_drop_replication_slot('heard')")
    heard = [json.loads(bytes(data).split(b"thermocline\0", 1)[1][4:].splitlines()[0]) for (data,) in stream]
    mine = [event for event in heard if event["chunk"] == oid]
    assert [event["event"] for event in mine] == ["chunk_created", "chunk_truncated"]
    assert {event["chronotable"] for event in heard} == {made}
    assert datetime.fromisoformat(mine[1]["range_start"]) == datetime(2026, 1, 5, tzinfo=UTC)


def test_a_role_with_rights_on_its_table_alone_writes_m8(db: psycopg.Connection, dsn: str) -> None:
    metrics(db, rows=24)
    with (
        role(dsn, "app", "", "GRANT INSERT, SELECT ON metrics TO {role}") as app,
        psycopg.connect(app) as session,
    ):
        session.execute("INSERT INTO metrics VALUES ('2026-01-05 12:30+00', 1, 2)")
        assert session.execute("SELECT count(*) FROM metrics").fetchone() == (25,)


def test_show_chunks_by_age(db: psycopg.Connection) -> None:
    metrics(db, rows=48)
    older = ask(db, "SELECT chunk_name FROM lakets.show_chunks('metrics', p_older_than => '30 days')")
    assert [name for (name,) in older][:2] == [
        "public.metrics_20260105_000000",
        "public.metrics_20260106_000000",
    ]
    newer = ask(db, "SELECT count(*) FROM lakets.show_chunks('metrics', p_newer_than => '0')")
    assert newer == [(3,)]
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.nothing is not a ChronoTable"):
        db.execute("SELECT * FROM lakets.show_chunks('nothing')")
