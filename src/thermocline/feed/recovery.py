"""Giving the lake back what its catalog has forgotten, as far as PostgreSQL knows that it is ours."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from thermocline.errors import Refused
from thermocline.feed.ledger import Ledger
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake.recovery import ADOPT, CURRENT, Recoverer

if TYPE_CHECKING:
    from psycopg import Connection

    from thermocline.lake.catalogs import CatalogDescription
    from thermocline.lake.recovery import Recovery


@dataclass(frozen=True)
class _Known:
    """A table whose history PostgreSQL knows."""

    id: int
    source: str
    is_aside: bool
    snapshot: int


def recover(
    dsn: str,
    lake: CatalogDescription,
    table: str | None = None,
    *,
    execute: bool = False,
    unknown: bool = False,
    timeout: int = 10,
) -> list[Recovery]:
    """What the catalog has forgotten, a line for each history table; with `execute` it is told again.

    `table` is one history table by its name in the lake. Also what this database does not know to have written is
    adopted with `unknown`. Refuses to execute while a feed runs.
    """
    with (
        connect(dsn, timeout=timeout) as session,
        lake.open() as catalog,
        Ledger(session).owned() if execute else nullcontext(),
    ):
        known = _known(session)
        recoverer = Recoverer(lake, catalog)
        batches = None if unknown else Ledger(session).known_batches()
        lines = recoverer.plan({name: one.snapshot for name, one in known.items()}, batches)
        if table is not None and table not in {line.table for line in lines}:
            raise Refused(
                f"There is no history table {table}, neither in the catalog nor on record.",
                next_step="`thermocline lake recover` lists them all.",
            )
        lines = [_with_next_step(line, known.get(line.table)) for line in lines if table in (None, line.table)]
        if not execute:
            return lines
        return [_adopted(session, recoverer, line, known) if line.verdict == ADOPT else line for line in lines]


def _known(session: Connection) -> dict[str, _Known]:
    rows = session.execute(query("recovery_known")).fetchall()
    session.commit()
    return {lake_table: _Known(*row) for lake_table, *row in rows}


def _with_next_step(line: Recovery, known: _Known | None) -> Recovery:
    if known is None or not known.is_aside or line.verdict not in (ADOPT, CURRENT):
        return line
    return replace(line, next_step=f"The feed has set it aside: then `thermocline feed resync {known.source} --yes`.")


def _adopted(session: Connection, recoverer: Recoverer, line: Recovery, known: dict[str, _Known]) -> Recovery:
    done = recoverer.adopt(line)
    of = known.get(line.table)
    told = {"object": line.table, "table": of and of.id, "reason": line.reason}
    told |= {"pointer": line.pointer, "newest": line.newest, "snapshots": line.snapshots}
    session.execute(query("recovery_audit"), told)
    session.commit()
    return done
