"""Commands of background work: a node, its units, what stops it, when it is due, what it planned and did."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermocline.cli.invocation import Invocation, Json, Table, Verbose
from thermocline.cli.lines import MOMENT, moment
from thermocline.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermocline.work.desk import Desk
    from thermocline.work.worker import Tally

_LARGEST = 2**63 - 1
Number = Annotated[
    int, typer.Argument(min=1, max=_LARGEST, help="The number of a unit, as `thermocline work list` shows it.")
]
Kind = Annotated[str | None, typer.Option("--kind", help="Only this kind of work.")]
OfTable = Annotated[str | None, typer.Option("--table", help="Only this table, as readings or plant.readings.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="At most so many.")]
_TOLD = ("row_count", "drop_position", "position", "lake_snapshot", "attached_at", "kept_until")

Since = Annotated[
    datetime | None, typer.Option("--since", parser=moment, metavar=MOMENT, help="From this time on, UTC.")
]


def work(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and end.")] = False,
    kinds: Annotated[str | None, typer.Option("--kinds", help="Only these kinds, with commas between.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, max=64, help="Units at once.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Show its metrics at this port; 0: any free one.")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a node: it makes the work that is due and does it, until Ctrl-C or SIGTERM. Start more for more capacity.

    What runs when it is told to stop is finished or handed back. With --once, exit code 1 says that not all is done.

    Example: thermocline work --once --kinds partitions,refresh
    """
    if context.invoked_subcommand:
        return
    from thermocline.work.node import Node

    call = Invocation(json=json, verbose=verbose)
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()] if kinds is not None else None
    node = Node(call.stack, kinds=chosen, concurrency=concurrency)
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda *_: node.stop())
    if once:
        with call.out.step("Doing what is due"):
            tally = node.once()
        left = tally.broken or tally.trouble
        _ended(call, "Not all of it is done" if left else "What was due is done", tally)
        if tally.broken:
            call.out.say("`thermocline work list` shows what failed, and why.")
        if left:
            raise typer.Exit(ExitCode.FAILED)
        return
    with call.out.step("The node is running; Ctrl-C ends it") as say, ExitStack() as shown:
        if port is not None:
            from thermocline.service.http import watch_node

            say(f"{shown.enter_context(watch_node(call.settings.service.host, port, node)).url}/metrics")
        tally = node.run()
    _ended(call, "Stopped", tally)


def _ended(call: Invocation, title: str, tally: Tally) -> None:
    call.out.facts(title, {"ended": tally.ended, "leases_lost": tally.lost, "last_error": tally.last_error})


