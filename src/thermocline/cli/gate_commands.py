"""Commands of the gate: verify, tier, retention. What they show is what the gate decides, nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Table, Verbose
from thermocline.errors import ExitCode
from thermocline.hot import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.gate.lifecycle import ChunkLine

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and why.")]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Compare in this process instead of on Spark: quicker for a few chunks.")
]
_COLUMNS = ["Chunk", "Range, UTC", "Rows", "Bytes", "Verdict", "Reason", "Why, and what to do"]


def verify(
    table: Table,
    chunk: Annotated[str | None, typer.Option("--chunk", help="Only this chunk.")] = None,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Compare the chunks of a table with the lake, row for row; each that is the same gets a receipt.

    Needs a running feed. Exit code 3 when a chunk is not proven.

    Example: thermocline verify readings
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Comparing PostgreSQL with the lake") as say:
        lines = call.stack.lifecycle(table, on_spark=not in_process).verify(chunk, say)
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
        lines = gate.tier(dry_run=dry_run, news=say)
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
        lines = gate.retention(dry_run=dry_run, news=say)
    _show(call, lines, _nothing_due(call, table, "retention", "tiered_retention"))


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
        rows = [asdict(line) for line in lines]
        if call.json:
            call.out.table("chunks", list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
        else:
            call.out.table("chunks", _COLUMNS, [_shown(line) for line in lines])
    if not proven(lines):
        raise typer.Exit(ExitCode.BUSY if only_busy(lines) else ExitCode.REFUSED)


def _shown(line: ChunkLine) -> tuple[object, ...]:
    """Fit for a terminal: the range in one cell, and what to do only where there is something."""
    span = f"{line.range_start:%Y-%m-%d %H:%M} - {line.range_end:%Y-%m-%d %H:%M}"
    said = line.message if line.next_step == "Nothing to do." else f"{line.message.rstrip('.')}. {line.next_step}"
    return (line.chunk, span, line.rows, line.bytes, line.verdict, line.reason, said)
