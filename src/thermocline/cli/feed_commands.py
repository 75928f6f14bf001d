"""Commands of the change feed: feed, feed status, feed resync."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.cli.output import Bar
from thermocline.errors import ExitCode, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from thermocline.cli.output import Tell
    from thermocline.feed.outlook import Outlook
    from thermocline.feed.status import FeedTable


def feed(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Bring what is there now to the lake, and end.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Bring every change of the synced tables to the lake, and what was in them before. Runs until Ctrl-C.

    With --once, exit code 6 says that a table or a chunk waits for open transactions, and 3 that a table is set aside
    or a chunk is not logged.

    Example: thermocline feed --once
    """
    if context.invoked_subcommand:
        return
    call = Invocation(json=json, verbose=verbose)
    stands = call.stack.feed_status()
    if stands.running:
        from thermocline.feed.refusals import FeedTaken

        raise FeedTaken
    if once and not stands.tables and stands.slot:
        with call.stack.own_feed() as idle:
            idle.tend()
        call.out.facts("No table is synced any more, so the replication slot is removed", {"slot": stands.slot})
        return
    if once and not stands.tables:
        raise Refused(
            "No table is synced, so there is nothing to bring to the lake.",
            next_step="SELECT lakets.create_chronotable(...) and lakets.enable_sync(...) first.",
        )
    with call.out.step("Starting Spark"):
        call.stack.spark()
    with call.stack.feed() as service:
        if once:
            with call.out.step("Bringing changes to the lake") as say, call.stack.watching(showing(say)):
                progress = service.drain()
            passed_by = progress.set_aside or progress.unlogged
            whole = progress.caught_up and not passed_by
            call.out.facts(
                "Everything that was there is in the lake" if whole else "Not all of it is in the lake",
                {
                    "position": progress.position_text,
                    "caught_up": progress.caught_up,
                    "waiting_for_transactions": list(progress.joining),
                    "chunks_not_copied": progress.uncopied,
                    "set_aside": list(progress.set_aside),
                    "not_logged": list(progress.unlogged),
                },
            )
            if passed_by:
                call.out.say("`thermocline feed status` says why something is passed by, and what to do.")
            if not whole:
                raise typer.Exit(ExitCode.REFUSED if passed_by else ExitCode.BUSY)
            return
        for told in (signal.SIGTERM, signal.SIGINT):
            signal.signal(told, lambda *_: service.stop())
        title = "The feed is running; Ctrl-C ends it"
        with call.out.step(title) as say, call.stack.watching(showing(say)):
            service.run()
    call.out.facts("Stopped", {"stopped": True})


def showing(say: Tell) -> Callable[[Outlook], None]:
    """What shows outlooks as news of a step."""
    return lambda now: say(_told(now), _bars(now), _told(now, drawn=True))


def _told(now: Outlook, *, drawn: bool = False) -> str:
    """What is left, as a person wants to know it: the copies first, then the log; or what the bars do not show."""
    told = []
    if now.waiting:
        told.append(f"waiting for open transactions of {', '.join(now.waiting)}")
    if now.covered < now.chunks:
        rows = f" and about {now.to_copy_rows:,} rows" if now.to_copy_rows else ""
        left = f", {_size(now.to_copy_bytes)}{rows} to copy{_in(now.copied_in)}"
        told.append(f"{now.covered:,} of {now.chunks:,} chunks copied{'' if drawn else left}")
    if not drawn:
        told.append(f"{_size(now.behind_bytes)} behind, {now.rows_per_second:,.0f} rows/s{_in(now.caught_up_in)}")
    if now.held_back:
        told.append(f"the lake does not take {', '.join(now.held_back)}")
    if now.set_aside:
        told.append(f"set aside: {', '.join(now.set_aside)}")
    return "; ".join(told)


def _bars(now: Outlook) -> list[Bar]:
    """The copies and the backlog of the log, each while there is something left of it."""
    bars, pace = [], f"{now.rows_per_second:,.0f} rows/s"
    if now.to_copy_bytes:
        rows = f", about {now.to_copy_rows:,} rows to go" if now.to_copy_rows else ""
        bars.append(_bar("Copies", now.to_copy_bytes, now.copies_bytes, f"{rows}, {pace}{_in(now.copied_in)}"))
    if now.backlog_bytes:
        bars.append(_bar("Backlog", now.behind_bytes, now.backlog_bytes, f", {pace}{_in(now.caught_up_in)}"))
    return bars


