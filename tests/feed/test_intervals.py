"""Each table has its own interval between two commits; the slot waits for the slowest of them, and nothing is lost."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed.test_crashes import Life
from harness import feed_children, sabotage
from harness.feed_children import Run
from harness.lakes import Lake
from harness.schedules import chunk_name
from harness.stage import BURY
from harness.verdicts import Verdicts
from thermocline.config import FeedSettings
from thermocline.feed.pacing import FULL_BYTES, HELD_BYTES, Due, Pace, Waiting
from thermocline.hot.positions import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from thermocline.feed.feed import Feed

WINDOW = 1024 << 20


def waiting(
    tables: dict[int, float | None], confirmed: int = 100, flushed: int = 200, *, wanted: bool = False
) -> Waiting:
    return Waiting(confirmed, flushed, wanted, tables)


# ---- when which table is due -----------------------------------------------------------------


def test_at_first_every_table_is_due_and_then_each_at_its_own_interval() -> None:
    pace = Pace(60, WINDOW)
    tables = {1: 1.0, 2: None, 3: 10.0}
    assert pace.next(waiting(tables), 1000) == Due(200, None)
    assert pace.next(waiting(tables, flushed=210), 1000.5) is None
    assert pace.next(waiting(tables, flushed=210), 1001) == Due(210, (1,))
    assert pace.next(waiting(tables, flushed=220), 1010) == Due(220, (1, 3))
    assert pace.next(waiting(tables, flushed=230), 1020) == Due(230, None), "a minute has begun"


def test_what_waits_is_brought_when_its_time_has_come_also_if_nothing_was_written_since() -> None:
    pace = Pace(60, WINDOW)
    tables = {1: 1.0, 2: None}
    pace.next(waiting(tables), 1000)
    assert pace.next(waiting(tables, flushed=250), 1001) == Due(250, (1,))
    assert pace.next(waiting(tables, flushed=250), 1002) is None, "the first has it"
    assert pace.next(waiting(tables, flushed=250), 1020) == Due(250, (2,))
    assert pace.next(waiting(tables, flushed=250), 1080) is None


def test_whoever_waits_gets_every_table_at_once() -> None:
    pace = Pace(60, WINDOW)
    tables = {1: 1.0, 2: None}
    pace.next(waiting(tables), 1000)
    assert pace.next(waiting(tables, flushed=250, wanted=True), 1000.1) == Due(250, None)
    assert pace.next(waiting(tables, flushed=250, wanted=True), 1000.2) is None


def test_much_of_the_log_makes_a_batch_at_once_and_little_is_read_again() -> None:
    pace = Pace(60, WINDOW)
    tables = {1: 1.0, 2: None}
    pace.next(waiting(tables), 1000)
    assert pace.next(waiting(tables, flushed=100 + FULL_BYTES), 1000.1) == Due(100 + FULL_BYTES, None)
    held = 100 + FULL_BYTES + HELD_BYTES
    assert pace.next(waiting(tables, 100 + FULL_BYTES, held), 1000.2) is None, "nobody is due"
    assert pace.next(waiting(tables, 100 + FULL_BYTES, held), 1001) == Due(held, None)


def test_without_intervals_whatever_is_there_is_due() -> None:
    pace = Pace(None, 50)
    assert pace.next(waiting({1: 3600.0}), 1) == Due(150, None)
    assert pace.next(waiting({1: 3600.0}, 150), 1) == Due(200, None)
    assert pace.next(waiting({1: 3600.0}, 200), 1) is None
    assert Pace(0, 50).next(waiting({}), 1) == Due(150, None), "the slot moves on also when no table is left"


@given(st.data())
def test_no_table_waits_longer_than_its_interval_and_the_slot_is_never_ahead(data: st.DataObject) -> None:
    """A model of the feed: whatever is due is carried; nobody's log waits for more than his interval and a look."""
    intervals: dict[int, float | None] = data.draw(
        st.dictionaries(st.integers(1, 4), st.sampled_from([None, 0.0, 0.5, 1.0, 3.0]), min_size=1)
    )
    pace, default = Pace(2, WINDOW), 2.0
    read = dict.fromkeys(intervals, 0)
    first_unread: dict[int, float] = {}
    flushed, now = 1, 1000.0
    for _ in range(60):
        now += data.draw(st.sampled_from([0.1, 0.25]))
        if data.draw(st.booleans()):
            flushed += data.draw(st.sampled_from([1, 100, HELD_BYTES]))
        for table in intervals:
            if read[table] < flushed:
                first_unread.setdefault(table, now)
        due = pace.next(waiting(intervals, min(read.values()), flushed, wanted=data.draw(st.booleans())), now)
        for table in (intervals if due.tables is None else due.tables) if due else ():
            assert due is not None
            read[table] = due.end
            if read[table] == flushed:
                first_unread.pop(table, None)
        for table, since in first_unread.items():
            own = intervals[table]
            assert now - since <= (default if own is None else own) + 0.25


