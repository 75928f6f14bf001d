"""What Spark computes of a question: grouped by the buckets that PostgreSQL has named, and written as COPY takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, TimestampNTZType

from thermocline.recompute.question import named
from thermocline.recompute.spark_sql import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from thermocline.recompute.question import Question

    Bucket = tuple[int, int]
    """Where it begins and ends, in microseconds since 1970."""

_DAY = 86_400_000_000


def computed(
    spark: SparkSession, rows: DataFrame, time_column: str, question: Question, buckets: Sequence[Bucket]
) -> DataFrame:
    """The answer of each bucket and key, as texts in which COPY finds many lines each."""
    at = rows.columns.index(time_column)
    kind = rows.schema[at].dataType
    plain = rows.toDF(*(named(place) for place in range(len(rows.columns))))
    if question.where:
        plain = plain.where(sql.expr(question.where))
    moment = f"unix_micros({named(at)})"
    if isinstance(kind, DateType):
        moment = f"(CAST(unix_date({named(at)}) AS BIGINT) * {_DAY})"
    elif isinstance(kind, TimestampNTZType):
        moment = f"unix_micros(CAST({named(at)} AS TIMESTAMP))"
    # An equality that Spark can look up by: in a slot as long as the shortest bucket there are two buckets at most.
    width = min(end - start for start, end in buckets)
    listed = _listed(spark, buckets, width)
    slot = f"({moment} - pmod({moment}, {width}L)) DIV {width}L"
    met = sql.expr(f"{slot} = slot AND {moment} >= start AND {moment} < `end`")
    keys = [sql.expr(one.sql).alias(f"k{place}") for place, one in enumerate(question.keys)]
    parts = [sql.expr(one.sql).alias(f"p{place}") for place, one in enumerate(question.parts)]
    joined = plain.join(sql.broadcast(listed), met)
    groups = joined.groupBy("start", *keys)
    answer = groups.agg(*parts) if parts else groups.agg(sql.lit(0).alias("nothing"))
    fields = [
        "concat(CAST(timestamp_micros(start) AS STRING), '+00')",
        *(as_text(f"k{place}", one.kind) for place, one in enumerate(question.keys)),
        *(as_text(f"p{place}", one.kind) for place, one in enumerate(question.parts)),
    ]
    line = sql.concat_ws("\t", *(sql.expr(f"coalesce({one}, '\\\\N')") for one in fields))
    return answer.select(line.alias("line")).mapInArrow(_together, "lines string")


def _listed(spark: SparkSession, buckets: Sequence[Bucket], width: int) -> DataFrame:
    starts, ends = zip(*buckets, strict=True)
    table = pa.table(
        {
            "start": pa.array(starts, pa.int64()),
            "end": pa.array(ends, pa.int64()),
            "first": pa.array([start // width for start in starts], pa.int64()),
            "last": pa.array([(end - 1) // width for end in ends], pa.int64()),
        }
    )
    return spark.createDataFrame(table).select("start", "end", sql.explode(sql.sequence("first", "last")).alias("slot"))


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            lines = pa.ListArray.from_arrays([0, batch.num_rows], batch.column(0).cast(pa.string()))
            yield pa.record_batch([pc.binary_join(lines, "\n").cast(pa.string())], ["lines"])
