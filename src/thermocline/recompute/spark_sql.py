"""Expressions of PostgreSQL in Spark SQL: a list of what is known to come out the same, the rest is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from thermocline.recompute.expressions import Call, Case, Cast, Column, Constant, Listed, NotOnSpark, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from thermocline.recompute.expressions import Node

MOST_DIGITS = 38
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {"int2": 1, "int4": 2, "int8": 3}
_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
_ORDERED = {*_INTEGERS, "float4", "float8", "numeric", "date", "timestamp", "timestamptz"}
_EQUALITY = {
    *_INTEGERS,
    "float4",
    "float8",
    "numeric",
    "date",
    "timestamp",
    "timestamptz",
    "text",
    "bool",
    "uuid",
    "enum",
}
_SPARK = {
    "int2": "INT", "int4": "INT", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP",
}  # fmt: skip
_PRINTED = {
    "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4", "double precision": "float8",
    "boolean": "bool", "text": "text", "character varying": "text", "date": "date", "uuid": "uuid",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz", "numeric": "numeric",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A type: what it is to us, and what it is called in PostgreSQL."""

    name: str
    pg: str
    precision: int | None = None
    """Of a numeric; None when it has no limit, and then the lake has it as text."""
    scale: int = 0
    equal: bool = True
    """Whether values are equal when their texts are; not so under collations that say otherwise."""
    bytewise: bool = True
    """Whether texts are sorted by their bytes, as Spark does."""

    @property
    def spark(self) -> str:
        """What it is in Spark."""
        if self.name == "numeric" and self.precision is not None:
            return f"DECIMAL({self.precision},{self.scale})"
        return _SPARK.get(self.name, "STRING")

    @property
    def unlimited(self) -> bool:
        """A numeric whose digits are not limited."""
        return self.name == "numeric" and self.precision is None

    @property
    def comparable(self) -> bool:
        """Whether Spark tells equal values from others as PostgreSQL does."""
        return self.name in _EQUALITY and self.equal and not self.unlimited

    @property
    def ordered(self) -> bool:
        """Whether Spark sorts its values as PostgreSQL does."""
        return (self.name in _ORDERED and not self.unlimited) or (self.name == "text" and self.equal and self.bytewise)


@dataclass(frozen=True)
class Value:
    """An expression in Spark SQL with its type in PostgreSQL."""

    sql: str
    kind: Kind


def refused(what: str, why: str = "it is not known to come out as in PostgreSQL") -> NotOnSpark:
    """The refusal of something, by its name."""
    return NotOnSpark(f"Spark is not asked for {what}: {why}.")


