"""What a history table says: every entry, those that still count, and the rows that they add up to.

A table is named as PostgreSQL knows it: `namespace.table` of the catalog `lake`. Each read is pinned to one
snapshot, the newest one unless another is given, so that its parts agree while the feed goes on committing.
The DataFrames are lazy. Only resets are fetched when a read is made, and from when to when rows were removed.

Instants are datetimes with a zone. A time column without one, a `timestamp` or a `date`, holds UTC.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DoubleType,
    FloatType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from thermocline.errors import Refused
from thermocline.lake.catalogs import LAKE
from thermocline.lake.columns import AT_UTC, OWN_COLUMNS, Layout
from thermocline.lake.history import COPY, END, TIME_COLUMN, OwedRows
from thermocline.lake.segments import Cut, Reset, Segment, segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from thermocline.lake.columns import Default

    Range = tuple[datetime, datetime]

# Up to so many segments are conditions, which Iceberg can skip files by; more are looked up by the day.
MOST_CONDITIONS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY, _INSTANT = timedelta(days=1), timedelta(microseconds=1)
_MOST_DAYS = 100_000
_FLOATS = (FloatType, DoubleType)


class NotAHistory(Refused):
    """The table is not a history that Thermocline has made."""

    code = "lake.not_a_history"
    next_step_by_default = "Name the history of a synced table, as public.lb_readings_history."


class HistoryLost(Refused):
    """The table in the lake is not the one that was proven to hold what has left PostgreSQL."""

    code = "lake.history_lost"
    next_step_by_default = (
        "Rows that have left PostgreSQL are only in the table as it was. Bring that back: register its newest metadata"
        " file in the catalog again, or roll it forward."
    )


def require_holds(spark: SparkSession, table: str, uuids: Iterable[str], position: int) -> None:
    """Refuse a table that cannot have what was proven: another one under its name, or rolled back behind it."""
    loaded = _loaded(spark, table)
    if any(str(loaded.uuid()) != one for one in uuids):
        raise HistoryLost(f"{table} in the lake is not the table that held chunks that have left PostgreSQL.")
    snapshot = loaded.currentSnapshot()
    while snapshot is not None:
        summary = snapshot.summary()
        if position <= max(int(summary.getOrDefault(key, "0")) for key in (END, COPY)):
            return
        parent = snapshot.parentId()
        snapshot = None if parent is None else loaded.snapshot(parent)
    if position:
        raise HistoryLost(f"{table} in the lake was rolled back behind chunks that have left PostgreSQL.")


def history(spark: SparkSession, table: str, *, snapshot: int | None = None) -> DataFrame:
    """Every entry, as it is."""
    return _History.opened(spark, table, snapshot).entries


def names_by_number(spark: SparkSession, table: str) -> dict[int, str]:
    """What the source's columns are called in the lake, by their numbers in the source."""
    loaded = _loaded(spark, table)
    fields = Layout.of(dict(loaded.properties())).fields
    named = {number: loaded.schema().findColumnName(at) for number, at in fields.items()}
    return {number: name for number, name in named.items() if name is not None}


def resets(spark: SparkSession, table: str, *, snapshot: int | None = None) -> list[Reset]:
    """The records of truncates and copies; fetched from those files only that have some."""
    return _History.opened(spark, table, snapshot).resets()


def counted(
    spark: SparkSession,
    table: str,
    *,
    upto: int | None = None,
    cuts: Iterable[Cut] = (),
    within: Range | None = None,
    snapshot: int | None = None,
) -> DataFrame:
    """The entries that count, with all their columns: no resets, and nothing that one of them supersedes.

    Up to the LSN `upto`, in the ranges of `cuts` up to theirs if that is lower; with `within`, only of the
    times [start, end). What an entry counts is told by `sign`.
    """
    return _History.opened(spark, table, snapshot).counted(upto, cuts, within)


def last_before(spark: SparkSession, table: str, moment: datetime) -> int | None:
    """The last position at which nothing has been committed after a moment; None when nothing has been at all.

    Commit times may run backwards against positions. What was committed before the moment, but behind something that
    was committed after it, is left out: a state is always one that the table has had.
    """
    later = _History.opened(spark, table, None).entries.where(sql.col("_timestamp") > sql.lit(_at_utc(moment)))
    first = later.agg(sql.min("_lsn")).collect()[0][0]
    return None if first is None else int(first) - 1


