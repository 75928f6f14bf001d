"""A table of readings of devices, still a plain one, and its conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def orders(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE device (id int PRIMARY KEY)")
    db.execute("INSERT INTO device SELECT generate_series(1, 9)")
    db.execute("CREATE TABLE reading (ts timestamptz, device int, v float8) WITH (fillfactor = 70)")
    db.execute("INSERT INTO reading SELECT now() - g * interval '6 h', 1 + g % 9, g FROM generate_series(0, 39) g")


def convert(db: psycopg.Connection) -> None:
    db.execute("SELECT lakets.create_chronotable('reading', 'ts', '1 day')")
