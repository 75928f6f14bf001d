"""Reading a history: which entries count, and that they add up to exactly what the source had."""

from __future__ import annotations

import math
import random
import struct
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from harness.histories import CHUNKS, GRIDS, HistoryTable, Source, change, copy, create, delete, insert, reset, update
from thermocline.lake import reads
from thermocline.lake.history import OwedRows
from thermocline.lake.reads import NotAHistory
from thermocline.lake.segments import BEFORE_ALL, Cut, Reset, Segment, segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from thermocline.stack import Stack

    Row = dict[str, Any]

DAY, HOUR, TICK = timedelta(days=1), timedelta(hours=1), timedelta(microseconds=1)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
TUESDAY = MONDAY + DAY
AT_UTC, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
# Both ways of leaving out what is superseded: by conditions, and looked up by the day.
WAYS = pytest.mark.parametrize("most_conditions", [0, 1000], ids=["looked up", "conditions"])


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, stack: Stack) -> Iterator[Catalog]:
    with stack.catalog() as opened:
        yield opened


def bag(rows: DataFrame | Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """Rows with how often each is there; floats by their bits, except that all NaN are one."""
    listed = rows.toArrow().to_pylist() if isinstance(rows, DataFrame) else rows
    return Counter(tuple((name, exact(value)) for name, value in row.items()) for row in listed)


def exact(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


def files_read(frame: DataFrame) -> list[str]:
    """The data files that running it would read."""
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    scans = [leaf.scan() for leaf in found if leaf.getClass().getSimpleName() == "BatchScanExec"]
    parts = [part for scan in scans for part in scan.toBatch().planInputPartitions()]
    return [task.file().location() for part in parts for task in part.taskGroup().tasks().toArray()]


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


# ---- segments ------------------------------------------------------------------------------------

hours = st.integers(0, 12).map(lambda count: MONDAY + count * HOUR)
lsns = st.integers(1, 6)


@settings(max_examples=300)
@given(
    st.lists(st.builds(Reset, hours, hours, lsns, st.integers(-1, 2)), max_size=8),
    st.none() | lsns,
    st.lists(st.builds(Cut, hours, hours, lsns), max_size=4),
)
def test_segments_say_of_every_time_what_resets_and_cuts_say(
    records: list[Reset], upto: int | None, cuts: list[Cut]
) -> None:
    found = segments(records, upto, cuts)
    assert all(segment.start < segment.end for segment in found)
    assert all(one.end <= other.start for one, other in pairwise(found)), "disjoint, in order"
    assert all(one.end < other.start or one[2:] != other[2:] for one, other in pairwise(found))
    for at in (MONDAY + count * HOUR / 2 for count in range(-1, 26)):
        limits = [cut.lsn for cut in cuts if cut.start <= at < cut.end]
        highest = min([*limits, math.inf if upto is None else upto])
        positions = [(one.lsn, one.seq) for one in records if one.start <= at < one.end and one.lsn <= highest]
        covering = [segment for segment in found if segment.start <= at < segment.end]
        for lsn, seq in [(lsn, seq) for lsn in range(8) for seq in range(4)]:
            counts = (lsn, seq) > max(positions, default=BEFORE_ALL) and lsn <= highest
            by_segments = all(
                (lsn, seq) > (segment.lsn, segment.seq) and (segment.upto is None or lsn <= segment.upto)
                for segment in covering
            )
            assert counts == (by_segments and (upto is None or lsn <= upto))


def test_segments_of_overlapping_resets() -> None:
    found = segments([Reset(MONDAY, TUESDAY, 5, 0), Reset(MONDAY + HOUR, TUESDAY + DAY, 9, -1)], upto=9)
    assert found == [
        Segment(MONDAY, MONDAY + HOUR, 5, 0, None),
        Segment(MONDAY + HOUR, TUESDAY + DAY, 9, -1, None),
    ]
    assert segments([Reset(MONDAY, TUESDAY, 5, 0)], upto=4) == []


def test_thousands_of_segments_are_made_at_once() -> None:
    records = [Reset(MONDAY + at * HOUR, MONDAY + (at + 2) * HOUR, 10 + at % 7, at) for at in range(20_000)]
    began = time.process_time()  # what others do on this machine does not count
    assert len(segments(records)) > 10_000
    assert time.process_time() - began < 5


# ---- what the source had -------------------------------------------------------------------------

numbers = st.integers(0, 8 * 5 * 4 * 3 * 2 - 1)
lives = st.tuples(
    st.lists(numbers, max_size=6),
    st.lists(st.lists(numbers, min_size=1, max_size=4), max_size=8),
    st.none() | st.tuples(st.integers(0, CHUNKS - 1), st.integers(1030, 2080)),
)


@pytest.mark.parametrize("kind", GRIDS)
@settings(max_examples=4, phases=[Phase.reuse, Phase.generate])  # making it smaller would take minutes
@given(st.lists(lives, min_size=15, max_size=40), st.none() | st.integers(1030, 2080), st.integers())
def test_the_content_is_what_the_source_had(
    spark: SparkSession, catalog: Catalog, kind: str, drawn: list[Any], upto: int | None, seed: int
) -> None:
    """Many short histories in one table, each in a time of its own, arriving in any order in three commits."""
    sources = [
        Source(kind, MONDAY + at * CHUNKS * DAY).live(before, steps) for at, (before, steps, _) in enumerate(drawn)
    ]
    entries = [entry for source in sources for entry in source.entries]
    random.Random(seed).shuffle(entries)
    table = create(catalog, {"ts": GRIDS[kind][0], "id": pa.int32(), "value": pa.float64()})
    for part in range(3):
        table.append(*entries[part::3])
    cuts, wanted = [], []
    for source, (_, _, cut) in zip(sources, drawn, strict=True):
        if cut:
            cuts.append(Cut(source.edge(cut[0]), source.edge(cut[0] + 1), cut[1]))
        for chunk in range(CHUNKS):
            limit = cut[1] if cut and cut[0] == chunk else math.inf
            wanted += source.content(chunk, min(limit, math.inf if upto is None else upto))
    assert bag(reads.current(spark, table.name, upto=upto, cuts=cuts)) == bag(wanted)
    last = sources[-1]
    of_chunk = reads.content_of_range(spark, table.name, last.edge(1), last.edge(2), upto=upto)
    assert bag(of_chunk) == bag(last.content(1, math.inf if upto is None else upto))


def readings(catalog: Catalog, *entries: Row) -> HistoryTable:
    table = create(catalog, {"ts": AT_UTC, "id": pa.int32()})
    if entries:
        table.append(*entries)
    return table


def row(moment: datetime, number: int = 1) -> Row:
    return {"ts": moment, "id": number}


def test_equal_rows_are_as_many_as_there_were(spark: SparkSession, catalog: Catalog) -> None:
    one = row(MONDAY)
    table = readings(catalog, *(insert((5, seq), one) for seq in range(1000)), delete((6, 0), one))
    assert bag(reads.current(spark, table.name)) == bag([one] * 999)
    assert bag(reads.current(spark, table.name, upto=5)) == bag([one] * 1000)


def test_rows_are_compared_only_from_the_first_removal_to_the_last(spark: SparkSession, catalog: Catalog) -> None:
    """What was only ever added is there as it is: equal rows and negative zeros too."""
    table = create(catalog, {"ts": AT_UTC, "id": pa.int32(), "v": pa.float64()})
    week = [{"ts": MONDAY + day * DAY, "id": number, "v": -0.0} for day in range(5) for number in (1, 1, 2)]
    table.append(*(insert((1, seq), one) for seq, one in enumerate(week)))
    added = reads.current(spark, table.name)
    assert bag(added) == bag(week)
    assert "Exchange" not in plan(added)
    table.append(delete((2, 0), week[6]), delete((2, 1), week[8]))
    left = [one for at, one in enumerate(week) if at not in (6, 8)]
    compared = reads.current(spark, table.name)
    assert bag(compared) == bag(left)
    assert "Exchange" in plan(compared)
    assert "Exchange" not in plan(reads.content_of_range(spark, table.name, MONDAY, MONDAY + 2 * DAY))
    assert "Exchange" not in plan(reads.current(spark, table.name, upto=1)), "nothing had been removed then"


@pytest.mark.parametrize("moment", [None, MONDAY], ids=["unknown", "known"])
def test_removals_without_a_time_are_compared_with_additions_without_one(
    spark: SparkSession, catalog: Catalog, moment: datetime | None
) -> None:
    never = {"ts": None, "id": 1}
    table = readings(catalog, insert((1, 0), never), insert((1, 1), never), insert((1, 2), row(MONDAY)))
    table.append(delete((2, 0), never), insert((2, 1), row(TUESDAY)))
    if moment:
        table.append(delete((2, 2), row(moment)))
    wanted = [never, row(TUESDAY)] if moment else [never, row(MONDAY), row(TUESDAY)]
    assert bag(reads.current(spark, table.name)) == bag(wanted)


def test_a_moment_stands_for_a_state_when_commit_times_run_backwards(spark: SparkSession, catalog: Catalog) -> None:
    minute = timedelta(minutes=1)
    times = {5: MONDAY, 6: MONDAY + 10 * minute, 7: MONDAY + 5 * minute, 8: MONDAY + 20 * minute}
    entries = [insert((lsn, 0), row(TUESDAY, lsn)) | {"_timestamp": at} for lsn, at in times.items()]
    table = readings(catalog, *entries)
    for after, position in {-1: 4, 0: 5, 5: 5, 9: 5, 10: 7, 19: 7, 20: None}.items():
        found = reads.last_before(spark, table.name, MONDAY + after * minute)
        assert found == position, f"{after} minutes"
    assert bag(reads.current(spark, table.name, upto=5)) == bag([row(TUESDAY, 5)]), "nothing from behind a later one"


def test_an_update_that_moves_a_row_counts_each_image_where_it_is(spark: SparkSession, catalog: Catalog) -> None:
    old, new, other = row(MONDAY), row(TUESDAY), row(TUESDAY + HOUR, 2)
    table = readings(catalog, *copy(5, MONDAY, TUESDAY, [old]), *update((6, 0), old, new), insert((7, 0), other))
    assert bag(reads.current(spark, table.name)) == bag([new, other])
    table.append(reset((8, 0), TUESDAY, TUESDAY + DAY))
    assert bag(reads.current(spark, table.name)) == bag([])
    cut = Cut(TUESDAY, TUESDAY + DAY, 6)
    assert bag(reads.current(spark, table.name, cuts=[cut])) == bag([new]), "read at a receipt's position"
    table.append(*copy(9, MONDAY, TUESDAY, [old]))
    assert bag(reads.current(spark, table.name)) == bag([old])


@WAYS
def test_a_copy_supersedes_what_arrives_after_it(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, most_conditions: int
) -> None:
    """By position, not by arrival; the removal of a row that was never added is superseded as well."""
    monkeypatch.setattr(reads, "MOST_CONDITIONS", most_conditions)
    old, new, end = row(MONDAY), row(MONDAY, 2), TUESDAY + 6 * HOUR
    table = readings(catalog, *copy(50, MONDAY, end, [old]), insert((51, 0), new))
    table.append(insert((40, 0), old), delete((41, 0), row(MONDAY, 7)), insert((50, 1), row(end - TICK, 3)))
    table.append(*(insert((30, at), row(moment)) for at, moment in enumerate([end, end - TICK, MONDAY - TICK])))
    kept = [old, new, row(end - TICK, 3), row(end), row(MONDAY - TICK)]
    assert bag(reads.current(spark, table.name)) == bag(kept)
    counted = reads.counted(spark, table.name)
    assert counted.columns == table.schema.names
    assert bag(counted.select("ts", "id")) == bag(kept)
    assert reads.history(spark, table.name).count() == 9
    assert reads.resets(spark, table.name) == [Reset(MONDAY, end, 50, -1)]


def test_rows_owed_are_an_error_with_a_name(spark: SparkSession, catalog: Catalog) -> None:
    noon = MONDAY + 12 * HOUR
    table = readings(catalog, insert((5, 0), row(MONDAY)), *(delete((6, seq), row(noon)) for seq in range(2)))
    told = rf"The history {table.name} removes a row of 2026-01-05 12:00:00 2 times more than it adds it\."
    rows = reads.current(spark, table.name)
    for run in (rows.collect, rows.count, rows.toArrow, rows.write.format("noop").mode("overwrite").save):
        with pytest.raises(OwedRows, match=told), reads.translated():
            run()
        with pytest.raises(PySparkException, match=told):
            run()
    assert bag(reads.current(spark, table.name, upto=5)) == bag([row(MONDAY)])
    assert bag(reads.content_of_range(spark, table.name, MONDAY, noon)) == bag([row(MONDAY)])


def test_other_errors_of_spark_stay_what_they_are(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"), reads.translated():
        spark.sql("SELECT 1 / 0").collect()


def test_every_type_is_compared_exactly(spark: SparkSession, catalog: Catalog) -> None:
    columns = {
        "ts": AT_UTC, "b": pa.bool_(), "i": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64(),
        "s": pa.string(), "bin": pa.binary(), "day": pa.date32(), "local": LOCAL, "dec": pa.decimal128(38, 10),
    }  # fmt: skip
    full = {
        "ts": MONDAY, "b": False, "i": -1, "l": 2**62, "f": 0.0, "d": 0.0, "s": "", "bin": b"",
        "day": date(1, 1, 1), "local": datetime(2026, 3, 29, 2, 30), "dec": Decimal("1.0000000001"),  # noqa: DTZ001
    }  # fmt: skip
    others = [
        full | {"f": -0.0}, full | {"d": -0.0}, full | {"f": -0.0, "d": -0.0}, full | {"f": math.nan},
        full | {"d": math.nan}, full | {"d": 5e-324}, full | {"f": math.inf}, full | {"s": "\0"}, full | {"s": "a "},
        full | {"bin": b"\xff\0"}, full | {"dec": Decimal("-1.0000000001")}, full | {"ts": MONDAY + TICK},
        *(full | {name: None} for name in columns if name != "ts"),
    ]  # fmt: skip
    table = create(catalog, columns)
    rows = [full, *others]
    table.append(*(insert((5, seq), one) for seq, one in enumerate(rows * 2)))
    table.append(*(delete((6, seq), one) for seq, one in enumerate(rows)))
    kept = reads.current(spark, table.name)
    assert bag(kept) == bag(rows)
    assert kept.columns == list(columns)
    assert kept.schema == reads.history(spark, table.name).select(*columns).schema
    table.append(*(delete((7, seq), one) for seq, one in enumerate(others)))
    assert bag(reads.current(spark, table.name)) == bag([full])


@WAYS
def test_names_may_have_anything_in_them(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, most_conditions: int
) -> None:
    monkeypatch.setattr(reads, "MOST_CONDITIONS", most_conditions)
    at = 'The "Time" of.`day`\'s'
    columns = {"value0": pa.float64(), "a b.c": pa.float32(), at: AT_UTC, "`": pa.string(), "copies": pa.int32(),
               "start": pa.int32(), "days": pa.int64(), "Größe %s": pa.string(), "SELECT": pa.bool_()}  # fmt: skip
    table = create(catalog, columns, time_column=at)
    one = {"value0": 1.0, "a b.c": -0.0, at: MONDAY, "`": "``", "copies": -1, "start": 2, "days": 3,
           "Größe %s": "%d", "SELECT": True}  # fmt: skip
    later = one | {at: TUESDAY}
    table.append(insert((1, 0), one), insert((1, 1), later), reset((2, 0), MONDAY, TUESDAY, time_column=at))
    table.append(insert((3, 0), one), insert((3, 1), one))
    assert bag(reads.current(spark, table.name)) == bag([one, one, later])
    assert bag(reads.content_of_range(spark, table.name, MONDAY, TUESDAY)) == bag([one, one])
    table.append(delete((4, 0), one | {"days": None}))
    with pytest.raises(OwedRows, match="of 2026-01-05 00:00:00 1 times"), reads.translated():
        reads.current(spark, table.name).collect()


@WAYS
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_bounds_are_exact_for_every_type_of_time_and_any_zone_of_the_session(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, zone: str, most_conditions: int
) -> None:
    monkeypatch.setattr(reads, "MOST_CONDITIONS", most_conditions)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    moments = [MONDAY - TICK, MONDAY, MONDAY + HOUR, TUESDAY - TICK, TUESDAY, TUESDAY + 3 * HOUR]
    shown: dict[pa.DataType, Callable[[datetime], date]] = {
        AT_UTC: lambda at: at,
        LOCAL: lambda at: at.replace(tzinfo=None),
        pa.date32(): lambda at: at.date(),
    }
    for kind, show in shown.items():
        table = create(catalog, {"ts": kind, "id": pa.int32()})
        rows = [{"ts": show(moment), "id": at} for at, moment in enumerate(moments)]
        table.append(*(insert((5, at), one) for at, one in enumerate(rows)))
        table.append(reset((6, 0), show(MONDAY), TUESDAY), *(insert((7, at), one) for at, one in enumerate(rows)))
        assert reads.resets(session, table.name) == [Reset(MONDAY, TUESDAY, 6, 0)]
        there = [rows[at]["id"] for at in (0, 0, 1, 2, 3, 4, 4, 5, 5)]
        assert sorted(one.id for one in reads.current(session, table.name).collect()) == there
        cut = Cut(TUESDAY, TUESDAY + DAY, 5)
        within = reads.content_of_range(session, table.name, TUESDAY - HOUR, TUESDAY + HOUR, cuts=[cut])
        late = {AT_UTC: [3, 4], LOCAL: [3, 4], pa.date32(): [4, 5]}[kind]
        assert sorted(one.id for one in within.collect()) == late


@WAYS
def test_a_time_that_the_lake_cannot_hold_is_in_no_range_and_counts(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, most_conditions: int
) -> None:
    monkeypatch.setattr(reads, "MOST_CONDITIONS", most_conditions)
    never = {"ts": None, "id": 1}
    table = readings(catalog, insert((1, 0), never), reset((2, 0), MONDAY, TUESDAY))
    assert bag(reads.current(spark, table.name)) == bag([never])
    assert reads.content_of_range(spark, table.name, MONDAY, TUESDAY).count() == 0


def test_an_instant_needs_a_zone(spark: SparkSession, catalog: Catalog) -> None:
    naive = MONDAY.replace(tzinfo=None)
    with pytest.raises(ValueError, match="no zone"):
        reads.content_of_range(spark, readings(catalog).name, naive, naive + DAY)


# ---- which table, which snapshot -----------------------------------------------------------------


def test_a_read_stays_at_its_snapshot_while_the_feed_goes_on(spark: SparkSession, catalog: Catalog) -> None:
    one, two = row(MONDAY), row(MONDAY, 2)
    table = readings(catalog)
    empty = reads.current(spark, table.name)
    first = table.append(insert((1, 0), one))
    before, history = reads.current(spark, table.name), reads.history(spark, table.name)
    table.append(*copy(2, MONDAY, TUESDAY, [one, two]))
    assert bag(empty) == bag([])
    assert empty.columns == ["ts", "id"]
    assert bag(before) == bag([one]), "neither doubled by the copy nor with what came after"
    assert history.count() == 1
    assert bag(reads.current(spark, table.name)) == bag([one, two])
    assert bag(reads.current(spark, table.name, snapshot=first)) == bag([one])
    assert reads.resets(spark, table.name, snapshot=first) == []


def test_what_is_no_history_is_refused(spark: SparkSession, catalog: Catalog) -> None:
    with pytest.raises(NotAHistory, match=r"There is no table histories\.none in the lake"):
        reads.current(spark, "histories.none")
    catalog.create_namespace_if_not_exists("histories")
    spark.sql("CREATE TABLE lake.histories.stranger (id BIGINT) USING iceberg")
    with pytest.raises(NotAHistory, match=r"histories\.stranger is not a history"):
        reads.history(spark, "histories.stranger")


def test_a_column_that_the_source_no_longer_has_is_left_out(spark: SparkSession, catalog: Catalog) -> None:
    table = create(catalog, {"ts": AT_UTC, "gone": pa.string(), "id": pa.int32()})
    table.append(insert((1, 0), row(MONDAY) | {"gone": "x"}), insert((1, 1), row(MONDAY, 2) | {"gone": "y"}))
    table.append(delete((2, 0), row(MONDAY)))
    kept = reads.current(spark, table.name, columns=["ts", "id"])
    assert bag(kept) == bag([row(MONDAY, 2)])


# ---- what is read, and how -----------------------------------------------------------------------


def test_a_range_reads_the_files_of_its_partition_only(spark: SparkSession, catalog: Catalog) -> None:
    table = readings(catalog)
    for at in range(6):
        table.append(*(insert((at, day), row(MONDAY + day * DAY + HOUR)) for day in range(5)))
    table.append(reset((2, 7), MONDAY + 2 * DAY, MONDAY + 3 * DAY))
    assert len(files_read(reads.history(spark, table.name))) == 31
    of_day = reads.content_of_range(spark, table.name, MONDAY + 2 * DAY, MONDAY + 3 * DAY)
    assert bag(of_day) == bag([row(MONDAY + 2 * DAY + HOUR)] * 3)
    read = files_read(of_day)
    assert all("_time=2026-01-07" in file for file in read)
    assert len(read) == 3, "the superseded ones are not opened either"
    other = files_read(reads.counted(spark, table.name, within=(MONDAY, TUESDAY), upto=3))
    assert all("_time=2026-01-05" in file for file in other)
    assert len(other) == 4, "nor those above the position"


def test_a_condition_on_the_time_reaches_the_files(spark: SparkSession, catalog: Catalog) -> None:
    """So a reader may narrow `current` afterwards, and what is owed elsewhere does not concern it."""
    table = readings(catalog, insert((1, 0), row(MONDAY)), insert((1, 1), row(TUESDAY)))
    table.append(delete((2, 0), row(TUESDAY, 2)))
    narrowed = reads.current(spark, table.name).where(col("ts") < lit(TUESDAY))
    assert bag(narrowed) == bag([row(MONDAY)])
    assert ["_time=2026-01-05" in file for file in files_read(narrowed)] == [True]
    with pytest.raises(OwedRows), reads.translated():
        reads.current(spark, table.name).where(col("id") < 9).collect()


def test_resets_are_looked_for_only_where_some_are(spark: SparkSession, catalog: Catalog) -> None:
    """Also where one begins before the range that is asked for, because the interval was another then."""
    table = readings(catalog, reset((2, 0), MONDAY - 30 * DAY, TUESDAY + DAY))
    for day in range(5):
        table.append(insert((1, day), row(MONDAY + day * DAY)), *update((1, 9), row(MONDAY), row(TUESDAY)))
    opened = reads._History.opened(spark, table.name, None)
    looked_at = opened.entries.where("_range_end IS NOT NULL AND _change_type = 'truncate'")
    assert len(files_read(looked_at)) == 1
    assert opened.resets((MONDAY, TUESDAY)) == [Reset(MONDAY - 30 * DAY, TUESDAY + DAY, 2, 0)]
    assert opened.resets((MONDAY + 2 * DAY, MONDAY + 3 * DAY)) == []
    assert reads.content_of_range(spark, table.name, MONDAY, TUESDAY).count() == 0


def spent_by_java() -> float:
    """Seconds of computing, which are the same whatever else the machine does."""
    times = [one.cpu_times() for one in psutil.Process().children(recursive=True) if "java" in one.name()]
    return float(sum(one.user + one.system for one in times))


def test_thousands_of_resets_are_looked_up_and_not_tried_one_by_one(spark: SparkSession, catalog: Catalog) -> None:
    count, resets_ = 200_000, 2_000
    at = np.arange(count)
    moments = at * (resets_ * 3600 * 1_000_000 // count) + int(MONDAY.timestamp()) * 1_000_000
    table = create(catalog, {"ts": AT_UTC, "id": pa.int64()})
    entries = {"ts": pa.array(moments).cast(AT_UTC), "id": at, "_change_type": ["insert"] * count, "_lsn": at % 1000}
    entries |= {"_seq": pa.array(at), "_xid": pa.array(at)}
    missing = {one.name: pa.nulls(count, one.type) for one in table.schema if one.name not in entries}
    table.append_table(pa.table(entries | missing).select(table.schema.names))
    table.append(
        *(reset((hour % 1000, 2**40), MONDAY + hour * HOUR, MONDAY + (hour + 1) * HOUR) for hour in range(resets_))
    )
    hour = (moments - moments[0]) // 3_600_000_000
    kept = at[at % 1000 > hour % 1000]

    began = spent_by_java()
    counted = reads.counted(spark, table.name)
    found = counted.select("id").toArrow()
    assert spent_by_java() - began < 30
    assert np.array_equal(np.sort(found.column(0).to_numpy()), kept)
    assert "BroadcastHashJoin" in plan(counted)
    assert "LeftAnti" in plan(counted)
    assert "NestedLoop" not in plan(counted)
    assert "Cartesian" not in plan(counted)
    assert reads.current(spark, table.name).count() == len(kept)


def test_segments_of_centuries_are_looked_up_too(spark: SparkSession, catalog: Catalog) -> None:
    years = [datetime(year, 1, 1, tzinfo=UTC) for year in range(1000, 3001, 200)]
    rows = [row(start + 100 * DAY, at) for at, start in enumerate(years)]
    table = create(catalog, {"ts": AT_UTC, "id": pa.int32()}, unit="month")
    table.append(
        *(insert((5, at), one) for at, one in enumerate(rows)),
        *(reset((at, 0), start, end) for at, (start, end) in enumerate(pairwise(years))),
        change("insert", (6, 0), row(years[0] - TICK)),
    )
    kept = [*rows[:6], rows[-1], row(years[0] - TICK)]
    assert bag(reads.current(spark, table.name)) == bag(kept)
