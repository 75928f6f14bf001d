"""What people do with work: look at units, plans and the audit, try again, cancel, stop, set schedules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg
from psycopg.rows import dict_row

from thermocline.errors import Refused
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work import units
from thermocline.work.jobs import KINDS, UnknownKind, lane, require
from thermocline.work.schedule import BadSchedule, Rule, parse_window
from thermocline.work.units import Status, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from psycopg import Connection

    from thermocline.stack import Stack
    from thermocline.work.job import Job
    from thermocline.work.schedule import Window

DESTRUCTIVE, EVERYTHING = "destructive", "everything"


class NoSuchPlan(Refused):
    """There is no such plan."""

    code = "work.no_such_plan"
    next_step_by_default = "`thermocline plans` lists them; those that removed nothing are kept for 30 days."


class NoSuchUnit(Refused):
    """There is no such unit of work."""

    code = "work.no_such_unit"
    next_step_by_default = "`thermocline work list` lists them; those that are done are kept for a week."


@dataclass(frozen=True)
class UnitLine:
    """A unit in a list; `when` is the end of its lease, of its wait, or its own."""

    id: int
    kind: str
    table: str
    scope: str
    status: str
    attempt: int
    max_attempts: int
    owner: str | None
    when: datetime
    waits_for: str | None
    settled_by: int | None
    """The later unit that did what this one could not."""
    last_error: str | None


@dataclass(frozen=True)
class PlanLine:
    """A plan in a list."""

    id: int
    made_at: datetime
    kind: str
    object: str
    destructive: bool
    policy: str | None
    unit: int | None
    steps: int
    """Without what stays as it is."""
    ended_at: datetime | None
    lines: list[dict[str, str]]
    outcome: dict[str, Any] | None


@dataclass(frozen=True)
class AuditLine:
    """One act that cannot be taken back."""

    id: int
    at: datetime
    who: str
    action: str
    object: str
    range_start: datetime | None
    range_end: datetime | None
    rows: int | None
    bytes: int | None
    forced: bool
    reason: str
    evidence: dict[str, Any]


@dataclass(frozen=True)
class Stop:
    """Something that is stopped."""

    what: str
    why: str
    who: str
    at: datetime


@dataclass(frozen=True)
class ScheduleLine:
    """A schedule; without a table it is for all that have none of their own."""

    kind: str
    table: str | None
    every: timedelta | None
    cron: str | None
    window: str | None
    enabled: bool
    last_at: datetime | None
    next_at: datetime | None
    problem: str | None


class Desk:
    """Work as people see it."""

    def __init__(self, stack: Stack, jobs: Mapping[str, Job]) -> None:
        self._dsn = stack.dsn
        self._timeout = stack.settings.hot.connect_timeout
        self._jobs = jobs

    def units(
        self, *, status: str | None = None, kind: str | None = None, table: str | None = None, most: int = 50
    ) -> list[UnitLine]:
        """Those that are open first, then the newest that ended."""
        if status is not None and status not in tuple(Status):
            raise Refused(f"No unit is ever {status!r}.", next_step=f"A unit is {', '.join(Status)}.")
        require([kind] if kind else [])
        values = {"status": status, "kind": kind, "most": most} | _split(table)
        with self._session() as session:
            _require_table(session, table)
            return [UnitLine(*row) for row in session.execute(query("work_list"), values)]

    def unit(self, number: int) -> dict[str, Any]:
        """Everything about one."""
        with self._session() as session:
            row = session.cursor(row_factory=dict_row).execute(query("work_show"), {"id": number}).fetchone()
        if row is None:
            raise NoSuchUnit(f"There is no work unit {number}.")
        return row

    def add(self, kind: str, table: str | None = None) -> int:
        """Ask for work now, whatever its window says: the number of its unit, which may be open already."""
        require([kind])
        job = self._jobs[kind]
        if (job.targets is None) != (table is None):
            raise Refused(
                f"{kind} is for {'the whole database' if job.targets is None else 'one table'}.",
                next_step=f"thermocline work add {kind}{'' if job.targets is None else ' --table readings'}",
            )
        with self._session() as session:
            number = None
            if table is not None:
                schema, name = names.split(table)
                row = session.execute("SELECT lakets._chronotable_id(%s, %s)", [name, schema]).fetchone()
                number = row[0] if row else None
                if (number,) not in session.execute(query(job.targets or "")).fetchall():
                    raise Refused(
                        f"{kind} is for {job.serves}, and {table} is none of them.",
                        next_step="`thermocline policies`, `rollup` and `feed status` list them.",
                    )
            wanted = Wanted(kind, number, destructive=job.destructive, lane=lane(job, number))
            while True:  # the same one, which is open, may end between two looks
                if (made := units.enqueue(session, wanted)) is not None:
                    return made
                if same := session.execute(query("work_hurry"), {"kind": kind, "table": number}).fetchone():
                    return int(same[0])

    def retry(self, number: int) -> None:
        """Let it be tried again at once."""
        with self._session() as session:
            try:
                row = session.execute(query("work_retry"), {"id": number}).fetchone()
            except pg.UniqueViolation as error:
                raise Refused(
                    f"The same work as that of unit {number} is open already.",
                    next_step="`thermocline work list` shows it.",
                ) from error
        if row is None:
            unit = self.unit(number)
            again = f"thermocline work add {unit['kind']}{' --table ' + unit['table'] if unit['table'] else ''}"
            step = f"`{again}` asks for the same work anew."
            if unit["status"] == Status.CLAIMED:
                step = f"It runs, by {unit['owner']}; `thermocline work cancel {number}` takes it away from there."
            raise Refused(f"Work unit {number} is {unit['status']}, so there is nothing to try again.", next_step=step)

    def cancel(self, number: int) -> str | None:
        """Nobody does it any more, or is told that it is broken; returns the worker that it was taken from."""
        with self._session() as session:
            row = session.execute(query("work_cancel"), {"id": number}).fetchone()
        if row is None:
            status = self.unit(number)["status"]
            raise Refused(
                f"Work unit {number} is {status} already, so it cannot be cancelled.",
                next_step=f"Nothing to do; `thermocline work show {number}` says what came of it.",
            )
        return row[1] if row[0] == Status.CLAIMED else None

    def stops(self) -> list[Stop]:
        """What is stopped."""
        with self._session() as session:
            return [Stop(*row) for row in session.execute(query("work_stops"))]

    def stop(self, what: str, why: str = "") -> bool:
        """Stop a kind, what is destructive, or everything, on all nodes; false if it was stopped already."""
        return self._switch("work_halt", what, why)

    def go_on(self, what: str, why: str = "") -> bool:
        """Let it go on; false if it was not stopped."""
        return self._switch("work_go_on", what, why)

    def _switch(self, statement: str, what: str, why: str) -> bool:
        if what not in (DESTRUCTIVE, EVERYTHING, *KINDS):
            raise UnknownKind(
                f"There is no kind of work called {what!r}.",
                next_step=f"Say {DESTRUCTIVE}, {EVERYTHING}, or one of {', '.join(KINDS)}.",
            )
        with self._session() as session:
            row = session.execute(query(statement), {"what": what, "why": why}).fetchone()
        return bool(row and row[0])

    def plans(
        self, number: int | None = None, *, kind: str | None = None, table: str | None = None, most: int = 50
    ) -> list[PlanLine]:
        """The newest first; refuses a number that is none."""
        require([kind] if kind else [])
        values = {"id": number, "kind": kind, "most": most} | _split(table)
        with self._session() as session:
            _require_table(session, table)
            found = [PlanLine(*row) for row in session.execute(query("work_plans"), values)]
        if number is not None and not found:
            raise NoSuchPlan(f"There is no plan {number}.")
        return found

    def audit(
        self,
        *,
        action: str | None = None,
        table: str | None = None,
        since: datetime | None = None,
        most: int = 50,
    ) -> list[AuditLine]:
        """The newest first; also of a table that is not there any more, by the name that the audit has."""
        values = {"action": action, "since": since, "most": most} | _split(table)
        with self._session() as session:
            found = [AuditLine(*row) for row in session.execute(query("work_audit"), values)]
            if not found:
                _require_table(session, table)
        return found

    def schedules(self) -> list[ScheduleLine]:
        """Those for all tables first."""
        with self._session() as session:
            rows = session.execute("SELECT *, now() FROM lakets.schedule_show()").fetchall()
        return [_with_next(ScheduleLine(row[0], _joined(row[1], row[2]), *row[3:-1]), row[-1]) for row in rows]

    def set_schedule(
        self,
        kind: str,
        table: str | None = None,
        *,
        rule: Rule | None = None,
        window: Window | None = None,
        no_window: bool = False,
        enabled: bool | None = None,
    ) -> None:
        """What is not given stays as it is."""
        require([kind])
        if not (rule or window or no_window) and enabled is None:
            raise Refused(
                f"Nothing is said that the schedule of {kind} should be set to.",
                next_step="Give --every or --cron, --window, --on or --off.",
            )
        if rule:
            rule.check()
        rule = rule or Rule()
        told = "" if no_window else str(window) if window else None
        schema, name = names.split(table) if table else ("public", None)
        values = [kind, name, schema, rule.every, rule.cron, told, enabled]
        with self._session() as session:
            session.execute("SELECT lakets.schedule_set(%s, %s, %s, %s, %s, %s, %s)", values)

    def reset_schedule(self, kind: str, table: str) -> bool:
        """The table follows the schedule for all again; false if it had none of its own."""
        require([kind])
        schema, name = names.split(table)
        with self._session() as session:
            row = session.execute("SELECT lakets.schedule_reset(%s, %s, %s)", [kind, name, schema]).fetchone()
        return bool(row and row[0])

    def _session(self) -> AbstractContextManager[Connection]:
        return connect(self._dsn, timeout=self._timeout, autocommit=True)


def _with_next(line: ScheduleLine, now: datetime) -> ScheduleLine:
    """When it is due next: within its window, and by a rule that no scheduler has seen yet when that one will be.

    What has never run and has no time of day is due as soon as there is something for it to do.
    """
    if not line.enabled or (line.every and not line.last_at):
        return line
    try:
        next_at = line.next_at or Rule(line.every, line.cron).first_run(line.last_at, now)
        if line.window:
            next_at = parse_window(line.window).next_open(max(next_at, now))
    except BadSchedule:
        return line
    return replace(line, next_at=next_at)


def _split(table: str | None) -> dict[str, str | None]:
    schema, name = names.split(table) if table else (None, None)
    return {"schema": schema, "table": name}


def _joined(schema: str | None, name: str | None) -> str | None:
    return f"{schema}.{name}" if name else None


def _require_table(session: Connection, table: str | None) -> None:
    """Refuse a name that is no ChronoTable's, whatever else there is to show."""
    if table is not None:
        schema, name = names.split(table)
        session.execute("SELECT lakets._chronotable_id(%s, %s)", [name, schema])
