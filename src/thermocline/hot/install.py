"""Installs our SQL into a database, all of it or nothing: migrations once, functions anew; and removes it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

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
SCHEMAS = ("lakets", "thermocline")
CATALOG_SCHEMAS = ("thermocline_lake", "thermocline_cold")
_CREATE_TABLE = re.compile(r"create table (?:if not exists )?(\w+\.\w+)")


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


def installed(session: Connection) -> Installed | None:
    """The release in this database, if there is one."""
    if not _is_there(session, "thermocline.release"):
        return None
    row = session.execute(query("installed_release")).fetchone()
    return Installed(*row) if row else None


def check(present: Installed | None) -> Check:
    """What doctor says of the installed SQL."""
    release = Release()
    if present is None:
        return Check.warning("SQL", "not installed in this database", "`thermocline up` installs it.")
    if _newer(present.version, release.version):
        return Check.failed(
            "SQL", f"{present.version} is newer than this Thermocline", "Upgrade this Thermocline."
        )
    if present.sha256 != release.sha256:
        return Check.warning("SQL", f"{present.version} is not this one", "`thermocline up` upgrades it.")
    return Check.ok("SQL", present.version)


def install(dsn: str, release: Release | None = None, *, timeout: int = 10) -> bool:
    """Bring the database to this release; false when it was there already. All of it or nothing."""
    release = release or Release()
    with connect(dsn, timeout=timeout) as session:
        try:
            return _install(session, release)
        except pg.InsufficientPrivilege as error:
            raise ServerUnsuited(
                f"The role may not install Thermocline's SQL: {error.diag.message_primary}",
            ) from error


def _install(session: Connection, release: Release) -> bool:
    session.execute(query("install_lock"))
    if session.info.user in SCHEMAS:
        raise ServerUnsuited(
            f"The role {session.info.user} has the name of a schema of ours, so its own tables would"
            " land in it.",
            next_step="Use a role with another name in hot.dsn.",
        )
    present = installed(session)
    if present and _newer(present.version, release.version):
        raise NewerInstalled(f"The database holds Thermocline {present.version}; this is {release.version}.")
    if present and present.sha256 == release.sha256:
        return False
    _run_migrations(session, release)
    crash_point("install.migrated")
    for file in release.functions:
        _run(session, file)
    _drop_functions_of_before(session)
    session.execute(query("record_release"), {"version": release.version, "sha256": release.sha256})
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
            raise NewerInstalled(
                f"The database has run the migration {name}, which this Thermocline does not know."
            )
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
            next_step="An object of yours may be in the way in the schemas lakets or thermocline.",
        ) from error


def _drop_functions_of_before(session: Connection) -> None:
    """Functions that this release no longer has: those in our schemas that this transaction did not write."""
    for (function,) in session.execute(query("functions_of_before"), {"schemas": list(SCHEMAS)}):
        try:
            session.execute(f"DROP ROUTINE {function}")
        except pg.DependentObjectsStillExist as error:
            raise StillInUse(
                f"This release no longer has {function}, which is in use: {error.diag.message_detail}",
                next_step="Drop or change what uses it, then install again.",
            ) from error


def uninstall(dsn: str, *, timeout: int = 10) -> list[str]:
    """Take our schemas out. Refuses while anything of the user's depends on them; returns what was kept.

    Tables of users are never touched. A catalog that still lists lake tables is kept, because
    without it nobody would know where they are.
    """
    with connect(dsn, timeout=timeout) as session:
        session.execute(query("install_lock"))
        users = session.execute(query("users_objects_on_ours"), {"schemas": list(SCHEMAS)})
        in_the_way = [name for (name,) in users] + _tables_not_ours(session)
        if in_the_way:
            raise StillInUse(
                f"Objects of yours use Thermocline's or live among them: {', '.join(in_the_way)}.",
                next_step="Drop, change or move them, then uninstall again.",
            )
        kept = []
        for schema in CATALOG_SCHEMAS:
            if _is_there(session, f"{schema}.iceberg_tables") and (
                session.execute(f"SELECT 1 FROM {schema}.iceberg_tables LIMIT 1").fetchone()
            ):
                kept.append(schema)
            else:
                session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        for schema in SCHEMAS:
            session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        log.info("sql uninstalled", kept=kept)
    return kept


def _tables_not_ours(session: Connection) -> list[str]:
    ours = {name for file in statements.migrations() for name in _CREATE_TABLE.findall(file.text.lower())}
    found = session.execute(query("tables_in_schemas"), {"schemas": list(SCHEMAS)})
    return [f"table {name}" for (name,) in found if name not in ours]


def _is_there(session: Connection, relation: str) -> bool:
    row = session.execute("SELECT to_regclass(%s) IS NOT NULL", [relation]).fetchone()
    return bool(row and row[0])


def _newer(one: str, other: str) -> bool:
    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    return numbers(one) > numbers(other)
