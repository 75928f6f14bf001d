"""A promoted server: the feed goes on where it is provably the same history, and refuses otherwise."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.crash_servers import CrashServer, crash_server
from harness.lakes import NOON, Lake
from thermocline.errors import Refused, StoreFailed
from thermocline.feed.promotion import ended
from thermocline.feed.refusals import OtherHistory
from thermocline.lake.refusals import HistoryDamaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thermocline.errors import ThermoclineError


@pytest.fixture
def server(tmp_path: Path, major: int) -> Iterator[CrashServer]:
    with crash_server(tmp_path / "server", major) as one:
        yield one


@pytest.fixture
def lake(server: CrashServer, tmp_path: Path) -> Iterator[Lake]:
    with server.server().template() as template, server.server().database(template) as dsn:
        synced = Lake.of(dsn, tmp_path / "home").with_days().synced()
        synced.drain()
        synced.drain()
        yield synced


def promote(server: CrashServer, *, of: Path | None = None) -> None:
    """It stops, comes back as a standby of nobody, as it was or as it was once, and is promoted."""
    server.stop()
    if of is not None:
        shutil.rmtree(server.data)
        copied(of, server.data)
    (server.data / "standby.signal").touch()
    server.start()
    with psycopg.connect(server.server().dsn, autocommit=True) as session:
        session.execute("SELECT pg_promote(true, 60)")
        deadline = time.monotonic() + 60
        while session.execute("SELECT pg_is_in_recovery()").fetchall()[0][0]:
            assert time.monotonic() < deadline, "the server is not promoted"
            time.sleep(0.05)


def copied(data: Path, to: Path) -> None:
    """With owners: the server's user is not that of the tests when they run as root."""
    subprocess.run(["cp", "-a", str(data), str(to)], check=True)


def timeline(lake: Lake) -> int:
    return int(lake.run("SELECT timeline FROM thermocline._server_history()")[0][0])


def test_m18_a_promoted_server_of_the_same_history_goes_on(server: CrashServer, lake: Lake) -> None:
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")  # it waits for the feed when the server is promoted
    for _ in range(2):
        before = timeline(lake)
        promote(server)
        assert timeline(lake) == before + 1
        lake.run(f"INSERT INTO m VALUES ('{NOON[2]}', 1001, 2)", "DELETE FROM m WHERE id = 5")
        lake.drain()
        lake.assert_same()
        assert lake.run("SELECT timeline FROM thermocline.stream") == [(before + 1,)]
    with lake.feeding():
        assert {line.verdict for line in lake.stack.lifecycle("m", on_spark=False).verify()} == {"proven"}


def test_m18_a_promoted_server_that_lacks_what_the_lake_has_is_refused(
    server: CrashServer, lake: Lake, tmp_path: Path
) -> None:
    server.stop()
    copied(server.data, tmp_path / "earlier")
    server.start()
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
    lake.drain()
    entries = lake.history().num_rows
    ((newest,),) = lake.run("SELECT metadata_location FROM thermocline_lake.iceberg_tables")
    promote(server, of=tmp_path / "earlier")
    # The catalog is in the same database and went back with it; one elsewhere would not have.
    lake.run(
        f"UPDATE thermocline_lake.iceberg_tables SET metadata_location = '{newest}'",
        f"INSERT INTO m VALUES ('{NOON[1]}', 2000, 2)",
    )
    with pytest.raises(OtherHistory, match="so the lake has changes that it does not have") as refusal, lake.feed():
        pass
    assert "feed resync" in refusal.value.next_step
    assert lake.history().num_rows == entries
    assert lake.run("SELECT timeline FROM thermocline.stream") == [(1,)]


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [(b"", HistoryDamaged, "cannot be read"), (None, StoreFailed, "The store does not take")],
)
def test_m18_a_store_that_fails_at_a_promotion_is_said_to_be_so(
    server: CrashServer, lake: Lake, content: bytes | None, error: type[ThermoclineError], told: str
) -> None:
    """Nobody can know then whether the lake has more than the server: nothing is written before it is known."""
    ((location,),) = lake.run("SELECT metadata_location FROM thermocline_lake.iceberg_tables")
    newest = Path(location.removeprefix("file://"))
    was = newest.read_bytes()
    promote(server)
    newest.unlink()
    if content is None:
        newest.mkdir()
    else:
        newest.write_bytes(content)
    with pytest.raises(error, match=told) as caught, lake.feed():
        pass
    assert caught.value.next_step
    assert lake.run("SELECT timeline FROM thermocline.stream") == [(1,)]
    if content is None:
        newest.rmdir()
    newest.write_bytes(was)
    lake.drain()
    lake.assert_same()


def test_a_server_of_an_earlier_timeline_is_refused(lake: Lake) -> None:
    lake.run("UPDATE thermocline.stream SET timeline = 7")
    with pytest.raises(Refused, match="on timeline 7"), lake.feed():
        pass


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("1\t0/3000148\tno recovery target specified\n", 0x3000148),
        ("# a remark\n1\t0/3000148\tbefore 2000-01-01\n\n2\t1/4000000\tat restore point\n", 0x3000148),
        ("2\t1/4000000\tx\n", None),
        ("", None),
    ],
)
def test_where_a_timeline_ended(told: str, found: int | None) -> None:
    assert ended(told, 1) == found
