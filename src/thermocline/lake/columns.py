"""The columns of a history, by the source's own numbers: one that is renamed or widened keeps its place in the lake.

PostgreSQL numbers the columns of a table and never gives a number twice. The history remembers for each number the id
of its field, in a property of the table that is changed together with the fields; a name is only what it is called now.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyiceberg.conversions import from_json, to_json
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from thermocline.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema

COLUMNS = "thermocline.columns"
AT_UTC = pa.timestamp("us", "UTC")
OWN_COLUMNS = {
    "_change_type": pa.string(),
    "_lsn": pa.int64(),
    "_seq": pa.int64(),
    "_xid": pa.int64(),
    "_timestamp": AT_UTC,
    "_unrepresentable": pa.string(),
    "_range_end": AT_UTC,
}
_PLAIN: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    AT_UTC: TimestamptzType(),
}
_ARROW = {kind: arrow for arrow, kind in _PLAIN.items()}
_WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}


class HistoryUnfit(Refused):
    """The history table in the lake is not the one that this table writes to."""

    code = "lake.history_unfit"
    next_step_by_default = "Move the table in the lake away under another name; then sync anew."


class Dropped(NamedTuple):
    """A column that the source no longer has."""

    position: int
    """From here on no row has it any more."""
    name: str
    """What it was called, whatever it is in the lake."""


class SourceColumn(NamedTuple):
    """A column of the source: its number there, its name now, and what it is in the lake."""

    number: int
    name: str
    kind: pa.DataType


@dataclass(frozen=True)
class Look:
    """A source as it was seen."""

    oid: int
    columns: Sequence[SourceColumn]
    names: Mapping[str, str]
    """What it and its time column are called, as properties of the history."""
    position: int
    """Of the log, after the look: whatever is written from here on has these columns, or later ones."""


@dataclass(frozen=True)
class Default:
    """What entries read in a column that came after them."""

    value: Any
    """As Iceberg writes single values in JSON."""
    until: tuple[int, int] | None = None
    """The place, (lsn, seq), of the first entry that has a value of its own; None while there is none."""

    def lowered(self, place: tuple[int, int]) -> Default:
        """An entry at this place has a value of its own."""
        return replace(self, until=place) if self.until is None or place < self.until else self

    def scalar(self, kind: pa.DataType) -> pa.Scalar:
        """As a value of a column."""
        found: Any = from_json(iceberg(kind), self.value)
        return pa.scalar(found, kind)


@dataclass(frozen=True)
class Layout:
    """Which field of a history has which column of its source."""

    source: int = 0
    """The table whose numbers these are, by its oid."""
    fields: Mapping[int, int] = field(default_factory=dict)
    """The id of each column's field; also of those that the source no longer has."""
    added: Mapping[int, int] = field(default_factory=dict)
    """From which position of the log on every row has a column that came later."""
    dropped: Mapping[int, Dropped] = field(default_factory=dict)
    defaults: Mapping[int, Default] = field(default_factory=dict)
    renamed: int = 0
    """From which position on every row has columns of the names that they have now."""
    begun: int = 0
    """Where the columns were looked at first: rows from before may have had any."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Layout:
        """As a table's properties tell it; empty when they do not."""
        told = json.loads(properties.get(COLUMNS, "{}"))
        by_number: dict[str, dict[int, Any]] = {
            key: {int(number): value for number, value in told.get(key, {}).items()}
            for key in ("fields", "added", "dropped", "defaults")
        }
        defaults = {
            number: Default(value, tuple(until) if until else None)
            for number, (value, until) in by_number["defaults"].items()
        }
        dropped = {number: Dropped(*value) for number, value in by_number["dropped"].items()}
        source, renamed, begun = (told.get(key, 0) for key in ("source", "renamed", "begun"))
        return cls(source, by_number["fields"], by_number["added"], dropped, defaults, renamed, begun)

    @property
    def settled(self) -> int:
        """Whoever reads from this position on, or a later one, meets the columns of now."""
        dropped = (one.position for one in self.dropped.values())
        return max(self.renamed, self.begun, *self.added.values(), *dropped)

    def told(self) -> dict[str, str]:
        """As a property."""
        defaults = {number: [one.value, one.until] for number, one in self.defaults.items()}
        content = {
            "source": self.source,
            "fields": self.fields,
            "added": self.added,
            "dropped": self.dropped,
            "defaults": defaults,
            "renamed": self.renamed,
            "begun": self.begun,
        }
        return {COLUMNS: json.dumps(content)}

    @classmethod
    def by_name(cls, look: Look, schema: Schema) -> Layout:
        """For a history that has not been told numbers, or those of another table."""
        ids = {one.name: one.field_id for one in schema.fields}
        fields = {column.number: ids[column.name] for column in look.columns if column.name in ids}
        return cls(look.oid, fields, added=dict.fromkeys(fields, look.position), begun=look.position)

    def names(self, schema: Schema) -> dict[int, str]:
        """What each column is called in the lake."""
        found = {one.field_id: one.name for one in schema.fields}
        return {number: found[at] for number, at in self.fields.items() if at in found}

    def lowered(self, firsts: Mapping[int, tuple[int, int]]) -> Layout:
        """With entries at these places that have values of their own, by number."""
        defaults = {
            number: one.lowered(firsts[number]) if number in firsts else one for number, one in self.defaults.items()
        }
        return replace(self, defaults=defaults)


