"""A table across the tiers as one DataFrame: PostgreSQL says what is resident, and the lake has the rest."""

from __future__ import annotations

import pickle
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from thermocline.errors import Refused
from thermocline.hot import names, rows
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake import reads
from thermocline.reads import moments
from thermocline.reads.places import Places
from thermocline.reads.standing import FIRST, LAST, at_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from thermocline.hot.rows import Column, Pages
    from thermocline.lake.segments import Cut
    from thermocline.reads.standing import Range, Standing


class QuestionNotUnderstood(Refused):
    """Spark does not understand the question."""

    code = "reads.question"
    next_step_by_default = (
        "Write it in Spark SQL. A ChronoTable of public is named without its schema, as readings; one outside of it "
        "with an underscore, as plant_readings. `thermocline tables` lists them; plain tables are not read."
    )


@dataclass(frozen=True)
class _Part:
    dsn: str = field(repr=False)
    chunk: str
    columns: tuple[Column, ...]
    time_column: str
    snapshot: str
    pages: Pages


class Reader(Places):
    """Reads tables by their name in PostgreSQL; a frame is good as long as the block that it was made in."""

    def __init__(self, dsn: str, spark: SparkSession) -> None:
        super().__init__(dsn)
        self._spark = spark

    def history(self, table: str) -> DataFrame:
        """Every change of a synced table."""
        return reads.history(self._spark, self._lake_table(table))

    def current(self, table: str) -> DataFrame:
        """What the lake has of a table, folded: it may lag PostgreSQL, and knows what has left it.

        With the columns that the table has now.
        """
        return self._at(table, None)

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

    def _at(self, table: str, position: int | None) -> DataFrame:
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
        within = (at_utc(start, FIRST), at_utc(end, LAST))
        with self._standing(table) as standing:
            frame = self._hot(standing, within)
            if standing.lake_table and not standing.has(within):
                frame = frame.unionByName(self._of_lake(standing, standing.lake_table, within))
            time = sql.col(reads.quoted(standing.time_column))
            if start is not None:
                frame = frame.where(time >= sql.lit(start))
            if end is not None:
                frame = frame.where(time < sql.lit(end))
            yield frame

    @contextmanager
    def asked(self, question: str, as_of: str | int | datetime | None = None) -> Iterator[DataFrame]:
        """The answer to a question in Spark SQL.

        `m` is a table across the tiers, `m_history` its history, `m_current` what that adds up to.
        With `as_of`, a position or a moment, all are what they were then, and come from the lake alone.
        """
        views = self._mentioned(question)
        asked_for = {table for found in views.values() for _, _, table in found}
        position = self.position_at(as_of, sorted(asked_for)) if as_of is not None and asked_for else None
        refusals: dict[str, Refused] = {}
        with ExitStack() as held:
            for found in views.values():
                view, way, table = found[0]
                if len(found) > 1:
                    meant = " or ".join(f"{way} of {table}" for _, way, table in found)
                    raise QuestionNotUnderstood(
                        f"{view} may be {meant}: Spark's names do not tell them apart.",
                        next_step="Ask through the DataFrames of Reader.across, Reader.history and Reader.current, by "
                        "full names.",
                    )
                try:
                    frame = self._read_as(way, table, position, held)
                except Refused as refused:
                    if way == "across":
                        raise
                    # It may be a column, as motor_current of motor: Spark finds out. What an earlier question has left
                    # under this name must not answer.
                    self._spark.catalog.dropTempView(view)
                    refusals[reads.quoted(view).lower()] = refused
                    continue
                frame.createOrReplaceTempView(reads.quoted(view))
            with reads.translated():
                reads.require_question(self._spark, question)
                yield self._analysed(question, refusals)

    def _read_as(self, way: str, table: str, position: int | None, held: ExitStack) -> DataFrame:
        if way == "history":
            entries = self.history(table)
            return entries if position is None else entries.where(sql.col("_lsn") <= position)
        if way == "current" or position is not None:
            return self._at(table, position)
        return held.enter_context(self.across(table))

    def _analysed(self, question: str, refusals: Mapping[str, Refused]) -> DataFrame:
        """What is asked; if Spark misses a table that was refused, the refusal says why."""
        try:
            return self._spark.sql(question)
        except AnalysisException as error:
            missing = (error.getMessageParameters() or {}).get("relationName", "").lower()
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND" and missing in refusals:
                raise refusals[missing] from error
            raise

    def answer(
        self, question: str, most: int, as_of: str | int | datetime | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names and rows of an answer, at most so many."""
        try:
            with self.asked(question, as_of) as frame, reads.translated():
                return frame.columns, [tuple(row) for row in frame.limit(most).collect()]
        except (AnalysisException, ParseException) as error:
            raise QuestionNotUnderstood(str(error).strip().splitlines()[0]) from error

    def _hot(self, standing: Standing, within: Range) -> DataFrame:
        schema = from_arrow_schema(pa.schema([(one.name, one.lake_type) for one in standing.columns]))
        parts = [
            _Part(self._dsn, chunk.name, standing.columns, standing.time_column, standing.snapshot, pages)
            for chunk in (*standing.chunks, *standing.late)
            if chunk.start < within[1] and within[0] < chunk.end
            for pages in rows.split(chunk.pages)
        ]
        if not parts:
            return self._spark.createDataFrame([], schema)
        packed = self._spark.sparkContext.parallelize([(pickle.dumps(part),) for part in parts], len(parts))
        return self._spark.createDataFrame(packed, "part binary").mapInArrow(_read, schema)

    def _of_lake(self, standing: Standing, history: str, within: Range) -> DataFrame:
        """What the lake has of the times that are not resident."""
        reads.require_holds(self._spark, history, standing.owed_by, standing.owed_at)
        bounded = within if within[0] > FIRST and within[1] < LAST else None
        frame = self._as_now(history, standing.columns, standing.missing, cuts=standing.cuts, within=bounded)
        if standing.elsewhere:
            time = sql.col(reads.quoted(standing.time_column))
            inside: list[Expression] = [
                (time >= sql.lit(start)) & (time < sql.lit(end)) for start, end in standing.elsewhere
            ]
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
        within: Range | None = None,
    ) -> DataFrame:
        """What a history adds up to, in the columns that the table has now."""
        there = reads.names_by_number(self._spark, history)
        known = [there[column.number] for column in columns if column.number in there]
        if within:
            frame = reads.content_of_range(self._spark, history, *within, upto=upto, cuts=cuts, columns=known)
        else:
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


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            part: _Part = pickle.loads(packed)  # noqa: S301 (our own driver wrote it)
            found = rows.read(
                part.dsn, part.chunk, part.columns, finite=part.time_column, snapshot=part.snapshot, pages=part.pages
            )
            for block in found:
                yield from block.drop_columns([rows.UNREPRESENTABLE]).to_batches()
