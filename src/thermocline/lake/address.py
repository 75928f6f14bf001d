"""One PostgreSQL address in the forms that the lake's engines want: JDBC's and SQLAlchemy's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from thermocline.errors import Misconfigured

# Whatever the database is set to: a catalog's session may wait as long as it is needed.
_PATIENT = (
    "idle_session_timeout=0",
    "idle_in_transaction_session_timeout=0",
    "statement_timeout=0",
    "default_transaction_read_only=off",
    r"default_transaction_isolation=read\ committed",
    "default_transaction_deferrable=off",
)
# Options of a libpq address that the JDBC driver understands by the same name.
_SAME_IN_JDBC = ("sslmode", "sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True)
class PostgresAddress:
    """Where a PostgreSQL database is and who we are there."""

    host: str
    port: str
    database: str
    user: str
    password: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, dsn: str, whose: str) -> PostgresAddress:
        """From a libpq address; refuses what JDBC cannot express, naming whose address it is."""
        advice = "Write it as postgresql://user:password@host:5432/database."
        try:
            parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value}
        except (ProgrammingError, UnicodeDecodeError) as error:
            raise Misconfigured(f"The address of {whose} cannot be understood.", next_step=advice) from error
        if "service" in parts:
            raise Misconfigured(f"The address of {whose} names a service; Spark cannot look it up.", next_step=advice)
        host = parts.get("host", "localhost")
        if host.startswith("/") or "," in host:
            raise Misconfigured(f"The address of {whose} names {host!r}; Spark needs one TCP host.", next_step=advice)
        if "user" not in parts:
            raise Misconfigured(f"The address of {whose} names no user.", next_step=advice)
        return cls(
            host=host,
            port=parts.get("port", "5432"),
            database=parts.get("dbname", parts["user"]),
            user=parts["user"],
            password=parts.get("password", ""),
            options=tuple((key, parts[key]) for key in _SAME_IN_JDBC if key in parts),
        )

    @property
    def folder_name(self) -> str:
        """A name for a folder of this server's, readable and without surprises."""
        return re.sub(r"[^A-Za-z0-9.-]", "_", f"{self.host}-{self.port}-{self.database}")

    def jdbc_url(self, schema: str | None = None) -> str:
        """For Java; user and password go beside it, never into it."""
        options = dict(self.options) | {"options": " ".join(f"-c {one}" for one in _PATIENT)}
        options |= {"currentSchema": schema} if schema else {}
        return f"jdbc:postgresql://{self._place}?{urlencode(options, quote_via=quote)}"

    def sqlalchemy_url(self, schema: str | None = None) -> str:
        """For SQLAlchemy on psycopg."""
        settings = (*_PATIENT, *([f"search_path={schema}"] if schema else []))
        options = dict(self.options) | {"options": " ".join(f"-c {one}" for one in settings)}
        who = quote(self.user, safe="") + (":" + quote(self.password, safe="") if self.password else "")
        return f"postgresql+psycopg://{who}@{self._place}?{urlencode(options, quote_via=quote)}"

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{quote(self.database, safe='')}"
