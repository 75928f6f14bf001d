"""Writing blocks as data files of their history tables; nothing points at the files until they are committed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DateType

from thermocline.crash import crash_point
from thermocline.errors import StoreFailed, ThermoclineError
from thermocline.feed.reading import Block, Ending
from thermocline.feed.records import Touched
from thermocline.lake import history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField, PrimitiveType

# A file is begun anew when its rows take this much memory: what is held is bounded by the files that are open.
FILE_BYTES = 64 << 20
HELD_BYTES = 128 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Target:
    """Where the rows of one table go."""

    metadata: TableMetadata
    io: FileIO


@dataclass(frozen=True)
class File:
    """A data file of a table, not yet committed."""

    table: int
    data_file: DataFile

    def touched(self, metadata: TableMetadata) -> Touched:
        """The first and the last moment in it, and the newest change."""
        schema, lower, upper = metadata.schema(), self.data_file.lower_bounds, self.data_file.upper_bounds
        time, lsn = schema.find_field(metadata.spec().fields[0].source_id), schema.find_field("_lsn")
        unit = timedelta(days=1) if isinstance(time.field_type, DateType) else timedelta(microseconds=1)
        return Touched(_EPOCH + _number(time, lower) * unit, _EPOCH + _number(time, upper) * unit, _number(lsn, upper))


def _number(column: NestedField, bounds: Mapping[int, bytes]) -> int:
    return cast("int", from_bytes(cast("PrimitiveType", column.field_type), bounds[column.field_id]))


@dataclass
class _Held:
    blocks: list[pa.Table] = field(default_factory=list)
    bytes: int = 0


def write(parts: Iterable[Block | Ending], targets: Mapping[int, Target]) -> Iterator[File | Ending]:
    """The files of a batch as they are written, then its ending.

    A table without a target has not been read: it joined after the targets were taken, and will be copied. One whose
    files the store does not take is left out from there on, and the ending says so; the others go on.
    """
    held: dict[int, _Held] = {}
    written: dict[int, list[str]] = {}
    failed: dict[int, ThermoclineError] = {}

    def filed(table: int) -> Iterator[File]:
        try:
            for file in _file(table, held.pop(table), targets[table]):
                written.setdefault(table, []).append(file.data_file.file_path)
                yield file
        except StoreFailed as error:
            failed[table] = error
            _remove(targets[table], written.pop(table, []))

    for part in parts:
        if isinstance(part, Ending):
            for table in list(held):
                yield from filed(table)
            crash_point("write.done")
            markers = {table: at for table, at in part.markers.items() if table in targets and table not in failed}
            yield replace(part, markers=markers, held=failed)
            return
        if part.table not in targets or part.table in failed:
            continue
        of = held.setdefault(part.table, _Held())
        of.blocks.append(part.rows)
        of.bytes += part.rows.nbytes
        largest = max(held, key=lambda table: held[table].bytes)
        if of.bytes >= FILE_BYTES:
            yield from filed(part.table)
        elif sum(one.bytes for one in held.values()) >= HELD_BYTES:
            yield from filed(largest)


def _file(table: int, held: _Held, target: Target) -> Iterator[File]:
    crash_point("write.before_file")
    whole = pa.concat_tables(held.blocks, promote_options="default")
    held.blocks.clear()
    with history.storing(_name(target), target.metadata.location):
        for data_file in history.data_files(target.metadata, target.io, whole):
            crash_point("write.after_file")
            yield File(table, data_file)


def _name(target: Target) -> str:
    return target.metadata.properties.get(history.SOURCE, "a table")


def _remove(target: Target, paths: Iterable[str]) -> None:
    """Files that nothing will ever point at: on a store that is full they would be in the way of those that come."""
    for path in paths:
        with suppress(OSError):
            target.io.delete(path)
