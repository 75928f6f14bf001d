"""Logs: JSON lines into a file in the home, plain words on a terminal when asked, never a secret."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from thermocline.masking import is_secret, masked

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_ROOT = logging.getLogger("thermocline")
_ROOT.addHandler(logging.NullHandler())  # as a library we are silent until told otherwise


def _mask_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
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


_PROCESSORS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    _mask_event,
]


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a room: `log = get(__name__)`. Leaves the host program's logging alone."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            *_PROCESSORS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


def set_up(home: Path, level: str = "info", *, verbose: bool = False) -> None:
    """Log into `home/logs/thermocline.log` once there is a home, and to stderr when verbose."""
    for handler in list(_ROOT.handlers):
        _ROOT.removeHandler(handler)
        handler.close()
    _ROOT.propagate = False
    _ROOT.setLevel(level.upper())
    to_file = _HomeHandler(home)
    to_file.setFormatter(_formatter(structlog.processors.JSONRenderer()))
    _ROOT.addHandler(to_file)
    if verbose:
        to_terminal = logging.StreamHandler(sys.stderr)
        to_terminal.setFormatter(_formatter(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())))
        _ROOT.addHandler(to_terminal)


class _HomeHandler(logging.handlers.RotatingFileHandler):
    """A private file in the home. It makes no home, and one that cannot be written to stops nobody."""

    def __init__(self, home: Path) -> None:
        self._home = home
        file = home / "logs" / "thermocline.log"
        super().__init__(file, maxBytes=10_000_000, backupCount=5, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write, where there is a home to write into."""
        if self._home.is_dir():
            super().emit(record)

    def _open(self) -> Any:
        Path(self.baseFilename).parent.mkdir(exist_ok=True)
        Path(self.baseFilename).touch(mode=0o600)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        """Stay silent when the disk is full or closed to us: the command says so, with a next step."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _formatter(renderer: Any) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=_PROCESSORS)
