"""Many ranges of one history, looked up once: each gets the files that it would get alone, and the same rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue

from thermocline.lake import scans
from thermocline.lake.history import TIME_COLUMN
from thermocline.lake.segments import Cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyiceberg.table import Table

BASE = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "timestamptz": (pa.timestamp("us", "UTC"), lambda hour: BASE + timedelta(hours=hour)),
    "timestamp": (pa.timestamp("us"), lambda hour: (BASE + timedelta(hours=hour)).replace(tzinfo=None)),
    "date": (pa.date32(), lambda hour: date(2026, 1, 1) + timedelta(days=hour // 24)),
}


def table_of(folder: Path, kind: str, files: list[list[int]], resets: Sequence[tuple[int, int, int]] = ()) -> Table:
    """A history with a file for each list of hours, each row at a position of its own, and one for the resets."""
    of, moment = KINDS[kind]
    catalog = InMemoryCatalog("memory", warehouse=folder.as_uri())
    catalog.create_namespace("s")
    ends = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [("ts", of), ("v", pa.int64()), ("_change_type", pa.string()), ("_lsn", pa.int64()), ("_seq", pa.int64()),
         ("_range_end", ends)]
    )  # fmt: skip
    table = catalog.create_table("s.h", schema, properties={TIME_COLUMN: "ts"})
    lsn = 0
    for hours in files:
        rows = [(moment(hour), lsn + at, "insert", lsn + at, 0, None) for at, hour in enumerate(hours)]
        lsn += len(hours)
        table.append(_rows(rows, schema))
    for start, end, at in resets:
        table.append(_rows([(moment(start), None, "reset", at, 5, BASE + timedelta(hours=end))], schema))
    return table


def _rows(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def rows_of(files: list[scans.RangeFile]) -> list[int]:
    """The values that count."""
    found: list[int] = []
    for file in files:
        for batch, signs in file.read():
            values = batch.column("v").to_pylist()
            found += [value for value, sign in zip(values, signs, strict=True) if sign]
    return sorted(found)


hours = st.integers(0, 95)
ranges = st.tuples(st.integers(0, 4), st.integers(1, 4)).map(lambda at: (24 * at[0], 24 * (at[0] + at[1])))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(hours, min_size=1, max_size=5), min_size=1, max_size=4),
    resets=st.lists(st.tuples(ranges, st.integers(0, 20)).map(lambda one: (*one[0], one[1])), max_size=2),
    wanted=st.lists(ranges, min_size=1, max_size=4),
    upto=st.none() | st.integers(0, 20),
    floor=st.none() | st.integers(0, 20),
)
def test_a_span_gives_each_of_its_ranges_what_is_in_it(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    files: list[list[int]],
    resets: list[tuple[int, int, int]],
    wanted: list[tuple[int, int]],
    upto: int | None,
    floor: int | None,
) -> None:
    table = table_of(tmp_path_factory.mktemp("span"), kind, files, resets)
    at = dict(enumerate(hour for of_file in files for hour in of_file))
    moments = [(BASE + timedelta(hours=start), BASE + timedelta(hours=end)) for start, end in wanted]
    span = scans.Span(table, min(start for start, _ in moments), max(end for _, end in moments))
    for (first, last), (start, end) in zip(wanted, moments, strict=True):
        above = [] if floor is None else [Cut(start, end, floor)]
        found = rows_of(span.files(start, end, ["v"], above=above, upto=upto))
        counting = [reset for reset in resets if upto is None or reset[2] <= upto]
        expected = [
            lsn
            for lsn, hour in at.items()
            if first <= hour < last
            and (upto is None or lsn <= upto)
            and (floor is None or lsn > floor)
            and not any(begin <= hour < until and lsn <= by for begin, until, by in counting)
        ]
        assert found == expected
        alone = scans.Span(table, start, end)
        assert found == rows_of(alone.files(start, end, ["v"], above=above, upto=upto))


def test_only_a_file_that_lies_in_the_range_as_a_whole_is_read_without_a_look_at_each_row(tmp_path: Path) -> None:
    table = table_of(tmp_path, "timestamptz", [[0, 23], [23, 24], [24], [47], [48]])
    found = scans.Span(table, BASE, BASE + timedelta(days=3)).files(
        BASE + timedelta(days=1), BASE + timedelta(days=2), ["v"]
    )
    whole = {tuple(rows_of([file])): file.filter == AlwaysTrue() for file in found}
    assert whole == {(3,): False, (4,): True, (5,): True}


def test_a_file_without_bounds_is_looked_at_row_by_row(tmp_path: Path) -> None:
    table = table_of(tmp_path, "timestamptz", [[0, 24, 48]])
    span = scans.Span(table, BASE, BASE + timedelta(days=3))
    for task in span._tasks:
        task.file.lower_bounds.clear()
        task.file.upper_bounds.clear()
    span._first, span._last = span._bounds(span._field)
    (file,) = span.files(BASE + timedelta(days=1), BASE + timedelta(days=2), ["v"])
    assert file.filter != AlwaysTrue()
    assert rows_of([file]) == [1]
