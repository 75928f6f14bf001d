"""Direct mode has no mirror of the table in PostgreSQL, and so none of what goes wrong with one. Closed by design."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake
from harness.sessions import Session

if TYPE_CHECKING:
    from pathlib import Path

SIZES = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND (n.nspname = 'public' OR n.nspname LIKE 'lakets\\_cdf%')
"""
TRIGGERS = """
    SELECT c.relname, t.tgname, t.tgtype FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relname ~ '^m(_|$)' AND t.tgtype & 1 = 1 ORDER BY 1, 2
"""


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home")


def test_m1_a_dropped_chunk_leaves_nothing_of_its_size_behind(lake: Lake) -> None:
    lake.with_days().run(f"INSERT INTO m SELECT '{NOON[0]}', g, g FROM generate_series(1, 20000) g")
    lake.synced().drain()
    ((chunk,),) = lake.run(f"SELECT pg_total_relation_size({lake.chunk_oid(0)})::bigint")
    ((before,),) = lake.run(SIZES)
    lake.let_go(0)
    ((after,),) = lake.run(SIZES)
    empty = 16384  # what an empty table with an index takes: the partition that refuses late rows
    assert chunk > 1_000_000
    assert chunk - empty <= before - after <= chunk
    assert lake.run("SELECT count(*) FROM pg_class c WHERE c.relname LIKE '\\_shadow\\_%'") == [(0,)]


def test_m3_rows_that_are_equal_and_not_the_same_are_told_apart(lake: Lake) -> None:
    """json has no equality, and -0 = 0 and 1.0 = 1.000 hold: what is removed is told by its own bytes."""
    lake.run(
        "CREATE TABLE m (ts timestamptz NOT NULL, j json, v float8, n numeric)",
        f"INSERT INTO m VALUES ('{NOON[0]}', '{{\"a\":1}}', 0, 1.0), ('{NOON[0]}', '{{\"a\": 1}}', '-0', 1.000)",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
    )
    lake.synced().drain()
    lake.run("DELETE FROM m WHERE v::text = '-0'")
    lake.drain()
    removed = [row for row in lake.history().to_pylist() if row["_change_type"] == "delete"]
    assert [(row["j"], math.copysign(1, row["v"]), row["n"]) for row in removed] == [('{"a": 1}', -1.0, "1.000")]
    assert list(lake.folded()) == [(NOON[0], '{"a":1}', 0.0, "1.0")]
    assert lake.run("SELECT j::text, v::text, n::text FROM m") == [('{"a":1}', "0", "1.0")]
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(lake.chunk_oid(0)).equal


def test_m4_two_sessions_that_delete_identical_rows_at_once_remove_two(lake: Lake) -> None:
    lake.with_days().synced().drain()
    lake.run(f"INSERT INTO m SELECT '{NOON[0]}', NULL, 7 FROM generate_series(1, 3)")
    one_of_them = (
        "DELETE FROM m WHERE (tableoid, ctid) ="
        " (SELECT tableoid, ctid FROM m WHERE id IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING v"
    )
    with Session(lake.dsn) as first, Session(lake.dsn) as second:
        assert first.run(one_of_them) == second.run(one_of_them) == [(7.0,)]
        second.commit()
        first.commit()
    lake.drain()
    assert lake.run("SELECT count(*) FROM m WHERE id IS NULL") == [(1,)]
    assert lake.folded()[NOON[0], None, 7.0] == 1
    lake.run("DELETE FROM m WHERE id IS NULL")
    lake.drain()
    lake.assert_same()


def called(lake: Lake) -> list[str]:
    """The triggers that an UPDATE of one row calls."""
    plan = lake.run("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) UPDATE m SET v = v + 1 WHERE id = 3")
    return [line for (line,) in plan if line.startswith("Trigger")]


def test_m5_m6_sync_adds_nothing_that_runs_for_each_row(lake: Lake) -> None:
    lake.with_days()
    there, before = lake.run(TRIGGERS), called(lake)
    lake.synced().drain()
    assert lake.run(TRIGGERS) == there
    assert called(lake) == before
