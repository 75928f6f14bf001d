"""Commands of the lake: lake recover."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.errors import ExitCode


def lake(context: typer.Context, json: Json = False, verbose: Verbose = False) -> None:
    """List the history tables, and whether the catalog has the newest version of each.

    Example: thermocline lake --json
    """
    if context.invoked_subcommand is None:
        recover(json=json, verbose=verbose)


def recover(
    table: Annotated[
        str | None, typer.Argument(help="One history table: public.lb_readings_history. All of them if none.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without, it is only shown.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Adopt also what this database does not know to have written.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Give history tables back what their catalog has forgotten, as after it was restored from a backup.

    Shows for each where the catalog points, the newest metadata file in the store that comes of it, and why it is
    adopted or not. With --execute the catalog points there; no feed may run. Exit code 3 when a table is refused.

    Example: thermocline lake recover --execute
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Looking at the catalog and the store"):
        lines = call.stack.recover_lake(table, execute=execute, unknown=unknown)
    if json:
        rows = [{key: value for key, value in asdict(line).items() if key != "regained"} for line in lines]
        call.out.table("tables", list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
    elif not lines:
        call.out.say("There is no history table yet: the feed makes one for each synced table.")
    else:
        call.out.table(
            "history tables",
            ["Table", "Verdict", "Snapshots back", "Points at", "Newest", "Why, and what to do"],
            [
                (
                    line.table,
                    line.verdict,
                    line.snapshots,
                    _file(line.pointer),
                    _file(line.newest),
                    f"{line.reason} {line.next_step}".strip(),
                )
                for line in lines
            ],
        )
        if any(line.verdict == "adopt" for line in lines):
            call.out.say("Nothing was changed. With --execute it is.")
    if any(line.verdict == "refused" for line in lines):
        raise typer.Exit(ExitCode.REFUSED)


def _file(location: str | None) -> str:
    """The beginning of its name, which tells it from the others in its folder."""
    return "-".join(location.rpartition("/")[2].split("-")[:2]) if location else "nothing"
