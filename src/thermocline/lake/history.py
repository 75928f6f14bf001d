"""History tables: every change of a source table, appended in commits that say how far they reach."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, Transform
from pyiceberg.types import NestedField
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from thermocline import meters
from thermocline.crash import crash_point
from thermocline.errors import CatalogFailed, Refused, StoreFailed
from thermocline.lake.columns import (
    AT_UTC,
    COLUMNS,
    OWN_COLUMNS,
    HistoryUnfit,
    Layout,
    arrow,
    default_of,
    following,
    iceberg,
)
from thermocline.lake.refusals import HistoryGone, HistoryMoved, loading, require_entries, require_manifests
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from thermocline.lake.columns import Following, Look, SourceColumn

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


@contextmanager
def answering(table: str) -> Iterator[None]:
    """Whatever the catalog's drivers say when it does not answer is said in one way."""
    try:
        yield
    except (SQLAlchemyError, RequestException, RESTError) as error:
        told = masked((str(error).strip().splitlines() or [type(error).__name__])[0])
        raise CatalogFailed(
            f"The catalog does not answer for {table}: {told}",
            next_step="Nothing is lost. Start it again once the catalog is there.",
        ) from error


class OwedRows(Refused):
    """The history removes rows that it does not add."""

    code = "lake.owed_rows"
    next_step_by_default = "Wait until the table is copied. If it is, its history is damaged: copy it anew."


@contextmanager
def storing(table: str, location: str) -> Iterator[None]:
    """Whatever the store says when it does not take a file is said in one way, without the name of the file."""
    try:
        yield
    except OSError as error:
        told = error.strerror or (str(error).strip().splitlines() or [type(error).__name__])[0]
        told = masked(told).rstrip(".")
        raise StoreFailed(f"The store does not take files of {table} at {location}: {told}.") from error


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
    def table(self) -> Table:
        """As PyIceberg knows it."""
        return self._table

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

    @property
    def layout(self) -> Layout:
        """Which field has which column of the source."""
        return Layout.of(self.metadata.properties)

    @property
    def told_columns(self) -> str:
        """What the table's properties tell of that, as they tell it."""
        return self.metadata.properties.get(COLUMNS, "")

    def follow(
        self, look: Look, defaults: Callable[[], Mapping[int, Any]], summary: Callable[[], Mapping[str, str]]
    ) -> int | None:
        """Bring the fields to what the source's columns are: added, renamed, widened, dropped. One commit, or none.

        `defaults` are asked for when columns were added: what older rows read in them, by number. The commit is a
        snapshot without files, so that whoever reads the newest one has the fields of now; returns its id.
        """
        schema, layout = self.metadata.schema(), self.layout
        found = following(self.name, schema, layout, look)
        if not found.is_needed(layout) and look.names.items() <= self.metadata.properties.items():
            return None
        told = summary() if self.snapshot_id is not None else None
        known = defaults() if found.added else {}
        require_manifests(self.name, self.metadata, self.io)
        try:
            with answering(self.name), self._table.transaction() as transaction:
                layout = _followed(transaction, found, look, known)
                transaction.set_properties({**layout.told(), **look.names})
                if told is not None:
                    with transaction.update_snapshot(snapshot_properties=dict(told)).merge_append() as append:
                        self.base = append.snapshot_id
                crash_point("lake.following")
        except CommitFailedException as error:
            raise self._conflict(error) from error
        crash_point("lake.followed")
        return self.base if told is not None else None

    def refresh(self) -> None:
        """Look at the newest version."""
        with answering(self.name):
            try:
                with loading(self.name):
                    self._table.refresh()
            except NoSuchTableError:
                raise HistoryGone(f"{self.name} is not in the lake any more.") from None

    def write(self, rows: pa.Table) -> list[DataFile]:
        """Write rows into data files; nothing points at them until they are appended."""
        return list(data_files(self.metadata, self.io, rows))

    def append(
        self,
        files: Iterable[DataFile],
        summary: Mapping[str, str],
        firsts: Mapping[int, tuple[int, int]] | None = None,
    ) -> int:
        """Commit files in one snapshot; returns its id. Raises `CommitConflict` when the table has moved on.

        `firsts` are the places of the first entries in them that have a value in a column with a default, by number.
        When the outcome is not known, as after a lost connection, the table itself is asked. Refuses a table of which
        a file is damaged.
        """
        files = list(files)
        layout = self.layout
        lowered = layout.lowered(firsts or {})
        require_manifests(self.name, self.metadata, self.io)
        try:
            with self._table.transaction() as transaction:
                if lowered != layout:
                    transaction.set_properties(lowered.told())
                update = transaction.update_snapshot(snapshot_properties=dict(summary))
                with update.merge_append() as append:
                    for file in files:
                        append.append_data_file(file)
                crash_point("lake.manifests_written")
        except CommitFailedException as error:
            found = self._committed(summary[BATCH])
            if found is None:
                raise self._conflict(error) from error
            return found
        except Exception:
            found = self._committed(summary[BATCH])
            if found is None:
                require_entries(self.name, self.metadata, self.io)
                with answering(self.name):
                    raise
            return found
        crash_point("lake.appended")
        self.base = append.snapshot_id
        return append.snapshot_id

    def _conflict(self, error: CommitFailedException) -> CommitConflict:
        meters.CONFLICTS.labels(self.name).inc()
        return CommitConflict(str(error))

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
                f"{self.name} no longer has the snapshot {base} that was written last: it was rolled back, or the"
                " catalog was restored from a backup."
            )


