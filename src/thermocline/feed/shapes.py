"""Rows as the stream had them, whatever the table's columns were called and were then, as rows of the history.

The stream names the columns of a table in the order of their numbers and does not tell the numbers. Which columns a
table has had since a position is known, but for those that came or went meanwhile, so how many there are nearly always
tells which they are, also when names were swapped. Where it does not, names and types decide, and what they do not
decide is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from thermocline.errors import Refused
from thermocline.lake.columns import OWN_COLUMNS, Layout, arrow, widens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema

    from thermocline.hot.rows import Column

_MOST_WAYS = 10_000


class ShapeUnknown(Refused):
    """A table had columns that cannot be told from one another any more."""

    code = "feed.shape_unknown"
    next_step_by_default = (
        "The columns were changed in several ways at once, before the feed had read what was written."
    )


@dataclass(frozen=True)
class Place:
    """A column of a table, and where it lies in the lake."""

    number: int
    name: str
    """As the source has it now, or had it last."""
    lake: str
    kind: pa.DataType
    """In the lake."""
    sure: bool = True
    """Whether every row has it that is yet to be read."""
    late: bool = False
    """Whether it is not sure because it came late, and not because it went."""


@dataclass(frozen=True)
class Fitted:
    """Rows in columns of the history."""

    rows: pa.Table
    defaulted: frozenset[int]
    """Which columns with a default they have values of their own in."""
    whole: bool
    """Whether all of their columns are there: not one that came and went, or has come since the columns were seen."""


@dataclass(frozen=True)
class Shape:
    """Every column that rows of a table may have, in the order of their numbers."""

    table: str
    places: tuple[Place, ...] = ()
    defaulted: frozenset[int] = field(default_factory=frozenset)
    named: bool = True
    """Whether every row that is yet to be read has columns of the names that they have now."""
    known: bool = True
    """Whether the columns of every row that is yet to be read were looked at; else names must be what they are."""

    @classmethod
    def of(cls, table: str, columns: Iterable[Column], layout: Layout, schema: Schema, marker: int) -> Shape:
        """What a history that fits these columns has yet to read from a position on."""
        now = {column.number: column.name for column in columns}
        fields = {one.field_id: one for one in schema.fields}
        places = []
        for number, at in sorted(layout.fields.items()):
            there, gone = fields[at], layout.dropped.get(number)
            kind = arrow(there.field_type)
            if number in now:
                sure = layout.added.get(number, 0) <= marker
                places.append(Place(number, now[number], there.name, kind, sure, late=not sure))
            elif gone and gone.position > marker:
                places.append(Place(number, gone.name, there.name, kind, sure=False))
        defaulted = frozenset(layout.defaults)
        return cls(table, tuple(places), defaulted, layout.renamed <= marker, layout.begun <= marker)

    def fitted(self, rows: pa.Table) -> Fitted:
        """Rows as the stream had them, in columns of the history."""
        told = [name for name in rows.column_names if name not in OWN_COLUMNS]
        placed = self._placed(told, rows.schema)
        fit = {name for name, place in placed.items() if widens(rows.schema.field(name).type, place.kind)}
        # A column may have become wider and gone before anybody looked: then nobody has its values any more.
        found = {name: place for name, place in placed.items() if name in fit or place.sure or place.late}
        for name, place in found.items():
            kind = rows.schema.field(name).type
            if name not in fit:
                raise ShapeUnknown(
                    f"The column {name} of {self.table} had values of the type {kind}, and the lake has {place.kind}.",
                    next_step="Its type was changed in a way that files in the lake cannot follow.",
                )
        arrays = {place.lake: rows[name].cast(place.kind) for name, place in found.items()}
        arrays |= {name: rows[name] for name in rows.column_names if name in OWN_COLUMNS}
        fitted = rows.from_arrays(list(arrays.values()), names=list(arrays))
        return Fitted(fitted, self.defaulted & {place.number for place in found.values()}, len(placed) == len(told))

    def _placed(self, told: Sequence[str], schema: pa.Schema) -> dict[str, Place]:
        chosen = self._chosen(told, schema)
        if chosen is None:
            # Columns that came and went between two looks: nobody has them any more, and their values go with them.
            known = {place.name for place in self.places}
            told = [name for name in told if name in known]
            chosen = self._chosen(told, schema)
            if chosen is not None and not _same_names(told, chosen):
                chosen = None
        if chosen is None or not (self.known or [place.name for place in chosen] == list(told)):
            raise ShapeUnknown(
                f"{self.table} had changes with the columns {', '.join(told)}, which cannot be told from later ones."
            )
        return dict(zip(told, chosen, strict=True))

    def _chosen(self, told: Sequence[str], schema: pa.Schema) -> tuple[Place, ...] | None:
        """The columns that these are; None when there are none, or several that fit."""
        unsure = [place for place in self.places if not place.sure]
        absent = len(self.places) - len(told)
        if not 0 <= absent <= len(unsure) or comb(len(unsure), absent) > _MOST_WAYS:
            return None
        ways = [
            tuple(place for place in self.places if place not in missing)
            for missing in combinations(unsure, absent)
            if _in_turn(missing, self.places)
        ]
        if len(ways) > 1:
            kinds = [schema.field(name).type for name in told]
            ways = [
                way for way in ways if all(widens(*one) for one in zip(kinds, (at.kind for at in way), strict=True))
            ]
        if len(ways) > 1 and self.named:
            ways = [way for way in ways if _same_names(told, way)]
            exact = [way for way in ways if [place.name for place in way] == list(told)]
            ways = exact or ways
        return ways[0] if len(ways) == 1 else None


def _in_turn(missing: Iterable[Place], places: Iterable[Place]) -> bool:
    """Whether no column has not come yet that came before one that is there."""
    first = min((place.number for place in missing if place.late), default=None)
    return first is None or all(place in missing for place in places if place.number > first)


def _same_names(told: Iterable[str], chosen: Iterable[Place]) -> bool:
    """Whether the columns have the names that they have now; one that is not sure may have had another."""
    return all(name == place.name or not place.sure for name, place in zip(told, chosen, strict=True))
