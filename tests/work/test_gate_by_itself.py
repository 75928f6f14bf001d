"""The gate as work units: receipts ahead of need, chunks that were written to, and those that cannot be proven."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.lakes import NOON, Lake, age, chunk
from harness.sessions import Session
from thermocline.config import WorkSettings
from thermocline.gate.receipt import Prover
from thermocline.stack import Stack
from thermocline.work.node import Node
from work.stage import until

if TYPE_CHECKING:
    from pathlib import Path

RECEIPTS = "SELECT split_part(chunk_name, '.', 2), count(*) FROM thermocline.receipt GROUP BY 1 ORDER BY 1"
# Whether the stream has told of a write since the newest receipt.
WRITTEN = (
    "SELECT last_modified_at > (SELECT max(made_at) FROM thermocline.receipt r WHERE r.chunk_oid = m.chunk_oid)"
    f" FROM lakets._chunk_metadata m WHERE chunk_name = 'public.{chunk(0)}'"
)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Three days of rows, in the lake already."""
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


def run(lake: Lake, kind: str) -> dict[str, Any]:
    """The unit of the only table, as a node does it; returns its result."""
    stack = Stack(lake.stack.settings.model_copy(update={"work": WorkSettings(poll=0.05, in_process=True)}))
    lake.run("DELETE FROM thermocline.work_unit", "DELETE FROM thermocline.schedule_run")
    assert Node(stack, kinds=(kind,)).once().ended == {"done": 1}
    ((result,),) = lake.run(f"SELECT result FROM thermocline.work_unit WHERE kind = '{kind}'")
    return dict(result)


def told(lake: Lake, day: int) -> tuple[str, str, str]:
    found = lake.run(
        "SELECT v ->> 'state', v ->> 'verdict', v ->> 'reason'"
        " FROM lakets.show_tiering_status('m', p_verdicts => true) s, jsonb_array_elements(s.verdicts) v"
        f" WHERE v ->> 'chunk' = 'public.{chunk(day)}'"
    )
    return found[0]


