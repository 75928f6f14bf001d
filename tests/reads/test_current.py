"""What the lake says that a table holds now, asked as `<table>_current`, beside what it holds in truth."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.lakes import Lake
from harness.processes import Command
from thermocline.errors import Refused
from thermocline.reads.moments import NotThen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

BASE = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
_numbers = itertools.count(1)


@pytest.fixture
def lake(stack: Stack, spark: SparkSession, lake_dsn: str) -> Lake:
    return Lake(lake_dsn, stack)


@pytest.fixture(params=["", ", PRIMARY KEY (ts, id)"], ids=["keyless", "keyed"])
def table(lake: Lake, request: pytest.FixtureRequest) -> Iterator[str]:
    """Rows 1 to 5, a day apart or less; synced, and nothing has been copied yet."""
    name = f"now_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {name} (ts timestamptz NOT NULL, id int, v int{request.param})",
        f"INSERT INTO {name} SELECT '{BASE}'::timestamptz + g * interval '12 hours', g, 10 * g"
        " FROM generate_series(1, 5) g",
        f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{name}')",
    )
    yield name
    lake.run(f"SELECT lakets.disable_sync('{name}')")


def asked(lake: Lake, view: str, as_of: str | None = None) -> list[tuple[Any, ...]]:
    """Ids and values of a view, in order."""
    return lake.stack.reader().answer(f"SELECT id, v FROM {view} ORDER BY id, v", 100, as_of)[1]


def position(lake: Lake) -> str:
    """After everything that is committed, and before whatever comes."""
    ((found,),) = lake.run("SELECT pg_logical_emit_message(true, 'test', 'now')::text")
    return str(found)


def test_the_lakes_state_may_lag_and_the_table_does_not(lake: Lake, table: str) -> None:
    lake.drain()
    lake.run(f"UPDATE {table} SET v = 21 WHERE id = 2", f"DELETE FROM {table} WHERE id = 3")
    lake.drain()
    brought = [(1, 10), (2, 21), (4, 40), (5, 50)]
    assert asked(lake, f"{table}_current") == asked(lake, table) == brought
    lake.run(
        f"UPDATE {table} SET v = 22 WHERE id = 2",
        f"DELETE FROM {table} WHERE id = 4",
        f"INSERT INTO {table} VALUES ('{BASE}', 6, 60)",
    )
    truth = [(1, 10), (2, 22), (5, 50), (6, 60)]
    assert asked(lake, f"{table}_current") == brought, "what the feed has not brought is not there"
    assert asked(lake, table) == truth
    _, both = lake.stack.reader().answer(
        f"SELECT t.id, t.v, c.v FROM {table} t FULL JOIN {table.upper()}_CURRENT c ON t.id = c.id"
        " WHERE t.v IS DISTINCT FROM c.v ORDER BY coalesce(t.id, c.id)",
        100,
    )
    assert both == [(2, 22, 21), (None, None, 40), (6, 60, None)], "one question may compare them"
    assert asked(lake, f"(SELECT * FROM {table} EXCEPT ALL SELECT * FROM {table}_current)") == [(2, 22), (6, 60)]
    lake.drain()
    assert asked(lake, f"{table}_current") == truth
    lake.run(f"TRUNCATE {table}", f"INSERT INTO {table} VALUES ('{BASE}', 7, 70)")
    assert asked(lake, f"{table}_current") == truth
    lake.drain()
    assert asked(lake, f"{table}_current") == asked(lake, table) == [(7, 70)]


def test_as_of_a_position_it_is_what_the_table_was(lake: Lake, table: str) -> None:
    lake.drain()
    then = position(lake)
    lake.run(f"UPDATE {table} SET v = -v WHERE id < 3", f"DELETE FROM {table} WHERE id = 5")
    later = position(lake)
    lake.drain()
    assert asked(lake, f"{table}_current", then) == asked(lake, table, then) == [(n, 10 * n) for n in range(1, 6)]
    now = [(1, -10), (2, -20), (3, 30), (4, 40)]
    assert asked(lake, f"{table}_current", later) == asked(lake, f"{table}_current") == now
    with pytest.raises(NotThen, match="is after that"):
        asked(lake, f"{table}_current", "FF/0")


def test_equal_rows_are_as_many_as_the_lake_has(lake: Lake) -> None:
    name = f"now_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {name} (ts timestamptz NOT NULL, id int, v int)",
        f"INSERT INTO {name} SELECT '{BASE}', 1, 10 FROM generate_series(1, 3)",
        f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{name}')",
    )
    lake.drain()
    lake.run(f"DELETE FROM {name} WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM {name} LIMIT 1)")
    assert (asked(lake, f"{name}_current"), asked(lake, name)) == ([(1, 10)] * 3, [(1, 10)] * 2)
    lake.drain()
    assert asked(lake, f"{name}_current") == [(1, 10)] * 2
    lake.run(f"SELECT lakets.disable_sync('{name}')")


def test_it_has_the_columns_that_the_table_has_now(lake: Lake, table: str) -> None:
    """A row that came with a column and went without it is the same row."""
    lake.drain()
    lake.run(
        f"ALTER TABLE {table} DROP COLUMN v",
        f"ALTER TABLE {table} ADD COLUMN note text DEFAULT 'none'",
        f"ALTER TABLE {table} RENAME id TO number",
    )
    reader = lake.stack.reader()
    question = f"SELECT * EXCEPT (ts) FROM {table}_current ORDER BY number"
    assert reader.answer(question, 100) == (["number", "note"], [(n, "none") for n in range(1, 6)])
    lake.drain()
    lake.run(f"DELETE FROM {table} WHERE number = 2", f"UPDATE {table} SET note = 'late' WHERE number = 4")
    lake.drain()
    kept = [(1, "none"), (3, "none"), (4, "late"), (5, "none")]
    assert reader.answer(question, 100) == (["number", "note"], kept)
    assert [tuple(row)[1:] for row in reader.current(table).orderBy("number").collect()] == kept
    assert reader.answer(question.replace("_current", ""), 100)[1] == kept


def test_a_table_of_another_schema_and_its_rollup_have_one_too(lake: Lake) -> None:
    number = next(_numbers)
    schema, rollup = f"hall_{number}", f"daily_{number}"
    view, stored = f"{schema}_Flow", f"_rollup_{rollup}"
    lake.run(
        f"CREATE SCHEMA {schema}",
        f'CREATE TABLE {schema}."Flow" (ts timestamptz NOT NULL, id int, v int)',
        f"""INSERT INTO {schema}."Flow" VALUES ('{BASE}', 1, 10), ('{BASE}', 2, 20)""",
        f"SELECT lakets.create_chronotable('Flow', 'ts', '1 day', '{schema}')",
        f"SELECT lakets.enable_sync('Flow', '{schema}')",
        f"SELECT lakets.create_rollup('{rollup}', 'SELECT lakets.time_bucket(''1 day'', ts) AS day, sum(v) AS v"
        f""" FROM {schema}."Flow" GROUP BY 1', '1 day')""",
        f"SELECT lakets.enable_sync('{rollup}')",
    )
    lake.drain()
    lake.run(f"""UPDATE {schema}."Flow" SET v = 11 WHERE id = 1""", f"SELECT lakets.refresh_rollup('{rollup}')")
    reader = lake.stack.reader()
    for lagging, name in ((True, f"{view}_current"), (False, view)):
        assert asked(lake, f"`{name}`") == [(1, 10 if lagging else 11), (2, 20)]
    sums = f"SELECT v FROM {stored}"
    assert (reader.answer(f"{sums}_current", 9)[1], reader.answer(sums, 9)[1]) == ([(30,)], [(31,)])
    lake.drain()
    assert asked(lake, f"{view}_current") == [(1, 11), (2, 20)]
    assert reader.answer(f"{sums}_current", 9)[1] == [(31,)]
    ((history,),) = lake.run(
        f"""SELECT lake_table FROM thermocline.synced_table WHERE table_oid = '{schema}."Flow"'::regclass"""
    )
    told = reader.sources(f"SELECT * FROM {view}_current, {stored}_current")
    assert sorted((one.table, one.range_start, one.range_end, one.tier, one.what) for one in told) == [
        (f"{schema}.Flow", None, None, "lake", f"what {history} adds up to"),
        (f"public.{stored}", None, None, "lake", f"what public.lb_{stored}_history adds up to"),
    ]
    lake.run(
        f"SELECT lakets.drop_rollup('{rollup}')",
        f"SELECT lakets.disable_sync('Flow', '{schema}')",
    )


