"""Commands for RollUps: what there is, show, refresh, check, recompute."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.cli.lines import MOMENT, moment
from thermocline.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.hot.rollups import Item
    from thermocline.recompute.recompute import Line

Name = Annotated[str, typer.Argument(help="A RollUp, by the name that it was created with.")]
From = Annotated[
    datetime | None, typer.Option("--from", parser=moment, metavar=MOMENT, help="Only from this time on, UTC.")
]
To = Annotated[datetime | None, typer.Option("--to", parser=moment, metavar=MOMENT, help="Only before this time, UTC.")]


def rollup(context: typer.Context, json: Json = False, verbose: Verbose = False) -> None:
    """List the RollUps: what each is made from, how far it is, and how much waits for its next refresh.

    Example: thermocline rollup
    """
    if context.invoked_subcommand:
        return
    call = Invocation(json=json, verbose=verbose)
    found = call.stack.rollups()
    if not found:
        call.out.say("No RollUp yet: SELECT lakets.create_rollup(...) makes one.")
    if found or json:
        _table(call, "rollups", [asdict(one) for one in found])


def show(name: Name, json: Json = False, verbose: Verbose = False) -> None:
    """Say what the next refresh of a RollUp has to do, why and since when, and what it will cost.

    Example: thermocline rollup show hourly
    """
    call = Invocation(json=json, verbose=verbose)
    rollup, items = call.stack.explain_rollup(name)
    if json:
        call.out.facts("", asdict(rollup) | {"items": [asdict(item) for item in items]})
        return
    call.out.facts(name, {key: value for key, value in asdict(rollup).items() if key != "name"})
    call.out.table(
        "the next refresh",
        ["Item", "Why", "Since", "Range, UTC", "How many", "Rows to read"],
        [_shown(item) for item in items],
    )


def refresh(
    name: Annotated[str | None, typer.Argument(help="Only this one, after those it is made from.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Also those whose refresh_lag is not over.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Bring RollUps up to date, dependencies first; one that was refreshed within its lag is left alone.

    Exit code 1 when one could not be refreshed; the others are.

    Example: thermocline rollup refresh hourly
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step("Refreshing"):
        done = call.stack.refresh_rollups(name, now=now)
    if not done:
        call.out.say("No RollUp yet: SELECT lakets.create_rollup(...) makes one.")
    if done or json:
        _table(call, "refreshed", [asdict(one) | {"ms": round(one.ms, 1)} for one in done])
    if any(one.failed for one in done):
        raise typer.Exit(ExitCode.FAILED)


def check(
    name: Name,
    repair: Annotated[bool, typer.Option("--repair", help="Compute the buckets anew that differ.")] = False,
    start: From = None,
    end: To = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Compare a RollUp with a full aggregation of its source, bucket by bucket.

    Left out is what the next refresh computes anyway, and buckets whose rows have left PostgreSQL. Reads the whole
    source, or the given range of it. Exit code 3 when there is a difference that was not mended.

    Example: thermocline rollup check hourly --from 2026-01-01 --repair
    """
    call = Invocation(json=json, verbose=verbose)
    with call.out.step(f"Comparing {name} with its source"):
        checked = call.stack.check_rollup(name, start, end, repair=repair)
    if json:
        call.out.facts("", asdict(checked))
    elif checked.differences:
        _table(call, "differences", [asdict(one) for one in checked.differences])
        if checked.count > len(checked.differences):
            call.out.say(f"These are the first {len(checked.differences)} of {checked.count}.")
    if checked.waiting_buckets:
        call.out.say(f"{checked.waiting_buckets} buckets wait for the next refresh and were not compared.")
    if not checked.differences:
        call.out.say("No difference.")
    elif checked.repaired_buckets:
        call.out.say(f"Mended: {checked.repaired_buckets} buckets were computed anew.")
    else:
        call.out.say("`--repair` computes these buckets anew.")
        raise typer.Exit(ExitCode.REFUSED)


def recompute(
    name: Name,
    start: From = None,
    end: To = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be computed, and from where.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Compute buckets of a RollUp anew from both tiers, those whose rows are not all in PostgreSQL any more.

    Spark reads the rows in PostgreSQL and in the lake, each once, and only the aggregates come back. The range is
    widened to whole buckets. RollUps that are made from it follow; for one that is made from another, that one comes
    first. What Spark cannot compute as PostgreSQL does is refused by name before anything runs.

    Example: thermocline rollup recompute weekly --from 2026-01-01 --to 2026-02-01
    """
    call = Invocation(json=json, verbose=verbose)
    recomputer = call.stack.recomputer()
    if dry_run:
        plan = recomputer.plan(name, start, end)
        if json:
            call.out.facts("", {"rollup": name, "lines": [_told(line) for line in plan.lines]})
        elif plan.lines:
            _table(call, "to be recomputed", [_told(line) for line in plan.lines])
        else:
            call.out.say("Nothing to recompute: a refresh sees to it.")
        return
    with call.out.step(f"Recomputing {name} from both tiers"):
        done = recomputer.run(name, start, end)
    lines = [_told(line) for line in done.plan.lines]
    if json:
        call.out.facts("", {"rollup": name, "buckets": done.buckets, "rows": done.rows, "lines": lines})
        return
    _table(call, "recomputed", lines)
    call.out.say(f"{done.buckets} buckets were computed on Spark; {done.rows} aggregates came back.")


def _told(line: Line) -> dict[str, Any]:
    return {
        "rollup": line.rollup,
        "from": line.start,
        "to": line.end,
        "buckets": line.buckets,
        "action": line.action,
        "reason": line.reason,
        "why": line.why,
        "computed": line.where,
        "rows_from_the_lake": ", ".join(
            f"{low:%Y-%m-%d %H:%M} - {high:%Y-%m-%d %H:%M}" for low, high in line.from_lake
        ),
    }


def _shown(item: Item) -> tuple[Any, ...]:
    start, end, since = (
        at and f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}" for at in (item.range_start, item.range_end, item.since)
    )
    within = f"{start} - {end}" if start and end else f"from {start} on" if start else f"before {end}" if end else None
    return item.item, item.reason, since, within, item.how_many, item.rows_to_read


def _table(call: Invocation, name: str, rows: Sequence[dict[str, Any]]) -> None:
    columns = [column.replace("_", " ").capitalize() for column in rows[0]] if rows else []
    call.out.table(name, columns, [tuple(row.values()) for row in rows])
