"""A chunk whose mirror was mended without a word in the stream: it is copied, whatever the stream tells of it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import feed_children
from harness.feed_children import Run
from harness.lakes import NOON, Lake
from harness.mirrors import SHADOW, require_same

if TYPE_CHECKING:
    from pathlib import Path


def test_m17_a_new_chunk_that_was_mended_and_not_copied_is_copied_though_its_making_is_in_the_stream(
    dsn: str, tmp_path: Path
) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run(SHADOW)
    lake.drain()
    lake.run(
        "ALTER TABLE m ADD COLUMN extra int",  # from here on, writers can only leave doubts
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 1)",
        "SELECT lakets._ensure_partitions(lakets._chronotable_id('m', 'public'), 9, 3)",
        "INSERT INTO m SELECT min(range_start), 1001, 1, 1 FROM lakets._chunk_metadata",
    )
    assert feed_children.run(Run(lake.stack.settings, "tend", "mirror.mended:1")).how == "killed"
    lake.run("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'thermocline%'")
    with lake.feed() as feed:
        feed.step()  # which has the making of the chunk
    require_same(lake)
