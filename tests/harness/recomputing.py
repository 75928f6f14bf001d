"""RollUps whose rows have left PostgreSQL, for tests of what is computed from both tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thermocline.gate import drop

if TYPE_CHECKING:
    from datetime import datetime

    from harness.lakes import Lake


def let_all_go(lake: Lake, table: str, before: datetime | None = None) -> None:
    """Bring a table to the lake, prove its chunks up to a time, and drop them."""
    lake.drain()
    chunks = lake.run(
        "SELECT m.chunk_oid::bigint, m.range_end FROM lakets._chunk_metadata m JOIN lakets._chronotable_registry r"
        f" ON r.id = m.chronotable_id WHERE r.table_name = '{table}' AND m.status <> 'dropped' ORDER BY m.range_start"
    )
    prover = lake.stack.prover(on_spark=False)
    with lake.feeding():
        for oid, end in chunks:
            if before is None or end <= before:
                assert prover.prove(oid).equal
                outcome = drop.drop_chunk(lake.dsn, oid, check_lake=prover.look)
                assert outcome.reason is None, outcome


def stored(lake: Lake, rollup: str) -> list[tuple[Any, ...]]:
    """What a RollUp has, in an order of its own."""
    rows = lake.run(f"SELECT t.* FROM _rollup_{rollup} t")
    return sorted(rows, key=lambda row: tuple((value is None, str(value)) for value in row[:3]))


def forget(lake: Lake, rollup: str) -> None:
    """Take away what a RollUp has, so that what it has afterwards was computed."""
    lake.run(f"DELETE FROM _rollup_{rollup}")
