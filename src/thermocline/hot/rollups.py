"""RollUps as people look after them: what they wait for, refreshes, and comparisons with their source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from psycopg import Connection


_LATER = ("its refresh_lag is not over", "somebody else is at it")
SHOWN = 100
"""Differences that are shown; how many there are is counted."""


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
    incomplete_ranges: int
    tracked: bool


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
    why_not: str = ""
    next_step: str = ""

    @property
    def failed(self) -> bool:
        """Whether something is wrong; to be within its lag, or busy, is not."""
        return not self.refreshed and self.why_not not in _LATER


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
    """The first differences of a RollUp and how many there are, in how many buckets they were mended, and how many
    buckets wait for a refresh anyway."""

    differences: list[Difference]
    count: int
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
    """A RollUp after those it is made from, or all of them; `now` minds no lag."""
    with connect(dsn, timeout=timeout, autocommit=True) as session:
        order = session.execute(query("rollup_order"), {"name": name}).fetchall()
        return list(refresh_each(session, order, now=now))


def refresh_each(
    session: Connection, order: Iterable[tuple[str, Sequence[str]]], *, now: bool = False
) -> Iterator[Refreshed]:
    """RollUps by name, each with those that it depends on, dependencies first; each in a transaction of its own.

    One that fails is left out, with those that are made from it; the others go on.
    """
    failed: set[str] = set()
    for name, depends_on in order:
        began = time.monotonic()
        refreshed, why_not, hint = False, "one that it is made from could not be refreshed", ""
        if not failed.intersection(depends_on):
            try:
                row = session.execute(query("rollup_refresh"), {"name": name, "now": now}).fetchone()
                refreshed, why_not = row or (False, "it is not there any more")
            except psycopg.Error as error:
                if session.closed:
                    raise
                why_not, hint = error.diag.message_primary or str(error), error.diag.message_hint or ""
        one = Refreshed(name, refreshed, (time.monotonic() - began) * 1000, why_not, hint)
        if one.failed:
            failed.add(name)
        yield one


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
        found = session.execute(query("rollup_check"), [*asked, SHOWN]).fetchall()
        differences = [Difference(*row[1:]) for row in found]
        repaired = 0
        if repair and differences:
            row = session.execute("SELECT lakets.repair_rollup(%s, %s, %s)", asked).fetchone()
            repaired = row[0] if row else 0
        (waiting,) = session.execute(query("rollup_waiting"), {"name": name}).fetchone() or (0,)
    return Checked(differences, found[0][0] if found else 0, repaired, waiting)
