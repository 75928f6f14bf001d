"""Why a history table is not written to: it is gone, it is not as it was left, or a file of it cannot be read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.manifest import ManifestContent
from requests import RequestException

from thermocline.errors import Busy, Refused
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

# PyIceberg's own: with so many manifests it writes small ones together, and what is larger than this is not small.
_MERGED_FROM, _MERGED_UPTO = 100, 8 << 20
_FILES = "total-data-files"


class HistoryMoved(Refused):
    """The history table in the lake is not as this database left it."""

    code = "lake.history_moved"
    next_step_by_default = (
        "If the catalog was restored from a backup, `thermocline lake recover` gives it back what it has forgotten."
        " If the lake was rolled back on purpose, SELECT lakets.disable_sync and then lakets.enable_sync:"
        " every resident chunk is copied anew."
    )


class HistoryGone(HistoryMoved):
    """The history table that this database has written to is not in the lake any more."""

    code = "lake.history_gone"
    next_step_by_default = (
        "`thermocline lake recover` registers its newest metadata file in the catalog again. If that is lost for good,"
        " SELECT lakets.disable_sync and then lakets.enable_sync: resident chunks are copied anew, but what has left"
        " PostgreSQL is not there any more."
    )


class HistoryUnreadable(HistoryMoved):
    """The catalog points at a metadata file that is not in the store."""

    code = "lake.history_unreadable"


class HistoryDamaged(HistoryMoved):
    """A file of the history table is in the store, and is not what was written."""

    code = "lake.history_damaged"
    next_step_by_default = (
        "Bring the file back from a backup of the store, then `thermocline feed resync TABLE --yes`. If it is lost for"
        " good, SELECT lakets.disable_sync, take the table out of the catalog, then lakets.enable_sync: resident chunks"
        " are copied anew, but what has left PostgreSQL is not there any more."
    )


class HistoryContended(Busy):
    """The history table is committed to so often by others that the feed does not get through."""

    code = "lake.history_contended"
    next_step_by_default = "It is tried again. Look for who else commits to it."


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Whatever is wrong with the metadata file that the catalog points at is said in one way."""
    try:
        yield
    except RequestException:  # some are of ValueError, too: it is the catalog that speaks
        raise
    except FileNotFoundError as error:  # old versions are removed in time, so a restored catalog may point at one
        raise HistoryUnreadable(f"The catalog points at a metadata file of {name} that is not in the store.") from error
    except (ValidationError, ValueError, EOFError) as error:
        raise HistoryDamaged(f"The metadata file of {name} cannot be read: {_first_line(error)}") from error


def require_manifests(name: str, metadata: TableMetadata, io: FileIO) -> None:
    """Refuse a table whose list of manifests is damaged, before anything is added to it.

    PyIceberg takes an Avro file that was cut for one that has ended: a snapshot made on it would lack what is missing.
    """
    manifests = _manifests(name, metadata, io)
    data = [one for one in manifests if one.content == ManifestContent.DATA]
    there = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in data)
    snapshot = metadata.current_snapshot()
    told = snapshot.summary.get(_FILES) if snapshot and snapshot.summary else None
    if told is not None and there < int(told):
        raise HistoryDamaged(f"The list of manifests of {name} has {there} files; {told} were written.")
    if len(manifests) + 1 < int(metadata.properties.get("commit.manifest.min-count-to-merge", _MERGED_FROM)):
        return
    for manifest in manifests:
        if manifest.manifest_length < _MERGED_UPTO:
            length = len(io.new_input(manifest.manifest_path))
            if length != manifest.manifest_length:
                raise HistoryDamaged(
                    f"A manifest of {name} has {length} bytes; {manifest.manifest_length} were written:"
                    f" {manifest.manifest_path}."
                )


def require_entries(name: str, metadata: TableMetadata, io: FileIO) -> None:
    """After something has failed: refuse a table of which a manifest cannot be read."""
    for manifest in _manifests(name, metadata, io):
        try:
            manifest.fetch_manifest_entry(io, discard_deleted=False)
        except OSError:
            raise
        except Exception as error:  # a damaged file breaks a parser in ways that nobody has listed
            raise HistoryDamaged(f"A manifest of {name} cannot be read: {manifest.manifest_path}.") from error


def _manifests(name: str, metadata: TableMetadata, io: FileIO) -> Sequence[ManifestFile]:
    snapshot = metadata.current_snapshot()
    try:
        return snapshot.manifests(io) if snapshot else ()
    except OSError:
        raise
    except Exception as error:  # as above
        raise HistoryDamaged(f"The list of manifests of {name} cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return masked((str(error).strip().splitlines() or [type(error).__name__])[0])
