"""The feed's query on Spark, where it begins and ends."""

from __future__ import annotations

import threading
from typing import Any

from thermocline.config import FeedSettings
from thermocline.feed.on_spark import Carrier


class _Query:
    """What stopping a query comes to: it waits for a batch that has begun, and one begins just then."""

    def __init__(self, batch: threading.Thread) -> None:
        self._batch = batch
        self.stopped = False

    def stop(self) -> None:
        self._batch.start()
        self._batch.join(10)
        self.stopped = not self._batch.is_alive()


def test_a_batch_that_begins_while_the_feed_ends_does_not_wait_for_its_own_end() -> None:
    nothing: Any = None
    carrier = Carrier(nothing, nothing, FeedSettings(), "")
    query: Any = _Query(threading.Thread(target=carrier._on_batch, args=(nothing, 0), daemon=True))
    carrier.end(query)
    assert query.stopped
    assert carrier.failure is None
