"""Which position of the log a moment stands for, and whether the lake knows the state of a table then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from thermocline.errors import Refused
from thermocline.hot import names
from thermocline.hot.connection import connect
from thermocline.hot.positions import number, text
from thermocline.hot.statements import query
from thermocline.lake import reads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_POSITION = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")


class NotThen(Refused):
    """The lake does not have the state of a table at that position or moment."""

    code = "reads.not_then"
    next_step_by_default = "Ask for an earlier one, or wait: `thermocline feed status` shows how far the feed is."


@dataclass(frozen=True)
class Gap:
    """Something has happened that the stream does not tell, and that a copy has shown, or is to show."""

    after: int
    after_at: datetime
    """What was committed before this moment is below `after`."""
    until: int | None
    until_at: datetime | None
    """None: a chunk is still to be copied."""

    def has(self, position: int) -> bool:
        """Whether a position lies in it."""
        return self.after <= position and (self.until is None or position < self.until)


@dataclass(frozen=True)
class Known:
    """Between which positions the state of a table is known."""

    table: str
    first: int
    last: int
    since: datetime
    """When it was at the first of them."""
    until: datetime | None
    """Whatever was committed before this moment is at or below the last of them."""
    gaps: tuple[Gap, ...] = ()
    """Where it is not known in between."""

    def require(self, position: int) -> None:
        """Refuse a position outside."""
        if position < self.first:
            raise NotThen(
                f"The copy of {self.table} was complete at {text(self.first)}; {text(position)} is before that.",
                next_step=f"Ask for {text(self.first)} or later.",
            )
        if position > self.last:
            raise NotThen(f"The lake has {self.table} up to {text(self.last)}; {text(position)} is after that.")
        for gap in self.gaps:
            if gap.has(position):
                raise self._unknown(text(position), gap)

    def before_gaps(self, position: int, moment: datetime) -> int:
        """The position that stands for a moment, if that one is after it; refused if its state is not known."""
        for gap in self.gaps:
            if moment < gap.after_at:
                return min(position, gap.after - 1)
            if gap.until_at is None or moment < gap.until_at:
                raise self._unknown(_spoken(moment), gap)
        return position

    def _unknown(self, then: str, gap: Gap) -> NotThen:
        until = f"to {text(gap.until)}" if gap.until is not None else "on, until it is copied"
        return NotThen(
            f"The state of {self.table} at {then} is not known: from {text(gap.after)} {until}, a chunk may have had"
            " changes that are not in the log: it was rewritten, unlogged or detached.",
            next_step=f"Ask for {text(gap.after - 1)} or earlier"
            + (f", or for {text(gap.until)} or later." if gap.until is not None else "."),
        )


def known(dsn: str, table: str) -> Known:
    """What PostgreSQL has recorded of a table."""
    schema, name = names.split(table)
    of = {"schema": schema, "table": name}
    with connect(dsn) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        row = session.execute(query("read_as_of"), of).fetchone()
        gaps = tuple(Gap(*gap) for gap in session.execute(query("read_unknown"), of))
    if row is None or row[0] is None or row[1] is None:
        raise NotThen(
            f"The lake does not have all of {schema}.{name} yet, so it has no state of it.",
            next_step="Sync the table, and wait until the feed has copied it.",
        )
    first, last, since, until = row
    return Known(f"{schema}.{name}", first, max(first, last), since, until, gaps)


def position_of(told: str | int | datetime) -> int | datetime:
    """A position as PostgreSQL writes it, or as a number; or a moment, with its zone."""
    if isinstance(told, int):
        return told
    if isinstance(told, str):
        if _POSITION.fullmatch(told):
            return number(told)
        try:
            told = datetime.fromisoformat(told)
        except ValueError:
            raise Refused(
                f"{told} is neither a position nor a moment.",
                next_step="Write a position as 0/16B3748, and a moment as 2026-11-16T12:00:00+00:00.",
            ) from None
    if told.tzinfo is None:
        raise Refused(f"{told} has no zone, so it is no moment.", next_step=f"For UTC write {told.isoformat()}+00:00.")
    return told.astimezone(UTC)


def position_at(dsn: str, spark: SparkSession, tables: Iterable[tuple[str, str]], told: str | int | datetime) -> int:
    """One position for tables, each with its history: what they held at it belongs together."""
    at = position_of(told)
    spans = [(known(dsn, table), history) for table, history in tables]
    if isinstance(at, datetime):
        at = min(_at_moment(spark, span, history, at) for span, history in spans)
    for span, _ in spans:
        span.require(at)
    return at


def _at_moment(spark: SparkSession, span: Known, history: str, moment: datetime) -> int:
    if moment < span.since:
        raise NotThen(
            f"The copy of {span.table} was complete at {_spoken(span.since)}; {_spoken(moment)} is before that.",
            next_step=f"Ask for {span.since.isoformat()} or later.",
        )
    found = reads.last_before(spark, history, moment)
    if found is not None:
        return span.before_gaps(min(found, span.last), moment)
    if span.until is None or moment > span.until:
        until = _spoken(span.until) if span.until else "a moment that is not known"
        raise NotThen(f"The lake has {span.table} up to {until}; {_spoken(moment)} is after that.")
    return span.before_gaps(span.last, moment)


def _spoken(moment: datetime) -> str:
    return moment.isoformat(" ", "milliseconds")
