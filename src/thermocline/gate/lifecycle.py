"""What people ask of the gate: verify a table's chunks, tier those that are due, drop those past retention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psycopg.rows import dict_row

from thermocline import log as logs
from thermocline.errors import Refused, ThermoclineError
from thermocline.gate import drop
from thermocline.gate.drop_plan import Reason, Verdict, plan_drops
from thermocline.gate.receipt import NotProven
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from psycopg import Connection

    from thermocline.gate.drop import Outcome
    from thermocline.gate.drop_plan import Planned
    from thermocline.gate.receipt import Comparison, Prover

    News = Callable[[str], None]

log = logs.get(__name__)
# What a new receipt can mend.
_PROVABLE = ("no_receipt", "receipt_stale", "changed_since_receipt", "rewritten", "columns_changed", "lake_changed")


class Paused(Refused):
    """Nothing is dropped while destructive work is paused."""

    code = "gate.paused"
    next_step_by_default = "`thermocline work pause` shows what is paused, and by whom."


@dataclass(frozen=True)
class ChunkLine:
    """One chunk as a person is shown it."""

    chunk: str
    range_start: datetime
    range_end: datetime
    rows: int | None
    bytes: int
    state: str
    verdict: str
    reason: str
    message: str
    next_step: str


@dataclass(frozen=True)
class _Resident:
    oid: int
    name: str
    range_start: datetime
    range_end: datetime
    status: str
    size_bytes: int
    row_count: int | None
    due: bool
    code: str | None
    message: str | None
    next_step: str | None

    def line(self, verdict: str, reason: str, message: str, next_step: str, rows: int | None = None) -> ChunkLine:
        return ChunkLine(
            self.name,
            self.range_start,
            self.range_end,
            rows if rows is not None else self.row_count,
            self.size_bytes,
            self.status,
            verdict,
            reason,
            message,
            next_step,
        )


class Lifecycle:
    """The gate of one table."""

    def __init__(self, dsn: str, prover: Prover, table: str, *, patience: float = drop.PATIENCE) -> None:
        self._patience = patience
        self._dsn = dsn
        self._prover = prover
        self._schema, self._name = names.split(table)

    def verify(self, chunk: str | None = None, news: News = lambda _: None) -> list[ChunkLine]:
        """Compare every resident chunk, or one of them, with the lake; each equal one gets a receipt.

        Refuses a table that is not synced.
        """
        self._require_synced()
        residents = self._residents()
        if chunk is not None:
            residents = [one for one in residents if chunk in (one.name, one.name.rpartition(".")[2])]
            if not residents:
                raise Refused(
                    f"{self._schema}.{self._name} has no resident chunk {chunk}.",
                    next_step=f"SELECT chunk_name FROM lakets.show_chunks('{self._name}'); lists them.",
                )
        return [self._verified(one, news) for one in residents]

    def _require_synced(self) -> None:
        with connect(self._dsn) as session:
            row = session.execute(query("lifecycle_synced"), {"table": self._name, "schema": self._schema}).fetchone()
        if not (row and row[0]):
            raise NotProven(
                "not_synced",
                f"{self._schema}.{self._name} is not synced, so there is nothing in the lake to compare it with.",
                f"SELECT lakets.enable_sync('{self._name}', '{self._schema}'), then `thermocline feed`.",
            )

    def _verified(self, resident: _Resident, news: News) -> ChunkLine:
        news(resident.name)
        try:
            found = self._prover.prove(resident.oid)
        except NotProven as error:
            return resident.line("unproven", error.reason, error.message, error.next_step)
        except ThermoclineError as error:
            return resident.line("unproven", error.code, error.message, error.next_step)
        return _compared(resident, found)

    def tier(self, *, dry_run: bool = False, news: News = lambda _: None) -> list[ChunkLine]:
        """Flag the chunks that are due by the tiering policy and proven in the lake; nothing is removed."""
        lines = []
        if not dry_run:
            self.refresh_rollups()
        for one in self._residents():
            if not one.due or one.status != "active":
                continue
            if dry_run:
                lines.append(_planned(one))
                continue
            line = self._verified(one, news)
            lines.append(self._tiered(one, line) if line.verdict == "proven" else line)
        if not dry_run:
            self._ran("tiering")
        return lines

    def _ran(self, policy: str) -> None:
        with connect(self._dsn) as session:
            session.execute(query("policy_ran"), {"table": self._name, "schema": self._schema, "kind": policy})

    def _tiered(self, resident: _Resident, proven: ChunkLine) -> ChunkLine:
        try:
            self._prover.look(resident.oid)
        except NotProven as error:
            return resident.line("unproven", error.reason, error.message, error.next_step)
        except ThermoclineError as error:
            return resident.line("unproven", error.code, error.message, error.next_step)
        with connect(self._dsn) as session:
            row = session.execute(query("lifecycle_tier"), {"chunk": resident.name}).fetchone()
        if row and row[0]:
            tiered = resident.line("tiered", "proven", proven.message, "Nothing to do.", proven.rows)
            return replace(tiered, state="tiered")
        return resident.line("deferred", "changing", "it was written to meanwhile", "It is tried again.", proven.rows)

    def retention(self, *, dry_run: bool = False, news: News = lambda _: None) -> list[ChunkLine]:
        """Drop what the retention policy no longer keeps, each chunk on proof; with `dry_run` only say so."""
        residents = {one.oid: one for one in self._residents()}
        if dry_run:
            return [_foretold(self._line(one)) for one in self.plan_retention()]
        with connect(self._dsn) as session:
            self._unless_paused(session)
        self.refresh_rollups()
        begun = {one.chunk.chunk for one in self.plan_retention() if one.verdict is Verdict.FINISH}
        look, fence = self._prover.look, self._unless_paused
        ended = drop.recover(self._dsn, only=begun, check_lake=look, patience=self._patience, fence=fence)
        self.prove_due(self.plan_retention(), news)
        return self.carry_out(self.plan_retention(), begun=ended, residents=residents, fence=fence)

    def _unless_paused(self, session: Connection) -> None:
        """Nobody drops anything while destructive work is paused, whether by a node or by hand."""
        row = session.execute(query("lifecycle_paused")).fetchone()
        if row:
            what, who, since, why = row
            said = f"Nothing is dropped: {what} is paused since {since:%Y-%m-%d %H:%M:%S} UTC by {who}"
            step = f"`thermocline work pause {what} --off` ends the pause."
            raise Paused(f"{said}: {why}." if why else f"{said}.", next_step=step)

    def prove_due(self, plan: Sequence[Planned], news: News = lambda _: None) -> None:
        """A receipt for each chunk of the plan that stays for want of one."""
        residents = {one.oid: one for one in self._residents()}
        for one in plan:
            if provable(one) and one.chunk.chunk in residents:
                self._verified(residents[one.chunk.chunk], news)

    def carry_out(
        self,
        plan: Sequence[Planned],
        *,
        begun: Sequence[Outcome] = (),
        residents: dict[int, _Resident] | None = None,
        fence: drop.Fence | None = None,
    ) -> list[ChunkLine]:
        """Drop exactly what the plan says; each chunk is checked again, and `fence` is asked in its transaction."""
        residents = residents if residents is not None else {one.oid: one for one in self._residents()}
        look = self._prover.look
        carried = drop.carry_out(self._dsn, plan, check_lake=look, patience=self._patience, fence=fence)
        lines = {one.chunk.chunk: self._line(one) for one in plan}
        outright = {one.chunk.chunk for one in plan if not one.chunk.gated}
        for outcome in (*begun, *carried):
            chunk = outcome.chunk
            if chunk not in lines and chunk in residents:
                lines[chunk] = residents[chunk].line("finish", "begun", "its drop had been begun", "Nothing to do.")
            if chunk in lines:
                lines[chunk] = _ended(lines[chunk], outcome, outright=chunk in outright)
        self._ran("retention")
        return sorted(lines.values(), key=lambda line: line.range_start)

    def refresh_rollups(self) -> None:
        """What they still need stays, so they are brought up to date first."""
        with connect(self._dsn) as session:
            session.execute(query("lifecycle_refresh"), {"table": self._name, "schema": self._schema})

    def plan_retention(self, most: int | None = None) -> list[Planned]:
        """A line for each chunk that is past retention; at most so many of them are to be dropped."""
        return plan_drops(drop.read_state(self._dsn, self._name, self._schema, with_rows=True), most)

    def _line(self, planned: Planned) -> ChunkLine:
        chunk = planned.chunk
        return ChunkLine(
            chunk.name,
            chunk.range_start,
            chunk.range_end,
            None,
            chunk.size_bytes,
            "due",
            str(planned.verdict),
            planned.reason,
            planned.message,
            planned.next_step,
        )

    def _residents(self) -> list[_Resident]:
        with connect(self._dsn) as session:
            session.execute("SELECT lakets._chronotable_id(%s, %s)", [self._name, self._schema])
            rows = session.cursor(row_factory=dict_row).execute(
                query("lifecycle_residents"), {"table": self._name, "schema": self._schema}
            )
            return [_Resident(**row) for row in rows]


def _compared(resident: _Resident, found: Comparison) -> ChunkLine:
    if found.equal:
        said = f"{found.hot.rows} rows are the same in PostgreSQL and in the lake"
        return resident.line("proven", "equal", said, "Nothing to do.", found.hot.rows)
    step = (
        "It is compared again later."
        if found.reason == "changing"
        else "Do not drop it. SELECT lakets.disable_sync and lakets.enable_sync copy it anew."
    )
    return resident.line("unproven", found.reason or "content_differs", found.message, step, found.hot.rows)


def _planned(resident: _Resident) -> ChunkLine:
    """What a run would do, from what is known without comparing."""
    if resident.code is None or resident.code in (*_PROVABLE, "lake_unchecked"):
        return resident.line("would tier", "due", "it is compared with the lake first", "Nothing to do.")
    return resident.line("stays", resident.code, resident.message or "", resident.next_step or "")


def _foretold(line: ChunkLine) -> ChunkLine:
    """In a dry run: what a new receipt can mend is no reason to stay, the run makes one first."""
    if line.verdict != Verdict.STAYS or line.reason not in _PROVABLE:
        return line
    return replace(
        line,
        verdict="would drop",
        message=f"once it is compared with the lake and found the same; today {line.message}",
        next_step="Nothing to do.",
    )


def _ended(line: ChunkLine, outcome: Outcome, *, outright: bool) -> ChunkLine:
    step = "Nothing to do."
    said = outcome.reason or (
        Reason("outright", line.message, step) if outright else Reason("proven", line.message, step)
    )
    return replace(line, verdict=str(outcome.result), reason=said.code, message=said.message, next_step=said.next_step)


_FINE = ("proven", "tiered", "dropped", "would tier", "would drop", "drop", "finish", "later")


def provable(planned: Planned) -> bool:
    """Whether a comparison with the lake can mend what keeps the chunk."""
    return planned.verdict is Verdict.STAYS and planned.reason in _PROVABLE


def proven(lines: Sequence[ChunkLine]) -> bool:
    """Whether every line is as it should be."""
    return all(line.verdict in _FINE for line in lines)


def only_busy(lines: Sequence[ChunkLine]) -> bool:
    """Whether nothing but somebody's use stands in the way: trying again may help."""
    return all(line.reason in ("busy", "detach_pending") for line in lines if line.verdict not in _FINE)
