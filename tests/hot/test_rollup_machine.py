"""RollUps under whatever is done to their source: after every step they show what a full aggregation would.

A machine takes random steps with real sessions. It aggregates the rows itself, in Python, and remembers what was shown
of a bucket when rows of it left PostgreSQL. It runs at two scales: with buckets of an hour, and with buckets of a part
of a second, whose watermark moves on while the machine runs.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg.pq import TransactionStatus

from harness.questions import ask, one
from harness.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.servers import Server

# More and longer runs, many minutes: with THERMOCLINE_WIDE_MACHINES=1. Asked here: a test does not see it.
WIDE = bool(os.environ.get("THERMOCLINE_WIDE_MACHINES"))
EXAMPLES, STEPS = (400, 50) if WIDE else (10, 25)

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
ZONES = ["UTC", "America/Los_Angeles", "Pacific/Auckland", "Asia/Kolkata"]
# What a session is told that would have to wait, or whose snapshot is too old for what it does.
PASSING = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.UniqueViolation,
)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Scale:
    """How long things are: a chunk is 24 units, a bucket of `small` one or less."""

    unit: timedelta
    small: timedelta
    late_after: timedelta
    pause: timedelta

    @property
    def chunk(self) -> timedelta:
        return 24 * self.unit


HOURS = Scale(timedelta(hours=1), timedelta(hours=1), timedelta(minutes=5), timedelta(0))
SECONDS = Scale(*(timedelta(milliseconds=ms) for ms in (1000, 250, 20, 300)))


@dataclass(frozen=True)
class RollUp:
    """One that is made from the table, and how Python computes it."""

    name: str
    width: timedelta
    key: Callable[[str | None], str | None]
    key_sql: str
    values: Callable[[list[int]], Row]
    values_sql: str

    def bucket(self, at: datetime) -> datetime:
        return ORIGIN + (at - ORIGIN) // self.width * self.width

    def query(self) -> str:
        bucket = f"lakets.time_bucket('{self.width.total_seconds()} seconds'::interval, ts) AS bucket"
        return f"SELECT {bucket}, {self.key_sql} AS key, {self.values_sql} FROM m GROUP BY 1, 2"

    def computed(self, rows: Iterable[Row]) -> Counter[Row]:
        """Of rows of time, key and value."""
        groups: dict[tuple[datetime, str | None], list[int]] = {}
        for at, device, value in rows:
            groups.setdefault((self.bucket(at), self.key(device)), []).append(value)
        return Counter((bucket, key, *self.values(found)) for (bucket, key), found in groups.items())

    def touched_by(self, start: datetime, end: datetime) -> list[datetime]:
        """The buckets that have a time of a range in them."""
        first, last = self.bucket(start), self.bucket(end - INSTANT)
        return [first + n * self.width for n in range((last - first) // self.width + 1)]


def rollups(scale: Scale) -> list[RollUp]:
    """By single keys, and by a computed key in buckets that are wider than a chunk and begin within chunks."""
    return [
        RollUp("small", scale.small, lambda d: d, "device", lambda vs: (sum(vs), len(vs)), "sum(v), count(*) AS n"),
        RollUp(
            "wide",
            60 * scale.unit,
            lambda d: d and d.lower(),
            "lower(device)",
            lambda vs: (min(vs), max(vs), len(vs)),
            "min(v), max(v), count(*) AS n",
        ),
    ]


class Machine(RuleBasedStateMachine):
    """A ChronoTable with RollUps: `small` and `wide` are made from it, `large` from `small`."""

    def __init__(self, server: Server, template: str, scale: Scale) -> None:
        super().__init__()
        self.scale = scale
        self.rollups = rollups(scale)
        self.frozen: dict[str, dict[datetime, Counter[Row]]] = {rollup.name: {} for rollup in self.rollups}
        self.watermarks: list[Row] = []
        self.seen: dict[str, Counter[Row]] = {}  # by the reader that keeps its snapshot
        self.stack = ExitStack()
        self.dsn = self.stack.enter_context(server.database(template))
        options = "-c timezone=UTC -c lock_timeout=100ms -c lakets.max_drops_per_call=100"
        self.db, *others = (self.stack.enter_context(psycopg.connect(self.dsn, options=options)) for _ in range(4))
        self.db.autocommit = True
        self.writers, self.reader = others[:2], others[2]
        self.reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    @initialize(zone=st.sampled_from(ZONES), rows=st.sampled_from([0, 20, 400]))
    def make(self, zone: str, rows: int) -> None:
        now = datetime.now(UTC)
        ask(self.db, "CREATE TABLE m (ts timestamptz NOT NULL, device text, v int NOT NULL)")
        ask(
            self.db,
            "INSERT INTO m SELECT now() - g * %s, (ARRAY['a', 'A', 'b', NULL])[mod(g, 4) + 1], g"
            " FROM generate_series(1, %s) g",
            190 * self.scale.unit / max(rows, 1),
            rows,
        )
        ask(self.db, "SELECT lakets.create_chronotable('m', 'ts', %s)", self.scale.chunk)
        around = (now - 200 * self.scale.unit, now + 200 * self.scale.unit)
        ask(self.db, "SELECT lakets._ensure_partitions(1, 1, 3, %s, %s)", *around)
        ask(self.db, "UPDATE lakets._chronotable_registry SET late_after = %s", self.scale.late_after)
        ask(self.db, "SELECT lakets._track_late_writes(1)")
        for rollup in self.rollups:
            ask(self.db, "SELECT lakets.create_rollup(%s, %s, %s)", rollup.name, rollup.query(), rollup.width)
        large = (
            f"SELECT lakets.time_bucket('{self.scale.chunk.total_seconds()} seconds', bucket) AS bucket, key,"
            " sum(sum), sum(n) AS n FROM _rollup_small GROUP BY 1, 2"
        )
        ask(self.db, "SELECT lakets.create_rollup('large', %s, %s)", large, self.scale.chunk)
        ask(self.db, "SELECT lakets.create_rollup_view(name) FROM lakets.show_rollups()")
        ask(self.db, "UPDATE lakets._rollup_registry SET refresh_lag = '0'")
        self.travel(zone)

    def teardown(self) -> None:
        self.stack.close()

    # ---- what holds ------------------------------------------------------------------------------

    @invariant()
    def views_are_exact_and_watermarks_never_fall(self) -> None:
        rows = self.rows()
        for rollup in self.rollups:
            same(self.shown(f"_rollup_rt_{rollup.name}"), self.expected(rollup, rows), rollup.name)
        same(self.shown("_rollup_rt_large"), self.large_of(self.shown("_rollup_small")), "large")
        now = ask(self.db, "SELECT lakets._rollup_watermark(name) FROM lakets.show_rollups()")
        assert all(then <= risen for then, risen in zip(self.watermarks, now, strict=False))
        self.watermarks = now

    def expected(self, rollup: RollUp, rows: list[Row]) -> Counter[Row]:
        """What is resident, and of buckets that have lost rows what was shown of them before."""
        frozen = self.frozen[rollup.name]
        found = rollup.computed(row for row in rows if rollup.bucket(row[0]) not in frozen)
        for shown in frozen.values():
            found.update(shown)
        return found

    def large_of(self, small: Counter[Row]) -> Counter[Row]:
        groups: dict[tuple[datetime, str | None], list[tuple[int, int]]] = {}
        for bucket, key, total, n in small:
            start = ORIGIN + (bucket - ORIGIN) // self.scale.chunk * self.scale.chunk
            groups.setdefault((start, key), []).append((total, n))
        return Counter((*group, *map(sum, zip(*found, strict=True))) for group, found in groups.items())

    def shown(self, relation: str) -> Counter[Row]:
        return Counter((row[0].astimezone(UTC), *row[1:]) for row in ask(self.db, f"TABLE {relation}"))

    def rows(self) -> list[Row]:
        return [(at.astimezone(UTC), device, value) for at, device, value in ask(self.db, "TABLE m")]

    def chunks(self) -> set[tuple[datetime, datetime]]:
        found = ask(self.db, "SELECT range_start, range_end FROM lakets.show_chunks('m')")
        return {(start.astimezone(UTC), end.astimezone(UTC)) for start, end in found}

    def busy(self) -> bool:
        """Whether a transaction is open."""
        return any(s.info.transaction_status != TransactionStatus.IDLE for s in (*self.writers, self.reader))

    # ---- what is written -------------------------------------------------------------------------

    def at(self, age: float) -> datetime:
        """So many units ago, or ahead if negative: a whole number is the start of a bucket, zero is now."""
        now = datetime.now(UTC)
        start = self.rollups[0].bucket(now) if age and age == int(age) else now
        return start - age * self.scale.unit

    def span(self, age: float, length: int) -> tuple[datetime, datetime]:
        start = self.at(age)
        return start, start + length * self.scale.unit

    def run(self, who: int, statement: str, *parameters: Any, undone: bool = False, replica: bool = False) -> None:
        """By the session that commits at once, or by one whose transaction stays open. Who has to wait gives up."""
        session = self.writers[who - 1] if who else self.db
        if who:
            ask(session, "SELECT 1")  # its transaction begins, if it has not; what follows is within a savepoint
        try:
            with session.transaction(force_rollback=undone):
                if replica:
                    ask(session, "SET LOCAL session_replication_role = replica")
                ask(session, statement, *parameters)
                if replica:
                    ask(session, "SET LOCAL session_replication_role = origin")
        except PASSING:
            session.rollback()
        except psycopg.errors.RaiseException as refusal:
            told = str(refusal)
            assert "have left PostgreSQL" in told
            assert any(self.frozen.values())

    who = st.sampled_from([0, 0, 0, 1, 1, 2])
    device = st.sampled_from(["a", "A", "b", None])
    past = st.one_of(st.integers(-3, 190), st.floats(0, 3), st.floats(0, 190, width=16))
    age = st.one_of(st.just(0), past, st.floats(-50, -1, width=16))
    length = st.integers(1, 60)
    seldom = st.sampled_from([False, False, False, True])

    @rule(who=who, device=device, v=st.integers(-9, 9))
    def insert_fresh(self, who: int, device: str | None, v: int) -> None:
        self.run(who, "INSERT INTO m VALUES (clock_timestamp(), %s, %s)", device, v)

    @rule(who=who, age=age, device=device, v=st.integers(-9, 9), undone=seldom, replica=seldom)
    def insert(self, who: int, age: float, device: str | None, v: int, undone: bool, replica: bool) -> None:
        self.run(who, "INSERT INTO m VALUES (%s, %s, %s)", self.at(age), device, v, undone=undone, replica=replica)

    @rule(who=who, ages=st.lists(age, min_size=2, max_size=4), device=device, edge=st.booleans())
    def insert_some(self, who: int, ages: list[float], device: str | None, edge: bool) -> None:
        """Late and fresh in one statement; at the edge, in the last instant of a bucket."""
        times = [self.at(age) - (INSTANT if edge else timedelta(0)) for age in ages]
        self.run(who, "INSERT INTO m SELECT t, %s, n FROM unnest(%s) WITH ORDINALITY u (t, n)", device, times)

    @rule(who=who, age=age, over=st.integers(1, 30), undone=seldom, again=st.booleans())
    def insert_many(self, who: int, age: float, over: int, undone: bool, again: bool) -> None:
        """More than are marked one by one; and another one beside the last, once they are taken in."""
        start, step = self.at(age), over * self.scale.unit / 1100
        statement = "INSERT INTO m SELECT %s + g * %s, 'many', g FROM generate_series(1, 1100) g"
        self.run(who, statement, start, step, undone=undone)
        if again:
            self.refresh(0)
            self.run(who, "INSERT INTO m VALUES (%s, 'again', 1)", start + 1099 * step)

    @rule(who=who, age=past, length=length, device=device, undone=seldom)
    def change_values(self, who: int, age: float, length: int, device: str | None, undone: bool) -> None:
        statement = "UPDATE m SET v = v + 1 WHERE ts >= %s AND ts < %s AND device IS NOT DISTINCT FROM %s"
        self.run(who, statement, *self.span(age, length), device, undone=undone)

    @rule(who=who, age=past, length=length, old=device, new=device)
    def change_keys(self, who: int, age: float, length: int, old: str | None, new: str | None) -> None:
        statement = "UPDATE m SET device = %s WHERE ts >= %s AND ts < %s AND device IS NOT DISTINCT FROM %s"
        self.run(who, statement, new, *self.span(age, length), old)

    @rule(who=who, age=past, length=length, by=st.integers(-60, 60))
    def change_times(self, who: int, age: float, length: int, by: int) -> None:
        """Into other buckets and chunks, from the past into what is to come and back."""
        statement = "UPDATE m SET ts = ts + %s WHERE ts >= %s AND ts < %s AND ts + %s BETWEEN %s AND %s"
        moved = by * self.scale.unit
        self.run(who, statement, moved, *self.span(age, length), moved, self.at(195), self.at(-60))

    @rule(who=who, age=past, length=length, undone=seldom)
    def delete(self, who: int, age: float, length: int, undone: bool) -> None:
        self.run(who, "DELETE FROM m WHERE ts >= %s AND ts < %s", *self.span(age, length), undone=undone)

    @rule(n=st.integers(0, 9))
    def truncate(self, n: int) -> None:
        names = ask(self.db, "SELECT chunk_name FROM lakets.show_chunks('m')")
        self.run(0, f"TRUNCATE {names[n % len(names)][0]}")

    @rule(who=st.sampled_from([1, 2]), repeatable=st.booleans(), zone=st.sampled_from(ZONES))
    def begin(self, who: int, repeatable: bool, zone: str) -> None:
        """A transaction has its snapshot, and has written nothing yet. One that was open is undone."""
        writer, levels = self.writers[who - 1], psycopg.IsolationLevel
        writer.rollback()
        writer.isolation_level = levels.REPEATABLE_READ if repeatable else levels.READ_COMMITTED
        ask(writer, f"SET timezone = '{zone}'")
        ask(writer, "SELECT 1 FROM lakets._rollup_registry")

    @rule(who=st.sampled_from([1, 2]), commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        writer = self.writers[who - 1]
        writer.commit() if commit else writer.rollback()

    @rule(zone=st.sampled_from(ZONES))
    def travel(self, zone: str) -> None:
        """Whatever zone a session is in, nothing else is shown or marked."""
        ask(self.db, f"SET timezone = '{zone}'")

    @rule()
    def wait(self) -> None:
        """Fresh rows become old."""
        time.sleep(self.scale.pause.total_seconds())

    # ---- what is asked of RollUps ----------------------------------------------------------------

    @rule(which=st.sampled_from([0, 1]))
    def refresh(self, which: int) -> None:
        """Then the table is as the source says in every bucket, the newest and those to come included."""
        rollup = self.rollups[which]
        if not one(self.db, "SELECT lakets.refresh_rollup(%s)", rollup.name):
            assert self.busy()  # one of them is at it
            return
        same(self.shown(f"_rollup_{rollup.name}"), self.expected(rollup, self.rows()), rollup.name)
        assert ask(self.db, "SELECT * FROM lakets._rollup_pending(%s)", which + 1) == []

    @rule(who=st.sampled_from([1, 2]))
    def refresh_within(self, who: int) -> None:
        """In a transaction that may have written before, and may write on."""
        self.run(who, "SELECT lakets.refresh_rollup('small')")

    @rule(who=who, age=past, device=device)
    def refresh_while_somebody_commits(self, who: int, age: float, device: str | None) -> None:
        """A refresh has looked for marks and waits for the table, while rows are written and committed."""
        with Session(self.dsn) as holder, Session(self.dsn) as refresher:
            try:
                holder.run("SET lock_timeout = '100ms'")
                holder.run("LOCK TABLE _rollup_small IN SHARE MODE")
            except PASSING:
                return
            refreshed = refresher.start("SELECT lakets.refresh_rollup('small')")
            with suppress(AssertionError):  # it may have nothing to do
                refresher.wait_until_blocked(0.2)
            self.run(0, "INSERT INTO m VALUES (%s, %s, 5)", self.at(age), device)
            if who:
                self.end(who, commit=True)
            holder.rollback()
            refreshed.result(timeout=60)
            refresher.commit()

    @rule()
    def refresh_all(self) -> None:
        done = dict(ask(self.db, "SELECT rollup_name, refreshed FROM lakets.refresh_rollup_cascade()"))
        assert done.keys() == {"small", "wide", "large"}
        if all(done.values()):
            rows = self.rows()
            small, wide = (self.expected(rollup, rows) for rollup in self.rollups)
            same(self.shown("_rollup_small"), small, "small")
            same(self.shown("_rollup_wide"), wide, "wide")
            same(self.shown("_rollup_large"), self.large_of(small), "large")

    @rule(who=st.sampled_from([1, 2]), device=device)
    def overtake(self, who: int, device: str | None) -> None:
        """A row that was written as a fresh one stays uncommitted while newer ones are committed and taken in."""
        self.insert_fresh(who, device, 1)
        self.wait()
        self.insert_fresh(0, device, 1)
        self.refresh(0)

    @rule(which=st.sampled_from([0, 1]), age=past, length=length)
    def mark(self, which: int, age: float, length: int) -> None:
        """Nothing is wrong with what it marks."""
        name = self.rollups[which].name
        ask(self.db, "SELECT lakets.invalidate_rollup_range(%s, %s, %s)", name, *self.span(age, length))

    @rule(units=st.integers(20, 200), alone=st.booleans())
    def drop(self, units: int, alone: bool) -> None:
        """What is shown of a bucket before rows of it leave is shown of it from then on."""
        if alone:
            self.end(1, commit=True)
            self.end(2, commit=True)
            self.look_away()
        before = {rollup.name: self.shown(f"_rollup_rt_{rollup.name}") for rollup in self.rollups}
        resident, now = self.chunks(), datetime.now(UTC)
        whole = [rollup.bucket(now - 2 * self.scale.late_after) for rollup in self.rollups]
        due = {chunk for chunk in resident if chunk[1] <= min(*whole, now - units * self.scale.unit)}
        deadline = time.monotonic() + 60  # a transaction that just ends may hold it up for a moment
        while True:
            with suppress(*PASSING):
                ask(self.db, "SELECT lakets.drop_chunks('m', %s)", units * self.scale.unit)
            if self.busy() or not due & self.chunks():
                break
            assert time.monotonic() < deadline, f"{due & self.chunks()} stay"
            time.sleep(0.02)
        for rollup in self.rollups:
            for start, end in resident - self.chunks():
                for bucket in rollup.touched_by(start, end):
                    shown = Counter(row for row in before[rollup.name] if row[0] == bucket)
                    self.frozen[rollup.name].setdefault(bucket, shown)

    @rule()
    def look(self) -> None:
        """A reader keeps its snapshot: it sees the same again, whatever was committed and refreshed meanwhile."""
        now = {rollup.name: Counter(ask(self.reader, f"TABLE _rollup_rt_{rollup.name}")) for rollup in self.rollups}
        assert self.seen in ({}, now)
        self.seen = now

    @precondition(lambda self: self.seen)
    @rule()
    def look_away(self) -> None:
        self.reader.rollback()
        self.seen = {}


def same(shown: Counter[Row], full: Counter[Row], name: str) -> None:
    assert (shown - full, full - shown) == (Counter(), Counter()), f"{name}: shown wrongly, and not shown"


@pytest.mark.slow
@pytest.mark.promise("004-19", "004-20", "004-21")
@pytest.mark.parametrize("scale", [HOURS, SECONDS], ids=["hours", "seconds"])
def test_r1_r2_r3_r4_r5_r7_r8_r9_r13_rollups_equal_a_full_aggregation_after_every_step(
    server: Server, template: str, scale: Scale
) -> None:
    class OnThisServer(Machine):
        def __init__(self) -> None:
            super().__init__(server, template, scale)

    # The same steps in every run, and others each time with the flag.
    chosen = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, derandomize=not WIDE, database=None)
    run_state_machine_as_test(OnThisServer, settings=chosen)
