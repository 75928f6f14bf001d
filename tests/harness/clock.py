"""A clock that stands still until it is moved, for code that takes one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Call it for the time, as the real one."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime(2026, 1, 5, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **amount: float) -> None:
        """Move on: `clock.advance(hours=2)`."""
        self.now += timedelta(**amount)
