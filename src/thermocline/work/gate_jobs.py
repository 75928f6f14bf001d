"""Jobs of the gate: compare chunks with the lake, flag those that are due, drop those past retention; settle late."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from thermocline import meters
from thermocline.gate import drop
from thermocline.gate.drop_plan import Verdict
from thermocline.hot import names, policies
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.job import MAINTENANCE, Hopeless, Line, Plan
from thermocline.work.pacing import paced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from thermocline.gate.drop_plan import Planned
    from thermocline.gate.lifecycle import ChunkLine, Lifecycle
    from thermocline.stack import Stack
    from thermocline.work.job import Target
    from thermocline.work.units import Claim

    Ahead = tuple[int, str, datetime]
    """A chunk's oid, its name, and when a policy comes to it."""

_ACTS = (Verdict.DROP, Verdict.FINISH)


class GateJob:
    """What the jobs of the gate have in common."""

    targets: ClassVar[str | None]
    serves: ClassVar[str]
    job_class: ClassVar[str | None] = MAINTENANCE
    destructive: ClassVar[bool] = False

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def _gate(self, target: Target, *, compares: bool) -> Lifecycle:
        """Spark is started by the first comparison that needs it, not before."""
        on_spark = compares and not self._stack.settings.work.in_process
        return self._stack.lifecycle(target.table or "", on_spark=on_spark)

    def _paced(self, target: Target, claim: Claim) -> Callable[[str], None]:
        """Before each comparison: is the unit still ours, and does the budget have the chunk's bytes?"""
        sizes = {chunk.chunk: chunk.bytes for chunk in self._stack.chunks(target.table or "")}
        return paced(self._stack.dsn, MAINTENANCE, sizes, claim.check)

    def _ahead(self, target: Target) -> list[Ahead]:
        """What comes due within a day and lacks a receipt."""
        with connect(self._stack.dsn, autocommit=True) as session:
            return session.execute(query("work_ahead"), {"table": target.id}).fetchall()

    def _prove_ahead(self, target: Target, ahead: Sequence[Ahead], claim: Claim) -> list[ChunkLine]:
        if not ahead:
            return []
        gate = self._gate(target, compares=True)
        return gate.prove_ahead({oid for oid, _, _ in ahead}, self._paced(target, claim))


class Verify(GateJob):
    """Compares every resident chunk of a synced table with the lake; equal ones get a receipt."""

    kind: ClassVar[str] = "verify"
    targets: ClassVar[str | None] = "work_targets_synced"
    serves: ClassVar[str] = "synced tables"

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


class Tier(GateJob):
    """Flags the chunks that the tiering policy has come to and that the lake provably holds."""

    kind: ClassVar[str] = "tier"
    targets: ClassVar[str | None] = "work_targets_tiering"
    serves: ClassVar[str] = "tables with a tiering policy"

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is due; a chunk that has to stay is a line, too."""
        claim.check()
        with connect(self._stack.dsn, autocommit=True) as session:
            session.execute(query("work_written"), {"table": target.id})
            row = session.execute(query("work_due_to_tier"), {"table": target.id}).fetchone()
        ahead = self._ahead(target)
        if not (row and row[0]):
            return Plan(target, _ahead_lines(ahead), steps=(False, ahead))
        gate = self._gate(target, compares=False)
        gate.refresh_rollups()
        lines = gate.tier(dry_run=True)
        # One that differed is compared again, once its time has come: somebody may have repaired it.
        flags = any(line.verdict == "would tier" or line.reason == "content_differs" for line in lines)
        due = {line.chunk for line in lines}
        ahead = [one for one in ahead if one[1] not in due]
        return Plan(target, _lines(lines) + _ahead_lines(ahead), row[0], steps=(flags, ahead))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Compare, then flag; then receipts for what comes due next."""
        flags, ahead = plan.steps or (False, ())
        lines: list[ChunkLine] = []
        if flags:
            gate = self._gate(plan.target, compares=True)
            lines = gate.tier(news=self._paced(plan.target, claim), by_itself=True)
        else:
            policies.ran(self._stack.dsn, *names.split(plan.target.table or ""), "tiering")
        return _told(lines + self._prove_ahead(plan.target, ahead, claim))


