"""Where a schedule is played: writers in sessions of their own, a feed that is killed, a server that crashes."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import TransactionStatus

from harness import feed_children
from harness.feed_children import Child, Outcome, Run
from harness.schedules import COPIED, SESSIONS, Act, Schedule, attached, chunk_name, day, enable
from harness.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.crash_servers import CrashServer
    from harness.lakes import Lake

# A writer that would wait for another gives up: the next act is what the other one does.
_LOCK_TIMEOUT = "40ms"
# To keep writers off, shadow mode waits for them for some seconds; here they end only after that.
_STATEMENT_TIMEOUT = "1500ms"
_ATTEMPTS = 10
_CHUNK = re.compile(r"\{(\w+)([+-]\d+)\}")
# How long the end of a schedule may take: locks of sessions that are about to end, feeds that come too early.
_SETTLED = 120
_BLOCKED = """
    SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'thermocline%' AND wait_event_type = 'Lock'
"""
# How a feed may fail when a crash hit the server, or when its predecessor's sessions live on for a moment.
_EXCUSED = ("busy:",)
_EXCUSED_BY_A_CRASH = ("hot.unreachable", "lake.catalog")
BURY = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'thermocline%'
"""


class Watcher:
    """Looks at the feed from a session of its own."""

    def __init__(self, lake: Lake) -> None:
        self._dsn = lake.dsn
        self._session: psycopg.Connection | None = None

    def is_blocked(self, seconds: float = 0.2) -> bool:
        """Whether the feed waits for a writer's transaction, which would be for an act that comes later."""
        try:
            if self._session is None:
                self._session = psycopg.connect(self._dsn, autocommit=True)
            for _ in range(round(seconds / 0.05)):
                if self._session.execute(_BLOCKED.encode()).fetchone() != (True,):
                    return False
                time.sleep(0.05)
        except psycopg.OperationalError:  # the server has crashed
            self.close()
            return False
        return True

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None


class ScheduleFailed(AssertionError):
    """Something that must hold does not."""


