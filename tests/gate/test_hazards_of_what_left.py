"""Hazards of ranges that have left, of late rows and of what came back: lost slots, older lakes, hands at work."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gate.fed import as_if_fed
from harness.both_tiers import across, told
from harness.lakes import BASE, NOON, Lake, age, chunk
from thermocline.errors import Refused
from thermocline.feed.refusals import SlotLost
from thermocline.gate import drop
from thermocline.gate.rehydrate import NothingToBring

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from harness.lakes import Row
    from thermocline.gate.rehydrate import RangeLine

DAY = timedelta(days=1)
LATE = "INSERT INTO m VALUES ('{at}', {id}, 'late')"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Three days, of which the first has left; its late rows go to the lake."""
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, tag text", "g, 't' || g").synced()
    lake.drain()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    return lake


def settle(lake: Lake) -> list[tuple[str, str]]:
    with lake.feeding():
        return [(line.verdict, line.reason) for line in lake.stack.late_rows("m", on_spark=False).settle()]


def back(lake: Lake, day: int = 0) -> list[tuple[str, str]]:
    with lake.feeding():
        lines = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + day * DAY, BASE + (day + 1) * DAY)
    return [(line.verdict, line.reason) for line in lines]


def back_if_it_can(lake: Lake, start: datetime, end: datetime) -> list[RangeLine]:
    """What becomes of it beside others, who may be faster: nothing can come back, or not any more when it is asked."""
    try:
        return lake.stack.rehydrator(on_spark=False, patience=2).bring_back("m", start, end)
    except Refused as error:  # by the plan, or by the database
        assert "can be brought back" in error.message, error
        return []


def snapshots(lake: Lake) -> list[int]:
    with lake.stack.catalog() as catalog:
        return [one.snapshot_id for one in catalog.load_table("public.lb_m_history").metadata.snapshots]


def roll_to(lake: Lake, snapshot: int) -> None:
    """By hand: the lake's table is at one of its snapshots."""
    with lake.stack.catalog() as catalog, catalog.load_table("public.lb_m_history").manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot)


def late_row(number: int, day: int = 0) -> Counter[Row]:
    return Counter({(NOON[day], number, "late"): 1})


# ---- another stream --------------------------------------------------------------------------


def test_g10_a_slot_made_anew_never_lets_late_rows_go_that_it_has_not_carried(lake: Lake) -> None:
    """They are read all the time, from PostgreSQL; what the message says to do gets them to the lake."""
    before = across(lake, "m")
    lake.run(LATE.format(at=NOON[0], id=100))
    expected = before + late_row(100)
    lake.run("SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream")
    with pytest.raises(SlotLost), lake.feed():
        pass
    assert across(lake, "m") == expected
    lake.stack.resync_feed()
    lake.drain()
    assert across(lake, "m") == expected
    assert settle(lake) == [("stays", "content_differs")]
    lake.run(LATE.format(at=NOON[0], id=101))
    expected += late_row(101)
    assert settle(lake) == [("stays", "content_differs")]
    assert across(lake, "m") == expected
    with pytest.raises(NothingToBring, match="on their way to the lake"):
        back(lake)
    lake.run("CREATE TABLE kept AS SELECT * FROM m WHERE id IN (100, 101)", "DELETE FROM m WHERE id IN (100, 101)")
    lake.drain()
    assert across(lake, "m") == before
    assert back(lake) == [("back", "equal")]
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).verify(repair=True)
    assert {line.verdict for line in lines} == {"proven"}
    lake.run("INSERT INTO m TABLE kept")
    lake.let_go(0)
    assert across(lake, "m") == expected == lake.content()


@pytest.mark.parametrize("when", ["proven", "detached"])
def test_g10_a_receipt_of_the_stream_before_drops_nothing(lake: Lake, when: str) -> None:
    """Whatever the slot that is gone has not carried is not in the lake; the new one copies first."""
    expected = across(lake, "m")
    with lake.feeding():
        prover = lake.stack.prover(on_spark=False)
        assert prover.prove(lake.chunk_oid(1)).equal
    looks: list[int] = []

    def look(oid: int) -> None:
        prover.look(oid)
        looks.append(oid)
        if len(looks) == (1 if when == "proven" else 2):
            lake.run("SELECT pg_drop_replication_slot(slot_name) FROM thermocline.stream")
            lake.stack.resync_feed()

    outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(1), check_lake=look)
    assert outcome.result is drop.Result.STAYS, outcome
    assert across(lake, "m") == expected
    assert lake.run(f"SELECT count(*) FROM {chunk(1)}") == [(24,)]
    lake.drain()
    lake.let_go(1)
    assert across(lake, "m") == expected == lake.content()


