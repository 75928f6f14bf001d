"""What jobs and queries of users call beneath RollUps, and what a refresh reads and writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from harness.questions import ask, one, refused

HOURLY = (
    "SELECT lakets.time_bucket('1 hour'::interval, ts) AS bucket, device, sum(v) AS total, count(*) AS n"
    " FROM m GROUP BY 1, 2"
)


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """With a table of ten days, a RollUp by hour and device, refreshed once, and its view."""
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, device text, v int)")
    ask(
        db,
        "INSERT INTO m SELECT %s + g * interval '10 minutes', 'd' || mod(g, 4), g FROM generate_series(0, 1439) g",
        day(10),
    )
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    ask(db, "SELECT lakets.create_rollup('hourly', %s)", HOURLY)
    db.execute("SELECT lakets.create_rollup_view('hourly')")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    assert one(db, "SELECT lakets.refresh_rollup('hourly')")
    db.execute("ANALYZE m")
    return db


def day(ago: int, **more: float) -> datetime:
    """So many days before the last midnight, which may come between the first and the last of these tests."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=ago) + timedelta(**more)


def chunk(ago: int) -> str:
    return f"m_{day(ago):%Y%m%d}_000000"


def differences(db: psycopg.Connection, relation: str, query: str = HOURLY) -> list[tuple[Any, ...]]:
    return ask(db, f"(TABLE {relation} EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL TABLE {relation})")


def read_chunks(db: psycopg.Connection, statement: str, *parameters: Any) -> set[str]:
    """The chunks of m that a statement scans, by what PostgreSQL counts in its transaction."""
    scanned = (
        "SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables"
        " WHERE relname LIKE 'm\\_20%'"
    )
    with db.transaction():
        before = dict(ask(db, scanned))
        ask(db, statement, *parameters)
        return {name for name, count in ask(db, scanned) if count > before.get(name, 0)}


@pytest.mark.parametrize(
    ("query", "column"),
    [
        (HOURLY, "bucket"),
        ("SELECT device, max(ts) AS newest, min(ts) FROM m GROUP BY 1", "newest"),
        ('SELECT 1, ts::date AS "the day", ts FROM m -- and no more', "the day"),
        ("SELECT device FROM m", None),
    ],
)
@pytest.mark.promise("004-06")
def test_the_bucket_is_the_first_column_of_time(db: psycopg.Connection, query: str, column: str | None) -> None:
    before = one(db, "SELECT count(*) FROM pg_class")
    assert one(db, "SELECT lakets._detect_bucket_column(%s)", query) == column
    assert one(db, "SELECT count(*) FROM pg_class") == before


@pytest.mark.parametrize(
    "query", ["SELECT nonsense", "SELECT 1; DROP TABLE m", "DROP TABLE m", "DELETE FROM m RETURNING ts"]
)
def test_what_is_not_one_question_has_no_columns(db: psycopg.Connection, query: str) -> None:
    refused(db, "SELECT lakets._detect_bucket_column(%s)", "the query is not understood", query)
    assert one(db, "SELECT count(*) FROM m") == 1440


@pytest.mark.parametrize("query", [None, "", " ;\n"])
def test_a_rollup_without_a_query_is_refused(db: psycopg.Connection, query: str | None) -> None:
    refused(db, "SELECT lakets.create_rollup('empty', %s)", "RollUp empty.*it has no query", query)


@pytest.mark.promise("004-26")
def test_a_condition_on_time_lets_older_chunks_alone(db: psycopg.Connection) -> None:
    query = one(db, "SELECT lakets._inject_time_predicate(%s, 'ts', %s)", HOURLY, day(2, hours=5, minutes=20))
    assert "public.m" in query
    assert read_chunks(db, HOURLY) == existing(db)
    assert read_chunks(db, query) == {chunk(ago) for ago in range(-9, 3)} & existing(db)
    # From the start of the bucket on, so that it is whole.
    full = ask(db, f"SELECT * FROM ({HOURLY}) q WHERE bucket >= %s ORDER BY 1, 2", day(2, hours=5))
    assert ask(db, f"SELECT * FROM ({query}) q ORDER BY 1, 2") == full
    assert len(full) == 4 * 43


