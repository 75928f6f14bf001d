"""Recompute: buckets whose rows are partly in the lake become whole, whoever writes, drops or asks meanwhile."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.processes import Command
from harness.recomputing import let_all_go
from thermocline.errors import Refused
from thermocline.recompute.recompute import NotExact, NothingToRecompute, Recomputer
from thermocline.work.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.lakes import Lake

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# Twelve days that end a week ago: every bucket of three days in it is over. A chunk of two days begins with the first,
# whatever day it is today: chunks are counted from the year 2000 on.
FIRST = TODAY - timedelta(days=19 + (TODAY - timedelta(days=19) - datetime(2000, 1, 1, tzinfo=UTC)).days % 2)
ORIGIN = f"'{FIRST.isoformat()}'"
HOT = FIRST + timedelta(days=8)
_numbers = itertools.count(1)


class Scene:
    """A synced table m of twelve days, eight of them in the lake alone, with RollUps made before or after that."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.table = f"scene_{next(_numbers)}"
        self.wide = f"{self.table}_wide"
        lake.run(
            f"CREATE TABLE {self.table} (ts timestamptz NOT NULL, k text, v int, n numeric(12,2))",
            f"INSERT INTO {self.table} SELECT {ORIGIN}::timestamptz + g * interval '3 hours', 'd' || g % 3, g, g / 4.0"
            " FROM generate_series(0, 95) g",
            f"SELECT lakets.create_chronotable('{self.table}', 'ts', '2 days')",
            f"SELECT lakets.enable_sync('{self.table}')",
        )

    @property
    def query(self) -> str:
        return (
            f"SELECT lakets.time_bucket('3 days', ts, {ORIGIN}) AS bucket, k, sum(v) AS total,"
            f" avg(v) AS mean, count(*) AS n,"
            f" max(n) AS top FROM {{}} GROUP BY 1, 2"
        )

    def make(self) -> None:
        self.run(
            f"SELECT lakets.create_rollup('{self.wide}', $q${self.query.format(self.table)}$q$, '3 days')",
            f"SELECT lakets.create_rollup_view('{self.wide}', NULL)",
            "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.lake.run(*statements)

    def keep(self) -> None:
        """All that was ever written, in a table of its own."""
        self.run(f"DROP TABLE IF EXISTS {self.table}_all", f"CREATE TABLE {self.table}_all AS TABLE {self.table}")

    def let_go(self) -> None:
        let_all_go(self.lake, self.table, HOT)

    def differences(self) -> list[tuple[Any, ...]]:
        """Between the real-time view and the aggregate of all that was ever written."""
        query, view = self.query.format(f"{self.table}_all"), f"_rollup_rt_{self.wide}"
        return self.run(f"(TABLE {view} EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL TABLE {view})")

    def incomplete(self, name: str | None = None) -> str:
        return str(self.run(f"SELECT incomplete FROM lakets._rollup_registry WHERE name = '{name or self.wide}'")[0][0])

    def recomputer(self) -> Recomputer:
        return self.lake.stack.recomputer()


@pytest.fixture
def scene(both: Lake) -> Iterator[Scene]:
    made = Scene(both)
    yield made
    both.run(f"SELECT lakets.drop_chronotable('{made.table}')")


def test_r2_a_wide_bucket_over_few_resident_days_becomes_whole(scene: Scene) -> None:
    """Made when most days have left: its buckets are incomplete and hidden, until they come from both tiers."""
    scene.keep()
    scene.let_go()
    scene.make()
    assert len(scene.differences()) == 9
    before = scene.run("SELECT count(*) FROM thermocline.audit WHERE action = 'recompute_rollup'")
    plan = scene.recomputer().plan(scene.wide)
    assert [(one.action, one.reason, one.buckets, one.start) for one in plan.lines] == [
        ("recompute", "incomplete", 3, FIRST)
    ]
    assert plan.lines[0].from_lake == ((FIRST, HOT),)
    assert scene.incomplete() != "[]"
    done = scene.recomputer().run(scene.wide)
    assert (done.buckets, done.rows) == (3, 9)
    assert scene.differences() == []
    assert scene.run(f"SELECT * FROM lakets.check_rollup('{scene.wide}')") == []
    assert scene.run(f"SELECT incomplete = '{{}}' FROM lakets._rollup_registry WHERE name = '{scene.wide}'") == [
        (True,)
    ]
    assert scene.run(f"SELECT lakets.refresh_rollup('{scene.wide}')") == [(True,)]
    assert scene.differences() == []
    after = scene.run("SELECT count(*) FROM thermocline.audit WHERE action = 'recompute_rollup'")
    assert after[0][0] == before[0][0] + 1
    kept = scene.run(f"SELECT reason, range_start FROM lakets.explain_rollup('{scene.wide}') WHERE item = 'frozen'")
    assert len(kept) == 1


def test_r1_r3_frozen_buckets_are_computed_anew_and_lose_what_is_not_there(scene: Scene) -> None:
    """Only those in the range, widened to whole buckets; one that somebody has written to is right again."""
    scene.keep()
    scene.make()
    scene.let_go()
    assert scene.differences() == []
    scene.run(
        f"UPDATE _rollup_{scene.wide} SET total = -1",
        f"INSERT INTO _rollup_{scene.wide} SELECT bucket, 'nobody', 1, 1, 1,"
        f" 1 FROM _rollup_{scene.wide} WHERE k = 'd1'",
    )
    middle = FIRST + timedelta(days=4)
    done = scene.recomputer().run(scene.wide, middle, middle + timedelta(seconds=1))
    assert [(one.start, one.end) for one in done.plan.lines] == [(FIRST + timedelta(days=3), FIRST + timedelta(days=6))]
    right = scene.run(
        f"SELECT bucket, count(*) FROM _rollup_{scene.wide} WHERE total >= 0 AND k <> 'nobody' AND bucket"
        f" < '{HOT}' GROUP BY 1"
    )
    assert right == [(FIRST + timedelta(days=3), 3)]
    assert scene.run(f"SELECT count(*) FROM _rollup_{scene.wide} WHERE k = 'nobody'") == [(2,)]
    scene.recomputer().run(scene.wide)
    scene.run(f"SELECT lakets.invalidate_rollup_range('{scene.wide}', '{HOT}', '{TODAY}')")
    scene.run(f"SELECT lakets.refresh_rollup('{scene.wide}')")
    assert scene.differences() == []


@pytest.mark.slow
def test_r2_the_command_makes_the_buckets_of_its_range_whole_and_no_others(scene: Scene) -> None:
    scene.keep()
    scene.let_go()
    scene.make()
    stored = f"SELECT bucket, k, total, n FROM _rollup_{scene.wide} WHERE bucket < '{HOT}' ORDER BY 1, 2"
    audited = f"SELECT range_start, range_end FROM thermocline.audit WHERE object = '{scene.wide}'"
    resident = scene.run(stored)
    assert {row[0] for row in resident} <= {FIRST + timedelta(days=6)}, "of the others nothing is in PostgreSQL"
    command = Command(scene.lake.stack.home.root, {"THERMOCLINE_HOT_DSN": scene.lake.dsn})
    third, fourth = (f"{FIRST + timedelta(days=day):%Y-%m-%d}" for day in (3, 4))
    done = command.run("rollup", "recompute", scene.wide, "--from", third, "--to", fourth, "--json")
    assert done.code == 0, done.err
    told = done.json
    (line,) = told.pop("lines")
    assert told == {"rollup": scene.wide, "buckets": 1, "rows": 3}
    start, end = FIRST + timedelta(days=3), FIRST + timedelta(days=6)
    assert [datetime.fromisoformat(line[name]) for name in ("from", "to")] == [start, end]
    assert (line["action"], line["reason"], line["computed"]) == ("recompute", "incomplete", "spark")
    assert line["rows_from_the_lake"] == f"{start:%Y-%m-%d %H:%M} - {end:%Y-%m-%d %H:%M}"
    right = scene.run(
        f"SELECT '{start}'::timestamptz, k, sum(v), count(*) FROM {scene.table}_all"
        f" WHERE ts >= '{start}' AND ts < '{end}' GROUP BY k ORDER BY 2"
    )
    assert len(right) == 3
    assert scene.run(stored) == sorted([*resident, *right])
    assert scene.run(
        f"SELECT incomplete @> '{start}'::timestamptz, incomplete @> '{FIRST}'::timestamptz"
        f" FROM lakets._rollup_registry WHERE name = '{scene.wide}'"
    ) == [(False, True)]
    assert scene.run(audited) == [(start, end)]


def test_r8_what_is_made_from_it_follows_and_asking_for_that_begins_with_it(scene: Scene) -> None:
    scene.keep()
    scene.let_go()
    scene.make()
    longer = f"{scene.table}_long"
    query = (
        f"SELECT lakets.time_bucket('6 days', bucket, {ORIGIN}) AS bucket, sum(total) AS total, sum(n) AS n"
        f" FROM _rollup_{scene.wide} GROUP BY 1"
    )
    scene.run(f"SELECT lakets.create_rollup('{longer}', $q${query}$q$, '6 days')")
    assert scene.incomplete(longer) != "[]"
    done = scene.recomputer().run(longer, FIRST, FIRST + timedelta(days=1))
    assert [(one.rollup, one.where) for one in done.plan.lines] == [
        (scene.wide, "spark"),
        (longer, f"postgres, from {scene.wide}"),
    ]
    assert scene.run(
        f"SELECT incomplete * tstzmultirange(tstzrange('{FIRST}', '{FIRST + timedelta(days=6)}')) = '{{}}'"
        f" FROM lakets._rollup_registry WHERE name = '{longer}'"
    ) == [(True,)]
    scene.recomputer().run(longer)
    expected = scene.run(f"SELECT sum(v), count(*) FROM {scene.table}_all WHERE ts < '{FIRST + timedelta(days=12)}'")
    assert scene.run(f"SELECT sum(total), sum(n) FROM _rollup_{longer}") == expected


class Meddling(Recomputer):
    """Something happens between the read and the replacement."""

    meddle: Callable[[], None]

    def _computed(self, *arguments: Any) -> int:
        rows = super()._computed(*arguments)
        meddle, self.meddle = self.meddle, lambda: None
        meddle()
        return rows


def meddling(scene: Scene, meddle: Callable[[], None]) -> Meddling:
    made = Meddling(scene.lake.dsn, scene.lake.stack.reader)
    made.meddle = meddle
    return made


def test_r3_what_is_written_meanwhile_stays_marked_and_is_taken_in_the_next_time(scene: Scene) -> None:
    """The resident part of a bucket that has lost days: a refresh cannot compute it, so the mark is kept."""
    scene.keep()
    scene.let_go()
    scene.make()
    late = HOT + timedelta(hours=1)

    def write() -> None:
        for table in (scene.table, f"{scene.table}_all"):
            scene.run(f"INSERT INTO {table} VALUES ('{late}', 'd1', 1000, 1)")
        scene.run(f"SELECT lakets.refresh_rollup('{scene.wide}')")

    meddling(scene, write).run(scene.wide)
    assert scene.differences() != []
    assert scene.run(f"SELECT range_start FROM lakets.explain_rollup('{scene.wide}') WHERE item = 'recompute'") == [
        (FIRST + timedelta(days=6),)
    ]
    plan = scene.recomputer().plan(scene.wide, needed=True)
    assert [(one.reason, one.buckets) for one in plan.lines] == [("changed", 1)]
    scene.recomputer().run(scene.wide, needed=True)
    assert scene.differences() == []
    assert scene.recomputer().plan(scene.wide, needed=True).lines == ()


def test_r3_a_drop_meanwhile_lets_it_compute_again(scene: Scene) -> None:
    scene.keep()
    scene.let_go()
    scene.make()
    calls: list[int] = []

    def drop() -> None:
        calls.append(1)
        let_all_go(scene.lake, scene.table, HOT + timedelta(days=2))

    done = meddling(scene, drop).run(scene.wide)
    assert calls == [1]
    assert scene.differences() == []
    assert done.rows == 9


def test_r2_rows_that_are_in_no_tier_keep_their_buckets_hidden(scene: Scene) -> None:
    scene.run(f"SELECT lakets.disable_sync('{scene.table}')")
    scene.make()
    scene.run(
        "SELECT thermocline._drop_chunk(m.chunk_oid, NULL, false, true) FROM lakets._chunk_metadata m"
        f" JOIN lakets._chronotable_registry r ON r.id = m.chronotable_id WHERE r.table_name = '{scene.table}'"
        f" AND m.range_start = '{FIRST}'"
    )
    before = scene.run(f"TABLE _rollup_{scene.wide}")
    with pytest.raises(NothingToRecompute, match="they are in no tier"):
        scene.recomputer().run(scene.wide)
    assert scene.run(f"TABLE _rollup_{scene.wide}") == before


def test_values_that_the_lake_cannot_hold_are_refused_in_either_tier(scene: Scene) -> None:
    scene.run(f"INSERT INTO {scene.table} VALUES ('{FIRST}', 'd1', 1, 'NaN')")
    scene.let_go()
    scene.make()
    with pytest.raises(NotExact, match="column n has a value"):
        scene.recomputer().run(scene.wide, FIRST, FIRST + timedelta(days=1))
    assert scene.incomplete() != "[]"
    scene.run(f"INSERT INTO {scene.table} VALUES ('{HOT}', 'd1', 1, 'NaN')")
    with pytest.raises(NotExact, match="column n has a value"):
        scene.recomputer().run(scene.wide, HOT, HOT + timedelta(hours=1))


def test_one_value_that_the_lake_cannot_hold_is_found_among_many_of_a_column_that_nobody_reads(scene: Scene) -> None:
    scene.run(
        f"ALTER TABLE {scene.table} ADD o timestamp",
        f"INSERT INTO {scene.table} SELECT '{FIRST}', 'd1', 1, 1, timestamp '20000-01-01' + g * interval '1 s'"
        " FROM generate_series(1, 20000) g",
    )
    scene.let_go()
    scene.make()
    assert scene.recomputer().run(scene.wide, FIRST, FIRST + timedelta(days=1)).rows > 0
    scene.run(f"SELECT lakets.set_late_rows('{scene.table}', 'lake')")
    scene.run(f"INSERT INTO {scene.table} VALUES ('{FIRST}', 'd1', 1, 'NaN')")
    with scene.lake.feeding():
        (line,) = scene.lake.stack.late_rows(scene.table, on_spark=False).settle()
    assert line.verdict == "settled"
    with pytest.raises(NotExact, match="column n has a value"):
        scene.recomputer().run(scene.wide, FIRST, FIRST + timedelta(days=1))


def test_a_sum_that_overflows_is_refused(scene: Scene) -> None:
    scene.run(
        f"ALTER TABLE {scene.table} ADD f float8",
        f"INSERT INTO {scene.table} SELECT '{FIRST}', 'd1', 1, 1, 1e308 FROM generate_series(1, 2)",
    )
    scene.let_go()
    name = f"{scene.table}_f"
    scene.run(
        f"SELECT lakets.create_rollup('{name}', $q$SELECT lakets.time_bucket('1 day', ts) AS bucket, sum(f) AS s"
        f" FROM {scene.table} GROUP BY 1$q$, '1 day')"
    )
    with pytest.raises(NotExact, match=r"rollup\.overflow"):
        scene.recomputer().run(name)


def test_marks_of_a_table_and_what_they_refuse(scene: Scene) -> None:
    scene.make()
    oid = scene.run(f"SELECT '{scene.table}'::regclass::oid::bigint")[0][0]
    assert scene.run(f"SELECT lakets._mark_recompute({oid}::oid, '{FIRST}', '{HOT}')") == [(1,)]
    assert scene.run(f"SELECT lakets._mark_recompute('_rollup_{scene.wide}'::regclass, '{FIRST}', '{HOT}')") == [(1,)]
    for statement, said in (
        (f"SELECT lakets._mark_recompute('pg_class'::regclass, '{FIRST}', '{HOT}')", "neither a ChronoTable"),
        (f"SELECT lakets._mark_recompute({oid}::oid, '{HOT}', '{FIRST}')", "cannot mark"),
        (f"SELECT lakets._mark_recompute({oid}::oid, NULL, '{FIRST}')", "cannot mark"),
        (f"SELECT lakets.set_rollup_recompute('{scene.wide}', NULL)", "neither"),
        ("SELECT lakets.set_rollup_recompute('nobody', true)", "no RollUp nobody"),
    ):
        with pytest.raises(psycopg.errors.RaiseException, match=said):
            scene.run(statement)
    # What is resident is a refresh's: there is nothing to recompute, and the marks go.
    with pytest.raises(Refused, match="All rows of"):
        scene.recomputer().run(scene.wide, needed=True)


def test_a_node_recomputes_by_itself_what_needs_it_if_the_rollup_says_so(scene: Scene) -> None:
    scene.keep()
    scene.let_go()
    scene.make()
    assert Node(scene.lake.stack, kinds=("recompute",)).once().ended == {}
    scene.run(f"SELECT lakets.set_rollup_recompute('{scene.wide}', true)")
    scene.run("DELETE FROM thermocline.schedule_run WHERE kind = 'recompute'")
    assert Node(scene.lake.stack, kinds=("recompute",)).once().ended == {"done": 1}
    assert scene.differences() == []
    scene.run("DELETE FROM thermocline.schedule_run WHERE kind = 'recompute'")
    assert Node(scene.lake.stack, kinds=("recompute",)).once().ended == {}
    oid = scene.run(f"SELECT '{scene.table}'::regclass::oid::bigint")[0][0]
    scene.run(f"UPDATE _rollup_{scene.wide} SET total = -1 WHERE bucket = '{FIRST}'")
    scene.run(f"SELECT lakets._mark_recompute({oid}::oid, '{FIRST}', '{FIRST + timedelta(hours=1)}')")
    scene.run("DELETE FROM thermocline.schedule_run WHERE kind = 'recompute'")
    assert Node(scene.lake.stack, kinds=("recompute",)).once().ended == {"done": 1}
    assert scene.differences() == []
    assert scene.run(
        "SELECT count(*) FROM lakets._rollup_recompute m JOIN lakets._rollup_registry r ON r.id = m.rollup_id"
        f" WHERE r.name = '{scene.wide}'"
    ) == [(0,)]


def test_a_late_row_for_the_lake_marks_its_bucket_and_a_recompute_takes_it_in(scene: Scene) -> None:
    scene.keep()
    scene.make()
    scene.let_go()
    scene.run(f"SELECT lakets.set_late_rows('{scene.table}', 'lake')")
    for table in (scene.table, f"{scene.table}_all"):
        scene.run(f"INSERT INTO {table} VALUES ('{FIRST + timedelta(hours=30)}', 'd1', 5000, 1)")
    assert scene.differences() != []
    plan = scene.recomputer().plan(scene.wide, needed=True)
    assert [(one.reason, one.start, one.buckets) for one in plan.lines] == [("changed", FIRST, 1)]
    scene.recomputer().run(scene.wide, needed=True)
    assert scene.differences() == []
    assert scene.recomputer().plan(scene.wide, needed=True).lines == ()


def test_a_late_row_comes_to_the_lake_and_into_a_rollup_by_nodes_alone(scene: Scene) -> None:
    scene.keep()
    scene.make()
    scene.let_go()
    scene.run(
        f"SELECT lakets.set_late_rows('{scene.table}', 'lake')",
        f"SELECT lakets.set_rollup_recompute('{scene.wide}', true)",
    )
    late = f"VALUES ('{FIRST + timedelta(hours=30)}'::timestamptz, 'd1', 5000, 1)"
    scene.run(f"INSERT INTO {scene.table} {late}", f"INSERT INTO {scene.table}_all {late}")
    with scene.lake.feeding():
        for kind in ("settle", "recompute"):
            assert scene.run(f"SELECT count(*) FROM {scene.table} WHERE v = 5000") == [(int(kind == "settle"),)]
            scene.run(f"DELETE FROM thermocline.schedule_run WHERE kind = '{kind}'")
            assert set(Node(scene.lake.stack, kinds=(kind,)).once().ended) == {"done"}
    assert scene.differences() == []
