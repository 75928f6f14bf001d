"""Units of work: made once, claimed by one, ended by their owner only."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.questions import ask, one
from harness.sessions import Session
from thermocline.hot.statements import query
from thermocline.work import backoff, units
from thermocline.work.batch import Pace
from thermocline.work.keeper import Keeper
from thermocline.work.units import Claim, Ending, Halted, LeaseLost, Status, Wanted
from work.stage import until

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ["a", "b"]


def claimed(db: psycopg.Connection, owner: str = "one", kinds: Sequence[str] = KINDS, **options: Any) -> list[Claim]:
    return units.claim(db, owner, kinds, db.info.dsn + f" password={db.info.password}", **options)


def make(db: psycopg.Connection, **fields: Any) -> int:
    number = units.enqueue(db, Wanted(**({"kind": "a"} | fields)))
    assert number is not None
    return number


def expire(db: psycopg.Connection) -> None:
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() - interval '1 s' WHERE status = 'claimed'")


def state(db: psycopg.Connection, number: int) -> tuple[Any, ...]:
    (row,) = ask(
        db, "SELECT status, owner, lease_epoch, attempt, last_error FROM thermocline.work_unit WHERE id = %s", number
    )
    return row


def test_a_unit_is_claimed_once_and_ended_by_its_owner(db: psycopg.Connection) -> None:
    number = make(db, payload={"n": 1}, table=7, scope="2026")
    (claim,) = claimed(db)
    unit = claim.unit
    assert (unit.id, unit.kind, unit.table, unit.scope, unit.payload) == (number, "a", 7, "2026", {"n": 1})
    assert (unit.epoch, unit.attempt, unit.max_attempts) == (1, 1, 3)
    assert claimed(db, "two") == []
    assert one(db, "SELECT lease_until - claimed_at FROM thermocline.work_unit") == timedelta(seconds=120)
    assert one(db, "SELECT now() BETWEEN claimed_at AND lease_until FROM thermocline.work_unit")
    claim.end(db, Ending(Status.DONE, result={"made": 3}))
    assert state(db, number) == ("done", "one", 1, 1, None)
    assert ask(db, "SELECT result, ended_at <= now(), lease_until FROM thermocline.work_unit") == [
        ({"made": 3}, True, None)
    ]
    assert claimed(db) == []


def test_the_same_unit_is_open_once(db: psycopg.Connection) -> None:
    number = make(db, table=1)
    assert units.enqueue(db, Wanted("a", 1)) is None
    assert units.enqueue(db, Wanted("a", 1, scope="x")) is not None
    assert units.enqueue(db, Wanted("b", 1)) is not None
    assert units.enqueue(db, Wanted("a", None)) is not None
    assert units.enqueue(db, Wanted("a", None)) is None, "no table is one, too"
    (claim,) = claimed(db, most=1)
    assert claim.unit.id == number
    assert units.enqueue(db, Wanted("a", 1)) is None, "it runs"
    claim.end(db, Ending(Status.DONE))
    assert units.enqueue(db, Wanted("a", 1)) is not None


def test_those_that_wait_longest_come_first_and_other_kinds_are_left(db: psycopg.Connection) -> None:
    first, second = make(db, scope="1"), make(db, scope="2")
    other = make(db, kind="other")
    ask(db, "UPDATE thermocline.work_unit SET not_before = now() - interval '1 h' WHERE id = %s", second)
    assert [claim.unit.id for claim in claimed(db, most=5)] == [second, first]
    assert state(db, other)[0] == "pending"


def test_d1_a_worker_that_was_overtaken_writes_nothing(db: psycopg.Connection) -> None:
    number = make(db)
    (slow,) = claimed(db, "slow")
    expire(db)
    (quick,) = claimed(db, "quick")
    assert (quick.unit.epoch, quick.unit.attempt) == (2, 2)
    for status in (Status.DONE, Status.PENDING, Status.FAILED, Status.DEAD):
        with pytest.raises(LeaseLost):
            slow.end(db, Ending(status))
    with pytest.raises(LeaseLost):
        slow.fence(db)
    units.renew(db, [slow])
    with pytest.raises(LeaseLost, match=f"unit {number}"):
        slow.check()
    assert state(db, number) == ("claimed", "quick", 2, 2, "its worker slow let the lease run out")
    quick.end(db, Ending(Status.DONE))
    with pytest.raises(LeaseLost):
        quick.end(db, Ending(Status.DONE))


def test_d1_the_same_worker_that_claims_again_has_another_epoch(db: psycopg.Connection) -> None:
    """The owner's name alone would let its own zombie through."""
    make(db)
    (before,) = claimed(db, "same")
    expire(db)
    (after,) = claimed(db, "same")
    with pytest.raises(LeaseLost):
        before.end(db, Ending(Status.DONE))
    after.end(db, Ending(Status.DONE))


