"""The history tables that a feed has open, each with the look at its source that it fits."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError, RESTError

from thermocline import log as logs
from thermocline.errors import Busy, CatalogFailed, StoreFailed
from thermocline.feed.records import Commit
from thermocline.feed.shapes import Shape
from thermocline.feed.writing import Target
from thermocline.hot.positions import text
from thermocline.hot.types import UnsupportedType
from thermocline.lake import history
from thermocline.lake.columns import HistoryUnfit, Look
from thermocline.lake.history import CommitConflict, History
from thermocline.lake.pointers import is_away
from thermocline.lake.refusals import HistoryMoved, HistoryUnreadable, loading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog

    from thermocline.errors import ThermoclineError
    from thermocline.feed.ledger import Ledger
    from thermocline.feed.reading import SyncedTable
    from thermocline.feed.records import TableState

log = logs.get(__name__)
_ATTEMPTS = 5
_AWAY = (
    "It is so for every table. Bring the store back if it is away; if the catalog was restored from a backup, run"
    " `thermocline lake recover`. Nothing is lost: a feed that runs tries again by itself."
)
_NOT_THERE = (
    "Bring the store back. Nothing is lost: a feed that runs tries again by itself. If the files are gone for good,"
    " SELECT lakets.disable_sync, take the table out of the catalog, then lakets.enable_sync."
)


class HistoryClosed(Busy):
    """The history of a table was closed a moment ago; it is opened again."""

    code = "feed.history_closed"


@dataclass(frozen=True)
class _Known:
    """The shape of rows from a position on, and what it was made of."""

    look: SyncedTable
    told: object
    settled: int
    shape: Shape


class Histories:
    """By the number of the table. What does not fit is set aside, and is not among them."""

    def __init__(self, catalog: Catalog, ledger: Ledger) -> None:
        self._catalog = catalog
        self._ledger = ledger
        self._opened: dict[int, History] = {}
        self._looks: dict[int, SyncedTable] = {}
        self._joined: dict[int, datetime] = {}
        self._shapes: dict[int, _Known] = {}
        self.unopened: dict[int, ThermoclineError] = {}
        """Those that cannot be opened now, because catalog or store do not answer."""

    def __getitem__(self, table: int) -> History:
        opened = self._opened.get(table)
        if opened is None:  # another thread was refused by the lake, or has set it aside
            raise HistoryClosed
        return opened

    def of(self, tables: Mapping[int, SyncedTable]) -> dict[int, History]:
        """Those that have been synced without a break since they were read; one that left is passed by."""
        return {
            table: opened
            for table, opened in self._opened.items()
            if table in tables and self._joined[table] == tables[table].joined_at
        }

    def forget(self, table: int) -> None:
        """It is not written to any more, until it is opened again."""
        self._opened.pop(table, None)

    def answer_for(self, tables: Iterable[int]) -> bool:
        """Whether catalog and store show one of these as it is now."""
        for opened in [self._opened[table] for table in tables if table in self._opened][:1]:
            with suppress(CatalogFailed, StoreFailed, HistoryMoved, NoSuchTableError), history.answering(opened.name):
                with history.storing(opened.name, opened.metadata.location), loading(opened.name):
                    self._catalog.load_table(opened.name)
                return True
        return False

    def refresh(self, states: Iterable[TableState]) -> bool:
        """Open what has come, follow what has changed, forget what is gone; whether there was anything to open."""
        states, changed = list(states), False
        unopened: dict[int, ThermoclineError] = {}
        unreadable: dict[int, HistoryUnreadable] = {}
        down: CatalogFailed | None = None
        for state in states:
            table = state.table
            if table.id not in self._opened or not self._is_same(state) or differ(self._looks[table.id], table):
                try:
                    if down is not None:  # all have one catalog, and to ask it takes a while
                        raise down
                    self.open(state)
                except (CatalogFailed, StoreFailed) as error:
                    if isinstance(error, CatalogFailed) and not isinstance(error.__cause__, RESTError):
                        down = error  # one that answers may refuse this table, and take others
                    unopened[table.id] = error
                    self.forget(table.id)
                except HistoryUnreadable as error:
                    unreadable[table.id] = error
                    self.forget(table.id)
                changed = True
        if len(unreadable) == len(states) > 1:  # not a table of many is damaged, but the store is away
            unopened |= {table: StoreFailed(why.message, next_step=_AWAY) for table, why in unreadable.items()}
        else:
            for state in states:
                if state.table.id in unreadable:
                    self.set_aside(state.table, unreadable[state.table.id])
        self.unopened = unopened
        for table_id in self._opened.keys() - {state.table.id for state in states}:
            self.forget(table_id)
        return changed

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
            shape = self._shape(look, opened, table.read_to)
            found[table.id] = replace(table, columns=look.columns, time_column=look.time_column, shape=shape)
        return found

    def _shape(self, look: SyncedTable, opened: History, read_to: int) -> Shape:
        """That of the batch before, if its table and its history tell the same and all that changed is behind it."""
        told = opened.told_columns, opened.metadata.current_schema_id
        known = self._shapes.get(look.id)
        if known and known.look is look and known.told == told and known.settled <= read_to:
            return known.shape
        layout = opened.layout
        shape = Shape.of(look.source, look.columns, layout, opened.metadata.schema(), read_to)
        if layout.settled <= read_to:
            self._shapes[look.id] = _Known(look, told, layout.settled, shape)
        return shape

    def reached(self, state: TableState) -> int:
        """Up to where the lake has a table, in the changes that it holds and in what they are said to end with."""
        name = state.table.lake_table
        with suppress(NoSuchTableError), history.answering(name), history.storing(state.table.source, name):
            with loading(name):
                found = History(self._catalog.load_table(name))
            return max(found.marker(), found.newest_position(), state.table.marker)
        return state.table.marker

    def target(self, table: int) -> Target:
        """Where its files go."""
        opened = self[table]
        return Target(opened.metadata, opened.io)

    def _is_same(self, state: TableState) -> bool:
        """Whether it has been synced without a break since its history was opened."""
        return self._joined.get(state.table.id) == state.table.joined_at

    def open(self, state: TableState) -> None:
        """The lake's table, checked to be as we left it, and made to fit; a table that it cannot fit is set aside."""
        for _ in range(_ATTEMPTS):
            try:
                with history.storing(state.table.source, state.table.lake_table):
                    self._open(state)
            except HistoryUnreadable as error:
                self._require_store(state.table, error)
                raise
            except CommitConflict:  # somebody else has committed to it meanwhile
                continue
            return
        raise Busy(f"{state.table.lake_table} is committed to so often by others that it cannot follow its table.")

    def _require_store(self, table: SyncedTable, unreadable: HistoryUnreadable) -> None:
        """A table whose metadata file is not there is in trouble itself only if the store has others of it."""
        name = table.lake_table
        with history.answering(name), history.storing(table.source, name):
            if is_away(self._catalog, name):
                raise StoreFailed(f"The store has no file of {name}.", next_step=_NOT_THERE) from unreadable

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
            known = before.base if before and before.name == opened.name else None
            self._adopt(table, opened, state.lake_snapshot or known)
            self._follow(table, look, opened)
        except HistoryUnreadable:
            raise
        except (HistoryMoved, HistoryUnfit, UnsupportedType) as error:
            self.set_aside(table, error)
            return
        self._opened[table.id] = opened
        self._looks[table.id] = table
        self._joined[table.id] = table.joined_at

    def set_aside(self, table: SyncedTable, error: ThermoclineError) -> None:
        """The stream passes it by from now on."""
        log.warning("table set aside", table=table.source, reason=error.message)
        self._ledger.set_aside(table.id, f"{error.message} {error.next_step}")
        self.forget(table.id)

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
            self._ledger.adopt([Commit(table.id, opened.marker(), snapshot, table.joined_at)])
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
            self._ledger.adopt([Commit(table.id, marker, newest.snapshot_id, table.joined_at)])


def differ(one: SyncedTable, other: SyncedTable) -> bool:
    """Whether a table has other columns than before, or other names."""
    seen = [(of.oid, of.source, of.time_column, [(at.number, at) for at in of.columns]) for of in (one, other)]
    return seen[0] != seen[1]
