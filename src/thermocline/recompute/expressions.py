"""A query as PostgreSQL prints it, read into a tree: every operator stands in brackets and every constant has its type.

Only what is understood for certain is read. Everything else is refused by what it is called (`NotOnSpark`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from thermocline.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence


class NotOnSpark(Refused):
    """The RollUp has something that Spark cannot compute as PostgreSQL does."""

    code = "rollup.not_on_spark"
    next_step_by_default = (
        "Nothing was changed. The how-to on RollUps lists what can be recomputed. What cannot be keeps its last value,"
        " unless the chunks come back into PostgreSQL."
    )


# ---- tokens ----------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<string>'(?:[^']|'')*')
    | (?P<escaped>E'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<cast>::)
    | (?P<operator>[-+*/<>=~!@\#%^&|`?]+)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A piece of the text and what kind of piece it is."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def name(self) -> str | None:
        """What it names, if it is a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text if self.kind == "word" else None


def tokens(text: str) -> list[Token]:
    """The pieces of a text, without the space between them."""
    found = (Token(match.lastgroup or "", match[0], *match.span()) for match in _TOKEN.finditer(text))
    return [token for token in found if token.kind != "space"]


# ---- the tree --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of the source."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A value as it is printed; None is NULL. Without a type it is a bare number, TRUE or FALSE."""

    text: str | None
    type: str | None = None


@dataclass(frozen=True)
class Cast:
    """A value in another type."""

    value: Node
    type: str


@dataclass(frozen=True)
class Operation:
    """An operator, or a word that works as one, with its operands."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Listed:
    """Whether a value is one of a list, or none of it."""

    value: Node
    operator: str
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Case:
    """CASE: conditions with their results, and what holds otherwise."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True)
class Call:
    """A function or an aggregate. `*` has no arguments and is a star."""

    name: str
    arguments: tuple[Node, ...] = ()
    star: bool = False
    distinct: bool = False
    only: Node | None = None
    """The condition of FILTER."""


Node = Column | Constant | Cast | Operation | Listed | Case | Call

_TESTS = {
    ("NULL",), ("NOT", "NULL"), ("TRUE",), ("NOT", "TRUE"), ("FALSE",), ("NOT", "FALSE"),
    ("UNKNOWN",), ("NOT", "UNKNOWN"),
}  # fmt: skip
_LONG_TYPES = {
    "double": ("precision",),
    "character": ("varying",),
    "bit": ("varying",),
    "timestamp": ("with", "without", "time", "zone"),
    "time": ("with", "without", "zone", "time"),
}
_RESERVED = {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "AS",
             "ROW", "ARRAY", "EXISTS", "INTERVAL", "COLLATE"}  # fmt: skip


