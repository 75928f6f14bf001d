"""A ChronoTable with a lake behind it, and what both hold, for tests of feed and gate."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from harness.homes import home_with_jars
from thermocline.config import FeedSettings, HotSettings, Settings
from thermocline.gate import drop
from thermocline.hot.rows import columns_of
from thermocline.lake import scans
from thermocline.lake.columns import Layout
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from thermocline.feed.feed import Feed
    from thermocline.feed.records import Progress

Row = tuple[Any, ...]
ADDED, REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")
# The first day of the tests' tables, and the noons from then on: all of them over, none of them old.
BASE = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
# In a chunk that every new table has, also when midnight has passed since.
LATELY = datetime.now(UTC)
NOON = [BASE + timedelta(days=day, hours=12) for day in range(4)]


def chunk(day: int) -> str:
    """The name of a day's chunk of the table m."""
    return f"m_{BASE + timedelta(days=day):%Y%m%d_%H%M%S}"


def age(day: int, *, reached_in: timedelta = timedelta(minutes=-1)) -> str:
    """An age that the chunks up to a day's have, or will have, and those of the days after it do not.

    For policies, whatever time of the day it is, also when midnight has passed since BASE was reckoned.
    """
    ended = BASE + timedelta(days=day + 1)
    return f"{(datetime.now(UTC) - ended + reached_in).total_seconds():.0f} seconds"


