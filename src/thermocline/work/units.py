"""Units of work in PostgreSQL: made once, claimed with a lease, ended by their owner only. Times are the database's."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline import meters
from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.work.plain import plain, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

log = logs.get(__name__)
LEASE = 120.0
_STAMPED_ID, _STAMPED_EPOCH = "lifecycle.work-unit-id", "lifecycle.work-unit-epoch"
# A lane that two claim at once goes to one of them; the other one looks again.
_LANE_TRIES = 5
# What an ending meets that PostgreSQL, or the driver before it, does not take, however often it is tried.
_UNWRITABLE = (
    psycopg.DataError,
    psycopg.IntegrityError,
    pg.ProgramLimitExceeded,
    TypeError,
    ValueError,
    RecursionError,
)


class LeaseLost(ThermoclineError):
    """Another worker has taken over the unit of work, so nothing more of it is written here."""

    code = "work.lease_lost"
    next_step_by_default = "Nothing to do: whoever has it now does it."


class Halted(ThermoclineError):
    """The work was told to stop."""

    code = "work.halted"
    next_step_by_default = "`thermocline work pause` shows what is stopped; with --off it goes on."


class Status(StrEnum):
    """What becomes of a unit. Failed means that trying again would not help, dead that it was tried too often."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Wanted:
    """A unit that is to be made. In a lane only one runs at a time."""

    kind: str
    table: int | None = None
    scope: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    destructive: bool = False
    lane: str | None = None
    max_attempts: int = 3
    schedule: int | None = None


@dataclass(frozen=True)
class Unit:
    """A claimed unit, as the database handed it out."""

    id: int
    kind: str
    table: int | None
    scope: str
    payload: dict[str, Any]
    epoch: int
    attempt: int
    max_attempts: int
    destructive: bool


@dataclass(frozen=True)
class Ending:
    """How a claim ends."""

    status: Status
    error: str | None = None
    result: dict[str, Any] | None = None
    delay: float = 0
    counts: bool = True
    """Whether the attempt is one of those that are allowed; handing back is none."""


class Claim:
    """A unit that is ours until another one takes it over, which every later write finds out."""

    def __init__(self, unit: Unit, owner: str, dsn: str, *, lease: float, since: float) -> None:
        self.unit = unit
        self.owner = owner
        self.about = ""
        """The table that it is for, once that is known; for those who watch."""
        self.seconds = 0.0
        """How long it took, once it has ended."""
        self.written: Ending | None = None
        """How it has ended in the database, where that is not how it was to end."""
        self._dsn = dsn
        self._deadline = since + lease
        self._lost = threading.Event()
        self._stopped = threading.Event()

    @property
    def stamp(self) -> dict[str, str]:
        """What a commit outside PostgreSQL carries, so that whoever comes next finds what this attempt has done."""
        return {_STAMPED_ID: str(self.unit.id), _STAMPED_EPOCH: str(self.unit.epoch)}

    def committed(self, summaries: Iterable[Mapping[str, str]]) -> int | None:
        """The epoch of an attempt at this unit, this one or an earlier one, whose commit is among those summed up here.

        To be asked before anything is begun: an attempt may have committed and died before it could say so.
        """
        for summary in summaries:
            if summary.get(_STAMPED_ID) == str(self.unit.id):
                return int(summary[_STAMPED_EPOCH])
        return None

    def renewed(self, until: float) -> None:
        """The lease lasts until this moment of the monotonic clock, counted from before it was asked for."""
        self._deadline = until

    def lose(self) -> None:
        """It is somebody else's now."""
        if not self._lost.is_set():
            self._lost.set()
            meters.LEASES_LOST.labels(self.unit.kind).inc()

    def leave(self) -> None:
        """It has been handed back while it runs, so nothing more of it is written."""
        self._lost.set()

    def stop(self) -> None:
        """Ask the work to end at its next check, to be handed back."""
        self._stopped.set()

    @property
    def lost(self) -> bool:
        """Whether it is known to be somebody else's."""
        return self._lost.is_set()

    @property
    def overdue(self) -> bool:
        """Whether the lease has run out as far as this process can know."""
        return time.monotonic() > self._deadline

    def check(self) -> None:
        """Go on, or learn that it is lost or has to stop. Costs nothing, so call it often."""
        if self._lost.is_set() or self.overdue:
            raise LeaseLost(f"The lease of work unit {self.unit.id}, epoch {self.unit.epoch}, is lost.")
        if self._stopped.is_set():
            raise Halted(f"Work unit {self.unit.id} was told to stop.", next_step="It is handed back and done later.")

    def fence(self, session: Connection) -> None:
        """Go on only if the database agrees; until the end of this transaction nobody takes the unit over.

        To be called in the transaction of every step that cannot be taken back.
        """
        self.check()
        row = session.execute(query("work_fence"), self.names).fetchone()
        if row is None:
            self.lose()
            raise LeaseLost(f"Work unit {self.unit.id}, epoch {self.unit.epoch}, has been taken over.")
        if row[0]:
            raise Halted(f"Destructive work is stopped, so work unit {self.unit.id} does not go on.")

    @contextmanager
    def fenced(self) -> Iterator[Connection]:
        """For a commit outside PostgreSQL: while the block lasts, nobody takes the unit over.

        A process that is put to sleep inside loses the lock with its lease; its commit is then known by its stamp.
        """
        with connect(self._dsn) as session:
            left = max(1, round((self._deadline - time.monotonic()) * 1000))
            session.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                [f"{left}ms"],
            )
            self.fence(session)
            yield session

    def end(self, session: Connection, ending: Ending) -> None:
        """Write down how it ended; refused when it is not ours any more."""
        if end(session, [(self, ending)]):
            raise LeaseLost(f"Work unit {self.unit.id}, epoch {self.unit.epoch}, was taken over before it ended.")

    @property
    def names(self) -> dict[str, Any]:
        """What a statement needs to find out whether it is still ours."""
        return {"id": self.unit.id, "epoch": self.unit.epoch, "owner": self.owner}


