"""Beginning anew, when the slot is lost or the server is another one: a new slot, and every chunk copied again."""

from __future__ import annotations

from thermocline.crash import crash_point
from thermocline.feed.ledger import Ledger
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query


def resync(dsn: str, *, timeout: int = 10) -> int:
    """Make a new slot and let every table join again; returns how many. What is in the lake stays.

    Copies carry positions of this server. Where those may lie below what the lake has seen, as after a restore to an
    earlier point, the tables are set aside by the next feed instead: their history would be out of order.
    """
    with connect(dsn, timeout=timeout) as session, (ledger := Ledger(session)).owned():
        session.execute(query("resync_publication"))
        tables = session.execute(query("resync_tables")).rowcount
        session.commit()
        crash_point("resync.reset")
        ledger.begin_stream(anew=True)
        return tables


def resync_table(dsn: str, table: str, chunk: str | None = None, *, timeout: int = 10) -> int:
    """Let the feed that runs, or the next one, copy a table again, or one chunk of it; returns how many chunks."""
    schema, name = names.split(table)
    with connect(dsn, timeout=timeout) as session:
        row = session.execute(query("resync_table"), {"schema": schema, "table": name, "chunk": chunk}).fetchone()
    return row[0] if row else 0
