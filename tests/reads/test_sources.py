"""From which tier each range of a table would be read, as `sql --explain` tells it; nothing is read for that."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from harness.lakes import BASE, NOON, Lake
from thermocline.reads.standing import sources, stand

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


def test_what_is_nowhere_and_what_is_in_both_is_named(dsn: str, tmp_path: Path) -> None:
    """The first day was dropped before there was a lake; the second has left since, and has a late row."""
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.run(f"SELECT lakets.drop_chunks('m', now() - '{BASE + DAY}'::timestamptz)")
    lake.synced().drain()
    lake.run("SELECT lakets.set_late_rows('m', 'lake')")
    lake.let_go(1)
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 99, 9)")
    lake.drain()
    ((trap, upto),) = lake.run(
        "SELECT trap_oid::regclass::text, settled_position::text FROM thermocline.dropped_range WHERE in_lake"
    )
    with psycopg.connect(lake.dsn) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        standing = stand(session, "m")
        assert standing is not None
        found = {(one.range_start, one.range_end, one.tier): one.what for one in sources("m", standing)}
    assert found[BASE, BASE + DAY, "none"] == "dropped outright, and not in the lake"
    assert found[BASE + DAY, BASE + 2 * DAY, "both"] == f"late rows in public.{trap}, beside the lake"
    assert found[BASE + DAY, BASE + 2 * DAY, "lake"] == f"public.lb_m_history, up to {upto}"
    (resident,) = (one for one in found if one[2] == "postgresql" and one[0] == BASE + 2 * DAY)
    assert found[resident].endswith("chunks")
