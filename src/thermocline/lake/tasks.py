"""Work that falls into independent tasks: run in this process, or by Spark on as many executors as there are."""

from __future__ import annotations

import gc
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from thermocline.errors import ThermoclineError
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class TaskFailed(ThermoclineError):
    """A task on Spark failed."""

    code = "lake.task_failed"
    next_step_by_default = "Nothing is lost: run it again. The log of Spark in the home says more."


class Runner(Protocol):
    """Runs tasks somewhere; functions and tasks can be pickled."""

    def run(self, function: Callable[[T], Iterable[R]], tasks: Sequence[T]) -> list[R]:
        """The results of all tasks, in their order."""


class InProcess:
    """One after the other, here."""

    def run(self, function: Callable[[T], Iterable[R]], tasks: Sequence[T]) -> list[R]:
        """The results of all tasks, in their order."""
        return [result for task in tasks for result in function(task)]


class OnSpark:
    """Each task is one of a Spark job. Spark is asked for when there is the first task."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def run(self, function: Callable[[T], Iterable[R]], tasks: Sequence[T]) -> list[R]:
        """The results of all tasks, in their order."""
        if not tasks:
            return []
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        packed = self._spark().sparkContext.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
        try:
            results: list[bytes] = packed.flatMap(partial(_called, pickle.dumps(function))).collect()
        except (Py4JError, PySparkException) as error:
            lines = [line for line in str(error).splitlines() if "Exception" in line or "Error" in line]
            raise TaskFailed(masked((lines or ["Spark does not say why."])[0].strip())) from error
        found: list[R] = []
        for result in results:
            one = pickle.loads(result)  # noqa: S301 (our own tasks wrote it)
            if isinstance(one, ThermoclineError):
                raise one
            found.append(one)
        return found


def _called(function: bytes, task: bytes) -> list[bytes]:
    call: Callable[[Any], Iterable[Any]] = pickle.loads(function)  # noqa: S301 (our own driver wrote it)
    gc.freeze()  # Spark collects garbage after every task: what was imported need not be looked through each time
    try:
        return [pickle.dumps(result) for result in call(pickle.loads(task))]  # noqa: S301 (the same)
    except ThermoclineError as error:  # what we refuse in words comes back as such, not as a failed job
        return [pickle.dumps(error)]
