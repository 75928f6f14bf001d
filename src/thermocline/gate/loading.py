"""A range of the lake into a table: file by file, in parallel, each row as often as it was added and not removed.

A history is added to and never rewritten, so a row that was updated or deleted is there as an addition and a removal.
Which additions are undone is found by the rows' hashes: first all removals are counted, then each file is told how many
of its own rows to leave out. Equal rows are one as good as the other. A range without removals is read once.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from thermocline.crash import crash_point
from thermocline.gate import drop
from thermocline.gate.content import Content, content_of, hashes_of
from thermocline.gate.sides import NotProven
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.hot.texts import as_csv
from thermocline.lake.history import OwedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from thermocline.gate.sides import LakePart
    from thermocline.lake.tasks import Runner

    Keys = npt.NDArray[np.uint64]
    Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """Hashes, ascending, and how often each was met."""

    keys: Keys
    counts: Counts

    @classmethod
    def of(cls, hashes: Keys) -> Tally:
        """Of hashes in any order."""
        return cls(*np.unique(hashes, return_counts=True))

    def where(self, hashes: Keys) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Which of the hashes are among the keys, and for those the place of the key."""
        if not len(self.keys):
            return np.zeros(len(hashes), bool), np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(self.keys, hashes), len(self.keys) - 1)
        known = self.keys[at] == hashes
        return known, at[known]


@dataclass(frozen=True)
class Target:
    """The table that is loaded."""

    dsn: str = field(repr=False)
    name: str
    """Quoted, with its schema."""
    columns: tuple[str, ...]
    """Those that are written: not the generated ones."""


@dataclass(frozen=True)
class _File:
    part: LakePart
    left_out: Tally


def load(runner: Runner, target: Target, parts: Sequence[LakePart], source: str) -> Content:
    """Fill the table with what the parts add up to; returns what that is."""
    removed = _summed(runner.run(_removed, [part for part in parts if not part.file.only_adds]))
    quotas = _quotas(runner, parts, removed, source)
    tasks = [_File(part, quota) for part, quota in zip(parts, quotas, strict=True)]
    return sum(runner.run(partial(_load, target), tasks), Content())


def _summed(tallies: Sequence[Tally]) -> Tally:
    if not tallies:
        return Tally(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    keys, places = np.unique(np.concatenate([one.keys for one in tallies]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, places, np.concatenate([one.counts for one in tallies]))
    return Tally(keys, counts)


def _quotas(runner: Runner, parts: Sequence[LakePart], removed: Tally, source: str) -> list[Tally]:
    """For each part, what of its own additions is to be left out."""
    left = removed.counts.copy()
    if not len(left):
        return [removed for _ in parts]
    quotas = []
    for added in runner.run(partial(_added, removed.keys), parts):
        _, at = removed.where(added.keys)
        taken = np.minimum(left[at], added.counts)
        left[at] -= taken
        quotas.append(Tally(added.keys[taken > 0], taken[taken > 0]))
    if left.any():
        raise OwedRows(f"The history {source} removes {int(left.sum())} rows of the range more than it adds.")
    return quotas


# ---- tasks -----------------------------------------------------------------------------------


def _hashes(part: LakePart, sign: int) -> Iterator[Keys]:
    for block, signs in part.read():
        wanted = signs == sign
        if wanted.any():
            yield hashes_of(block.filter(pa.array(wanted)), part.chunk.compared)[0]


def _removed(part: LakePart) -> list[Tally]:
    found = list(_hashes(part, -1))
    return [Tally.of(np.concatenate(found))] if found else []


def _added(keys: Keys, part: LakePart) -> list[Tally]:
    wanted = Tally(keys, np.zeros(len(keys), np.int64))
    counts = np.zeros(len(keys), np.int64)
    for hashes in _hashes(part, 1):
        _, at = wanted.where(hashes)
        counts += np.bincount(at, minlength=len(keys))
    return [Tally(keys[counts > 0], counts[counts > 0])]


def _load(target: Target, file: _File) -> list[Content]:
    total = Content()
    left = file.left_out.counts.copy()
    names = sql.SQL(", ").join(map(sql.Identifier, target.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(sql.SQL(target.name), names)
    with _refusing(file.part.chunk.source), connect(target.dsn) as session:
        session.execute(query("columns_plainly"))
        with session.cursor().copy(statement) as copy:
            for block, signs in file.part.read():
                total += content_of(block, file.part.chunk.compared, signs)
                rows = block.filter(pa.array(signs == 1))
                if rows.num_rows and len(left):
                    rows = rows.filter(pa.array(_kept(rows, file, left)))
                if rows.num_rows:
                    copy.write(as_csv(rows, target.columns))
                crash_point("rehydrate.in_load")
    return [total]


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """What PostgreSQL says of a row is said in its words, wherever the task runs."""
    try:
        yield
    except psycopg.Error as error:
        against = drop.refusal(error)
        raise NotProven(against.code, f"{source}: {against.message}.", against.next_step) from error


def _kept(rows: pa.Table, file: _File, left: Counts) -> npt.NDArray[np.bool_]:
    """Which rows stay; counts down what is still to be left out."""
    known, at = file.left_out.where(hashes_of(rows, file.part.chunk.compared)[0])
    order = np.argsort(at, kind="stable")
    sorted_at = at[order]
    first = np.concatenate([[True], sorted_at[1:] != sorted_at[:-1]]) if len(at) else np.zeros(0, bool)
    begins = np.maximum.accumulate(np.where(first, np.arange(len(at)), 0)) if len(at) else np.zeros(0, np.int64)
    rank = np.empty(len(at), np.int64)
    rank[order] = np.arange(len(at)) - begins
    out = rank < left[at]
    left -= np.bincount(at[out], minlength=len(left))
    kept = np.ones(rows.num_rows, bool)
    kept[np.flatnonzero(known)[out]] = False
    return kept
