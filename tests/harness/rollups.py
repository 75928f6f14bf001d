"""A RollUp by hour and key, and what tests ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.questions import ask, one

if TYPE_CHECKING:
    import psycopg

HOURLY = "SELECT lakets.time_bucket('1 hour', ts) AS bucket, k, sum(v) AS total, count(*) AS n FROM m GROUP BY 1, 2"
LATE = "INSERT INTO m VALUES (now() - interval '100 hours', 'd1', 1000000)"


def make(db: psycopg.Connection, name: str = "hourly", query: str = HOURLY, interval: str = "1 hour") -> None:
    """A RollUp of the table m with its real-time view, to be refreshed whenever asked."""
    ask(db, "SELECT lakets.create_rollup(%s, %s, %s)", name, query, interval)
    ask(db, "SELECT lakets.create_rollup_view(%s, NULL)", name)
    ask(db, "UPDATE lakets._rollup_registry SET refresh_lag = '0'")


def refreshed(db: psycopg.Connection, name: str = "hourly") -> bool:
    """Whether it did something, or was sure that there was nothing to do."""
    return bool(one(db, "SELECT lakets.refresh_rollup(%s)", name))


def differences(db: psycopg.Connection, relation: str, query: str = HOURLY) -> list[tuple[Any, ...]]:
    """Rows of a RollUp or its view that a full aggregation does not give, and those it lacks."""
    return ask(db, f"(TABLE {relation} EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL TABLE {relation})")
