"""Why the feed does not run, or not on: its owner, its slot, its publication, the server's past."""

from __future__ import annotations

from thermocline.errors import Busy, Refused, ServerUnsuited


class FeedTaken(Busy):
    """Another feed is running for this database."""

    code = "feed.taken"
    next_step_by_default = "One feed serves all tables; stop the other one first if this one is to run."


class OwnershipLost(Busy):
    """Another feed has taken over while this one was asleep or cut off."""

    code = "feed.ownership_lost"
    next_step_by_default = "Nothing is lost: the other feed goes on. Start this one again if it should not."


class SlotLost(Refused):
    """The replication slot is gone, so changes may have been missed."""

    code = "feed.slot_lost"
    next_step_by_default = (
        "`thermocline feed resync --yes` makes a new slot and copies every resident chunk anew; what is in the lake"
        " stays."
    )


class SlotWaits(Busy):
    """The replication slot can be made once the transactions that are open now have ended."""

    code = "feed.slot_waits"
    next_step_by_default = (
        "It is tried again. SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        " ORDER BY xact_start; shows them."
    )


class SlotRefused(ServerUnsuited):
    """PostgreSQL does not let the feed make its replication slot."""

    code = "feed.slot_refused"


class OtherHistory(Refused):
    """This server is not the one whose changes the lake holds."""

    code = "feed.other_history"
    next_step_by_default = (
        "If it was restored or promoted on purpose, `thermocline feed resync --yes` starts a new history from what"
        " it holds."
    )


class PublicationLost(Refused):
    """The publication is gone, or no longer tells everything."""

    code = "feed.publication_lost"
    next_step_by_default = (
        "Changes since then cannot be read. `thermocline feed resync --yes` makes it anew and copies every resident"
        " chunk."
    )
