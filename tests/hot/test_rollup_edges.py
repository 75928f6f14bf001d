"""RollUps where two things meet: a drop and a refresh, a RollUp and its source, odd keys, odd clocks, odd hands."""

from __future__ import annotations

import psycopg
import pytest

from harness.questions import ask, one
from harness.roles import role
from harness.rollups import HOURLY, LATE, differences, make, refreshed
from harness.sessions import Session
from thermocline.gate import drop

DAILY = (
    "SELECT lakets.time_bucket('1 day', bucket) AS day, k, sum(total) AS total, sum(n) AS n"
    " FROM _rollup_hourly GROUP BY 1, 2"
)


def table(db: psycopg.Connection, newest: int = 0) -> None:
    """Ten days, every ten minutes; the newest row is so many rows old."""
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, k text, v int)")
    rows = "now() - g * interval '10 minutes', nullif('d' || g %% 4, 'd3'), g FROM generate_series(%s, 1440) g"
    ask(db, f"INSERT INTO m SELECT {rows}", newest)
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")


@pytest.fixture
def hourly(db: psycopg.Connection) -> psycopg.Connection:
    table(db)
    make(db)
    return db


# ---- two at once -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["SQL", "worker"])
def test_r3_a_drop_does_not_pass_a_refresh_that_computes_what_leaves(
    db: psycopg.Connection, dsn: str, way: str
) -> None:
    """The newest bucket is in an old chunk, so a refresh computes it once more, from rows that are about to leave."""
    table(db, newest=432)
    make(db)
    before = ask(db, "TABLE _rollup_rt_hourly ORDER BY 1, 2")
    chunk = one(db, "SELECT tableoid::bigint FROM m ORDER BY ts DESC LIMIT 1")
    newest = "(SELECT max(bucket) FROM _rollup_hourly)"
    ask(db, f"UPDATE _rollup_hourly SET total = 0 WHERE bucket = {newest}")
    with Session(dsn) as holder, Session(dsn) as refreshing:
        holder.run(f"SELECT FROM _rollup_hourly WHERE bucket = {newest} FOR UPDATE")
        done = refreshing.start("SELECT lakets.refresh_rollup('hourly')")
        refreshing.wait_until_blocked()
        if way == "SQL":
            assert one(db, "SELECT lakets.drop_chunks('m', '1 day')") == 0
        else:
            outcome = drop.drop_chunk(dsn, chunk, gated=False, patience=1)
            assert outcome.reason is not None
            assert outcome.reason.code == "busy"
        holder.rollback()
        assert done.result(60) == [(True,)]
        refreshing.commit()
    assert ask(db, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == before
    assert one(db, "SELECT lakets.drop_chunks('m', '1 day')") > 0
    assert refreshed(db)
    assert ask(db, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == before


def test_r8_a_rollup_is_not_refreshed_while_what_it_is_made_from_is(db: psycopg.Connection, dsn: str) -> None:
    """It is days behind: it would raise its watermark past what the other is about to mark."""
    table(db, newest=1152)
    make(db)
    make(db, "daily", DAILY, "1 day")
    ask(db, "INSERT INTO m SELECT now() - g * interval '10 minutes', 'd1', g FROM generate_series(0, 1151) g")
    assert refreshed(db)
    ask(db, "INSERT INTO m VALUES (now() - interval '9 days', 'd1', 1000000)")
    with Session(dsn) as other:
        other.run("SELECT lakets.refresh_rollup('hourly')")
        assert not refreshed(db, "daily")
        other.commit()
    assert refreshed(db, "daily")
    assert differences(db, "_rollup_daily", DAILY) == []


def test_r8_what_a_rollup_is_made_from_stands_still_while_it_is_made(hourly: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as making:
        making.run("SELECT lakets.create_rollup('daily', %s, '1 day')", [DAILY])
        ask(hourly, LATE)
        assert not refreshed(hourly)
        making.commit()
    ask(hourly, "SELECT lakets.create_rollup_view('daily', NULL)")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_rt_daily", DAILY) == []


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_r4_no_rollup_is_made_under_an_older_snapshot(hourly: psycopg.Connection, dsn: str, level: str) -> None:
    with Session(dsn) as making:
        making.run(f"SET TRANSACTION ISOLATION LEVEL {level}")
        with pytest.raises(psycopg.errors.RaiseException, match=f"cannot make the RollUp second: .* {level}"):
            making.run("SELECT lakets.create_rollup('second', %s)", [HOURLY])
        making.rollback()
    assert len(ask(hourly, "SELECT name FROM lakets.show_rollups()")) == 1


# ---- what leaves by other ways ---------------------------------------------------------------


def test_r2_a_forced_drop_hides_what_was_marked_and_not_taken_in(hourly: psycopg.Connection) -> None:
    ask(hourly, LATE)
    at, chunk = ask(hourly, "SELECT lakets.time_bucket('1 hour', ts), tableoid::bigint FROM m WHERE v = 1000000")[0]
    before = ask(hourly, "SELECT * FROM _rollup_rt_hourly WHERE bucket <> %s ORDER BY 1, 2", at)
    ask(hourly, "SELECT thermocline._drop_chunk(%s::oid, NULL, false, true)", chunk)
    assert ask(hourly, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == before
    assert one(hourly, "SELECT %s <@ incomplete FROM lakets._rollup_registry", at)
    assert refreshed(hourly)
    assert ask(hourly, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == before


def late_chunk(db: psycopg.Connection) -> tuple[str, str]:
    """The chunk of the late row, and its bound."""
    chunk = one(
        db,
        "SELECT chunk_oid::regclass::text FROM lakets._chunk_metadata"
        " WHERE now() - interval '100 hours' >= range_start AND now() - interval '100 hours' < range_end",
    )
    return chunk, one(db, "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = %s::regclass", chunk)


def test_r3_a_chunk_that_was_away_for_a_while(hourly: psycopg.Connection) -> None:
    """Detached by hand, written to, and attached again: nothing is computed from what is left meanwhile."""
    stored = ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2")
    ask(hourly, LATE)
    chunk, bound = late_chunk(hourly)
    ask(hourly, f"ALTER TABLE m DETACH PARTITION {chunk}")
    assert refreshed(hourly)
    assert ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2") == stored
    ask(hourly, f"INSERT INTO {chunk} SELECT ts, 'd2', 5 FROM {chunk} LIMIT 1")
    assert refreshed(hourly)
    ask(hourly, f"ALTER TABLE m ATTACH PARTITION {chunk} {bound}")
    assert differences(hourly, "_rollup_rt_hourly", HOURLY) == []
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly", HOURLY) == []


def test_r3_a_chunk_that_the_worker_gives_back(hourly: psycopg.Connection) -> None:
    chunk, bound = late_chunk(hourly)
    ask(
        hourly,
        "INSERT INTO thermocline.detaching (chunk_oid, chronotable_id, bound, gated, reason) SELECT chunk_oid,"
        " chronotable_id, %s, false, 'test' FROM lakets._chunk_metadata WHERE chunk_oid = %s::regclass",
        bound,
        chunk,
    )
    ask(hourly, f"ALTER TABLE m DETACH PARTITION {chunk}")
    ask(hourly, f"INSERT INTO {chunk} SELECT ts, k, 1000000 FROM {chunk} LIMIT 1")
    ask(hourly, "SELECT thermocline._attach_back(%s::regclass, 'test')", chunk)
    assert differences(hourly, "_rollup_rt_hourly", HOURLY) == []


def test_r1_a_chunk_that_was_dropped_by_hand_leaves_what_was_stored(hourly: psycopg.Connection) -> None:
    stored = ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2")
    chunk, _ = late_chunk(hourly)
    ask(hourly, f"DROP TABLE {chunk}")
    assert refreshed(hourly)
    ask(hourly, "SELECT * FROM lakets._reconcile()")
    assert refreshed(hourly)
    assert ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2") == stored
    assert ask(hourly, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == stored


def test_a_renamed_time_column_is_said_by_view_refresh_and_drop(hourly: psycopg.Connection) -> None:
    ask(hourly, "ALTER TABLE m RENAME ts TO at")
    ask(hourly, LATE)
    for statement in (
        "TABLE _rollup_rt_hourly",
        "SELECT lakets.refresh_rollup('hourly')",
        "SELECT lakets.drop_chunks('m', '2 days')",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match=r"RollUp hourly.*column"):
            ask(hourly, statement)
    ask(hourly, "ALTER TABLE m RENAME at TO ts")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly", HOURLY) == []


def test_a_table_below_another_one_is_watched(hourly: psycopg.Connection) -> None:
    ask(hourly, "CREATE TABLE big (ts timestamptz NOT NULL, k text, v int) PARTITION BY RANGE (ts)")
    ask(hourly, "ALTER TABLE big ATTACH PARTITION m FOR VALUES FROM ('2020-01-01') TO ('2040-01-01')")
    ask(hourly, LATE)
    assert differences(hourly, "_rollup_rt_hourly", HOURLY) == []


# ---- odd keys and clocks ---------------------------------------------------------------------

KEYS = {
    "float8": ("float8", "(g % 3) / 7.0", "SET extra_float_digits = 0", "RESET ALL"),
    "interval": ("interval", "(g % 3) * interval '24 hours'", "SET intervalstyle = 'sql_standard'", "RESET ALL"),
    "bytea": ("bytea", "decode('0' || g % 3, 'hex')", "RESET ALL", "SET bytea_output = 'escape'"),
    "array": ("int[]", "ARRAY[g % 3, 1]", "RESET ALL", "RESET ALL"),
    "jsonb": ("jsonb", "to_jsonb('d' || g % 3)", "RESET ALL", "RESET ALL"),
    "range": (
        "tstzrange",
        "tstzrange('2026-01-01Z'::timestamptz + g % 3 * interval '1 day', NULL)",
        "RESET ALL",
        "SET timezone = 'Asia/Tokyo'",
    ),
    "numeric": ("numeric", "(ARRAY['NaN', 'Infinity', '2.0']::numeric[])[g % 3 + 1]", "RESET ALL", "RESET ALL"),
    "timestamptz": (
        "timestamptz",
        "'2026-01-01Z'::timestamptz + g % 3 * interval '1 day'",
        "SET datestyle = 'SQL, DMY'",
        "SET timezone = 'Asia/Tokyo'",
    ),
}


@pytest.mark.parametrize("kind", KEYS)
def test_r7_keys_of_any_type_whatever_sessions_have_set(db: psycopg.Connection, kind: str) -> None:
    of_type, value, writer, reader = KEYS[kind]
    ask(db, f"CREATE TABLE m (ts timestamptz NOT NULL, k {of_type}, v int)")
    ask(db, f"INSERT INTO m SELECT now() - g * interval '10 minutes', {value}, g FROM generate_series(0, 1000) g")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    make(db)
    ask(db, writer)
    ask(db, "INSERT INTO m SELECT ts, k, 1000000 FROM m WHERE v BETWEEN 700 AND 702")
    ask(db, reader)
    assert differences(db, "_rollup_rt_hourly", HOURLY) == []
    assert refreshed(db)
    assert differences(db, "_rollup_hourly", HOURLY) == []


@pytest.mark.parametrize(
    ("interval", "zone", "at"),
    [
        ("2 hours", "Europe/Berlin", "2026-03-28 23:07"),
        ("2 hours", "Europe/Berlin", "2026-03-29 01:07"),
        ("2 hours", "Europe/Berlin", "2026-10-25 00:07"),
        ("1 hour", "Australia/Lord_Howe", "2026-10-03 14:37"),
        ("1 hour", "Australia/Lord_Howe", "2026-04-04 14:37"),
        ("1 day", "Europe/Berlin", "2026-03-29 12:07"),
    ],
)
@pytest.mark.parametrize("key", ["'d1'", "NULL"])
def test_r14_buckets_beside_the_change_of_a_clock(
    db: psycopg.Connection, interval: str, zone: str, at: str, key: str
) -> None:
    query = (
        f"SELECT lakets.time_bucket('{interval}', ts, p_timezone => '{zone}') AS bucket, k, count(*) AS n, sum(v) AS s"
        " FROM m GROUP BY 1, 2"
    )
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, k text, v int)")
    rows = f"'{at}+00'::timestamptz - interval '2 days' + g * interval '15 minutes', 'd' || g % 3, g"
    ask(db, f"INSERT INTO m SELECT {rows} FROM generate_series(0, 500) g")
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 month')")
    make(db, query=query, interval=interval)
    ask(db, f"INSERT INTO m VALUES ('{at}+00', {key}, 1)")
    assert differences(db, "_rollup_rt_hourly", query) == []
    assert refreshed(db)
    assert differences(db, "_rollup_hourly", query) == []
    around = f"'{at}+00'::timestamptz - interval '1 day', '{at}+00'::timestamptz + interval '1 day'"
    ask(db, f"SELECT lakets.invalidate_rollup_range('hourly', {around})")
    assert differences(db, "_rollup_rt_hourly", query) == []
    assert refreshed(db)
    assert differences(db, "_rollup_hourly", query) == []


# ---- odd questions ---------------------------------------------------------------------------


def test_months_and_days_in_one_interval_are_refused(hourly: psycopg.Connection) -> None:
    monthly = "SELECT lakets.time_bucket('1 month', ts) AS month, count(*) AS n FROM m GROUP BY 1"
    with pytest.raises(psycopg.errors.RaiseException, match="months and days or hours"):
        ask(hourly, "SELECT lakets.create_rollup('monthly', %s, '1 mon 1 day')", monthly)
    make(hourly, "monthly", monthly, "1 month")
    ask(hourly, LATE)
    assert differences(hourly, "_rollup_rt_monthly", monthly) == []


def test_one_column_as_two_keys(db: psycopg.Connection) -> None:
    table(db)
    query = "SELECT lakets.time_bucket('1 hour', ts) AS bucket, k, k AS k2, sum(v) AS total FROM m GROUP BY 1, 2, 3"
    make(db, query=query)
    ask(db, LATE)
    assert differences(db, "_rollup_rt_hourly", query) == []
    assert refreshed(db)
    assert differences(db, "_rollup_hourly", query) == []


@pytest.mark.parametrize("name", ["t", "x", "s", "c", "a%s", "is_stored"])
def test_columns_may_be_called_anything(db: psycopg.Connection, name: str) -> None:
    ask(db, f'CREATE TABLE m ("{name}" timestamptz NOT NULL, k text, v int)')
    ask(db, "INSERT INTO m SELECT now() - g * interval '1 hour', 'k', g FROM generate_series(0, 99) g")
    ask(db, "SELECT lakets.create_chronotable('m', %s, '1 day')", name)
    query = f'SELECT lakets.time_bucket(\'1 hour\', "{name}") AS "{name}", k, sum(v) AS total FROM m GROUP BY 1, 2'
    make(db, query=query)
    ask(db, "INSERT INTO m VALUES (now() - interval '50 hours', 'k', 1)")
    assert differences(db, "_rollup_rt_hourly", query) == []
    assert refreshed(db)
    assert ask(db, "SELECT * FROM lakets.check_rollup('hourly')") == []
    ask(db, "DELETE FROM _rollup_hourly WHERE total BETWEEN 10 AND 49")
    assert one(db, "SELECT lakets.repair_rollup('hourly', NULL, '294276-12-31 23:59:59')") > 30
    assert differences(db, "_rollup_hourly", query) == []


@pytest.mark.parametrize(
    "bucket",
    [
        "public.evil(m.ts)",
        "date_bin('1 hour', m.ts::evild, '2000-01-01')",
        "m.date(m.ts)",
        "m.ts::m.date",
        "(SELECT now())",
    ],
)
def test_nothing_but_buckets_of_time_is_evaluated_for_readers(hourly: psycopg.Connection, bucket: str) -> None:
    """Readers of the view have it done with the installer's rights, and lakets_admin may write to the registry."""
    ask(hourly, "CREATE TABLE ran (who text)")
    ask(
        hourly,
        "CREATE FUNCTION evil(timestamptz) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN INSERT INTO public.ran VALUES (current_user); RETURN $1; END $$",
    )
    ask(hourly, "CREATE DOMAIN pg_temp.evild AS timestamptz CHECK (public.evil(VALUE) IS NOT NULL)")
    ask(hourly, LATE)
    ask(hourly, "UPDATE lakets._rollup_registry SET bucket_expression = %s", bucket)
    with pytest.raises(psycopg.errors.RaiseException, match="is not a function of ts alone"):
        ask(hourly, "TABLE _rollup_rt_hourly")
    domain = HOURLY.replace("ts)", "ts::pg_temp.evild)")
    with pytest.raises(psycopg.errors.RaiseException, match=r"of ts alone|may differ"):
        ask(hourly, "SELECT lakets.create_rollup('second', %s)", domain)
    assert ask(hourly, "TABLE ran") == []


def test_a_bucket_that_has_lost_rows_holds_no_chunk(db: psycopg.Connection) -> None:
    """Made after the first days of the month have left, it shows nothing of the month and needs nothing of it."""
    table(db)
    ask(db, "SELECT lakets.drop_chunks('m', '8 days')")
    oldest = one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')")
    wide = "SELECT lakets.time_bucket('400 days', ts) AS bucket, count(*) AS n FROM m GROUP BY 1"
    make(db, "wide", wide, "400 days")
    assert ask(db, "TABLE _rollup_rt_wide") == []
    assert one(db, "SELECT lakets.drop_chunks('m', '5 days')") > 0
    assert one(db, "SELECT min(range_start) FROM lakets.show_chunks('m')") > oldest


def test_a_rollup_whose_table_is_gone_says_so(hourly: psycopg.Connection, dsn: str) -> None:
    ask(hourly, "DROP VIEW _rollup_rt_hourly")
    ask(hourly, "DROP TABLE _rollup_hourly")
    for call in ("refresh_rollup", "check_rollup", "explain_rollup", "repair_rollup", "disable_rollup_invalidation"):
        with pytest.raises(
            psycopg.errors.RaiseException, match="the table of the RollUp hourly was dropped"
        ) as refusal:
            ask(hourly, f"SELECT lakets.{call}('hourly')")
        assert "lakets.drop_rollup('hourly')" in str(refusal.value.diag.message_hint)
    ask(hourly, "SELECT lakets.drop_rollup('hourly')")
    assert ask(hourly, "SELECT * FROM lakets.show_rollups()") == []


def test_only_its_owner_decides_over_a_rollup(hourly: psycopg.Connection, dsn: str) -> None:
    calls = (
        "disable_rollup_invalidation('hourly')",
        "enable_rollup_invalidation('hourly')",
        "invalidate_rollup_range('hourly', now() - interval '1 day', now())",
        "repair_rollup('hourly')",
    )
    with (
        role(dsn, "platform", "", "GRANT lakets_admin TO {role}", "GRANT SELECT ON m TO {role}") as as_platform,
        psycopg.connect(as_platform, autocommit=True) as other,
    ):
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"owner of table public\._rollup_hourly"):
                ask(other, f"SELECT lakets.{call}")
    assert one(hourly, "SELECT tracked FROM lakets._rollup_registry")