def _followed(transaction: Transaction, found: Following, look: Look, defaults: Mapping[int, Any]) -> Layout:
    """Change the fields; returns which has which column then."""
    if found.renamed or found.widened:
        with transaction.update_schema() as update:
            for name, kind in found.widened.items():
                update.update_column((name,), field_type=kind)
            for name, new in found.renamed.items():
                update.rename_column((name,), new)
    if found.added:
        with transaction.update_schema() as update:
            for column in found.added:
                update.add_column((column.name,), iceberg(column.kind))
    after = transaction.table_metadata.schema()
    fields = {column.number: after.find_field(column.name).field_id for column in found.added}
    given = {one.number: default_of(defaults[one.number], one.kind) for one in found.added if one.number in defaults}
    return replace(
        found.layout,
        fields={**found.layout.fields, **fields},
        added={**found.layout.added, **dict.fromkeys(fields, look.position)},
        defaults={**found.layout.defaults, **given},
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
    there = set(rows.column_names)
    arrays = {
        one.name: rows[one.name].cast(arrow(one.field_type))
        if one.name in there
        else pa.nulls(rows.num_rows, arrow(one.field_type))
        for one in metadata.schema().fields
    }
    if not there <= arrays.keys():
        raise HistoryUnfit(f"There are rows with the columns {sorted(there - arrays.keys())}, which the lake has not.")
    yield from _dataframe_to_data_files(metadata, _by_time(metadata, pa.table(arrays)), io)


def _by_time(metadata: TableMetadata, rows: pa.Table) -> pa.Table:
    """Rows in order of their time, so that a question about a part of a day reads a part of its files.

    What is written as it happens is in order already.
    """
    times = rows[metadata.schema().find_field(metadata.spec().fields[0].source_id).name]
    if pc.all(pc.less_equal(times[:-1], times[1:])).as_py() is not False:
        return rows
    return rows.take(pc.sort_indices(times))


def resets(
    time_column: str,
    kind: pa.DataType,
    ranges: Sequence[tuple[int, int, datetime, datetime]],
    committed: datetime | None = None,
) -> pa.Table:
    """Rows that supersede older ones: (lsn, seq, start and end of a range) each, and when that was committed."""
    lsn, seq, starts, ends = ([one[at] for one in ranges] for at in range(4))
    arrays: dict[str, Any] = {name: pa.nulls(len(ranges), own) for name, own in OWN_COLUMNS.items()}
    arrays["_change_type"] = pa.array(["truncate"] * len(ranges))
    arrays["_lsn"], arrays["_seq"] = pa.array(lsn, pa.int64()), pa.array(seq, pa.int64())
    instants = pa.array(starts, AT_UTC)
    arrays[time_column] = instants if kind == AT_UTC else instants.cast(pa.timestamp("us")).cast(kind)
    arrays["_range_end"] = pa.array(ends, AT_UTC)
    arrays["_timestamp"] = pa.array([committed] * len(ranges), AT_UTC)
    return pa.table(arrays)


def open_or_create(
    catalog: Catalog,
    name: str,
    look: Look,
    *,
    unit: str,
    chronotable: int,
    may_create: bool = True,
) -> History:
    """The history table of a source, a ChronoTable or a RollUp of this number; made if it is not there and may be.

    One that is there has the columns that it had: see `History.follow`.
    """
    with answering(name):
        return _open_or_create(catalog, name, look, unit, chronotable, may_create)


def _open_or_create(
    catalog: Catalog,
    name: str,
    look: Look,
    unit: str,
    chronotable: int,
    may_create: bool,
) -> History:
    properties = {**look.names, CHRONOTABLE: str(chronotable)}
    try:
        with loading(name):
            table = catalog.load_table(name)
    except NoSuchTableError:
        if not may_create:
            raise HistoryGone(f"{name} is not in the lake any more.") from None
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        crash_point("lake.creating")
        schema = _schema(look.columns)
        time = schema.find_field(look.names[TIME_COLUMN]).field_id
        spec = PartitionSpec(PartitionField(time, 1000, _UNITS[unit], "_time"))
        order = SortOrder(SortField(time, IdentityTransform()))
        layout = Layout.by_name(look, schema)
        described = _PROPERTIES | properties | layout.told()
        try:
            table = catalog.create_table(name, schema, partition_spec=spec, sort_order=order, properties=described)
        except TableAlreadyExistsError:
            table = catalog.load_table(name)
        else:
            given = Layout.by_name(look, table.schema())
            if given != layout:  # a catalog may number fields in its own way
                with table.transaction() as transaction:
                    transaction.set_properties(given.told())
            return History(table)
    for key in (SOURCE, CHRONOTABLE):
        renamed = key == SOURCE and Layout.of(table.properties).source == look.oid
        if table.properties.get(key) != properties[key] and not renamed:
            told = table.properties.get(key, "a stranger")
            raise HistoryUnfit(f"{name} in the lake is the history of {told}, not of {properties[key]} ({key}).")
    return History(table)


def _schema(columns: Iterable[SourceColumn]) -> Schema:
    kinds = {**{column.name: column.kind for column in columns}, **OWN_COLUMNS}
    return Schema(
        *(NestedField(at, name, iceberg(kind), required=False) for at, (name, kind) in enumerate(kinds.items(), 1))
    )
