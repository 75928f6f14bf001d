"""The feed: joins tables, copies chunks, and carries batch after batch into the lake, each change once."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused
from thermocline.feed import copying
from thermocline.feed.batches import carry
from thermocline.feed.clock import Clock
from thermocline.feed.histories import Histories, differ
from thermocline.feed.ledger import Ledger, OtherHistory, SlotLost, SlotWaits
from thermocline.feed.positions import text
from thermocline.feed.records import Commit
from thermocline.hot.connection import connect
from thermocline.lake import history
from thermocline.lake.history import CommitConflict, HistoryGone, HistoryMoved
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from pyiceberg.manifest import DataFile

    from thermocline.config import FeedSettings
    from thermocline.feed.batches import Batch
    from thermocline.feed.copying import Chunk
    from thermocline.feed.reading import Ending, Reading, SyncedTable
    from thermocline.feed.records import Stream
    from thermocline.feed.writing import File, Target
    from thermocline.hot.maintenance import Finding
    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.history import History
    from thermocline.lake.tasks import Runner

log = logs.get(__name__)
_ATTEMPTS = 5
_QUIET_BYTES = 16 << 20
_QUIET_SECONDS = 10
_WARN_SECONDS = 60
_COPIED_ROWS = 1_000_000


@dataclass(frozen=True)
class Progress:
    """How far the feed has come."""

    position: int
    flushed: int
    joining: tuple[str, ...]
    uncopied: int
    set_aside: tuple[str, ...] = ()
    """Tables that the stream passes by: nothing of them reaches the lake until somebody mends what is wrong."""

    @property
    def position_text(self) -> str:
        """As PostgreSQL writes it."""
        return text(self.position)

    @property
    def caught_up(self) -> bool:
        """Whether nothing is left to copy; the stream itself never ends."""
        return not self.joining and not self.uncopied


class Feed:
    """The owner of the stream. Use it in a `with` block; one thread carries batches, another may copy."""

    def __init__(
        self,
        dsn: str,
        lake: CatalogDescription,
        settings: FeedSettings,
        runner: Runner | None = None,
        *,
        timeout: int = 10,
    ) -> None:
        self.dsn = dsn
        self.settings = settings
        self._runner: Runner = runner or InProcess()
        self._lake = lake
        self._timeout = timeout
        self._resources = ExitStack()
        self._clock = Clock()
        # The tables of the batch at hand, as they were seen when it was planned.
        self._read: dict[int, SyncedTable] = {}
        self._findings: tuple[Finding, ...] = ()
        # Whoever commits to the lake records it before anybody else commits: what PostgreSQL mirrors never goes back.
        self._turn = threading.RLock()
        self._recorded_at = float("-inf")
        self._warned_at = float("-inf")
        # Since when a chunk has been seen that is not covered: the position of the log at that time.
        self._seen: dict[int, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            session = resources.enter_context(connect(self.dsn, timeout=self._timeout))
            self.ledger = Ledger(session)
            self._histories = Histories(resources.enter_context(self._lake.open()), self.ledger)
            self.ledger.own()
            crash_point("feed.opened")
            self.stream: Stream | None = self._open_stream()
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    # ---- opening -------------------------------------------------------------------------

    def _open_stream(self) -> Stream | None:
        """The stream, made with the first synced table; refused when it is not what was recorded."""
        tables = self.ledger.tables()
        stream = self.ledger.stream()
        if not self.ledger.is_wanted():
            self._end_stream()
            return None
        if stream is None and not tables:
            return None
        self.ledger.require_publication()
        if stream is None:
            try:
                stream = self.ledger.begin_stream()
            except SlotWaits as waits:
                log.info("slot waits", reason=waits.message)
                return None
        self._require_same_history(stream)
        self.ledger.next_epoch()
        crash_point("feed.owned")
        self._refresh_histories()
        return self.ledger.stream()

    def _end_stream(self) -> None:
        """No table is synced any more: nobody reads the log, so it need not be kept.

        The record goes first. A slot that a crash leaves behind is found by its name, here or by the next stream.
        """
        self.ledger.forget_stream()
        crash_point("feed.stream_forgotten")
        slot = self.ledger.slot_name()
        if self.ledger.slot_state(slot) is not None:
            self.ledger.drop_slot(slot)
            crash_point("feed.slot_dropped")
            log.info("stream ended", slot=slot)

    def _require_same_history(self, stream: Stream) -> None:
        system, timeline = self.ledger.identity()
        if (system, timeline) != (stream.system_identifier, stream.timeline):
            raise OtherHistory(
                f"The lake holds the changes of server {stream.system_identifier} on timeline {stream.timeline};"
                f" this is {system} on timeline {timeline}."
            )
        slot = self.ledger.slot_state(stream.slot)
        if slot is None:
            raise SlotLost(f"The replication slot {stream.slot} is gone.")
        if slot.wal_status == "lost":
            raise SlotLost(f"The replication slot {stream.slot} was invalidated: the log that it needs was removed.")
        if slot.confirmed > stream.position:
            raise SlotLost(
                f"The replication slot {stream.slot} stands at {text(slot.confirmed)}, ahead of the lake at"
                f" {text(stream.position)}: somebody else has moved it."
            )

    # ---- a batch -------------------------------------------------------------------------

    def refresh(self) -> None:
        """See which tables have come and gone; the first one brings the stream into being."""
        states = self.ledger.tables()
        if self.stream is None:
            if states:
                self.stream = self._open_stream()
            return
        self._refresh_histories()

    def _refresh_histories(self) -> None:
        with self._turn:  # nobody commits to a history while it follows its table
            self._histories.refresh(self.ledger.tables())

    def end_of_batch(self, slot_confirmed: int, flushed: int) -> int:
        """Bounded, however much is waiting."""
        return min(flushed, slot_confirmed + self.settings.window_mb * 1024 * 1024)

    def reading(self, stream: Stream, end: int) -> tuple[Reading, dict[int, Target]]:
        """What a batch needs: what to read, and where the files of each table go."""
        with self._turn:
            tables = self._histories.tables(self.ledger.tables())
            targets = {table: self._histories.target(table) for table in tables}
        self._read = tables
        return self.ledger.reading(self.dsn, stream, end, tables.values()), targets

    def step(self) -> int | None:
        """Carry one batch in this process; returns its end, or None when nothing was waiting."""
        if self.stream is None:
            self.refresh()
        stream = self.stream
        if stream is None:
            return None
        slot = self.ledger.slot_state(stream.slot)
        if slot is None:
            raise SlotLost(f"The replication slot {stream.slot} is gone.")
        self._clock.saw(slot.flushed, slot.at)
        self.refresh()  # after the end is known: whatever columns the batch has, they are seen now
        end = self.end_of_batch(slot.confirmed, slot.flushed)
        if end <= slot.confirmed:
            return None
        reading, targets = self.reading(stream, end)
        crash_point("batch.planned")
        batch = carry(reading, targets)
        return batch.ending.end if self.settle(batch) else slot.confirmed

    def settle(self, batch: Batch) -> bool:
        """Commit every table, record progress, advance the slot: in this order, whatever happens.

        False when the batch is to be read again: columns have changed meanwhile, and it has some that are new.
        """
        stream = self.ledger.stream()
        if stream is None:
            raise Refused("There is no stream to settle a batch of.")
        ending = batch.ending
        if self._have_changed(ending.strange | ending.troubles.keys()):
            log.info("columns changed while a batch was read", end=text(ending.end))
            return False
        if not self._worth_recording(batch, stream):
            return True
        files: dict[int, list[File]] = {}
        here = self._histories.opened()  # a table that left meanwhile is passed by; if it comes back, it is copied
        for file in batch.files:
            if file.table not in ending.troubles and file.table in here:
                files.setdefault(file.table, []).append(file)
        with self._turn:
            commits: list[Commit] = []
            troubles = dict(ending.troubles)
            if files:
                number = self.ledger.register(ending.end)
                crash_point("batch.registered")
                for table, of_table in files.items():
                    try:
                        snapshot = self._commit(here[table], table, ending, of_table, number)
                    except HistoryGone as error:  # the others go on
                        troubles[table] = f"{error.message} {error.next_step}"
                        continue
                    spans = [file.span(here[table].metadata) for file in of_table]
                    written = min(first for first, _ in spans), max(last for _, last in spans)
                    added = sum(file.data_file.record_count for file in of_table)
                    commits.append(Commit(table, ending.end, snapshot, written, added))
                    crash_point("batch.table_committed")
                crash_point("batch.committed")
            self.ledger.record(
                ending.end,
                [one for one in ending.markers if one in here],
                commits,
                ending.created,
                ending.truncated,
                troubles,
                self._clock.reached(ending.end),
            )
            for table, reason in troubles.items():
                log.warning("table set aside", table=table, reason=reason)
                self._histories.forget(table)
        self._recorded_at = time.monotonic()
        crash_point("batch.recorded")
        self.ledger.advance(stream.slot, ending.end)
        crash_point("batch.advanced")
        log.info(
            "batch",
            end=text(ending.end),
            files=len(batch.files),
            tables=len(files),
            transactions=ending.transactions,
        )
        return True

    def _have_changed(self, tables: frozenset[int]) -> bool:
        """Whether they have other columns than those that the batch was read with."""
        now = {state.table.id: state.table for state in self.ledger.tables()} if tables else {}
        return any(differ(self._read[table], now[table]) for table in tables & now.keys() & self._read.keys())

    def _worth_recording(self, batch: Batch, stream: Stream) -> bool:
        """Progress over a log that has nothing for us is recorded now and then only: each record is more log."""
        ending = batch.ending
        return bool(
            batch.files
            or ending.told
            or ending.troubles
            or self._seen
            or stream.wanted > stream.position
            or ending.end - stream.position >= _QUIET_BYTES
            or time.monotonic() - self._recorded_at >= _QUIET_SECONDS
        )

    def drain(self) -> Progress:
        """Carry everything that is in the log now, and copy what is to be copied; then end."""
        progress = self.tend()
        target, end = progress.flushed, 0
        while end < target:
            carried = self.step()
            if carried is None:
                break
            end = carried
        return self.tend()

    def _commit(self, opened: History, table: int, ending: Ending, files: Sequence[File], batch: str) -> int:
        """Append to one table, unless it has moved since the batch was read."""
        read_from, firsts = ending.markers[table], ending.firsts.get(table, {})
        summary = {history.BATCH: batch, history.EPOCH: str(self.ledger.epoch), history.END: str(ending.end)}
        for _ in range(_ATTEMPTS):
            if opened.marker() != read_from:
                raise HistoryMoved(
                    f"{opened.name} has come to {text(opened.marker())}; a batch was read from {text(read_from)} on.",
                    next_step="Another feed writes to it. Nothing was appended; start the feed again.",
                )
            try:
                crash_point("batch.before_append")
                return opened.append((file.data_file for file in files), summary, firsts)
            except CommitConflict:
                opened.refresh()
                opened.require_ours(self.ledger.known_batches())
        raise HistoryMoved(f"{opened.name} is committed to so often by others that the feed does not get through.")

    # ---- joining and copying -------------------------------------------------------------

    def tend(self) -> Progress:
        """Go on with what has joined and copy what is not covered; one pass."""
        self._reconcile()
        self._warn()
        if self.stream is not None:
            self.ledger.require_publication()
        self.refresh()
        joining = [
            state.table.source
            for state in self.ledger.tables()
            if state.status == "JOINING" and (self.stream is None or not self.ledger.join(state.table.id))
        ]
        if self.ledger.relabelled():
            log.info("labels renamed", next_step="the chunks are copied again")
        ready, waiting = self._to_copy()
        busy = self.copy(ready)
        self.ledger.mark_streaming()
        stream = self.ledger.stream()
        slot = self.ledger.slot_state(stream.slot) if stream else None
        if slot:
            self._clock.saw(slot.flushed, slot.at)
        return Progress(
            stream.position if stream else 0,
            slot.flushed if slot else 0,
            tuple(joining),
            busy + waiting,
            self.ledger.aside(),
        )

    def _warn(self) -> None:
        """Say now and then what is wrong, for those who watch the log."""
        if time.monotonic() - self._warned_at >= _WARN_SECONDS:
            self._warned_at = time.monotonic()
            for alarm, message, next_step in self.ledger.alarms():
                log.warning("alarm", alarm=alarm, message=message, next_step=next_step)

    def _reconcile(self) -> None:
        findings = self.ledger.reconcile()
        for found in findings:
            if found not in self._findings:
                log.warning("not as registered", object=found.object, finding=found.finding, done=found.done)
        self._findings = findings

    def _to_copy(self) -> tuple[list[Chunk], int]:
        """Chunks of tables that are being joined, and those whose creation the stream has passed without a word.

        Also how many there are of which it cannot be known yet.
        """
        waiting = self.ledger.uncovered()
        known = {chunk.oid for chunk in waiting}
        self._seen = {oid: at for oid, at in self._seen.items() if oid in known}
        stream = self.ledger.stream()
        slot = self.ledger.slot_state(stream.slot) if waiting and stream else None
        if stream is None or slot is None:
            return [], 0
        for chunk in waiting:
            self._seen.setdefault(chunk.oid, slot.inserted)
        streaming = {state.table.id for state in self.ledger.tables() if state.status == "STREAMING"}
        ready = [one for one in waiting if one.table not in streaming or self._seen[one.oid] <= stream.position]
        return ready, len(waiting) - len(ready)

    def copy(self, chunks: Sequence[Chunk]) -> int:
        """Copy chunks, some in a job, small ones together in a commit; returns how many were too busy for now."""
        tables = self._histories.tables(self.ledger.tables())
        by_table: dict[int, deque[Chunk]] = {}
        for chunk in chunks:
            if chunk.table in tables:
                by_table.setdefault(chunk.table, deque()).append(chunk)
        busy = 0
        for table, waiting in by_table.items():
            held: list[copying.Copied] = []
            while waiting:
                before = len(waiting)
                copied = self._read_chunks(waiting, tables[table])
                busy += before - len(waiting) - len(copied)
                held += copied
                if sum(one.rows for one in held) >= _COPIED_ROWS or (held and not waiting):
                    self._append_copies(tables[table], held)
                    held = []
        return busy

    def _read_chunks(self, waiting: deque[Chunk], table: SyncedTable) -> list[copying.Copied]:
        """The first of those that wait; their files are written, and nothing points at them yet."""
        target = self._histories.target(table.id)
        files: dict[int, list[DataFile]] = {}
        try:
            with copying.standing_together(self.dsn, waiting, table.columns, timeout=self._timeout) as standing:
                tasks = [part for one in standing for part in copying.parts(self.dsn, table, one)]
                for chunk, file in self._runner.run(partial(copying.copy, target), tasks):
                    files.setdefault(chunk, []).append(file)
        except Busy as error:
            log.info("chunks busy", table=table.source, reason=error.message)
            return []
        crash_point("copy.chunk_read")
        return [
            copying.Copied(one.chunk, one.position, one.file, tuple(files.get(one.chunk.oid, ()))) for one in standing
        ]

    def _append_copies(self, table: SyncedTable, copied: Sequence[copying.Copied]) -> None:
        opened = self._histories[table.id]
        resets = [(one.position, -1, one.chunk.start, one.chunk.end) for one in copied]
        crash_point("copy.written")
        with self._turn:
            files = opened.write(history.resets(table.time_column, table.time_kind, resets))
            files += [file for one in copied for file in one.files]
            last = max(one.position for one in copied)
            summary = {
                history.BATCH: self.ledger.register(last, table.id),
                history.EPOCH: str(self.ledger.epoch),
                history.COPY: str(last),
            }
            crash_point("copy.registered")
            first = min(one.position for one in copied)
            firsts = {column.number: (first, -1) for column in table.columns}
            snapshot = self._append_whatever(opened, files, summary, firsts)
            crash_point("copy.committed")
            added = sum(one.rows for one in copied)
            self.ledger.record_copies(copied, Commit(table.id, opened.marker(), snapshot, entries=added))
        crash_point("copy.recorded")
        for one in copied:
            log.info("chunk copied", chunk=one.chunk.name, rows=one.rows, position=text(one.position))

    def _append_whatever(
        self,
        opened: History,
        files: Sequence[DataFile],
        summary: Mapping[str, str],
        firsts: Mapping[int, tuple[int, int]],
    ) -> int:
        """A copy does not mind what was committed meanwhile: its own position says what it supersedes."""
        for _ in range(_ATTEMPTS):
            try:
                return opened.append(files, summary, firsts)
            except CommitConflict:
                opened.refresh()
                opened.require_ours(self.ledger.known_batches())
        raise HistoryMoved(f"{opened.name} is committed to so often by others that a copy does not get through.")
