"""What must hold of a lake behind tables that were written to while feed and server died: looked at from outside."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import psycopg
import pyarrow.parquet as pq

from harness.lakes import ADDED, REMOVED, fold
from harness.mirrors import shadow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table

    from harness.lakes import Lake

Entry = dict[str, Any]
Place = tuple[int, int]

_SLOT = """
    SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots
    WHERE database = current_database() AND slot_name LIKE 'thermocline%'
"""
_TABLES = """
    SELECT split_part(s.lake_table, '.', 2), s.marker_lsn - '0/0', s.committed_lsn - '0/0'
    FROM thermocline.synced_table s JOIN lakets._chronotable_registry r ON r.id = s.chronotable_id
"""
_FLOORS = """
    SELECT table_oid::regclass::text, greatest(committed_lsn, streams_from) - '0/0' FROM thermocline.synced_table
    WHERE status IN ('SNAPSHOTTING', 'STREAMING')
"""
_POINTERS = "SELECT table_name, metadata_location FROM thermocline_lake.iceberg_tables"
_CHUNKS = """
    SELECT m.chunk_name, m.range_start, m.range_end,
           CASE WHEN NOT EXISTS (SELECT FROM thermocline.mirror_doubt d WHERE d.chronotable_id = r.id
                                 AND d.times && tstzrange(m.range_start, m.range_end))
                 AND NOT EXISTS (SELECT FROM thermocline.uncovered_part u WHERE u.part_oid = m.chunk_oid)
                THEN k.how END, s.status
    FROM lakets._chunk_metadata m JOIN lakets._chronotable_registry r ON r.id = m.chronotable_id
    JOIN pg_inherits i ON i.inhrelid = m.chunk_oid
    LEFT JOIN thermocline.synced_table s ON s.chronotable_id = r.id
    LEFT JOIN thermocline.chunk_copy k ON k.chunk_oid = m.chunk_oid
    WHERE r.table_name = %s ORDER BY 2
"""


@dataclass(frozen=True)
class Sample:
    """What was recorded of a table at some moment: everything below `committed` is in the lake's `snapshot`."""

    history: str
    committed: int
    snapshot: int | None


class Verdicts:
    """The checks, and what was seen on the way that they need."""

    def __init__(self, lake: Lake, tables: Sequence[str], is_altered: bool = False) -> None:
        self._lake = lake
        self._tables = tables
        # Those that are there all the time: their changes are looked at one by one, the others at the end.
        self._names = ("ts", "id", "v", "tag") if is_altered else ()
        self._samples: set[Sample] = set()

    def sample(self) -> None:
        """Progress is honest now: neither slot nor record is ahead of the lake. No feed may be running.

        What may not be ahead is asked for first: all of it only grows.
        """
        with psycopg.connect(self._lake.dsn, autocommit=True) as session:
            slot = session.execute(_SLOT.encode()).fetchone()
            stream = session.execute("SELECT position - '0/0' FROM thermocline.stream").fetchone()
            floors = session.execute(_FLOORS.encode()).fetchall()
            recorded = session.execute(_TABLES.encode()).fetchall()
            pointers: dict[str, str] = dict(session.execute(_POINTERS.encode()).fetchall())
        if slot and stream:
            assert slot[0] <= stream[0], f"the slot stands at {slot[0]}, ahead of the lake at {stream[0]}"
        for table, floor in floors:
            assert not slot or slot[0] <= floor, f"the slot stands at {slot}, ahead of {table} at {floor}"
        for history, marker, committed in recorded:
            seen = _Metadata.at(pointers.get(history))
            assert seen.marker >= (marker or 0), f"{history}: recorded up to {marker}, the lake has {seen.marker}"
            if committed is not None:
                self._samples.add(Sample(history, int(committed), seen.snapshot))

    def uncovered(self) -> list[tuple[Any, ...]]:
        """Resident chunks that do not count as being in the lake."""
        found = []
        with psycopg.connect(self._lake.dsn, autocommit=True) as session:
            for table in self._tables:
                rows = session.execute(_CHUNKS.encode(), [table]).fetchall()
                found += [row for row in rows if row[3] is None or row[4] != "STREAMING"]
        return found

    def refused_to_guess(self) -> str | None:
        """A table that was set aside because its rows do not tell which columns they have: a copy mends it."""
        rows = self._lake.run(
            "SELECT table_oid::regclass::text FROM thermocline.synced_table"
            " WHERE status = 'SKIPPED' AND reason LIKE '%cannot be told from%'"
        )
        return rows[0][0] if rows else None

    def require_covered_chunks_exact(self) -> int:
        """Every chunk that counts as covered has in the lake what it has in PostgreSQL; returns how many were compared.

        One that somebody has locked, by a TRUNCATE that is not committed, is left out.
        """
        count = 0
        for table in self._tables:
            with psycopg.connect(self._lake.dsn, autocommit=True) as session:
                session.execute("SET timezone = 'UTC'; SET lock_timeout = '50ms'")
                rows = session.execute(_CHUNKS.encode(), [table]).fetchall()
                covered = [row for row in rows if row[3] is not None]
                content = [_content(session, row[0], self._names) for row in covered]
            if not covered:
                continue
            past = History(self._lake, table, self._names)
            for (name, start, end, how, status), hot in zip(covered, content, strict=True):
                if hot is None:
                    continue
                lake, hot = past.content(start, end), past.known(hot)
                assert lake == hot, f"{name} ({how}, {status}) is not exact: {_difference(lake, hot)}"
                count += 1
        return count

    def require_all(self) -> None:
        """Everything that must hold once every change has been brought to the lake."""
        self.sample()
        for table in self._tables:
            past = History(self._lake, table, self._names)
            hot = self._lake.hot(table)
            folded, wanted = fold(past.entries, "ts"), self._lake.hot(table, *self._names)
            assert folded == wanted, f"{table} is not exact: {_difference(folded, wanted)}"
            if self._names:
                content = self._lake.content(table)
                assert content == hot, f"{table} is not exact in all columns: {_difference(content, hot)}"
            past.require_each_once()
            past.require_chains()
            for one in self._samples:
                if one.history == past.name:
                    past.require_honest(one)
            if past.is_mirrored:
                found = shadow(self._lake, f"_shadow_{table}")
                assert found == hot, f"the mirror of {table} is not exact: {_difference(found, hot)}"


