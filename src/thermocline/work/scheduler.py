"""Makes units when they are due. Any number of schedulers may run: each unit is made once, missed runs become one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from thermocline import log as logs
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.jobs import lane
from thermocline.work.schedule import BadSchedule, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import Connection

    from thermocline.work.job import Job

log = logs.get(__name__)
TICK = 10.0
_REST, _LONGEST_REST = timedelta(minutes=5), timedelta(days=1)
# Of what a table needs soon, as its next chunks.
_LONGEST_LIGHT_REST = timedelta(hours=1)


@dataclass(frozen=True)
class Due:
    """A table whose work is due, or has been given another rule."""

    table: int | None
    schedule: int
    every: timedelta | None
    cron: str | None
    rule: str | None
    """By which the next time was computed."""
    last_at: datetime | None
    next_at: datetime | None
    now: datetime
    broken: int
    """Units before that are broken, with none since that did their work."""


class Scheduler:
    """One look at all schedules is a tick."""

    def __init__(self, dsn: str, jobs: Mapping[str, Job], *, timeout: int = 10) -> None:
        self._dsn = dsn
        self._jobs = jobs
        self._timeout = timeout

    def tick(self) -> int:
        """Make the units that are due; returns how many were made here.

        What one kind of work fails of is told once the others have been seen to.
        """
        made = 0
        failed: list[psycopg.Error] = []
        with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
            for job in self._jobs.values():
                try:
                    made += self._tick(session, job)
                except psycopg.Error as error:
                    if session.broken:
                        raise
                    log.exception("schedules not seen to", kind=job.kind)
                    failed.append(error)
            if failed:
                raise failed[0]
        return made

    def _tick(self, session: Connection, job: Job) -> int:
        tables = [row[0] for row in session.execute(query(job.targets))] if job.targets else [None]
        found = session.execute(query("schedule_due"), {"kind": job.kind, "tables": tables}).fetchall()
        made = 0
        for due in (Due(*row) for row in found):
            try:
                made += self._made(session, job, due)
            except BadSchedule as error:  # the other schedules go on; this one says what is wrong with it
                log.error("bad schedule", kind=job.kind, schedule=due.schedule, message=error.message)
                problem = f"{Rule(due.every, due.cron).key}: {error.message}"
                session.execute(query("schedule_problem"), {"schedule": due.schedule, "problem": problem})
            except pg.ForeignKeyViolation:
                log.info("table dropped meanwhile", kind=job.kind, table=due.table)
        return made

    def _made(self, session: Connection, job: Job, due: Due) -> bool:
        rule = Rule(due.every, due.cron)
        # New, or given another rule: the time that was computed by the old one does not count.
        kept = due.rule == rule.key
        first = due.now if kept else rule.first_run(due.last_at, due.now)
        now_due = first <= due.now
        # From when it was due, not from when that was seen: one that came late would be followed by another too soon.
        after = rule.next_run(due.next_at if kept else None, due.now)
        next_at = max(after, due.now + _rest(job, due.broken)) if now_due else first
        row = session.execute(
            query("schedule_make"),
            {
                "kind": job.kind,
                "table": due.table,
                "destructive": job.destructive,
                "lane": lane(job, due.table),
                "schedule": due.schedule,
                "rule": rule.key,
                "last_at": due.now if now_due else due.last_at,
                "next_at": next_at,
                "seen": due.next_at,
                "seen_rule": due.rule,
                "now_due": now_due,
            },
        ).fetchone()
        return row is not None


def _rest(job: Job, broken: int) -> timedelta:
    """How long work that breaks again and again is left alone, whatever its schedule says."""
    most = _LONGEST_REST if job.job_class else _LONGEST_LIGHT_REST
    return min(_REST * 2 ** min(broken - 1, 20), most) if broken else timedelta()
