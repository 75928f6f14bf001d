"""Names of tables as people give them: readings, plant.readings, or quoted as in SQL where a name has a dot in it."""

from __future__ import annotations

import re

_QUOTED = r'"(?:[^"]|"")+"'
_NAME = re.compile(rf'(?:(?P<schema>{_QUOTED}|[^".]+)\.)?(?P<name>{_QUOTED}|[^"]+)')


def split(told: str) -> tuple[str, str]:
    """Schema and name; public where none is given. What is not quoted is taken as it is, letters and all."""
    found = _NAME.fullmatch(told)
    if '"' not in told or found is None:
        schema, _, name = told.rpartition(".")
        return schema or "public", name
    return _plain(found["schema"] or "public"), _plain(found["name"])


def joined(schema: str, name: str) -> str:
    """One name that `split` takes apart again, whatever is in it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
