"""Jobs of the gate: compare chunks with the lake, flag those that are due, drop those past retention."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from thermocline import meters
from thermocline.gate import drop
from thermocline.gate.drop_plan import Verdict
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.job import MAINTENANCE, Hopeless, Line, Plan
from thermocline.work.pacing import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thermocline.gate.drop_plan import Planned
    from thermocline.gate.lifecycle import ChunkLine, Lifecycle
    from thermocline.stack import Stack
    from thermocline.work.job import Target
    from thermocline.work.units import Claim

_ACTS = (Verdict.DROP, Verdict.FINISH)


class _GateJob:
    targets: ClassVar[str | None]
    job_class: ClassVar[str | None] = MAINTENANCE
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def _gate(self, target: Target, *, compares: bool) -> Lifecycle:
        """Spark is started by the first comparison that needs it, not before."""
        on_spark = compares and not self._stack.settings.work.in_process
        return self._stack.lifecycle(target.table or "", on_spark=on_spark)

    def _ran(self, target: Target, policy: str) -> None:
        """There was nothing to do: that is a run, too."""
        schema, name = names.split(target.table or "")
        with connect(self._stack.dsn, autocommit=True) as session:
            session.execute(query("policy_ran"), {"table": name, "schema": schema, "kind": policy})

    def _paced(self, target: Target, claim: Claim) -> Callable[[str], None]:
        """Before each comparison: is the unit still ours, and does the budget have the chunk's bytes?"""
        sizes = {chunk.chunk: chunk.bytes for chunk in self._stack.chunks(target.table or "")}
        budget = Budget(self._stack.dsn, MAINTENANCE)

        def before(chunk: str) -> None:
            claim.check()
            budget.spend(size=sizes.get(chunk, 0), operations=1, check=claim.check)

        return before


class Verify(_GateJob):
    """Compares every resident chunk of a synced table with the lake; equal ones get a receipt."""

    kind: ClassVar[str] = "verify"
    targets: ClassVar[str | None] = "work_targets_synced"

    def plan(self, target: Target, claim: Claim) -> Plan:
        """Every resident chunk."""
        claim.check()
        chunks = self._stack.chunks(target.table or "")
        return Plan(target, tuple(Line(one.chunk, "compare", "every resident chunk is compared") for one in chunks))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """A chunk that differs is for a person to look at: it is told as a failure."""
        if not plan.lines:
            return {"chunks": []}
        lines = self._gate(plan.target, compares=True).verify(None, self._paced(plan.target, claim))
        differing = [line for line in lines if line.reason == "content_differs"]
        if differing:
            raise Hopeless(
                f"{differing[0].chunk} is not the same in the lake: {differing[0].message}",
                next_step=differing[0].next_step,
            )
        return _told(lines)


class Tier(_GateJob):
    """Flags the chunks that the tiering policy has come to and that the lake provably holds."""

    kind: ClassVar[str] = "tier"
    targets: ClassVar[str | None] = "work_targets_tiering"

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is due; a chunk that has to stay is a line, too."""
        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            row = session.execute(query("work_due_to_tier"), {"table": target.id}).fetchone()
        if not (row and row[0]):
            return Plan(target)
        gate = self._gate(target, compares=False)
        gate.refresh_rollups()
        lines = gate.tier(dry_run=True)
        return Plan(target, _lines(lines), steps=any(line.verdict == "would tier" for line in lines))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Compare, then flag."""
        if not plan.steps:
            self._ran(plan.target, "tiering")
            return {"chunks": []}
        return _told(self._gate(plan.target, compares=True).tier(news=self._paced(plan.target, claim)))


class Retention(_GateJob):
    """Drops the chunks that the retention policy no longer keeps, each only if the lake provably holds it."""

    kind: ClassVar[str] = "retention"
    targets: ClassVar[str | None] = "work_targets_retention"
    destructive: ClassVar[bool] = True

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is due is compared with the lake first, so that the plan says what will really go."""
        claim.check()
        schema, name = names.split(target.table or "")
        if not drop.read_state(self._stack.dsn, name, schema):
            return Plan(target)
        from thermocline.gate.lifecycle import provable  # with Arrow and all: only once something is due

        gate = self._gate(target, compares=False)
        gate.refresh_rollups()
        most = self._stack.settings.work.drops_per_run
        planned = gate.plan_retention(most)
        if any(provable(one) for one in planned):
            gate = self._gate(target, compares=True)
            gate.prove_due(planned, self._paced(target, claim))
            planned = gate.plan_retention(most)
        elif any(one.chunk.gated and one.verdict in _ACTS for one in planned):
            gate = self._gate(target, compares=True)
        policy = planned[0].chunk.policy if planned else None
        lines = tuple(Line(one.chunk.name, str(one.verdict), f"{one.reason}: {one.message}") for one in planned)
        return Plan(target, lines, policy, steps=(gate, planned))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Each drop asks the fence in its own transaction, so a worker that was overtaken drops nothing."""
        steps: tuple[Lifecycle | None, Sequence[Planned]] = plan.steps or (None, ())
        gate, planned = steps
        if gate is None or not any(one.verdict in _ACTS for one in planned):
            self._ran(plan.target, "retention")
            return {"chunks": [asdict(line) for line in plan.lines]}
        lines = gate.carry_out(planned, fence=claim.fence)
        dropped = [line.chunk for line in lines if line.verdict == "dropped"]
        with connect(self._stack.dsn, autocommit=True) as session:
            values = {"table": plan.target.id, "chunks": dropped, "unit": claim.unit.id}
            rows, size = session.execute(query("work_dropped"), values).fetchone() or (0, 0)
            meters.RETENTION_ROWS.labels(plan.target.shown).inc(rows)
            meters.RETENTION_BYTES.labels(plan.target.shown).inc(size)
            claim.fence(session)  # what made it stop makes the unit stop, too
        return _told(lines) | {"rows": rows, "bytes": size}


def _lines(lines: Sequence[ChunkLine]) -> tuple[Line, ...]:
    return tuple(Line(line.chunk, line.verdict, f"{line.reason}: {line.message}") for line in lines)


def _told(lines: Sequence[ChunkLine]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.verdict] = counts.get(line.verdict, 0) + 1
    return counts | {"chunks": [asdict(line) for line in _lines(lines)]}
