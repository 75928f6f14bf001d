"""A feed that has come to the end of the log, without one: for what is to be said of the lake itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lakes import Lake


@contextmanager
def as_if_fed(lake: Lake) -> Iterator[None]:
    """While the block lasts, nobody waits for a feed, so that whoever compares comes to look at the lake."""
    ((was,),) = lake.run("SELECT committed_lsn::text FROM thermocline.synced_table")
    lake.run("UPDATE thermocline.synced_table SET committed_lsn = pg_current_wal_insert_lsn() + 100000000")
    try:
        yield
    finally:
        lake.run(f"UPDATE thermocline.synced_table SET committed_lsn = '{was}'")
