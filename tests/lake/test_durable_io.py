"""M15: what the catalog points at is on the disk before the catalog points at it."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from thermocline.config import HotSettings, Settings
from thermocline.lake.durable_io import DurableFileIO
from thermocline.stack import Stack


def test_m15_every_file_and_new_folder_is_synced_before_the_catalog_moves(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    stack = Stack(Settings(home=tmp_path / "home", hot=HotSettings(dsn=dsn)))
    with stack.catalog() as catalog:
        catalog.create_namespace("power")
        table = catalog.create_table("power.cut", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2]}))
        location = table.metadata_location.removeprefix("file://")
    with psycopg.connect(dsn) as session:
        row = session.execute("SELECT metadata_location FROM thermocline_lake.iceberg_tables").fetchone()
    assert row == (f"file://{location}",)
    home = tmp_path / "home"
    files = [str(path) for path in (home / "warehouse").rglob("*") if path.is_file()]
    assert {path.rpartition(".")[2] for path in files} == {"parquet", "avro", "json"}
    assert set(files) <= set(synced), "every file"
    folders = {str(path) for path in (home / "warehouse").rglob("*") if path.is_dir()}
    assert folders - {str(home / "warehouse")} <= set(synced), "and every folder that names one"


def test_a_file_is_never_written_over_unless_asked(tmp_path: Path) -> None:
    io = DurableFileIO()
    with io.new_output(f"file://{tmp_path}/deep/er/one").create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        io.new_output(f"file://{tmp_path}/deep/er/one").create()
    assert io.new_input(f"file://{tmp_path}/deep/er/one").open().read() == b"first"
