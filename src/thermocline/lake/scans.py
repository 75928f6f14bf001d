"""Reading a range of a history without Spark SQL: file by file in Arrow, with what still counts marked and signed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, And, GreaterThan, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import ArrowScan

from thermocline.errors import Refused, ThermoclineError
from thermocline.lake.columns import Layout, arrow
from thermocline.lake.history import BATCH, TIME_COLUMN, ancestry
from thermocline.lake.segments import Reset, Segment, segments
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from thermocline.lake.columns import Default
    from thermocline.lake.segments import Cut

# Their constructors are made by pydantic, which mypy cannot follow.
_above: Any = GreaterThan
_at_least: Any = GreaterThanOrEqual
_below: Any = LessThan
_ADDS, _REMOVES = pa.array(["insert", "update_postimage"]), pa.array(["delete", "update_preimage"])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Past every place within a transaction.
_LAST = (1 << 63) - 1


class LakeFileLost(Refused):
    """A file of the lake is gone or is not what was written."""

    code = "lake.file_lost"
    next_step_by_default = (
        "Bring it back from a backup. If that cannot be, SELECT lakets.disable_sync and lakets.enable_sync copy what is"
        " still in PostgreSQL anew."
    )


@dataclass(frozen=True)
class RangeFile:
    """A file of a range of a history; a task reads it wherever it runs."""

    metadata: TableMetadata
    io: FileIO
    task: FileScanTask
    filter: BooleanExpression
    time_column: str
    columns: tuple[str, ...]
    segments: tuple[Segment, ...]
    defaults: tuple[tuple[str, Default, pa.Scalar], ...] = ()
    """Of those columns that came after some of the entries, with the value."""

    @property
    def only_adds(self) -> bool:
        """Whether its metadata says that nothing in it removes a row; a file of which it does not say so may."""
        field = self.metadata.schema().find_field("_change_type").field_id
        bounds = [(of or {}).get(field) for of in (self.task.file.lower_bounds, self.task.file.upper_bounds)]
        return bounds == [b"insert", b"insert"]

    def read(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The rows in the range, and for each 1 if it adds, -1 if it removes, 0 if it does not count any more."""
        schema = self.metadata.schema().select(*self.columns, self.time_column, "_change_type", "_lsn", "_seq")
        scan = ArrowScan(self.metadata, self.io, schema, self.filter)
        with readable(self.task.file.file_path):
            for batch in scan.to_record_batches([self.task]):
                yield self._filled(batch), self._signs(batch)

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the defaults of columns in entries from before them."""
        for name, default, value in self.defaults:
            before = pa.scalar(True)
            if default.until is not None:
                lsn, seq = (
                    (pc.less(batch.column(own), at), pc.equal(batch.column(own), at))
                    for own, at in zip(("_lsn", "_seq"), default.until, strict=True)
                )
                before = pc.or_(lsn[0], pc.and_(lsn[1], seq[0]))
            at = batch.schema.get_field_index(name)
            there = batch.column(at)
            filled = pc.if_else(before, value.cast(there.type), there)
            batch = batch.set_column(at, batch.schema.field(at), filled)
        return batch

    def _signs(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        kinds = batch.column("_change_type")
        adds, removes = pc.is_in(kinds, _ADDS), pc.is_in(kinds, _REMOVES)
        signs = _whole(adds).astype(np.int64) - _whole(removes).astype(np.int64)
        if not self.segments:
            return signs
        times = microseconds(batch.column(self.time_column))
        lsn, seq = _numbers(batch.column("_lsn")), _numbers(batch.column("_seq"))
        starts = np.array([_since(segment.start) for segment in self.segments])
        ends = np.array([_since(segment.end) for segment in self.segments])
        at = np.searchsorted(starts, times, side="right") - 1
        inside = (at >= 0) & (times < ends[at])
        base_lsn = np.array([segment.lsn for segment in self.segments])[at]
        base_seq = np.array([segment.seq for segment in self.segments])[at]
        superseded = inside & ((lsn < base_lsn) | ((lsn == base_lsn) & (seq <= base_seq)))
        signs[superseded] = 0
        return signs


class Span:
    """All files of a history that may have rows between two times, as of its newest snapshot.

    They are looked up once, for however many ranges within.
    """

    def __init__(self, table: Table, start: datetime, end: datetime) -> None:
        self._table = table
        self._time = table.properties[TIME_COLUMN]
        self._field = table.schema().find_field(self._time)
        with readable(".".join(table.name())):
            self._tasks = list(table.scan(row_filter=self._inside(start, end)).plan_files())
            self._first, self._last = self._bounds(self._field)
            self._resets = _resets(table, self._time, self._kind, start, end)

    @property
    def _kind(self) -> str:
        return str(self._field.field_type)

    def _inside(self, start: datetime, end: datetime) -> BooleanExpression:
        from_, before = _literal(start, self._kind), _literal(end, self._kind)
        return And(_at_least(self._time, from_), _below(self._time, before))

    def _bounds(self, field: NestedField) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The least and the greatest value of each file as its metadata has it; where it has none, any."""
        kind: Any = field.field_type
        files = [task.file for task in self._tasks]
        least, greatest = (
            [from_bytes(kind, told) if (told := (of or {}).get(field.field_id)) else None for of in bounds]
            for bounds in ([file.lower_bounds for file in files], [file.upper_bounds for file in files])
        )
        return (
            np.array([-_LAST if value is None else value for value in least], np.int64),
            np.array([_LAST if value is None else value for value in greatest], np.int64),
        )

    def files(
        self,
        start: datetime,
        end: datetime,
        columns: Sequence[str],
        *,
        above: Sequence[Cut] = (),
        upto: int | None = None,
    ) -> list[RangeFile]:
        """Those that may have rows of a range of the span.

        Of the times of `above` only entries past its positions count, as if a reset stood there; none past `upto` does.
        """
        table, inside = self._table, self._inside(start, end)
        least, least_after = (_number(moment, self._kind) for moment in (start, end))
        there = (self._first < least_after) & (self._last >= least)
        # Of a file that lies in the range as a whole nothing is left out: to look at each row would take a copy of all.
        whole = (self._first >= least) & (self._last < least_after)
        if above or upto is not None:
            first, last = self._bounds(table.schema().find_field("_lsn"))
        if above:
            floor = min(cut.lsn for cut in above)
            inside = And(inside, _above("_lsn", floor))
            there, whole = there & (last > floor), whole & (first > floor)
        if upto is not None:
            inside = And(inside, _below("_lsn", upto + 1))
            there, whole = there & (first <= upto), whole & (last <= upto)
        floors = [Reset(cut.start, cut.end, cut.lsn, _LAST) for cut in above]
        resets = [reset for reset in self._resets if reset.start < end and start < reset.end]
        found = tuple(segments([*resets, *floors], upto))
        layout = Layout.of(table.properties)
        defaults = tuple(
            (name, layout.defaults[at], layout.defaults[at].scalar(arrow(table.schema().find_field(name).field_type)))
            for at, name in layout.names(table.schema()).items()
            if at in layout.defaults and name in columns
        )
        return [
            RangeFile(
                table.metadata,
                table.io,
                self._tasks[at],
                AlwaysTrue() if whole[at] else inside,
                self._time,
                tuple(columns),
                found,
                defaults,
            )
            for at in np.flatnonzero(there)
        ]


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Whatever cannot be read of the lake is said in one way."""
    try:
        yield
    except ThermoclineError:
        raise
    except Exception as error:  # a damaged file breaks a parser in ways that nobody has listed
        told = masked((str(error).strip().splitlines() or [type(error).__name__])[0])
        raise LakeFileLost(f"{what} cannot be read: {told}") from error


def _resets(table: Table, time: str, kind: str, start: datetime, end: datetime) -> list[Reset]:
    overlapping = And(_above("_range_end", start.astimezone(UTC).isoformat()), _below(time, _literal(end, kind)))
    schema = table.schema().select(time, "_range_end", "_lsn", "_seq")
    found: list[Reset] = []
    for task in table.scan(row_filter=overlapping).plan_files():
        with readable(task.file.file_path):
            for batch in ArrowScan(table.metadata, table.io, schema, overlapping).to_record_batches([task]):
                starts = (_EPOCH + timedelta(microseconds=int(one)) for one in microseconds(batch.column(time)))
                ends, lsn, seq = (batch.column(name).to_pylist() for name in ("_range_end", "_lsn", "_seq"))
                found += [Reset(*one) for one in zip(starts, ends, lsn, seq, strict=True)]
    return found


def require_files(files: Sequence[RangeFile]) -> None:
    """Refuse when one of the files is gone or has another length."""
    for file in files:
        path, size = file.task.file.file_path, file.task.file.file_size_in_bytes
        with readable(path):
            there = len(file.io.new_input(path))
        if there != size:
            raise LakeFileLost(f"{path} has {there} bytes; {size} were written.")


def only_appended_since(metadata: TableMetadata, snapshot_id: int | None) -> bool:
    """Whether nothing but our own appends has come after a snapshot, which is still in the line of the newest.

    None is the empty table.
    """
    for snapshot in ancestry(metadata):
        if snapshot.snapshot_id == snapshot_id:
            return True
        summary = snapshot.summary
        if summary is None or summary.operation.value != "append" or summary.get(BATCH) is None:
            return False
    return snapshot_id is None


def microseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """Since 1970, whatever the time column is; one without a zone is in UTC."""
    if pa.types.is_date32(times.type):
        days: npt.NDArray[np.int64] = _numbers(times.cast(pa.int32()).cast(pa.int64()))
        return days * 86_400_000_000
    return _numbers(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()))


def _number(moment: datetime, kind: str) -> int:
    """The first value of a time column at or after a moment, as the column has it."""
    return -(-_since(moment) // 86_400_000_000) if kind == "date" else _since(moment)


def _since(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False)
    return found


def _whole(mask: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return found


def _literal(moment: datetime, kind: str) -> str:
    at = moment.astimezone(UTC)
    if kind == "date":
        return at.date().isoformat()
    return at.isoformat() if kind == "timestamptz" else at.replace(tzinfo=None).isoformat()
