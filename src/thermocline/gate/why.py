"""Why a chunk is still in PostgreSQL: what stands between it and its removal, since when, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from thermocline.errors import Refused
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import Connection

# A run makes a receipt, and looks at the lake, by itself: these keep no chunk from going.
_BY_ITSELF = ("no_receipt", "receipt_stale", "changed_since_receipt", "rewritten", "columns_changed", "lake_changed",
              "lake_unchecked")  # fmt: skip
_BACK = "Nothing to do; `thermocline rehydrate` would bring it back from the lake."


class UnknownChunk(Refused):
    """There is no chunk of that name."""

    code = "gate.unknown_chunk"
    next_step_by_default = "`thermocline chunks` lists the chunks of a table."


@dataclass(frozen=True)
class Obstacle:
    """One thing that stands in the way."""

    reason: str
    message: str
    since: datetime | None
    next_step: str


@dataclass(frozen=True)
class Holder:
    """A session that uses the chunk."""

    pid: int
    role: str
    application: str
    since: datetime | None
    state: str | None


@dataclass(frozen=True)
class Why:
    """One chunk on its way out."""

    chunk: str
    table: str
    range_start: datetime
    range_end: datetime
    state: str
    bytes: int
    summary: str
    """In a sentence."""
    verdict: str
    reason: str
    since: datetime | None
    next_step: str
    """These four as dry runs and `lakets.show_tiering_status` have them."""
    tier_due: datetime | None
    drop_due: datetime | None
    proven_at: datetime | None
    receipt: int | None
    obstacles: tuple[Obstacle, ...] = ()
    held_by: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Receipt:
    """A proof that the lake held a chunk."""

    id: int
    chunk: str
    range_start: datetime
    range_end: datetime
    rows: int
    made_at: datetime
    made_by: str
    position: str
    lake_table: str
    lake_snapshot: int | None
    lake_checked_at: datetime | None
    standing: str


def why(dsn: str, chunk: str) -> Why:
    """What is to be said of a chunk, by its name with or without the schema."""
    with connect(dsn, autocommit=True) as session:
        found = session.cursor(row_factory=dict_row).execute(query("why_chunk"), {"chunk": chunk}).fetchall()
        resident = [one for one in found if one["state"] != "dropped"]
        if not found:
            raise _unknown(session, chunk)
        if len({one["table_name"] for one in resident or found}) > 1:
            raise UnknownChunk(
                f"There are several chunks {chunk}: of {', '.join(sorted({one['table_name'] for one in found}))}.",
                next_step="Give it with its schema.",
            )
        known = (resident or found)[0]
        against, holders = [], []
        verdict: tuple[Any, ...] = ("gone", "dropped", "", known["dropped_at"], _BACK)
        if resident:
            asked = {"chunk": known["oid"], "gated": known["gated"]}
            against = session.execute(query("why_against"), asked).fetchall()
            verdict = session.execute(query("why_verdict"), asked).fetchone() or verdict
            if verdict[1] == "kept":
                against = [(verdict[1], verdict[2], verdict[4]), *against]
            holders = [Holder(*row) for row in session.execute(query("why_held"), asked)]
    obstacles = tuple(
        Obstacle(code, message, _since(code, known, holders), next_step) for code, message, next_step in against
    )
    return Why(
        chunk=known["chunk"],
        table=known["table_name"],
        range_start=known["range_start"],
        range_end=known["range_end"],
        state=known["state"],
        bytes=known["bytes"],
        summary=_summary(known, obstacles, holders),
        verdict=verdict[0],
        reason=verdict[1],
        since=verdict[3],
        next_step=verdict[4],
        tier_due=known["tier_due"],
        drop_due=known["drop_due"],
        proven_at=known["proven_at"],
        receipt=known["receipt"],
        obstacles=obstacles,
        held_by=tuple(holders),
    )


def receipts(dsn: str, table: str | None, chunk: str | None, most: int) -> list[Receipt]:
    """The newest first; of one table or chunk, or of all."""
    schema, name = names.split(table) if table else (None, None)
    with connect(dsn) as session:
        if table:
            session.execute("SELECT lakets._chronotable_id(%s, %s)", [name, schema])
        asked = {"schema": schema, "table": name, "chunk": chunk, "most": most}
        found = [Receipt(*row) for row in session.execute(query("receipts"), asked)]
        if chunk and not found and not session.execute(query("why_chunk"), {"chunk": chunk}).fetchone():
            raise _unknown(session, chunk)
        return found


def _unknown(session: Connection[Any], chunk: str) -> UnknownChunk:
    """Whoever gave the name of a table is told how to come to its chunks."""
    schema, name = names.split(chunk)
    if session.execute(query("read_table"), {"schema": schema, "table": name}).fetchone():
        return UnknownChunk(
            f"{schema}.{name} is a table, not a chunk.", next_step=f"`thermocline chunks {chunk}` lists its chunks."
        )
    return UnknownChunk(f"There is no chunk {chunk}.")


def _since(code: str, known: dict[str, Any], holders: list[Holder]) -> datetime | None:
    """The best that is known; what nobody has written down is not made up."""
    if code in ("no_receipt", "unknown_chunk"):
        found: datetime | None = known["created_at"]
    elif code in ("not_covered", "feed_not_streaming"):
        found = known["joined_at"]
    elif code in ("changed_since_receipt", "rewritten", "columns_changed", "receipt_stale", "lake_changed"):
        found = known["proven_at"]
    elif code == "lake_unchecked":
        found = known["lake_checked_at"] or known["proven_at"]
    else:
        found = min((one.since for one in holders if one.since), default=None) if code == "busy" else None
    return found


def _summary(known: dict[str, Any], obstacles: tuple[Obstacle, ...], holders: list[Holder]) -> str:
    """What becomes of it, if nothing is done."""
    if known["state"] == "dropped":
        at = f" on {_written(known['dropped_at'])}" if known["dropped_at"] else ""
        proof = f", on receipt {known['dropped_on']}" if known["dropped_on"] else ", without a proof"
        return f"It has left PostgreSQL{at}{proof}."
    hard = [one for one in obstacles if one.reason not in _BY_ITSELF]
    if known["kept"] is not None and (known["drop_due"] is None or known["drop_due"] > known["now"]):
        # No policy has come to it; the job that brought it back drops it.
        if known["kept"]:
            return f"It was brought back from the lake and is kept {known['kept']}; then a node drops it on proof."
        return "It was brought back from the lake and is no longer kept: a node drops it on proof."
    if known["drop_due"] is None:
        return "It stays: its table has no retention policy, so nothing is ever to drop it."
    when = _written(known["drop_due"])
    if known["drop_due"] > known["now"]:
        also = f" Until then this is in the way: {hard[0].message}." if hard else ""
        return f"It stays until {when}: its retention policy has not come to it yet.{also}"
    if hard:
        return f"It is due since {when}, and stays: {hard[0].message}."
    if holders:
        return f"It is due since {when}, and sessions use it: {len(holders)}. The next run of retention tries again."
    if obstacles:
        return f"It is due since {when}. The next run of retention compares it with the lake and drops it on proof."
    proof = "it is proven in the lake" if known["gated"] else "its table is not synced, so that it needs no proof"
    return f"It is due since {when} and goes with the next run of retention: {proof}."


def _written(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
