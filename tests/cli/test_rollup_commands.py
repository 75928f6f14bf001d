"""rollup: what there is, what waits and why, refreshed and compared, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest

from harness.processes import Command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOURLY: LiteralString = (
    "SELECT lakets.time_bucket('1 hour', ts) AS hour, sum(v) AS total, count(*) AS n FROM m GROUP BY 1"
)
DAILY: LiteralString = (
    "SELECT lakets.time_bucket('1 day', hour) AS day, sum(total) AS total, sum(n) AS n FROM _rollup_hourly GROUP BY 1"
)
OTHER: LiteralString = "SELECT lakets.time_bucket('1 day', ts) AS day, max(v) AS top FROM other GROUP BY 1"


@pytest.fixture
def external(tmp_path: Path, dsn: str) -> Command:
    return Command(tmp_path / "home", {"THERMOCLINE_HOT_DSN": dsn})


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    """Two tables of six days; hours and days of the one, days of the other, all refreshed."""
    with psycopg.connect(dsn, autocommit=True) as session:
        for table in ("m", "other"):
            session.execute(f"CREATE TABLE {table} (ts timestamptz NOT NULL, v int)".encode())
            session.execute(
                f"INSERT INTO {table} SELECT now() - g * interval '1 hour', g FROM generate_series(0, 143) g".encode()
            )
            session.execute("SELECT lakets.create_chronotable(%s, 'ts', '1 day')", [table])
        for name, query, interval in (
            ("hourly", HOURLY, "1 hour"),
            ("daily", DAILY, "1 day"),
            ("tops", OTHER, "1 day"),
        ):
            session.execute("SELECT lakets.create_rollup(%s, %s, %s)", [name, query, interval])
        session.execute("SELECT lakets.refresh_rollup_cascade('daily'), lakets.refresh_rollup('tops')")
        session.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
        yield session


def test_the_list(external: Command, db: psycopg.Connection) -> None:
    found = {one["name"]: one for one in external.run("rollup", "--json").json["rollups"]}
    assert list(found) == ["hourly", "tops", "daily"]  # those that others are made from first
    assert [one["source"] for one in found.values()] == ["public.m", "public.other", "public._rollup_hourly"]
    assert [one["tracked"] for one in found.values()] == [True, True, True]
    assert "hourly" in external.run("rollup").out


def test_what_waits_and_that_it_is_done(external: Command, db: psycopg.Connection) -> None:
    db.execute("INSERT INTO m SELECT now() - interval '60 hours', 1000 FROM generate_series(1, 5)")
    items = {one["item"]: one for one in external.run("rollup", "show", "hourly", "--json").json["items"]}
    assert (items["marks"]["reason"], items["marks"]["how_many"]) == ("late_write", 5)
    assert "late_write" in external.run("rollup", "show", "hourly").out
    done = external.run("rollup", "refresh", "daily", "--json").json["refreshed"]
    assert [(one["rollup"], one["refreshed"], one["why_not"]) for one in done] == [
        ("hourly", True, ""),
        ("daily", True, ""),
    ]
    of_days, of_rows = (
        db.execute(q).fetchone() for q in ("SELECT sum(total) FROM _rollup_daily", "SELECT sum(v) FROM m")
    )
    assert of_days == of_rows
    left = {one["item"] for one in external.run("rollup", "show", "hourly", "--json").json["items"]}
    assert "marks" not in left


def test_a_lag_is_minded_unless_told_otherwise(external: Command, db: psycopg.Connection) -> None:
    db.execute("UPDATE lakets._rollup_registry SET refresh_lag = '1 hour' WHERE name = 'tops'")
    (left,) = external.run("rollup", "refresh", "tops", "--json").json["refreshed"]
    assert (left["refreshed"], left["why_not"]) == (False, "its refresh_lag is not over")
    (done,) = external.run("rollup", "refresh", "tops", "--now", "--json").json["refreshed"]
    assert (done["refreshed"], done["why_not"]) == (True, "")


def test_one_that_fails_stops_only_those_made_from_it(external: Command, db: psycopg.Connection) -> None:
    db.execute("ALTER TABLE m RENAME COLUMN v TO value")
    ended = external.run("rollup", "refresh", "--json")
    assert ended.code == 1
    done = {one["rollup"]: one for one in ended.json["refreshed"]}
    assert done["tops"]["refreshed"]
    assert not done["hourly"]["refreshed"]
    assert "cannot refresh the RollUp hourly" in done["hourly"]["why_not"]
    assert "lakets.drop_rollup('hourly')" in done["hourly"]["next_step"]
    assert done["daily"]["why_not"] == "one that it is made from could not be refreshed"


def test_differences_are_shown_counted_and_mended(external: Command, db: psycopg.Connection) -> None:
    assert external.run("rollup", "check", "hourly", "--json").json["count"] == 0
    broken = db.execute(
        "UPDATE _rollup_hourly SET total = total + 1"
        " WHERE hour < (SELECT max(hour) FROM _rollup_hourly) - interval '3 hours'"
    ).rowcount
    assert broken > 100
    ended = external.run("rollup", "check", "hourly")
    assert ended.code == 3
    assert f"These are the first 100 of {broken}." in ended.out + ended.err
    told = external.run("rollup", "check", "hourly", "--json")
    assert told.code == 3
    assert (told.json["count"], len(told.json["differences"]), told.json["repaired_buckets"]) == (broken, 100, 0)
    mended = external.run("rollup", "check", "hourly", "--repair", "--json")
    assert (mended.code, mended.json["repaired_buckets"]) == (0, broken)
    assert external.run("rollup", "check", "hourly", "--json").json["differences"] == []


def test_none_and_one_that_is_not_there(external: Command) -> None:
    assert external.run("rollup", "--json").json == {"rollups": []}
    assert "create_rollup" in external.run("rollup", "refresh").out
    for command in (["show", "nothing"], ["refresh", "nothing"], ["check", "nothing"]):
        ended = external.run("rollup", *command)
        assert ended.code in (1, 3), command
        assert "nothing" in ended.err
        assert "Traceback" not in ended.err


def test_recompute_says_what_it_would_do_and_why_it_does_nothing(external: Command, db: psycopg.Connection) -> None:
    """Nothing streams, so what a forced drop has taken is in no tier; the help has an example."""
    assert external.run("rollup", "recompute", "daily", "--dry-run", "--json").json == {"rollup": "daily", "lines": []}
    assert "a refresh sees to it" in external.run("rollup", "recompute", "daily", "--dry-run").out
    found = external.run("rollup", "recompute", "hourly")
    assert (found.code, "All rows of hourly there are in PostgreSQL" in found.err) == (3, True)
    assert "daily is made from hourly" in external.run("rollup", "recompute", "daily").err
    oldest = db.execute("SELECT tableoid FROM m ORDER BY ts LIMIT 1").fetchone()
    db.execute("SELECT thermocline._drop_chunk(%s, NULL, false, true)", oldest)
    lines = external.run("rollup", "recompute", "daily", "--dry-run", "--json").json["lines"]
    assert {(line["rollup"], line["action"], line["reason"]) for line in lines} == {("hourly", "leave", "rows_lost")}
    refused = external.run("rollup", "recompute", "daily", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "rollup.nothing_to_recompute")
    wrong = external.run("rollup", "recompute", "hourly", "--from", "2026-02-01", "--to", "2026-01-01")
    assert (wrong.code, "Give two moments" in wrong.err) == (3, True)
    assert external.run("rollup", "recompute", "nobody").code == 3
    assert "Example: thermocline rollup recompute weekly" in external.run("rollup", "recompute", "--help").out
