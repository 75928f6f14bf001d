"""RollUps computed anew from both tiers: a plan with reasons, and its carrying out, some buckets at a time.

A bucket is as of one moment. What was written after it stays marked, so it is seen to the next time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql as pgsql

from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.recompute.aggregates import DIGITS
from thermocline.recompute.expressions import NotOnSpark
from thermocline.recompute.question import Definition, split
from thermocline.recompute.spark_sql import MOST_DIGITS, OVERFLOW, Kind, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg import Connection
    from pyspark.sql import DataFrame

    from thermocline.reads.across import Reader
    from thermocline.recompute.question import Question

# Buckets that are computed and replaced together, in one transaction.
_AT_ONCE = 20_000
_ATTEMPTS = 3
_ANSWER = "pg_temp.thermocline_answer"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = {"int2", "int4", "int8", "float4", "float8", "bool", "date", "timestamp", "timestamptz", "uuid", "text",
          "enum", "bytea"}  # fmt: skip
# Types of which the lake cannot hold every value.
_BOUNDED = ("numeric", "date", "timestamp", "timestamptz")

REASONS = {
    "incomplete": "rows had left PostgreSQL before it was whole",
    "changed": "something in it has changed since it was computed",
    "frozen": "rows of it have left PostgreSQL",
    "source_recomputed": "what it is made from is computed anew",
    "rows_lost": "rows of it were dropped while nothing streamed: they are in no tier",
    "chunk_hidden": "a chunk of it was detached or dropped by other means",
    "not_synced": "its table is not synced any more, so it is not known where in the lake its rows are",
    "feed_behind": "rows of it were dropped by force and are still on their way to the lake",
    "not_over": "it is not over yet, or a transaction is open that may write to it",
}
_NEXT_STEPS = {
    "rows_lost": "Nothing can be done: what is stored of it stays.",
    "chunk_hidden": "`thermocline maintain` says which; attach it again.",
    "not_synced": "SELECT lakets.enable_sync(...) of the table; its history in the lake is found again.",
    "feed_behind": "Run the feed; `thermocline feed status` says how far it is.",
    "not_over": "Wait. `thermocline rollup show` names the transaction that holds it, if there is one.",
}


class NothingToRecompute(Refused):
    """No bucket there can be recomputed."""

    code = "rollup.nothing_to_recompute"
    next_step_by_default = (
        "`thermocline rollup show` lists frozen and incomplete buckets; a refresh sees to all others."
    )


class NotExact(Refused):
    """A value is beyond what can be computed exactly on Spark."""

    code = "rollup.not_exact"
    next_step_by_default = "Nothing was changed. Recompute a shorter range without it, or correct the rows."


@dataclass(frozen=True)
class Line:
    """Some buckets in a row, and what is to be done with them and why."""

    rollup: str
    start: datetime
    end: datetime
    buckets: int
    action: str
    reason: str
    where: str
    """Where it is computed: on Spark or in PostgreSQL."""
    from_lake: tuple[tuple[datetime, datetime], ...] = ()
    """The times of which the lake has the rows; PostgreSQL has the others."""

    @property
    def why(self) -> str:
        """The reason, in words."""
        return REASONS[self.reason]


@dataclass(frozen=True)
class Plan:
    """What would be done for a RollUp, and for those that are made from it."""

    asked: str
    root: int
    rollup: str
    """The one over a ChronoTable that it begins with."""
    lines: tuple[Line, ...]

    @property
    def ranges(self) -> list[tuple[datetime, datetime]]:
        """What Spark computes."""
        return [(one.start, one.end) for one in self.lines if one.where == "spark"]

    @property
    def left(self) -> list[Line]:
        """What has to stay as it is."""
        return [one for one in self.lines if one.action == "leave"]


@dataclass(frozen=True)
class Recomputed:
    """What was done."""

    plan: Plan
    buckets: int
    rows: int


class Recomputer:
    """Recomputes RollUps of one database."""

    def __init__(self, dsn: str, reader: Callable[[], Reader], *, timeout: int = 10) -> None:
        self._dsn = dsn
        self._reader = reader
        self._timeout = timeout

    def plan(
        self, name: str, start: datetime | None = None, end: datetime | None = None, *, needed: bool = False
    ) -> Plan:
        """What there is to recompute in [start, end), widened to whole buckets; only where it is needed, if asked to.

        Refuses a RollUp that there is not, and one whose query is beyond Spark, by name of what is.
        """
        if start is not None and end is not None and start >= end:
            raise Refused(
                f"Cannot recompute {name} from {start:%Y-%m-%d %H:%M:%S%z} to {end:%Y-%m-%d %H:%M:%S%z}.",
                next_step="Give two moments, the earlier one first.",
            )
        with connect(self._dsn, timeout=self._timeout) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            asked: dict[str, Any] = {"name": name, "from": start, "to": end}
            root, rollup, since, until = session.execute(query("recompute_root"), asked).fetchone() or (
                0,
                "",
                None,
                None,
            )
            _question(session, root)
            asked = {"id": root, "from": since, "to": until, "needed": needed}
            lines = [
                Line(
                    rollup,
                    low,
                    high,
                    count,
                    action,
                    why,
                    "spark" if action == "recompute" else "",
                    tuple(zip(first, last, strict=True)),
                )
                for low, high, count, action, why, first, last in session.execute(query("recompute_plan"), asked)
            ]
            times = _times([(one.start, one.end) for one in lines if one.where])
            follow = session.execute(query("recompute_follow"), {"id": root, "times": times}) if lines else ()
            lines += [
                Line(made, low, high, count, "recompute", "source_recomputed", f"postgres, from {source}")
                for made, source, low, high, count in follow
            ]
        return Plan(name, root, rollup, tuple(lines))

    def run(
        self,
        name: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        needed: bool = False,
        check: Callable[[], None] = lambda: None,
        fence: Callable[[Connection], None] = lambda _session: None,
        reason: str = "asked for",
    ) -> Recomputed:
        """Carry a plan out. What is marked in PostgreSQL is taken in first, as a refresh does.

        `check` is called where the work can stop, `fence` in the transaction of each replacement.
        """
        plan = self.plan(name, start, end, needed=needed)
        with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
            session.execute(query("rollup_refresh"), {"name": plan.rollup, "now": True})
            (seen,) = session.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone() or ("",)
        plan = self.plan(name, start, end, needed=needed)
        if not plan.ranges:
            first = plan.left[0] if plan.left else None
            raise NothingToRecompute(
                f"No bucket of {plan.rollup} there can be recomputed: {first.why}."
                if first
                else f"All rows of {plan.rollup} there are in PostgreSQL, or there are none{_from(name, plan.rollup)}.",
                next_step=_NEXT_STEPS[first.reason] if first else None,
            )
        buckets = rows = 0
        for ranges, listed in self._steps(plan):
            check()
            rows += self._replace(plan, ranges, listed, check, fence, reason)
            buckets += len(listed)
        with connect(self._dsn, timeout=self._timeout) as session:
            session.execute(query("recompute_done"), {"id": plan.root, "seen": seen})
            crash_point("recompute.before_end")
        return Recomputed(plan, buckets, rows)

    # ---- steps ---------------------------------------------------------------------------

    def _steps(self, plan: Plan) -> Iterator[tuple[list[tuple[datetime, datetime]], list[tuple[int, int]]]]:
        """So many buckets at a time, as ranges of times and one by one."""
        with connect(self._dsn, timeout=self._timeout) as session:
            asked = {"id": plan.root, "times": _times(plan.ranges)}
            listed: list[tuple[int, int]] = session.execute(query("recompute_buckets"), asked).fetchall()
        for at in range(0, len(listed), _AT_ONCE):
            some = listed[at : at + _AT_ONCE]
            ranges: list[tuple[datetime, datetime]] = []
            for low, high in some:
                start, end = (_EPOCH + timedelta(microseconds=moment) for moment in (low, high))
                if ranges and ranges[-1][1] == start:
                    ranges[-1] = (ranges[-1][0], end)
                else:
                    ranges.append((start, end))
            yield ranges, some

    def _replace(
        self,
        plan: Plan,
        ranges: Sequence[tuple[datetime, datetime]],
        listed: Sequence[tuple[int, int]],
        check: Callable[[], None],
        fence: Callable[[Connection], None],
        reason: str,
    ) -> int:
        """Compute buckets and put them in their places; again, if something has changed under it meanwhile."""
        asked: dict[str, Any] = {"id": plan.root, "times": _times(ranges), "reason": reason}
        for _ in range(_ATTEMPTS):
            check()
            with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
                session.execute("SET timezone = 'UTC'")
                question, source = _question(session, plan.root)
                asked["query"] = question.selected(_ANSWER)
                asked["seen"], asked["state"] = session.execute(query("recompute_begin"), asked).fetchone() or ("", "")
                source.require_held(session, question, asked["times"])
                rows = self._computed(session, question, source, ranges, listed)
                check()
                crash_point("recompute.computed")
                with session.transaction():
                    fence(session)
                    (replaced,) = session.execute(query("recompute_end"), asked).fetchone() or (False,)
                    crash_point("recompute.before_commit")
            crash_point("recompute.replaced")
            if replaced:
                return rows
        raise Busy(f"What {plan.rollup} is made from changes so often that its buckets cannot be recomputed.")

    def _computed(
        self,
        session: Connection,
        question: Question,
        source: _Source,
        ranges: Sequence[tuple[datetime, datetime]],
        listed: Sequence[tuple[int, int]],
    ) -> int:
        """Let Spark compute, and copy what comes of it; returns how many rows that are."""
        from thermocline.recompute.answers import computed

        reader = self._reader()
        with reader.across(source.table, ranges[0][0], ranges[-1][1]) as frame, _told():
            spark = frame.sparkSession
            _require_exact(spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone"))
            if source.lake_table:
                _require_held_by_lake(frame, source, question, ranges)
            batches = computed(spark, frame, source.time_column, question, listed).toLocalIterator(
                prefetchPartitions=True
            )
            first = next(batches, None)
            if first is None:
                return 0
            with session.cursor() as cursor, cursor.copy(f"COPY {_ANSWER} FROM STDIN".encode()) as copy:
                copy.write(first[0] + "\n")
                for batch in batches:
                    copy.write(batch[0] + "\n")
            ((rows,),) = session.execute("SELECT count(*) FROM pg_temp.thermocline_answer").fetchall()
        return int(rows)


@dataclass(frozen=True)
class _Source:
    """The table that a RollUp is made from."""

    oid: int
    table: str
    time_column: str
    lake_table: str | None
    columns: dict[str, Kind]

    def bounded(self, question: Question) -> list[str]:
        """Columns that the question reads and of which the lake cannot hold every value."""
        return sorted(
            name
            for name in question.used - {self.time_column}
            if self.columns[name].name in _BOUNDED and not self.columns[name].unlimited
        )

    def require_held(self, session: Connection, question: Question, times: str) -> None:
        """Refuse resident values that would be NULL on their way to Spark."""
        found = session.execute(
            "SELECT thermocline._not_in_lake(%s::bigint::oid, %s, %s, %s::tstzmultirange)",
            [self.oid, self.time_column, self.bounded(question), times],
        ).fetchone()
        if found and found[0]:
            raise _not_held(found[0])


def _from(name: str, rollup: str) -> str:
    return "" if name == rollup else f"; {name} is made from {rollup}"


def _question(session: Connection, rollup: int) -> tuple[Question, _Source]:
    """What is asked of Spark for a RollUp; its answer has a table to come to, of which it is proven that it fits."""
    row = session.execute(query("recompute_definition"), {"id": rollup}).fetchone()
    if row is None:
        raise Refused("The RollUp is not there any more.", next_step="`thermocline rollup` lists those that are.")
    template, alias, bucket, kind, table, oid, time_column, schema, name, lake_table, aggregates = row
    columns = {
        found[0]: _kind(*found[1:]) for found in session.execute(query("recompute_columns"), {"table": oid}).fetchall()
    }
    unquoted = alias[1:-1].replace('""', '"') if alias.startswith('"') else alias
    question = split(Definition(template, unquoted, bucket, kind, columns, frozenset(aggregates)))
    made = pgsql.SQL(", ").join(
        pgsql.SQL("{} {}").format(pgsql.Identifier(column), _trusted(declared)) for column, declared in question.columns
    )
    session.execute("DROP TABLE IF EXISTS pg_temp.thermocline_answer")
    session.execute(pgsql.SQL("CREATE TEMPORARY TABLE thermocline_answer ({})").format(made))
    try:
        (fits,) = session.execute(
            "SELECT thermocline._answer_fits(%s::bigint::oid, %s)", [table, question.selected(_ANSWER)]
        ).fetchone() or (False,)
    except (psycopg.errors.SyntaxErrorOrAccessRuleViolation, psycopg.errors.DataError) as error:
        raise refused("what the query makes of its aggregates", str(error.diag.message_primary)) from error
    if not fits:
        raise refused("what the query makes of its aggregates", "it comes out in other types than the RollUp has")
    return question, _Source(oid, names.joined(schema, name), time_column, lake_table, columns)


def _kind(name: str, pg: str, precision: int | None, scale: int | None, equal: bool, bytewise: bool) -> Kind:
    if name == "numeric":
        fits = precision is not None and scale is not None and precision <= MOST_DIGITS and 0 <= scale <= precision
        return Kind(name, pg, precision if fits else None, scale or 0 if fits else 0)
    name = "text" if name == "varchar" else name
    return Kind(name if name in _NAMES else "other", pg, equal=equal, bytewise=bytewise)


def _trusted(declared: str) -> pgsql.SQL:
    """A type as PostgreSQL itself has printed it."""
    return pgsql.SQL(declared)


def _times(ranges: Sequence[tuple[datetime, datetime]]) -> str:
    """As PostgreSQL writes a multirange."""
    return "{" + ",".join(f"[{start.isoformat()},{end.isoformat()})" for start, end in ranges) + "}"


def _not_held(column: str) -> NotExact:
    return NotExact(f"The column {column} has a value there that the lake's type cannot hold, as NaN or infinity.")


def _require_exact(ansi: str | None, zone: str | None) -> None:
    if ansi != "true" or zone != "UTC":
        raise NotOnSpark(
            "Spark runs with spark.sql.ansi.enabled off, or in another zone than UTC: sums could overflow unnoticed.",
            next_step="Take both out of spark.conf.",
        )


def _require_held_by_lake(
    frame: DataFrame, source: _Source, question: Question, ranges: Sequence[tuple[datetime, datetime]]
) -> None:
    """Refuse values that the lake has only as text beside the row; those of a column that is read are meant."""
    from pyspark.sql import functions as sql

    from thermocline.lake import reads

    asked = source.bounded(question)
    if not asked:
        return
    odd = sql.col("_unrepresentable")
    entries = reads.counted(frame.sparkSession, source.lake_table or "", within=(ranges[0][0], ranges[-1][1]))
    left = entries.where(odd.isNotNull()).groupBy(odd).agg(sql.sum(reads.sign()).alias("copies")).where("copies > 0")
    for (column,) in left.select(sql.explode(sql.json_object_keys(odd))).distinct().collect():
        if column in asked or column not in source.columns:
            raise _not_held(column)


_BEYOND = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CAST_INVALID_INPUT", "CAST_OVERFLOW",
           "DIVIDE_BY_ZERO", OVERFLOW, DIGITS)  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """What Spark reports of values comes out as our own refusal."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from thermocline.lake import reads

    try:
        with reads.translated():
            yield
    except (PySparkException, Py4JError) as error:  # what a task says while its rows are fetched comes bare
        found = next((code for code in _BEYOND if code in str(error)), None)
        if found is None:
            raise
        raise NotExact(f"A value there is beyond what Spark computes exactly ({found}).") from error
