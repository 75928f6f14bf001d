"""The thermocline command: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

from thermocline import log as logs
from thermocline.cli import demo, inform_commands, stack_commands
from thermocline.cli.output import JsonOutput, TextOutput
from thermocline.errors import ExitCode, ThermoclineError
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable

log = logs.get(__name__)

_EXIT_CODES = "Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode) + "."

app = typer.Typer(
    name="thermocline",
    help="Recent time-series data hot in PostgreSQL, all of it in an Iceberg lake, nothing dropped unproven.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
        except Exception as error:
            log.exception("unexpected")
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise Unexpected(masked(f"{type(error).__name__}: {first_line}")) from error

    return call


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
    stack_commands.uninstall,
):
    app.command()(guarded(verb))


class Unexpected(ThermoclineError):
    """Something failed that should not have; this is a bug."""

    code = "unexpected"
    next_step_by_default = "The log in the home has the details; please report them."


class Interrupted(ThermoclineError):
    """Stopped by Ctrl-C; nothing is left half made."""

    code = "interrupted"
    exit_code = ExitCode.INTERRUPTED
    next_step_by_default = "Run the command again to go on."


def main() -> None:
    """Run the command and exit with a code that means something."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of one call. Typer itself answers what it does not understand, with 2."""
    try:
        app(arguments)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else ExitCode.DONE
    except ThermoclineError as error:
        log.warning("not done", code=error.code, message=error.message, exc_info=error.__cause__)
        (JsonOutput() if "--json" in arguments else TextOutput()).error(error)
        return error.exit_code
    return ExitCode.DONE
