"""Commands of the gate: verify, tier, retention, late. What they show is what the gate decides, nothing else."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Table, Verbose
from thermocline.cli.lines import said, show, span
from thermocline.errors import ExitCode
from thermocline.hot import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thermocline.gate.late import LateLine
    from thermocline.gate.lifecycle import ChunkLine

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and why.")]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Compare in this process instead of on Spark: quicker for a few chunks.")
]
_LATE = ["Table", "Range, UTC", "Rows", "Bytes", "Verdict", "Reason", "Why, and what to do"]
_COLUMNS = ["Chunk", "Range, UTC", "Rows", "Bytes", "State", "Verdict", "Reason", "Since, UTC", "Why, and what to do"]


def verify(
    table: Table,
    chunk: Annotated[str | None, typer.Option("--chunk", help="Only this chunk.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Copy chunks that differ to the lake again, and compare them anew.")
    ] = False,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Compare the chunks of a table with the lake, row for row; each that is the same gets a receipt.

    Of a chunk that differs some rows are shown, and on which side each is missing. Needs a running feed.
    Exit code 3 when a chunk is not proven.

    Example: thermocline verify readings --repair
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Comparing PostgreSQL with the lake") as say:
        gate = call.stack.lifecycle(table, on_spark=not in_process)
        lines = gate.verify(chunk, _by_chunk(call, table, say), repair=repair)
    _show(call, lines, "The table has no resident chunk.")


def tier(
    table: Table,
    dry_run: DryRun = False,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Flag the chunks that the tiering policy has come to and that the lake provably holds. Removes nothing.

    Example: thermocline tier readings --dry-run
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Tiering") as say:
        gate = call.stack.lifecycle(table, on_spark=not (in_process or dry_run))
        lines = gate.tier(dry_run=dry_run, news=_by_chunk(call, table, say))
    _show(call, lines, _nothing_due(call, table, "tiering", "tiered_retention"))


def retention(
    table: Table,
    dry_run: DryRun = False,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Drop the chunks that the retention policy no longer keeps, each only if the lake provably holds it.

    Exit code 3 when a chunk that is due had to stay, 6 when only because somebody is using it.

    Example: thermocline retention readings --dry-run
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Retention") as say:
        gate = call.stack.lifecycle(table, on_spark=not (in_process or dry_run))
        lines = gate.retention(dry_run=dry_run, news=_by_chunk(call, table, say))
    _show(call, lines, _nothing_due(call, table, "retention", "tiered_retention"))


def late(
    table: Annotated[str | None, typer.Argument(help="Only of this table, as readings or plant.readings.")] = None,
    dry_run: DryRun = False,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Let late rows go that went to the lake, by lakets.set_late_rows, once it provably has them.

    Needs a running feed. Exit code 3 when some have to stay, 6 when only because somebody is using them.

    Example: thermocline late readings --dry-run
    """
    from thermocline.gate.late import fine, only_busy

    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Late rows") as say:
        found = call.stack.late_rows(table, on_spark=not (in_process or dry_run))
        lines = found.plan()
        if not dry_run:
            lines = found.settle(news=_paced(call, {line.trap: line.bytes for line in lines}, say))
    if not lines:
        call.out.say("No late rows are in PostgreSQL.")
    if lines or call.json:
        show(call, "late rows", lines, _LATE, _shown_late)
    if not fine(lines):
        raise typer.Exit(ExitCode.BUSY if only_busy(lines) else ExitCode.REFUSED)


def why(
    chunk: Annotated[str, typer.Argument(help="A chunk, as readings_20261103_000000.")],
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say what stands between a chunk and its removal: since when, and what to do. Nothing is changed.

    Example: thermocline why readings_20261103_000000
    """
    call = Invocation(json=json, verbose=verbose)
    found = asdict(call.stack.why(chunk))
    if call.json:
        call.out.facts("why", found)
        return
    obstacles, holders = found.pop("obstacles"), found.pop("held_by")
    call.out.facts(f"Chunk {found.pop('chunk')}", found)
    for title, rows in (("in the way", obstacles), ("used by", holders)):
        if rows:
            columns = [name.replace("_", " ").capitalize() for name in rows[0]]
            call.out.table(title, columns, [tuple(row.values()) for row in rows])


def receipts(
    table: Annotated[str | None, typer.Argument(help="Only of this table, as readings or plant.readings.")] = None,
    chunk: Annotated[str | None, typer.Option("--chunk", help="Only of this chunk.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="How many at most.")] = 50,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the receipts, newest first: which chunk was proven to be in the lake, when, and whether it counts.

    Example: thermocline receipts readings
    """
    call = Invocation(json=json, verbose=verbose)
    rows = [asdict(one) for one in call.stack.receipts(table, chunk, most)]
    if not rows:
        of = f" of {chunk or table}" if chunk or table else ""
        call.out.say(f"There is no receipt{of}: `thermocline verify` makes them.")
    if rows or call.json:
        columns = list(rows[0]) if rows else []
        shown = columns if call.json else [name.replace("_", " ").capitalize() for name in columns]
        call.out.table("receipts", shown, [tuple(row.values()) for row in rows])


def _by_chunk(call: Invocation, table: str, say: Callable[[str], None]) -> Callable[[str], None]:
    """As `_paced`; how large the chunks are is asked for when the first is compared."""

    @cache
    def wait() -> Callable[[str], None]:
        return _paced(call, {one.chunk: one.bytes for one in call.stack.chunks(table)}, say)

    return lambda chunk: wait()(chunk)


def _paced(call: Invocation, sizes: dict[str, int], say: Callable[[str], None]) -> Callable[[str], None]:
    """Before each: it is told, and waits until the budget of maintenance has its bytes, as in a node."""
    from thermocline.work.job import MAINTENANCE
    from thermocline.work.pacing import paced

    wait = paced(call.stack.dsn, MAINTENANCE, sizes)

    def before(name: str) -> None:
        say(name)
        wait(name)

    return before


def _nothing_due(call: Invocation, table: str, *kinds: str) -> str:
    asked = names.split(table)
    if not any(names.split(one.table) == asked and one.kind in kinds for one in call.stack.policies()):
        return f"{'.'.join(asked)} has no {kinds[0]} policy: SELECT lakets.add_{kinds[0]}_policy(...) adds one."
    return "Nothing is due: no chunk is that old, or those that are have been seen to."


def _show(call: Invocation, lines: Sequence[ChunkLine], none: str) -> None:
    from thermocline.gate.lifecycle import only_busy, proven

    if not lines:
        call.out.say(none)
    if lines or call.json:
        show(call, "chunks", lines, _COLUMNS, _shown)
    different = [(line.chunk, one.where, one.row) for line in lines for one in line.differences]
    if different and not call.json:
        call.out.table("some rows that differ", ["Chunk", "Where", "Row"], different)
    if not proven(lines):
        raise typer.Exit(ExitCode.BUSY if only_busy(lines) else ExitCode.REFUSED)


def _shown(line: ChunkLine) -> tuple[object, ...]:
    """Fit for a terminal: the range in one cell, and what to do only where there is something."""
    since = f"{line.since.astimezone(UTC):%Y-%m-%d %H:%M}" if line.since else ""
    told = (line.rows, line.bytes, line.state, line.verdict, line.reason, since, said(line))
    return (line.chunk, span(line), *told)


def _shown_late(line: LateLine) -> tuple[object, ...]:
    return (line.table, span(line), line.rows, line.bytes, line.verdict, line.reason, said(line))
