"""What commands show of chunks and ranges: when, why and what to do, the same everywhere."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thermocline.cli.invocation import Invocation
    from thermocline.gate.late import LateLine
    from thermocline.gate.lifecycle import ChunkLine
    from thermocline.gate.rehydrate import RangeLine

    Line = ChunkLine | LateLine | RangeLine
    Cells = Callable[[Any], tuple[object, ...]]

MOMENT = "<moment>"


def moment(told: str) -> datetime:
    """A moment as a person gives it: as ISO 8601 has it, and so as our own output does; without a zone it is in UTC."""
    try:
        at = datetime.fromisoformat(told)
    except ValueError:
        raise typer.BadParameter(f"{told!r} is no moment: write 2026-11-03 or '2026-11-03 12:00', in UTC.") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def span(line: Line) -> str:
    """The range in one cell, in UTC."""
    start, end = (at.astimezone(UTC) for at in (line.range_start, line.range_end))
    return f"{start:%Y-%m-%d %H:%M} - {end:%Y-%m-%d %H:%M}"


def said(line: Line) -> str:
    """What is said of it, and what to do where there is something."""
    return line.message if line.next_step == "Nothing to do." else f"{line.message.rstrip('.')}. {line.next_step}"


def show(call: Invocation, name: str, lines: Sequence[Any], columns: Sequence[str], cells: Cells) -> None:
    """For a person the cells, for a program every field by its name."""
    if not call.json:
        call.out.table(name, columns, [cells(line) for line in lines])
        return
    rows = [asdict(line) for line in lines]
    call.out.table(name, list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
