"""Which entries of a history count at which time: resets and cuts as disjoint segments; nothing is read here."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

# Below every position that an entry can have.
BEFORE_ALL = (-1, -1)


class Reset(NamedTuple):
    """A record that supersedes every entry of [start, end) whose (lsn, seq) is smaller than its own."""

    start: datetime
    end: datetime
    lsn: int
    seq: int


class Cut(NamedTuple):
    """Of the times [start, end) only entries up to this LSN are read, itself included."""

    start: datetime
    end: datetime
    lsn: int


class Segment(NamedTuple):
    """An entry whose time is in [start, end) counts if it is above (lsn, seq) and not above `upto`.

    (lsn, seq) is `BEFORE_ALL` where there is no reset, `upto` is None where there is no cut.
    """

    start: datetime
    end: datetime
    lsn: int
    seq: int
    upto: int | None

    def overlaps(self, start: datetime, end: datetime) -> bool:
        """Whether a time of [start, end) is in it."""
        return self.start < end and start < self.end


def segments(resets: Iterable[Reset], upto: int | None = None, cuts: Iterable[Cut] = ()) -> list[Segment]:
    """Disjoint and in order; at times that none of them covers, every entry up to `upto` counts.

    Resets may overlap: the greatest one counts, of those that are not above the cut. A reset above it has not
    happened yet. `upto` is the cut of all times, `cuts` are for ranges; where several meet, the lowest counts.
    """
    positions: list[tuple[int, int]] = []
    limits: list[tuple[int, int]] = []
    records = [(reset.start, reset.end, positions, (reset.lsn, reset.seq)) for reset in resets]
    records += [(cut.start, cut.end, limits, (cut.lsn, 0)) for cut in cuts]
    opening, closing = defaultdict(list), defaultdict(list)
    for start, end, among, position in records:
        if start < end:
            opening[start].append((among, position))
            closing[end].append((among, position))
    made: list[Segment] = []
    for start, end in pairwise(sorted(opening.keys() | closing.keys())):
        # What `positions` and `limits` hold now is what covers the time from `start` to `end`.
        for among, position in closing[start]:
            among.remove(position)
        for among, position in opening[start]:
            insort(among, position)
        limit = limits[0][0] if limits and (upto is None or limits[0][0] < upto) else None
        highest = upto if limit is None else limit
        reached = positions if highest is None else positions[: bisect_right(positions, highest, key=itemgetter(0))]
        if not reached and limit is None:
            continue
        lsn, seq = reached[-1] if reached else BEFORE_ALL
        if made and made[-1].end == start and made[-1][2:] == (lsn, seq, limit):
            made[-1] = made[-1]._replace(end=end)
        else:
            made.append(Segment(start, end, lsn, seq, limit))
    return made
