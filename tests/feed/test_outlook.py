"""What is left to copy and to read, and how long that takes: in numbers, and on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake
from harness.processes import Command
from harness.sessions import Session
from thermocline.feed.outlook import Countdown, Outlooks

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def test_a_countdown_remembers_the_most_since_there_was_nothing() -> None:
    countdown = Countdown()
    most = []
    for at, left in enumerate((0, 500, 800, 200, 900, 100, 0, 300, 50)):
        countdown.seconds(left, at)
        most.append(countdown.most)
    assert most == [0, 500, 800, 800, 900, 900, 0, 300, 300]


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
        assert now.copies_bytes == 8192
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
    assert before.backlog_bytes == before.behind_bytes
    lake.drain()
    lake.run(f"INSERT INTO m SELECT '{NOON[1]}', g, 1 FROM generate_series(1, 15000) g")
    after = outlooks.of(lake.stack.feed_status(), 10)
    assert 1 << 20 < after.behind_bytes < before.behind_bytes
    pace = (before.behind_bytes - after.behind_bytes) / 10
    assert after.caught_up_in == pytest.approx(after.behind_bytes / pace)
    assert after.backlog_bytes == before.behind_bytes
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


@dataclass
class Terminal:
    """What a person sees on stderr of a process."""

    process: subprocess.Popen[bytes]
    ours: int
    raw: bytes = b""

    @property
    def shown(self) -> str:
        """All of it so far, one picture after the other."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.decode(errors="ignore"))

    def until(self, pattern: str, seconds: float = 240) -> re.Match[str]:
        """Wait until this is shown; what was shown before does not count."""
        since, end = len(self.shown), time.monotonic() + seconds
        while (found := re.search(pattern, self.shown[since:])) is None:
            assert time.monotonic() < end, self.shown[since:]
            assert self._read(), self.shown
        return found

    def to_its_end(self) -> str:
        """Everything that was shown when it ended well."""
        while self._read():
            pass
        assert self.process.wait(60) == 0, self.shown
        return self.shown

    def _read(self) -> bool:
        if not select.select([self.ours], [], [], 1)[0]:
            return True
        try:
            part = os.read(self.ours, 4096)
        except OSError:  # how a terminal says that nobody writes to it any more
            return False
        self.raw += part
        return bool(part)


@contextmanager
def on_a_terminal(*arguments: str, columns: int = 200, given: dict[str, str] | None = None) -> Iterator[Terminal]:
    """Run Python with stderr on a terminal."""
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("THERMOCLINE_")}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=inherited | {"COLUMNS": str(columns), "TERM": "xterm"} | (given or {}),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


# Outlooks one after the other, each for long enough to be drawn.
SHOW = """
import time
from thermocline.cli.feed_commands import showing
from thermocline.cli.output import JsonOutput, TextOutput
from thermocline.feed.outlook import Outlook

quiet = Outlook(40, 40, 0, 0, None, 12_345, 7.0, None, (), ())
for output in (TextOutput(), JsonOutput()):
    with output.step("Feeding") as say:
        for now in (
            Outlook(40, 12, 165_000_000, 1_100_000, 84.0, 15_000_000, 45_000.0, 20.0, (), ("public.k",), (),
                    220_000_000, 60_000_000),
            Outlook(40, 0, 220_000_000, 0, None, 5_000, 0.0, None, ("public.m",), (), (), 220_000_000, 0),
            quiet,
        ):
            showing(say)(now)
            time.sleep(0.5)
"""


