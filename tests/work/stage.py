"""Jobs for the tests of nodes, and a node as a process of its own that can be killed and put to sleep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.questions import ask
from thermocline.config import WorkSettings
from thermocline.work import batch, units
from thermocline.work.job import Line, Plan
from thermocline.work.pacing import Budget
from thermocline.work.units import Wanted
from thermocline.work.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from thermocline.work.job import Job, Target
    from thermocline.work.units import Claim

# Longer than any machine stands still: where a lease runs out, a test says so by moving it.
LEASE = 60.0
READY = "ready\n"
# Every claim and every effect gets a number from one sequence, so that the order in which they happened is known.
WATCHED = """
CREATE SEQUENCE happened;
CREATE TABLE claimed (n bigint DEFAULT nextval('happened'), unit bigint, epoch bigint, owner text);
CREATE TABLE begun (unit bigint);
CREATE TABLE effect (n bigint DEFAULT nextval('happened'), unit bigint, epoch bigint, owner text);
CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lease_epoch <> OLD.lease_epoch THEN
        INSERT INTO public.claimed (unit, epoch, owner) VALUES (NEW.id, NEW.lease_epoch, NEW.owner);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER watched BEFORE UPDATE ON thermocline.work_unit FOR EACH ROW EXECUTE FUNCTION note_claim();
"""


class Effect:
    """Writes one row behind a fence, after a while: what a unit does to the world."""

    kind: ClassVar[str] = "effect"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "the tests"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def plan(self, target: Target, claim: Claim) -> Plan:
        claim.check()
        return Plan(target, (Line("effect", "write", "asked for"),))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        assert [line.action for line in plan.lines] == ["write"]
        payload = claim.unit.payload
        if payload.get("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if payload.get("fails"):
            raise RuntimeError("it fails each time")
        if seconds := payload.get("seconds"):
            with claim.fenced() as session:
                session.execute("INSERT INTO begun VALUES (%s)", [claim.unit.id])
            time.sleep(seconds)
        with claim.fenced() as session:
            values = (claim.unit.id, claim.unit.epoch, claim.owner)
            session.execute("INSERT INTO effect (unit, epoch, owner) VALUES (%s, %s, %s)", values)
        return {"effects": 1}


class Nothing:
    """Does nothing, quickly."""

    kind: ClassVar[str] = "nothing"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "the tests"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def plan(self, target: Target, claim: Claim) -> Plan:
        claim.check()
        return Plan(target)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        claim.check()
        return {"lines": len(plan.lines)}


class Spending:
    """Draws one operation from the budget that all nodes share, and notes when it had it."""

    kind: ClassVar[str] = "spending"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "the tests"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def plan(self, target: Target, claim: Claim) -> Plan:
        claim.check()
        return Plan(target)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        assert plan.lines == ()
        Budget(self._dsn, "maintenance").spend(operations=1, check=claim.check)
        with claim.fenced() as session:
            session.execute("INSERT INTO spent (owner) VALUES (%s)", [claim.owner])
        return {}


class Told:
    """Does what the test gives it, by scope."""

    kind: ClassVar[str] = "told"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "nobody"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = True

    def __init__(self, **does: Callable[[], Any]) -> None:
        self._does = does

    def plan(self, target: Target, claim: Claim) -> Plan:
        claim.check()
        return Plan(target, (Line("told", "do", "asked for"),))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        assert len(plan.lines) == 1
        found = self._does.get(claim.unit.scope, dict)()
        return found if isinstance(found, dict) else {}


class Heavy(Told):
    """Maintenance: it needs a seat."""

    kind: ClassVar[str] = "heavy"
    job_class: ClassVar[str | None] = "maintenance"
    destructive: ClassVar[bool] = False


def fill(db: psycopg.Connection, *scopes: str) -> list[int]:
    made = [units.enqueue(db, Wanted("told", scope=scope)) for scope in scopes]
    return [number for number in made if number is not None]


def jobs(dsn: str) -> dict[str, Job]:
    return {"effect": Effect(), "nothing": Nothing(), "spending": Spending(dsn)}


def settings(**changes: Any) -> WorkSettings:
    return WorkSettings(**({"lease": LEASE, "poll": 0.05} | changes))


class Node:
    """A worker in a process of its own."""

    def __init__(self, dsn: str, *, owner: str, once: bool = False, **changes: Any) -> None:
        told = {"dsn": dsn, "owner": owner, "once": once, "grace": changes.pop("grace", 5)}
        told |= {"together": changes.pop("together", None), "settings": changes}
        here = Path(__file__).parent
        self.process = subprocess.Popen(
            [sys.executable, str(here / "stage.py"), json.dumps(told)],
            env=os.environ | {"PYTHONPATH": str(here.parent)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        """It is about to ask for its first unit."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == READY

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 120) -> str:
        out, _ = self.process.communicate(timeout=seconds)
        return out.removeprefix(READY)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.communicate()


def until(happened: Callable[[], Any], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def claim_together(most: int) -> None:
    """So many at once, however long units take."""
    batch.Pace.__init__ = lambda self: setattr(self, "most", most)  # type: ignore[method-assign]
    batch.Pace.learn = lambda *_: None  # type: ignore[method-assign]


def require_no_zombie_wrote(db: psycopg.Connection) -> None:
    """No effect of an epoch came after the claim of a later one."""
    assert (
        ask(
            db,
            "SELECT e.* FROM effect e JOIN claimed c ON c.unit = e.unit AND c.epoch > e.epoch AND c.n < e.n",
        )
        == []
    )


def main() -> None:
    told = json.loads(sys.argv[1])
    worker = Worker(told["dsn"], jobs(told["dsn"]), settings(**told["settings"]), owner=told["owner"])
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    if told["together"]:
        claim_together(told["together"])
    sys.stdout.write(READY)
    sys.stdout.flush()
    tally = worker.run(once=told["once"], grace=told["grace"])
    sys.stdout.write(json.dumps({"ended": tally.ended, "lost": tally.lost}))


if __name__ == "__main__":
    main()
