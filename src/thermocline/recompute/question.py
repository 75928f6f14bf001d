"""A RollUp's query in two halves: what Spark computes over both tiers, and what PostgreSQL makes of the outcome.

Spark gets the condition, the keys and the arguments of aggregates. What stands around the aggregates, and HAVING, is
PostgreSQL's, word by word. Buckets are PostgreSQL's as well: Spark is told when each begins and ends, so no rule about
zones or months is known twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql as pgsql

from thermocline.recompute.aggregates import aggregate
from thermocline.recompute.expressions import NotOnSpark, Reader, expression, tokens
from thermocline.recompute.spark_sql import Kind, Translator, Value, refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from thermocline.recompute.expressions import Call, Token

_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER")
_BUCKET = "thermocline_bucket"


@dataclass(frozen=True)
class Definition:
    """A RollUp as PostgreSQL keeps it, and the columns of its source."""

    template: str
    alias: str
    bucket_expression: str
    bucket_type: str
    columns: Mapping[str, Kind]
    aggregates: frozenset[str]
    """Names of all aggregates that there are; those outside of pg_catalog with their schema."""


@dataclass(frozen=True)
class Question:
    """What is asked of Spark and what is done with the answer."""

    where: str | None
    keys: tuple[Value, ...]
    parts: tuple[Value, ...]
    """What Spark adds up for each bucket and key."""
    used: frozenset[str]
    """Columns of the source that it reads."""
    items: str
    """What PostgreSQL selects from the answer, in the order of the RollUp's columns."""
    having: str | None
    bucket_type: str

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the answer's columns, the bucket first."""
        return (
            (_BUCKET, "timestamp with time zone"),
            *((_key(at), one.kind.pg) for at, one in enumerate(self.keys)),
            *((_part(at), one.kind.pg) for at, one in enumerate(self.parts)),
        )

    def selected(self, answer: str) -> str:
        """The RollUp's rows, from the table that holds the answer."""
        return f"SELECT {self.items} FROM {answer}{f' WHERE {self.having}' if self.having else ''}"


def named(place: int) -> str:
    """What a column of the source is called in Spark: by its place, so that no name of a user's is in the way."""
    return f"c{place}"


def split(definition: Definition) -> Question:
    """Both halves of a query; whatever Spark would have to compute and is not known to come out the same is refused."""
    places = {name: Value(named(at), kind) for at, (name, kind) in enumerate(definition.columns.items())}
    translator = Translator(places)
    text = definition.template
    clauses = _clauses(text)
    grouped = [_bare(one) for one in _separated(clauses["GROUP"])]
    groups = [tuple(_texts(one)) for one in grouped]
    bucket = tuple(_texts(_bare(tokens(definition.bucket_expression))))
    if bucket not in groups:
        raise refused(definition.bucket_expression, "it is not what the query groups by")
    keys: list[Value] = []
    written: dict[tuple[str, ...], str] = {bucket: f"({_BUCKET}::{definition.bucket_type})"}
    for one, group in zip(grouped, groups, strict=True):
        if group in written:
            continue
        value = translator.value(expression(text[one[0].start : one[-1].end], definition.alias))
        if not value.kind.comparable:
            raise refused(f"a key of type {value.kind.pg}")
        written[group] = pgsql.Identifier(_key(len(keys))).as_string(None)
        keys.append(value)
    rest = _Rest(definition, translator, written)
    items = [rest.rewritten(item) for item in _separated(clauses["SELECT"])]
    having = rest.rewritten(clauses["HAVING"]) if clauses["HAVING"] else None
    where = clauses["WHERE"]
    condition = (
        translator.condition(expression(text[where[0].start : where[-1].end], definition.alias)) if where else None
    )
    return Question(
        condition,
        tuple(keys),
        tuple(rest.parts),
        frozenset(translator.used),
        ", ".join(f"{item} AS thermocline_item{at}" for at, item in enumerate(items)),
        having,
        definition.bucket_type,
    )


