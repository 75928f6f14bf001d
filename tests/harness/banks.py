"""A bank: money in several ChronoTables, moved from one to another in every way there is, and none made or lost."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from harness import feed_children
from harness.feed_children import Child, Run
from harness.lakes import ADDED
from harness.mirrors import shadow
from harness.schedules import chunk_name, kill_points, mirror_points
from harness.stage import BURY, Watcher
from harness.verdicts import History
from thermocline.reads import moments

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.crash_servers import CrashServer
    from harness.lakes import Lake

TABLES = ("till", "vault", "reserve")
ROWS, EACH = 30, 100
TOTAL = len(TABLES) * ROWS * EACH
_LENGTH = 36
_LOCK_TIMEOUT = "50ms"
# Where a feed comes for sure; of the other points each schedule has some.
_CARRYING = ("batch.", "lake.appended", "lake.manifests", "mirror.", "read.", "record.", "write.")
_DAY = "date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"


@dataclass
class Bank:
    """One schedule, decided by a seed: transfers, columns that change, feeds that are killed, a server that crashes.

    Of three seeds in a row, one has its tables in direct mode, one in shadow mode, one some in each.
    """

    lake: Lake
    server: CrashServer
    seed: int
    prepare: Callable[[], None] | None = None
    """What every child of the feed does first."""
    trace: list[str] = field(default_factory=list)
    cuts: int = 0
    """At how many positions the money was counted."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._next = 1000
        self._prepared: list[str] = []
        self._columns: dict[str, list[str]] = {table: [] for table in TABLES}
        modes = [("direct",), ("shadow",), ("direct", "shadow")][self.seed % 3]
        self._modes = {table: modes[number % len(modes)] for number, table in enumerate(TABLES)}
        points = kill_points() + (mirror_points() if "shadow" in modes else [])
        self._points = [one for one in points if one.startswith(_CARRYING) or self._chance.random() < 0.2]
        self._open: psycopg.Connection | None = None
        self._known: list[tuple[int, int]] = []
        self._watcher = Watcher(self.lake)

    def play(self) -> None:
        """Everything, then what must hold."""
        try:
            self._begin()
            for _ in range(_LENGTH):
                self._act()
            self._end()
        except Exception as error:
            told = "\n".join(f"  {number:2} {line}" for number, line in enumerate(self.trace, 1))
            raise AssertionError(
                f"{error}\nseed {self.seed} (--schedule-seed {self.seed} repeats it)\n{told}"
            ) from error
        finally:
            self._clear()

    # ---- what happens --------------------------------------------------------------------

    def _begin(self) -> None:
        for table in TABLES:
            self.lake.run(
                f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int NOT NULL, amount int, note text)",
                f"ALTER TABLE {table} ADD UNIQUE (ts, id)",
                f"INSERT INTO {table} SELECT {_DAY} + g * interval '3 hours', g, {EACH}, 'at first'"
                f" FROM generate_series(-16, {ROWS - 17}) g",
                f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
                f"SELECT lakets.enable_sync('{table}', p_mode => '{self._modes[table]}')",
            )
        self.lake.drain()
        self._look()
        if self._chance.random() < 0.5:
            self.lake.run(f"SELECT lakets.set_commit_interval('{self._chance.choice(TABLES)}', '1 minute')")

    def _act(self) -> None:
        acts: dict[Callable[[], str], float] = {
            self._transact: 12, self._feed: 5, self._end_prepared: 3, self._change_columns: 1.5,
            self._end_open: 2, self._crash: 0.3,
        }  # fmt: skip
        act = self._chance.choices(list(acts), list(acts.values()))[0]
        said = act()
        self.trace.append(f"{act.__name__.strip('_')}: {said}")

    def _transact(self) -> str:
        chance = self._chance
        statements = [one for _ in range(chance.choice([1, 1, 2, 3])) for one in self._transfer()]
        how = chance.choices(["COMMIT", "ROLLBACK", "PREPARE", "open"], [9, 1, 3, 1])[0]
        session: psycopg.Connection | None = psycopg.connect(self.lake.dsn)
        assert session is not None
        try:
            session.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'; SET timezone = 'UTC'".encode())
            session.commit()
            if chance.random() < 0.2:
                statements.insert(0, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for statement in statements:
                session.execute(statement.encode())
            if how == "open" and self._open is None:
                self._open, session = session, None
            elif how == "PREPARE":
                name = f"{self.seed}_{self._id()}"
                session.execute(f"PREPARE TRANSACTION '{name}'".encode())
                self._prepared.append(name)
            else:
                session.execute(b"ROLLBACK" if how == "ROLLBACK" else b"COMMIT")
        except (psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure) as error:
            how = f"not done: {type(error).__name__}"
        finally:
            if session is not None:
                session.close()
        return f"{how} {'; '.join(statements)}"

    def _transfer(self) -> list[str]:
        """Statements after which there is as much money as before, all of them or none."""
        chance = self._chance
        one, other = chance.sample(TABLES, 2)
        some = f"id % {(modulus := chance.randint(2, 9))} = {chance.randrange(modulus)}"
        sum_ = chance.randint(1, 50)
        back = f"INSERT INTO {other} (ts, id, amount) SELECT {self._moment()}, {self._id()},"
        chunk = chunk_name(one, chance.randint(-2, 1))
        booked = f"INSERT INTO {one} (ts, id, amount) VALUES ({self._moment()}, {self._id()}, {-sum_})"
        match chance.choice(
            ["book", "update", "close", "move", "conflict", "nothing", "undone", "kept", "chunk", "all"]
        ):
            case "book":
                return [booked, f"{back} {sum_}"]
            case "update":
                taken = f"WITH taken AS (UPDATE {one} SET amount = amount - {sum_} WHERE {some} RETURNING 1)"
                return [f"{taken} {back} {sum_} * count(*) FROM taken"]
            case "close":
                gone = f"WITH gone AS (DELETE FROM {one} WHERE {some} RETURNING amount)"
                return [f"{gone} {back} coalesce(sum(amount), 0) FROM gone"]
            case "move":
                days, bound = chance.choice([("1 day", f"ts < {_DAY} + interval '1 day'"), ("-1 day", f"ts >= {_DAY}")])
                return [f"UPDATE {one} SET ts = ts + interval '{days}' WHERE {some} AND {bound}"]
            case "conflict":
                again = (
                    f"INSERT INTO {one} (ts, id, amount) SELECT ts, id, 0 FROM {one} WHERE {some}"
                    f" ON CONFLICT (ts, id) DO UPDATE SET amount = {one}.amount - {sum_} RETURNING 1"
                )
                return [f"WITH taken AS ({again}) {back} {sum_} * count(*) FROM taken"]
            case "nothing":
                return [
                    f"INSERT INTO {one} (ts, id, amount) SELECT ts, id, 7 FROM {one} ON CONFLICT (ts, id) DO NOTHING"
                ]
            case "undone":
                return ["SAVEPOINT s", booked, f"DELETE FROM {other} WHERE {some}", "ROLLBACK TO s"]
            case "kept":
                return ["SAVEPOINT s", booked, f"{back} {sum_}", "RELEASE s"]
            case "chunk":
                return [f"LOCK {chunk}", f"{back} coalesce(sum(amount), 0) FROM {chunk}", f"TRUNCATE {chunk}"]
        return [f"LOCK {one}", f"{back} coalesce(sum(amount), 0) FROM {one}", f"TRUNCATE {one}"]

    def _change_columns(self) -> str:
        table = self._chance.choice(TABLES)
        extra = self._columns[table]
        name = f"extra{len(self.trace)}"
        told = self._chance.choice(
            [
                f"ALTER TABLE {table} ADD COLUMN {name} int DEFAULT {len(self.trace)}",
                f"ALTER TABLE {table} ADD COLUMN {name} text",
                f"ALTER TABLE {table} ALTER amount TYPE bigint",
                f"ALTER TABLE {table} DROP COLUMN {extra[-1]}"
                if extra
                else f"ALTER TABLE {table} DROP COLUMN IF EXISTS note",
            ]
        )
        try:
            self.lake.run(f"SET lock_timeout = '{_LOCK_TIMEOUT}'", told)
        except psycopg.errors.LockNotAvailable:
            return f"not done: locked, {told}"
        if "ADD COLUMN" in told:
            extra.append(name)
        elif extra and extra[-1] in told:
            extra.pop()
        return told

    def _end_prepared(self) -> str:
        if not self._prepared:
            return "none"
        name = self._prepared.pop(self._chance.randrange(len(self._prepared)))
        how = self._chance.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        self.lake.run(f"{how} PREPARED '{name}'")
        return f"{how} {name}"

    def _end_open(self) -> str:
        session, self._open = self._open, None
        if session is None:
            return "none"
        how = self._chance.choice(["commit", "rollback"])
        getattr(session, how)()
        session.close()
        return how

    def _crash(self) -> str:
        if self._open is not None:
            self._open.close()
            self._open = None
        self.server.crash_and_recover()
        return f"with {len(self._prepared)} prepared"

    def _feed(self) -> str:
        chance = self._chance
        mode = chance.choice(["drain", "drain", "steps", "turns", "serve"])
        point = f"{chance.choice(self._points)}:{chance.choice([1, 1, 2])}" if chance.random() < 0.6 else None
        child = Child(Run(self.lake.stack.settings, mode, kill_at=point, prepare=self.prepare))
        outcome = child.wait(until=self._watcher.is_blocked)
        if outcome.how == "killed":
            self.lake.run(BURY)
        assert outcome.how != "failed" or outcome.is_busy, f"the feed failed: {outcome}"
        if (known := self._look()) is not None:
            self._count_at(known[1])
        return f"{mode}, {point} -> {outcome}"

    def _end(self) -> None:
        self._end_open()
        while self._prepared:
            self._end_prepared()
        self._drain()
        for _ in range(3):  # whatever was not known before, is now
            booked = [
                f"INSERT INTO {table} (ts, id, amount) VALUES ({self._moment()}, {self._id()}, {sum_})"
                for table, sum_ in ((TABLES[0], -7), (TABLES[1], 7))
            ]
            self.lake.run(f"BEGIN; {'; '.join(booked)}; COMMIT")
            self._drain()
            known = self._look()
            assert known is not None, "everything is there, and no state is known"
            self._count_at(known[1])
        assert self.lake.run("SELECT DISTINCT status FROM thermocline.synced_table") == [("STREAMING",)]
        held = self.lake.run(" UNION ALL ".join(f"SELECT sum(amount)::bigint FROM {table}" for table in TABLES))
        assert sum(row[0] or 0 for row in held) == TOTAL, "the schedule itself is wrong"
        for table in TABLES:
            found, wanted = self.lake.content(table), self.lake.hot(table)
            assert found == wanted, f"{table}: only in the lake {found - wanted}, not there {wanted - found}"
            History(self.lake, table).require_each_once()
            if self._modes[table] == "shadow":
                assert shadow(self.lake, self.lake.past(table)) == wanted, f"the mirror of {table} is not {table}"
        self._look()
        for position in sorted({one["_lsn"] for one in self._entries()}):
            if any(first <= position <= last for first, last in self._known):
                self._count_at(position)

    def _drain(self) -> None:
        for _ in range(20):
            outcome = feed_children.run_in_turn(Run(self.lake.stack.settings, prepare=self.prepare))
            assert outcome.how == "done", outcome
            if outcome.caught_up:
                return
        raise AssertionError(f"the feed does not catch up: {outcome}")

    def _clear(self) -> None:
        self._watcher.close()
        if self._open is not None:
            self._open.close()
        for name in self._prepared:
            with suppress(psycopg.Error):
                self.lake.run(f"ROLLBACK PREPARED '{name}'")

    # ---- counting ------------------------------------------------------------------------

    def _look(self) -> tuple[int, int] | None:
        """Between which positions the state of all tables is known now, if it is; what was known once stays true."""
        try:
            spans = [moments.known(self.lake.dsn, f"public.{table}") for table in TABLES]
        except moments.NotThen:
            return None
        first, last = max(one.first for one in spans), min(one.last for one in spans)
        self._known += [(first, last)]
        return (first, last) if first <= last else None

    def _entries(self) -> list[dict[str, Any]]:
        return [dict(one, table=table) for table in TABLES for one in History(self.lake, table).entries]

    def _count_at(self, position: int) -> None:
        """All the money is there in what the histories hold up to a position, folded in their order."""
        held: Counter[tuple[str, Any, int]] = Counter()
        entries = [one for one in self._entries() if one["_lsn"] <= position]
        for one in sorted(entries, key=lambda one: (one["_lsn"], one["_seq"])):
            table, kind = one["table"], one["_change_type"]
            if kind == "truncate":
                for row in [row for row in held if row[0] == table and one["ts"] <= row[1] < one["_range_end"]]:
                    del held[row]
            else:
                held[table, one["ts"], one["amount"]] += 1 if kind in ADDED else -1
        total = sum(amount * count for (_, _, amount), count in held.items())
        assert total == TOTAL, f"at {position} there is {total} in the lake"
        self.cuts += 1

    def _moment(self) -> str:
        return f"{_DAY} + interval '{self._chance.randint(-47, 47)} hours'"

    def _id(self) -> int:
        self._next += 1
        return self._next
