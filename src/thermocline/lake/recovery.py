"""History tables whose catalog has forgotten their newest versions, as after it was restored from a backup."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError, TableAlreadyExistsError, ValidationError
from pyiceberg.serializers import FromInputFile
from sqlalchemy import update
from sqlalchemy.orm import Session

from thermocline.errors import Busy, Refused
from thermocline.lake.history import BATCH, ancestry, answering, storing
from thermocline.lake.pointers import files_of, pointers, versions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from thermocline.lake.catalogs import CatalogDescription

CURRENT, ADOPT, REFUSED, ADOPTED = "current", "adopt", "refused", "adopted"
_HISTORY = re.compile(r"lb_.+_history")
_NUMBER = re.compile(r"(\d+)-[^/]*\.metadata\.json$")


class PointerMoved(Busy):
    """The catalog points elsewhere than when it was looked at."""

    code = "lake.pointer_moved"
    next_step_by_default = "Somebody has committed to the table. Nothing was changed; look again."


class CannotAdopt(Refused):
    """The catalog cannot be made to point at another version of a table that it has."""

    code = "lake.cannot_adopt"


@dataclass(frozen=True)
class Version:
    """A metadata file: the table as it was after some commit, or as one that failed would have left it."""

    location: str
    metadata: TableMetadata

    @cached_property
    def line(self) -> tuple[Snapshot, ...]:
        """Its newest snapshot and those it stands on."""
        return tuple(ancestry(self.metadata))

    def has(self, snapshot: int | None) -> bool:
        """Whether it stands on a snapshot; everything stands on none."""
        return snapshot is None or any(one.snapshot_id == snapshot for one in self.line)

    def descends_from(self, other: Version) -> bool:
        """Whether it came of the other: by the log of versions, or because it stands on what was the newest then."""
        if self.metadata.table_uuid != other.metadata.table_uuid:
            return False
        if any(entry.metadata_file == other.location for entry in self.metadata.metadata_log):
            return True
        newest = other.metadata.current_snapshot_id
        return newest != self.metadata.current_snapshot_id and self.has(newest)


@dataclass(frozen=True)
class Recovery:
    """One line of the plan, and of what was done."""

    table: str
    verdict: str
    pointer: str | None
    """Where the catalog points; None: nowhere, it does not know the table."""
    newest: str | None
    """The newest metadata file that comes of it."""
    snapshots: int
    """How many the table gets back."""
    reason: str
    next_step: str = ""
    regained: tuple[int, ...] = field(default=(), repr=False)


def decide(
    table: str, pointer: str | None, versions: Sequence[Version], recorded: int | None, batches: Collection[str] | None
) -> Recovery:
    """What to adopt of the versions that the store has, or why nothing.

    Adopted is the one version that all others lead to, if it comes of the pointer and has what PostgreSQL has
    recorded: `recorded` is the newest snapshot that it knows, `batches` are the ids under which it may have written
    after that. Without `batches` it does not matter who wrote.
    """

    def refused(reason: str, next_step: str, newest: Version | None = None) -> Recovery:
        return Recovery(table, REFUSED, pointer, newest.location if newest else None, 0, reason, next_step)

    at = next((one for one in versions if one.location == pointer), None)
    if at is None and recorded is None:
        return refused(
            "The metadata file that the catalog points at is not in the store, and no snapshot of the table is on"
            " record: nothing proves which other one comes of it.",
            "Find out which one it is, and register it in the catalog by hand.",
        )
    found = [one for one in versions if (one is at or one.descends_from(at) if at is not None else one.has(recorded))]
    heads = [one for one in found if not any(other.descends_from(one) for other in found)]
    heads = [one for one in heads if one.has(recorded)] or heads
    if not heads:
        return refused(
            f"No metadata file in the store has the snapshot {recorded} that was written last.",
            "Look for the files of the table; if they are lost for good, sync it anew.",
        )
    if len(heads) > 1:
        told = ", ".join(sorted(one.location for one in heads))
        return refused(
            f"Two branches come of what the catalog points at, and neither of the other: {told}.",
            "Somebody wrote to the table after the catalog was restored. Decide which one counts, and register it"
            " in the catalog by hand.",
        )
    head = heads[0]
    if not head.has(recorded):
        return refused(
            f"The newest metadata file does not have the snapshot {recorded} that was written last.",
            "If the lake was rolled back on purpose, sync the table anew. Otherwise look for the files of the table.",
            head,
        )
    if head is at:
        return Recovery(table, CURRENT, pointer, pointer, 0, "The store has nothing newer.")
    before = {one.snapshot_id for one in at.line} if at is not None else set[int]()
    stranger = None if batches is None else _stranger(head, recorded, batches, before)
    if stranger is not None:
        return refused(
            f"Its snapshot {stranger.snapshot_id} has a batch id that this database does not know: another one wrote"
            " it, or this one was restored to before it, too.",
            "With --unknown it is adopted all the same. If the table is synced, the feed sets it aside then: positions"
            " of two histories must not be mixed.",
            head,
        )
    regained = tuple(one.snapshot_id for one in head.line if one.snapshot_id not in before)
    reason = "It comes of the version that the catalog points at." if at else "It has what was written last."
    return Recovery(table, ADOPT, pointer, head.location, len(regained), reason, regained=regained)


def _stranger(
    head: Version, recorded: int | None, batches: Collection[str], before: Collection[int]
) -> Snapshot | None:
    """A snapshot since the one on record, or since the pointer, that this database did not write."""
    for one in head.line:
        if one.snapshot_id == recorded or (recorded is None and one.snapshot_id in before):
            return None
        batch = one.summary.get(BATCH) if one.summary else None
        if batch is not None and batch not in batches:
            return one
    return None


class Recoverer:
    """Looks into the catalog and into the store, and moves pointers."""

    def __init__(self, described: CatalogDescription, catalog: Catalog) -> None:
        self._described = described
        self._catalog = catalog
        self._io = files_of(described.for_pyiceberg(), described.warehouse)

    def plan(self, recorded: Mapping[str, int], batches: Collection[str] | None) -> list[Recovery]:
        """A line for each history table that the catalog knows, or of which a snapshot is on record."""
        with answering("the lake"), storing("the lake", self._described.warehouse):
            return [
                self._checked(decide(name, at, self._versions(name, at), recorded.get(name), batches))
                for name, at in sorted(self._pointers(recorded).items())
            ]

    def adopt(self, line: Recovery) -> Recovery:
        """Let the catalog point at what the plan says, unless it points elsewhere by now."""
        if line.newest is None:
            raise ValueError("there is nothing to adopt")
        with answering(line.table), storing(line.table, self._described.warehouse):
            if line.pointer is None:
                self._catalog.create_namespace_if_not_exists(line.table.rpartition(".")[0])
                try:
                    self._catalog.register_table(line.table, line.newest)
                except TableAlreadyExistsError as error:
                    raise PointerMoved(f"{line.table} is in the catalog by now.") from error
            elif not self._swap(line.table, line.pointer, line.newest):
                raise PointerMoved(f"{line.table} in the catalog is not at {line.pointer} any more.")
        return replace(line, verdict=ADOPTED)

    # ---- the catalog ---------------------------------------------------------------------

    def _pointers(self, recorded: Iterable[str]) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(recorded)
        known = pointers(self._catalog)
        found |= {name: at for name, at in known.items() if name in found or _HISTORY.fullmatch(name.split(".")[-1])}
        return found

    def _swap(self, table: str, pointer: str, newest: str) -> bool:
        """Compare and set. A REST catalog cannot: there the comparison comes just before."""
        if not isinstance(self._catalog, SqlCatalog):
            try:
                at = self._catalog.load_table(table).metadata_location
            except NoSuchTableError:
                return False
            if at == pointer:
                self._overwrite(table, newest)
            return at == pointer
        namespace, _, name = table.rpartition(".")
        with Session(self._catalog.engine) as session:
            moved = session.execute(
                update(IcebergTables)
                .where(
                    IcebergTables.catalog_name == self._catalog.name,
                    IcebergTables.table_namespace == namespace,
                    IcebergTables.table_name == name,
                    IcebergTables.metadata_location == pointer,
                )
                .values(metadata_location=newest, previous_metadata_location=pointer)
                .returning(IcebergTables.table_name)
            ).all()
            session.commit()
        return len(moved) == 1

    def _overwrite(self, table: str, newest: str) -> None:
        try:
            self._catalog.register_table(table, newest, overwrite=True)
        except RESTError as error:
            told = str(error).splitlines()[0]
            raise CannotAdopt(
                f"The REST catalog does not let {table} point at {newest}: {told}",
                next_step=f"Nothing was changed. By hand: catalog.drop_table('{table}'), without purging, and then"
                f" catalog.register_table('{table}', '{newest}').",
            ) from error

    # ---- the store -----------------------------------------------------------------------

    def _versions(self, table: str, pointer: str | None) -> list[Version]:
        """The versions that lie where the pointer's does, it and younger ones by their numbers."""
        folder = pointer.rpartition("/")[0] if pointer else f"{self._described.warehouse}/{_path(table)}/metadata"
        oldest = _number(pointer or "")
        wanted = [name for name in versions(self._io, folder) if _number(name) >= oldest]
        return [one for name in wanted if (one := self._read(f"{folder}/{name}")) is not None]

    def _read(self, location: str) -> Version | None:
        """None of what cannot be read: a crash may have left half a file."""
        try:
            return Version(location, FromInputFile.table_metadata(self._io.new_input(location)))
        except (ValueError, ValidationError, FileNotFoundError):
            return None

    def _checked(self, line: Recovery) -> Recovery:
        """Refused if a file that the table would get back is not there."""
        if line.verdict != ADOPT or line.newest is None or (version := self._read(line.newest)) is None:
            return line
        try:
            missing = next(iter(self._missing(version, set(line.regained))), None)
        except OSError:
            raise
        except Exception:  # a damaged file breaks a parser in ways that nobody has listed
            reason = f"Its list of manifests, or one of them, cannot be read: {line.newest} names them."
            return replace(line, verdict=REFUSED, reason=reason, next_step="Bring it back from a backup of the store.")
        if missing is None:
            return line
        return replace(
            line,
            verdict=REFUSED,
            reason=f"A file that it needs is not in the store: {missing}.",
            next_step="Look for the file. Without it the table cannot be read.",
        )

    def _missing(self, version: Version, regained: set[int]) -> Iterable[str]:
        snapshot = version.metadata.current_snapshot()
        if snapshot is None:
            return
        if not self._is_there(snapshot.manifest_list):
            yield snapshot.manifest_list
            return
        for manifest in snapshot.manifests(self._io):
            if not self._is_there(manifest.manifest_path):
                yield manifest.manifest_path
            elif manifest.added_snapshot_id in regained:
                for entry in manifest.fetch_manifest_entry(self._io):
                    if entry.snapshot_id in regained and not self._is_there(entry.data_file.file_path):
                        yield entry.data_file.file_path

    def _is_there(self, location: str) -> bool:
        return self._io.new_input(location).exists()


def _number(location: str) -> int:
    """The number that engines put before a metadata file's name, one higher with each version; 0 if there is none."""
    told = _NUMBER.search(location)
    return int(told[1]) if told else 0


def _path(table: str) -> str:
    return table.replace(".", "/")
