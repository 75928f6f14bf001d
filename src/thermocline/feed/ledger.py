"""What PostgreSQL knows of the feed: its slot, its owner, its tables and how far each has come."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from psycopg import errors as pg

from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused
from thermocline.feed.copying import Chunk, Copied
from thermocline.feed.positions import number, text
from thermocline.feed.reading import Reading, SyncedTable
from thermocline.feed.records import Commit, SlotState, Stream, TableState
from thermocline.hot import maintenance, types
from thermocline.hot.rows import columns_of, missing_of
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection

    from thermocline.hot.maintenance import Finding

PUBLICATION = "thermocline"
P = ParamSpec("P")
T = TypeVar("T")


class FeedTaken(Busy):
    """Another feed is running for this database."""

    code = "feed.taken"
    next_step_by_default = "One feed serves all tables; stop the other one first if this one is to run."


class OwnershipLost(Busy):
    """Another feed has taken over while this one was asleep or cut off."""

    code = "feed.ownership_lost"
    next_step_by_default = "Nothing is lost: the other feed goes on. Start this one again if it should not."


class SlotLost(Refused):
    """The replication slot is gone, so changes may have been missed."""

    code = "feed.slot_lost"
    next_step_by_default = (
        "`thermocline feed resync` makes a new slot and copies every resident chunk anew; what is in the lake stays."
    )


class SlotWaits(Busy):
    """The replication slot can be made once the transactions that are open now have ended."""

    code = "feed.slot_waits"
    next_step_by_default = (
        "It is tried again. SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        " ORDER BY xact_start; shows them."
    )


class OtherHistory(Refused):
    """This server is not the one whose changes the lake holds."""

    code = "feed.other_history"
    next_step_by_default = (
        "If it was restored or promoted on purpose, `thermocline feed resync` starts a new history from what it holds."
    )


class PublicationLost(Refused):
    """The publication is gone, or no longer tells everything."""

    code = "feed.publication_lost"
    next_step_by_default = (
        "Changes since then cannot be read. `thermocline feed resync` makes it anew and copies every resident chunk."
    )


def _in_turn(method: Callable[Concatenate[Ledger, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Each of these is a transaction of its own; threads take turns."""

    @wraps(method)
    def call(ledger: Ledger, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with ledger.turn:
            return method(ledger, *args, **kwargs)

    return call


class Ledger:
    """Speaks to PostgreSQL for the feed, in a session of its own that also holds its ownership."""

    def __init__(self, session: Connection) -> None:
        self._session = session
        self.turn = threading.RLock()
        self.epoch = 0

    # ---- who we are, who owns the stream -------------------------------------------------

    @_in_turn
    def identity(self) -> tuple[int, int]:
        """System identifier and timeline of the server."""
        system, timeline = self._row("feed_identity")
        return system, timeline

    @_in_turn
    def stream(self) -> Stream | None:
        """What is recorded of the stream; None before the first feed."""
        row = self._session.execute(query("feed_stream")).fetchone()
        self._session.commit()
        if row is None:
            return None
        slot, publication, system, timeline, epoch, position, wanted = row
        return Stream(slot, publication, system, timeline, epoch, number(position), number(wanted))

    @_in_turn
    def slot_state(self, slot: str) -> SlotState | None:
        """The slot; None when there is none of this name here."""
        row = self._session.execute(query("feed_slot"), {"slot": slot}).fetchone()
        self._session.commit()
        if row is None:
            return None
        confirmed, restart, active, status, plugin, here, flushed, inserted, at = row
        if not here or plugin != "pgoutput":
            raise Refused(
                f"The replication slot {slot} is there, but it is of another database or plugin.",
                next_step=f"SELECT pg_drop_replication_slot('{slot}'); if nobody needs it.",
            )
        positions = number(confirmed or "0/0"), number(restart or "0/0")
        return SlotState(*positions, active, status, number(flushed), number(inserted), at)

    @_in_turn
    def own(self) -> None:
        """Become the owner of the stream, or refuse."""
        (taken,) = self._row("feed_own")
        if not taken:
            raise FeedTaken

    @_in_turn
    def require_publication(self) -> None:
        """Refuse a publication that is gone, or that leaves out a part of what happens."""
        row = self._session.execute(query("feed_publication"), {"name": PUBLICATION}).fetchone()
        self._session.commit()
        if row is None:
            raise PublicationLost(f"The publication {PUBLICATION} is gone.")
        if row[0]:
            raise PublicationLost(f"The publication {PUBLICATION} was changed: it {row[0]}.")

    @_in_turn
    def slot_name(self) -> str:
        """Slots are the server's, so each database has one of its own."""
        (database,) = self._row_of("SELECT oid FROM pg_database WHERE datname = current_database()")
        return f"thermocline_{database}"

    @_in_turn
    def begin_stream(self, *, anew: bool = False) -> Stream:
        """Make the slot and record the stream; with `anew`, whatever was before."""
        slot = self.slot_name()
        system, timeline = self.identity()
        if anew and self.slot_state(slot):
            self.drop_slot(slot)
            crash_point("resync.slot_dropped")
        state = self.slot_state(slot)
        if state is None:
            self._create_slot(slot)
            crash_point("feed.slot_created")
            state = self.slot_state(slot)
        if state is None:
            raise SlotLost(f"The replication slot {slot} was made and is gone again.")
        self._session.execute(
            query("feed_record_stream"),
            {"slot": slot, "system": system, "timeline": timeline, "position": text(state.confirmed)},
        )
        self._session.commit()
        crash_point("feed.stream_recorded")
        stream = self.stream()
        if stream is None:
            raise Refused("The stream was recorded and is gone again.")
        return stream

    def _create_slot(self, slot: str) -> None:
        try:
            self._session.execute("SET LOCAL statement_timeout = '3s'")
            self._session.execute(query("feed_create_slot"), {"slot": slot})
            self._session.commit()
        except pg.QueryCanceled as error:
            self._session.rollback()
            raise SlotWaits from error

    @_in_turn
    def drop_slot(self, slot: str) -> None:
        """Remove the slot, which no longer keeps the log then."""
        try:
            self._session.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            self._session.commit()
        except pg.ObjectInUse as error:
            self._session.rollback()
            raise Busy(f"The replication slot {slot} is in use: {error.diag.message_primary}.") from error

    @_in_turn
    def is_wanted(self) -> bool:
        """Whether any table is synced, also one that was set aside."""
        (wanted,) = self._row_of("SELECT EXISTS (SELECT FROM thermocline.synced_table WHERE status <> 'TERMINATED')")
        return bool(wanted)

    @_in_turn
    def forget_stream(self) -> None:
        """The last synced table is gone, and so is the stream."""
        self._session.execute("DELETE FROM thermocline.stream")
        self._session.commit()

    @_in_turn
    def next_epoch(self) -> None:
        """From now on whoever owned the stream before is told so when it records anything."""
        (self.epoch,) = self._row("feed_next_epoch")

    # ---- tables --------------------------------------------------------------------------

    @_in_turn
    def tables(self) -> list[TableState]:
        """Every table that is synced and not set aside."""
        found = []
        for row in self._session.execute(query("feed_tables")).fetchall():
            number_of, oid, schema, name, time_column, interval, lake_table, status, marker, read, snapshot, joined = (
                row
            )
            table = SyncedTable(
                id=number_of,
                oid=oid,
                source=f"{schema}.{name}",
                columns=columns_of(self._session, oid),
                time_column=time_column,
                unit=unit_for(interval),
                lake_table=lake_table,
                marker=number(marker) if marker else 0,
                read_to=max(number(told) for told in (marker or "0/0", read or "0/0")),
            )
            found.append(TableState(table, status, interval, snapshot, joined))
        self._session.commit()
        return found

    @_in_turn
    def missing(self, table_oid: int) -> dict[int, Any]:
        """What rows of a table read in columns that came after them, by number."""
        found = missing_of(self._session, table_oid)
        self._session.commit()
        return found

    @_in_turn
    def forms(self) -> dict[int, int]:
        """Which built-in form each type of the user's has."""
        rows = self._session.execute(query("feed_forms")).fetchall()
        self._session.commit()
        forms = {oid: types.type_sent_by(sender) for oid, sender in rows}
        return {oid: form for oid, form in forms.items() if form is not None}

    @_in_turn
    def reading(self, dsn: str, stream: Stream, end: int, tables: Iterable[SyncedTable]) -> Reading:
        """What a reader needs to read these tables up to `end`."""
        (seal,) = self._row("feed_seal")
        return Reading(
            dsn, stream.slot, stream.publication, end, {one.oid: one for one in tables}, self.forms(), bytes(seal)
        )

    @_in_turn
    def known_batches(self) -> set[str]:
        """Ids under which this database may have written to the lake without recording it."""
        rows = self._session.execute(query("feed_known_batches")).fetchall()
        self._session.commit()
        return {batch for (batch,) in rows}

    @_in_turn
    def set_aside(self, table: int, reason: str) -> None:
        """The stream passes this table by from now on."""
        self._session.execute(query("feed_set_aside"), {"table": table, "reason": reason})
        self._session.commit()

    @_in_turn
    def aside(self) -> tuple[str, ...]:
        """Tables that the stream passes by."""
        names = tuple(name for (name,) in self._session.execute(query("feed_aside")))
        self._session.commit()
        return names

    @_in_turn
    def alarms(self) -> list[tuple[str, str, str]]:
        """What is wrong with the feed as a whole: code, words and what to do."""
        found: list[tuple[str, str, str]] = self._session.execute(query("feed_alarms")).fetchall()
        self._session.commit()
        return found

    @_in_turn
    def join(self, table: int) -> bool:
        """Go on with a table that has just joined; true once nothing is open from before."""
        self._session.execute(query("feed_join_begin"), {"table": table})
        self._session.commit()
        crash_point("join.waiting")
        done = self._session.execute(query("feed_join_end"), {"table": table}).rowcount == 1
        self._session.commit()
        crash_point("join.ended")
        return done

    @_in_turn
    def reconcile(self) -> tuple[Finding, ...]:
        """Partitions that somebody has attached become chunks, chunks that somebody has dropped are taken note of."""
        tables = self._session.execute(query("feed_disagreeing")).fetchall()
        self._session.commit()
        findings = tuple(found for table in tables for found in maintenance.reconcile(self._session, *table))
        self._session.commit()
        return findings

    @_in_turn
    def relabelled(self) -> int:
        """Chunks of tables whose enums have renamed labels do not count as covered any more; returns how many."""
        count = self._session.execute(query("feed_relabelled")).rowcount
        self._session.commit()
        return count

    @_in_turn
    def uncovered(self) -> list[Chunk]:
        """Chunks to be copied."""
        rows = self._session.execute(query("feed_uncovered_chunks")).fetchall()
        self._session.commit()
        return [Chunk(*row) for row in rows]

    @_in_turn
    def mark_streaming(self) -> int:
        """Tables whose chunks are all covered stream from now on; returns how many were added."""
        count = self._session.execute(query("feed_streaming")).rowcount
        self._session.commit()
        crash_point("join.streaming")
        return count

    # ---- batches -------------------------------------------------------------------------

    @_in_turn
    def register(self, end: int, table: int | None = None) -> str:
        """A new id for a batch or a copy, known here before anything in the lake carries it."""
        batch = str(uuid.uuid4())
        arguments = {"id": batch, "table": table, "end": text(end), "epoch": self.epoch}
        found = self._session.execute(query("feed_register_batch"), arguments).fetchone()
        crash_point("record.registering")
        self._session.commit()
        if found is None:
            raise OwnershipLost
        return batch

    @_in_turn
    def record(
        self,
        end: int,
        tables: Sequence[int],
        commits: Sequence[Commit],
        created: Sequence[tuple[int, int, int | None]] = (),
        truncated: Sequence[tuple[int, int, int]] = (),
        troubles: Mapping[int, str] | None = None,
        current_at: datetime | None = None,
    ) -> None:
        """Progress of a batch that is in the lake, with whatever was committed before `current_at`."""
        self._own_position(end, current_at)
        crash_point("record.begun")
        for table, reason in (troubles or {}).items():
            self._session.execute(query("feed_set_aside"), {"table": table, "reason": reason})
        self._record_commits(commits)
        self._record_writes(end, commits)
        self._session.execute(query("feed_record_progress"), {"end": text(end), "tables": list(tables)})
        for name, told in (("feed_record_created", created), ("feed_record_truncated", truncated)):
            if told:
                chunks, positions, files = zip(*told, strict=True)
                of = {"chunks": list(chunks), "positions": [text(at) for at in positions], "files": list(files)}
                self._session.execute(query(name), of)
        self._session.execute(query("feed_prune_batches"))
        crash_point("record.before_commit")
        self._session.commit()

    @_in_turn
    def record_copies(self, copied: Sequence[Copied], commit: Commit) -> None:
        """Chunks are covered from their copies on."""
        self._own_position(0)
        self._record_commits([commit])
        for one in copied:
            self._session.execute(
                query("feed_record_copy"),
                {
                    "chunk": one.chunk.oid,
                    "table": one.chunk.table,
                    "position": text(one.position),
                    "rows": one.rows,
                    "snapshot": commit.snapshot_id,
                    "file": one.file,
                },
            )
        crash_point("copy.before_record")
        self._session.commit()

    @_in_turn
    def adopt(self, commits: Sequence[Commit]) -> None:
        """Commits that are in the lake and were not recorded before a crash."""
        self._own_position(0)
        self._record_commits(commits)
        crash_point("feed.adopting")
        self._session.commit()

    def _own_position(self, end: int, current_at: datetime | None = None) -> None:
        arguments = {"end": text(end), "epoch": self.epoch, "current_at": current_at}
        if self._session.execute(query("feed_record_position"), arguments).fetchone() is None:
            self._session.rollback()
            raise OwnershipLost

    def _record_commits(self, commits: Sequence[Commit]) -> None:
        if commits:
            self._session.execute(
                query("feed_record_commits"),
                {
                    "tables": [one.table for one in commits],
                    "markers": [text(one.marker) for one in commits],
                    "snapshots": [one.snapshot_id for one in commits],
                    "entries": [one.entries for one in commits],
                },
            )

    def _record_writes(self, end: int, commits: Sequence[Commit]) -> None:
        written = {one.table: one.written for one in commits if one.written}
        if written:
            firsts, lasts = zip(*written.values(), strict=True)
            arguments = {"end": text(end), "tables": list(written), "firsts": list(firsts), "lasts": list(lasts)}
            self._session.execute(query("feed_record_writes"), arguments)

    @_in_turn
    def advance(self, slot: str, to: int) -> None:
        """Let the server forget what is in the lake."""
        try:
            self._session.execute(query("feed_advance"), {"slot": slot, "to": text(to)})
            self._session.commit()
        except pg.ObjectInUse as error:
            self._session.rollback()
            raise Busy(
                f"The replication slot {slot} is in use by somebody else: {error.diag.message_primary}.",
                next_step="End that session: SELECT active_pid FROM pg_replication_slots shows it.",
            ) from error

    # ---- small ---------------------------------------------------------------------------

    def _row(self, name: str) -> tuple[Any, ...]:
        return self._row_of(query(name))

    def _row_of(self, statement: Any) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._session.execute(statement).fetchone()
        self._session.commit()
        if row is None:
            raise Refused("PostgreSQL gave no answer to a question that always has one.")
        return row


def unit_for(interval: timedelta) -> str:
    """How finely a history table is partitioned, after the length of the source's chunks."""
    if interval < timedelta(hours=12):
        return "hour"
    return "day" if interval < timedelta(days=28) else "month"
