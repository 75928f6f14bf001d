"""What is attached is what the lake has: whoever writes to a loaded table or its range before that is found out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import BASE, NOON, Lake, chunk
from thermocline.gate import rehydrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from thermocline.gate.rehydrate import RangeLine

DAY = timedelta(days=1)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    return lake


def at_point(monkeypatch: pytest.MonkeyPatch, point: str, act: Callable[[], object]) -> None:
    """Once, when it comes to a point."""
    left = [act]

    def at(name: str) -> None:
        if name == point and left:
            left.pop()()

    monkeypatch.setattr(rehydrate, "crash_point", at)


def back(lake: Lake, day: int = 0) -> RangeLine:
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + day * DAY, BASE + (day + 1) * DAY)
    return line


def assert_stayed(lake: Lake, line: RangeLine, reason: str) -> None:
    assert (line.verdict, line.reason) == ("stays", reason), line
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]
    assert lake.run(f"SELECT count(*) FROM m WHERE ts < '{BASE + DAY}'") == [(0,)]


@pytest.mark.parametrize(
    "written",
    [
        f"UPDATE {chunk(0)} SET v = 0 WHERE id = 5",
        f"DELETE FROM {chunk(0)} WHERE id = 5",
        f"INSERT INTO {chunk(0)} SELECT * FROM {chunk(0)} WHERE id = 5",
    ],
    ids=["updated", "deleted", "doubled"],
)
def test_a_loaded_table_that_somebody_has_written_to_is_not_attached(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    before = lake.hot()
    lake.let_go(0)
    at_point(monkeypatch, "rehydrate.loaded", lambda: lake.run(written))
    assert_stayed(lake, back(lake), "gate.not_the_same")
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).carry_out()
    assert line.verdict == "back"
    assert lake.hot() == before


def test_nobody_writes_to_it_between_its_proof_and_its_place(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before, refused = lake.hot(), []
    lake.let_go(0)

    def write() -> None:
        with pytest.raises(psycopg.errors.LockNotAvailable) as error:
            lake.run("SET lock_timeout = '200ms'", f"DELETE FROM {chunk(0)} WHERE id = 5")
        refused.append(error)

    at_point(monkeypatch, "rehydrate.proven", write)
    line = back(lake)
    assert (line.verdict, len(refused)) == ("back", 1)
    assert lake.hot() == before


@pytest.mark.parametrize("set_again", [True, False], ids=["set again", "not yet"])
def test_g12_a_trap_that_is_dropped_by_hand_while_it_is_loaded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, set_again: bool
) -> None:
    """It was opened and had a late row, which is in the stream alone then; what was loaded is without it."""
    before = lake.hot()
    lake.let_go(0)
    assert lake.run("SELECT settled_position FROM thermocline.dropped_range") == [(None,)]

    def drop() -> None:
        lake.run("SELECT lakets.set_late_rows('m', 'lake')")
        ((trap, is_open),) = lake.run("SELECT trap_oid::regclass::text, is_open FROM thermocline.trap")
        assert is_open
        lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)", f"DROP TABLE {trap}")
        if set_again:
            lake.stack.maintain("m")
            assert lake.run("SELECT settled_position FROM thermocline.dropped_range") == [(None,)]

    at_point(monkeypatch, "rehydrate.loaded", drop)
    assert_stayed(lake, back(lake), "late_rows" if set_again else "no_trap")
    lake.stack.maintain("m")
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).carry_out()
    assert (line.verdict, line.rows) == ("back", 25)
    assert sum((lake.hot() - before).values()) == 1


def test_rows_that_a_later_check_refuses_stay_in_the_lake_with_its_words(lake: Lake) -> None:
    lake.let_go(0)
    lake.run("ALTER TABLE m ADD CONSTRAINT later CHECK (id <> 5)")
    line = back(lake)
    assert_stayed(lake, line, "failed")
    assert 'violates check constraint "later"' in line.message
