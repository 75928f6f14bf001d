"""A table that joins while others have transactions open, and whose copy is killed halfway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake
from harness.trials import run
from harness.verdicts import History
from thermocline.feed import copying
from thermocline.feed import feed as feeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


COPIES = "SELECT count(*) FROM thermocline.chunk_copy WHERE chronotable_id = lakets._chronotable_id('m', 'public')"


@pytest.fixture
def lake(crashing_dsn: str, tmp_path: Path) -> Iterator[Lake]:
    found = Lake.of(crashing_dsn, tmp_path / "home").with_days()
    yield found
    for (name,) in found.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"):
        found.run(f"ROLLBACK PREPARED '{name}'")


def test_g4_a_transaction_that_was_prepared_before_a_table_joined_is_waited_for(lake: Lake) -> None:
    lake.with_days(table="n").run("SELECT lakets.enable_sync('n')")
    lake.drain()  # the slot waits for open transactions, too: it is there before
    lake.run(f"BEGIN; INSERT INTO m VALUES ('{NOON[1]}', 1000, 1); PREPARE TRANSACTION 'before_{id(lake)}'")
    lake.synced()
    with lake.feed() as feed:
        for _ in range(2):
            progress = feed.drain()
            assert progress.joining == ("public.m",)
            assert lake.run(COPIES) == [(0,)]
        lake.run(f"COMMIT PREPARED 'before_{id(lake)}'")
        for _ in range(3):
            progress = feed.drain()
        assert progress.caught_up
        lake.assert_same()
        assert 1000 in {row[1] for row in lake.folded()}


@pytest.mark.parametrize("ends", ["COMMIT PREPARED", "ROLLBACK PREPARED"])
def test_m13_a_prepared_transaction_is_in_the_lake_once_it_is_committed(lake: Lake, ends: str) -> None:
    lake.synced().drain()
    name = f"later_{id(lake)}"
    change = f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1); DELETE FROM m WHERE id = 5"
    lake.run(f"BEGIN; {change}; PREPARE TRANSACTION '{name}'")
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1)")
    lake.drain()
    ids = {row[1] for row in lake.folded()}
    assert 1000 not in ids
    assert {5, 1001} <= ids
    lake.run(f"{ends} '{name}'")
    lake.drain()
    lake.assert_same()
    assert (1000 in {row[1] for row in lake.folded()}) == (ends == "COMMIT PREPARED")
    History(lake, "m").require_each_once()


def one_by_one() -> None:
    """Each chunk is a job and a commit of its own."""
    copying._CHUNKS_OF_A_JOB = 1
    feeds._COPIED_ROWS = 0


def test_g11_a_copy_that_was_killed_goes_on_where_it_was(lake: Lake) -> None:
    lake.synced()
    assert run(lake, one_by_one, "copy.recorded").how == "killed"
    ((first, position),) = lake.run("SELECT chunk_oid, position FROM thermocline.chunk_copy")
    assert run(lake, one_by_one).how == "done"
    assert lake.run(f"SELECT position FROM thermocline.chunk_copy WHERE chunk_oid = {first}") == [(position,)]
    ((chunks,),) = lake.run("SELECT count(*) FROM lakets.show_chunks('m')")
    assert lake.run("SELECT count(*), count(DISTINCT position) FROM thermocline.chunk_copy") == [(chunks, chunks)]
    lake.assert_same()
    History(lake, "m").require_each_once()
