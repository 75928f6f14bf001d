"""The tour that `thermocline demo` gives: a table streams to the lake, a chunk is proven, kept, then let go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from thermocline.errors import ThermoclineError
from thermocline.hot.connection import connect
from thermocline.hot.statements import query
from thermocline.lake.catalogs import LAKE

if TYPE_CHECKING:
    from datetime import datetime

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
class Told:
    """What the tour saw."""

    repaired: list[Repaired]
    days: list[Day]
    receipt: dict[str, Any]
    refused: ChunkLine
    dropped: ChunkLine
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
        spark.stop()  # when something fails or is interrupted, Java ends with this process
        if before != after:
            raise AnswersDiffer(f"Before {before}, after {after}")
        receipt, hot_rows = self._evidence()
        return Told(
            repaired,
            before,
            receipt,
            refused,
            dropped,
            {
                "rows_written_while_streaming": written,
                "answers_agree": True,
                "rows_in_postgresql_now": hot_rows,
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
