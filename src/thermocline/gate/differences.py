"""Which rows of a chunk differ: both sides in a thousand parts by their hashes, then the rows of parts that differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from thermocline.gate.content import hashes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from thermocline.gate.sides import Readable
    from thermocline.lake.tasks import Runner

_SHARES = 1024
_SHIFT = np.uint64(64 - 10)
# So many rows are looked at one by one: more than enough for a sample.
_LOOKED_AT = 50_000


@dataclass(frozen=True)
class Difference:
    """A row that one side has more often than the other."""

    in_postgres: int
    in_lake: int
    row: dict[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """In words."""
        if self.in_postgres == 0:
            return "only in the lake" if self.in_lake == 1 else f"only in the lake, {self.in_lake} times"
        if self.in_lake <= 0:
            return "not in the lake" if self.in_lake == 0 else f"taken away {-self.in_lake} times too often in the lake"
        return f"{self.in_postgres} in PostgreSQL, {self.in_lake} in the lake"


def differences(
    runner: Runner, hot: Sequence[Readable], lake: Sequence[Readable], columns: Sequence[str], most: int = 20
) -> list[Difference]:
    """At most so many rows that differ. Both sides are read twice, and no more is kept than a few shares of them."""
    shares = [sum(runner.run(partial(_shares, columns), side), _Shares()) for side in (hot, lake)]
    chosen = _chosen(*shares)
    if not chosen:
        return []
    sides = [runner.run(partial(_rows_of, columns, frozenset(chosen)), side) for side in (hot, lake)]
    counted: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    places: dict[tuple[int, int], tuple[pa.Table, int]] = {}
    for at, found in enumerate(sides):
        for table, one, two, signs in found:
            for row, key in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
                counted[key][at] += int(signs[row])
                places.setdefault(key, (table, row))
    wrong = [(key, of_postgres, of_lake) for key, (of_postgres, of_lake) in counted.items() if of_postgres != of_lake]
    return [
        Difference(of_postgres, of_lake, places[key][0].slice(places[key][1], 1).to_pylist()[0])
        for key, of_postgres, of_lake in wrong[:most]
    ]


@dataclass(frozen=True)
class _Shares:
    """Rows by the first bits of their hash: how many there are of each, and a sum of the other hash."""

    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_SHARES, np.int64))
    sums: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(_SHARES, np.uint64))
    read: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_SHARES, np.int64))
    """How many there are to read, also those that another one takes away again."""

    def __add__(self, other: _Shares) -> _Shares:
        return _Shares(self.rows + other.rows, self.sums + other.sums, self.read + other.read)


def _shares(columns: Sequence[str], part: Readable) -> list[_Shares]:
    total = _Shares()
    for table, signs in part.read():
        one, two = hashes_of(table, columns)
        share = (one >> _SHIFT).astype(np.int64)
        rows, sums = np.zeros(_SHARES, np.int64), np.zeros(_SHARES, np.uint64)
        np.add.at(rows, share, signs)
        np.add.at(sums, share, two * signs.view(np.uint64))  # modulo 2^64, as everything here
        total += _Shares(rows, sums, np.bincount(share[signs != 0], minlength=_SHARES))
    return [total]


def _chosen(hot: _Shares, lake: _Shares) -> list[int]:
    """Shares that differ, as many as have rows enough for a sample."""
    chosen: list[int] = []
    rows = 0
    for share in np.flatnonzero((hot.rows != lake.rows) | (hot.sums != lake.sums)).tolist():
        if chosen and rows >= _LOOKED_AT:
            break
        chosen.append(share)
        rows += int(hot.read[share]) + int(lake.read[share])
    return chosen


def _rows_of(
    columns: Sequence[str], chosen: frozenset[int], part: Readable
) -> list[tuple[pa.Table, npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]]:
    shares = np.array(sorted(chosen))
    found = []
    for table, signs in part.read():
        one, two = hashes_of(table, columns)
        here = np.isin((one >> _SHIFT).astype(np.int64), shares) & (signs != 0)
        if here.any():
            found.append((table.filter(pa.array(here)), one[here], two[here], signs[here]))
    return found
