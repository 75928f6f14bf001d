"""What `timelake.py` runs: `folder devices days late rounds`; the last line says the seconds of each piece of work."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_PER_DAY = 8_640
_STEP = timedelta(seconds=10)
_ROLLUP = """
    CREATE MATERIALIZED ROLLUP default.minutely AS
    SELECT device, time_bucket(INTERVAL '1 minute', time) AS bucket,
           sum(celsius) AS total, count(celsius) AS n, min(celsius) AS low, max(celsius) AS high
    FROM default.readings GROUP BY device, bucket WITH (refresh_interval = 'off')
"""
_REFRESH = "REFRESH MATERIALIZED ROLLUP default.minutely"
_SCHEMA = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("device", pa.string()), ("celsius", pa.float64())])


def main(folder: str, devices: int, days: int, late: int, rounds: int) -> dict[str, list[float]]:
    """Appends are of a day, as a table that grew has them; every second round goes backwards."""
    import timelake  # type: ignore[import-not-found, unused-ignore]

    lake: Any = timelake.Lake(folder)
    table = lake.create_table(
        "default.readings",
        _SCHEMA,
        time_column="time",
        series_key=["device"],
        chunk="day",
        dedup=False,
        ingest_time=False,
    )
    began = datetime.now(UTC) - timedelta(days=days)
    for day in range(days):
        table.append(_rows(began + timedelta(days=day), _PER_DAY, devices))
    taken: dict[str, list[float]] = {}
    _took(taken, "first rollup", lambda: lake.sql(_ROLLUP))
    random = np.random.default_rng(1)
    fresh = began + timedelta(days=days)

    def scattered(rows: int) -> pa.Table:
        offsets = random.integers(0, days * 86_400_000_000, rows)
        times = np.datetime64(began.replace(tzinfo=None), "us") + offsets.astype("timedelta64[us]")
        return _table(times, random.integers(0, devices, rows), random.random(rows))

    def refresh(name: str, rows: pa.Table) -> None:
        table.append(rows)
        _took(taken, name, lambda: lake.sql(_REFRESH))

    refresh("warm", scattered(late))
    turns: list[Callable[[int], None]] = [
        lambda _: refresh(f"{late:,} late rows, refresh", scattered(late)),
        lambda _: refresh("one late row, refresh", scattered(1)),
        lambda n: refresh(f"{360 * devices:,} fresh rows, refresh", _rows(fresh + timedelta(hours=n), 360, devices)),
        lambda _: _took(taken, "nothing to refresh", lambda: lake.sql(_REFRESH)),
    ]
    for number in range(rounds):
        for turn in turns[:: -1 if number % 2 else 1]:
            turn(number)
    del taken["warm"]
    ((total,),) = (row.values() for row in lake.sql("SELECT sum(n) AS n FROM default.minutely").to_pylist())
    ((rows,),) = (row.values() for row in lake.sql("SELECT count(*) AS n FROM default.readings").to_pylist())
    assert total == rows, f"{total} of {rows} rows are in the rollup"
    return taken


def _rows(begin: datetime, steps: int, devices: int) -> pa.Table:
    step = np.timedelta64(int(_STEP.total_seconds() * 1_000_000), "us")
    times = np.datetime64(begin.replace(tzinfo=None), "us") + np.arange(steps) * step
    return _table(np.repeat(times, devices), np.tile(np.arange(devices), steps), np.sin(np.arange(steps * devices)))


def _table(times: Any, devices: Any, values: Any) -> pa.Table:
    names = pa.array([f"d{number}" for number in range(int(devices.max()) + 1)]).take(pa.array(devices))
    return pa.table({"time": pa.array(times).cast(_SCHEMA.field("time").type), "device": names, "celsius": values})


def _took(taken: dict[str, list[float]], name: str, call: Callable[[], object]) -> None:
    began = time.perf_counter()
    call()
    taken.setdefault(name, []).append(time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))
