"""Which metadata file each table's catalog entry points at, also where that file cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import select
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

METADATA = ".metadata.json"


def pointers(catalog: Catalog) -> dict[str, str]:
    """Of every table, by its name with the namespace."""
    if not isinstance(catalog, SqlCatalog):
        names = [one for space in catalog.list_namespaces() for one in catalog.list_tables(space)]
        return {".".join(one): catalog.load_table(one).metadata_location for one in names}
    of = IcebergTables
    with Session(catalog.engine) as session:  # its rows tell also what cannot be loaded
        found = session.execute(
            select(of.table_namespace, of.table_name, of.metadata_location).where(of.catalog_name == catalog.name)
        ).all()
    return {f"{namespace}.{name}": location for namespace, name, location in found if location}


def files_of(properties: Mapping[str, str], location: str = "") -> PyArrowFileIO:
    """The store that files are in."""
    io = load_file_io(dict(properties), location or None)
    if not isinstance(io, PyArrowFileIO):
        raise TypeError(f"a file system that cannot be listed: {type(io).__name__}")
    return io


def versions(io: PyArrowFileIO, folder: str) -> list[str]:
    """The names of the metadata files in a folder; none when it is not there."""
    scheme, host, path = io.parse_location(folder, io.properties)
    found = io.fs_by_scheme(scheme, host).get_file_info(FileSelector(path, allow_not_found=True))
    return [one.base_name for one in found if one.base_name.endswith(METADATA)]


def is_away(catalog: Catalog, table: str) -> bool:
    """Whether the store has no metadata file at all where the catalog points: it is away, or all of the table is gone.

    One that is there tells that the store is, and that the catalog points at a wrong file of it.
    """
    location = pointers(catalog).get(table)
    return location is not None and not versions(files_of(catalog.properties, location), location.rpartition("/")[0])
