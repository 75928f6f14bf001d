"""Pacing: seats and a budget that all nodes share."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness.questions import ask, one
from thermocline.work import pacing
from thermocline.work.pacing import Budget
from thermocline.work.units import Halted


def test_at_most_so_many_have_a_seat_and_a_dead_one_gives_it_back(db: psycopg.Connection, dsn: str) -> None:
    ask(db, "UPDATE thermocline.work_budget SET most_at_once = 2")
    holders = [psycopg.connect(dsn, autocommit=True) for _ in range(3)]
    first, second, third = (pacing.seat(session, "maintenance") for session in holders)
    assert first.__enter__() == 1
    assert second.__enter__() == 2
    assert third.__enter__() is None
    third.__exit__(None, None, None)
    holders[0].close()  # as when its process dies
    deadline = time.monotonic() + 20
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
    ask(db, "UPDATE thermocline.work_budget SET bytes_per_second = 1e6, filled_at = now(), bytes_left = 0")
    barrier = threading.Barrier(4)

    def draw() -> None:
        budget = Budget(dsn, "maintenance")
        barrier.wait(20)
        for _ in range(5):
            budget.spend(size=100_000)

    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(draw) for _ in range(4)]:
            future.result(60)
    took = time.monotonic() - began
    assert 1.9 < took < 30, took


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

    def check() -> None:
        raise Halted

    with pytest.raises(Halted):
        Budget(dsn, "maintenance").spend(operations=5, check=check)
