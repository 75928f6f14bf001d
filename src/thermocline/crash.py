"""Named points at which a test may kill the process, to prove that what follows a crash is right."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

VARIABLE = "THERMOCLINE_KILL_AT"
_passes: Counter[str] = Counter()
_turn = threading.Lock()


def crash_point(name: str) -> None:
    """Die by SIGKILL here if THERMOCLINE_KILL_AT is this name, or `name:3` on the third pass."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, nth = wanted.partition(":")
    if point != name:
        return
    with _turn:
        _passes[name] += 1
        if _passes[name] == int(nth or 1):
            os.kill(os.getpid(), signal.SIGKILL)
