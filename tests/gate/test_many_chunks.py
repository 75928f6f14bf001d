"""Many chunks compared in one job for each side: each has its own verdict, whatever becomes of the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from harness.lakes import BASE, NOON, Lake, chunk
from harness.sessions import Session
from thermocline.gate.receipt import Comparison, Prover
from thermocline.gate.sides import NotProven
from thermocline.lake import catalogs
from thermocline.lake.scans import LakeFileLost
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from thermocline.errors import ThermoclineError


class Counted(InProcess):
    """Counts the jobs that have tasks."""

    def __init__(self) -> None:
        self.jobs = 0

    def run(self, function: Callable[[Any], Iterable[Any]], tasks: Sequence[Any]) -> list[Any]:
        self.jobs += bool(tasks)
        return super().run(function, tasks)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    synced = Lake.of(dsn, tmp_path / "home").with_days().synced()
    synced.drain()
    return synced


def told(found: Comparison | ThermoclineError) -> str:
    if isinstance(found, Comparison):
        return "equal" if found.equal else found.reason or ""
    return found.reason if isinstance(found, NotProven) else found.code


def prove(lake: Lake, runner: InProcess, *days: int) -> list[str]:
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[catalogs.LAKE], runner)
    with lake.feeding():
        return [told(one) for one in prover.prove_all([lake.chunk_oid(day) for day in days])]


def test_all_of_them_are_two_jobs(lake: Lake) -> None:
    runner = Counted()
    assert prove(lake, runner, 0, 1, 2, 3) == ["equal"] * 4
    assert runner.jobs == 2
    assert [(one.chunk, one.rows) for one in reversed(lake.stack.receipts())] == [
        (f"public.{chunk(day)}", 24 if day < 3 else 0) for day in range(4)
    ]
    assert prove(lake, runner) == []


def test_each_has_its_own_verdict(lake: Lake) -> None:
    lake.falsify("delete", "id", 30)
    with Session(lake.dsn) as other:
        other.run("LOCK TABLE " + chunk(2) + " IN ACCESS EXCLUSIVE MODE")
        assert prove(lake, InProcess(), 0, 1, 2) == ["equal", "content_differs", "busy"]
    lake.run(f"DELETE FROM thermocline.chunk_copy WHERE chunk_oid = '{chunk(0)}'::regclass")
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[catalogs.LAKE])
    found = prover.prove_all([lake.chunk_oid(0)])
    assert [told(one) for one in found] == ["not_covered"]


def test_a_lost_file_of_one_leaves_the_others_proven(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        for task in catalog.load_table("public.lb_m_history").scan(f"ts < '{NOON[0].isoformat()}'").plan_files():
            Path(urlparse(task.file.file_path).path).unlink()
    assert prove(lake, InProcess(), 0, 1, 2) == [LakeFileLost.code, "equal", "equal"]


def test_without_a_feed_all_of_them_wait_once(lake: Lake) -> None:
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[catalogs.LAKE], patience=0.2)
    lake.run(f"INSERT INTO m VALUES ('{BASE}', 1, 1)")
    found = prover.prove_all([lake.chunk_oid(day) for day in range(3)])
    assert [told(one) for one in found] == ["feed_behind"] * 3