def test_receipts_are_made_before_a_chunk_is_due_all_in_one_go(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each within a day, not of later ones, and a second run finds nothing to do."""
    together: list[int] = []
    prove_all = Prover.prove_all

    def counted(self: Prover, chunks: Any, **named: Any) -> Any:
        together.append(len(chunks))
        return prove_all(self, chunks, **named)

    monkeypatch.setattr(Prover, "prove_all", counted)
    # The oldest is due in half a day, the next ones a day later each.
    soon = age(0, reached_in=timedelta(hours=12))
    lake.run(f"SELECT lakets.add_tiered_retention_policy('m', '{soon}', '30 days')")
    with lake.feeding():
        assert run(lake, "tier")["proven"] == 1
        assert lake.run(RECEIPTS) == [(chunk(0), 1)]
        assert told(lake, 0) == ("active", "keep", "not_due"), "proven ahead, flagged when it is due"
        assert run(lake, "tier") == {"chunks": []}
        lake.run("SELECT lakets.remove_retention_policy('m')", f"SELECT lakets.add_retention_policy('m', '{soon}')")
        assert run(lake, "retention") == {"chunks": []}, "for plain retention too, and it is there"
        lake.run(f"UPDATE m SET v = 0 WHERE ts = '{NOON[0]}'")
        until(lambda: lake.run(WRITTEN) == [(True,)])
        run(lake, "retention")
        assert lake.run(RECEIPTS) == [(chunk(0), 2)], "a stale one is renewed"
        lake.run("UPDATE lakets._chunk_metadata SET last_modified_at = clock_timestamp()")
        run(lake, "retention")
        assert lake.run(RECEIPTS) == [(chunk(0), 2)], "but not where other chunks were written to"
        together.clear()
        lake.run("SELECT lakets.add_tiering_policy('m', '1 hour')")
        run(lake, "tier")
        assert together[0] >= 3, "all that are due in one job for each side"


@pytest.mark.promise("000-40")
def test_a_write_into_a_tiered_chunk_puts_it_back_under_the_gate_by_itself(lake: Lake) -> None:
    lake.run("SELECT lakets.add_tiered_retention_policy('m', '1 hour', '30 days')")
    with lake.feeding():
        assert run(lake, "tier")["tiered"] >= 3
        assert told(lake, 0) == ("tiered", "keep", "proven")
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 1000, 0.5)")
    lake.drain()
    # Nobody can be asked whether the lake has it while no feed runs, but that it was written to is known.
    lake.run("UPDATE thermocline.schedule SET enabled = false WHERE kind <> 'tier'")
    lake.run("UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = 'for a test'")
    run(lake, "tier")
    lake.run("UPDATE thermocline.synced_table SET status = 'STREAMING', reason = NULL")
    assert told(lake, 0)[0] == "tiered", "a feed that stands still takes no flag"
    with Session(lake.dsn) as writer, lake.feeding():
        writer.run("INSERT INTO m VALUES (%s, 1001, 0.5)", [NOON[0]])
        run(lake, "tier")
        assert told(lake, 0)[0] == "active", "written to, and being written to"
        writer.commit()
        lake.run("UPDATE thermocline.unproven SET not_before = now()")
        assert run(lake, "tier")["tiered"] == 1
    assert told(lake, 0) == ("tiered", "keep", "proven")
    assert told(lake, 1) == ("tiered", "keep", "proven"), "its neighbours have never lost theirs"


def test_a_chunk_that_cannot_be_proven_is_left_alone_for_longer_and_longer(lake: Lake) -> None:
    lake.run("SELECT lakets.add_tiered_retention_policy('m', '1 hour', '30 days')")
    lake.falsify("delete", "id", 12)
    waits = (
        "SELECT attempts, code, round(extract(epoch FROM not_before - last_at) / 60) FROM thermocline.unproven"
        f" WHERE chunk_oid = '{chunk(0)}'::regclass"
    )
    with lake.feeding():
        run(lake, "tier")
        assert lake.run(waits) == [(1, "content_differs", 5)]
        assert told(lake, 0) == ("active", "stays", "content_differs")
        ((since,),) = lake.run("SELECT since FROM thermocline.unproven")
        run(lake, "tier")
        assert lake.run(waits) == [(1, "content_differs", 5)], "its time has not come"
        lake.run("UPDATE thermocline.unproven SET not_before = now()")
        run(lake, "tier")
        assert lake.run(waits) == [(2, "content_differs", 10)]
        assert lake.run("SELECT since FROM thermocline.unproven") == [(since,)]
        lake.stack.lifecycle("m", on_spark=False).verify(chunk(0))
        assert lake.run(waits) == [(3, "content_differs", 20)], "whoever asks for it need not wait"
        lake.stack.lifecycle("m", on_spark=False).verify(chunk(0), repair=True)
        assert lake.run(waits) == []
        assert run(lake, "tier")["tiered"] == 1
    assert told(lake, 0) == ("tiered", "keep", "proven")


def test_a_chunk_that_changes_again_and_again_is_compared_now_and_then(lake: Lake) -> None:
    """Its first changes are seen to at once; then each comparison makes the next one wait for longer."""
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(0, reached_in=timedelta(hours=12))}')")
    waits = (
        "SELECT round(extract(epoch FROM thermocline._prove_again(chunk_oid, clock_timestamp()) - max(made_at)) / 60)"
        " FROM thermocline.receipt GROUP BY chunk_oid"
    )

    def receipts_after_a_write() -> int:
        lake.run(f"UPDATE m SET v = v + 1 WHERE ts = '{NOON[0]}'")
        until(lambda: lake.run(WRITTEN) == [(True,)])
        run(lake, "retention")
        return next(int(count) for name, count in lake.run(RECEIPTS) if name == chunk(0))

    with lake.feeding():
        run(lake, "retention")
        assert [receipts_after_a_write() for _ in range(2)] == [2, 3]
        assert lake.run(waits) == [(5,)]
        assert receipts_after_a_write() == 3, "its time has not come"
        lake.run(
            "UPDATE thermocline.stream SET created_at = created_at - interval '1 hour'",
            "UPDATE thermocline.receipt SET made_at = made_at - interval '6 minutes'",
        )
        assert receipts_after_a_write() == 4
        assert lake.run(waits) == [(10,)]
        lake.run("SELECT lakets.remove_retention_policy('m')", f"SELECT lakets.add_retention_policy('m', '{age(0)}')")
        assert receipts_after_a_write() == 4, "nor when it is due"
        assert lake.run("SELECT count(*) FROM m") == [(72,)]
        lake.stack.lifecycle("m", on_spark=False).retention()
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)], "whoever asks for it need not wait"
