"""Bulk reads: what the driver learns of a database is learned once, and nothing that is made later is missed by it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from thermocline.errors import Unreachable
from thermocline.hot import bulk, rows

if TYPE_CHECKING:
    from collections.abc import Iterator


# A type of the user's, in the form of an int4.
_OWN_NUMBER = """
    CREATE TYPE own;
    CREATE FUNCTION own_in(cstring) RETURNS own LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
    CREATE FUNCTION own_out(own) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
    CREATE FUNCTION own_recv(internal) RETURNS own LANGUAGE internal IMMUTABLE STRICT AS 'int4recv';
    CREATE FUNCTION own_send(own) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
    CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, RECEIVE = own_recv, SEND = own_send, LIKE = int4);
"""


def _all(dsn: str, query: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pa.Table.from_batches(list(bulk.stream(dsn, query))).to_pylist()
    return found


def test_types_and_tables_made_after_the_first_read_are_read(dsn: str) -> None:
    assert _all(dsn, "SELECT 1 AS one") == [{"one": 1}]
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE DOMAIN share AS float8 CHECK (VALUE <= 1)")
        session.execute(_OWN_NUMBER)
        session.execute("CREATE TABLE later (m mood, s share, p own, t timestamptz, n numeric(8, 2), u uuid, a mood[])")
        session.execute(
            "INSERT INTO later VALUES ('high', 0.5, '7', '2026-03-01 00:00+00', 12.5,"
            " '00000000-0000-0000-0000-000000000001', '{low,high}')"
        )
        oid = session.execute("SELECT 'later'::regclass::oid").fetchone()
        assert oid
        columns = rows.columns_of(session, oid[0])
    (found,) = pa.concat_tables(rows.read(dsn, "later", columns)).to_pylist()
    assert (found["m"], found["s"], found["p"], found["a"]) == ("high", 0.5, "7", "{low,high}")
    assert str(found["n"]) == "12.50"
    assert found["t"].isoformat() == "2026-03-01T00:00:00+00:00"


def test_the_catalog_is_read_once_in_a_process(dsn: str) -> None:
    bulk._database.cache_clear()
    for number in range(5):
        assert _all(dsn, f"SELECT {number} AS n") == [{"n": number}]
    assert bulk._database.cache_info().misses == 1


def test_a_reader_keeps_what_others_push_out(dsn: str) -> None:
    """More addresses than are kept, each still being read from while the next ones come."""

    def reading(number: int) -> Iterator[pa.RecordBatch]:
        chosen = f"{dsn} options='-c work_mem={64 + number}kB'"
        return bulk.stream(chosen, f"SELECT {number} AS n, repeat('x', 1000) AS t FROM generate_series(1, 40000)")

    readers = [reading(number) for number in range(12)]
    firsts = [next(reader) for reader in readers]
    for number, (first, reader) in enumerate(zip(firsts, readers, strict=True)):
        rest = list(reader)
        assert first.num_rows + sum(batch.num_rows for batch in rest) == 40_000
        assert {n for batch in [first, *rest] for n in batch.column(0).unique().to_pylist()} == {number}


def test_many_threads_read_at_once(dsn: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: _all(dsn, f"SELECT {n} AS n"), range(40)))
    assert found == [[{"n": n}] for n in range(40)]


def test_no_session_stays_behind(dsn: str) -> None:
    _all(dsn, "SELECT 1 AS one")
    with psycopg.connect(dsn, autocommit=True) as session:
        for _ in range(100):
            rest = session.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name"
                " = 'thermocline bulk'"
            ).fetchone()
            if rest == (0,):
                return
            session.execute("SELECT pg_sleep(0.05)")
    pytest.fail("a session of a bulk read is still open")


def test_a_server_that_is_not_there_is_named_and_asked_again(dsn: str) -> None:
    nobody = f"{dsn} port=1"
    for _ in range(2):
        with pytest.raises(Unreachable, match=r"port 1\b|:1\b"):
            _all(nobody, "SELECT 1")
    assert _all(dsn, "SELECT 2 AS two") == [{"two": 2}]
