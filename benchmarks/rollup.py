"""RollUps: what a refresh, a late row, a fresh row and a read of the view cost; beside plain SQL and others' ways."""

from __future__ import annotations

import random
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import ground, rollup_growth, scratch
from benchmarks.frame import Report, Seconds, Times, interleave, progress, timed
from benchmarks.peers import bucketloop, timelake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PER_DAY = 8_640  # rows of a device: one every 10 s
_COLUMNS = "time timestamptz NOT NULL, device text NOT NULL, celsius float8"
_BUCKET = "lakets.time_bucket('1 minute', time)"
_VALUES = "sum(celsius) AS total, count(celsius) AS n, min(celsius) AS low, max(celsius) AS high"
_TIMES_OF_CALLS = 50  # of what takes no time, so that a turn can be measured
_SESSION = "-c timezone=UTC"
_UPKEEP = "VACUUM (ANALYZE) lakets._rollup_registry, lakets._rollup_invalidation_log"


def _query(table: str, where: str = "") -> str:
    return f"SELECT {_BUCKET} AS minute, device, {_VALUES} FROM {table} {where} GROUP BY 1, 2"


@dataclass(frozen=True)
class Site:
    """A database with our SQL installed, and how much is done in it."""

    dsn: str
    devices: int = 100
    days: int = 7
    fresh: int = 1_000_000
    """Rows of a COPY of fresh rows."""
    late: int = 1_000
    pending: int = 10_000
    rollups: int = 1_000
    rounds: int = 5

    @property
    def rows(self) -> int:
        """Of the table that is aggregated."""
        return self.devices * self.days * _PER_DAY

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; returns the rows of the last."""
        return ground.ask(self.dsn, *statements)

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        """One that stays open, so that what it has planned and loaded before is warm."""
        with psycopg.connect(self.dsn, autocommit=True, options=_SESSION) as session:
            yield session

    def make_table(self, name: str, since: str = "1 day") -> None:
        """An empty ChronoTable with chunks of a day and two indexes."""
        self.run(
            f"CREATE TABLE {name} ({_COLUMNS})",
            f"SELECT lakets.create_chronotable('{name}', 'time', '1 day')",
            f"SELECT lakets._ensure_partitions(id, 1, 3, now() - interval '{since}', now())"
            f" FROM lakets._chronotable_registry WHERE table_name = '{name}'",
            f"CREATE INDEX ON {name} (device, time)",
        )

    def fill(self, name: str, rows: int) -> None:
        """Every device, every 10 s, up to now, in the order of time: converted, so nothing of it is late."""
        self.run(
            f"CREATE TABLE {name} ({_COLUMNS})",
            f"INSERT INTO {name} SELECT date_bin('10 s', now(), '2000-01-01') - (i / {self.devices}) * interval '10 s',"
            f" 'd' || i % {self.devices}, 20 + sin(i) FROM generate_series({rows - 1}, 0, -1) i",
            f"SELECT lakets.create_chronotable('{name}', 'time', '1 day')",
            f"CREATE INDEX ON {name} (device, time)",
            f"VACUUM (ANALYZE) {name}",
            "CHECKPOINT",
        )

    def make_rollup(self, name: str, table: str) -> None:
        """One-minute buckets by device, refreshed whenever asked."""
        self.run(
            f"SELECT lakets.create_rollup('{name}', $${_query(table)}$$, '1 minute')",
            f"UPDATE lakets._rollup_registry SET refresh_lag = '0' WHERE name = '{name}'",
        )

    def blocks(self, rows: str) -> bytes:
        """What a query gives, as text for COPY."""
        asked = f"COPY ({rows}) TO STDOUT".encode()
        with psycopg.connect(self.dsn, options=_SESSION) as session, session.cursor().copy(asked) as copy:
            return b"".join(bytes(part) for part in copy)

    def copy(self, table: str, block: bytes) -> Seconds:
        """One COPY, one transaction; nothing else is left to be written when it begins."""
        self.run("CHECKPOINT")
        with self.session() as session:
            return Seconds(timed(lambda: _copy(session, table, block)))


def run() -> Report:
    """All parts on one server; BENCH_DEVICES, BENCH_FRESH and BENCH_ROLLUPS make them smaller while working at them."""
    report = Report("rollup")
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        dsn = home.facts_of_up()["dsn"]
        # Whose turn it is would be chance: what autovacuum does is done here, before the clock runs.
        ground.ask(dsn, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
        site = Site(
            dsn,
            devices=ground.size("BENCH_DEVICES", 100),
            fresh=ground.size("BENCH_FRESH", 1_000_000),
            rollups=ground.size("BENCH_ROLLUPS", 1_000),
            rounds=ground.size("BENCH_ROUNDS", 5),
        )
        measure(report, site)
        with report.part("timelake"):
            _timelake(report, site)
    return report


def measure(report: Report, on: Site) -> None:
    """All parts but the peer that has to be fetched; those on the large table come first."""
    with report.part("rows"):
        on.fill("readings", on.rows)
    with report.part("everything, and late rows"):
        _late_rows(report, on)
    with report.part("fresh rows"):
        _append(report, on)
    with report.part("nothing to do"):
        _nothing(report, on)
    with report.part("the view"):
        _view(report, on)
        report.check("differences from a full aggregation", _differences(on), "== 0")
        on.run("SELECT lakets.drop_chronotable('readings')")
    with report.part("growth"):
        rollup_growth.measure(report, on, _refresh, _call)
    with report.part("COPY of fresh rows"):
        _copy_fresh(report, on)
    with report.part("a late day"):
        _late_day(report, on)
    with report.part("many RollUps"):
        _many(report, on)


def _copy(session: psycopg.Connection, table: str, block: bytes) -> None:
    with session.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        copy.write(block)


def _call(session: psycopg.Connection, statement: str) -> Seconds:
    def ask() -> None:
        cursor = session.execute(statement.encode())
        if cursor.description:
            cursor.fetchall()

    return Seconds(timed(ask))


def _refresh(session: psycopg.Connection, name: str) -> Seconds:
    """It must have been done, not refused."""
    done: list[tuple[Any, ...]] = []
    took = timed(lambda: done.extend(session.execute("SELECT lakets.refresh_rollup(%s)", [name])))
    assert done == [(True,)], f"{name} was not refreshed"
    return Seconds(took)


# ---- the large table -------------------------------------------------------------------------


def _write_late(session: psycopg.Connection, on: Site, rows: int, seed: float | None = None) -> None:
    """At any moment, of any device, in one transaction; the same ones again with the same seed."""
    with session.transaction():
        session.execute("SELECT setseed(%s)", [random.random() if seed is None else seed])
        session.execute(
            "INSERT INTO readings SELECT date_bin('1 hour', now(), '2000-01-01') - random() * %s * interval '23 h',"
            " 'd' || floor(random() * %s), 20 + random() FROM generate_series(1, %s)",
            [on.days, on.devices, rows],
        )


def _late_rows(report: Report, on: Site) -> None:
    """Against the aggregate of everything, with its index: in turns, because both change with the machine's mood."""
    on.make_rollup("minutely", "readings")

    def everything() -> Seconds:
        on.run(f"DROP TABLE IF EXISTS {bucketloop.TABLE}", f"CREATE TABLE {bucketloop.TABLE} (LIKE _rollup_minutely)")
        on.run("CHECKPOINT")
        return Seconds(timed(partial(_by_hand, on)))

    def first() -> Seconds:
        on.run("CHECKPOINT")
        took = timed(lambda: on.make_rollup("again", "readings"))
        on.run("SELECT lakets.drop_rollup('again')")
        return Seconds(took)

    def late(session: psycopg.Connection, rows: int, *, warm: bool = False) -> Seconds:
        seed = random.random()
        session.execute(_UPKEEP)
        for _ in range(1 + warm):
            _write_late(session, on, rows, seed)
            took = _refresh(session, "minutely")
        return took

    def loop(session: psycopg.Connection) -> Seconds:
        with session.transaction():
            before = _newest_mark(session)
            _write_late(session, on, on.late)
            found = session.execute(
                "SELECT DISTINCT bucket_start FROM lakets._rollup_invalidation_log WHERE keys IS NOT NULL AND id > %s",
                [before],
            ).fetchall()
        took = Seconds(timed(lambda: bucketloop.refresh(session, [b for (b,) in found], _query("readings", "{where}"))))
        _refresh(session, "minutely")
        return took

    with on.session() as session:
        everything()
        late(session, on.late)
        many, one, by_hand = f"{on.late:,} late rows, refresh", "one late row, refresh", "INSERT ... SELECT, index"
        cold = f"{many}, cold"
        times = interleave(
            {
                by_hand: everything,
                "create_rollup": first,
                many: partial(late, session, on.late, warm=True),
                cold: partial(late, session, on.late),
                one: partial(late, session, 1),
                f"{one}, warm": partial(late, session, 1, warm=True),
                f"{on.late:,} late rows, a loop": partial(loop, session),
            },
            on.rounds,
        )
    notes = {
        by_hand: f"the same aggregate of {on.rows:,} rows",
        many: "after others of the same minutes and devices",
        f"{one}, warm": "after another of the same minute and device",
        f"{on.late:,} late rows, a loop": bucketloop.NOTE,
    }
    for name, found in times.items():
        report.show_times(name, found, notes.get(name, ""))
    whole = times[by_hand].median
    report.check(f"everything / {on.late:,} late rows", whole / times[many].median, ">= 60")
    report.check("everything / one late row", whole / times[one].median, ">= 300")
    report.check("create_rollup / everything", times["create_rollup"].median / whole, "<= 1.15")


