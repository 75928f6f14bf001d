"""A node: threads that claim units and run their jobs until told to stop. One unit's failure is that unit's alone."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline import meters
from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused, ThermoclineError, Unreachable
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.pool import Pool
from thermocline.hot.statements import query
from thermocline.masking import masked
from thermocline.work import backoff, pacing, units
from thermocline.work.batch import UNTOUCHED, Batch, Pace
from thermocline.work.job import Hopeless, Target
from thermocline.work.keeper import Keeper
from thermocline.work.plain import plain, plain_text
from thermocline.work.units import Ending, Halted, LeaseLost, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from psycopg import Connection

    from thermocline.config import WorkSettings
    from thermocline.work.job import Job, Plan
    from thermocline.work.units import Claim

log = logs.get(__name__)
GRACE = 30.0
_BURY_SECONDS = 10.0
_MOST_SKEW = 60.0
_LOOK = 0.25
# However much light work there is, heavy work is asked for so often.
_HEAVY_SECONDS = 1.0
# Its own, its job's, what that needs beside it, and one to spare. So no thread waits for another's.
_SESSIONS_EACH = 4


class ClocksDiffer(Refused):
    """The clocks of this machine and of the database differ by more than a minute, so nothing is removed."""

    code = "work.clocks_differ"
    next_step_by_default = "Set the clocks right, best by NTP; the work is tried again."


class TableGone(Hopeless):
    """The table was dropped while its work waited."""

    code = "work.table_gone"
    next_step_by_default = "Nothing to do if that was meant."


@dataclass
class Tally:
    """What a node has done; `running` are the claims that it is at."""

    ended: dict[str, int] = field(default_factory=dict)
    running: dict[Claim, str] = field(default_factory=dict)
    lost: int = 0
    last_error: str | None = None
    trouble: str | None = None
    """Why nothing could be claimed, if that is how it was the last time."""

    @property
    def broken(self) -> int:
        """Attempts that failed, for now or for good."""
        return sum(self.ended.get(how, 0) for how in ("retry", "failed", "dead"))


def new_owner() -> str:
    """A name for a node, never given twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class Worker:
    """Runs jobs, in threads with a pool of sessions of their own; the leases are kept by another thread."""

    def __init__(
        self,
        dsn: str,
        jobs: Mapping[str, Job],
        settings: WorkSettings,
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        timeout: int = 10,
        stop: threading.Event | None = None,
        wall_clock: Callable[[], float] = time.time,
        told: Callable[[str | None], None] = lambda _trouble: None,
    ) -> None:
        """`told` learns why nothing can be claimed, and with None that something can."""
        self._dsn = dsn
        self._jobs = {kind: job for kind, job in jobs.items() if kinds is None or kind in kinds}
        self._settings = settings
        self._timeout = timeout
        self._wall_clock = wall_clock
        self._told = told
        self.owner = owner or new_owner()
        self._stop = stop or threading.Event()
        self._over = threading.Event()  # the worker's own: with it only its threads end
        self._lock = threading.Lock()
        self._buried_at = float("-inf")
        self._batches = [Batch() for _ in range(settings.concurrency)]
        self._keeper = Keeper(dsn, lease=settings.lease, timeout=timeout)
        self._pool = Pool(dsn, settings.concurrency * _SESSIONS_EACH, timeout=timeout)
        self.tally = Tally()

    @property
    def concurrency(self) -> int:
        """How many units it runs at once."""
        return len(self._batches)

    def stop(self) -> None:
        """Claim nothing more; what runs may finish."""
        self._stop.set()

    def run(self, *, once: bool = False, grace: float = GRACE) -> Tally:
        """Until stopped, or with `once` until nothing is due. What is not finished in time is handed back."""
        with self._keeper, self._pool:
            threads: list[threading.Thread] = []
            try:
                for number, batch in enumerate(self._batches):
                    thread = threading.Thread(
                        target=self._serve, args=(once, batch), name=f"work-{number}", daemon=True
                    )
                    thread.start()
                    threads.append(thread)
                while any(thread.is_alive() for thread in threads) and not self._stop.wait(_LOOK):
                    self._relieve([batch for batch in self._batches if batch.stuck])
                    self._pool.trim()
            finally:  # whatever it was: no thread goes on beside those of the next worker
                self._over.set()
                self._finish(threads, grace)
        self.tally.lost = self._keeper.lost
        return self.tally

    def _relieve(self, batches: Sequence[Batch]) -> None:
        """What waits behind a unit that takes long goes back, so that whoever is free can do it."""
        for batch in batches:
            try:
                with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
                    self._settle(session, batch)
            except ThermoclineError as error:
                log.warning("units wait behind another one", code=error.code, message=error.message)
            except Exception:  # the next look may do better
                log.exception("units wait behind another one")

    def _finish(self, threads: Sequence[threading.Thread], grace: float) -> None:
        deadline = time.monotonic() + grace
        self._relieve([batch for batch in self._batches if not batch.empty])
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))
        held = self._keeper.held
        for claim in held:
            claim.stop()
        for thread in threads:  # a check or two later
            thread.join(min(5.0, grace))
        if any(thread.is_alive() for thread in threads):
            self._hand_back(self._keeper.held)

    def _hand_back(self, claims: Sequence[Claim]) -> None:
        """Of work that does not come to a check: from now on the fence refuses it, and somebody else may begin."""
        back = Ending(Status.PENDING, error="its node was stopped", counts=False)
        try:
            with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
                lost = units.end(session, [(claim, back) for claim in claims])
        except ThermoclineError as error:
            log.warning("units not handed back", message=error.message)
            return
        except Exception:  # the leases run out
            log.exception("units not handed back")
            return
        for claim in claims:
            claim.leave()
            said = "lease lost" if claim in lost else "unit handed back"
            log.warning(said, unit=claim.unit.id, epoch=claim.unit.epoch, kind=claim.unit.kind)

    @property
    def _stopping(self) -> bool:
        return self._stop.is_set() or self._over.is_set()

    def _rest(self, seconds: float) -> bool:
        """Whether it is over before or after so long."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            self._stop.wait(min(left, _LOOK))
        return self._stopping

    # ---- one thread ----------------------------------------------------------------------------

    def _serve(self, once: bool, batch: Batch) -> None:
        with self._pool.lent():
            self._serve_lent(once, batch)

    def _serve_lent(self, once: bool, batch: Batch) -> None:
        tries = 0
        while not self._stopping or not batch.empty:
            try:
                with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
                    self._settle(session, batch)
                    tries = 0
                    if self._serve_session(session, once, batch):
                        return
            except (Unreachable, Busy) as error:
                tries += 1
                self._cannot(error.message)
                log.warning("database not reached", code=error.code, message=error.message)
                if self._rest(min(self._settings.poll * tries, 30)):
                    time.sleep(min(self._settings.poll, 1))  # what has ended is still to be written down
            except Exception as error:  # a node goes on, whatever it meets
                said = error.message if isinstance(error, ThermoclineError) else f"{type(error).__name__}: {error}"
                self._cannot(masked((said.strip().splitlines() or [type(error).__name__])[0]))
                log.exception("unexpected")
                if once:
                    return
                if self._rest(self._settings.poll):
                    time.sleep(min(self._settings.poll, 1))

    def _cannot(self, why: str) -> None:
        self.tally.last_error = why
        self._trouble(why)

    def _trouble(self, why: str | None) -> None:
        self.tally.trouble = why
        if not self._stopping:  # a thread that comes to its end late says nothing of the next worker
            self._told(why)

    def _serve_session(self, session: Connection, once: bool, batch: Batch) -> bool:
        """Claim and run; true when there is nothing more to do."""
        light = [kind for kind, job in self._jobs.items() if job.job_class is None]
        pace = Pace()
        asked = float("-inf")
        while not self._stopping:
            self._bury(session)
            began = time.monotonic()
            done = worked = self._claim_and_run(session, light, batch, pace.most)
            pace.learn(done, time.monotonic() - began)
            if not worked or time.monotonic() - asked > _HEAVY_SECONDS:
                worked += self._claim_and_run_heavy(session, batch)
                asked = time.monotonic()
            self._trouble(None)
            if not worked and once:
                return True
            if not worked:
                self._rest(self._settings.poll)
        return True

    def _claim_and_run_heavy(self, session: Connection, batch: Batch) -> int:
        """One unit of each class that has a free seat; how many there were."""
        worked = 0
        for job_class in {job.job_class for job in self._jobs.values() if job.job_class}:
            heavy = [kind for kind, job in self._jobs.items() if job.job_class == job_class]
            with pacing.seat(session, job_class) as seat:
                worked += self._claim_and_run(session, heavy, batch) if seat is not None else 0
        return worked

    def _bury(self, session: Connection) -> None:
        with self._lock:
            if time.monotonic() - self._buried_at < min(_BURY_SECONDS, self._settings.lease):
                return
            self._buried_at = time.monotonic()
        for number, kind in units.bury(session).items():
            log.error("unit is dead: its workers died", unit=number, kind=kind)
            self._count("dead")
            meters.ATTEMPTS.labels(kind, "dead").inc()

    def _claim_and_run(self, session: Connection, kinds: Sequence[str], batch: Batch, most: int = 1) -> int:
        """How many were claimed."""
        if not kinds:
            return 0
        claims = units.claim(session, self.owner, kinds, self._dsn, most=most, lease=self._settings.lease)
        self._trouble(None)
        for claim in claims:
            self._keeper.add(claim)
        batch.fill(claims)
        # Once the session is gone nothing more is begun: a unit that cannot be ended would only fail.
        while not self._stopping and not session.closed and (begun := batch.begin()):
            batch.ended(begun, self._run(session, begun))
        self._settle(session, batch)
        return len(claims)

    def _settle(self, session: Connection, batch: Batch) -> None:
        """Write down how units ended that are still ours; what another one has taken over is discarded."""
        endings = batch.take()
        if not endings:
            return
        crash_point("work.before_end")
        try:
            lost = units.end(session, endings)
        except BaseException:
            batch.put_back(endings)
            raise
        for claim, ending in endings:
            self._keeper.remove(claim)
            written = claim.written or ending
            if claim in lost:
                log.warning("lease lost", unit=claim.unit.id, epoch=claim.unit.epoch, kind=claim.unit.kind)
                self._tell(claim, ending, "lost")
            elif written is not UNTOUCHED:
                back = "retry" if written.counts else "handed back"
                self._tell(claim, written, back if written.status is Status.PENDING else str(written.status))

    def _tell(self, claim: Claim, ending: Ending, outcome: str) -> None:
        """Count how an attempt ended, for the tally and for those who watch."""
        self._count(outcome)
        told = outcome.replace(" ", "_")
        meters.attempt_ended(claim.unit.kind, claim.about, told, claim.seconds, ending.result)

    def _count(self, how: str) -> None:
        with self._lock:
            self.tally.ended[how] = self.tally.ended.get(how, 0) + 1

    # ---- one unit ------------------------------------------------------------------------------

    def _run(self, session: Connection, claim: Claim) -> Ending:
        """The job of a unit; whatever goes wrong in it becomes the unit's ending."""
        unit = claim.unit
        began = time.monotonic()
        self.tally.running[claim] = unit.kind
        told = {
            "unit": unit.id,
            "epoch": unit.epoch,
            "kind": unit.kind,
            "scope": unit.scope,
            "table": None,
            "plan": None,
        }
        with structlog.contextvars.bound_contextvars(**told):
            try:
                result = self._carry_out(session, claim)
            except (Halted, LeaseLost) as error:
                ending = Ending(Status.PENDING, error=error.message, counts=False)
            except ClocksDiffer as error:  # this machine's fault, not the unit's: another node may do it
                ending = Ending(Status.PENDING, error=_said(error), delay=_MOST_SKEW, counts=False)
            except TableGone as error:
                ending = Ending(Status.CANCELLED, error=_said(error))
            except Hopeless as error:
                ending = Ending(Status.FAILED, error=_said(error))
            except ThermoclineError as error:
                ending = self._after_failure(claim, _said(error))
            except Exception as error:  # one unit's failure is that unit's alone
                log.exception("unexpected")
                ending = self._after_failure(claim, masked(plain_text(f"{type(error).__name__}: {error}")))
            else:
                ending = Ending(Status.DONE, result=result)
            claim.seconds = time.monotonic() - began
            (log.info if ending.error is None else log.warning)(
                "unit ended",
                attempt=unit.attempt,
                seconds=round(claim.seconds, 3),
                outcome=str(ending.status),
                error=ending.error,
            )
            self.tally.running.pop(claim, None)
            if ending.error is not None:
                self.tally.last_error = ending.error
            return ending

    def _after_failure(self, claim: Claim, error: str) -> Ending:
        unit = claim.unit
        if unit.attempt >= unit.max_attempts:
            return Ending(Status.DEAD, error=error)
        return Ending(Status.PENDING, error=error, delay=backoff.wait_after(unit.attempt))

    def _carry_out(self, session: Connection, claim: Claim) -> dict[str, Any]:
        claim.check()  # it may have waited in its batch
        job = self._jobs[claim.unit.kind]
        target = self._target(session, claim)
        plan = job.plan(target, claim)
        crash_point("work.planned")
        number = self._store(session, job, plan, claim)
        crash_point("work.plan_stored")
        result: dict[str, Any] = plain(job.execute(plan, claim))
        if number is not None:
            session.execute(query("work_end_plan"), claim.names | {"plan": number, "outcome": Jsonb(result)})
        return result

    def _target(self, session: Connection, claim: Claim) -> Target:
        unit = claim.unit
        if unit.destructive:
            self._require_same_time(session)
        if unit.table is None:
            return Target()
        row = session.execute(query("work_target"), {"id": unit.table}).fetchone()
        if row is None:  # by whatever means: if they were not ours, it is still registered
            session.execute("SELECT lakets._reconcile(%s)", [unit.table])
            raise TableGone(f"The ChronoTable with the id {unit.table} was dropped while its {unit.kind} work waited.")
        claim.about = row[2]
        structlog.contextvars.bind_contextvars(table=row[2])
        return Target(unit.table, names.joined(row[0], row[1]), row[2])

    def _require_same_time(self, session: Connection) -> None:
        """Our own clock decides nothing, but one that is far off says that nobody looks after this machine."""
        before = self._wall_clock()
        row = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        skew = row[0] - (before + self._wall_clock()) / 2 if row else 0.0
        if abs(skew) > _MOST_SKEW:
            raise ClocksDiffer(f"The clock of this machine differs by {abs(skew):.0f} s from the database's.")

    def _store(self, session: Connection, job: Job, plan: Plan, claim: Claim) -> int | None:
        """Write the plan down before anything of it is done, as whoever owns the unit."""
        if not plan.lines or not (job.destructive or job.job_class):
            return None
        unit = claim.unit
        with session.transaction():
            claim.fence(session)
            values = {
                "id": unit.id,
                "epoch": unit.epoch,
                "kind": unit.kind,
                "table": unit.table,
                "object": plan.target.shown,
                "destructive": job.destructive,
                "policy": plan.policy,
                "lines": Jsonb(plan.stored),
            }
            row = session.execute(query("work_store_plan"), values).fetchone()
        number: int | None = row[0] if row else None
        structlog.contextvars.bind_contextvars(plan=number)
        return number


def _said(error: ThermoclineError) -> str:
    return masked(plain_text(f"{error.message} {error.next_step} ({error.code})"))
