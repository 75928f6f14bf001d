"""What `work.py` runs: a worker whose units do nothing but note, at the end, that they ran."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

from thermocline import config
from thermocline import log as logs
from thermocline.work.job import Plan
from thermocline.work.worker import Worker

if TYPE_CHECKING:
    from thermocline.work.job import Target
    from thermocline.work.units import Claim


class Nothing:
    """Does nothing; the list is written down after the clock has stopped."""

    kind: ClassVar[str] = "nothing"
    targets: ClassVar[str | None] = None
    serves: ClassVar[str] = "nobody"
    job_class: ClassVar[str | None] = None
    destructive: ClassVar[bool] = False

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def plan(self, target: Target, claim: Claim) -> Plan:
        """Nothing."""
        claim.check()
        return Plan(target)

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Note it."""
        del plan
        with self._lock:
            self.ran.append((claim.unit.id, claim.unit.epoch))
        return {}


def main(dsn: str) -> None:
    settings = config.load().settings
    logs.set_up(settings.home, settings.log.level)
    job = Nothing()
    worker = Worker(dsn, {"nothing": job}, settings.work)
    print("ready", flush=True)
    sys.stdin.readline()
    worker.run(once=True)
    with psycopg.connect(dsn) as session, session.cursor().copy("COPY ran FROM STDIN") as copy:
        for row in job.ran:
            copy.write_row(row)


if __name__ == "__main__":
    main(sys.argv[1])
