"""Logs: JSON lines into a file in the home, plain words on a terminal when asked, never a secret."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import structlog

from thermocline.masking import is_secret, masked

if TYPE_CHECKING:
    from pathlib import Path


def _mask_event(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {key: _mask_value(key, value) for key, value in event.items()}


def _mask_value(key: str, value: Any) -> Any:
    if is_secret(key):
        return "***"
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {inner: _mask_value(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_value(key, item) for item in value]
    return value


def set_up(home: Path, level: str = "info", *, verbose: bool = False) -> Path | None:
    """Send logs to `home/logs/thermocline.log`, and to stderr when verbose. Returns the file, if it can be had."""
    before_rendering: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask_event,
    ]
    root = logging.getLogger("thermocline")
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.propagate = False
    root.setLevel(logging.DEBUG)
    file: Path | None = home / "logs" / "thermocline.log"
    try:
        _private_file(home / "logs" / "thermocline.log")
        to_file = logging.handlers.RotatingFileHandler(
            home / "logs" / "thermocline.log", maxBytes=10_000_000, backupCount=5, encoding="utf-8"
        )
    except OSError:
        file = None  # the command itself says so, with a next step, when it needs the home
    else:
        to_file.setLevel(level.upper())
        to_file.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                processor=structlog.processors.JSONRenderer(), foreign_pre_chain=before_rendering
            )
        )
        root.addHandler(to_file)
    if verbose:
        to_terminal = logging.StreamHandler(sys.stderr)
        to_terminal.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                processor=structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
                foreign_pre_chain=before_rendering,
            )
        )
        root.addHandler(to_terminal)
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    structlog.configure(
        processors=[*before_rendering, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return file


def _private_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a room: `log = get(__name__)`."""
    return structlog.stdlib.get_logger(name)  # type: ignore[no-any-return]
