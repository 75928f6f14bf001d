"""Alerts, metrics, chunk health and query statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from harness.questions import ask, one, refused


@pytest.fixture
def beats(db: psycopg.Connection) -> psycopg.Connection:
    """Three hosts: one beats, one is silent for an hour, one for a day."""
    db.execute("CREATE TABLE beats (ts timestamptz NOT NULL, host text, v float8)")
    db.execute("SELECT lakets.create_chronotable('beats', 'ts', '1 day')")
    db.execute(
        "INSERT INTO beats VALUES (now(), 'alive', 1), (now() - interval '1 hour', 'quiet', 2),"
        " (now() - interval '1 day', 'dead', 3), (now() - interval '1 day', 'alive', 4)"
    )
    return db


# ---- alerts -----------------------------------------------------------------------------------


def test_each_row_of_the_query_is_an_alert(beats: psycopg.Connection) -> None:
    rows = ask(
        beats,
        "SELECT alert_name, severity, fired_at = now(), alert_data FROM"
        " lakets.alert_check('high', 'SELECT host, v FROM beats WHERE v >= 3 ORDER BY v; -- more')",
    )
    assert rows == [
        ("high", "warning", True, {"host": "dead", "v": 3}),
        ("high", "warning", True, {"host": "alive", "v": 4}),
    ]
    assert ask(beats, "SELECT * FROM lakets.alert_check('calm', 'SELECT 1 FROM beats WHERE false', 'critical')") == []
    assert ask(beats, "SELECT severity FROM lakets.alert_check('a', 'SELECT 1', 'page')") == [("page",)]


def test_the_query_sees_what_its_caller_sees(beats: psycopg.Connection) -> None:
    beats.execute("CREATE SCHEMA other")
    beats.execute("CREATE TABLE other.beats AS SELECT 42 AS n")
    beats.execute("SET search_path = other, public")
    assert ask(beats, "SELECT alert_data FROM lakets.alert_check('a', 'TABLE beats')") == [({"n": 42},)]
    assert ask(beats, "SHOW search_path") == [("other, public",)]


def test_an_attackers_schema_changes_nothing_but_the_query(beats: psycopg.Connection) -> None:
    beats.execute("CREATE SCHEMA evil")
    beats.execute(
        "CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '1666-01-01' $$"
    )
    beats.execute("CREATE FUNCTION evil.to_jsonb(anyelement) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb '666' $$")
    beats.execute("SET search_path = evil, pg_catalog, public")
    asked = "SELECT fired_at > '2020-01-01', alert_data FROM lakets.alert_check('a', 'SELECT 1 AS n')"
    assert ask(beats, asked) == [(True, {"n": 1})]
    asked = "SELECT dead_key FROM lakets.alert_deadman('a', 'beats', 'host', '2 hours')"
    assert ask(beats, asked) == [("dead",)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("DELETE FROM beats RETURNING *", "DELETE is not allowed in a non-volatile function"),
        ("INSERT INTO beats VALUES (now()) RETURNING *", "INSERT is not allowed in a non-volatile function"),
        ("WITH d AS (DELETE FROM beats RETURNING *) TABLE d", "SELECT is not allowed in a non-volatile function"),
        ("SELECT * FROM beats FOR UPDATE", "SELECT FOR UPDATE is not allowed in a non-volatile function"),
        ("DELETE FROM beats", "it is not one query that returns rows"),
        ("SELECT 1; DROP TABLE beats", "it is not one query that returns rows"),
        ("SELECT 1; SELECT 2", "it is not one query that returns rows"),
        ("DROP TABLE beats", "it is not one query that returns rows"),
        ("", "it is not one query that returns rows"),
    ],
)
def test_an_alert_is_one_query_and_does_not_write(beats: psycopg.Connection, query: str, reason: str) -> None:
    refused(
        beats,
        "SELECT * FROM lakets.alert_check('the alert', %s)",
        f'cannot check the alert "the alert": {reason}',
        query,
    )
    assert ask(beats, "SELECT count(*) FROM beats") == [(4,)]


def test_what_goes_wrong_in_the_query_of_an_alert_is_told_as_it_is(beats: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match='relation "nothing" does not exist'):
        ask(beats, "SELECT * FROM lakets.alert_check('a', 'TABLE nothing')")
    with pytest.raises(psycopg.errors.DivisionByZero):
        ask(beats, "SELECT * FROM lakets.alert_check('a', 'SELECT 1 / (v - v) FROM beats')")
    beats.execute("BEGIN READ ONLY")
    assert ask(beats, "SELECT alert_data FROM lakets.alert_check('a', 'SELECT 1 AS n')") == [({"n": 1},)]
    beats.execute("COMMIT")


def test_an_alert_without_a_name_or_query_is_refused(db: psycopg.Connection) -> None:
    refused(db, "SELECT lakets.alert_check(NULL, 'SELECT 1')", "the alert NULL: an argument is NULL")
    refused(db, "SELECT lakets.alert_check('a', NULL)", "the alert a: an argument is NULL")


def test_who_fell_silent_is_named_the_longest_first(beats: psycopg.Connection) -> None:
    asked = "SELECT alert_name, severity, fired_at = now(), dead_key, silent_for::text, now() - last_seen = silent_for"
    beats.execute("BEGIN")
    beats.execute("TRUNCATE beats")
    beats.execute(
        "INSERT INTO beats VALUES (now() - interval '1 hour', 'quiet'), (now() - interval '3 hours', 'dead'),"
        " (now(), NULL)"
    )
    rows = ask(beats, f"{asked} FROM lakets.alert_deadman('gone', 'beats', 'host', '30 minutes')")
    assert rows == [
        ("gone", "critical", True, "dead", "03:00:00", True),
        ("gone", "critical", True, "quiet", "01:00:00", True),
    ]
    assert ask(beats, "SELECT dead_key FROM lakets.alert_deadman('gone', 'beats', 'HOST', '2 hours')") == [("dead",)]
    beats.execute("COMMIT")


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_silence_is_measured_in_utc_whatever_the_session_says(db: psycopg.Connection, kind: str) -> None:
    db.execute(f"CREATE TABLE t (ts {kind} NOT NULL, host int)".encode())
    db.execute("SELECT lakets.create_chronotable('t', 'ts', '1 day')")
    db.execute("INSERT INTO t VALUES (timezone('UTC', now()), 7)")
    db.execute("SET timezone = 'Asia/Tokyo'")
    rows = ask(db, "SELECT dead_key, last_seen <= now() FROM lakets.alert_deadman('a', 't', 'host', '1 microsecond')")
    assert rows == [("7", True)]
    assert ask(db, "SELECT 1 FROM lakets.alert_deadman('a', 't', 'host', '1 day 1 hour')") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'a', 'beats', 'host; DROP TABLE beats', '1 hour'", "is not a plain identifier"),
        ("'a', 'beats', '\"host\"', '1 hour'", "is not a plain identifier"),
        ("'a', 'beats', '', '1 hour'", "is not a plain identifier"),
        ("'a', 'beats', 'guest', '1 hour'", r"public\.beats has no column guest"),
        ("'a', 'nothing', 'host', '1 hour'", r"there is no table public\.nothing"),
        ("'a', 'plain', 'host', '1 hour'", r"public\.plain is not a ChronoTable"),
        ("'a', 'beats', 'host', NULL", "the alert a: an argument is NULL"),
        ("'a', 'beats', 'host', '0'", "cannot check the alert a: the timeout '00:00:00' is not positive"),
        ("'a', 'beats', 'host', '-1 hour'", "the timeout '-01:00:00' is not positive"),
        ("NULL, 'beats', 'host', '1 hour'", "the alert NULL"),
    ],
)
def test_a_deadman_that_cannot_watch_is_refused(beats: psycopg.Connection, arguments: str, message: str) -> None:
    beats.execute("CREATE TABLE plain (host text)")
    refused(beats, f"SELECT lakets.alert_deadman({arguments})", message)


# ---- numbers ----------------------------------------------------------------------------------


def numbers(db: psycopg.Connection) -> dict[tuple[str, str], float]:
    rows = ask(db, "SELECT metric_name, labels, metric_value FROM lakets.lakets_metrics()")
    found = {(name, ",".join(labels.values())): value for name, labels, value in rows}
    assert len(found) == len(rows)
    return found


def test_an_empty_database_has_numbers_too(db: psycopg.Connection) -> None:
    found = numbers(db)
    size = found.pop(("lakets_database_size_bytes", ""))
    assert size > 1e6
    kinds = [("lakets_chunks_total", status) for status in ("active", "tiered", "dropped")]
    kinds += [("lakets_policies_total", kind) for kind in ("tiering", "retention", "tiered_retention")]
    assert found == dict.fromkeys([("lakets_chronotables_total", ""), *kinds], 0)


def test_the_numbers_follow_the_tables(beats: psycopg.Connection) -> None:
    beats.execute("CREATE TABLE old (ts timestamptz NOT NULL)")
    beats.execute(
        "INSERT INTO old SELECT date_trunc('day', now()) - interval '4 days' + g * interval '1 hour'"
        " FROM generate_series(0, 47) g"
    )
    beats.execute("SELECT lakets.create_chronotable('old', 'ts', '1 day')")
    beats.execute("SELECT lakets.add_tiering_policy('old', '1 day')")
    beats.execute("SELECT lakets.add_retention_policy('beats', '100 days')")
    beats.execute("ANALYZE beats")
    found = numbers(beats)
    assert found["lakets_chronotables_total", ""] == 2
    assert found["lakets_policies_total", "tiering"] == 1
    assert found["lakets_policies_total", "retention"] == 1
    assert found["lakets_estimated_rows", "public.old"] == 48
    assert found["lakets_estimated_rows", "public.beats"] == 4
    assert found["lakets_sync_enabled", "public.old"] == 0
    assert found["lakets_tiering_pending_chunks", "public.old"] >= 2
    assert found["lakets_tiering_tiered_chunks_total", "public.old"] == 0
    assert found["lakets_tiering_caught_up", "public.old"] == 0
    assert ("lakets_tiering_caught_up", "public.beats") not in found
    ((active,),) = ask(beats, "SELECT count(*) FROM lakets._chunk_metadata WHERE status = 'active'")
    assert found["lakets_chunks_total", "active"] == active


def test_each_rollup_tells_how_far_it_is_and_what_waits_for_it(beats: psycopg.Connection) -> None:
    beats.execute("CREATE TABLE empty (ts timestamptz NOT NULL)")
    beats.execute("SELECT lakets.create_chronotable('empty', 'ts', '1 day')")
    bucket = "SELECT lakets.time_bucket('1 hour', ts) AS at, count(*) AS n FROM {} GROUP BY 1"
    for name, source in (("hourly", "beats"), ("nothing", "empty")):
        ask(beats, "SELECT lakets.create_rollup(%s, %s)", name, bucket.format(source))
    beats.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    lag, refreshed, depth = (
        (f"lakets_rollup_{what}", "hourly")
        for what in ("watermark_lag_seconds", "refresh_lag_seconds", "invalidation_log_depth")
    )
    assert numbers(beats)[depth] == 0
    beats.execute("INSERT INTO beats VALUES (now() - interval '1 day', 'late', 5)")
    beats.execute("BEGIN")  # so that now() is one moment
    beats.execute("UPDATE lakets._rollup_registry SET last_refreshed_at = now() - interval '90 seconds'")
    found = numbers(beats)
    since_the_hour = one(beats, "SELECT extract(epoch FROM now() - lakets._rollup_watermark('hourly'))::float8")
    assert 0 <= since_the_hour < 7200
    assert found[lag] == pytest.approx(since_the_hour)
    assert (found[refreshed], found[depth]) == (90, 1)
    assert found["lakets_rollup_invalidation_log_depth", "nothing"] == 0
    labels = ask(beats, "SELECT DISTINCT labels FROM lakets.lakets_metrics() WHERE metric_name LIKE 'lakets_rollup%'"
                        " ORDER BY 1")  # fmt: skip
    assert labels == [({"rollup": "hourly"},), ({"rollup": "nothing"},)]
    beats.execute("UPDATE lakets._rollup_registry SET watermark = '-infinity' WHERE name = 'nothing'")
    assert ("lakets_rollup_watermark_lag_seconds", "nothing") not in numbers(beats), "there is nothing to be behind"
    beats.execute("ROLLBACK")
    assert one(beats, "SELECT lakets.refresh_rollup('hourly')") is True
    found = numbers(beats)
    assert found[depth] == 0
    assert found[refreshed] < 60


def test_chunks_are_counted_by_state(beats: psycopg.Connection) -> None:
    beats.execute("CREATE SCHEMA other")
    beats.execute("CREATE TABLE other.empty (ts timestamptz NOT NULL)")
    beats.execute("SELECT lakets.create_chronotable('empty', 'ts', '1 day', 'other')")
    beats.execute(
        "DELETE FROM lakets._chunk_metadata m USING lakets._chronotable_registry r"
        " WHERE r.id = m.chronotable_id AND r.table_name = 'empty'"
    )
    beats.execute(
        "UPDATE lakets._chunk_metadata SET status = 'tiered' WHERE range_start <= now() AND range_end > now()"
    )
    beats.execute("UPDATE lakets._chunk_metadata SET status = 'dropped' WHERE range_end <= now()")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = ask(beats, "SELECT * FROM lakets.chunk_health()")
    assert rows == [
        ("other.empty", 0, 0, 0, 0, None, None),
        ("public.beats", 5, 3, 1, 1, today + timedelta(days=1), today + timedelta(days=4)),
    ]


def test_without_pg_stat_statements_there_are_no_statistics(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT * FROM lakets.query_stats()") == []
    db.execute("CREATE TABLE pg_stat_statements (query text)")
    assert ask(db, "SELECT * FROM lakets.query_stats(1)") == []
    refused(db, "SELECT * FROM lakets.query_stats(-1)", "cannot show -1 statements")
    refused(db, "SELECT * FROM lakets.query_stats(NULL)", "cannot show NULL statements")


def test_query_statistics_have_the_columns_of_the_contract(db: psycopg.Connection) -> None:
    cursor = db.execute("SELECT * FROM lakets.query_stats()")
    assert cursor.description is not None
    assert [column.name for column in cursor.description] == [
        "query",
        "calls",
        "total_time_ms",
        "mean_time_ms",
        "rows_returned",
    ]


def test_the_version_is_there_to_be_read(db: psycopg.Connection) -> None:
    ((version, recent, modules),) = ask(db, "SELECT version, installed_at <= now(), modules FROM lakets._version")
    assert version
    assert recent is True
    assert modules == ["core"]
