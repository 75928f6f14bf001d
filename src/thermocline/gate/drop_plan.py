"""Which chunks a retention policy lets go, which stay and why: state in, plan out, nothing done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

# The worker looks at the lake right before a drop, so a plan need not have it looked at.
_LAKE_CODES = ("lake_unchecked", "lake_changed")


@dataclass(frozen=True)
class Reason:
    """Why a chunk stays: a code that never changes, words, and what to do about it."""

    code: str
    message: str
    next_step: str


@dataclass(frozen=True)
class Candidate:
    """A chunk that is due by its table's policy, as the database describes it."""

    chunk: int
    name: str
    schema_name: str
    table_name: str
    range_start: datetime
    range_end: datetime
    size_bytes: int
    state: str
    row_count: int | None
    """PostgreSQL's estimate."""
    gated: bool
    policy_id: int
    policy: str
    """In words."""
    begun: bool
    against: Reason | None


class Verdict(StrEnum):
    """What is to become of a chunk."""

    DROP = "drop"
    FINISH = "finish"
    LATER = "later"
    STAYS = "stays"


@dataclass(frozen=True)
class Planned:
    """One line of a plan. Carried out, everything in it is checked again."""

    chunk: Candidate
    verdict: Verdict
    reason: str
    message: str
    next_step: str


def plan_drops(state: Iterable[Candidate], most: int | None = None) -> list[Planned]:
    """A line for every candidate, in their order; at most so many of them are to be dropped."""
    plan = [_planned(candidate) for candidate in state]
    due = [line for line in plan if line.verdict is Verdict.DROP]
    late = due[most:] if most is not None else []
    return [_later(line, most) if line in late else line for line in plan]


def _later(line: Planned, most: int | None) -> Planned:
    said = f"one run drops {most} chunks at most"
    return Planned(line.chunk, Verdict.LATER, "limit", said, "It comes with the next run.")


def _planned(candidate: Candidate) -> Planned:
    against = candidate.against
    if candidate.begun:
        said = "its drop was begun and is finished, or undone, first"
        return Planned(candidate, Verdict.FINISH, "begun", said, "Nothing to do.")
    if against is None or against.code in _LAKE_CODES:
        proof = "proven in the lake" if candidate.gated else "outright, as its table is not synced"
        return Planned(candidate, Verdict.DROP, "due", f"{candidate.policy}; {proof}", "Nothing to do.")
    return Planned(candidate, Verdict.STAYS, against.code, against.message, against.next_step)
