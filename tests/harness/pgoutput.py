"""A tiny encoder of pgoutput messages and a row-by-row decoder of them, to hold the real one against."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thermocline.feed.pgoutput import Decoded, Decoder
from thermocline.hot import calendar, types

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
EPOCH_MICROSECONDS = 946_684_800_000_000

# ---- an encoder of its own -------------------------------------------------------------------

Cell = bytes | None | str
"""As the encoder takes it: None is NULL, "u" unchanged, and bytes begin with their tag."""


def b(layout: str, *values: Any) -> bytes:
    return b"b" + struct.pack(">" + layout, *values)


def t(text: str) -> bytes:
    return b"t" + text.encode()


def begin(lsn: int, time: int = 0, xid: int = 1) -> bytes:
    return b"B" + struct.pack(">qqI", lsn, time, xid)


def commit(lsn: int, time: int = 0) -> bytes:
    return b"C\0" + struct.pack(">qqq", lsn, lsn + 8, time)


def relation(oid: int, columns: Sequence[tuple[str, int, int]], name: str = "m", space: str = "public") -> bytes:
    described = b"".join(b"\1" + n.encode() + b"\0" + struct.pack(">Ii", kind, mod) for n, kind, mod in columns)
    names = space.encode() + b"\0" + name.encode() + b"\0"
    return b"R" + struct.pack(">I", oid) + names + b"f" + struct.pack(">H", len(columns)) + described


def row(cells: Sequence[Cell]) -> bytes:
    parts = [struct.pack(">H", len(cells))]
    for cell in cells:
        if isinstance(cell, bytes):
            parts.append(cell[:1] + struct.pack(">i", len(cell) - 1) + cell[1:])
        else:
            parts.append(b"n" if cell is None else b"u")
    return b"".join(parts)


def insert(oid: int, cells: Sequence[Cell]) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(cells)


def update(oid: int, old: Sequence[Cell], new: Sequence[Cell]) -> bytes:
    return b"U" + struct.pack(">I", oid) + b"O" + row(old) + b"N" + row(new)


def delete(oid: int, cells: Sequence[Cell]) -> bytes:
    return b"D" + struct.pack(">I", oid) + b"O" + row(cells)


def truncate(oids: Sequence[int], options: int = 0) -> bytes:
    return b"T" + struct.pack(f">iB{len(oids)}I", len(oids), options, *oids)


def message(transactional: bool, lsn: int, prefix: str, content: bytes) -> bytes:
    head = b"M" + struct.pack(">Bq", transactional, lsn) + prefix.encode() + b"\0"
    return head + struct.pack(">i", len(content)) + content


def user_type(oid: int, space: str, name: str) -> bytes:
    return b"Y" + struct.pack(">I", oid) + space.encode() + b"\0" + name.encode() + b"\0"


def block(*messages: bytes) -> pa.Array:
    return pa.array(messages, pa.binary())


def numeric(number: Decimal) -> bytes:
    """The binary form: groups of four digits without zeros at either end."""
    if number.is_nan():
        return b("hhHh", 0, 0, 0xC000, 0)
    if number.is_infinite():
        return b("hhHh", 0, 0, 0xF000 if number < 0 else 0xD000, 0)
    whole, _, fraction = f"{abs(number):f}".partition(".")
    dscale = len(fraction)
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    digits = whole + fraction.ljust(-(-dscale // 4) * 4, "0")
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups = groups[:-1]
    sign = 0x4000 if number < 0 else 0
    return b(f"hhHh{len(groups)}h", len(groups), weight if groups else 0, sign, dscale, *groups)


# ---- a decoder of its own, row by row --------------------------------------------------------


@dataclass
class Expected:
    """What the stream says, one object per row."""

    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    truncates: list[tuple[int, int, tuple[int, ...], bool, bool]] = field(default_factory=list)
    messages: list[tuple[int | None, int, int | None, str, bytes]] = field(default_factory=list)
    end: int | None = None
    transactions: int = 0


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 1

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def get(self, layout: str) -> Any:
        return struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))[0]

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        return self.take(end + 1 - self.at)[:-1].decode()

    def row(self) -> list[tuple[str, bytes]]:
        found = []
        for _ in range(self.get("H")):
            tag = self.take(1).decode()
            found.append((tag, self.take(self.get("i")) if tag in "tb" else b""))
        return found


def reference(messages: Sequence[bytes]) -> Expected:
    expected = Expected()
    shapes: dict[int, tuple[str, list[tuple[str, int, int]]]] = {}
    lsn = time = xid = position = 0
    for data in messages:
        cursor, kind = Cursor(data), data[:1].decode()
        if kind == "B":
            lsn, time, xid, position = cursor.get("q"), cursor.get("q"), cursor.get("I"), 0
        elif kind == "C":
            cursor.take(9)
            expected.end = cursor.get("q")
            expected.transactions += 1
        elif kind == "R":
            oid, name = cursor.get("I"), f"{cursor.text() or 'pg_catalog'}.{cursor.text()}"
            cursor.take(1)
            columns = []
            for _ in range(cursor.get("H")):
                cursor.take(1)
                columns.append((cursor.text(), cursor.get("I"), cursor.get("i")))
            shapes[oid] = (name, columns)
        elif kind == "T":
            count, options = cursor.get("i"), cursor.get("B")
            oids = tuple(cursor.get("I") for _ in range(count))
            expected.truncates.append((lsn, 2 * position, oids, bool(options & 1), bool(options & 2)))
            position += 1
        elif kind == "M":
            inside, own, prefix = cursor.get("B") & 1, cursor.get("q"), cursor.text()
            content = cursor.take(cursor.get("i"))
            place = (lsn, 2 * position) if inside else (None, None)
            expected.messages.append((place[0], own, place[1], prefix, content))
            position += inside
        elif kind in "IUD":
            name, columns = shapes[cursor.get("I")]
            cursor.take(1)
            tuples = [cursor.row()]
            if kind == "U":
                cursor.take(1)
                new = cursor.row()
                tuples.append([old if cell[0] == "u" else cell for old, cell in zip(tuples[0], new, strict=True)])
            changes = {"I": ["insert"], "D": ["delete"], "U": ["update_preimage", "update_postimage"]}[kind]
            for second, (change, cells) in enumerate(zip(changes, tuples, strict=True)):
                expected.rows.append(
                    (
                        name,
                        {
                            "_change_type": change,
                            "_lsn": lsn,
                            "_seq": 2 * position + second,
                            "_xid": xid,
                            "_timestamp": time + EPOCH_MICROSECONDS,
                            **reference_values(columns, cells),
                        },
                    )
                )
            position += 1
    return expected


def reference_values(columns: list[tuple[str, int, int]], cells: list[tuple[str, bytes]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    odd = {}
    for (name, oid, typmod), (tag, data) in zip(columns, cells, strict=True):
        value, told = (None, None) if tag == "n" else reference_value(oid, typmod, tag, data)
        values[name] = repr(value) if isinstance(value, float) else value
        if told is not None:
            odd[name] = told
    return {**values, "_unrepresentable": odd or None}


NUMBERS = {types.INT2: "h", types.INT4: "i", types.INT8: "q", types.OID: "I", types.FLOAT8: "d"}


def reference_value(oid: int, typmod: int, tag: str, data: bytes) -> tuple[Any, str | None]:
    text = data.decode() if tag == "t" else ""
    if oid == types.FLOAT4:
        return struct.unpack(">f", data if tag == "b" else struct.pack(">f", float(text)))[0], None
    if oid in NUMBERS:
        parse = float if oid == types.FLOAT8 else int
        return (parse(text) if tag == "t" else struct.unpack(">" + NUMBERS[oid], data)[0]), None
    if oid == types.BOOL:
        return (text == "t" if tag == "t" else data != b"\0"), None
    if oid == types.BYTEA:
        return (bytes.fromhex(text[2:]) if tag == "t" else data), None
    if oid == types.UUID:
        return (text if tag == "t" else str(uuid.UUID(bytes=data))), None
    if oid == types.DATE:
        return reference_date(text, data)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        return reference_timestamp(text, data, pa.timestamp("us", "UTC" if oid == types.TIMESTAMPTZ else None))
    if oid == types.NUMERIC:
        return reference_numeric(typmod, text or numeric_text(data))
    return (data[1:] if oid == types.JSONB and tag == "b" else data).decode(), None


def reference_date(text: str, data: bytes) -> tuple[int | None, str | None]:
    if text:
        return (None, text) if "inf" in text else ((date.fromisoformat(text) - date(1970, 1, 1)).days, None)
    (days,) = struct.unpack(">i", data)
    told = {2**31 - 1: "infinity", -(2**31): "-infinity"}.get(days)
    return (None, told) if told else _in_calendar(days + 10_957, (days + 10_957) * 86_400_000_000, pa.date32())


def _in_calendar(value: int, moment: int, kind: pa.DataType) -> tuple[int | None, str | None]:
    """The years 1 to 9999 are values, everything else is what PostgreSQL writes."""
    if -62_135_596_800_000_000 <= moment <= 253_402_300_799_999_999:
        return value, None
    return None, calendar.written(moment, kind)


def reference_timestamp(text: str, data: bytes, kind: pa.DataType) -> tuple[int | None, str | None]:
    if text:
        if "inf" in text:
            return None, text
        moment = datetime.fromisoformat(text)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
        return since // timedelta(microseconds=1) + EPOCH_MICROSECONDS, None
    (raw,) = struct.unpack(">q", data)
    told = {2**63 - 1: "infinity", -(2**63): "-infinity"}.get(raw)
    moment = raw + EPOCH_MICROSECONDS
    return (None, told) if told else _in_calendar(moment, moment, kind)


class Unusual(Exception):
    """A value in a form that PostgreSQL never gives it, whose meaning nobody has defined."""


def numeric_text(data: bytes) -> str:
    count, weight, sign, dscale, *groups = struct.unpack(f">hhHh{len(data) // 2 - 4}h", data)
    if sign > 0x4000:
        return {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign]
    assert count == len(groups)
    if groups and not (groups[0] and groups[-1] and 4 * (count - 1 - weight) < dscale + 4):
        raise Unusual("zeros at an end, or digits that are not shown")
    unscaled = sum(group * 10_000 ** (count - 1 - at) for at, group in enumerate(groups))
    number = Decimal(f"{unscaled}E{4 * (weight - count + 1)}")
    return f"{'-' if sign else ''}{number:.{dscale}f}"


def reference_numeric(typmod: int, text: str) -> tuple[Any, str | None]:
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF
    if typmod < 4 or not 1 <= precision <= 38 or scale > precision:
        return text, None
    number = Decimal(text)
    if not number.is_finite() or number.copy_abs() >= 10 ** (precision - scale):
        return None, text
    fitted = number.quantize(Decimal(1).scaleb(-scale), context=Context(prec=60))
    return (fitted, None) if fitted == number else (None, text)


# ---- comparing -------------------------------------------------------------------------------


def told_rows(decoded: Sequence[Decoded]) -> list[tuple[str, dict[str, Any]]]:
    """Every row with plain values; dates and times as numbers, since Python's own end at the year 9999."""
    found = []
    for part in decoded:
        for change in part.changes:
            table = change.rows
            for at, column in enumerate(table.schema):
                if pa.types.is_temporal(column.type):
                    plain = pa.int32() if pa.types.is_date(column.type) else pa.int64()
                    table = table.set_column(at, column.name, table.column(at).cast(plain))
            order = [(r["_lsn"], r["_seq"]) for r in table.select(["_lsn", "_seq"]).to_pylist()]
            assert order == sorted(order)
            for one in table.to_pylist():
                values = {k: repr(v) if isinstance(v, float) else v for k, v in one.items()}
                odd = values["_unrepresentable"]
                values["_unrepresentable"] = json.loads(odd) if odd else None
                found.append((str(change.relation), values))
    return sorted(found, key=lambda one: (one[1]["_lsn"], one[1]["_seq"]))


def as_expected(decoded: Sequence[Decoded]) -> Expected:
    truncates = [one for part in decoded for one in part.truncates]
    messages = [one for part in decoded for one in part.messages]
    ends = [part.end_lsn for part in decoded if part.end_lsn is not None]
    return Expected(
        rows=told_rows(decoded),
        truncates=[(one.lsn, one.seq, one.relations, one.cascade, one.restart_seqs) for one in truncates],
        messages=[(one.lsn, one.own_lsn, one.seq, one.prefix, one.content) for one in messages],
        end=ends[-1] if ends else None,
        transactions=sum(part.transactions for part in decoded),
    )


def decode_in_blocks(messages: Sequence[bytes], size: int, decoder: Decoder | None = None) -> list[Decoded]:
    decoder = decoder or Decoder()
    return [decoder.decode(block(*messages[at : at + size])) for at in range(0, len(messages), size)]
