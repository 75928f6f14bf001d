"""tables, chunks, policies: what there is, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.processes import Command

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
