"""How the cost of a RollUp grows with its source: measured at four sizes, and from there to a hundred million rows."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.frame import interleave

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from benchmarks.frame import Report, Seconds
    from benchmarks.rollup import Site

    Call = Callable[[psycopg.Connection, str], Seconds]

FAR = 100_000_000
_LATE = (
    "INSERT INTO grown SELECT date_bin('1 hour', now(), '2000-01-01') - random() * %s * interval '23 h',"
    " 'd' || floor(random() * %s), 20 + random()"
)
_DASHBOARD = "SELECT minute, total / n FROM _rollup_rt_grown WHERE device = 'd1' AND minute > now() - interval '1 day'"
_EVERYTHING = "SELECT count(*), sum(total) FROM _rollup_rt_grown"


def measure(report: Report, on: Site, refresh: Call, call: Call) -> None:
    """A late row taken in, a dashboard's question, and all of the view, at an eighth of the days and up to all."""
    found: dict[str, list[tuple[int, float]]] = {}
    for days in sorted({max(1, on.days // part) for part in (8, 4, 2, 1)}):
        rows = on.rows // on.days * days
        on.fill("grown", rows)
        on.make_rollup("grown", "grown")
        on.run("SELECT lakets.create_rollup_view('grown', NULL)", "VACUUM (ANALYZE) _rollup_grown")

        with on.session() as session:

            def late(session: psycopg.Connection, days: int) -> Seconds:
                session.execute(_LATE, [days, on.devices])
                return refresh(session, "grown")

            asked: Mapping[str, Callable[[], Seconds]] = {
                "refresh after one late row": partial(late, session, days),
                "a day of one device": partial(call, session, _DASHBOARD),
                "all of the view": partial(call, session, _EVERYTHING),
            }
            for first in asked.values():
                first()
            times = interleave(asked, on.rounds)
        for name, taken in times.items():
            report.show_times(f"{name}, of {rows:,} rows", taken)
            found.setdefault(name, []).append((rows, taken.median))
        on.run("SELECT lakets.drop_chronotable('grown')")
    for name, points in found.items():
        power = exponent(points)
        rows, seconds = points[-1]
        far = seconds * (FAR / rows) ** power
        report.show(
            f"{name}, of {FAR:,} rows", far, "s", f"extrapolated: it grows with the rows to the power of {power:.2f}"
        )
    report.check("growth of a refresh after one late row", exponent(found["refresh after one late row"]), "<= 0.5")
    report.check("growth of a dashboard's question", exponent(found["a day of one device"]), "<= 0.5")


def exponent(points: list[tuple[int, float]]) -> float:
    """How the time grows with the rows: 1 is in step with them, 0 not at all. Least squares of the logarithms."""
    xs, ys = [math.log(rows) for rows, _ in points], [math.log(max(seconds, 1e-9)) for _, seconds in points]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
