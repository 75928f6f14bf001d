"""What the documents behind the promises print runs as printed, and answers what they say it does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.transcripts import answer, in_the_words_of, steps

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, options="-c timezone=UTC", autocommit=True) as opened:
        yield opened


@pytest.fixture
def sensor_data(session: psycopg.Connection) -> Iterator[None]:
    """50,000 rows, ten seconds apart, as a file where the server looks for a relative path."""
    row = session.execute("SHOW data_directory").fetchone()
    folder = Path(row[0] if row else "")
    if not folder.is_dir():
        pytest.skip("the server is on another machine")
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=6)
    file = folder / "sensor_data.csv"
    file.write_text("".join(f"{first + timedelta(seconds=10 * n)}\t{n % 100}\n" for n in range(50_000)), "utf-8")
    yield
    file.unlink()


def run(session: psycopg.Connection, document: str) -> None:
    text = (Path(__file__).parent / f"{document}.sql").read_text("utf-8")
    for step in steps(text):
        assert in_the_words_of(step.said, answer(session, step.statement)) == step.said, step.statement


@pytest.mark.promise("000-06", "000-10", "000-12", "000-13", "000-21", "000-24", "000-25", "000-26", "000-28")
@pytest.mark.promise("000-30", "000-32")
def test_tiering_and_retention(session: psycopg.Connection) -> None:
    run(session, "000")


@pytest.mark.promise("004-01", "004-08", "004-17", "004-31", "004-32", "004-33", "004-34", "004-38")
@pytest.mark.usefixtures("sensor_data")
def test_rollups(session: psycopg.Connection) -> None:
    run(session, "004_hot")


def test_the_literal_that_the_document_prints_is_a_time_to_postgresql(session: psycopg.Connection) -> None:
    assert answer(session, "SELECT now() - '7 days'") == [
        'error: invalid input syntax for type timestamp with time zone: "7 days"'
    ]
