"""Numerics of PostgreSQL, groups of four decimal digits, as decimals of 128 bits or as texts: whole columns at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.hot.wire import Converted, MalformedStream, from_numpy, numbers_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from thermocline.hot.wire import Longs, Mask, Slices

MOST_PRECISION = 38
_NEGATIVE = 0x4000
_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_POWERS = 10 ** np.arange(4)
_ANY_NUMERIC = re.compile(r"-?\d+(\.\d+)?|NaN|-?Infinity", re.ASCII)


def precision_and_scale(typmod: int) -> tuple[int, int] | None:
    """Of a numeric that an Arrow decimal can hold; None for one without bounds, or with other bounds.

    PostgreSQL 15 and later allow a scale below zero or above the precision; Arrow and Iceberg do not.
    """
    if typmod < 4:
        return None
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 1024) - 1024
    return (precision, scale) if 1 <= precision <= MOST_PRECISION and 0 <= scale <= precision else None


def kind(typmod: int) -> pa.DataType:
    """What a numeric is in the lake."""
    bounds = precision_and_scale(typmod)
    return pa.decimal128(*bounds) if bounds else pa.string()


class _Numerics:
    """Numerics in binary form: groups of four decimal digits, the first of them with weight 10000**weight."""

    def __init__(self, values: Slices) -> None:
        digits = values.without_first(8)
        self.data = values.data
        self.starts = digits.starts
        header = [numbers_at(values.data, values.starts + at, "i2").astype(np.int64) for at in (0, 2, 4, 6)]
        self.count, self.weight, self.sign, self.dscale = header
        self.sign &= 0xFFFF
        if (self.count < 0).any() or (self.dscale < 0).any() or (digits.lengths != 2 * self.count).any():
            raise MalformedStream("A numeric has not the length that it says.")
        self.special = self.sign > _NEGATIVE
        if not np.isin(self.sign, (0, _NEGATIVE, *_SPECIAL)).all():
            raise MalformedStream("A numeric has an unknown sign.")

    def group(self, rows: Longs | slice, power: Longs | int) -> Longs:
        """The group of digits that counts 10000**power in each of these rows; zero where there is none."""
        place = self.weight[rows] - power
        there = (place >= 0) & (place < self.count[rows])
        found = np.zeros(len(place), np.int64)
        found[there] = numbers_at(self.data, (self.starts[rows] + 2 * place)[there], "i2")
        if ((found < 0) | (found > 9999)).any():
            raise MalformedStream("A numeric has a digit that is none.")
        return found


def from_binary(values: Slices, typmod: int) -> Converted:
    """As they are sent."""
    bounds = precision_and_scale(typmod)
    if bounds is None:
        return Converted(_numeric_texts(values), {})
    precision, scale = bounds
    numerics = _Numerics(values)
    # The groups that the type has room for; PostgreSQL sends no zeros before the first or after the last.
    top, bottom = (precision - scale + 3) // 4 - 1, -((scale + 3) // 4)
    outside = (numerics.weight > top) | (numerics.weight - numerics.count + 1 < bottom)
    unfit = numerics.special | (outside & (numerics.count > 0))
    # Limbs of 48 bits, the lowest first: one of them times 10000 stays within 64 bits.
    limbs = [np.zeros(len(values), np.int64) for _ in range((10**precision).bit_length() // 48 + 1)]
    for power in range(top, bottom - 1, -1):
        carry, radix = numerics.group(slice(None), power), 10_000
        if power == top:
            unfit |= carry >= 10 ** (precision - scale - 4 * top)
        if power == bottom and scale % 4:
            radix = 10 ** (scale % 4)
            carry, rest = np.divmod(carry, 10_000 // radix)
            unfit |= rest != 0
        for at, limb in enumerate(limbs):
            total = limb * radix + carry
            limbs[at], carry = total & 0xFFFF_FFFF_FFFF, total >> 48
    rare = np.flatnonzero(unfit)
    texts = _numeric_texts(values.select(rare)).to_pylist() if len(rare) else []
    words = _two_words(limbs, numerics.sign == _NEGATIVE)
    return Converted(
        from_numpy(words, pa.decimal128(precision, scale), unfit),
        dict(zip(rare.tolist(), texts, strict=True)),
    )


def _two_words(limbs: list[Longs], negative: Mask) -> npt.NDArray[np.uint64]:
    """The 128 bits of each number, lower word first, as Arrow's decimals have them."""
    words = np.zeros((len(negative), 2), np.uint64)
    words[:, 0] = limbs[0]
    if len(limbs) > 1:
        words[:, 0] |= limbs[1].astype(np.uint64) << np.uint64(48)
        words[:, 1] = limbs[1] >> 16
    if len(limbs) > 2:
        words[:, 1] |= limbs[2].astype(np.uint64) << np.uint64(32)
    # Two's complement: all bits turned, plus one, which reaches the upper word only past a lower zero.
    turned = ~words
    turned[:, 0] += np.uint64(1)
    turned[:, 1] += turned[:, 0] == 0
    return np.where(negative[:, None], turned, words)


def _numeric_texts(values: Slices) -> pa.Array:
    """As PostgreSQL writes them, with all the places after the point that the value has."""
    numerics = _Numerics(values)
    rows = np.arange(len(values))
    first = numerics.group(rows, numerics.weight)
    leading = 1 + (first > 9) + (first > 99) + (first > 999)
    whole = np.where(numerics.weight >= 0, 4 * numerics.weight + leading, 1)
    minus = (numerics.sign == _NEGATIVE).astype(np.int64)
    lengths = minus + whole + np.where(numerics.dscale > 0, numerics.dscale + 1, 0)
    lengths[numerics.special] = 0
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # From here on one element per character: its row, and the power of ten that it counts. The point is -1,
    # the digits after it come one lower, and the sign is one above the first digit.
    of = np.repeat(rows, lengths)
    power = np.repeat(minus + whole - 1 + offsets[:-1], lengths) - np.arange(offsets[-1])
    point, sign = power == -1, power == whole[of]
    power += power < 0
    letters = (numerics.group(of, power >> 2) // _POWERS[power & 3] % 10 + ord("0")).astype(np.uint8)
    letters[point], letters[sign] = ord("."), ord("-")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    texts = pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string())
    for sign_bits, name in _SPECIAL.items():
        if (numerics.sign == sign_bits).any():
            texts = pc.if_else(pa.array(numerics.sign == sign_bits), name, texts)
    return texts


def from_texts(values: Slices, typmod: int) -> Converted:
    """As they are written."""
    texts, wanted = values.strings(), kind(typmod)
    if pa.types.is_string(wanted):
        return Converted(texts, {})
    whole = f"[0-9]{{1,{wanted.precision - wanted.scale}}}" if wanted.precision > wanted.scale else "0"
    point = f"([.][0-9]{{1,{wanted.scale}}})?" if wanted.scale else ""
    ordinary = pc.match_substring_regex(texts, f"^-?{whole}{point}$")
    if not pc.all(ordinary).as_py():
        odd = {int(at): texts[int(at)].as_py() for at in np.flatnonzero(~ordinary.to_numpy(zero_copy_only=False))}
        for text in odd.values():
            if not _ANY_NUMERIC.fullmatch(text):
                raise MalformedStream(f"{text!r} is not a number.")
        return Converted(pc.if_else(ordinary, texts, None).cast(wanted), odd)
    return Converted(texts.cast(wanted), {})
