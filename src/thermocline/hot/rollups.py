"""RollUps as people look after them: what they wait for, refreshes, and comparisons with their source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class RollUp:
    """One RollUp: what it is made from and how far it is."""

    name: str
    source: str
    bucket: str
    watermark: datetime | None
    refreshed_at: datetime | None
    refresh_lag: str
    marks: int
    incomplete: int


@dataclass(frozen=True)
class Item:
    """Something that the next refresh has to do, or that stands in its way."""

    item: str
    reason: str
    since: datetime | None
    range_start: datetime | None
    range_end: datetime | None
    how_many: int | None
    rows_to_read: int | None


@dataclass(frozen=True)
class Refreshed:
    """A RollUp that was asked to refresh; false when it was within its lag, or somebody else was at it."""

    rollup: str
    refreshed: bool
    ms: float
    why_not: str


@dataclass(frozen=True)
class Difference:
    """A bucket and key in which what is stored is not what the source says."""

    bucket: datetime
    keys: dict[str, Any]
    difference: str
    stored: dict[str, Any] | None
    computed: dict[str, Any] | None


@dataclass(frozen=True)
class Checked:
    """The differences of a RollUp, in how many buckets they were mended, and how many wait for a refresh anyway."""

    differences: list[Difference]
    repaired_buckets: int
    waiting_buckets: int


def rollups(dsn: str, *, timeout: int = 10) -> list[RollUp]:
    """Every RollUp, dependencies first."""
    with connect(dsn, timeout=timeout) as session:
        return [RollUp(*row) for row in session.execute(query("rollup_list"))]


def explain(dsn: str, name: str, *, timeout: int = 10) -> tuple[RollUp, list[Item]]:
    """A RollUp, and what its next refresh will do and why."""
    with connect(dsn, timeout=timeout) as session:
        items = [Item(*row) for row in session.execute("SELECT * FROM lakets.explain_rollup(%s)", [name])]
        found = {row[0]: RollUp(*row) for row in session.execute(query("rollup_list"))}
    return found[name], items


def refresh(dsn: str, name: str | None, *, now: bool = False, timeout: int = 10) -> list[Refreshed]:
    """A RollUp after those it is made from, or all of them; each in a transaction of its own. `now` minds no lag."""
    with connect(dsn, timeout=timeout, autocommit=True) as session:
        order = [row[0] for row in session.execute(query("rollup_order"), {"name": name})]
        return [
            Refreshed(*row)
            for one in order
            for row in session.execute(query("rollup_refresh"), {"name": one, "now": now}).fetchall()
        ]


def check(
    dsn: str,
    name: str,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    repair: bool = False,
    timeout: int = 10,
) -> Checked:
    """Compare with a full aggregation; to repair is to compute the buckets anew in which there is a difference."""
    asked = [name, start, end]
    with connect(dsn, timeout=timeout) as session:
        found = session.execute("SELECT * FROM lakets.check_rollup(%s, %s, %s)", asked)
        differences = [Difference(*row) for row in found]
        repaired = 0
        if repair and differences:
            row = session.execute("SELECT lakets.repair_rollup(%s, %s, %s)", asked).fetchone()
            repaired = row[0] if row else 0
        (waiting,) = session.execute(query("rollup_waiting"), {"name": name}).fetchone() or (0,)
    return Checked(differences, repaired, waiting)
