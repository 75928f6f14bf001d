"""Tasks on Spark: many of them share one of Spark's, and come back in their order."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING

import pytest

from thermocline.errors import Misconfigured
from thermocline.hot.connection import check_dsn
from thermocline.lake.tasks import InProcess, OnSpark, TaskFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 7, 50])
def test_results_come_in_the_order_of_the_tasks(spark: SparkSession, count: int) -> None:
    """Each has as many results as its number modulo 4, so some have none."""
    tasks = [" ".join(f"{number}.{at}" for at in range(number % 4)) for number in range(count)]
    found = OnSpark(lambda: spark).run(methodcaller("split"), tasks)
    assert found == [f"{number}.{at}" for number in range(count) for at in range(number % 4)]
    assert found == InProcess().run(methodcaller("split"), tasks)


def test_what_breaks_in_one_of_many_is_named(spark: SparkSession) -> None:
    tasks: list[object] = ["a b"] * 50
    tasks[29] = 7
    with pytest.raises(TaskFailed, match="AttributeError"):
        OnSpark(lambda: spark).run(methodcaller("split"), tasks)


def test_what_one_of_many_refuses_is_said_in_its_words(spark: SparkSession) -> None:
    tasks = ["host=h user=u"] * 50
    assert OnSpark(lambda: spark).run(check_dsn, tasks) == ["user", "host"] * 50
    tasks[29] = "nonsense"
    with pytest.raises(Misconfigured, match=r"hot\.dsn is not a PostgreSQL connection string"):
        OnSpark(lambda: spark).run(check_dsn, tasks)
