"""Schedules: what writers, the feed and crashes do to a ChronoTable, in an order that an integer decides."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import thermocline

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS = 4
COPIED = 20
"""Rows that one COPY brings."""
BEFORE, AFTER = 2, 3
"""Days before and after today that have chunks from the beginning."""
_SOURCE = Path(thermocline.__file__).parent
_POINT = re.compile(r'crash_point\("([\w.]+)"\)')
# Not on the way of a feed that runs: they have tests of their own.
_ASIDE = ("resync.",)
# Where a feed that only carries, or only copies, never comes.
_CARRYING = ("batch.", "lake.", "mirror.", "read.", "record.", "write.")
_NOT_IN = {
    "steps": ("copy.", "join.", "mirror."),
    "turns": ("copy.", "join.", "mirror."),
    "tend": ("batch.", "read.", "record.before", "record.begun"),
}


def kill_points() -> list[str]:
    """Every named point of feed and copy at which a process may be killed, as the source has them."""
    files = [*sorted((_SOURCE / "feed").glob("*.py")), _SOURCE / "lake" / "history.py"]
    return sorted({name for file in files for name in _POINT.findall(file.read_text())} - set(mirror_points()))


def mirror_points() -> list[str]:
    """Those that only a table in shadow mode comes by."""
    return sorted(set(_POINT.findall((_SOURCE / "feed" / "mirroring.py").read_text())))


def day(offset: int) -> datetime:
    """The first moment of a day, counted from today."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=offset)


def enable(table: str, mode: str) -> str:
    """The statement that has a table synced in a mode."""
    return f"SELECT lakets.enable_sync('{table}', p_mode => '{mode}')"


def attached(table: str, chunk: str) -> str:
    """The statement that attaches a chunk, given as in a statement, for the day that it is of."""
    first, after = (day(int(chunk[-3:-1]) + more) for more in (0, 1))
    return f"ALTER TABLE {table} ATTACH PARTITION {chunk} FOR VALUES FROM ('{first:%Y-%m-%d}') TO ('{after:%Y-%m-%d}')"


def chunk_name(table: str, offset: int) -> str:
    """The chunk of a day."""
    return f"{table}_{day(offset):%Y%m%d_%H%M%S}"


@dataclass(frozen=True)
class Act:
    """One thing that happens."""

    kind: str
    """write, end, sync, alter, feed, crash, audit, hammer, checkpoint"""
    session: int = 0
    statements: tuple[str, ...] = ()
    how: str = ""
    kill_at: str | None = None
    after: float | None = None
    overlap: int = 0

    def __str__(self) -> str:
        told = [self.kind, f"s{self.session}" if self.kind in ("write", "end") else "", self.how, *self.statements]
        told += [f"kill at {self.kill_at}"] if self.kill_at else []
        told += [f"kill after {self.after * 1000:.0f} ms"] if self.after is not None and self.kind == "feed" else []
        told += [f"while {self.overlap} more happen"] if self.overlap else []
        return " ".join(part for part in told if part)


@dataclass(frozen=True)
class Schedule:
    """The tables at the beginning, and everything that happens then."""

    seed: int
    tables: tuple[str, ...]
    kinds: tuple[str, ...]
    """The type of each table's time."""
    modes: tuple[str, ...]
    """How each is synced at last: direct or shadow."""
    rows: tuple[int, ...]
    window_mb: int
    acts: tuple[Act, ...]

    @property
    def is_altered(self) -> bool:
        """Whether columns come and go."""
        return any(act.kind == "alter" for act in self.acts)

    @staticmethod
    def of(seed: int) -> Schedule:
        """The schedule of a seed; the same one each time."""
        return _Author(seed).schedule()

    def setup(self) -> Iterator[str]:
        """Statements that make the tables, with rows from before the sync."""
        yield _MOMENT
        for table, kind, rows in zip(self.tables, self.kinds, self.rows, strict=True):
            yield f"CREATE TABLE {table} (ts {kind} NOT NULL, id int, v float8, tag text)"
            yield (
                f"INSERT INTO {table} SELECT {_moment(-BEFORE)} + g * interval '2 hours', g, g / 7.0, 'before ' || g"
                f" FROM generate_series(1, {rows}) g"
            )
            yield f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')"


