"""What PostgreSQL has recorded of the feed, in plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from thermocline.feed.reading import SyncedTable


@dataclass(frozen=True)
class Stream:
    """The stream as recorded."""

    slot: str
    publication: str
    system_identifier: int
    timeline: int
    epoch: int
    position: int
    wanted: int


@dataclass(frozen=True)
class SlotState:
    """The slot as it stands."""

    confirmed: int
    restart: int
    active_pid: int | None
    wal_status: str | None
    flushed: int
    inserted: int
    """Whatever can be seen now was written before this; not all of it need be on the disk."""
    at: datetime
    """When this was so, by the server's clock, or right after."""


@dataclass(frozen=True)
class TableState:
    """A synced table, and what the feed does with it next."""

    table: SyncedTable
    status: str
    interval: timedelta
    lake_snapshot: int | None
    joined_at: datetime


@dataclass(frozen=True)
class Commit:
    """The newest commit of a table in the lake."""

    table: int
    marker: int
    snapshot_id: int
    written: tuple[datetime, datetime] | None = None
    """First and last moment of the rows in it, where that matters."""
    entries: int = 0
    """How many were added."""
