"""Installs our SQL into a database, all of it or nothing: migrations once, functions anew; and removes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from thermocline import __version__
from thermocline import log as logs
from thermocline.checks import Check
from thermocline.crash import crash_point
from thermocline.errors import MigrationEdited, NewerInstalled, Refused, ServerUnsuited, StillInUse
from thermocline.hot import statements
from thermocline.hot.connection import connect
from thermocline.hot.statements import SqlFile, query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

log = logs.get(__name__)

# Ours, and dropped by uninstall. The catalogs' schemas are not here: they know where the lake is.
SCHEMAS = ("lakets", "thermocline", "wal2delta", "lakets_cdf")
CATALOG_SCHEMAS = ("thermocline_lake", "thermocline_cold")
_REINSTALL = "It was removed by hand. `thermocline uninstall --yes`, then `thermocline up`, makes it anew."


@dataclass(frozen=True)
class Release:
    """What an install puts into a database."""

    version: str = __version__
    migrations: Sequence[SqlFile] = field(default_factory=statements.migrations)
    functions: Sequence[SqlFile] = field(default_factory=statements.functions)

    @property
    def sha256(self) -> str:
        """One hash over everything, to see at once that nothing is to be done."""
        parts = [f"{file.name} {file.sha256}" for file in (*self.migrations, *self.functions)]
        return hashlib.sha256("\n".join([self.version, *parts]).encode()).hexdigest()


@dataclass(frozen=True)
class Installed:
    """What a database holds."""

    version: str
    sha256: str
    objects: tuple[str, ...]
    missing: tuple[str, ...]


def installed(session: Connection) -> Installed | None:
    """The release in this database, if there is one."""
    if not _is_there(session, "thermocline.release"):
        return None
    row = session.execute(query("installed_release")).fetchone()
    if row is None:
        return None
    version, sha256, objects = row
    there = set(_objects(session))
    return Installed(version, sha256, tuple(objects), tuple(name for name in objects if name not in there))


def is_current(session: Connection) -> bool:
    """Whether an install would have nothing to do."""
    present = installed(session)
    return present is not None and not present.missing and present.sha256 == Release().sha256


def check(present: Installed | None) -> Check:
    """What doctor says of the installed SQL."""
    release = Release()
    if present is None:
        return Check.warning("SQL", "not installed in this database", "`thermocline up` installs it.")
    if _newer(present.version, release.version):
        return Check.failed("SQL", f"{present.version} is newer than this Thermocline", "Upgrade this Thermocline.")
    if present.missing:
        return Check.failed("SQL", f"{present.version}, but {_gone(present)}", _REINSTALL)
    if present.sha256 != release.sha256:
        return Check.warning("SQL", f"{present.version} is not this one", "`thermocline up` upgrades it.")
    return Check.ok("SQL", present.version)


def install(dsn: str, release: Release | None = None, *, timeout: int = 10) -> bool:
    """Bring the database to this release; false when it was there already. All of it or nothing."""
    release = release or Release()
    with connect(dsn, timeout=timeout) as session:
        return _install(session, release)


def _install(session: Connection, release: Release) -> bool:
    session.execute(query("install_lock"))
    if session.info.user in (*SCHEMAS, *CATALOG_SCHEMAS):
        raise ServerUnsuited(
            f"The role {session.info.user} has the name of a schema of ours, so its own tables would land in it.",
            next_step="Use a role with another name in hot.dsn.",
        )
    present = installed(session)
    if present and _newer(present.version, release.version):
        raise NewerInstalled(f"The database holds Thermocline {present.version}; this is {release.version}.")
    if present and present.missing:
        raise Refused(f"The database holds Thermocline {present.version}, but {_gone(present)}.", next_step=_REINSTALL)
    if present and present.sha256 == release.sha256:
        return False
    before = set(_objects(session))
    _run_migrations(session, release)
    crash_point("install.migrated")
    session.execute("SET LOCAL check_function_bodies = off")  # they may call one another, in whichever order they come
    for file in release.functions:
        _run(session, file)
    _drop_functions_of_before(session, present)
    if any(file.name == "_grant_roles" for file in release.functions):
        session.execute("SELECT thermocline._grant_roles()")
    session.execute(
        query("record_release"),
        {"version": release.version, "sha256": release.sha256, "objects": _made_by(session, present, before)},
    )
    crash_point("install.before_commit")
    session.commit()
    log.info("sql installed", version=release.version, before=present and present.version)
    return True


def _run_migrations(session: Connection, release: Release) -> None:
    done: dict[str, str] = {}
    if _is_there(session, "thermocline.migration"):
        done = dict(session.execute(query("migrations_done")).fetchall())
    known = {file.name for file in release.migrations}
    for name in done:
        if name not in known:
            raise NewerInstalled(f"The database has run the migration {name}, which this Thermocline does not know.")
    for file in release.migrations:
        if file.name not in done:
            _run(session, file)
            session.execute(query("record_migration"), {"name": file.name, "sha256": file.sha256})
        elif done[file.name] != file.sha256:
            raise MigrationEdited(f"The migration {file.name} was changed after this database had run it.")


def _run(session: Connection, file: SqlFile) -> None:
    try:
        session.execute(file.statement)
    except pg.InsufficientPrivilege:
        raise
    except psycopg.Error as error:
        raise Refused(
            f"Installing {file.name}.sql failed, so nothing was installed: {error}",
            next_step="Something in the schemas lakets or thermocline may be in the way; if it is what is left"
            " of a Thermocline, `thermocline uninstall --yes` removes it.",
        ) from error


def _drop_functions_of_before(session: Connection, before: Installed | None) -> None:
    """Functions that the release before recorded and this one no longer has. A user's own are not touched."""
    kept = {name for (name,) in session.execute(query("functions_of_this_transaction"), {"schemas": list(SCHEMAS)})}
    known = {name for name in (before.objects if before else ()) if name.startswith("function ")}
    gone = [name.partition(" ")[2] for name in _objects(session) if name in known - kept]
    try:
        _drop(session, "function", gone)  # all at once: one may be bound to another
    except pg.DependentObjectsStillExist as error:
        raise StillInUse(
            f"This release no longer has a function that is in use: {error.diag.message_detail}",
            next_step="Drop or change what uses it, then install again.",
        ) from error


