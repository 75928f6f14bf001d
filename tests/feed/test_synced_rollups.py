"""RollUps go to the lake like tables: what is stored, every refresh, and all of it once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import NOON, Lake

if TYPE_CHECKING:
    from pathlib import Path

HOURS = "_rollup_hours"
QUERY = "SELECT lakets.time_bucket(''2 hours'', ts) AS bucket, tag, sum(v) AS total, count(*) AS n FROM m GROUP BY 1, 2"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """A ChronoTable that is synced, and a RollUp of it that is not."""
    lake = Lake.of(dsn, tmp_path / "home").with_days("v float8, tag text", "g / 7.0, 't' || g % 3")
    lake.run(
        "SELECT lakets.enable_sync('m')",
        f"SELECT lakets.create_rollup('hours', '{QUERY}', '2 hours')",
        "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
    )
    return lake


@pytest.fixture
def synced(lake: Lake) -> Lake:
    lake.run("SELECT lakets.enable_sync('hours')")
    lake.drain()
    return lake


def notices(dsn: str, statement: str) -> list[str | None]:
    said: list[str | None] = []
    with psycopg.connect(dsn, autocommit=True) as session:
        session.add_notice_handler(lambda notice: said.append(notice.message_primary))
        session.execute(statement.encode())
    return said


def same(lake: Lake) -> None:
    assert lake.folded(HOURS, "bucket") == lake.hot(HOURS)
    lake.assert_same()


@pytest.mark.promise("004-23")
def test_what_a_rollup_has_is_copied_and_every_refresh_streams(synced: Lake) -> None:
    same(synced)
    assert sum(synced.folded(HOURS, "bucket").values()) == synced.run(f"SELECT count(*) FROM {HOURS}")[0][0] > 0
    synced.run(f"INSERT INTO m VALUES ('{NOON[1]}', 100, 't1'), ('{NOON[2]}', 1, 'new')")
    synced.run("SELECT lakets.refresh_rollup('hours')")
    synced.drain()
    same(synced)
    changed = [row for row in synced.history(HOURS).to_pylist() if row["tag"] == "new"]
    assert [(row["_change_type"], row["total"], row["n"]) for row in changed] == [("insert", 1, 1)]


def test_rollups_are_listed_with_the_tables(synced: Lake) -> None:
    listed = {one.table: one for one in synced.stack.feed_status().tables}
    assert {name: (one.status, one.covered, one.chunks) for name, one in listed.items()} == {
        "public.m": ("STREAMING", listed["public.m"].chunks, listed["public.m"].chunks),
        "public._rollup_hours": ("STREAMING", 1, 1),
    }
    assert listed["public._rollup_hours"].lake_table == "public.lb__rollup_hours_history"
    ((status, same_position),) = synced.run(
        "SELECT status, committed_lsn = lakets._cdf_committed_lsn('hours') FROM wal2delta.tables"
        " WHERE table_oid = '_rollup_hours'::regclass"
    )
    assert (status, same_position) == ("STREAMING", True)


def test_a_rollup_that_is_emptied_and_filled_anew(synced: Lake) -> None:
    synced.run(f"TRUNCATE {HOURS}")
    synced.drain()
    assert synced.folded(HOURS, "bucket") == Counter()
    assert synced.run("SELECT lakets.repair_rollup('hours') > 0") == [(True,)]
    synced.drain()
    same(synced)
    assert synced.hot(HOURS)


@pytest.mark.promise("004-37")
def test_to_enable_and_disable_twice_is_to_do_it_once(synced: Lake) -> None:
    assert notices(synced.dsn, "SELECT lakets.enable_sync('hours')") == [
        "public._rollup_hours is synced already, left as it is"
    ]
    synced.run("SELECT lakets.disable_sync('hours')")
    before = synced.history(HOURS).num_rows
    assert notices(synced.dsn, "SELECT lakets.disable_sync('hours')") == [
        "public._rollup_hours is not synced, left as it is"
    ]
    assert synced.run("SELECT sync_enabled FROM lakets._rollup_registry") == [(False,)]
    synced.run(f"DELETE FROM {HOURS}")
    synced.drain()
    assert synced.history(HOURS).num_rows == before
    synced.run("SELECT lakets.repair_rollup('hours')", "SELECT lakets.enable_sync('hours')")
    synced.drain()
    same(synced)


def test_a_rollup_outlives_its_source_in_the_lake_too(synced: Lake) -> None:
    stored = synced.hot(HOURS)
    synced.run("SELECT lakets.disable_sync('m')", "SELECT lakets.drop_chunks('m', '2 days')")
    assert sum(synced.hot().values()) < 72
    synced.drain()
    assert synced.hot(HOURS) == synced.folded(HOURS, "bucket") == stored


def test_a_rollup_that_is_dropped_leaves_its_history(synced: Lake) -> None:
    before = synced.folded(HOURS, "bucket")
    synced.run("SELECT lakets.drop_rollup('hours')")
    synced.drain()
    assert synced.folded(HOURS, "bucket") == before
    assert [one.table for one in synced.stack.feed_status().tables] == ["public.m"]
    synced.assert_same()


def test_a_refresh_that_is_open_is_waited_for(lake: Lake) -> None:
    """Who had begun when the RollUp joined is in the copy; nothing is copied meanwhile."""
    with psycopg.connect(lake.dsn) as refreshing:
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 100, 't1')")
        lake.drain()
        refreshing.execute("SELECT lakets.refresh_rollup('hours')")
        with psycopg.connect(lake.dsn, autocommit=True) as enabling:
            enabling.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):  # for a moment nobody may write to it
                enabling.execute("SELECT lakets.enable_sync('hours')")
        refreshing.commit()
    lake.run("SELECT lakets.enable_sync('hours')")
    lake.drain()
    same(lake)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("SELECT 1", "public.nothing is not a ChronoTable"),
        ("CREATE TABLE nothing (ts timestamptz NOT NULL)", "public.nothing is not a ChronoTable"),
        (
            "SELECT lakets.create_rollup('nothing', 'SELECT lakets.time_bucket(''1 hour'', ts) AS b,"
            " min(''1''::money) AS v FROM m GROUP BY 1')",
            "cannot sync public._rollup_nothing: its column v has the type money",
        ),
        (
            f"SELECT lakets.create_rollup('nothing', '{QUERY}', '2 hours');"
            " CREATE TABLE nothing (ts timestamptz NOT NULL); SELECT lakets.create_chronotable('nothing', 'ts')",
            "nothing is ambiguous",
        ),
        (
            f"SELECT lakets.create_rollup('nothing', '{QUERY}', '2 hours'); DROP TABLE _rollup_nothing",
            "the table of the RollUp nothing was dropped by other means",
        ),
    ],
)
def test_what_cannot_be_synced_is_said_and_nothing_changes(lake: Lake, prepare: str, said: str) -> None:
    lake.run(*prepare.split(";"))
    with pytest.raises(psycopg.errors.RaiseException, match=said):
        lake.run("SELECT lakets.enable_sync('nothing')")
    assert lake.run("SELECT count(*) FROM thermocline.synced_table") == [(1,)]


@pytest.mark.parametrize("names", ["NULL", "'m', NULL", "NULL, NULL"])
def test_what_has_no_name_is_neither_synced_nor_ended(lake: Lake, names: str) -> None:
    before = lake.run("SELECT * FROM thermocline.synced_table")
    for function in ("enable_sync", "disable_sync", "resync"):
        with pytest.raises(psycopg.errors.RaiseException) as refused:
            lake.run(f"SELECT lakets.{function}({names.replace(', NULL', ', p_schema_name => NULL')})")
        assert refused.value.diag.message_primary == "table and schema need names"
        assert refused.value.diag.message_hint == "For example SELECT lakets.enable_sync('readings')."
    assert lake.run("SELECT * FROM thermocline.synced_table") == before