def list_units(
    status: Annotated[
        str | None, typer.Option("--status", help="Only pending, claimed, done, failed, dead ...")
    ] = None,
    kind: Kind = None,
    table: OfTable = None,
    most: Most = 50,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List units of work: those that wait or run first, then the newest that ended.

    Example: thermocline work list --status dead
    """
    call, desk = _desk(json, verbose)
    found = desk.units(status=status, kind=kind, table=table, most=most)
    chosen = status or kind or table
    none = "No unit is like that." if chosen else "There is no unit yet: a node makes them when they are due."
    _show(call, "units", [asdict(one) for one in found], none)


def show(number: Number, json: Json = False, verbose: Verbose = False) -> None:
    """Show everything about a unit: its attempts, its plan, what came of it.

    Example: thermocline work show 42
    """
    call, desk = _desk(json, verbose)
    found = desk.unit(number)
    if json:
        call.out.facts("", found)
        return
    plan, result = found.pop("plan"), found.pop("result") or {}
    chunks = result.pop("chunks", [])
    call.out.facts(f"Work unit {number}", found | {"result": result})
    _show_lines(call, "plan", plan or [])
    _show_lines(call, "outcome", chunks)


def add(
    kind: Annotated[
        str, typer.Argument(help="partitions, refresh, recompute, tier, retention, settle, rehydrate, verify or prune.")
    ],
    table: Annotated[str | None, typer.Option("--table", help="The table that it is for.")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask for work now, whatever its schedule and its window say. A node does it.

    Example: thermocline work add retention --table readings
    """
    call, desk = _desk(json, verbose)
    number = desk.add(kind, table)
    unit = desk.unit(number)
    facts = {"unit": number, "status": unit["status"], "waits_for": unit["waits_for"]}
    call.out.facts("It is running already" if unit["status"] == "claimed" else "Asked for", facts)


def retry(number: Number, json: Json = False, verbose: Verbose = False) -> None:
    """Let a unit that is dead, failed, cancelled or waiting be tried again at once, with all its attempts.

    Example: thermocline work retry 42
    """
    call, desk = _desk(json, verbose)
    desk.retry(number)
    call.out.facts("It is tried again", {"unit": number})


def cancel(number: Number, json: Json = False, verbose: Verbose = False) -> None:
    """Cancel a unit. One that runs is taken from its worker, which drops nothing more and ends soon.

    One that is failed or dead is not counted as broken any more.

    Example: thermocline work cancel 42
    """
    call, desk = _desk(json, verbose)
    call.out.facts("Cancelled", {"unit": number, "taken_from": desk.cancel(number)})


def pause(
    what: Annotated[str | None, typer.Argument(help="A kind of work, destructive, or everything.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Let it go on.")] = False,
    why: Annotated[str, typer.Option("--why", help="For whoever wonders.")] = "",
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Stop a kind of work, all that is destructive, or everything, on all nodes; without a name show what is stopped.

    Nothing of it is begun any more, and destructive work that runs ends before its next step.

    Example: thermocline work pause destructive --why "looking into a wrong policy"
    """
    call, desk = _desk(json, verbose)
    if what is None:
        _show(call, "stopped", [asdict(one) for one in desk.stops()], "Nothing is stopped.")
        return
    changed = desk.go_on(what, why) if off else desk.stop(what, why)
    now = "goes on" if off else "is stopped"
    call.out.facts(f"{what} {now}{'' if changed else ' already'}", {"what": what, "stopped": not off})


def schedules(context: typer.Context, json: Json = False, verbose: Verbose = False) -> None:
    """List when each kind of work is due: for all tables, and for those with a schedule of their own. Times are UTC.

    Example: thermocline schedules
    """
    if context.invoked_subcommand:
        return
    call, desk = _desk(json, verbose)
    _show(call, "schedules", [asdict(one) for one in desk.schedules()], "There is no schedule.")


def set_schedule(
    kind: Annotated[str, typer.Argument(help="The kind of work.")],
    table: Annotated[str | None, typer.Option("--table", help="Only for this table.")] = None,
    every: Annotated[str | None, typer.Option("--every", help="An interval: 30s, 5m, 2h, 1d.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", help="A cron line, in UTC.")] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="As 'runs 22:00-06:00' or 'pauses 09:00-17:00', in UTC; 'none'.")
    ] = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Switch it on or off.")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say when a kind of work is due, for all tables or for one. What is not given stays as it is.

    Example: thermocline schedules set retention --table readings --cron '30 2 * * *' --window 'runs 22:00-06:00'
    """
    from thermocline.work.schedule import Rule, parse_every, parse_window

    call, desk = _desk(json, verbose)
    rule = Rule(parse_every(every) if every is not None else None, cron) if every is not None or cron else None
    desk.set_schedule(
        kind,
        table,
        rule=rule,
        window=parse_window(window) if window and window != "none" else None,
        no_window=window == "none",
        enabled=enabled,
    )
    _show(call, "schedules", [asdict(one) for one in desk.schedules() if one.kind == kind], "")


def reset_schedule(
    kind: Annotated[str, typer.Argument(help="The kind of work.")],
    table: Table,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Let a table follow the schedule for all tables again.

    Example: thermocline schedules reset retention readings
    """
    call, desk = _desk(json, verbose)
    call.out.facts("It follows the schedule for all", {"had_its_own": desk.reset_schedule(kind, table)})


def plans(
    number: Annotated[int | None, typer.Argument(min=1, max=_LARGEST, help="Only this plan, with its lines.")] = None,
    kind: Kind = None,
    table: OfTable = None,
    most: Most = 50,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List what background work was about to do, as it was written down before; with a number, line by line.

    Example: thermocline plans --kind retention --table readings
    """
    call, desk = _desk(json, verbose)
    found = desk.plans(number, kind=kind, table=table, most=most)
    if number is not None and not json:
        plan = asdict(found[0])
        outcome = plan.pop("outcome") or {}
        chunks = outcome.pop("chunks", [])
        call.out.facts(
            f"Plan {number}", {k: v for k, v in plan.items() if k not in ("id", "lines")} | {"outcome": outcome}
        )
        _show_lines(call, "plan", found[0].lines)
        _show_lines(call, "outcome", chunks)
        return
    rows = [asdict(one) for one in found]
    if not json:
        rows = [{key: value for key, value in row.items() if key not in ("lines", "outcome")} for row in rows]
    chosen = kind or table
    _show(call, "plans", rows, "No plan of that is kept." if chosen else "Nothing has been planned yet.")


def audit(
    action: Annotated[str | None, typer.Option("--action", help="Only this action, as drop_chunk.")] = None,
    table: OfTable = None,
    since: Since = None,
    most: Most = 50,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List what was done that cannot be taken back: who, what, why and on what evidence.

    Example: thermocline audit --table readings --since 2026-01-01
    """
    call, desk = _desk(json, verbose)
    rows = [asdict(one) for one in desk.audit(action=action, table=table, since=since, most=most)]
    if not json:
        rows = [row | {"evidence": _evidence(row["evidence"])} for row in rows]
    chosen = action or table or since
    _show(call, "audit", rows, "Nothing of that is in the audit." if chosen else "Nothing has been removed yet.")


def _evidence(evidence: dict[str, Any]) -> str:
    """In a cell: which receipt, and what else was known; programs are told everything."""
    receipt = evidence.get("receipt") or {}
    told = [f"receipt {receipt['id']} up to {receipt['position']}"] if receipt else []
    told += [f"{name} {value}" for name, value in evidence.items() if isinstance(value, str | int) and name in _TOLD]
    return ", ".join(told)


def _show_lines(call: Invocation, name: str, lines: Sequence[dict[str, str]]) -> None:
    if lines:
        call.out.table(name, ["Object", "Action", "Why"], [(x["object"], x["action"], x["why"]) for x in lines])


def _desk(json: bool, verbose: bool) -> tuple[Invocation, Desk]:
    from thermocline.work.node import desk

    call = Invocation(json=json, verbose=verbose)
    return call, desk(call.stack)


def _show(call: Invocation, name: str, rows: Sequence[dict[str, Any]], none: str) -> None:
    """For people without the columns that have nothing in them."""
    if not rows:
        call.out.say(none)
    if rows or call.json:
        shown = (
            [column for column in rows[0] if call.json or any(row[column] not in (None, "") for row in rows)]
            if rows
            else []
        )
        titles = [column.replace("_", " ").capitalize() for column in shown]
        call.out.table(name, titles, [tuple(row[column] for column in shown) for row in rows])
