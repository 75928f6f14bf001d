"""Who writes to the lake changes under the feed: another server of the same past, another feed, a table that leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness import sabotage
from harness.crash_servers import CrashServer, free_port
from harness.feed_children import Child, Run
from harness.sessions import Session
from harness.trials import lake_of, on_the_way, prepare, require_all, run, write
from harness.verdicts import Verdicts
from thermocline.errors import ThermoclineError
from thermocline.feed import batches, copying
from thermocline.feed import feed as feeds
from thermocline.hot import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.lakes import Lake


@pytest.fixture
def lake(crashing_dsn: str, tmp_path: Path) -> Lake:
    found = lake_of(tmp_path / "home", crashing_dsn)
    prepare(found)
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- two servers of one past -----------------------------------------------------------------


@pytest.fixture
def restored_twice(
    crashing: CrashServer, tmp_path: Path, major: int
) -> Iterator[tuple[tuple[Lake, CrashServer], tuple[Lake, CrashServer]]]:
    """Two servers from one copy of a data folder; the lake's catalog and its files are somewhere else."""
    first = CrashServer(tmp_path / "first" / "home", major)
    second: CrashServer | None = None
    first.start()
    try:
        with crashing.server().database() as catalog:
            install.install(first.server().dsn)
            (tmp_path / "warehouse").mkdir()

            def lake_at(server: CrashServer, home: str) -> Lake:
                return lake_of(tmp_path / home, server.server().dsn, uri=catalog, warehouse=tmp_path / "warehouse")

            prepare(lake_at(first, "a"))
            first.stop()
            subprocess.run(["cp", "-a", str(tmp_path / "first"), str(tmp_path / "second")], check=True)
            second = CrashServer(tmp_path / "second" / "home", major, free_port())
            first.start()
            second.start()
            yield (lake_at(first, "a"), first), (lake_at(second, "b"), second)
    finally:
        first.stop()
        if second:
            second.stop()


def newest(lake: Lake) -> tuple[int | None, int]:
    """The newest snapshot and how many rows it has."""
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        return table.metadata.current_snapshot_id, table.scan().to_arrow().num_rows


def drained_or_refused(feed: Any) -> None:
    """Either is right; what the lake holds afterwards is what counts."""
    try:
        feed.drain()
    except ThermoclineError as error:
        assert error.next_step


@pytest.mark.slow
def test_m20_two_restores_the_second_fails_closed(restored_twice: Any) -> None:
    (first, _), (second, _) = restored_twice
    write(first, 100, "first")
    write(second, 100, "second")
    first.drain()
    before = newest(first)
    with second.feed() as feed:
        drained_or_refused(feed)
    assert newest(first) == before, "nothing was written"
    ((status, reason),) = second.run("SELECT status, reason FROM thermocline.synced_table")
    assert status == "SKIPPED"
    assert "another database" in reason
    write(first, 200, "first")
    first.drain()
    require_all(first)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["a batch", "a copy"])
def test_m20_two_restores_that_run_at_once_do_not_mix(restored_twice: Any, how: str) -> None:
    """Both look at the lake while nobody has gone on yet; then both go on."""
    (first, _), (second, _) = restored_twice
    with first.feed() as one, second.feed() as other:
        write(first, 100, "first")
        one.drain()
        before = newest(first)
        write(second, 100, "second")
        if how == "a copy":
            second.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
        drained_or_refused(other)
        assert newest(first) == before, "nothing was written"
    write(first, 200, "first")
    first.drain()
    require_all(first)


@pytest.mark.slow
def test_m20_a_server_that_was_restored_below_what_the_lake_has_seen_adds_nothing(restored_twice: Any) -> None:
    """Neither after a resync nor synced anew: positions of two histories must not mix."""
    (first, _), (restored, _) = restored_twice
    for _ in range(3):
        first.run("SELECT pg_logical_emit_message(false, 'test', 'more')", "SELECT pg_switch_wal()")
    write(first, 100, "first")
    first.drain()
    before = newest(first)
    write(restored, 100, "restored")
    anew = ("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    for statements, told in (((), "another database"), (anew, "a restore to an earlier point")):
        if statements:
            restored.run(*statements)
        else:
            assert restored.stack.resync_feed() == 1
        with restored.feed() as feed:
            for _ in range(2):
                progress = feed.drain()
        assert progress.set_aside == ("public.m",)
        ((status, reason),) = restored.run("SELECT status, reason FROM thermocline.synced_table")
        assert status == "SKIPPED"
        assert told in reason
        assert newest(first) == before, "nothing was written"


# ---- one that was asleep ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "point",
    [f"batch.{at}" for at in ("planned", "registered", "before_append", "committed", "recorded")]
    + [f"copy.{at}" for at in ("chunk_read", "written", "registered", "committed")],
)
def test_a_feed_that_slept_while_another_took_over_does_no_harm_when_it_wakes(lake: Lake, point: str) -> None:
    """Its session with PostgreSQL is gone, that with the catalog is not."""
    if point.startswith("copy."):
        lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    write(lake, 100)
    with Child(Run(lake.stack.settings, prepare=partial(sabotage.sleep_at, point))) as sleeper:
        wait_until(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED)
        lake.run(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'thermocline%'"
        )
        write(lake, 200)
        assert run(lake).how == "done"
        write(lake, 300)
        os.kill(sleeper.pid, signal.SIGCONT)
        outcome = sleeper.wait()
    assert outcome.how == "failed", "it owns nothing any more"
    assert run(lake).how == "done"
    assert lake.run("SELECT status, reason FROM thermocline.synced_table") == [("STREAMING", None)]
    Verdicts(lake, ["m"]).require_covered_chunks_exact()
    require_all(lake)
    assert outcome.is_clear, outcome


