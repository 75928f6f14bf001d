"""Whether a PostgreSQL server can carry Thermocline: facts in, checks with the exact change out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from thermocline.checks import Check, Verdict
from thermocline.errors import ServerUnsuited
from thermocline.hot.connection import NEWEST_MAJOR, OLDEST_MAJOR
from thermocline.hot.statements import query

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

LEAST_LOCKS = 1024
MOST_SKEW_SECONDS = 60


@dataclass(frozen=True)
class ServerFacts:
    """What one look at a server tells."""

    server_version_num: int
    wal_level: str
    max_locks_per_transaction: int
    max_connections: int
    max_replication_slots: int
    used_replication_slots: int
    max_wal_senders: int
    idle_replication_slot_timeout: str | None
    max_slot_wal_keep_size: str
    role: str
    may_replicate: bool
    database: str
    may_create: bool
    now: datetime
    fsync: str

    @property
    def version(self) -> str:
        """As people write it: 18.4."""
        return f"{self.server_version_num // 10000}.{self.server_version_num % 10000}"


def look(session: Connection) -> ServerFacts:
    """Ask the server, in one statement that needs no rights."""
    facts = session.cursor(row_factory=class_row(ServerFacts)).execute(query("server_facts")).fetchone()
    if facts is None:  # one row by construction
        raise AssertionError
    return facts


def judge(facts: ServerFacts, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> list[Check]:
    """Every requirement, met or not, with the statement that would meet it."""
    return [
        _version(facts),
        _wal_level(facts),
        _slots(facts),
        _senders(facts),
        _locks(facts),
        _replication(facts),
        _create(facts),
        _slot_limits(facts),
        _fsync(facts),
        _clock(facts, clock()),
    ]


def require(facts: ServerFacts) -> None:
    """Refuse a server that cannot carry Thermocline, with every reason at once."""
    failed = [check for check in judge(facts) if check.verdict is Verdict.FAILED]
    if failed:
        raise ServerUnsuited(
            "PostgreSQL cannot carry Thermocline as it is set up: "
            + "; ".join(check.found.rstrip(".") for check in failed)
            + ".",
            next_step="\n".join(check.fix or "" for check in failed),
        )


def _set(name: str, value: str) -> str:
    return f"As a superuser: ALTER SYSTEM SET {name} = {value}; then restart PostgreSQL."


def _reload(name: str, value: str) -> str:
    return f"As a superuser: ALTER SYSTEM SET {name} = {value}; then SELECT pg_reload_conf();"


def _version(facts: ServerFacts) -> Check:
    major = facts.server_version_num // 10000
    if major < OLDEST_MAJOR:
        return Check.failed("version", f"PostgreSQL {major}", f"Upgrade to {OLDEST_MAJOR} or newer.")
    if major > NEWEST_MAJOR:
        return Check.warning("version", f"PostgreSQL {major}", f"Only {OLDEST_MAJOR} to {NEWEST_MAJOR} are tested.")
    return Check.ok("version", f"PostgreSQL {major}")


def _wal_level(facts: ServerFacts) -> Check:
    if facts.wal_level != "logical":
        return Check.failed(
            "wal_level",
            f"wal_level is {facts.wal_level}; the change feed needs logical.",
            _set("wal_level", "'logical'"),
        )
    return Check.ok("wal_level", "logical")


def _slots(facts: ServerFacts) -> Check:
    left = facts.max_replication_slots - facts.used_replication_slots
    found = f"{facts.used_replication_slots} of {facts.max_replication_slots} replication slots used"
    if left < 1:
        wanted = facts.max_replication_slots + 4
        return Check.failed("replication slots", found, _set("max_replication_slots", str(wanted)))
    return Check.ok("replication slots", found)


def _senders(facts: ServerFacts) -> Check:
    found = f"max_wal_senders is {facts.max_wal_senders}"
    if facts.max_wal_senders < 1:
        return Check.failed("WAL senders", found, _set("max_wal_senders", "10"))
    return Check.ok("WAL senders", found)


def _locks(facts: ServerFacts) -> Check:
    found = f"max_locks_per_transaction is {facts.max_locks_per_transaction}"
    if facts.max_locks_per_transaction < LEAST_LOCKS:
        return Check.warning(
            "locks",
            f"{found}; a table of thousands of chunks cannot be dropped in one go with that.",
            _set("max_locks_per_transaction", str(LEAST_LOCKS)),
        )
    return Check.ok("locks", found)


def _replication(facts: ServerFacts) -> Check:
    if not facts.may_replicate:
        return Check.failed(
            "replication right",
            f"The role {facts.role} may not use replication slots.",
            f"As a superuser: ALTER ROLE {_quoted(facts.role)} REPLICATION;",
        )
    return Check.ok("replication right", f"{facts.role} has REPLICATION")


def _create(facts: ServerFacts) -> Check:
    if not facts.may_create:
        return Check.failed(
            "create right",
            f"The role {facts.role} may not create schemas in {facts.database}.",
            f"As its owner: GRANT CREATE ON DATABASE {_quoted(facts.database)} TO {_quoted(facts.role)};",
        )
    return Check.ok("create right", f"{facts.role} may create schemas in {facts.database}")


def _slot_limits(facts: ServerFacts) -> Check:
    if facts.idle_replication_slot_timeout not in (None, "0"):
        return Check.warning(
            "slot limits",
            f"idle_replication_slot_timeout is {facts.idle_replication_slot_timeout}: a slot that is"
            " read now and then may be thrown away, and the lake must then be copied again.",
            _reload("idle_replication_slot_timeout", "0"),
        )
    return Check.ok("slot limits", f"max_slot_wal_keep_size is {facts.max_slot_wal_keep_size}")


def _fsync(facts: ServerFacts) -> Check:
    if facts.fsync != "on":
        return Check.warning(
            "fsync",
            "fsync is off: a power cut may lose what PostgreSQL called committed.",
            _reload("fsync", "on"),
        )
    return Check.ok("fsync", "on")


def _clock(facts: ServerFacts, here: datetime) -> Check:
    skew = abs((facts.now - here).total_seconds())
    if skew > MOST_SKEW_SECONDS:
        return Check.warning(
            "clock",
            f"The clocks of this machine and of PostgreSQL differ by {skew:.0f} s.",
            "Set both by NTP: times of the database rule, times in logs would mislead.",
        )
    return Check.ok("clock", f"within {max(skew, 1):.0f} s of this machine's")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
