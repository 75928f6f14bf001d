"""What the feed stands on fails: the catalog, the store, the disk, the wire to them."""

from __future__ import annotations

import errno
import resource
import signal
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from harness.crash_servers import CrashServer
from harness.proxies import Proxy, proxy
from harness.trials import lake_of, on_the_way, prepare, require_all, run, write
from thermocline.errors import StoreFailed, ThermoclineError
from thermocline.feed import committing, writing
from thermocline.hot import install
from thermocline.lake import durable_io

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.lakes import Lake


@pytest.fixture
def lake(crashing_dsn: str, tmp_path: Path) -> Lake:
    found = lake_of(tmp_path / "home", crashing_dsn)
    prepare(found)
    return found


# ---- the wire to the catalog -----------------------------------------------------------------


@pytest.fixture
def wire(crashing: CrashServer) -> Iterator[Proxy]:
    with proxy(crashing.port) as one:
        yield one


@pytest.fixture
def wired(crashing: CrashServer, crashing_dsn: str, wire: Proxy, tmp_path: Path) -> Iterator[Lake]:
    """A lake whose catalog is another database, behind a wire that can be cut."""
    with crashing.server().database() as catalog:
        found = lake_of(tmp_path / "home", crashing_dsn, uri=make_conninfo(catalog, port=wire.port))
        prepare(found)
        yield found


def test_d15_unknown_commit_outcome_a_batch_whose_answer_was_lost_is_there_once(wired: Lake, wire: Proxy) -> None:
    write(wired, 100)
    wire.cut_at(b"UPDATE iceberg_tables", b"COMMIT", delivered=True)
    outcome = run(wired)
    assert wire.cuts == 1
    assert outcome.how == "done", outcome
    require_all(wired)
    write(wired, 200)
    assert run(wired).how == "done"
    require_all(wired)


def test_d15_unknown_commit_outcome_a_batch_that_did_not_arrive_is_written_again(wired: Lake, wire: Proxy) -> None:
    write(wired, 100)
    wire.cut_at(b"UPDATE iceberg_tables", b"COMMIT", delivered=False)
    outcome = run(wired)
    assert wire.cuts == 1
    assert outcome.how == "done" or outcome.is_clear, outcome
    assert run(wired).how == "done"
    require_all(wired)


def test_d15_unknown_commit_outcome_while_the_catalog_stays_away(wired: Lake, wire: Proxy) -> None:
    write(wired, 100)
    wire.refuses = True
    wire.cut_at(b"UPDATE iceberg_tables", b"COMMIT", delivered=True)
    outcome = run(wired)
    assert wire.cuts == 1
    assert outcome.how == "failed"
    wire.refuses = False
    write(wired, 200)
    assert run(wired).how == "done"
    require_all(wired)
    assert outcome.is_clear, outcome


def test_d15_unknown_outcome_of_a_copy(wired: Lake, wire: Proxy) -> None:
    wired.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    wire.cut_at(b"UPDATE iceberg_tables", b"COMMIT", delivered=True)
    assert run(wired).how == "done"
    assert wire.cuts == 1
    require_all(wired)


# ---- catalog, store and disk -----------------------------------------------------------------


def test_a_catalog_that_goes_down_in_a_batch(
    crashing_dsn: str, tmp_path: Path, major: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CrashServer(tmp_path / "catalog", major)
    other.start()
    try:
        lake = lake_of(tmp_path / "home", crashing_dsn, uri=other.server().dsn)
        prepare(lake)
        write(lake, 100)
        on_the_way(monkeypatch, committing, "batch.before_append", other.crash)
        with pytest.raises(Exception, match=r"(?i)connect") as caught:
            lake.drain()
        other.start()
        monkeypatch.undo()
        write(lake, 200)
        lake.drain()
        require_all(lake)
    finally:
        other.stop()
    assert isinstance(caught.value, ThermoclineError), f"no clear error: {caught.value!r}"


@pytest.mark.parametrize("point", ["write.before_file", "batch.before_append"])
def test_a_store_that_goes_away_in_a_batch(lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    (data,) = {path.parent.parent for path in lake.stack.home.root.rglob("data/*/*.parquet")}
    away = data.parent.with_name("away")

    def break_store() -> None:
        data.parent.rename(away)
        data.parent.write_text("no folder any more")

    write(lake, 100)
    on_the_way(monkeypatch, writing if point.startswith("write") else committing, point, break_store)
    with pytest.raises(Exception) as caught:
        lake.drain()
    data.parent.unlink()
    away.rename(data.parent)
    monkeypatch.undo()
    write(lake, 200)
    lake.drain()
    require_all(lake)
    assert isinstance(caught.value, StoreFailed), f"no clear error: {caught.value!r}"


def allow_small_files_only() -> None:
    """As a quota does: a write beyond it fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))


def test_files_that_may_not_grow_in_a_batch(lake: Lake) -> None:
    write(lake, 100)
    outcome = run(lake, allow_small_files_only)
    assert outcome.how == "failed"
    write(lake, 200)
    assert run(lake).how == "done"
    require_all(lake)
    assert outcome.is_clear, outcome


@pytest.mark.parametrize("kind", ["parquet", "avro", "json"])
def test_a_disk_that_is_full_in_a_batch(lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    opened = durable_io._SyncedStream.__init__
    filled: set[int] = set()

    def open_file(stream: Any, path: Path, *, exclusive: bool) -> None:
        opened(stream, path, exclusive=exclusive)
        if path.suffix == f".{kind}":
            filled.add(id(stream))

    def put(stream: Any, content: bytes) -> int:
        if id(stream) in filled:
            stream._file.close()  # whoever gets this does not always close it
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(stream._file.write(content))

    write(lake, 100)
    with monkeypatch.context() as patched:
        patched.setattr(durable_io._SyncedStream, "__init__", open_file)
        patched.setattr(durable_io._SyncedStream, "write", put)
        with pytest.raises(Exception, match=r"(?i)space|full") as caught:
            lake.drain()
    write(lake, 200)
    lake.drain()
    require_all(lake)
    assert isinstance(caught.value, StoreFailed), f"no clear error: {caught.value!r}"


# ---- what the server may be told -------------------------------------------------------------


@pytest.mark.slow
def test_m14_a_server_that_commits_asynchronously_and_crashes_knows_its_own_batches(
    crashing: CrashServer, tmp_path: Path, major: int
) -> None:
    """The lake's catalog is on another server, which does not forget."""
    hot = CrashServer(tmp_path / "server", major)
    hot.start()
    try:
        with crashing.server().database() as catalog:
            install.install(hot.server().dsn)
            lake = lake_of(tmp_path / "home", hot.server().dsn, uri=catalog)
            prepare(lake)
            lake.run(
                "ALTER SYSTEM SET synchronous_commit = off",
                "ALTER SYSTEM SET wal_writer_delay = '10s'",
                "SELECT pg_reload_conf()",
            )
            write(lake, 100)
            lake.run("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'test', 'flush')")
            assert run(lake, kill_at="batch.committed").how == "killed"
            hot.crash_and_recover()
            assert run(lake).how == "done"
            assert lake.run("SELECT status, reason FROM thermocline.synced_table") == [("STREAMING", None)]
            require_all(lake)
    finally:
        hot.stop()
