"""The feed as a process of its own, cheap enough to be killed by the hundred.

A fork server imports everything once and opens nothing; each child opens its own connections.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thermocline import crash
from thermocline.errors import Busy, ThermoclineError
from thermocline.feed import batches
from thermocline.feed.pacing import Pace, Waiting
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from typing import Self

    from thermocline.config import Settings
    from thermocline.feed.feed import Feed

_CONTEXT = multiprocessing.get_context("forkserver")
# By name: the fork server imports them before it forks, and that is all that it does.
_CONTEXT.set_forkserver_preload(
    [
        "thermocline.stack",
        "thermocline.feed.feed",
        "thermocline.feed.batches",
        "thermocline.feed.resync",
        "thermocline.gate.late",
        "thermocline.gate.lifecycle",
        "thermocline.gate.rehydrate",
        "thermocline.lake.durable_io",
        "pyiceberg.catalog.sql",
        "pyiceberg.io.pyarrow",
        "psycopg.types.numeric",
        "sqlalchemy.dialects.postgresql.psycopg",
        "pyarrow.acero",
        "pyiceberg.avro.decoder_fast",
        "pyiceberg_core.transform",
    ]
)
_PATIENCE = 120


@dataclass(frozen=True)
class Run:
    """What a child is to do, and how it is to end."""

    settings: Settings
    mode: str = "drain"
    """drain, steps, turns, tend, serve or resync"""
    kill_at: str | None = None
    seconds: float = 0.4
    """How long it serves."""
    prepare: Callable[[], None] | None = field(default=None)
    """Runs in the child before anything else: a limit, a sabotage."""
    work: Callable[[Settings], str] | None = field(default=None)
    """What it does instead of the feed's work; what comes of it is told."""


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    how: str
    """done, killed or failed"""
    code: str = ""
    told: str = ""
    caught_up: bool = False
    is_clear: bool = False
    """Whether an error is one of the product's own, or one of the disk's, which the command tells in its own words."""

    def __str__(self) -> str:
        said = f" {self.code}: {self.told}" if self.how == "failed" else f" {self.told}" if self.told else ""
        return f"{self.how}{said}"

    @property
    def is_busy(self) -> bool:
        """Whether trying again is all there is to do: a dead feed's session may live on for a moment."""
        return self.how == "failed" and self.code.startswith("busy:")