def test_g10_a_database_that_went_back_in_time_brings_nothing_back_and_settles_nothing(lake: Lake) -> None:
    """As after a restore to an earlier point: the lake has batches that this database does not know."""
    lake.let_go(1)
    lake.run(LATE.format(at=NOON[0], id=100))
    lake.drain()
    expected = across(lake, "m")
    for table in ("stream", "synced_table", "batch"):
        lake.run(f"CREATE TABLE was_{table} AS TABLE thermocline.{table}")
    lake.run(LATE.format(at=NOON[0], id=101))
    lake.drain()
    lake.run(
        "DELETE FROM m WHERE id = 101",
        "UPDATE thermocline.stream s SET (epoch, position) = (SELECT w.epoch, w.position FROM was_stream w)",
        "UPDATE thermocline.synced_table s SET (committed_lsn, marker_lsn, lake_snapshot)"
        " = (SELECT w.committed_lsn, w.marker_lsn, w.lake_snapshot FROM was_synced_table w)",
        "DELETE FROM thermocline.batch b WHERE NOT EXISTS (SELECT FROM was_batch w WHERE w.id = b.id)",
    )
    with as_if_fed(lake):
        (line,) = lake.stack.late_rows("m", on_spark=False).settle()
        assert (line.verdict, line.reason) == ("stays", "lake.history_moved")
        assert "written to by another database" in line.message
        (came,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + DAY, BASE + 2 * DAY)
        assert (came.verdict, came.reason) == ("stays", "lake.history_moved")
        assert "written to by another database" in came.message
    (came,) = lake.stack.rehydrator(on_spark=False).plan("m", BASE, BASE + DAY)
    assert came.reason == "late_rows"
    assert lake.run("SELECT count(*) FROM m WHERE id = 100") == [(1,)]
    assert across(lake, "m") == expected


# ---- the lake is changed by hand -------------------------------------------------------------


def test_g17_a_lake_that_was_rolled_back_brings_nothing_back_and_settles_nothing(lake: Lake) -> None:
    """Neither what is older comes back nor do late rows go; moved forward again, all is well."""
    lake.run("UPDATE m SET tag = 'new' WHERE id BETWEEN 24 AND 30")
    lake.drain()
    lake.let_go(1)
    lake.run(LATE.format(at=NOON[0], id=100))
    expected = across(lake, "m")
    lake.drain()
    *_, older, newest = snapshots(lake)
    roll_to(lake, older)
    with as_if_fed(lake):
        (line,) = lake.stack.late_rows("m", on_spark=False).settle()
        assert (line.verdict, line.reason) == ("stays", "lake.history_moved")
        assert "it was rolled back" in line.message
        roll_to(lake, snapshots(lake)[0])
        (came,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE + DAY, BASE + 2 * DAY)
        assert (came.verdict, came.reason) == ("stays", "lake.history_moved")
        assert "it was rolled back" in came.message
    assert lake.run(f"SELECT count(*) FROM m WHERE ts >= '{BASE + DAY}' AND ts < '{BASE + 2 * DAY}'") == [(0,)]
    assert lake.run("SELECT count(*) FROM m WHERE id = 100") == [(1,)]
    roll_to(lake, newest)
    assert across(lake, "m") == expected
    lake.stack.resync_table("m")
    assert settle(lake) == [("settled", "proven")]
    assert back(lake, 1) == [("back", "equal")]
    assert across(lake, "m") == expected


def test_g17_files_rewritten_by_others_change_nothing(lake: Lake) -> None:
    """The same rows in other files: a receipt is made anew, late rows are settled, ranges come back."""
    lake.run(LATE.format(at=NOON[0], id=100))
    expected = across(lake, "m")
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(lake.chunk_oid(1)).equal
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        table.overwrite(table.scan().to_arrow())
    assert across(lake, "m") == expected
    outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(1), check_lake=lake.stack.prover(on_spark=False).look)
    assert outcome.reason is not None
    assert outcome.reason.code == "lake_unchecked"
    lake.let_go(1)
    assert settle(lake) == [("settled", "proven")]
    assert back(lake) == [("back", "equal")]
    assert across(lake, "m") == expected == lake.folded()


