"""Makes units when they are due. Any number of schedulers may run: each unit is made once, missed runs become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.jobs import lane
from thermocline.work.schedule import BadSchedule, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from psycopg import Connection

    from thermocline.work.job import Job

log = logs.get(__name__)
TICK = 10.0


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


class Scheduler:
    """One look at all schedules is a tick."""

    def __init__(self, dsn: str, jobs: Mapping[str, Job], *, timeout: int = 10) -> None:
        self._dsn = dsn
        self._jobs = jobs
        self._timeout = timeout

    def tick(self) -> int:
        """Make the units that are due; returns how many were made here."""
        with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
            return sum(self._tick(session, job) for job in self._jobs.values())

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
        return made

    def _made(self, session: Connection, job: Job, due: Due) -> bool:
        rule = Rule(due.every, due.cron)
        # New, or given another rule: the time that was computed by the old one does not count.
        first = due.now if due.rule == rule.key else rule.first_run(due.last_at, due.now)
        now_due = first <= due.now
        next_at = rule.next_run(due.last_at, due.now) if now_due else first
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
