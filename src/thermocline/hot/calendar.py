"""PostgreSQL's calendar: moments as it writes them, from 4714 BC to 294276, counted in microseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from thermocline.hot.wire import MalformedStream

# The years 1 to 9999: what lies outside of them, readers of the lake trip over, its own statistics first.
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


# The calendar repeats after 400 years, which carries dates that Python cannot hold into its range.
_CYCLE_DAYS = 146_097
DAY = 86_400 * 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(moment: int, kind: pa.DataType) -> str:
    """Microseconds since 1970 as PostgreSQL writes them."""
    cycles, rest = divmod(moment, _CYCLE_DAYS * DAY)
    near = _EPOCH + timedelta(microseconds=rest)
    year = near.year + 400 * cycles
    told, era = (f"{year:04d}", "") if year > 0 else (f"{1 - year:04d}", " BC")
    if pa.types.is_date(kind):
        return f"{told}-{near:%m-%d}{era}"
    fraction = f".{near.microsecond:06d}".rstrip("0") if near.microsecond else ""
    return f"{told}-{near:%m-%d %H:%M:%S}{fraction}{'+00' if kind.tz else ''}{era}"


_TEMPORAL = re.compile(
    r"(\d{4,7})-(\d\d)-(\d\d)"
    r"(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?)?"
    r"( BC)?"
)


def infinity(positive: bool) -> str:
    """As PostgreSQL writes it."""
    return "infinity" if positive else "-infinity"


def microseconds(told: str) -> int | None:
    """Since 1970, without bounds; None for infinity."""
    if told in ("infinity", "-infinity"):
        return None
    found = _TEMPORAL.fullmatch(told)
    if found is None:
        raise MalformedStream(f"{told!r} is not a time in ISO form.", next_step="Set DateStyle to ISO.")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    cycles, year = divmod(1 - year if found[12] else year, 400)
    try:
        near = datetime(2000 + year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as wrong:
        raise MalformedStream(f"{told!r} is not a time.") from wrong
    east = sum(int(part or 0) * unit for part, unit in zip(found.groups()[8:11], (3600, 60, 1), strict=True))
    since = near - _EPOCH
    seconds = since.days * 86_400 + since.seconds + (east if found[8] == "-" else -east)
    return (cycles - 5) * _CYCLE_DAYS * DAY + seconds * 1_000_000 + int((found[7] or "").ljust(6, "0"))
