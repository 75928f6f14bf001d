"""Questions to a session: the rows of the answer, its one value, or the refusal."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest


def ask(db: psycopg.Connection, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement; its rows, if it has any."""
    cursor = db.execute(statement.encode(), parameters or None)
    return [] if cursor.description is None else cursor.fetchall()


def one(db: psycopg.Connection, statement: str, *parameters: Any) -> Any:
    """The value of an answer that is one row of one column."""
    ((value,),) = ask(db, statement, *parameters)
    return value


def refused(db: psycopg.Connection, statement: str, message: str, *parameters: Any) -> None:
    """An error that names the object, says what to do, and that handlers of raise_exception catch."""
    with pytest.raises(psycopg.errors.RaiseException, match=message) as caught:
        ask(db, statement, *parameters)
    assert caught.value.diag.message_hint
