"""What this process counts for those who watch it. What the database knows is read there, when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

disable_created_metrics()  # type: ignore[no-untyped-call]
# Of our own: whoever uses us as a library has one himself.
REGISTRY = CollectorRegistry()
PREFIX = "thermocline_"

ATTEMPTS = Counter(
    f"{PREFIX}work_attempts",
    "Attempts at units of work that this process ended: done, retry, failed, dead, handed_back or lost.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
SECONDS = Histogram(
    f"{PREFIX}work_unit_seconds",
    "How long attempts took.",
    ["kind"],
    buckets=(0.01, 0.1, 1, 10, 60, 600, 3600),
    registry=REGISTRY,
)
LEASES_LOST = Counter(
    f"{PREFIX}work_leases_lost",
    "Units that somebody else took over from this process, or might have.",
    ["kind"],
    registry=REGISTRY,
)
# Of chunks in PostgreSQL: the names without that belong to the retention of the lake.
RETENTION_RUNS = Counter(
    f"{PREFIX}chunk_retention_runs",
    "Runs of retention over the chunks in PostgreSQL: ok, noop when nothing was dropped, error, or lost_lease.",
    ["table", "status"],
    registry=REGISTRY,
)
RETENTION_ROWS = Counter(
    f"{PREFIX}chunk_retention_rows_dropped",
    "Rows in the chunks that were dropped from PostgreSQL, as far as the evidence counts them.",
    ["table"],
    registry=REGISTRY,
)
RETENTION_BYTES = Counter(
    f"{PREFIX}chunk_retention_bytes_freed",
    "Bytes of the chunks that were dropped from PostgreSQL.",
    ["table"],
    registry=REGISTRY,
)
CONFLICTS = Counter(
    f"{PREFIX}lake_commit_conflicts",
    "Commits to a table of the lake that somebody else's commit came before, and that were tried again.",
    ["table"],
    registry=REGISTRY,
)
PART_UP = Gauge(
    f"{PREFIX}service_part_up",
    "Whether a part of the service runs or waits for something to do (1), or has failed (0).",
    ["part"],
    registry=REGISTRY,
)
PART_RESTARTS = Counter(
    f"{PREFIX}service_part_restarts",
    "How often a part of the service failed and was started anew.",
    ["part"],
    registry=REGISTRY,
)

ALL = (
    ATTEMPTS,
    SECONDS,
    LEASES_LOST,
    RETENTION_RUNS,
    RETENTION_ROWS,
    RETENTION_BYTES,
    CONFLICTS,
    PART_UP,
    PART_RESTARTS,
)
# Kinds whose runs are counted by table, and what of their result says that something was done.
_RUNS = {"retention": (RETENTION_RUNS, "dropped")}
# What the ends of attempts are called there; handing back is no run.
_STATUS = {"done": "ok", "retry": "error", "failed": "error", "dead": "error", "lost": "lost_lease"}


def attempt_ended(kind: str, table: str, outcome: str, seconds: float, result: Mapping[str, Any] | None) -> None:
    """An attempt has ended: of a unit, and, for some kinds, of a run over a table."""
    ATTEMPTS.labels(kind, outcome).inc()
    SECONDS.labels(kind).observe(seconds)
    if kind in _RUNS and outcome in _STATUS:
        runs, done = _RUNS[kind]
        noop = outcome == "done" and not (result or {}).get(done)
        runs.labels(table, "noop" if noop else _STATUS[outcome]).inc()
