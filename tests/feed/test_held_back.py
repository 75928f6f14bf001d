"""The lake does not take what a table has: that table waits, with a reason, and goes on by itself; the others go on."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from harness.lakes import NOON, Lake
from harness.proxies import Proxy, proxy
from harness.trials import lake_of, on_the_way
from harness.verdicts import History
from thermocline.config import FeedSettings
from thermocline.errors import CatalogFailed, StoreFailed
from thermocline.feed import feed as feeds
from thermocline.feed import holding
from thermocline.feed.pacing import RETRY_SECONDS, Due, Pace, Waiting
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from harness.crash_servers import CrashServer

TABLES = ("m", "n")


def prepare(lake: Lake, tables: tuple[str, str] = TABLES) -> Lake:
    """Two tables that are synced and in the lake."""
    first, second = tables
    lake.with_days(table=first)
    lake.run(
        f"CREATE TABLE {second} (ts timestamptz NOT NULL, id int, v float8)",
        f"INSERT INTO {second} SELECT '{NOON[0]}', g, g FROM generate_series(1, 9) g",
        f"SELECT lakets.create_chronotable('{second}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{first}')",
        f"SELECT lakets.enable_sync('{second}')",
    )
    lake.drain()
    return lake


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return prepare(Lake.of(dsn, tmp_path / "home"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is tried again with every look."""
    monkeypatch.setattr(holding, "RETRY_SECONDS", 0)


def write(lake: Lake, number: int, tables: tuple[str, str] = TABLES) -> None:
    for table in tables:
        lake.run(
            f"INSERT INTO {table} SELECT '{NOON[0]}', {number} + g, g FROM generate_series(1, 5) g",
            f"UPDATE {table} SET v = v + 1 WHERE id % 4 = {number % 4}",
            f"DELETE FROM {table} WHERE id = {number + 2}",
        )


def require_all(lake: Lake, tables: tuple[str, str] = TABLES) -> None:
    for table in tables:
        lake.assert_same(table)
        History(lake, table).require_each_once()
        History(lake, table).require_chains()
    assert told(lake, tables) == dict.fromkeys(tables, ("STREAMING", None))


def told(lake: Lake, tables: tuple[str, str] = TABLES) -> dict[str, tuple[str, str | None]]:
    """What the feed says of our two tables; a lake with Spark also has what other tests have left."""
    rows = lake.run("SELECT table_name, status, reason FROM lakets.feed_status()")
    found = {name.removeprefix("public."): (status, reason) for name, status, reason in rows}
    return {table: found[table] for table in tables}


def place(lake: Lake, table: str, part: str = "") -> Path:
    (found,) = lake.stack.home.root.rglob(f"lb_{table}_history")
    return found / part if part else found


