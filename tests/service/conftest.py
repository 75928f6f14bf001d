"""A session for the tests of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    """A session in UTC on the test's database, each statement its own transaction."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        yield session
