"""Jobs inside PostgreSQL: chunks for the next time, RollUps, and the clearing away of what is done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from thermocline.errors import ThermoclineError
from thermocline.gate import drop
from thermocline.hot import rollups
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.job import Line, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from thermocline.hot.rollups import Refreshed
    from thermocline.stack import Stack
    from thermocline.work.job import Target
    from thermocline.work.units import Claim

# Plans of destructive work are kept for as long as somebody may ask why a chunk is not there any more.
_KEEP_BROKEN, _KEEP_PLANS, _KEEP_DESTRUCTIVE = timedelta(days=30), timedelta(days=30), timedelta(days=400)
_PRUNED_AT_ONCE = 5000


class NotMaintained(ThermoclineError):
    """The chunks of the next time could not be made."""

    code = "work.not_maintained"
    next_step_by_default = "`thermocline maintain` shows what is in the way."


class NotRefreshed(ThermoclineError):
    """A RollUp could not be refreshed."""

    code = "work.not_refreshed"
    next_step_by_default = "`thermocline rollup refresh` shows which, and why; the others were refreshed."


class Partitions:
    """Makes the chunks of the next time and brings registry and catalog into agreement."""

    kind: ClassVar[str] = "partitions"
    targets: ClassVar[str | None] = "work_targets_all"
    serves: ClassVar[str] = "ChronoTables"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def plan(self, target: Target, claim: Claim) -> Plan:
        """The same each time: what is missing is found while it is made."""
        claim.check()
        return Plan(target, (Line(target.shown, "maintain", "chunks are made before their time comes"),))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Make them."""
        claim.check()
        drop.recover(self._stack.dsn, only=())  # what no policy wants gone any more is attached again
        done = self._stack.maintain(plan.target.table)
        failed = [found for one in done for found in one.findings if found.failed]
        if failed:
            raise NotMaintained(
                f"{failed[0].object}: {failed[0].finding}", next_step=failed[0].done.removeprefix("left alone: ")
            )
        findings = [f"{found.object}: {found.finding}; {found.done}" for one in done for found in one.findings]
        return {"chunks_made": sum(one.chunks_made for one in done), "findings": findings}


@dataclass(frozen=True)
class RollUp:
    """One that has its rows from the table, directly or through others."""

    name: str
    depends_on: tuple[str, ...]
    due: bool
    lag: str


def plan_refreshes(found: Iterable[RollUp]) -> list[RollUp]:
    """Those that are due, in the order given, which has dependencies first."""
    return [rollup for rollup in found if rollup.due]


class Refresh:
    """Refreshes the RollUps of a table, dependencies first, each in a transaction of its own."""

    kind: ClassVar[str] = "refresh"
    targets: ClassVar[str | None] = "work_targets_rollups"
    serves: ClassVar[str] = "tables with RollUps"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def plan(self, target: Target, claim: Claim) -> Plan:
        """Those whose last refresh is older than their refresh_lag."""
        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            rows = session.execute(query("work_rollups"), {"table": target.id}).fetchall()
        steps = plan_refreshes(RollUp(row[0], tuple(row[1]), row[2], row[3]) for row in rows)
        lines = (Line(one.name, "refresh", f"its refresh_lag of {one.lag} is over") for one in steps)
        return Plan(target, tuple(lines), steps=steps)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """One that fails is left out, with those that are made from it; the others go on."""
        done: list[Refreshed] = []
        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            for one in rollups.refresh_each(session, [(rollup.name, rollup.depends_on) for rollup in plan.steps or ()]):
                done.append(one)
                claim.check()
        failed = [one for one in done if one.failed]
        if failed:
            said = "; ".join(f"{one.rollup}: {one.why_not}" for one in failed)
            raise NotRefreshed(said, next_step=next((one.next_step for one in failed if one.next_step), None))
        return {"refreshed": [one.rollup for one in done if one.refreshed]}


class Prune:
    """Clears away units and plans that nobody needs to look up any more."""

    kind: ClassVar[str] = "prune"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "the whole database"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def plan(self, target: Target, claim: Claim) -> Plan:
        """How many there are."""
        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            row = session.execute(query("work_prunable"), self._ages()).fetchone()
        counts = dict(zip(("units", "plans"), row or (0, 0), strict=True))
        return Plan(
            target,
            tuple(Line(f"{count} {what}", "forget", "they are old enough") for what, count in counts.items() if count),
        )

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """A few thousand at a time."""
        pruned = {"units": 0, "plans": 0}
        with connect(self._stack.dsn, autocommit=True) as session:
            for what in pruned if plan.lines else ():
                while True:
                    claim.check()
                    values = self._ages() | {"most": _PRUNED_AT_ONCE}
                    gone = session.execute(query(f"work_prune_{what}"), values).rowcount
                    pruned[what] += gone
                    if gone < _PRUNED_AT_ONCE:
                        break
        return pruned

    def _ages(self) -> dict[str, timedelta]:
        return {
            "done": timedelta(days=self._stack.settings.work.keep_days),
            "broken": _KEEP_BROKEN,
            "plans": _KEEP_PLANS,
            "destructive": _KEEP_DESTRUCTIVE,
        }
