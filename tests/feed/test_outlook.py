"""What is left to copy and to read, and how long that takes: in numbers, and on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake
from harness.processes import Command
from harness.sessions import Session
from thermocline.feed.outlook import Countdown, Outlooks

if TYPE_CHECKING:
    from pathlib import Path

    from thermocline.feed.outlook import Outlook


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days().synced()


def test_a_countdown_goes_by_the_last_steps() -> None:
    countdown = Countdown()
    assert countdown.seconds(1000, 0) is None, "one look tells no pace"
    assert countdown.seconds(1000, 5) is None
    assert countdown.seconds(900, 10) == pytest.approx(90)
    assert countdown.seconds(900, 20) == pytest.approx(180), "a step that takes long makes it longer"
    assert countdown.seconds(500, 20) == pytest.approx(20)
    assert countdown.seconds(1200, 21) is None, "it grows"
    assert countdown.seconds(0, 22) is None
    assert countdown.seconds(800, 23) is None, "begun anew"
    assert countdown.seconds(400, 24) == pytest.approx(1)


def test_a_countdown_forgets_how_slow_it_was_long_ago() -> None:
    countdown = Countdown()
    left = 10_000
    for at in range(0, 5000, 100):
        left -= 10
        countdown.seconds(left, at)
    for at in range(5000, 5012):
        left -= 500
        told = countdown.seconds(left, at)
    assert told == pytest.approx(left / 500)


def left(lake: Lake) -> tuple[int | None, ...]:
    ((covered, chunks, size, rows),) = lake.run(
        "SELECT covered, chunks, to_copy_bytes, to_copy_rows FROM lakets.feed_status()"
    )
    return covered, chunks - covered, size, rows


def test_what_is_left_to_copy_is_what_is_not_covered(lake: Lake) -> None:
    lake.run("ANALYZE m")
    (table,) = lake.stack.feed_status().tables
    assert (table.covered, table.to_copy_rows) == (0, 72)
    assert (
        table.to_copy_bytes
        == lake.run("SELECT sum(pg_table_size(inhrelid))::bigint FROM pg_inherits WHERE inhparent = 'm'::regclass")[0][
            0
        ]
    )
    with Session(lake.dsn) as writer, lake.feed() as feed:
        feed.tend()
        writer.run(f"UPDATE m SET v = 1 WHERE ts = '{NOON[1]}'")  # its chunk is not copied while this is open
        lake.run("DELETE FROM thermocline.chunk_copy")
        while feed.drain().uncopied > 1:
            pass
        assert left(lake)[1:] == (1, 8192, 24)
        now = Outlooks().of(lake.stack.feed_status(), 0)
        assert (now.chunks - now.covered, now.to_copy_bytes, now.to_copy_rows) == (1, 8192, 24)
        writer.commit()
    lake.drain()
    assert left(lake)[1:] == (0, 0, 0)
    lake.run("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'a test'")
    assert left(lake)[2:] == (None, None)
    assert Outlooks().of(lake.stack.feed_status(), 0).set_aside == ("public.m",)


def test_the_outlook_counts_down_while_a_backlog_is_read(lake: Lake) -> None:
    lake.drain()
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, 1 FROM generate_series(1, 30000) g")
    outlooks = Outlooks()
    before = outlooks.of(lake.stack.feed_status(), 0)
    assert before.behind_bytes > 1 << 20
    assert before.caught_up_in is None
    lake.drain()
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, 1 FROM generate_series(1, 15000) g")
    after = outlooks.of(lake.stack.feed_status(), 10)
    assert 1 << 20 < after.behind_bytes < before.behind_bytes
    pace = (before.behind_bytes - after.behind_bytes) / 10
    assert after.caught_up_in == pytest.approx(after.behind_bytes / pace)
    assert after.rows_per_second > 100


def test_the_outlook_is_told_beside_what_is_done(lake: Lake) -> None:
    seen: list[Outlook] = []
    with lake.stack.watching(seen.append):
        assert len(seen) == 1, "at once"
        assert (seen[0].covered, seen[0].waiting) == (0, ("public.m",))
        lake.drain()
        while seen[-1].covered < seen[-1].chunks or seen[-1].waiting:  # what was told while it was drained comes first
            time.sleep(0.05)
    assert (seen[-1].to_copy_bytes, seen[-1].waiting) == (0, ())


def on_a_terminal(command: Command, *arguments: str) -> str:
    """What a person sees on stderr."""
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("THERMOCLINE_")}
    given = {"THERMOCLINE_HOME": str(command.home), "COLUMNS": "200", "TERM": "xterm"} | command.environment
    process = subprocess.Popen(
        [sys.executable, "-m", "thermocline", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=inherited | given,
    )
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 4096):
            told += part
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.close(ours)
    assert process.wait(60) == 0, told
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.decode())


@pytest.mark.slow
@pytest.mark.spark
def test_a_terminal_shows_what_is_left_and_a_file_has_lines(lake: Lake, dsn: str) -> None:
    lake.run("ANALYZE m")
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    shown = on_a_terminal(command, "feed", "--once")
    assert re.search(r"0 of \d+ chunks copied, \d+ kB and about 72 rows to copy", shown), shown
    assert "rows/s" in shown
    lake.assert_same()
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")
    ended = command.run("feed", "--once")
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    told = r"  \d+ [a-zA-Z]+ behind, \d+ rows/s(, .+)?"  # how much is up to whoever else writes on this server
    assert [line for line in lines if re.fullmatch(told, line)], lines
    assert "\x1b" not in ended.err
    assert "\r" not in ended.err
