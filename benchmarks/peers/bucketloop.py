"""The loop that one writes first: for each bucket that has changed, delete it and compute it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg

TABLE = "by_loop"
NOTE = "DELETE and INSERT ... SELECT for each bucket"


def refresh(session: psycopg.Connection, buckets: Sequence[datetime], query: str) -> None:
    """All buckets in one transaction; {where} in the query is where its condition goes."""
    insert = query.format(where="WHERE time >= %(b)s AND time < %(b)s + interval '1 minute'")
    with session.transaction():
        for bucket in buckets:
            session.execute(f"DELETE FROM {TABLE} WHERE minute = %(b)s".encode(), {"b": bucket})
            session.execute(f"INSERT INTO {TABLE} {insert}".encode(), {"b": bucket})
