"""Random claims, renewals, expiries, endings and zombies: the database never does what a model of it would not.

Time passes by moving every time in the table back, so that leases run out without anybody waiting.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from harness.questions import ask
from thermocline.work import units
from thermocline.work.units import Claim, Ending, LeaseLost, Status, Wanted

if TYPE_CHECKING:
    from harness.servers import Server

WIDE = bool(os.environ.get("THERMOCLINE_WIDE_MACHINES"))
EXAMPLES, STEPS = (500, 80) if WIDE else (25, 40)
LEASE = 1000
KINDS = ["a", "b"]
OWNERS = ["one", "two", "three"]
# In the middle of every step of time, so that no test depends on the time that passes by itself, a minute at most.
STEP = 400


@dataclass
class Model:
    """What a unit must look like."""

    key: tuple[str, int | None, str]
    lane: str | None
    max_attempts: int
    status: str = "pending"
    owner: str | None = None
    epoch: int = 0
    attempt: int = 0
    shared: bool = False
    waits: int = 0
    """Seconds until it can be taken: by lease or by back-off."""

    @property
    def tried(self) -> int:
        """How many attempts count once it can be taken: one of a claim with others is none."""
        return self.attempt - int(self.status == "claimed" and self.shared)

    @property
    def open(self) -> bool:
        return self.status in ("pending", "claimed")


class Machine(RuleBasedStateMachine):
    """Units, and everybody who ever claimed one and may still try to write."""

    def __init__(self, server: Server, template: str) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.dsn = self.stack.enter_context(server.database(template))
        self.db = self.stack.enter_context(psycopg.connect(self.dsn, autocommit=True))
        self.model: dict[int, Model] = {}
        self.claims: list[Claim] = []

    def teardown(self) -> None:
        self.stack.close()

    # ---- what happens ------------------------------------------------------------------------

    @rule(
        kind=st.sampled_from(KINDS),
        table=st.sampled_from([None, 1, 2]),
        scope=st.sampled_from(["", "x"]),
        lane=st.sampled_from([None, None, "l"]),
        most=st.integers(1, 3),
    )
    def make(self, kind: str, table: int | None, scope: str, lane: str | None, most: int) -> None:
        made = units.enqueue(self.db, Wanted(kind, table, scope, lane=lane, max_attempts=most))
        key = (kind, table, scope)
        if any(unit.open and unit.key == key for unit in self.model.values()):
            assert made is None
        else:
            assert made is not None
            self.model[made] = Model(key, lane, most)

    @rule(owner=st.sampled_from(OWNERS), kinds=st.sampled_from([KINDS, ["a"], ["b"]]), most=st.sampled_from([1, 2, 9]))
    def claim(self, owner: str, kinds: list[str], most: int) -> None:
        allowed = {
            number
            for number, unit in self.model.items()
            if unit.open and unit.waits <= 0 and unit.tried < unit.max_attempts and unit.key[0] in kinds
            and not self._lane_taken(number)
        }  # fmt: skip
        found = units.claim(self.db, owner, kinds, self.dsn, most=most, lease=LEASE)
        assert bool(found) == bool(allowed)
        assert len(found) <= most
        for claim in found:
            assert claim.unit.id in allowed
            unit = self.model[claim.unit.id]
            assert len(found) == 1 or (unit.status == "pending" and unit.lane is None), "lost ones and lanes come alone"
            unit.epoch, unit.attempt = unit.epoch + 1, unit.tried + 1
            unit.status, unit.owner, unit.waits, unit.shared = "claimed", owner, LEASE, len(found) > 1
            assert (claim.unit.epoch, claim.unit.attempt) == (unit.epoch, unit.attempt)
            self.claims.append(claim)

    def _lane_taken(self, number: int) -> bool:
        lane = self.model[number].lane
        return lane is not None and any(
            other.lane == lane and other.status == "claimed" for at, other in self.model.items() if at != number
        )

    @rule(steps=st.integers(1, 4))
    def time_passes(self, steps: int) -> None:
        seconds = steps * STEP
        ask(
            self.db,
            "UPDATE thermocline.work_unit SET not_before = not_before - make_interval(secs => %s),"
            " lease_until = lease_until - make_interval(secs => %s)",
            seconds,
            seconds,
        )
        for unit in self.model.values():
            unit.waits -= seconds

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        units.renew(self.db, [claim], lease=LEASE)
        assert claim.lost == (not self._is_ours(claim))
        if not claim.lost:
            self.model[claim.unit.id].waits = LEASE

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        status=st.sampled_from(["done", "pending", "failed", "dead"]),
        delay=st.sampled_from([0, 600]),
        counts=st.booleans(),
    )
    def end(self, data: st.DataObject, status: str, delay: int, counts: bool) -> None:
        """By its owner, or by a zombie."""
        claim = data.draw(st.sampled_from(self.claims))
        ending = Ending(Status(status), error="e", delay=delay, counts=counts or status != "pending")
        if not self._is_ours(claim):
            with pytest.raises(LeaseLost):
                claim.end(self.db, ending)
            return
        claim.end(self.db, ending)
        unit = self.model[claim.unit.id]
        unit.status, unit.waits = status, delay
        if not ending.counts:
            unit.attempt -= 1

    @precondition(lambda self: self.claims)
    @rule(owner=st.sampled_from(OWNERS), counts=st.booleans())
    def end_together(self, owner: str, counts: bool) -> None:
        """All that somebody ever claimed, in one statement: what is not his any more stays as it is."""
        newest = {one.unit.id: one for one in self.claims if one.owner == owner}.values()
        ours = [one for one in newest if self._is_ours(one)]
        ending = Ending(Status.PENDING, counts=counts)
        assert set(units.end(self.db, [(one, ending) for one in newest])) == set(newest) - set(ours)
        for one in ours:
            unit = self.model[one.unit.id]
            unit.status, unit.waits = "pending", 0
            unit.attempt -= not counts

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def write_behind_a_fence(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        if claim.lost or not self._is_ours(claim):
            with pytest.raises(LeaseLost):
                claim.fence(self.db)
        else:
            claim.fence(self.db)

    @precondition(lambda self: any(self._is_ours(claim) and not claim.lost for claim in self.claims))
    @rule(data=st.data())
    def nobody_takes_over_behind_a_fence(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from([one for one in self.claims if self._is_ours(one) and not one.lost]))
        with psycopg.connect(self.dsn) as session:
            claim.fence(session)
            units.bury(self.db)
            before = ask(self.db, "SELECT lease_epoch FROM thermocline.work_unit WHERE id = %s", claim.unit.id)
            stolen = units.claim(self.db, "thief", [claim.unit.kind], self.dsn, lease=LEASE)
            assert claim.unit.id not in [one.unit.id for one in stolen]
            for other in stolen:  # what the thief got beside it goes back
                other.end(self.db, Ending(Status.PENDING, counts=False))
                unit = self.model[other.unit.id]
                unit.epoch, unit.attempt, unit.shared = unit.epoch + 1, unit.tried, False
                unit.status, unit.owner, unit.waits = "pending", "thief", 0
            after = ask(self.db, "SELECT lease_epoch FROM thermocline.work_unit WHERE id = %s", claim.unit.id)
            assert before == after
        self._buried()

    @rule()
    def bury(self) -> None:
        units.bury(self.db)
        self._buried()

    def _buried(self) -> None:
        """What has run out for the last time is dead now, and what has run out in a lane waits, whoever buried it."""
        units.bury(self.db)
        for unit in self.model.values():
            if unit.status == "claimed" and unit.waits <= 0:
                if unit.tried >= unit.max_attempts:
                    unit.status = "dead"
                elif unit.lane:
                    unit.status, unit.waits = "pending", 0

    def _is_ours(self, claim: Claim) -> bool:
        unit = self.model[claim.unit.id]
        return (unit.status, unit.owner, unit.epoch) == ("claimed", claim.owner, claim.unit.epoch)

    # ---- what holds --------------------------------------------------------------------------

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        rows = ask(
            self.db,
            "SELECT id, status, owner, lease_epoch, attempt,"
            " round(extract(epoch FROM coalesce(lease_until, not_before) - clock_timestamp()) / 200) * 200"
            " FROM thermocline.work_unit ORDER BY id",
        )
        found = {row[0]: row[1:5] for row in rows}
        assert found == {
            number: (unit.status, unit.owner, unit.epoch, unit.attempt) for number, unit in self.model.items()
        }
        times: dict[int, Any] = {row[0]: row[5] for row in rows if self.model[row[0]].open}
        assert times == {number: self.model[number].waits for number in times}

    @invariant()
    def attempts_have_an_end_and_lanes_one_unit(self) -> None:
        assert all(unit.attempt <= unit.max_attempts for unit in self.model.values())
        lanes = [unit.lane for unit in self.model.values() if unit.status == "claimed" and unit.lane]
        assert len(lanes) == len(set(lanes))


def test_d1_d3_d14_claims_leases_and_zombies_follow_the_model(server: Server, template: str) -> None:
    class OnThisServer(Machine):
        def __init__(self) -> None:
            super().__init__(server, template)

    # The same steps in every run, and others each time with the flag.
    chosen = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, derandomize=not WIDE, database=None)
    run_state_machine_as_test(OnThisServer, settings=chosen)
