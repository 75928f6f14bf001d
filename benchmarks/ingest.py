"""The hot tier's numbers: writes, JSON, conversion, buckets, first and last, many chunks; beside plain PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import ground, scratch
from benchmarks.frame import Report, Seconds, Times, interleave, progress, timed
from benchmarks.ground import COLUMNS, PER_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_DAYS = 30
_PER_STATEMENT = 1_000
_OBJECTS = 10_000
_ROWS_PER_BATCH = 500_000  # of those that are read: ten batches at full size
_CHUNKS_AT_ONCE = 500
_NAMES = "ts, sensor, v1, v2, n, tag"
_TYPED = COLUMNS.replace(" NOT NULL", "")
_ROW = """
    now() + {first} * interval '1 day' + i * ({days} * interval '1 day' / {rows}) AS ts, i % 1000 AS sensor,
    i * 0.37 AS v1, sin(i) AS v2, (i % 100)::int4 AS n, 'tag' || lpad((i % 1000)::text, 3, '0') AS tag
"""
# Rows of the day to come are fresh, whenever it is that they are written; those of the day before are late.
_FRESH, _LATE = 0, -1
_BOUNDS = "SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"


@dataclass(frozen=True)
class Hot:
    """A database with our SQL installed, and how much is done in it."""

    dsn: str
    rows: int = 5_000_000
    """Rows of the tables that are read and converted; writes are of a part of them."""
    chunks: int = 5_000
    rounds: int = 31
    """Turns of what is quick; the rest takes a sixth of them."""

    @property
    def few_rounds(self) -> int:
        """Turns of what takes long."""
        return -(-self.rounds // 6)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; returns the rows of the last."""
        return ground.ask(self.dsn, *statements)

    def make_table(self, name: str, interval: str = "1 day") -> None:
        """An empty ChronoTable with a tiering policy and the chunks around now."""
        self.run(
            f"CREATE TABLE {name} ({COLUMNS})",
            f"SELECT lakets.create_chronotable('{name}', 'ts', '{interval}')",
            f"SELECT lakets.add_tiering_policy('{name}', '7 days')",
        )

    def make_by_hand(self, name: str, like: str) -> None:
        """A native partitioned table with the columns and partitions of a ChronoTable, and no index yet."""
        bounds = self.run(f"{_BOUNDS} WHERE i.inhparent = '{like}'::regclass ORDER BY 1")
        self.run(
            f"CREATE TABLE {name} ({COLUMNS}) PARTITION BY RANGE (ts)",
            *(f"CREATE TABLE {name}_{i} PARTITION OF {name} {bound}" for i, (bound,) in enumerate(bounds)),
        )

    def make_pair(self) -> tuple[str, str]:
        """The two to write into: a ChronoTable, and the same by hand."""
        self.make_table("ours")
        self.make_by_hand("by_hand", "ours")
        self.run("CREATE INDEX ON by_hand (ts)")
        return "ours", "by_hand"

    def drop_pair(self) -> None:
        self.run("SELECT lakets.drop_chronotable('ours')", "DROP TABLE by_hand")


