"""Marks of what is written to the past: every way of writing leaves them, fresh rows do not, and nobody waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from harness.questions import ask
from harness.roles import role
from harness.sessions import Session

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
OLD = TODAY - timedelta(days=3) + timedelta(hours=10, minutes=30)
OLDER = OLD - timedelta(days=1)


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """With a table of ten days and two RollUps on the books, one by device."""
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, device text, v float8)")
    db.execute("INSERT INTO m SELECT now() - g * interval '1 day', 'd' || g, g FROM generate_series(0, 9) g")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    db.execute(
        "INSERT INTO lakets._rollup_registry (name, source_chronotable_id, rollup_table, realtime_view,"
        " bucket_interval, query_text, key_columns, bucket_expression)"
        " VALUES ('hourly', 1, 'a', 'b', '1 hour', '', '{device}', 'lakets.time_bucket(''01:00:00''::interval, ts)'),"
        " ('daily', 1, 'c', 'd', '1 day', '', '{}', 'lakets.time_bucket(''1 day''::interval, ts)')"
    )
    return db


def marks(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    """Those of RollUps, in order."""
    return ask(
        db,
        "SELECT rollup_id, bucket_start, first_time, keys FROM lakets._rollup_invalidation_log"
        " WHERE rollup_id IS NOT NULL ORDER BY id",
    )


def expected(at: datetime, device: str) -> list[tuple[Any, ...]]:
    return [
        (1, at.replace(minute=0, second=0), at, {"device": device}),
        (2, at.replace(hour=0, minute=0, second=0), at, {}),
    ]


def test_conversion_leaves_no_marks(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT count(*) FROM lakets._rollup_invalidation_log") == [(0,)]


def test_fresh_rows_leave_no_marks(db: psycopg.Connection) -> None:
    db.execute(
        "INSERT INTO m VALUES (now(), 'a', 1), (now() - interval '4 minutes', 'a', 1), (now() + '1 day', 'a', 1)"
    )
    db.execute("UPDATE m SET v = 2 WHERE ts > now() - interval '4 minutes 30 seconds'")
    assert marks(db) == []


def test_every_way_of_writing_a_late_row_leaves_its_mark(db: psycopg.Connection) -> None:
    name = f"m_{TODAY - timedelta(days=3):%Y%m%d}_000000"
    statements = [
        (f"INSERT INTO m VALUES ('{OLD}', 'a', 1)", expected(OLD, "a")),
        (f"INSERT INTO {name} VALUES ('{OLD}', 'b', 1)", expected(OLD, "b")),
        (f"UPDATE m SET v = 3 WHERE ts = '{OLD}' AND device = 'a'", 2 * expected(OLD, "a")),
        (f"UPDATE m SET device = 'c' WHERE ts = '{OLD}' AND device = 'a'", expected(OLD, "a") + expected(OLD, "c")),
        # Into another chunk: taken from one, put into the other.
        (f"UPDATE m SET ts = '{OLDER}' WHERE device = 'c'", expected(OLD, "c") + expected(OLDER, "c")),
        (f"UPDATE m SET ts = now() WHERE ts = '{OLDER}'", expected(OLDER, "c")),
        (f"DELETE FROM {name} WHERE device = 'b'", expected(OLD, "b")),
        (f"MERGE INTO m USING (VALUES (1)) w ON m.ts = '{OLD}' WHEN NOT MATCHED THEN INSERT VALUES ('{OLD}', 'e', 1)",
         expected(OLD, "e")),
        (f"SET session_replication_role = replica; INSERT INTO m VALUES ('{OLD}', 'f', 1); RESET ALL",
         expected(OLD, "f")),
    ]  # fmt: skip
    for statement, told in statements:
        db.execute("DELETE FROM lakets._rollup_invalidation_log")
        db.execute(statement.encode())
        assert marks(db) == told, statement
    db.execute("DELETE FROM lakets._rollup_invalidation_log")
    with db.cursor().copy("COPY m FROM STDIN") as copy:
        copy.write_row((OLD, "g", 1))
        copy.write_row((datetime.now(UTC), "g", 1))
        copy.write_row((OLDER, "h", 1))
    assert marks(db) == expected(OLD, "g") + expected(OLDER, "h")


def test_a_rollup_in_the_making_is_told_too(db: psycopg.Connection) -> None:
    db.execute("INSERT INTO m VALUES (%s, 'a', 1)", [OLD])
    told = ask(db, "SELECT first_time, last_time, keys, told FROM lakets._rollup_invalidation_log"
                   " WHERE rollup_id IS NULL")  # fmt: skip
    assert told == [(OLD, OLD, None, [1, 2])]


@pytest.mark.parametrize("what", ["m", f"m_{TODAY - timedelta(days=3):%Y%m%d}_000000"])
def test_g9_truncate_marks_the_chunks_that_it_empties(db: psycopg.Connection, what: str) -> None:
    db.execute(f"TRUNCATE {what}".encode())
    chunks = ask(db, "SELECT range_start, range_end - interval '1 microsecond' FROM lakets._chunk_metadata ORDER BY 1")
    told = ask(db, "SELECT first_time, last_time FROM lakets._rollup_invalidation_log ORDER BY 1")
    day = TODAY - timedelta(days=3)
    assert told == (chunks if what == "m" else [(day, day + timedelta(days=1, microseconds=-1))])


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Auckland"])
@pytest.mark.parametrize("kind", ["timestamp", "date", "timestamptz"])
def test_late_is_late_in_any_zone_of_the_session(db: psycopg.Connection, kind: str, zone: str) -> None:
    db.execute(f"CREATE TABLE n (ts {kind} NOT NULL, v int)".encode())
    db.execute("SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    db.execute(f"SET timezone = '{zone}'".encode())
    late, fresh = ("-1", "+1") if kind == "date" else ("- interval '7 hours'", "+ interval '1 minute'")
    for shift in (late, fresh):
        moment = "now()" if kind == "timestamptz" else f"(now() AT TIME ZONE 'UTC')::{kind}"
        db.execute(f"INSERT INTO n VALUES ({moment} {shift})".encode())
    assert ask(db, "SELECT count(*) FROM lakets._rollup_invalidation_log WHERE chronotable_id = 2") == [(1,)]
    db.execute("SET timezone = 'UTC'")


def test_many_late_rows_are_marked_by_the_hour(db: psycopg.Connection) -> None:
    day = TODAY - timedelta(days=5)
    db.execute("INSERT INTO m SELECT %s::timestamptz + g * interval '1 second', 'd' || g %% 7, g"
               " FROM generate_series(0, 86399) g", [day])  # fmt: skip
    exact, coarse = ask(db, "SELECT count(*) FILTER (WHERE rollup_id = 1), count(*) FILTER (WHERE rollup_id IS NULL"
                            " AND told = '{}') FROM lakets._rollup_invalidation_log")[0]  # fmt: skip
    assert exact == 1000
    assert coarse == 24
    covered = ask(
        db,
        "SELECT count(*) FROM m WHERE ts >= %s AND ts < %s::timestamptz + interval '1 day' AND NOT EXISTS (SELECT FROM"
        " lakets._rollup_invalidation_log l WHERE m.ts BETWEEN l.first_time AND l.last_time)",
        day,
        day,
    )
    assert covered == [(0,)]


def test_marks_of_hours_that_lie_apart_stay_few(db: psycopg.Connection) -> None:
    db.execute("INSERT INTO m SELECT now() - interval '1 hour' - random() * interval '8 days 22 hours', 'x', 1"
               " FROM generate_series(1, 20000)")  # fmt: skip
    ((coarse,),) = ask(
        db, "SELECT count(*) FROM lakets._rollup_invalidation_log WHERE rollup_id IS NULL AND told = '{}'"
    )
    assert coarse <= 230
    missing = ask(db, "SELECT count(*) FROM m WHERE device = 'x' AND NOT EXISTS (SELECT FROM lakets"
                      "._rollup_invalidation_log l WHERE m.ts BETWEEN l.first_time AND l.last_time)")  # fmt: skip
    assert missing == [(0,)]


def test_what_is_moved_or_deleted_in_masses_is_marked_at_both_ends(db: psycopg.Connection) -> None:
    db.execute("INSERT INTO m SELECT %s::timestamptz + g * interval '30 minutes', 'x', g FROM generate_series(0, 8) g"
               ", generate_series(1, 300)", [OLD])  # fmt: skip
    covered = (
        "SELECT count(*) FROM (SELECT ts FROM m WHERE device = 'x' UNION SELECT ts - interval '30 hours' FROM m"
        " WHERE device = 'x') w WHERE NOT EXISTS (SELECT FROM lakets._rollup_invalidation_log l"
        " WHERE w.ts BETWEEN l.first_time AND l.last_time)"
    )
    db.execute("DELETE FROM lakets._rollup_invalidation_log")
    with db.transaction():
        db.execute("UPDATE m SET ts = ts + interval '30 hours' WHERE device = 'x'")
    assert ask(db, covered) == [(0,)]
    db.execute("DELETE FROM lakets._rollup_invalidation_log")
    times = ask(db, "SELECT DISTINCT ts FROM m WHERE device = 'x'")
    db.execute("DELETE FROM m WHERE device = 'x'")
    for (ts,) in times:
        assert ask(db, "SELECT FROM lakets._rollup_invalidation_log WHERE %s BETWEEN first_time AND last_time", ts), ts


def test_a_savepoint_takes_back_its_marks_and_what_they_cover(db: psycopg.Connection, dsn: str) -> None:
    many = "INSERT INTO m SELECT %s::timestamptz, 'x', g FROM generate_series(1, 1005) g"
    with psycopg.connect(dsn) as writer:
        writer.execute("SAVEPOINT one")
        writer.execute(many, [OLD])
        writer.execute("ROLLBACK TO one")
        writer.execute("INSERT INTO m VALUES (%s, 'y', 1)", [OLD])
    assert marks(db) == expected(OLD, "y")


def test_r12_writers_of_one_bucket_do_not_wait_for_each_other(db: psycopg.Connection, dsn: str) -> None:
    with Session(dsn) as one, Session(dsn) as two:
        for _ in range(3):
            one.run("INSERT INTO m VALUES (%s, 'a', 1)", [OLD])
            two.run("INSERT INTO m VALUES (%s, 'a', 2)", [OLD])
        two.commit()
        one.commit()
    assert len(marks(db)) == 12


def test_m8_whoever_may_write_needs_no_right_on_marks(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "writer", "", "GRANT INSERT ON m TO {role}") as writers, psycopg.connect(writers) as writer:
        writer.execute("INSERT INTO m VALUES (%s, 'a', 1)", [OLD])
    assert marks(db) == expected(OLD, "a")


def test_marks_that_nobody_needs_are_pruned(db: psycopg.Connection, dsn: str) -> None:
    db.execute("DELETE FROM lakets._rollup_registry")
    with Session(dsn) as writer:
        writer.run("INSERT INTO m VALUES (%s, 'a', 1)", [OLD])
        assert ask(db, "SELECT lakets._prune_marks()") == [(0,)]
        writer.commit()
    assert ask(db, "SELECT lakets._prune_marks()") == [(1,)]
    db.execute("SELECT lakets.drop_chronotable('m')")
