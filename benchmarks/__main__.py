"""`python -m benchmarks [name ...]`: runs the benchmarks named, or all; exits 0, 1 or 2, see `main`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import benchmarks
from benchmarks import machine
from benchmarks.frame import Report, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType, ModuleType

    Run = Callable[[], Report]

HOLDS, BROKEN, UNKNOWN_NAME, INTERRUPTED = 0, 1, 2, 130


def known(package: ModuleType) -> dict[str, Run]:
    """Every benchmark in the package: a module that defines a function `run`."""
    found: dict[str, Run] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("_"):
            continue
        run = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "run", None)
        if run is not None:
            found[module.name] = run
    return found


def main(
    arguments: Sequence[str],
    package: ModuleType = benchmarks,
    facts: Callable[[], Mapping[str, str]] = machine.facts,
) -> int:
    """0 when every check holds, 1 when one does not, 2 when there is no benchmark of that name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and check the bounds.")
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all when none is named")
    names: list[str] = parser.parse_args(arguments).names
    benches = known(package)
    for name in names:
        if name not in benches:
            progress(f"There is no benchmark {name!r}. There are: {', '.join(benches)}.")
            return UNKNOWN_NAME
    held = True
    for name in names or benches:
        machine_now = facts()
        report = _report(name, benches[name])
        report.print(machine_now)
        held = held and report.ok
    return HOLDS if held else BROKEN


def _report(name: str, run: Run) -> Report:
    """What the benchmark reports; one that fails reports that, and the next one still gets its turn."""
    try:
        return run()
    except Exception:
        traceback.print_exc()
        report = Report(name)
        report.check("ran to its end", 0, ">= 1")
        return report


class Interruption:
    """Ctrl-C, or being told to end, once: what comes after must not keep us from cleaning up."""

    def __init__(self) -> None:
        self._came = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        if self._came:
            progress("Stopping what was started ...")
            return
        self._came = True
        raise KeyboardInterrupt


if __name__ == "__main__":
    interruption = Interruption()
    for told_to_end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(told_to_end, interruption)
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        progress("Interrupted.")
        code = INTERRUPTED
    sys.exit(code)
