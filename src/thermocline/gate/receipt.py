"""Receipts: a chunk as it stands in PostgreSQL, compared with what the lake has of it by the hash of every row."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Refused
from thermocline.gate.content import Content, content_of
from thermocline.hot import rows
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake import scans
from thermocline.lake.columns import arrow
from thermocline.lake.history import History
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from psycopg import Connection
    from pyiceberg.catalog import Catalog

    from thermocline.hot.rows import Column, Pages
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.scans import RangeFile
    from thermocline.lake.tasks import Runner

log = logs.get(__name__)
_POLL = 0.05
# A feed that is just being started again is waited for.
_START = 5


class NotProven(Refused):
    """The lake does not provably hold a chunk."""

    code = "gate.not_proven"
    next_step_by_default = "The reason code says what is missing; it is tried again."

    def __init__(self, reason: str = "not_proven", message: str | None = None, next_step: str | None = None) -> None:
        self.reason = reason
        super().__init__(message, next_step=next_step)


@dataclass(frozen=True)
class Chunk:
    """A chunk that is to be proven."""

    oid: int
    name: str
    """Quoted, with its schema."""
    table: int
    source: str
    start: datetime
    end: datetime
    time_column: str
    lake_table: str
    lake_snapshot: int | None
    copied_at: int
    """Position of its copy, or of its creation, in the stream."""
    columns: tuple[Column, ...] = field(repr=False)

    @property
    def compared(self) -> tuple[str, ...]:
        """What is compared: every column, and the text of what the lake's types cannot hold."""
        return (*(column.name for column in self.columns), rows.UNREPRESENTABLE)


@dataclass(frozen=True)
class Comparison:
    """Both sides of one chunk."""

    chunk: Chunk
    hot: Content
    lake: Content
    receipt: int | None
    reason: str | None = None
    message: str = ""

    @property
    def equal(self) -> bool:
        """Whether they hold the same rows."""
        return self.hot == self.lake


@dataclass(frozen=True)
class _HotPart:
    dsn: str = field(repr=False)
    chunk: Chunk
    snapshot: str
    pages: Pages


def _hot_content(part: _HotPart) -> list[Content]:
    found = rows.read(
        part.dsn,
        part.chunk.name,
        part.chunk.columns,
        finite=part.chunk.time_column,
        snapshot=part.snapshot,
        pages=part.pages,
    )
    return [sum((content_of(block, part.chunk.compared) for block in found), Content())]


def _lake_content(columns: tuple[tuple[str, Any], ...], file: RangeFile) -> list[Content]:
    total, names = Content(), [name for name, _ in columns]
    for batch, signs in file.read():
        arrays = [batch.column(name).cast(kind) for name, kind in columns]
        total += content_of(pa.table(arrays, names=names), names, signs)
    return [total]