def test_what_was_dropped_outright_while_sync_was_off_stays_in_it(lake: Lake, table: str) -> None:
    """No history tells of that, and the table's own name does not bring it back."""
    lake.drain()
    lake.run(
        f"SELECT lakets.disable_sync('{table}')",
        f"SELECT lakets.drop_chunks('{table}', now() - '{BASE + timedelta(days=1)}'::timestamptz)",
        f"SELECT lakets.enable_sync('{table}')",
    )
    lake.drain()
    assert asked(lake, f"{table}_current") == [(n, 10 * n) for n in range(1, 6)]
    assert asked(lake, table) == [(n, 10 * n) for n in range(2, 6)]


def test_without_a_history_it_is_refused_but_a_column_of_that_name_is_not(lake: Lake) -> None:
    name = f"motor_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {name} (ts timestamptz NOT NULL, {name}_current int)",
        f"INSERT INTO {name} VALUES (now(), 7)",
        f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
    )
    reader = lake.stack.reader()

    def refused_and_answered(told: str) -> None:
        for ending in ("current", "history"):
            with pytest.raises(Refused, match=told):
                reader.answer(f"SELECT * FROM {name}_{ending}", 10)
        assert reader.answer(f"SELECT {name}_current FROM {name}", 10) == ([f"{name}_current"], [(7,)])
        assert reader.answer(f"SELECT count(*) AS {name}_history FROM {name}", 10)[1] == [(1,)]

    refused_and_answered(f"public.{name} is not synced, so the lake has no history of it")
    with pytest.raises(Refused, match="is not synced"):
        reader.sources(f"SELECT * FROM {name}_current")
    assert {one.tier for one in reader.sources(f"SELECT {name}_current FROM {name}")} == {"postgresql"}
    lake.run(f"SELECT lakets.enable_sync('{name}')")
    refused_and_answered(f"There is no table public.lb_{name}_history in the lake")
    lake.drain()
    assert reader.answer(f"SELECT {name}_current FROM {name}_current", 10)[1] == [(7,)]
    lake.run(f"SELECT lakets.disable_sync('{name}')")


