"""The job that brings ranges back: what its plan says and nothing else, by whoever holds the unit."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.lakes import BASE, NOON, Lake, age, chunk
from harness.processes import Command
from harness.questions import ask
from thermocline.config import WorkSettings
from thermocline.gate import drop
from thermocline.gate.rehydrate import NothingToBring
from thermocline.hot.statements import query
from thermocline.stack import Stack
from thermocline.work import units
from thermocline.work.job import Target
from thermocline.work.jobs import jobs, lane
from thermocline.work.node import Node
from thermocline.work.units import Claim, LeaseLost, Wanted

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from thermocline.work.job import Job

DAY = timedelta(days=1)
STAGED = f"SELECT to_regclass('{chunk(0)}'), to_regclass('{chunk(1)}')"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Three days, of which the first two have left."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    lake.let_go(0, 1)
    return lake


def wish(lake: Lake, day: int) -> None:
    lake.run(f"SELECT lakets.rehydrate('m', '{BASE + day * DAY}', '{BASE + (day + 1) * DAY}')")


def job(lake: Lake) -> Job:
    return jobs(Stack(lake.stack.settings.model_copy(update={"work": WorkSettings(in_process=True)})))["rehydrate"]


def claimed(lake: Lake, db: psycopg.Connection) -> tuple[Target, Claim]:
    """The unit of the only table, and the table."""
    ((number,),) = lake.run("SELECT lakets._chronotable_id('m', 'public')")
    units.enqueue(db, Wanted("rehydrate", number, destructive=True, lane=lane(job(lake), number)))
    (claim,) = units.claim(db, "me", ["rehydrate"], lake.dsn)
    return Target(number, '"public"."m"', "public.m"), claim


def told(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(line["range_start"][:10], line["verdict"]) for line in result["ranges"]]


def test_only_what_was_planned_comes_back(lake: Lake, db: psycopg.Connection) -> None:
    wish(lake, 0)
    target, claim = claimed(lake, db)
    plan = job(lake).plan(target, claim)
    assert [(line.object, line.action) for line in plan.lines] == [(f"{BASE:%Y-%m-%d %H:%M}", "bring back")]
    wish(lake, 1)
    with lake.feeding():
        assert told(job(lake).execute(plan, claim)) == [(f"{BASE:%Y-%m-%d}", "back")]
        assert lake.run("SELECT range_start FROM thermocline.rehydration") == [(BASE + DAY,)]
        assert lake.run("SELECT count(*) FROM m") == [(48,)]
        later = job(lake).plan(target, claim)
        assert told(job(lake).execute(later, claim)) == [(f"{BASE + DAY:%Y-%m-%d}", "back")]
    assert lake.run("SELECT count(*) FROM m") == [(72,)]


def test_a_worker_that_was_overtaken_attaches_nothing(lake: Lake, db: psycopg.Connection) -> None:
    wish(lake, 0)
    target, claim = claimed(lake, db)
    plan = job(lake).plan(target, claim)
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now()")
    (other,) = units.claim(db, "other", ["rehydrate"], lake.dsn)
    with lake.feeding():
        with pytest.raises(LeaseLost):
            job(lake).execute(plan, claim)
        assert claim.lost
        assert lake.run("SELECT count(*) FROM m") == [(24,)]
        assert lake.run(STAGED) == [(None, None)]
        lake.run("UPDATE thermocline.rehydration SET not_before = now()")
        assert told(job(lake).execute(job(lake).plan(target, other), other)) == [(f"{BASE:%Y-%m-%d}", "back")]
    assert lake.run("SELECT count(*) FROM m") == [(48,)]


def test_what_is_brought_back_is_drawn_from_the_budget_with_its_bytes(lake: Lake, db: psycopg.Connection) -> None:
    """Nothing is refilled meanwhile, so what is left says what was drawn."""
    ask(
        db,
        "UPDATE thermocline.work_budget SET bytes_per_second = 1e12, bytes_left = 1e9, operations_per_second = 1e6,"
        " operations_left = 1000, filled_at = now() + interval '1 day'",
    )
    ((size,),) = lake.run(f"SELECT size_bytes FROM lakets._chunk_metadata WHERE range_start = '{BASE}'")
    assert size > 0
    wish(lake, 0)
    target, claim = claimed(lake, db)
    with lake.feeding():
        job(lake).execute(job(lake).plan(target, claim), claim)
    assert ask(db, "SELECT bytes_left, operations_left FROM thermocline.work_budget") == [(1e9 - size, 999)]


@pytest.mark.parametrize("come", [True, False], ids=["come", "not come"])
def test_what_is_no_longer_kept_goes_also_where_the_policy_has_not_come_to_it(lake: Lake, come: bool) -> None:
    """A policy that has come to it drops it itself; until one has, the job that brought it back does."""
    before = lake.content()
    with lake.feeding():
        lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY, timedelta(hours=1))
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(0) if come else '30 days'}')")
    targets = "SELECT count(*) FROM (" + query("work_targets_rehydrate").rstrip().rstrip(";") + ") t"
    assert lake.run(targets) == [(0,)], "it is kept"
    lake.run("UPDATE lakets._chunk_metadata SET kept_until = now() WHERE kept_until IS NOT NULL")
    assert lake.run(targets) == [(0 if come else 1,)]
    said = "It is due since" if come else "no longer kept: a node drops it"
    assert said in lake.stack.why(chunk(0)).summary
    stack = Stack(lake.stack.settings.model_copy(update={"work": WorkSettings(poll=0.05, in_process=True)}))
    lake.run("UPDATE thermocline.schedule SET enabled = kind IN ('retention', 'rehydrate')")
    with lake.feeding():
        assert set(Node(stack, kinds=("retention", "rehydrate")).once().ended) == {"done"}
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]
    ((reason,),) = lake.run("SELECT reason FROM thermocline.audit WHERE action = 'drop_chunk' ORDER BY id DESC LIMIT 1")
    assert ("retention policy" in reason) is come
    assert lake.content() == before


@pytest.mark.parametrize("by", ["command", "node"])
def test_late_rows_of_a_neighbour_in_the_same_trap_are_settled_first(
    lake: Lake, db: psycopg.Connection, by: str
) -> None:
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    drop.merge_traps(lake.dsn)
    assert lake.run("SELECT count(*), bool_and(is_open) FROM thermocline.trap") == [(1, True)]
    if by == "node":
        wish(lake, 1)
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)")
    with lake.feeding():
        if by == "node":
            target, claim = claimed(lake, db)
            assert told(job(lake).execute(job(lake).plan(target, claim), claim)) == [(f"{BASE + DAY:%Y-%m-%d}", "back")]
        else:
            (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + DAY, BASE + 2 * DAY)
            assert line.verdict == "back", line
    assert lake.run("SELECT count(*), min(ts) FROM m") == [(48, BASE + DAY)]
    assert lake.run("SELECT action, row_count FROM thermocline.audit ORDER BY id DESC LIMIT 2") == [
        ("rehydrate", 24),
        ("settle_late_rows", 1),
    ]


def test_late_rows_that_cannot_be_settled_are_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    drop.merge_traps(lake.dsn)
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)")
    monkeypatch.setattr("thermocline.gate.receipt._START", 0)
    with pytest.raises(NothingToBring, match="late rows for it or for ranges beside it are on their way") as error:
        lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + DAY, BASE + 2 * DAY)
    assert "thermocline late" in error.value.next_step
    assert lake.run("SELECT count(*) FROM m WHERE id = 99") == [(1,)]


def test_the_audit_tells_people_on_what_a_range_came_back(lake: Lake) -> None:
    with lake.feeding():
        lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY)
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn, "COLUMNS": "500"})
    (known,) = command.run("audit", "--action", "rehydrate", "--json").json["audit"]
    evidence = known["evidence"]
    told = command.run("audit", "--action", "rehydrate").out
    for name in ("position", "lake_snapshot", "attached_at", "kept_until"):
        assert f"{name} {evidence[name]}" in told
    assert evidence["kept_until"] == "infinity"
