"""The thread that renews the leases of a process, apart from those that work: long work keeps its lease."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.work import units

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from thermocline.work.units import Claim

log = logs.get(__name__)
_RETRY = 1.0
_MOST = 5.0  # so soon a worker learns that its unit was cancelled


class Keeper:
    """Renews every five seconds, or at a third of the lease if that is sooner.

    While the database does not answer it tries again every second. A claim that could not be renewed for a whole lease
    is lost: somebody else may have it.
    """

    def __init__(self, dsn: str, *, lease: float = units.LEASE, timeout: int = 10) -> None:
        self._dsn = dsn
        self._lease = lease
        self._timeout = timeout
        self._held: dict[int, Claim] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self.lost = 0
        """How many claims were lost."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(self._timeout)

    def add(self, claim: Claim) -> None:
        """Keep its lease from now on."""
        with self._lock:
            self._held[claim.unit.id] = claim

    def remove(self, claim: Claim) -> None:
        """It has ended."""
        with self._lock:
            if self._held.get(claim.unit.id) is claim:  # and not a later one of the same unit
                del self._held[claim.unit.id]

    @property
    def held(self) -> list[Claim]:
        """What this process has claimed and not ended."""
        with self._lock:
            return list(self._held.values())

    def _run(self) -> None:
        regularly = min(_MOST, self._lease / 3)
        wait = regularly
        while not self._ended.wait(wait):
            wait = regularly
            if not self.held:
                continue
            try:
                with connect(self._dsn, timeout=self._timeout, autocommit=True) as session:
                    units.renew(session, self.held, lease=self._lease)
            except ThermoclineError as error:
                log.warning("leases not renewed", code=error.code, message=error.message, held=len(self.held))
                wait = min(_RETRY, regularly)
            except Exception:  # whatever it is, the next try may do better; the leases run out if none does
                log.exception("leases not renewed")
                wait = min(_RETRY, regularly)
            self._drop_lost()

    def _drop_lost(self) -> None:
        for claim in self.held:
            if claim.lost or claim.overdue:
                claim.lose()
                self.lost += 1
                self.remove(claim)
                log.warning("lease lost", unit=claim.unit.id, epoch=claim.unit.epoch, kind=claim.unit.kind)
