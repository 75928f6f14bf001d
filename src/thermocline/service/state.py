"""What the database knows of the whole installation, read when somebody asks for metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from thermocline import log as logs
from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.masking import masked
from thermocline.meters import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logs.get(__name__)
_PATIENCE = 5


@dataclass(frozen=True)
class Seen:
    """One metric: what it says, and its labels in the order of the query."""

    help: str
    labels: tuple[str, ...] = ()


# By the names that `service_state.sql` answers with.
SEEN = {
    "database_up": Seen("Whether the database answered; without it there are none of the others."),
    "clock_skew_seconds": Seen("By how much the database's clock is ahead of this machine's."),
    "work_units": Seen("Units that are pending, claimed, failed or dead.", ("kind", "status")),
    "work_oldest_seconds": Seen("For how long the oldest unit has been due that nobody has begun.", ("kind",)),
    "work_stopped": Seen("What is paused: 1 for each.", ("what",)),
    "feed_up": Seen("Whether a feed runs, in whatever process."),
    "feed_lag_bytes": Seen("How much of the write-ahead log is not in the lake yet."),
    "feed_lag_seconds": Seen("Whatever was committed longer ago than this is in the lake."),
    "feed_log_kept_bytes": Seen("How much of the write-ahead log the server keeps for the feed."),
    "feed_table_lag_bytes": Seen("How much of the log a synced table is behind.", ("table",)),
    "feed_table_entries": Seen("Entries that the feed has written to the history of a table.", ("table",)),
    "feed_table_entries_per_second": Seen("As many in a second, over the last minute or so.", ("table",)),
    "feed_table_chunks": Seen("Resident chunks of a synced table.", ("table",)),
    "feed_table_chunks_covered": Seen("Those of them whose rows are in the lake or on their way there.", ("table",)),
    "feed_table_set_aside": Seen("Whether the feed has set a table aside.", ("table",)),
    "chunks": Seen("Chunks: active, tiered or dropped.", ("table", "status")),
    "chunks_refused": Seen("Chunks that the last run of retention left, and why.", ("table", "reason")),
    "rollup_staleness_seconds": Seen("For how long a RollUp has not been refreshed.", ("rollup",)),
    "rollup_dirty_buckets": Seen("Buckets of a RollUp that wait to be computed anew.", ("rollup",)),
}


class DatabaseState(Collector):
    """Asks PostgreSQL once for each scrape."""

    def __init__(self, dsn: Callable[[], str]) -> None:
        self._dsn = dsn

    def describe(self) -> list[GaugeMetricFamily]:
        """The names, so that registering asks nothing of the database."""
        return list(_families().values())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every family; without the database only that it is not there."""
        families = _families()
        try:
            rows, skew = self._read()
        except (ThermoclineError, psycopg.Error) as error:
            log.warning("metrics not read", message=masked(str(error)))
            families["database_up"].add_metric([], 0)
            yield families["database_up"]
            return
        families["database_up"].add_metric([], 1)
        families["clock_skew_seconds"].add_metric([], skew)
        for name, labels, value in rows:
            families[name].add_metric(labels, float(value))
        yield from families.values()

    def _read(self) -> tuple[list[tuple[str, list[str], float]], float]:
        with connect(self._dsn(), timeout=_PATIENCE) as session:
            session.execute(f"SET LOCAL statement_timeout = '{_PATIENCE}s'".encode())
            before = time.time()
            row = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            skew = row[0] - (before + time.time()) / 2 if row else 0.0
            return session.execute(query("service_state")).fetchall(), skew


def _families() -> dict[str, GaugeMetricFamily]:
    return {name: GaugeMetricFamily(f"{PREFIX}{name}", seen.help, labels=seen.labels) for name, seen in SEEN.items()}