def test_an_expired_unit_that_nobody_took_is_still_its_owners(db: psycopg.Connection) -> None:
    make(db)
    (claim,) = claimed(db)
    expire(db)
    units.renew(db, [claim])
    claim.fence(db)
    claim.end(db, Ending(Status.DONE))


def test_d1_nobody_takes_over_while_a_fence_stands(db: psycopg.Connection, dsn: str) -> None:
    """Closed by design: the fence's lock is in the way of a claim, and the renewal's is not."""
    make(db)
    (slow,) = units.claim(db, "slow", KINDS, dsn)
    expire(db)
    with slow.fenced() as session:
        assert claimed(db, "quick") == []
        assert units.bury(db) == {}
        units.renew(db, [slow])  # does not wait for the fence
        expire(db)
        session.execute("CREATE TABLE effect ()")
    assert [claim.unit.epoch for claim in claimed(db, "quick")] == [2]
    with pytest.raises(LeaseLost), slow.fenced() as session:
        session.execute("CREATE TABLE another ()")
    assert one(db, "SELECT to_regclass('effect') IS NOT NULL AND to_regclass('another') IS NULL")


def test_d1_a_fence_that_waits_for_a_claim_finds_itself_overtaken(db: psycopg.Connection, dsn: str) -> None:
    make(db)
    (slow,) = units.claim(db, "slow", KINDS, dsn)
    expire(db)
    with Session(dsn) as quick, psycopg.connect(dsn) as sleeper:
        quick.run(
            query("work_claim"),
            {"owner": "quick", "kinds": KINDS, "most": 1, "lease": "120 s"},
        )
        caught: list[BaseException] = []

        def go_on() -> None:
            try:
                slow.fence(sleeper)
            except LeaseLost as error:
                caught.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        blocked = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
        until(lambda: one(db, blocked, sleeper.info.backend_pid))
        quick.commit()
        thread.join(60)
    assert len(caught) == 1


def test_d3_a_unit_that_fails_each_time_is_dead_after_its_attempts(db: psycopg.Connection) -> None:
    number = make(db, max_attempts=2)
    (claim,) = claimed(db)
    claim.end(db, Ending(Status.PENDING, error="first", delay=0))
    (claim,) = claimed(db)
    assert claim.unit.attempt == 2
    claim.end(db, Ending(Status.DEAD, error="second"))
    assert state(db, number) == ("dead", "one", 2, 2, "second")
    assert claimed(db) == []


def test_the_same_work_done_later_settles_what_is_dead(db: psycopg.Connection) -> None:
    broken = []
    for status, scope in (("dead", "x"), ("failed", "x"), ("dead", "other")):
        broken.append(make(db, table=1, scope=scope))
        (claim,) = claimed(db)
        claim.end(db, Ending(Status(status), error="it broke"))

    def settled() -> list[Any]:
        return [one(db, "SELECT settled_by FROM thermocline.work_unit WHERE id = %s", number) for number in broken]

    for status, table in ((Status.FAILED, 1), (Status.DONE, 2), (Status.DONE, None)):
        make(db, table=table, scope="x")
        (claim,) = claimed(db)
        claim.end(db, Ending(status))
    assert settled() == [None, None, None], "of another table, or broken itself"
    made = make(db, table=1, scope="x")
    (claim,) = claimed(db)
    claim.end(db, Ending(Status.DONE))
    assert settled() == [made, made, None]


def test_d3_a_unit_whose_worker_dies_each_time_is_dead_after_its_attempts(db: psycopg.Connection) -> None:
    number = make(db, max_attempts=2)
    for attempt in (1, 2):
        (claim,) = claimed(db, f"victim {attempt}")
        assert units.bury(db) == {}
        expire(db)
    assert claimed(db, "next") == []
    assert units.bury(db) == {number: "a"}
    assert state(db, number) == (
        "dead",
        "victim 2",
        2,
        2,
        "its worker victim 2 let the lease run out, as in 1 attempts before",
    )
    with pytest.raises(LeaseLost):
        claim.end(db, Ending(Status.DONE))


