"""What PostgreSQL takes as text and as JSON, made of whatever a job or an error says."""

from __future__ import annotations

import math
from typing import Any


def plain_text(text: str) -> str:
    """NUL and halves of surrogate pairs, which no text of PostgreSQL holds, are shown as Python writes them."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> Any:
    """The same for a value that becomes JSON, which has no NaN and no infinity either: they become null."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