@pytest.mark.slow
@pytest.mark.spark
def test_the_command_asks_for_it(dsn: str, tmp_path: Path) -> None:
    """A day has left PostgreSQL, and the last change has not come to the lake."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    lake.let_go(0)
    then = position(lake)
    lake.run("DELETE FROM m WHERE id >= 70", "UPDATE m SET v = -1 WHERE id = 30")
    lake.drain()
    lake.run("DELETE FROM m WHERE id >= 60")
    assert lake.run("SELECT count(*) FROM m") == [(36,)]
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    counted = "SELECT count(*) AS n, max(id) AS newest, min(v) AS least FROM m_current"
    question = f"SELECT c.*, (SELECT count(*) FROM m) AS truth FROM ({counted}) c"
    ended = command.run("sql", question, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["rows"] == [{"n": 70, "newest": 69, "least": -1.0, "truth": 60}]
    before = command.run("sql", counted, "--as-of", then, "--json")
    assert before.code == 0, before.err
    assert before.json["rows"] == [{"n": 72, "newest": 71, "least": 0.0}]
    (told,) = command.run("sql", counted, "--explain", "--json").json["sources"]
    assert (told["table"], told["tier"], told["what"]) == ("public.m", "lake", "what public.lb_m_history adds up to")
    assert (told["range_start"], told["range_end"]) == (None, None)