def test_no_feed_is_given_the_number_of_another_one_also_of_a_stream_that_has_ended(lake: Lake) -> None:
    """One that slept until another stream had begun would take what it finds for its own."""
    given = []
    for _ in range(2):
        for _ in range(2):
            with lake.feed() as feed:
                feed.drain()
                given.append(feed.ledger.epoch)
        lake.run("SELECT lakets.disable_sync('m')")
        with lake.feed() as feed:
            feed.tend()
        assert lake.run("SELECT count(*) FROM thermocline.stream") == [(0,)]
        lake.run("SELECT lakets.enable_sync('m')")
    assert given == sorted(set(given))
    require_all(lake)


def test_a_table_that_left_in_a_crash_and_comes_back_after_days(lake: Lake) -> None:
    """What the crash kept from being recorded is known as our own for as long as it may matter."""
    lake.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v text)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
    )
    lake.drain()
    write(lake, 100)
    assert run(lake, kill_at="batch.committed").how == "killed"
    lake.run("SELECT lakets.disable_sync('m')", "UPDATE thermocline.batch SET created_at = now() - interval '2 days'")
    for _ in range(2):
        lake.run("INSERT INTO n VALUES (now(), 'goes on')")
        lake.drain()
    lake.run("SELECT lakets.enable_sync('m')")
    for _ in range(2):
        with lake.feed() as feed:
            feed.drain()
    assert set(lake.run("SELECT status, reason FROM thermocline.synced_table")) == {("STREAMING", None)}
    require_all(lake)


# ---- the table leaves and comes back while the feed is at it ---------------------------------


@pytest.mark.parametrize("point", ["copy.chunk_read", "copy.written", "copy.registered", "copy.committed"])
@pytest.mark.parametrize("comes_back", ["at once", "later"])
def test_g4_a_copy_that_is_overtaken_by_disable_and_enable_covers_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str, comes_back: str
) -> None:
    leave, come = "SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')"
    unseen = "INSERT INTO m SELECT now() + g * interval '3 hours', 900 + g, 0, 'unseen' FROM generate_series(-9, 9) g"
    lake.run(leave, come)
    on_the_way(
        monkeypatch, feeds, point, lambda: lake.run(leave, unseen, come) if comes_back == "at once" else lake.run(leave)
    )
    with lake.feed() as feed:
        feed.drain()
        if comes_back == "later":
            assert lake.run("SELECT count(*) FROM thermocline.chunk_copy") == [(0,)], "covered, and nobody listens"
            lake.run(unseen, come)
        for _ in range(3):
            feed.drain()
    lake.drain()
    Verdicts(lake, ["m"]).require_covered_chunks_exact()
    require_all(lake)


@pytest.mark.parametrize("point", ["batch.planned", "batch.registered", "batch.committed"])
def test_g4_a_batch_that_is_overtaken_by_disable_and_enable(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    unseen = "INSERT INTO m SELECT now() + g * interval '3 hours', 900 + g, 0, 'unseen' FROM generate_series(-9, 9) g"
    write(lake, 100)
    on_the_way(
        monkeypatch,
        feeds,
        point,
        lambda: lake.run("SELECT lakets.disable_sync('m')", unseen, "SELECT lakets.enable_sync('m')"),
    )
    with lake.feed() as feed:
        for _ in range(3):
            feed.drain()
    Verdicts(lake, ["m"]).require_covered_chunks_exact()
    require_all(lake)


def test_a_table_that_leaves_while_a_batch_of_it_is_settled(lake: Lake) -> None:
    """As on Spark: the batch is settled in one thread, and another one sees that the table has gone."""
    write(lake, 100)
    with lake.feed() as feed:
        stream = feed.ledger.stream()
        assert stream is not None
        slot = feed.ledger.slot_state(stream.slot)
        assert slot is not None
        batch = batches.carry(*feed.reading(stream, slot.flushed))
        assert batch.files
        lake.run("SELECT lakets.disable_sync('m')")
        feed.tend()
        feed.settle(batch)
        lake.run("SELECT lakets.enable_sync('m')")
        for _ in range(3):
            feed.drain()
    require_all(lake)


@pytest.mark.parametrize("statement", ["TRUNCATE m", "ALTER TABLE m ADD COLUMN extra int"])
def test_m16_a_copy_and_somebody_who_waits_for_the_whole_table_do_not_wait_for_each_other(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The reader of the chunk comes after one who waits for the session that holds the snapshot."""
    lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    with Session(lake.dsn) as impatient, ThreadPoolExecutor(1) as threads:
        impatient.run("SET lock_timeout = '60s'")
        impatient.commit()
        asked: list[Future[Any]] = []

        def want_everything() -> None:
            asked.append(impatient.start(statement))
            impatient.wait_until_blocked()

        def copy() -> None:
            with lake.feed() as feed:
                feed.drain()

        on_the_way(monkeypatch, copying, "copy.standing", want_everything)
        copied = threads.submit(copy)
        wait_until(lambda: bool(asked))
        asked[0].result(timeout=60)
        impatient.commit()
        copied.result(timeout=60)
    lake.drain()
    lake.assert_same()
