"""The feed on Spark: a streaming source of blocks, and one job per batch that writes the files of all tables."""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from thermocline.feed import writing
from thermocline.feed.batches import gathered
from thermocline.feed.ledger import Ledger
from thermocline.feed.reading import Block, Ending, read
from thermocline.hot.connection import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from thermocline.config import FeedSettings
    from thermocline.feed.feed import Feed
    from thermocline.feed.ledger import SlotState, Stream
    from thermocline.feed.reading import Reading
    from thermocline.feed.writing import Target

_ENDING = -1
_BLOCKS = "table int, content binary"
_BLOCK_SCHEMA = pa.schema([("table", pa.int32()), ("content", pa.binary())])
_POLL = "100 milliseconds"
_BLOCK_ROWS = 64_000


# ---- the source ------------------------------------------------------------------------------


class _Part(InputPartition):
    def __init__(self, reading: Reading) -> None:
        super().__init__(0)
        self.reading = reading


class _Reader(DataSourceStreamReader):
    """Says how far there is something to read, and reads it. Where the stream stands is the slot's to know."""

    def __init__(self, dsn: str, settings: FeedSettings) -> None:
        self._dsn = dsn
        self._settings = settings
        self._end = 0
        self._last = float("-inf")
        self._ledger: Ledger | None = None
        self._session = ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        """For tasks elsewhere: a session cannot go with it."""
        return self.__dict__ | {"_ledger": None, "_session": None}

    def _look(self) -> tuple[Stream | None, SlotState | None]:
        """Asked ten times a second, so in one session that is kept; anew when that is gone."""
        try:
            if self._ledger is None:
                self._session = ExitStack()
                self._ledger = Ledger(self._session.enter_context(connect(self._dsn)))
            stream = self._ledger.stream()
            return stream, self._ledger.slot_state(stream.slot) if stream else None
        except Exception:
            self._ledger = None
            with suppress(Exception):
                self._session.close()
            raise

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        return {"end": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """The end of the next batch once one is due: after the interval, when it is full, or when somebody waits."""
        stream, slot = self._look()
        if stream is None or slot is None:
            return {"end": self._end}
        most = slot.confirmed + self._settings.window_mb * 1024 * 1024
        now = time.monotonic()
        due = slot.flushed >= most or stream.wanted > stream.position or now - self._last >= self._settings.interval
        end = min(slot.flushed, most)
        if due and end > max(self._end, slot.confirmed):
            self._end, self._last = end, now
        return {"end": self._end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One reading: a slot has one reader at a time."""
        if start == end:
            return []
        with connect(self._dsn) as session:
            ledger = Ledger(session)
            stream = ledger.stream()
            if stream is None:
                return []
            return [_Part(ledger.reading(self._dsn, stream, end["end"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Blocks as they are read, in Arrow's own form, and the ending last."""
        assert isinstance(partition, _Part)  # noqa: S101 (Spark hands back what `partitions` gave)
        for part in read(partition.reading):
            if isinstance(part, Ending):
                yield _row(_ENDING, part.to_json().encode())
            else:
                for at in range(0, part.rows.num_rows, _BLOCK_ROWS):
                    yield _row(part.table, _packed(part.rows.slice(at, _BLOCK_ROWS)))


def _row(table: int, content: bytes | pa.Buffer) -> pa.RecordBatch:
    return pa.record_batch([pa.array([table], pa.int32()), pa.array([content], pa.binary())], schema=_BLOCK_SCHEMA)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def source(dsn: str, settings: FeedSettings) -> type[DataSource]:
    """The source as a class of its own: what it closes over, a password too, never stands in a plan or a log."""

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "thermocline"

        def schema(self) -> str:
            return _BLOCKS

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's signature)
            return _Reader(dsn, settings)

    return Source


# ---- the stream ------------------------------------------------------------------------------


def write_blocks(targets: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task: blocks in, descriptions of the files that were written out."""
    where: Mapping[int, Target] = pickle.loads(targets)  # noqa: S301 (our own driver wrote it)
    for result in writing.write(_unpacked(batches), where):
        if isinstance(result, Ending):
            yield _row(_ENDING, result.to_json().encode())
        else:
            yield _row(result.table, pickle.dumps(result))
    for _ in batches:  # Spark ends a worker that has not read its input to the end; a new one imports everything anew
        pass


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Block | Ending]:
    for batch in batches:
        for table, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            if table == _ENDING:
                yield Ending.from_json(content.as_py().decode())
            else:
                with pa.ipc.open_stream(content.as_buffer()) as packed:
                    yield Block(table, packed.read_all())


class Carrier:
    """Runs the stream of a feed as a Spark query; what happens to a batch is the feed's own code."""

    def __init__(self, feed: Feed, spark: SparkSession, settings: FeedSettings, checkpoint: str) -> None:
        self.feed = feed
        self.failure: BaseException | None = None
        self._at_work = threading.Lock()
        self._ended = False
        self.carried = 0
        self._spark = spark
        self._settings = settings
        self._checkpoint = checkpoint

    def start(self) -> StreamingQuery:
        """Begin; every batch is settled in a thread of the query's."""
        self._spark.dataSource.register(source(self.feed.dsn, self._settings))
        blocks = self._spark.readStream.format("thermocline").load()
        return (
            blocks.writeStream.foreachBatch(self._on_batch)
            .trigger(processingTime=_POLL)
            .option("checkpointLocation", self._checkpoint)
            .start()
        )

    def end(self, query: StreamingQuery) -> None:
        """Stop the query between two batches."""
        with self._at_work:
            self._ended = True
            query.stop()

    def _on_batch(self, blocks: DataFrame, _number: int) -> None:
        with self._at_work:
            if not self._ended:
                self._carry(blocks)

    def _carry(self, blocks: DataFrame) -> None:
        try:
            targets = pickle.dumps(self.feed.targets())
            results = blocks.mapInArrow(partial(write_blocks, targets), _BLOCKS).collect()
            if not results:
                return
            batch = gathered(
                Ending.from_json(bytes(content).decode()) if table == _ENDING else pickle.loads(content)  # noqa: S301
                for table, content in results
            )
            self.feed.settle(batch)
            self.carried = max(self.carried, batch.ending.end)
        except BaseException as error:
            self.failure = error
            raise
