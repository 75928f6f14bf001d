"""What every benchmark is made of: contenders timed in turns, a report, and checks against written bounds."""

from __future__ import annotations

import json
import math
import operator
import re
import statistics
import sys
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

_OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
# A unit starts with a letter or is %, so that "<= 1,000 rows" is refused and not read as "<= 1".
_BOUND = re.compile(rf"\s*({'|'.join(_OPERATORS)})\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:%|[^\W\d_][\w/%. ]*)?")
_COLUMNS = ("Measurement", "Median", "Min - max", "Runs", "Note")
_WIDTH = 120


def progress(text: str) -> None:
    """A line for whoever is waiting."""
    print(text, file=sys.stderr, flush=True)


# ---- bounds and checks -----------------------------------------------------------------------


class BadBound(ValueError):
    """A bound that cannot be read."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no bound; write an operator and a number, as '<= 3 s'.")


@dataclass(frozen=True)
class Bound:
    """An operator and a number; the unit is for people."""

    text: str
    holds: Callable[[float], bool] = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Read `<= 3 s`, `>= 0.95`, `< 1.5 GB`; refuse anything else."""
        match = _BOUND.fullmatch(text)
        if match is None:
            raise BadBound(text)
        compare, limit = _OPERATORS[match[1]], float(match[2])
        return cls(text, lambda value: bool(compare(value, limit)))


class Check:
    """One number that was measured and what it must be."""

    def __init__(self, name: str, value: float, bound: str) -> None:
        self.name = name
        self.value = value
        self.bound = bound
        self.ok = Bound.parse(bound).holds(value)

    def for_programs(self) -> dict[str, Any]:
        """The check as JSON has it; what is not a number there is null."""
        value = self.value if math.isfinite(self.value) else None
        return {"name": self.name, "value": value, "bound": self.bound, "ok": self.ok}


# ---- times -----------------------------------------------------------------------------------


class Seconds(float):
    """What a contender returns that measured itself, because only a part of its run counts."""


@dataclass(frozen=True)
class Times:
    """All times of one contender, in the order in which they were taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The time in the middle."""
        return statistics.median(self.seconds)

    def over(self, other: Times) -> float:
        """How many times as long as another's that were taken in turns: round by round, and of those the middle.

        What slows the machine for a while slows both of a round, so this varies far less than the ratio of two medians.
        """
        return statistics.median(ours / theirs for ours, theirs in zip(self.seconds, other.seconds, strict=True))

    @property
    def spread(self) -> tuple[float, float]:
        """The shortest and the longest."""
        return min(self.seconds), max(self.seconds)


def timed(call: Callable[[], object]) -> float:
    """How long the call takes, or what it says itself by returning `Seconds`."""
    began = time.perf_counter()
    result = call()
    took = time.perf_counter() - began
    return float(result) if isinstance(result, Seconds) else took


def interleave(contenders: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, Times]:
    """Time the contenders in turns, so that a busy minute of the machine hits all of them.

    Every second round goes backwards: nobody always runs in the wake of the same other.
    """
    if repeats < 1:
        raise ValueError("A contender has to run at least once.")
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(repeats):
        order = list(contenders)[:: -1 if number % 2 else 1]
        for name in order:
            took = timed(contenders[name])
            taken[name].append(took)
            progress(f"  {name}, {number + 1} of {repeats}: {shown(took)} s")
    return {name: Times(tuple(seconds)) for name, seconds in taken.items()}


# ---- the report ------------------------------------------------------------------------------


@dataclass
class Report:
    """What a benchmark found: rows for people, checks for everybody."""

    bench: str
    rows: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every check holds; a benchmark that checked nothing has proved nothing."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def check(self, name: str, value: float, bound: str) -> None:
        """Hold a number against its bound."""
        self.checks.append(Check(name, value, bound))

    def show_times(self, what: str, times: Times, note: str = "") -> None:
        """A row for a contender."""
        least, most = times.spread
        self.rows.append(
            (
                what,
                f"{shown(times.median)} s",
                f"{shown(least)} - {shown(most)} s",
                str(len(times.seconds)),
                note,
            )
        )

    def show(self, what: str, value: float, unit: str = "", note: str = "") -> None:
        """A row for a single number."""
        self.rows.append((what, f"{shown(value)} {unit}".rstrip(), "", "1", note))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """One of several measurements: when it fails, that is a failed check, and the others still run."""
        progress(f"{self.bench}: {name} ...")
        began = time.perf_counter()
        try:
            yield
        except Exception:
            traceback.print_exc()
            self.check(f"{name} was measured", 0, ">= 1")
        progress(f"{self.bench}: {name} done in {time.perf_counter() - began:.0f} s")

    def print(self, machine: Mapping[str, str], out: TextIO | None = None) -> None:
        """Machine, table and checks for people, then the last line, for programs."""
        out = out or sys.stdout
        console = Console(file=out, highlight=False, width=None if out.isatty() else _WIDTH)
        console.print(Text(f"Benchmark {self.bench}", style="bold"))
        console.print(Text(", ".join(f"{name} {value}" for name, value in machine.items())))
        if self.rows:
            console.print(_table(_COLUMNS, self.rows))
        checks = [
            (check.name, shown(check.value), check.bound, "ok" if check.ok else "FAILED") for check in self.checks
        ]
        console.print(_table(("Check", "Value", "Bound", "Verdict"), checks))
        out.write(self.last_line() + "\n")
        out.flush()

    def last_line(self) -> str:
        """The checks as one JSON object on one line."""
        return json.dumps(
            {"bench": self.bench, "checks": [check.for_programs() for check in self.checks]},
            ensure_ascii=False,
            allow_nan=False,
        )


def shown(value: float) -> str:
    """Three digits that tell; more before the point if there are more."""
    if not math.isfinite(value):
        return str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
