"""Commands that show what there is, tables, chunks and policies, and the one that keeps it in order."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermocline.cli.invocation import Invocation, Json, Table, Verbose
from thermocline.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence


def tables(json: Json = False, verbose: Verbose = False) -> None:
    """List the ChronoTables: their chunks by state, their size in PostgreSQL, and how they stand with the lake.

    Example: thermocline tables
    """
    call = Invocation(json=json, verbose=verbose)
    _show(call, "tables", call.stack.tables(), "No ChronoTable yet: SELECT lakets.create_chronotable(...) makes one.")


def chunks(table: Table, json: Json = False, verbose: Verbose = False) -> None:
    """List the chunks of a table that are in PostgreSQL, oldest first.

    Example: thermocline chunks readings
    """
    call = Invocation(json=json, verbose=verbose)
    _show(call, "chunks", call.stack.chunks(table), "The table has no resident chunk.")


def policies(json: Json = False, verbose: Verbose = False) -> None:
    """List the policies of all tables, and when each has last run.

    Example: thermocline policies --json
    """
    call = Invocation(json=json, verbose=verbose)
    _show(call, "policies", call.stack.policies(), "No policy yet: SELECT lakets.add_tiering_policy(...) adds one.")


def maintain(
    table: Annotated[str | None, typer.Argument(help="Only this table, as readings or plant.readings.")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Make the chunks that will be needed next, and set right what no longer is as registered.

    Renamed tables and chunks are registered anew, partitions that somebody attached become chunks, and what was dropped
    by other means gets its audit row. Exit code 3 when something is left that a person must decide.

    Example: thermocline maintain
    """
    call = Invocation(json=json, verbose=verbose)
    done = call.stack.maintain(table)
    findings = [found for one in done for found in one.findings]
    rows = [(found.object, found.finding, found.done) for found in findings]
    rows += [(one.table, f"{one.chunks_made} chunks were missing", "made") for one in done if one.chunks_made]
    if not rows:
        call.out.say("Everything is as it should be.")
    if rows or call.json:
        call.out.table("maintained", ["Object", "Found", "Done"], rows)
    if any(found.open for found in findings):
        raise typer.Exit(ExitCode.REFUSED)


def _show(call: Invocation, name: str, found: Sequence[Any], none: str) -> None:
    rows = [asdict(one) for one in found]
    if not rows:
        call.out.say(none)
    if rows or call.json:
        columns = [column.replace("_", " ").capitalize() for column in rows[0]] if rows else []
        call.out.table(name, columns, [tuple(row.values()) for row in rows])