# ---- two tables ------------------------------------------------------------------------------


@pytest.fixture
def two(dsn: str, tmp_path: Path) -> Lake:
    """m and n stream; everything is in the lake."""
    lake = Lake.of(dsn, tmp_path / "home")
    for table in ("m", "n"):
        lake.run(
            f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v float8, tag text)",
            f"INSERT INTO {table} SELECT date_trunc('day', now()) + g * interval '1 hour', g, g, 'before'"
            " FROM generate_series(-30, 20) g",
            f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
            f"SELECT lakets.enable_sync('{table}')",
        )
    lake.drain()
    lake.drain()
    return lake


def write(lake: Lake, *tables: str) -> None:
    for table in tables or ("m", "n"):
        lake.run(f"INSERT INTO {table} SELECT now(), g, 0, 'new' FROM generate_series(1, 3) g")


def where(lake: Lake) -> dict[str, int]:
    """Positions: of the slot, of the stream, of each table."""
    ((slot, position),) = lake.run(
        "SELECT r.confirmed_flush_lsn::text, s.position::text"
        " FROM thermocline.stream s JOIN pg_replication_slots r USING (slot_name)"
    )
    tables = lake.run("SELECT table_oid::regclass::text, committed_lsn::text FROM thermocline.synced_table")
    return {"slot": number(slot), "stream": number(position)} | {name: number(at) for name, at in tables}


def numbers(feed: Feed) -> dict[str, int]:
    return {state.table.source.removeprefix("public."): state.table.id for state in feed.ledger.tables()}


def test_the_slot_stays_where_the_slowest_table_is(two: Lake) -> None:
    before = where(two)
    write(two)
    with two.feed() as feed:
        of = numbers(feed)
        feed.step({of["m"]})
        after = where(two)
        assert after["m"] > before["m"]
        assert after["n"] == before["n"]
        assert after["slot"] == after["stream"] == before["stream"]
        two.assert_same("m")
        with pytest.raises(AssertionError, match="only in PostgreSQL"):
            two.assert_same("n")
        write(two, "m")
        feed.step({of["m"]})
        two.assert_same("m")
        feed.step({of["n"]})
    end = where(two)
    two.assert_same("n")
    assert end["slot"] == end["stream"] == min(end["m"], end["n"])
    assert end["slot"] > before["slot"]
    two.drain()
    two.assert_same("m")
    two.assert_same("n")


def test_a_table_that_waits_keeps_every_kind_of_change(two: Lake) -> None:
    """TRUNCATE, a new chunk, columns that come and go: read once its turn has come, in the order in which they were."""
    with two.feed() as feed:
        of = numbers(feed)
        for turn in range(3):
            two.run(
                "INSERT INTO n (ts, id, tag)"
                " SELECT now() + g * interval '9 hours', g, 'new' FROM generate_series(-3, 3) g",
                f"UPDATE n SET ts = ts + interval '1 day' WHERE id % 3 = {turn} AND ts < now()",
                f"BEGIN; TRUNCATE {chunk_name('n', -1)}; INSERT INTO n (ts, id)"
                " VALUES (date_trunc('day', now()) - interval '9 hours', 99); COMMIT",
                f"ALTER TABLE n ADD COLUMN extra{turn} int DEFAULT {turn}",
                f"UPDATE n SET extra{turn} = 7 WHERE id % 2 = 0",
                "ALTER TABLE n DROP COLUMN v" if turn == 1 else "SELECT",
                "SELECT lakets._ensure_partitions(id, 1, 5) FROM lakets._chronotable_registry",
                f"INSERT INTO n (ts, id) SELECT now() + interval '4 days', {turn} FROM generate_series(1, 2)",
            )
            write(two, "m")
            feed.step({of["m"]})
        assert two.content("m") == two.hot("m")
        feed.step({of["n"]})
        feed.drain()
    two.drain()
    assert two.content("n") == two.hot("n")
    Verdicts(two, ("m", "n")).sample()


