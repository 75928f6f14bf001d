"""Receipts: a chunk as it stands in PostgreSQL, compared with what the lake has of it by the hash of every row."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import ThermoclineError
from thermocline.gate.content import Content, content_of
from thermocline.gate.differences import differences
from thermocline.gate.sides import NotProven, Standing, chunk_of, feed_runs, in_lake, standing, trap_of
from thermocline.hot import positions
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake import scans
from thermocline.lake.history import History
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg import Connection
    from pyiceberg.catalog import Catalog

    from thermocline.gate.differences import Difference
    from thermocline.gate.sides import Chunk, Part
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.tasks import Runner

log = logs.get(__name__)
DIFFERS = "content_differs"
AGAIN = "It is compared again later."
REPAIR = "It stays. `thermocline verify` with --repair copies it to the lake again."
_POLL = 0.05
# A feed that is just being started again is waited for.
_START = 5


@dataclass(frozen=True)
class Proof:
    """What was compared: the rows physically, and the lake's table."""

    evidence: dict[str, Any]
    position: int
    """Below it is exactly what was compared: later entries of the range lie above."""
    snapshot: int | None


@dataclass(frozen=True)
class Comparison:
    """Both sides of one chunk."""

    chunk: Chunk
    hot: Content
    lake: Content
    receipt: int | None
    reason: str | None = None
    message: str = ""
    proof: Proof | None = None
    """Of late rows that are the same."""

    @property
    def equal(self) -> bool:
        """Whether they hold the same rows."""
        return self.hot == self.lake


def _content(part: Part) -> list[tuple[int, Content]]:
    names = part.chunk.compared
    found = sum((content_of(block, names, signs) for block, signs in part.read()), Content())
    return [(part.chunk.oid, found)]


