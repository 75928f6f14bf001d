"""The content of rows as three numbers that add up, so that two copies can be compared without their rows.

A row's hash is over its columns in the order given, each as what kind of value it is at which position, and
the value: NULL has a kind of its own and no value. The hashes of all rows are summed, each with its sign, so
the order of rows and how they are cut into batches do not matter, and a removed row takes back what it added.

* Whole numbers, booleans, dates and timestamps are 64 bits, floats the bits of a float8: the width of a
  column does not show, so a column that was widened keeps its content. The caller must bring both
  copies to the lake's types: timestamps count microseconds, dates days.
* -0 differs from 0. All NaNs are one: PostgreSQL shows only one, and Spark writes only one.
* Decimals are their 128 bits and the scale; the precision does not show.
* Strings and bytes are their length and their bytes.

Receipts keep these numbers, so none of this may ever change without another `VERSION`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    Words = npt.NDArray[np.uint64]
    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

VERSION = 1

# Temporary memory is a dozen arrays of this many 64-bit words, however large the table or a single value is;
# at this size they stay in the processor's cache.
_ROWS = _WORDS = 32_768

_NULL, _WHOLE, _FLOAT, _DECIMAL, _BYTES = range(5)
_GAMMA = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: multiples of it are spread evenly
_ONE_NAN = np.uint64(0x7FF8000000000000)
# What is left of the last word of a value, by the length of the value modulo 8.
_LAST_BYTES = np.array([2**64 - 1, *(2 ** (8 * count) - 1 for count in range(1, 8))], np.uint64)


class _Hash(NamedTuple):
    """One of the two: where it starts, and the shifts and factors of its finaliser."""

    start: int
    shifts: tuple[int, int, int]
    factors: tuple[int, int]

    def mix(self, words: Words, scratch: Words) -> None:
        """Scatter each word over all 64 bits, in place; different words stay different."""
        for shift, factor in zip(self.shifts, (*self.factors, None), strict=True):
            np.right_shift(words, np.uint64(shift), out=scratch)
            words ^= scratch
            if factor is not None:
                words *= np.uint64(factor)


# The starts are digits of pi. The finalisers are splitmix64 (Stafford's variant 13) and Evensen's moremur.
_HASHES = (
    _Hash(0x243F6A8885A308D3, (30, 27, 31), (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)),
    _Hash(0x13198A2E03707344, (27, 33, 27), (0x3C79AC492BA7B653, 0x1C69B3F74AC4AE35)),
)


@dataclass(frozen=True)
class Content:
    """How many rows, and the sums of their two hashes: exact, negative where more was removed than added."""

    rows: int = 0
    one: int = 0
    two: int = 0

    def __add__(self, other: Content) -> Content:
        return Content(self.rows + other.rows, self.one + other.one, self.two + other.two)

    def __sub__(self, other: Content) -> Content:
        return Content(self.rows - other.rows, self.one - other.one, self.two - other.two)


def content_of(
    rows: pa.Table | pa.RecordBatch,
    columns: Sequence[str],
    signs: npt.ArrayLike | None = None,
) -> Content:
    """The content of these columns, each row counted with its sign: 1, -1 or 0; without signs, 1.

    Refuses a column that is missing or there twice (`KeyError`), a type that is not the lake's (`TypeError`),
    no columns at all, and signs that are not one for each row (`ValueError`).
    """
    table = _chosen(rows, columns)
    weights = _weights(signs, rows.num_rows)
    sums = [0 for _ in _HASHES]
    done = 0
    for batch in filter(len, table.to_batches(max_chunksize=_ROWS)):
        of_batch = weights[done : done + len(batch)]
        done += len(batch)
        for which, hashes in enumerate(_hashes(batch)):
            sums[which] += _sum(hashes, of_batch)
    return Content(int(weights.sum(dtype=np.int64)), *sums)


def hashes_of(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> tuple[Words, Words]:
    """Both hashes of each row, of these columns; refuses what `content_of` refuses."""
    found = [_hashes(batch) for batch in filter(len, _chosen(rows, columns).to_batches(max_chunksize=_ROWS))]
    one, two = zip(*found, strict=True) if found else ((np.empty(0, np.uint64),),) * 2
    return np.concatenate(one), np.concatenate(two)


def _chosen(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
    if not columns:
        raise ValueError("rows without columns have no content")
    chosen = rows.select(list(columns))
    for field in chosen.schema:
        if _kind(field.type) is None:
            raise TypeError(f"column {field.name!r} is of type {field.type}, which the lake does not have")
    return chosen if isinstance(chosen, pa.Table) else pa.Table.from_batches([chosen])


def _weights(signs: npt.ArrayLike | None, count: int) -> npt.NDArray[Any]:
    found = np.broadcast_to(np.int8(1), count) if signs is None else np.asarray(signs)
    if found.shape != (count,) or (count and found.dtype.kind not in "iu"):
        raise ValueError(f"{count} rows need as many whole numbers as signs")
    if count and (found.min() < -1 or found.max() > 1):
        raise ValueError("a sign is 1, -1 or 0")
    return found


def _sum(hashes: Words, weights: npt.NDArray[Any]) -> int:
    """Exact: the halves of a hash are summed apart, so that 64 bits suffice for a batch."""
    weights = weights.astype(np.int64)
    high, low = (hashes >> np.uint64(32)).astype(np.int64), (hashes & np.uint64(2**32 - 1)).astype(np.int64)
    return (int(high @ weights) << 32) + int(low @ weights)


# ---- rows ------------------------------------------------------------------------------------


def _hashes(batch: pa.RecordBatch) -> list[Words]:
    """Each row's hashes: from the start, one step for each word of each column."""
    states = [np.full(len(batch), function.start, np.uint64) for function in _HASHES]
    scratch = np.empty(len(batch), np.uint64)
    for position, column in enumerate(batch.columns):
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        tag: Any = _tag(position, _kind(column.type) or 0, getattr(column.type, "scale", 0))
        if valid is not None:
            tag = np.where(valid, tag, _tag(position, _NULL))
        for words in _words(column, valid):
            for function, state, word in zip(_HASHES, states, words, strict=True):
                state ^= word
                state += tag
                function.mix(state, scratch)
    return states


