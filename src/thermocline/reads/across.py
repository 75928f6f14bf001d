"""A table across the tiers as one DataFrame: PostgreSQL says what is resident, and the lake has the rest."""

from __future__ import annotations

import pickle
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql as pgsql
from psycopg.rows import dict_row
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from thermocline.errors import Busy, Refused
from thermocline.hot import names, rows
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake import reads
from thermocline.lake.segments import Cut
from thermocline.reads import moments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from thermocline.hot.rows import Column, Pages

_ATTEMPTS = 5


class UnknownTable(Refused):
    """There is no ChronoTable of that name."""

    code = "reads.unknown_table"
    next_step_by_default = "SELECT schema_name, table_name FROM lakets._chronotable_registry; lists them."


class QuestionNotUnderstood(Refused):
    """Spark does not understand the question."""

    code = "reads.question"
    next_step_by_default = (
        "Write it in Spark SQL. A ChronoTable is named as in PostgreSQL, one outside of public as schema_table."
    )


@dataclass(frozen=True)
class _Chunk:
    oid: int
    name: str
    start: datetime
    end: datetime
    pages: int


@dataclass(frozen=True)
class _Standing:
    """Both tiers of a table at one moment."""

    time_column: str
    columns: tuple[Column, ...]
    missing: Mapping[int, Any]
    """What older rows read in columns that came with a default, by number."""
    snapshot: str
    chunks: tuple[_Chunk, ...]
    lake_table: str | None
    """None while all of the table is resident."""
    cuts: tuple[Cut, ...]
    nowhere: tuple[tuple[datetime, datetime], ...]
    """Ranges that are in no tier."""
    owed_by: tuple[str, ...]
    """Identities of the lake's table under which ranges were dropped."""
    owed_at: int
    """The furthest position at which one was."""


@dataclass(frozen=True)
class _Part:
    dsn: str = field(repr=False)
    chunk: str
    columns: tuple[Column, ...]
    time_column: str
    snapshot: str
    pages: Pages