def current(
    spark: SparkSession,
    table: str,
    *,
    upto: int | None = None,
    cuts: Iterable[Cut] = (),
    columns: Sequence[str] | None = None,
    snapshot: int | None = None,
) -> DataFrame:
    """The rows that the source had at a position, the newest one by default: its columns, in its order.

    They are what was added less what was removed, row by row, so it takes no key, and equal rows are
    as many as there were. For that a removal must carry the whole row, which the feed sees to. If more of
    a row was removed than added, running the DataFrame fails; under `translated` the error is `OwedRows`.

    `columns` are those of the source, the time column among them, if the history has more: a row that was
    added with a column and removed without it is the same row.
    """
    return _History.opened(spark, table, snapshot).content(upto, cuts, None, columns)


def content_of_range(
    spark: SparkSession,
    table: str,
    start: datetime,
    end: datetime,
    *,
    upto: int | None = None,
    cuts: Iterable[Cut] = (),
    columns: Sequence[str] | None = None,
    snapshot: int | None = None,
) -> DataFrame:
    """`current` of the times [start, end): only files that can have some of them are read."""
    return _History.opened(spark, table, snapshot).content(upto, cuts, (start, end), columns)


def sign() -> Column:
    """What a counted entry counts: 1 if it adds its row, -1 if it removes it."""
    return sql.when(sql.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)


@contextmanager
def translated() -> Iterator[None]:
    """Run a DataFrame of this module inside it: what Spark reports for us comes out as our own error."""
    try:
        yield
    except PySparkException as error:
        owed = re.search(rf"{re.escape(OwedRows.code)}: (.*? adds it\.)", str(error))
        if owed:
            raise OwedRows(owed[1]) from error
        raise


class NotAQuestion(Refused):
    """What was asked would change something."""

    code = "lake.not_a_question"
    next_step_by_default = "Ask with SELECT, WITH, SHOW or DESCRIBE. What the lake holds is changed by the feed alone."


def require_question(spark: SparkSession, question: str) -> None:
    """Refuse whatever Spark would do rather than answer; it does so as soon as it is told."""
    java: Any = spark._jvm
    kinds = [
        java.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.plans.logical.{kind}", True, _loader(java))
        for kind in ("Command", "ParsedStatement")
    ]
    jspark: Any = spark._jsparkSession
    waiting = [jspark.sessionState().sqlParser().parsePlan(question)]
    if waiting[0].getClass().getSimpleName().startswith(("Show", "Describe", "Explain")):
        return
    while waiting:
        plan = waiting.pop()
        if "Call" in plan.getClass().getSimpleName() or any(kind.isInstance(plan) for kind in kinds):
            raise NotAQuestion(f"Only questions are answered, and this is none: {' '.join(question.split())[:80]}")
        for inner in (plan.children(), plan.innerChildren()):
            waiting += [inner.apply(at) for at in range(inner.size())]


def _loader(java: Any) -> Any:
    return java.java.lang.Thread.currentThread().getContextClassLoader()


