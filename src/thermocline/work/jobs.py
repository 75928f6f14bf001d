"""The list of all jobs: a new one is added here and gets a default schedule by a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thermocline.errors import Refused
from thermocline.work.gate_jobs import Retention, Settle, Tier, Verify
from thermocline.work.hot_jobs import Partitions, Prune, Refresh
from thermocline.work.recompute_job import Recompute
from thermocline.work.rehydrate_job import Rehydrate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from thermocline.stack import Stack
    from thermocline.work.job import Job

_ALL = (Partitions, Refresh, Recompute, Tier, Retention, Settle, Rehydrate, Verify, Prune)
KINDS = tuple(kind.kind for kind in _ALL)


class UnknownKind(Refused):
    """There is no such kind of work."""

    code = "work.unknown_kind"
    next_step_by_default = f"The kinds are {', '.join(KINDS)}."


def jobs(stack: Stack) -> dict[str, Job]:
    """Every job by its kind."""
    return {kind.kind: kind(stack) for kind in _ALL}


def require(kinds: Iterable[str]) -> None:
    """Refuse a kind that is none, by name."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownKind(f"There is no kind of work called {kind!r}.")


def lane(job: Job | type[Job], table: int | None) -> str | None:
    """Maintenance of one table is done by one worker at a time, whatever its kind."""
    return f"{job.job_class} {table}" if job.job_class else None
