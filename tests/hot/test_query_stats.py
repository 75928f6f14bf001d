"""lakets.query_stats with pg_stat_statements: on the machine's own server, as the embedded one does not carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask
from harness.roles import role
from harness.system_server import SystemServer, binaries
from thermocline.hot.install import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.servers import Server

PROGRAMS = binaries("pg_stat_statements")
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="no PostgreSQL with pg_stat_statements on this machine")

ASKED = "SELECT n AS near FROM generate_series(1, 7) n"
FOUND = "SELECT calls, rows_returned FROM lakets.query_stats(1000) WHERE query LIKE %s"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> SystemServer:
    assert PROGRAMS is not None
    folder: Path = tmp_path_factory.mktemp("system")
    return SystemServer(PROGRAMS, folder)


@pytest.fixture
def counting(own: SystemServer) -> Iterator[Server]:
    """With the library loaded; the extension is in a schema of its own, where it may be."""
    with own.running(shared_preload_libraries="pg_stat_statements") as server:
        yield server


def made(server: Server) -> psycopg.Connection:
    session = psycopg.connect(server.dsn, autocommit=True)
    install(server.dsn)
    session.execute("CREATE SCHEMA IF NOT EXISTS measures")
    session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA measures")
    return session


def test_the_extension_without_its_library_shows_nothing(own: SystemServer) -> None:
    with own.running() as server, made(server) as session:
        assert ask(session, "SELECT * FROM lakets.query_stats()") == []


def test_statements_are_shown_with_what_they_took(counting: Server) -> None:
    with made(counting) as session:
        session.execute("SELECT measures.pg_stat_statements_reset()")
        for _ in range(3):
            session.execute(ASKED)
        session.execute("SELECT pg_sleep(1)")
        shown = ask(session, "SELECT query, calls, total_time_ms, mean_time_ms FROM lakets.query_stats()")
        assert shown[0][0] == "SELECT pg_sleep($1)"
        assert shown[0][2] >= 1000
        assert ask(session, FOUND, "%AS near FROM%") == [(3, 21)]
        assert [row[2] for row in shown] == sorted((row[2] for row in shown), reverse=True)
        assert all(total == pytest.approx(calls * mean) for _, calls, total, mean in shown)
        assert len(ask(session, "SELECT * FROM lakets.query_stats(1)")) == 1
        assert ask(session, "SELECT * FROM lakets.query_stats(0)") == []


def test_statements_of_other_databases_are_not_shown(counting: Server) -> None:
    with made(counting) as session, counting.database() as elsewhere:
        session.execute("SELECT measures.pg_stat_statements_reset()")
        with psycopg.connect(elsewhere) as other:
            other.execute("SELECT n AS far FROM generate_series(1, 7) n")
        assert ask(session, FOUND, "%AS far FROM%") == []


def test_who_may_not_read_the_statistics_gets_none_and_no_error(counting: Server) -> None:
    with made(counting) as session:
        session.execute(ASKED)
        with role(counting.dsn, "closed_out", "", "GRANT lakets_read TO {role}") as address:
            with psycopg.connect(address) as viewer:
                assert ask(viewer, "SELECT * FROM lakets.query_stats()") == [], "the schema is closed"
            session.execute("GRANT USAGE ON SCHEMA measures TO closed_out")
            with psycopg.connect(address) as viewer:
                texts = {query for (query,) in ask(viewer, "SELECT query FROM lakets.query_stats(1000)")}
                assert "<insufficient privilege>" in texts
                assert not any("AS near" in text for text in texts)
            session.execute("GRANT pg_read_all_stats TO closed_out")
            with psycopg.connect(address) as viewer:
                assert ask(viewer, FOUND, "%AS near FROM%")
