"""The demo: the product at work on this machine, with what exists so far."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.tour import Tour


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running afterwards.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the stack at work: readings in PostgreSQL, copied to the lake by Spark, read back two ways.

    Example: thermocline demo --keep
    """
    call = Invocation(json=json, verbose=verbose)
    stack = call.stack
    was_running = stack.is_running
    try:
        result = stack.up(call.out.step)
        told = Tour(stack).run(call.out.step)
        call.out.say("\n[bold]The same question, asked of PostgreSQL, Spark and PyIceberg:[/]")
        call.out.say("  day         readings  mean temperature")
        for day, readings, mean in told.days:
            call.out.say(f"  {day}  {readings:>8}  {mean:>16.3f}")
        call.out.facts("\nAll three answer alike", told.facts)
    finally:
        if stack.is_running and not (was_running or keep):
            with call.out.step("Stopping PostgreSQL"):
                stack.down()
    program = "thermocline" if shutil.which("thermocline") else os.path.relpath(sys.argv[0])
    call.out.say(
        f"\nNext: [bold]{program} up[/], then [bold]{program} psql[/]. The readings are in the"
        " schema thermocline_demo; DROP SCHEMA thermocline_demo CASCADE removes them."
        f" The rest lies in {result.home}."
    )
    if stack.is_running:
        call.out.say(f"The server runs; [bold]{program} down[/] stops it.")
