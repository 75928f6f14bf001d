"""Tables for the gate's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gate.metrics import Metrics, metrics_table

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def metrics(dsn: str) -> Iterator[Metrics]:
    """A synced table, its chunks copied, without receipts."""
    with metrics_table(dsn) as table:
        yield table


@pytest.fixture
def plain(dsn: str) -> Iterator[Metrics]:
    """The same table, not synced."""
    with metrics_table(dsn, synced=False) as table:
        yield table
