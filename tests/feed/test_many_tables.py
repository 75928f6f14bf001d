"""A batch costs what the tables cost that it has rows of, however many are synced: counted, not timed."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from sqlalchemy.engine import Engine

from harness.lakes import Lake
from thermocline.feed import feed as feeds
from thermocline.feed.packing import Packing, Unpacked
from thermocline.feed.shapes import Shape
from thermocline.feed.writing import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thermocline.feed.feed import Feed

ACTIVE = 3
MANY = 100
TOTALS = "SELECT lakets.time_bucket(''1 hour'', ts) AS bucket, sum(v) AS total FROM t{at} GROUP BY 1"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Statements of ours, statements of the catalog, tables loaded and shapes made while the block lasts."""
    found: Counter[str] = Counter()
    execute, load, shape = psycopg.Connection.execute, SqlCatalog.load_table, Shape.of

    def executed(self: Any, *arguments: Any, **options: Any) -> Any:
        found["statements"] += 1
        return execute(self, *arguments, **options)

    def loaded(self: Any, *arguments: Any, **options: Any) -> Any:
        found["loads"] += 1
        return load(self, *arguments, **options)

    def made(*arguments: Any) -> Any:
        found["shapes"] += 1
        return shape(*arguments)

    def of_catalog(*_: Any) -> None:
        found["catalog"] += 1

    event.listen(Engine, "before_cursor_execute", of_catalog)
    try:
        with (
            patch.object(psycopg.Connection, "execute", executed),
            patch.object(SqlCatalog, "load_table", loaded),
            patch.object(Shape, "of", made),
        ):
            yield found
    finally:
        event.remove(Engine, "before_cursor_execute", of_catalog)


def sync(lake: Lake, first: int, count: int) -> None:
    for at in range(first, first + count):
        lake.run(
            f"CREATE TABLE t{at} (ts timestamptz NOT NULL, v int)",
            f"SELECT lakets.create_chronotable('t{at}', 'ts', '1 day')",
            f"SELECT lakets.enable_sync('t{at}')",
        )


def batch(lake: Lake, feed: Feed) -> Counter[str]:
    """What a batch costs that has rows of the active tables, once all is warm."""
    for _ in range(2):
        lake.run(*(f"INSERT INTO t{at} SELECT now(), g FROM generate_series(1, 3) g" for at in range(ACTIVE)))
        with counted() as found:
            assert feed.step() is not None
    return found


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home")


def test_a_batch_asks_nothing_about_tables_that_it_has_no_rows_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_WARN_SECONDS", math.inf)  # whether a minute is over is up to the machine
    sync(lake, 0, ACTIVE)
    with lake.feed() as feed:
        feed.drain()
        feed.drain()
        few = batch(lake, feed)
        with counted() as tended_few:
            feed.tend()
        sync(lake, ACTIVE, 20)
        feed.drain()
        feed.drain()
        many = batch(lake, feed)
        with counted() as tended_many:
            feed.tend()
        assert few["statements"] < 30
        assert few["catalog"] > 0
        assert many == few
        assert tended_many == tended_few
        assert (many["shapes"], many["loads"]) == (0, ACTIVE)
    for at in range(ACTIVE):
        lake.assert_same(f"t{at}")


def test_what_goes_along_with_a_batch_is_packed_once_and_opened_by_who_needs_it(lake: Lake) -> None:
    sync(lake, 0, 6)
    packing = Packing()
    with lake.feed() as feed:
        feed.drain()
        stream = feed.ledger.stream()
        assert stream is not None
        before = packing.packed(feed.reading(stream, 0)[1])
        for _ in range(12):
            lake.run("INSERT INTO t0 VALUES (now(), 1)")
            feed.step()
        targets = feed.reading(stream, 0)[1]
        assert len(targets[next(iter(targets))].metadata.snapshots) >= 12
        after = packing.packed(targets)
        assert [after[table] is before[table] for table in before] == [True] * 6, "commits change nothing about files"
        assert max(map(len, after.values())) < 20_000
        lake.run("ALTER TABLE t0 ADD COLUMN extra int")
        states = feed.refresh()
        wider = packing.packed(feed.reading(stream, 0, states)[1])
        assert sum(wider[table] is not before[table] for table in before) == 1
        opened: list[bytes] = []
        loads = pickle.loads

        def noted(content: bytes) -> Any:
            opened.append(content)
            return loads(content)

        with patch("thermocline.feed.packing.pickle.loads", noted):
            unpacked = Unpacked(wider)
            assert set(unpacked) == set(targets)
            table = next(iter(targets))
            assert table in unpacked
            assert isinstance(unpacked[table], Target)
            assert unpacked[table] is unpacked[table]
        assert len(opened) == 1


@pytest.mark.slow
def test_many_tables_and_rollups_in_one_feed_and_one_of_them_damaged(lake: Lake) -> None:
    rollups = range(3)
    tables = [
        f"CREATE TABLE t{at} (ts timestamptz NOT NULL, v int);"
        f" INSERT INTO t{at} VALUES (now() - interval '3 hours', {at});"
        f" SELECT lakets.create_chronotable('t{at}', 'ts', '1 day'); SELECT lakets.enable_sync('t{at}')"
        for at in range(MANY)
    ]
    lake.run(*tables)
    for at in rollups:
        lake.run(
            f"SELECT lakets.create_rollup('totals{at}', '{TOTALS.format(at=at)}', '1 hour')",
            "UPDATE lakets._rollup_registry SET refresh_lag = '0'",
            f"SELECT lakets.enable_sync('totals{at}')",
        )
    broken = MANY // 2
    with lake.feed() as feed:
        for _ in range(2):
            progress = feed.drain()
        assert progress.caught_up
        assert lake.run("SELECT status, count(*) FROM thermocline.synced_table GROUP BY 1") == [
            ("STREAMING", MANY + len(rollups))
        ]
        with lake.stack.catalog() as catalog:
            damaged = Path(catalog.load_table(f"public.lb_t{broken}_history").metadata_location.removeprefix("file://"))
        damaged.write_bytes(b"")
        lake.run(*(f"INSERT INTO t{at} VALUES (now(), {at}), (now(), {-at}); DELETE FROM t{at} WHERE v = -{at}"
                   for at in range(MANY)))  # fmt: skip
        lake.run(*(f"SELECT lakets.refresh_rollup('totals{at}')" for at in rollups))
        for _ in range(2):
            progress = feed.drain()
        assert progress.set_aside == (f"public.t{broken}",)
        assert progress.caught_up
    for at in range(MANY):
        if at != broken:
            lake.assert_same(f"t{at}")
    for at in rollups:
        assert lake.folded(f"_rollup_totals{at}", "bucket") == lake.hot(f"_rollup_totals{at}")
