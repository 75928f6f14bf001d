"""Secrets: which names hold one, and how a text is shown without it."""

from __future__ import annotations

import re

_WORDS = ("secret", "password", "passwd", "token", "credential", "access-key")
_IN_URI = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@]+(?=@)", re.IGNORECASE)
_IN_PAIR = re.compile(
    r"(?P<before>[\w.-]*(?:password|passwd|secret|token|credential|access[-_]key)[\w.-]*[\"']?\s*[=:]\s*)"
    r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;&)}]+)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a property of this name is to be masked wherever it is shown."""
    return any(word in name.lower().replace("_", "-") for word in _WORDS)


def masked(text: str) -> str:
    """The text with every password in it replaced by three stars."""
    return _IN_PAIR.sub(r"\g<before>***", _IN_URI.sub(r"\g<before>***", text))