def run() -> Report:
    """All parts on one server; BENCH_ROWS and BENCH_CHUNKS make them smaller while they are worked at."""
    report = Report("ingest")
    with scratch.folder() as folder, scratch.stopped_afterwards(folder / "home") as home:
        dsn = home.facts_of_up()["dsn"]
        # Whose turn it is would be chance: what autovacuum does is done here, before the clock runs.
        ground.ask(dsn, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
        measure(report, Hot(dsn, ground.size("BENCH_ROWS", 5_000_000), ground.size("BENCH_CHUNKS", 5_000)))
    return report


def measure(report: Report, on: Hot) -> None:
    """All parts, each on tables of its own."""
    with report.part("writes"):
        _writes(report, on)
    with report.part("JSON"):
        _json(report, on)
    with report.part("conversion"):
        _conversion(report, on)
    with report.part("reads"):
        on.run(*_filled(on, "readings"), "SELECT lakets.create_chronotable('readings', 'ts', '1 day')")
        on.run("VACUUM (ANALYZE) readings", "CHECKPOINT")
        _buckets(report, on)
        _first_and_last(report, on)
    with report.part("many chunks"):
        _many_chunks(report, on)


def _filled(on: Hot, name: str) -> list[str]:
    """Statements that make a plain table of rows over the last days, in their order."""
    row = _ROW.format(first=-_DAYS, days=_DAYS, rows=on.rows)
    return [
        f"CREATE TABLE {name} ({COLUMNS})",
        f"INSERT INTO {name} SELECT {row} FROM generate_series(1, {on.rows}) i",
        f"VACUUM (ANALYZE) {name}",
    ]


def _beside(report: Report, what: str, times: Mapping[str, Times], rows: int, notes: Mapping[str, str]) -> None:
    for name, found in times.items():
        rate = f"{rows / found.median:,.0f} rows/s"
        report.show_times(f"{what}: {name}", found, "; ".join(filter(None, [rate, notes.get(name, "")])))


# ---- writes ----------------------------------------------------------------------------------


def _writes(report: Report, on: Hot) -> None:
    """By COPY, and by INSERT of a thousand rows a statement; 10,000 rows a transaction in both.

    At the end beside an index that goes downwards, as many have it.
    """
    ours, by_hand = on.make_pair()
    many, some = on.rows // 10, on.rows // 50

    def beside(
        what: str, write: Callable[[str], Seconds], rows: int, rounds: int, index: str = "the same index"
    ) -> float:
        contenders = {"ChronoTable": partial(write, ours), "by hand": partial(write, by_hand)}
        times = _in_turns(on, contenders, rounds)
        _beside(report, f"{what}, {rows:,} rows", times, rows, {"by hand": f"native partitions, {index}"})
        return times["by hand"].over(times["ChronoTable"])

    ratio = beside("COPY", _copy(on, many, _FRESH), many, 2 * on.rounds)
    report.check("COPY, ChronoTable / by hand", ratio, ">= 0.95")
    ratio = beside("INSERT", _insert(on, some), some, on.rounds)
    report.check("INSERT, ChronoTable / by hand", ratio, ">= 0.95")
    beside("COPY of late rows", _copy(on, some, _LATE), some, on.few_rounds)
    on.run("DROP INDEX by_hand_ts_idx", "CREATE INDEX ON by_hand (ts DESC)")
    ratio = beside("COPY beside DESC", _copy(on, many, _FRESH), many, on.few_rounds, "index on ts DESC")
    report.show("COPY, ChronoTable / by hand, index on ts DESC", ratio)
    on.drop_pair()


def _in_turns(on: Hot, contenders: Mapping[str, Callable[[], Seconds]], rounds: int) -> dict[str, Times]:
    """Each begins with empty tables and nothing left to be written; a first round of all does not count."""

    def alone(contender: Callable[[], Seconds]) -> Seconds:
        on.run("TRUNCATE ours, by_hand", "CHECKPOINT")
        return contender()

    called = {name: partial(alone, contender) for name, contender in contenders.items()}
    for call in called.values():
        call()
    return interleave(called, rounds)


def _copy(on: Hot, rows: int, first: int) -> Callable[[str], Seconds]:
    blocks = list(_blocks(on, rows, first))

    def write(table: str) -> Seconds:
        with psycopg.connect(on.dsn) as session:
            return Seconds(timed(lambda: _copy_blocks(session, table, blocks)))

    return write


def _copy_blocks(session: psycopg.Connection, table: str, blocks: list[bytes]) -> None:
    for block in blocks:
        with session.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
            copy.write(block)
        session.commit()


def _blocks(on: Hot, rows: int, first: int) -> Iterator[bytes]:
    """Rows of a day as text for COPY, one block for each transaction."""
    row = _ROW.format(first=first, days=1, rows=rows)
    with psycopg.connect(on.dsn) as session:
        for begin in range(1, rows + 1, PER_TRANSACTION):
            last = min(begin + PER_TRANSACTION - 1, rows)
            ask = f"COPY (SELECT {row} FROM generate_series({begin}, {last}) i) TO STDOUT"
            with session.cursor().copy(ask.encode()) as copy:
                yield b"".join(bytes(part) for part in copy)


def _insert(on: Hot, rows: int) -> Callable[[str], Seconds]:
    """Statements with their values written out, as most clients send them."""
    row = _ROW.format(first=_FRESH, days=1, rows=rows)
    values = on.run(
        "SELECT string_agg(format('(%L, %s, %s, %s, %s, %L)', ts, sensor, v1, v2, n, tag), ', ')"
        f" FROM (SELECT i, {row} FROM generate_series(1, {rows}) i) r"
        f" GROUP BY (i - 1) / {_PER_STATEMENT} ORDER BY (i - 1) / {_PER_STATEMENT}"
    )

    def write(table: str) -> Seconds:
        statements = [f"INSERT INTO {table} VALUES {listed}".encode() for (listed,) in values]
        with psycopg.connect(on.dsn) as session:
            return Seconds(timed(lambda: _insert_statements(session, statements)))

    return write


def _insert_statements(session: psycopg.Connection, statements: list[bytes]) -> None:
    for number, statement in enumerate(statements, 1):
        session.execute(statement)
        if number % (PER_TRANSACTION // _PER_STATEMENT) == 0:
            session.commit()


# ---- JSON ------------------------------------------------------------------------------------


def _json(report: Report, on: Hot) -> None:
    """The same objects into the same table, through the function and through the statement one would write instead."""
    on.make_pair()
    batches = max(1, on.rows // _ROWS_PER_BATCH)
    row = _ROW.format(first=_FRESH, days=1, rows=_OBJECTS)
    ((objects,),) = on.run(
        f"SELECT json_agg(r)::text FROM (SELECT {row} FROM generate_series(1, {_OBJECTS}) i) r",
    )

    def write(statement: str) -> Seconds:
        with psycopg.connect(on.dsn) as session:
            return Seconds(timed(lambda: _write_batches(session, statement.encode(), [objects] * batches)))

    records = f"jsonb_to_recordset(%s::jsonb) AS r ({_TYPED})"
    times = _in_turns(
        on,
        {
            "ingest_batch": partial(write, "SELECT lakets.ingest_batch('ours', %s::jsonb)"),
            "by hand": partial(write, f"INSERT INTO ours ({_NAMES}) SELECT {_NAMES} FROM {records}"),
        },
        on.rounds,
    )
    what = f"{batches} batches of {_OBJECTS:,} objects"
    _beside(report, what, times, batches * _OBJECTS, {"by hand": "INSERT ... SELECT FROM jsonb_to_recordset"})
    report.check("ingest_batch / by hand", times["by hand"].over(times["ingest_batch"]), ">= 0.9")
    on.drop_pair()


def _write_batches(session: psycopg.Connection, statement: bytes, batches: list[str]) -> None:
    for objects in batches:
        session.execute(statement, [objects])
        session.commit()


# ---- conversion ------------------------------------------------------------------------------


def _conversion(report: Report, on: Hot) -> None:
    """Each turn converts a fresh copy. The table by hand and its partitions are there before the clock runs."""
    on.run(*_filled(on, "source"), "CREATE TABLE first_made (LIKE source INCLUDING ALL)")
    on.run("INSERT INTO first_made TABLE source", "SELECT lakets.create_chronotable('first_made', 'ts', '1 day')")

    def fresh() -> None:
        on.run("CREATE TABLE plain (LIKE source INCLUDING ALL)", "INSERT INTO plain TABLE source")
        on.run("VACUUM (ANALYZE) plain", "CHECKPOINT")

    analyses: list[float] = []

    def ours() -> Seconds:
        fresh()
        took = timed(lambda: on.run("SELECT lakets.create_chronotable('plain', 'ts', '1 day')"))
        on.run("SELECT lakets.drop_chronotable('plain')")
        return Seconds(took)

    def by_hand() -> Seconds:
        fresh()
        on.make_by_hand("parted", "first_made")
        took, analysed = _fill_by_hand(on)
        analyses.append(analysed)
        on.run("DROP TABLE parted, plain")
        return Seconds(took)

    times = interleave({"create_chronotable": ours, "by hand": by_hand}, on.few_rounds)
    notes = {
        "create_chronotable": "with ANALYZE",
        "by hand": "INSERT ... SELECT into partitions made before, then index",
    }
    whole, by_hand_only, analysis = times["create_chronotable"], times["by hand"], Times(tuple(analyses))
    what = f"conversion of {on.rows:,} rows"
    _beside(report, what, times, on.rows, notes)
    report.show_times(f"{what}: ANALYZE by hand", analysis, "in the same transaction, right after")
    rounds = list(zip(whole.seconds, by_hand_only.seconds, analysis.seconds, strict=True))
    both = Times(tuple(hand + analysed for _, hand, analysed in rounds))
    report.show(f"{what}: ratio, ANALYZE on both sides", whole.over(both))
    report.show(f"{what}: ratio, ANALYZE on our side only", whole.over(by_hand_only))
    # The function cannot be asked to leave ANALYZE out: what it takes by hand on the same rows is taken off.
    without = Times(tuple(all_of_it - analysed for all_of_it, _, analysed in rounds))
    report.check("create_chronotable / by hand", without.over(by_hand_only), "<= 1.2")
    on.run("SELECT lakets.drop_chronotable('first_made')", "DROP TABLE source")


def _fill_by_hand(on: Hot) -> tuple[float, float]:
    """In one transaction, as the function is; returns what rows, index and commit took, and what ANALYZE took."""
    analysed = 0.0

    def fill() -> None:
        nonlocal analysed
        with psycopg.connect(on.dsn) as session:
            session.execute("INSERT INTO parted SELECT * FROM plain")
            session.execute("CREATE INDEX ON parted (ts)")
            analysed = timed(lambda: session.execute("ANALYZE parted"))

    took = timed(fill)
    return took - analysed, analysed


# ---- reads -----------------------------------------------------------------------------------


def _buckets(report: Report, on: Hot) -> None:
    def grouped(bucket: str) -> Callable[[], Seconds]:
        return partial(_asked, on, f"SELECT {bucket}, count(*) FROM readings GROUP BY 1")

    contenders = {
        "time_bucket": grouped("lakets.time_bucket('1 hour', ts)"),
        "date_bin": grouped("date_bin('1 hour', ts, '2000-01-01 00:00:00+00')"),
    }
    for call in contenders.values():
        call()
    times = interleave(contenders, on.rounds)
    _beside(report, f"hours of {on.rows:,} rows", times, on.rows, {})
    report.check("time_bucket / date_bin", times["time_bucket"].over(times["date_bin"]), "<= 1.1")


def _first_and_last(report: Report, on: Hot) -> None:
    """By sensor, beside an aggregate that does less and a query that answers the same."""
    statements = {
        "first": "SELECT sensor, lakets.first(v1, ts) FROM readings GROUP BY sensor",
        "min": "SELECT sensor, min(v1) FROM readings GROUP BY sensor",
        "DISTINCT ON, earliest": "SELECT DISTINCT ON (sensor) sensor, v1 FROM readings ORDER BY sensor, ts",
        "last": "SELECT sensor, lakets.last(v1, ts) FROM readings GROUP BY sensor",
        "max": "SELECT sensor, max(v1) FROM readings GROUP BY sensor",
        "DISTINCT ON, latest": "SELECT DISTINCT ON (sensor) sensor, v1 FROM readings ORDER BY sensor, ts DESC",
    }
    for ours, other in (("first", "DISTINCT ON, earliest"), ("last", "DISTINCT ON, latest")):
        found, expected = sorted(on.run(statements[ours])), sorted(on.run(statements[other]))
        assert found == expected, f"{ours} and {other} do not agree"
    asked = {name: partial(_asked, on, statement) for name, statement in statements.items()}
    times = interleave(asked, on.few_rounds)
    workers = {name: _workers(on, statements[name]) for name in ("first", "last")}
    notes = {name: f"{count} parallel workers beside the leader" for name, count in workers.items()}
    _beside(report, f"1,000 sensors of {on.rows:,} rows", times, on.rows, notes)
    for name, count in workers.items():
        report.check(f"parallel workers of {name}", count, ">= 1")


def _asked(on: Hot, statement: str) -> Seconds:
    with psycopg.connect(on.dsn, autocommit=True) as session:
        return _answer(session, statement)


def _answer(session: psycopg.Connection, statement: str) -> Seconds:
    return Seconds(timed(lambda: session.execute(statement.encode()).fetchall()))


def _workers(on: Hot, statement: str) -> int:
    """How many workers a Gather really had that aggregated their part of the rows themselves."""
    ((found,),) = on.run(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}")
    return max(
        (
            node["Workers Launched"]
            for node in _nodes(found[0]["Plan"])
            if node["Node Type"].startswith("Gather")
            and any(below.get("Partial Mode") == "Partial" for below in _nodes(node))
        ),
        default=0,
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


# ---- many chunks -----------------------------------------------------------------------------


def _many_chunks(report: Report, on: Hot) -> None:
    """Chunks of an hour with a row each, back from now; those older than the policy's week count as tiered."""
    on.make_table("many", "1 hour")
    progress(f"  making {on.chunks:,} chunks ...")
    ((there,),) = on.run("SELECT count(*) FROM lakets.show_chunks('many')")
    made = timed(lambda: _make_chunks(on, on.chunks - there))
    ((count,),) = on.run(
        "INSERT INTO many (ts, sensor) SELECT range_start, 1 FROM lakets.show_chunks('many')",
        "UPDATE lakets._chunk_metadata SET status = 'tiered' WHERE range_end < now() - interval '7 days'",
        "ANALYZE lakets._chunk_metadata, pg_class",
        "SELECT count(*) FROM lakets.show_chunks('many')",
    )
    assert count >= on.chunks, f"{count} of {on.chunks} chunks are there"
    report.show(f"a chunk made, of {on.chunks:,}", made / max(1, on.chunks - there) * 1000, "ms")
    for name in ("show_chunks", "show_tiering_status"):
        statement = f"SELECT * FROM lakets.{name}('many')"
        with psycopg.connect(on.dsn, autocommit=True) as session:
            _answer(session, statement)
            contenders = {"known": partial(_answer, session, statement), "new": partial(_asked, on, statement)}
            times = interleave(contenders, on.rounds)
        report.show_times(f"{name} of {count:,} chunks", times["known"], "in a session that has asked before")
        report.show_times(f"{name} of {count:,} chunks, first", times["new"], "in a session that has not")
        report.check(f"{name} of many chunks", times["known"].median * 1000, "< 150 ms")
    took = timed(lambda: on.run("SELECT lakets.drop_chronotable('many')"))
    report.show(f"drop_chronotable of {count:,} chunks", took, "s")
    ((left,),) = on.run(r"SELECT count(*) FROM pg_class WHERE relname LIKE '%many%'")
    ((registered,),) = on.run("SELECT count(*) FROM lakets._chronotable_registry WHERE table_name = 'many'")
    report.check("relations left by drop_chronotable", left + registered, "== 0")


def _make_chunks(on: Hot, count: int) -> None:
    """Back from the oldest, some hundred in a transaction: each keeps its locks until then."""
    for begin in range(0, count, _CHUNKS_AT_ONCE):
        some = min(_CHUNKS_AT_ONCE, count - begin)
        on.run(
            "SELECT lakets._ensure_partitions(r.id, 1, 3, min(m.range_start) - interval '1 hour' * "
            f"{some}) FROM lakets._chronotable_registry r JOIN lakets._chunk_metadata m ON m.chronotable_id = r.id"
            " WHERE r.table_name = 'many' GROUP BY r.id",
        )
