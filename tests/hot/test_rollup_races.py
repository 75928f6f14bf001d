"""RollUps beside what others do meanwhile: drops, long writers, crashes, clocks, and chunks that change hands."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.crash_servers import crash_server
from harness.questions import ask, one
from harness.rollups import HOURLY, LATE, differences, make, refreshed
from harness.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fill(db: psycopg.Connection) -> None:
    """Ten days, every ten minutes, in chunks of a day."""
    ask(db, "CREATE TABLE m (ts timestamptz NOT NULL, k text, v int)")
    ask(
        db,
        "INSERT INTO m SELECT now() - g * interval '10 minutes', nullif('d' || g % 4, 'd3'), g"
        " FROM generate_series(0, 1440) g",
    )
    ask(db, "SELECT lakets.create_chronotable('m', 'ts', '1 day')")


@pytest.fixture
def table(db: psycopg.Connection) -> psycopg.Connection:
    fill(db)
    return db


@pytest.fixture
def hourly(table: psycopg.Connection) -> psycopg.Connection:
    make(table)
    return table


# ---- the RollUp goes while somebody writes ---------------------------------------------------


def test_a_late_writer_does_not_mind_that_the_only_rollup_is_disabled(hourly: psycopg.Connection, dsn: str) -> None:
    """It has looked whether there is one, and finds none when it marks."""
    with Session(dsn) as holder, Session(dsn) as writer:
        holder.run("LOCK TABLE thermocline.dropped_range IN ACCESS EXCLUSIVE MODE")
        done = writer.start(LATE)
        writer.wait_until_blocked()
        ask(hourly, "SELECT lakets.disable_rollup_invalidation('hourly')")
        holder.rollback()
        assert done.result(60) == []
        writer.commit()
    marks = ask(hourly, "SELECT rollup_id, told FROM lakets._rollup_invalidation_log")
    assert marks == [(None, [])]
    assert one(hourly, "SELECT count(*) FROM m WHERE v = 1000000") == 1


def test_a_rollup_is_dropped_beside_an_open_late_writer_and_leaves_nothing(
    hourly: psycopg.Connection, dsn: str
) -> None:
    with Session(dsn) as writer, Session(dsn) as dropper:
        writer.run(LATE)
        dropper.run("SET lock_timeout = '1 ms'")  # it has to wait for nobody
        dropper.run("SELECT lakets.drop_rollup('hourly')")
        writer.run(LATE)
        dropper.commit()
        writer.run(LATE)
        assert one(hourly, "SELECT lakets._prune_marks()") == 0
        writer.commit()
    assert one(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log WHERE rollup_id IS NOT NULL") == 2
    assert one(hourly, "SELECT lakets._prune_marks()") == 5
    assert one(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log") == 0


def test_marks_of_a_rollup_that_is_there_are_not_pruned(hourly: psycopg.Connection) -> None:
    ask(hourly, LATE)
    assert one(hourly, "SELECT lakets._prune_marks()") == 0
    assert differences(hourly, "_rollup_rt_hourly") == []


# ---- clocks ----------------------------------------------------------------------------------

MINUTELY = HOURLY.replace("1 hour", "1 minute")


def test_nothing_is_lost_while_the_clock_is_behind_the_watermark(table: psycopg.Connection) -> None:
    """As after a clock that was two hours ahead: what comes now is fresh, and lies in what is whole already."""
    make(table, "minutely", MINUTELY, "1 minute")
    assert refreshed(table, "minutely")
    ahead = "lakets.time_bucket('1 minute', now() + interval '2 hours')"
    ask(
        table,
        f"UPDATE lakets._rollup_registry SET watermark = {ahead}, frontier_at = {ahead}, complete_until = {ahead}",
    )
    assert refreshed(table, "minutely")
    for value in range(3):
        ask(table, "INSERT INTO m VALUES (now(), 'd1', %s)", value)
        assert differences(table, "_rollup_rt_minutely", MINUTELY) == []
        assert refreshed(table, "minutely")
        assert differences(table, "_rollup_minutely", MINUTELY) == []
    reasons = ask(table, "SELECT DISTINCT reason FROM lakets.explain_rollup('minutely') WHERE item = 'marks'")
    assert reasons == [("clock_set_back",)]


# ---- chunks that change hands ----------------------------------------------------------------


def old_chunk(db: psycopg.Connection) -> tuple[str, str]:
    """One of four days ago, and its bound."""
    chunk = one(
        db, "SELECT tableoid::regclass::text FROM m WHERE ts < now() - interval '99 hours' ORDER BY ts DESC LIMIT 1"
    )
    return chunk, one(db, "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = %s::regclass", chunk)


def write_while_away(db: psycopg.Connection, chunk: str, bound: str) -> None:
    """A row that no trigger sees."""
    ask(db, f"ALTER TABLE m DETACH PARTITION {chunk}")
    ask(db, f"INSERT INTO {chunk} SELECT ts, 'd2', 5 FROM {chunk} LIMIT 1")
    ask(db, f"ALTER TABLE m ATTACH PARTITION {chunk} {bound}")


def attach_filled(db: psycopg.Connection, day: datetime) -> None:
    """A table with 24 rows of that day, made and attached by hand, so that nobody has registered it."""
    ask(db, "CREATE TABLE filled (LIKE m)")
    hours = "generate_series(0, 23) g"
    ask(db, f"INSERT INTO filled SELECT %s::timestamptz + g * interval '1 hour', 'd1', g FROM {hours}", day)
    bounds = f"FROM ('{day}') TO ('{day}'::timestamptz + interval '1 day')"
    ask(db, f"ALTER TABLE m ATTACH PARTITION filled FOR VALUES {bounds}")


def pending(db: psycopg.Connection) -> int:
    return int(one(db, "SELECT count(*) FROM lakets._rollup_registry g, lakets._rollup_pending(g.id)"))


def test_a_refresh_sees_a_table_that_was_attached(hourly: psycopg.Connection) -> None:
    day = one(hourly, "SELECT min(range_start) - interval '1 day' FROM lakets.show_chunks('m')")
    assert refreshed(hourly)
    attach_filled(hourly, day)
    assert refreshed(hourly)
    assert (
        one(hourly, "SELECT count(*) FROM _rollup_hourly WHERE bucket < %s::timestamptz + interval '1 day'", day) == 24
    )
    assert differences(hourly, "_rollup_hourly") == []
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert pending(hourly) == 0


@pytest.mark.parametrize("end", ["ALTER TABLE m DETACH PARTITION filled", "DROP TABLE filled"])
def test_a_refresh_sees_that_a_table_is_gone_which_nobody_has_registered(hourly: psycopg.Connection, end: str) -> None:
    (first,) = ask(hourly, "SELECT bucket, n FROM _rollup_hourly ORDER BY 1 LIMIT 1")
    day = one(hourly, "SELECT min(range_start) - interval '3 days' FROM lakets.show_chunks('m')")
    attach_filled(hourly, day)
    assert refreshed(hourly)
    assert one(hourly, "SELECT count(*) FROM _rollup_hourly WHERE bucket < %s", first[0]) == 24
    ask(hourly, end)
    assert refreshed(hourly)
    assert ask(hourly, "SELECT bucket, n FROM _rollup_hourly ORDER BY 1 LIMIT 1") == [first]
    assert differences(hourly, "_rollup_hourly") == []
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert pending(hourly) == 0
    ask(hourly, "TRUNCATE _rollup_hourly")
    ask(hourly, f"ALTER TABLE m DETACH PARTITION {old_chunk(hourly)[0]}")
    assert refreshed(hourly), "one that has no bucket"


def test_a_refresh_sees_a_chunk_that_was_away_between_two_refreshes(hourly: psycopg.Connection) -> None:
    chunk, bound = old_chunk(hourly)
    assert refreshed(hourly)
    write_while_away(hourly, chunk, bound)
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert pending(hourly) == 0


def test_a_chunk_that_was_away_is_not_dropped_before_it_is_taken_in(hourly: psycopg.Connection) -> None:
    chunk, bound = old_chunk(hourly)
    assert refreshed(hourly)
    write_while_away(hourly, chunk, bound)
    right = ask(hourly, f"{HOURLY} ORDER BY 1, 2")
    assert one(hourly, "SELECT lakets.drop_chunks('m', '2 days')") > 3
    assert ask(hourly, "TABLE _rollup_hourly ORDER BY 1, 2") == right
    assert ask(hourly, "TABLE _rollup_rt_hourly ORDER BY 1, 2") == right


def test_a_refresh_sees_values_that_were_rewritten(hourly: psycopg.Connection) -> None:
    query = "SELECT lakets.time_bucket('1 hour', ts) AS bucket, max(k) AS k FROM m GROUP BY 1"
    make(hourly, "texts", query)
    ask(hourly, "DROP VIEW _rollup_rt_texts, _rollup_rt_hourly")
    ask(hourly, "ALTER TABLE m ALTER k TYPE text USING k || 'x'")
    assert refreshed(hourly, "texts")
    assert differences(hourly, "_rollup_texts", query) == []


def test_a_chunk_that_is_new_and_one_that_is_truncated_are_no_work_for_later(hourly: psycopg.Connection) -> None:
    assert refreshed(hourly)
    ask(hourly, "SELECT lakets._ensure_partitions(1, 1, 3, now() - interval '12 days', now())")
    chunk, _ = old_chunk(hourly)
    ask(hourly, f"TRUNCATE {chunk}")
    assert refreshed(hourly)
    assert pending(hourly) == 0
    assert differences(hourly, "_rollup_hourly") == []


# ---- a refresh in a transaction that goes on -------------------------------------------------


def test_what_a_transaction_writes_after_its_own_refresh_is_in_the_next_one(
    hourly: psycopg.Connection, dsn: str
) -> None:
    """Nobody else writes to the database, so the next refresh is tempted to do nothing."""
    with psycopg.connect(dsn) as session:
        session.execute("SELECT lakets.refresh_rollup('hourly')")
        session.execute("INSERT INTO m VALUES (now(), 'd1', -7)")
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []
    for written in (
        "DELETE FROM m WHERE v = -7",
        "INSERT INTO m VALUES (now(), 'd1', -8)",
        "UPDATE m SET v = -9 WHERE v = -8",
    ):
        with hourly.transaction():
            for _ in range(2):
                assert refreshed(hourly)
            ask(hourly, written)
        assert refreshed(hourly)
        assert differences(hourly, "_rollup_hourly") == [], written


# ---- long writers ----------------------------------------------------------------------------

PARTS = HOURLY.replace("1 hour", "250 milliseconds")


def watermark(db: psycopg.Connection) -> datetime:
    found = one(db, "SELECT watermark FROM lakets._rollup_registry")
    assert isinstance(found, datetime)
    return found


def stays_below_an_open_writer(db: psycopg.Connection, dsn: str, way: str) -> None:
    """Buckets of a quarter of a second, late after 20 ms: without the writer the watermark would soon pass its row."""
    ask(db, "SELECT lakets.set_late_after('m', '20 milliseconds')")
    make(db, "parts", PARTS, "250 milliseconds")
    with Session(dsn) as writer:
        if way == "savepoint":
            writer.run("INSERT INTO m VALUES (now() - interval '2 days', 'before', 1)")
            writer.run("SAVEPOINT one")
        ((bucket,),) = writer.run(
            "INSERT INTO m VALUES (clock_timestamp(), 'slow', 1) RETURNING lakets.time_bucket('250 milliseconds', ts)"
        )
        if way == "savepoint":
            writer.run("RELEASE one")
        elif way == "prepared":
            writer.run("PREPARE TRANSACTION 'slow'")
        beyond = bucket + timedelta(seconds=1)
        while one(db, "SELECT clock_timestamp()") < beyond:
            ask(db, "INSERT INTO m VALUES (clock_timestamp(), 'others', 1)")
            assert refreshed(db, "parts")
            assert watermark(db) <= bucket
        if way == "prepared":
            ask(db, "COMMIT PREPARED 'slow'")
        else:
            writer.commit()
    assert differences(db, "_rollup_rt_parts", PARTS) == []
    deadline = time.monotonic() + 60
    while watermark(db) <= bucket:  # it moves on as soon as nobody holds it
        assert time.monotonic() < deadline
        ask(db, "INSERT INTO m VALUES (clock_timestamp(), 'others', 1)")
        assert refreshed(db, "parts")
    assert differences(db, "_rollup_parts", PARTS) == []
    assert differences(db, "_rollup_rt_parts", PARTS) == []


@pytest.mark.parametrize("way", ["commit", "savepoint"])
def test_r13_the_watermark_stays_below_a_row_that_somebody_has_not_committed_yet(
    table: psycopg.Connection, dsn: str, way: str
) -> None:
    stays_below_an_open_writer(table, dsn, way)


@pytest.mark.slow
def test_r13_the_watermark_stays_below_a_row_of_a_prepared_transaction(tmp_path: Path, major: int) -> None:
    """On a server of its own, which has prepared transactions."""
    with (
        crash_server(tmp_path, major) as own,
        own.server().template() as template,
        own.server().database(template) as dsn,
        psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC") as db,
    ):
        fill(db)
        stays_below_an_open_writer(db, dsn, "prepared")


# ---- a refresh that waits, or dies -----------------------------------------------------------


def test_a_refresh_that_is_killed_has_done_nothing(hourly: psycopg.Connection, dsn: str) -> None:
    assert refreshed(hourly)
    ask(hourly, LATE)
    before = ask(hourly, "SELECT watermark, seen, frontier_xid FROM lakets._rollup_registry")
    with Session(dsn) as holder, Session(dsn) as refresher:
        holder.run("LOCK TABLE _rollup_hourly IN SHARE MODE")
        done = refresher.start("SELECT lakets.refresh_rollup('hourly')")
        refresher.wait_until_blocked()
        assert one(hourly, "SELECT pg_terminate_backend(%s, 60000)", refresher.pid)
        with pytest.raises(psycopg.OperationalError):
            done.result(60)
        holder.rollback()
    assert ask(hourly, "SELECT watermark, seen, frontier_xid FROM lakets._rollup_registry") == before
    assert one(hourly, "SELECT count(*) FROM lakets._rollup_invalidation_log WHERE rollup_id = 1") == 1
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert len(differences(hourly, "_rollup_hourly")) == 2
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


def test_a_late_row_that_comes_while_a_refresh_waits_is_in_the_next_one(hourly: psycopg.Connection, dsn: str) -> None:
    ask(hourly, LATE)
    with Session(dsn) as holder, Session(dsn) as refresher:
        holder.run("LOCK TABLE _rollup_hourly IN SHARE MODE")
        done = refresher.start("SELECT lakets.refresh_rollup('hourly')")
        refresher.wait_until_blocked()
        ask(hourly, LATE.replace("1000000", "2000000"))
        ask(hourly, "INSERT INTO m VALUES (now() - interval '50 hours', 'd2', 3000000)")
        holder.rollback()
        assert done.result(60) == [(True,)]
        refresher.commit()
    assert differences(hourly, "_rollup_rt_hourly") == []
    assert refreshed(hourly)
    assert differences(hourly, "_rollup_hourly") == []


# ---- many buckets at once --------------------------------------------------------------------


@pytest.mark.promise("004-28", "004-29")
def test_a_refresh_takes_many_buckets_a_hundred_at_a_time(hourly: psycopg.Connection) -> None:
    """Every other hour of ten days is marked for all keys: 120 buckets that do not touch each other."""
    assert refreshed(hourly)
    ask(hourly, "CREATE TABLE statements (kind text, rows bigint)")
    ask(
        hourly,
        "CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.statements SELECT TG_OP, count(DISTINCT bucket) FROM changed; RETURN NULL; END $$",
    )
    ask(
        hourly,
        "CREATE TRIGGER counted AFTER DELETE ON _rollup_hourly REFERENCING OLD TABLE AS changed"
        " FOR EACH STATEMENT EXECUTE FUNCTION counted()",
    )
    times = "generate_series(now() - interval '10 days' + interval '2 hours', now() - interval '3 hours', '2 hours') t"
    ask(hourly, f"SELECT lakets.invalidate_rollup_range('hourly', t, t) FROM {times}")
    marked = one(hourly, "SELECT count(*) FROM lakets._rollup_pending(1)")
    assert 100 < marked < 200
    assert refreshed(hourly)
    taken = [row[0] for row in ask(hourly, "SELECT rows FROM statements WHERE kind = 'DELETE' AND rows > 2")]
    assert sorted(taken) == [marked - 100, 100]
    assert differences(hourly, "_rollup_hourly") == []


# ---- how the view is read --------------------------------------------------------------------


def scanned(plan: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Tables that were read, and how many rows of each were looked at."""
    if "Relation Name" in plan and plan["Actual Loops"]:
        looked = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        yield plan["Relation Name"], round(looked * plan["Actual Loops"])
    for below in plan.get("Plans", []):
        yield from scanned(below)