class Translator:
    """Translates expressions over the columns of one source, each known by its name in Spark and its type."""

    def __init__(self, columns: Mapping[str, Value]) -> None:
        self._columns = columns
        self.used: set[str] = set()
        """Columns that were asked for."""

    def condition(self, node: Node) -> str:
        """A condition."""
        return self._of(node, "bool").sql

    def value(self, node: Node) -> Value:
        """Any value."""
        match node:
            case Column(name):
                if name not in self._columns:
                    raise refused(f"the column {name}", "the source has none of that name")
                self.used.add(name)
                return self._columns[name]
            case Constant(text, kind):
                return _constant(text, kind)
            case Cast(inner, kind):
                return self._cast(inner, kind)
            case Operation(operator, operands):
                return self._operation(operator, operands)
            case Listed(value, operator, items):
                return self._listed(value, operator, items)
            case Case(branches, otherwise):
                return self._case(branches, otherwise)
            case Call():
                return self._call(node)

    def _of(self, node: Node, *names: str) -> Value:
        found = self.value(node)
        if found.kind.name not in names:
            raise refused(f"a value of type {found.kind.pg} as {' or '.join(names)}")
        return found

    # ---- casts ---------------------------------------------------------------------------

    def _cast(self, inner: Node, printed: str) -> Value:
        if isinstance(inner, Constant) and inner.type == "number" and printed == "numeric":
            return _constant(inner.text, "numeric")
        value, kind = self.value(inner), kind_of(printed)
        name, into = value.kind.name, kind.name
        if name == into == "text" and printed in ("text", "character varying"):
            return replace(value, kind=replace(value.kind, pg=printed))
        if name in _INTEGERS and into in _INTEGERS and _INTEGERS[name] <= _INTEGERS[into]:
            return _as(value, kind)
        if name in _INTEGERS and printed == "numeric":
            return _as(value, replace(kind, precision=_DIGITS[name]))
        if name == "numeric" and not value.kind.unlimited and printed == "numeric":
            return value
        if into == "float8" and (name in _INTEGERS or name in ("float4", "float8", "numeric")):
            if value.kind.unlimited:
                raise refused(f"{name} without a limit as {printed}")
            return _as(value, kind)
        if name in _INTEGERS and printed == "text":
            return _as(value, kind)
        raise refused(f"the cast of {value.kind.pg} to {printed}")

    # ---- operators -----------------------------------------------------------------------

    def _operation(self, operator: str, operands: tuple[Node, ...]) -> Value:
        boolean = kind_of("boolean")
        if operator in ("AND", "OR"):
            return Value(f"({f' {operator} '.join(self.condition(one) for one in operands)})", boolean)
        if operator == "NOT":
            return Value(f"(NOT {self.condition(operands[0])})", boolean)
        if operator in ("IS NULL", "IS NOT NULL"):
            return Value(f"({self.value(operands[0]).sql} {operator})", boolean)
        if operator.startswith("IS ") and len(operands) == 1:
            return Value(f"({self.condition(operands[0])} {operator})", boolean)
        if operator == "-" and len(operands) == 1:
            found = self._of(operands[0], "int4", "int8", "float8", "numeric")
            if found.kind.unlimited:
                raise refused("- of a numeric without a limit")
            return Value(f"(- {found.sql})", found.kind)
        if operator not in _OPERATORS and not operator.startswith("IS "):
            raise refused(f"the operator {operator}")
        left, right = (self.value(one) for one in operands)
        if operator in ("=", "<>", "<", "<=", ">", ">=") or operator.startswith("IS "):
            return Value(_compared(operator, left, right), boolean)
        if operator in ("~~", "!~~"):
            return Value(_like(operator, left, operands[1]), boolean)
        if operator == "||" and left.kind.name == right.kind.name == "text":
            return Value(f"({left.sql} || {right.sql})", left.kind)
        return _reckoned(operator, left, right)

    def _listed(self, node: Node, operator: str, items: tuple[Node, ...]) -> Value:
        value = self.value(node)
        found = [self.value(item) for item in items]
        for item in found:
            _compared("=", value, item)
        test = f"{value.sql} IN ({', '.join(item.sql for item in found)})"
        return Value(f"({test})" if operator == "=" else f"(NOT {test})", kind_of("boolean"))

    def _case(self, branches: tuple[tuple[Node, Node], ...], otherwise: Node | None) -> Value:
        results = [self.value(result) for _, result in branches]
        last = self.value(otherwise) if otherwise is not None else None
        kind = _common("CASE", [*results, *([last] if last else [])])
        said = " ".join(
            f"WHEN {self.condition(condition)} THEN {_as(result, kind).sql}"
            for (condition, _), result in zip(branches, results, strict=True)
        )
        return Value(f"(CASE {said}{f' ELSE {_as(last, kind).sql}' if last else ''} END)", kind)

    def _call(self, call: Call) -> Value:
        if call.name not in _FUNCTIONS or call.star or call.distinct or call.only is not None:
            raise refused(call.name)
        arguments = [self.value(one) for one in call.arguments]
        if call.name in ("COALESCE", "GREATEST", "LEAST") and arguments:
            kind = _common(call.name, arguments)
            if call.name != "COALESCE" and not kind.ordered:
                raise refused(f"{call.name} of {kind.pg}", _UNSORTED)
            if len(arguments) == 1:
                return arguments[0]
            return Value(f"{call.name}({', '.join(_as(one, kind).sql for one in arguments)})", kind)
        if call.name == "NULLIF" and len(arguments) == 2:
            _compared("=", *arguments)
            return Value(f"NULLIF({arguments[0].sql}, {arguments[1].sql})", arguments[0].kind)
        first = arguments[0].kind if len(arguments) == 1 else None
        if call.name == "abs" and first and first.name in ("int4", "int8", "float8", "numeric") and not first.unlimited:
            return Value(f"abs({arguments[0].sql})", first)
        if call.name in ("length", "char_length") and [one.kind.name for one in arguments] == ["text"]:
            return Value(f"char_length({arguments[0].sql})", kind_of("integer"))
        raise refused(call.name)


