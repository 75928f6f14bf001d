"""The demo: the product at work on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from datetime import UTC
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.tour import Tour


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running afterwards.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the product at work: a table streams to the lake, and a day of it leaves PostgreSQL once that is proven.

    Example: thermocline demo --keep
    """
    call = Invocation(json=json, verbose=verbose)
    stack = call.stack
    was_running = stack.is_running
    try:
        result = stack.up(call.out.step)
        told = Tour(stack).run(call.out.step)
        if json:
            call.out.facts(
                "",
                told.facts
                | {
                    "receipt": told.receipt,
                    "refused": asdict(told.refused),
                    "repaired": [asdict(one) for one in told.repaired],
                    "late": [asdict(one) for one in told.late],
                    "wide": asdict(told.wide),
                    "back": asdict(told.back),
                },
            )
            return
        call.out.say("\n[bold]A reading came a day late.[/] The RollUps have it, and computed what it changed:")
        call.out.say("  rollup  bucket, UTC       mean before  mean after  values  refresh")
        for one in told.repaired:
            call.out.say(
                f"  {one.rollup:<6}  {one.bucket.astimezone(UTC):%Y-%m-%d %H:%M}  {one.mean_before:>11.3f}"
                f"  {one.mean_after:>10.3f}  {one.values:>6}  {one.refresh_ms:>4.0f} ms"
            )
        refused = told.refused
        call.out.say(
            f"\n[bold]While a transaction was open[/] the gate kept {refused.chunk}:"
            f"\n  {refused.message} [dim]({refused.reason})[/]"
        )
        call.out.facts("\nThen it was compared row for row, and this receipt was written", told.receipt)
        call.out.say(
            f"\n[bold]{told.dropped.chunk} has left PostgreSQL.[/] The same question, the same answer as before:"
        )
        call.out.say("  day         readings  mean temperature")
        for day, readings, mean in told.days:
            call.out.say(f"  {day}  {readings:>8}  {mean:>16.3f}")
        call.out.say("\n[bold]A reading for that day came after it had left.[/] It went to the lake:")
        call.out.say("  when     readings  mean temperature  of them in PostgreSQL")
        for late in told.late:
            call.out.say(f"  {late.when:<7}  {late.readings:>8}  {late.mean:>16.3f}  {late.rows_in_postgresql:>21}")
        call.out.facts("\nThe week of that day, in a weekly RollUp, was computed from both tiers", asdict(told.wide))
        call.out.facts("\nThe day came back from the lake, proven row for row, and was corrected", asdict(told.back))
        call.out.facts("\nNothing lost, nothing doubled", told.facts)
    finally:
        if stack.is_running and not (was_running or keep):
            with call.out.step("Stopping PostgreSQL"):
                stack.down()
    program = "thermocline" if shutil.which("thermocline") else os.path.relpath(sys.argv[0])
    call.out.say(
        f"\nNext: [bold]{program} up[/], then [bold]{program} psql[/], and"
        f' [bold]{program} sql "SELECT count(*) FROM thermocline_demo_readings"[/].'
        f" Everything lies in {result.home}."
    )
    if stack.is_running:
        call.out.say(f"The server runs; [bold]{program} down[/] stops it.")