class Reader:
    """Reads tables by their name in PostgreSQL; a frame is good as long as the block that it was made in."""

    def __init__(self, dsn: str, spark: SparkSession) -> None:
        self._dsn = dsn
        self._spark = spark

    def history(self, table: str) -> DataFrame:
        """Every change of a synced table."""
        return reads.history(self._spark, self._lake_table(table))

    def current(self, table: str) -> DataFrame:
        """What the lake has of a table, folded: it may lag PostgreSQL, and knows what has left it."""
        return reads.current(self._spark, self._lake_table(table))

    def as_of(self, table: str, at: str | int | datetime) -> DataFrame:
        """The rows that a synced table had at a position of the log, or at a moment; from the lake alone.

        With the columns that it has now. Refused (`NotThen`) before its copy was complete, and after what the feed
        has brought. Of several tables ask `position_at` first: what they held at one position belongs together.
        """
        return self._at(table, self.position_at(at, [table]))

    def position_at(self, at: str | int | datetime, tables: Iterable[str]) -> int:
        """The position that a moment stands for, the same for all of these tables; a position is itself."""
        histories = [(table, self._lake_table(table)) for table in tables]
        return moments.position_at(self._dsn, self._spark, histories, at)

    def _at(self, table: str, position: int) -> DataFrame:
        schema, name = names.split(table)
        history = self._lake_table(table)
        with connect(self._dsn) as session:
            row = session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone()
            columns = rows.columns_of(session, row[1]) if row else ()
            missing = rows.missing_of(session, row[1]) if row else {}
        return self._as_now(history, columns, missing, upto=position)

    @contextmanager
    def across(self, table: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[DataFrame]:
        """Every row of a table once, wherever it lives, of the times [start, end) if given.

        Exact at the moment when the block begins: writers, the feed and drops may go on.
        """
        with self._standing(table) as standing:
            frame = self._hot(standing)
            if standing.lake_table:
                frame = frame.unionByName(self._of_lake(standing, standing.lake_table))
            time = sql.col(reads.quoted(standing.time_column))
            if start is not None:
                frame = frame.where(time >= sql.lit(start))
            if end is not None:
                frame = frame.where(time < sql.lit(end))
            yield frame

    @contextmanager
    def asked(self, question: str, as_of: str | int | datetime | None = None) -> Iterator[DataFrame]:
        """The answer to a question in Spark SQL: `m` is a table across the tiers, `m_history` its history.

        With `as_of`, a position or a moment, both are what they were then, and come from the lake alone.
        """
        views: dict[str, list[tuple[str, str, str]]] = {}
        for schema, name in self._tables():
            view = name if schema == "public" else f"{schema}_{name}"
            for called, way in ((view, "across"), (f"{view}_history", "history")):
                if _mentions(question, called):
                    views.setdefault(called.lower(), []).append((called, way, names.joined(schema, name)))
        asked_for = {table for found in views.values() for _, _, table in found}
        position = self.position_at(as_of, sorted(asked_for)) if as_of is not None and asked_for else None
        with ExitStack() as held:
            for found in views.values():
                view, way, table = found[0]
                if len(found) > 1:
                    meant = " or ".join(f"{way} of {table}" for _, way, table in found)
                    raise QuestionNotUnderstood(
                        f"{view} may be {meant}: Spark's names do not tell them apart.",
                        next_step="Ask through the DataFrames of Reader.across and Reader.history, by full names.",
                    )
                if position is not None:
                    then = self.history(table).where(sql.col("_lsn") <= position)
                    frame = then if way == "history" else self._at(table, position)
                else:
                    frame = self.history(table) if way == "history" else held.enter_context(self.across(table))
                frame.createOrReplaceTempView(reads.quoted(view))
            with reads.translated():
                reads.require_question(self._spark, question)
                yield self._spark.sql(question)

    def answer(
        self, question: str, most: int, as_of: str | int | datetime | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names and rows of an answer, at most so many."""
        try:
            with self.asked(question, as_of) as frame, reads.translated():
                return frame.columns, [tuple(row) for row in frame.limit(most).collect()]
        except (AnalysisException, ParseException) as error:
            raise QuestionNotUnderstood(str(error).strip().splitlines()[0]) from error

    # ---- one moment ----------------------------------------------------------------------

    @contextmanager
    def _standing(self, table: str) -> Iterator[_Standing]:
        for _ in range(_ATTEMPTS):
            with connect(self._dsn) as session:
                session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                found = _stand(session, table)
                if found is not None:
                    yield found
                    return
        raise Busy(f"The chunks of {table} change so often that they cannot be held for a read.")

    def _hot(self, standing: _Standing) -> DataFrame:
        schema = from_arrow_schema(pa.schema([(one.name, one.lake_type) for one in standing.columns]))
        parts = [
            _Part(self._dsn, chunk.name, standing.columns, standing.time_column, standing.snapshot, pages)
            for chunk in standing.chunks
            for pages in rows.split(chunk.pages)
        ]
        if not parts:
            return self._spark.createDataFrame([], schema)
        packed = self._spark.sparkContext.parallelize([(pickle.dumps(part),) for part in parts], len(parts))
        return self._spark.createDataFrame(packed, "part binary").mapInArrow(_read, schema)

    def _of_lake(self, standing: _Standing, history: str) -> DataFrame:
        """What the lake has of the times that are not resident."""
        reads.require_holds(self._spark, history, standing.owed_by, standing.owed_at)
        frame = self._as_now(history, standing.columns, standing.missing, cuts=standing.cuts)
        elsewhere = _merged([*((chunk.start, chunk.end) for chunk in standing.chunks), *standing.nowhere])
        if elsewhere:
            time = sql.col(reads.quoted(standing.time_column))
            inside: list[Expression] = [(time >= sql.lit(start)) & (time < sql.lit(end)) for start, end in elsewhere]
            frame = frame.where(~reduce(or_, inside))
        return frame

    def _as_now(
        self,
        history: str,
        columns: Sequence[Column],
        missing: Mapping[int, Any],
        *,
        upto: int | None = None,
        cuts: Iterable[Cut] = (),
    ) -> DataFrame:
        """What a history adds up to, in the columns that the table has now."""
        there = reads.names_by_number(self._spark, history)
        known = [there[column.number] for column in columns if column.number in there]
        frame = reads.current(self._spark, history, upto=upto, cuts=cuts, columns=known)
        # In a column that the lake does not know yet, whatever it has is as the rows that were here when it came.
        kinds = from_arrow_schema(pa.schema([(one.name, one.lake_type) for one in columns]))
        return frame.select(
            *(
                sql.col(reads.quoted(there[column.number])).alias(one.name)
                if column.number in there
                else sql.lit(missing.get(column.number)).cast(one.dataType).alias(one.name)
                for column, one in zip(columns, kinds, strict=True)
            )
        )

    def _lake_table(self, table: str) -> str:
        schema, name = names.split(table)
        with connect(self._dsn) as session:
            row = session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone()
        if row is None:
            raise UnknownTable(f"There is no ChronoTable {schema}.{name}.")
        if row[3] is None:
            raise Refused(
                f"{schema}.{name} is not synced, so the lake has no history of it.",
                next_step=f"SELECT lakets.enable_sync('{name}', '{schema}'); then run the feed.",
            )
        lake_table: str = row[3]
        return lake_table

    def _tables(self) -> list[tuple[str, str]]:
        with connect(self._dsn) as session:
            return session.execute(query("read_tables")).fetchall()


def _stand(session: Connection, table: str) -> _Standing | None:
    """What is resident and what is not, under one snapshot; None when a chunk went away before it was held."""
    schema, name = names.split(table)
    try:
        # Before the snapshot: whatever it shows attached cannot be dropped any more.
        session.execute(pgsql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(pgsql.Identifier(schema, name)))
    except pg.UndefinedTable as error:
        raise UnknownTable(f"There is no table {schema}.{name}.") from error
    row = session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone()
    if row is None:
        raise UnknownTable(f"{schema}.{name} is not a ChronoTable.")
    number, oid, time_column, lake_table, began = row
    foreign = session.execute(query("read_foreign"), {"oid": oid}).fetchone()
    if foreign:
        raise Refused(
            f"{schema}.{name} has the partition {foreign[0]}, which is not a chunk: its rows would be missing.",
            next_step="Move its rows into the table, and drop or detach it.",
        )
    cursor = session.cursor(row_factory=dict_row)
    chunks = [_Chunk(**one) for one in cursor.execute(query("read_resident"), {"table": number})]
    try:
        for chunk in chunks:  # those that a worker has detached are not covered by the lock on the root
            session.execute(_trusted(f"LOCK TABLE ONLY {chunk.name} IN ACCESS SHARE MODE"))
    except pg.UndefinedTable:
        return None
    cuts = [Cut(*one) for one in session.execute(query("read_cuts"), {"table": number})]
    nowhere = session.execute(query("read_nowhere"), {"table": number}).fetchall()
    uuids, position = session.execute(query("read_owed"), {"table": number}).fetchone() or ((), 0)
    (snapshot,) = session.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
    return _Standing(
        time_column,
        rows.columns_of(session, oid),
        rows.missing_of(session, oid),
        snapshot,
        tuple(chunks),
        lake_table if began else None,
        tuple(cuts),
        tuple((start, end) for start, end in nowhere),
        tuple(uuids),
        position,
    )


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            part: _Part = pickle.loads(packed)  # noqa: S301 (our own driver wrote it)
            found = rows.read(
                part.dsn, part.chunk, part.columns, finite=part.time_column, snapshot=part.snapshot, pages=part.pages
            )
            for block in found:
                yield from block.drop_columns([rows.UNREPRESENTABLE]).to_batches()


def _merged(ranges: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _mentions(question: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", question, re.IGNORECASE) is not None


def _trusted(text: str) -> Any:
    return text
