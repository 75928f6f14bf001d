"""Which random schedules a run plays: other ones each time, and one of them again by its seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SCHEDULES = 100
"""How many, unless a run says otherwise by --schedules."""


def seeds(config: pytest.Config) -> list[int]:
    """The schedules of this run: other ones each time, unless one is asked for by its seed."""
    chosen = config.getoption("--schedule-seed", None)
    count: int = config.getoption("--schedules", SCHEDULES)
    if chosen is not None:
        return [chosen] * (1 if count == SCHEDULES else count)
    first = config.getoption("randomly_seed", None)
    if not isinstance(first, int):
        first = random.SystemRandom().randrange(2**31)
    return [first * 1000 + number for number in range(count)]
