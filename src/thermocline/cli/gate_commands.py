"""Commands of the gate: verify, tier, retention. What they show is what the gate decides, nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.gate.lifecycle import ChunkLine

Table = Annotated[str, typer.Argument(help="A ChronoTable, as readings or plant.readings.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and why.")]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Compare in this process instead of on Spark: quicker for a few chunks.")
]
_COLUMNS = ["Chunk", "From", "To", "Rows", "Bytes", "State", "Verdict", "Reason", "Message", "Next step"]


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
    _show(call, lines)


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
    _show(call, lines)


def retention(
    table: Table,
    dry_run: DryRun = False,
    in_process: InProcess = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Drop the chunks that the retention policy no longer keeps, each only if the lake provably holds it.

    Exit code 3 when a chunk that is due had to stay.

    Example: thermocline retention readings --dry-run
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Retention") as say:
        gate = call.stack.lifecycle(table, on_spark=not (in_process or dry_run))
        lines = gate.retention(dry_run=dry_run, news=say)
    _show(call, lines)


def _show(call: Invocation, lines: Sequence[ChunkLine]) -> None:
    from thermocline.gate.lifecycle import proven

    call.out.table("chunks", _COLUMNS, [tuple(asdict(line).values()) for line in lines])
    if not proven(lines):
        raise typer.Exit(ExitCode.REFUSED)
