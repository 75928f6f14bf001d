"""A recompute killed at every named point: what a RollUp shows is right or waits, and the next one ends right."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import thermocline
from harness.both_tiers import Aggregate, across
from harness.lakes import BASE
from harness.processes import Command
from harness.recomputing import let_all_go

if TYPE_CHECKING:
    from harness.lakes import Lake, Row

SOURCE = Path(thermocline.__file__).parent / "recompute"
POINTS = sorted(
    {name for file in SOURCE.glob("*.py") for name in re.findall(r'crash_point\("([^"]+)"\)', file.read_text("utf-8"))}
)
REPLACED = ("recompute.replaced", "recompute.before_end")
"""Points at which the buckets have been replaced already."""
_numbers = itertools.count(1)


def test_there_are_points_before_and_after_the_replacement_and_before_the_end() -> None:
    assert POINTS == ["recompute.before_commit", "recompute.before_end", "recompute.computed", "recompute.replaced"]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_r2_r3_killed_at_any_point_of_a_recompute_the_next_one_ends_right(both: Lake, point: str) -> None:
    table = f"crash_{next(_numbers)}"
    one = Aggregate(f"{table}_wide", table, 2)

    def marks() -> int:
        counted = "SELECT count(*) FROM lakets._rollup_recompute JOIN lakets._rollup_registry g ON g.id = rollup_id"
        return int(both.run(f"{counted} WHERE g.name = '{one.name}'")[0][0])

    def late(number: int) -> None:
        row = (BASE + timedelta(hours=5), number, number, "k1")
        both.run(f"INSERT INTO {table} VALUES ('{row[0]}', {number}, {number}, 'k1')")
        rows[row] += 1

    rows: Counter[Row] = Counter(
        (BASE + timedelta(hours=4 * number), number, number, f"k{number % 3}") for number in range(24)
    )
    both.run(
        f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v int, k text)",
        f"INSERT INTO {table} SELECT '{BASE}'::timestamptz + g * interval '4 hours', g, g, 'k' || g % 3"
        " FROM generate_series(0, 23) g",
        f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{table}')",
    )
    let_all_go(both, table, BASE + timedelta(days=1))
    both.run(f"SELECT lakets.set_late_rows('{table}', 'lake')")
    one.make(both)
    late(100)
    assert one.require(both, rows) == 1, "the bucket of which a day has left"
    assert marks() == 1
    audited = f"SELECT count(*) FROM thermocline.audit WHERE action = 'recompute_rollup' AND object = '{one.name}'"
    command = Command(both.stack.home.root, {"THERMOCLINE_HOT_DSN": both.dsn})
    killed = command.run("rollup", "recompute", one.name, kill_at=point)
    assert killed.was_killed, killed.out + killed.err
    done = point in REPLACED
    assert both.run(audited) == [(int(done),)]
    assert one.require(both, rows) == int(not done), "hidden as before, or right"
    assert (marks() == 0) is done, "what it was to see to is not forgotten"
    late(101)
    plan = both.stack.recomputer().plan(one.name, needed=True)
    assert [line.reason for line in plan.lines] == ["changed" if done else "incomplete"]
    both.stack.recomputer().run(one.name, needed=True)
    assert one.require(both, rows, all_of_it=True) == 0
    assert marks() == 0
    assert both.stack.recomputer().plan(one.name, needed=True).lines == ()
    assert both.run(audited) == [(int(done) + 1,)]
    assert across(both, table) == rows
    both.run(f"DELETE FROM {table} WHERE id >= 100", f"SELECT lakets.drop_chronotable('{table}')")