def _by_hand(on: Site) -> None:
    """In one transaction and without JIT, as the function is."""
    with psycopg.connect(on.dsn, options=f"{_SESSION} -c jit=off") as session:
        session.execute(f"INSERT INTO {bucketloop.TABLE} {_query('readings')}".encode())
        session.execute(f"CREATE UNIQUE INDEX ON {bucketloop.TABLE} (minute, device)".encode())


def _newest_mark(session: psycopg.Connection) -> int:
    (newest,) = session.execute("SELECT coalesce(max(id), 0) FROM lakets._rollup_invalidation_log").fetchone() or (0,)
    return int(newest)


def _append(report: Report, on: Site) -> None:
    """An hour of every device. What comes is fresh; it is deleted again, so that every turn finds the same."""
    hour = on.blocks(
        "SELECT now() + i * interval '10 s', 'd' || d, 20 + sin(i) FROM generate_series(1, 360) i,"
        f" generate_series(0, {on.devices - 1}) d ORDER BY i"
    )

    def reset(session: psycopg.Connection) -> None:
        session.execute("DELETE FROM readings WHERE time > now()")
        _refresh(session, "minutely")
        session.execute("VACUUM readings")
        session.execute("VACUUM _rollup_minutely")

    def append(session: psycopg.Connection) -> Seconds:
        reset(session)
        return Seconds(timed(lambda: _copy(session, "readings", hour)))

    def refresh(session: psycopg.Connection) -> Seconds:
        append(session)
        return _refresh(session, "minutely")

    with on.session() as session:
        rows = f"{360 * on.devices:,} fresh rows"
        times = interleave({"append": partial(append, session), "refresh": partial(refresh, session)}, on.rounds)
        reset(session)
    report.show_times(f"{rows}, COPY", times["append"], "two indexes")
    report.show_times(f"{rows}, refresh", times["refresh"])
    report.check("refresh of fresh rows / their append", times["refresh"].median / times["append"].median, "<= 0.5")


