"""A store that is away, denies, or takes what some tables have only: nobody waits for another one's trouble."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    ServerError,
    ServiceUnavailableError,
)

from harness.homes import home_with_jars
from harness.lakes import NOON, Lake
from harness.s3 import BUCKET, client, objects, properties, s3_server
from harness.s3_guard import Guard, guarded
from harness.verdicts import History
from thermocline.config import CatalogSettings, FeedSettings, HotSettings, Settings
from thermocline.errors import CatalogFailed, StoreFailed
from thermocline.feed import holding
from thermocline.lake.history import answering
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

# Nothing of a synced table: more than a window of the log.
FLOOD = "INSERT INTO flood SELECT repeat('x', 1000) FROM generate_series(1, 1500)"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is tried again with every look."""
    monkeypatch.setattr(holding, "RETRY_SECONDS", 0)


@pytest.fixture
def small(dsn: str, tmp_path: Path) -> Lake:
    """Two tables in the lake, and a feed that takes a megabyte of the log at a time."""
    settings = Lake.of(dsn, tmp_path / "home").stack.settings
    chosen = FeedSettings(interval=0, window_mb=1)
    lake = Lake(dsn, Stack(settings.model_copy(update={"feed": chosen}))).with_days()
    lake.run("SELECT lakets.enable_sync('m')", "CREATE TABLE flood (t text)")
    add(lake, "n")
    lake.drain()
    return lake


def add(lake: Lake, table: str) -> None:
    """One more synced table."""
    lake.run(
        f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v float8)",
        f"INSERT INTO {table} VALUES ('{NOON[0]}', 1, 1)",
        f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
        f"SELECT lakets.enable_sync('{table}')",
    )


def write(lake: Lake, table: str, number: int) -> None:
    lake.run(
        f"INSERT INTO {table} SELECT '{NOON[0]}', {number} + g, g FROM generate_series(1, 5) g",
        f"UPDATE {table} SET v = v + 1 WHERE id % 4 = 1",
        f"DELETE FROM {table} WHERE id = {number + 2}",
    )


def told(lake: Lake, table: str) -> tuple[str, str | None]:
    rows = lake.run(f"SELECT status, reason FROM lakets.feed_status() WHERE table_name = 'public.{table}'")
    ((status, reason),) = rows
    return status, reason


def warehouse(lake: Lake) -> Path:
    (found,) = lake.stack.home.root.rglob("lb_m_history")
    return found.parent


