"""Reading a mirror's part of the stream: which of its changes are an UPDATE's, and which are no changes at all.

In shadow mode the mirror streams in the place of its table. An UPDATE is a DELETE and an INSERT there, and rows come
and go that nobody has written: a chunk is mirrored for the first time, or has left PostgreSQL. So messages in the
stream tell how to read what follows, to the next one or to the end of the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from thermocline.feed.pgoutput import LogicalMessage

MIRROR = "mirror"
_CHANGE, _UPDATE, _NOTHING = range(3)
_WAYS = {"change": _CHANGE, "update": _UPDATE, "nothing": _NOTHING}
_UPDATED = {"delete": "update_preimage", "insert": "update_postimage"}


class Mirrors:
    """What the stream has told so far of how to read each mirror, by the number of its table."""

    def __init__(self) -> None:
        self._told: dict[int, list[tuple[int, int, int]]] = {}

    def hear(self, events: Iterable[tuple[LogicalMessage, Mapping[str, Any]]]) -> None:
        """The messages of one block; of the blocks before, only the last one of each table can still count."""
        self._told = {table: told[-1:] for table, told in self._told.items()}
        for message, event in events:
            if event.get("event") == MIRROR and message.lsn is not None and message.seq is not None:
                way = _WAYS[event["as"]]
                self._told.setdefault(event["chronotable"], []).append((message.lsn, message.seq, way))

    def read(self, table: int, rows: pa.Table) -> pa.Table:
        """Rows of one block, in stream order, as the history is to have them."""
        told = self._told.get(table, [])
        if not told or not rows.num_rows:
            return rows
        ways = self._ways(told, rows)
        if not ways.any():
            return rows
        at = rows.column_names.index("_change_type")
        field, kinds, of_update = rows.schema.field(at), rows["_change_type"], pa.array(ways == _UPDATE)
        for kind, updated in _UPDATED.items():
            kinds = pc.if_else(pc.and_(of_update, pc.equal(kinds, kind)), pa.scalar(updated, field.type), kinds)
        rows = rows.set_column(at, field, kinds)
        return rows.filter(pa.array(ways != _NOTHING))

    def _ways(self, told: list[tuple[int, int, int]], rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int8]]:
        lsn, seq = rows["_lsn"].to_numpy(), rows["_seq"].to_numpy()
        ways = np.zeros(len(lsn), np.int8)
        for position, place, way in told:  # each counts to the end of its transaction, or until the next one
            first, last = np.searchsorted(lsn, position, "left"), np.searchsorted(lsn, position, "right")
            first += np.searchsorted(seq[first:last], place, "right")
            ways[first:last] = way
        return ways
