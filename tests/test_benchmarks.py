"""The frame of the benchmarks: bounds are read strictly, turns are fair, verdicts reach the exit code."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import benchmarks
from benchmarks import gate, gate_many, ingest, recompute, rollup, rollup_growth, way_back
from benchmarks.__main__ import known, main
from benchmarks.frame import BadBound, Bound, Check, Report, Seconds, Times, interleave, shown
from benchmarks.ground import Ground
from harness.lakes import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

    Packed = Callable[..., ModuleType]

_REPOSITORY = Path(__file__).resolve().parents[1]
_BENCH = """
from benchmarks.frame import Report

def run():
    report = Report({name!r})
    report.show("something", 1.0, "s")
    report.check("first", 1.0, "<= 3 s")
    report.check("second", 0.5, {bound!r})
    return report
"""


def _no_facts() -> dict[str, str]:
    return {"cores": "2"}


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packed]:
    """Makes a package of modules, each given by name and text."""
    name = "benchmarks_of_a_test"

    def pack(**modules: str) -> ModuleType:
        folder = tmp_path / name
        folder.mkdir()
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text)
        (folder / "__init__.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(name)

    yield pack
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


# ---- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("<= 3 s", 3.0, True),
        ("<= 3 s", 3.01, False),
        ("< 3 s", 3.0, False),
        (">= 0.95", 0.95, True),
        (">= 0.95", 0.94, False),
        ("> 0", 0.0, False),
        ("== 10000 rows", 10000, True),
        ("<1.5GB", 1.4, True),
        ("<= 99.5 %", 99.6, False),
        ("  >=  -2.5e3 MB/s ", -2500, True),
        ("<= 3", float("nan"), False),
        ("< 3", float("inf"), False),
    ],
)
def test_a_bound_is_an_operator_and_a_number(text: str, value: float, holds: bool) -> None:
    assert Bound.parse(text).holds(value) is holds


@pytest.mark.parametrize(
    "text", ["", "3 s", "<=", "<= s", "=< 3", "= 3", "!= 3", "<= 1,000 rows", "<= 1.2.3", "<= 3 5", "about 3"]
)
def test_what_is_no_bound_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadBound, match="is no bound") as refused:
        Check("time", 1.0, text)
    assert repr(text) in str(refused.value)


# ---- times -----------------------------------------------------------------------------------


def test_median_and_spread() -> None:
    assert Times((5.0, 1.0, 3.0)).median == 3.0
    assert Times((4.0, 1.0, 3.0, 2.0)).median == 2.5
    assert Times((5.0, 1.0, 3.0)).spread == (1.0, 5.0)
    assert Times((1.0, 20.0, 3.0)).over(Times((2.0, 10.0, 3.0))) == 1.0


def test_contenders_take_turns_and_every_second_round_goes_backwards() -> None:
    order: list[str] = []
    times = interleave({name: partial(order.append, name) for name in "abc"}, repeats=3)
    assert "".join(order) == "abccbaabc"
    assert {name: len(found.seconds) for name, found in times.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_contender_may_measure_itself_but_a_plain_number_is_no_time() -> None:
    times = interleave({"itself": lambda: Seconds(42.0), "number": lambda: 42.0}, repeats=2)
    assert times["itself"].seconds == (42.0, 42.0)
    assert max(times["number"].seconds) < 42.0


def test_contenders_have_to_run() -> None:
    with pytest.raises(ValueError, match="at least once"):
        interleave({"a": lambda: None}, repeats=0)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1234"), (0, "0.000")]
)
def test_numbers_are_shown_with_the_digits_that_tell(value: float, text: str) -> None:
    assert shown(value) == text


# ---- the report ------------------------------------------------------------------------------


def test_the_last_line_is_json_and_the_table_is_above_it() -> None:
    report = Report("lines")
    report.show_times("local[*] session", Times((1.0, 2.0, 4.0)), "a note")
    report.check("session", 2.0, "<= 3 s")
    report.check("share", 0.9, ">= 0.95")
    report.check("never measured", float("nan"), "<= 3 s")
    out = io.StringIO()
    report.print({"cores": "2"}, out)
    lines = out.getvalue().splitlines()
    assert json.loads(lines[-1]) == {
        "bench": "lines",
        "checks": [
            {"name": "session", "value": 2.0, "bound": "<= 3 s", "ok": True},
            {"name": "share", "value": 0.9, "bound": ">= 0.95", "ok": False},
            {"name": "never measured", "value": None, "bound": "<= 3 s", "ok": False},
        ],
    }
    row = next(line for line in lines if line.startswith("local[*] session"))
    assert row.split() == ["local[*]", "session", "2.00", "s", "1.00", "-", "4.00", "s", "3", "a", "note"]
    assert "cores 2" in lines[1]


def test_a_part_that_fails_is_a_failed_check_and_the_next_part_still_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure() -> None:
        raise RuntimeError("no server")

    report = Report("parts")
    with report.part("one"):
        measure()
    with report.part("two"):
        report.check("two", 1, ">= 1")
    assert [(check.name, check.ok) for check in report.checks] == [("one was measured", False), ("two", True)]
    assert "no server" in capsys.readouterr().err


def test_an_interruption_ends_a_part_and_the_benchmark() -> None:
    with pytest.raises(KeyboardInterrupt), Report("parts").part("one"):
        raise KeyboardInterrupt


def test_a_benchmark_without_checks_proves_nothing() -> None:
    assert not Report("empty").ok


# ---- running them ----------------------------------------------------------------------------


def test_benchmarks_are_found_by_listing_the_package(packed: Packed) -> None:
    bench = _BENCH.format(name="any", bound="< 1")
    package = packed(one=bench, ground="def walk(): ...", _private=bench, two=bench)
    assert list(known(package)) == ["one", "two"]
    assert "stack" in known(benchmarks)
    assert not {"frame", "machine", "scratch"} & set(known(benchmarks))


def test_one_line_of_json_for_each_and_exit_0_when_all_checks_hold(
    packed: Packed, capsys: pytest.CaptureFixture[str]
) -> None:
    package = packed(one=_BENCH.format(name="one", bound="< 1"), two=_BENCH.format(name="two", bound="< 1"))
    assert main([], package, _no_facts) == 0
    assert [line["bench"] for line in _json_lines(capsys.readouterr().out)] == ["one", "two"]
    assert main(["two"], package, _no_facts) == 0
    assert [line["bench"] for line in _json_lines(capsys.readouterr().out)] == ["two"]


def test_a_failed_check_exits_1_and_the_others_still_run(packed: Packed, capsys: pytest.CaptureFixture[str]) -> None:
    package = packed(one=_BENCH.format(name="one", bound="> 1"), two=_BENCH.format(name="two", bound="< 1"))
    assert main([], package, _no_facts) == 1
    said = capsys.readouterr().out
    assert [line["checks"][1]["ok"] for line in _json_lines(said)] == [False, True]
    assert json.loads(said.splitlines()[-1])["bench"] == "two"


def test_a_benchmark_that_breaks_exits_1_and_says_so_in_json(
    packed: Packed, capsys: pytest.CaptureFixture[str]
) -> None:
    package = packed(one="def run():\n    raise RuntimeError('broken')", two=_BENCH.format(name="two", bound="< 1"))
    assert main([], package, _no_facts) == 1
    said = capsys.readouterr()
    assert [[check["ok"] for check in line["checks"]] for line in _json_lines(said.out)] == [
        [False],
        [True, True],
    ]
    assert "broken" in said.err


def test_an_unknown_name_exits_2_lists_the_known_and_runs_nothing(
    packed: Packed, capsys: pytest.CaptureFixture[str]
) -> None:
    package = packed(one=_BENCH.format(name="one", bound="< 1"), two=_BENCH.format(name="two", bound="< 1"))
    assert main(["one", "tow"], package, _no_facts) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "'tow'" in said.err
    assert "one, two" in said.err


def test_the_command_itself_knows_its_benchmarks() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "no-such"], cwd=_REPOSITORY, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "stack" in ended.stderr


def test_ingest_measures_all_that_it_is_for_at_any_size(dsn: str) -> None:
    """The figures of a small run mean nothing; that there are all of them does, and what is no time holds."""
    report = Report("ingest")
    ingest.measure(report, ingest.Hot(dsn, rows=20_000, chunks=60, rounds=1))
    found = {check.name: check.ok for check in report.checks}
    assert list(found) == [
        "COPY, ChronoTable / by hand",
        "INSERT, ChronoTable / by hand",
        "ingest_batch / by hand",
        "create_chronotable / by hand",
        "time_bucket / date_bin",
        "parallel workers of first",
        "parallel workers of last",
        "show_chunks of many chunks",
        "show_tiering_status of many chunks",
        "relations left by drop_chronotable",
    ]
    assert found["relations left by drop_chronotable"]


@pytest.mark.promise("004-39")
def test_rollup_measures_all_that_it_is_for_at_any_size(dsn: str) -> None:
    """As for ingest. That the view equals a full aggregation after all that holds at any size, too."""
    report = Report("rollup")
    site = rollup.Site(dsn, devices=2, days=2, fresh=2_000, late=50, pending=100, rollups=5, rounds=1)
    rollup.measure(report, site)
    found = {check.name: check.ok for check in report.checks}
    assert list(found) == [
        "everything / 50 late rows",
        "everything / one late row",
        "create_rollup / everything",
        "refresh of fresh rows / their append",
        "nothing to refresh / SELECT 1",
        "view / table, 0 keys pending",
        "view / table, 1 keys pending",
        "view / table, 100 keys pending",
        "differences from a full aggregation",
        "growth of a refresh after one late row",
        "growth of a dashboard's question",
        "COPY, none / one",
        "COPY, none / five",
        "late day by time, tracked / untracked",
        "late day by device, tracked / untracked",
        "refresh of a late day / DELETE and INSERT",
        "cascade of 5 RollUps, nothing dirty",
    ]
    assert found["differences from a full aggregation"]
    far = [row for row in report.rows if row[0].endswith("of 100,000,000 rows")]
    assert [row[0].partition(",")[0] for row in far] == [
        "refresh after one late row",
        "a day of one device",
        "all of the view",
    ]


class Near(Ground):
    """With a feed that needs no Spark."""

    def drain(self) -> None:
        Lake(self.dsn, self.stack).drain()

    @contextmanager
    def feeding(self) -> Iterator[None]:
        with Lake(self.dsn, self.stack).feeding():
            yield


@pytest.mark.slow
def test_gate_measures_all_that_it_is_for_at_any_size(
    stack: Stack, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for ingest. Left out are the receipts of hundreds of chunks, for whose memory Spark is started twice more."""
    for module, names in (
        (gate, ("_RECEIPTS", "_QUIET_DROPS", "_BUSY_DROPS", "_SETTLE_SECONDS")),
        (way_back, ("_ROUNDS", "_READS")),
        (recompute, ("_DAYS", "_REPEATS")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 1)
    for name, size in (("BENCH_CHUNK", 500), ("BENCH_RECOMPUTE", 500), ("BENCH_CHUNKS", 20)):
        monkeypatch.setenv(name, str(size))
    report, on = Report("gate"), Near(stack, spark)
    for part in (gate.measure, way_back.measure, recompute.measure, gate_many.verdicts_on_thousands):
        part(report, on)
    on.run("SELECT lakets.drop_chronotable('thousands')")
    found = {check.name: check.ok for check in report.checks}
    assert list(found) == [
        "receipt / Spark's sums",
        "drop / scan",
        "longest statement of a writer, without a drop",
        "longest statement of a writer: delayed by",
        "longest start of a reader, without a drop",
        "longest start of a reader: delayed by",
        "drops that got through, of all",
        "deadlocks",
        "statements of users that failed",
        "rehydrate / COPY",
        "across the tiers / PostgreSQL alone",
        "recompute / Spark by hand",
        "verdicts on thousands of chunks",
    ]
    assert (found["deadlocks"], found["statements of users that failed"]) == (True, True)
    assert "the same across the tiers" in [row[0] for row in report.rows]


def test_growth_is_what_it_grows_by() -> None:
    assert rollup_growth.exponent([(1, 2.0), (10, 20.0), (100, 200.0)]) == pytest.approx(1)
    assert rollup_growth.exponent([(1, 3.0), (10, 3.0), (1000, 3.0)]) == pytest.approx(0)
    assert rollup_growth.exponent([(100, 1.0), (400, 2.0)]) == pytest.approx(0.5)
    assert rollup_growth.exponent([(100, 1.0)]) == 0


def _json_lines(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
