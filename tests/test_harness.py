"""The harness itself: a waiting session is seen waiting, a kill is a kill, a clock stands still."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import psycopg
import pytest

from harness.clock import FrozenClock
from harness.sessions import Session


def test_a_writer_held_open_makes_another_wait_for_its_lock(dsn: str) -> None:
    with psycopg.connect(dsn) as setup:
        setup.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        setup.execute("INSERT INTO t VALUES (1, 0)")
    with Session(dsn) as first, Session(dsn) as second:
        first.run("UPDATE t SET n = n + 1 WHERE id = 1")
        waiting = second.start("UPDATE t SET n = n + 10 WHERE id = 1 RETURNING n")
        second.wait_until_blocked()
        assert not waiting.done()
        first.commit()
        assert waiting.result(timeout=60) == [(11,)]
        second.rollback()
        assert first.run("SELECT n FROM t") == [(1,)]


def test_a_session_that_never_waits_is_told_so(dsn: str) -> None:
    with Session(dsn) as session, pytest.raises(AssertionError, match="never waited"):
        session.wait_until_blocked(seconds=0.2)


def test_a_test_does_not_see_what_another_wrote(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        row = session.execute("SELECT to_regclass('public.t'), to_regclass('lakets._version')").fetchone()
    assert row == (None, "lakets._version")


@pytest.mark.parametrize(("at", "says"), [("here", ""), ("here:2", "1"), ("elsewhere", "1 2")])
def test_a_process_dies_at_the_named_point_and_pass(at: str, says: str) -> None:
    program = (
        "from thermocline.crash import crash_point\n"
        "crash_point('here'); print(1, flush=True); crash_point('here'); print(2, flush=True)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env={"THERMOCLINE_KILL_AT": at}, capture_output=True, text=True
    )
    assert ended.stdout.split() == says.split()
    assert ended.returncode == (0 if at == "elsewhere" else -9)


def test_the_frozen_clock_moves_only_when_told() -> None:
    clock = FrozenClock()
    before = clock()
    assert clock() == before
    clock.advance(hours=2)
    assert clock() - before == timedelta(hours=2)
