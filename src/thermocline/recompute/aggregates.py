"""Aggregates, in two halves: what Spark adds up exactly, and how PostgreSQL makes the result of it.

PostgreSQL divides, so an average has the digits that PostgreSQL would give it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from thermocline.recompute.spark_sql import Kind, Value, finite, kind_of, odd, refused

if TYPE_CHECKING:
    from thermocline.recompute.expressions import Call
    from thermocline.recompute.spark_sql import Translator

_INTEGERS = ("int2", "int4", "int8")
_FLOATS = ("float4", "float8")
_BIGINT, _NUMERIC, _DOUBLE = (kind_of(name) for name in ("bigint", "numeric", "double precision"))
# A numeric without a limit is reckoned with so many digits before and behind the point, or not at all.
_WIDEST = "DECIMAL(38,20)"
_PLACES = 20
_SPREADS = {
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}  # fmt: skip


@dataclass(frozen=True)
class Aggregate:
    """What Spark computes, and what PostgreSQL makes of it: an expression in which `{0}` is the first of those."""

    parts: tuple[Value, ...]
    result: str = "{0}"


def aggregate(call: Call, translator: Translator) -> Aggregate:
    """An aggregate as both compute it together; refused by name if it would not come out the same."""
    only = f" FILTER (WHERE {translator.condition(call.only)})" if call.only is not None else ""
    if call.name == "count" and call.star:
        return Aggregate((Value(f"count(1){only}", _BIGINT),))
    values = [translator.value(one) for one in call.arguments]
    if call.name == "count" and len(values) == 1:
        return _count(values[0], only, distinct=call.distinct)
    if call.distinct:
        raise refused(f"{call.name}(DISTINCT)")
    if call.name in ("lakets.first", "lakets.last") and len(values) == 2:
        return _at_the_end(call.name, values[0], values[1], only)
    if len(values) != 1 or call.name not in _OF_ONE:
        raise refused(call.name)
    return _OF_ONE[call.name](call.name, values[0], only)


def _count(value: Value, only: str, *, distinct: bool) -> Aggregate:
    if distinct and (not value.kind.comparable or value.kind.name in _FLOATS):
        raise refused(f"count(DISTINCT) of {value.kind.pg}")
    return Aggregate((Value(f"count({'DISTINCT ' if distinct else ''}{value.sql}){only}", _BIGINT),))


def _sum(_name: str, value: Value, only: str) -> Aggregate:
    kind = value.kind
    if kind.name in ("int2", "int4"):
        return Aggregate((Value(f"sum({value.sql}){only}", _BIGINT),))
    if kind.name == "int8":
        return Aggregate((Value(f"sum(CAST({value.sql} AS DECIMAL(20,0))){only}", _NUMERIC),))
    if kind.unlimited:
        total, places = _unlimited(value, only)
        return Aggregate((total, places), "round({0}, {1})")
    if kind.name == "numeric":
        return Aggregate((Value(f"sum({value.sql}){only}", _NUMERIC),))
    if kind.name == "float8":
        return Aggregate((_float_sum(value.sql, only),))
    why = "PostgreSQL adds single precision up in single precision" if kind.name == "float4" else None
    raise refused(f"sum of {kind.pg}", why) if why else refused(f"sum of {kind.pg}")


def _avg(_name: str, value: Value, only: str) -> Aggregate:
    count = Value(f"count({value.sql}){only}", _BIGINT)
    if value.kind.name in _FLOATS:
        return Aggregate((_float_sum(f"CAST({value.sql} AS DOUBLE)", only), count), "({0} / nullif({1}, 0))")
    added = _sum("avg", value, only)
    total = added.result.replace("{1}", "{2}")
    parts = (added.parts[0], count, *added.parts[1:])
    return Aggregate(parts, f"({total}::numeric / nullif({{1}}, 0)::numeric)")


def _extreme(name: str, value: Value, only: str) -> Aggregate:
    if value.kind.unlimited:
        by = f"{name}_by({value.sql}, {_widest(value.sql)}){only}"
        return Aggregate((Value(by, _NUMERIC),))
    if not value.kind.ordered:
        raise refused(f"{name} of {value.kind.pg}", "it is sorted by other rules in Spark")
    return Aggregate((Value(f"{name}({value.sql}){only}", _plain(value.kind)),))


def _all_or_any(name: str, value: Value, only: str) -> Aggregate:
    if value.kind.name != "bool":
        raise refused(f"{name} of {value.kind.pg}")
    return Aggregate((Value(f"{name}({value.sql}){only}", value.kind),))


def _spread(name: str, value: Value, only: str) -> Aggregate:
    if value.kind.name not in _FLOATS:
        raise refused(f"{name} of {value.kind.pg}", "PostgreSQL computes it with more digits than Spark has")
    double = f"CAST({value.sql} AS DOUBLE)"
    said = finite(f"{_SPREADS[name]}({double}){only}", f"{odd(double)}{only}")
    return Aggregate((Value(said, _DOUBLE),))


def _at_the_end(name: str, value: Value, time: Value, only: str) -> Aggregate:
    if time.kind.name != "timestamptz":
        raise refused(f"{name} by {time.kind.pg}")
    by = "min_by" if name == "lakets.first" else "max_by"
    return Aggregate((Value(f"{by}({value.sql}, {time.sql}){only}", _plain(value.kind)),))


def _float_sum(value: str, only: str) -> Value:
    return Value(finite(f"sum({value}){only}", f"{odd(value)}{only}"), _DOUBLE)


def _plain(kind: Kind) -> Kind:
    """Without the limits of a column: an aggregate has none."""
    return replace(kind, precision=None) if kind.name == "numeric" else kind


def _widest(value: str) -> str:
    """A numeric from its text; one that does not fit, and NaN, are an error of Spark's, never rounded."""
    places = f"char_length(substring_index({value}, '.', -1))"
    many = f"IF(instr({value}, '.') > 0 AND {places} > {_PLACES}, raise_error('{DIGITS}: {_PLACES}'), {value})"
    return f"CAST({many} AS {_WIDEST})"


def _unlimited(value: Value, only: str) -> tuple[Value, Value]:
    """The sum of numerics without a limit, and how many places the most exact of them has."""
    places = f"max(IF(instr({value.sql}, '.') > 0, char_length(substring_index({value.sql}, '.', -1)), 0)){only}"
    return Value(f"sum({_widest(value.sql)}){only}", _NUMERIC), Value(places, kind_of("integer"))


DIGITS = "rollup.digits"

_OF_ONE = {
    "sum": _sum,
    "avg": _avg,
    "min": _extreme,
    "max": _extreme,
    **dict.fromkeys(("bool_and", "bool_or", "every"), _all_or_any),
    **dict.fromkeys(_SPREADS, _spread),
}