def existing(db: psycopg.Connection) -> set[str]:
    return {name.removeprefix("public.") for (name,) in ask(db, "SELECT chunk_name FROM lakets.show_chunks('m')")}


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_a_condition_on_a_time_without_zone_is_in_utc(db: psycopg.Connection, kind: str) -> None:
    db.execute(f"CREATE TABLE n (ts {kind} NOT NULL, v int)".encode())
    db.execute("INSERT INTO n SELECT '2026-03-01'::timestamp + g * interval '1 hour', g FROM generate_series(0, 239) g")
    db.execute("SELECT lakets.create_chronotable('n', 'ts', '30 days')")
    query = "SELECT date_bin('1 day', ts::timestamp, '2000-01-01') AS day, sum(v) AS s FROM n GROUP BY 1"
    db.execute("SET timezone = 'America/Los_Angeles'")
    later = one(db, "SELECT lakets._inject_time_predicate(%s, 'ts', '2026-03-08 00:00:00+00')", query)
    assert later != query
    assert ask(db, f"SELECT count(*), min(day)::text FROM ({later}) q") == [(3, "2026-03-08 00:00:00")]


@pytest.mark.promise("004-27")
@pytest.mark.parametrize(
    "query",
    [
        HOURLY.replace("FROM m", "FROM (SELECT * FROM m) m"),
        f"WITH q AS ({HOURLY}) SELECT * FROM q",
        HOURLY.replace("count(*) AS n", "count(*) AS n, row_number() OVER () AS r"),
        HOURLY.replace("FROM m", "FROM m JOIN m o USING (ts, device, v)"),
        HOURLY + " LIMIT 5",
        HOURLY.replace("FROM m", "FROM ONLY m"),
        "SELECT device, min(ts) AS first, sum(v) FROM m GROUP BY 1",
        "SELECT lakets.time_bucket('1 hour', ts + v * interval '1 hour') AS bucket, sum(v) FROM m GROUP BY 1",
        "SELECT lakets.time_bucket('1 hour', ts - interval '90 minutes') AS bucket, sum(v) FROM m GROUP BY 1",
        "SELECT ts AS bucket, sum(v) FROM m GROUP BY 1",
        "SELECT nonsense",
    ],
)
def test_r10_a_condition_that_is_not_proven_is_not_added(db: psycopg.Connection, query: str) -> None:
    assert one(db, "SELECT lakets._inject_time_predicate(%s, 'ts', %s)", query, day(2)) == query


def test_a_condition_needs_a_time_and_a_column_of_time(db: psycopg.Connection) -> None:
    for column, since in (("v", day(2)), ("nothing", day(2)), ("ts", None), ("ts", "infinity")):
        assert one(db, "SELECT lakets._inject_time_predicate(%s, %s, %s)", HOURLY, column, since) == HOURLY


def dirty(db: psycopg.Connection, since: datetime) -> list[str]:
    return [name for (name,) in ask(db, "SELECT chunk_name FROM lakets._get_dirty_chunks(1, %s)", since)]


@pytest.mark.promise("004-25")
def test_dirty_chunks_are_those_that_may_have_changed_since(db: psycopg.Connection) -> None:
    """Of the newest chunk with rows nobody can tell, so it is always among them."""
    since = one(db, "SELECT last_refreshed_at FROM lakets._rollup_registry")
    assert dirty(db, since) == []
    ask(db, "INSERT INTO m VALUES (%s, 'd1', 1)", day(4, hours=3))
    ask(db, "UPDATE m SET ts = ts - interval '2 days' WHERE ts = %s", day(6, hours=5))
    ask(db, "INSERT INTO m VALUES (clock_timestamp(), 'd1', 1)")
    ask(db, f"TRUNCATE {chunk(9)}")
    assert dirty(db, since) == [f"public.{chunk(ago)}" for ago in (9, 8, 6, 4, 0)]
    assert one(db, "SELECT lakets.refresh_rollup('hourly')")
    assert dirty(db, one(db, "SELECT last_refreshed_at FROM lakets._rollup_registry")) == [f"public.{chunk(0)}"]
    # Nobody remembers what came before: all of them may have changed.
    assert set(dirty(db, since)) == {f"public.{name}" for name in existing(db)}
    db.execute("SELECT lakets.drop_chunks('m', '7 days')")
    assert min(dirty(db, since)) == f"public.{chunk(7)}"
    assert dirty(db, datetime.now(UTC)) == [f"public.{chunk(0)}"]


def test_dirty_chunks_have_the_rows_of_a_transaction_that_ended_later(db: psycopg.Connection, dsn: str) -> None:
    with psycopg.connect(dsn) as writer:
        ask(writer, "INSERT INTO m VALUES (%s, 'd1', 1)", day(4, hours=3))
        assert one(db, "SELECT lakets.refresh_rollup('hourly')")
        since = datetime.now(UTC)
        assert dirty(db, since) == []
    assert dirty(db, since) == [f"public.{chunk(4)}"]
    assert dirty(db, datetime.now(UTC)) == [f"public.{chunk(4)}"]