@dataclass(frozen=True)
class Following:
    """What makes a history fit its source: nothing, most of the time."""

    layout: Layout
    renamed: Mapping[str, str]
    widened: Mapping[str, IcebergType]
    added: tuple[SourceColumn, ...]

    def is_needed(self, before: Layout) -> bool:
        """Whether anything is to be changed."""
        return bool(self.renamed or self.widened or self.added or self.layout != before)


def following(name: str, schema: Schema, layout: Layout, look: Look) -> Following:
    """How a history follows its source.

    Refuses what no reader of the history could follow: another type that is not a wider one, and names that clash.
    """
    columns, position = look.columns, look.position
    _require_names(name, columns)
    if layout.source != look.oid:
        layout = Layout.by_name(look, schema)
    fields = {one.field_id: one for one in schema.fields}
    renamed: dict[str, str] = {}
    widened: dict[str, IcebergType] = {}
    for column in columns:
        if column.number not in layout.fields:
            continue
        there = fields[layout.fields[column.number]]
        if there.name != column.name:
            renamed[there.name] = column.name
        now, wanted = arrow(there.field_type), column.kind
        if now != wanted and widens(now, wanted):
            widened[there.name] = iceberg(wanted)
        elif now != wanted and not widens(wanted, now):
            raise HistoryUnfit(
                f"{name}: the column {column.name} is {there.field_type} in the lake and {iceberg(wanted)} now.",
                next_step="Give the column its old type back, or move the table in the lake away under another name;"
                " then sync anew.",
            )
    live = {column.number for column in columns}
    held = {at for number, at in layout.fields.items() if number in live}
    taken = {column.name.lower() for column in columns}
    every = taken | {one.name.lower() for one in schema.fields}
    for one in schema.fields:  # a name of what the source no longer has may be another column's now
        if one.field_id not in held and one.name.lower() in taken:
            renamed[one.name] = _free(f"{one.name}_dropped_{one.field_id}", every)
    gone = {
        number: Dropped(position, fields[at].name)
        for number, at in layout.fields.items()
        if number not in live and number not in layout.dropped
    }
    added = tuple(column for column in columns if column.number not in layout.fields)
    others = {one.name for one in schema.fields if one.field_id in held} & renamed.keys()
    layout = replace(layout, dropped={**layout.dropped, **gone}, renamed=position if others else layout.renamed)
    return Following(layout, renamed, widened, added)


def _require_names(name: str, columns: Sequence[SourceColumn]) -> None:
    seen: dict[str, str] = {}
    for column in columns:
        lower = column.name.lower()
        if lower in OWN_COLUMNS:
            raise HistoryUnfit(
                f"{name}: the column {column.name} has a name that the lake uses itself.",
                next_step="Rename the column, then sync anew.",
            )
        if lower in seen:
            raise HistoryUnfit(
                f"{name}: the columns {seen[lower]} and {column.name} differ only in upper and lower case.",
                next_step="Rename one of them, then sync anew.",
            )
        seen[lower] = column.name


def _free(name: str, taken: set[str]) -> str:
    while name.lower() in taken:
        name += "_"
    return name


def widens(kind: pa.DataType, wider: pa.DataType) -> bool:
    """Whether a column of one type may become one of another without a value being touched, in files that are there."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(wider):
        return bool(kind.scale == wider.scale and kind.precision <= wider.precision)
    return bool(kind == wider or _WIDER.get(kind) == wider)


def iceberg(kind: pa.DataType) -> Any:
    """A type of the lake."""
    return DecimalType(kind.precision, kind.scale) if pa.types.is_decimal(kind) else _PLAIN[kind]


def arrow(kind: IcebergType) -> pa.DataType:
    """The same in Arrow; whatever the feed does not write has no place."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW.get(kind, pa.null())


def default_of(value: Any, kind: pa.DataType) -> Default:
    """A default that no entry has a value of its own against yet."""
    return Default(to_json(iceberg(kind), value))
