"""Roles that are not superusers, for as long as a test needs them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString


@contextmanager
def role(dsn: str, name: str, attributes: LiteralString = "", *grants: LiteralString) -> Iterator[str]:
    """A role on the server of `dsn`; yields its address. In grants, {role} and {database} are filled in."""
    names = {"role": sql.Identifier(name)}
    with psycopg.connect(dsn, autocommit=True) as admin:
        names["database"] = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {role}").format(**names))
        admin.execute(sql.SQL("CREATE ROLE {role} LOGIN PASSWORD 'plain' " + attributes).format(**names))
        for grant in grants:
            admin.execute(sql.SQL(grant).format(**names))
    try:
        yield make_conninfo(dsn, user=name, password="plain")
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP OWNED BY {role} CASCADE").format(**names))
            admin.execute(sql.SQL("DROP ROLE {role}").format(**names))
