"""What doctor finds: one check, what was found, and exactly what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from thermocline.errors import ExitCode, ThermoclineError


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    found: str
    fix: str | None = None
    exit_code: ExitCode = ExitCode.CONFIGURATION

    @classmethod
    def ok(cls, name: str, found: str) -> Check:
        """It is as it should be."""
        return cls(name, Verdict.OK, found)

    @classmethod
    def warning(cls, name: str, found: str, fix: str) -> Check:
        """It works, and could be better."""
        return cls(name, Verdict.WARNING, found, fix)

    @classmethod
    def failed(cls, name: str, found: str, fix: str) -> Check:
        """Thermocline cannot do its work like this."""
        return cls(name, Verdict.FAILED, found, fix)

    @classmethod
    def from_error(cls, name: str, error: ThermoclineError) -> Check:
        """A failure that was met while looking."""
        return cls(name, Verdict.FAILED, error.message, error.next_step, error.exit_code)