class Prover:
    """Makes receipts. One lake, one database, one way to run tasks."""

    def __init__(
        self, dsn: str, lake: CatalogDescription, runner: Runner | None = None, *, patience: float = 60
    ) -> None:
        self._dsn = dsn
        self._lake = lake
        self._runner: Runner = runner or InProcess()
        self._patience = patience

    def prove(self, chunk_oid: int, *, keep: bool = True) -> Comparison:
        """Compare a chunk with the lake; equal and `keep`: the receipt is stored.

        Raises `NotProven` where there is nothing to compare yet: not synced, not covered, the feed behind.
        """
        with connect(self._dsn) as control:
            chunk = _chunk(control, chunk_oid)
            control.commit()
            with self._standing(chunk) as (chunk, evidence, snapshot, pages):
                crash_point("receipt.snapshot")
                parts = [_HotPart(self._dsn, chunk, snapshot, part) for part in rows.split(pages)]
                fence = _fence(control, chunk)
                hot = sum(self._runner.run(_hot_content, parts), Content())
            if hot.rows != evidence["row_count"]:
                raise NotProven(
                    "unreadable",
                    f"{chunk.name}: {hot.rows} rows were read, but it has {evidence['row_count']}.",
                    "Try again; if it stays so, the table may be damaged.",
                )
            crash_point("receipt.hot_read")
            self._wait(control, chunk, fence)
            with self._lake.open() as catalog:
                return self._against_lake(control, catalog, chunk, hot, evidence, keep=keep)

    def _against_lake(
        self,
        control: Connection,
        catalog: Catalog,
        chunk: Chunk,
        hot: Content,
        evidence: dict[str, Any],
        *,
        keep: bool,
    ) -> Comparison:
        with scans.readable(chunk.lake_table):
            table = catalog.load_table(chunk.lake_table)
        history = History(table)
        known = {batch for (batch,) in control.execute(query("feed_known_batches"))}
        history.require_unbroken(chunk.lake_snapshot, known)
        columns = (*_places(history, chunk), (rows.UNREPRESENTABLE, pa.string()))
        files = scans.files_of_range(table, chunk.start, chunk.end, [name for name, _ in columns])
        lake = sum(self._runner.run(partial(_lake_content, columns), files), Content())
        crash_point("receipt.lake_read")
        if hot != lake:
            return _difference(control, chunk, hot, lake, evidence)
        if not keep:
            return Comparison(chunk, hot, lake, None)
        # Later entries of this chunk lie at or above the marker: below it is exactly what was compared.
        position = max(history.marker() - 1, chunk.copied_at)
        row = control.execute(
            query("receipt_store"),
            {
                "chunk": chunk.oid,
                "table": chunk.table,
                "name": chunk.name,
                "start": chunk.start,
                "end": chunk.end,
                "rows": hot.rows,
                "fingerprint": evidence["fingerprint"],
                "relfilenode": evidence["relfilenode"],
                "columns": Jsonb(evidence["columns"]),
                "one": hot.one,
                "two": hot.two,
                "position": f"{position >> 32:X}/{position & 0xFFFFFFFF:X}",
                "lake_table": chunk.lake_table,
                "lake_snapshot": history.snapshot_id,
                "metadata": history.metadata_location,
                "next_xid": evidence["next_xid"],
                "uuid": str(table.metadata.table_uuid),
            },
        ).fetchone()
        crash_point("receipt.before_commit")
        control.commit()
        crash_point("receipt.stored")
        if row is None:
            raise NotProven(
                "feed_not_streaming",
                f"{chunk.name}: its table stopped streaming while it was compared.",
                "`thermocline feed status` says why.",
            )
        log.info("receipt", chunk=chunk.name, rows=hot.rows, snapshot=history.snapshot_id)
        return Comparison(chunk, hot, lake, row[0])

    @contextmanager
    def _standing(self, chunk: Chunk) -> Iterator[tuple[Chunk, dict[str, Any], str, int]]:
        """One snapshot of the chunk, exported for the readers, and its columns as of then; the lock comes first."""
        with connect(self._dsn) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            session.execute("SET LOCAL lock_timeout = '2s'")
            try:
                session.execute(_sql("LOCK TABLE ONLY " + chunk.name + " IN ACCESS SHARE MODE"))
            except pg.LockNotAvailable as error:
                raise NotProven("busy", f"{chunk.name} is locked by somebody else.", "It is tried again.") from error
            evidence = session.cursor(row_factory=dict_row).execute(query("receipt_evidence"), {"chunk": chunk.oid})
            found = evidence.fetchone()
            if found is None or found["row_count"] is None:
                raise NotProven("gone", f"{chunk.name} is not there any more.", "Nothing to do if that was meant.")
            standing = replace(chunk, columns=rows.columns_of(session, chunk.oid))
            yield standing, found, found.pop("snapshot"), found.pop("pages")

    def _wait(self, control: Connection, chunk: Chunk, fence: str) -> None:
        began = time.monotonic()
        deadline = began + self._patience
        while True:
            row = control.execute(query("receipt_progress"), {"table": chunk.table, "fence": fence}).fetchone()
            control.commit()
            reached, status, reason = row or (False, "missing", None)
            if status != "STREAMING":
                raise NotProven(
                    "feed_not_streaming",
                    f"{chunk.name}: the feed of {chunk.source} is {status}{f': {reason}' if reason else ''}.",
                    "`thermocline feed status` says more.",
                )
            if reached:
                return
            if time.monotonic() > began + _START and not _feed_runs(control):
                raise NotProven(
                    "feed_behind",
                    f"{chunk.name}: no feed is running, so the lake does not come to {fence}.",
                    "Run `thermocline feed` beside this.",
                )
            if time.monotonic() > deadline:
                raise NotProven(
                    "feed_behind",
                    f"{chunk.name}: the feed has not come to {fence} within {self._patience:.0f} s.",
                    "Run `thermocline feed`; `thermocline feed status` shows how far it is.",
                )
            time.sleep(_POLL)

    def look(self, chunk_oid: int) -> None:
        """Right before a drop: does the lake still hold what the newest receipt says? Recorded in the receipt."""
        with connect(self._dsn) as control:
            row = control.execute(query("receipt_newest"), {"chunk": chunk_oid}).fetchone()
            if row is None:
                raise NotProven("no_receipt", "There is no receipt to look after.", "Make one: `thermocline verify`.")
            receipt, lake_table, snapshot, start, end = row
            try:
                location = self._holds(lake_table, snapshot, start, end)
            except Exception:
                # Whoever asks the receipt later is to know that the lake was seen not to hold it.
                control.execute(query("receipt_doubted"), {"receipt": receipt})
                control.commit()
                raise
            crash_point("receipt.looked")
            control.execute(query("receipt_looked"), {"receipt": receipt, "metadata": location})

    def _holds(self, lake_table: str, snapshot: int | None, start: datetime, end: datetime) -> str:
        """Where its metadata is; raises unless all that came since the snapshot was added, and every file is there."""
        with scans.readable(lake_table), self._lake.open() as catalog:
            table = catalog.load_table(lake_table)
            if not scans.only_appended_since(table.metadata, snapshot):
                raise NotProven(
                    "lake_changed",
                    f"{lake_table} was changed by others, or rolled back, since its receipt was made.",
                    "A new receipt is needed: `thermocline verify`.",
                )
            scans.require_files(scans.files_of_range(table, start, end, ()))
            return table.metadata_location


