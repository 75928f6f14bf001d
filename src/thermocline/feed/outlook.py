"""How long it will take: what is left to copy and to read, looked at now and then while a feed runs."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from thermocline.feed.status import FeedStatus

log = logs.get(__name__)
_SECONDS = 1
_STEPS = 12
# Less than this is behind on a server where nothing happens: what the feed itself records.
_BACKLOG = 1 << 20


@dataclass(frozen=True)
class Outlook:
    """What is left at a moment, and how long it takes at the pace of the last steps; None where that is not known."""

    chunks: int
    covered: int
    to_copy_bytes: int
    to_copy_rows: int
    copied_in: float | None
    behind_bytes: int
    rows_per_second: float
    caught_up_in: float | None
    waiting: tuple[str, ...]
    """Tables whose copy waits for transactions that are open."""
    set_aside: tuple[str, ...]
    held_back: tuple[str, ...] = ()
    """Tables that wait for the lake's store or its catalog."""
    copies_bytes: int = 0
    """The most there was to copy since there last was nothing."""
    backlog_bytes: int = 0
    """The most that was behind since there last was no backlog; 0 while there is none."""


class Countdown:
    """How fast an amount shrinks: from the last times at which it was another one."""

    def __init__(self) -> None:
        self.most = 0
        """Since there last was nothing."""
        self._seen: deque[tuple[float, int]] = deque(maxlen=_STEPS)

    def seconds(self, left: int, at: float) -> float | None:
        """Until nothing is left; None when that cannot be told, or is not to come."""
        self.most = max(self.most, left) if left else 0
        if left == 0:
            self._seen.clear()
            return None
        if not self._seen or self._seen[-1][1] != left:
            self._seen.append((at, left))
        since, before = self._seen[0]
        if left >= before or at <= since:
            return None
        return left * (at - since) / (before - left)


class Outlooks:
    """One after the other, each from how the feed stands then."""

    def __init__(self) -> None:
        self._copies, self._backlog = Countdown(), Countdown()

    def of(self, found: FeedStatus, at: float) -> Outlook:
        """The outlook; `at` is the time by a clock that does not jump."""
        synced = [one for one in found.tables if one.status in ("JOINING", "SNAPSHOTTING", "STREAMING")]
        to_copy = sum(one.to_copy_bytes or 0 for one in synced)
        behind = found.behind_bytes or 0
        return Outlook(
            sum(one.chunks for one in synced),
            sum(one.covered for one in synced),
            to_copy,
            sum(one.to_copy_rows or 0 for one in synced),
            self._copies.seconds(to_copy, at),
            behind,
            sum(one.rows_per_second for one in synced),
            self._backlog.seconds(behind if behind >= _BACKLOG else 0, at),
            tuple(one.table for one in synced if one.status == "JOINING"),
            tuple(one.table for one in found.tables if one.status == "SKIPPED"),
            tuple(one.table for one in synced if one.reason),
            self._copies.most,
            self._backlog.most,
        )


@contextmanager
def watching(status: Callable[[], FeedStatus], news: Callable[[Outlook], None]) -> Iterator[None]:
    """Tell the outlook at once, and every second beside what the block does, however long a step of that takes."""
    outlooks, stop = Outlooks(), threading.Event()

    def look() -> None:
        try:
            news(outlooks.of(status(), time.monotonic()))
        except ThermoclineError as error:  # the feed itself says what is wrong
            log.info("no outlook", reason=error.message)

    def watch() -> None:
        while not stop.wait(_SECONDS):
            look()

    look()
    thread = threading.Thread(target=watch, name="outlook", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
