"""When work is due: every so often or by a cron line, in UTC. Pure: state and time are passed in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from cronsim import CronSim, CronSimError

from thermocline.errors import Refused

_WINDOW = re.compile(r"(runs|pauses) (\d{1,2}:\d{2})-(\d{1,2}:\d{2})")
_LONGEST = timedelta(days=366)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EVERY = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|h|d)(?:ec(?:ond)?s?|in(?:ute)?s?|ours?|ays?)?")


class BadSchedule(Refused):
    """The schedule cannot be understood."""

    code = "work.bad_schedule"
    next_step_by_default = "Write `--every 5m`, or `--cron '0 3 * * *'`, with times in UTC."


@dataclass(frozen=True)
class Rule:
    """Every so often, or by a cron line."""

    every: timedelta | None = None
    cron: str | None = None

    @property
    def key(self) -> str:
        """The rule in the one form that PostgreSQL writes it in, too."""
        return f"cron {self.cron}" if self.every is None else f"every {self.every.total_seconds():.6f}"

    def check(self) -> None:
        """Refuse what never comes, or comes without a pause."""
        if (self.every is None) == (self.cron is None):
            raise BadSchedule("A schedule has either an interval or a cron line.")
        if self.every is not None and self.every < timedelta(seconds=1):
            raise BadSchedule(f"Work cannot be due every {self.every}: a second is the least.")
        if self.every is not None and self.every > _LONGEST:
            raise BadSchedule(f"Work cannot be due every {self.every}: {_LONGEST.days} days are the most.")
        if self.cron is not None:
            self._after(datetime.now(UTC))

    def next_run(self, due: datetime | None, now: datetime) -> datetime:
        """The next time after now: missed runs are not made up for, and the grid of the one that was due is kept."""
        if self.every is None:
            return self._after(now)
        if due is None or due > now:
            return now + self.every
        return due + ((now - due) // self.every + 1) * self.every

    def first_run(self, last: datetime | None, now: datetime) -> datetime:
        """When it is due under a rule that is new: at once by an interval that is over, by cron when its time comes."""
        if self.every is None:
            return self._after(now)
        return now if last is None else max(now, min(last, now) + self.every)

    def _after(self, moment: datetime) -> datetime:
        try:
            return next(CronSim(self.cron or "", moment.astimezone(UTC)))
        except CronSimError as error:
            raise BadSchedule(f"{self.cron!r} is no cron line: {error}.") from error
        except StopIteration:
            raise BadSchedule(f"The time of {self.cron!r} never comes.") from None


@dataclass(frozen=True)
class Window:
    """Hours of the day, in UTC, in which work runs, or in which it pauses."""

    start: time
    end: time
    means: str

    def __str__(self) -> str:
        return f"{self.means} {self.start:%H:%M}-{self.end:%H:%M}"

    def next_open(self, moment: datetime) -> datetime:
        """The first moment from this one on at which work may begin."""
        moment = moment.astimezone(UTC)
        at = moment.time()
        inside = self.start <= at < self.end if self.start < self.end else at >= self.start or at < self.end
        if inside == (self.means == "runs"):
            return moment
        opens = datetime.combine(moment.date(), self.start if self.means == "runs" else self.end, UTC)
        return opens if opens > moment else opens + timedelta(days=1)


def length_of(text: str) -> timedelta | None:
    """As 30s, 5m, 2 hours or 1d; None if it is no length of time."""
    found = _EVERY.fullmatch(text.strip().lower())
    try:
        return timedelta(**{_UNITS[found[2]]: float(found[1])}) if found else None
    except OverflowError:
        return timedelta.max


def parse_every(text: str) -> timedelta:
    """As 30s, 5m, 2 hours or 1d, and not too short or too long for a schedule."""
    every = length_of(text)
    if every is None:
        raise BadSchedule(f"{text!r} is no interval.")
    Rule(every).check()
    return every


def parse_window(text: str) -> Window:
    """As `runs 22:00-06:00` or `pauses 09:00-17:00`."""
    found = _WINDOW.fullmatch(text.strip().lower())
    step = "Write `runs 22:00-06:00` or `pauses 09:00-17:00`, in UTC."
    try:
        start, end = (time.fromisoformat(part.zfill(5)) for part in found.groups()[1:]) if found else (None, None)
    except ValueError:
        start = end = None
    if found is None or start is None or end is None:
        raise BadSchedule(f"{text!r} is no window.", next_step=step)
    if start == end:
        raise BadSchedule(f"The window {text!r} begins when it ends.", next_step=step)
    return Window(start, end, found[1])