def test_a_terminal_shows_bars_for_the_copies_and_the_backlog() -> None:
    with on_a_terminal("-c", SHOW, columns=120) as terminal:
        shown = terminal.to_its_end()
    pictures = [[line.rstrip() for line in one.splitlines()] for one in re.split("[\u2801-\u28ff] ", shown)]
    bar = "[━╸╺]{20}"
    both = (
        "Feeding: 12 of 40 chunks copied; set aside: public.k",
        rf"  Copies  {bar}  25% 55 MB of 220 MB, about 1,100,000 rows to go, 45,000 rows/s, 1 min 24 s left",
        rf"  Backlog {bar}  75% 45 MB of 60 MB, 45,000 rows/s, 20 s left",
    )
    copies = (
        "Feeding: waiting for open transactions of public.m; 0 of 40 chunks copied",
        rf"  Copies {bar}   0% 0 bytes of 220 MB, 0 rows/s",
    )
    none = ("Feeding: 12 kB behind, 7 rows/s",)
    seen = [wanted for one in pictures for wanted in (both, copies, none) if _like(one, wanted)]
    assert list(dict.fromkeys(seen)) == [both, copies, none], shown
    assert shown.count("✓ Feeding") == 1, "a program is shown nothing"


def _like(picture: list[str], wanted: tuple[str, ...]) -> bool:
    lines = [line for line in picture if line]
    return len(lines) >= len(wanted) and all(map(re.fullmatch, wanted, lines))


def test_a_narrow_terminal_wraps_the_words_and_keeps_the_bar() -> None:
    with on_a_terminal("-c", SHOW, columns=60) as terminal:
        shown = terminal.to_its_end()
    assert re.search(r"  Copies  [━╸╺]{20}  25% 55 MB of 220 MB, about *\s+1,100,000 rows to go, *\s", shown), shown
    assert "…" not in shown


def test_a_file_has_the_words_and_no_bars() -> None:
    ended = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    begun, words, done = ended.stderr.splitlines()
    assert begun == "Feeding ..."
    assert words == (
        "  12 of 40 chunks copied, 165 MB and about 1,100,000 rows to copy, 1 min 24 s left; "
        "15 MB behind, 45,000 rows/s, 20 s left; set aside: public.k"
    )
    assert re.fullmatch(r"✓ Feeding \d+\.\d s", done)


@pytest.mark.slow
@pytest.mark.spark
def test_a_terminal_shows_what_is_left_and_a_file_has_lines(lake: Lake, dsn: str) -> None:
    lake.drain()
    for day in range(3):
        lake.run(f"INSERT INTO m SELECT '{NOON[day]}', g, 1 FROM generate_series(1, 15000) g")
    lake.stack.resync_table("public.m")
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    given = {"THERMOCLINE_HOME": str(command.home), "THERMOCLINE_FEED_INTERVAL": "1"} | command.environment
    copies, backlog = "Copies +[━╸╺]{20} +", "Backlog +[━╸╺]{20} +"
    with (
        Session(lake.dsn) as one,
        Session(lake.dsn) as other,
        on_a_terminal("-m", "thermocline", "feed", given=given) as terminal,
    ):
        one.run(f"UPDATE m SET v = 1 WHERE id = 7 AND ts IN ('{NOON[0]}', '{NOON[2]}')")
        other.run(f"UPDATE m SET v = 1 WHERE id = 7 AND ts = '{NOON[1]}'")  # a chunk is not copied while this is open
        terminal.until(
            rf"0 of \d+ chunks copied *\s+{copies}0% 0 bytes of \d MB, about [\d,]+ rows to go, \d+ rows/s *\s+"
            rf"{backlog}0% 0 bytes of \d+ MB, \d+ rows/s"
        )
        one.commit()
        terminal.until(rf"{copies}6\d% \d MB of \d MB, about [\d,]+ rows to go, [\d,]+ rows/s, \d.* left")
        other.commit()
        terminal.until(r"The feed is running; Ctrl-C ends it: \d+ [a-zA-Z]+ behind, [\d,]+ rows/s")
        terminal.process.send_signal(signal.SIGINT)
        terminal.to_its_end()
    lake.assert_same()
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")
    ended = command.run("feed", "--once")
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    told = r"  \d+ [a-zA-Z]+ behind, \d+ rows/s(, .+)?"  # how much is up to whoever else writes on this server
    assert [line for line in lines if re.fullmatch(told, line)], lines
    assert "\x1b" not in ended.err
    assert "\r" not in ended.err
    assert "━" not in ended.err
