"""Where the files of each table go, packed for a task: what is the same as for the batch before is packed once.

A batch may have rows of any table that is synced, and has rows of a few. So every table goes along, but only as bytes,
and without the list of its snapshots, which nobody who writes files asks for; the task opens those it has rows for.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from thermocline.feed.writing import Target

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata


class Packing:
    """Packs, and remembers."""

    def __init__(self) -> None:
        self._packed: dict[int, tuple[object, bytes]] = {}

    def packed(self, targets: Mapping[int, Target]) -> dict[int, bytes]:
        """Each as bytes."""
        self._packed = {table: self._one(table, target) for table, target in targets.items()}
        return {table: content for table, (_, content) in self._packed.items()}

    def _one(self, table: int, target: Target) -> tuple[object, bytes]:
        key = _matters(target.metadata, target.io)
        known = self._packed.get(table)
        if known is not None and known[0] == key:
            return known
        return key, pickle.dumps(Target(_lean(target.metadata), target.io))


class Unpacked(Mapping[int, Target]):
    """The same in a task: opened when they are asked for."""

    def __init__(self, packed: Mapping[int, bytes]) -> None:
        self._packed = packed
        self._opened: dict[int, Target] = {}

    def __getitem__(self, table: int) -> Target:
        if table not in self._opened:
            self._opened[table] = pickle.loads(self._packed[table])  # noqa: S301 (our own driver wrote it)
        return self._opened[table]

    def __contains__(self, table: object) -> bool:
        return table in self._packed

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def _matters(metadata: TableMetadata, io: FileIO) -> object:
    """Whatever of a table decides how its files are written, and where."""
    return (
        metadata.table_uuid,
        metadata.location,
        metadata.current_schema_id,
        metadata.default_spec_id,
        metadata.default_sort_order_id,
        dict(metadata.properties),
        dict(io.properties),
    )


def _lean(metadata: TableMetadata) -> TableMetadata:
    """Without what grows with each commit."""
    gone: dict[str, Any] = {
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "current_snapshot_id": None,
    }
    gone |= {"statistics": [], "partition_statistics": []}
    return metadata.model_copy(update=gone)
