"""Where the rows of tables are: what a question names, and from which tier each range of it comes. Needs no Spark."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from thermocline.errors import Busy, Refused
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.reads.standing import Source, UnknownTable, sources, stand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thermocline.reads.standing import Standing

_ATTEMPTS = 5
# What stands behind a table's name, and how the table is read then.
_WAYS = (("", "across"), ("_history", "history"), ("_current", "current"))


class Places:
    """Says where tables are, by their name in PostgreSQL, which alone is asked."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def sources(self, question: str) -> list[Source]:
        """Where the rows of each table of a question would come from now, in order of time; nothing is read."""
        found: list[Source] = []
        refusal: Refused | None = None
        for mentioned in self._mentioned(question).values():
            for _, way, table in mentioned:
                shown = ".".join(names.split(table))
                if way == "across":
                    with self._standing(table) as standing:
                        found += sources(shown, standing)
                    continue
                try:
                    history = self._lake_table(table)
                except Refused as refused:  # it may be a column, as motor_current of motor, which needs no lake
                    refusal = refused
                    continue
                what = f"every change in {history}" if way == "history" else f"what {history} adds up to"
                found.append(Source(shown, None, None, "lake", what))
        if refusal is not None and not found:
            raise refusal
        return found

    @contextmanager
    def _standing(self, table: str) -> Iterator[Standing]:
        for _ in range(_ATTEMPTS):
            with connect(self._dsn) as session:
                session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                found = stand(session, table)
                if found is not None:
                    yield found
                    return
        raise Busy(f"The chunks of {table} change so often that they cannot be held for a read.")

    def _mentioned(self, question: str) -> dict[str, list[tuple[str, str, str]]]:
        """By the name as Spark knows it: as it was written, the way it is read, and the table in PostgreSQL."""
        views: dict[str, list[tuple[str, str, str]]] = {}
        for schema, name in self._tables():
            view = name if schema == "public" else f"{schema}_{name}"
            for ending, way in _WAYS:
                called = f"{view}{ending}"
                if _mentions(question, called):
                    views.setdefault(called.lower(), []).append((called, way, names.joined(schema, name)))
        return views

    def _lake_table(self, table: str) -> str:
        schema, name = names.split(table)
        with connect(self._dsn) as session:
            row = session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone()
        if row is None:
            raise UnknownTable(f"There is no ChronoTable {schema}.{name}.")
        if row[3] is None:
            raise Refused(
                f"{schema}.{name} is not synced, so the lake has no history of it.",
                next_step=f"SELECT lakets.enable_sync('{name}', '{schema}'); then run the feed.",
            )
        lake_table: str = row[3]
        return lake_table

    def _tables(self) -> list[tuple[str, str]]:
        with connect(self._dsn) as session:
            return session.execute(query("read_tables")).fetchall()


def _mentions(question: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", question, re.IGNORECASE) is not None
