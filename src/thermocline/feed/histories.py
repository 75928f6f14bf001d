"""The history tables that a feed has open, each with the look at its source that it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import Busy
from thermocline.feed.positions import text
from thermocline.feed.records import Commit
from thermocline.feed.shapes import Shape
from thermocline.feed.writing import Target
from thermocline.hot.types import UnsupportedType
from thermocline.lake import history
from thermocline.lake.columns import HistoryUnfit, Look
from thermocline.lake.history import CommitConflict, HistoryMoved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pyiceberg.catalog import Catalog

    from thermocline.feed.ledger import Ledger
    from thermocline.feed.reading import SyncedTable
    from thermocline.feed.records import TableState
    from thermocline.lake.history import History

log = logs.get(__name__)
_ATTEMPTS = 5


class Histories:
    """By the number of the table. What does not fit is set aside, and is not among them."""

    def __init__(self, catalog: Catalog, ledger: Ledger) -> None:
        self._catalog = catalog
        self._ledger = ledger
        self._opened: dict[int, History] = {}
        self._looks: dict[int, SyncedTable] = {}
        self._joined: dict[int, datetime] = {}

    def opened(self) -> dict[int, History]:
        """All of them as they are now."""
        return dict(self._opened)

    def __getitem__(self, table: int) -> History:
        return self._opened[table]

    def forget(self, table: int) -> None:
        """It is not written to any more, until it is opened again."""
        self._opened.pop(table, None)

    def refresh(self, states: Iterable[TableState]) -> None:
        """Open what has come, follow what has changed, forget what is gone."""
        states = list(states)
        for state in states:
            table = state.table
            if table.id not in self._opened or not self._is_same(state) or differ(self._looks[table.id], table):
                self.open(state)
        for table_id in self._opened.keys() - {state.table.id for state in states}:
            self.forget(table_id)

    def tables(self, states: Iterable[TableState]) -> dict[int, SyncedTable]:
        """Those that can be written to, with the columns that their histories fit.

        What was synced anew since its history was opened is passed by: it is copied from now on.
        """
        found: dict[int, SyncedTable] = {}
        for state in states:
            table, opened = state.table, self._opened.get(state.table.id)
            if opened is None or not self._is_same(state):
                continue
            look = self._looks[table.id]
            shape = Shape.of(table.source, look.columns, opened.layout, opened.metadata.schema(), table.read_to)
            found[table.id] = replace(table, columns=look.columns, time_column=look.time_column, shape=shape)
        return found

    def target(self, table: int) -> Target:
        """Where its files go."""
        opened = self._opened[table]
        return Target(opened.metadata, opened.io)

    def _is_same(self, state: TableState) -> bool:
        """Whether it has been synced without a break since its history was opened."""
        return self._joined.get(state.table.id) == state.joined_at

    def open(self, state: TableState) -> None:
        """The lake's table, checked to be as we left it, and made to fit; a table that it cannot fit is set aside."""
        for _ in range(_ATTEMPTS):
            try:
                self._open(state)
            except CommitConflict:  # somebody else has committed to it meanwhile
                continue
            return
        raise Busy(f"{state.table.lake_table} is committed to so often by others that it cannot follow its table.")

    def _open(self, state: TableState) -> None:
        table = state.table
        try:
            look = self._look(table)
            opened = history.open_or_create(
                self._catalog,
                table.lake_table,
                look,
                unit=table.unit,
                chronotable=table.id,
                may_create=state.lake_snapshot is None,
            )
            # Synced anew, it has no snapshot on record; the one that this feed knows is as good.
            before = self._opened.get(table.id)
            self._adopt(table, opened, state.lake_snapshot or (before.base if before else None))
            self._follow(table, look, opened)
        except (HistoryMoved, HistoryUnfit, UnsupportedType) as error:
            log.warning("table set aside", table=table.source, reason=error.message)
            self._ledger.set_aside(table.id, f"{error.message} {error.next_step}")
            self.forget(table.id)
            return
        self._opened[table.id] = opened
        self._looks[table.id] = table
        self._joined[table.id] = state.joined_at

    def _look(self, table: SyncedTable) -> Look:
        stream = self._ledger.stream()
        slot = self._ledger.slot_state(stream.slot) if stream else None
        names = {history.SOURCE: table.source, history.TIME_COLUMN: table.time_column}
        # The position is younger than the look at the columns.
        return Look(table.oid, table.lake_columns, names, slot.inserted if slot else 0)

    def _follow(self, table: SyncedTable, look: Look, opened: History) -> None:
        snapshot = opened.follow(
            look,
            lambda: self._ledger.missing(table.oid),
            lambda: {
                history.BATCH: self._ledger.register(look.position, table.id),
                history.EPOCH: str(self._ledger.epoch),
            },
        )
        if snapshot is not None:
            self._ledger.adopt([Commit(table.id, opened.marker(), snapshot)])
            log.info("columns followed", table=table.source)

    def _adopt(self, table: SyncedTable, opened: History, mirrored: int | None) -> None:
        """What is in the lake counts, also what a crash kept from being recorded."""
        opened.require_unbroken(mirrored, self._ledger.known_batches())
        marker, newest = opened.marker(), next(opened.written(), None)
        if marker < table.marker:
            raise HistoryMoved(
                f"{table.lake_table} holds the stream up to {text(marker)}; recorded was {text(table.marker)}."
            )
        stream = self._ledger.stream()
        slot = self._ledger.slot_state(stream.slot) if stream else None
        if slot and opened.newest_position() > slot.flushed:
            raise HistoryMoved(
                f"{table.lake_table} holds changes up to {text(opened.newest_position())}, which this server has not"
                f" reached: it stands at {text(slot.flushed)}, as after a restore to an earlier point.",
                next_step="Move the table in the lake away under another name, then sync anew: positions of two"
                " histories must not be mixed.",
            )
        if newest is not None and (newest.snapshot_id != mirrored or marker > table.marker):
            self._ledger.adopt([Commit(table.id, marker, newest.snapshot_id)])


def differ(one: SyncedTable, other: SyncedTable) -> bool:
    """Whether a table has other columns than before, or other names."""
    seen = [(of.oid, of.source, of.time_column, [(at.number, at) for at in of.columns]) for of in (one, other)]
    return seen[0] != seen[1]
