"""Lives of tables at random: whatever is written, dropped, brought back or killed, each committed row is there once.

`--schedules 1000` plays many of them, and `--schedule-seed N` one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import feed_children
from harness.lakes import Lake
from harness.lifecycles import Course
from harness.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

SCHEDULES_EACH, ON_SPARK_EACH = 33, 100
"""Of the schedules that a run asks for, one in so many is one of these."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        found = seeds(metafunc.config)
        each = ON_SPARK_EACH if "spark" in metafunc.fixturenames else SCHEDULES_EACH
        chosen = found[: max(1, len(found) // each)]
        metafunc.parametrize("seed", chosen, ids=[f"{number}" for number in range(len(chosen))])


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    feed_children.warm_up()


@pytest.mark.slow
def test_g1_g7_g9_g11_g16_g20_g22_r1_r2_r3_what_was_committed_is_there_once_whatever_happens(
    dsn: str, tmp_path: Path, seed: int
) -> None:
    course = Course(Lake.of(dsn, tmp_path / "home"), seed)
    course.play()
    assert sum(course.done.values()) >= 18


@pytest.mark.slow
def test_g17_r2_r3_files_are_compacted_and_rollups_recomputed_by_spark_on_the_way(
    stack: Stack, spark: SparkSession, lake_dsn: str, seed: int
) -> None:
    """Read by Spark as well, with Iceberg's own procedure for the files; at last every RollUp comes from both tiers."""
    tables = (f"life_{seed % 100_000}_m", f"life_{seed % 100_000}_n")
    course = Course(Lake(lake_dsn, stack), seed, tables, spark)
    try:
        course.play(6)
        assert course.done["compact"] > 0
        assert course.done["recompute"] > 0
    finally:
        for table in tables:
            course.lake.run(
                "SELECT lakets.drop_chronotable(table_name) FROM lakets._chronotable_registry"
                f" WHERE table_name = '{table}'"
            )


@pytest.mark.parametrize("change", ["insert", "delete"])
def test_a_lake_that_has_a_row_twice_or_not_at_all_is_found_out(dsn: str, tmp_path: Path, change: str) -> None:
    course = Course(Lake.of(dsn, tmp_path / "home"), 1)
    course.begin()
    course.look()
    course.lake.falsify(change, "id", 1)
    with pytest.raises(AssertionError, match="m across the tiers is not what was committed"):
        course.look()
