"""Rows that the lake has lost, or has otherwise, since their chunk left: it does not come back as if that were all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from harness.both_tiers import Aggregate
from harness.lakes import BASE, NOON, Lake, chunk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

    from thermocline.gate.rehydrate import RangeLine

DAY = timedelta(days=1)
LATE = f"INSERT INTO m VALUES ('{NOON[0]}', 99, 1, 'k0')"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, v int, k text", "g, g, 'k' || g % 3").synced()
    lake.drain()
    return lake


def by_hand(lake: Lake, change: Callable[[Table], object]) -> None:
    with lake.stack.catalog() as catalog:
        change(catalog.load_table("public.lb_m_history"))


def back(lake: Lake) -> RangeLine:
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY)
    return line


def assert_stayed(lake: Lake, line: RangeLine, said: str) -> None:
    assert (line.verdict, line.reason) == ("stays", "lake_changed"), line
    assert said in line.message
    assert "snapshots of public.lb_m_history" in line.next_step
    assert lake.run(f"SELECT count(*) FROM m WHERE ts < '{BASE + DAY}'") == [(0,)]
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)], "nothing of it is left"
    assert lake.run("SELECT count(*) FROM thermocline.trap") == [(1,)]
    assert lake.run("SELECT staged_oid, reason LIKE 'lake_changed: %' FROM thermocline.rehydration") == [(None, True)]


@pytest.mark.parametrize(
    ("gone", "left"), [("id = 5", 23), (f"ts < '{(BASE + DAY).isoformat()}'", 0)], ids=["a row", "all of it"]
)
def test_g17_rows_that_are_gone_from_the_lake_keep_the_range_there(lake: Lake, gone: str, left: int) -> None:
    """Nor does a RollUp forget what it has of the day."""
    before, daily = lake.hot(), Aggregate("daily", "m", 1)
    daily.make(lake)
    lake.run("SELECT lakets.refresh_rollup('daily')")
    lake.let_go(0)
    by_hand(lake, lambda table: table.delete(gone))
    assert_stayed(lake, back(lake), f"the lake has {left} rows of what left PostgreSQL, where 24 were proven")
    lake.run("SELECT lakets.refresh_rollup('daily')")
    assert daily.require(lake, before, all_of_it=True) == 0


def test_g17_rows_of_other_values_keep_it_there_too(lake: Lake) -> None:
    lake.let_go(0)

    def changed(table: Table) -> None:
        rows = table.scan().to_arrow()
        at = rows.column_names.index("k")
        table.overwrite(rows.set_column(at, rows.schema.field(at), pa.array(["other"] * rows.num_rows)))

    by_hand(lake, changed)
    assert_stayed(lake, back(lake), "the lake has other rows than the 24 that left")


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "whole"])
def test_g17_late_rows_that_were_settled_since_make_up_for_nothing(lake: Lake, lost: bool) -> None:
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    lake.run(LATE)
    with lake.feeding():
        (settled,) = lake.stack.late_rows("m", on_spark=False).settle()
    assert settled.verdict == "settled"
    if lost:
        by_hand(lake, lambda table: table.delete("id = 5"))
        assert_stayed(lake, back(lake), "the lake has 23 rows of what left PostgreSQL, where 24 were proven")
    else:
        line = back(lake)
        assert (line.verdict, line.rows) == ("back", 25)


def test_g17_late_rows_of_a_trap_that_was_dropped_by_hand_are_no_difference(lake: Lake) -> None:
    """They are in the lake above the drop, and nobody knows up to where."""
    before = lake.hot()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    ((trap,),) = lake.run("SELECT trap_oid::regclass::text FROM thermocline.trap")
    lake.run(LATE, f"DROP TABLE {trap}")
    lake.drain()
    lake.stack.maintain("m")
    line = back(lake)
    assert (line.verdict, line.rows) == ("back", 25)
    assert sum((lake.hot() - before).values()) == 1


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "whole"])
@pytest.mark.parametrize(
    "changes",
    [
        ("ALTER TABLE m ADD COLUMN note text DEFAULT 'none'",),
        ("ALTER TABLE m DROP COLUMN v", "ALTER TABLE m ADD COLUMN v int"),
        ("ALTER TABLE m ALTER COLUMN v TYPE bigint",),
    ],
    ids=["added", "another of the name", "widened"],
)
def test_g17_of_other_columns_the_rows_are_counted(lake: Lake, changes: tuple[str, ...], lost: bool) -> None:
    lake.let_go(0)
    lake.run(*changes)
    lake.drain()
    if lost:
        by_hand(lake, lambda table: table.delete("id = 5"))
        assert_stayed(lake, back(lake), "the lake has 23 rows")
    else:
        assert (back(lake).verdict, lake.run("SELECT count(*) FROM m")) == ("back", [(72,)])


def test_what_was_dropped_by_force_comes_back_as_the_lake_has_it(lake: Lake) -> None:
    lake.run(f"SELECT lakets.add_retention_policy('m', now() - '{BASE + DAY}'::timestamptz)")
    lake.run("SELECT lakets.execute_retention('m', p_force => true)")
    assert lake.run("SELECT receipt_id FROM thermocline.dropped_range") == [(None,)]
    by_hand(lake, lambda table: table.delete("id = 5"))
    line = back(lake)
    assert (line.verdict, line.rows) == ("back", 23)