class History:
    """All of a history table, read file by file as Parquet."""

    def __init__(self, lake: Lake, table: str, names: Sequence[str] = ()) -> None:
        with lake.stack.catalog() as catalog:
            self._table: Table = catalog.load_table(f"public.lb_{lake.past(table)}_history")
        self.name = self._table.name()[-1]
        self.is_mirrored = self.name.startswith("lb__shadow_")
        self._names = list(names) or [name for name in self._table.schema().column_names if not name.startswith("_")]
        self._by_file = {path: list(self._read(path)) for path in self._files(None)}
        self.entries = sorted(
            (entry for some in self._by_file.values() for entry in some), key=lambda e: (e["_lsn"], e["_seq"])
        )

    def _files(self, snapshot: int | None) -> list[str]:
        return [task.file.file_path for task in self._table.scan(snapshot_id=snapshot).plan_files()]

    def _read(self, path: str) -> Iterator[Entry]:
        names = [*self._names, *(name for name in self._table.schema().column_names if name.startswith("_"))]
        for row in pq.read_table(urlparse(path).path, partitioning=None).to_pylist():
            yield {name: row.get(name) for name in names}

    @cached_property
    def _resets(self) -> list[tuple[Place, Any, Any]]:
        return [
            (_place(one), _utc(one["ts"]), _utc(one["_range_end"]))
            for one in self.entries
            if one["_change_type"] == "truncate"
        ]

    @cached_property
    def counting(self) -> list[Entry]:
        """Entries that are above the newest reset of their time, in order."""
        found = []
        for entry in self.entries:
            if entry["_change_type"] == "truncate":
                continue
            if _place(entry) > self._base(entry):
                found.append(entry)
        return found

    def _base(self, entry: Entry) -> Place:
        """The newest reset of an entry's time."""
        time = _utc(entry["ts"])
        return max((place for place, start, end in self._resets if start <= time < end), default=(-1, -1))

    def known(self, rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        """Rows of PostgreSQL without the columns that were added lately, as long as nothing was written to them."""
        width, found = len(self._names), Counter[tuple[Any, ...]]()
        for row, count in rows.items():
            found[row if any(value is not None for value in row[width:]) else row[:width]] += count
        return found

    def content(self, start: datetime, end: datetime) -> Counter[tuple[Any, ...]]:
        """What the history says that a range holds."""
        some = [one for one in self.entries if one["_change_type"] == "truncate" or start <= _utc(one["ts"]) < end]
        return fold(some, "ts")

    def require_each_once(self) -> None:
        """No change is there twice, and no two share a place."""
        many = [place for place, count in Counter(map(_place, self.entries)).items() if count > 1]
        assert not many, f"{len(many)} places in the history are taken twice, as {many[:5]}"

    def require_chains(self) -> None:
        """Each change begins where the one before it ended: nothing is out of order, nothing is removed unseen."""
        content: Counter[tuple[Any, ...]] = Counter()
        image: dict[int, tuple[Any, ...]] = {}
        before: Entry | None = None
        for entry in self.counting:
            kind, row = entry["_change_type"], tuple(entry[name] for name in self._names)
            if kind in REMOVED:
                content[row] -= 1
                assert content[row] >= 0, f"removed at {_place(entry)} and not there: {row}"
            else:
                content[row] += 1
            if kind == "update_postimage" and not self.is_mirrored:  # a mirror has all old rows of a statement first
                assert before is not None, f"a new row without its old one at {_place(entry)}"
                assert before["_change_type"] == "update_preimage", f"a new row without its old one at {_place(entry)}"
                assert before["_lsn"] == entry["_lsn"]
            before = entry
            number = entry["id"]
            if number is None:
                continue
            if kind in REMOVED:
                assert image.pop(number, None) == row, f"row {number} was not {row} at {_place(entry)}"
            else:
                assert kind in ADDED
                assert number not in image, f"row {number} is there twice at {_place(entry)}"
                image[number] = row

    def require_honest(self, sample: Sample) -> None:
        """What came to the lake after a sample was taken is not below the progress that it shows.

        Except for what counts no more: a table that left and came back is copied anew, and a slot that fell back in a
        crash may show again what was passed by in between.
        """
        if sample.snapshot is not None and sample.snapshot not in {one.snapshot_id for one in self._table.snapshots()}:
            return
        known = set(self._files(sample.snapshot)) if sample.snapshot is not None else set()
        late = [
            _place(entry)
            for path, some in self._by_file.items()
            if path not in known
            for entry in some
            if not _is_copied(entry) and entry["_lsn"] < sample.committed and _place(entry) >= self._base(entry)
        ]
        assert not late, (
            f"{sample.history} was said to be at {sample.committed}; below came later {len(late)}: {late[:5]}"
        )


class _Metadata:
    """A table's metadata file, as JSON: the product's own reading of it is not used here."""

    def __init__(self, read: dict[str, Any]) -> None:
        self.snapshot: int | None = read.get("current-snapshot-id")
        self._by_id = {one["snapshot-id"]: one for one in read.get("snapshots", [])}

    @staticmethod
    def at(location: str | None) -> _Metadata:
        return _Metadata(json.loads(Path(urlparse(location).path).read_text()) if location else {})

    @property
    def marker(self) -> int:
        at = self.snapshot
        while at in self._by_id:
            one = self._by_id[at]
            if "thermocline.end" in one["summary"]:
                return int(one["summary"]["thermocline.end"])
            at = one.get("parent-snapshot-id")
        return 0


def _content(session: psycopg.Connection, chunk: str, names: Sequence[str]) -> Counter[tuple[Any, ...]] | None:
    try:
        return Counter(session.execute(f"SELECT {', '.join(names) or '*'} FROM {chunk}".encode()))
    except psycopg.errors.LockNotAvailable:
        return None


def _place(entry: Entry) -> Place:
    return entry["_lsn"], entry["_seq"]


def _is_copied(entry: Entry) -> bool:
    """Whether it is of a copy, not of the stream: those have no transaction."""
    return entry["_xid"] is None and (entry["_change_type"] == "insert" or entry["_seq"] == -1)


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _difference(lake: Counter[tuple[Any, ...]], hot: Counter[tuple[Any, ...]]) -> str:
    many, lost = list((lake - hot).items()), list((hot - lake).items())
    return f"only in the lake {len(many)}, as {many[:4]}; only in PostgreSQL {len(lost)}, as {lost[:4]}"
