"""A chunk that differs from the lake: which rows, on which side, and how it is mended."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.lakes import NOON, Lake, chunk
from harness.processes import Command
from thermocline.gate.differences import differences
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    synced = Lake.of(dsn, tmp_path / "home").with_days().synced()
    synced.drain()
    return synced


def verdicts(lake: Lake, *, repair: bool = False) -> list[tuple[str, str, list[tuple[str, int]]]]:
    """Of each chunk that holds rows: verdict, reason, and the rows that differ."""
    lines = lake.stack.lifecycle("m", on_spark=False).verify(repair=repair)
    return [
        (line.verdict, line.reason, [(one.where, one.row["id"]) for one in line.differences])
        for line in lines
        if line.rows
    ]


def test_rows_that_are_lost_or_doubled_in_the_lake_are_shown_with_their_side(lake: Lake) -> None:
    lake.falsify("delete", "id", 5)
    lake.falsify("insert", "id", 30)
    lake.run(f"INSERT INTO m VALUES ('{NOON[2]}', 1000, 1), ('{NOON[2]}', 1000, 1)")
    with lake.feeding():
        found = verdicts(lake)
    assert found == [
        ("unproven", "content_differs", [("not in the lake", 5)]),
        ("unproven", "content_differs", [("1 in PostgreSQL, 2 in the lake", 30)]),
        ("proven", "equal", []),
    ]


def test_a_chunk_that_differs_is_copied_again_and_proven(lake: Lake) -> None:
    lake.falsify("delete", "id", 5)
    lake.falsify("insert", "id", 7)
    with lake.feeding():
        assert [one[:2] for one in verdicts(lake, repair=True)] == [("proven", "equal")] * 3
    lake.assert_same()
    ((action, thing, reason),) = lake.run("SELECT action, object, reason FROM thermocline.audit")
    assert (action, thing) == ("resync", f"public.{chunk(0)}")
    assert "supersedes" in reason


def test_without_a_feed_a_repair_says_what_is_missing(lake: Lake) -> None:
    lake.falsify("delete", "id", 5)
    lake.run("UPDATE thermocline.synced_table SET committed_lsn = pg_current_wal_insert_lsn() + 1000000")
    gate = lake.stack.lifecycle("m", on_spark=False)
    first = gate.verify(repair=True)[0]
    assert (first.verdict, first.reason) == ("unproven", "not_covered")
    assert "thermocline feed" in first.next_step


def test_the_command_lists_what_differs(lake: Lake) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    lake.falsify("delete", "id", 5)
    with lake.feeding():
        told = command.run("verify", "m", "--in-process", "--json")
        said = command.run("verify", "m", "--in-process")
    assert (told.code, said.code) == (3, 3)
    first = json.loads(told.out)["chunks"][0]
    assert [(one["in_postgres"], one["in_lake"], one["row"]["id"]) for one in first["differences"]] == [(1, 0, 5)]
    assert "not in the lake" in said.out
    assert "--repair" in said.out


# ---- the algorithm alone -----------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """Rows that are there already."""

    rows: list[tuple[int, int]]

    def read(self) -> Iterator[tuple[pa.Table, npt.NDArray[np.int64]]]:
        """In two blocks."""
        middle = len(self.rows) // 2
        for some in (self.rows[:middle], self.rows[middle:]):
            values, signs = [value for value, _ in some], [sign for _, sign in some]
            yield pa.table({"v": pa.array(values, pa.int64())}), np.array(signs, np.int64)


@given(
    st.lists(st.integers(0, 50)),
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([-1, 0, 1]))),
)
def test_whatever_differs_is_found_and_counted(hot: list[int], lake: list[tuple[int, int]]) -> None:
    found = differences(
        InProcess(),
        [Listed([(value, 1) for value in hot])],
        [Listed(lake[:3]), Listed(lake[3:])],
        ["v"],
        most=1000,
    )
    in_postgres, in_lake = Counter(hot), Counter[int]()
    for value, sign in lake:
        in_lake[value] += sign
    expected = {
        (value, in_postgres[value], in_lake[value])
        for value in {*in_postgres, *in_lake}
        if in_postgres[value] != in_lake[value]
    }
    assert {(one.row["v"], one.in_postgres, one.in_lake) for one in found} == expected
