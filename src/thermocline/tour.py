"""The tour that `thermocline demo` gives: a table streams to the lake, a chunk is proven, kept, then let go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.positions import number
from thermocline.hot.statements import query
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from thermocline.gate.lifecycle import ChunkLine
    from thermocline.stack import Stack, Step

_TABLE = "thermocline_demo.readings"
_HISTORY = "thermocline_demo.lb_readings_history"
_QUESTION = (
    "SELECT CAST(date_trunc('DAY', ts) AS DATE) AS day, count(*) AS readings, round(avg(temperature), 3) AS mean"
    " FROM thermocline_demo_readings GROUP BY 1 ORDER BY 1"
)
_SECONDS_OF_WRITING = 3
_PATIENCE = 30

Day = tuple[Any, int, float]


class AnswersDiffer(ThermoclineError):
    """The same question had another answer after a chunk had left PostgreSQL."""

    code = "tour.answers_differ"


class NotAsExpected(ThermoclineError):
    """A step of the tour did not do what it should."""

    code = "tour.unexpected"


@dataclass(frozen=True)
class Repaired:
    """A RollUp before and after a late reading; the means are of the sensor and the bucket that it fell into."""

    rollup: str
    bucket: datetime
    mean_before: float
    mean_after: float
    values: int
    refresh_ms: float


@dataclass(frozen=True)
class Late:
    """What both tiers say of the day that has left, and how many of its rows are in PostgreSQL."""

    when: str
    readings: int
    mean: float
    rows_in_postgresql: int


@dataclass(frozen=True)
class Wide:
    """The readings of a week, of which a day has left PostgreSQL, by a weekly RollUp."""

    in_postgresql: int
    in_the_rollup: int
    """Before it was recomputed; a part of them, or none."""
    shown_as_incomplete: bool
    recomputed: int


@dataclass(frozen=True)
class Back:
    """A day that came back from the lake, where a sensor was corrected; and that sensor's mean in the RollUps."""

    rows: int
    corrected: int
    mean_before: float
    mean_after: float
    """As the lake has it, once the correction has come there."""
    sensor_in_daily_rollup_before: float
    sensor_in_daily_rollup_after: float
    sensor_in_weekly_rollup_before: float
    sensor_in_weekly_rollup_after: float


@dataclass(frozen=True)
class Told:
    """What the tour saw."""

    repaired: list[Repaired]
    days: list[Day]
    receipt: dict[str, Any]
    refused: ChunkLine
    dropped: ChunkLine
    late: list[Late]
    wide: Wide
    back: Back
    facts: dict[str, Any]


