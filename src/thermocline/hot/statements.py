"""SQL lives in files: this finds them by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, LiteralString

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_ROOT = files("thermocline.hot") / "sql"


@dataclass(frozen=True)
class SqlFile:
    """One file of SQL: its name without the ending, and its text."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """What it is known by once it has run."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statement(self) -> LiteralString:
        """The text, as psycopg wants it: it comes from our package, never from a user."""
        return self.text


@cache
def query(name: str) -> LiteralString:
    """The statement in `sql/queries/<name>.sql`."""
    return (_ROOT / "queries" / f"{name}.sql").read_text("utf-8")


def migrations() -> list[SqlFile]:
    """The run-once files, in their order; the number in front of the name is the order."""
    return _folder("migrations")


def functions() -> list[SqlFile]:
    """The files that are run again at every install, in the order of their names."""
    return _folder("functions")


def _folder(name: str) -> list[SqlFile]:
    found = [SqlFile(entry.name.removesuffix(".sql"), entry.read_text("utf-8")) for entry in _walk(_ROOT / name)]
    return sorted(found, key=lambda file: file.name)


def _walk(folder: Traversable) -> list[Traversable]:
    return [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
