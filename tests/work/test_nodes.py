"""Nodes as real processes: killed, put to sleep, cut off from the database, stopped in good order."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.crash_servers import crash_server
from harness.questions import ask, one
from work.stage import WATCHED, Node, require_no_zombie_wrote, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    db.execute(WATCHED.encode())
    return db


@pytest.fixture
def nodes() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def started(nodes: ExitStack, dsn: str, owner: str, **options: Any) -> Node:
    node = Node(dsn, owner=owner, **options)
    nodes.callback(node.end)
    return node


def all_at_once(nodes: ExitStack, dsn: str, *owners: str, **options: Any) -> list[Node]:
    """All of them wait for work when this returns: what is made then, none of them has done before another began."""
    found = [started(nodes, dsn, owner, **options) for owner in owners]
    for node in found:
        node.wait_until_ready()
    return found


def fill(db: psycopg.Connection, count: int, payload: dict[str, Any] | None = None, **fields: Any) -> None:
    ask(
        db,
        "INSERT INTO thermocline.work_unit (kind, scope, payload, max_attempts)"
        " SELECT 'effect', g::text, %s, %s FROM generate_series(1, %s) g",
        json.dumps(payload or {}),
        fields.get("max_attempts", 3),
        count,
    )


def expire(db: psycopg.Connection, *owners: str) -> list[tuple[int, str]]:
    """The leases of these are over now; returns the units that they had, with the owner of each."""
    statement = (
        "UPDATE thermocline.work_unit SET lease_until = now() WHERE status = 'claimed' AND owner = ANY (%s)"
        " RETURNING id, owner"
    )
    return [(number, owner) for number, owner in ask(db, statement, list(owners))]


def counts(db: psycopg.Connection) -> dict[str, int]:
    return dict(ask(db, "SELECT status, count(*) FROM thermocline.work_unit GROUP BY status"))


def owned_by(db: psycopg.Connection, owner: str) -> int:
    return int(one(db, "SELECT count(*) FROM thermocline.work_unit WHERE owner = %s AND status = 'claimed'", owner))


def put_to_sleep(db: psycopg.Connection, node: Node, owner: str) -> None:
    """While it is at a unit, and once the server has carried out what it was told before."""
    while True:
        node.send(signal.SIGSTOP)
        time.sleep(0.2)
        if owned_by(db, owner):
            return
        node.send(signal.SIGCONT)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.promise("002-02")
@pytest.mark.promise("002-03")
def test_d1_d2_three_processes_share_a_thousand_units_one_killed_one_asleep(
    db: psycopg.Connection, dsn: str, nodes: ExitStack
) -> None:
    """The sleeper wakes up after its lease, at units that others have taken over: nothing of it is written.

    Its own clock does not tell it that the lease is over, so it has only what the database says. Where it sleeps behind
    a fence, that stands until the lease that it was promised is over.
    """
    victim, sleeper, other = all_at_once(nodes, dsn, "victim", "sleeper", "other", lease=20)
    fill(db, 1000, {"seconds": 0.01})
    until(lambda: one(db, "SELECT count(DISTINCT owner) FROM effect") == 3)
    put_to_sleep(db, sleeper, "sleeper")
    put_to_sleep(db, victim, "victim")
    victim.send(signal.SIGKILL)
    held = expire(db, "victim", "sleeper")
    assert {owner for _, owner in held} == {"victim", "sleeper"}
    until(lambda: counts(db).get("done", 0) == 1000 or all(
        one(db, "SELECT owner FROM thermocline.work_unit WHERE id = %s", number) == "other" for number, _ in held
    ), 300)  # fmt: skip
    sleeper.send(signal.SIGCONT)
    until(lambda: counts(db) == {"done": 1000}, 300)
    for node in (sleeper, other):
        node.send(signal.SIGTERM)
    told = json.loads(sleeper.wait())
    other.wait()
    assert told["lost"] + told["ended"].get("lost", 0) > 0, "the sleeper has found out"
    require_no_zombie_wrote(db)
    twice = ask(db, "SELECT unit FROM effect GROUP BY unit HAVING count(*) > 1")
    assert {unit for (unit,) in twice} <= {unit for unit, owner in held}, "only what a dead worker had done already"
    assert one(db, "SELECT count(DISTINCT unit) FROM effect") == 1000
    again = ask(db, "SELECT unit FROM claimed WHERE epoch > 1")
    assert {unit for (unit,) in again} >= {unit for unit, _ in held}
    assert one(db, "SELECT max(attempt) FROM thermocline.work_unit") <= 2
    assert one(db, "SELECT count(DISTINCT owner) FROM effect") == 3


def test_d3_a_unit_that_kills_its_worker_is_dead_after_its_attempts(
    db: psycopg.Connection, dsn: str, nodes: ExitStack
) -> None:
    fill(db, 1, {"kills": True}, max_attempts=2)
    for attempt in (1, 2):
        node = started(nodes, dsn, f"victim {attempt}")
        node.wait()
        assert node.process.returncode == -signal.SIGKILL
        assert expire(db, f"victim {attempt}") == [(1, f"victim {attempt}")]
    survivor = started(nodes, dsn, "survivor")
    until(lambda: counts(db) == {"dead": 1})
    survivor.send(signal.SIGTERM)
    assert json.loads(survivor.wait())["ended"] == {"dead": 1}
    assert ask(db, "SELECT attempt, last_error FROM thermocline.work_unit") == [
        (2, "its worker victim 2 let the lease run out, as in 1 attempts before")
    ]


def test_a_unit_that_kills_its_worker_takes_no_attempts_from_those_claimed_with_it(
    db: psycopg.Connection, dsn: str, nodes: ExitStack
) -> None:
    """Quick units are claimed some at a time. When that is lost, each comes alone, so only the culprit dies."""
    fill(db, 60)
    ask(db, "UPDATE thermocline.work_unit SET kind = 'nothing' WHERE id < 60")
    ask(db, "UPDATE thermocline.work_unit SET payload = '{\"kills\": true}', max_attempts = 1 WHERE kind = 'effect'")
    for attempt in (1, 2):
        node = started(nodes, dsn, f"victim {attempt}", concurrency=1, together=16)
        node.wait()
        assert node.process.returncode == -signal.SIGKILL
        expire(db, f"victim {attempt}")
    survivor = started(nodes, dsn, "survivor")
    until(lambda: counts(db) == {"done": 59, "dead": 1})
    survivor.send(signal.SIGTERM)
    survivor.wait()
    assert one(db, "SELECT count(*) FROM claimed WHERE epoch > 1") > 1, "it was lost with others"
    assert ask(db, "SELECT DISTINCT kind, attempt FROM thermocline.work_unit ORDER BY kind") == [
        ("effect", 1),
        ("nothing", 1),
    ]


def test_what_waits_behind_a_slow_unit_is_done_by_another_node(
    db: psycopg.Connection, dsn: str, nodes: ExitStack
) -> None:
    fill(db, 60)
    ask(db, "UPDATE thermocline.work_unit SET kind = 'nothing'")
    ask(db, "UPDATE thermocline.work_unit SET kind = 'effect', payload = '{\"seconds\": 600}' WHERE id = 40")
    slow = started(nodes, dsn, "slow", concurrency=1, together=16, grace=0.1)
    until(lambda: ask(db, "TABLE begun"))
    free = started(nodes, dsn, "free", concurrency=1)
    until(lambda: counts(db) == {"done": 59, "claimed": 1})
    assert ask(db, "SELECT id, owner FROM thermocline.work_unit WHERE status = 'claimed'") == [(40, "slow")]
    assert one(db, "SELECT max(attempt) FROM thermocline.work_unit") == 1
    for node in (free, slow):
        node.send(signal.SIGTERM)
        node.wait()
    assert ask(db, "SELECT status, attempt FROM thermocline.work_unit WHERE id = 40") == [("pending", 0)]


def test_two_nodes_share_one_budget(db: psycopg.Connection, dsn: str, nodes: ExitStack) -> None:
    """Five operations a second, whoever draws them: sixteen take three seconds, because the first is free."""
    ask(db, "CREATE TABLE spent (at timestamptz DEFAULT clock_timestamp(), owner text)")
    two = all_at_once(nodes, dsn, "first", "second", concurrency=2)
    with db.transaction():
        ask(db, "UPDATE thermocline.work_budget SET operations_per_second = 5, operations_left = 1, filled_at = now()")
        fill(db, 16)
        ask(db, "UPDATE thermocline.work_unit SET kind = 'spending'")
    until(lambda: counts(db) == {"done": 16})
    assert one(db, "SELECT count(DISTINCT owner) FROM spent") == 2
    # In any second from the first one on there are five, and one second's worth that was saved while a node started.
    took, count = ask(db, "SELECT extract(epoch FROM max(at) - min(at)), count(*) FROM spent")[0]
    assert count == 16
    assert took > (16 - 1 - 5) / 5 - 0.1
    for node in two:
        node.send(signal.SIGTERM)
        node.wait()


def test_long_work_keeps_its_lease(db: psycopg.Connection, dsn: str, nodes: ExitStack) -> None:
    first, second = all_at_once(nodes, dsn, "first", "second", lease=6)
    fill(db, 1, {"seconds": 8})
    until(lambda: counts(db) == {"done": 1})
    assert ask(db, "SELECT epoch FROM effect") == [(1,)]
    for node in (first, second):
        node.send(signal.SIGTERM)
        node.wait()


def test_a_stopped_node_finishes_what_it_is_at(db: psycopg.Connection, dsn: str, nodes: ExitStack) -> None:
    fill(db, 5, {"seconds": 4})
    node = started(nodes, dsn, "one", concurrency=1, grace=60)
    until(lambda: ask(db, "TABLE begun"))
    node.send(signal.SIGTERM)
    assert json.loads(node.wait())["ended"] == {"done": 1}
    assert counts(db) == {"done": 1, "pending": 4}
    assert node.process.returncode == 0


def test_a_stopped_node_hands_back_what_takes_too_long(db: psycopg.Connection, dsn: str, nodes: ExitStack) -> None:
    """At once and without using up an attempt; what the old one still does is refused by the fence."""
    fill(db, 1, {"seconds": 600})
    node = started(nodes, dsn, "one", grace=0.3)
    until(lambda: ask(db, "TABLE begun"))
    node.send(signal.SIGTERM)
    node.wait()
    assert ask(db, "SELECT status, attempt, last_error FROM thermocline.work_unit") == [
        ("pending", 0, "its node was stopped")
    ]
    assert ask(db, "TABLE effect") == []


def test_d18_one_units_failure_stops_no_other(db: psycopg.Connection, dsn: str, nodes: ExitStack) -> None:
    fill(db, 20)
    ask(db, "UPDATE thermocline.work_unit SET payload = '{\"fails\": true}', max_attempts = 50 WHERE id % 4 = 0")
    node = started(nodes, dsn, "one", once=True)
    ended = json.loads(node.wait())["ended"]
    assert counts(db) == {"done": 15, "pending": 5}
    # Any wait up to the longest: one may come round again before the node has ended.
    (attempts,) = ask(db, "SELECT sum(attempt) FROM thermocline.work_unit WHERE status = 'pending'")[0]
    assert ended == {"done": 15, "retry": attempts}
    assert attempts >= 5
    waits = ask(db, "SELECT last_error, not_before - ended_at, not_before > made_at FROM thermocline.work_unit"
                " WHERE status = 'pending'")  # fmt: skip
    assert {error for error, _, _ in waits} == {"RuntimeError: it fails each time"}
    ask(db, "UPDATE thermocline.work_unit SET not_before = now(), attempt = 49 WHERE status = 'pending'")
    assert json.loads(started(nodes, dsn, "two", once=True).wait())["ended"] == {"dead": 5}


@pytest.mark.slow
def test_the_database_is_restarted_under_load_and_work_goes_on(tmp_path: Path, major: int, nodes: ExitStack) -> None:
    with (
        crash_server(tmp_path / "server", major) as server,
        server.server().template() as template,
        server.server().database(template) as dsn,
    ):
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(WATCHED.encode())
            two = all_at_once(nodes, dsn, "first", "second", lease=5)
            fill(db, 600, {"seconds": 0.01}, max_attempts=5)
            until(lambda: one(db, "SELECT count(DISTINCT owner) FROM effect") == 2)
        server.crash_and_recover(down=1)
        with psycopg.connect(dsn, autocommit=True) as db:
            assert one(db, "SELECT count(*) FROM thermocline.work_unit WHERE status = 'done'") < 600
            until(lambda: counts(db) == {"done": 600}, 120)
            require_no_zombie_wrote(db)
            assert one(db, "SELECT count(DISTINCT unit) FROM effect") == 600
            assert [node.process.poll() for node in two] == [None, None], "they went on by themselves"
            for node in two:
                node.send(signal.SIGTERM)
            assert sum(json.loads(node.wait())["ended"].get("done", 0) for node in two) <= 600