def test_a_unit_in_back_off_waits_by_the_clock_of_the_database(db: psycopg.Connection) -> None:
    make(db)
    (claim,) = claimed(db)
    before = one(db, "SELECT clock_timestamp()")
    claim.end(db, Ending(Status.PENDING, error="no", delay=3600))
    after = one(db, "SELECT clock_timestamp()")
    assert claimed(db) == []
    assert before <= one(db, "SELECT not_before - interval '1 h' FROM thermocline.work_unit") <= after
    ask(db, "UPDATE thermocline.work_unit SET not_before = now()")
    assert len(claimed(db)) == 1


def test_handing_back_is_no_attempt(db: psycopg.Connection) -> None:
    number = make(db, max_attempts=1)
    (claim,) = claimed(db)
    claim.end(db, Ending(Status.PENDING, counts=False))
    assert state(db, number) == ("pending", "one", 1, 0, None)
    (claim,) = claimed(db)
    assert claim.unit.epoch == 2


def test_d4_back_off_doubles_to_a_limit_and_is_any_wait_below() -> None:
    assert [backoff.longest(attempt) for attempt in (1, 2, 3, 7, 8, 5000)] == [5, 10, 20, 320, 600, 600]
    waits = [backoff.wait_after(3, random.Random(seed)) for seed in range(400)]
    assert 0 <= min(waits) < 1
    assert 19 < max(waits) <= 20
    assert 9 < sum(waits) / len(waits) < 11


def test_d14_one_unit_at_a_time_in_a_lane(db: psycopg.Connection) -> None:
    first, second = make(db, scope="1", lane="table 1"), make(db, scope="2", lane="table 1")
    third = make(db, scope="3", lane="table 2")
    (claim,) = claimed(db)
    assert claim.unit.id == first
    assert [one.unit.id for one in claimed(db)] == [third]
    assert claimed(db) == []
    expire(db)
    assert claimed(db, "other", most=1)[0].unit.id in (first, third), "an expired one keeps its lane, is taken itself"
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() + interval '1 h' WHERE status = 'claimed'")
    assert claimed(db) == []
    (owner,) = ask(db, "SELECT owner, lease_epoch FROM thermocline.work_unit WHERE id = %s", first)
    assert owner[1] in (1, 2)
    ask(
        db,
        "UPDATE thermocline.work_unit SET status = 'done', lease_until = NULL, ended_at = now() WHERE id = %s",
        first,
    )
    assert [one.unit.id for one in claimed(db)] == [second]


@pytest.mark.parametrize("held_up_by", ["a stop", "its window", "no node of its kind"])
def test_d14_a_lane_whose_worker_died_is_free_though_its_unit_has_to_wait(
    db: psycopg.Connection, held_up_by: str
) -> None:
    first = make(db, lane="table 1", destructive=True)
    (dead,) = claimed(db)
    second = make(db, kind="b", lane="table 1")
    if held_up_by == "a stop":
        ask(db, "INSERT INTO thermocline.work_stop (what) VALUES ('destructive')")
    elif held_up_by == "its window":  # all day, but for a minute far from now
        window = one(db, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '12 h', 'HH24:MI')")
        later = one(db, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '12 h 1 min', 'HH24:MI')")
        closed = one(db, f"SELECT lakets.schedule_set('tier', p_window => 'runs {window}-{later}')")
        ask(db, "UPDATE thermocline.work_unit SET schedule_id = %s WHERE id = %s", closed, first)
    kinds = ["b"] if held_up_by == "no node of its kind" else KINDS
    assert claimed(db, "two", kinds=kinds) == [], "it may be at it still"
    expire(db)
    assert units.bury(db) == {}
    assert [one.unit.id for one in claimed(db, "two", kinds=kinds)] == [second]
    assert state(db, first) == ("pending", "one", 1, 1, "its worker one let the lease run out")
    with pytest.raises(LeaseLost):
        dead.fence(db)
    with pytest.raises(LeaseLost):
        dead.end(db, Ending(Status.DONE))


