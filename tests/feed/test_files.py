"""The files of a batch and of a copy: in order of time, a day each, written in parts and committed side by side."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from harness.lakes import BASE, Lake
from harness.verdicts import History as Past
from thermocline.hot import rows
from thermocline.lake.history import History

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 4000
# Every time of three days, in an order that has nothing to do with it, each twice.
SHUFFLED = (
    f"SELECT '{BASE}'::timestamptz + (g * 7919 % {ROWS} / 2) * interval '2 minutes', g, g"
    f" FROM generate_series(1, {ROWS}) g"
)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home")


def files(lake: Lake, table: str = "m") -> list[list[dict[str, Any]]]:
    with lake.stack.catalog() as catalog:
        opened = catalog.load_table(f"public.lb_{table}_history")
        order = opened.sort_order().fields
        assert [(opened.schema().find_column_name(one.source_id), one.transform) for one in order] == [
            ("ts", IdentityTransform())
        ]
        paths = [urlparse(task.file.file_path).path for task in opened.scan().plan_files()]
    found = [pq.read_table(path, partitioning=None).to_pylist() for path in paths]
    return [of_file for of_file in found if {row["_change_type"] for row in of_file} != {"truncate"}]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "copied"])
def test_files_are_in_order_of_time_and_have_a_day_each(lake: Lake, streamed: bool) -> None:
    insert = f"INSERT INTO m {SHUFFLED}"
    lake.with_days()
    lake.run(*(["SELECT lakets.enable_sync('m')"] if streamed else ["TRUNCATE m", insert]))
    if streamed:
        lake.drain()
        lake.run("TRUNCATE m", insert)
    lake.synced()
    lake.drain()
    found = [of_file for of_file in files(lake) if len(of_file) > 24]
    assert sum(row["_change_type"] == "insert" for of_file in found for row in of_file) == ROWS
    for of_file in found:
        assert len({row["ts"].date() for row in of_file}) == 1
        times = [row["ts"] for row in of_file]
        assert times == sorted(times)
    lake.assert_same()
    Past(lake, "m").require_each_once()


def test_tables_of_a_batch_are_committed_side_by_side(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ("a", "b", "c")
    for table in tables:
        lake.run(
            f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int)",
            f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
            f"SELECT lakets.enable_sync('{table}')",
        )
    lake.drain()
    lake.run(*(f"INSERT INTO {table} SELECT now(), g FROM generate_series(1, 5) g" for table in tables))
    # Passes only when all three are in the middle of their commits at the same time.
    together, append = threading.Barrier(len(tables)), History.append

    def in_company(self: History, *arguments: Any, **options: Any) -> int:
        together.wait(60)
        return append(self, *arguments, **options)

    monkeypatch.setattr(History, "append", in_company)
    with lake.feed() as feed:
        assert feed.step() is not None
    monkeypatch.undo()
    for table in tables:
        lake.assert_same(table)
        Past(lake, table).require_each_once()
    assert together.n_waiting == 0
    assert not together.broken


def test_a_chunk_is_copied_in_parts_each_row_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 50_000
    monkeypatch.setattr(rows, "_PAGES_OF_A_PART", 64)
    lake.run(
        "CREATE TABLE m (ts timestamptz NOT NULL, id int, v float8)",
        f"INSERT INTO m SELECT '{BASE}'::timestamptz + g * interval '0.1 s', g, g FROM generate_series(1, {count}) g",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
    )
    lake.synced()
    lake.drain()
    found = files(lake)
    assert len(found) == 5, "one for each part"
    copied = [row for part in found for row in part]
    assert sorted(row["id"] for row in copied) == list(range(1, count + 1))
    assert len({row["_lsn"] for row in copied}) == 1, "all of it is of one position"
    Past(lake, "m").require_each_once()
