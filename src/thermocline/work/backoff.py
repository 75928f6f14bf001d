"""How long to wait before the next attempt: longer each time, and any wait below, so that nobody returns in step."""

from __future__ import annotations

import random

FIRST, MOST = 5.0, 600.0


def longest(attempt: int, *, first: float = FIRST, most: float = MOST) -> float:
    """The longest wait after an attempt, counted from 1: the first one, doubled each time, up to the most."""
    return float(min(most, first * 2 ** min(attempt - 1, 30)))


def wait_after(attempt: int, chance: random.Random | None = None, *, first: float = FIRST, most: float = MOST) -> float:
    """Full jitter: any wait up to the longest."""
    return (chance or random).uniform(0, longest(attempt, first=first, most=most))
