"""Commits outside PostgreSQL: made behind the fence, stamped, and found again by whoever comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from harness.lakes import Lake
from harness.questions import ask
from thermocline.work import units
from thermocline.work.units import Claim, Ending, LeaseLost, Status, Wanted
from work.stage import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

ROWS = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def table(dsn: str, tmp_path: Path) -> Iterator[Table]:
    """Of a catalog that is open as long as it is used."""
    with Lake.of(dsn, tmp_path / "home").stack.catalog() as catalog:
        catalog.create_namespace_if_not_exists("public")
        yield catalog.create_table_if_not_exists("public.outside", ROWS.schema)


def summaries(table: Table) -> list[dict[str, str]]:
    table.refresh()
    return [dict(snapshot.summary.additional_properties) for snapshot in table.snapshots() if snapshot.summary]


def carry_out(claim: Claim, table: Table) -> bool:
    """What a job that commits to the lake does; true if it was this attempt that did it."""
    if claim.committed(summaries(table)) is not None:
        return False
    with claim.fenced():
        table.append(ROWS, snapshot_properties=claim.stamp)
    return True


def claimed(db: psycopg.Connection, dsn: str, owner: str) -> Claim:
    (claim,) = units.claim(db, owner, ["outside"], dsn)
    return claim


def test_d15_a_commit_whose_worker_died_before_it_could_say_so_is_found_and_not_made_again(
    db: psycopg.Connection, dsn: str, table: Table
) -> None:
    other = units.enqueue(db, Wanted("outside", scope="another"))
    units.enqueue(db, Wanted("outside"))
    done = claimed(db, dsn, "first")
    assert done.unit.id == other
    assert carry_out(done, table)
    done.end(db, Ending(Status.DONE))
    victim = claimed(db, dsn, "victim")
    assert carry_out(victim, table), "another unit's commit is none of this one"
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() WHERE status = 'claimed'")
    successor = claimed(db, dsn, "successor")
    assert successor.committed(summaries(table)) == victim.unit.epoch == 1
    assert not carry_out(successor, table)
    successor.end(db, Ending(Status.DONE))
    assert table.scan().to_arrow().num_rows == 2, "one effect of each unit"


def test_d1_the_commit_of_a_worker_that_was_overtaken_is_refused(
    db: psycopg.Connection, dsn: str, table: Table
) -> None:
    units.enqueue(db, Wanted("outside"))
    zombie = claimed(db, dsn, "zombie")
    ask(db, "UPDATE thermocline.work_unit SET lease_until = now() WHERE status = 'claimed'")
    successor = claimed(db, dsn, "successor")
    with pytest.raises(LeaseLost):
        carry_out(zombie, table)
    assert summaries(table) == []
    assert carry_out(successor, table)
    (summary,) = summaries(table)
    assert (summary["lifecycle.work-unit-id"], summary["lifecycle.work-unit-epoch"]) == (str(zombie.unit.id), "2")


def test_d1_a_worker_that_sleeps_behind_its_fence_loses_it_with_its_lease(db: psycopg.Connection, dsn: str) -> None:
    """By then its commit may have been made: that is what the stamp is for."""
    units.enqueue(db, Wanted("outside"))
    (sleeper,) = units.claim(db, "sleeper", ["outside"], dsn, lease=1)

    def taken_over() -> list[Claim]:
        found = units.claim(db, "successor", ["outside"], dsn)
        successors.extend(found)
        return found

    successors: list[Claim] = []
    with (
        pytest.raises((psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)),
        sleeper.fenced() as session,
    ):
        until(taken_over)
        session.execute("SELECT 1")
    assert [one.unit.epoch for one in successors] == [2]
    with pytest.raises(LeaseLost):
        sleeper.end(db, Ending(Status.DONE))
