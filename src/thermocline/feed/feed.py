"""The feed: joins tables, copies chunks, and carries batch after batch into the lake, each change once."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Busy, CatalogFailed, StoreFailed
from thermocline.feed import committing, copying, mirroring, opening
from thermocline.feed.batches import carry
from thermocline.feed.clock import Clock
from thermocline.feed.copying import ChunkUnreadable
from thermocline.feed.histories import Histories, HistoryClosed, differ
from thermocline.feed.holding import Held
from thermocline.feed.ledger import Ledger
from thermocline.feed.records import Commit, Progress
from thermocline.feed.refusals import SlotWaits
from thermocline.hot.connection import connect
from thermocline.hot.positions import text
from thermocline.lake import history
from thermocline.lake.history import CommitConflict
from thermocline.lake.refusals import HistoryContended, HistoryMoved, HistoryUnreadable
from thermocline.lake.tasks import InProcess

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from pyiceberg.manifest import DataFile

    from thermocline.config import FeedSettings
    from thermocline.feed.batches import Batch
    from thermocline.feed.copying import Chunk
    from thermocline.feed.reading import Ending, Reading, SyncedTable
    from thermocline.feed.records import Stream, TableState
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
# A chunk that nobody has told about waits so long for its table's next batch, then the batch is asked for.
_SEEN_SECONDS = 5
_COPIED_ROWS = 1_000_000
_NO_TABLE = 0


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
        # When progress of each table was last recorded, and how far the slot was moved.
        self._recorded_at: dict[int, float] = {}
        self._advanced = 0
        # Whether it is known that there is no slot which nobody needs.
        self._slot_gone = False
        self._warned_at = float("-inf")
        # Since when a chunk has been seen that is not covered: the position of the log at that time, and the time.
        self._seen: dict[int, tuple[int, float]] = {}

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            session = resources.enter_context(connect(self.dsn, timeout=self._timeout))
            self.ledger = Ledger(session)
            self._histories = Histories(resources.enter_context(self._lake.open()), self.ledger)
            self.held = Held(self.ledger, self._histories)
            self.ledger.own()
            resources.callback(self.ledger.disown)
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
            opening.end_stream(self.ledger)
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
        opening.require_same_history(self.dsn, self.ledger, self._histories, stream)
        self.ledger.next_epoch()
        crash_point("feed.owned")
        self._refresh_histories(tables)
        return self.ledger.stream()

    # ---- a batch -------------------------------------------------------------------------

    def refresh(self) -> list[TableState]:
        """See which tables have come and gone; the first one brings the stream into being. Returns those that are."""
        states = self.ledger.tables()
        if self.stream is None:
            if not states:
                return states
            with self._turn:  # two threads may both have seen the first one
                if self.stream is None:
                    self.stream = self._open_stream()
            return self.ledger.tables()
        return self._refresh_histories(states)

    def _refresh_histories(self, states: list[TableState]) -> list[TableState]:
        with self._turn:  # nobody commits to a history while it follows its table
            changed = self._histories.refresh(states)
            self.held.keep({state.table.id: state.table.joined_at for state in states})
            return self.ledger.tables() if changed else states

    def end_of_batch(self, slot_confirmed: int, flushed: int) -> int:
        """Bounded, however much is waiting."""
        return min(flushed, slot_confirmed + self.settings.window_mb * 1024 * 1024)

    def reading(
        self, stream: Stream, end: int, states: Iterable[TableState] | None = None
    ) -> tuple[Reading, dict[int, Target]]:
        """What a batch needs: what to read, and where the files of each table go. `states` are what `refresh` saw."""
        with self._turn:
            tables = self._histories.tables(self.ledger.tables() if states is None else states)
            targets = {table: self._histories.target(table) for table in tables}
        self._read = tables
        return self.ledger.reading(self.dsn, stream, end, tables.values()), targets

    def step(self, tables: Container[int] | None = None) -> int | None:
        """Carry one batch in this process, of these tables only; returns its end, or None when nothing was waiting."""
        if self.stream is None:
            self.refresh()
        if self.stream is None:
            return None
        stream, slot = opening.require_slot(self.ledger, self.stream.slot)
        self._clock.saw(slot.flushed, slot.at)
        states = self.refresh()  # after the end is known: whatever columns the batch has, they are seen now
        end = self.end_of_batch(slot.confirmed, slot.flushed)
        if end <= slot.confirmed:
            return None
        reading, targets = self.reading(stream, end, states)
        crash_point("batch.planned")
        batch = carry(reading.upto(end, tables), targets)
        return batch.ending.end if self.settle(batch) else slot.confirmed

    def settle(self, batch: Batch) -> bool:
        """Commit every table, record progress, advance the slot: in this order, whatever happens.

        False when the batch is to be read again: columns have changed meanwhile, and it has some that are new. Refuses
        one that may lack something: the slot was moved before or while it was read.
        """
        with self._turn:
            begun = self.stream
            if begun is None:  # the last table has left while the batch was read
                return True
            stream, _ = opening.require_slot(self.ledger, begun.slot)
        ending = batch.ending
        if self._have_changed(ending.strange | ending.troubles.keys()):
            log.info("columns changed while a batch was read", end=text(ending.end))
            return False
        states = {state.table.id: state for state in self.ledger.tables()}
        window = self.settings.window_mb << 20
        if not (self._worth_recording(batch, stream) or self.held.tired(states, ending, window)):
            return True
        files: dict[int, list[File]] = {}
        with self._turn:
            if self.stream is None:
                return True
            read = self._still_synced()  # a table that left meanwhile is passed by; if it comes back, it is copied
            here = self._histories.of(read)
            for file in batch.files:
                if file.table not in ending.troubles and file.table in here:
                    files.setdefault(file.table, []).append(file)
            commits: list[Commit] = []
            troubles = dict(ending.troubles)
            waiting = {table: error for table, error in ending.held.items() if table in here}
            files = {table: of_table for table, of_table in files.items() if table not in waiting}
            if files:
                number = self.ledger.register(ending.end)
                crash_point("batch.registered")
                for table, outcome in committing.commit(self.ledger, here, read, ending, files, number):
                    if isinstance(outcome, Commit):
                        commits.append(outcome)
                    elif isinstance(outcome, HistoryMoved) and not isinstance(outcome, HistoryUnreadable):
                        troubles[table] = f"{outcome.message} {outcome.next_step}"
                    else:
                        waiting[table] = outcome
                crash_point("batch.committed")
            self.held.release(one.table for one in commits)
            self.held.hold(waiting)
            # Half of what a batch may take, if the lake takes what others have; else all of it.
            troubles |= self.held.tired(states, ending, window // 2 if commits else window)
            position = self.ledger.record(
                ending.end,
                {one: read[one].joined_at for one in ending.markers if one in here and one not in waiting},
                commits,
                ending.created,
                ending.truncated,
                troubles,
                self._clock.reached,
            )
            for table, reason in troubles.items():
                log.warning("table set aside", table=table, reason=reason)
                self._histories.forget(table)
        self._recorded_at |= dict.fromkeys(ending.markers or (_NO_TABLE,), time.monotonic())
        self._clock.forget(position)
        crash_point("batch.recorded")
        if position > self._advanced:  # it stays where the slowest table is
            self.ledger.advance(stream.slot, position)
            self._advanced = position
        crash_point("batch.advanced")
        log.info(
            "batch",
            end=text(ending.end),
            files=len(batch.files),
            tables=len(files),
            transactions=ending.transactions,
        )
        return True

    def _still_synced(self) -> dict[int, SyncedTable]:
        """Those of the batch that have been synced without a break since it was read."""
        now = {state.table.id: state.table.joined_at for state in self.ledger.tables()}
        return {table: read for table, read in self._read.items() if now.get(table) == read.joined_at}

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
            or ending.held
            or self._seen
            or stream.wanted > stream.position
            or self._is_quiet_for_long(ending)
        )

    def _is_quiet_for_long(self, ending: Ending) -> bool:
        before = time.monotonic() - _QUIET_SECONDS
        most = min(_QUIET_BYTES, self.settings.window_mb << 19)  # a batch goes no further than a window from the slot
        return any(
            self._recorded_at.get(table, before) <= before
            or (table in self._read and ending.end - self._read[table].read_to >= most)
            for table in ending.markers or (_NO_TABLE,)
        )

    def drain(self) -> Progress:
        """Carry everything that is in the log now, and copy what is to be copied; then end.

        What the lake does not take is an error, once everything else is there.
        """
        progress = self.tend()
        target, end = progress.flushed, 0
        while end < self.reachable(target):
            carried = self.step()
            if carried is None:
                break
            end = carried
        progress = self.tend()
        self.held.require_none()
        return progress

    def reachable(self, target: int) -> int:
        """How far batches can come: tables that wait for the lake keep the stream where they are, all but a window."""
        stream = self.stream and self.ledger.stream()
        return self.end_of_batch(stream.position, target) if stream and self.held.waiting else target

    def require_slot(self) -> None:
        """Refuse to go on without the slot, or with one that somebody else has moved."""
        if self.stream is not None:
            opening.require_slot(self.ledger, self.stream.slot)

    # ---- joining and copying -------------------------------------------------------------

    def tend(self) -> Progress:
        """Go on with what has joined and copy what is not covered; one pass."""
        self._reconcile()
        self._warn()
        self.require_slot()
        if self.stream is not None:
            self.ledger.require_publication()
        states = self.refresh()
        if not states:
            self._end_stream()
        joining = [
            state.table.source
            for state in states
            if state.status == "JOINING" and (self.stream is None or not self.ledger.join(state.table.id))
        ]
        if self.ledger.relabelled():
            log.info("labels renamed", next_step="the chunks are copied again")
        behind = mirroring.tend(self.dsn, (state.table for state in states), timeout=self._timeout)
        unlogged = self.ledger.unlogged()
        ready, waiting = self._to_copy()
        busy = self.copy(ready)
        self.ledger.mark_streaming()
        self.ledger.mark_sound()
        stream = self.ledger.stream()
        slot = self.ledger.slot_state(stream.slot) if stream else None
        if slot:
            self._clock.saw(slot.flushed, slot.at)
        return Progress(
            stream.position if stream else 0,
            slot.flushed if slot else 0,
            tuple(joining),
            busy + waiting + behind,
            self.ledger.aside(),
            tuple(state.table.source for state in states if state.table.id in self.held.waiting),
            unlogged,
        )

    def _end_stream(self) -> None:
        """With the last table, also one that is set aside, the slot goes: else it would keep the log for nobody."""
        with self._turn:
            if (self.stream is None and self._slot_gone) or self.ledger.is_wanted():
                return
            self.stream = None
            self._slot_gone = opening.end_stream_if_idle(self.ledger)

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
            self._seen.setdefault(chunk.oid, (slot.inserted, time.monotonic()))
        passed = {state.table.id: state.recorded for state in self.ledger.tables() if state.status == "STREAMING"}
        ready = [one for one in waiting if self._seen[one.oid][0] <= passed.get(one.table, self._seen[one.oid][0])]
        late = time.monotonic() - _SEEN_SECONDS
        if late_ones := [at for at, since in self._seen.values() if since <= late and at > stream.wanted]:
            self.ledger.want(max(late_ones))
        return ready, len(waiting) - len(ready)

    def copy(self, chunks: Sequence[Chunk]) -> int:
        """Copy chunks, some in a job, small ones together in a commit; returns how many were too busy for now."""
        if not chunks:
            return 0
        tables = self._histories.tables(self.ledger.tables())
        by_table: dict[int, deque[Chunk]] = {}
        ready, busy = mirroring.mended(self.dsn, chunks, tables, timeout=self._timeout)
        for chunk in ready:
            by_table.setdefault(chunk.table, deque()).append(chunk)
        for table, waiting in by_table.items():
            if self.held.is_early(table):
                busy += len(waiting)
                continue
            try:
                with history.storing(tables[table].source, tables[table].lake_table):
                    busy += self._copy_table(tables[table], waiting)
            except (CatalogFailed, StoreFailed, HistoryContended, HistoryUnreadable) as error:  # the others go on
                with self._turn:
                    self.held.hold({table: error})
                busy += 1
            except (HistoryMoved, ChunkUnreadable) as error:
                with self._turn:
                    self._histories.set_aside(tables[table], error)
            except HistoryClosed as error:
                log.info("table busy", table=tables[table].source, reason=error.message)
                busy += 1
        return busy

    def _copy_table(self, table: SyncedTable, waiting: deque[Chunk]) -> int:
        busy, held = 0, list[copying.Copied]()
        while waiting:
            before = len(waiting)
            copied = self._read_chunks(waiting, table)
            busy += before - len(waiting) - len(copied)
            held += copied
            if sum(one.rows for one in held) >= _COPIED_ROWS or (held and not waiting):
                self._append_copies(table, held)
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
            copying.Copied(one.chunk, one.position, one.file, one.attached, tuple(files.get(one.chunk.oid, ())))
            for one in standing
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
            self.ledger.record_copies(
                copied, Commit(table.id, opened.marker(), snapshot, table.joined_at, entries=added)
            )
            self.held.release([table.id])
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
        raise HistoryContended(f"{opened.name} is committed to so often by others that a copy does not get through.")