class Retention(GateJob):
    """Drops the chunks that the retention policy no longer keeps, each only if the lake provably holds it."""

    kind: ClassVar[str] = "retention"
    targets: ClassVar[str | None] = "work_targets_retention"
    serves: ClassVar[str] = "tables with a retention policy"
    destructive: ClassVar[bool] = True

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is due is compared with the lake first, so that the plan says what will really go."""
        claim.check()
        schema, name = names.split(target.table or "")
        if not drop.read_state(self._stack.dsn, name, schema):
            ahead = self._ahead(target)
            return Plan(target, _ahead_lines(ahead), steps=(None, (), ahead))
        from thermocline.gate.lifecycle import provable  # with Arrow and all: only once something is due

        gate = self._gate(target, compares=False)
        gate.refresh_rollups()
        most = self._stack.settings.work.drops_per_run
        planned = gate.plan_retention(most)
        if any(provable(one) for one in planned):
            gate = self._gate(target, compares=True)
            gate.prove_due(planned, self._paced(target, claim), by_itself=True)
            planned = gate.plan_retention(most)
        elif any(one.chunk.gated and one.verdict in _ACTS for one in planned):
            gate = self._gate(target, compares=True)
        policy = planned[0].chunk.policy if planned else None
        lines = tuple(Line(one.chunk.name, str(one.verdict), f"{one.reason}: {one.message}") for one in planned)
        due = {one.chunk.name for one in planned}
        ahead = [one for one in self._ahead(target) if one[1] not in due]
        return Plan(target, lines + _ahead_lines(ahead), policy, steps=(gate, planned, ahead))

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Each drop asks the fence in its own transaction, so a worker that was overtaken drops nothing."""
        steps: tuple[Lifecycle | None, Sequence[Planned], Sequence[Ahead]] = plan.steps or (None, (), ())
        gate, planned, ahead = steps
        if gate is None or not any(one.verdict in _ACTS for one in planned):
            policies.ran(self._stack.dsn, *names.split(plan.target.table or ""), "retention")
            self._prove_ahead(plan.target, ahead, claim)
            return {"chunks": [asdict(line) for line in plan.lines]}
        lines = gate.carry_out(planned, fence=claim.fence)
        dropped = [line.chunk for line in lines if line.verdict == "dropped"]
        with connect(self._stack.dsn, autocommit=True) as session:
            values = {"table": plan.target.id, "chunks": dropped, "unit": claim.unit.id}
            rows, size = session.execute(query("work_dropped"), values).fetchone() or (0, 0)
            meters.RETENTION_ROWS.labels(plan.target.shown).inc(rows)
            meters.RETENTION_BYTES.labels(plan.target.shown).inc(size)
            claim.fence(session)  # what made it stop makes the unit stop, too
        return _told(lines + self._prove_ahead(plan.target, ahead, claim)) | {"rows": rows, "bytes": size}


def _ahead_lines(ahead: Sequence[Ahead]) -> tuple[Line, ...]:
    return tuple(Line(name, "prove", f"it comes due on {due:%Y-%m-%d %H:%M} UTC") for _, name, due in ahead)


class Settle(GateJob):
    """Lets late rows go that the lake provably has, and sees that traps let rows in where they should."""

    kind: ClassVar[str] = "settle"
    targets: ClassVar[str | None] = "work_targets_late"
    serves: ClassVar[str] = "tables whose late rows go to the lake"
    destructive: ClassVar[bool] = True

    def plan(self, target: Target, claim: Claim) -> Plan:
        """A line for each range with late rows."""
        claim.check()
        drop.merge_traps(self._stack.dsn)
        lines = self._stack.late_rows(target.table, on_spark=False).plan()
        told = tuple(Line(line.trap, line.verdict, f"{line.reason}: {line.message}") for line in lines)
        return Plan(target, told, steps=lines)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Rows that are not the same in the lake are for a person to look at: they are told as a failure."""
        if not plan.steps:
            return {"late": []}
        late = self._stack.late_rows(plan.target.table, on_spark=not self._stack.settings.work.in_process)
        sizes = {line.trap: line.bytes for line in plan.steps}
        news = paced(self._stack.dsn, MAINTENANCE, sizes, claim.check)
        lines = late.settle(plan.steps, news=news, fence=claim.fence)
        with connect(self._stack.dsn, autocommit=True) as session:
            claim.fence(session)  # what made it stop makes the unit stop, too
        differing = [line for line in lines if line.reason == "content_differs"]
        if differing:
            raise Hopeless(
                f"Late rows of {differing[0].table} are not the same in the lake: {differing[0].message}",
                next_step=differing[0].next_step,
            )
        settled = [line for line in lines if line.verdict == "settled"]
        told = [asdict(Line(line.trap, line.verdict, f"{line.reason}: {line.message}")) for line in lines]
        return {"rows": sum(line.rows or 0 for line in settled), "late": told}


def _lines(lines: Sequence[ChunkLine]) -> tuple[Line, ...]:
    return tuple(Line(line.chunk, line.verdict, f"{line.reason}: {line.message}") for line in lines)


def _told(lines: Sequence[ChunkLine]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.verdict] = counts.get(line.verdict, 0) + 1
    return counts | {"chunks": [asdict(line) for line in _lines(lines)]}
