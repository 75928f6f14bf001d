"""The foundation's numbers: `up`, a Spark session, the idle stack's memory, `make demo` on a fresh clone."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks import scratch
from benchmarks.frame import Report, Seconds, interleave, progress, shown, timed
from thermocline.config import Settings
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.scratch import ScratchHome

_REPOSITORY = Path(__file__).resolve().parents[1]
_SETTLE_SECONDS = 5
_DEMO_TIMEOUT = 1800

_OUR_SESSION = """
from thermocline import config
from thermocline.stack import Stack
spark = Stack(config.load().settings).spark()
assert spark.sql("SELECT 1").collect()[0][0] == 1
"""
_PLAIN_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
assert spark.sql("SELECT 1").collect()[0][0] == 1
"""
_SMALL_TABLE = """
spark.sql("CREATE NAMESPACE lake.bench")
spark.sql("CREATE TABLE lake.bench.small USING iceberg AS SELECT id, id % 7 AS kind FROM range(10000)")
assert spark.sql("SELECT count(*) FROM lake.bench.small").collect()[0][0] == 10000
"""


def run() -> Report:
    """All parts; those on a prepared home share one, with its jars fetched once."""
    report = Report("stack")
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        with report.part("first up"):
            first = timed(lambda: home.thermocline("up"))
            report.show("first up", first, "s", "empty home: jars fetched, server made")
        with report.part("second up"):
            _second_up(report, home)
        with report.part("restart"):
            _restart(report, home)
        with report.part("Spark session"):
            _spark_session(report, home)
        with report.part("idle memory"):
            _idle_memory(report, home)
    with report.part("make demo"):
        _make_demo(report)
    return report


# ---- up --------------------------------------------------------------------------------------


def _second_up(report: Report, home: ScratchHome) -> None:
    home.facts_of_up()
    stack = Stack(Settings(home=home.root))
    psql = [stack.psql_program() or "psql", stack.dsn_without_password, "-c", "select 1"]
    with_password = home.environment | stack.password_environment
    times = interleave(
        {
            "second up": lambda: home.thermocline("up"),
            "psql": lambda: scratch.run_program(psql, with_password, home.root.parent),
        },
        repeats=7,
    )
    report.show_times("second up", times["second up"], "the server runs already")
    report.show_times("psql -c 'select 1'", times["psql"], "for reference, in turns with second up")
    report.check("second up, median", times["second up"].median, "< 3 s")


def _restart(report: Report, home: ScratchHome) -> None:
    def up_after_down() -> Seconds:
        home.thermocline("down")
        return Seconds(timed(lambda: home.thermocline("up")))

    report.show_times("up after down", interleave({"up after down": up_after_down})["up after down"])


# ---- Spark -----------------------------------------------------------------------------------


def _spark_session(report: Report, home: ScratchHome) -> None:
    home.facts_of_up()
    java = Stack(Settings(home=home.root)).java

    def session(program: str, **variables: str) -> Callable[[], Seconds]:
        def opened() -> Seconds:
            with scratch.answering(program, home.environment | variables, home.root.parent) as answer:
                return answer.seconds

        return opened

    times = interleave(
        {
            "Spark session": session(_OUR_SESSION),
            "plain pyspark": session(_PLAIN_SESSION, JAVA_HOME=str(java.home)),
        },
        repeats=3,
    )
    ours, plain = times["Spark session"], times["plain pyspark"]
    report.show_times("Spark session", ours, "fresh process to SELECT 1, with Iceberg and both catalogs")
    report.show_times("plain pyspark", plain, "local[*], no Iceberg, the same Java, in turns")
    ratios = [one / other for one, other in zip(ours.seconds, plain.seconds, strict=True)]
    note = f"ratio of the medians; by round {shown(min(ratios))} - {shown(max(ratios))}"
    report.show("Spark session / plain pyspark", ours.median / plain.median, "x", note)
    report.check("Spark session, median", ours.median, "< 12 s")


# ---- memory ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resident:
    """Resident bytes of some processes, and how they were counted."""

    size: int
    kind: str
    processes: int


