"""What comes and goes between two looks of the feed, in no stream: nothing of it is lost, and no state is made up."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from harness.lakes import BASE, NOON, Lake, chunk
from harness.mirrors import SHADOW, require_same
from harness.roles import role
from thermocline.feed.refusals import PublicationLost
from thermocline.hot.positions import number
from thermocline.reads import moments
from thermocline.reads.moments import Gap, Known, NotThen

if TYPE_CHECKING:
    from pathlib import Path

BOUND = f"FOR VALUES FROM ('{BASE + timedelta(days=1)}') TO ('{BASE + timedelta(days=2)}')"
AWAY = (
    f"ALTER TABLE m DETACH PARTITION {chunk(1)}",
    f"INSERT INTO {chunk(1)} VALUES ('{NOON[1]}', 1000, 1)",
    f"DELETE FROM {chunk(1)} WHERE id = 30",
    f"ALTER TABLE m ATTACH PARTITION {chunk(1)} {BOUND}",
)
UNLOGGED = (
    f"ALTER TABLE {chunk(1)} SET UNLOGGED",
    f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)",
    "DELETE FROM m WHERE id = 30",
    f"ALTER TABLE {chunk(1)} SET LOGGED",
)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


def position(lake: Lake) -> int:
    ((at,),) = lake.run("SELECT pg_current_wal_insert_lsn()::text")
    return number(at)


@pytest.mark.parametrize("steps", [AWAY, ("BEGIN; " + "; ".join(AWAY) + "; COMMIT",)], ids=["one by one", "at once"])
def test_g16_a_chunk_that_was_away_is_copied_again(lake: Lake, steps: tuple[str, ...]) -> None:
    lake.synced().drain()
    lake.run(*steps)
    lake.drain()
    lake.assert_same()


def test_g16_a_chunk_that_was_away_is_mirrored_anew(lake: Lake) -> None:
    lake.run(SHADOW)
    lake.drain()
    lake.run(*AWAY)
    require_same(lake)


def test_g16_a_new_chunk_that_was_away_before_its_making_was_read(lake: Lake) -> None:
    lake.synced().drain()
    lake.run("SELECT lakets._ensure_partitions(lakets._chronotable_id('m', 'public'), 1, 5)")
    ((name, start, end),) = lake.run(
        "SELECT chunk_name, range_start, range_end FROM lakets._chunk_metadata ORDER BY range_start DESC LIMIT 1"
    )
    lake.run(
        f"ALTER TABLE m DETACH PARTITION {name}",
        f"INSERT INTO {name} VALUES ('{start}', 1000, 1)",
        f"ALTER TABLE m ATTACH PARTITION {name} FOR VALUES FROM ('{start}') TO ('{end}')",
    )
    lake.drain()
    lake.assert_same()


def test_m17_a_chunk_that_was_unlogged_is_copied_again(lake: Lake) -> None:
    lake.synced().drain()
    lake.run(*UNLOGGED)
    lake.drain()
    lake.assert_same()


@pytest.mark.parametrize("steps", [AWAY, UNLOGGED], ids=["away", "unlogged"])
def test_m17_no_state_is_made_up_of_the_time_between(lake: Lake, steps: tuple[str, ...]) -> None:
    lake.synced().drain()
    before = moments.known(lake.dsn, "m")
    lake.run(*steps[:2])
    between = position(lake)
    lake.run(*steps[2:], f"INSERT INTO m VALUES ('{NOON[2]}', 1001, 1)")
    with lake.feed() as feed:
        feed.step()
        with pytest.raises(NotThen):  # the stream is there, the copy is not
            moments.known(lake.dsn, "m").require(between)
        feed.drain()
        feed.drain()
    after = moments.known(lake.dsn, "m")
    with pytest.raises(NotThen, match="not known"):
        after.require(between)
    after.require(after.last)
    after.require(before.first)
    assert after.first == before.first, "what was known before is known"


@pytest.mark.parametrize(
    "steps",
    [
        ("ALTER PUBLICATION thermocline DROP TABLE m", "ALTER PUBLICATION thermocline ADD TABLE m"),
        (
            "ALTER PUBLICATION thermocline SET (publish = 'insert')",
            "ALTER PUBLICATION thermocline SET (publish = 'insert, update, delete, truncate')",
        ),
    ],
    ids=["a table", "a kind of change"],
)
def test_m13_a_publication_that_left_something_out_for_a_while_is_refused(lake: Lake, steps: tuple[str, str]) -> None:
    lake.synced().drain()
    lake.run(steps[0], "UPDATE m SET v = 8", f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)", steps[1])
    with pytest.raises(PublicationLost, match="was changed"):
        lake.drain()
    lake.stack.resync_feed()
    with lake.feed() as feed:
        while not feed.drain().caught_up:
            pass
    lake.assert_same()


def test_a_moment_within_a_gap_is_refused_and_one_before_it_ends_before_it() -> None:
    gaps = (Gap(100, NOON[0], 200, NOON[1]), Gap(300, NOON[2], None, None))
    known = Known("public.m", 10, 400, BASE, None, gaps)
    second = timedelta(seconds=1)
    assert known.before_gaps(250, NOON[0] - second) == 99, "what comes next is of the copy, and not of that moment"
    assert known.before_gaps(50, NOON[0] - second) == 50
    assert known.before_gaps(350, NOON[1]) == 299
    for moment in (NOON[0], NOON[1] - second, NOON[2]):
        with pytest.raises(NotThen, match="not known"):
            known.before_gaps(250, moment)
    for position in (99, 200, 299):
        known.require(position)
    for position in (100, 199, 300, 400):
        with pytest.raises(NotThen, match="not known"):
            known.require(position)


def test_a_publication_that_has_another_owner_is_the_same(lake: Lake) -> None:
    lake.synced().drain()
    with role(lake.dsn, "publisher", "SUPERUSER"):
        lake.run("ALTER PUBLICATION thermocline OWNER TO publisher", f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
        lake.drain()
        lake.assert_same()
        lake.run("ALTER PUBLICATION thermocline OWNER TO CURRENT_USER")