def _places(history: History, chunk: Chunk) -> list[tuple[str, Any]]:
    """What the columns of a chunk are called in the lake, and are there, in their order."""
    schema = history.metadata.schema()
    names = history.layout.names(schema)
    later = [column.name for column in chunk.columns if column.number not in names]
    if later:
        raise NotProven(
            "changing",
            f"{chunk.name}: the lake has no column {later[0]} yet.",
            "The feed follows changed columns; it is tried again.",
        )
    found = [names[column.number] for column in chunk.columns]
    return [(name, arrow(schema.find_field(name).field_type)) for name in found]


def _sql(text: str) -> sql.SQL:
    trusted: Any = text
    return sql.SQL(trusted)


def _chunk(control: Connection, oid: int) -> Chunk:
    row = control.cursor(row_factory=dict_row).execute(query("receipt_chunk"), {"chunk": oid}).fetchone()
    if row is None:
        raise NotProven("unknown_chunk", f"There is no resident chunk {oid}.", "lakets.show_chunks lists them.")
    name = row["name"]
    if row["status"] is None or row["status"] == "TERMINATED":
        raise NotProven(
            "not_synced", f"{name}: {row['source']} is not synced.", "SELECT lakets.enable_sync(...), then the feed."
        )
    if row["status"] == "SKIPPED":
        raise NotProven(
            "feed_not_streaming",
            f"{name}: the stream passes {row['source']} by.",
            "`thermocline feed status` says why, and what to do.",
        )
    if row["copied_at"] is None:
        step = (
            "Wait until the feed has copied it." if _feed_runs(control) else "No feed is running: `thermocline feed`."
        )
        raise NotProven("not_covered", f"{name} is not copied to the lake yet.", step)
    high, _, low = row["copied_at"].partition("/")
    return Chunk(
        oid=oid,
        name=name,
        table=row["table_id"],
        source=row["source"],
        start=row["range_start"],
        end=row["range_end"],
        time_column=row["time_column"],
        lake_table=row["lake_table"],
        lake_snapshot=row["lake_snapshot"],
        copied_at=int(high, 16) << 32 | int(low, 16),
        columns=rows.columns_of(control, oid),
    )


def _feed_runs(control: Connection) -> bool:
    row = control.execute(query("feed_status")).fetchone()
    return bool(row and row[0])


def _fence(control: Connection, chunk: Chunk) -> str:
    """The end of the log now, flushed, and told to the feed, which may be waiting for its next batch."""
    control.execute("SET LOCAL synchronous_commit = on")
    row = control.execute(query("receipt_fence"), {"table": chunk.table}).fetchone()
    control.commit()
    if row is None:
        raise NotProven("other_history", "There is no stream.", "Run `thermocline feed`.")
    fence: str = row[0]
    return fence


def _difference(control: Connection, chunk: Chunk, hot: Content, lake: Content, before: dict[str, Any]) -> Comparison:
    """Different, because the chunk was being written to, or because the lake does not have it."""
    now = control.cursor(row_factory=dict_row).execute(query("receipt_evidence_now"), {"chunk": chunk.oid}).fetchone()
    control.commit()
    moving = now is None or any(now[key] != before[key] for key in ("row_count", "fingerprint", "relfilenode"))
    if moving:
        return Comparison(chunk, hot, lake, None, "changing", "it was written to while it was compared")
    counted = f"PostgreSQL has {hot.rows} rows, the lake {lake.rows}"
    told = counted if hot.rows != lake.rows else f"both have {hot.rows} rows, but not the same"
    return Comparison(chunk, hot, lake, None, "content_differs", told)
