"""Reading a range of a history without Spark SQL: file by file in Arrow, with what still counts marked and signed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, GreaterThan, GreaterThanOrEqual, LessThan
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

    from thermocline.lake.columns import Default

# Their constructors are made by pydantic, which mypy cannot follow.
_above: Any = GreaterThan
_at_least: Any = GreaterThanOrEqual
_below: Any = LessThan
_ADDS, _REMOVES = pa.array(["insert", "update_postimage"]), pa.array(["delete", "update_preimage"])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def files_of_range(table: Table, start: datetime, end: datetime, columns: Sequence[str]) -> list[RangeFile]:
    """The files that may have rows of a range, as of the table's newest snapshot."""
    time = table.properties[TIME_COLUMN]
    field = table.schema().find_field(time)
    kind = str(field.field_type)
    inside = And(_at_least(time, _literal(start, kind)), _below(time, _literal(end, kind)))
    with readable(".".join(table.name())):
        found = tuple(segments(_resets(table, time, kind, start, end)))
        layout = Layout.of(table.properties)
        defaults = tuple(
            (name, layout.defaults[at], layout.defaults[at].scalar(arrow(table.schema().find_field(name).field_type)))
            for at, name in layout.names(table.schema()).items()
            if at in layout.defaults and name in columns
        )
        return [
            RangeFile(table.metadata, table.io, task, inside, time, tuple(columns), found, defaults)
            for task in table.scan(row_filter=inside).plan_files()
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
