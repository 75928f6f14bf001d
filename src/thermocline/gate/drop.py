"""The worker's way to drop a chunk: detach it under readers, check it again, then drop it or attach it back.

Every step leaves a state that `recover` understands, whatever dies in between. Before the chunk is detached, the intent
is on record; from then on it is in nobody's queries, and its rows stay hot until the one SQL function drops it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.rows import dict_row

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import ThermoclineError
from thermocline.gate.drop_plan import Candidate, Planned, Reason, Verdict
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from psycopg import Connection

    CheckLake = Callable[[int], None]
    # Called in the session that drops: before a chunk is touched, and in the transaction that drops it. What it raises
    # keeps the chunk, as when the worker has lost its lease.
    Fence = Callable[[Connection], None]

log = logs.get(__name__)

PATIENCE = 10.0
_PAUSE = 0.1
BUSY = Reason("busy", "somebody uses it for longer than we wait", "It is tried again in the next run.")
AT_IT = Reason("busy", "another worker is at it", "Nothing to do.")
_PENDING = Reason(
    "detach_pending",
    "it is being detached, which an open transaction holds up",
    "It is finished in the next run, once that transaction has ended.",
)
_UNWANTED = Reason("not_due", "no policy asks for its removal any more", "Nothing to do.")
_GONE = Reason("gone", "its table is not there any more", "Nothing to do if that was meant.")


class Result(StrEnum):
    """How it ended: deferred means that trying again may help."""

    DROPPED = "dropped"
    DEFERRED = "deferred"
    STAYS = "stays"


@dataclass(frozen=True)
class Outcome:
    """What became of a chunk, and why if it is still there."""

    chunk: int
    name: str
    result: Result
    reason: Reason | None = None


def read_state(
    dsn: str, table: str | None = None, schema: str = "public", *, with_rows: bool = False
) -> list[Candidate]:
    """The chunks that are due by policy, of one table or of all; reads their rows too if asked to."""
    with _session(dsn, PATIENCE) as session:
        rows = session.cursor(row_factory=dict_row).execute(
            query("drop_candidates"), {"table": table, "schema": schema, "with_rows": with_rows}
        )
        return [_candidate(row) for row in rows]


def _candidate(row: dict[str, Any]) -> Candidate:
    code, message, next_step = row.pop("code"), row.pop("message"), row.pop("next_step")
    return Candidate(**row, against=Reason(code, message, next_step) if code else None)


def carry_out(
    dsn: str,
    plan: Sequence[Planned],
    *,
    check_lake: CheckLake | None = None,
    patience: float = PATIENCE,
    fence: Fence | None = None,
) -> list[Outcome]:
    """Finish what was begun and drop what is to go, by the plan alone, each chunk in a transaction of its own."""
    begun = {line.chunk.chunk for line in plan if line.verdict is Verdict.FINISH}
    outcomes = recover(dsn, only=begun, check_lake=check_lake, patience=patience, fence=fence)
    for line in plan:
        if line.verdict is Verdict.DROP:
            chunk = line.chunk
            dropped = drop_chunk(
                dsn,
                chunk.chunk,
                gated=chunk.gated,
                reason=chunk.policy,
                policy=chunk.policy_id,
                check_lake=check_lake,
                patience=patience,
                fence=fence,
            )
            outcomes.append(dropped)
    merge_traps(dsn)
    return outcomes


def drop_chunk(
    dsn: str,
    chunk: int,
    *,
    gated: bool = True,
    reason: str = "asked for",
    policy: int | None = None,
    check_lake: CheckLake | None = None,
    patience: float = PATIENCE,
    fence: Fence | None = None,
) -> Outcome:
    """Drop one chunk, by its oid, unless something speaks against it.

    `check_lake` is called with the oid before the chunk is touched and again right before the drop. It has to look
    whether the lake still holds what the newest receipt says and to record that in the receipt; what it raises keeps
    the chunk. If it is a policy that asks for it, that is named: once begun, the drop is finished only while the policy
    is there. `patience` is how many seconds each wait for other transactions may take.
    """
    with _session(dsn, patience) as session:
        return _Drop(session, chunk, gated, reason, check_lake, patience, fence, policy).run()


def recover(
    dsn: str,
    *,
    only: Collection[int] | None = None,
    check_lake: CheckLake | None = None,
    patience: float = PATIENCE,
    fence: Fence | None = None,
) -> list[Outcome]:
    """Finish drops that were begun and that nobody is at, all or only these: each chunk goes or is attached again.

    One that no policy asks for any more is attached again, whoever comes by.
    """
    outcomes = []
    with _session(dsn, patience) as session:
        for chunk, gated, reason, wanted in session.execute(query("drop_unfinished")).fetchall():
            if wanted and only is not None and chunk not in only:
                continue  # its own table's run sees to it
            drop = _Drop(session, chunk, gated, reason, check_lake, patience, fence)
            if outcome := drop.resume(None if wanted else _UNWANTED):
                outcomes.append(outcome)
    return outcomes


def merge_traps(dsn: str) -> None:
    """One trap for each run of neighbouring dropped ranges, in tables that are quiet; late rows as each has it."""
    with _session(dsn, PATIENCE) as session:
        with suppress(pg.LockNotAvailable):  # somebody is at one of the tables; the next run sees to it
            session.execute(query("drop_fit_traps"))
        for (table,) in session.execute(query("drop_scattered_traps")).fetchall():
            session.execute(query("drop_merge_traps"), {"table": table})


@contextmanager
def _session(dsn: str, patience: float) -> Iterator[Connection]:
    with connect(dsn, autocommit=True) as session:
        session.execute(query("drop_session"), {"lock_timeout": f"{max(1, round(patience * 1000))}ms"})
        yield session


class _Drop:
    """One chunk on its way out, in one session."""

    def __init__(
        self,
        session: Connection,
        chunk: int,
        gated: bool,
        reason: str,
        check_lake: CheckLake | None,
        patience: float,
        fence: Fence | None = None,
        policy: int | None = None,
    ) -> None:
        self._session = session
        self._fence = fence or (lambda _session: None)
        self._chunk = chunk
        self._gated = gated
        self._reason = reason
        self._policy = policy
        self._check_lake = check_lake
        self._patience = patience
        self._name = str(chunk)

    def run(self) -> Outcome:
        """From the start."""
        with self._alone() as alone:
            return self._begin() if alone else self._ended(Result.DEFERRED, AT_IT)

    def resume(self, against: Reason | None = None) -> Outcome | None:
        """From wherever it was left, unless something is known against it; None if it had not come to anything."""
        with self._alone() as alone:
            if not alone:
                return self._ended(Result.DEFERRED, AT_IT)
            place = self._place()
            if place is None:
                self._run("drop_forget")
                return self._ended(Result.STAYS, _GONE)
            if place["state"] == "attached":
                self._run("drop_forget")
                return None
            if place["state"] == "pending" and not self._finalize(place):
                return self._ended(Result.DEFERRED, _PENDING)
            return self._finish(against)

    def _begin(self) -> Outcome:
        against = self._look_at_lake() or self._verdict()
        place = self._place()
        held = None if against else self._trying(lambda: self._fence(self._session))
        if held:
            return self._ended(Result.DEFERRED, held)
        if against or place is None:
            return self._ended(Result.STAYS, against or _GONE)
        crash_point("drop.planned")
        if place["state"] == "attached":
            if not self._wait_for_users(place["table_oid"]):
                return self._ended(Result.DEFERRED, BUSY)
            values = {"gated": self._gated, "reason": self._reason, "policy": self._policy}
            self._run("drop_intend", bound=place["bound"], **values)
            crash_point("drop.intent_recorded")
            held_up = self._detach(place)
            if held_up:
                return self._ended(Result.DEFERRED, held_up)
            crash_point("drop.detached")
        return self._finish()

    def _finish(self, against: Reason | None = None) -> Outcome:
        """Of a detached chunk: gone for good, or attached again."""
        against = against or self._look_at_lake() or self._trying(self._drop)
        if against is None:
            crash_point("drop.done")
            return self._ended(Result.DROPPED)
        back = self._trying(lambda: self._run("drop_attach_back", reason=f"{against.code}: {against.message}"))
        crash_point("drop.attached_back")
        if back:
            log.error("chunk left detached", chunk=self._name, why=back.message)
            return self._ended(Result.DEFERRED, back)
        return self._ended(Result.DEFERRED if against.code == "busy" else Result.STAYS, against)

    # ---- steps -------------------------------------------------------------------------------

    def _drop(self) -> None:
        with self._session.transaction():
            self._fence(self._session)
            self._run("drop_one", gated=self._gated, reason=self._reason)
            crash_point("drop.before_commit")

    def _detach(self, place: dict[str, Any]) -> Reason | None:
        """Out of the table's queries, without locking it; what holds it up, if anything does."""
        try:
            self._alter(place, "DETACH PARTITION {chunk} CONCURRENTLY")
            return None
        except pg.LockNotAvailable:
            now = self._place()
            if now and now["state"] == "pending":
                return None if self._finalize(now) else _PENDING
            refused = BUSY
        except psycopg.Error as error:
            # Another detach of this table is pending, or it has a default partition: PostgreSQL says it best.
            refused = refusal(error)
        self._run("drop_forget")
        return refused

    def _finalize(self, place: dict[str, Any]) -> bool:
        try:
            self._alter(place, "DETACH PARTITION {chunk} FINALIZE")
        except pg.LockNotAvailable:
            return False
        return True

    def _alter(self, place: dict[str, Any], action: str) -> None:
        chunk = sql.Identifier(place["chunk_schema"], place["chunk_name"])
        table = sql.Identifier(place["table_schema"], place["table_name"])
        statement: Any = f"ALTER TABLE {{table}} {action}"
        self._session.execute(sql.SQL(statement).format(table=table, chunk=chunk))

    def _wait_for_users(self, table: int) -> bool:
        """Until everybody who uses table or chunk now has ended, so that the detach itself has few to wait for."""
        deadline = time.monotonic() + self._patience
        first = self._users(table)
        while first & self._users(table):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def _users(self, table: int) -> set[str]:
        return {user for (user,) in self._run("drop_users", table=table)}

    def _trying(self, step: Callable[[], object]) -> Reason | None:
        return trying(self._session, step, self._patience)

    def _look_at_lake(self) -> Reason | None:
        if not self._gated or self._check_lake is None:
            return None
        try:
            self._check_lake(self._chunk)
        except ThermoclineError as error:
            return Reason("lake_unchecked", error.message, error.next_step)
        except Exception as error:  # whatever it is: the chunk is not left halfway
            log.exception("lake not looked at")
            return Reason(
                "lake_unchecked", f"{type(error).__name__}: {error}", "Look into the log of Thermocline's home."
            )
        return None

    def _verdict(self) -> Reason | None:
        row = self._run("drop_verdict", gated=self._gated).fetchone()
        return Reason(*row[:3]) if row else None

    def _place(self) -> dict[str, Any] | None:
        row = self._session.cursor(row_factory=dict_row).execute(query("drop_place"), {"chunk": self._chunk}).fetchone()
        if row:
            self._name = f"{row['chunk_schema']}.{row['chunk_name']}"
        return row

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        row = self._run("drop_alone").fetchone()
        alone = bool(row and row[0])
        try:
            yield alone
        finally:
            if alone and not self._session.closed:
                self._run("drop_not_alone")

    def _run(self, name: str, **values: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._session.execute(query(name), {"chunk": self._chunk, **values})

    def _ended(self, result: Result, reason: Reason | None = None) -> Outcome:
        log.info("drop ended", chunk=self._name, result=str(result), reason=reason and reason.code)
        return Outcome(self._chunk, self._name, result, reason)


def trying(session: Connection, step: Callable[[], object], patience: float) -> Reason | None:
    """Do it, again and again while somebody is in the way; what speaks against it in the end, if anything does."""
    deadline = time.monotonic() + patience
    while True:
        try:
            step()
            return None
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            if time.monotonic() > deadline:
                return BUSY
            time.sleep(_PAUSE)
        except psycopg.Error as error:
            if session.closed:
                raise
            return refusal(error)
        except ThermoclineError as error:  # the fence
            return Reason(error.code, error.message, error.next_step)


def refusal(error: psycopg.Error) -> Reason:
    """What PostgreSQL refused. Our own functions give the code of the reason as DETAIL and what to do as HINT."""
    said = error.diag
    primary, detail = said.message_primary or str(error), said.message_detail
    if isinstance(error, pg.RaiseException) and detail:
        return Reason(detail, primary, said.message_hint or "Look into the log.")
    return Reason(
        "failed", f"{primary}: {detail}" if detail else primary, "Remove what is in the way; it is tried again."
    )