class _Rest:
    """What PostgreSQL does itself, with keys and aggregates replaced by columns of the answer."""

    def __init__(self, definition: Definition, translator: Translator, written: Mapping[tuple[str, ...], str]) -> None:
        self._definition = definition
        self._translator = translator
        self._written = sorted(written.items(), key=lambda one: -len(one[0]))
        self.parts: list[Value] = []

    def rewritten(self, found: Sequence[Token]) -> str:
        """An expression over the answer."""
        texts = _texts(found)
        pieces: list[str] = []
        at = 0
        while at < len(found):
            if self._is_aggregate(found, at):
                reader = Reader(found, self._definition.alias, at)
                pieces.append(self._added_up(reader.call()))
                at = reader.at
                continue
            key = None if _is_a_part(found, at) else self._key_at(found, texts, at)
            if key is not None:
                length, column = key
                pieces.append(column)
                at += length
                continue
            pieces.append(found[at].text)
            at += 1
        return " ".join(pieces)

    def _is_aggregate(self, found: Sequence[Token], at: int) -> bool:
        name, place = found[at].text, at
        if at + 2 < len(found) and found[at + 1].text == ".":
            name, place = f"{name}.{found[at + 2].text}", at + 2
        called = place + 1 < len(found) and found[place + 1].text == "("
        return called and name in self._definition.aggregates

    def _key_at(self, found: Sequence[Token], texts: Sequence[str], at: int) -> tuple[int, str] | None:
        for group, column in self._written:
            after = at + len(group)
            if tuple(texts[at:after]) == group and not (
                after < len(found) and len(group) <= 3 and found[after].text in ("(", ".")
            ):
                return len(group), column
        return None

    def _added_up(self, call: Call) -> str:
        made = aggregate(call, self._translator)
        columns: list[str] = []
        for part in made.parts:
            if part not in self.parts:
                self.parts.append(part)
            columns.append(_part(self.parts.index(part)))
        return made.result.format(*columns)


def _key(at: int) -> str:
    return f"thermocline_key{at}"


def _part(at: int) -> str:
    return f"thermocline_part{at}"


def _is_a_part(found: Sequence[Token], at: int) -> bool:
    """Whether a name belongs to what stands before it: a type, or a field."""
    return at > 0 and (found[at - 1].kind == "cast" or found[at - 1].text == ".")


def _bare(found: Sequence[Token]) -> Sequence[Token]:
    """Without brackets around all of it: PostgreSQL prints some more of them in GROUP BY than elsewhere."""
    while len(found) > 2 and found[0].text == "(" and _closing(found) == len(found) - 1:
        found = found[1:-1]
    return found


def _closing(found: Sequence[Token]) -> int:
    """Where the bracket ends that stands first."""
    depth = 0
    for at, token in enumerate(found):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return at
    return len(found)


def _texts(found: Iterable[Token]) -> list[str]:
    return [token.text for token in found]


def _clauses(text: str) -> dict[str, list[Token]]:
    """The tokens of each clause of the one SELECT; /*source*/ stands in FROM."""
    before, marker, after = text.partition("/*source*/")
    if not marker:
        raise NotOnSpark("The RollUp was made without a place for its source: make it anew.")
    found: dict[str, list[Token]] = {"SELECT": [], **{clause: [] for clause in _CLAUSES}}
    head = tokens(before)
    found["SELECT"] = head[1:-1]  # without SELECT and FROM
    shift = len(before) + len(marker)
    clause, depth = "", 0
    for token in tokens(after):
        moved = type(token)(token.kind, token.text, token.start + shift, token.end + shift)
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 0 and token.kind == "word" and token.text in _CLAUSES:
            clause = token.text
        elif clause and not (token.text == "BY" and not found[clause]):
            found[clause].append(moved)
    return found


def _separated(found: Sequence[Token]) -> list[list[Token]]:
    """What stands between commas, each without the name that it is given."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 0 and token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part[:-2] if len(part) > 2 and part[-2].text == "AS" else part for part in parts]
