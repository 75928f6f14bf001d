"""What PostgreSQL has recorded of the feed, in plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from thermocline.feed.reading import SyncedTable
from thermocline.hot.positions import number, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from thermocline.hot.rows import Column


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
    recorded: int = 0
    """Its part of the stream below this position is in the lake, and so is recorded what the stream told of chunks."""
    holds: int | None = None
    """The log is kept for it from here on; None: it has not joined yet."""

    @classmethod
    def told(cls, row: tuple[Any, ...], columns: tuple[Column, ...]) -> TableState:
        """As PostgreSQL says it."""
        (
            table_id,
            oid,
            schema,
            name,
            time_column,
            interval,
            lake_table,
            status,
            marker,
            read,
            snapshot,
            joined,
            streams_from,
            published,
        ) = row
        of_lake, recorded = number(marker or "0/0"), number(read or "0/0")
        table = SyncedTable(
            id=table_id,
            oid=oid,
            published=published,
            joined_at=joined,
            source=f"{schema}.{name}",
            columns=columns,
            time_column=time_column,
            unit=_unit_for(interval),
            lake_table=lake_table,
            marker=of_lake,
            read_to=max(of_lake, recorded),
        )
        holds = max(recorded, number(streams_from or "0/0")) if status != "JOINING" else None
        return cls(table, status, interval, snapshot, recorded, holds)


@dataclass(frozen=True)
class Touched:
    """A stretch of time that changes were made in, and the position of the newest of them."""

    first: datetime
    last: datetime
    position: int


@dataclass(frozen=True)
class Commit:
    """The newest commit of a table in the lake."""

    table: int
    marker: int
    snapshot_id: int
    joined_at: datetime
    """That of the table when it was read: see `SyncedTable`."""
    touched: Sequence[Touched] = ()
    """What the stream's changes in it were made to, file by file."""
    entries: int = 0
    """How many were added."""


@dataclass(frozen=True)
class Progress:
    """How far the feed has come."""

    position: int
    flushed: int
    joining: tuple[str, ...]
    uncopied: int
    set_aside: tuple[str, ...] = ()
    """Tables that the stream passes by: nothing of them reaches the lake until somebody mends what is wrong."""
    held_back: tuple[str, ...] = ()
    """Tables that wait for the lake's store or its catalog; they go on by themselves."""
    unlogged: tuple[str, ...] = ()
    """Chunks that are passed by until somebody has them logged again."""

    @property
    def position_text(self) -> str:
        """As PostgreSQL writes it."""
        return text(self.position)

    @property
    def caught_up(self) -> bool:
        """Whether nothing is left to copy; the stream itself never ends."""
        return not self.joining and not self.uncopied and not self.held_back


def _unit_for(interval: timedelta) -> str:
    """How finely a history table is partitioned, after the length of the source's chunks."""
    if interval < timedelta(hours=12):
        return "hour"
    return "day" if interval < timedelta(days=28) else "month"
