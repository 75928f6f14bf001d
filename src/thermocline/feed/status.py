"""How the feed stands, from what PostgreSQL knows: nothing is started and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
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
    chunks: int
    covered: int
    last_write: datetime | None
    reason: str | None


@dataclass(frozen=True)
class FeedStatus:
    """The stream and its tables."""

    running: bool
    slot: str | None
    slot_state: str | None
    position: str | None
    behind_bytes: int | None
    retained_bytes: int | None
    tables: tuple[FeedTable, ...]


def status(dsn: str, *, timeout: int = 10) -> FeedStatus:
    """Ask PostgreSQL."""
    with connect(dsn, timeout=timeout) as session:
        stream = session.execute(query("feed_status")).fetchone()
        tables = session.execute(query("feed_status_tables")).fetchall()
    running, *where = stream or (False, None, None, None, None, None)
    slot, state, position, behind, retained = where
    return FeedStatus(running, slot, state, position, behind, retained, tuple(FeedTable(*row) for row in tables))
