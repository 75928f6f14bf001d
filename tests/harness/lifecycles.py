"""The whole life of some tables at random: written to, streamed, proven, dropped, settled, brought back, and killed.

What was committed is kept beside it as a plain bag of rows. After every few steps both tiers hold just that, together.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from harness import feed_children, lifecycle_children
from harness.both_tiers import Aggregate, across, told
from harness.feed_children import Run
from harness.lakes import BASE
from harness.schedules import kill_points
from harness.sessions import in_the_end
from harness.stage import BURY
from thermocline.errors import Refused
from thermocline.gate import drop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from harness.feed_children import Outcome
    from harness.lakes import Lake, Row

DAYS = 4
"""That are over; the one after them is today."""
HOURS = 4
_EVERY = 3
"""Steps from one look to the next."""
_LAST = 60
"""Seconds for what was begun to be finished: sessions of those that were killed may live on for a moment."""
_WRITES = 6
"""That somebody does beside the gate, at most."""
# What the lake may never be found with.
_WRONG = ("content_differs", "gate.not_the_same", "gate.owed_rows", "other_history", "failed")
# Why a statement may be refused, as the documentation has it.
_REFUSED = ("too late", "on their way to the lake", "no partition of relation", 'new row for relation "_trap_')
_FEED = ("batch.", "feed.owned", "feed.adopting", "lake.manifests", "lake.appended", "read.", "record.", "write.")


class CourseFailed(AssertionError):
    """Something that must hold does not."""


@dataclass
class Course:
    """The lives of two tables in an order that a seed decides."""

    lake: Lake
    seed: int
    tables: tuple[str, str] = ("m", "n")
    spark: SparkSession | None = None
    """With it reads, recomputes and compactions are Spark's."""
    trace: list[str] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    """Points at which a process was really killed."""
    done: Counter[str] = field(default_factory=Counter)
    """Of each kind of step, how often something came of it."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._bags: dict[str, Counter[Row]] = {table: Counter() for table in self.tables}
        self._ids = iter(range(1, 1_000_000))
        first, second = self.tables
        self._aggregates = [Aggregate(f"{first}_daily", first, 1), Aggregate(f"{second}_wide", second, 2)]
        self._later = [Aggregate(f"{first}_wide", first, 2)]
        """To be made on the way, when rows have left already."""
        self._steps: dict[Callable[[], str], float] = {
            self._insert: 5,
            self._update: 3,
            self._delete: 2,
            self._truncate: 1,
            self._feed: 3,
            self._verify: 1,
            self._tier: 1,
            self._retention: 5,
            self._settle: 3,
            self._rehydrate: 3,
            self._release: 1.5,
            self._refresh: 1.5,
            self._compact: 1,
            self._late_rows: 0.7,
            self._maintain: 0.7,
            self._make: 0.5,
        }
        if self.spark:
            self._steps |= {self._recompute: 3}

    # ---- the play ------------------------------------------------------------------------

    def play(self, steps: int = 18) -> None:
        """Everything, then the end; what must hold is looked at on the way and then."""
        try:
            self.begin()
            for number in range(1, steps + 1):
                self._do(self._chance.choices(list(self._steps), list(self._steps.values()))[0])
                if self.spark and number == steps // 2:
                    self._do(self._compact)
                    self._do(self._recompute)
                if number % _EVERY == 0:
                    self.look()
            self._finish()
        except Exception as error:
            raise CourseFailed(self.told(error)) from error

    def told(self, error: BaseException) -> str:
        """The failure with everything that led to it."""
        lines = "\n".join(f"  {number:2} {line}" for number, line in enumerate(self.trace, 1))
        return f"{error}\nseed {self.seed} (--schedule-seed {self.seed} repeats it)\n{lines}"

    def look(self) -> None:
        """Both tiers hold what was committed, each row once, and RollUps show it where they say that they do."""
        for table in self.tables:
            found, expected = self._across(table), +self._bags[table]
            assert found == expected, f"{table} across the tiers is not what was committed: {told(found, expected)}"
        for one in self._aggregates:
            one.require(self.lake, +self._bags[one.table])

    def _across(self, table: str) -> Counter[Row]:
        if self.spark is None or self._chance.random() < 0.3:
            return across(self.lake, table)
        with self.lake.stack.reader().across(table) as frame:
            rows = [tuple(row) for row in frame.collect()]
        return Counter((ts.astimezone(UTC), *rest) for ts, *rest in rows)  # in the zone of this machine, unsaid

    def _do(self, step: Callable[[], str]) -> None:
        name = step.__name__.lstrip("_")
        began = time.monotonic()
        outcome = in_the_end(step)
        self.trace.append(f"{time.monotonic() - began:4.1f} s {name} {outcome}")
        self.done[name] += 1

    def begin(self) -> None:
        """Both tables with rows in both tiers, and their RollUps."""
        for table in self.tables:
            rows = [self._row(day, hour) for day in range(DAYS + 1) for hour in range(0, 24, HOURS)]
            self.lake.run(
                f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v int, k text)",
                f"INSERT INTO {table} VALUES {_values(rows)}",
                f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
                f"SELECT lakets.enable_sync('{table}')",
            )
            self._bags[table] += Counter(rows)
        for one in self._aggregates:
            one.make(self.lake)
        self.lake.drain()
        self.lake.run(f"SELECT lakets.set_late_rows('{self.tables[0]}', 'lake')")
        if self._chance.random() < 0.5:
            self.lake.run(f"SELECT lakets.set_late_rows('{self.tables[1]}', 'lake')")
        for table in self.tables:
            self._policy(table, self._chance.randint(0, 2))
        with self.lake.feeding():
            for table in self.tables:
                self.lake.stack.lifecycle(table, on_spark=False).retention()

    def _finish(self) -> None:
        """What was begun is finished. All of it is in the lake, and all of it comes back or RollUps come from there."""
        go_on_at = time.monotonic() + _LAST
        while self._is_deferred() and time.monotonic() < go_on_at:
            time.sleep(0.05)
        if self.kills:  # whoever was killed is not in the way of the rest
            self.lake.run(BURY)
        self._gate("settle", self._settling(), beside=False)
        self.lake.drain()
        self.look()
        for table in self.tables:
            folded, expected = self.lake.folded(table), +self._bags[table]
            assert folded == expected, f"{table} in the lake is not what was committed: {told(folded, expected)}"
        if self.spark:
            for one in self._aggregates:
                self._recomputed(one)
        else:
            self._all_back()
        for one in self._aggregates:
            self.lake.run(f"SELECT lakets.refresh_rollup('{one.name}')")
            one.require(self.lake, +self._bags[one.table], all_of_it=True)
        self.look()

    def _is_deferred(self) -> bool:
        """Finish what was begun; whether something of it has to be tried again."""
        outcomes = drop.recover(self.lake.dsn, check_lake=self.lake.stack.prover(on_spark=False).look)
        return any(outcome.result is drop.Result.DEFERRED for outcome in outcomes)

    def _all_back(self) -> None:
        for table in self.tables:
            end = BASE + timedelta(days=DAYS + 1)
            self._gate("rehydrate", partial(lifecycle_children.rehydrate, table, BASE, end), beside=False)
            hot, expected = self.lake.hot(table), +self._bags[table]
            assert hot == expected, f"{table}, all of it brought back, is not what was committed: {told(hot, expected)}"

    # ---- writers -------------------------------------------------------------------------

    def _row(self, day: int, hour: float) -> Row:
        number = next(self._ids)
        at = BASE + timedelta(days=day, hours=hour)
        return at, number, number * 7 % 100, f"k{number % 3}"

    def _some_rows(self) -> list[Row]:
        chance = self._chance
        rows = [
            self._row(chance.randint(0, DAYS), chance.choice([0, 3, 11.5, 23.9])) for _ in range(chance.randint(1, 6))
        ]
        if chance.random() < 0.3:  # the same row several times
            at = BASE + timedelta(days=chance.randint(0, DAYS), hours=12)
            rows += [(at, None, 1, "twin")] * chance.randint(2, 3)
        return rows

    def _insert(self) -> str:
        table, rows, chance = self._table(), self._some_rows(), self._chance
        into, before = table, []
        dice = chance.random()
        if dice < 0.15:  # as somebody does who knows the chunk
            found = self._resident(table)
            if found:
                into, start = chance.choice(found)
                rows = [(start + timedelta(hours=1 + number), *row[1:]) for number, row in enumerate(rows)]
        elif dice < 0.25:
            before = ["SET LOCAL session_replication_role = replica"]
        if chance.random() < 0.8 and into == table:  # most writers write into one day
            day = timedelta(days=chance.choice([0, 0, 1, 1, 2, 3, DAYS]))
            rows = [(BASE + day + (row[0] - BASE) % timedelta(days=1), *row[1:]) for row in rows]
        return self._commit(table, [*before, f"INSERT INTO {into} VALUES {_values(rows)}"], Counter(rows))

    def _update(self) -> str:
        chance = self._chance
        table = self._table()
        some = f"id % {(modulus := chance.randint(2, 6))} = {chance.randrange(modulus)}"
        moved = f"ts + interval '{chance.choice([-2, -1, 1])} days'"
        within = f"{moved} >= '{BASE}' AND {moved} < '{BASE + timedelta(days=DAYS + 1)}'"
        statement = chance.choice(
            [
                f"UPDATE {table} SET v = v + 1 WHERE {some}",
                f"UPDATE {table} SET v = -v, k = 'k' || id % 4 WHERE {some} AND ts < '{BASE + timedelta(days=2)}'",
                f"UPDATE {table} SET ts = {moved} WHERE id = (SELECT min(id) FROM {table} WHERE {some} AND {within})",
                f"UPDATE {table} SET ts = {moved} WHERE {some} AND {within}",
            ]
        )
        return self._commit(table, [statement])

    def _delete(self) -> str:
        chance = self._chance
        table = self._table()
        day = BASE + timedelta(days=chance.randint(0, DAYS))
        twin = f"(SELECT tableoid, ctid FROM {table} WHERE id IS NULL LIMIT 1)"
        statement = chance.choice(
            [
                f"DELETE FROM {table} WHERE id % 5 = {chance.randrange(5)}",
                f"DELETE FROM {table} WHERE ts >= '{day}' AND ts < '{day + timedelta(days=1)}' AND id % 2 = 0",
                f"DELETE FROM {table} WHERE (tableoid, ctid) IN {twin}",
            ]
        )
        return self._commit(table, [statement])

    def _truncate(self) -> str:
        table = self._table()
        found = self._resident(table)
        if self._chance.random() < 0.15 or not found:
            return self._commit(table, [f"TRUNCATE {table}"])
        return self._commit(table, [f"TRUNCATE {self._chance.choice(found)[0]}"])

    def _commit(self, table: str, statements: Sequence[str], added: Counter[Row] | None = None) -> str:
        """Statements in one transaction; `added` is what comes of them, or else it is what the table shows of it.

        A transaction sees a chunk to its end that is detached meanwhile only in a snapshot of its own.
        """
        own = added is None
        try:
            with psycopg.connect(self.lake.dsn) as session:
                if own:
                    session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                session.execute("SET LOCAL timezone = 'UTC'")
                before = _shown(session, table) if own else Counter()
                for statement in statements:
                    session.execute(statement.encode())
                after = _shown(session, table) if own else added or Counter()
        except (
            pg.RaiseException,
            pg.CheckViolation,
            pg.LockNotAvailable,
            pg.SerializationFailure,
            pg.UndefinedTable,
        ) as error:
            in_words = isinstance(error, (pg.RaiseException, pg.CheckViolation))
            if in_words and not any(why in str(error) for why in _REFUSED):
                raise
            return f"{statements[-1][:90]} -> refused: {str(error).splitlines()[0]}"
        self._bags[table].update(after)
        self._bags[table].subtract(before)
        return f"{statements[-1][:120]} -> {sum((after - before).values())} came, {sum((before - after).values())} went"

    # ---- processes -----------------------------------------------------------------------

    def _feed(self) -> str:
        points = [point for point in kill_points() if point.startswith(_FEED)]
        kill_at = self._chance.choice(points) if self._chance.random() < 0.5 else None
        outcome = self._child(Run(self.lake.stack.settings, "drain", kill_at=kill_at))
        if outcome.how == "killed":
            self.lake.run(BURY)
        return str(outcome)

    def _verify(self) -> str:
        return self._gate("verify", partial(lifecycle_children.verify, self._table()), ("receipt.",))

    def _tier(self) -> str:
        table = self._table()
        self._policy(table, DAYS)
        return self._gate("tier", partial(lifecycle_children.tier, table), ("receipt.",))

    def _retention(self) -> str:
        table = self._table()
        due = self._chance.randint(0, DAYS - 1)
        self._policy(table, due)
        return f"{table} {due} " + self._gate(
            "retention", partial(lifecycle_children.retention, table), ("receipt.", "drop.")
        )

    def _policy(self, table: str, due: int) -> None:
        """Chunks of the days up to one are due to be dropped, those that are over to be tiered."""
        kept = datetime.now(UTC) - BASE - timedelta(days=due + 1) - timedelta(minutes=1)
        after = max(int(kept.total_seconds()), 4000)
        self.lake.run(
            f"SELECT lakets.remove_retention_policy('{table}') FROM lakets.show_retention_policy('{table}')",
            f"SELECT lakets.add_tiered_retention_policy('{table}', '1 hour', '{after} seconds')",
        )

    def _settle(self) -> str:
        numbers = ", ".join(f"lakets._chronotable_id('{table}', 'public')" for table in self.tables)
        if not self.lake.run(f"SELECT FROM thermocline.trap WHERE size_bytes > 0 AND chronotable_id IN ({numbers})"):
            self._do(self._insert)
        return self._gate("settle", self._settling(), ("settle.", "receipt.snapshot", "receipt.lake_read"))

    def _settling(self) -> Callable[..., str]:
        return partial(lifecycle_children.settle, self.tables)

    def _rehydrate(self) -> str:
        table = self._table()
        if self._chance.random() < 0.7:  # late rows are in its way
            self._gate("settle", self._settling(), beside=False)
        gone = self.lake.run(
            "SELECT range_start, range_end FROM thermocline.dropped_range"
            f" WHERE chronotable_id = lakets._chronotable_id('{table}', 'public') ORDER BY 1"
        )
        if not gone:
            return "nothing has left"
        start, end = self._chance.choice(gone)
        if self._chance.random() < 0.3:
            end = max(end, self._chance.choice(gone)[1])
        bring = partial(lifecycle_children.rehydrate, table, start, end)
        return f"{table} {start:%d} to {end:%d} " + self._gate("rehydrate", bring, ("rehydrate.",))

    def _gate(self, name: str, work: Callable[..., str], points: tuple[str, ...] = (), *, beside: bool = True) -> str:
        """Work of the gate in a process of its own, with a feed there or here, and maybe killed and written to."""
        chance = self._chance
        kill_at = chance.choice(lifecycle_children.points(points)) if points and chance.random() < 0.45 else None
        inside = chance.random() < 0.5
        writes = beside and chance.random() < 0.35
        run = Run(self.lake.stack.settings, kill_at=kill_at, work=partial(work, with_feed=inside))
        with ExitStack() as held:
            if not inside:
                held.enter_context(self.lake.feeding())
            if writes:
                held.enter_context(_Writer(self))
            outcome = self._child(run)
        if outcome.how == "killed" and (inside or chance.random() < 0.5):
            self.lake.run(BURY)
        wrong = [code for code in _WRONG if f" {code}" in outcome.told]
        assert not wrong, f"{name}: {outcome}"
        where = "there" if inside else "here"
        return f"feed {where}{', written to' if writes else ''}{f', kill at {kill_at}' if kill_at else ''} -> {outcome}"

    def _child(self, run: Run) -> Outcome:
        outcome = feed_children.run(run, 300)
        if outcome.how == "killed" and run.kill_at:
            self.kills.append(run.kill_at)
        if outcome.how == "failed" and not outcome.is_busy:
            raise CourseFailed(f"it failed: {outcome}")
        return outcome

    # ---- the rest ------------------------------------------------------------------------

    def _release(self) -> str:
        first = self._chance.randint(0, DAYS - 1)
        start, end = BASE + timedelta(days=first), BASE + timedelta(days=DAYS)
        return f"from {first}: {self.lake.stack.rehydrator(on_spark=False).release(self._table(), start, end)}"

    def _refresh(self) -> str:
        one = self._chance.choice(self._aggregates)
        self.lake.run(f"SELECT lakets.refresh_rollup('{one.name}')")
        return one.name

    def _recompute(self) -> str:
        return self._recomputed(self._chance.choice(self._aggregates), needed=self._chance.random() < 0.5)

    def _recomputed(self, one: Aggregate, *, needed: bool = False) -> str:
        try:
            done = self.lake.stack.recomputer().run(one.name, needed=needed)
        except Refused as error:
            assert error.code == "rollup.nothing_to_recompute", error
            return f"{one.name} -> {error.message}"
        return f"{one.name} -> {done.buckets} buckets"

    def _compact(self) -> str:
        table = self._table()
        name = f"public.lb_{table}_history"
        if self.spark:
            ((files, *_),) = self.spark.sql(
                f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
            ).collect()
            return f"{table} {files} files"
        with self.lake.stack.catalog() as catalog:
            opened = catalog.load_table(name)
            opened.overwrite(opened.scan().to_arrow())
        return table

    def _late_rows(self) -> str:
        table, late = self._table(), self._chance.choice(["lake", "lake", "reject"])
        return f"{table} {late} " + self._commit(
            table, [f"SELECT lakets.set_late_rows('{table}', '{late}')"], Counter()
        )

    def _maintain(self) -> str:
        self.lake.stack.maintain()
        drop.merge_traps(self.lake.dsn)
        return ""

    def _make(self) -> str:
        if not self._later:
            return "nothing"
        one = self._later[-1]
        one.make(self.lake)
        self._aggregates.append(self._later.pop())
        return one.name

    def _table(self) -> str:
        return self._chance.choice(self.tables)

    def _resident(self, table: str) -> list[tuple[str, datetime]]:
        """The chunks that are in PostgreSQL, those that a worker has detached too."""
        found = self.lake.run(
            "SELECT m.chunk_oid::regclass::text, m.range_start FROM lakets._chunk_metadata m"
            f" WHERE m.chronotable_id = lakets._chronotable_id('{table}', 'public') AND m.status <> 'dropped'"
            f" AND m.range_start BETWEEN '{BASE}' AND '{BASE + timedelta(days=DAYS)}' ORDER BY 2"
        )
        return [(name, start) for name, start in found]


class _Writer:
    """Somebody who goes on writing while the block lasts: small transactions, one after the other."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer")
        self._error: BaseException | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error:
            raise self._error

    def _write(self) -> None:
        course = self._course
        steps = [course._insert, course._insert, course._update, course._delete]
        try:
            for number in range(_WRITES):
                if self._stop.wait(0.15):
                    return
                course.trace.append(f"    beside: {steps[number % len(steps)]()}")
        except BaseException as error:
            self._error = error


def _shown(session: psycopg.Connection, table: str) -> Counter[Row]:
    return Counter(session.execute(f"TABLE {table}".encode()).fetchall())


def _values(rows: Sequence[Row]) -> str:
    return ", ".join(f"('{at}', {'NULL' if number is None else number}, {v}, '{k}')" for at, number, v, k in rows)