_FUNCTIONS = ("COALESCE", "GREATEST", "LEAST", "NULLIF", "abs", "length", "char_length")
_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "~~", "!~~", "||", "+", "-", "*", "/", "%")
_UNSORTED = "it is sorted by other rules in Spark"


def kind_of(printed: str) -> Kind:
    """A type as PostgreSQL prints it, without what only a column has; refused if it is not known."""
    if printed not in _PRINTED:
        raise refused(f"the type {printed}")
    return Kind(_PRINTED[printed], printed)


def _constant(text: str | None, printed: str | None) -> Value:
    if printed == "number":
        text = text or "0"
        plain = text.isdigit()
        printed = "numeric" if not plain or int(text) >= 2**63 else "integer" if int(text) < 2**31 else "bigint"
    if printed is None:
        raise refused("a constant without a type")
    try:
        kind = kind_of(printed)
    except NotOnSpark:
        if text is None or "." not in printed:  # an enum's value, which is compared as the text that it is
            raise
        return Value(_text(text), Kind("enum", printed))
    if kind.name == "numeric":
        digits = _decimal(text or "0")
        kind = replace(kind, precision=digits[0], scale=digits[1])
    if text is None:
        return Value(f"CAST(NULL AS {kind.spark})", kind)
    return Value(_literal(text, kind), kind)


