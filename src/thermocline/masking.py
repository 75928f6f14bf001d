"""Secrets: which names hold one, and how a text or an address is shown without it."""

from __future__ import annotations

import re

# Names of secrets, wherever they stand: in settings, in texts, in Spark's configuration.
SECRET_NAMES = (
    r"password|passwd|secret|token|credential|authorization|signature|connection-string|account-key|access-key"  # noqa: S105 (names, not values)
)
# A property with "key" in its name is masked as well; in a running text that word means too much else.
_NAME = re.compile(f"{SECRET_NAMES}|key", re.IGNORECASE)
# Up to the last @ of the word: a password in which an @ was not escaped must not show its end.
_IN_URI = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s:/@]*:)\S+(?=@)", re.IGNORECASE)
_IN_PAIR = re.compile(
    rf"(?P<before>[\w.-]*(?:{SECRET_NAMES})[\w.-]*[\"']?\s*[=:]\s*)"
    r"(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|(?:\\.|[^\s&])+)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a property of this name is to be masked wherever it is shown."""
    return bool(_NAME.search(name.replace("_", "-")))


def masked(text: str) -> str:
    """The text with every password in it replaced by three stars."""
    return _IN_PAIR.sub(r"\g<before>***", _IN_URI.sub(r"\g<before>***", text))


def masked_address(dsn: str) -> str:
    """A PostgreSQL address without its secrets; nothing of one that cannot be understood."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    except (ProgrammingError, UnicodeDecodeError):  # the latter for a %-escape that is no UTF-8
        return "***"
    # An unescaped @ or / in a password moves its end into another part; then nothing can be shown safely.
    if "@" in parts.get("host", "") + parts.get("dbname", "") or not parts.get("port", "0").isdigit():
        return "***"
    who = parts.pop("user", "") + (":***" if "password" in parts else "")
    place = parts.pop("host", "") + (f":{parts.pop('port')}" if "port" in parts else "")
    database = parts.pop("dbname", "")
    rest = "&".join(f"{key}={value}" for key, value in parts.items() if not is_secret(key))
    return f"postgresql://{who}{'@' if who else ''}{place}/{database}{'?' if rest else ''}{rest}"
