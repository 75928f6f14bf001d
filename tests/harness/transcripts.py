"""SQL files that say beneath each statement what it answers: read, run, and written down again.

A statement ends at a line that ends in a semicolon, a remark after it aside. The lines beneath it are its answer, in
the order in which psql shows it: `-- notice: ...` or `-- warning: ...`, then `-- => ...` per row, or `-- error: ...`.
Cells are as PostgreSQL writes them, with ` | ` between them; NULL is `NULL`, no row is `no rows`, and a void says
nothing. Three dots stand for what differs from day to day. Other comments are for people.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.errors import Diagnostic

_ANSWER = re.compile(r"-- (?P<said>(?:=>|notice:|warning:|error:).*)")
_END = re.compile(r"(?:(?!--).)*;\s*(?:--.*)?")
_VOID = 2278


@dataclass
class Step:
    """A statement and what its file says that it answers."""

    statement: str
    said: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """The statements of a file in their order."""
    found: list[Step] = []
    open_lines: list[str] = []
    for line in text.splitlines():
        if not open_lines and (not line.strip() or line.startswith("--")):
            answer = _ANSWER.fullmatch(line.rstrip())
            if answer:
                found[-1].said.append(answer["said"])
            continue
        open_lines.append(line)
        if _END.fullmatch(line):
            found.append(Step("\n".join(open_lines)))
            open_lines = []
    if open_lines:
        raise ValueError(f"a statement has no end: {open_lines[0]}")
    return found


def answer(session: Connection, statement: str) -> list[str]:
    """What a statement answers, as a file would say it."""
    said: list[str] = []

    def heard(diagnostic: Diagnostic) -> None:
        said.append(f"{(diagnostic.severity_nonlocalized or 'notice').lower()}: {diagnostic.message_primary}")

    session.add_notice_handler(heard)
    try:
        # By itself in autocommit, as a procedure that commits has to be.
        with nullcontext() if session.autocommit else session.transaction():
            said += _rows(session.execute(statement.encode()))
    except psycopg.Error as error:
        said.append(f"error: {error.diag.message_primary}")
    finally:
        session.remove_notice_handler(heard)
    return said


def in_the_words_of(said: list[str], heard: list[str]) -> list[str]:
    """An answer for comparison with what a file says: where the file's line covers it with dots, that line."""
    patterns = [".+".join(map(re.escape, line.split("..."))) for line in said]
    pairs = zip(said, patterns, heard, strict=False)
    return [line if re.fullmatch(pattern, words) else words for line, pattern, words in pairs] + heard[len(said) :]


def _rows(cursor: Cursor) -> list[str]:
    result = cursor.pgresult
    if result is None or cursor.description is None or all(column.type_code == _VOID for column in cursor.description):
        return []
    rows = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
    shown = [" | ".join("NULL" if cell is None else cell.decode() for cell in row) for row in rows]
    return [f"=> {row}".rstrip() for row in shown] or ["=> no rows"]