def _nothing(report: Report, on: Site) -> None:
    def calls(session: psycopg.Connection, statement: str) -> Seconds:
        return Seconds(timed(lambda: [_call(session, statement) for _ in range(_TIMES_OF_CALLS)]) / _TIMES_OF_CALLS)

    def after_a_write(session: psycopg.Connection) -> Seconds:
        session.execute("INSERT INTO unrelated VALUES (1)")
        return _refresh(session, "minutely")

    with on.session() as session:
        _refresh(session, "minutely")
        asked = {"SELECT 1": "SELECT 1", "nothing to refresh": "SELECT lakets.refresh_rollup('minutely')"}
        times = interleave({name: partial(calls, session, said) for name, said in asked.items()}, 3 * on.rounds)
        session.execute("CREATE TABLE unrelated (n int)")
        written = interleave({"refresh": partial(after_a_write, session)}, 3 * on.rounds)["refresh"]
        session.execute("DROP TABLE unrelated")
    for name, found in times.items():
        report.show(name, found.median * 1000, "ms", "nobody has written since the last refresh" * (name != "SELECT 1"))
    report.show("refresh after one write", written.median * 1000, "ms", "to another table, so nothing of it is new")
    ratio = times["nothing to refresh"].median / times["SELECT 1"].median
    report.check("nothing to refresh / SELECT 1", ratio, "<= 20")


# ---- the view --------------------------------------------------------------------------------