# ---- hands in PostgreSQL ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["as a replica", "with triggers disabled"])
@pytest.mark.parametrize("late", ["lake", "reject"])
def test_g8_a_late_row_that_no_trigger_sees_is_kept_or_refused(lake: Lake, how: str, late: str) -> None:
    """A trap that is open has it streamed, one that is closed refuses it by a constraint; closed by design."""
    lake.run(f"SELECT lakets.set_late_rows('m', '{late}')")
    before = across(lake, "m")
    (trap,) = lake.run("SELECT trap_oid::regclass::text FROM thermocline.trap")[0]
    around = {
        "as a replica": ("SET session_replication_role = replica", "RESET session_replication_role"),
        "with triggers disabled": (f"ALTER TABLE {trap} DISABLE TRIGGER ALL", f"ALTER TABLE {trap} ENABLE TRIGGER ALL"),
    }[how]
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        session.execute(around[0].encode())
        if late == "reject":
            with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.RaiseException)):
                session.execute(LATE.format(at=NOON[0], id=100).encode())
        else:
            session.execute(LATE.format(at=NOON[0], id=100).encode())
        session.execute(around[1].encode())
    expected = before + (late_row(100) if late == "lake" else Counter())
    assert across(lake, "m") == expected
    assert settle(lake) == ([("settled", "proven")] if late == "lake" else [])
    assert across(lake, "m") == expected == lake.folded()


@pytest.mark.parametrize("how", ["of the chunk", "of the table", "as a replica"])
def test_g9_a_truncated_range_that_had_come_back_is_empty_everywhere(lake: Lake, how: str) -> None:
    before = across(lake, "m")
    assert back(lake) == [("back", "equal")]
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        if how == "as a replica":
            session.execute("SET session_replication_role = replica")
        session.execute(f"TRUNCATE {'m' if how == 'of the table' else chunk(0)}".encode())
    left = Counter({row: n for row, n in before.items() if how != "of the table" and row[0] >= BASE + DAY})
    assert across(lake, "m") == left
    lake.drain()
    if how == "as a replica":
        with lake.feeding():
            lines = lake.stack.lifecycle("m", on_spark=False).verify(repair=True)
        assert {line.verdict for line in lines} == {"proven"}, lines
    lake.run(f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')")
    lake.let_go(0)
    assert across(lake, "m") == left == lake.content()
    lake.run(LATE.format(at=NOON[0], id=100))
    assert settle(lake) == [("settled", "proven")]
    assert back(lake) == [("back", "equal")]
    assert lake.hot() == left + late_row(100)


@pytest.mark.parametrize("how", ["detached", "dropped"])
def test_g12_g16_what_came_back_and_was_taken_away_by_hand_is_left_alone(lake: Lake, how: str) -> None:
    before = across(lake, "m")
    assert back(lake) == [("back", "equal")]
    lake.run(
        f"SELECT lakets.release('m', '{BASE}', '{BASE + DAY}')",
        f"SELECT lakets.add_retention_policy('m', '{age(0)}')",
    )
    lake.run(f"ALTER TABLE m DETACH PARTITION {chunk(0)}" if how == "detached" else f"DROP TABLE {chunk(0)}")
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).retention()
    if how == "dropped":
        lake.drain()
        assert [line.range_start for line in lines if line.verdict == "dropped"] == []
        assert lake.run("SELECT in_lake, receipt_id FROM thermocline.dropped_range") == [(True, None)], "noticed"
    else:
        (line,) = (line for line in lines if line.range_start == BASE)
        assert (line.verdict, line.reason) == ("stays", "moved")
        assert lake.run(f"SELECT count(*) FROM {chunk(0)}") == [(24,)]
        lake.run(f"ALTER TABLE m ATTACH PARTITION {chunk(0)} FOR VALUES FROM ('{BASE}') TO ('{BASE + DAY}')")
        lake.stack.maintain("m")
        lake.drain()
        lake.let_go(0)
    assert across(lake, "m") == before


def test_g16_a_filled_table_in_the_place_of_a_trap_is_never_taken_for_what_has_left(lake: Lake) -> None:
    """Reads refuse and name it, nothing comes back over it, and once it is gone everything is as it was."""
    before = across(lake, "m")
    (trap,) = lake.run("SELECT trap_oid::regclass::text FROM thermocline.trap")[0]
    lake.run(
        f"ALTER TABLE m DETACH PARTITION {trap}",
        "CREATE TABLE theirs (LIKE m)",
        f"INSERT INTO theirs VALUES ('{NOON[0]}', 700, 'theirs')",
        f"ALTER TABLE m ATTACH PARTITION theirs FOR VALUES FROM ('{BASE}') TO ('{BASE + DAY}')",
    )
    with pytest.raises(Refused, match="partition theirs, which is not a chunk"):
        across(lake, "m")
    (maintained,) = lake.stack.maintain("m")
    assert "its range has left PostgreSQL" in maintained.findings[0].finding
    assert back(lake) == [("stays", "failed")]
    assert lake.run("SELECT count(*) FROM theirs") == [(1,)]
    lake.run("ALTER TABLE m DETACH PARTITION theirs", f"DROP TABLE {trap}")
    assert across(lake, "m") == before
    (maintained,) = lake.stack.maintain("m")
    assert [(one.finding[:21], one.done) for one in maintained.findings] == [
        ("no trap for late rows", "it has one again")
    ]
    assert lake.stack.maintain("m")[0].findings == ()
    assert back(lake) == [("back", "equal")]
    assert lake.hot() == before