def test_the_view_reads_what_a_question_is_about(hourly: psycopg.Connection) -> None:
    """A day of one device, with a late row in it: not the other chunks, and not the other devices."""
    ask(hourly, "INSERT INTO m SELECT ts, 'x' || g, 1 FROM m, generate_series(1, 100) g WHERE k = 'd1'")
    ask(hourly, "CREATE INDEX ON m (k, ts)")
    assert refreshed(hourly)
    ask(hourly, LATE)
    ask(hourly, "ANALYZE m, _rollup_hourly")
    of_chunks = "SELECT DISTINCT m.tableoid::regclass::text FROM m WHERE"
    late = one(hourly, f"{of_chunks} v = 1000000")
    hours = "(SELECT l.ts FROM m l WHERE v = 1000000) {} interval '3 hours'"  # its bucket may end with the day
    near = ask(hourly, f"{of_chunks} ts BETWEEN {hours.format('-')} AND {hours.format('+')}")
    newest = ask(hourly, f"{of_chunks} ts >= lakets._rollup_watermark('hourly')")
    whole = one(hourly, "SELECT count(*) FROM _rollup_hourly")
    asked = "k = 'd1' AND bucket >= now() - interval '110 hours' AND bucket < now() - interval '90 hours'"
    (explained,) = one(hourly, f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM _rollup_rt_hourly WHERE {asked}")
    read: dict[str, int] = {}
    for table, rows in scanned(explained["Plan"]):
        read[table] = read.get(table, 0) + rows
    chunks = {table: rows for table, rows in read.items() if table.startswith("m_") and rows}
    assert late in chunks
    assert chunks.keys() <= {name for (name,) in near + newest}
    # The hour of the late row, and the rows from the watermark on: of one device, but of a day too young for an index.
    young = {table for (table,) in newest if one(hourly, f"SELECT count(*) FROM {table}") < 1000}
    assert max(rows for table, rows in chunks.items() if table not in young) <= 10
    assert read["_rollup_hourly"] < whole / 4