@contextmanager
def no_folder(folder: Path) -> Iterator[None]:
    """A file is where the folder was."""
    away = folder.with_name("away")
    if there := folder.exists():
        folder.rename(away)
    folder.write_text("no folder any more")
    try:
        yield
    finally:
        folder.unlink()
        if there:
            away.rename(folder)


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """As when a disk is not mounted: what is written meanwhile goes elsewhere."""
    folder.rename(folder.with_name("away"))
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name("away").rename(folder)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """The folder is a disk of its own, on which nothing is left; what was in it cannot be seen meanwhile."""
    mounting = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        with (folder / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def committed(lake: Lake, table: str) -> str:
    ((position,),) = lake.run(f"SELECT lakets._cdf_committed_lsn('{table}')::text")
    return str(position)


@pytest.mark.parametrize(
    ("trouble", "part", "said"),
    [
        (full, "data", "No space left on device"),
        (no_folder, "data", "Not a directory|File exists"),
        (no_folder, "metadata", "Not a directory|File exists"),
    ],
)
def test_d18_a_table_whose_place_is_in_trouble_waits_and_the_others_go_on(
    lake: Lake, trouble: Callable[[Path], AbstractContextManager[None]], part: str, said: str
) -> None:
    before = committed(lake, "m")
    with trouble(place(lake, "m", part)):
        for number in (100, 200):
            write(lake, number)
            with pytest.raises(StoreFailed, match=said):
                lake.drain()
            lake.assert_same("n")
            assert committed(lake, "m") == before
        status, reason = told(lake)["m"]
        assert status == "STREAMING"
        assert reason is not None
        assert "does not take files of public.m" in reason
        assert "tries again by itself" in reason
        assert told(lake)["n"] == ("STREAMING", None)
        alarms = lake.run("SELECT message FROM lakets.feed_alarms() WHERE alarm = 'lake_refuses'")
        assert alarms == [("the lake does not take what these have: public.m",)]
    lake.drain()
    require_all(lake)
    assert lake.run("SELECT count(*) FROM lakets.feed_alarms() WHERE alarm = 'lake_refuses'") == [(0,)]


def test_what_did_not_fit_leaves_no_part_of_it(lake: Lake) -> None:
    with full(place(lake, "m", "data")):
        write(lake, 100)
        with pytest.raises(StoreFailed):
            lake.drain()
        assert {file.name for file in place(lake, "m", "data").rglob("*") if file.is_file()} == {"filler"}


@pytest.mark.parametrize("trouble", [no_folder, away])
def test_a_feed_that_runs_waits_for_the_store_and_goes_on_by_itself(
    lake: Lake, at_once: None, trouble: Callable[[Path], AbstractContextManager[None]]
) -> None:
    before = committed(lake, "m"), committed(lake, "n")
    with lake.feed() as feed:
        with trouble(place(lake, "m").parent):
            for number in (100, 200):
                write(lake, number)
                feed.step()
                progress = feed.tend()
                assert progress.held_back == ("public.m", "public.n")
                assert not progress.caught_up
                assert not progress.set_aside
            assert {status for status, _ in told(lake).values()} == {"STREAMING"}
            assert all(reason is not None for _, reason in told(lake).values())
            assert (committed(lake, "m"), committed(lake, "n")) == before
        feed.step()
        feed.step()
        assert feed.tend().held_back == ()
        require_all(lake)


def test_a_feed_that_runs_waits_for_the_catalog_and_goes_on_by_itself(
    crashing: CrashServer, crashing_dsn: str, tmp_path: Path, at_once: None
) -> None:
    with proxy(crashing.port) as wire, crashing.server().database() as catalog:
        lake = prepare(lake_of(tmp_path / "home", crashing_dsn, uri=make_conninfo(catalog, port=wire.port)))
        write(lake, 100)
        with lake.feed() as feed:
            _cut(wire)
            for number in (200, 300):
                feed.step()
                assert feed.tend().held_back == ("public.m", "public.n")
                write(lake, number)
            reasons = {reason for _, reason in told(lake).values()}
            assert all("The catalog does not answer" in str(reason) for reason in reasons), reasons
            wire.refuses = False
            feed.step()
            feed.step()
            assert feed.tend().held_back == ()
        require_all(lake)


def _cut(wire: Proxy) -> None:
    wire.refuses = True
    wire.cut_at(b"UPDATE iceberg_tables", b"COMMIT", delivered=True)


def test_a_catalog_that_is_away_is_an_error_of_a_single_run(
    crashing: CrashServer, crashing_dsn: str, tmp_path: Path
) -> None:
    with proxy(crashing.port) as wire, crashing.server().database() as catalog:
        lake = prepare(lake_of(tmp_path / "home", crashing_dsn, uri=make_conninfo(catalog, port=wire.port)))
        write(lake, 100)
        with lake.feed() as feed:
            _cut(wire)
            with pytest.raises(CatalogFailed, match="does not answer"):
                feed.drain()
        wire.refuses = False
        lake.drain()
        require_all(lake)


def test_a_copy_that_finds_no_place_waits_and_the_others_go_on(lake: Lake, at_once: None) -> None:
    lake.run(
        "CREATE TABLE k (ts timestamptz NOT NULL, id int)",
        f"INSERT INTO k VALUES ('{NOON[0]}', 1)",
        "SELECT lakets.create_chronotable('k', 'ts', '1 day')",
        "SELECT lakets.enable_sync('k')",
    )
    with lake.feed() as feed:
        with no_folder(place(lake, "m").with_name("lb_k_history")):
            write(lake, 100)
            feed.tend()
            feed.step()
            assert feed.tend().held_back == ("public.k",)
            lake.assert_same("m")
            lake.assert_same("n")
        feed.tend()
        feed.step()
        assert feed.tend().caught_up
    lake.assert_same("k")
    lake.run("SELECT lakets.resync('k')")
    with lake.feed() as feed:
        with no_folder(place(lake, "k", "data")):
            feed.tend()
            feed.step()  # what was seen by now is passed, so that it can be copied
            progress = feed.tend()
            assert (progress.held_back, progress.uncopied > 0) == (("public.k",), True)
        feed.step()
        assert feed.tend().caught_up
    lake.assert_same("k")


def test_a_history_that_another_thread_closes_makes_its_copy_wait(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run("SELECT lakets.resync('m')")
    with lake.feed() as feed:
        feed.tend()
        feed.step()
        (number,) = {chunk.table for chunk in feed.ledger.uncovered()}
        failed = StoreFailed("The store does not take files.")
        on_the_way(monkeypatch, feeds, "copy.chunk_read", lambda: feed.held.hold({number: failed}))
        progress = feed.tend()
        assert (progress.held_back, progress.uncopied > 0) == (("public.m",), True)
    lake.drain()
    require_all(lake)


def test_a_table_that_keeps_too_much_of_the_log_is_set_aside_and_comes_back(dsn: str, tmp_path: Path) -> None:
    settings = Lake.of(dsn, tmp_path / "home").stack.settings
    chosen = FeedSettings(interval=0, window_mb=1)
    lake = prepare(Lake(dsn, Stack(settings.model_copy(update={"feed": chosen}))))
    with no_folder(place(lake, "m", "data")), lake.feed() as feed:
        write(lake, 100)
        for _ in range(4):
            lake.run(f"INSERT INTO n SELECT '{NOON[1]}', 5000 + g, g FROM generate_series(1, 3000) g")
            feed.step()
        status, reason = told(lake)["m"]
        assert status == "SKIPPED"
        assert "feed resync TABLE --yes" in str(reason)
        for _ in range(5):
            feed.step()
        lake.assert_same("n")
        assert feed.tend().set_aside == ("public.m",)
    lake.run("SELECT lakets.resync('m')")
    lake.drain()
    lake.drain()
    lake.assert_same("m")
    assert told(lake) == {"m": ("STREAMING", None), "n": ("STREAMING", None)}


def test_what_was_refused_is_due_again_also_when_nothing_new_has_come() -> None:
    pace = Pace(0, 1 << 20)
    waiting = Waiting(0, 100, False, {1: None, 2: None}, frozenset({2}))
    assert pace.next(waiting, 10) == Due(100, None)
    assert pace.next(waiting, 10.5) is None
    assert pace.next(waiting, 10 + RETRY_SECONDS) == Due(100, (2,))
    assert pace.next(waiting, 11 + RETRY_SECONDS) is None


@pytest.mark.slow
def test_d18_on_spark_too_the_others_go_on(stack: Stack, spark: SparkSession, lake_dsn: str) -> None:
    assert spark is not None
    tables = first, second = ("held_m", "held_n")  # what other tests leave in this lake has other names
    lake = prepare(Lake(lake_dsn, stack), tables)
    try:
        with no_folder(place(lake, first, "data")):
            write(lake, 100, tables)
            with lake.stack.feed() as service, pytest.raises(StoreFailed, match=r"public\.held_m"):
                service.drain()
            lake.assert_same(second)
        with lake.stack.feed() as service:
            assert service.drain().caught_up
        require_all(lake, tables)
    finally:
        lake.run(*(f"SELECT lakets.drop_chronotable('{table}')" for table in tables))
