"""A server on a later timeline than the one that the lake's changes are of: where it left that one, as it says."""

from __future__ import annotations

from psycopg import pq
from psycopg.conninfo import make_conninfo

from thermocline.errors import Unreachable
from thermocline.hot.connection import check_dsn, where
from thermocline.hot.positions import number
from thermocline.masking import masked


def left_at(dsn: str, timeline: int, now: int) -> int | None:
    """The position at which a timeline ended for a server that is on a later one now; None if it never was on it.

    Up to there its history is that of every other server of that timeline. Only a connection for replication is told.
    """
    parts = check_dsn(dsn) | {"replication": "database", "application_name": "thermocline"}
    session = pq.PGconn.connect(make_conninfo(**parts).encode())
    try:
        result = session.exec_(f"TIMELINE_HISTORY {now}".encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            said = masked(session.get_error_message().strip() or "no answer")
            raise Unreachable(f"PostgreSQL at {where(dsn)} does not tell the history of its timeline {now}: {said}")
        return ended(bytes(result.get_value(0, 1) or b"").decode(), timeline)
    finally:
        session.finish()


def ended(told: str, timeline: int) -> int | None:
    """Where a timeline ended, in the words of a history file: its number, a position and a remark on each line."""
    for line in told.splitlines():
        found = line.split("#", 1)[0].split(None, 2)
        if len(found) >= 2 and found[0] == str(timeline):
            return number(found[1])
    return None