def _tag(position: int, kind: int, scale: int = 0) -> np.uint64:
    return np.uint64((position << 16 | (scale & 0xFF) << 8 | kind) * _GAMMA % 2**64)


def _kind(of: pa.DataType) -> int | None:
    """None for a type that the lake does not have, or that would show the same value as another number."""
    if pa.types.is_signed_integer(of) or of in (pa.bool_(), pa.date32()):
        return _WHOLE
    if pa.types.is_timestamp(of) and of.unit == "us":
        return _WHOLE
    if of in (pa.float32(), pa.float64()):
        return _FLOAT
    if pa.types.is_decimal128(of):
        return _DECIMAL
    if of in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _BYTES
    return None


def _words(column: pa.Array, valid: Mask | None) -> list[tuple[Words, ...]]:
    """The column as words, zero where it is NULL; each word as both hashes take it."""
    kind = _kind(column.type)
    if kind == _BYTES:
        return [_digests(column, valid)]
    if kind == _DECIMAL:
        halves = _numbers(column, "u8", 2).reshape(-1, 2)
        found = [halves[:, 0], halves[:, 1]]
    elif kind == _FLOAT:
        with np.errstate(invalid="ignore"):  # a signalling NaN, or what lies under a NULL
            floats = _numbers(column, f"f{column.type.bit_width // 8}").astype(np.float64)
        found = [np.where(np.isnan(floats), _ONE_NAN, floats.view(np.uint64))]
    elif pa.types.is_boolean(column.type):
        found = [_numbers(column.cast(pa.uint8()), "u1").astype(np.uint64)]
    else:
        found = [_numbers(column, f"i{column.type.bit_width // 8}").astype(np.int64, copy=False).view(np.uint64)]
    if valid is not None:
        # What lies under a NULL is anything.
        found = [np.where(valid, words, np.uint64(0)) for words in found]
    return [(words,) * len(_HASHES) for words in found]


def _numbers(column: pa.Array, kind: str, each: int = 1, extra: int = 0) -> npt.NDArray[Any]:
    dtype = np.dtype(kind)
    content = column.buffers()[1]
    return np.frombuffer(content, dtype, (len(column) + extra) * each, column.offset * each * dtype.itemsize)


# ---- strings and bytes -----------------------------------------------------------------------


def _digests(column: pa.Array, valid: Mask | None) -> tuple[Words, ...]:
    """Each value as one word for each hash: the sum of its mixed words of 8 bytes, and its length.

    A word is mixed with its number, so it matters where it stands, and all words of all values are mixed at
    once. The last one is filled up with zeros, which the length tells from zeros in the value.
    """
    large = column.type in (pa.large_string(), pa.large_binary())
    offsets = _numbers(column, "i8" if large else "i4", extra=1).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if valid is not None:
        lengths[~valid] = 0
    counts = (lengths + 7) >> 3
    ends = np.cumsum(counts)
    total = int(ends[-1])
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    digests = tuple(lengths.view(np.uint64) * np.uint64(_GAMMA) for _ in _HASHES)
    for begin in range(0, total, _WORDS):
        end = min(begin + _WORDS, total)
        first, last = np.searchsorted(ends, [begin, end - 1], side="right")
        values = first + np.flatnonzero(counts[first : last + 1])
        stops = ends[values]
        zeroth = stops - counts[values]
        begins = np.maximum(zeroth, begin)
        here = np.minimum(stops, end) - begins
        numbers = np.arange(begin, end) - np.repeat(zeroth, here)
        words = _words_at(data, np.repeat(starts[values], here) + 8 * numbers)
        ended = stops <= end
        words[stops[ended] - 1 - begin] &= _LAST_BYTES[lengths[values[ended]] & 7]
        steps = (numbers.view(np.uint64) + np.uint64(1)) * np.uint64(_GAMMA)
        scratch = np.empty_like(words)
        for function, digest in zip(_HASHES, digests, strict=True):
            mixed = words ^ np.uint64(function.start)
            mixed += steps
            function.mix(mixed, scratch)
            digest[values] += np.add.reduceat(mixed, begins - begin)
    return digests


def _words_at(data: npt.NDArray[np.uint8], positions: Longs) -> Words:
    """Eight bytes from each of these ascending positions, the first one lowest; zeros after the end of the data."""
    after = int(positions[-1]) + 8
    if after > len(data):
        first = int(positions[0])
        data, positions = np.concatenate([data[first:], np.zeros(8, np.uint8)]), positions - first
    everywhere: Words = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
    return everywhere[positions].astype(np.uint64, copy=False)
