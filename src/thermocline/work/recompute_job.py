"""The job that recomputes RollUps from both tiers, those that say so, where something needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.job import MAINTENANCE, Hopeless, Line, Plan
from thermocline.work.pacing import Budget

if TYPE_CHECKING:
    from thermocline.stack import Stack
    from thermocline.work.job import Target
    from thermocline.work.units import Claim


class Recompute:
    """Recomputes buckets on Spark that are incomplete, or in which something has changed outside of PostgreSQL."""

    kind: ClassVar[str] = "recompute"
    targets: ClassVar[str | None] = "work_targets_recompute"
    serves: ClassVar[str] = "tables with RollUps that are recomputed by themselves"
    job_class: ClassVar[str | None] = MAINTENANCE
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def plan(self, target: Target, claim: Claim) -> Plan:
        """The buckets that need it; one that has to stay is a line, too."""
        from thermocline.recompute.expressions import NotOnSpark

        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            rollups = [name for (name,) in session.execute(query("work_recomputes"), {"table": target.id})]
        recomputer = self._stack.recomputer()
        lines: list[Line] = []
        steps: list[str] = []
        for name in rollups:
            try:
                planned = recomputer.plan(name, needed=True)
            except NotOnSpark as error:
                raise Hopeless(f"{name}: {error.message}", next_step=error.next_step) from error
            steps += [name] if planned.ranges else []
            lines += [
                Line(f"{one.rollup} {one.start:%Y-%m-%d %H:%M} - {one.end:%Y-%m-%d %H:%M}", one.action, one.why)
                for one in planned.lines
            ]
        return Plan(target, tuple(lines), steps=steps)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """One RollUp after the other; each replacement asks the fence in its own transaction."""
        budget = Budget(self._stack.dsn, MAINTENANCE)
        done: dict[str, int] = {}
        for name in plan.steps or ():
            claim.check()
            budget.spend(size=0, operations=1, check=claim.check)
            found = self._stack.recomputer().run(
                name, needed=True, check=claim.check, fence=claim.fence, reason="marked, and it recomputes by itself"
            )
            done[name] = found.buckets
        return {"buckets": done}
