"""PostgreSQL's types in the lake: which Arrow type each becomes, and how whole columns are converted."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import Refused
from thermocline.hot import calendar
from thermocline.hot.wire import MalformedStream, Slices, from_numpy, numbers_at

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from thermocline.hot.wire import Bytes, Longs, Mask

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, XML, FLOAT4, FLOAT8, BPCHAR, VARCHAR = 114, 142, 700, 701, 1042, 1043
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID, JSONB = 1082, 1114, 1184, 1700, 2950, 3802

NULL_TAG, UNCHANGED_TAG, TEXT_TAG, BINARY_TAG = b"nutb"

MOST_PRECISION = 38
# PostgreSQL counts from 2000-01-01, Arrow from 1970-01-01.
EPOCH_DAYS = 10_957
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400 * 1_000_000


class UnsupportedType(Refused):
    """A column has a type that the lake cannot hold."""

    code = "feed.unsupported_type"
    next_step_by_default = "Change the column's type, for example to text, or leave the column out."


@dataclass(frozen=True)
class Converted:
    """A column in its lake type, and the text of those values that the type cannot hold (NULL there)."""

    values: pa.Array
    unrepresentable: dict[int, str]


def lake_type(type_oid: int, typmod: int) -> pa.DataType | None:
    """What a column of a built-in type becomes in the lake; None for a type that has no place there."""
    known = _KNOWN.get(type_oid)
    return known.lake(typmod) if known else None


def supported(type_oid: int) -> bool:
    """Whether a built-in type has a place in the lake."""
    return type_oid in _KNOWN


def type_named(name: str) -> int | None:
    """The supported built-in type with this name in pg_catalog."""
    return _BY_NAME.get(name)


def type_sent_by(send_function: str | None) -> int | None:
    """The supported built-in type whose binary form a send function makes; None if there is none.

    This is how enums, domains and types of extensions find their place: `pg_type.typsend` tells their form.
    A type without a send function comes as text.
    """
    return TEXT if send_function is None else _BY_SEND_FUNCTION.get(send_function)


def convert(data: Bytes, tags: Bytes, starts: Longs, lengths: Longs, type_oid: int, typmod: int) -> Converted:
    """One column of a tuple: tags, and where the values of text and binary tags lie.

    The form may change from row to row. Refuses unknown binary forms (`UnsupportedType`) and values that are
    not of their type (`MalformedStream`); unchanged values must have been replaced before.
    """
    known = _KNOWN.get(type_oid)
    if known is None:
        if (tags == BINARY_TAG).any():
            raise UnsupportedType(f"The binary form of type {type_oid} is not known.")
        known = _PLAIN
    kind = known.lake(typmod)
    parts: list[pa.Array] = []
    odd: dict[int, str] = {}
    # Which element of the concatenated parts each row takes; NULL rows take none.
    taken = np.zeros(len(tags), np.int64)
    filled = 0
    for tag, converter in ((BINARY_TAG, known.binary), (TEXT_TAG, known.text)):
        of_tag = tags == tag
        if not of_tag.any():
            continue
        rows = np.flatnonzero(of_tag)
        everything = Slices(data, starts, lengths)
        whole = len(rows) == len(tags)
        try:
            converted = converter(everything if whole else everything.select(rows), typmod)
        except pa.ArrowInvalid as wrong:
            raise MalformedStream(f"A value is not of its type: {wrong}") from wrong
        if whole:
            return converted
        taken[rows] = filled + np.arange(len(rows))
        filled += len(rows)
        parts.append(converted.values)
        odd.update((int(rows[at]), text) for at, text in converted.unrepresentable.items())
    if not parts:
        return Converted(pa.nulls(len(tags), kind), {})
    values = pa.concat_arrays(parts).take(pa.array(taken, mask=tags == NULL_TAG))
    return Converted(values, dict(sorted(odd.items())))


def from_text(text: str, type_oid: int, typmod: int) -> Any:
    """One value that PostgreSQL wrote, as the lake holds it; None if its type there cannot."""
    content = np.frombuffer(text.encode(), np.uint8)
    tags, starts, lengths = np.array([TEXT_TAG], np.uint8), np.zeros(1, np.int64), np.array([len(content)], np.int64)
    return convert(content, tags, starts, lengths, type_oid, typmod).values[0].as_py()


def unrepresentable_column(told: dict[int, dict[str, str]], rows: int) -> pa.Array:
    """Per row what its columns could not hold, as JSON in the order of the columns; NULL for all but a few."""
    if not told:
        return pa.nulls(rows, pa.string())
    taken = np.full(rows, -1, np.int64)
    taken[list(told)] = np.arange(len(told))
    texts = pa.array([json.dumps(values, ensure_ascii=False) for values in told.values()])
    return texts.take(pa.array(taken, mask=taken < 0))


# ---- plain values ----------------------------------------------------------------------------


def _number(kind: str, lake: str) -> Callable[[Slices, int], Converted]:
    def binary(values: Slices, _typmod: int) -> Converted:
        return Converted(pa.array(values.numbers(kind).astype(lake, copy=False)), {})

    return binary


def _cast(kind: pa.DataType) -> Callable[[Slices, int], Converted]:
    return lambda values, _typmod: Converted(values.strings().cast(kind), {})


def _strings(values: Slices, _typmod: int) -> Converted:
    return Converted(values.strings(), {})


def _bool(values: Slices, _typmod: int) -> Converted:
    return Converted(pa.array(values.numbers("u1") != 0), {})


def _bool_text(values: Slices, _typmod: int) -> Converted:
    letters = values.numbers("u1")
    if not np.isin(letters, np.frombuffer(b"tf", np.uint8)).all():
        raise MalformedStream("A boolean is neither t nor f.")
    return Converted(pa.array(letters == ord("t")), {})


# The type "char" is one byte, and not of any encoding: PostgreSQL shows the upper half in octal.
_CHARS = pa.array([""] + [chr(n) if n < 128 else f"\\{n:03o}" for n in range(1, 256)])


def _char(values: Slices, _typmod: int) -> Converted:
    return Converted(_CHARS.take(pa.array(values.numbers("u1"))), {})


def _jsonb(values: Slices, _typmod: int) -> Converted:
    texts = values.without_first(1)
    if (numbers_at(values.data, values.starts, "u1") != 1).any():
        raise MalformedStream("A jsonb value has an unknown version.")
    return _strings(texts, -1)


def _bytea(values: Slices, _typmod: int) -> Converted:
    return Converted(values.binary(), {})


_NIBBLES = np.full(256, 255, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_NIBBLES[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)


def _bytea_text(values: Slices, _typmod: int) -> Converted:
    digits = values.without_first(2)
    if (numbers_at(values.data, values.starts, "u2") != int.from_bytes(b"\\x")).any():
        raise MalformedStream("A bytea is not in hex form.", next_step="Set bytea_output to hex.")
    gathered = digits.binary()
    nibbles = _NIBBLES[np.frombuffer(gathered.buffers()[2] or b"", np.uint8)]
    if (nibbles > 15).any() or (digits.lengths % 2).any():
        raise MalformedStream("A bytea is not in hex form.")
    offsets = np.zeros(len(digits) + 1, np.int32)
    np.cumsum(digits.lengths // 2, out=offsets[1:])
    content = (nibbles[0::2] << 4) | nibbles[1::2]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return Converted(pa.Array.from_buffers(pa.binary(), len(digits), buffers), {})


# Where the 32 hex digits of a uuid stand between its four dashes.
_UUID_PLACES = np.array([n for n in range(36) if n not in (8, 13, 18, 23)])


def _uuid(values: Slices, _typmod: int) -> Converted:
    if (values.lengths != 16).any():
        raise MalformedStream("A uuid has not 16 bytes.")
    raw = np.stack([values.data[values.starts + at] for at in range(16)], axis=1)
    text = np.full((len(values), 36), ord("-"), np.uint8)
    text[:, _UUID_PLACES] = _HEX[raw].reshape(len(values), 32)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 36
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return Converted(pa.Array.from_buffers(pa.string(), len(values), buffers), {})


# ---- dates and times -------------------------------------------------------------------------


def _date(values: Slices, _typmod: int) -> Converted:
    raw = values.numbers("i4").astype(np.int64) + EPOCH_DAYS
    absent = (raw < calendar.FIRST // calendar.DAY) | (raw > calendar.LAST // calendar.DAY)
    limits = np.iinfo(np.int32)
    odd = {
        int(at): calendar.infinity(raw[at] > 0)
        if raw[at] - EPOCH_DAYS in (limits.max, limits.min)
        else calendar.written(int(raw[at]) * calendar.DAY, pa.date32())
        for at in np.flatnonzero(absent)
    }
    return Converted(from_numpy(raw.astype(np.int32), pa.date32(), absent), odd)


def _timestamp(kind: pa.DataType) -> Callable[[Slices, int], Converted]:
    def binary(values: Slices, _typmod: int) -> Converted:
        raw = values.numbers("i8")
        limits = np.iinfo(np.int64)
        absent = (raw < calendar.FIRST - EPOCH_MICROSECONDS) | (raw > calendar.LAST - EPOCH_MICROSECONDS)
        odd = {
            int(at): calendar.infinity(raw[at] > 0)
            if raw[at] in (limits.max, limits.min)
            else calendar.written(int(raw[at]) + EPOCH_MICROSECONDS, kind)
            for at in np.flatnonzero(absent)
        }
        return Converted(from_numpy(raw + np.int64(EPOCH_MICROSECONDS), kind, absent), odd)

    return binary


_ORDINARY = r"^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d)?)?)?$"


def _temporal_text(kind: pa.DataType) -> Callable[[Slices, int], Converted]:
    def text(values: Slices, _typmod: int) -> Converted:
        texts = values.strings()
        ordinary = pc.match_substring_regex(texts, _ORDINARY)
        if pc.all(ordinary).as_py():
            return Converted(texts.cast(kind), {})
        usual = pc.if_else(ordinary, texts, None).cast(kind)
        unit = 1 if pa.types.is_timestamp(kind) else calendar.DAY
        numbers: list[int | None] = []
        odd: dict[int, str] = {}
        # Infinity, years before 1 and after 9999, zones with seconds: rare, so one by one.
        for at in np.flatnonzero(~_mask(ordinary)):
            told = texts[int(at)].as_py()
            moment = calendar.microseconds(told)
            if moment is None or not calendar.FIRST <= moment <= calendar.LAST:
                odd[int(at)] = told
                moment = None
            numbers.append(None if moment is None else moment // unit)
        raw = pa.int64() if unit == 1 else pa.int32()
        rare = pa.array(numbers, raw).view(kind)
        return Converted(pc.replace_with_mask(usual, pc.invert(ordinary), rare), odd)

    return text


# ---- numeric ---------------------------------------------------------------------------------

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
    return (precision, scale) if precision <= MOST_PRECISION and 0 <= scale <= precision else None


def _numeric_type(typmod: int) -> pa.DataType:
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


def _numeric(values: Slices, typmod: int) -> Converted:
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


def _numeric_cast(values: Slices, typmod: int) -> Converted:
    texts, kind = values.strings(), _numeric_type(typmod)
    if pa.types.is_string(kind):
        return Converted(texts, {})
    whole = f"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
    point = f"([.][0-9]{{1,{kind.scale}}})?" if kind.scale else ""
    ordinary = pc.match_substring_regex(texts, f"^-?{whole}{point}$")
    if not pc.all(ordinary).as_py():
        odd = {int(at): texts[int(at)].as_py() for at in np.flatnonzero(~_mask(ordinary))}
        for text in odd.values():
            if not _ANY_NUMERIC.fullmatch(text):
                raise MalformedStream(f"{text!r} is not a number.")
        return Converted(pc.if_else(ordinary, texts, None).cast(kind), odd)
    return Converted(texts.cast(kind), {})


def _mask(booleans: pa.Array) -> Mask:
    found: Mask = booleans.to_numpy(zero_copy_only=False)
    return found


# ---- the table of types ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Type:
    lake: Callable[[int], pa.DataType]
    binary: Callable[[Slices, int], Converted]
    text: Callable[[Slices, int], Converted]


def _fixed(kind: pa.DataType, binary: Callable[[Slices, int], Converted], text: Any = None) -> _Type:
    return _Type(lambda _typmod: kind, binary, text or _cast(kind))


_PLAIN = _fixed(pa.string(), _strings, _strings)
_AT_UTC = pa.timestamp("us", "UTC")
_KNOWN = {
    BOOL: _fixed(pa.bool_(), _bool, _bool_text),
    BYTEA: _fixed(pa.binary(), _bytea, _bytea_text),
    CHAR: _fixed(pa.string(), _char, _strings),
    INT2: _fixed(pa.int32(), _number("i2", "i4")),
    INT4: _fixed(pa.int32(), _number("i4", "i4")),
    INT8: _fixed(pa.int64(), _number("i8", "i8")),
    OID: _fixed(pa.int64(), _number("u4", "i8")),
    FLOAT4: _fixed(pa.float32(), _number("f4", "f4")),
    FLOAT8: _fixed(pa.float64(), _number("f8", "f8")),
    DATE: _fixed(pa.date32(), _date, _temporal_text(pa.date32())),
    TIMESTAMP: _fixed(pa.timestamp("us"), _timestamp(pa.timestamp("us")), _temporal_text(pa.timestamp("us"))),
    TIMESTAMPTZ: _fixed(_AT_UTC, _timestamp(_AT_UTC), _temporal_text(_AT_UTC)),
    UUID: _fixed(pa.string(), _uuid, _strings),
    JSONB: _fixed(pa.string(), _jsonb, _strings),
    NUMERIC: _Type(_numeric_type, _numeric, _numeric_cast),
    **dict.fromkeys((NAME, TEXT, JSON, XML, BPCHAR, VARCHAR), _PLAIN),
}
_BY_NAME = {
    "bool": BOOL, "bytea": BYTEA, "char": CHAR, "name": NAME, "int8": INT8, "int2": INT2, "int4": INT4,
    "text": TEXT, "oid": OID, "json": JSON, "xml": XML, "float4": FLOAT4, "float8": FLOAT8, "bpchar": BPCHAR,
    "varchar": VARCHAR, "date": DATE, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ, "numeric": NUMERIC,
    "uuid": UUID, "jsonb": JSONB,
}  # fmt: skip
# PostgreSQL writes some of these names with an underscore and some without.
_BY_SEND_FUNCTION = (
    {f"{name}send": oid for name, oid in _BY_NAME.items()}
    | {f"{name}_send": oid for name, oid in _BY_NAME.items()}
    | {"enum_send": TEXT, "citextsend": TEXT}
)
