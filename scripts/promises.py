"""Lists which promise is held by which test and which is not yet; the last line counts them."""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
_ROW = re.compile(r"^\| (\d{3}-\d{2}) \| (.+) \|$")


def promises(page: Path = PAGE) -> dict[str, str]:
    """Every promise by its id, as the page has them."""
    return {row[1]: row[2] for line in page.read_text("utf-8").splitlines() if (row := _ROW.match(line))}


class Collector:
    """A pytest plugin that notes the promises that collected tests name."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read the markers; parametrised tests count once."""
        for item in items:
            for marker in item.iter_markers("promise"):
                for name in marker.args:
                    self.held[name].add(item.nodeid.partition("[")[0])


def collect() -> dict[str, set[str]]:
    """The tests that name each promise."""
    collector = Collector()
    said = io.StringIO()
    with redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q"], plugins=[collector])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"The tests cannot be collected:\n{said.getvalue()}")
    return collector.held


def report(known: dict[str, str], held: dict[str, set[str]]) -> list[str]:
    """One line a promise, and the count as the last line."""
    unknown = sorted(set(held) - set(known))
    if unknown:
        raise SystemExit(f"Tests name promises that {PAGE.name} does not have: {', '.join(unknown)}.")
    lines = []
    for name, promise in known.items():
        tests = sorted(held.get(name, ()))
        lines.append(f"{'held   ' if tests else 'not yet'} {name}  {promise}")
        lines += [f"          {test}" for test in tests]
    return [*lines, f"{sum(1 for name in known if held.get(name))} of {len(known)} held"]


if __name__ == "__main__":
    sys.stdout.write("\n".join(report(promises(), collect())) + "\n")
