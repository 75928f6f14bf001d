"""Commands that show what there is: tables, chunks, policies."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from thermocline.cli.invocation import Invocation, Json, Table, Verbose

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


def _show(call: Invocation, name: str, found: Sequence[Any], none: str) -> None:
    rows = [asdict(one) for one in found]
    if not rows:
        call.out.say(none)
    if rows or call.json:
        columns = [column.replace("_", " ").capitalize() for column in rows[0]] if rows else []
        call.out.table(name, columns, [tuple(row.values()) for row in rows])
