"""The stream's source for Spark: says when the next batch is due, and how far it goes.

The batch itself is read and written by one task, which has both ends of the way in its hands: rows that went through
Java on their way from a reader to a writer would be copied six times. This module is all that the source's own process
needs, so it imports little: that process starts with the stream.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from thermocline.feed.pacing import Due, Pace, Waiting
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection

NAME = "thermocline"
SCHEMA = "end bigint, tables array<int>"


class _Upto(InputPartition):
    def __init__(self, end: int, tables: list[int] | None) -> None:
        super().__init__(0)
        self.end = end
        self.tables = tables


class _Reader(DataSourceStreamReader):
    """Where the stream stands is the slot's to know, so the positions that Spark remembers say only what is new."""

    def __init__(self, dsn: str, interval: float | None, window: int) -> None:
        self._dsn = dsn
        self._pace = Pace(interval, window)
        self._due = Due(0, None)
        self._number = 0
        self._kept: Connection | None = None
        self._resources = ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        """For a task elsewhere, which only says the end: no session goes with it, and no password."""
        return self.__dict__ | {"_dsn": "", "_kept": None, "_resources": None}

    def _look(self) -> Waiting | None:
        """Asked ten times a second, so in one session that is kept; anew when that is gone."""
        try:
            if self._kept is None:
                self._resources = ExitStack()
                self._kept = self._resources.enter_context(connect(self._dsn))
            row = self._kept.execute(query("feed_waiting")).fetchone()
            self._kept.commit()
        except Exception:
            self._kept = None
            with suppress(Exception):
                self._resources.close()
            raise
        return Waiting.told(row) if row else None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return _offset(0, Due(0, None))

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The next batch once one is due: how far it goes, and of which tables."""
        found = self._look()
        due = self._pace.next(found, time.monotonic()) if found else None
        if due:
            self._due, self._number = due, self._number + 1
        return _offset(self._number, self._due)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One: a slot has one reader at a time."""
        return [] if start == end else [_Upto(end["end"], end["tables"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, list[int] | None]]:
        assert isinstance(partition, _Upto)  # noqa: S101 (Spark hands back what `partitions` gave)
        yield partition.end, partition.tables


def _offset(count: int, due: Due) -> dict[str, Any]:
    """A batch is another one than that before it also when the log has not grown: other tables may be due."""
    return {"batch": count, "end": due.end, "tables": list(due.tables) if due.tables is not None else None}


def source(dsn: str, interval: float | None, window: int) -> type[DataSource]:
    """The source as a class of its own: what it closes over, a password too, never stands in a plan or a log."""

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's signature)
            return _Reader(dsn, interval, window)

    return Source
