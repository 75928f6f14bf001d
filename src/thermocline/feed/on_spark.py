"""The feed on Spark: a streaming query whose every batch is one job, which reads the slot and writes all files."""

from __future__ import annotations

import pickle
import threading
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from thermocline.feed.batches import carried, gathered
from thermocline.feed.packing import Packing, Unpacked
from thermocline.feed.source import NAME, source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from thermocline.config import FeedSettings
    from thermocline.feed.feed import Feed

_POLL = "100 milliseconds"
_RESULTS = "content binary"


def carry_upto(packed: bytes, ends: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task: how far to read, and which tables, in; descriptions of the files written and the batch's ending out."""
    reading, targets = pickle.loads(packed)  # noqa: S301 (our own driver wrote it)
    targets = Unpacked(targets)
    for batch in ends:
        for due in batch.to_pylist():
            for result in carried(reading.upto(due["end"], due["tables"]), targets):
                yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], ["content"])


class Carrier:
    """Runs the stream of a feed as a Spark query; what happens to a batch is the feed's own code."""

    def __init__(
        self, feed: Feed, spark: SparkSession, settings: FeedSettings, checkpoint: str, *, at_once: bool = False
    ) -> None:
        self.feed = feed
        self.failure: BaseException | None = None
        self._at_work = threading.Lock()
        self._ended = False
        self.carried = 0
        self._spark = spark
        self._settings = settings
        self._checkpoint = checkpoint
        self._interval = None if at_once else settings.interval
        self._targets = Packing()

    def start(self) -> StreamingQuery:
        """Begin; every batch is settled in a thread of the query's."""
        settings = self._settings
        self._spark.dataSource.register(source(self.feed.dsn, self._interval, settings.window_mb << 20))
        ends = self._spark.readStream.format(NAME).load()
        return (
            ends.writeStream.foreachBatch(self._on_batch)
            .trigger(processingTime=_POLL)
            .option("checkpointLocation", self._checkpoint)
            .start()
        )

    def end(self, query: StreamingQuery) -> None:
        """Stop the query between two batches."""
        with self._at_work:
            self._ended = True
        # Not under the lock: a batch that has just begun waits for it, and stopping waits for that batch.
        query.stop()

    def _on_batch(self, ends: DataFrame, _number: int) -> None:
        with self._at_work:
            if not self._ended:
                self.carry(ends)

    def carry(self, ends: DataFrame) -> None:
        """One batch, from the slot to the record of its progress."""
        try:
            states = self.feed.refresh()  # tables come, go and change between two tendings
            stream = self.feed.ledger.stream()
            if stream is None:  # the last table has left
                return
            reading, targets = self.feed.reading(stream, 0, states)  # the task is told the end by the source
            packed = pickle.dumps((reading, self._targets.packed(targets)))
            results = ends.mapInArrow(partial(carry_upto, packed), _RESULTS).collect()
            if not results:
                return
            batch = gathered(pickle.loads(content) for (content,) in results)  # noqa: S301 (our own tasks wrote it)
            if self.feed.settle(batch):
                self.carried = max(self.carried, batch.ending.end)
        except BaseException as error:
            if self.feed.stream is None and isinstance(error, Exception):  # it left while the batch was read
                return
            self.failure = error
            raise
