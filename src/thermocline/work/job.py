"""What a job is: which tables it is for, a plan with reasons, and the carrying out of exactly that plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from thermocline.errors import ThermoclineError

if TYPE_CHECKING:
    from thermocline.work.units import Claim

# Jobs of this class share seats and a budget over all nodes; those of no class are light and run as they come.
MAINTENANCE = "maintenance"


class Hopeless(ThermoclineError):
    """The work cannot succeed, however often it is tried."""

    code = "work.hopeless"
    next_step_by_default = "`thermocline work show` has the unit and its last error."


@dataclass(frozen=True)
class Target:
    """What a unit is about: a ChronoTable, with the name that it has now, or the whole database."""

    id: int | None = None
    table: str | None = None
    """Quoted, as `names.split` reads it."""
    shown: str = "everything"


@dataclass(frozen=True)
class Line:
    """One thing that is to be done, or left, and why."""

    object: str
    action: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What would be done. An explanation shows the lines, a run carries out the steps behind them."""

    target: Target
    lines: tuple[Line, ...] = ()
    policy: str | None = None
    steps: Any = field(default=None, compare=False)

    @property
    def stored(self) -> list[dict[str, str]]:
        """The lines, fit to be written down."""
        return [asdict(line) for line in self.lines]


class Job(Protocol):
    """One kind of work. It has no state: what it knows is passed in."""

    kind: ClassVar[str]
    targets: ClassVar[str | None]
    """The query that lists the ids of its tables; None: one unit for the whole database."""
    serves: ClassVar[str]
    """What these tables are, in words."""
    job_class: ClassVar[str | None]
    destructive: ClassVar[bool]

    def plan(self, target: Target, claim: Claim) -> Plan:
        """What is to be done now; nothing is removed by it. No lines: nothing is."""

    def execute(self, plan: Plan, claim: Claim) -> dict[str, Any]:
        """Carry it out, checking each step that cannot be taken back; returns what is worth remembering."""
