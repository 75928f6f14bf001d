"""A chunk that somebody makes unlogged: passed by with a word, and whole again once it is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake, chunk
from thermocline.hot.positions import number
from thermocline.reads import moments
from thermocline.reads.moments import NotThen

if TYPE_CHECKING:
    from pathlib import Path

NAME = f"public.{chunk(1)}"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


def resets(lake: Lake) -> int:
    return int(lake.history()["_change_type"].to_pylist().count("truncate"))


def state(lake: Lake) -> tuple[str, str | None]:
    ((status, reason),) = lake.run("SELECT status, reason FROM lakets.feed_status()")
    return status, reason


def test_g12_a_chunk_that_is_unlogged_is_not_copied_over_and_over(lake: Lake) -> None:
    before = resets(lake)
    moments.known(lake.dsn, "m")
    lake.run(f"ALTER TABLE {chunk(1)} SET UNLOGGED")
    with pytest.raises(NotThen):  # also before the feed has seen it
        moments.known(lake.dsn, "m")
    with lake.feed() as feed:
        for _ in range(3):
            progress = feed.drain()
        assert progress.unlogged == (NAME,)
        assert resets(lake) == before
        status, reason = state(lake)
        assert status == "SNAPSHOTTING"
        assert f"ALTER TABLE {NAME} SET LOGGED" in (reason or "")
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1), ('{NOON[2]}', 1001, 1)")
        feed.drain()
        assert {row[1] for row in lake.folded()} >= {1001}, "the other chunks stream"
        with pytest.raises(NotThen):
            moments.known(lake.dsn, "m")

        ((logged,),) = lake.run("SELECT pg_current_wal_insert_lsn()::text")
        lake.run(f"ALTER TABLE {chunk(1)} SET LOGGED")
        for _ in range(3):
            progress = feed.drain()
        assert progress.unlogged == ()
        assert progress.caught_up
    assert resets(lake) == before + 1
    assert state(lake) == ("STREAMING", None)
    assert moments.known(lake.dsn, "m").first >= number(logged), "nothing is said of the time between"
    lake.assert_same()
