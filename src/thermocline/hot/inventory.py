"""What there is in PostgreSQL: ChronoTables, their chunks and their policies. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class ChronoTable:
    """One table: how many chunks it has in which state, and its size on the disk."""

    table: str
    time_column: str
    chunk_interval: str
    active: int
    tiered: int
    dropped: int
    bytes: int
    sync: str
    late: str
    """What becomes of a row for a range that has left: reject or lake."""


@dataclass(frozen=True)
class Chunk:
    """A resident chunk; the number of its rows is PostgreSQL's estimate."""

    chunk: str
    range_start: datetime
    range_end: datetime
    state: str
    rows: int | None
    bytes: int
    created_at: datetime


@dataclass(frozen=True)
class Policy:
    """What a table's chunks wait for; intervals as PostgreSQL writes them."""

    table: str
    kind: str
    after: str | None
    tier_after: str | None
    drop_after: str | None
    enabled: bool
    last_run_at: datetime | None


def tables(dsn: str, *, timeout: int = 10) -> list[ChronoTable]:
    """Every ChronoTable, by name."""
    with connect(dsn, timeout=timeout) as session:
        return [ChronoTable(*row) for row in session.execute(query("inventory_tables"))]


def chunks(dsn: str, table: str, *, timeout: int = 10) -> list[Chunk]:
    """The resident chunks of a table, as readings or plant.readings, oldest first."""
    schema, name = names.split(table)
    with connect(dsn, timeout=timeout) as session:
        found = session.execute(query("inventory_chunks"), {"table": name, "schema": schema})
        return [Chunk(*row) for row in found]


def policies(dsn: str, *, timeout: int = 10) -> list[Policy]:
    """Every policy, by table."""
    with connect(dsn, timeout=timeout) as session:
        return [Policy(*row) for row in session.execute(query("inventory_policies"))]
