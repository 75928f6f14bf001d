"""Late rows that go to the lake: let in by the trap, read once at any moment, let go only when the lake has them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gate.late_rows import LATE, across, late, settle, traps, verdicts, with_late_rows
from harness.lakes import BASE, NOON, Lake
from harness.processes import Command
from harness.sessions import Session
from thermocline.gate import drop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return with_late_rows(dsn, tmp_path / "home")


def test_a_late_row_is_read_once_before_it_streams_after_and_when_it_is_settled(lake: Lake) -> None:
    before = across(lake)
    assert sum(before.values()) == 72
    late(lake, 100)
    expected = before + Counter({(NOON[0], 100, "late"): 1})
    assert across(lake) == expected
    lake.drain()
    assert across(lake) == expected
    assert lake.folded()[(NOON[0], 100, "late")] == 1
    (line,) = settle(lake)
    assert (line.table, line.rows, line.verdict, line.reason) == ("public.m", 1, "settled", "proven")
    assert lake.run("SELECT count(*) FROM m WHERE id = 100") == [(0,)]
    assert across(lake) == expected
    lake.drain()
    assert across(lake) == expected
    assert lake.folded() == expected, "letting go does not stream"
    ((action, rows, freed, forced),) = lake.run(
        "SELECT action, row_count, bytes > 0, forced FROM thermocline.audit WHERE action = 'settle_late_rows'"
    )
    assert (action, rows, freed, forced) == ("settle_late_rows", 1, True, False)
    late(lake, 101)
    assert across(lake) == expected + Counter({(NOON[0], 101, "late"): 1})
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected + Counter({(NOON[0], 101, "late"): 1})
    assert settle(lake) == []


def test_late_rows_are_changed_deleted_moved_and_copied_in_bulk(lake: Lake) -> None:
    lake.let_go(1)
    before = across(lake)
    late(lake, 100, 101, 102)
    lake.run(
        "UPDATE m SET tag = 'changed' WHERE id = 100",
        "DELETE FROM m WHERE id = 101",
        f"UPDATE m SET ts = '{NOON[1]}' WHERE id = 102",
        f"UPDATE m SET ts = '{NOON[0]}' WHERE id = 60",
    )
    with psycopg.connect(lake.dsn) as session, session.cursor().copy("COPY m FROM STDIN") as copy:
        for number in range(3000):
            copy.write_row((BASE + timedelta(minutes=number % 2880), 1000 + number, "bulk"))
    expected = before - Counter({(BASE + timedelta(hours=60), 60, "t60"): 1})
    expected += Counter({(NOON[0], 100, "changed"): 1, (NOON[1], 102, "late"): 1, (NOON[0], 60, "t60"): 1})
    expected += Counter((BASE + timedelta(minutes=n % 2880), 1000 + n, "bulk") for n in range(3000))
    assert across(lake) == expected
    assert {line.verdict for line in settle(lake)} == {"settled"}
    assert across(lake) == expected
    assert lake.run(f"SELECT count(*) FROM m WHERE ts < '{BASE + timedelta(days=2)}'") == [(0,)]
    assert lake.folded() == expected


def test_rows_that_came_and_went_leave_nothing_behind(lake: Lake) -> None:
    before = across(lake)
    late(lake, 100)
    lake.run("DELETE FROM m WHERE id = 100")
    with Session(lake.dsn) as session:
        session.run(LATE.format(at=NOON[0], id=101))
        session.rollback()
    assert traps(lake)[0] == (True, True)
    assert verdicts(lake) == [("settled", "proven")]
    assert traps(lake)[0] == (True, False)
    assert across(lake) == before


def test_h9_late_rows_while_traps_are_merged_and_a_chunk_leaves_beside_them(lake: Lake) -> None:
    lake.let_go(1)
    before = across(lake)
    late(lake, 100, day=0)
    expected = before + Counter({(NOON[0], 100, "late"): 1})
    drop.merge_traps(lake.dsn)
    assert traps(lake) == [(True, True), (True, False)], "one with rows stays as it is"
    lake.let_go(2)
    drop.merge_traps(lake.dsn)
    assert traps(lake) == [(True, True), (True, False)], "those without are one"
    late(lake, 102, day=2)
    expected += Counter({(NOON[2], 102, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")] * 2
    assert across(lake) == expected
    assert traps(lake) == [(True, False)], "settled, they are one"
    late(lake, 103, 104, 105, day=1)
    late(lake, 106, day=2)
    expected += Counter({(NOON[1], n, "late"): 1 for n in (103, 104, 105)} | {(NOON[2], 106, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected == lake.folded()


def test_h9_a_row_that_is_being_written_while_traps_are_merged_is_kept(lake: Lake) -> None:
    lake.let_go(1)
    before = across(lake)
    with Session(lake.dsn) as writer:
        writer.run(LATE.format(at=NOON[1], id=100))
        drop.merge_traps(lake.dsn)
        writer.commit()
    assert across(lake) == before + Counter({(NOON[1], 100, "late"): 1})
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == before + Counter({(NOON[1], 100, "late"): 1})


@pytest.mark.parametrize("change", ["delete", "insert"])
def test_what_the_lake_has_otherwise_is_not_let_go(lake: Lake, change: str) -> None:
    late(lake, 100, 101)
    lake.drain()
    expected = across(lake)
    lake.falsify(change, "id", 100)
    (line,) = settle(lake)
    assert (line.verdict, line.reason) == ("stays", "content_differs")
    assert "rehydrate" in line.next_step
    assert lake.run("SELECT count(*) FROM m WHERE id IN (100, 101)") == [(2,)]
    assert lake.hot()[(NOON[0], 100, "late")] == 1
    assert across(lake) == expected, "what is settled is read, and the rows that are here"


def back(lake: Lake) -> tuple[str, str]:
    """Bring the first day back."""
    with lake.feeding():
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + timedelta(days=1))
    return line.verdict, line.reason


def test_a_range_comes_back_with_its_late_rows_which_are_settled_first(lake: Lake) -> None:
    late(lake, 100)
    expected = across(lake)
    assert back(lake) == ("back", "equal")
    assert lake.run("SELECT action, row_count FROM thermocline.audit ORDER BY id DESC LIMIT 2") == [
        ("rehydrate", 25),
        ("settle_late_rows", 1),
    ]
    assert lake.hot() == across(lake) == expected
    late(lake, 101)
    lake.let_go(0)
    late(lake, 102)
    expected += Counter({(NOON[0], 101, "late"): 1, (NOON[0], 102, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected == lake.folded()


def test_the_way_out_of_a_lake_that_has_something_else(lake: Lake) -> None:
    before = across(lake)
    late(lake, 100)
    lake.drain()
    lake.falsify("delete", "id", 100)
    assert verdicts(lake) == [("stays", "content_differs")]
    lake.run("DELETE FROM m WHERE id = 100")
    assert across(lake) == before
    assert back(lake) == ("back", "equal")
    assert lake.hot() == before
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify(repair=True)
    assert {line.verdict for line in lines} == {"proven"}
    late(lake, 100)
    lake.let_go(0)
    assert across(lake) == before + Counter({(NOON[0], 100, "late"): 1}) == lake.content()


def test_without_a_feed_nothing_is_let_go(lake: Lake) -> None:
    late(lake, 100)
    (line,) = lake.stack.late_rows("m", on_spark=False).settle()
    assert (line.verdict, line.reason) == ("stays", "feed_behind")
    (planned,) = lake.stack.late_rows("m", on_spark=False).plan()
    assert planned.verdict == "would settle"
    assert lake.run("SELECT count(*) FROM m WHERE id = 100") == [(1,)]


def test_a_row_that_comes_between_comparison_and_letting_go_keeps_them_all(lake: Lake) -> None:
    late(lake, 100)
    with lake.feeding():
        compared = lake.stack.prover(on_spark=False).prove_late(
            lake.run("SELECT trap_oid::bigint FROM thermocline.trap WHERE size_bytes > 0")[0][0]
        )
    assert compared.equal
    assert compared.proof is not None
    late(lake, 101)
    rows = lake.stack.late_rows("m", on_spark=False)
    (trap,) = rows._traps()
    about = {"metadata": compared.proof.evidence["metadata"], **rows._stream()}
    line = rows._let_go(trap, compared, about, None)
    assert (line.verdict, line.reason) == ("stays", "changing")
    assert lake.run("SELECT count(*) FROM m WHERE id IN (100, 101)") == [(2,)]


def test_readers_and_the_kill_switch_come_first(lake: Lake) -> None:
    late(lake, 100)
    with Session(lake.dsn) as reader:
        reader.run("SELECT count(*) FROM m")
        assert verdicts(lake, 2) == [("deferred", "busy")]
    lake.run("INSERT INTO thermocline.work_stop (what) VALUES ('destructive')")
    (line,) = settle(lake)
    assert (line.verdict, line.reason) == ("stays", "gate.paused")
    assert "work pause destructive --off" in line.next_step
    lake.run("DELETE FROM thermocline.work_stop")
    assert verdicts(lake) == [("settled", "proven")]


def test_truncate_of_late_rows_is_refused_and_works_without(lake: Lake) -> None:
    late(lake, 100)
    (trap,) = lake.run("SELECT trap_oid::regclass::text FROM thermocline.trap WHERE size_bytes > 0")[0]
    for table in ("m", trap):
        with pytest.raises(psycopg.errors.RaiseException, match="on their way to the lake") as caught:
            lake.run(f"TRUNCATE {table}")
        assert "thermocline late" in (caught.value.diag.message_hint or "")
    with Session(lake.dsn) as session:
        session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.run("SELECT 1")
        with pytest.raises(psycopg.errors.RaiseException, match="on their way to the lake"):
            session.run("TRUNCATE m")
    lake.run("DELETE FROM m WHERE id = 100")
    lake.drain()
    left = Counter({row: n for row, n in across(lake).items() if row[0] < BASE + timedelta(days=1)})
    lake.run("TRUNCATE m")
    lake.drain()
    assert sum(left.values()) == 24
    assert across(lake) == left, "what has left stays in the lake, as ever"


def test_a_forced_drop_takes_late_rows_from_the_next_run_on(lake: Lake) -> None:
    lake.run(
        "SELECT lakets.add_retention_policy('m', '1 day')",
        "SELECT lakets.execute_retention('m', p_force => true)",
    )
    before = across(lake)
    assert sum(before.values()) == 72
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        late(lake, 100, day=2)
    drop.merge_traps(lake.dsn)
    late(lake, 100, day=2)
    expected = before + Counter({(NOON[2], 100, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected == lake.folded()


POINTS = ("settle.compared", "settle.looked", "settle.before_commit", "settle.done")


@pytest.mark.parametrize("point", ["receipt.snapshot", "receipt.lake_read", *POINTS])
def test_g22_killed_at_any_point_of_settling_each_row_is_read_once(lake: Lake, point: str) -> None:
    late(lake, 100, 101)
    expected = across(lake)
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    with lake.feeding():
        killed = command.run("late", "m", "--in-process", "--json", kill_at=point)
        assert killed.was_killed, killed.out + killed.err
        assert across(lake) == expected
        late(lake, 102)
        ended = command.run("late", "m", "--in-process", "--json")
        assert ended.code == 0, ended.out + ended.err
    assert lake.run("SELECT count(*) FROM m WHERE id >= 100") == [(0,)]
    assert across(lake) == expected + Counter({(NOON[0], 102, "late"): 1}) == lake.folded()