def test_d14_a_lane_that_many_want_at_once_goes_to_one_at_a_time(db: psycopg.Connection, dsn: str) -> None:
    for number in range(40):
        make(db, scope=str(number), lane=f"lane {number % 2}")
    running: dict[str, int] = {"lane 0": 0, "lane 1": 0}
    worst, ended = [0], list[int]()
    lock = threading.Lock()

    def work(owner: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            while len(ended) < 40:
                for claim in units.claim(session, owner, KINDS, dsn):
                    lane = f"lane {int(claim.unit.scope) % 2}"
                    with lock:
                        running[lane] += 1
                        worst[0] = max(worst[0], running[lane])
                    time.sleep(0.001)
                    with lock:
                        running[lane] -= 1
                        ended.append(claim.unit.id)
                    claim.end(session, Ending(Status.DONE))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, f"w{number}") for number in range(4)]:
            future.result(timeout=60)
    assert worst == [1]
    assert sorted(ended) == sorted(set(ended))
    assert len(ended) == 40


def test_units_claimed_together_that_are_lost_keep_their_attempts_and_come_alone(db: psycopg.Connection) -> None:
    numbers = [make(db, scope=str(number), max_attempts=1) for number in range(3)]
    assert [claim.unit.attempt for claim in claimed(db, most=9)] == [1, 1, 1]
    expire(db)
    assert units.bury(db) == {}, "which of them killed the worker is not known"
    for number in numbers:
        (claim,) = claimed(db, "two", most=9)
        assert (claim.unit.id, claim.unit.attempt, claim.unit.epoch) == (number, 1, 2)
    assert claimed(db) == []
    expire(db)
    assert sorted(units.bury(db)) == numbers


def test_one_of_a_lane_comes_alone(db: psycopg.Connection) -> None:
    first, lane, last = make(db, scope="1"), make(db, scope="2", lane="l"), make(db, scope="3")
    assert [claim.unit.id for claim in claimed(db, most=9)] == [first, last]
    assert [claim.unit.id for claim in claimed(db, most=9)] == [lane]


def test_ends_that_are_written_together_are_refused_one_by_one(db: psycopg.Connection) -> None:
    kept, taken = make(db, scope="1"), make(db, scope="2")
    claims = claimed(db, most=2)
    ask(db, "UPDATE thermocline.work_unit SET lease_epoch = 7, owner = 'thief' WHERE id = %s", taken)
    lost = units.end(db, [(claim, Ending(Status.DONE, result={"n": 1})) for claim in claims])
    assert [claim.unit.id for claim in lost] == [taken]
    assert lost[0].lost
    assert state(db, kept)[0] == "done"
    assert state(db, taken)[:3] == ("claimed", "thief", 7)


def test_ends_and_renewals_of_many_at_once_never_wait_for_each_other_in_turn(db: psycopg.Connection, dsn: str) -> None:
    """The keeper renews what the workers just end, in whatever order each of them names the units."""
    for number in range(60):
        make(db, scope=str(number))
    chance = random.Random(8)
    with psycopg.connect(dsn, autocommit=True) as other, ThreadPoolExecutor(1) as beside:
        for _ in range(25):
            claims = claimed(db, most=60)
            assert len(claims) == 60
            in_another_order = chance.sample(claims, 60)
            renewing = beside.submit(units.renew, other, in_another_order)
            ended = units.end(
                db, [(claim, Ending(Status.PENDING, counts=False)) for claim in chance.sample(claims, 60)]
            )
            renewing.result(60)
            assert ended == []


def test_a_pace_follows_how_long_units_take() -> None:
    pace = Pace()
    for _ in range(10):
        pace.learn(pace.most, pace.most * 0.001)
    assert pace.most == 64
    pace.learn(64, 12.8)
    assert pace.most == 1
    pace.learn(1, 0.001)
    assert pace.most == 2, "never more than twice as many as were tried"
    pace.learn(0, 0.001)
    assert pace.most == 1


def test_many_who_enqueue_at_once_make_one(dsn: str, db: psycopg.Connection) -> None:
    barrier = threading.Barrier(8)

    def enqueue() -> int | None:
        with psycopg.connect(dsn, autocommit=True) as session:
            barrier.wait(60)
            return units.enqueue(session, Wanted("a", 1))

    with ThreadPoolExecutor(8) as pool:
        made = [future.result(60) for future in [pool.submit(enqueue) for _ in range(8)]]
    assert len([number for number in made if number]) == 1
    assert one(db, "SELECT count(*) FROM thermocline.work_unit") == 1


@pytest.mark.parametrize("what", ["everything", "a"])
def test_what_is_stopped_is_not_claimed(db: psycopg.Connection, what: str) -> None:
    number, other = make(db), make(db, kind="b")
    ask(db, "INSERT INTO thermocline.work_stop (what) VALUES (%s)", what)
    assert [claim.unit.id for claim in claimed(db, most=9)] == ([] if what == "everything" else [other])
    ask(db, "DELETE FROM thermocline.work_stop")
    assert number in [claim.unit.id for claim in claimed(db, most=9)]


