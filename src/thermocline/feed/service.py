"""Running the feed: until it is told to stop, or until everything that is there has reached the lake."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import ThermoclineError
from thermocline.feed.on_spark import Carrier
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from thermocline.config import FeedSettings
    from thermocline.feed.feed import Feed
    from thermocline.feed.records import Progress

log = logs.get(__name__)
_TEND_SECONDS = 0.5
_PATIENCE = 60


class StreamFailed(ThermoclineError):
    """The stream ended, which it should not."""

    code = "feed.stream_failed"
    next_step_by_default = "Nothing is lost: start the feed again. The log says more."


class Service:
    """A feed whose stream is a Spark query; copies and new tables are tended beside it."""

    def __init__(self, feed: Feed, spark: SparkSession, settings: FeedSettings, scratch: Path) -> None:
        self._feed = feed
        self._spark = spark
        self._settings = settings
        self._scratch = scratch
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask it to end after the batch at hand."""
        self._stop.set()

    def run(self, news: Callable[[Progress], None] = lambda _progress: None) -> None:
        """Until stopped."""
        with self._stream() as (carrier, query):
            while not self._stop.wait(_TEND_SECONDS):
                self._check(carrier, query)
                news(self._feed.tend())

    def drain(self) -> Progress:
        """Until everything that was in the log at the beginning, and every chunk, is in the lake."""
        progress = self._feed.tend()
        target = progress.flushed
        with self._stream(at_once=True) as (carrier, query):
            for _ in range(int(_PATIENCE / _TEND_SECONDS)):
                while carrier.carried < self._feed.reachable(target) and self._feed.stream is not None:
                    self._check(carrier, query)
                    self._feed.require_slot()  # without it there are no more batches
                    if self._stop.wait(0.05):
                        return progress
                progress = self._feed.tend()
                self._feed.held.require_none()
                if progress.caught_up or self._stop.wait(_TEND_SECONDS):
                    break
        return progress

    @contextmanager
    def _stream(self, *, at_once: bool = False) -> Iterator[tuple[Carrier, StreamingQuery]]:
        """The query, with a checkpoint that nobody reads again: PostgreSQL and the lake know the position."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="feed-", dir=self._scratch)
        carrier = Carrier(self._feed, self._spark, self._settings, f"file://{folder}", at_once=at_once)
        query = carrier.start()
        try:
            yield carrier, query
        finally:
            carrier.end(query)
            shutil.rmtree(folder, ignore_errors=True)

    def _check(self, carrier: Carrier, query: StreamingQuery) -> None:
        if query.isActive:
            return
        if isinstance(carrier.failure, ThermoclineError):
            raise carrier.failure
        failure = carrier.failure or query.exception()
        text = str(failure).strip() if failure else "without a reason"
        ours = re.findall(r"thermocline\.[\w.]+: (.+)", text)  # what a task of ours said, deep in Spark's words
        told = masked(ours[-1] if ours else text.splitlines()[0])
        raise StreamFailed(f"The stream ended: {told}") from carrier.failure
