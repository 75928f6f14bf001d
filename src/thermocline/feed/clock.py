"""Which moment a position of the log stands for: the feed looks at the log's end now and then, and remembers when."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

# A look every half second, for longer than a batch may take.
_MOST_LOOKS = 20_000


class Clock:
    """Looks at the end of the log, by whichever thread."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, datetime]] = deque(maxlen=_MOST_LOOKS)
        self._turn = Lock()

    def saw(self, end: int, at: datetime) -> None:
        """At this moment, or before it, the log ended here."""
        with self._turn:
            if not self._looks or self._looks[-1][0] <= end:
                self._looks.append((end, at))

    def reached(self, position: int) -> datetime | None:
        """The latest moment that is known before which nothing was committed above this position."""
        found = None
        with self._turn:
            while self._looks and self._looks[0][0] <= position:
                found = self._looks.popleft()[1]
        return found
