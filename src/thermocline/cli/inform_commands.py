"""Commands that only tell: doctor, config, version."""

from __future__ import annotations

import platform

import typer

from thermocline import __version__
from thermocline.checks import Verdict
from thermocline.cli.invocation import Invocation, Json, Verbose
from thermocline.doctor import examine


def doctor(json: Json = False, verbose: Verbose = False) -> None:
    """Check this machine and the server, and say exactly what to change. Changes nothing.

    Example: THERMOCLINE_HOT_DSN=postgresql://me@db/metrics thermocline doctor
    """
    call = Invocation(json=json, verbose=verbose)
    checks = list(examine(call.stack))
    call.out.table(
        "checks",
        ["Check", "Verdict", "Found", "Fix"],
        [(check.name, check.verdict, check.found, check.fix) for check in checks],
    )
    failed = [check for check in checks if check.verdict is Verdict.FAILED]
    if failed:
        raise typer.Exit(failed[0].exit_code)


def config(json: Json = False) -> None:
    """Print every setting in force and where it came from, secrets masked.

    Example: thermocline config
    """
    call = Invocation(json=json)
    call.out.table(
        "settings",
        ["Setting", "Value", "Origin"],
        [(value.key, value.shown, value.origin) for value in call.loaded.values()],
    )


def version(json: Json = False) -> None:
    """Print the version of Thermocline and of what it runs on.

    Example: thermocline version
    """
    from importlib.metadata import version as of

    Invocation(json=json).out.facts(
        f"Thermocline {__version__}",
        {
            "thermocline": __version__,
            "python": platform.python_version(),
            "pyspark": of("pyspark"),
            "pyiceberg": of("pyiceberg"),
            "psycopg": of("psycopg"),
        },
    )
