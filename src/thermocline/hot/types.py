"""PostgreSQL's types in the lake: which Arrow type each becomes, and how whole columns are converted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import Refused
from thermocline.hot import calendar, numerics
from thermocline.hot.wire import Converted, MalformedStream, Slices, from_numpy, numbers_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from thermocline.hot.wire import Bytes, Longs

    Spelled = Callable[[int, pa.Array], pa.Array]
    """Values of a type in binary form, as the texts that PostgreSQL writes for them."""

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, XML, FLOAT4, FLOAT8, BPCHAR, VARCHAR = 114, 142, 700, 701, 1042, 1043
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID, JSONB = 1082, 1114, 1184, 1700, 2950, 3802

NULL_TAG, UNCHANGED_TAG, TEXT_TAG, BINARY_TAG = b"nutb"

# PostgreSQL counts from 2000-01-01, Arrow from 1970-01-01.
EPOCH_DAYS = 10_957
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400 * 1_000_000


class UnsupportedType(Refused):
    """A column has a type that the lake cannot hold."""

    code = "feed.unsupported_type"
    next_step_by_default = "Change the column's type, for example to text, or leave the column out."


def lake_type(type_oid: int, typmod: int) -> pa.DataType:
    """What a column of a type becomes in the lake; a type without a place of its own is text."""
    return _KNOWN.get(type_oid, _PLAIN).lake(typmod)


def has_place(type_oid: int) -> bool:
    """Whether a built-in type has a place of its own in the lake."""
    return type_oid in _KNOWN


def with_place() -> list[int]:
    """The types that have one."""
    return list(_KNOWN)


def type_named(name: str) -> int | None:
    """The supported built-in type with this name in pg_catalog."""
    return _BY_NAME.get(name)


def type_sent_by(send_function: str | None) -> int | None:
    """The supported built-in type whose binary form a send function makes; None if there is none.

    This is how enums, domains and types of extensions find their place: `pg_type.typsend` tells their form.
    A type without a send function comes as text.
    """
    return TEXT if send_function is None else _BY_SEND_FUNCTION.get(send_function)


def convert(
    data: Bytes,
    tags: Bytes,
    starts: Longs,
    lengths: Longs,
    type_oid: int,
    typmod: int,
    spelled: Spelled | None = None,
) -> Converted:
    """One column of a tuple: tags, and where the values of text and binary tags lie.

    The form may change from row to row. Values whose binary form is not known here become what `spelled` says; they are
    refused (`UnsupportedType`) without it, and so are values that are not of their type (`MalformedStream`); unchanged
    values must have been replaced before.
    """
    known = _KNOWN.get(type_oid) or _fixed(pa.string(), _by_others(type_oid, spelled), _strings)
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


def _integer_text(kind: pa.DataType) -> Callable[[Slices, int], Converted]:
    def text(values: Slices, _typmod: int) -> Converted:
        texts = values.strings()
        if not pc.all(pc.match_substring_regex(texts, "^-?[0-9]+$")).as_py():  # Arrow reads 0x10 as well
            raise MalformedStream("A whole number is not written as one.")
        return Converted(texts.cast(kind), {})

    return text


def _by_others(type_oid: int, spelled: Spelled | None) -> Callable[[Slices, int], Converted]:
    def binary(values: Slices, _typmod: int) -> Converted:
        if spelled is None:
            raise UnsupportedType(f"The binary form of type {type_oid} is not known.")
        return Converted(spelled(type_oid, values.binary()), {})

    return binary


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
HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)


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
    text[:, _UUID_PLACES] = HEX[raw].reshape(len(values), 32)
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
        for at in np.flatnonzero(~ordinary.to_numpy(zero_copy_only=False)):
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
    INT2: _fixed(pa.int32(), _number("i2", "i4"), _integer_text(pa.int32())),
    INT4: _fixed(pa.int32(), _number("i4", "i4"), _integer_text(pa.int32())),
    INT8: _fixed(pa.int64(), _number("i8", "i8"), _integer_text(pa.int64())),
    OID: _fixed(pa.int64(), _number("u4", "i8"), _integer_text(pa.int64())),
    FLOAT4: _fixed(pa.float32(), _number("f4", "f4")),
    FLOAT8: _fixed(pa.float64(), _number("f8", "f8")),
    DATE: _fixed(pa.date32(), _date, _temporal_text(pa.date32())),
    TIMESTAMP: _fixed(pa.timestamp("us"), _timestamp(pa.timestamp("us")), _temporal_text(pa.timestamp("us"))),
    TIMESTAMPTZ: _fixed(_AT_UTC, _timestamp(_AT_UTC), _temporal_text(_AT_UTC)),
    UUID: _fixed(pa.string(), _uuid, _strings),
    JSONB: _fixed(pa.string(), _jsonb, _strings),
    NUMERIC: _Type(numerics.kind, numerics.from_binary, numerics.from_texts),
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