def _moment(offset: int, hours: float = 0.5) -> str:
    """A time in a day's chunk, as SQL; the day is resolved when it runs."""
    return f"moment({offset}, {hours})"


@dataclass
class _Author:
    seed: int
    chance: random.Random = field(init=False)
    next_id: int = 1000
    feeds: int = 0
    """How many feeds have run since a table was synced."""
    altered: bool = False
    past: int = BEFORE
    future: int = AFTER

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def schedule(self) -> Schedule:
        chance = self.chance
        self.tables = ("m", "n") if chance.random() < 0.4 else ("m",)
        self.modes = {table: chance.choice(["direct", "shadow"]) for table in self.tables}
        points = kill_points() + (mirror_points() if "shadow" in self.modes.values() else [])
        self.points = [point for point in points if not point.startswith(_ASIDE)]
        kinds = tuple(chance.choice(["timestamptz", "timestamptz", "timestamp"]) for _ in self.tables)
        rows = tuple(chance.choice([1, 5, 24, 36]) for _ in self.tables)
        length = chance.randint(8, 15)
        special = self._special(length)
        acts: list[Act] = []
        if chance.random() < 0.6:  # the stream is there before any writer can be in its way
            acts += [Act("sync", statements=(self._enable("m"),)), Act("feed", how="drain")]
            self.feeds = 3
        for at in range(length):
            for act in special.get(at, []):
                acts.append(act)
                if "enable_sync('n'" in "".join(act.statements):
                    self.feeds = 0
            acts.append(self._act())
        modes = tuple(self.modes.values())
        return Schedule(self.seed, self.tables, kinds, modes, rows, chance.choice([1, 128]), tuple(acts))

    def _special(self, length: int) -> dict[int, list[Act]]:
        """What happens once or twice in a schedule, and before which of its other acts."""
        chance = self.chance
        found: dict[int, list[Act]] = {}
        for table in self.tables:
            how = chance.choice(["", "", "in a writer's transaction"])
            statements = [self._enable(table)]
            if chance.random() < 0.5:
                every = chance.choice([0, 50, 150, 300, 60_000])
                statements.append(f"SELECT lakets.set_commit_interval('{table}', '{every} ms')")
            on = Act("sync", chance.randrange(SESSIONS), tuple(statements), how)
            first = chance.randint(0, 2 if chance.random() < 0.7 else length // 2)
            found.setdefault(first, []).append(on)
            if chance.random() < 0.35:
                off = replace(on, statements=(f"SELECT lakets.disable_sync('{table}')",), how="")
                at = chance.randint(first + 1, length - 1)
                if chance.random() < 0.5:  # in the middle of what the feed does
                    found.setdefault(at, []).append(replace(self._feed(), overlap=5))
                found.setdefault(at, []).append(off)
                found.setdefault(chance.randint(at, min(length - 1, at + 2)), []).append(replace(on, how=""))
            if chance.random() < 0.2:  # to the other mode and back, the latter at the end
                other = {"direct": "shadow", "shadow": "direct"}[self.modes[table]]
                switch = Act("sync", statements=(self._enable(table, other),))
                found.setdefault(chance.randint(first, length - 1), []).append(switch)
        for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
            crash = Act("crash", after=chance.choice([0, 0, 0.1]))
            before = [self._write(unflushed=True, how="commit")] if chance.random() < 0.5 else []
            found.setdefault(chance.randrange(length), []).extend([*before, crash])
        if chance.random() < 0.5:
            found.setdefault(chance.randint(length // 2, length - 1), []).append(Act("audit"))
        if chance.random() < 0.45:
            for acts in self._altered(chance.choice(self.tables)):
                for at, act in zip(sorted(chance.choices(range(length), k=len(acts))), acts, strict=True):
                    found.setdefault(at, []).append(act)
        return found

    def _altered(self, table: str) -> list[list[Act]]:
        """What the stream says nothing of, each thing in its order; some may not be possible when it comes to it."""
        chance, self.altered = self.chance, True
        columns = chance.choices(_ALTERED, k=chance.choice([0, 2, 3]))
        found = [[Act("alter", statements=(f"ALTER TABLE {table} {how}",)) for how in columns]]
        one = f"{{{table}{chance.randint(-BEFORE, 1):+d}}}"
        beside = f"INSERT INTO {one} SELECT ts, NULL, 3, 'beside' FROM {one} LIMIT 2"
        away = [f"ALTER TABLE {table} DETACH PARTITION {one}", beside, attached(table, one)]
        unlogged = [f"ALTER TABLE {one} SET UNLOGGED", beside, f"ALTER TABLE {one} SET LOGGED"]
        chunk = f"(SELECT relname FROM pg_class WHERE oid = to_regclass('{one}'))"
        anew = [f"SELECT lakets.resync('{table}', p_chunk_name => {chunk})", f"SELECT lakets.resync('{table}')"]
        for steps in chance.sample([away, unlogged, anew[:1], anew[1:]], k=chance.choice([0, 1, 1, 2])):
            if chance.random() < 0.5 or (columns and steps is away):  # who is away does not get other columns
                found.append([Act("alter", statements=tuple(steps))])  # no feed can see what was in between
            else:
                found.append([Act("alter", statements=(step,)) for step in steps])
        return found

    def _enable(self, table: str, mode: str | None = None) -> str:
        return enable(table, mode or self.modes[table])

    def _act(self) -> Act:
        dice = self.chance.random()
        if dice < 0.33:
            return self._feed()
        if dice < 0.41:
            return Act("end", self.chance.randrange(SESSIONS), how=self.chance.choice(["commit", "commit", "rollback"]))
        if dice < 0.46:
            return Act("hammer", how=self.chance.choice(self.tables), after=self.chance.uniform(0.05, 0.3))
        if dice < 0.49:
            return Act("checkpoint")
        return self._write()

    def _feed(self) -> Act:
        chance = self.chance
        mode = chance.choice(["drain", "drain", "drain", "steps", "turns", "tend", "serve", "serve", "serve"])
        overlap = chance.choice([0, 0, 1, 2, 4])
        dice = chance.random()
        self.feeds += 1
        if dice < 0.65:
            # Where it comes for sure once a table has been copied; before, where it comes then.
            likely = _CARRYING if self.feeds > 2 else ("copy.", "join.", "feed.", "lake.", "write.")
            points = [point for point in self.points if point.startswith(likely if chance.random() < 0.8 else "")]
            points = [point for point in points if not point.startswith(_NOT_IN.get(mode, ()))]
            nth = chance.choices([1, 2, 3, 6], [8, 2, 1, 1])[0]
            return Act("feed", how=mode, kill_at=f"{chance.choice(points or self.points)}:{nth}", overlap=overlap)
        if dice < 0.85:
            return Act("feed", how=mode, after=chance.uniform(0, 0.5), overlap=overlap)
        return Act("feed", how=mode, overlap=overlap)

    # ---- what writers do -----------------------------------------------------------------

    def _write(self, *, unflushed: bool = False, how: str | None = None) -> Act:
        chance = self.chance
        statements = ["SET LOCAL synchronous_commit = off"] if unflushed or chance.random() < 0.25 else []
        if chance.random() < 0.15:
            statements.insert(0, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for _ in range(chance.choice([1, 1, 2, 3])):
            statements += self._statements()
        how = how or chance.choices(["commit", "rollback", "open"], [6, 1, 4])[0]
        return Act("write", chance.randrange(SESSIONS), tuple(statements), how)

    def _statements(self) -> list[str]:
        chance = self.chance
        table = chance.choice(self.tables)
        if chance.random() < 0.1:
            inner = self._change(table) + self._change(chance.choice(self.tables))
            undone = chance.random() < 0.7
            return ["SAVEPOINT s", *inner, "ROLLBACK TO s" if undone else "RELEASE s"]
        return self._change(table)

    def _change(self, table: str) -> list[str]:
        chance = self.chance
        some = f"id % {(modulus := chance.randint(2, 9))} = {chance.randrange(modulus)}"
        twin = f"(SELECT tableoid, ctid FROM {table} WHERE id IS NULL AND ts >= {self._time()} LIMIT 1)"
        later, earlier = f"ts < {_moment(self.future)}", f"ts > {_moment(1 - self.past, 0)}"
        gone = f"WITH gone AS (DELETE FROM {table} WHERE {some} RETURNING *)"
        kinds = {
            "single": 4, "many": 3, "copy": 2, "twins": 2, "long": 1, "new chunk": 1,
            f"UPDATE {table} SET v = v + 1 WHERE {some}": 4,
            f"UPDATE {table} SET tag = nullif(tag, 'single'), v = -v WHERE {some}": 1,
            f"UPDATE {table} SET ts = ts + interval '1 day' WHERE {some} AND {later}": 2,
            f"UPDATE {table} SET ts = ts - interval '1 day' WHERE {some} AND {earlier}": 2,
            f"UPDATE {table} SET v = v + 1 WHERE (tableoid, ctid) = {twin}": 1,
            f"DELETE FROM {table} WHERE {some}": 2,
            f"DELETE FROM {table} WHERE (tableoid, ctid) = {twin}": 1,
            f"{gone} INSERT INTO {table} SELECT * FROM gone": 1,
            f"TRUNCATE {{{table}{chance.randint(-BEFORE, 1):+d}}}": 1.2,
            f"TRUNCATE {table}": 0.6,
            f"UPDATE {table} SET extra = id WHERE {some}": 0.5 if self.altered else 0,
        }  # fmt: skip
        kind = chance.choices(list(kinds), list(kinds.values()))[0]
        match kind:
            case "single":
                return [f"INSERT INTO {table} VALUES ({self._time()}, {self._ids(1)}, 0.1, 'single')"]
            case "many":
                return [self._insert_many(table, chance.randint(2, 40))]
            case "copy":
                return [f"COPY {table} {self._ids(COPIED)}"]
            case "twins":
                return [f"INSERT INTO {table} SELECT {self._time()}, NULL, 1, 'same' FROM generate_series(1, 3)"]
            case "long":
                return [f"INSERT INTO {table} SELECT {self._time()}, {self._ids(1)}, 1, {_LONG}"]
            case "new chunk":
                return self._new_chunk(table)
        return [kind]

    def _insert_many(self, table: str, count: int) -> str:
        first = self._ids(count)
        spread = (BEFORE + 2) * 24 / count
        return (
            f"INSERT INTO {table} SELECT {_moment(-BEFORE, 0.1)} + g * interval '{spread:.2f} hours', {first} + g, g,"
            f" 'many' FROM generate_series(0, {count - 1}) g"
        )

    def _new_chunk(self, table: str) -> list[str]:
        back = self.chance.random() < 0.5
        past, future = self.past + back, self.future + (not back)
        self.past, self.future = min(past, BEFORE + 2), min(future, AFTER + 2)
        place = _moment(-self.past if back else self.future)
        number = f"(SELECT id FROM lakets._chronotable_registry WHERE table_name = '{table}')"
        return [
            f"SELECT lakets._ensure_partitions({number}, {self.past}, {self.future})",
            f"INSERT INTO {table} VALUES ({place}, {self._ids(1)}, 2, 'new chunk')",
        ]

    def _time(self) -> str:
        return _moment(self.chance.randint(-BEFORE, 1), round(self.chance.uniform(0, 23), 2))

    def _ids(self, count: int) -> int:
        self.next_id += count
        return self.next_id - count


# What becomes of a column that is there now and then, and of those that always are.
_ALTERED = (
    *["ADD COLUMN extra int"] * 2,
    "ADD COLUMN extra int DEFAULT 7",
    "ADD COLUMN extra bigint DEFAULT 8",
    "DROP COLUMN extra",
    "RENAME extra TO more",
    "RENAME more TO extra",
    "ALTER extra TYPE bigint",
    "ALTER id TYPE bigint",
    "ALTER v TYPE float8 USING v + 0.5",
    "ALTER tag TYPE varchar",
)
_MOMENT = (
    "CREATE FUNCTION moment(day int, hours float8) RETURNS timestamptz LANGUAGE sql STABLE AS $$"
    " SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
    " + day * interval '1 day' + hours * interval '1 hour' $$"
)
# Long enough to be stored out of line, and not to be compressed away.
_LONG = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 200) g)"
