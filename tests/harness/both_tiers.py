"""What a table holds across the tiers, and what its RollUps should show of it, found without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from harness.lakes import BASE, fold
from thermocline.reads.standing import stand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.lakes import Lake, Row

_FIRST = datetime(1, 1, 1, tzinfo=UTC)
# Buckets that a RollUp may show as they were: rows have left, and what was written since waits for a recompute.
_STALE = """
    SELECT g.incomplete, thermocline._frozen_buckets(g) * thermocline._buckets_over(g,
               coalesce((SELECT range_agg(tstzrange(m.first_time, m.last_time, '[]'))
                         FROM lakets._rollup_recompute m WHERE m.rollup_id = g.id), '{}')
             + coalesce((SELECT range_agg(tstzrange(m.first_time, m.last_time, '[]'))
                         FROM thermocline._marks(g) m), '{}'))
    FROM lakets._rollup_registry g WHERE g.name = %s
"""


def across(lake: Lake, table: str) -> Counter[Row]:
    """Each row of a table once, wherever it lives: by the rule that reads follow, with the plainest fold there is."""
    while True:
        with psycopg.connect(lake.dsn) as session:
            session.execute("SET timezone = 'UTC'")
            session.commit()
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            standing = stand(session, table)
            if standing is None:
                continue
            hot: Counter[Row] = Counter()
            for part in (*standing.chunks, *standing.late):
                hot += Counter(session.execute(f"SELECT * FROM ONLY {part.name}".encode()).fetchall())
            entries = lake.history(table).to_pylist() if standing.lake_table else []
        counted = [
            entry
            for entry in entries
            if not any(start <= entry["ts"] < end for start, end in standing.elsewhere)
            and not any(cut.start <= entry["ts"] < cut.end and entry["_lsn"] > cut.lsn for cut in standing.cuts)
        ]
        return hot + fold(counted, "ts")


@dataclass(frozen=True)
class Aggregate:
    """A RollUp of a table with the columns ts, id, v and k: the sum of v and the number of rows, by days and k."""

    name: str
    table: str
    days: int

    def make(self, lake: Lake) -> None:
        """Make it, with its view; every refresh is due."""
        lake.run(
            f"SELECT lakets.create_rollup('{self.name}', $q$SELECT lakets.time_bucket('{self.days} days', ts,"
            f" '{BASE.isoformat()}') AS bucket, k, sum(v) AS total, count(*) AS n FROM {self.table} GROUP BY 1, 2$q$,"
            f" '{self.days} days')",
            f"SELECT lakets.create_rollup_view('{self.name}', NULL)",
            f"UPDATE lakets._rollup_registry SET refresh_lag = '0' WHERE name = '{self.name}'",
        )

    def of(self, rows: Counter[Row]) -> Counter[Row]:
        """What it should show."""
        sums: dict[tuple[datetime, str], list[int]] = {}
        for (ts, _id, v, k), count in rows.items():
            found = sums.setdefault((self.bucket(ts), k), [0, 0])
            found[0] += v * count
            found[1] += count
        return Counter((bucket, k, total, n) for (bucket, k), (total, n) in sums.items())

    def bucket(self, moment: datetime) -> datetime:
        """The beginning of the bucket of a moment."""
        width = timedelta(days=self.days)
        return moment - (moment - BASE) % width

    def require(self, lake: Lake, rows: Counter[Row], *, all_of_it: bool = False) -> int:
        """Its view shows what it should, but for buckets that say that they wait; returns how many there are."""
        with psycopg.connect(lake.dsn) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            session.execute("SET LOCAL timezone = 'UTC'")
            shown = Counter(session.execute(f"TABLE _rollup_rt_{self.name}".encode()).fetchall())
            ((incomplete, stale),) = session.execute(_STALE.encode(), [self.name]).fetchall()
        expected = self.of(rows)
        buckets = {row[0] for row in (*shown, *expected)}
        waiting = set() if all_of_it else {one for one in buckets if _within(one, stale)}
        if not all_of_it:  # not shown at all, or whole
            waiting |= {one for one in buckets - {row[0] for row in shown} if _within(one, incomplete)}
        shown, expected = (_without(some, waiting) for some in (shown, expected))
        assert shown == expected, (
            f"{self.name} is not right: it has {dict(shown - expected)}, it should have {dict(expected - shown)}"
            f" (incomplete {incomplete}, waiting {stale})"
        )
        return len(waiting)


def _without(rows: Counter[Row], buckets: set[datetime]) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if row[0] not in buckets})


def _within(moment: datetime, multirange: Iterable[Any]) -> bool:
    return any((one.lower or _FIRST) <= moment and (one.upper is None or moment < one.upper) for one in multirange)


def told(found: Counter[Row], expected: Counter[Row]) -> str:
    """How two contents differ."""
    many, lost = list((found - expected).items()), list((expected - found).items())
    return f"{len(many)} too many, as {many[:4]}; {len(lost)} missing, as {lost[:4]}"
