"""Late rows that went to the lake: compared with it, and let go from PostgreSQL once it provably has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import ThermoclineError
from thermocline.gate import drop
from thermocline.gate.receipt import DIFFERS
from thermocline.gate.sides import NotProven, trap_of
from thermocline.hot import names, positions
from thermocline.hot.connection import connect
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from psycopg import Connection

    from thermocline.gate.receipt import Comparison, Prover

    News = Callable[[str], None]

log = logs.get(__name__)
SETTLED, WOULD_SETTLE = "settled", "would settle"
_NOTHING = "Nothing to do."
_DIFFERENT = (
    "They stay, and every read has them. Keep them elsewhere and DELETE them; `thermocline rehydrate` brings the range"
    " back without them, `thermocline verify` with --repair copies it anew, and then they can be written again."
)


@dataclass(frozen=True)
class LateLine:
    """The late rows of one trap, as a person is shown them."""

    table: str
    trap: str
    range_start: datetime
    range_end: datetime
    rows: int | None
    bytes: int
    verdict: str
    reason: str
    message: str
    next_step: str


@dataclass(frozen=True)
class _Trap:
    oid: int
    trap: str
    table: str
    range_start: datetime
    range_end: datetime
    bytes: int
    rows: int | None

    def line(self, verdict: str, reason: str, message: str, next_step: str, rows: int | None = None) -> LateLine:
        counted = self.rows if rows is None else rows
        place = (self.table, self.trap, self.range_start, self.range_end)
        return LateLine(*place, counted, self.bytes, verdict, reason, message, next_step)


class LateRows:
    """The late rows of one table, or of all."""

    def __init__(self, dsn: str, prover: Prover, table: str | None = None, *, patience: float = drop.PATIENCE) -> None:
        self._dsn = dsn
        self._prover = prover
        self._table = names.split(table) if table else None
        self._patience = patience

    def plan(self) -> list[LateLine]:
        """What would be compared and let go, and what has to stay; nothing is changed."""
        with connect(self._dsn) as control:
            return [_planned(control, trap) for trap in self._traps()]

    def settle(
        self, lines: Sequence[LateLine] | None = None, *, news: News = lambda _: None, fence: drop.Fence | None = None
    ) -> list[LateLine]:
        """Compare late rows with the lake and let those go that it has; `fence` is asked in each transaction.

        With `lines` only those of a plan. Traps that are to let rows in, or no longer, are seen to as well.
        """
        drop.merge_traps(self._dsn)
        wanted = None if lines is None else {line.trap for line in lines if line.verdict == WOULD_SETTLE}
        settled = []
        for trap in self._traps():
            if wanted is None or trap.trap in wanted:
                news(trap.trap)
                settled.append(self._settled(trap, fence))
        if any(line.verdict == SETTLED for line in settled):
            drop.merge_traps(self._dsn)
        return settled

    def _traps(self) -> list[_Trap]:
        with connect(self._dsn) as session:
            schema, name = self._table or (None, None)
            if self._table:
                session.execute("SELECT lakets._chronotable_id(%s, %s)", [name, schema])
            values = {"table": name, "schema": schema}
            rows = session.cursor(row_factory=dict_row).execute(query("late_traps"), values)
            return [_Trap(**row) for row in rows]

    def _settled(self, trap: _Trap, fence: drop.Fence | None) -> LateLine:
        try:
            stream = self._stream()
            compared = self._prover.prove_late(trap.oid)
            if not compared.equal or compared.proof is None:
                step = "It is compared again later." if compared.reason == "changing" else _DIFFERENT
                return trap.line("stays", compared.reason or DIFFERS, compared.message, step, compared.hot.rows)
            crash_point("settle.compared")
            looked = self._prover.look_after_late(compared)
        except NotProven as error:
            return trap.line("stays", error.reason, error.message, error.next_step)
        except ThermoclineError as error:
            return trap.line("stays", error.code, error.message, error.next_step)
        crash_point("settle.looked")
        line = self._let_go(trap, compared, stream | {"metadata": looked}, fence)
        log.info("late rows", trap=trap.trap, verdict=line.verdict, reason=line.reason, rows=line.rows)
        return line

    def _stream(self) -> dict[str, Any]:
        """Before anything is compared: what was must be of one stream."""
        with connect(self._dsn) as session:
            row = session.execute(query("late_stream")).fetchone()
        if row is None:
            raise NotProven("other_history", "There is no stream.", "Run `thermocline feed`.")
        found: dict[str, Any] = row[0]
        return found

    def _let_go(self, trap: _Trap, compared: Comparison, about: dict[str, Any], fence: drop.Fence | None) -> LateLine:
        proof, rows = compared.proof, compared.hot.rows
        if proof is None:
            raise ValueError("only what is proven is let go")
        values = {
            "trap": trap.oid,
            "position": positions.text(proof.position),
            "evidence": Jsonb(proof.evidence | about),
            "reason": "the lake has them",
        }
        with connect(self._dsn, autocommit=True) as session:
            session.execute(query("drop_session"), {"lock_timeout": f"{max(1, round(self._patience * 1000))}ms"})

            def settle() -> None:
                with session.transaction():
                    if fence:
                        fence(session)
                    session.execute(query("late_settle"), values)
                    crash_point("settle.before_commit")

            against = drop.trying(session, settle, self._patience)
        if against:
            verdict = "deferred" if against is drop.BUSY else "stays"
            return trap.line(verdict, against.code, against.message, against.next_step, rows)
        crash_point("settle.done")
        said = f"{rows} rows are the same in PostgreSQL and in the lake; PostgreSQL has let them go"
        return trap.line(SETTLED, "proven", said, _NOTHING, rows)


def _planned(control: Connection, trap: _Trap) -> LateLine:
    try:
        trap_of(control, trap.oid)
    except NotProven as error:
        return trap.line("stays", error.reason, error.message, error.next_step)
    return trap.line(WOULD_SETTLE, "due", "they are compared with the lake first", _NOTHING)


def fine(lines: Sequence[LateLine]) -> bool:
    """Whether every line is as it should be."""
    return all(line.verdict in (SETTLED, WOULD_SETTLE) for line in lines)


def only_busy(lines: Sequence[LateLine]) -> bool:
    """Whether nothing but somebody's use stands in the way: trying again may help."""
    return all(line.reason in ("busy", "changing") for line in lines if not fine([line]))
