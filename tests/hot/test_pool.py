"""The pool of a node's sessions: bounded, kept, and as new for whoever is next."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask, one
from harness.roles import role
from thermocline.errors import Busy, Refused, Unreachable
from thermocline.hot.connection import connect
from thermocline.hot.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator

_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'thermocline'"
)


@pytest.fixture
def pool(dsn: str) -> Iterator[Pool]:
    with Pool(dsn, 3, timeout=1) as pool, pool.lent():
        yield pool


def backend(dsn: str) -> int:
    with connect(dsn) as session:
        return session.info.backend_pid


@pytest.mark.usefixtures("pool")
def test_one_after_the_other_share_a_session_and_two_at_once_do_not(db: psycopg.Connection, dsn: str) -> None:
    first = backend(dsn)
    assert backend(dsn) == first
    with connect(dsn) as outer:
        assert outer.info.backend_pid == first
        assert backend(dsn) != first
    assert one(db, _SESSIONS) == 2


@pytest.mark.usefixtures("pool")
def test_a_block_that_ends_well_is_committed_and_another_one_is_not(db: psycopg.Connection, dsn: str) -> None:
    with connect(dsn) as session:
        session.execute("CREATE TABLE kept (n int)")
    with pytest.raises(ZeroDivisionError), connect(dsn) as session:
        session.execute("INSERT INTO kept VALUES (1)")
        raise ZeroDivisionError
    with pytest.raises(Refused, match="no row"), connect(dsn) as session:
        session.execute("INSERT INTO kept VALUES (2)")
        session.execute("DO $$ BEGIN RAISE 'no row'; END $$")
    with connect(dsn, autocommit=True) as session:
        session.execute("INSERT INTO kept VALUES (3)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), connect(dsn) as session:
        session.execute("ALTER TABLE kept ADD PRIMARY KEY (n)")
        session.execute("CREATE TABLE child (n int REFERENCES kept DEFERRABLE INITIALLY DEFERRED)")
        session.execute("INSERT INTO child VALUES (4)")  # refused by the commit
    assert ask(db, "SELECT n FROM kept") == [(3,)]
    assert one(db, _SESSIONS) == 1


@pytest.mark.usefixtures("pool")
def test_what_the_last_one_did_to_a_session_is_undone(db: psycopg.Connection, dsn: str) -> None:
    with connect(dsn, autocommit=True) as session:
        first = session.info.backend_pid
        for statement in (
            "CREATE ROLE somebody_else_of_the_pool",
            "SET statement_timeout = '5min'",
            "SET timezone = 'Asia/Tokyo'",
            "SELECT pg_advisory_lock(77)",
            "CREATE TEMP TABLE mine (n int)",
            "LISTEN heard",
            "SELECT set_config('transaction_timeout', '5min', false)"
            " WHERE current_setting('server_version_num')::int >= 170000",
        ):
            session.execute(statement.encode())
        for _ in range(8):  # prepared by the driver by now
            session.execute("SELECT %s::int", [1])
        session.execute("SET ROLE somebody_else_of_the_pool")
    try:
        with connect(dsn) as session:
            assert session.info.backend_pid == first
            row = session.execute(
                "SELECT current_setting('statement_timeout'), current_setting('transaction_timeout', true),"
                " current_user = session_user, to_regclass('mine'), (SELECT count(*) FROM pg_listening_channels()),"
                " current_setting('datestyle')"
            ).fetchone()
            assert row is not None
            assert row[0] == "0"
            assert row[1] in ("0", None)
            assert row[2:] == (True, None, 0, "ISO, MDY")
            assert session.execute("SHOW timezone").fetchone() != ("Asia/Tokyo",)
            assert session.execute("SELECT %s::int", [2]).fetchone() == (2,)
            assert one(db, "SELECT pg_try_advisory_lock(77)")
    finally:
        ask(db, "DROP ROLE somebody_else_of_the_pool")


def test_a_role_that_is_set_at_login_is_there_again(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "pool_login") as own, role(dsn, "pool_worn"):
        ask(db, "GRANT pool_worn TO pool_login")
        ask(db, "ALTER ROLE pool_login SET role = 'pool_worn'")
        with Pool(own, 1) as pool, pool.lent():
            for _ in range(2):
                with connect(own, autocommit=True) as session:
                    assert session.execute("SELECT current_user::text").fetchone() == ("pool_worn",)
                    session.execute("SET ROLE pool_login")


@pytest.mark.usefixtures("pool")
def test_a_session_that_was_ended_or_is_in_the_middle_of_something_is_not_used_again(
    db: psycopg.Connection, dsn: str
) -> None:
    first = backend(dsn)
    assert one(db, "SELECT pg_terminate_backend(%s, 10000)", first)
    second = backend(dsn)
    assert second != first
    with pytest.raises(Unreachable), connect(dsn) as session:
        ask(db, "SELECT pg_terminate_backend(%s, 10000)", second)
        session.execute("SELECT 1")
    third = backend(dsn)
    assert third not in (first, second)
    rows = "COPY (SELECT generate_series(1, 1000000)) TO STDOUT"
    with pytest.raises(ZeroDivisionError), connect(dsn) as session, session.cursor().copy(rows) as copy:
        assert copy.read()
        raise ZeroDivisionError
    with connect(dsn) as session:
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_there_are_never_more_than_so_many(db: psycopg.Connection, pool: Pool, dsn: str) -> None:
    waiters: list[int] = []

    def lent() -> None:
        with pool.lent():
            waiters.append(backend(dsn))

    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(connect(dsn))
        with pytest.raises(Busy, match="All 3 sessions that this node may have"), connect(dsn):
            pass
        assert one(db, _SESSIONS) == 3
        waited = threading.Thread(target=lent)
        waited.start()
    waited.join(30)
    assert len(waiters) == 1, "it got one that was given back"
    assert one(db, _SESSIONS) == 3


def test_what_nobody_needs_for_a_while_ends_and_all_end_with_the_pool(db: psycopg.Connection, dsn: str) -> None:
    with Pool(dsn, 3) as pool:
        with pool.lent(), connect(dsn), connect(dsn):
            pass
        pool.trim()
        assert one(db, _SESSIONS) == 2
        pool.trim(0)
        _until_none(db)
        with pool.lent(), connect(dsn) as session:
            pool.close()
            assert session.execute("SELECT 1").fetchone() == (1,), "what is lent ends when it comes back"
        _until_none(db)


def _until_none(db: psycopg.Connection) -> None:
    deadline = time.monotonic() + 30
    while one(db, _SESSIONS):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_threads_and_other_addresses_have_their_own(pool: Pool, dsn: str) -> None:
    ours = backend(dsn)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(backend(dsn)))
    thread.start()
    thread.join()
    assert found != [ours]
    assert backend(f"{dsn} connect_timeout=9") != ours
    assert backend(pool.dsn) == ours


def test_why_there_is_no_session_is_told_as_ever() -> None:
    nobody = "postgresql://somebody@127.0.0.1:1/nothing"
    with Pool(nobody, 1) as pool, pool.lent():
        for _ in range(2):  # and the place is free again
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/nothing cannot be reached"), connect(nobody):
                pass