def test_g12_a_trap_that_somebody_dropped_with_its_late_rows_is_set_again(lake: Lake) -> None:
    """What was committed to it is in the stream, and is read from the lake from then on; new ones are let in."""
    before = across(lake, "m")
    lake.run(LATE.format(at=NOON[0], id=100))
    (trap,) = lake.run("SELECT trap_oid::regclass::text FROM thermocline.trap")[0]
    lake.run(f"DROP TABLE {trap}")
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition of relation"):
        lake.run(LATE.format(at=NOON[0], id=101))
    lake.drain()
    expected = before + late_row(100)
    assert across(lake, "m") == expected
    lake.stack.maintain("m")
    assert across(lake, "m") == expected
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        lake.run(LATE.format(at=NOON[0], id=101))
    assert settle(lake) == []
    lake.run(LATE.format(at=NOON[0], id=102))
    expected += late_row(102)
    assert across(lake, "m") == expected
    assert settle(lake) == [("settled", "proven")]
    assert across(lake, "m") == expected == lake.folded()


# ---- at once ---------------------------------------------------------------------------------


def test_g1_g18_late_rows_that_are_written_while_traps_move_are_each_there_once(lake: Lake) -> None:
    """Drops, merges, settling and the way back beside writers of late rows: what they committed is there, once."""
    expected = across(lake, "m")
    stop = threading.Event()

    def write(first: int) -> Counter[Row]:
        written: Counter[Row] = Counter()
        number = first
        with psycopg.connect(lake.dsn, autocommit=True) as session:
            while not stop.wait(0.01):
                number += 1
                try:
                    session.execute(LATE.format(at=NOON[number % 3], id=number).encode())
                    written += late_row(number, number % 3)
                except psycopg.errors.CheckViolation as error:
                    assert "no partition of relation" in str(error), error
                except psycopg.errors.RaiseException as error:
                    assert "too late" in str(error), error
        return written

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, first) for first in (1000, 100_000)]
        try:
            with lake.feeding():
                for day in (1, 0, 2):
                    prover = lake.stack.prover(on_spark=False)
                    prover.prove_all([oid for (oid,) in lake.run(_RESIDENT)])
                    for (oid,) in lake.run(_RESIDENT):
                        drop.drop_chunk(lake.dsn, oid, check_lake=prover.look, patience=2)
                    drop.merge_traps(lake.dsn)
                    lake.stack.late_rows("m", on_spark=False, patience=2).settle()
                    back_if_it_can(lake, BASE + day * DAY, BASE + (day + 1) * DAY)
        finally:
            stop.set()
        for writer in writers:
            expected += writer.result()
    found = across(lake, "m")
    assert found == expected, told(found, expected)
    assert {reason for _, reason in settle(lake)} <= {"proven"}
    found = across(lake, "m")
    assert found == expected, told(found, expected)
    assert sum(expected.values()) > 72 + 20, "they have written"


_RESIDENT = (
    "SELECT chunk_oid::bigint FROM lakets._chunk_metadata WHERE status <> 'dropped'"
    f" AND range_end <= '{BASE + 3 * DAY}' ORDER BY range_start"
)


def test_g14_g22_a_range_is_let_go_and_brought_back_by_several_at_once(lake: Lake) -> None:
    """Nobody waits for ever, each end is one of both, and the rows are there once."""
    expected = across(lake, "m")
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(1)}')")

    def bring() -> list[Any]:
        return back_if_it_can(lake, BASE, BASE + 2 * DAY)

    def let_go() -> list[Any]:
        lake.run(f"SELECT lakets.release('m', '{BASE}', '{BASE + 2 * DAY}')")
        return lake.stack.lifecycle("m", on_spark=False, patience=2).retention()

    with lake.feeding(), ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            for ended in [pool.submit(work) for work in (bring, let_go, bring, let_go)]:
                for line in ended.result():
                    assert line.reason not in ("content_differs", "failed"), line
            assert across(lake, "m") == expected
    assert across(lake, "m") == expected == lake.content()