def enqueue(session: Connection, wanted: Wanted) -> int | None:
    """Make a unit; None if the same one is open already."""
    row = session.execute(
        query("work_enqueue"),
        {
            "kind": wanted.kind,
            "table": wanted.table,
            "scope": wanted.scope,
            "payload": Jsonb(wanted.payload),
            "destructive": wanted.destructive,
            "lane": wanted.lane,
            "max_attempts": wanted.max_attempts,
            "schedule": wanted.schedule,
        },
    ).fetchone()
    return row[0] if row else None


def claim(
    session: Connection, owner: str, kinds: Sequence[str], dsn: str, *, most: int = 1, lease: float = LEASE
) -> list[Claim]:
    """Take up to so many units that are due, in one statement; the session must be in autocommit.

    One that was lost before comes alone, so that a unit that kills its worker takes no attempts from others.
    """
    values = {"owner": owner, "kinds": list(kinds), "most": most, "lease": timedelta(seconds=lease)}
    for _ in range(_LANE_TRIES):
        since = time.monotonic()
        try:
            found = session.execute(query("work_claim"), values).fetchall()
        except pg.UniqueViolation:  # another one was first in the same lane
            continue
        return [Claim(Unit(*row), owner, dsn, lease=lease, since=since) for row in found]
    return []


def renew(session: Connection, claims: Sequence[Claim], *, lease: float = LEASE) -> None:
    """A new lease for those that are still ours; the others learn that they are lost.

    One whose row somebody has locked keeps the lease that it has, and no other waits for it.
    """
    if not claims:
        return
    since = time.monotonic()
    values = {
        "owner": claims[0].owner,
        "ids": [one.unit.id for one in claims],
        "epochs": [one.unit.epoch for one in claims],
        "lease": timedelta(seconds=lease),
    }
    ours = {(number, epoch): renewed for number, epoch, renewed in session.execute(query("work_renew"), values)}
    for one in claims:
        renewed = ours.get((one.unit.id, one.unit.epoch))
        if renewed is None:
            one.lose()
        elif renewed:
            one.renewed(since + lease)


def end(session: Connection, endings: Sequence[tuple[Claim, Ending]]) -> list[Claim]:
    """Write down how claims of one owner ended, in one statement; returns those that are not ours any more.

    Where the database refuses what one of them says, each is written by itself, and that one as failed.
    The session must be in autocommit.
    """
    if not endings:
        return []
    try:
        ours = _finish(session, endings)
    except _UNWRITABLE:
        ours = set()
        for claim, ending in endings:
            ours |= _finish_alone(session, claim, ending)
    lost = [claim for claim, _ in endings if (claim.unit.id, claim.unit.epoch) not in ours]
    for claim in lost:
        claim.lose()
    return lost


def _finish_alone(session: Connection, claim: Claim, ending: Ending) -> set[tuple[int, int]]:
    try:
        return _finish(session, [(claim, ending)])
    except _UNWRITABLE as error:
        said = f"It ended as {ending.status}, but what it said could not be written down: {type(error).__name__}."
        log.exception("ending not written", unit=claim.unit.id, epoch=claim.unit.epoch, kind=claim.unit.kind)
        claim.written = Ending(Status.FAILED, error=said)
        return _finish(session, [(claim, claim.written)])


def _finish(session: Connection, endings: Sequence[tuple[Claim, Ending]]) -> set[tuple[int, int]]:
    """Numbers and epochs of those that were ours."""
    values = {
        "owner": endings[0][0].owner,
        "ids": [claim.unit.id for claim, _ in endings],
        "epochs": [claim.unit.epoch for claim, _ in endings],
        "statuses": [str(ending.status) for _, ending in endings],
        "delays": [timedelta(seconds=ending.delay) for _, ending in endings],
        "counts": [ending.counts for _, ending in endings],
        "errors": [plain_text(ending.error) if ending.error is not None else None for _, ending in endings],
        "results": [Jsonb(plain(ending.result)) if ending.result is not None else None for _, ending in endings],
    }
    return {(number, epoch) for number, epoch in session.execute(query("work_finish"), values)}


def bury(session: Connection) -> dict[int, str]:
    """Units that have killed their worker as often as they may are dead; returns their kinds."""
    return {row[0]: row[1] for row in session.execute(query("work_bury"))}