def quoted(name: str) -> str:
    """A name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _full_name(table: str) -> str:
    return ".".join(map(quoted, (LAKE, *table.split("."))))


def _loaded(spark: SparkSession, table: str) -> Any:
    """The table as Iceberg knows it; what is asked of it is of one moment."""
    java: Any = spark._jvm
    try:
        return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, _full_name(table))
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            raise NotAHistory(f"There is no table {table} in the lake.") from error
        raise


def _as_now(spark: SparkSession, loaded: Any, snapshot: int, entries: DataFrame) -> DataFrame:
    """Entries of a snapshot with the columns that the table has now: those of then may have had other names."""
    then, now = loaded.schemas().get(loaded.snapshot(snapshot).schemaId()), loaded.schema()
    if then is None or then.schemaId() == now.schemaId():
        return entries
    java: Any = spark._jvm
    wanted = StructType.fromJson(json.loads(java.org.apache.iceberg.spark.SparkSchemaUtil.convert(now).json()))
    columns = []
    for one in wanted.fields:
        was = then.findColumnName(now.findField(one.name).fieldId())
        found = sql.lit(None) if was is None else sql.col(quoted(was))
        columns.append(found.cast(one.dataType).alias(one.name))
    return entries.select(*columns)


@dataclass(frozen=True)
class _History:
    """A history table at one snapshot."""

    spark: SparkSession
    table: str
    time_column: str
    entries: DataFrame
    defaults: tuple[tuple[str, Default], ...] = ()
    """Of columns that came after some of the entries, by name."""

    @classmethod
    def opened(cls, spark: SparkSession, table: str, snapshot: int | None) -> _History:
        loaded = _loaded(spark, table)
        properties = dict(loaded.properties())
        time_column = properties.get(TIME_COLUMN)
        if time_column is None:
            raise NotAHistory(f"The table {table} is not a history that Thermocline has made.")
        layout = Layout.of(properties)
        named = loaded.schema().findColumnName
        defaults = tuple((named(layout.fields[number]), one) for number, one in layout.defaults.items())
        newest, name = loaded.currentSnapshot(), _full_name(table)
        if snapshot is None and newest is None:
            return cls(spark, table, time_column, spark.table(name).where(sql.lit(False)), defaults)
        # A plain table would be looked up again when it is run, and by then have what resets() has not seen.
        pinned = int(newest.snapshotId()) if snapshot is None else snapshot
        entries = spark.read.option("versionAsOf", str(pinned)).table(name)
        return cls(spark, table, time_column, _as_now(spark, loaded, pinned, entries), defaults)

    @property
    def time(self) -> Column:
        return sql.col(quoted(self.time_column))

    def resets(self, within: Range | None = None) -> list[Reset]:
        # Only a reset has a range: by this Iceberg skips every file without one, from its metadata alone.
        found = self.entries.where(sql.col("_range_end").isNotNull() & (sql.col("_change_type") == "truncate"))
        if within:
            start, end = within
            found = found.where(
                self._before(end) & (sql.col("_range_end") > sql.lit(_at_utc(start).isoformat()).cast("timestamp"))
            )
        fetched = found.select(self.time, "_range_end", "_lsn", "_seq").toArrow()
        starts, ends = (fetched.column(place).cast(AT_UTC).to_pylist() for place in (0, 1))
        positions = (fetched.column(place).to_pylist() for place in (2, 3))
        return [Reset(*values) for values in zip(starts, ends, *positions, strict=True)]

    def counted(self, upto: int | None, cuts: Iterable[Cut], within: Range | None) -> DataFrame:
        entries = self.entries.where(sql.col("_change_type") != "truncate")
        if upto is not None:
            entries = entries.where(sql.col("_lsn") <= upto)
        if within:
            entries = entries.where(~self._before(within[0]) & self._before(within[1]))
        found = segments(self.resets(within), upto, [Cut(*cut) for cut in cuts])
        if within:
            found = [segment for segment in found if segment.overlaps(*within)]
        if len(found) > MOST_CONDITIONS:
            return self._filled(self._looked_up(entries, found))
        return self._filled(reduce(lambda rest, segment: rest.where(self._counts(segment)), found, entries))

    def _filled(self, entries: DataFrame) -> DataFrame:
        """With the defaults of columns in entries from before them."""
        for name, default in self.defaults:
            value = _literal(default.value, entries.schema[name].dataType)
            if default.until is not None:
                lsn, seq = default.until
                before = (sql.col("_lsn") < lsn) | ((sql.col("_lsn") == lsn) & (sql.col("_seq") < seq))
                value = sql.when(before, value).otherwise(sql.col(quoted(name)))
            entries = entries.withColumn(name, value)
        return entries

    def content(
        self, upto: int | None, cuts: Iterable[Cut], within: Range | None, columns: Sequence[str] | None
    ) -> DataFrame:
        names = columns or [name for name in self.entries.columns if name not in OWN_COLUMNS]
        counted = self.counted(upto, cuts, within)
        wanted = [sql.col(quoted(name)) for name in names]
        # What was only ever added is there as it is: of most histories that is nearly all, and need not be compared.
        untouched = self._untouched(counted)
        if untouched is None:
            return counted.select(*wanted)
        return counted.where(untouched).select(*wanted).union(self._added_up(counted.where(~untouched), names))

    def _untouched(self, counted: DataFrame) -> Column | None:
        """Entries of times at which no row was removed; None if none was at all. Only files with removals are read."""
        found = counted.where(sql.col("_change_type").isin("delete", "update_preimage"))
        fetched = found.agg(sql.count("*"), sql.min(self.time), sql.max(self.time)).toArrow()
        if fetched.column(0)[0].as_py() == 0:
            return None
        try:
            (first,), (last,) = (fetched.column(place).cast(AT_UTC).to_pylist() for place in (1, 2))
            known = self.time.isNotNull()
            return known if first is None else known & (self._before(first) | ~self._before(last + _INSTANT))
        except (OverflowError, ValueError):  # years that Python does not know
            return sql.lit(False)

    def _added_up(self, counted: DataFrame, names: Sequence[str]) -> DataFrame:
        """What was added less what was removed, row by row."""
        # By place and not by name, so that no name of the source's is in the way of ours.
        places = {name: f"value{place}" for place, name in enumerate(names)}
        kinds = {name: self.entries.schema[name].dataType for name in places}
        # Spark takes -0.0 for 0.0 when it groups, so which of the two it is becomes a column of its own.
        zeros = {
            name: place.replace("value", "zero") for name, place in places.items() if isinstance(kinds[name], _FLOATS)
        }
        signed = counted.select(
            sign().alias("sign"),
            *(sql.col(quoted(name)).alias(place) for name, place in places.items()),
            *(_is_negative_zero(sql.col(quoted(name))).alias(zero) for name, zero in zeros.items()),
        )
        rows = signed.groupBy(*places.values(), *zeros.values()).agg(sql.sum("sign").alias("copies"))
        copies = sql.array_repeat(sql.lit(True), self._checked(sql.col("copies"), sql.col(places[self.time_column])))
        rows = rows.where("copies <> 0").select("*", sql.explode_outer(copies))
        return rows.select(
            *(
                sql.when(sql.col(zeros[name]), sql.lit(-0.0).cast(kinds[name])).otherwise(sql.col(place)).alias(name)
                if name in zeros
                else sql.col(place).alias(name)
                for name, place in places.items()
            )
        )

    def _checked(self, copies: Column, time: Column) -> Column:
        text = f"{OwedRows.code}: The history %s removes a row of %s %d times more than it adds it."
        message = sql.format_string(text, sql.lit(self.table), time.cast("string"), -copies)
        return sql.when(copies < 0, sql.raise_error(message)).otherwise(copies).cast("int")

    # ---- segments ----------------------------------------------------------------------------

    def _counts(self, segment: Segment) -> Column:
        lsn, seq = sql.col("_lsn"), sql.col("_seq")
        counts = (lsn > segment.lsn) | ((lsn == segment.lsn) & (seq > segment.seq))
        if segment.upto is not None:
            counts &= lsn <= segment.upto
        return self.time.isNull() | self._before(segment.start) | ~self._before(segment.end) | counts

    def _looked_up(self, entries: DataFrame, found: list[Segment]) -> DataFrame:
        """By the day of the entry's time, in a table that every task has: an entry meets that day's segments."""
        first = [(segment.start - _EPOCH) // _DAY for segment in found]
        last = [(segment.end - _EPOCH - _INSTANT) // _DAY for segment in found]
        # A few days together if segments are long, or one of a thousand years would be as many rows as days.
        days = 1 + sum(end - start for start, end in zip(first, last, strict=True)) // _MOST_DAYS
        listed = self.spark.createDataFrame(
            pa.table(
                {
                    "first": [day // days for day in first],
                    "last": [day // days for day in last],
                    "start": [self._text(segment.start) for segment in found],
                    "end": [self._text(segment.end) for segment in found],
                    "lsn": [segment.lsn for segment in found],
                    "seq": [segment.seq for segment in found],
                    "upto": pa.array([segment.upto for segment in found], pa.int64()),
                }
            )
        )
        # Cast here, once, and not in the condition, where it would be done for every pair.
        listed = listed.select(
            sql.explode(sql.sequence("first", "last")).alias("days"),
            self._cast(sql.col("start")).alias("start"),
            self._cast(sql.col("end")).alias("end"),
            *("lsn", "seq", "upto"),
        )
        time, lsn, seq = (entries[quoted(name)] for name in (self.time_column, "_lsn", "_seq"))
        superseded = (lsn < listed["lsn"]) | ((lsn == listed["lsn"]) & (seq <= listed["seq"]))
        left_out = (
            (sql.floor(self._day(time) / days) == listed["days"])
            & (time >= listed["start"])
            & (time < listed["end"])
            & (superseded | (lsn > listed["upto"]))
        )
        return entries.join(sql.broadcast(listed), left_out, "left_anti")

    # ---- times: in the time column's own type, so that Iceberg can skip files by them ---------

    @property
    def _time_type(self) -> DataType:
        return self.entries.schema[self.time_column].dataType

    def _text(self, moment: datetime) -> str:
        """What becomes, cast to the time column's type, its first value that is not before this instant."""
        if isinstance(self._time_type, DateType):
            return (_at_utc(moment) + _DAY - _INSTANT).date().isoformat()
        if isinstance(self._time_type, TimestampNTZType):
            return _at_utc(moment).replace(tzinfo=None).isoformat()
        return _at_utc(moment).isoformat()

    def _cast(self, text: Column) -> Column:
        return text.cast(self._time_type)

    def _before(self, moment: datetime) -> Column:
        return self.time < self._cast(sql.lit(self._text(moment)))

    def _day(self, time: Column) -> Column:
        """Days since 1970 in UTC, whatever the session's zone is; perhaps with a part of a day."""
        if isinstance(self._time_type, TimestampType):
            return sql.unix_seconds(time) / _DAY.total_seconds()
        return sql.unix_date(time.cast("date"))


def _literal(value: Any, kind: DataType) -> Column:
    """A single value as Iceberg writes it in JSON."""
    if isinstance(kind, BinaryType):
        return sql.unhex(sql.lit(value))
    return sql.lit(value).cast(kind)


def _is_negative_zero(value: Column) -> Column:
    return sql.when(value == 0, value.cast("string").startswith("-"))


def _at_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no zone, so it is no instant")
    return moment.astimezone(UTC)