@contextmanager
def blocked(folder: Path) -> Iterator[None]:
    """A file is where the folder was, or is to be."""
    aside = folder.with_name(f"{folder.name}-aside")
    if there := folder.exists():
        folder.rename(aside)
    folder.write_text("no folder")
    try:
        yield
    finally:
        folder.unlink()
        if there:
            aside.rename(folder)


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """As when a disk is not mounted: what is written meanwhile goes elsewhere."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.rename(aside)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


# ---- one waits, the others go on ---------------------------------------------------------------


def test_d18_a_table_that_cannot_be_opened_does_not_hold_up_the_others(small: Lake) -> None:
    add(small, "k")
    with small.feed() as feed, blocked(warehouse(small) / "lb_k_history"):
        for _ in range(2):
            feed.tend()
            write(small, "n", 100)
            feed.step()
        status, reason = told(small, "k")
        assert status == "SNAPSHOTTING"
        assert "does not take files of public.k" in str(reason)
        for _ in range(4):
            small.run(f"INSERT INTO n SELECT '{NOON[1]}', g, g FROM generate_series(1, 5000) g")
            feed.step()
        for _ in range(8):
            feed.step()
        small.assert_same("n")
        assert feed.tend().set_aside == ("public.k",)
    small.run("SELECT lakets.resync('k')")
    small.drain()
    small.assert_same("k")


def test_d18_a_table_that_waits_does_not_hold_up_others_that_had_nothing_meanwhile(small: Lake) -> None:
    with small.feed() as feed, blocked(warehouse(small) / "lb_m_history" / "data"):
        write(small, "m", 100)
        small.run(FLOOD, FLOOD)
        write(small, "n", 200)
        for _ in range(12):
            feed.step()
        small.assert_same("n")
        assert feed.tend().set_aside == ("public.m",)
    small.run("SELECT lakets.resync('m')")
    small.drain()
    small.assert_same("m")


def test_a_table_that_has_just_joined_waits_like_any_other(small: Lake) -> None:
    add(small, "k")
    with small.feed() as feed:
        feed.tend()
        with blocked(warehouse(small) / "lb_k_history" / "data"):
            write(small, "k", 100)
            write(small, "n", 100)
            feed.step()
            assert feed.tend().held_back == ("public.k",)
            assert told(small, "k")[0] == "STREAMING", "copied, but not set aside"
        feed.drain()
    small.drain()
    small.assert_same("k")


def test_a_single_run_ends_with_the_error_however_much_is_waiting(small: Lake) -> None:
    write(small, "m", 100)
    small.run(FLOOD, FLOOD)
    with small.feed() as feed, blocked(warehouse(small)), pytest.raises(StoreFailed, match=r"public\.m"):
        feed.drain()
    small.drain()
    small.assert_same("m")
    assert told(small, "m") == ("STREAMING", None)


def test_a_log_that_has_nothing_for_us_is_passed_window_by_window(small: Lake) -> None:
    small.run(FLOOD, FLOOD)
    with small.feed() as feed:
        ends = [feed.step() for _ in range(4)]
    assert len(set(ends)) == 4, "each goes further than the one before"


def test_a_table_that_is_synced_anew_while_it_waits_is_told_of_again(small: Lake) -> None:
    with small.feed() as feed, blocked(warehouse(small) / "lb_m_history"):
        write(small, "m", 100)
        feed.step()
        feed.tend()
        assert told(small, "m")[1] is not None
        small.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
        assert told(small, "m")[1] is None
        feed.tend()
        assert told(small, "m")[1] is not None


# ---- the only table ----------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [blocked, away])
def test_the_only_table_waits_for_its_store_too(
    dsn: str, tmp_path: Path, trouble: Callable[[Path], AbstractContextManager[None]]
) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    with lake.feed() as feed:
        with trouble(warehouse(lake)):
            for number in (100, 200):
                write(lake, "m", number)
                feed.step()
                progress = feed.tend()
                assert (progress.held_back, progress.set_aside) == (("public.m",), ())
            assert "tries again by itself" in str(told(lake, "m")[1])
        feed.step()
        feed.step()
        assert feed.tend().held_back == ()
    lake.assert_same()
    History(lake, "m").require_each_once()
    with trouble(warehouse(lake)), pytest.raises(StoreFailed):
        lake.drain()
    lake.drain()
    assert told(lake, "m") == ("STREAMING", None)


def test_the_only_table_is_set_aside_if_the_store_is_there_and_its_file_is_not(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    ((pointer,),) = lake.run("SELECT metadata_location FROM thermocline_lake.iceberg_tables WHERE table_name ~ '_m_'")
    newest = warehouse(lake) / "lb_m_history" / "metadata" / str(pointer).rpartition("/")[2]
    newest.unlink()
    with lake.feed() as feed:
        assert feed.tend().set_aside == ("public.m",)
    assert "thermocline lake recover" in str(told(lake, "m")[1])


@pytest.mark.parametrize("said", [ServiceUnavailableError, ForbiddenError, AuthorizationExpiredError, ServerError])
def test_a_rest_catalog_that_says_no_does_not_answer(said: type[Exception]) -> None:
    with pytest.raises(CatalogFailed, match=r"does not answer for public\.m: try later"), answering("public.m"):
        raise said("try later")


# ---- S3 ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[str, Guard]]:
    with s3_server() as address, guarded(address) as guard:
        yield address, guard


@contextmanager
def no_bucket(address: str, _: Guard) -> Iterator[None]:
    """Deleted with everything in it, and put back."""
    store = client(address)
    keys = objects(address, "")
    kept = {key: store.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
    for key in keys:
        store.delete_object(Bucket=BUCKET, Key=key)
    store.delete_bucket(Bucket=BUCKET)
    try:
        yield
    finally:
        store.create_bucket(Bucket=BUCKET)
        for key, content in kept.items():
            store.put_object(Bucket=BUCKET, Key=key, Body=content)


@contextmanager
def nothing_in_it(address: str, _: Guard) -> Iterator[None]:
    """Everything that is there is somewhere else for a while."""
    store = client(address)
    keys = objects(address, "")
    kept = {key: store.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
    for key in keys:
        store.delete_object(Bucket=BUCKET, Key=key)
    try:
        yield
    finally:
        for key, content in kept.items():
            store.put_object(Bucket=BUCKET, Key=key, Body=content)


@contextmanager
def no_writes(_: str, guard: Guard) -> Iterator[None]:
    guard.denied = ("PUT", "POST")
    try:
        yield
    finally:
        guard.denied = ()


@contextmanager
def no_access(_: str, guard: Guard) -> Iterator[None]:
    guard.denied = ("GET", "HEAD", "PUT", "POST")
    try:
        yield
    finally:
        guard.denied = ()


@contextmanager
def no_writes_of_one(_: str, guard: Guard) -> Iterator[None]:
    guard.denied = tuple(f"{how} /{BUCKET}/jdbc/public/lb_m_history/data" for how in ("PUT", "POST"))
    try:
        yield
    finally:
        guard.denied = ()


@pytest.fixture
def on_s3(dsn: str, tmp_path: Path, s3: tuple[str, Guard]) -> Lake:
    _, guard = s3
    chosen = CatalogSettings(warehouse="s3://lake/jdbc", properties=properties(guard.address))
    home = home_with_jars(tmp_path / "home").root
    settings = Settings(home=home, hot=HotSettings(dsn=dsn), feed=FeedSettings(interval=0), lake=chosen)
    return Lake(dsn, Stack(settings)).with_days().synced()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "others", "waiting"),
    [
        (no_bucket, ("n",), ("public.m", "public.n")),
        (no_bucket, (), ("public.m",)),
        (nothing_in_it, (), ("public.m",)),
        (no_writes, ("n",), ("public.m", "public.n")),
        (no_access, (), ("public.m",)),
        (no_writes_of_one, ("n",), ("public.m",)),
    ],
)
def test_d18_tables_wait_for_s3_with_a_reason_and_go_on_by_themselves(
    on_s3: Lake,
    s3: tuple[str, Guard],
    trouble: Callable[[str, Guard], AbstractContextManager[None]],
    others: tuple[str, ...],
    waiting: tuple[str, ...],
) -> None:
    for other in others:
        add(on_s3, other)
    on_s3.drain()
    with on_s3.feed() as feed:
        with trouble(*s3):
            for number in (100, 200):
                for table in ("m", *others):
                    write(on_s3, table, number)
                feed.step()
                progress = feed.tend()
                assert (progress.held_back, progress.set_aside) == (waiting, ())
            status, reason = told(on_s3, "m")
            assert status == "STREAMING"
            assert "tries again by itself" in str(reason)
            if waiting == ("public.m",) and others:
                on_s3.assert_same("n")
        feed.step()
        feed.step()
        assert feed.tend().held_back == ()
    for table in ("m", *others):
        on_s3.assert_same(table)
        entries = on_s3.history(table).select(["_lsn", "_seq"]).to_pylist()
        assert len({(entry["_lsn"], entry["_seq"]) for entry in entries}) == len(entries), "each change once"
        assert told(on_s3, table) == ("STREAMING", None)
