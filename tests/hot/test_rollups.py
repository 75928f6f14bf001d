"""RollUps: equal to a full aggregation at any moment, whatever is written, refreshed and dropped."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import ask
from harness.sessions import Session

if TYPE_CHECKING:
    from typing import LiteralString

NOW = datetime.now(UTC)
HOURLY: LiteralString = (
    "SELECT lakets.time_bucket('1 hour'::interval, ts) AS bucket, device, sum(v) AS total, count(*) AS n"
    " FROM m GROUP BY 1, 2"
)
DAILY: LiteralString = (
    "SELECT lakets.time_bucket('1 day'::interval, bucket) AS bucket, device, sum(total) AS total, sum(n) AS n"
    " FROM _rollup_hourly GROUP BY 1, 2"
)


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """With a table of ten days, every ten minutes, three devices and one without a name."""
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, device text, v int)")
    db.execute(
        "INSERT INTO m SELECT now() - g * interval '10 minutes', nullif('d' || g % 4, 'd3'), g"
        " FROM generate_series(0, 1440) g"
    )
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    return db


@pytest.fixture
def hourly(db: psycopg.Connection) -> psycopg.Connection:
    """And a RollUp by hour and device with its real-time view, refreshed whenever it is asked for."""
    db.execute("SELECT lakets.create_rollup('hourly', %s, '1 hour')", [HOURLY])
    db.execute("SELECT lakets.create_rollup_view('hourly', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    return db


def differences(db: psycopg.Connection, relation: str, query: str = HOURLY) -> list[tuple[Any, ...]]:
    return ask(db, f"(TABLE {relation} EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL TABLE {relation})")


def refreshed(db: psycopg.Connection, name: str = "hourly") -> bool:
    ((done,),) = ask(db, "SELECT lakets.refresh_rollup(%s)", name)
    return bool(done)


def watermark(db: psycopg.Connection, name: str = "hourly") -> datetime:
    ((at,),) = ask(db, "SELECT watermark FROM lakets._rollup_registry WHERE name = %s", name)
    assert isinstance(at, datetime)
    return at


def at_age(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


@pytest.mark.promise("004-03", "004-04", "004-05", "004-06", "004-09")
def test_what_a_rollup_is_made_of(hourly: psycopg.Connection) -> None:
    assert differences(hourly, "_rollup_hourly") == []
    index = ask(hourly, "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx__rollup_hourly_unique'")[0][0]
    assert index.endswith("(bucket, device) NULLS NOT DISTINCT")
    found = ask(
        hourly,
        "SELECT name, rollup_table, realtime_view, bucket_interval, source_table, bucket_column, depends_on"
        " FROM lakets.show_rollups()",
    )
    assert found == [
        ("hourly", "public._rollup_hourly", "public._rollup_rt_hourly", timedelta(hours=1), "public.m", "bucket", [])
    ]


@pytest.mark.promise("004-10", "004-11", "004-12")
def test_the_watermark_is_the_start_of_the_newest_whole_bucket_and_never_moves_back(hourly: psycopg.Connection) -> None:
    before = watermark(hourly)
    expected = "SELECT lakets.time_bucket('1 hour', created_at - interval '10 minutes') FROM lakets._rollup_registry"
    assert ask(hourly, expected) == [(before,)]
    hourly.execute("DELETE FROM m WHERE ts > %s", [at_age(30)])
    assert refreshed(hourly)
    assert watermark(hourly) == before
    assert differences(hourly, "_rollup_hourly") == []


def test_r5_a_row_of_the_future_does_not_drag_the_watermark(hourly: psycopg.Connection) -> None:
    hourly.execute("INSERT INTO m VALUES (now() + interval '2 days', 'd1', 1)")
    assert refreshed(hourly)
    assert watermark(hourly) <= datetime.now(UTC)
    hourly.execute("INSERT INTO m VALUES (now(), 'd1', 1)")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


@pytest.mark.promise("004-14", "004-34")
def test_within_its_lag_a_refresh_does_nothing(hourly: psycopg.Connection) -> None:
    assert refreshed(hourly)
    hourly.execute("UPDATE lakets._rollup_registry SET refresh_lag = '1 hour'")
    hourly.execute("INSERT INTO m VALUES (%s, 'd1', 5)", [at_age(50)])
    assert not refreshed(hourly)
    assert len(differences(hourly, "_rollup_hourly")) == 2
    hourly.execute("UPDATE lakets._rollup_registry SET last_refreshed_at = now() - interval '61 minutes'")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


def test_a_refresh_writes_what_comes_out_otherwise_and_nothing_when_nobody_has_written(
    hourly: psycopg.Connection,
) -> None:
    newest = "SELECT bucket, device, xmin::text FROM _rollup_hourly WHERE bucket >= lakets._rollup_watermark('hourly')"
    assert refreshed(hourly)
    before = set(ask(hourly, newest))
    assert refreshed(hourly)
    assert set(ask(hourly, newest)) == before
    hourly.execute("INSERT INTO m VALUES (now(), 'd1', 5)")
    assert refreshed(hourly)
    assert {device for _, device, _ in set(ask(hourly, newest)) - before} == {"d1"}
    assert differences(hourly, "_rollup_hourly") == []

    def left_no_trace() -> bool:
        with hourly.transaction():
            assert refreshed(hourly)
            return ask(hourly, "SELECT pg_current_xact_id_if_assigned() IS NULL") == [(True,)]

    # Not always at once: whoever was there before may still be leaving.
    deadline = time.monotonic() + 60
    while not left_no_trace():
        assert time.monotonic() < deadline


def test_keys_and_values_of_types_that_cannot_be_hashed(db: psycopg.Connection) -> None:
    db.execute("CREATE DOMAIN colour AS text")
    db.execute("ALTER TABLE m ADD COLUMN kind colour, ADD COLUMN bits varbit")
    db.execute("UPDATE m SET kind = device, bits = v::bit(4)")
    query = (
        "SELECT lakets.time_bucket('1 hour', ts) AS bucket, kind, bits, array_agg(v ORDER BY v) AS vs, count(*) AS n"
        " FROM m GROUP BY 1, 2, 3"
    )
    db.execute("SELECT lakets.create_rollup('odd', %s, '1 hour')", [query])
    db.execute("SELECT lakets.create_rollup_view('odd', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    for _ in range(2):
        rows = [(at_age(50), "d1", "0101"), (at_age(70), None, "1"), (at_age(30), "d2", None), (NOW, "d1", "11")]
        with db.cursor() as cursor:
            cursor.executemany("INSERT INTO m (ts, v, kind, bits) VALUES (%s, 7, %s, %s)", rows)
        assert differences(db, "_rollup_rt_odd", query) == []
        assert refreshed(db, "odd")
        assert differences(db, "_rollup_odd", query) == []


@pytest.mark.promise("004-13")
def test_two_refreshes_at_once_are_one(hourly: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as other:
        other.run("SELECT lakets.refresh_rollup('hourly')")
        assert not refreshed(hourly)
        other.commit()
    assert refreshed(hourly)


LATE = [
    "INSERT INTO m VALUES (now() - interval '3 days', 'd1', 1000)",
    "INSERT INTO m VALUES (now() - interval '3 days', NULL, 1000), (now() - interval '4 days', 'new', 1)",
    "UPDATE m SET v = v + 1 WHERE ts BETWEEN now() - interval '50 hours' AND now() - interval '40 hours'",
    "UPDATE m SET device = 'other' WHERE ts BETWEEN now() - interval '50 hours' AND now() - interval '49 hours'",
    "UPDATE m SET ts = ts - interval '26 hours' WHERE ts > now() - '50h'::interval AND device = 'd1'",
    "UPDATE m SET ts = now() WHERE ts BETWEEN now() - interval '50 hours' AND now() - '49 hours'::interval",
    "DELETE FROM m WHERE device = 'd2'",
    "INSERT INTO m SELECT now() - random() * interval '9 days', 'd' || g % 9, g FROM generate_series(1, 3000) g",
    "DELETE FROM m WHERE ts < now() - interval '1 day'",
    "TRUNCATE m",
]


@pytest.mark.promise("004-15", "004-17", "004-18", "004-19", "004-35")
@pytest.mark.parametrize("statement", LATE)
def test_r7_r9_late_writes_are_in_the_view_at_once_and_in_the_table_after_a_refresh(
    hourly: psycopg.Connection, statement: str
) -> None:
    hourly.execute(statement.encode())
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert ask(hourly, "SELECT count(*) FROM lakets._rollup_pending(1)") == [(0,)]
    assert refreshed(hourly)
    assert ask(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log") == [(0,)]


def test_r4_what_a_writer_marks_while_a_refresh_runs_is_not_lost(hourly: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as writer, Session(dsn) as refresher:
        writer.run("INSERT INTO m VALUES (%s, 'd1', 77)", [at_age(70)])
        refresher.run("SELECT lakets.refresh_rollup('hourly')")
        writer.run("INSERT INTO m VALUES (%s, 'd2', 78)", [at_age(71)])
        refresher.commit()
        writer.commit()
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert len(differences(hourly, "_rollup_hourly")) == 4
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


def test_r4_a_refresh_in_the_writers_own_transaction_forgets_nothing(hourly: psycopg.Connection, dsn: str) -> None:
    with psycopg.connect(dsn) as writer:
        writer.execute("INSERT INTO m VALUES (%s, 'd1', 77)", [at_age(70)])
        writer.execute("SELECT lakets.refresh_rollup('hourly')")
        writer.execute("INSERT INTO m VALUES (%s, 'd1', 78)", [at_age(70)])
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


def test_a_rollup_that_is_made_beside_writers_misses_nothing(db: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as late, Session(dsn) as fresh, Session(dsn) as maker:
        late.run("INSERT INTO m VALUES (%s, 'late', 1)", [at_age(70)])
        fresh.run("INSERT INTO m VALUES (now(), 'fresh', 1)")
        maker.run("SELECT lakets.create_rollup('hourly', %s, '1 hour')", [HOURLY])
        late.run("UPDATE m SET v = 2 WHERE device = 'late'")
        maker.run("SELECT lakets.create_rollup_view('hourly', NULL)")
        fresh.commit()
        maker.commit()
        late.commit()
    assert differences(db, "_rollup_rt_hourly") == []
    assert refreshed(db)
    assert differences(db, "_rollup_hourly") == []


@pytest.mark.promise("004-30", "004-31", "004-32", "004-33", "004-38")
def test_r8_r11_a_rollup_of_a_rollup_follows_it(hourly: psycopg.Connection) -> None:
    hourly.execute("SELECT lakets.create_rollup('daily', %s, '1 day')", [DAILY])
    hourly.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    over_all = DAILY.replace("_rollup_hourly", f"({HOURLY}) h")
    assert differences(hourly, "_rollup_daily", over_all) == []
    for statement in LATE[:7]:
        hourly.execute(statement.encode())
        done = ask(hourly, "SELECT rollup_name, refreshed FROM lakets.refresh_rollup_cascade('daily')")
        assert done == [("hourly", True), ("daily", True)]
        assert differences(hourly, "_rollup_daily", over_all) == [], statement
    assert ask(hourly, "SELECT rollup_name, depends_on_names, refresh_order FROM lakets.show_rollup_dag()") == [
        ("hourly", [], 1),
        ("daily", ["hourly"], 2),
    ]
    with pytest.raises(psycopg.errors.RaiseException, match="daily depend on it"):
        hourly.execute("SELECT lakets.drop_rollup('hourly')")
    for wrong, said in (("ARRAY[2]", "circular"), ("ARRAY[1]", "itself"), ("ARRAY[99]", "does not exist")):
        with pytest.raises(psycopg.errors.RaiseException, match=said):
            hourly.execute(f"UPDATE lakets._rollup_registry SET depends_on = {wrong} WHERE name = 'hourly'".encode())
    hourly.execute("SELECT lakets.drop_rollup('daily')")
    hourly.execute("SELECT lakets.drop_rollup('hourly')")
    assert ask(hourly, "SELECT to_regclass('_rollup_hourly'), to_regclass('_rollup_rt_hourly')") == [(None, None)]


@pytest.mark.promise("004-20", "004-21")
def test_r1_r3_a_rollup_outlives_its_source(hourly: psycopg.Connection) -> None:
    hourly.execute("UPDATE m SET v = v + 5 WHERE ts < now() - interval '5 days'")  # marked, not refreshed yet
    expected = ask(hourly, f"SELECT count(*), sum(total), sum(n) FROM ({HOURLY}) x")
    assert ask(hourly, "SELECT lakets.drop_chunks('m', '3 days')")[0][0] > 5
    for _ in range(20):
        assert refreshed(hourly)
    summed = "SELECT count(*), sum(total), sum(n) FROM "
    assert ask(hourly, summed + "_rollup_hourly") == expected
    assert ask(hourly, summed + "_rollup_rt_hourly") == expected
    hourly.execute("DELETE FROM m")
    assert ask(hourly, "SELECT lakets.drop_chunks('m', '0')")[0][0] > 0
    left = ask(hourly, summed + "_rollup_rt_hourly")
    for _ in range(5):
        assert refreshed(hourly)
    assert ask(hourly, summed + "_rollup_hourly WHERE bucket < now() - interval '4 days'") == ask(
        hourly, summed + "_rollup_rt_hourly WHERE bucket < now() - interval '4 days'"
    )
    assert left[0][0] > 100


@pytest.mark.promise("004-22")
def test_r3_what_has_left_cannot_be_marked(hourly: psycopg.Connection) -> None:
    assert ask(hourly, "SELECT lakets.invalidate_rollup_range('hourly', %s, %s)", at_age(51), at_age(49)) == [(3,)]
    assert ask(hourly, "SELECT count(*) FROM lakets._rollup_pending(1)") == [(3,)]
    hourly.execute("SELECT lakets.drop_chunks('m', '3 days')")
    assert ask(hourly, "SELECT lakets.invalidate_rollup_range('hourly', %s, %s)", at_age(200), at_age(190)) == [(0,)]
    with pytest.raises(psycopg.errors.RaiseException, match="cannot mark hourly"):
        hourly.execute("SELECT lakets.invalidate_rollup_range('hourly', now(), now() - interval '1 day')")


def test_a_chunk_that_a_rollup_still_needs_stays(hourly: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as writer:  # its row may be anywhere, so nothing is known to be whole
        writer.run("INSERT INTO m VALUES (now(), 'open', 1)")
        hourly.execute("UPDATE lakets._rollup_registry SET complete_until = NULL, frontier_xid = NULL")
        assert ask(hourly, "SELECT lakets.drop_chunks('m', '3 days')") == [(0,)]
        writer.commit()
    assert ask(hourly, "SELECT lakets.drop_chunks('m', '3 days')")[0][0] > 5


def test_tracking_that_was_off_for_a_while_recomputes_everything(hourly: psycopg.Connection) -> None:
    hourly.execute("SELECT lakets.disable_rollup_invalidation('hourly')")
    hourly.execute(LATE[0].encode())
    assert refreshed(hourly)
    assert len(differences(hourly, "_rollup_hourly")) == 2
    hourly.execute("SELECT lakets.enable_rollup_invalidation('hourly')")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


@pytest.mark.parametrize(
    ("bucket", "interval"),
    [
        ("lakets.time_bucket('7 days', ts)", "7 days"),
        ("lakets.time_bucket('1 month', ts)", "1 month"),
        ("lakets.time_bucket('1 day', ts, '2000-01-01', 'Europe/Berlin')", "1 day"),
        ("lakets.time_bucket('1 day', ts, '1999-12-31 05:00+00')", "1 day"),
        ("date_bin('15 minutes', ts, '2001-01-01')", "15 minutes"),
    ],
)
def test_r6_r14_buckets_of_any_kind(db: psycopg.Connection, bucket: str, interval: str) -> None:
    query = f"SELECT {bucket} AS b, count(*) AS n, sum(v) AS s, lower(device) AS d FROM m GROUP BY 1, 4"
    db.execute("SELECT lakets.create_rollup('odd', %s, %s::interval)", [query, interval])
    db.execute("SELECT lakets.create_rollup_view('odd', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    for statement in LATE[:8]:
        db.execute("SET timezone = 'America/Los_Angeles'")
        db.execute(statement.encode())
        db.execute("SET timezone = 'UTC'")
        assert differences(db, "_rollup_rt_odd", query) == [], statement
        assert refreshed(db, "odd")
        assert differences(db, "_rollup_odd", query) == [], statement


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_a_source_without_time_zones(db: psycopg.Connection, kind: str) -> None:
    db.execute(f"CREATE TABLE n (ts {kind} NOT NULL, v int)".encode())
    db.execute("INSERT INTO n SELECT now() - g * interval '5 hours', g FROM generate_series(0, 40) g")
    db.execute("SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    query = "SELECT date_bin('1 day', ts::timestamp, '2000-01-01') AS day, sum(v) AS s FROM n GROUP BY 1"
    db.execute("SELECT lakets.create_rollup('plain', %s, '1 day')", [query])
    db.execute("SELECT lakets.create_rollup_view('plain', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    db.execute("SET timezone = 'Pacific/Auckland'")
    db.execute("INSERT INTO n SELECT (now() AT TIME ZONE 'UTC') - interval '3 days', 5")
    assert differences(db, "_rollup_rt_plain", query) == []
    assert refreshed(db, "plain")
    assert differences(db, "_rollup_plain", query) == []


@pytest.mark.promise("004-07", "004-08")
def test_a_view_by_hand(hourly: psycopg.Connection) -> None:
    raw = HOURLY.replace("FROM m", "FROM m WHERE ts >= lakets._rollup_watermark('hourly')")
    hourly.execute("SELECT lakets.create_rollup_view('hourly', %s)", [raw])
    hourly.execute("INSERT INTO m VALUES (now(), 'd1', 1)")
    for statement in LATE[:4]:
        hourly.execute(statement.encode())
        assert differences(hourly, "_rollup_rt_hourly") == []
    with pytest.raises(psycopg.errors.RaiseException, match="cannot make the real-time view of hourly"):
        hourly.execute("SELECT lakets.create_rollup_view('hourly', 'SELECT 1')")


REFUSED = [
    ("SELECT ts, v FROM m", "does not aggregate"),
    ("SELECT sum(v) FROM m", "does not aggregate"),
    ("SELECT device, sum(v) FROM m GROUP BY 1", "no column of time"),
    ("SELECT max(ts) AS t, device FROM m GROUP BY 2", "no column of time"),
    (HOURLY.replace("FROM m", "FROM m JOIN other USING (device, ts, v)"), "exactly one table"),
    (HOURLY.replace("FROM m", "FROM m, (VALUES (1)) o"), "exactly one table"),
    (HOURLY.replace("FROM m", "FROM m JOIN m n USING (ts, device, v)"), "exactly one table"),
    (HOURLY.replace("FROM m", "FROM (SELECT * FROM m) m"), "sub-query"),
    (HOURLY.replace("FROM m", "FROM m WHERE v > (SELECT 1)"), "sub-query"),
    (f"WITH x AS (SELECT * FROM m) {HOURLY.replace('FROM m', 'FROM x')}", "sub-query"),
    (HOURLY + " LIMIT 5", "LIMIT"),
    (HOURLY.replace("GROUP BY 1, 2", "GROUP BY GROUPING SETS ((1, 2), (1))"), "grouping sets"),
    (HOURLY.replace("count(*) AS n", "count(*) AS n, row_number() OVER ()"), "window"),
    (HOURLY.replace("SELECT", "SELECT DISTINCT"), "DISTINCT"),
    (f"{HOURLY} UNION ALL {HOURLY}", "sub-query"),
    (HOURLY.replace("GROUP BY 1, 2", "GROUP BY 1, 2, v"), "does not select"),
    (HOURLY.replace("sum(v)", "sum(random())"), "random"),
    (HOURLY.replace("FROM m", "FROM m WHERE ts > now() - interval '1 day'"), "now"),
    (HOURLY.replace("FROM m", "FROM m WHERE ts > current_date"), "now"),
    (HOURLY.replace("FROM m", "FROM other"), "neither a ChronoTable nor a RollUp|not understood"),
    (HOURLY.replace("'1 hour'::interval", "'2 hours'::interval"), "is not one of 01:00:00"),
    (HOURLY.replace("ts)", "ts + v * interval '1 hour')"), "timestamptz_pl_interval.*not the same"),
    (HOURLY.replace("device", "extract(hour FROM ts)"), "at every moment and in every session"),
    (HOURLY.replace("ts)", "greatest(ts, '2026-01-01'::timestamptz, to_timestamp(v)))"), "not a function of ts alone"),
    (HOURLY.replace("lakets.time_bucket('1 hour'::interval, ts)", "public.mine(ts)"), "not a function of ts alone"),
    (HOURLY.replace("sum(v)", "max(ts::text)"), r"timestamptz_out\(.*not the same"),
    (
        HOURLY.replace("FROM m", "FROM m WHERE (ts, v) > ('2026-01-01'::date, 1)"),
        r"timestamptz_gt_date\(.*not the same",
    ),
    (HOURLY.replace("sum(v)", "wild(v)"), r"step\(.*not the same"),
    (HOURLY.replace("sum(v)", "max(ROW(ts, v)::text)"), "by way of text"),
    ("SELECT nonsense", "not understood"),
    ("SELECT 1; DROP TABLE m", "not understood|does not aggregate"),
]


@pytest.mark.parametrize(("query", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_r10_what_cannot_be_proven_is_refused_and_nothing_made(db: psycopg.Connection, query: str, said: str) -> None:
    db.execute("CREATE TABLE other (device text, ts timestamptz, v int)")
    db.execute(
        "CREATE FUNCTION mine(timestamptz) RETURNS timestamptz IMMUTABLE LANGUAGE sql"
        " RETURN date_bin('1 hour', $1, '2000-01-01')"
    )
    db.execute("CREATE FUNCTION step(int, int) RETURNS int VOLATILE LANGUAGE sql RETURN $1 + random() * $2")
    db.execute("CREATE AGGREGATE wild(int) (SFUNC = step, STYPE = int, INITCOND = 0)")
    before = ask(db, "SELECT count(*) FROM pg_class")
    with pytest.raises(psycopg.errors.RaiseException, match=f"cannot make the RollUp wrong: .*({said})"):
        db.execute("SELECT lakets.create_rollup('wrong', %s, '1 hour')", [query])
    assert ask(db, "SELECT count(*) FROM pg_class") == before
    assert ask(db, "SELECT count(*) FROM lakets._rollup_registry") == [(0,)]
    assert ask(db, "SELECT count(*) FROM m") == [(1441,)]


def test_names_intervals_and_dependencies_are_checked(hourly: psycopg.Connection) -> None:
    for name, interval, needs, said in (
        ("hourly", "1 hour", "{}", "of this name already"),
        ("x" * 60, "1 hour", "{}", "longer than 44 bytes"),
        (None, "1 hour", "{}", "has no name"),
        ("other", "0", "{}", "not positive"),
        ("other", "1 hour", "{nothing}", "nothing, which does not exist"),
        ("other", "1 hour", "{other}", "cannot depend on itself"),
    ):
        with pytest.raises(psycopg.errors.RaiseException, match=said):
            hourly.execute(
                "SELECT lakets.create_rollup(%s, %s, %s::interval, p_depends_on => %s::text[])",
                [name, HOURLY, interval, needs],
            )
    for call in ("refresh_rollup('x')", "drop_rollup('x')", "create_rollup_view('x', NULL)",
                 "enable_rollup_invalidation('x')", "refresh_rollup_cascade('x')"):  # fmt: skip
        with pytest.raises(psycopg.errors.RaiseException, match="there is no RollUp x"):
            hourly.execute(f"SELECT lakets.{call}".encode())


def test_drop_chronotable_takes_its_rollups_along(hourly: psycopg.Connection) -> None:
    hourly.execute("SELECT lakets.create_rollup('daily', %s, '1 day')", [DAILY])
    hourly.execute("SELECT lakets.drop_chronotable('m')")
    assert ask(hourly, "SELECT count(*) FROM lakets._rollup_registry") == [(0,)]
    assert ask(hourly, "SELECT to_regclass('_rollup_daily'), to_regclass('_rollup_hourly')") == [(None, None)]
    assert ask(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log") == [(0,)]


def test_names_with_blanks(db: psycopg.Connection) -> None:
    query = HOURLY.replace("AS bucket, device", 'AS "the hour", device AS "the device"')
    db.execute("SELECT lakets.create_rollup('blank', %s, '1 hour')", [query])
    db.execute("SELECT lakets.create_rollup_view('blank', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    assert ask(db, "SELECT group_columns, key_columns FROM lakets._rollup_registry") == [(["the device"], ["device"])]
    for statement in LATE[:4]:
        db.execute(statement.encode())
        assert differences(db, "_rollup_rt_blank", query) == []
        assert refreshed(db, "blank")
        assert differences(db, "_rollup_blank", query) == []


def test_r2_a_bucket_wider_than_a_chunk_is_shown_as_it_was_when_a_part_of_it_left(db: psycopg.Connection) -> None:
    query = "SELECT lakets.time_bucket('3 days', ts) AS b, sum(v) AS s, count(*) AS n FROM m GROUP BY 1"
    db.execute("SELECT lakets.create_rollup('wide', %s, '3 days')", [query])
    db.execute("SELECT lakets.create_rollup_view('wide', NULL)")
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
    before = ask(db, "SELECT * FROM _rollup_rt_wide ORDER BY 1")
    db.execute("SELECT lakets.drop_chunks('m', '3 days')")
    assert ask(db, "SELECT * FROM _rollup_rt_wide ORDER BY 1") == before
    for _ in range(3):
        assert refreshed(db, "wide")
    assert ask(db, "SELECT * FROM _rollup_rt_wide ORDER BY 1") == before
    assert ask(db, "SELECT * FROM _rollup_wide ORDER BY 1") == before
