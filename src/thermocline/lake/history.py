"""History tables: every change of a source table, appended in commits that say how far they reach."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, Transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from thermocline.crash import crash_point
from thermocline.errors import CatalogFailed, Refused
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

AT_UTC = pa.timestamp("us", "UTC")
OWN_COLUMNS = {
    "_change_type": pa.string(),
    "_lsn": pa.int64(),
    "_seq": pa.int64(),
    "_xid": pa.int64(),
    "_timestamp": AT_UTC,
    "_unrepresentable": pa.string(),
    "_range_end": AT_UTC,
}
# Keys of our snapshots' summaries.
BATCH, EPOCH, END, COPY = (f"thermocline.{key}" for key in ("batch", "epoch", "end", "copy"))
# Keys of our tables' properties.
SOURCE, CHRONOTABLE, TIME_COLUMN = (f"thermocline.{key}" for key in ("source", "chronotable", "time-column"))
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    # Measurements repeat little: large dictionaries cost half of the time of writing, and a third more bytes.
    "write.parquet.dict-size-bytes": str(128 << 10),
    "commit.manifest-merge.enabled": "true",
    "commit.retry.num-retries": "0",  # a conflict is looked into, never retried blindly
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_UNITS: dict[str, Transform[Any, int]] = {"hour": HourTransform(), "day": DayTransform(), "month": MonthTransform()}
_PLAIN: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    AT_UTC: TimestamptzType(),
}


class HistoryUnfit(Refused):
    """The history table in the lake is not the one that this table writes to."""

    code = "lake.history_unfit"
    next_step_by_default = "Move the table in the lake away under another name; then sync anew."


class HistoryMoved(Refused):
    """The history table in the lake is not as this database left it."""

    code = "lake.history_moved"
    next_step_by_default = (
        "If the lake was rolled back on purpose, SELECT lakets.disable_sync and then lakets.enable_sync:"
        " every resident chunk is copied anew."
    )


class HistoryGone(HistoryMoved):
    """The history table that this database has written to is not in the lake any more."""

    code = "lake.history_gone"
    next_step_by_default = (
        "Register its newest metadata file in the catalog again. If it is lost for good, SELECT lakets.disable_sync and"
        " then lakets.enable_sync: resident chunks are copied anew, but what has left PostgreSQL is not there any more."
    )


@contextmanager
def answering(table: str) -> Iterator[None]:
    """Whatever the catalog's drivers say when it does not answer is said in one way."""
    try:
        yield
    except (SQLAlchemyError, RequestException) as error:
        told = masked((str(error).strip().splitlines() or [type(error).__name__])[0])
        raise CatalogFailed(
            f"The catalog does not answer for {table}: {told}",
            next_step="Nothing is lost. Start it again once the catalog is there.",
        ) from error


class CommitConflict(Exception):
    """Somebody else has committed to the table meanwhile."""


@dataclass(frozen=True)
class Written:
    """A snapshot of ours."""

    snapshot_id: int
    batch: str
    end: int | None
    """End of the stream's batch; None for a copy."""
    copied: int | None
    """Position of the newest copy in it; None for a batch."""


