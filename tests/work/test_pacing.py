"""Pacing: seats and a budget that all nodes share."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask, one
from thermocline.config import HotSettings, Settings
from thermocline.stack import Stack
from thermocline.work import pacing, units
from thermocline.work.node import Node
from thermocline.work.pacing import Budget
from thermocline.work.units import Halted, Wanted
from thermocline.work.worker import Worker
from work.stage import Heavy, Told, fill, settings, until

if TYPE_CHECKING:
    from pathlib import Path


def halt() -> None:
    """As a unit does that was cancelled."""
    raise Halted


def test_at_most_so_many_have_a_seat_and_a_dead_one_gives_it_back(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET most_at_once = 2")
    holders = [psycopg.connect(dsn, autocommit=True) for _ in range(3)]
    first, second, third = (pacing.seat(session, "maintenance") for session in holders)
    assert first.__enter__() == 1
    assert second.__enter__() == 2
    assert third.__enter__() is None
    third.__exit__(None, None, None)
    holders[0].close()  # as when its process dies
    deadline = time.monotonic() + 60
    found = None
    while found is None and time.monotonic() < deadline:
        with pacing.seat(holders[2], "maintenance") as found:
            pass
    assert found == 1
    second.__exit__(None, None, None)
    with pacing.seat(holders[2], "maintenance") as one_, pacing.seat(db, "maintenance") as two:
        assert {one_, two} == {1, 2}
    assert one(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
               " (SELECT oid FROM pg_database WHERE datname = current_database())") == 0  # fmt: skip
    for session in holders:
        session.close()


def test_four_units_of_maintenance_at_once_is_the_default(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT class, most_at_once, bytes_per_second FROM thermocline.work_budget") == [
        ("maintenance", 4, None)
    ]


def test_nobody_waits_where_there_is_no_limit(dsn: str) -> None:
    assert Budget(dsn, "maintenance").spend(size=1e12, operations=1e9) == 0


def test_spending_at_once_keeps_to_the_rate(db: psycopg.Connection, dsn: str) -> None:
    """Four at once draw 2 MB in pieces of 100 kB from 1 MB a second: it takes about two seconds, whoever draws."""
    began = time.monotonic()
    ask(db, "UPDATE thermocline.work_budget SET bytes_per_second = 1e6, filled_at = now(), bytes_left = 0")
    barrier = threading.Barrier(4)

    def draw() -> None:
        budget = Budget(dsn, "maintenance")
        barrier.wait(60)
        for _ in range(5):
            budget.spend(size=100_000)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(draw) for _ in range(4)]:
            future.result(120)
    took = time.monotonic() - began
    assert 1.9 < took < 60, took


def test_operations_are_a_budget_of_their_own_and_a_pause_saves_a_second(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET operations_per_second = 10, filled_at = now() - interval '1 h'")
    budget = Budget(dsn, "maintenance")
    began = time.monotonic()
    assert budget.spend(operations=10) == 0
    waited = budget.spend(operations=5, size=1e9)
    assert waited <= 0.5
    assert time.monotonic() - began > 0.49, "what went by before the second draw counts, too"


def test_who_waits_can_be_told_to_stop(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET operations_per_second = 0.001, filled_at = now()")
    with pytest.raises(Halted):
        Budget(dsn, "maintenance").spend(operations=5, check=halt)


def test_a_rate_that_is_changed_while_somebody_waits_counts_at_once(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET operations_per_second = 1, filled_at = now()")
    budget = Budget(dsn, "maintenance")
    budget.spend(operations=1)
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            ask(db, "UPDATE thermocline.work_budget SET operations_per_second = NULL")

    waited = budget.spend(operations=1000, check=check)
    assert 5 <= waited <= 6, f"owed a thousand seconds, waited {waited} s"


def test_over_all_nodes_no_more_units_of_maintenance_run_at_once_than_there_are_seats(
    db: psycopg.Connection, dsn: str
) -> None:
    ask(db, "UPDATE thermocline.work_budget SET most_at_once = 2")
    running, most, lock = [0], [0], threading.Lock()

    def runs() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        until(lambda: most[0] == 2)  # it does come to two
        time.sleep(0.05)
        with lock:
            running[0] -= 1

    scopes = [str(number) for number in range(8)]
    for scope in scopes:
        units.enqueue(db, Wanted("heavy", scope=scope))
    job = Heavy(**dict.fromkeys(scopes, runs))
    nodes = [Worker(dsn, {"heavy": job}, settings(concurrency=4), owner=owner) for owner in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        # A node that finds no seat free says that nothing is there for it; what is left the other one does.
        tallies = [found.result(120) for found in [pool.submit(node.run, once=True) for node in nodes]]
    assert sum(tally.ended.get("done", 0) for tally in tallies) == 8
    assert most == [2]


def test_a_node_runs_as_many_units_at_once_as_it_is_told(db: psycopg.Connection, dsn: str, tmp_path: Path) -> None:
    meet = threading.Barrier(3)
    fill(db, "a", "b", "c")
    job = Told(**dict.fromkeys(("a", "b", "c"), lambda: meet.wait(60)))
    assert Worker(dsn, {"told": job}, settings(concurrency=3)).run(once=True).ended == {"done": 3}
    stack = Stack(Settings(home=tmp_path / "home", hot=HotSettings(dsn=dsn)))
    assert Node(stack, concurrency=3).worker.concurrency == 3
    assert Node(stack).worker.concurrency == stack.settings.work.concurrency


def test_work_rests_while_somebody_makes_the_database_slow(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET slow_after = '200 ms'")
    budget = Budget(dsn, "maintenance")
    looks: list[float] = []
    with psycopg.connect(dsn) as busy:
        busy.execute("SELECT FROM thermocline.work_budget FOR UPDATE")

        def release() -> None:
            until(
                lambda: one(db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'") == 1
            )
            time.sleep(0.6)
            busy.rollback()

        releasing = threading.Thread(target=release)
        releasing.start()
        began = time.monotonic()
        budget.spend(operations=1, check=lambda: looks.append(time.monotonic() - began))
        took = time.monotonic() - began
        releasing.join()
    assert looks, "it did not rest"
    assert looks[0] >= 0.5
    assert took >= looks[0] + 0.5, "it looked again before half a second was over"


def test_a_database_that_is_always_slow_makes_work_slow_and_not_stuck(
    db: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_LONGEST_REST", 2.0)
    ask(db, "UPDATE thermocline.work_budget SET slow_after = '1 microsecond'")
    looks: list[float] = []
    began = time.monotonic()
    Budget(dsn, "maintenance").spend(operations=1, check=lambda: looks.append(time.monotonic() - began))
    assert len(looks) == 3, "after 0.5, 1 and 2 seconds"
    assert time.monotonic() - began >= 3.5
    ask(db, "UPDATE thermocline.work_budget SET slow_after = NULL")
    Budget(dsn, "maintenance").spend(operations=1, check=lambda: looks.append(0))
    assert len(looks) == 3, "it rested though it was told never to"


def test_who_rests_can_be_told_to_stop(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET slow_after = '1 microsecond'")
    with pytest.raises(Halted):
        Budget(dsn, "maintenance").spend(operations=1, check=halt)