def _view(report: Report, on: Site) -> None:
    """All rows of it, read to the end and thrown away by the server; and added up there, without a bound."""
    on.run("SELECT lakets.create_rollup_view('minutely', NULL)")
    relations = {"view": "_rollup_rt_minutely", "table": "_rollup_minutely"}
    read, added = "COPY (SELECT * FROM {}) TO '/dev/null'", "SELECT count(*), sum(total), max(high) FROM {}"
    with on.session() as session:
        _refresh(session, "minutely")
        session.execute("VACUUM (ANALYZE) _rollup_minutely")
        session.execute("VACUUM (ANALYZE) readings")
        for pending, bound in ((0, "<= 1.5"), (on.pending // 100, "<= 1.7"), (on.pending, "<= 2.5")):
            there = _pending(session)
            while there < pending:
                _write_late(session, on, min(pending - there, 1_000))
                there = _pending(session)
            session.execute(_UPKEEP)
            what = f"{pending:,} keys pending"
            asked = {f"{name} {how}": said.format(relation) for how, said in (("read", read), ("added up", added))
                     for name, relation in relations.items()}  # fmt: skip
            for said in asked.values():
                _call(session, said)
            times = interleave({name: partial(_call, session, said) for name, said in asked.items()}, on.rounds)
            for name, found in times.items():
                report.show_times(f"{name}, {what}", found)
            report.check(f"view / table, {what}", times["view read"].median / times["table read"].median, bound)


def _pending(session: psycopg.Connection) -> int:
    found = session.execute(
        "SELECT count(*) FROM lakets._rollup_registry g, lakets._rollup_pending(g.id) WHERE g.name = 'minutely'"
    )
    (pending,) = found.fetchone() or (0,)
    return int(pending)


def _differences(on: Site) -> int:
    """Sums of floats depend on the order of their rows; the rest is compared as it is."""
    exact = "minute, device, n, low, high"
    shown, computed = f"SELECT {exact} FROM _rollup_rt_minutely", f"SELECT {exact} FROM ({_query('readings')}) q"
    ((found,),) = on.run(
        f"SELECT count(*) FROM (({shown} EXCEPT ALL {computed}) UNION ALL ({computed} EXCEPT ALL {shown})) d"
    )
    return int(found)


# ---- writes ----------------------------------------------------------------------------------


def _untracked(on: Site, table: str) -> None:
    """As it would be without RollUps in the world."""
    for (name,) in on.run(f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{table}'::regclass AND tgname ~ 'rollup'"):
        on.run(f"DROP TRIGGER {name} ON {table}")


def _copy_fresh(report: Report, on: Site) -> None:
    """Of the day to come, so fresh whenever they are written."""
    block = on.blocks(
        f"SELECT now() + i * interval '1 day' / {on.fresh}, 'd' || i % {on.devices}, 20 + sin(i)"
        f" FROM generate_series(1, {on.fresh}) i"
    )
    tables = {"none": 0, "one": 1, "five": 5}
    for table, rollups in tables.items():
        on.make_table(table)
        for number in range(rollups):
            on.make_rollup(f"{table}_{number}", table)
    _untracked(on, "none")

    def write(table: str) -> Seconds:
        on.run("TRUNCATE none, one, five")
        return on.copy(table, block)

    for table in tables:
        write(table)
    times = interleave({table: partial(write, table) for table in tables}, on.rounds + 2)
    for table, found in times.items():
        note = f"{on.fresh / found.median:,.0f} rows/s, two indexes" + ", no triggers" * (table == "none")
        report.show_times(f"COPY of {on.fresh:,} fresh rows, {table}", found, note)
    for table, bound in (("one", ">= 0.95"), ("five", ">= 0.93")):
        report.check(f"COPY, none / {table}", times["none"].median / times[table].median, bound)
    for table in tables:
        on.run(f"SELECT lakets.drop_chronotable('{table}')")


def _late_day(report: Report, on: Site) -> None:
    """A whole day that comes two days late, into a table that has none of it and a RollUp that is beyond it."""
    tables = ("tracked", "untracked")
    for table in tables:
        on.make_table(table, since="3 days")
        on.run(f"INSERT INTO {table} SELECT now() - i * interval '1 minute', 'd0', i FROM generate_series(1, 30) i")
    on.make_rollup("late_day", "tracked")
    on.run(
        "CREATE TABLE by_hand (LIKE _rollup_late_day)",
        "CREATE UNIQUE INDEX ON by_hand (minute, device)",
    )
    _untracked(on, "untracked")
    day = "date_bin('1 day', now(), '2000-01-01') - interval '2 days'"
    within = f"time >= {day} AND time < {day} + interval '1 day'"
    name = f"SELECT chunk_name FROM lakets.show_chunks('{{}}') WHERE range_start = {day}"
    chunks = ", ".join(on.run(name.format(table))[0][0] for table in tables)
    rows = f"SELECT {day} + i * interval '10 s' AS t, 'd' || d AS v, 20 + sin(i) FROM" + (
        f" generate_series(0, {_PER_DAY - 1}) i, generate_series(0, {on.devices - 1}) d ORDER BY "
    )
    blocks = {"time": on.blocks(f"{rows} t, v"), "device": on.blocks(f"{rows} v, t")}

    def write(session: psycopg.Connection, table: str, order: str) -> Seconds:
        session.execute(f"TRUNCATE {chunks}".encode())
        session.execute("DELETE FROM by_hand")
        _refresh(session, "late_day")
        session.execute("VACUUM by_hand, _rollup_late_day")
        session.execute(_UPKEEP)
        return on.copy(table, blocks[order])

    def refresh(session: psycopg.Connection) -> Seconds:
        write(session, "tracked", "time")
        return _refresh(session, "late_day")

    def by_hand(session: psycopg.Connection) -> Seconds:
        write(session, "tracked", "time")
        return Seconds(timed(lambda: replace(session)))

    def replace(session: psycopg.Connection) -> None:
        with session.transaction():
            session.execute("SET LOCAL jit = off")  # as in a refresh
            session.execute(f"DELETE FROM by_hand WHERE minute >= {day} AND minute < {day} + interval '1 day'".encode())
            session.execute(f"INSERT INTO by_hand {_query('tracked', f'WHERE {within}')}".encode())

    with on.session() as session:
        contenders: dict[str, Callable[[], Seconds]] = {
            f"{table}, ordered by {order}": partial(write, session, table, order)
            for order in blocks
            for table in tables
        }
        contenders |= {"refresh": partial(refresh, session), "DELETE and INSERT": partial(by_hand, session)}
        times = interleave(contenders, on.rounds + 2)
    count = _PER_DAY * on.devices
    for name, found in times.items():
        what = "COPY of " if "ordered" in name else ""
        report.show_times(f"{what}a late day of {count:,} rows, {name}", found)
    for order, bound in (("time", "<= 1.3"), ("device", "<= 1.6")):
        ratio = times[f"tracked, ordered by {order}"].median / times[f"untracked, ordered by {order}"].median
        report.check(f"late day by {order}, tracked / untracked", ratio, bound)
    ratio = times["refresh"].median / times["DELETE and INSERT"].median
    report.check("refresh of a late day / DELETE and INSERT", ratio, "<= 1.2")
    on.run("DROP TABLE by_hand", *(f"SELECT lakets.drop_chronotable('{table}')" for table in tables))


# ---- many ------------------------------------------------------------------------------------


def _many(report: Report, on: Site) -> None:
    on.make_table("busy")
    on.run("INSERT INTO busy SELECT now() - i * interval '10 s', 'd' || i % 10, i FROM generate_series(1, 1000) i")
    progress(f"  making {on.rollups:,} RollUps ...")
    with on.session() as session:
        for number in range(on.rollups):
            session.execute("SELECT lakets.create_rollup(%s, %s, '1 minute')", [f"many_{number}", _query("busy")])
        session.execute("UPDATE lakets._rollup_registry SET refresh_lag = '0'")
        cascade = "SELECT count(*), bool_and(refreshed) FROM lakets.refresh_rollup_cascade()"
        first = _call(session, cascade)
        session.execute(_UPKEEP)
        _call(session, cascade)
        times = interleave({"cascade": partial(_call, session, cascade)}, on.rounds)["cascade"]
        assert session.execute(cascade.encode()).fetchall() == [(on.rollups, True)]
    report.show(f"{on.rollups:,} RollUps, first cascade", first, "s", "each computes its newest buckets")
    report.show_times(f"{on.rollups:,} RollUps, nothing dirty", times)
    report.check(f"cascade of {on.rollups:,} RollUps, nothing dirty", times.median, "< 1 s")


# ---- a peer of another kind ------------------------------------------------------------------


def _timelake(report: Report, on: Site) -> None:
    """The same rows and the same aggregate; no bound, it is no database. Where it cannot be had, it is left out."""
    try:
        timelake.prepare()
    except subprocess.CalledProcessError as error:
        progress(f"rollup: timelake is left out, it cannot be installed: {error}")
        return
    with scratch.folder() as folder:
        found = timelake.measure(folder, on.devices, on.days, on.late, on.rounds)
    for name, seconds in found.items():
        report.show_times(f"timelake: {name}", Times(tuple(seconds)), timelake.NOTE)
