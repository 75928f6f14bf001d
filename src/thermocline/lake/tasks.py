"""Work that falls into independent tasks: run in this process, or by Spark on as many executors as there are."""

from __future__ import annotations

import gc
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from thermocline.errors import ThermoclineError
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
# A task of Spark's that runs Python costs a tenth of a second before it does anything, so small tasks share one.
# With some for each core it matters little that one takes longer than another.
_TASKS_OF_A_CORE = 3


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
    """All tasks are one Spark job. Spark is asked for when there is the first task."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def run(self, function: Callable[[T], Iterable[R]], tasks: Sequence[T]) -> list[R]:
        """The results of all tasks, in their order."""
        if not tasks:
            return []
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        context = self._spark().sparkContext
        shares = min(len(tasks), _TASKS_OF_A_CORE * context.defaultParallelism)
        # Dealt out like cards: neighbours are often of one size.
        packed = context.parallelize([pickle.dumps(tasks[first::shares]) for first in range(shares)], shares)
        try:
            answers: list[bytes] = packed.map(partial(_called, pickle.dumps(function))).collect()
        except (Py4JError, PySparkException) as error:
            raise TaskFailed(masked(_cause(str(error)))) from error
        dealt: list[list[list[R]]] = []
        for answer in answers:
            one = pickle.loads(answer)  # noqa: S301 (our own tasks wrote it)
            if isinstance(one, ThermoclineError):
                raise one
            dealt.append(one)
        return [result for at in range(len(tasks)) for result in dealt[at % shares][at // shares]]


def _cause(told: str) -> str:
    """The line that says why: how the task's own traceback ends, or else the first that names an error."""
    lines = told.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Traceback") or line.endswith("Traceback (most recent call last):"):
            ends = [later for later in lines[number + 1 :] if later and not later[0].isspace()]
            return ends[0] if ends else line
    named = [line.strip() for line in lines if "Exception" in line or "Error" in line]
    return named[0] if named else "Spark does not say why."


def _called(function: bytes, tasks: bytes) -> bytes:
    call: Callable[[Any], Iterable[Any]] = pickle.loads(function)  # noqa: S301 (our own driver wrote it)
    gc.freeze()  # Spark collects garbage after every task: what was imported need not be looked through each time
    try:
        return pickle.dumps([_done(call, task) for task in pickle.loads(tasks)])  # noqa: S301 (the same)
    except ThermoclineError as error:  # what we refuse in words comes back as such, not as a failed job
        return pickle.dumps(error)


def _done(call: Callable[[T], Iterable[R]], task: T) -> list[R]:
    """Its results. Memory that it needed is given back: Arrow would keep it, in pieces that the next cannot use."""
    try:
        return list(call(task))
    finally:
        pa.default_memory_pool().release_unused()