def test_a_table_that_leaves_or_is_set_aside_holds_nobody_up(two: Lake) -> None:
    with two.feed() as feed:
        of = numbers(feed)
        write(two)
        feed.step({of["m"]})
        held = where(two)["slot"]
        two.run("SELECT lakets.disable_sync('n')")
        write(two, "m")
        feed.step({of["m"]})
        assert where(two)["slot"] > held
        two.run("SELECT lakets.enable_sync('n')")
        write(two)
        feed.step({of["m"]})
        feed.drain()
    two.drain()
    for table in ("m", "n"):
        two.assert_same(table)


def test_a_table_that_has_just_joined_holds_the_slot_from_there_on(two: Lake) -> None:
    two.run(
        "CREATE TABLE late (ts timestamptz NOT NULL, id int)",
        "INSERT INTO late SELECT now(), g FROM generate_series(1, 5) g",
        "SELECT lakets.create_chronotable('late', 'ts', '1 day')",
        "SELECT lakets.enable_sync('late')",
    )
    with two.feed() as feed:
        feed.tend()
        of = numbers(feed)
        two.run("INSERT INTO late SELECT now(), g FROM generate_series(6, 9) g")
        for _ in range(2):
            write(two, "m")
            feed.step({of["m"], of["n"]})
        ((behind,),) = two.run(
            "SELECT confirmed_flush_lsn <= streams_from FROM pg_replication_slots, thermocline.synced_table"
            " WHERE slot_name LIKE 'thermocline%' AND database = current_database() AND table_oid = 'late'::regclass"
        )
        assert behind
        feed.step({of["late"]})
    two.assert_same("late")
    two.drain()
    two.assert_same("late")


def test_the_time_that_a_table_is_behind_is_its_own(two: Lake) -> None:
    write(two)
    with two.feed() as feed:
        of = numbers(feed)
        time.sleep(1.2)
        write(two)
        began = time.monotonic()
        feed.step({of["m"]})
        lags = {one.table: one.behind_seconds for one in two.stack.feed_status().tables}
        assert lags["public.m"] is not None
        assert lags["public.n"] is not None
        rounded = 0.1
        assert lags["public.m"] < time.monotonic() - began + rounded
        assert lags["public.n"] - lags["public.m"] > 1.2 - rounded


# ---- crashes ---------------------------------------------------------------------------------

POINTS = ["write.done", "batch.before_append", "lake.appended", "batch.table_committed", "batch.committed",
          "record.begun", "record.before_commit", "batch.recorded", "batch.advanced"]  # fmt: skip


@pytest.fixture
def life(crashing_dsn: str, make_lake: Callable[[str], Lake]) -> Life:
    found = Life(make_lake(crashing_dsn))
    found.sync()
    found.require_all()
    return found


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_m10_a_feed_killed_while_tables_are_apart_loses_and_repeats_nothing(life: Life, point: str, nth: int) -> None:
    life.write()
    outcome = life.feed("turns", kill_at=f"{point}:{nth}")
    assert outcome.how == "killed", outcome
    life.write()
    assert life.feed("turns").how == "done"
    life.write()
    life.feed("turns", kill_at=f"{point}:{nth}")
    life.require_all()


def test_m10_served_at_different_intervals_and_killed_at_any_moment(life: Life) -> None:
    life.lake.run(
        "SELECT lakets.set_commit_interval('m', '50 ms')",
        "SELECT lakets.set_commit_interval('n', '1 hour')",
    )
    for moment in (0.3, 0.5, 0.7):
        done = threading.Event()
        writer = threading.Thread(target=_keep_writing, args=(life, done))
        writer.start()
        child = feed_children.Child(Run(life.lake.stack.settings, "serve", seconds=5))
        child.kill_after(moment)
        assert child.wait().how == "killed"
        done.set()
        writer.join()
        life.lake.run(BURY)
        life.verdicts.sample()
    life.require_all()