def _literal(text: str, kind: Kind) -> str:
    try:
        match kind.name:
            case "int2" | "int4" | "int8":
                return f"CAST('{int(text)}' AS {kind.spark})"
            case "float4" | "float8":
                float(text)
                return f"CAST('{text}' AS {kind.spark})"
            case "numeric":
                return f"CAST('{text}' AS {kind.spark})"
            case "bool":
                return {"t": "true", "f": "false"}.get(text, text) if text in ("t", "f", "true", "false") else _no(text)
            case "date":
                return f"date_from_unix_date({(date.fromisoformat(text) - _EPOCH.date()).days})"
            case "timestamp" | "timestamptz":
                moment = datetime.fromisoformat(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                micros = f"timestamp_micros({(moment - _EPOCH) // timedelta(microseconds=1)})"
                return micros if kind.name == "timestamptz" else f"CAST({micros} AS TIMESTAMP_NTZ)"
    except ValueError as error:
        raise refused(f"the constant '{text}'::{kind.pg}") from error
    return _text(text)


def _no(text: str) -> str:
    raise ValueError(text)


def _text(text: str) -> str:
    """By its bytes, so that nothing in it means anything to Spark."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)" if text else "''"


def _decimal(text: str) -> tuple[int, int]:
    whole, _, part = text.lstrip("+-").partition(".")
    if not (whole + part).isdigit() or len(whole + part) > MOST_DIGITS:
        raise refused(f"the constant {text}")
    return len(whole) + len(part), len(part)


def _as(value: Value, kind: Kind) -> Value:
    if value.kind.spark == kind.spark:
        return Value(value.sql, kind)
    return Value(f"CAST({value.sql} AS {kind.spark})", kind)


def _wider(left: Kind, right: Kind) -> Kind:
    """What holds the values of both, each as it is."""
    if left.unlimited or right.unlimited:
        raise refused("a numeric without a limit", "it has more digits than Spark can reckon with")
    scale = max(left.scale, right.scale)
    whole = max((left.precision or 0) - left.scale, (right.precision or 0) - right.scale)
    if whole + scale > MOST_DIGITS:
        raise refused(f"{left.spark} with {right.spark}", "it has more digits than Spark can reckon with")
    return replace(left, precision=whole + scale, scale=scale)


def _common(what: str, values: list[Value]) -> Kind:
    """The one type of all of these: PostgreSQL prints a cast where they would differ."""
    kind = values[0].kind
    for value in values[1:]:
        if value.kind.name != kind.name or kind.name in ("enum", "other"):
            raise refused(f"{what} of {kind.pg} and {value.kind.pg}")
        if kind.name == "numeric":
            kind = _wider(kind, value.kind)
        kind = replace(kind, equal=kind.equal and value.kind.equal, bytewise=kind.bytewise and value.kind.bytewise)
    return kind


def _compared(operator: str, left: Value, right: Value) -> str:
    a, b = left.kind, right.kind
    numbers = a.name in _INTEGERS and b.name in _INTEGERS
    if not numbers and (a.name != b.name or (a.name == "enum" and a.pg != b.pg)):
        raise refused(f"{a.pg} {operator} {b.pg}")
    if not (a.comparable and b.comparable):
        raise refused(f"{operator} of {a.pg}")
    if operator in ("<", "<=", ">", ">=") and not (a.ordered and b.ordered):
        raise refused(f"{operator} of {a.pg}", _UNSORTED)
    if operator == "IS DISTINCT FROM":
        return f"(NOT ({left.sql} <=> {right.sql}))"
    if operator == "IS NOT DISTINCT FROM":
        return f"({left.sql} <=> {right.sql})"
    return f"({left.sql} {operator} {right.sql})"


def _like(operator: str, value: Value, pattern: Node) -> str:
    if (
        not (isinstance(pattern, Constant) and pattern.text is not None and pattern.type == "text")
        or "\\" in pattern.text
    ):
        raise refused("LIKE with anything but a plain pattern")
    if value.kind.name != "text" or not value.kind.equal:
        raise refused(f"LIKE of {value.kind.pg}")
    return f"({value.sql} {'NOT ' if operator == '!~~' else ''}LIKE {_text(pattern.text)})"


def _reckoned(operator: str, left: Value, right: Value) -> Value:
    a, b = left.kind, right.kind
    if a.name in _INTEGERS and b.name in _INTEGERS:
        kind = a if _INTEGERS[a.name] >= _INTEGERS[b.name] else b
        if kind.name == "int2":
            raise refused(f"smallint {operator} smallint", "Spark has no numbers as short as that")
        spelled = "DIV" if operator == "/" else operator
        found = f"({_as(left, kind).sql} {spelled} {_as(right, kind).sql})"
        # A quotient is a bigint in Spark; of the only one that does not fit PostgreSQL says so, and so does the cast.
        return Value(f"CAST({found} AS {kind.spark})" if operator == "/" else found, kind)
    if a.name == b.name == "float8" and operator != "%":
        said = f"({left.sql} {operator} {right.sql})"
        return Value(finite(said, f"{_odd(left.sql)} OR {_odd(right.sql)}"), a)
    if a.name == b.name == "numeric" and operator in ("+", "-", "*"):
        wide = _wider(a, b)
        precision, scale = (wide.precision or 0) + 1, wide.scale
        if operator == "*":
            precision, scale = (a.precision or 0) + (b.precision or 0) + 1, a.scale + b.scale
        if precision > MOST_DIGITS:
            raise refused(f"{a.spark} {operator} {b.spark}", "it has more digits than Spark can reckon with")
        return Value(f"({left.sql} {operator} {right.sql})", replace(a, precision=precision, scale=scale))
    raise refused(f"{a.pg} {operator} {b.pg}")


def _odd(value: str) -> str:
    """Whether a number is none that can be reckoned with."""
    return f"(abs({value}) = CAST('Infinity' AS DOUBLE) OR isnan({value}))"


def finite(result: str, odd_input: str) -> str:
    """A result that is not beyond all numbers unless what it is made of is: PostgreSQL fails then, and so do we."""
    message = f"{OVERFLOW}: a number is too large for double precision"
    return f"IF({_odd(result)} AND NOT coalesce({odd_input}, false), raise_error('{message}'), {result})"


def odd(value: str) -> str:
    """Whether any of the values is infinite or not a number."""
    return f"bool_or({_odd(value)})"


OVERFLOW = "rollup.overflow"


def as_text(value: str, kind: Kind) -> str:
    """How a value is written for COPY; NULL stays NULL."""
    match kind.name:
        case "timestamptz":
            return f"concat(CAST({value} AS STRING), '+00')"
        case "bytea":
            return f"concat('\\\\\\\\x', hex({value}))"
        case "text" | "enum" | "other":
            escaped = f"replace(CAST({value} AS STRING), '\\\\', '\\\\\\\\')"
            for letter, code in (("n", 10), ("r", 13), ("t", 9)):
                escaped = f"replace({escaped}, char({code}), '\\\\{letter}')"
            return escaped
    return f"CAST({value} AS STRING)"
