"""Files that survive a power cut: on a local folder each is on the disk before anything points at it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from thermocline.home import sync_folder

if TYPE_CHECKING:
    from types import TracebackType


class DurableFileIO(PyArrowFileIO):
    """PyIceberg's own FileIO, whose local files are synced when they are closed, with their folder.

    Set as `py-io-impl` of a catalog, it is what data, manifests and metadata are written through.

    An object store promises durability when a write is acknowledged; a file system does not, and the
    catalog's database does sync. Without this the catalog could point at files that a power cut took.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A file to write, synced if it is local."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        kind = _DurableFile if scheme == "file" else PyArrowFile
        return kind(fs=self.fs_by_scheme(scheme, netloc), location=location, path=path)


class _DurableFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        """A stream that is on the disk once it is closed."""
        return _SyncedStream(Path(self._path), exclusive=not overwrite)


class _SyncedStream:
    """A binary file that is synced on closing, together with the folders that were made for it."""

    def __init__(self, path: Path, *, exclusive: bool) -> None:
        self._made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._folder = path.parent
        self._file: BinaryIO = path.open("xb" if exclusive else "wb")

    @property
    def closed(self) -> bool:
        """Whether it is closed, hence on the disk."""
        return self._file.closed

    def writable(self) -> bool:
        """Pyarrow asks."""
        return True

    def readable(self) -> bool:
        """Pyarrow asks."""
        return False

    def seekable(self) -> bool:
        """Pyarrow asks."""
        return False

    def write(self, content: bytes) -> int:
        """Append bytes."""
        try:
            return self._file.write(content)
        except OSError:
            self._give_up()
            raise

    def flush(self) -> None:
        """Hand what is buffered to the system."""
        self._file.flush()

    def tell(self) -> int:
        """How many bytes were written."""
        return self._file.tell()

    def close(self) -> None:
        """Sync the file, then every folder in which a name is new; only then is it closed."""
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self._give_up()
            raise
        self._file.close()
        for folder in (self._folder, *(made.parent for made in self._made)):
            sync_folder(folder)

    def _give_up(self) -> None:
        """A full disk has said so: the part that is there is in the way of others, and nothing points at it."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            Path(self._file.name).unlink()

    def __del__(self) -> None:
        """A file that was not closed is given up: nothing points at it."""
        if hasattr(self, "_file") and not self._file.closed:
            self._give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