class Child:
    """A feed that runs."""

    def __init__(self, run: Run) -> None:
        self._receiver, sender = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_main, args=(run, sender), daemon=True)
        self._process.start()
        sender.close()
        self._timer: threading.Timer | None = None
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def kill(self) -> None:
        """SIGKILL, if it still lives."""
        self._process.kill()

    def kill_after(self, seconds: float) -> None:
        """SIGKILL after a while; what it does at that time is nobody's plan."""
        self._timer = threading.Timer(seconds, self.kill)
        self._timer.start()

    def wait(self, seconds: float = _PATIENCE, until: Callable[[], bool] | None = None) -> Outcome:
        """Its end. It is killed when `until` comes true; that it does not end at all is an error."""
        deadline = time.monotonic() + seconds
        hung = False
        while self._process.exitcode is None and not hung:
            self._process.join(0.25 if until else seconds)
            hung = time.monotonic() > deadline and self._process.exitcode is None
            if hung or (until and self._process.exitcode is None and until()):
                self._process.kill()
                self._process.join()
        if self._timer:
            self._timer.cancel()
            self._timer.join()
        code, told = self._process.exitcode, None
        if self._receiver.poll():
            try:
                told = self._receiver.recv()
            except EOFError:
                told = None
        self._receiver.close()
        self._process.close()
        if hung:
            return Outcome("failed", "hung", f"no end within {seconds} s")
        if code == -signal.SIGKILL:
            return Outcome("killed")
        return told or Outcome("failed", "died", f"exit code {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._receiver.closed:
            self.kill()
            self.wait()


def warm_up() -> None:
    """Let the fork server import everything, so that the first child is as fast as the others."""
    child = _CONTEXT.Process(target=os.getpid)
    child.start()
    child.join()


def run(what: Run, seconds: float = _PATIENCE) -> Outcome:
    """Run a child to its end."""
    return Child(what).wait(seconds)


def run_in_turn(what: Run) -> Outcome:
    """Run a child to its end, once the sessions of one that was killed before it have ended."""
    give_up_at = time.monotonic() + _PATIENCE
    while (outcome := run(what)).is_busy and time.monotonic() < give_up_at:
        time.sleep(0.05)
    return outcome


# ---- in the child ----------------------------------------------------------------------------


def _main(what: Run, out: Connection) -> None:
    gc.freeze()  # what was imported before the fork is not looked through again and again
    os.environ.pop(crash.VARIABLE, None)
    if what.kill_at:
        os.environ[crash.VARIABLE] = what.kill_at
    try:
        if what.prepare:
            what.prepare()
        if what.work:
            out.send(Outcome("done", told=what.work(what.settings)))
            return
        caught_up = _MODES[what.mode](what)
        out.send(Outcome("done", caught_up=caught_up))
    except ThermoclineError as error:
        code = f"busy:{error.code}" if isinstance(error, Busy) else error.code
        out.send(Outcome("failed", code, error.message, is_clear=True))
    except Exception as error:  # the test is told, whatever it is
        told = (str(error).strip().splitlines() or [""])[0]
        out.send(Outcome("failed", type(error).__name__, told, is_clear=isinstance(error, OSError)))


def _drain(what: Run) -> bool:
    with Stack(what.settings).own_feed() as feed:
        return feed.drain().caught_up


def _steps(what: Run) -> bool:
    with Stack(what.settings).own_feed() as feed:
        for _ in range(3):
            feed.step()
    return False


def _turns(what: Run) -> bool:
    """Batches of one table each, as if no other were due."""
    with Stack(what.settings).own_feed() as feed:
        for turn in range(4):
            if tables := [state.table.id for state in feed.ledger.tables()]:
                feed.step({tables[turn % len(tables)]})
    return False


def _tend(what: Run) -> bool:
    with Stack(what.settings).own_feed() as feed:
        return feed.tend().caught_up


def _resync(what: Run) -> bool:
    stack = Stack(what.settings)
    stack.resync_feed()
    return _drain(what)


def _serve(what: Run) -> bool:
    """As the service does: batches in one thread, joins and copies in another."""
    stop = threading.Event()
    failures: list[BaseException] = []
    pace = Pace(what.settings.feed.interval, what.settings.feed.window_mb << 20)
    began = time.monotonic()  # times are counted from here, so that no full hour falls into it by chance
    with Stack(what.settings).own_feed() as feed:

        def carry() -> None:
            try:
                while not stop.wait(0.005):
                    _batch(feed, pace, time.monotonic() - began)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=carry)
        thread.start()
        try:
            until = time.monotonic() + what.seconds
            while time.monotonic() < until and not failures:
                feed.tend()
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join()
    if failures:
        raise failures[0]
    return False


def _batch(feed: Feed, pace: Pace, now: float) -> None:
    """One batch, planned from outside of the feed as Spark's source does."""
    with connect(feed.dsn) as session:
        row = session.execute(query("feed_waiting")).fetchone()
    due = pace.next(Waiting.told(row), now) if row else None
    stream = feed.ledger.stream()
    if due is None or stream is None:
        return
    reading, targets = feed.reading(stream, due.end)
    feed.settle(batches.carry(reading.upto(due.end, due.tables), targets))


_MODES: dict[str, Any] = {
    "drain": _drain,
    "steps": _steps,
    "turns": _turns,
    "tend": _tend,
    "serve": _serve,
    "resync": _resync,
}