class Reader:
    """Reads expressions from tokens, one after the other."""

    def __init__(self, found: Sequence[Token], alias: str, at: int = 0) -> None:
        self._tokens = found
        self._alias = alias
        self.at = at

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self._tokens)

    def expression(self) -> Node:
        """Operands with operators between them; in what PostgreSQL prints these are all the same."""
        if self._word("NOT"):
            return Operation("NOT", (self._operand(),))
        if self._peek().text == "-":
            self.at += 1
            return Operation("-", (self._operand(),))
        operands = [self._operand()]
        operator = ""
        while not self.done:
            here = self._operator()
            if here is None:
                break
            if here == "IS":
                return self._test(operands[0]) if not operator else self._refuse("IS")
            if operator and (here != operator or here not in ("AND", "OR")):
                self._refuse(here)
            operator = here
            if operator not in ("AND", "OR") and (which := self._word("ANY", "ALL")):
                return self._listed(operands[0], operator, which)
            operands.append(self._operand())
        return Operation(operator, tuple(operands)) if operator else operands[0]

    def call(self) -> Call:
        """A call of a function or an aggregate, which has to stand here."""
        found = self._named(self._next())
        return found if isinstance(found, Call) else self._refuse(str(found))

    # ---- parts ---------------------------------------------------------------------------

    def _operand(self) -> Node:
        found: Node
        token = self._next()
        if token.text == "(":
            found = self.expression()
            self._expect(")")
        elif token.kind == "string":
            found = Constant(token.text[1:-1].replace("''", "'"))
        elif token.kind == "escaped":
            found = Constant(re.sub(r"\\(.)|''", lambda match: match[1] or "'", token.text[2:-1], flags=re.DOTALL))
        elif token.kind == "number":
            found = Constant(token.text, "number")
        elif token.kind == "word" and token.text in ("true", "false"):
            found = Constant(token.text, "boolean")
        elif token.kind == "word" and token.text == "NULL":
            found = Constant(None)
        elif token.kind == "word" and token.text == "CASE":
            found = self._case()
        elif token.name is not None and token.text not in _RESERVED:
            found = self._named(token)
        else:
            self._refuse(token.text)
        while not self.done and self._peek().kind == "cast":
            self.at += 1
            kind = self._type()
            is_new = isinstance(found, Constant) and found.type is None
            found = Constant(found.text, kind) if is_new and isinstance(found, Constant) else Cast(found, kind)
        if not self.done and self._peek().text in ("[", "COLLATE"):
            self._refuse(self._peek().text)
        return found

    def _named(self, token: Token) -> Node:
        name, first = token.name or "", token
        if not self.done and self._peek().text == ".":
            self.at += 1
            second = self._next()
            if second.name is None:
                self._refuse(f"{name}.{second.text}")
            if not self.done and self._peek().text == "(":
                return self._call(f"{name}.{second.name}")
            if name != self._alias:
                self._refuse(f"{name}.{second.name}")
            return Column(second.name)
        if not self.done and self._peek().text == "(":
            return self._call(name if first.kind == "word" else f'"{name}"')
        return Column(name)

    def _call(self, name: str) -> Call:
        self._expect("(")
        if self._skip("*"):
            self._expect(")")
            return Call(name, star=True, only=self._only(name))
        distinct = bool(self._word("DISTINCT"))
        arguments: list[Node] = []
        while not self._skip(")"):
            if arguments:
                self._expect(",", within=name)
            arguments.append(self.expression())
            if self._peek().text not in (",", ")"):
                self._refuse(f"{name} with {self._peek().text}")
        return Call(name, tuple(arguments), distinct=distinct, only=self._only(name))

    def _only(self, name: str) -> Node | None:
        if not self.done and self._peek().text in ("WITHIN", "OVER"):
            self._refuse(name)
        if not self._word("FILTER"):
            return None
        self._expect("(")
        if not self._word("WHERE"):
            self._refuse("FILTER")
        condition = self.expression()
        self._expect(")")
        return condition

    def _case(self) -> Case:
        tested = None if self._peek().text == "WHEN" else self._operand()
        branches: list[tuple[Node, Node]] = []
        while self._word("WHEN"):
            condition = self.expression()
            if not self._word("THEN"):
                self._refuse("CASE")
            branches.append((condition if tested is None else Operation("=", (tested, condition)), self.expression()))
        otherwise = self.expression() if self._word("ELSE") else None
        if not self._word("END"):
            self._refuse("CASE")
        return Case(tuple(branches), otherwise)

    def _listed(self, value: Node, operator: str, which: str) -> Node:
        if (operator, which) not in (("=", "ANY"), ("<>", "ALL")):
            self._refuse(f"{operator} {which}")
        self._expect("(")
        brackets = 0
        while self._skip("("):
            brackets += 1
        if not self._word("ARRAY"):
            self._refuse(f"{operator} {which}")
        self._expect("[")
        items: list[Node] = []
        while not self._skip("]"):
            if items:
                self._expect(",")
            items.append(self.expression())
        for _ in range(brackets):  # a list of varchar is cast to one of text as a whole
            self._expect(")")
            if not self.done and self._peek().kind == "cast":
                self.at += 1
                kind = self._type()
                items = [Cast(item, kind.removesuffix("[]")) for item in items]
        self._expect(")")
        return Listed(value, operator, tuple(items))

    def _test(self, value: Node) -> Node:
        words: list[str] = []
        while not self.done and self._peek().kind == "word" and len(words) < 3:
            words.append(self._next().text)
            if tuple(words) in _TESTS:
                return Operation(f"IS {' '.join(words)}", (value,))
            if words in (["DISTINCT", "FROM"], ["NOT", "DISTINCT", "FROM"]):
                return Operation(f"IS {' '.join(words)}", (value, self._operand()))
        return self._refuse(f"IS {' '.join(words)}")

    def _type(self) -> str:
        token = self._next()
        if token.name is None:
            self._refuse(f"::{token.text}")
        words = [token.text]
        if self._skip("."):
            words = [f"{token.text}.{self._next().text}"]
        modifier = ""
        while not self.done:
            here = self._peek()
            if here.kind == "word" and here.text in _LONG_TYPES.get(words[0], ()) and here.text not in words[1:]:
                words.append(self._next().text)
            elif here.text == "(" and not modifier:
                closing = next(at for at in range(self.at, len(self._tokens)) if self._tokens[at].text == ")")
                modifier = "".join(one.text for one in self._tokens[self.at : closing + 1])
                self.at = closing + 1
            elif here.text == "[" and self._tokens[self.at + 1].text == "]":
                self.at += 2
                return " ".join(words) + modifier + "[]"
            else:
                break
        return " ".join(words) + modifier

    # ---- tokens --------------------------------------------------------------------------

    def _operator(self) -> str | None:
        token = self._peek()
        if token.kind == "operator" or token.text in ("AND", "OR", "IS"):
            self.at += 1
            return token.text
        if token.text == "OPERATOR":
            self._refuse("OPERATOR")
        return None

    def _peek(self) -> Token:
        return self._tokens[self.at] if not self.done else Token("end", "the end", 0, 0)

    def _next(self) -> Token:
        token = self._peek()
        self.at += 1
        return token

    def _skip(self, text: str) -> bool:
        found = self._peek().text == text
        self.at += found
        return found

    def _word(self, *words: str) -> str | None:
        token = self._peek()
        if token.kind == "word" and token.text in words:
            self.at += 1
            return token.text
        return None

    def _expect(self, text: str, within: str = "") -> None:
        if not self._skip(text):
            self._refuse(f"{within} with {self._peek().text}" if within else self._peek().text)

    def _refuse(self, what: str) -> NoReturn:
        raise NotOnSpark(f"Spark is not asked for {what}: it is not known to come out as in PostgreSQL.")


def expression(text: str, alias: str) -> Node:
    """One expression, all of the text."""
    reader = Reader(tokens(text), alias)
    found = reader.expression()
    if not reader.done:
        raise NotOnSpark(f"Spark is not asked for {text}: it is not known to come out as in PostgreSQL.")
    return found
