"""The commits of a batch: a snapshot for each table, side by side, each only where the batch was read from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from thermocline.crash import crash_point
from thermocline.errors import CatalogFailed, StoreFailed
from thermocline.feed.records import Commit
from thermocline.hot.positions import text
from thermocline.lake import history
from thermocline.lake.history import CommitConflict
from thermocline.lake.refusals import HistoryContended, HistoryMoved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from thermocline.feed.ledger import Ledger
    from thermocline.feed.reading import Ending, SyncedTable
    from thermocline.feed.writing import File
    from thermocline.lake.history import History

    Obstacle = HistoryMoved | HistoryContended | CatalogFailed | StoreFailed
    """What keeps one table from being committed, and no other."""

# A commit mostly waits for the store and the catalog.
_AT_ONCE = 4
_ATTEMPTS = 5


class BatchOvertaken(HistoryMoved):
    """A batch was read from a place that its history table has passed."""

    code = "feed.batch_overtaken"
    next_step_by_default = "Another feed writes to it. Nothing was appended; start the feed again."


def commit(
    ledger: Ledger,
    histories: Mapping[int, History],
    tables: Mapping[int, SyncedTable],
    ending: Ending,
    files: Mapping[int, Sequence[File]],
    batch: str,
) -> Iterator[tuple[int, Commit | Obstacle]]:
    """How it went for each table; what concerns more than one table is raised, once every commit has ended."""

    def one(table: int) -> Commit | Obstacle:
        opened, of_table = histories[table], files[table]
        try:
            with history.storing(tables[table].source, opened.metadata.location):
                snapshot = _append(ledger, opened, table, ending, of_table, batch)
        except BatchOvertaken:
            raise
        except (HistoryMoved, HistoryContended, CatalogFailed, StoreFailed) as error:
            return error
        touched = [file.touched(opened.metadata) for file in of_table]
        added = sum(file.data_file.record_count for file in of_table)
        crash_point("batch.table_committed")
        return Commit(table, ending.end, snapshot, tables[table].joined_at, touched, added)

    with ThreadPoolExecutor(_AT_ONCE, "commit") as pool:
        begun = {table: pool.submit(one, table) for table in files}
    for table, ended in begun.items():
        yield table, ended.result()


def _append(ledger: Ledger, opened: History, table: int, ending: Ending, files: Sequence[File], batch: str) -> int:
    """Append to one table, unless it has moved since the batch was read."""
    read_from, firsts = ending.markers[table], ending.firsts.get(table, {})
    summary = {history.BATCH: batch, history.EPOCH: str(ledger.epoch), history.END: str(ending.end)}
    for _ in range(_ATTEMPTS):
        if opened.marker() != read_from:
            raise BatchOvertaken(
                f"{opened.name} has come to {text(opened.marker())}; a batch was read from {text(read_from)} on."
            )
        try:
            crash_point("batch.before_append")
            return opened.append((file.data_file for file in files), summary, firsts)
        except CommitConflict:
            opened.refresh()
            opened.require_ours(ledger.known_batches())
    raise HistoryContended(f"{opened.name} is committed to so often by others that the feed does not get through.")