class Prover:
    """Makes receipts. One lake, one database, one way to run tasks."""

    def __init__(
        self, dsn: str, lake: CatalogDescription, runner: Runner | None = None, *, patience: float = 60
    ) -> None:
        self._dsn = dsn
        self.lake = lake
        self.runner: Runner = runner or InProcess()
        self._patience = patience

    def prove(self, chunk_oid: int, *, keep: bool = True) -> Comparison:
        """Compare a chunk with the lake; equal and `keep`: the receipt is stored.

        Raises `NotProven` where there is nothing to compare yet: not synced, not covered, the feed behind.
        """
        (found,) = self.prove_all([chunk_oid], keep=keep)
        if isinstance(found, ThermoclineError):
            raise found
        return found

    def prove_all(self, chunks: Sequence[int], *, keep: bool = True) -> list[Comparison | ThermoclineError]:
        """Compare chunks with the lake, all of them in one job for each side. Of each, or why it cannot be compared."""
        if not chunks:
            return []
        try:
            return self._prove_together(chunks, keep=keep)
        except ThermoclineError as error:
            if len(chunks) == 1:
                with connect(self._dsn) as control:
                    _note_refused(control, {chunks[0]: error} if keep else {})
                return [error]
        # One of them spoils it for all: each by itself.
        return [one for chunk in chunks for one in self.prove_all([chunk], keep=keep)]

    def _prove_together(self, chunks: Sequence[int], *, keep: bool) -> list[Comparison | ThermoclineError]:
        results: dict[int, Comparison | ThermoclineError] = {}
        with connect(self._dsn) as control:
            known = [chunk for oid in chunks if (chunk := _known(control, oid, results))]
            results |= self._compared(control, known, keep=keep)
            if keep:
                _note_refused(control, results)
        return [results[oid] for oid in chunks]

    def prove_late(self, trap_oid: int) -> Comparison:
        """Compare late rows with what the lake has of their range since it was settled; equal: with the proof.

        Raises `NotProven` where there is nothing to compare yet.
        """
        with connect(self._dsn) as control:
            trap = trap_of(control, trap_oid)
            found = self._compared(control, [trap], keep=True)[trap_oid]
        if isinstance(found, ThermoclineError):
            raise found
        return found

    def _compared(
        self, control: Connection, known: Sequence[Chunk], *, keep: bool
    ) -> dict[int, Comparison | ThermoclineError]:
        results: dict[int, Comparison | ThermoclineError] = {}
        control.commit()
        with standing(self._dsn, known) as found:
            results |= {c.oid: one for c, one in zip(known, found, strict=True) if isinstance(one, NotProven)}
            stood = [one for one in found if isinstance(one, Standing)]
            crash_point("receipt.snapshot")
            fences = {one.chunk.table: one.chunk for one in stood}
            fenced = {table: _fence(control, chunk) for table, chunk in fences.items()}
            hot = self.contents([part for one in stood for part in one.parts])
        for one in stood:
            _require_read(one, hot[one.chunk.oid], results)
        crash_point("receipt.hot_read")
        for table, fence in fenced.items():
            try:
                self._wait(control, fences[table], fence)
            except NotProven as error:
                results |= {one.chunk.oid: error for one in stood if one.chunk.table == table}
        stood = [one for one in stood if one.chunk.oid not in results]
        if stood:
            with self.lake.open() as catalog:
                results |= self._against_lake(control, catalog, stood, hot, keep=keep)
        return results

    def contents(self, parts: Sequence[Part]) -> dict[int, Content]:
        """By chunk; all of them in one job."""
        total: dict[int, Content] = defaultdict(Content)
        for oid, content in self.runner.run(_content, parts):
            total[oid] += content
        return total

    def _against_lake(
        self, control: Connection, catalog: Catalog, stood: Sequence[Standing], hot: dict[int, Content], *, keep: bool
    ) -> dict[int, Comparison | ThermoclineError]:
        results: dict[int, Comparison | ThermoclineError] = {}
        histories: dict[str, list[Chunk]] = {}
        for one in stood:
            histories.setdefault(one.chunk.lake_table, []).append(one.chunk)
        opened = {name: history_of(control, catalog, chunks[0]) for name, chunks in histories.items()}
        lake = self.contents([part for name, chunks in histories.items() for part in in_lake(opened[name], *chunks)])
        crash_point("receipt.lake_read")
        for one in stood:
            chunk = one.chunk
            ours, theirs = hot[chunk.oid], lake[chunk.oid]
            if ours != theirs:
                results[chunk.oid] = _difference(control, chunk, ours, theirs, one.evidence)
            elif not keep:
                results[chunk.oid] = Comparison(chunk, ours, theirs, None)
            elif chunk.settled:
                results[chunk.oid] = _proof(opened[chunk.lake_table], one, ours)
            else:
                results[chunk.oid] = _stored(control, opened[chunk.lake_table], one, ours)
        crash_point("receipt.before_commit")
        control.commit()
        crash_point("receipt.stored")
        return results

    def differences(self, chunk_oid: int) -> list[Difference]:
        """Some of the rows by which a chunk differs from the lake now."""
        with connect(self._dsn) as control:
            chunk = chunk_of(control, chunk_oid)
            control.commit()
            with standing(self._dsn, [chunk]) as (found,):
                if isinstance(found, NotProven):
                    raise found
                self.wait_until_now(control, chunk)
                with self.lake.open() as catalog:
                    lake = in_lake(history_of(control, catalog, chunk), found.chunk)
                    return differences(self.runner, found.parts, lake, found.chunk.compared)

    def wait_until_now(self, control: Connection, chunk: Chunk) -> int:
        """Until the lake has all of a table that was committed before this; refuses when it does not come to it.

        Returns the position that it has come to.
        """
        fence = _fence(control, chunk)
        self._wait(control, chunk, fence)
        return positions.number(fence)

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
                    f"The feed of {chunk.source} is {status}{f': {reason}' if reason else ''}.",
                    "`thermocline feed status` says more.",
                )
            if reached:
                return
            if time.monotonic() > began + _START and not feed_runs(control):
                raise NotProven(
                    "feed_behind",
                    f"No feed of {chunk.source} is running, so the lake does not come to {fence}.",
                    "Run `thermocline feed` beside this.",
                )
            if time.monotonic() > deadline:
                raise NotProven(
                    "feed_behind",
                    f"The feed of {chunk.source} has not come to {fence} within {self._patience:.0f} s.",
                    "`thermocline feed status` shows how far it is, and what holds it up.",
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

    def look_after_late(self, compared: Comparison) -> str:
        """Right before late rows go: does the lake still hold what they were compared with? Where its metadata is."""
        chunk = compared.chunk
        snapshot = compared.proof.snapshot if compared.proof else None
        return self._holds(chunk.lake_table, snapshot, chunk.start, chunk.end)

    def _holds(self, lake_table: str, snapshot: int | None, start: datetime, end: datetime) -> str:
        """Where its metadata is; raises unless all that came since the snapshot was added, and every file is there."""
        with scans.readable(lake_table), self.lake.open() as catalog:
            table = catalog.load_table(lake_table)
            if not scans.only_appended_since(table.metadata, snapshot):
                raise NotProven(
                    "lake_changed",
                    f"{lake_table} was changed by others, or rolled back, since its receipt was made.",
                    "A new receipt is needed: `thermocline verify`.",
                )
            scans.require_files(scans.Span(table, start, end).files(start, end, ()))
            return table.metadata_location


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


def _proof(history: History, stood: Standing, content: Content) -> Comparison:
    about = {
        "lake_table": stood.chunk.lake_table,
        "lake_snapshot": history.snapshot_id,
        "metadata": history.metadata_location,
        "lake_uuid": str(history.metadata.table_uuid),
        "hash_one": str(content.one),
        "hash_two": str(content.two),
    }
    evidence = {name: value for name, value in stood.evidence.items() if name != "columns"}
    told = {name: str(value) for name, value in evidence.items()} | {"columns": stood.evidence["columns"]}
    # A quiet table's marker may lie below where it was settled: there is nothing in between.
    position = max(history.marker() - 1, *(cut.lsn for cut in stood.chunk.settled))
    proof = Proof(told | about, position, history.snapshot_id)
    return Comparison(stood.chunk, content, content, None, proof=proof)


def _stored(control: Connection, history: History, stood: Standing, content: Content) -> Comparison | NotProven:
    chunk, evidence = stood.chunk, stood.evidence
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
            "rows": content.rows,
            "fingerprint": evidence["fingerprint"],
            "relfilenode": evidence["relfilenode"],
            "columns": Jsonb(evidence["columns"]),
            "one": content.one,
            "two": content.two,
            "position": positions.text(position),
            "lake_table": chunk.lake_table,
            "lake_snapshot": history.snapshot_id,
            "metadata": history.metadata_location,
            "next_xid": evidence["next_xid"],
            "uuid": str(history.metadata.table_uuid),
        },
    ).fetchone()
    if row is None:
        return NotProven(
            "feed_not_streaming",
            f"{chunk.name}: its table stopped streaming while it was compared.",
            "`thermocline feed status` says why.",
        )
    log.info("receipt", chunk=chunk.name, rows=content.rows, snapshot=history.snapshot_id)
    return Comparison(chunk, content, content, row[0])