def uninstall(dsn: str, *, timeout: int = 10) -> list[str]:
    """Take out what we installed, object by object; returns the catalogs that were kept.

    Nothing is dropped by cascade: whatever of the user's depends on ours or lives in our schemas stands
    in the way, is named, and nothing happens. A catalog that lists anything is kept, because without
    it nobody would know where the lake is.
    """
    with connect(dsn, timeout=timeout) as session:
        session.execute(query("install_lock"))
        try:
            present = installed(session)
            _require_no_tables(session)
            slots = _slots(session)
            there = set(_objects(session))
            ours = [name for name in (present.objects if present else ()) if name in there]
            # Triggers of tables call functions, and functions take rows of tables: so neither can go first with them.
            for trigger, schema, table in session.execute(query("our_triggers"), {"schemas": list(SCHEMAS)}).fetchall():
                names = (sql.Identifier(trigger), sql.Identifier(schema, table))
                session.execute(sql.SQL("DROP TRIGGER {} ON {}").format(*names))
            for kind in ("view", "function", "table"):
                _drop(session, kind, [name.partition(" ")[2] for name in ours if name.startswith(f"{kind} ")])
            kept = [schema for schema in CATALOG_SCHEMAS if not _drop_catalog(session, schema)]
            for schema in SCHEMAS:
                session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} RESTRICT").format(sql.Identifier(schema)))
            session.execute("DROP PUBLICATION IF EXISTS thermocline")
            session.execute(query("uninstall_roles"))
            for slot in slots:  # last of all: its end cannot be undone
                session.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        except pg.DependentObjectsStillExist as error:
            raise StillInUse(
                f"Something of yours is in the way: {error.diag.message_primary}. {error.diag.message_detail or ''}",
                next_step="Drop, change or move it, then uninstall again. Nothing was removed.",
            ) from error
        log.info("sql uninstalled", kept=kept)
    return kept


def _require_no_tables(session: Connection) -> None:
    """A ChronoTable cannot live without us: its owner says what is to become of it."""
    if _is_there(session, "lakets._chronotable_registry"):
        found = session.execute(
            "SELECT schema_name, table_name FROM lakets._chronotable_registry ORDER BY 1, 2"
        ).fetchall()
        if found:
            listed = ", ".join(f"{schema}.{table}" for schema, table in found)
            raise StillInUse(
                f"There are ChronoTables: {listed}.",
                next_step="Copy what you need to plain tables, then SELECT lakets.drop_chronotable(table, schema)"
                " for each. What is in the lake stays.",
            )


def _slots(session: Connection) -> list[str]:
    """The slot of the feed, which must not be running, if there is one."""
    if not _is_there(session, "thermocline.stream"):
        return []
    slots = [slot for (slot,) in session.execute(query("feed_slots_unused"))]
    if None in slots:
        raise StillInUse("A feed is running.", next_step="Stop it, then uninstall again.")
    return slots


def _drop(session: Connection, kind: str, names: list[str]) -> None:
    if names:
        listed = sql.SQL(", ").join(_literally(name) for name in names)
        word = "ROUTINE" if kind == "function" else kind.upper()  # an aggregate is a routine, but not a function
        session.execute(sql.SQL("DROP {} {} RESTRICT").format(_literally(word), listed))


def _drop_catalog(session: Connection, schema: str) -> bool:
    """True if the catalog is gone; locked before it is looked at, so that nobody adds to it meanwhile."""
    tables = [f"{schema}.iceberg_tables", f"{schema}.iceberg_namespace_properties"]
    tables = [table for table in tables if _is_there(session, table)]
    for table in tables:
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(_literally(table)))
    if any(session.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(_literally(table))).rowcount for table in tables):
        return False
    _drop(session, "table", tables)
    session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} RESTRICT").format(sql.Identifier(schema)))
    return True


def _literally(text: str) -> sql.SQL:
    """Text that PostgreSQL itself gave us as the quoted name of an object, or a constant of ours."""
    trusted: Any = text
    return sql.SQL(trusted)


def _objects(session: Connection) -> list[str]:
    return [name for (name,) in session.execute(query("our_objects"), {"schemas": list(SCHEMAS)})]


def _made_by(session: Connection, present: Installed | None, before: set[str]) -> list[str]:
    """What is ours now: what was ours and is still there, and what this install made or wrote anew."""
    written = {name for (name,) in session.execute(query("functions_of_this_transaction"), {"schemas": list(SCHEMAS)})}
    known = set(present.objects) if present else set()
    return [name for name in _objects(session) if name not in before or name in written or name in known]


def _gone(present: Installed) -> str:
    more = f" and {len(present.missing) - 1} more are" if len(present.missing) > 1 else " is"
    return f"{present.missing[0]}{more} gone"


def _is_there(session: Connection, relation: str) -> bool:
    row = session.execute("SELECT to_regclass(%s) IS NOT NULL", [relation]).fetchone()
    return bool(row and row[0])


def _newer(one: str, other: str) -> bool:
    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    return numbers(one) > numbers(other)