BATCH = "SELECT lakets._refresh_buckets_batch(1, '_rollup_hourly', %s, 'bucket', %s::timestamptz[])"
CHUNKED = "SELECT lakets._refresh_buckets_chunked(1, '_rollup_hourly', %s, 'bucket', %s::timestamptz[])"


@pytest.fixture
def counted(db: psycopg.Connection) -> psycopg.Connection:
    """And a note of each DELETE and INSERT of the RollUp's table."""
    db.execute("CREATE TABLE replaced (what text)")
    db.execute(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.replaced VALUES (TG_OP); RETURN NULL; END $$"
    )
    db.execute("CREATE TRIGGER note AFTER DELETE OR INSERT ON _rollup_hourly EXECUTE FUNCTION note()")
    return db


@pytest.mark.promise("004-03", "004-28", "004-29")
@pytest.mark.parametrize(("call", "pairs"), [(BATCH, 1), (CHUNKED, 3)])
@pytest.mark.parametrize("injection", [True, False])
def test_buckets_are_replaced_in_lots(counted: psycopg.Connection, call: str, pairs: int, injection: bool) -> None:
    ask(counted, "UPDATE lakets._rollup_registry SET predicate_injection = %s", injection)
    counted.execute("UPDATE _rollup_hourly SET total = -1")
    buckets = [day(10, hours=n) for n in range(239, 0, -1)]
    assert one(counted, call, HOURLY, [*buckets, None, buckets[0]]) == 239
    assert ask(counted, "SELECT what, count(*) FROM replaced GROUP BY 1 ORDER BY 1") == [
        ("DELETE", pairs),
        ("INSERT", pairs),
    ]
    assert len(differences(counted, "_rollup_hourly")) == 8  # the four devices of the hour that was left out
    assert ask(counted, "SELECT DISTINCT bucket FROM _rollup_hourly WHERE total = -1") == [(day(10),)]


@pytest.mark.promise("004-26")
def test_lots_are_computed_from_the_chunks_from_the_first_on(db: psycopg.Connection) -> None:
    newest = {chunk(ago) for ago in range(-9, 3)} & existing(db)
    assert read_chunks(db, BATCH, HOURLY, [day(2, hours=5)]) == newest
    db.execute("UPDATE lakets._rollup_registry SET predicate_injection = false")
    assert read_chunks(db, BATCH, HOURLY, [day(2, hours=5)]) == existing(db)


def test_lots_are_as_large_as_asked_for(counted: psycopg.Connection) -> None:
    lots = CHUNKED.replace("[])", "[], 7)")
    assert one(counted, lots, HOURLY, [day(3, hours=n) for n in range(15)]) == 15
    assert ask(counted, "SELECT count(*) FROM replaced") == [(6,)]
    assert one(counted, lots, HOURLY, []) == 0
    refused(counted, CHUNKED.replace("[])", "[], 0)"), "cannot replace buckets of hourly 0 at a time", HOURLY, [day(3)])
    for wrong in ("m", "nothing"):
        refused(counted, BATCH.replace("_rollup_hourly", wrong), "is not the table of RollUp 1", HOURLY, [day(3)])
    refused(counted, BATCH.replace("'bucket'", "'device'"), "by buckets of device", HOURLY, [day(3)])
    refused(counted, BATCH.replace("(1,", "(9,"), "is not the table of RollUp 9", HOURLY, [day(3)])
    assert differences(counted, "_rollup_hourly") == []


def test_r3_buckets_that_have_left_are_not_replaced(db: psycopg.Connection) -> None:
    before = ask(db, "SELECT * FROM _rollup_hourly ORDER BY 1, 2")
    assert one(db, "SELECT lakets.drop_chunks('m', '5 days')") > 3
    assert one(db, BATCH, HOURLY, [day(8), day(8, hours=1), day(2)]) == 1
    assert ask(db, "SELECT * FROM _rollup_hourly ORDER BY 1, 2") == before


def test_r8_buckets_that_are_replaced_are_marked_for_what_is_made_from_them(db: psycopg.Connection) -> None:
    daily = "SELECT lakets.time_bucket('1 day', bucket) AS day, sum(n) AS n FROM _rollup_hourly GROUP BY 1"
    ask(db, "SELECT lakets.create_rollup('daily', %s, '1 day')", daily)
    db.execute("SELECT lakets.create_rollup_view('daily')")
    ask(db, "INSERT INTO m VALUES (%s, 'd1', 1)", day(4, hours=3))
    assert one(db, BATCH, HOURLY, [day(4, hours=3)]) == 1
    assert ask(db, "SELECT bucket FROM lakets._rollup_pending(2)") == [(day(4),)]
    assert differences(db, "_rollup_rt_daily", daily) == []


