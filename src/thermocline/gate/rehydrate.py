"""The way back: a range that has left PostgreSQL is loaded from the lake, proven, and attached as the chunk it was.

It is loaded into a table of its own, so nothing of it streams and nobody sees a part of it. Before it takes the place
of its trap, what was loaded is read back and compared with the lake by the hash of every row. A crash leaves a table
that the next attempt removes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused, ThermoclineError
from thermocline.gate import drop, loading
from thermocline.gate.content import Content
from thermocline.gate.drop_plan import Reason
from thermocline.gate.late import LateRows
from thermocline.gate.receipt import history_of
from thermocline.gate.sides import Chunk, NotProven, in_lake, standing
from thermocline.hot import names, positions, rows
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from psycopg import Connection

    from thermocline.gate.receipt import Prover
    from thermocline.lake.history import History

    News = Callable[[str], None]

log = logs.get(__name__)
THERE = ("resident", "kept", "never_there")
"""Reasons of ranges that need not come back."""
_LATE = "late_rows"


class NothingToBring(Refused):
    """Nothing of the range can be brought back."""

    code = "gate.nothing_to_bring"
    next_step_by_default = "`thermocline rehydrate` with --dry-run shows why, range by range."


class NotTheSame(Refused):
    """What was loaded is not what the lake has."""

    code = "gate.not_the_same"
    next_step_by_default = "Nothing was changed. Try again; if it stays so, look into the log."


@dataclass(frozen=True)
class RangeLine:
    """A range as a person is shown it."""

    range_start: datetime
    range_end: datetime
    rows: int | None
    verdict: str
    reason: str
    message: str
    next_step: str


@dataclass(frozen=True)
class Wanted:
    """A range that somebody wants back."""

    table: int
    source: str
    start: datetime
    end: datetime
    bytes: int
    """What it took in PostgreSQL when it left."""


class Rehydrator:
    """Brings ranges back. One lake, one database, one way to run tasks."""

    def __init__(self, dsn: str, prover: Prover, *, patience: float = drop.PATIENCE) -> None:
        self._dsn = dsn
        self._prover = prover
        self._patience = patience

    def plan(self, table: str, start: datetime, end: datetime) -> list[RangeLine]:
        """A line for each dropped range, each resident chunk, and each stretch that never was there."""
        schema, name = names.split(table)
        with connect(self._dsn) as session:
            values = {"table": name, "schema": schema, "start": start, "end": end}
            session.execute("SELECT thermocline._require_range(%s, %s, %s)", [name, start, end])
            found = session.cursor(row_factory=dict_row).execute(query("rehydrate_plan"), values).fetchall()
        return [_planned(**line) for line in found]

    def bring_back(
        self, table: str, start: datetime, end: datetime, until: timedelta | None = None, news: News = lambda _: None
    ) -> list[RangeLine]:
        """Bring back what the plan says, and keep what is back; refuses when there is nothing of either.

        Late rows that are in the way are let go first, if the lake has them.
        """
        lines = self.plan(table, start, end)
        if any(line.reason == _LATE for line in lines):
            self._settle(table, start, end)
            lines = self.plan(table, start, end)
        if not any(line.verdict == "bring back" or line.reason == "kept" for line in lines):
            against = next((line for line in lines if line.reason not in THERE), lines[0])
            raise NothingToBring(
                f"Nothing of {table} from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} can be brought back:"
                f" {against.message}.",
                next_step=against.next_step,
            )
        schema, name = names.split(table)
        with connect(self._dsn) as session:
            values = {"table": name, "schema": schema, "start": start, "end": end, "until": until}
            asked = {at for (at,) in session.execute(query("rehydrate_ask"), values)}
            (number,) = session.execute("SELECT lakets._chronotable_id(%s, %s)", [name, schema]).fetchone() or (0,)
        crash_point("rehydrate.asked")
        came = {line.range_start: line for line in self.carry_out(number, news) if line.range_start in asked}
        return [came.get(line.range_start, line) for line in lines]

    def release(self, table: str, start: datetime, end: datetime) -> int:
        """Let go of what came back; returns how many chunks and wishes there were."""
        schema, name = names.split(table)
        with connect(self._dsn) as session:
            row = session.execute("SELECT lakets.release(%s, %s, %s, %s)", [name, start, end, schema]).fetchone()
        return int(row[0]) if row else 0

    def carry_out(
        self,
        table: int | None = None,
        news: News = lambda _: None,
        *,
        wanted: Sequence[Wanted] | None = None,
        fence: drop.Fence | None = None,
    ) -> list[RangeLine]:
        """Bring back whatever is on record as wanted, of one table or of all; each range by itself.

        With `wanted` only those of a plan; `fence` is asked in the transaction that attaches a range.
        """
        lines = []
        for one in self.wanted(table) if wanted is None else wanted:
            news(f"{one.source} from {one.start:%Y-%m-%d %H:%M}")
            lines.append(self._brought(one, fence))
        return lines

    def wanted(self, table: int | None = None, *, by_itself: bool = False) -> list[Wanted]:
        """What is on record as wanted back, of one table or of all.

        With `by_itself` not what has failed a moment ago: each attempt loads all of a range.
        """
        with connect(self._dsn) as session:
            found = session.execute(query("rehydrate_asked"), {"table": table, "by_itself": by_itself}).fetchall()
        return [Wanted(*row) for row in found]

    def _brought(self, wanted: Wanted, fence: drop.Fence | None) -> RangeLine:
        with connect(self._dsn, autocommit=True) as control:
            alone = control.execute(query("rehydrate_alone"), {"table": wanted.table, "start": wanted.start}).fetchone()
            if not (alone and alone[0]):
                return _line(wanted, None, "deferred", drop.AT_IT)
            try:
                content = self._bring(control, wanted, fence)
            except ThermoclineError as error:
                code = error.reason if isinstance(error, NotProven) else error.code
                return self._given_up(control, wanted, Reason(code, error.message, error.next_step))
            except psycopg.Error as error:
                if control.closed:
                    raise
                return self._given_up(control, wanted, _against(error))
        log.info("rehydrated", table=wanted.source, start=str(wanted.start), rows=content.rows)
        said = f"{content.rows} rows are the same in PostgreSQL and in the lake"
        return _line(wanted, content.rows, "back", Reason("equal", said, "Nothing to do."))

    def _given_up(self, control: Connection, wanted: Wanted, against: Reason) -> RangeLine:
        """What was loaded goes; why is on record for whoever asked."""
        said = f"{against.code}: {against.message}"
        log.warning("not rehydrated", table=wanted.source, start=str(wanted.start), reason=said)
        control.execute("SELECT thermocline._unstage(%s, %s, %s)", [wanted.table, wanted.start, said])
        verdict = "deferred" if against.code == drop.BUSY.code else "stays"
        return _line(wanted, None, verdict, against)

    def _bring(self, control: Connection, wanted: Wanted, fence: drop.Fence | None) -> Content:
        range_ = self._range(control, wanted, fence)
        staged, oid = control.execute(
            "SELECT staged, staged_oid::bigint FROM thermocline._stage_range(%s, %s)",
            [wanted.table, wanted.start],
        ).fetchall()[0]
        crash_point("rehydrate.staged")
        # Asked for once: it has to be the same when the range is attached, so late rows that are settled are noticed.
        settled, traps_lost = _settled_at(control, wanted)
        chunk = Chunk(
            oid=oid,
            name=staged,
            table=wanted.table,
            source=wanted.source,
            start=wanted.start,
            end=wanted.end,
            time_column=range_["time_column"],
            lake_table=range_["lake_table"],
            lake_snapshot=range_["lake_snapshot"],
            copied_at=0,
            columns=rows.columns_of(control, range_["table_oid"]),
            upto=settled,
        )
        # What was written to the range before is in the lake after this.
        reached = self._prover.wait_until_now(control, chunk)
        with self._prover.lake.open() as catalog:
            history = history_of(control, catalog, chunk)
            _require_same_table(history, range_["lake_uuid"], wanted)
            written = tuple(name for (name,) in control.execute(query("rehydrate_writable"), {"table": oid}))
            target = loading.Target(self._dsn, staged, written)
            expected = loading.load(self._prover.runner, target, in_lake(history, chunk), chunk.lake_table)
            self._require_proven(history, chunk, range_, expected)
            # A quiet table's marker may lie below: there is nothing in between.
            position = max(history.marker() - 1, reached)
        crash_point("rehydrate.loaded")
        control.execute("SELECT thermocline._bind_staged(%s::oid)", [oid])
        evidence = {
            "lake_table": chunk.lake_table,
            "lake_snapshot": history.snapshot_id,
            "lake_uuid": str(history.metadata.table_uuid),
            "hash_one": str(expected.one),
            "hash_two": str(expected.two),
        }
        about = [positions.text(position), expected.rows, Jsonb(evidence)]
        upto = None if settled is None else positions.text(settled)
        with control.transaction():
            # From here on nobody writes to it, so what is attached is what is read back.
            control.execute("SELECT thermocline._lock(%s::oid, 'SHARE')", [oid])
            self._require_same(chunk, expected)
            control.execute(f"ANALYZE {staged}".encode())
            crash_point("rehydrate.proven")
            self._attach(control, wanted, [wanted.table, wanted.start, oid, upto, traps_lost, *about], fence)
        crash_point("rehydrate.attached")
        return expected

    def _range(self, control: Connection, wanted: Wanted, fence: drop.Fence | None) -> dict[str, Any]:
        """What there is to know of a range; late rows that are in its way are let go first."""
        try:
            return _range(control, wanted)
        except NotProven as error:
            if error.reason != _LATE:
                raise
        self._settle(wanted.source, wanted.start, wanted.end, fence)
        return _range(control, wanted)

    def _settle(self, table: str, start: datetime, end: datetime, fence: drop.Fence | None = None) -> None:
        """Let late rows of these times go, and those of their traps, if the lake has them."""
        late = LateRows(self._dsn, self._prover, table, patience=self._patience)
        late.settle([one for one in late.plan() if one.range_start < end and start < one.range_end], fence=fence)

    def _require_proven(self, history: History, chunk: Chunk, range_: dict[str, Any], expected: Content) -> None:
        """The lake must still have what left PostgreSQL on proof; what came late lies above the drop."""
        if range_["proven_rows"] is None:
            return  # it was dropped by force: nobody knows what it had
        proven = Content(range_["proven_rows"], int(range_["hash_one"]), int(range_["hash_two"]))
        hashed = range_["same_columns"] and _had_columns(history, range_["proven_in"], chunk)

        def differs(found: Content) -> bool:
            return found != proven if hashed else found.rows != proven.rows

        found, dropped_at = expected, range_["dropped_at"]
        if chunk.upto != dropped_at and (chunk.upto is not None or range_["traps_lost"] or differs(found)):
            found = self._prover.contents(in_lake(history, replace(chunk, upto=dropped_at)))[chunk.oid]
        if differs(found):
            counted = f"the lake has {found.rows} rows of what left PostgreSQL, where {proven.rows} were proven"
            raise NotProven(
                "lake_changed",
                f"{chunk.source} from {chunk.start:%Y-%m-%d %H:%M}: "
                + (counted if found.rows != proven.rows else f"the lake has other rows than the {found.rows} that left")
                + ".",
                f"Nothing was changed here. Look among the snapshots of {chunk.lake_table} for the one that did it, and"
                " bring the rows back from the one before or from a backup; then try again.",
            )

    def _require_same(self, chunk: Chunk, expected: Content) -> None:
        """Read back what was loaded."""
        with standing(self._dsn, [chunk]) as (stood,):
            if isinstance(stood, NotProven):
                raise stood
            if stood.chunk.columns != chunk.columns:
                raise Busy(f"The columns of {chunk.source} have just been changed.")
            loaded = self._prover.contents(stood.parts)[chunk.oid]
        if loaded != expected:
            raise NotTheSame(
                f"{chunk.source} from {chunk.start:%Y-%m-%d %H:%M}: {loaded.rows} rows were loaded, and they are not"
                f" the {expected.rows} that the lake has."
            )

    def _attach(self, control: Connection, wanted: Wanted, values: list[object], fence: drop.Fence | None) -> None:
        def attach() -> None:
            with control.transaction():
                if fence:
                    fence(control)
                control.execute(
                    "SELECT thermocline._attach_staged(%s, %s, %s::oid, %s::pg_lsn, %s, %s, %s, %s)", values
                )
                crash_point("rehydrate.before_commit")

        against = drop.trying(control, attach, self._patience)
        if against:
            raise NotProven(against.code, f"{wanted.source}: {against.message}.", against.next_step)


def _range(control: Connection, wanted: Wanted) -> dict[str, Any]:
    """What there is to know of a range; refuses one that cannot come back now."""
    found = control.cursor(row_factory=dict_row).execute(
        query("rehydrate_range"), {"table": wanted.table, "start": wanted.start}
    )
    row = found.fetchone()
    if row is None:
        raise Busy(f"{wanted.source} from {wanted.start:%Y-%m-%d %H:%M} is not wanted back any more.")
    against = row["code"]
    if against is not None:
        raise NotProven(against, f"{wanted.source}: {row['message']}.", row["next_step"])
    return row


def _settled_at(control: Connection, wanted: Wanted) -> tuple[int | None, int]:
    """Up to where the lake counts, of a range that takes late rows; its trap has none now. And how many were lost."""
    values = {"table": wanted.table, "start": wanted.start}
    return control.execute(query("rehydrate_settled"), values).fetchone() or (None, 0)


def _require_same_table(history: History, uuid: str | None, wanted: Wanted) -> None:
    if uuid is not None and str(history.metadata.table_uuid) != uuid:
        raise NotProven(
            "other_history",
            f"The table of {wanted.source} in the lake is not the one that held what has left PostgreSQL.",
            "Bring that one back: register its newest metadata file in the catalog again.",
        )


def _had_columns(history: History, snapshot: int | None, chunk: Chunk) -> bool:
    """Whether the lake had these very columns at a snapshot, and not others of their names."""
    then = None if snapshot is None else history.metadata.snapshot_by_id(snapshot)
    if then is None or then.schema_id is None:
        return False
    known = next((one for one in history.metadata.schemas if one.schema_id == then.schema_id), None)
    ids = {field.field_id for field in known.fields} if known else set()
    return {history.layout.fields.get(column.number) for column in chunk.columns} <= ids


def _planned(
    range_start: datetime,
    range_end: datetime,
    rows: int | None,
    code: str | None,
    message: str | None,
    next_step: str | None,
) -> RangeLine:
    if code is None:
        said = "it is loaded from the lake and compared with it"
        return RangeLine(range_start, range_end, rows, "bring back", "dropped", said, "Nothing to do.")
    return RangeLine(range_start, range_end, rows, "stays", code, message or "", next_step or "")


def _line(wanted: Wanted, count: int | None, verdict: str, why: Reason) -> RangeLine:
    return RangeLine(wanted.start, wanted.end, count, verdict, why.code, why.message, why.next_step)


def _against(error: psycopg.Error) -> Reason:
    busy = isinstance(error, (pg.LockNotAvailable, pg.DeadlockDetected))
    return drop.BUSY if busy else drop.refusal(error)
