"""Commands that ask: sql."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.errors import Refused


def sql(
    question: Annotated[str, typer.Argument(help="A query in Spark SQL.")],
    most: Annotated[int, typer.Option("--limit", min=1, help="Most rows that are printed.")] = 1000,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="As it was then: a position (0/16B3748) or a moment (2026-11-16T12:00:00+00:00)."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Only say from which tier each range of time would come.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask both tiers at once: a ChronoTable by its name is all of its rows, in PostgreSQL and in the lake, each once.

    A table of another schema than public is `schema_table`. With `_history` behind it, it is every change of it; with
    `_current`, the rows that the lake has of it now, which may be older than PostgreSQL's.
    With --explain only where its rows are: in PostgreSQL, in the lake, or in both while late rows are on their way.
    With --as-of the answer comes from the lake alone, which has the state of synced tables at each of their changes.

    Example: thermocline sql "SELECT count(*), min(ts) FROM readings"
    """
    if explain and as_of is not None:
        raise Refused("What was comes from the lake alone.", next_step="Leave out --explain or --as-of.")
    call = Invocation(json=json, verbose=verbose)
    at = None
    if as_of is not None:
        from thermocline.reads.moments import position_of  # with Spark's library and all

        at = position_of(as_of)
    if explain:
        found = [asdict(one) for one in call.stack.places().sources(question)]
        if not found and not json:
            call.out.say("No ChronoTable is in the question: what it asks for is in the catalogs alone, or not there.")
            return
        columns = ["Table", "Range start", "Range end", "Tier", "What"]
        call.out.table("sources", columns, [tuple(one.values()) for one in found])
        return
    with call.out.step("Starting Spark"):
        reader = call.stack.reader()
    with call.out.step("Asking both tiers"):
        names, rows = reader.answer(question, most + 1, at)
    more = len(rows) > most
    if json:
        keys = _keys(names)
        call.out.facts("", {"rows": [dict(zip(keys, row, strict=True)) for row in rows[:most]], "more": more})
        return
    call.out.table("rows", names, rows[:most])
    if more:
        call.out.say(f"There are more rows than these {most}: --limit prints more.")


def _keys(names: list[str]) -> list[str]:
    """As the question names its columns; a name that comes again is numbered, so that none is lost."""
    keys: list[str] = []
    for name in names:
        key, count = name, 1
        while key in keys:
            count += 1
            key = f"{name}_{count}"
        keys.append(key)
    return keys
