"""A table as it was: at a position of the log, or at a moment."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyiceberg.table import StaticTable

from harness.lakes import Lake, fold
from thermocline.errors import Refused
from thermocline.reads.moments import NotThen, position_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

BASE = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
_numbers = itertools.count(1)


@pytest.fixture
def lake(stack: Stack, spark: SparkSession, lake_dsn: str) -> Lake:
    return Lake(lake_dsn, stack)


def bag(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Spark hands times over without their zone, which is UTC."""
    return Counter((row[0].replace(tzinfo=None), *row[1:]) for row in map(tuple, rows))


def make(lake: Lake) -> str:
    name = f"as_of_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {name} (ts timestamptz NOT NULL, id int, v float8)",
        f"INSERT INTO {name} SELECT '{BASE}'::timestamptz + g * interval '3 hours', g, g FROM generate_series(0, 15) g",
        f"SELECT lakets.create_chronotable('{name}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{name}')",
    )
    return name


def now(lake: Lake) -> tuple[str, datetime]:
    """A position and a moment, both after everything that is committed, and before whatever comes."""
    ((position, moment),) = lake.run("SELECT pg_logical_emit_message(true, 'test', 'now')::text, clock_timestamp()")
    return position, moment


def test_m9_a_table_is_what_it_was_at_every_position_and_moment(lake: Lake) -> None:
    table, other = make(lake), make(lake)
    lake.drain()
    states = []
    for change in (
        f"UPDATE {table} SET v = v + 1 WHERE id % 2 = 0",
        f"TRUNCATE {table}",
        f"INSERT INTO {table} VALUES ('{BASE}', 1, 1), ('{BASE}', 1, 1)",
        f"ALTER TABLE {table} RENAME v TO w",
        f"DELETE FROM {table}",
    ):
        states.append((now(lake), bag(lake.run(f"TABLE {table}"))))
        lake.run(f"{change}; INSERT INTO {other} VALUES ('{BASE}', 99, 0)")
    states.append((now(lake), bag(lake.run(f"TABLE {table}"))))
    lake.drain()
    lake.run("SELECT pg_logical_emit_message(true, 'test', 'more')")
    lake.drain()
    reader = lake.stack.reader()
    for number, ((position, moment), state) in enumerate(states):
        at = reader.position_at(moment, [table])
        assert reader.position_at(position, [table]) <= at
        if number in (1, 2, 4):
            assert bag(reader.as_of(table, at if number == 1 else position).collect()) == state
    question = f"SELECT (SELECT count(*) FROM {table}), (SELECT count(*) FROM {other} WHERE id = 99)"
    _, ((mine, others),) = reader.answer(question, 1, states[3][0][1])
    assert (mine, others) == (2, 3), "both at one position"
    _, ((entries,),) = reader.answer(
        f"SELECT count(*) FROM {table}_history WHERE _change_type = 'delete'", 1, states[-2][0][0]
    )
    assert entries == 0
    lake.run(f"SELECT lakets.disable_sync('{table}')", f"SELECT lakets.disable_sync('{other}')")


def test_what_the_lake_does_not_know_is_refused(lake: Lake) -> None:
    table = make(lake)
    early, before = now(lake)
    reader = lake.stack.reader()
    with pytest.raises(NotThen, match="does not have all of"):
        reader.as_of(table, early)
    lake.drain()
    for told in (early, before):
        with pytest.raises(NotThen, match="is before that"):
            reader.as_of(table, told)
    for told in ("FF/0", datetime.now(UTC) + timedelta(days=1)):
        with pytest.raises(NotThen, match="is after that") as caught:
            reader.as_of(table, told)
        assert "Ask for an earlier one" in caught.value.next_step
    lake.run(f"SELECT lakets.disable_sync('{table}')")


