"""What is set of a RollUp: its query, its lag, what counts as late, whether it is tracked; and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import ask, one, refused
from harness.roles import role
from harness.sessions import Session

if TYPE_CHECKING:
    from harness.servers import Server

HOURLY = "SELECT lakets.time_bucket('1 hour', ts) AS bucket, k, sum(v) AS total, count(*) AS n FROM m GROUP BY 1, 2"
MINUTELY = HOURLY.replace("1 hour", "1 minute")
DAILY = "SELECT lakets.time_bucket('1 day', bucket) AS day, sum(total) AS total FROM _rollup_hourly GROUP BY 1"
LATE = "INSERT INTO m VALUES (now() - interval '100 hours', 'd1', 1000000)"


def make(db: psycopg.Connection, name: str = "hourly", query: str = HOURLY, interval: str = "1 hour") -> None:
    ask(db, "SELECT lakets.create_rollup(%s, %s, %s)", name, query, interval)
    ask(db, "SELECT lakets.create_rollup_view(%s, NULL)", name)
    ask(db, "SELECT lakets.set_refresh_lag(%s, '0')", name)


def refreshed(db: psycopg.Connection, name: str = "hourly") -> bool:
    return bool(one(db, "SELECT lakets.refresh_rollup(%s)", name))


def differences(db: psycopg.Connection, relation: str, query: str = HOURLY) -> list[tuple[Any, ...]]:
    return ask(db, f"(TABLE {relation} EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL TABLE {relation})")


def marks(db: psycopg.Connection) -> int:
    return int(one(db, "SELECT count(*) FROM lakets._rollup_invalidation_log"))


@pytest.fixture
def table(db: psycopg.Connection) -> psycopg.Connection:
    """Ten days, every ten minutes, in chunks of a day."""
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, k text, v int)")
    ask(
        db,
        "INSERT INTO m SELECT now() - g * interval '10 minutes', nullif('d' || g % 4, 'd3'), g"
        " FROM generate_series(0, 1440) g",
    )
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    return db


@pytest.fixture
def hourly(table: psycopg.Connection) -> psycopg.Connection:
    make(table)
    return table


# ---- its query -------------------------------------------------------------------------------


def test_the_order_of_a_query_is_left_out(table: psycopg.Connection) -> None:
    query = HOURLY.replace("sum(v)", "(array_agg(v ORDER BY v))[1]") + " HAVING count(*) > 1"
    make(table, query=f"{query} ORDER BY bucket DESC, k")
    ask(table, LATE)
    assert differences(table, "_rollup_rt_hourly", query) == []
    assert refreshed(table)
    assert differences(table, "_rollup_hourly", query) == []


def test_casts_and_aggregates_that_come_out_the_same_are_taken(table: psycopg.Connection) -> None:
    ask(table, "CREATE AGGREGATE plus(int) (SFUNC = int4pl, STYPE = int, INITCOND = 0)")
    query = (
        "SELECT lakets.time_bucket('1 hour', ts) AS bucket, lower(k) AS k, (v % 2)::text AS odd, plus(v) AS total,"
        " max(coalesce(v, 0)::text) AS top, lakets.last(v, ts) AS last, array_agg(v ORDER BY v) AS vs,"
        " max(v::text) AS t, string_agg(k, ',' ORDER BY k) AS ks, mode() WITHIN GROUP (ORDER BY v) AS mode"
        " FROM m WHERE (v, k) >= (0, 'a') GROUP BY 1, 2, 3"
    )
    make(table, query=query)
    ask(table, LATE)
    assert refreshed(table)
    assert differences(table, "_rollup_hourly", query) == []


@pytest.mark.parametrize(("named", "schema"), [("m", "public"), ("m", "here"), ("other", "public")])
def test_the_table_that_a_query_is_said_to_read_is_the_one_that_it_reads(
    table: psycopg.Connection, named: str, schema: str
) -> None:
    ask(table, "CREATE SCHEMA here")
    ask(table, "CREATE TABLE other (LIKE m)")
    create = "SELECT lakets.create_rollup('hourly', %s, '1 hour', p_source_table => %s, p_source_schema => %s)"
    if (named, schema) == ("m", "public"):
        assert one(table, create, HOURLY, named, schema) == 1
        assert differences(table, "_rollup_hourly") == []
    else:
        refused(table, create, f"its query reads (public.)?m, not {schema}.{named}", HOURLY, named, schema)


def test_names_of_a_query_are_looked_up_in_the_schema_of_its_source(table: psycopg.Connection) -> None:
    ask(table, "CREATE SCHEMA here")
    ask(table, "CREATE TABLE here.readings (ts timestamptz NOT NULL, k text, v int)")
    ask(table, "INSERT INTO here.readings SELECT * FROM m")
    ask(table, "SELECT lakets.create_chronotable('readings', 'ts', '1 day', 'here')")
    create = (
        "SELECT lakets.create_rollup('hourly', %s, '1 hour', p_source_table => 'readings', p_source_schema => 'here')"
    )
    ask(table, create, HOURLY.replace("FROM m", "FROM readings"))
    assert differences(table, "_rollup_hourly") == []


# ---- its lag ---------------------------------------------------------------------------------


def test_the_lag_of_a_rollup_is_set(hourly: psycopg.Connection, dsn: str) -> None:
    assert refreshed(hourly)
    ask(hourly, "SELECT lakets.set_refresh_lag('hourly', '1 hour')")
    assert one(hourly, "SELECT refresh_lag FROM lakets._rollup_registry") == timedelta(hours=1)
    assert not refreshed(hourly)
    ask(hourly, "SELECT lakets.set_refresh_lag('hourly', '0')")
    assert refreshed(hourly)
    for wrong in ("NULL", "interval '-1 minute'"):
        refused(hourly, f"SELECT lakets.set_refresh_lag('hourly', {wrong})", "cannot set the refresh_lag of hourly to")
    refused(hourly, "SELECT lakets.set_refresh_lag('nowhere', '1 hour')", "there is no RollUp nowhere")
    with (
        role(dsn, "platform", "", "GRANT lakets_admin TO {role}") as as_platform,
        psycopg.connect(as_platform, autocommit=True) as other,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="owner of table"),
    ):
        ask(other, "SELECT lakets.set_refresh_lag('hourly', '1 hour')")


# ---- what is late ----------------------------------------------------------------------------


def test_what_counts_as_late_is_set_and_nothing_is_lost(table: psycopg.Connection, dsn: str) -> None:
    """What is whole by five minutes is not fresh by an hour: rows in it are marked for as long as that matters."""
    make(table, "minutely", MINUTELY, "1 minute")
    assert refreshed(table, "minutely")
    whole = one(table, "SELECT complete_until FROM lakets._rollup_registry")
    ask(table, "SELECT lakets.set_late_after('m', '1 hour')")
    for age in (5, 12, 30, 59, 61, 90):
        ask(table, "INSERT INTO m VALUES (now() - %s * interval '1 minute', 'd1', 1)", age)
        assert differences(table, "_rollup_rt_minutely", MINUTELY) == [], age
    assert refreshed(table, "minutely")
    assert differences(table, "_rollup_minutely", MINUTELY) == []
    assert one(table, "SELECT complete_until FROM lakets._rollup_registry") == whole
    before = marks(table)
    ask(table, "INSERT INTO m VALUES (now() - interval '6 minutes', 'd1', 1)")
    assert marks(table) == before  # from five minutes on it was late before
    ask(table, "SELECT lakets.set_late_after('m', '1 minute')")
    ask(table, "INSERT INTO m VALUES (now() - interval '2 minutes', 'd1', 1)")
    assert marks(table) > before
    assert refreshed(table, "minutely")
    assert one(table, "SELECT complete_until FROM lakets._rollup_registry") > whole
    assert differences(table, "_rollup_minutely", MINUTELY) == []


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_what_counts_as_late_in_other_types_of_time(db: psycopg.Connection, kind: str) -> None:
    ask(db, f"CREATE TABLE n (ts {kind} NOT NULL, v int)")
    ask(db, "INSERT INTO n SELECT now() - g * interval '6 hours', g FROM generate_series(0, 40) g")
    ask(db, "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    query = "SELECT date_bin('1 day', ts::timestamp, '2000-01-01') AS day, sum(v) AS s FROM n GROUP BY 1"
    make(db, "days", query, "1 day")
    ask(db, "SET timezone = 'Pacific/Auckland'")
    ask(db, "SELECT lakets.set_late_after('n', '4 days')")
    for age in (1, 3, 5):
        ask(db, "INSERT INTO n SELECT (now() AT TIME ZONE 'UTC') - %s * interval '1 day', 5", age)
        assert differences(db, "_rollup_rt_days", query) == [], age
    assert refreshed(db, "days")
    assert differences(db, "_rollup_days", query) == []


def test_whoever_sets_what_is_late_waits_for_a_refresh(hourly: psycopg.Connection, dsn: str) -> None:
    """It would raise its watermark by what was late before."""
    with Session(dsn) as refresher, Session(dsn) as setter:
        refresher.run("SELECT lakets.refresh_rollup('hourly')")
        done = setter.start("SELECT lakets.set_late_after('m', '1 hour')")
        setter.wait_until_blocked()
        refresher.commit()
        done.result(60)
        assert not refreshed(hourly)
        setter.commit()
    assert refreshed(hourly)
    for wrong in ("NULL", "interval '0'", "interval '2 years'"):
        refused(hourly, f"SELECT lakets.set_late_after('m', {wrong})", "cannot take rows of public.m for late after")
    refused(hourly, "SELECT lakets.set_late_after('nowhere', '1 hour')", "is not a ChronoTable")


# ---- tracking that is off --------------------------------------------------------------------


def test_a_range_that_is_marked_by_hand_is_computed_though_tracking_is_off(hourly: psycopg.Connection) -> None:
    ask(hourly, LATE)
    ask(hourly, "SELECT lakets.disable_rollup_invalidation('hourly')")
    assert one(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log WHERE rollup_id IS NOT NULL") == 0
    assert refreshed(hourly)
    assert len(differences(hourly, "_rollup_hourly")) == 2
    around = "now() - interval '101 hours', now() - interval '99 hours'"
    assert one(hourly, f"SELECT lakets.invalidate_rollup_range('hourly', {around})") == 3
    assert differences(hourly, "_rollup_rt_hourly") == []
    ask(hourly, LATE.replace("100", "200"))  # goes unnoticed still
    assert refreshed(hourly)
    assert {row[0] for row in differences(hourly, "_rollup_hourly")} == {
        one(hourly, "SELECT lakets.time_bucket('1 hour', now() - interval '200 hours')")
    }
    assert one(hourly, "SELECT count(*) FROM lakets._rollup_pending(1)") == 0


# ---- what is said ----------------------------------------------------------------------------


def test_the_bucket_of_a_mark_is_right_or_not_told(table: psycopg.Connection) -> None:
    berlin = "lakets.time_bucket('1 day', ts, p_timezone => 'Europe/Berlin')"
    make(table)
    make(table, "local", f"SELECT {berlin} AS day, count(*) AS n FROM m GROUP BY 1", "1 day")
    make(table, "shifted", "SELECT date_bin('1 day', ts, '2000-01-01 07:00Z') AS day, count(*) AS n FROM m GROUP BY 1",
         "1 day")  # fmt: skip
    make(table, "daily", DAILY, "1 day")
    at = datetime.now(UTC).replace(hour=23, minute=30, second=0, microsecond=0) - timedelta(days=3)
    ask(table, "INSERT INTO m VALUES (%s, 'd1', 1)", at)
    marked = "lakets._rollup_registry g JOIN lakets._rollup_invalidation_log l"
    told = f"SELECT g.name, l.bucket_start, l.first_time FROM {marked}"
    hour = at.replace(minute=0)
    assert ask(table, f"{told} ON g.id = l.rollup_id ORDER BY 1") == [
        ("hourly", hour, at),
        ("local", None, at),
        ("shifted", None, at),
    ]
    assert refreshed(table)
    of_day = f"{told} ON g.id = l.rollup_id WHERE g.name = 'daily' AND l.first_time = %s"
    assert ask(table, of_day, hour) == [("daily", at.replace(hour=0, minute=0), hour)]


def holders(db: psycopg.Connection) -> list[str]:
    return [row[0] for row in ask(db, "SELECT reason FROM lakets.explain_rollup('hourly') WHERE item = 'holder'")]


def test_whoever_holds_the_watermark_is_named_with_the_database(
    hourly: psycopg.Connection, dsn: str, server: Server
) -> None:
    with server.database() as elsewhere, Session(elsewhere) as writer:
        name = psycopg.conninfo.conninfo_to_dict(elsewhere)["dbname"]
        writer.run("SELECT pg_current_xact_id()")
        assert any(
            f"process {writer.pid}" in who and who.endswith(f"in the database {name}") for who in holders(hourly)
        )
        with (
            role(dsn, "looker", "", "GRANT lakets_read TO {role}", "GRANT SELECT ON m TO {role}") as as_looker,
            psycopg.connect(as_looker, autocommit=True) as looker,
        ):
            (told,) = [who for who in holders(looker) if f"process {writer.pid}" in who]
            assert told.endswith(f"in the database {name}; since when is told to members of pg_read_all_stats")


# ---- its table goes --------------------------------------------------------------------------


def test_a_table_that_is_dropped_by_hand_takes_no_other_table_along(hourly: psycopg.Connection) -> None:
    """Its RollUps are forgotten, those first that are made from others; what they have stored stays."""
    ask(hourly, "CREATE TABLE other (ts timestamptz NOT NULL, k text, v int)")
    ask(hourly, "SELECT lakets.create_chronotable('other', 'ts', '1 day')")
    make(hourly, "fine", HOURLY.replace("FROM m", "FROM other"))
    make(hourly, "daily", DAILY, "1 day")
    ask(hourly, LATE)
    stored = one(hourly, "SELECT count(*) FROM _rollup_hourly")
    ask(hourly, "DROP TABLE m CASCADE")
    found = ask(hourly, "SELECT * FROM lakets._reconcile()")
    assert [row[0] for row in found] == ["public.m"]
    assert ask(hourly, "SELECT * FROM lakets._reconcile()") == []
    assert ask(hourly, "SELECT name FROM lakets._rollup_registry") == [("fine",)]
    assert one(hourly, "SELECT lakets._prune_marks()") == 0
    assert marks(hourly) == 0
    assert one(hourly, "SELECT count(*) FROM _rollup_hourly") == stored
    assert ask(hourly, "SELECT to_regclass('_rollup_rt_hourly'), to_regclass('_rollup_rt_daily')") == [(None, None)]
    assert ask(
        hourly, "SELECT object, evidence ->> 'table' FROM thermocline.audit WHERE action = 'rollup_gone' ORDER BY id"
    ) == [("daily", "public._rollup_daily"), ("hourly", "public._rollup_hourly")]
    ask(hourly, "INSERT INTO other VALUES (now(), 'd1', 1)")
    assert refreshed(hourly, "fine")
    assert one(hourly, "SELECT total FROM _rollup_fine") == 1