def _idle_memory(report: Report, home: ScratchHome) -> None:
    postmaster = psutil.Process(home.facts_of_up()["pid"])
    with scratch.answering(_OUR_SESSION + _SMALL_TABLE, home.environment, home.root.parent) as answer:
        time.sleep(_SETTLE_SECONDS)
        python = psutil.Process(answer.pid)
        parts = {
            "PostgreSQL": _shared(_family(postmaster)),
            "Python": _resident([python]),
            "JVM": _resident(python.children(recursive=True)),
        }
    for name, found in parts.items():
        note = f"{found.kind} of {found.processes} process{'es' if found.processes > 1 else ''}"
        report.show(f"idle: {name}", found.size / 1e9, "GB", note)
    total = sum(found.size for found in parts.values()) / 1e9
    note = f"{_SETTLE_SECONDS} s after an Iceberg table was written and read"
    report.show("idle: whole stack", total, "GB", note)
    report.check("whole stack idle", total, "< 1.5 GB")


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _shared(processes: list[psutil.Process]) -> Resident:
    """Proportional sizes where the platform tells them: a page shared by n processes counts 1/n in each."""
    try:
        return _sum(processes, lambda process: int(process.memory_full_info().pss), "PSS")
    except (AttributeError, psutil.AccessDenied):
        return _resident(processes)


def _resident(processes: list[psutil.Process]) -> Resident:
    return _sum(processes, lambda process: int(process.memory_info().rss), "RSS")


def _sum(processes: Iterable[psutil.Process], size: Callable[[psutil.Process], int], kind: str) -> Resident:
    sizes = []
    for process in processes:
        try:
            sizes.append(size(process))
        except psutil.NoSuchProcess:  # a backend or a worker that has just ended
            continue
    return Resident(sum(sizes), kind, len(sizes))


# ---- make demo -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Demo:
    """One `make demo`: how long it took, and how many packages pip fetched or found in its cache."""

    seconds: float
    downloaded: int
    cached: int

    def show(self, report: Report, what: str) -> None:
        """A row of the report, which says how warm the cache really was."""
        state = "warm" if not self.downloaded else "NOT warm"
        packages = f"{self.downloaded} packages downloaded, {self.cached} from the cache"
        report.show(what, self.seconds, "s", f"cache {state}: {packages}")


def _make_demo(report: Report) -> None:
    """Once, and once more if the cache was cold.

    Where the index forbids caching, the second run downloads as well. It is measured all the same, as it can
    only be slower than a warm one, and its row says so.
    """
    cache = scratch.run_program(
        [sys.executable, "-m", "pip", "cache", "dir"], scratch.environment(), _REPOSITORY
    ).strip()
    demo = _fresh_demo(cache)
    if demo.downloaded:
        demo.show(report, "make demo, run to warm the cache")
        demo = _fresh_demo(cache)
    demo.show(report, "make demo, fresh clone of HEAD")
    report.check("make demo on a fresh clone", demo.seconds, "< 180 s")


def _fresh_demo(cache: str) -> Demo:
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "user" / "thermocline") as home:
        clone = folder / "clone"
        scratch.run_program(["git", "clone", "--quiet", _REPOSITORY, clone], scratch.environment(), folder)
        environment = home.environment | {
            "HOME": str(home.root.parent),
            "PIP_CACHE_DIR": cache,
            # The Python that runs this: one that is found through the real HOME would not be found now.
            "PYTHON": str(Path(sys.executable).resolve()),
        }
        progress("  cloned, running make demo ...")
        began = time.perf_counter()
        said = scratch.run_program(["make", "demo"], environment, clone, _DEMO_TIMEOUT)
        demo = Demo(time.perf_counter() - began, _lines(said, "Downloading"), _lines(said, "Using cached"))
        progress(f"  make demo took {demo.seconds:.0f} s; removing the clone ...")
        return demo


def _lines(said: str, start: str) -> int:
    return len(re.findall(rf"^\s*{start} \S", said, re.MULTILINE))