def test_positions_and_moments_are_told_apart() -> None:
    assert position_of("16/B374D848") == 0x16_B374_D848
    assert position_of(7) == 7
    assert position_of("2026-11-16T12:00:00+02:00") == datetime(2026, 11, 16, 10, tzinfo=UTC)
    for told in ("noon", "2026-11-16T12:00:00"):
        with pytest.raises(Refused):
            position_of(told)


def changed(lake: Lake) -> str:
    """A table with changes of every kind and equal rows, all of it in the lake."""
    table = make(lake)
    lake.drain()
    lake.run(
        f"UPDATE {table} SET v = v + 1 WHERE id % 2 = 0",
        f"DELETE FROM {table} WHERE id % 3 = 0",
        f"INSERT INTO {table} SELECT '{BASE}', 77, NULL FROM generate_series(1, 2)",
    )
    lake.drain()
    lake.run(f"SELECT lakets.disable_sync('{table}')")
    return table


def test_pyiceberg_reads_the_same_rows_by_the_catalog_and_by_the_metadata_file(lake: Lake) -> None:
    table = changed(lake)
    with lake.stack.catalog() as catalog:
        opened = catalog.load_table(f"public.lb_{table}_history")
        assert opened.format_version == 2
        for one in (opened, StaticTable.from_metadata(opened.metadata_location)):
            entries = one.scan().to_arrow().sort_by([("_lsn", "ascending"), ("_seq", "ascending")])
            assert fold(entries.to_pylist(), "ts") == lake.hot(table)


def test_duckdb_reads_the_same_rows_from_the_files_that_pyiceberg_lists(lake: Lake) -> None:
    """By the fold that the docs give."""
    table = changed(lake)
    with lake.stack.catalog() as catalog:
        tasks = list(catalog.load_table(f"public.lb_{table}_history").scan().plan_files())
    assert not any(task.delete_files for task in tasks), "nothing but the files themselves is needed"
    files = [task.file.file_path.removeprefix("file://") for task in tasks]
    by_hand = """
        WITH resets AS (SELECT ts AS range_start, _range_end AS range_end, _lsn, _seq FROM history
                        WHERE _change_type = 'truncate'),
        entries AS (SELECT h.ts, h.id, h.v,
                           CASE WHEN h._change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS sign
                    FROM history h ANTI JOIN resets r ON h.ts >= r.range_start AND h.ts < r.range_end
                     AND (h._lsn < r._lsn OR (h._lsn = r._lsn AND h._seq < r._seq))
                    WHERE h._change_type <> 'truncate')
        SELECT ts, id, v, sum(sign)::int FROM entries GROUP BY ts, id, v HAVING sum(sign) <> 0
    """
    with duckdb.connect() as engine:
        engine.execute("SET timezone = 'UTC'")
        engine.read_parquet(files, hive_partitioning=False).create_view("history")
        found = engine.execute(by_hand).fetchall()
    assert Counter({(ts.replace(tzinfo=None), *rest): copies for ts, *rest, copies in found}) == bag(
        lake.run(f"TABLE {table}")
    )


def test_a_table_with_a_key_is_what_it_is_in_postgres(lake: Lake) -> None:
    table = f"as_of_{next(_numbers)}"
    lake.run(
        f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v float8, PRIMARY KEY (ts, id))",
        f"INSERT INTO {table} SELECT '{BASE}'::timestamptz + g * interval '3 hours', g, g FROM generate_series(0, 9) g",
        f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{table}')",
    )
    lake.drain()
    lake.run(
        f"UPDATE {table} SET v = v + 1 WHERE id % 2 = 0",
        f"UPDATE {table} SET ts = ts + interval '1 day', id = id + 100 WHERE id = 3",
        f"DELETE FROM {table} WHERE id % 5 = 0",
        f"INSERT INTO {table} AS t SELECT ts, id FROM {table} ON CONFLICT (ts, id) DO UPDATE SET v = -1 WHERE t.id = 7",
    )
    lake.drain()
    assert bag(lake.stack.reader().current(table).collect()) == bag(lake.run(f"TABLE {table}"))
    lake.run(f"SELECT lakets.disable_sync('{table}')")
