"""What the gate reads it draws from the budget, in a node and by hand; what stops it, what it tells of a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.lakes import NOON, Lake, age, chunk
from harness.processes import Command
from harness.questions import ask, one
from thermocline.config import WorkSettings
from thermocline.gate import drop
from thermocline.stack import Stack
from thermocline.work.node import Node
from thermocline.work.pacing import Budget

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

QUICK = WorkSettings(poll=0.05, in_process=True)
# Counts who draws, whoever it is.
DRAWN = """
CREATE TABLE drawn (at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_drawn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.drawn DEFAULT VALUES;
    RETURN NEW;
END $$;
CREATE TRIGGER drawn BEFORE UPDATE ON thermocline.work_budget FOR EACH ROW EXECUTE FUNCTION note_drawn();
"""


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Three days of rows, in the lake already."""
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


def node(lake: Lake, kind: str) -> Node:
    return Node(Stack(lake.stack.settings.model_copy(update={"work": QUICK})), kinds=(kind,))


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Bytes and operations of each draw."""
    found: list[tuple[float, float]] = []
    spend = Budget.spend

    def noted(self: Budget, *, size: float = 0, operations: float = 0, **others: Any) -> float:
        found.append((size, operations))
        return spend(self, size=size, operations=operations, **others)

    monkeypatch.setattr(Budget, "spend", noted)
    return found


def test_each_chunk_that_a_node_compares_is_drawn_from_the_budget(
    lake: Lake, spent: list[tuple[float, float]], db: psycopg.Connection
) -> None:
    ask(db, "SELECT lakets.schedule_set('verify', p_every => '1 hour')")
    sizes = [(one.bytes, 1) for one in lake.stack.chunks("m")]
    assert min(size for size, _ in sizes) > 0
    with lake.feeding():
        assert node(lake, "verify").once().ended == {"done": 1}
        assert spent == sizes
        spent.clear()
        lake.run("DELETE FROM thermocline.receipt", f"SELECT lakets.add_tiering_policy('m', '{age(0)}')")
        assert node(lake, "tier").once().ended == {"done": 1}
    assert spent[:1] == sizes[:1]


def test_late_rows_are_drawn_from_the_budget(lake: Lake, spent: list[tuple[float, float]]) -> None:
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(0)
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 100, 1)")
    spent.clear()
    with lake.feeding():
        assert node(lake, "settle").once().ended == {"done": 1}
    assert [operations for _, operations in spent] == [1]
    assert spent[0][0] > 0


def test_who_compares_by_hand_draws_from_the_same_budget(lake: Lake, db: psycopg.Connection) -> None:
    db.execute(DRAWN.encode())
    chunks = len(lake.stack.chunks("m"))
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": lake.dsn})
    with lake.feeding():
        assert command.run("verify", "m", "--in-process").code == 0
        assert one(db, "SELECT count(*) FROM drawn") == chunks
        lake.run(
            "DELETE FROM thermocline.receipt", f"SELECT lakets.add_tiered_retention_policy('m', '{age(0)}', '9 y')"
        )
        assert command.run("tier", "m", "--dry-run").code == 0
        assert one(db, "SELECT count(*) FROM drawn") == chunks, "which compares nothing"
        assert command.run("tier", "m", "--in-process").code == 0
        assert one(db, "SELECT count(*) FROM drawn") == chunks + 1
        lake.run("DELETE FROM thermocline.receipt", "SELECT lakets.remove_retention_policy('m')",
                 f"SELECT lakets.add_retention_policy('m', '{age(0)}')")  # fmt: skip
        assert command.run("retention", "m", "--in-process").code == 0
        assert one(db, "SELECT count(*) FROM drawn") == chunks + 2
        assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]


def test_a_difference_that_a_node_finds_is_told_as_a_failure(lake: Lake, db: psycopg.Connection) -> None:
    ask(db, "SELECT lakets.schedule_set('verify', p_every => '1 hour')")
    lake.falsify("insert", "id", 3)
    with lake.feeding():
        assert node(lake, "verify").once().ended == {"failed": 1}
    error = one(db, "SELECT last_error FROM thermocline.work_unit WHERE kind = 'verify'")
    assert f"{chunk(0)} is not the same in the lake" in error
    assert "verify" in error


def test_rollups_have_nothing_to_compare(lake: Lake, db: psycopg.Connection) -> None:
    ask(db, "SELECT lakets.create_rollup('hourly', %s)",
        "SELECT lakets.time_bucket('1 hour', ts) AS at, count(*) AS n FROM m GROUP BY 1")  # fmt: skip
    ask(db, "SELECT lakets.enable_sync('hourly')")
    ask(db, "SELECT lakets.schedule_set('verify', p_every => '1 hour')")
    with lake.feeding():
        assert node(lake, "verify").once().ended == {"done": 1}
    assert one(db, "SELECT chronotable_id FROM thermocline.work_unit WHERE kind = 'verify'") == one(
        db, "SELECT id FROM lakets._chronotable_registry"
    )


def test_the_kill_switch_stops_a_node_between_two_chunks(
    lake: Lake, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(2)}')")
    dropped: list[int] = []
    drop_chunk = drop.drop_chunk

    def stopped_after(dsn: str, number: int, **others: Any) -> Any:
        outcome = drop_chunk(dsn, number, **others)
        if not dropped:
            ask(db, "INSERT INTO thermocline.work_stop (what) VALUES ('destructive')")
        dropped.append(number)
        return outcome

    monkeypatch.setattr(drop, "drop_chunk", stopped_after)
    with lake.feeding():
        assert node(lake, "retention").once().ended == {"handed back": 1}
        assert ask(db, "SELECT status, attempt FROM thermocline.work_unit WHERE kind = 'retention'") == [("pending", 0)]
        assert lake.run("SELECT count(*) FROM m") == [(48,)]
        ask(db, "DELETE FROM thermocline.work_stop")
        assert node(lake, "retention").once().ended == {"done": 1}
    assert lake.run("SELECT count(*) FROM m") == [(0,)]