class History:
    """One history table, opened for writing."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.base = table.metadata.current_snapshot_id

    @property
    def name(self) -> str:
        """With its namespace."""
        return ".".join(self._table.name())

    @property
    def metadata(self) -> TableMetadata:
        """What is needed to write files of it."""
        return self._table.metadata

    @property
    def io(self) -> FileIO:
        """How its files are written."""
        return self._table.io

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot."""
        return self.metadata.current_snapshot_id

    @property
    def metadata_location(self) -> str:
        """Which version of the table this is."""
        return self._table.metadata_location

    def has(self, columns: Iterable[str]) -> bool:
        """Whether it has all of these columns."""
        return set(columns) <= set(self.metadata.schema().column_names)

    def refresh(self) -> None:
        """Look at the newest version."""
        with answering(self.name):
            try:
                self._table.refresh()
            except NoSuchTableError:
                raise HistoryGone(f"{self.name} is not in the lake any more.") from None

    def write(self, rows: pa.Table) -> list[DataFile]:
        """Write rows into data files; nothing points at them until they are appended."""
        return list(data_files(self.metadata, self.io, rows))

    def append(self, files: Iterable[DataFile], summary: Mapping[str, str]) -> int:
        """Commit files in one snapshot; returns its id. Raises `CommitConflict` when the table has moved on.

        When the outcome is not known, as after a lost connection, the table itself is asked.
        """
        files = list(files)
        try:
            with self._table.transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties=dict(summary))
                with update.merge_append() as append:
                    for file in files:
                        append.append_data_file(file)
                crash_point("lake.manifests_written")
        except CommitFailedException as error:
            found = self._committed(summary[BATCH])
            if found is None:
                raise CommitConflict(str(error)) from error
            return found
        except Exception:
            found = self._committed(summary[BATCH])
            if found is None:
                with answering(self.name):
                    raise
            return found
        crash_point("lake.appended")
        self.base = append.snapshot_id
        return append.snapshot_id

    def _committed(self, batch: str) -> int | None:
        self.refresh()
        return next((one.snapshot_id for one in self.written() if one.batch == batch), None)

    def written(self) -> Iterator[Written]:
        """Our snapshots in the line of the newest one, newest first."""
        for snapshot in ancestry(self.metadata):
            summary = snapshot.summary
            batch = summary.get(BATCH) if summary else None
            if summary is None or batch is None:
                continue
            end, copied = summary.get(END), summary.get(COPY)
            yield Written(snapshot.snapshot_id, batch, int(end) if end else None, int(copied) if copied else None)

    def marker(self) -> int:
        """The position up to which the stream is in the table; 0 when it is in it not at all."""
        return next((one.end for one in self.written() if one.end is not None), 0)

    def newest_position(self) -> int:
        """The furthest position of the log that anything in the table stands for."""
        return max((one.end or one.copied or 0 for one in self.written()), default=0)

    def require_unbroken(self, mirrored: int | None, known: set[str]) -> None:
        """Refuse a table that is not what this database wrote: rolled back, or written to by another one.

        `mirrored` is the newest snapshot that the database has recorded, `known` the ids of batches that may
        have been written after it. With none recorded, as when a table is synced anew, what is there is taken as it is.
        """
        if mirrored is not None:
            self._require_since(mirrored, known)

    def require_ours(self, known: set[str]) -> None:
        """After a conflict: refuse when what came since this was opened is another database's."""
        self._require_since(self.base, known)

    def _require_since(self, base: int | None, known: set[str]) -> None:
        for one in self.written():
            if one.snapshot_id == base:
                return
            if one.batch not in known:
                raise HistoryMoved(
                    f"{self.name} was written to by another database: its snapshot {one.snapshot_id} has a batch id"
                    " that this database does not know.",
                    next_step="A copy or an older state of this database, or a copy of the lake, is in use. Decide"
                    " which database the lake belongs to; give the other one a lake of its own.",
                )
        if base is not None and base not in {one.snapshot_id for one in ancestry(self.metadata)}:
            raise HistoryMoved(
                f"{self.name} no longer has the snapshot {base} that was written last: it was rolled back."
            )


