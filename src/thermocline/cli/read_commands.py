"""Commands that ask: sql."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose


def sql(
    question: Annotated[str, typer.Argument(help="A query in Spark SQL.")],
    most: Annotated[int, typer.Option("--limit", min=1, help="Most rows that are printed.")] = 1000,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="As it was then: a position (0/16B3748) or a moment (2026-11-16T12:00:00+00:00)."),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask both tiers at once: a ChronoTable by its name is all of its rows, in PostgreSQL and in the lake, each once.

    A table of another schema than public is `schema_table`; with `_history` behind it, every change of it.
    With --as-of the answer comes from the lake alone, which has the state of synced tables at each of their changes.

    Example: thermocline sql "SELECT count(*), min(ts) FROM readings"
    """
    from thermocline.reads.moments import position_of  # with Spark's library and all

    call = Invocation(json=json, verbose=verbose)
    at = None if as_of is None else position_of(as_of)
    with call.out.step("Starting Spark"):
        reader = call.stack.reader()
    with call.out.step("Asking both tiers"):
        columns, rows = reader.answer(question, most, at)
    call.out.table("rows", columns, rows)
