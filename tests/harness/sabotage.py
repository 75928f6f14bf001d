"""Feeds that break one rule each, to see that the harness notices, fall asleep or die. They run in a child of it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from thermocline.feed import committing, copying, reading
from thermocline.feed import feed as feeds
from thermocline.feed.feed import Feed
from thermocline.feed.ledger import Ledger
from thermocline.hot.positions import text
from thermocline.lake import durable_io

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from thermocline.feed.batches import Batch


def forget_what_the_lake_has() -> None:
    """Everything that the slot shows is written, also what is there already."""

    def everything(rows: pa.Table, marker: int) -> pa.Table:
        return rows

    reading._above = everything


def advance_the_slot_first() -> None:
    """The slot moves before the batch is in the lake."""
    settle = Feed.settle

    def sabotaged(self: Feed, batch: Batch) -> bool:
        if self.stream:
            self.ledger.advance(self.stream.slot, batch.ending.end)
        return settle(self, batch)

    Feed.settle = sabotaged  # type: ignore[method-assign]


def record_progress_first() -> None:
    """Progress is recorded before the batch is in the lake."""
    settle = Feed.settle

    def sabotaged(self: Feed, batch: Batch) -> bool:
        self.ledger.record(batch.ending.end, {one: self._read[one].joined_at for one in batch.ending.markers}, [])
        return settle(self, batch)

    Feed.settle = sabotaged  # type: ignore[method-assign]


def leave_the_slowest_behind() -> None:
    """The stream counts as being where its fastest table is."""

    def sabotaged(self: Ledger, end: int, *_: Any) -> int:
        self._session.execute("UPDATE thermocline.stream SET position = greatest(position, %s::pg_lsn)", [text(end)])
        return end

    Ledger._record_position = sabotaged  # type: ignore[assignment,method-assign]


def hear_no_truncate() -> None:
    """What a chunk says of its TRUNCATE is passed by."""
    heard = reading._reset

    def deaf(*told: Any) -> pa.Table:
        return heard(*told).slice(0, 0)

    reading._reset = deaf  # type: ignore[assignment]


def cover_before_copying() -> None:
    """Chunks count as covered as soon as they are seen."""
    uncovered = Ledger.uncovered

    def sabotaged(ledger: Ledger) -> Any:
        for chunk in uncovered(ledger):
            ledger._session.execute(
                "INSERT INTO thermocline.chunk_copy"
                " (chunk_oid, chronotable_id, how, position, row_count, relfilenode, attached)"
                " SELECT c.oid, %s, 'copied', '0/1', 0, c.relfilenode, i.xmin::text::bigint"
                " FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.oid = %s"
                " ON CONFLICT DO NOTHING",
                [chunk.table, chunk.oid],
            )
        ledger._session.commit()
        return []

    Ledger.uncovered = sabotaged  # type: ignore[method-assign]


def copy_without_a_lock() -> None:
    """Position and snapshot of a copy are taken whoever writes meanwhile."""
    lock = copying._lock

    def sabotaged(session: Any, chunk: Any, mode: str) -> None:
        if mode != "SHARE":
            lock(session, chunk, mode)

    copying._lock = sabotaged


def all_of(several: Iterable[Callable[[], None]]) -> None:
    """More than one of these at once."""
    for one in several:
        one()


def die_within(ending: str) -> None:
    """Die by SIGKILL in the middle of a file with this ending: its first bytes are written, its last are not."""
    write = durable_io._SyncedStream.write

    def sabotaged(self: Any, content: bytes) -> int:
        if self._file.name.endswith(ending) and self.tell() + len(content) > 64:
            write(self, memoryview(content)[: len(content) // 2])  # type: ignore[arg-type]
            self.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return write(self, content)

    durable_io._SyncedStream.write = sabotaged  # type: ignore[method-assign]


def sleep_at(point: str) -> None:
    """Stop at a point until somebody wakes the process."""

    def reached(name: str) -> None:
        if name == point and not slept:
            slept.append(name)
            os.kill(os.getpid(), signal.SIGSTOP)

    slept: list[str] = []
    feeds.crash_point = committing.crash_point = copying.crash_point = reached  # type: ignore[attr-defined]