@dataclass(frozen=True)
class Lake:
    """One database with its own warehouse."""

    dsn: str
    stack: Stack

    @staticmethod
    def of(dsn: str, folder: Path) -> Lake:
        """A lake in a folder of the test's own; batches are committed as they come."""
        settings = Settings(home=home_with_jars(folder).root, hot=HotSettings(dsn=dsn), feed=FeedSettings(interval=0))
        return Lake(dsn, Stack(settings))

    def with_days(self, columns: str = "id int, v float8", values: str = "g, g / 7.0", *, table: str = "m") -> Lake:
        """A ChronoTable in chunks of a day, with a row for each hour of three days; not yet synced."""
        self.run(
            f"CREATE TABLE {table} (ts timestamptz NOT NULL, {columns})",
            f"INSERT INTO {table} SELECT '{BASE}'::timestamptz + g * interval '1 hour', {values}"
            " FROM generate_series(0, 71) g",
            f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
            # There already, unless midnight has passed since BASE was reckoned.
            f"SELECT lakets._ensure_partitions(lakets._chronotable_id('{table}', 'public'), 1, 3,"
            f" '{BASE}', '{BASE + timedelta(days=4)}')",
        )
        return self

    def synced(self) -> Lake:
        """The table m is to come to the lake from now on."""
        self.run("SELECT lakets.enable_sync('m')")
        return self

    def chunk_oid(self, day: int = 0) -> int:
        """A day's chunk of the table m, while it is in PostgreSQL."""
        start = BASE + timedelta(days=day)
        ((oid,),) = self.run(
            "SELECT chunk_oid::bigint FROM lakets._chunk_metadata"
            f" WHERE chronotable_id = lakets._chronotable_id('m', 'public') AND range_start = '{start}'"
            " AND status <> 'dropped'"
        )
        return int(oid)

    def run(self, *statements: str) -> list[Row]:
        """Run statements, each in a transaction of its own; returns the rows of the last."""
        with psycopg.connect(self.dsn, autocommit=True) as session:
            session.execute("SET timezone = 'UTC'")
            for statement in statements:
                cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def feed(self) -> Feed:
        """The feed without Spark."""
        return self.stack.own_feed()

    def drain(self) -> Progress:
        """Bring everything that is committed now to the lake."""
        with self.feed() as feed:
            progress = feed.drain()
            assert progress.caught_up, progress
            return progress

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """A feed that carries and copies beside whatever else is done. It is open when the block begins."""
        stop = threading.Event()
        with self.feed() as feed, ThreadPoolExecutor(1, "feeding") as pool:

            def carry() -> None:
                while not stop.wait(0.02):
                    feed.drain()

            carrying = pool.submit(carry)
            try:
                yield
            finally:
                stop.set()
                carrying.result()

    def history(self, table: str = "m") -> pa.Table:
        """All of a history table, in order."""
        with self.stack.catalog() as catalog:
            found = catalog.load_table(f"public.lb_{table}_history").scan().to_arrow()
        return found.sort_by([("_lsn", "ascending"), ("_seq", "ascending")])

    def past(self, table: str) -> str:
        """What a table's history is called after: the table itself, or its mirror."""
        ((name,),) = self.run(
            "SELECT substring(lake_table FROM '^public\\.lb_(.*)_history$') FROM thermocline.synced_table"
            f" WHERE table_oid = '{table}'::regclass"
        )
        return str(name)

    def folded(self, table: str = "m", time: str = "ts") -> Counter[Row]:
        """What a history says the table holds, by the plainest fold there is: row by row, in order."""
        return fold(self.history(table).to_pylist(), time)

    def content(self, table: str = "m") -> Counter[Row]:
        """What the lake has in the columns that the table has now, as the gate reads it: by their numbers."""
        found: Counter[Row] = Counter()
        with psycopg.connect(self.dsn) as session, self.stack.catalog() as catalog:
            oid = session.execute("SELECT %s::regclass::oid::int", [table]).fetchall()[0][0]
            opened = catalog.load_table(f"public.lb_{self.past(table)}_history")
            names = Layout.of(opened.properties).names(opened.schema())
            columns = [names[column.number] for column in columns_of(session, oid)]
            year = timedelta(days=365)
            start, end = BASE - year, BASE + year
            for file in scans.Span(opened, start, end).files(start, end, columns):
                for batch, signs in file.read():
                    for row, sign in zip(batch.to_pylist(), signs, strict=True):
                        found[_comparable(row[name] for name in columns)] += int(sign)
        assert min(found.values(), default=0) >= 0, f"removed and never added: {found}"
        return +found

    def falsify(self, change: str, column: str, value: int) -> None:
        """A feed that lies: an entry of the table m once more, or its opposite, in a batch that the database knows."""
        batch = str(uuid.uuid4())
        self.run(
            "INSERT INTO thermocline.batch (id, epoch, end_lsn)"
            f" SELECT '{batch}', epoch, position FROM thermocline.stream"
        )
        with self.stack.catalog() as catalog:
            table = catalog.load_table("public.lb_m_history")
            rows = table.scan().to_arrow()
            one = rows.filter(pc.equal(rows[column], value)).slice(0, 1)
            one = one.set_column(one.column_names.index("_change_type"), "_change_type", pa.array([change]))
            one = one.set_column(one.column_names.index("_seq"), "_seq", pc.add(one["_seq"], 1))
            table.append(one, snapshot_properties={"thermocline.batch": batch})

    def let_go(self, *days: int) -> None:
        """Prove days' chunks of the table m and drop them."""
        prover = self.stack.prover(on_spark=False)
        for day in days:
            with self.feeding():
                compared = prover.prove(self.chunk_oid(day))
                assert compared.equal, compared
                outcome = drop.drop_chunk(self.dsn, self.chunk_oid(day), check_lake=prover.look)
            assert outcome.result is drop.Result.DROPPED, outcome

    def hot(self, table: str = "m", *columns: str) -> Counter[Row]:
        """What the table holds in PostgreSQL, in these columns or in all of them."""
        return Counter(_comparable(row) for row in self.run(f"SELECT {', '.join(columns) or '*'} FROM {table}"))

    def assert_same(self, table: str = "m") -> None:
        """Folding the history gives what PostgreSQL holds."""
        folded, hot = self.folded(table), self.hot(table)
        assert folded == hot, f"only in the lake {folded - hot}, only in PostgreSQL {hot - folded}"


def fold(entries: Iterable[dict[str, Any]], time: str) -> Counter[Row]:
    """The content after a history, one entry after the other."""
    content: Counter[Row] = Counter()
    own = ("_change_type", "_lsn", "_seq", "_xid", "_timestamp", "_unrepresentable", "_range_end")
    for entry in entries:
        row = _comparable(value for name, value in entry.items() if name not in own)
        kind = entry["_change_type"]
        if kind == "truncate":
            start, end = entry[time], entry["_range_end"]
            at = [name for name in entry if name not in own].index(time)
            for known in [one for one in content if start <= one[at] < _like(end, one[at])]:
                del content[known]
        else:
            content[row] += 1 if kind in ADDED else -1
    owed = {row: count for row, count in content.items() if count < 0}
    assert not owed, f"removed and never added: {owed}"
    return +content


def _comparable(values: Iterable[Any]) -> Row:
    """NaN is equal to nothing, not even to itself; here it is."""
    return tuple("NaN" if isinstance(value, float) and value != value else value for value in values)


def _like(moment: datetime, other: Any) -> Any:
    if isinstance(other, datetime):
        return moment if other.tzinfo else moment.astimezone(UTC).replace(tzinfo=None)
    return moment.date()