def ancestry(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The newest snapshot and those it stands on, as far as they are kept."""
    at = metadata.current_snapshot_id
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while at is not None and at in by_id:
        yield by_id[at]
        at = by_id[at].parent_snapshot_id


def data_files(metadata: TableMetadata, io: FileIO, rows: pa.Table) -> Iterator[DataFile]:
    """Write rows as files of a history table; runs anywhere, also in a Spark task."""
    missing = [name for name in OWN_COLUMNS if name not in rows.column_names]
    for name in missing:
        rows = rows.append_column(name, pa.nulls(rows.num_rows, OWN_COLUMNS[name]))
    yield from _dataframe_to_data_files(metadata, rows, io)


def resets(
    columns: Mapping[str, pa.DataType], time_column: str, ranges: Sequence[tuple[int, int, datetime, datetime]]
) -> pa.Table:
    """Rows that supersede older ones: (lsn, seq, start and end of a range) each."""
    lsn, seq, starts, ends = ([one[at] for one in ranges] for at in range(4))
    arrays: dict[str, Any] = {name: pa.nulls(len(ranges), kind) for name, kind in columns.items()}
    arrays |= {name: pa.nulls(len(ranges), kind) for name, kind in OWN_COLUMNS.items()}
    arrays["_change_type"] = pa.array(["truncate"] * len(ranges))
    arrays["_lsn"], arrays["_seq"] = pa.array(lsn, pa.int64()), pa.array(seq, pa.int64())
    kind = columns[time_column]
    instants = pa.array(starts, AT_UTC)
    arrays[time_column] = instants if kind == AT_UTC else instants.cast(pa.timestamp("us")).cast(kind)
    arrays["_range_end"] = pa.array(ends, AT_UTC)
    return pa.table(arrays)


def open_or_create(
    catalog: Catalog,
    name: str,
    columns: Mapping[str, pa.DataType],
    *,
    time_column: str,
    unit: str,
    properties: Mapping[str, str],
    may_create: bool = True,
) -> History:
    """The history table of a source; made if it is not there and may be, widened if the source has new columns."""
    with answering(name):
        return _open_or_create(catalog, name, columns, time_column, unit, properties, may_create)


def _open_or_create(
    catalog: Catalog,
    name: str,
    columns: Mapping[str, pa.DataType],
    time_column: str,
    unit: str,
    properties: Mapping[str, str],
    may_create: bool,
) -> History:
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        if not may_create:
            raise HistoryGone(f"{name} is not in the lake any more.") from None
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        crash_point("lake.creating")
        schema = _schema(columns)
        source = schema.find_field(time_column).field_id
        spec = PartitionSpec(PartitionField(source, 1000, _UNITS[unit], "_time"))
        described = _PROPERTIES | dict(properties) | {TIME_COLUMN: time_column}
        try:
            return History(catalog.create_table(name, schema, partition_spec=spec, properties=described))
        except TableAlreadyExistsError:
            table = catalog.load_table(name)
    for key in (SOURCE, CHRONOTABLE):
        if table.properties.get(key) != properties[key]:
            told = table.properties.get(key, "a stranger")
            raise HistoryUnfit(f"{name} in the lake is the history of {told}, not of {properties[key]} ({key}).")
    if table.properties.get(TIME_COLUMN) != time_column:
        raise HistoryUnfit(
            f"{name} in the lake has its times in {table.properties.get(TIME_COLUMN)}, the table in {time_column}.",
            next_step="Give the column its old name back, then sync anew.",
        )
    _fit(table, name, columns)
    return History(table)


def _fit(table: Table, name: str, columns: Mapping[str, pa.DataType]) -> None:
    wanted = _schema(columns)
    there = {field.name: field.field_type for field in table.schema().fields}
    for field in wanted.fields:
        if field.name in there and there[field.name] != field.field_type:
            raise HistoryUnfit(
                f"{name}: the column {field.name} is {there[field.name]} in the lake and {field.field_type} now."
            )
    new = [field for field in wanted.fields if field.name not in there]
    if new:
        with table.update_schema() as update:
            for field in new:
                update.add_column((field.name,), field.field_type)


def _schema(columns: Mapping[str, pa.DataType]) -> Schema:
    kinds = {**columns, **OWN_COLUMNS}
    return Schema(
        *(NestedField(at, name, _iceberg(kind), required=False) for at, (name, kind) in enumerate(kinds.items(), 1))
    )


def _iceberg(kind: pa.DataType) -> IcebergType:
    return DecimalType(kind.precision, kind.scale) if pa.types.is_decimal(kind) else _PLAIN[kind]
