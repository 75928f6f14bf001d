"""A worker that meets what nobody expects: its node goes on, and what others wait for is handed back."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest
from psycopg import errors as pg

from harness.questions import ask, one
from harness.sessions import Session
from thermocline.errors import Unreachable
from thermocline.hot import connection
from thermocline.work import batch, units
from thermocline.work.keeper import Keeper
from thermocline.work.units import Claim, Ending, Status, Wanted
from thermocline.work.worker import Worker
from work.stage import Heavy, Told, fill, settings, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from thermocline.work.job import Plan


def worker(dsn: str, job: Told, **options: Any) -> Worker:
    return Worker(dsn, {"told": job}, settings(concurrency=1), owner="one", **options)


def statuses(db: psycopg.Connection) -> list[str]:
    return [row[0] for row in ask(db, "SELECT status FROM thermocline.work_unit ORDER BY id")]


def working() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("work-")]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are claimed together from the first one on."""
    monkeypatch.setattr(batch.Pace, "learn", lambda *_: None)
    monkeypatch.setattr(batch.Pace, "__init__", lambda self: setattr(self, "most", 9))


@pytest.mark.usefixtures("together")
def test_a_database_error_while_others_wait_ends_no_node(
    db: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when what waits behind a slow unit is handed back; the next look does it."""
    monkeypatch.setattr(batch, "_TOO_LONG", 0)
    fill(db, "slow", "x", "y")
    write = units.end
    refused: list[Any] = []

    def end(session: psycopg.Connection, endings: Any) -> list[Claim]:
        if len(refused) < 2:
            refused.append(endings)
            raise pg.DiskFull("no space left")
        return write(session, endings)

    monkeypatch.setattr(units, "end", end)
    tally = worker(dsn, Told(slow=lambda: until(lambda: len(refused) == 2))).run(once=True)
    assert tally.ended == {"done": 3}


def test_a_worker_that_ends_by_an_error_leaves_no_thread_behind(
    db: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the supervisor the next worker of the same process would run beside them."""
    outside = threading.Event()
    fill(db, "x")

    def relieve(self: Worker, _batches: Any) -> None:
        if not self._over.is_set():
            raise RuntimeError("nobody thought of it")

    monkeypatch.setattr(Worker, "_relieve", relieve)
    with pytest.raises(RuntimeError, match="nobody thought"):
        worker(dsn, Told(), stop=outside).run()
    assert working() == []
    assert not outside.is_set()


def test_an_error_of_the_first_statement_of_a_session_is_ours(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "NO_TRANSACTION_TIMEOUT", "SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(Unreachable), connection.connect(dsn):
        pass


# ---- endings that PostgreSQL refuses -------------------------------------------------------------


def raising(text: str) -> Callable[[], Any]:
    def fails() -> None:
        raise RuntimeError(text)

    return fails


@pytest.mark.usefixtures("together")
def test_texts_and_numbers_that_postgresql_does_not_know_are_written_as_they_can_be(
    db: psycopg.Connection, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The traceback has the half of a pair as it is, and what pytest captures has to be text.
    caplog.set_level(logging.CRITICAL, logger="thermocline.work.worker")
    fill(db, "nul", "half", "nan", "x")
    ask(db, "UPDATE thermocline.work_unit SET max_attempts = 1")
    result = {"n": float("nan"), "all": [float("inf"), 1.5], "t\x00": "a\ud800"}
    tally = worker(dsn, Told(nul=raising("a\x00b"), half=raising("a\ud800b"), nan=lambda: result)).run(once=True)
    assert tally.ended == {"dead": 2, "done": 2}
    assert ask(db, "SELECT last_error FROM thermocline.work_unit WHERE status = 'dead' ORDER BY id") == [
        ("RuntimeError: a\\x00b",),
        ("RuntimeError: a\\ud800b",),
    ]
    kept = {"n": None, "all": [None, 1.5], "t\\x00": "a\\ud800"}
    assert one(db, "SELECT result FROM thermocline.work_unit WHERE scope = 'nan'") == kept
    assert one(db, "SELECT outcome FROM thermocline.plan p JOIN thermocline.work_unit u ON p.id = u.plan_id"
               " WHERE scope = 'nan'") == kept  # fmt: skip


@pytest.mark.usefixtures("together")
def test_an_ending_that_cannot_be_written_fails_alone(db: psycopg.Connection, dsn: str) -> None:
    first, bad, last = fill(db, "x", "bad", "y")
    ask(db, "ALTER TABLE thermocline.work_unit ADD CHECK (result->>'n' <> 'refused')")
    tally = worker(dsn, Told(bad=lambda: {"n": "refused"})).run(once=True)
    assert tally.ended == {"done": 2, "failed": 1}
    assert ask(db, "SELECT id, status, last_error FROM thermocline.work_unit ORDER BY id") == [
        (first, "done", None),
        (bad, "failed", "It ended as done, but what it said could not be written down: CheckViolation."),
        (last, "done", None),
    ]


def test_a_result_that_is_no_json_fails_its_unit(db: psycopg.Connection, dsn: str) -> None:
    fill(db, "x")
    (claim,) = units.claim(db, "one", ["told"], dsn)
    assert units.end(db, [(claim, Ending(Status.DONE, result={"at": object()}))]) == []
    assert statuses(db) == ["failed"]


# ---- claims that are somebody else's by now ------------------------------------------------------


def test_one_lost_claim_keeps_no_other_from_being_handed_back(db: psycopg.Connection, dsn: str) -> None:
    lost, *others = fill(db, "wait1", "wait2")
    go_on = threading.Event()
    waiting = Told(wait1=lambda: go_on.wait(60), wait2=lambda: go_on.wait(60))
    node = Worker(dsn, {"told": waiting}, settings(concurrency=2, lease=60), owner="one")
    running = threading.Thread(target=node.run, kwargs={"grace": 0.1})
    running.start()
    try:
        until(lambda: len(node.tally.running) == 2)  # not claimed only: what is not begun goes back without a word
        ask(db, "UPDATE thermocline.work_unit SET owner = 'thief', lease_epoch = 2 WHERE id = %s", lost)
        node.stop()
        running.join(60)
        assert statuses(db) == ["claimed", "pending"]
        assert one(db, "SELECT last_error FROM thermocline.work_unit WHERE id = %s", *others) == "its node was stopped"
    finally:
        go_on.set()
        running.join(60)
        until(lambda: not working())


def claim_twice(db: psycopg.Connection, dsn: str) -> tuple[Claim, Claim]:
    """The same unit by the same owner, after its lease ran out."""
    fill(db, "x")
    (before,) = units.claim(db, "one", ["told"], dsn)
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() - interval '1 s'")
    (after,) = units.claim(db, "one", ["told"], dsn)
    return before, after


def test_an_old_claim_that_ends_leaves_the_new_one_of_its_unit_held(db: psycopg.Connection, dsn: str) -> None:
    before, after = claim_twice(db, dsn)
    keeper = Keeper(dsn)
    keeper.add(before)
    keeper.add(after)
    keeper.remove(before)
    assert keeper.held == [after]
    keeper.remove(after)
    assert keeper.held == []


def test_ends_and_renewals_of_two_claims_of_one_unit_are_told_apart(db: psycopg.Connection, dsn: str) -> None:
    before, after = claim_twice(db, dsn)
    units.renew(db, [before, after])
    assert (before.lost, after.lost) == (True, False)
    assert units.end(db, [(before, Ending(Status.FAILED)), (after, Ending(Status.DONE))]) == [before]
    assert statuses(db) == ["done"]


def test_the_plan_of_a_unit_that_was_cancelled_gets_no_outcome(db: psycopg.Connection, dsn: str) -> None:
    fill(db, "x")

    def cancelled() -> None:
        ask(db, "UPDATE thermocline.work_unit SET status = 'cancelled', lease_until = NULL, ended_at = now()")

    assert worker(dsn, Told(x=cancelled)).run(once=True).ended == {"lost": 1}
    assert ask(db, "SELECT ended_at, outcome FROM thermocline.plan") == [(None, None)]


def test_a_locked_unit_keeps_no_other_from_being_renewed(db: psycopg.Connection, dsn: str) -> None:
    locked, _ = fill(db, "x", "y")
    claims = units.claim(db, "one", ["told"], dsn, most=2)
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now()")
    db.execute("SET lock_timeout = '10s'")
    with Session(dsn) as other:
        other.run("SELECT FROM thermocline.work_unit WHERE id = %s FOR UPDATE", [locked])
        units.renew(db, claims)
        assert [claim.lost for claim in claims] == [False, False]
        assert ask(db, "SELECT lease_until > now() FROM thermocline.work_unit ORDER BY id") == [(False,), (True,)]
    units.renew(db, claims)
    assert one(db, "SELECT bool_and(lease_until > now()) FROM thermocline.work_unit")


class Endless(Told):
    """Asks for another one of its kind each time, as if light work never ended."""

    kind: ClassVar[str] = "endless"
    destructive: ClassVar[bool] = False

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        with psycopg.connect(self._dsn, autocommit=True) as session:
            units.enqueue(session, Wanted(self.kind, scope=str(int(claim.unit.scope) + 1)))
        return super().execute(plan, claim)


def test_light_work_without_end_does_not_keep_maintenance_waiting(db: psycopg.Connection, dsn: str) -> None:
    busy = Worker(dsn, {"endless": Endless(dsn), "heavy": Heavy()}, settings(concurrency=1), owner="one")
    units.enqueue(db, Wanted("endless", scope="1"))
    thread = threading.Thread(target=busy.run)
    thread.start()
    try:
        until(lambda: one(db, "SELECT count(*) FROM thermocline.work_unit WHERE status = 'done'") > 5)
        number = units.enqueue(db, Wanted("heavy"))
        until(lambda: one(db, "SELECT status FROM thermocline.work_unit WHERE id = %s", number) == "done")
        assert one(db, "SELECT EXISTS (SELECT FROM thermocline.work_unit WHERE kind = 'endless' AND status <> 'done')")
    finally:
        busy.stop()
        thread.join(60)


def test_a_busy_node_has_a_pool_of_sessions_and_few_beside_it(db: psycopg.Connection, dsn: str) -> None:
    """Of its own: neither the feed's nor an application's are used for maintenance, and there is an end to them."""
    seen: list[int] = []
    used: set[int] = set()
    meet = threading.Barrier(6)

    def runs() -> None:
        for _ in range(5):
            with connection.connect(dsn) as first, connection.connect(dsn) as second:
                used.update({first.info.backend_pid, second.info.backend_pid})
        with connection.connect(dsn), connection.connect(dsn), connection.connect(dsn):
            if meet.wait(60) == 0:
                seen.append(one(db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'thermocline'"
                                " AND datname = current_database()"))  # fmt: skip
            meet.wait(60)

    scopes = [str(number) for number in range(6)]
    fill(db, *scopes)
    busy = Worker(dsn, {"told": Told(**dict.fromkeys(scopes, runs))}, settings(concurrency=6), owner="one")
    assert busy.run(once=True).ended == {"done": 6}
    (sessions,) = seen
    assert 24 <= sessions <= 26, "four for each, one for the leases, one to hand back"
    assert len(used) <= 24, "those that were there were used again"
    until(lambda: one(db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'thermocline'"
                      " AND datname = current_database()") == 0)  # fmt: skip
