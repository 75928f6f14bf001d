"""Commands that start, stop and show the stack: up, down, status, dsn, psql, uninstall."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.errors import ExitCode, Misconfigured, Refused
from thermocline.masking import masked


def up(
    reset_password: Annotated[
        bool, typer.Option("--reset-password", help="Give the embedded server a new password.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Start what is embedded, fetch what is missing, install the SQL. Does nothing that is done already.

    Example: thermocline up
    """
    call = Invocation(json=json, verbose=verbose)
    if reset_password and not call.stack.is_embedded:
        raise Misconfigured("--reset-password is for the embedded server, but hot.dsn is set.")
    result = call.stack.up(call.out.step, reset_password=reset_password)
    if json:
        call.out.facts("", asdict(result))
        return
    if result.port_moved_from:
        call.out.say(f"[yellow]Port {result.port_moved_from} is taken now; the server has moved to another.[/]")
    place = "embedded" if result.embedded else "yours"
    call.out.facts(
        "Thermocline is up",
        {
            "dsn": masked(result.dsn),
            "postgres": f"{result.postgres}, {place}, {'started now' if result.started else 'running'}",
            "sql": f"{result.sql}, {'installed now' if result.installed else 'unchanged'}",
            "java": result.java,
            "home": result.home,
            "warehouse": result.warehouse,
        },
    )
    call.out.say("[dim]thermocline dsn[/] prints how to connect, [dim]thermocline psql[/] does it.")


def down(json: Json = False, verbose: Verbose = False) -> None:
    """Stop the embedded server, closing its sessions. An external server is left alone.

    Example: thermocline down
    """
    call = Invocation(json=json, verbose=verbose)
    stopped = call.stack.down()
    if not call.stack.is_embedded:
        call.out.say("hot.dsn names a server of your own; it was left alone.")
    call.out.facts("Stopped" if stopped else "Nothing to stop", {"stopped": stopped})


def status(json: Json = False, verbose: Verbose = False) -> None:
    """Show what runs and what it holds; starts nothing. Exit code 5 when the server is not up.

    Example: thermocline status --json
    """
    call = Invocation(json=json, verbose=verbose)
    found = call.stack.status()
    call.out.facts("Running" if found.running else "Not running", asdict(found))
    if not found.running:
        call.out.say("Start it with [dim]thermocline up[/].")
        raise typer.Exit(ExitCode.UNREACHABLE)


def dsn(json: Json = False) -> None:
    """Print how to connect to the hot tier, password included.

    Example: psql "$(thermocline dsn)"
    """
    call = Invocation(json=json)
    if json:
        call.out.facts("", {"dsn": call.stack.dsn})
    else:
        typer.echo(call.stack.dsn)


def psql(
    arguments: Annotated[list[str] | None, typer.Argument(help="Handed to psql as they are.", metavar="ARGS")] = None,
    json: Json = False,
) -> None:
    """Open psql on the hot tier. Whatever else you write goes to psql.

    Example: thermocline psql -c 'SELECT version()'
    """
    call = Invocation(json=json)
    program = call.stack.psql_program() or shutil.which("psql")
    if program is None:
        raise Misconfigured("There is no psql on this machine.", next_step="Install a PostgreSQL client.")
    command = [program, call.stack.dsn_without_password, *(arguments or [])]
    if json:
        call.out.facts("", {"program": program, "dsn": call.stack.dsn_without_password})
        return
    os.execve(program, command, os.environ | call.stack.password_environment)  # noqa: S606


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is removed.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Take Thermocline's schemas out of the database. Your tables stay; the lake stays.

    Example: thermocline uninstall --yes
    """
    call = Invocation(json=json, verbose=verbose)
    if not yes:
        raise Refused(
            "This would drop the schemas lakets and thermocline, and the lake's catalogs if they are empty.",
            next_step="Say so with --yes.",
        )
    kept = call.stack.uninstall()
    call.out.facts("Uninstalled", {"uninstalled": True, "kept": ", ".join(kept) or None})
    if kept:
        call.out.say("Kept, because it still lists lake tables; without it nobody would know where they are.")