def _bar(title: str, left: int, total: int, words: str) -> Bar:
    return Bar(title, total - left, total, f"{_size(total - left)} of {_size(total)}{words}")


def _in(seconds: float | None) -> str:
    """How long it takes, in two units at most."""
    if seconds is None:
        return ""
    whole = max(1, round(seconds))
    minutes, hours = whole // 60, whole // 3600
    told = f"{whole} s" if minutes == 0 else f"{minutes} min {whole % 60} s"
    return f", {told if hours == 0 else f'{hours} h {minutes % 60} min'} left"


def _size(count: int | None) -> str:
    """Bytes in the largest unit of which there is one."""
    left = float(count or 0)
    for unit in ("bytes", "kB", "MB"):
        if left < 1000:
            return f"{left:.0f} {unit}"
        left /= 1000
    return f"{left:,.1f} GB"


def status(json: Json = False, verbose: Verbose = False) -> None:
    """Show how far the feed and each synced table have come. Starts nothing.

    Example: thermocline feed status
    """
    call = Invocation(json=json, verbose=verbose)
    found = call.stack.feed_status()
    if json:
        call.out.facts("", asdict(found))
        return
    call.out.facts(
        "Feed",
        {
            "running": found.running,
            "slot": f"{found.slot}, {found.slot_state}" if found.slot else "none yet; the first feed makes it",
            "position": found.position,
            "behind_bytes": found.behind_bytes,
            "behind_seconds": found.behind_seconds,
            "log_kept_bytes": found.retained_bytes,
        },
    )
    default = call.stack.settings.feed.interval
    call.out.table(
        "tables",
        ["Table", "Status", "Every", "Behind", "Seconds", "Rows/s", "Chunks covered", "Last write", "Reason"],
        [
            (
                table.table,
                table.status,
                f"{default if table.commit_interval is None else table.commit_interval:g} s",
                table.behind_bytes,
                table.behind_seconds,
                table.rows_per_second,
                f"{table.covered} of {table.chunks}"
                + (f", {_size(table.to_copy_bytes)} to copy" if _copies(table) else ""),
                table.last_write.isoformat(" ", "seconds") if table.last_write else None,
                table.reason,
            )
            for table in found.tables
        ],
    )
    for alarm in found.alarms:
        call.out.say(f"Alarm: {alarm.message}. {alarm.next_step}")


def _copies(table: FeedTable) -> bool:
    return table.covered < table.chunks and table.to_copy_bytes is not None


def resync(
    table: Annotated[
        str | None, typer.Argument(help="One synced table or RollUp: schema.table. All of them if none.")
    ] = None,
    chunk: Annotated[str | None, typer.Option(help="Only this chunk of the table.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Really do it.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Copy what is resident to the lake again: a table, one chunk of it, or everything. Nothing in the lake is removed.

    For everything the stream begins anew with a new slot, and no feed may run. For a table the feed goes on meanwhile.
    A copy supersedes what the lake had of its chunk before.

    Example: thermocline feed resync public.readings --yes
    """
    if chunk and not table:
        raise Refused("Of which table is the chunk?", next_step="thermocline feed resync TABLE --chunk CHUNK --yes")
    if not yes:
        what = (
            f"{chunk or 'every resident chunk'} of {table}" if table else "every resident chunk of every synced table"
        )
        raise Refused(
            f"A resync copies {what} again.",
            next_step="Run it with --yes when the lake does not have what it should"
            + ("." if table else ", the slot is lost or the server was restored on purpose."),
        )
    call = Invocation(json=json, verbose=verbose)
    if table:
        chunks = call.stack.resync_table(table, chunk)
        call.out.facts("The feed copies them again", {"table": table, "chunks": chunks})
        return
    tables = call.stack.resync_feed()
    call.out.facts("The next feed copies every resident chunk", {"tables": tables})