@dataclass
class Stage:
    """One schedule being played."""

    schedule: Schedule
    server: CrashServer
    lake: Lake
    prepare: Callable[[], None] | None = None
    """What every child of the feed does first."""
    trace: list[str] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    """Points at which a feed was really killed."""
    errors: list[Outcome] = field(default_factory=list)
    """How feeds failed that were neither killed nor excused."""

    def __post_init__(self) -> None:
        self._sessions: list[psycopg.Connection | None] = [None] * SESSIONS
        self._feed: tuple[Act, Child] | None = None
        self._overlap = 0
        self._chance = random.Random(self.schedule.seed)
        self._crashed = False
        self._hammers: list[threading.Thread] = []
        self._verdicts = Verdicts(self.lake, self.schedule.tables, self.schedule.is_altered)
        self._watcher = Watcher(self.lake)
        self._acts: dict[str, Callable[[Act], str]] = {
            "write": self._write,
            "end": self._end,
            "sync": self._sync,
            "alter": self._alter,
            "feed": self._start_feed,
            "crash": self._crash,
            "checkpoint": self._checkpoint,
            "audit": self._audit,
            "hammer": self._hammer,
        }

    def play(self) -> None:
        """Everything, then the end, then what must hold."""
        try:
            self.lake.run(*self.schedule.setup())
            for act in self.schedule.acts:
                self._do(act)
            self._finish()
        except Exception as error:
            raise ScheduleFailed(self.told(error)) from error
        finally:
            self._close()

    def told(self, error: BaseException) -> str:
        """The failure with everything that led to it."""
        lines = "\n".join(f"  {number:2} {line}" for number, line in enumerate(self.trace, 1))
        return f"{error}\nseed {self.schedule.seed} (--schedule-seed {self.schedule.seed} repeats it)\n{lines}"

    # ---- acts ----------------------------------------------------------------------------

    def _do(self, act: Act) -> None:
        if act.kind in ("feed", "audit"):
            self._await_feed()
        outcome = self._acts[act.kind](act)
        self.trace.append(f"{act}{f' -> {outcome}' if outcome else ''}")
        if self._feed:
            self._overlap -= act.kind != "feed"
            if self._overlap <= 0:
                self._await_feed()

    def _write(self, act: Act) -> str:
        session = self._session(act.session)
        try:
            for statement in act.statements:
                self._execute(session, statement)
            if act.how != "open":
                getattr(session, act.how)()
        except psycopg.Error as error:
            return self._undone(act.session, error)
        return ""

    def _end(self, act: Act) -> str:
        session = self._sessions[act.session]
        if session is None:
            return ""
        try:
            getattr(session, act.how)()
        except psycopg.Error as error:
            return self._undone(act.session, error)
        return ""

    def _undone(self, number: int, error: psycopg.Error) -> str:
        session = self._sessions[number]
        if session is not None and not session.broken:
            session.rollback()
        else:
            self._sessions[number] = None
        return type(error).__name__

    def _sync(self, act: Act) -> str:
        """Sync on or off, or a new column: tried until it gets its locks, or within some writer's transaction."""
        if act.how:
            return self._write(Act("write", act.session, act.statements, "open"))
        patience = _STATEMENT_TIMEOUT if any(self._sessions) else "1min"
        for _ in range(5):
            try:
                self._run_at_once(act.statements, patience)
                return ""
            except psycopg.errors.LockNotAvailable:
                time.sleep(0.02)
            except psycopg.errors.QueryCanceled:
                break
            except psycopg.errors.RaiseException as error:
                if "is unlogged" not in str(error):
                    raise
                return "refused: a chunk is unlogged"
        return "not done: locked"

    def _alter(self, act: Act) -> str:
        """Something that may not be possible now: a column that is not there, a chunk that is away."""
        try:
            return self._sync(act)
        except psycopg.DatabaseError as error:
            return f"not done: {type(error).__name__}"

    def _run_at_once(self, statements: tuple[str, ...], patience: str) -> None:
        """In one transaction, which waits for nobody's lock."""
        with psycopg.connect(self.lake.dsn) as session:
            self._execute(session, f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            self._execute(session, f"SET LOCAL statement_timeout = '{patience}'; SET LOCAL timezone = 'UTC'")
            for statement in statements:
                self._execute(session, statement)

    def _start_feed(self, act: Act) -> str:
        self._crashed = False
        child = Child(Run(self.lake.stack.settings, act.how, kill_at=act.kill_at, prepare=self.prepare))
        if act.kill_at is None and act.after is not None:
            child.kill_after(act.after)
        self._feed, self._overlap = (act, child), act.overlap
        return ""

    def _await_feed(self) -> None:
        if self._feed is None:
            return
        act, child = self._feed
        self._feed = None
        outcome = child.wait(until=self._watcher.is_blocked)
        if outcome.how == "killed" and act.kill_at:
            self.kills.append(act.kill_at.partition(":")[0])
        self.trace.append(f"    the feed ({act.how}) ended: {outcome}")
        if outcome.how == "killed" and self._chance.random() < 0.8:
            self._bury()
        excused = _EXCUSED + (_EXCUSED_BY_A_CRASH if self._crashed else ())
        if outcome.how == "failed" and not outcome.code.startswith(excused):
            self.errors.append(outcome)
            if not self._crashed:
                raise ScheduleFailed(f"the feed failed: {outcome}")
        self._verdicts.sample()

    def _bury(self) -> None:
        """End the sessions of a feed that was killed: one that waits for a lock does not see that nobody listens."""
        self.lake.run(BURY)

    def _crash(self, act: Act) -> str:
        self._stop_hammers()
        self._crashed = True
        self.server.crash_and_recover(act.after or 0)
        for number, session in enumerate(self._sessions):
            if session is not None:
                session.close()
                self._sessions[number] = None
        return ""

    def _checkpoint(self, _act: Act) -> str:
        self.lake.run("CHECKPOINT")
        return ""

    def _audit(self, _act: Act) -> str:
        """Covered chunks must be exact now, with transactions open and other chunks not covered."""
        self._stop_hammers()
        self._flush()
        child = Child(Run(self.lake.stack.settings, "drain", prepare=self.prepare))
        outcome = child.wait(until=lambda: self._watcher.is_blocked(2))
        if outcome.how == "killed":  # somebody's open transaction is in its way
            self._bury()
        if outcome.how != "done":
            return f"not done: {outcome}"
        return f"{self._verdicts.require_covered_chunks_exact()} chunks exact"

    def _hammer(self, act: Act) -> str:
        """A writer beside everything else: small transactions as fast as it can."""
        chance = random.Random(f"{self.schedule.seed} {len(self.trace)}")
        thread = threading.Thread(target=self._hammering, args=(act.how, act.after, chance))
        thread.start()
        self._hammers.append(thread)
        return ""

    def _hammering(self, table: str, seconds: float, chance: random.Random) -> None:
        until = time.monotonic() + seconds
        try:
            with psycopg.connect(self.lake.dsn, autocommit=True) as session:
                session.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'; SET timezone = 'UTC'".encode())
                while time.monotonic() < until:
                    at = f"date_trunc('day', now()) + interval '{chance.randint(-47, 30)} hours'"
                    statement = chance.choice(
                        [
                            f"INSERT INTO {table} VALUES ({at}, NULL, 1, 'hammer')",
                            f"INSERT INTO {table} VALUES ({at}, NULL, 2, 'hammer'), ({at}, NULL, 2, 'hammer')",
                            f"UPDATE {table} SET v = v + 1 WHERE id IS NULL AND ts >= {at}",
                            f"DELETE FROM {table} WHERE id IS NULL AND ts < {at}",
                        ]
                    )
                    try:
                        session.execute(statement.encode())
                    except psycopg.errors.LockNotAvailable:
                        continue
        except psycopg.Error:  # the server crashed, or the chunk is not there
            return

    # ---- the end -------------------------------------------------------------------------

    def _finish(self) -> None:
        self._stop_hammers()
        self._await_feed()
        for number, session in enumerate(self._sessions):
            if session is not None:
                self._do(Act("end", number, how=self._chance.choice(["commit", "rollback"])))
        give_up_at = time.monotonic() + _SETTLED
        self._put_back(give_up_at)
        for table, mode in zip(self.schedule.tables, self.schedule.modes, strict=True):
            self._enable(table, mode, give_up_at)
        self._drain(give_up_at)
        self._verdicts.require_all()

    def _put_back(self, give_up_at: float) -> None:
        """Chunks that are away, or not logged, are what they were."""
        done = [statement for act in self.schedule.acts if act.kind == "alter" for statement in act.statements]
        for statement in done:
            if found := re.fullmatch(r"ALTER TABLE (\w+) DETACH PARTITION (\S+)", statement):
                self._insist(attached(*found.groups()), give_up_at, psycopg.errors.WrongObjectType)
            elif statement.endswith("SET UNLOGGED"):
                self._insist(statement.replace("UNLOGGED", "LOGGED"), give_up_at)

    def _enable(self, table: str, mode: str, give_up_at: float) -> None:
        """As it is to be at last."""
        self._insist(enable(table, mode), give_up_at)

    def _insist(self, statement: str, give_up_at: float, done: type[psycopg.Error] | tuple[()] = ()) -> None:
        """As soon as the sessions of the last feed, which may hold locks, have ended."""
        while True:
            try:
                self._run_at_once((statement,), "1min")
                break
            except done:
                return
            except psycopg.errors.LockNotAvailable as error:
                if time.monotonic() > give_up_at:
                    raise ScheduleFailed(f"a lock stays: {statement}") from error
                time.sleep(0.02)
        self.trace.append(f"at last {statement}")

    def _drain(self, give_up_at: float) -> None:
        """Until everything is in the lake and every chunk is covered; nothing may fail any more."""
        self._flush()
        outcome = Outcome("none")
        for attempt in itertools.count(1):
            outcome = feed_children.run(Run(self.lake.stack.settings, "drain", prepare=self.prepare))
            if outcome.how == "done" and outcome.caught_up and not self._verdicts.uncovered():
                return
            if outcome.how == "done" and (table := self._verdicts.refused_to_guess()):
                self._insist(f"SELECT lakets.resync('{table}')", give_up_at)
            if outcome.how == "failed" and not outcome.is_busy:
                raise ScheduleFailed(f"the last feed failed: {outcome}")
            if attempt >= _ATTEMPTS and time.monotonic() > give_up_at:
                break
            time.sleep(0.05)
        raise ScheduleFailed(f"the last feed does not get everything ({outcome}): {self._verdicts.uncovered()}")

    def _flush(self) -> None:
        """Everything that is committed is on the disk: the feed reads nothing else."""
        self.lake.run("SELECT pg_logical_emit_message(true, 'test', 'flush')")

    # ---- small ---------------------------------------------------------------------------

    def _session(self, number: int) -> psycopg.Connection:
        session = self._sessions[number]
        if session is None or session.broken:
            session = psycopg.connect(self.lake.dsn)
            session.execute(
                f"SET lock_timeout = '{_LOCK_TIMEOUT}'; SET statement_timeout = '{_STATEMENT_TIMEOUT}';"
                " SET timezone = 'UTC'".encode()
            )
            session.commit()
            self._sessions[number] = session
        return session

    def _execute(self, session: psycopg.Connection, statement: str) -> None:
        if statement.startswith("SET TRANSACTION") and session.info.transaction_status != TransactionStatus.IDLE:
            return  # it can be said at the beginning only
        statement = _CHUNK.sub(lambda found: chunk_name(found[1], int(found[2])), statement)
        if statement.startswith("COPY "):
            _, table, first = statement.split()
            with session.cursor().copy(f"COPY {table} (ts, id, v, tag) FROM STDIN".encode()) as copy:
                for row in range(COPIED):
                    copy.write_row((day(-1) + timedelta(hours=row * 2), int(first) + row, row / 3, "copied"))
            return
        session.execute(statement.encode())

    def _stop_hammers(self) -> None:
        for thread in self._hammers:
            thread.join()
        self._hammers.clear()

    def _close(self) -> None:
        if self._feed:
            self._feed[1].kill()
            self._feed[1].wait()
        self._watcher.close()
        self._stop_hammers()
        for session in self._sessions:
            if session is not None:
                session.close()
