"""Commands for the way back: rehydrate and release."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Table, Verbose
from thermocline.cli.lines import MOMENT, moment, said, show, span
from thermocline.errors import ExitCode, Refused

if TYPE_CHECKING:
    from thermocline.gate.rehydrate import RangeLine

From = Annotated[
    datetime,
    typer.Option("--from", parser=moment, metavar=MOMENT, help="The first moment, in UTC unless it says otherwise."),
]
To = Annotated[datetime, typer.Option("--to", parser=moment, metavar=MOMENT, help="The moment before which it ends.")]
_COLUMNS = ["Range, UTC", "Rows", "Verdict", "Reason", "Why, and what to do"]


def rehydrate(
    table: Table,
    start: From,
    end: To,
    until: Annotated[
        str | None, typer.Option("--until", help="Keep it for so long, as 7d; without it until it is released.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would come back, and why not.")] = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="Load in this process instead of on Spark.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Bring ranges that have left PostgreSQL back from the lake, as chunks that can be written to.

    Whole chunks come back, each compared with the lake row for row before it is attached; none of their rows streams
    again. What is then corrected flows to the lake and to the RollUps. No policy drops them while they are kept. Needs
    a running feed. Exit code 3 when a range had to stay in the lake, 6 when only because somebody is using the table.

    Example: thermocline rehydrate readings --from 2026-11-03 --to 2026-11-05 --until 7d
    """
    call = Invocation(json=json, verbose=verbose)
    from thermocline.gate.rehydrate import THERE
    from thermocline.work.schedule import length_of

    kept = None if until is None else _kept_for(until, length_of(until))
    rehydrator = call.stack.rehydrator(on_spark=not (in_process or dry_run))
    if dry_run:
        lines = rehydrator.plan(table, start, end)
    else:
        with call.out.step("Bringing back from the lake") as say:
            lines = rehydrator.bring_back(table, start, end, kept, say)
    show(call, "ranges", lines, _COLUMNS, _cells)
    stayed = [line for line in lines if line.verdict in ("stays", "deferred") and line.reason not in THERE]
    if stayed:
        raise typer.Exit(ExitCode.BUSY if all(line.reason == "busy" for line in stayed) else ExitCode.REFUSED)


def release(table: Table, start: From, end: To, json: Json = False, verbose: Verbose = False) -> None:
    """Let go of chunks that came back from the lake: they are dropped again when it is proven that the lake has them.

    Example: thermocline release readings --from 2026-11-03 --to 2026-11-05
    """
    call = Invocation(json=json, verbose=verbose)
    count = call.stack.rehydrator(on_spark=False).release(table, start, end)
    if json:
        call.out.facts("released", {"released": count})
    else:
        call.out.say(f"{count} released." if count else "Nothing of that range is kept.")


def _kept_for(until: str, length: timedelta | None) -> timedelta:
    if not length:
        raise Refused(f"{until!r} is no length of time.", next_step="Write `--until 12h` or `--until 7d`.")
    return length


def _cells(line: RangeLine) -> tuple[object, ...]:
    return span(line), line.rows, line.verdict, line.reason, said(line)
