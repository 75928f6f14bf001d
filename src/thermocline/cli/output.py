"""What people and programs are shown: one interface, as text with progress or as one JSON object."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column, Table
from rich.text import Text

from thermocline.checks import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from thermocline.errors import ThermoclineError

_MARKS = {Verdict.OK: "[green]ok[/]", Verdict.WARNING: "[yellow]warning[/]", Verdict.FAILED: "[red]failed[/]"}


@dataclass(frozen=True)
class Bar:
    """How much of an amount is done, and the words behind it."""

    title: str
    done: int
    total: int
    words: str


class Tell(Protocol):
    """Takes news of a step."""

    def __call__(self, news: str, bars: Sequence[Bar] = (), beside: str = "") -> None:
        """The news in words. A terminal shows bars instead if there are any, and the words that go beside them."""


class Output(Protocol):
    """The two ways of showing."""

    def step(self, title: str) -> Any:
        """A piece of work that takes a while: a context manager that yields a function for news of it."""

    def say(self, text: str) -> None:
        """A sentence for a person; programs are not told."""

    def facts(self, title: str, facts: dict[str, Any]) -> None:
        """Named values: the result of a command."""

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows: the result of a command."""

    def error(self, error: ThermoclineError) -> None:
        """What went wrong and what to do."""


_NEWS_SECONDS = 10
_UNBROKEN = 1000
_BAR_WIDTH = 20  # the words wrap on a narrow terminal, the bar does not


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read us has gone: that is for the command to take calmly, not for Rich to exit with 1."""
        raise BrokenPipeError


class TextOutput:
    """For people: results on stdout, progress and errors on stderr."""

    def __init__(self) -> None:
        # In a file or a pipe a row is a line: whoever reads it cuts it as he likes.
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _UNBROKEN
        self.out = _Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=width)
        self.err = _Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

    @contextmanager
    def step(self, title: str) -> Iterator[Tell]:
        """A spinner and bars on a terminal; elsewhere a line when it begins, one when it is done, a few in between."""
        began = time.monotonic()
        if self.err.is_terminal:
            with self.err.status(escape(title)) as status:
                yield lambda news, bars=(), beside="": status.update(_drawn(title, news, bars, beside))
        else:
            self.err.print(f"{escape(title)} ...")
            yield self._seldom()
        self.err.print(f"[green]✓[/] {escape(title)} [dim]{time.monotonic() - began:.1f} s[/]")

    def _seldom(self) -> Tell:
        """News for a log file: when there is something new to say, and not more often than now and then."""
        said, at = "", float("-inf")

        def tell(news: str, bars: Sequence[Bar] = (), beside: str = "") -> None:
            del bars, beside
            nonlocal said, at
            now = time.monotonic()
            if news != said and now - at >= _NEWS_SECONDS:
                said, at = news, now
                self.err.print(f"  {escape(news)}")

        return tell

    def say(self, text: str) -> None:
        """A sentence; may hold Rich markup."""
        self.out.print(text)

    def facts(self, title: str, facts: dict[str, Any]) -> None:
        """A title and aligned lines under it."""
        self.out.print(f"[bold]{escape(title)}[/]")
        width = max(map(len, facts), default=0)
        for name, value in facts.items():
            self.out.print(f"  {name.replace('_', ' '):<{width}}  {escape(_shown(value))}", soft_wrap=True)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table that fits the terminal."""
        table = Table(
            title=escape(name.capitalize()),
            title_justify="left",
            box=None,
            header_style="bold",
            pad_edge=False,
        )
        for column in columns:
            table.add_column(escape(column), overflow="fold")
        for row in rows:
            table.add_row(*(_MARKS[cell] if isinstance(cell, Verdict) else escape(_shown(cell)) for cell in row))
        self.out.print(table)

    def error(self, error: ThermoclineError) -> None:
        """Two lines on stderr: what, and what to do."""
        self.err.print(f"[bold red]Error[/] [dim]({error.code})[/]: {escape(error.message)}", soft_wrap=True)
        self.err.print(f"[bold]What to do:[/] {escape(error.next_step)}", soft_wrap=True)


def _drawn(title: str, news: str, bars: Sequence[Bar], beside: str) -> RenderableType:
    """The line of a step, and its bars under it."""
    words = beside if bars else news
    line = Text(f"{title}: {words}" if words else title)
    if not bars:
        return line
    # Never started: it is drawn by the spinner, with whatever else there is.
    drawn = Progress(
        TextColumn("{task.description}"),
        BarColumn(_BAR_WIDTH, table_column=Column(no_wrap=True)),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}", markup=False, table_column=Column()),
    )
    for bar in bars:
        drawn.add_task(bar.title, completed=bar.done, total=bar.total, words=bar.words)
    return Group(line, drawn)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(inner)}" for key, inner in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "-"
    return str(value)


class JsonOutput:
    """For programs: exactly one JSON object on stdout."""

    @contextmanager
    def step(self, title: str) -> Iterator[Tell]:
        """Programs are not shown progress."""
        del title
        yield lambda news, bars=(), beside="": None  # noqa: ARG005

    def say(self, text: str) -> None:
        """Programs are not told sentences."""

    def facts(self, title: str, facts: dict[str, Any]) -> None:
        """The facts as one object."""
        del title
        self._print(facts)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """One object whose only member, of the table's name, is a list of objects."""
        keys = [column.lower().replace(" ", "_") for column in columns]
        self._print({name.replace(" ", "_"): [dict(zip(keys, row, strict=True)) for row in rows]})

    def error(self, error: ThermoclineError) -> None:
        """The same two sentences and the codes."""
        self._print(
            {
                "error": {
                    "code": error.code,
                    "message": error.message,
                    "next_step": error.next_step,
                    "exit_code": int(error.exit_code),
                }
            }
        )

    def _print(self, value: Any) -> None:
        sys.stdout.write(json.dumps(_finite(value), default=str, allow_nan=False) + "\n")
        sys.stdout.flush()


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: as PostgreSQL writes them, they are strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