# What the state of chunk and sync tells by itself, without a comparison.
_PLAIN = ("unknown_chunk", "gone", "not_synced", "feed_not_streaming", "not_covered")


def _note_refused(control: Connection, results: dict[int, Comparison | ThermoclineError]) -> None:
    """Why chunks could not be proven, for whoever asks later."""
    told = []
    for oid, one in results.items():
        if isinstance(one, Comparison):
            if one.receipt is None:
                step = AGAIN if one.reason == "changing" else REPAIR
                told.append((oid, one.reason or DIFFERS, one.message, step))
        else:
            code = one.reason if isinstance(one, NotProven) else one.code
            if code not in _PLAIN:
                told.append((oid, code, one.message, one.next_step))
    if told:
        chunks, codes, messages, steps = (list(part) for part in zip(*told, strict=True))
        values = {"chunks": chunks, "codes": codes, "messages": messages, "steps": steps}
        control.execute(query("receipt_refused"), values)
        control.commit()


def _known(control: Connection, oid: int, results: dict[int, Comparison | ThermoclineError]) -> Chunk | None:
    try:
        return chunk_of(control, oid)
    except NotProven as error:
        results[oid] = error
        return None


def _require_read(stood: Standing, hot: Content, results: dict[int, Comparison | ThermoclineError]) -> None:
    if hot.rows != stood.evidence["row_count"]:
        results[stood.chunk.oid] = NotProven(
            "unreadable",
            f"{stood.chunk.name}: {hot.rows} rows were read, but it has {stood.evidence['row_count']}.",
            "Try again; if it stays so, the table may be damaged.",
        )


def history_of(control: Connection, catalog: Catalog, chunk: Chunk) -> History:
    """The history of a chunk's table; refuses one that is not what the feed has written."""
    with scans.readable(chunk.lake_table):
        history = History(catalog.load_table(chunk.lake_table))
    known = {batch for (batch,) in control.execute(query("feed_known_batches"))}
    history.require_unbroken(chunk.lake_snapshot, known)
    return history
