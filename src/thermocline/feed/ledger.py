"""What PostgreSQL knows of the feed: its slot, its owner, its tables and how far each has come."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import psycopg
from psycopg import errors as pg

from thermocline.crash import crash_point
from thermocline.errors import Busy, Refused
from thermocline.feed.copying import Chunk, Copied
from thermocline.feed.reading import Reading, SyncedTable
from thermocline.feed.records import Commit, SlotState, Stream, TableState
from thermocline.feed.refusals import FeedTaken, OwnershipLost, PublicationLost, SlotLost, SlotRefused, SlotWaits
from thermocline.hot import maintenance, types
from thermocline.hot.positions import number, text
from thermocline.hot.rows import columns_of_all, missing_of
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection

    from thermocline.hot.maintenance import Finding

PUBLICATION = "thermocline"
P = ParamSpec("P")
T = TypeVar("T")


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
    def move_to(self, timeline: int) -> None:
        """The server was promoted, and its history is the one that the lake holds."""
        self._session.execute("UPDATE thermocline.stream SET timeline = %s", [timeline])
        self._session.commit()

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
    def disown(self) -> None:
        """Let the next feed come. The end of the session would do it too, but some time after it was asked for."""
        with suppress(psycopg.Error):  # then there is no session that could own anything
            self._session.rollback()
            self._session.execute(query("feed_disown"))
            self._session.commit()

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Own the stream while the block lasts; what it has done is committed before anybody else comes."""
        self.own()
        try:
            yield
            self._session.commit()
        finally:
            self.disown()

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
            kind = "feed_create_failover_slot" if self._session.info.server_version >= 170000 else "feed_create_slot"
            self._session.execute(query(kind), {"slot": slot})
            self._session.commit()
        except pg.QueryCanceled as error:
            self._session.rollback()
            raise SlotWaits from error
        except (pg.ConfigurationLimitExceeded, pg.ObjectNotInPrerequisiteState, pg.InsufficientPrivilege) as error:
            self._session.rollback()  # no slot is free, wal_level is not logical, the role lacks REPLICATION
            raise SlotRefused(f"The replication slot {slot} cannot be made: {error.diag.message_primary}.") from error

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
        """Every table that is synced and not set aside; two statements, however many there are."""
        rows = self._session.execute(query("feed_tables")).fetchall()
        columns = columns_of_all(self._session, [row[-1] for row in rows]) if rows else {}
        self._session.commit()
        return [TableState.told(row, columns[row[-1]]) for row in rows]

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
            dsn, stream.slot, stream.publication, end, {one.published: one for one in tables}, self.forms(), bytes(seal)
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
        self._require_ownership()
        self._session.execute(query("feed_set_aside"), {"table": table, "reason": reason})
        self._session.commit()

    @_in_turn
    def hold_back(self, reasons: Mapping[int, str]) -> None:
        """These tables wait for the lake, each for its reason, and no others do."""
        arguments = {"tables": list(reasons), "reasons": list(reasons.values())}
        self._session.execute(query("feed_hold_back"), arguments)
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
        self._session.execute("SELECT thermocline._unmirrored()")
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
    def unlogged(self) -> tuple[str, ...]:
        """Chunks that are not logged: they count as covered by nothing, and no state of their tables is known."""
        names = tuple(name for (name,) in self._session.execute(query("feed_unlogged")))
        self._session.commit()
        return names

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

    @_in_turn
    def mark_sound(self) -> None:
        """Of tables whose chunks are all covered now the lake has everything, as far as it has come."""
        self._session.execute(query("feed_sound"))
        self._session.commit()

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
        tables: Mapping[int, datetime],
        commits: Sequence[Commit],
        created: Sequence[tuple[int, int, int | None, int | None]] = (),
        truncated: Sequence[tuple[int, int, int]] = (),
        troubles: Mapping[int, str] | None = None,
        reached: Callable[[int], datetime | None] = lambda _: None,
    ) -> int:
        """Progress of a batch of these tables that is in the lake; returns up to where every table is.

        `tables` have the time that each was joined at when it was read: what has joined anew since then is passed by.
        `reached` tells the moment before which nothing was committed above a position.
        """
        self._require_ownership()
        crash_point("record.begun")
        for table, reason in (troubles or {}).items():
            self._session.execute(query("feed_set_aside"), {"table": table, "reason": reason})
        self._record_commits(commits)
        self._record_writes(commits)
        progress = {
            "end": text(end),
            "tables": list(tables),
            "joined": list(tables.values()),
            "current_at": reached(end),
        }
        self._session.execute(query("feed_record_progress"), progress)
        self._record_chunks("feed_record_created", ("files", "attached"), created)
        self._record_chunks("feed_record_truncated", ("files",), truncated)
        position = self._record_position(end, reached)
        self._session.execute(query("feed_prune_batches"))
        crash_point("record.before_commit")
        self._session.commit()
        return position

    def _record_chunks(self, name: str, names: Sequence[str], told: Sequence[tuple[int | None, ...]]) -> None:
        """What the stream told of chunks: of each its oid, its position, and what is named."""
        if told:
            chunks, positions, *others = zip(*told, strict=True)
            of = {"chunks": list(chunks), "positions": [text(at or 0) for at in positions]}
            self._session.execute(
                query(name), of | {one: list(values) for one, values in zip(names, others, strict=True)}
            )

    @_in_turn
    def record_copies(self, copied: Sequence[Copied], commit: Commit) -> None:
        """Chunks are covered from their copies on."""
        self._require_ownership()
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
                    "attached": one.attached,
                    "joined": commit.joined_at,
                },
            )
        crash_point("copy.before_record")
        self._session.commit()

    @_in_turn
    def adopt(self, commits: Sequence[Commit]) -> None:
        """Commits that are in the lake and were not recorded before a crash."""
        self._require_ownership()
        self._record_commits(commits)
        crash_point("feed.adopting")
        self._session.commit()

    def _require_ownership(self) -> None:
        if self._session.execute(query("feed_record_owned"), {"epoch": self.epoch}).fetchone() is None:
            self._session.rollback()
            raise OwnershipLost

    def _record_position(self, end: int, reached: Callable[[int], datetime | None]) -> int:
        """The stream is where the last of its tables is."""
        row = self._session.execute(query("feed_settled"), {"end": text(end)}).fetchone()
        position = number(row[0]) if row else 0
        told = {"position": text(position), "current_at": reached(position)}
        self._session.execute(query("feed_record_position"), told)
        return position

    def _record_commits(self, commits: Sequence[Commit]) -> None:
        if commits:
            self._session.execute(
                query("feed_record_commits"),
                {
                    "tables": [one.table for one in commits],
                    "markers": [text(one.marker) for one in commits],
                    "snapshots": [one.snapshot_id for one in commits],
                    "entries": [one.entries for one in commits],
                    "joined": [one.joined_at for one in commits],
                },
            )

    def _record_writes(self, commits: Sequence[Commit]) -> None:
        touched = [
            (commit.table, one.first, one.last, text(one.position)) for commit in commits for one in commit.touched
        ]
        if touched:
            names = ("tables", "firsts", "lasts", "positions")
            columns = (list(values) for values in zip(*touched, strict=True))
            self._session.execute(query("feed_record_writes"), dict(zip(names, columns, strict=True)))

    @_in_turn
    def want(self, position: int) -> None:
        """Let the next batch come at once, with every table, if it is not to come already."""
        self._session.execute(query("feed_want"), {"position": text(position)})
        self._session.commit()

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
        except pg.UndefinedObject:  # gone with the last table, or else the next look at it tells
            self._session.rollback()

    # ---- small ---------------------------------------------------------------------------

    def _row(self, name: str) -> tuple[Any, ...]:
        return self._row_of(query(name))

    def _row_of(self, statement: Any) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._session.execute(statement).fetchone()
        self._session.commit()
        if row is None:
            raise Refused("PostgreSQL gave no answer to a question that always has one.")
        return row
