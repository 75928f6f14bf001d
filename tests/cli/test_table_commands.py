"""tables, chunks, policies: what there is, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.processes import Command
from thermocline.cli.output import JsonOutput, TextOutput
from thermocline.cli.read_commands import _keys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def external(tmp_path: Path, dsn: str) -> Command:
    return Command(tmp_path / "home", {"THERMOCLINE_HOT_DSN": dsn})


@pytest.fixture
def with_table(external: Command, dsn: str) -> Command:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("CREATE SCHEMA plant")
        session.execute('CREATE TABLE plant."Flow" (ts timestamptz NOT NULL, v float8)')
        session.execute(
            """INSERT INTO plant."Flow" SELECT now() - g * interval '1 day', g FROM generate_series(0, 4) g"""
        )
        session.execute("SELECT lakets.create_chronotable('Flow', 'ts', '1 day', 'plant')")
        session.execute("SELECT lakets.add_tiered_retention_policy('Flow', '2 days', '3 days', 'plant')")
    return external


def test_what_there_is(with_table: Command) -> None:
    (table,) = with_table.run("tables", "--json").json["tables"]
    assert (table["table"], table["time_column"], table["chunk_interval"]) == ('plant."Flow"', "ts", "1 day")
    chunks = with_table.run("chunks", "plant.Flow", "--json").json["chunks"]
    assert (table["active"], table["tiered"], table["dropped"], table["sync"]) == (len(chunks), 0, 0, "not synced")
    assert table["bytes"] == sum(chunk["bytes"] for chunk in chunks) > 0
    assert len(chunks) == 5 + 3
    assert [chunk["state"] for chunk in chunks] == ["active"] * 8
    assert chunks[0]["range_end"] == chunks[1]["range_start"]
    (policy,) = with_table.run("policies", "--json").json["policies"]
    assert policy == {
        "table": 'plant."Flow"',
        "kind": "tiered_retention",
        "after": None,
        "tier_after": "2 days",
        "drop_after": "3 days",
        "enabled": True,
        "last_run_at": None,
    }
    assert 'plant."Flow"' in with_table.run("tables").out
    assert "tiered_retention" in with_table.run("policies").out


def test_a_table_that_is_none_is_named(with_table: Command) -> None:
    ended = with_table.run("chunks", "plant.nothing")
    assert ended.code == 3
    assert "plant.nothing is not a ChronoTable" in ended.err
    assert "thermocline tables" in ended.err


def test_nothing_yet_is_said_with_what_to_do(external: Command) -> None:
    assert "create_chronotable" in external.run("tables").out
    assert "add_tiering_policy" in external.run("policies").out
    assert external.run("tables", "--json").json == {"tables": []}
    assert "There is no history table yet" in external.run("lake").out
    assert external.run("lake", "--json").json == {"tables": []}


def test_a_moment_is_understood_as_commands_print_it(external: Command) -> None:
    for off in ([], ["--off"]):
        assert external.run("work", "pause", "tier", *off).code == 0
    newest, before = (row["at"] for row in external.run("audit", "--json").json["audit"])
    assert before < newest
    assert newest.endswith("+00:00")
    for told, count in [(newest, 1), (before, 2), (before[:16], 2), (before[:10], 2), (f"{before[:10]}T00:00:00Z", 2)]:
        assert len(external.run("audit", "--since", told, "--json").json["audit"]) == count, told


def test_where_rows_are_is_told_without_spark(with_table: Command) -> None:
    """No home has Spark's jars here, and nothing is fetched."""
    (found,) = with_table.run("sql", "SELECT count(*) FROM plant_Flow", "--explain", "--json").json["sources"]
    assert (found["table"], found["tier"], found["what"]) == ("plant.Flow", "postgresql", "8 chunks")
    assert "plant.Flow" in with_table.run("sql", "SELECT count(*) FROM plant_Flow", "--explain").out
    assert "No ChronoTable is in the question" in with_table.run("sql", "SELECT 1", "--explain").out


def test_keys_of_one_name_are_numbered() -> None:
    assert _keys(["a", "A", "a", "a_2", "a"]) == ["a", "A", "a_2", "a_2_2", "a_3"]


def test_names_of_columns_and_tables_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets are no markup, and no name of a member has a space in it."""
    TextOutput().table("rows", ["m[key]"], [("v[0]",)])
    assert "m[key]" in capsys.readouterr().out
    JsonOutput().table("late rows", ["Rows"], [(2,)])
    assert json.loads(capsys.readouterr().out) == {"late_rows": [{"rows": 2}]}
