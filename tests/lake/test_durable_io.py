"""M15: what the catalog points at is on the disk before the catalog points at it, and before progress is recorded."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest
from pyiceberg.table import StaticTable
from sqlalchemy import event
from sqlalchemy.engine import Engine

from harness.lakes import NOON, Lake
from thermocline.feed.ledger import Ledger
from thermocline.lake import durable_io
from thermocline.lake.durable_io import DurableFileIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection


@dataclass
class Disk:
    """What a power cut would leave of a folder, while the catalog moves and progress is recorded."""

    root: Path
    synced: dict[Path, int] = field(default_factory=dict)
    """Files whose content is on the disk, with their sizes then."""
    named: set[Path] = field(default_factory=set)
    """What the folders that are on the disk have in them."""
    missing: dict[str, set[Path]] = field(default_factory=dict)
    """By the location of metadata: what is not on the disk when the catalog begins to point at it."""
    told: list[tuple[str, int]] = field(default_factory=list)
    """What PostgreSQL is told of progress, and how often the catalog has moved by then."""

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self.named |= set(path.iterdir())
        else:
            self.synced[path] = os.fstat(descriptor).st_size

    def point(self, location: str) -> None:
        if location not in self.missing:
            self.missing[location] = {path for path in files_from(location) if not self.has(path)}

    def has(self, path: Path) -> bool:
        folders = [one for one in path.parents if one != self.root and one.is_relative_to(self.root)]
        return self.synced.get(path) == path.stat().st_size and {path, *folders} <= self.named


def files_from(location: str) -> set[Path]:
    """The metadata at a location, and every file that a snapshot has."""
    table, found = StaticTable.from_metadata(location), {location}
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {Path(urlparse(one).path) for one in found}


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Sees every sync, every commit of the catalog just before it is one, and every record of progress."""
    seen, sync = Disk(tmp_path / "home"), os.fsync

    def syncing(descriptor: int) -> None:
        sync(descriptor)
        seen.sync(descriptor)

    def committing(session: Connection) -> None:
        for (location,) in session.exec_driver_sql("SELECT metadata_location FROM iceberg_tables").all():
            seen.point(location)

    def telling(name: str) -> Callable[..., Any]:
        method = getattr(Ledger, name)

        def tell(*given: Any) -> Any:
            seen.told.append((name, len(seen.missing)))
            return method(*given)

        return tell

    monkeypatch.setattr(os, "fsync", syncing)
    for name in ("record", "record_copies", "advance"):
        monkeypatch.setattr(Ledger, name, telling(name))
    event.listen(Engine, "commit", committing)
    try:
        yield seen
    finally:
        event.remove(Engine, "commit", committing)


def test_m15_files_and_folders_are_synced_before_the_catalog_moves_and_it_moves_before_progress(
    lake: Lake, disk: Disk
) -> None:
    lake.synced().drain()
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 1000, 1)", "UPDATE m SET v = 2 WHERE id < 30")
    lake.drain()
    lake.run("ALTER TABLE m ADD COLUMN extra int", "UPDATE m SET extra = 1 WHERE id = 1")
    lake.drain()
    assert [missing for missing in disk.missing.values() if missing] == []
    # The catalog moves when the history is made, gets the copies, gets a batch, gets a field, gets another batch.
    assert disk.told == [("record_copies", 2), *[(what, at) for at in (2, 3, 5) for what in ("record", "advance")]]
    assert {path.suffix for path in disk.synced} == {".parquet", ".avro", ".json"}


@pytest.mark.parametrize("broken", ["files", "folders"])
def test_m15_a_sync_that_comes_too_late_is_found_out(
    lake: Lake, disk: Disk, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    late: list[Path] = []

    def close(stream: Any) -> None:
        if not stream.closed:
            stream._file.close()
            late.append(Path(stream._file.name))

    if broken == "files":
        monkeypatch.setattr(durable_io._SyncedStream, "close", close)
    else:
        monkeypatch.setattr(durable_io, "sync_folder", late.append)
    lake.synced().drain()
    assert len(disk.missing) == 2
    assert all(disk.missing.values())
    for path in {above for one in late for above in (one, *one.parents) if above.is_relative_to(disk.root)}:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    assert all(disk.has(path) for path in set.union(*disk.missing.values())), "at last everything is there"


def test_a_file_is_never_written_over_unless_asked(tmp_path: Path) -> None:
    io = DurableFileIO()
    with io.new_output(f"file://{tmp_path}/deep/er/one").create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        io.new_output(f"file://{tmp_path}/deep/er/one").create()
    assert io.new_input(f"file://{tmp_path}/deep/er/one").open().read() == b"first"