def test_the_kill_switch_keeps_destructive_units_from_beginning_and_from_going_on(db: psycopg.Connection) -> None:
    harmless, running, waiting = make(db), make(db, scope="x", destructive=True), make(db, scope="y", destructive=True)
    claims = {claim.unit.id: claim for claim in claimed(db, most=2)}
    ask(db, "INSERT INTO thermocline.work_stop (what, why) VALUES ('destructive', 'to look')")
    claims[harmless].fence(db)
    with pytest.raises(Halted, match=f"unit {running}"):
        claims[running].fence(db)
    assert claimed(db) == []
    assert state(db, waiting)[0] == "pending"
    claims[running].end(db, Ending(Status.PENDING, counts=False))
    ask(db, "DELETE FROM thermocline.work_stop")
    assert sorted(claim.unit.id for claim in claimed(db, most=9)) == [running, waiting]


# ---- the keeper ----------------------------------------------------------------------------------


def test_leases_are_renewed_beside_long_work(db: psycopg.Connection, dsn: str) -> None:
    make(db)
    with Keeper(dsn, lease=5) as keeper:
        (claim,) = units.claim(db, "one", KINDS, dsn, lease=5)
        keeper.add(claim)
        began = time.monotonic()
        while time.monotonic() - began < 7:
            assert units.claim(db, "thief", KINDS, dsn) == []
            claim.check()
            time.sleep(0.05)
        claim.end(db, Ending(Status.DONE))
        keeper.remove(claim)
    assert keeper.lost == 0


def test_a_claim_that_was_taken_away_is_known_to_be_lost_at_the_next_renewal(db: psycopg.Connection, dsn: str) -> None:
    number = make(db)
    with Keeper(dsn, lease=0.6) as keeper:
        (claim,) = units.claim(db, "one", KINDS, dsn, lease=0.6)
        ask(db, "UPDATE thermocline.work_unit SET lease_epoch = 2, owner = 'thief' WHERE id = %s", number)
        keeper.add(claim)
        until(lambda: (claim.lost, keeper.held, keeper.lost) == (True, [], 1))
    with pytest.raises(LeaseLost):
        claim.check()


def test_a_claim_is_lost_once_its_lease_has_run_out_unrenewed(db: psycopg.Connection, dsn: str) -> None:
    """The database does not answer: whoever cannot renew must take it that another one has the unit."""
    make(db)
    (claim,) = units.claim(db, "one", KINDS, dsn, lease=3)
    claim.check()
    with Keeper("postgresql://nobody@127.0.0.1:1/none", lease=3) as keeper:
        keeper.add(claim)
        until(lambda: keeper.lost == 1)
    with pytest.raises(LeaseLost):
        claim.check()


# ---- the claim's plan ----------------------------------------------------------------------------


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(inner for under in plan.get("Plans", []) for inner in nodes(under))]


def test_a_claim_does_not_read_what_is_done(db: psycopg.Connection) -> None:
    """With a million done units and a thousand that wait: by index, a few pages, below 2 ms if nobody is in the way."""
    ask(
        db,
        "INSERT INTO thermocline.work_unit (kind, scope, status, ended_at, attempt, lease_epoch)"
        " SELECT 'a', g::text, 'done', now() - g * interval '1 s', 1, 1 FROM generate_series(1, 1000000) g",
    )
    ask(db, "INSERT INTO thermocline.work_unit (kind, scope) SELECT 'a', 'open ' || g FROM generate_series(1, 1000) g")
    ask(db, "VACUUM ANALYZE thermocline.work_unit")
    times, claim = [], query("work_claim")
    values = {"owner": "one", "kinds": KINDS, "most": 1, "lease": "120 s"}
    for _ in range(20):
        ((explained,),) = db.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + claim.encode(), values).fetchall()
        found = explained if isinstance(explained, list) else json.loads(explained)
        times.append(found[0]["Execution Time"])
    scans = [node for node in nodes(found[0]["Plan"]) if node.get("Relation Name") == "work_unit"]
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan", "ModifyTable"}, scans
    assert "idx_work_unit_ready" in {node.get("Index Name") for node in scans}
    plan = found[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200
    assert min(times) < 2, times
