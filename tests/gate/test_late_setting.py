"""Where late rows go is the table's to say, and may change; what stands against it is refused by name."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gate.late_rows import LATE, across, late, settle, traps, verdicts, with_late_rows
from harness.lakes import BASE, NOON, Lake, age
from harness.processes import Command
from harness.roles import role
from harness.sessions import Session
from thermocline.gate import drop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return with_late_rows(dsn, tmp_path / "home")


def test_back_to_reject_and_to_lake_again(lake: Lake) -> None:
    before = across(lake)
    late(lake, 100, 101)
    lake.drain()
    lake.run("SELECT lakets.set_late_rows('m', 'reject')")
    expected = before + Counter({(NOON[0], 100, "late"): 1, (NOON[0], 101, "late"): 1})
    assert across(lake) == expected
    for statement in (LATE.format(at=NOON[0], id=102), "UPDATE m SET tag = 'x' WHERE id = 100"):
        with pytest.raises(psycopg.errors.RaiseException, match="too late") as caught:
            lake.run(statement)
        assert "set_late_rows" in (caught.value.diag.message_hint or "")
    lake.run("DELETE FROM m WHERE id = 101")
    expected -= Counter({(NOON[0], 101, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    late(lake, 103)
    assert across(lake) == expected + Counter({(NOON[0], 103, "late"): 1})


def test_a_trap_that_is_open_from_the_start_is_made_without_a_word(db: psycopg.Connection) -> None:
    said: list[str | None] = []
    db.add_notice_handler(lambda notice: said.append(notice.message_primary))
    db.execute("CREATE TABLE trap (ts timestamptz, CONSTRAINT nothing CHECK (false))")
    db.execute("SELECT thermocline._open_trap('trap'::regclass)")
    assert said == []
    db.execute("INSERT INTO trap VALUES (now())")


def test_a_table_that_says_so_later_opens_the_traps_that_it_has(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, tag text", "g, 't' || g").synced()
    lake.drain()
    lake.let_go(0)
    before = across(lake)
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        late(lake, 100)
    with Session(lake.dsn) as reader:
        reader.run("SELECT count(*) FROM m")
        lake.run("SELECT lakets.set_late_rows('m', 'lake')")
        assert traps(lake) == [(False, False)], "not under a reader"
    assert settle(lake) == []
    assert traps(lake) == [(True, False)]
    late(lake, 100)
    assert across(lake) == before + Counter({(NOON[0], 100, "late"): 1})
    with Session(lake.dsn) as reader:
        reader.run("SELECT count(*) FROM m")
        with pytest.raises(psycopg.errors.LockNotAvailable, match="cannot refuse late rows"):
            lake.run("SELECT lakets.set_late_rows('m', 'reject')")
    assert lake.run("SELECT late FROM lakets._chronotable_registry") == [("lake",)]
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == before + Counter({(NOON[0], 100, "late"): 1})


def test_ranges_that_the_lake_has_not_go_on_to_refuse_rows(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, tag text", "g, 't' || g")
    lake.run(f"SELECT lakets.drop_chunks('m', '{age(0)}')", "SELECT lakets.enable_sync('m')")
    lake.drain()
    lake.let_go(1)
    drop.merge_traps(lake.dsn)
    assert traps(lake) == [(False, False), (False, False)], "each says something else"
    for day, way in enumerate(("They were dropped outright", "`thermocline rehydrate` brings the range back")):
        with pytest.raises(psycopg.errors.RaiseException, match="too late") as caught:
            late(lake, 100, day=day)
        assert way in (caught.value.diag.message_hint or "")
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    drop.merge_traps(lake.dsn)
    drop.merge_traps(lake.dsn)
    assert traps(lake) == [(False, False), (True, False)]
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        late(lake, 100)
    late(lake, 101, day=1)
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake)[(NOON[1], 101, "late")] == 1


def test_sync_ends_only_without_late_rows_and_is_right_when_it_begins_anew(lake: Lake) -> None:
    late(lake, 100)
    expected = across(lake)
    with pytest.raises(psycopg.errors.RaiseException, match="late rows that are not settled"):
        lake.run("SELECT lakets.disable_sync('m')")
    assert traps(lake)[0] == (True, True)
    assert verdicts(lake) == [("settled", "proven")]
    lake.run("SELECT lakets.disable_sync('m')")
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        late(lake, 101)
    assert across(lake) == expected
    lake.run("SELECT lakets.enable_sync('m')")
    assert across(lake) == expected
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        late(lake, 101)
    lake.drain()
    assert settle(lake) == []
    late(lake, 101)
    expected += Counter({(NOON[0], 101, "late"): 1})
    assert across(lake) == expected
    assert verdicts(lake) == [("settled", "proven")]
    assert across(lake) == expected == lake.folded()
    late(lake, 102)
    lake.run("SELECT lakets.drop_chronotable('m')")


def test_columns_that_change_under_late_rows(lake: Lake) -> None:
    late(lake, 100)
    lake.run(
        "ALTER TABLE m ADD COLUMN extra text DEFAULT 'since'",
        f"INSERT INTO m VALUES ('{NOON[0]}', 101, 'late', 'own')",
    )
    assert verdicts(lake) == [("settled", "proven")]
    now = lake.content()
    assert now[(NOON[0], 100, "late", "since")] == now[(NOON[0], 101, "late", "own")] == 1


def test_a_role_that_may_only_insert_writes_late_rows(lake: Lake) -> None:
    with (
        role(lake.dsn, "late_writer", "", "GRANT INSERT ON m TO {role}") as app,
        psycopg.connect(app) as session,
    ):
        session.execute(LATE.format(at=NOON[0], id=100).encode())
    assert verdicts(lake) == [("settled", "proven")]
    assert lake.folded()[(NOON[0], 100, "late")] == 1


def test_rollups_keep_what_is_frozen_and_the_hours_are_noted(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, tag text", "g, 't' || g").synced()
    lake.run(
        "SELECT lakets.create_rollup('daily', 'SELECT lakets.time_bucket(''1 day'', ts) AS day, count(*) AS n"
        " FROM m GROUP BY 1', '1 day')",
        "SELECT lakets.create_rollup_view('daily')",
        "SELECT lakets.refresh_rollup('daily')",
    )
    lake.drain()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    ((view,),) = lake.run("SELECT realtime_view FROM lakets._rollup_registry")
    days = lake.run(f"SELECT day, n FROM {view} ORDER BY day")
    assert days[0] == (BASE, 24)
    late(lake, 100, 101)
    noted = "SELECT DISTINCT first_time, last_time FROM thermocline.late_time"
    hour = (NOON[0], NOON[0] + timedelta(hours=1) - timedelta(microseconds=1))
    assert lake.run(noted) == [hour]
    for _ in range(2):
        assert lake.run(f"SELECT day, n FROM {view} ORDER BY day") == days
        lake.run("SELECT lakets.refresh_rollup('daily')")
        assert lake.run(f"SELECT day, n FROM {view} ORDER BY day") == days
        settle(lake)
    assert lake.run("SELECT count(*) FROM thermocline.late_time") == [(1,)], "one note for all of them"
    assert lake.run(noted) == [hour]


def test_the_command_shows_what_it_would_do_what_it_did_and_what_is_wrong(lake: Lake) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    nothing = command.run("late")
    assert (nothing.code, "No late rows" in nothing.out + nothing.err) == (0, True)
    late(lake, 100)
    planned = command.run("late", "m", "--dry-run")
    assert planned.code == 0
    assert "would settle" in planned.out
    assert "public.m" in planned.out
    assert lake.run("SELECT count(*) FROM m WHERE id = 100") == [(1,)]
    assert command.run("late", "nothing").code != 0
    assert "lake" in command.run("tables").out
    with lake.feeding():
        done = command.run("late", "--in-process", "--json")
    assert done.code == 0, done.out + done.err
    assert '"settled"' in done.out


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT lakets.set_late_rows('m', 'away')", "cannot go to 'away'"),
        ("SELECT lakets.set_late_rows('m', NULL)", "cannot go to NULL"),
        ("SELECT lakets.set_late_rows('nothing', 'lake')", "is not a ChronoTable"),
        ("SELECT lakets.set_late_rows('m', 'lake')", "it is not synced"),
    ],
)
def test_what_cannot_be_is_refused_by_name(dsn: str, tmp_path: Path, statement: str, said: str) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    with pytest.raises(psycopg.errors.RaiseException, match=said):
        lake.run(statement)
    assert lake.run("SELECT late FROM lakets._chronotable_registry") == [("reject",)]


def test_shadow_mode_takes_no_late_rows(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run("SELECT lakets.enable_sync('m', p_mode => 'shadow')")
    with pytest.raises(psycopg.errors.RaiseException, match="in shadow mode"):
        lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.run("SELECT lakets.enable_sync('m', p_mode => 'direct')", "SELECT lakets.set_late_rows('m', 'lake')")
    with pytest.raises(psycopg.errors.RaiseException, match="which only direct mode does"):
        lake.run("SELECT lakets.enable_sync('m', p_mode => 'shadow')")
