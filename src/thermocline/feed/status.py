"""How the feed stands, from what PostgreSQL knows: nothing is started and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class FeedTable:
    """One synced table."""

    table: str
    status: str
    lake_table: str
    committed: str | None
    behind_bytes: int | None
    behind_seconds: float | None
    """Whatever was committed longer ago is in the lake."""
    rows_per_second: float
    """A mean of the last minute or so."""
    entries: int
    """How many the feed has written to its history, copies included."""
    chunks: int
    covered: int
    last_write: datetime | None
    reason: str | None
    commit_interval: float | None = None
    """Seconds between two commits; None: as the setting feed.interval says."""
    to_copy_bytes: int | None = None
    """Size of the chunks that are not covered."""
    to_copy_rows: int | None = None
    """About how many rows they have."""


@dataclass(frozen=True)
class Alarm:
    """Something that is wrong with the feed as a whole, or will be."""

    alarm: str
    message: str
    next_step: str


@dataclass(frozen=True)
class FeedStatus:
    """The stream and its tables."""

    running: bool
    slot: str | None
    slot_state: str | None
    position: str | None
    behind_bytes: int | None
    behind_seconds: float | None
    retained_bytes: int | None
    tables: tuple[FeedTable, ...]
    alarms: tuple[Alarm, ...]


def with_disk(found: FeedStatus, free: int) -> FeedStatus:
    """With an alarm when the log that the slot keeps is more than half of what the server's disk has left."""
    kept = found.retained_bytes or 0
    if kept <= free / 2:
        return found
    alarm = Alarm(
        "disk_filling",
        f"the replication slot keeps {kept >> 20} MB of the log, and the disk has {free >> 20} MB left",
        "Run `thermocline feed` until it has caught up, or make room; a full disk stops PostgreSQL.",
    )
    return replace(found, alarms=(*found.alarms, alarm))


def status(dsn: str, *, timeout: int = 10) -> FeedStatus:
    """Ask PostgreSQL."""
    with connect(dsn, timeout=timeout) as session:
        stream = session.execute(query("feed_status")).fetchone()
        tables = session.execute(query("feed_status_tables")).fetchall()
        alarms = session.execute(query("feed_alarms")).fetchall()
    running, *where = stream or (False, None, None, None, None, None, None)
    slot, state, position, behind, seconds, retained = where
    return FeedStatus(
        running,
        slot,
        state,
        position,
        behind,
        seconds,
        retained,
        tuple(FeedTable(*row) for row in tables),
        tuple(Alarm(*row) for row in alarms),
    )