def test_a_partition_has_a_parent(db: psycopg.Connection) -> None:
    db.execute("CREATE SCHEMA plant")
    db.execute("CREATE TABLE plant.deep (a int, b int) PARTITION BY RANGE (a)")
    db.execute("CREATE TABLE plant.upper PARTITION OF plant.deep FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (b)")
    db.execute('CREATE TABLE plant."Leaf 1" PARTITION OF plant.upper FOR VALUES FROM (0) TO (9)')
    asked = "SELECT lakets._resolve_partition_parent(%s, %s)"
    assert one(db, asked, "public", chunk(3)) == "m"
    assert one(db, asked, "public", "m") == "m"
    assert one(db, asked, "plant", "Leaf 1") == "deep"
    assert one(db, asked, "public", "Leaf 1") is None


@pytest.mark.promise("004-02")
def test_the_view_reads_no_rows_that_are_aggregated(db: psycopg.Connection) -> None:
    assert read_chunks(db, "TABLE _rollup_rt_hourly") <= {chunk(ago) for ago in range(-3, 2)}
    ask(db, "INSERT INTO m VALUES (%s, 'd1', 1)", day(4, hours=3))
    assert read_chunks(db, "TABLE _rollup_rt_hourly") - {chunk(ago) for ago in range(-3, 2)} == {chunk(4)}
    assert differences(db, "_rollup_rt_hourly") == []


@pytest.mark.promise("004-16", "004-19", "000-37", "000-38", "000-39")
def test_a_refresh_replaces_what_was_marked_and_no_more(db: psycopg.Connection) -> None:
    kept = "SELECT bucket, device, xmin::text FROM _rollup_hourly WHERE bucket < %s ORDER BY 1, 2"
    before = ask(db, kept, day(1))
    ask(db, "INSERT INTO m VALUES (%s, 'd1', 1)", day(4, hours=3, minutes=7))
    ask(db, "DELETE FROM m WHERE ts = %s", day(7))
    ask(db, "UPDATE m SET v = v + 1 WHERE ts = %s", day(6, hours=1))
    log = "SELECT DISTINCT bucket_start, keys FROM lakets._rollup_invalidation_log WHERE rollup_id = 1 ORDER BY 1"
    marked = [(day(7), "d0"), (day(6, hours=1), "d2"), (day(4, hours=3), "d1")]
    assert ask(db, log) == [(bucket, {"device": device}) for bucket, device in marked]
    assert one(db, "SELECT lakets.refresh_rollup('hourly')")
    changed = {row[:2] for row in set(ask(db, kept, day(1))) ^ set(before)}
    assert changed == set(marked)
    assert ask(db, log) == []
    assert differences(db, "_rollup_hourly") == []


@pytest.mark.promise("004-26")
def test_a_refresh_reads_the_chunks_that_can_have_changed(db: psycopg.Connection) -> None:
    newest = {chunk(ago) for ago in range(-4, 2)}  # one more when midnight has passed since
    assert read_chunks(db, "SELECT lakets.refresh_rollup('hourly')") <= newest
    for since, until in ((day(4, hours=3), day(4, hours=9)), (day(7, hours=23), day(6))):
        ask(db, "SELECT lakets.invalidate_rollup_range('hourly', %s, %s)", since, until)
    read = read_chunks(db, "SELECT lakets.refresh_rollup('hourly')")
    assert read - newest == {chunk(7), chunk(6), chunk(4)}


@pytest.mark.promise("000-36", "000-43")
def test_r1_retention_takes_the_rows_and_leaves_the_rollup(db: psycopg.Connection) -> None:
    before = ask(db, "SELECT * FROM _rollup_hourly ORDER BY 1, 2")
    db.execute("SELECT lakets.add_retention_policy('m', '3 days')")
    assert one(db, "SELECT lakets.execute_retention('m')") == 7
    ask(db, "DELETE FROM m WHERE ts < %s", day(2))
    for _ in range(3):
        assert one(db, "SELECT lakets.refresh_rollup('hourly')")
        db.execute("SELECT lakets.invalidate_rollup_range('hourly', now() - interval '11 days', now())")
    left = [row for row in before if row[0] < day(3)]
    assert len(left) == 7 * 24 * 4
    assert ask(db, "SELECT * FROM _rollup_hourly WHERE bucket < %s ORDER BY 1, 2", day(3)) == left
    assert ask(db, "SELECT * FROM _rollup_rt_hourly WHERE bucket < %s ORDER BY 1, 2", day(3)) == left
