"""Connections to the hot tier: opened in one place, where the driver's errors become ours."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from thermocline.errors import Busy, Misconfigured, PasswordRejected, Refused, ServerUnsuited, Unreachable
from thermocline.masking import is_secret, masked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

OLDEST_MAJOR, NEWEST_MAJOR = 15, 18
_FORM = (
    "Write it as postgresql://user:password@host:5432/database, with @ : / ? # and % in the password as"
    " %40 %3A %2F %3F %23 and %25."
)

# libpq reports what happened before a session stands as text only.
_REJECTED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
_BUSY = ("too many clients", "remaining connection slots", "too many connections")
_NOT_YET = ("the database system is starting up", "the database system is shutting down")


class Lender(Protocol):
    """Who has sessions to lend to this thread."""

    dsn: str

    def session(self, *, autocommit: bool) -> AbstractContextManager[psycopg.Connection]:
        """One of them, for a block."""


lender: ContextVar[Lender | None] = ContextVar("lender", default=None)


@contextmanager
def connect(dsn: str, *, timeout: int = 10, autocommit: bool = False) -> Iterator[psycopg.Connection]:
    """A session for a block, lent to this thread or new: committed when the block ends well, rolled back otherwise."""
    lends = lender.get()
    session, user = None, ""
    try:
        with (
            lends.session(autocommit=autocommit)
            if lends is not None and lends.dsn == dsn
            else open_session(dsn, timeout=timeout, autocommit=autocommit)
        ) as session:
            user = session.info.user
            yield session
    except (pg.AdminShutdown, pg.CrashShutdown) as error:
        raise Unreachable(f"PostgreSQL at {where(dsn)} went away: {_first_line(error)}") from error
    except (pg.LockNotAvailable, pg.QueryCanceled) as error:
        raise Busy(f"PostgreSQL at {where(dsn)} is busy with something else: {_first_line(error)}") from error
    except pg.InsufficientPrivilege as error:
        raise ServerUnsuited(
            f"The role {user} may not do that: {error.diag.message_primary}.",
            next_step="Connect as the role that installed Thermocline, or as the owner of the database.",
        ) from error
    except pg.RaiseException as error:  # our own functions refuse in words
        raise Refused(f"{error.diag.message_primary}.", next_step=error.diag.message_hint) from error
    except psycopg.OperationalError as error:
        if error.sqlstate is None and session is not None and session.broken:
            raise Unreachable(f"PostgreSQL at {where(dsn)} went away: {_first_line(error)}") from error
        raise


def check_dsn(dsn: str) -> dict[str, str]:
    """The parts of a DSN; refuses one that cannot be understood, without repeating any of it."""
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    except (psycopg.ProgrammingError, UnicodeDecodeError) as error:
        raise Misconfigured("hot.dsn is not a PostgreSQL connection string.", next_step=_FORM) from error
    host, port = parts.get("host", ""), parts.get("port", "")
    if "@" in host + parts.get("dbname", "") or (port and not port.replace(",", "").isdigit()):
        raise Misconfigured("Host or port in hot.dsn cannot be understood.", next_step=_FORM)
    return parts


def without_secrets(dsn: str) -> str:
    """The same address without its password and the like."""
    return make_conninfo(**{key: value for key, value in check_dsn(dsn).items() if not is_secret(key)})


def where(dsn: str) -> str:
    """Host, port and database of a DSN, for messages."""
    parts = check_dsn(dsn)
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', '5432')}"
    return f"{place}/{parts.get('dbname', parts.get('user', ''))}"


# Whatever the caller, the role or the database is set to: we read times as ISO, intervals in PostgreSQL's own style and
# names as they are, a statement sees what was committed before it, what we record is on the disk when it is committed,
# and nobody ends a session of ours that waits for another one.
OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "datestyle=ISO",
        "intervalstyle=postgres",
        "quote_all_identifiers=off",
        r"default_transaction_isolation=read\ committed",
        "default_transaction_deferrable=off",
        "synchronous_commit=on",
        "default_transaction_read_only=off",
        "statement_timeout=0",
        "idle_in_transaction_session_timeout=0",
        "idle_session_timeout=0",
    )
)
# How values are written that go to the lake as texts.
PLAINLY = "-c timezone=UTC -c intervalstyle=iso_8601 -c bytea_output=hex -c extra_float_digits=1"
# Not every version that we support knows it, so it cannot stand among the options.
NO_TRANSACTION_TIMEOUT = (
    "SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('server_version_num')::int >= 170000"
)


def open_session(dsn: str, *, timeout: int, autocommit: bool = False) -> psycopg.Connection:
    """A new session, which its caller ends."""
    parts = check_dsn(dsn)
    parts.setdefault("connect_timeout", str(timeout))
    parts.setdefault("application_name", "thermocline")
    parts["client_encoding"] = "utf8"
    parts["options"] = f"{parts.get('options', '')} {OPTIONS}".strip()
    try:
        session = psycopg.connect(make_conninfo(**parts), autocommit=autocommit)
        without_transaction_timeout(session)
    except psycopg.OperationalError as error:
        raise _classified(error, dsn) from error
    except (psycopg.Error, ValueError) as error:
        raise Misconfigured("hot.dsn cannot be used: one of its options has a wrong value.", next_step=_FORM) from error
    major = session.info.server_version // 10000
    if major < OLDEST_MAJOR:
        session.close()
        raise ServerUnsuited(
            f"PostgreSQL at {where(dsn)} is version {major}; Thermocline needs {OLDEST_MAJOR} to {NEWEST_MAJOR}.",
            next_step="Upgrade the server, or unset hot.dsn to use the embedded one.",
        )
    return session


def without_transaction_timeout(session: psycopg.Connection) -> None:
    """So that it lasts as long as it takes."""
    try:
        session.execute(NO_TRANSACTION_TIMEOUT)
        session.commit()
    except BaseException:
        session.close()
        raise


def _classified(error: psycopg.OperationalError, dsn: str) -> Unreachable | PasswordRejected | Misconfigured | Busy:
    said = masked(_first_line(error))
    if any(text in said for text in _REJECTED):
        return PasswordRejected(f"PostgreSQL at {where(dsn)} does not let us in: {said}")
    if 'database "' in said and "does not exist" in said:
        return Misconfigured(
            f"PostgreSQL at {where(dsn)} has no such database: {said}",
            next_step="Create the database, or correct its name in hot.dsn.",
        )
    if any(text in said for text in _BUSY + _NOT_YET):
        return Busy(f"PostgreSQL at {where(dsn)} takes no session now: {said}")
    return Unreachable(f"PostgreSQL at {where(dsn)} cannot be reached: {said}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
