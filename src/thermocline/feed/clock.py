"""Which moment a position of the log stands for: the feed looks at the log's end now and then, and remembers when."""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

# A look every half second, for longer than a batch and an interval may take.
_MOST_LOOKS = 20_000


class Clock:
    """Looks at the end of the log, by whichever thread."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._moments: list[datetime] = []
        self._turn = Lock()

    def saw(self, end: int, at: datetime) -> None:
        """At this moment, or before it, the log ended here."""
        with self._turn:
            if not self._ends or self._ends[-1] <= end:
                self._ends.append(end)
                self._moments.append(at)
            self._forget(len(self._ends) - _MOST_LOOKS)

    def reached(self, position: int) -> datetime | None:
        """The latest moment that is known before which nothing was committed above this position."""
        with self._turn:
            at = bisect_right(self._ends, position)
            return self._moments[at - 1] if at else None

    def forget(self, position: int) -> None:
        """Nobody asks for anything below this position any more."""
        with self._turn:
            self._forget(bisect_right(self._ends, position) - 1)

    def _forget(self, count: int) -> None:
        if count > 0:
            del self._ends[:count], self._moments[:count]
