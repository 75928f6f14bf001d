"""What people ask of the gate: verify a table's chunks, tier those that are due, drop those past retention."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psycopg.rows import dict_row

from thermocline import log as logs
from thermocline.errors import Refused, ThermoclineError
from thermocline.gate import drop
from thermocline.gate.drop_plan import Reason, Verdict, plan_drops
from thermocline.gate.receipt import AGAIN, DIFFERS, REPAIR
from thermocline.gate.sides import NotProven
from thermocline.hot import names, policies
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from psycopg import Connection

    from thermocline.gate.differences import Difference
    from thermocline.gate.drop import Outcome
    from thermocline.gate.drop_plan import Planned
    from thermocline.gate.receipt import Comparison, Prover

    News = Callable[[str], None]

log = logs.get(__name__)
_POLL = 0.2
_CHUNKS_OF_A_JOB = 256
_BYTES_OF_A_JOB = 1 << 30
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
    since: datetime | None = None
    differences: tuple[Difference, ...] = ()
    """Some of the rows by which it differs from the lake, if it does."""


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
    waits: bool
    """Could not be proven lately, or changes again and again, so that nobody tries again by himself yet."""

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

    def verify(self, chunk: str | None = None, news: News = lambda _: None, *, repair: bool = False) -> list[ChunkLine]:
        """Compare every resident chunk, or one of them, with the lake; each equal one gets a receipt.

        With `repair` those that differ are copied again and compared anew. Refuses a table that is not synced.
        """
        self._require_synced()
        residents = self._residents()
        if chunk is not None:
            residents = [one for one in residents if chunk in (one.name, one.name.rpartition(".")[2])]
            if not residents:
                where = "" if self._schema == "public" else f", p_schema_name => '{self._schema}'"
                raise Refused(
                    f"{self._schema}.{self._name} has no resident chunk {chunk}.",
                    next_step=f"SELECT chunk_name FROM lakets.show_chunks('{self._name}'{where}); lists them.",
                )
        lines = self._verified(residents, news)
        differing = [line.reason == DIFFERS for line in lines]
        for at in (at for at, differs in enumerate(differing) if differs):
            lines[at] = self._repaired(residents[at], news) if repair else self._explained(residents[at], lines[at])
        return lines

    def _explained(self, resident: _Resident, line: ChunkLine) -> ChunkLine:
        """With some of the rows that differ, if they still do."""
        try:
            return replace(line, differences=tuple(self._prover.differences(resident.oid)))
        except ThermoclineError as error:
            log.info("differences unknown", chunk=resident.name, reason=error.message)
            return line

    def _repaired(self, resident: _Resident, news: News) -> ChunkLine:
        """Have the feed copy the chunk again, which supersedes what the lake had of it, and compare anew."""
        news(f"{resident.name} is copied again")
        name = resident.name.rpartition(".")[2]
        with connect(self._dsn) as session:
            session.execute(query("resync_table"), {"table": self._name, "schema": self._schema, "chunk": name})
        (line,) = self._verified([resident], lambda _: None)
        while line.reason == "not_covered" and self._feed_runs():
            time.sleep(_POLL)
            (line,) = self._verified([resident], lambda _: None)
        return replace(line, message=f"copied again; {line.message}") if line.verdict == "proven" else line

    def _feed_runs(self) -> bool:
        with connect(self._dsn) as session:
            row = session.execute(query("feed_status")).fetchone()
        return bool(row and row[0])

    def _require_synced(self) -> None:
        with connect(self._dsn) as session:
            row = session.execute(query("lifecycle_synced"), {"table": self._name, "schema": self._schema}).fetchone()
        if not (row and row[0]):
            raise NotProven(
                "not_synced",
                f"{self._schema}.{self._name} is not synced, so there is nothing in the lake to compare it with.",
                f"SELECT lakets.enable_sync('{self._name}', '{self._schema}'), then `thermocline feed`.",
            )

    def _verified(self, residents: Sequence[_Resident], news: News) -> list[ChunkLine]:
        """A line for each; small chunks are compared together."""
        lines: list[ChunkLine] = []
        for group in _groups(residents):
            for one in group:
                news(one.name)
            found = self._prover.prove_all([one.oid for one in group])
            lines += [_verdict(one, compared) for one, compared in zip(group, found, strict=True)]
        return lines

    def tier(self, *, dry_run: bool = False, news: News = lambda _: None, by_itself: bool = False) -> list[ChunkLine]:
        """Flag the chunks that are due by the tiering policy and proven in the lake; nothing is removed.

        What runs by itself leaves out those that could not be proven lately, or that change again and again.
        """
        if dry_run:
            return self.foretell("tier")
        self.refresh_rollups()
        due = [one for one in self._residents() if one.due and one.status == "active" and not (by_itself and one.waits)]
        lines = [
            self._tiered(one, line) if line.verdict == "proven" else line
            for one, line in zip(due, self._verified(due, news), strict=True)
        ]
        policies.ran(self._dsn, self._schema, self._name, "tiering")
        return lines

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
        if dry_run:
            return self.foretell("drop")
        residents = {one.oid: one for one in self._residents()}
        with connect(self._dsn) as session:
            self._unless_paused(session)
        self.refresh_rollups()
        begun = {one.chunk.chunk for one in self.plan_retention() if one.verdict is Verdict.FINISH}
        look, fence = self._prover.look, self._unless_paused
        ended = drop.recover(self._dsn, only=begun, check_lake=look, patience=self._patience, fence=fence)
        self.prove_due(self.plan_retention(), news)
        return self.carry_out(self.plan_retention(), begun=ended, residents=residents, fence=fence)

    def foretell(self, goal: str) -> list[ChunkLine]:
        """What a run would do to the chunks that are due to `tier` or to `drop`, as far as is known now."""
        asked = {"table": self._name, "schema": self._schema, "goal": goal}
        with connect(self._dsn) as session:
            return [ChunkLine(*row) for row in session.execute(query("lifecycle_verdicts"), asked)]

    def _unless_paused(self, session: Connection) -> None:
        """Nobody drops anything while destructive work is paused, whether by a node or by hand."""
        row = session.execute(query("lifecycle_paused")).fetchone()
        if row:
            message, step = row
            raise Paused(message, next_step=step)

    def prove_due(self, plan: Sequence[Planned], news: News = lambda _: None, *, by_itself: bool = False) -> None:
        """A receipt for each chunk of the plan that stays for want of one, `by_itself` as in `tier`."""
        wanted = {one.chunk.chunk for one in plan if provable(one)}
        self._verified([one for one in self._residents() if one.oid in wanted and not (by_itself and one.waits)], news)

    def prove_ahead(self, chunks: Collection[int], news: News = lambda _: None) -> list[ChunkLine]:
        """A receipt for each of these, before it is needed."""
        return self._verified([one for one in self._residents() if one.oid in chunks], news)

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
        policies.ran(self._dsn, self._schema, self._name, "retention")
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
            chunk.row_count,
            chunk.size_bytes,
            chunk.state,
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


def _groups(residents: Sequence[_Resident]) -> Iterator[list[_Resident]]:
    """Chunks that are compared in one job: enough to keep every core busy, and no snapshot is held for long."""
    group: list[_Resident] = []
    size = 0
    for one in residents:
        if group and (len(group) >= _CHUNKS_OF_A_JOB or size + one.size_bytes > _BYTES_OF_A_JOB):
            yield group
            group, size = [], 0
        group.append(one)
        size += one.size_bytes
    if group:
        yield group


def _verdict(resident: _Resident, found: Comparison | ThermoclineError) -> ChunkLine:
    if isinstance(found, ThermoclineError):
        reason = found.reason if isinstance(found, NotProven) else found.code
        return resident.line("unproven", reason, found.message, found.next_step)
    return _compared(resident, found)


def _compared(resident: _Resident, found: Comparison) -> ChunkLine:
    if found.equal:
        said = f"{found.hot.rows} rows are the same in PostgreSQL and in the lake"
        return resident.line("proven", "equal", said, "Nothing to do.", found.hot.rows)
    step = AGAIN if found.reason == "changing" else REPAIR
    return resident.line("unproven", found.reason or DIFFERS, found.message, step, found.hot.rows)


def _ended(line: ChunkLine, outcome: Outcome, *, outright: bool) -> ChunkLine:
    step = "Nothing to do."
    said = outcome.reason or (
        Reason("outright", line.message, step) if outright else Reason("proven", line.message, step)
    )
    state = "dropped" if outcome.result is drop.Result.DROPPED else line.state
    told = replace(line, reason=said.code, message=said.message, next_step=said.next_step)
    return replace(told, state=state, verdict=str(outcome.result))


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
