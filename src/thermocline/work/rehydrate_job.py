"""The job that brings ranges back from the lake, and lets go of those that were to stay for a while."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from thermocline.gate import drop
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.gate_jobs import GateJob
from thermocline.work.job import Line, Plan
from thermocline.work.pacing import Budget

if TYPE_CHECKING:
    from datetime import datetime

    from thermocline.work.job import Target
    from thermocline.work.units import Claim

    LetGo = tuple[int, str, datetime, datetime]

_OVER = "it came back from the lake and is no longer kept"


class Rehydrate(GateJob):
    """Brings back what is asked for, and drops what came back and is no longer kept, on proof as ever."""

    kind: ClassVar[str] = "rehydrate"
    targets: ClassVar[str | None] = "work_targets_rehydrate"
    serves: ClassVar[str] = "tables of which a range is wanted back, or was"
    destructive: ClassVar[bool] = True

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is wanted back, and what is to go again."""
        claim.check()
        wanted = self._stack.rehydrator(on_spark=False).wanted(target.id, by_itself=True)
        with connect(self._stack.dsn, autocommit=True) as session:
            over: list[LetGo] = session.execute(query("rehydrate_let_go"), {"table": target.id}).fetchall()
        lines = [Line(f"{one.start:%Y-%m-%d %H:%M}", "bring back", "it was asked for") for one in wanted]
        lines += [Line(name, "drop", _OVER) for _, name, _, _ in over]
        return Plan(target, tuple(lines), steps=(wanted, over))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Each range by itself; what attaches or drops one asks the fence in its own transaction."""
        wanted, over = plan.steps
        on_spark = not self._stack.settings.work.in_process
        told: dict[str, Any] = {"ranges": [], "chunks": []}
        if wanted:
            sizes = iter([one.bytes for one in wanted])
            budget = Budget(self._stack.dsn, self.job_class or "")

            def before(_range: str) -> None:
                claim.check()
                budget.spend(size=next(sizes), operations=1, check=claim.check)

            lines = self._stack.rehydrator(on_spark=on_spark).carry_out(
                plan.target.id, before, wanted=wanted, fence=claim.fence
            )
            told["ranges"] = [
                asdict(line) | {"range_start": str(line.range_start), "range_end": str(line.range_end)}
                for line in lines
            ]
        if over:
            told["chunks"] = self._let_go(plan.target, over, claim, on_spark=on_spark)
        with connect(self._stack.dsn, autocommit=True) as session:
            claim.fence(session)  # what made it stop makes the unit stop, too
        return told

    def _let_go(self, target: Target, over: list[LetGo], claim: Claim, *, on_spark: bool) -> list[dict[str, Any]]:
        prover = self._stack.prover(on_spark=on_spark)
        self._gate(target, compares=False).refresh_rollups()
        outcomes = []
        for found, (oid, name, _, _) in zip(prover.prove_all([oid for oid, *_ in over]), over, strict=True):
            claim.check()
            outcome = drop.drop_chunk(self._stack.dsn, oid, reason=_OVER, check_lake=prover.look, fence=claim.fence)
            proven = not isinstance(found, Exception) and found.equal
            why = outcome.reason.code if outcome.reason else "proven" if proven else "empty"
            outcomes.append({"chunk": name, "result": str(outcome.result), "reason": why})
        drop.merge_traps(self._stack.dsn)
        return outcomes
