"""What is noted of a table's policies."""

from __future__ import annotations

from thermocline.hot.connection import connect
from thermocline.hot.statements import query


def ran(dsn: str, schema: str, name: str, kind: str) -> None:
    """The tiering or retention policy of a table was carried out now, whatever came of it."""
    with connect(dsn) as session:
        session.execute(query("policy_ran"), {"table": name, "schema": schema, "kind": kind})