def _keep_writing(life: Life, done: threading.Event) -> None:
    while not done.wait(0.02):
        life.write()


def test_a_feed_that_forgets_the_slowest_table_is_found_out(
    crashing_dsn: str, make_lake: Callable[[str], Lake]
) -> None:
    life = Life(make_lake(crashing_dsn), sabotage.leave_the_slowest_behind)
    life.sync()
    life.require_all()
    life.write()
    with pytest.raises(AssertionError, match="ahead of n"):
        life.feed("turns", kill_at="batch.advanced")


# ---- in SQL ----------------------------------------------------------------------------------


def one(lake: Lake, statement: str) -> Any:
    ((found,),) = lake.run(statement)
    return found


def test_the_interval_of_a_table_is_set_shown_kept_and_taken_back(two: Lake) -> None:
    two.run("SELECT lakets.set_commit_interval('m', '5 s')")
    shown = {table.table: table.commit_interval for table in two.stack.feed_status().tables}
    assert shown == {"public.m": 5.0, "public.n": None}
    assert (
        one(two, "SELECT commit_interval::text FROM lakets.feed_status() WHERE table_name = 'public.m'") == "00:00:05"
    )
    two.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    assert (
        one(two, "SELECT commit_interval::text FROM lakets.feed_status() WHERE table_name = 'public.m'") == "00:00:05"
    )
    two.run("SELECT lakets.set_commit_interval('m', NULL)")
    assert one(two, "SELECT count(commit_interval) FROM lakets.feed_status()") == 0


@pytest.mark.parametrize("interval", ["-1 s", "61 min", "1 month"])
def test_an_interval_that_is_none_is_refused(two: Lake, interval: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="from 0 to one hour") as refused:
        two.run(f"SELECT lakets.set_commit_interval('m', '{interval}')")
    assert refused.value.diag.message_hint


def test_the_interval_of_what_is_not_synced_is_refused(two: Lake) -> None:
    two.run("SELECT lakets.disable_sync('n')")
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.n: it is not synced") as refused:
        two.run("SELECT lakets.set_commit_interval('n', '1 s')")
    assert "enable_sync('n', 'public')" in str(refused.value.diag.message_hint)
    with pytest.raises(psycopg.errors.RaiseException, match="nothing"):
        two.run("SELECT lakets.set_commit_interval('nothing', '1 s')")


# ---- as the service does ---------------------------------------------------------------------


@pytest.fixture
def serving(two: Lake) -> Iterator[Lake]:
    """A feed that paces itself: m without waiting, n once an hour."""
    two.run("SELECT lakets.set_commit_interval('n', '1 hour')", "SELECT lakets.set_commit_interval('m', '0')")
    write(two)
    with feed_children.Child(Run(two.stack.settings, "serve", seconds=600)) as child:
        until(lambda: two.folded("n") == two.hot("n"), "at first every table is due")
        yield two
        child.kill()


def until(holds: Callable[[], bool], why: str = "") -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, why
        time.sleep(0.05)


def test_whoever_proves_a_chunk_does_not_wait_for_the_interval(serving: Lake) -> None:
    write(serving)
    until(lambda: serving.folded("m") == serving.hot("m"))
    assert serving.folded("n") != serving.hot("n")
    oid = one(serving, f"SELECT '{chunk_name('n', 0)}'::regclass::oid::bigint")
    compared = serving.stack.prover(on_spark=False).prove(oid)
    assert compared.equal, compared
    serving.assert_same("n")


def test_a_chunk_that_is_to_be_copied_again_does_not_wait_for_the_interval(serving: Lake) -> None:
    chunks = "SELECT count(*) FROM thermocline.chunk_copy WHERE chronotable_id = (SELECT chronotable_id"
    chunks += " FROM thermocline.synced_table WHERE table_oid = 'n'::regclass)"
    all_of_them = one(serving, chunks)
    serving.run("SELECT lakets.resync('n')")
    until(lambda: one(serving, chunks) == all_of_them)
    serving.run(f"TRUNCATE {chunk_name('n', 0)}")
    covered = "SELECT bool_and(chunks = covered) FROM lakets.feed_status()"
    until(lambda: bool(one(serving, covered)))
    serving.assert_same("n")


def test_a_minute_lies_between_two_commits_unless_somebody_says_otherwise() -> None:
    assert FeedSettings().interval == 60
