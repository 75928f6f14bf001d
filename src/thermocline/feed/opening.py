"""Whether the stream may go on: it is the one that was recorded, of the same server and slot. And its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thermocline import log as logs
from thermocline.crash import crash_point
from thermocline.errors import Busy
from thermocline.feed import promotion
from thermocline.feed.refusals import OtherHistory, OwnershipLost, SlotLost
from thermocline.hot.positions import text

if TYPE_CHECKING:
    from thermocline.feed.histories import Histories
    from thermocline.feed.ledger import Ledger
    from thermocline.feed.records import SlotState, Stream

log = logs.get(__name__)


def end_stream(ledger: Ledger) -> None:
    """No table is synced any more: nobody reads the log, so it need not be kept.

    The record goes first. A slot that a crash leaves behind is found by its name, here or by the next stream.
    """
    ledger.forget_stream()
    crash_point("feed.stream_forgotten")
    slot = ledger.slot_name()
    if ledger.slot_state(slot) is not None:
        ledger.drop_slot(slot)
        crash_point("feed.slot_dropped")
        log.info("stream ended", slot=slot)


def end_stream_if_idle(ledger: Ledger) -> bool:
    """The same beside a batch that may be at work; false while that reads the slot: then it is to be tried again."""
    try:
        end_stream(ledger)
    except Busy as error:
        log.info("slot in use", reason=error.message)
        return False
    return True


def require_same_history(dsn: str, ledger: Ledger, histories: Histories, stream: Stream) -> None:
    """Refuse a server or a slot that is not the one whose changes the lake holds."""
    system, timeline = ledger.identity()
    if system != stream.system_identifier or timeline < stream.timeline:
        raise OtherHistory(
            f"The lake holds the changes of server {stream.system_identifier} on timeline {stream.timeline};"
            f" this is {system} on timeline {timeline}."
        )
    if timeline > stream.timeline:
        _require_promoted(dsn, ledger, histories, stream, timeline)
    require_slot(ledger, stream.slot)


def require_slot(ledger: Ledger, name: str) -> tuple[Stream, SlotState]:
    """Refuse a slot that is gone or that somebody else has moved; returns the stream and the slot as they are now.

    The slot is looked at first: what the lake has is recorded before the slot moves, so it is never ahead of a record
    that is read later.
    """
    slot, stream = ledger.slot_state(name), ledger.stream()
    if stream is None:  # only the owner takes it away
        raise OwnershipLost
    if slot is None:
        raise SlotLost(f"The replication slot {name} is gone.")
    if slot.wal_status == "lost":
        raise SlotLost(f"The replication slot {name} was invalidated: the log that it needs was removed.")
    if slot.confirmed > stream.position:
        raise SlotLost(
            f"The replication slot {name} stands at {text(slot.confirmed)}, ahead of the lake at"
            f" {text(stream.position)}: somebody else has moved it."
        )
    return stream, slot


def _require_promoted(dsn: str, ledger: Ledger, histories: Histories, stream: Stream, timeline: int) -> None:
    """Go on after a promotion if all that the lake holds was written before the timelines parted."""
    left = promotion.left_at(dsn, stream.timeline, timeline)
    reached = max([stream.position, *(histories.reached(state) for state in ledger.tables())])
    if left is None or reached > left:
        parted = f"at {text(left)}" if left is not None else "before it was on it"
        raise OtherHistory(
            f"The lake holds changes of timeline {stream.timeline} up to {text(reached)}; this server is on"
            f" timeline {timeline} and left that one {parted}, so the lake has changes that it does not have."
        )
    ledger.move_to(timeline)
    log.info("promoted server", timeline=timeline, before=stream.timeline, left=text(left), lake=text(reached))
