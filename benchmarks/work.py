"""Background work: how fast units are drained, beside a job library on the same server, and what an idle node costs."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

from benchmarks import ground, scratch
from benchmarks.frame import Report, Seconds, interleave, progress
from benchmarks.peers import procrastinate
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PROCESSES = 4
_IDLE_SECONDS = 30.0
_PROGRAM = Path(__file__).with_name("_work_program.py")


@dataclass(frozen=True)
class Queue:
    """A server, and how many units it is given each time."""

    dsn: str
    home: scratch.ScratchHome
    units: int

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """Run statements; returns the rows of the last."""
        return ground.ask(self.dsn, *statements)


def run() -> Report:
    """BENCH_UNITS and BENCH_DONE make it smaller while it is worked at."""
    report = Report("work")
    procrastinate.prepare()
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        dsn = home.facts_of_up()["dsn"]
        queue = Queue(dsn, home, ground.size("BENCH_UNITS", 10_000))
        with report.part("drain"):
            _drain(report, queue)
        with report.part("claim"):
            _claim(report, queue, ground.size("BENCH_DONE", 1_000_000))
        with report.part("idle"):
            _idle(report, queue)
    return report


def _drain(report: Report, queue: Queue) -> None:
    """Four processes; the clock runs from when all are ready until the last has ended."""
    queue.run("CREATE TABLE ran (unit bigint, epoch bigint)")
    twice, lost = [], []

    def ours() -> Seconds:
        queue.run(
            "TRUNCATE thermocline.work_unit, ran",
            "INSERT INTO thermocline.work_unit (kind, scope)"
            f" SELECT 'nothing', g::text FROM generate_series(1, {queue.units}) g",
            "ANALYZE thermocline.work_unit",
            "CHECKPOINT",
        )
        command = [sys.executable, str(_PROGRAM), queue.dsn]
        took = _together(command, queue.home.environment | {"PYTHONPATH": str(_PROGRAM.parent.parent)})
        ((claims, done),) = queue.run(
            "SELECT sum(lease_epoch), count(*) FILTER (WHERE status = 'done' AND attempt = 1)"
            " FROM thermocline.work_unit"
        )
        ((ran, units),) = queue.run("SELECT count(*), count(DISTINCT unit) FROM ran")
        twice.append(int(str(ran)) - int(str(units)))
        lost.append(queue.units - min(int(str(done)), int(str(units))))
        progress(f"  {queue.units / took:,.0f} units/s, {claims} claims")
        return took

    def theirs(at_once: int) -> Callable[[], Seconds]:
        def drain() -> Seconds:
            fill = procrastinate.command(queue.dsn, "fill", str(queue.units))
            scratch.run_program(fill, procrastinate.environment(), queue.home.root.parent)
            queue.run("ANALYZE procrastinate_jobs", "CHECKPOINT")
            took = _together(procrastinate.command(queue.dsn, "drain", str(at_once)), procrastinate.environment())
            ((left,),) = queue.run("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'")
            assert left == 0, f"{left} jobs are left"
            return took

        return drain

    times = interleave({"ours": ours, "procrastinate": theirs(1), "procrastinate, 8 at once": theirs(8)}, repeats=3)
    for name, found in times.items():
        report.show_times(f"{queue.units:,} units, {name}", found, f"{queue.units / found.median:,.0f} a second")
    best = min(times["procrastinate"].median, times["procrastinate, 8 at once"].median)
    report.check("units/s over procrastinate's jobs/s", best / times["ours"].median, ">= 3")
    report.check("units run twice", sum(twice), "== 0")
    report.check("units lost", sum(lost), "== 0")


def _together(command: Sequence[str], env: Mapping[str, str]) -> Seconds:
    """Four processes that wait for each other to be ready; they never outlive this call."""
    with ExitStack() as held:
        processes = [
            held.enter_context(_process(command, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(_PROCESSES)
        ]
        for process in processes:
            held.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready", "a process did not start"
        began = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        codes = [process.wait(600) for process in processes]
        took = time.perf_counter() - began
    assert codes == [0] * _PROCESSES, f"the processes ended with {codes}"
    return Seconds(took)


def _process(command: Sequence[str], env: Mapping[str, str], **pipes: int) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=env, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def _claim(report: Report, queue: Queue, done: int) -> None:
    """Each claim in a transaction that is rolled back, so that all find the same."""
    queue.run(
        "TRUNCATE thermocline.work_unit",
        "INSERT INTO thermocline.work_unit (kind, scope, status, ended_at, attempt, lease_epoch)"
        f" SELECT 'nothing', g::text, 'done', now() - g * interval '1 s', 1, 1 FROM generate_series(1, {done}) g",
        "INSERT INTO thermocline.work_unit (kind, scope)"
        " SELECT 'nothing', 'open ' || g FROM generate_series(1, 1000) g",
        "VACUUM (ANALYZE) thermocline.work_unit",
    )
    for most, bound in ((1, "< 2 ms"), (64, None)):
        taken = []
        values = {"owner": "one", "kinds": ["nothing"], "most": most, "lease": "120 s"}
        with psycopg.connect(queue.dsn) as session:
            for _ in range(50):
                began = time.perf_counter()
                assert len(session.execute(query("work_claim"), values).fetchall()) == most
                taken.append(time.perf_counter() - began)
                session.rollback()
        median = sorted(taken)[len(taken) // 2] * 1000
        report.show(f"claim of {most}, {done:,} done units in the table", median, "ms", "median of 50, round trip")
        if bound:
            report.check(f"claim of {most}", median, bound)
    queue.run("TRUNCATE thermocline.work_unit")


def _idle(report: Report, queue: Queue) -> None:
    """The command as a user starts it; what it does when it starts does not count."""
    command = [str(Path(sys.executable).with_name("thermocline")), "work"]
    with _process(command, queue.home.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(10)
            watched = psutil.Process(process.pid)
            before = watched.cpu_times()
            time.sleep(_IDLE_SECONDS)
            after = watched.cpu_times()
            memory = watched.memory_info().rss / 1e6
        finally:
            process.terminate()
    share = (after.user + after.system - before.user - before.system) / _IDLE_SECONDS * 100
    report.show("idle node, share of a core", share, "%", f"over {_IDLE_SECONDS:.0f} s")
    report.show("idle node, memory", memory, "MB", "resident, without Spark")
    report.check("idle node, share of a core", share, "< 1 %")
    report.check("idle node, memory", memory, "< 120 MB")
