"""Units that were claimed together: begun one after the other, ended together, and none kept waiting for long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from thermocline.work.units import Ending, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.work.units import Claim

MOST = 64
_SOON = 0.2
_TOO_LONG = 1.0
# How the claim of a unit ends that was never begun.
UNTOUCHED = Ending(Status.PENDING, counts=False)


class Pace:
    """How many units to claim at once: as many as are done in a fifth of a second, going by the last ones.

    So a queue of small units costs few statements, and none of them waits in one node's hands while another is free.
    """

    def __init__(self) -> None:
        self.most = 1

    def learn(self, done: int, seconds: float) -> None:
        """So many took so long."""
        fit = int(done * _SOON / max(seconds, 1e-6))
        self.most = max(1, min(MOST, self.most * 2, fit))


class Batch:
    """What one thread has claimed. Another one may take out of it what waits behind a unit that takes long."""

    def __init__(self) -> None:
        self._waiting: list[Claim] = []
        self._ended: list[tuple[Claim, Ending]] = []
        self._since = 0.0
        self._lock = threading.Lock()

    def fill(self, claims: Sequence[Claim]) -> None:
        """These were claimed just now."""
        with self._lock:
            self._waiting, self._since = list(claims), time.monotonic()

    def begin(self) -> Claim | None:
        """The next unit to run; None when there is none."""
        with self._lock:
            return self._waiting.pop(0) if self._waiting else None

    def ended(self, claim: Claim, ending: Ending) -> None:
        """It has run; how it ended is still to be written down."""
        with self._lock:
            self._ended.append((claim, ending))

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be begun, or for its end to be written down."""
        with self._lock:
            return not (self._waiting or self._ended)

    @property
    def stuck(self) -> bool:
        """Whether something has waited for too long."""
        return not self.empty and time.monotonic() - self._since > _TOO_LONG

    def take(self) -> list[tuple[Claim, Ending]]:
        """Everything that is to be written down: what has ended, and what was not begun, which goes back."""
        with self._lock:
            taken = self._ended + [(claim, UNTOUCHED) for claim in self._waiting]
            self._ended, self._waiting = [], []
            return taken

    def put_back(self, taken: Sequence[tuple[Claim, Ending]]) -> None:
        """It could not be written down; whose lease has run out belongs to somebody else by now."""
        with self._lock:
            self._ended = [(claim, ending) for claim, ending in taken if not claim.overdue] + self._ended