class Tour:
    """A table of readings on its way from PostgreSQL to the lake."""

    def __init__(self, stack: Stack) -> None:
        settings = stack.settings.model_copy(update={"feed": stack.settings.feed.model_copy(update={"interval": 1})})
        self.stack = type(stack)(settings)

    def run(self, step: Step) -> Told:
        """Everything in order; fails unless the question has the same answer before and after."""
        with step("Writing three days of readings into PostgreSQL"):
            self._make()
        with step("Starting Spark"):
            spark = self.stack.spark()
        with self.stack.feeding():
            with step("Copying them to the lake, and streaming what an application writes meanwhile") as say:
                written = self._write(say)
            with step("Writing once more, and waiting until the lake has it"):
                lag = self._lag()
            with step("Writing a reading that comes a day late, and refreshing the RollUps by hour and by day"):
                repaired = self._repair()
            with step("Asking both tiers, while all of it is in PostgreSQL"):
                before = self._ask()
            with step("Trying to drop the oldest day while a transaction is writing to it"):
                refused = self._try_while_open()
            with step("Dropping the oldest day, now that nobody is: compared row for row, then let go"):
                dropped = self._drop()
            with step("Asking both tiers again"):
                after = self._ask()
            receipt, hot_rows = self._evidence()
            with step(
                "Writing a reading for the day that has left: it goes to the lake, and then leaves PostgreSQL, too"
            ):
                late = self._late_row()
            with step("Making a weekly RollUp, and computing on Spark the week that PostgreSQL has only a part of"):
                wide = self._recompute()
            with step("Bringing the day back from the lake, correcting a sensor's readings, refreshing the RollUps"):
                back = self._bring_back()
        spark.stop()  # when something fails or is interrupted, Java ends with this process
        if before != after:
            raise AnswersDiffer(f"Before {before}, after {after}")
        return Told(
            repaired,
            before,
            receipt,
            refused,
            dropped,
            late,
            wide,
            back,
            {
                "rows_written_while_streaming": written,
                "seconds_from_commit_to_lake": round(lag, 1),
                "answers_agree": True,
                "rows_left_in_postgresql": hot_rows,
                "rows_answered": sum(day[1] for day in before),
                "lake_table": f"{LAKE}.{_HISTORY}",
                "warehouse": self.stack.warehouse,
            },
        )

    def _make(self) -> None:
        with connect(self.stack.dsn) as session:
            session.execute(query("tour_make_readings"))
        with self.stack.catalog(LAKE) as catalog:  # of a tour before
            try:
                catalog.drop_table(_HISTORY)
            except NoSuchTableError:
                return

    def _write(self, say: Any) -> int:
        written = 0
        with connect(self.stack.dsn, autocommit=True) as session:
            for second in range(_SECONDS_OF_WRITING):
                with session.cursor() as cursor:
                    for statement in _statements(query("tour_write")):
                        cursor.execute(statement, {"second": second})
                        written += max(0, cursor.rowcount)
                time.sleep(1)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            tables = {table.table: table for table in self.stack.feed_status().tables}
            mine = tables.get(_TABLE)
            if mine and mine.status == "STREAMING":
                return written
            say(f"{mine.covered} of {mine.chunks} chunks copied" if mine else "joining")
            time.sleep(0.5)
        raise NotAsExpected("The table does not stream after two minutes.")

    def _lag(self) -> float:
        """How long what is committed now takes to the lake."""
        with connect(self.stack.dsn, autocommit=True) as session:
            for statement in _statements(query("tour_write")):
                session.execute(statement, {"second": _SECONDS_OF_WRITING})
        return self._until_in_lake()

    def _until_in_lake(self) -> float:
        """How long it takes until the lake has what is committed now."""
        with connect(self.stack.dsn) as session:
            (written,) = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("0/0",)
        began = time.monotonic()
        while time.monotonic() < began + 60:
            mine = next(one for one in self.stack.feed_status().tables if one.table == _TABLE)
            if number(mine.committed or "0/0") >= number(written):
                return time.monotonic() - began
            time.sleep(0.05)
        raise NotAsExpected("The lake does not have what was written a minute ago.")

    def _repair(self) -> list[Repaired]:
        """One value of each RollUp changes: the view shows it at once, the tables after a refresh."""
        cascade = "SELECT rollup_name, refresh_ms FROM lakets.refresh_rollup_cascade('thermocline_demo_daily')"
        with connect(self.stack.dsn, autocommit=True) as session:
            session.execute(cascade)
            before = session.execute(query("tour_means")).fetchall()
            session.execute(query("tour_late_reading"))
            shown = session.execute(query("tour_means")).fetchall()[0][3]
            took = dict(session.execute(cascade).fetchall())
            after = session.execute(query("tour_means")).fetchall()
        if shown != after[0][2] or any(old[2] == new[2] for old, new in zip(before, after, strict=True)):
            raise NotAsExpected(f"RollUps were {before}, the view showed {shown}, and they became {after}.")
        return [
            Repaired(name, bucket, old, new, values, took[f"thermocline_demo_{name}"])
            for (name, bucket, old, _, _), (_, _, new, _, values) in zip(before, after, strict=True)
        ]

    def _ask(self) -> list[Day]:
        _, days = self.stack.reader().answer(_QUESTION, 100)
        return [(day, readings, mean) for day, readings, mean in days]

    def _try_while_open(self) -> ChunkLine:
        with connect(self.stack.dsn) as writer:
            writer.execute(query("tour_open_write"))
            (line,) = self.stack.lifecycle(_TABLE, patience=1).retention()
            writer.rollback()
        if line.verdict == "dropped":
            raise NotAsExpected("A chunk was dropped although a transaction was writing to it.")
        return line

    def _drop(self) -> ChunkLine:
        (line,) = self.stack.lifecycle(_TABLE, patience=_PATIENCE).retention()
        if line.verdict != "dropped":
            raise NotAsExpected(f"{line.chunk} was not dropped: {line.message}.", next_step=line.next_step)
        return line

    def _late_row(self) -> list[Late]:
        """Counted at once, and still once when it has left PostgreSQL."""
        told = [self._oldest("before")]
        with connect(self.stack.dsn, autocommit=True) as session:
            session.execute("SELECT lakets.set_late_rows('readings', 'lake', 'thermocline_demo')")
            session.execute(query("tour_late_row"))
        told.append(self._oldest("at once"))
        settled = self.stack.late_rows(_TABLE).settle()
        told.append(self._oldest("settled"))
        readings = [one.readings for one in told]
        if readings != [readings[0], readings[0] + 1, readings[0] + 1] or told[-1].rows_in_postgresql:
            raise NotAsExpected(f"A late reading was counted as {told}; {[line.message for line in settled]}.")
        return told

    def _oldest(self, when: str) -> Late:
        day, readings, mean = self._ask()[0]
        with connect(self.stack.dsn) as session:
            asked = "SELECT count(*) FROM thermocline_demo.readings WHERE (ts AT TIME ZONE 'UTC')::date = %s"
            (count,) = session.execute(asked, [day]).fetchone() or (0,)
        return Late(when, readings, mean, count)

    def _recompute(self) -> Wide:
        """From both tiers; no row comes back for it."""
        week = sum(readings for _, readings, _ in self._ask()[:3])  # all but today
        with connect(self.stack.dsn, autocommit=True) as session:
            session.execute(query("tour_wide"))
            before, incomplete = session.execute(query("tour_wide_readings")).fetchall()[0]
        self.stack.recomputer().run("thermocline_demo_weekly")
        with connect(self.stack.dsn) as session:
            after, still = session.execute(query("tour_wide_readings")).fetchall()[0]
        resident = week - self._oldest("now").readings
        if after != week or still or not incomplete:
            raise NotAsExpected(f"The week has {week} readings; the RollUp had {before} of them and has {after}.")
        return Wide(resident, before, incomplete, after)

    def _bring_back(self) -> Back:
        before = self._oldest("before")
        start = datetime.combine(self._ask()[0][0], datetime.min.time(), UTC)
        (line,) = self.stack.rehydrator(patience=_PATIENCE).bring_back(_TABLE, start, start + timedelta(days=1))
        if line.verdict != "back":
            raise NotAsExpected(f"The day did not come back: {line.message}.", next_step=line.next_step)
        by_day, by_week = self._refreshed()
        with connect(self.stack.dsn, autocommit=True) as session:
            corrected = session.execute(query("tour_correct")).rowcount
        day_after, week_after = self._refreshed()
        if abs(day_after - by_day - 2) > 1e-6 or not by_week < week_after < by_week + 2:
            raise NotAsExpected(f"The RollUps were {by_day} and {by_week}, and became {day_after} and {week_after}.")
        self._until_in_lake()
        history = self.stack.reader().current(_TABLE)
        mean = history.where(history["ts"] < start + timedelta(days=1)).agg({"temperature": "avg"}).collect()[0][0]
        after = self._oldest("after")
        if round(mean, 3) != after.mean or after.rows_in_postgresql != after.readings:
            raise NotAsExpected(f"The correction is {after} across the tiers, and {mean} in the lake.")
        means = (before.mean, after.mean, by_day, day_after, by_week, week_after)
        return Back(line.rows or 0, corrected, *(round(mean, 3) for mean in means))

    def _refreshed(self) -> tuple[float, float]:
        """What the RollUps by day and by week have of the sensor, once they are up to date."""
        with connect(self.stack.dsn, autocommit=True) as session:
            for name in ("daily", "weekly"):
                session.execute("SELECT lakets.refresh_rollup_cascade(%s)", [f"thermocline_demo_{name}"])
            day, week = session.execute(query("tour_corrected")).fetchall()[0]
        return day, week

    def _evidence(self) -> tuple[dict[str, Any], int]:
        with connect(self.stack.dsn) as session:
            row = session.execute(query("tour_receipt")).fetchone()
            count = session.execute("SELECT count(*) FROM thermocline_demo.readings").fetchone()
        if row is None or count is None:
            raise NotAsExpected("There is no receipt.")
        names = ("chunk", "rows", "position", "lake_snapshot", "content_hash")
        return dict(zip(names, row, strict=True)), count[0]


def _statements(text: str) -> list[Any]:
    return [one for one in text.split(";\n") if one.strip()]
