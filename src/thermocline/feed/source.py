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

from thermocline.feed.positions import number
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection

NAME = "thermocline"
SCHEMA = "end bigint"
# So much of the log makes a batch at once, without waiting for the interval; a batch may be larger than that.
_FULL_BYTES = 128 << 20


class _Upto(InputPartition):
    def __init__(self, end: int) -> None:
        super().__init__(0)
        self.end = end


class _Reader(DataSourceStreamReader):
    """Where the stream stands is the slot's to know, so the positions that Spark remembers say only what is new."""

    def __init__(self, dsn: str, interval: float, window: int) -> None:
        self._dsn = dsn
        self._interval = interval
        self._window = window
        self._end = 0
        self._last = float("-inf")
        self._kept: Connection | None = None
        self._resources = ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        """For a task elsewhere, which only says the end: no session goes with it, and no password."""
        return self.__dict__ | {"_dsn": "", "_kept": None, "_resources": None}

    def _look(self) -> tuple[int, int, bool] | None:
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
        return (number(row[0]), number(row[1]), row[2]) if row else None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        return {"end": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """The end of the next batch once one is due: after the interval, when there is much, or when somebody waits."""
        waiting = self._look()
        if waiting is None:
            return {"end": self._end}
        confirmed, flushed, wanted = waiting
        now = time.monotonic()
        enough = min(_FULL_BYTES, self._window)
        due = wanted or flushed - confirmed >= enough or now - self._last >= self._interval
        end = min(flushed, confirmed + self._window)
        if due and end > max(self._end, confirmed):
            self._end, self._last = end, now
        return {"end": self._end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One: a slot has one reader at a time."""
        return [] if start == end else [_Upto(end["end"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, _Upto)  # noqa: S101 (Spark hands back what `partitions` gave)
        yield (partition.end,)


def source(dsn: str, interval: float, window: int) -> type[DataSource]:
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
