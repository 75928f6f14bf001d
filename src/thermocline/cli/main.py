"""The thermocline command: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermocline import __version__
from thermocline import log as logs
from thermocline.cli import (
    demo,
    feed_commands,
    gate_commands,
    inform_commands,
    lake_commands,
    read_commands,
    rehydrate_commands,
    rollup_commands,
    service_commands,
    stack_commands,
    table_commands,
    work_commands,
)
from thermocline.cli.output import JsonOutput, TextOutput
from thermocline.errors import DiskFull, ExitCode, HomeNotUsable, ThermoclineError
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

log = logs.get(__name__)

_EXIT_CODES = "Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode) + "."

# psql's own options may be written without the two dashes in front.
_PASSED_ON = {"ignore_unknown_options": True}

app = typer.Typer(
    name="thermocline",
    help="Recent time-series data hot in PostgreSQL, all of it in an Iceberg lake, nothing dropped unproven.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


_signals: list[int] = []


def _on_interrupt(number: int, _frame: FrameType | None) -> None:
    _signals.append(number)
    raise KeyboardInterrupt


def _on_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Ctrl-C that came where Python throws errors away, as between fork and exec, comes again a moment later."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        again = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
        return
    sys.__unraisablehook__(lost)


def _interrupted() -> bool:
    return bool(_signals)


def _classified(error: OSError) -> ThermoclineError:
    where = f"{error.filename}: " if error.filename else ""
    said = masked(f"{where}{error.strerror or error}")
    return DiskFull(f"The disk is full. {said}") if error.errno == errno.ENOSPC else HomeNotUsable(said)


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with whatever may go wrong in it turned into an error of ours."""

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
        except (ThermoclineError, typer.Exit, SystemExit):
            raise
        except KeyboardInterrupt as error:
            raise Interrupted from error
        except BrokenPipeError:
            # Whoever read our output has gone; there is nobody left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            raise _classified(error) from error
        except Exception as error:
            if _interrupted():  # libraries turn Ctrl-C into errors of their own
                raise Interrupted from error
            log.exception("unexpected")
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise Unexpected(masked(f"{type(error).__name__}: {first_line}")) from error

    return call


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for verb in (
    stack_commands.up,
    stack_commands.down,
    stack_commands.status,
    stack_commands.dsn,
    stack_commands.psql,
    inform_commands.doctor,
    inform_commands.config,
    inform_commands.version,
    demo.demo,
    table_commands.tables,
    table_commands.chunks,
    table_commands.policies,
    table_commands.maintain,
    gate_commands.verify,
    gate_commands.tier,
    gate_commands.retention,
    gate_commands.late,
    gate_commands.why,
    gate_commands.receipts,
    rehydrate_commands.rehydrate,
    rehydrate_commands.release,
    read_commands.sql,
    service_commands.run,
    work_commands.plans,
    work_commands.audit,
    stack_commands.uninstall,
):
    app.command(context_settings=_PASSED_ON if verb is stack_commands.psql else None)(guarded(verb))

feed_app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
feed_app.callback(invoke_without_command=True)(guarded(feed_commands.feed))
feed_app.command()(guarded(feed_commands.status))
feed_app.command()(guarded(feed_commands.resync))
app.add_typer(feed_app, name="feed", help=feed_commands.feed.__doc__)

lake_app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
lake_app.callback(invoke_without_command=True)(guarded(lake_commands.lake))
lake_app.command()(guarded(lake_commands.recover))
app.add_typer(lake_app, name="lake", help=lake_commands.lake.__doc__)

rollup_app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
rollup_app.callback(invoke_without_command=True)(guarded(rollup_commands.rollup))
rollup_app.command()(guarded(rollup_commands.show))
rollup_app.command()(guarded(rollup_commands.refresh))
rollup_app.command()(guarded(rollup_commands.check))
rollup_app.command()(guarded(rollup_commands.recompute))
app.add_typer(rollup_app, name="rollup", help=rollup_commands.rollup.__doc__)

work_app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
work_app.callback(invoke_without_command=True)(guarded(work_commands.work))
work_app.command("list")(guarded(work_commands.list_units))
for unit_verb in (
    work_commands.show,
    work_commands.add,
    work_commands.retry,
    work_commands.cancel,
    work_commands.pause,
):
    work_app.command()(guarded(unit_verb))
app.add_typer(work_app, name="work", help=work_commands.work.__doc__)

schedules_app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
schedules_app.callback(invoke_without_command=True)(guarded(work_commands.schedules))
schedules_app.command("set")(guarded(work_commands.set_schedule))
schedules_app.command("reset")(guarded(work_commands.reset_schedule))
app.add_typer(schedules_app, name="schedules", help=work_commands.schedules.__doc__)


class Unexpected(ThermoclineError):
    """Something failed that should not have; this is a bug."""

    code = "unexpected"
    next_step_by_default = "The log in the home has the details; please report them."


class BadUsage(ThermoclineError):
    """The command, an option or an argument of it was not understood."""

    code = "usage"
    exit_code = ExitCode.USAGE
    next_step_by_default = "`--help` after the command shows what it takes, with an example."


class Interrupted(ThermoclineError):
    """Stopped by Ctrl-C; nothing is left half made."""

    code = "interrupted"
    exit_code = ExitCode.INTERRUPTED
    next_step_by_default = "Run the command again to go on."


# They change how every session reads texts and times, and whom it reaches; hot.dsn is where to say that.
_POLLUTING = ("PGCLIENTENCODING", "PGDATESTYLE", "PGTZ", "PGHOSTADDR", "PGSERVICE", "PGOPTIONS", "PGTARGETSESSIONATTRS")


def _mend_streams() -> None:
    """A closed stream becomes nowhere, and a letter that it cannot show becomes its number."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _call_for_program(arguments: list[str]) -> None:
    """Also what was not understood is told as one JSON object."""
    try:
        sys.exit(app(arguments, standalone_mode=False))
    except Exception as error:
        told = getattr(error, "format_message", None)  # what Typer raises then it does not name in public
        if told is None:
            raise
        raise BadUsage(told()) from error


def run(arguments: list[str]) -> int:
    """The exit code of one call. People are answered by Typer itself what it does not understand."""
    signal.signal(signal.SIGINT, _on_interrupt)
    sys.unraisablehook = _on_unraisable
    os.umask(0o077)  # whatever we make is ours alone, unless it is said otherwise where it is made
    _mend_streams()
    logging.getLogger().addHandler(logging.NullHandler())  # libraries' own complaints are not for the terminal
    for name in _POLLUTING:
        os.environ.pop(name, None)
    try:
        if "--json" in arguments:
            _call_for_program(arguments)
        app(arguments)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else ExitCode.DONE
    except ThermoclineError as error:
        log.warning("not done", code=error.code, message=error.message, exc_info=error.__cause__)
        with suppress(OSError):  # nobody may be there to be told
            (JsonOutput() if "--json" in arguments else TextOutput()).error(error)
        return error.exit_code
    return ExitCode.DONE
