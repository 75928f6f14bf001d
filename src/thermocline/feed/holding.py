"""Tables that wait for the lake: its store or its catalog does not take what they have. The others go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.feed.pacing import RETRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from thermocline.errors import ThermoclineError
    from thermocline.feed.histories import Histories
    from thermocline.feed.ledger import Ledger
    from thermocline.feed.reading import Ending
    from thermocline.feed.records import TableState

log = logs.get(__name__)
ASIDE = "`thermocline feed resync TABLE --yes` lets it join again once that is mended."


class Held:
    """Which tables wait, and why. A table that waits keeps its place in the log, and so nothing of it is lost."""

    def __init__(self, ledger: Ledger, histories: Histories) -> None:
        self._ledger = ledger
        self._histories = histories
        # Why, and when it was last tried.
        self._refused: dict[int, tuple[ThermoclineError, float]] = {}
        self._told: dict[int, str] | None = None
        self._joined: dict[int, datetime] = {}

    @property
    def waiting(self) -> dict[int, ThermoclineError]:
        """By the number of the table."""
        return {table: error for table, (error, _) in list(self._refused.items())} | self._histories.unopened

    def hold(self, waiting: Mapping[int, ThermoclineError]) -> None:
        """These are tried again; what the catalog has of them is asked for anew."""
        for table, error in waiting.items():
            if table not in self._refused:
                log.warning("table held back", table=table, reason=error.message, next_step=error.next_step)
            self._refused[table] = error, time.monotonic()
            self._histories.forget(table)
        self.tell()

    def release(self, taken: Iterable[int]) -> None:
        """The lake has taken something of these."""
        for table in taken:
            if self._refused.pop(table, None):
                log.info("table goes on", table=table)
        self.tell()

    def keep(self, joined: Mapping[int, datetime]) -> None:
        """Others than these are not synced any more; one that has joined anew has everything before it."""
        anew = {table for table, at in joined.items() if self._joined.get(table, at) != at}
        self._refused = {table: why for table, why in self._refused.items() if table in joined and table not in anew}
        if anew:
            self._told = None  # joining has cleared what was told of it
        self._joined = dict(joined)
        self.tell()

    def tired(self, states: Mapping[int, TableState], ending: Ending, most: int) -> dict[int, str]:
        """Tables that wait, and keep so much of the log that the others would have to wait for them; and why.

        None if all that were read wait, or if the lake does not answer for one that does not: then it is the lake that
        is in trouble, and not a table.
        """
        waiting = self.waiting | dict(ending.held)
        others = ending.markers.keys() - waiting.keys()
        held = {table: states[table].holds for table in waiting if table in states}
        tired = [table for table, at in held.items() if at is not None and ending.end - at >= most]
        if not (tired and self._histories.answer_for(others)):
            return {}
        return {table: f"{waiting[table].message} {ASIDE}" for table in tired}

    def is_early(self, table: int) -> bool:
        """Whether it was refused a moment ago."""
        _, tried = self._refused.get(table, (None, float("-inf")))
        return time.monotonic() - tried < RETRY_SECONDS

    def tell(self) -> None:
        """Let PostgreSQL know, if it is news."""
        waiting = self.waiting
        told = {table: error.code for table, error in waiting.items()}  # their words may differ each time
        if told != self._told:
            self._ledger.hold_back({table: f"{error.message} {error.next_step}" for table, error in waiting.items()})
            self._told = told

    def require_none(self) -> None:
        """An error if tables wait: what was said of the first of them."""
        for error in self.waiting.values():
            raise error
