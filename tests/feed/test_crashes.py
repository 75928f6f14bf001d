"""The feed is killed, and PostgreSQL with it, at every point and at no point in particular: the lake stays exact."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import feed_children, sabotage
from harness.feed_children import Child, Outcome, Run
from harness.lakes import Lake
from harness.schedules import Schedule, chunk_name, kill_points
from harness.seeds import seeds
from harness.sessions import Session
from harness.stage import Stage
from harness.verdicts import History, Verdicts
from thermocline.config import FeedSettings
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.crash_servers import CrashServer

TABLES = ("m", "n")
EACH = 5
_numbers = itertools.count(1000, 100)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "some_seeds" in metafunc.fixturenames:
        found = seeds(metafunc.config)
        groups = [found[at : at + EACH] for at in range(0, len(found), EACH)]
        metafunc.parametrize("some_seeds", groups, ids=[f"{number}" for number in range(len(groups))])


# ---- random schedules ------------------------------------------------------------------------


@pytest.mark.slow
def test_m9_m10_m13_m14_m16_m21_g4_g9_random_schedules_leave_the_lake_exact(
    crashing: CrashServer, crashing_template: str, tmp_path: Path, some_seeds: list[int]
) -> None:
    for number, seed in enumerate(some_seeds):
        schedule = Schedule.of(seed)
        with crashing.server().database(crashing_template) as dsn:
            settings = Lake.of(dsn, tmp_path / f"home{number}").stack.settings
            chosen = FeedSettings(interval=0, window_mb=schedule.window_mb)
            lake = Lake(dsn, Stack(settings.model_copy(update={"feed": chosen})))
            Stage(schedule, crashing, lake).play()


def test_a_schedule_is_the_same_each_time() -> None:
    assert Schedule.of(7) == Schedule.of(7)
    assert Schedule.of(7).acts != Schedule.of(8).acts
    kinds = {act.kind for seed in range(40) for act in Schedule.of(seed).acts}
    assert kinds == {"write", "end", "sync", "alter", "feed", "crash", "audit", "hammer", "checkpoint"}


# ---- every point once ------------------------------------------------------------------------


class Life:
    """Two tables and their feed, killed and brought back."""

    def __init__(self, lake: Lake, prepare: Callable[[], None] | None = None) -> None:
        self.lake = lake
        self.verdicts = Verdicts(lake, TABLES)
        self._prepare = prepare
        for table in TABLES:
            lake.run(
                f"CREATE TABLE {table} (ts timestamptz NOT NULL, id int, v float8, tag text)",
                f"INSERT INTO {table} SELECT date_trunc('day', now()) + g * interval '1 hour', g, g, 'before'"
                " FROM generate_series(-30, 20) g",
                f"SELECT lakets.create_chronotable('{table}', 'ts', '1 day')",
            )

    def sync(self, how: str = "enable") -> None:
        self.lake.run(*(f"SELECT lakets.{how}_sync('{table}')" for table in TABLES))

    def write(self) -> None:
        """Something of everything that the stream can carry."""
        for table in TABLES:
            number = next(_numbers)
            self.lake.run(
                f"INSERT INTO {table} SELECT now() + g * interval '9 hours', {number} + g, 0, 'new'"
                " FROM generate_series(-3, 3) g",
                f"INSERT INTO {table} SELECT now(), NULL, 0, 'same' FROM generate_series(1, 3)",
                f"UPDATE {table} SET v = v + 1 WHERE id % 3 = {number % 3}",
                f"UPDATE {table} SET ts = ts + interval '1 day' WHERE id % 7 = {number % 7} AND ts < now()",
                f"DELETE FROM {table} WHERE id % 5 = {number % 5}",
                f"BEGIN; TRUNCATE {chunk_name(table, -1)}; INSERT INTO {table}"
                f" SELECT date_trunc('day', now()) - interval '9 hours', {number} + 10, 1, 'after'; COMMIT",
            )

    def feed(
        self, mode: str = "drain", kill_at: str | None = None, prepare: Callable[[], None] | None = None
    ) -> Outcome:
        run = Run(self.lake.stack.settings, mode, kill_at, prepare=prepare or self._prepare)
        outcome = feed_children.run_in_turn(run)
        self.verdicts.sample()
        return outcome

    def require_all(self) -> None:
        """Bring everything to the lake, and look at it."""
        for _ in range(20):
            outcome = self.feed()
            assert outcome.how == "done", outcome
            if outcome.caught_up and not self.verdicts.uncovered():
                break
        assert not self.verdicts.uncovered()
        self.verdicts.require_all()


@pytest.fixture
def life(crashing_dsn: str, make_lake: Callable[[str], Lake]) -> Life:
    return Life(make_lake(crashing_dsn))


def meet(life: Life, point: str) -> Outcome:
    """Lead a life in which every point is met once; returns how the feed ended that met it first."""
    life.sync()
    life.write()
    if point.startswith("resync."):
        assert life.feed().how == "done"
        outcome = life.feed("resync", kill_at=point)
        assert life.feed("resync").how == "done", "what was interrupted is asked for again"
        return outcome
    if point.startswith("lake.follow"):
        assert life.feed().how == "done"
        life.lake.run("ALTER TABLE m ADD COLUMN extra int", "UPDATE m SET extra = 1 WHERE id % 2 = 0")
        return life.feed(kill_at=point)
    if (outcome := life.feed(kill_at=point)).how == "killed":
        return outcome
    life.write()
    if (outcome := life.feed(kill_at=point)).how == "killed":
        return outcome
    life.write()
    life.feed(kill_at="batch.committed")
    if (outcome := life.feed(kill_at=point)).how == "killed":
        return outcome
    life.sync("disable")
    outcome = life.feed(kill_at=point)
    life.write()
    life.sync()
    return outcome


@pytest.mark.parametrize("point", kill_points())
def test_m10_a_feed_killed_at_any_point_loses_and_repeats_nothing(life: Life, point: str) -> None:
    assert meet(life, point).how == "killed", "the point was not met"
    life.write()
    life.require_all()


def test_there_are_many_points_and_each_is_named_for_its_room() -> None:
    rooms = {point.partition(".")[0] for point in kill_points()}
    assert rooms == {"batch", "copy", "feed", "join", "lake", "read", "record", "resync", "write"}
    assert len(kill_points()) >= 30


# ---- the four gaps of a batch ----------------------------------------------------------------


def state(lake: Lake) -> dict[str, Any]:
    """Where slot, record and lake stand."""
    ((slot, position),) = lake.run(
        "SELECT r.confirmed_flush_lsn - '0/0', s.position - '0/0' FROM thermocline.stream s"
        " JOIN pg_replication_slots r USING (slot_name)"
    )
    with lake.stack.catalog() as catalog:
        tables = {name: catalog.load_table(f"public.lb_{name}_history") for name in TABLES}
    snapshots = {name: table.current_snapshot() for name, table in tables.items()}
    rows = {name: len(History(lake, name).entries) for name in TABLES}
    return {"slot": slot, "position": position, "snapshots": snapshots, "rows": rows}


@pytest.fixture
def streaming(life: Life) -> Life:
    """Everything is in the lake, then something is written."""
    life.sync()
    life.require_all()
    life.write()
    return life


def files(lake: Lake, ending: str = ".parquet") -> set[Path]:
    return set(lake.stack.home.root.rglob(f"*{ending}"))


@pytest.mark.parametrize("point", ["write.done", "batch.before_append", "lake.manifests_written"])
def test_m10_between_parquet_and_commit_the_batch_is_written_again(streaming: Life, point: str) -> None:
    before, there = state(streaming.lake), files(streaming.lake)
    assert streaming.feed(kill_at=point).how == "killed"
    assert files(streaming.lake) > there, "files are written, nothing points at them"
    assert state(streaming.lake) == before
    streaming.require_all()


def is_begun(path: Path) -> bool:
    """Whether something is in a file and, as far as that is easily told, not all of it."""
    try:
        return path.stat().st_size > 0 and not (path.suffix == ".parquet" and pq.read_metadata(path))
    except pa.ArrowInvalid:
        return True


def test_m10_a_file_of_which_half_is_written_is_in_nobodys_way(streaming: Life, crashing: CrashServer) -> None:
    for ending in (".parquet", ".avro", ".metadata.json"):
        before, there = state(streaming.lake), files(streaming.lake, ending)
        assert streaming.feed(prepare=partial(sabotage.die_within, ending)).how == "killed"
        begun = files(streaming.lake, ending) - there  # several are written side by side, some may be whole
        assert any(is_begun(path) for path in begun)
        assert state(streaming.lake) == before
        crashing.crash_and_recover()
    assert state(streaming.lake) == before
    streaming.require_all()


@pytest.mark.parametrize("point", ["lake.appended", "batch.table_committed", "batch.committed", "record.before_commit"])
def test_m10_between_commit_and_progress_the_lake_knows_what_it_has(streaming: Life, point: str) -> None:
    before = state(streaming.lake)
    assert streaming.feed(kill_at=point).how == "killed"
    after = state(streaming.lake)
    # Tables are committed side by side: one of them at least, and the other one perhaps.
    committed = {name for name in TABLES if after["rows"][name] > before["rows"][name]}
    assert committed
    assert (after["position"], after["slot"]) == (before["position"], before["slot"])
    assert streaming.feed().how == "done"
    found = state(streaming.lake)["rows"]
    assert {name: found[name] for name in committed} == {name: after["rows"][name] for name in committed}, "once"
    streaming.require_all()


def test_m10_between_progress_and_slot_the_slot_is_read_again_and_nothing_of_it_written(streaming: Life) -> None:
    before = state(streaming.lake)
    assert streaming.feed(kill_at="batch.recorded").how == "killed"
    after = state(streaming.lake)
    assert after["position"] > before["position"]
    assert after["slot"] == before["slot"]
    assert streaming.feed().how == "done"
    assert state(streaming.lake)["rows"] == after["rows"]
    streaming.require_all()


def test_m10_a_slot_that_fell_behind_in_a_crash_of_postgres_repeats_nothing(
    streaming: Life, crashing: CrashServer
) -> None:
    def restart() -> object:
        return streaming.lake.run("SELECT restart_lsn, catalog_xmin FROM pg_replication_slots")

    for _ in range(30):
        kept = restart()
        streaming.write()
        before = state(streaming.lake)
        assert streaming.feed().how == "done"
        after = state(streaming.lake)
        assert after["slot"] > before["slot"]
        if restart() == kept:  # else it was saved with its place: the server has written down who runs meanwhile
            break
    crashing.crash_and_recover()
    fallen = state(streaming.lake)
    assert fallen["slot"] < after["slot"], "PostgreSQL saves a slot's place now and then"
    assert fallen["position"] == after["position"]
    assert streaming.feed().how == "done"
    assert state(streaming.lake)["rows"] == after["rows"]
    streaming.require_all()


@pytest.mark.parametrize(
    "points",
    [
        ("write.before_file", "write.after_file", "lake.manifests_written"),
        ("record.registering", "lake.appended", "batch.committed"),
        ("record.before_commit", "batch.recorded", "batch.advanced"),
    ],
)
def test_m10_feed_and_postgres_die_one_after_the_other(
    streaming: Life, crashing: CrashServer, points: tuple[str, ...]
) -> None:
    """Around the files, the commits in the lake, the record of them and the slot."""
    for point in points:
        streaming.write()
        assert streaming.feed(kill_at=point).how == "killed"
        killed = state(streaming.lake)
        crashing.crash_and_recover()
        streaming.verdicts.sample()
        found = state(streaming.lake)
        assert found["position"] >= killed["position"], "what was recorded stays so"
        for table in TABLES:
            assert found["rows"][table] >= killed["rows"][table], "what the lake had it has"
    streaming.require_all()


def test_m10_feed_and_postgres_die_one_after_the_other_at_the_beginning(life: Life, crashing: CrashServer) -> None:
    life.sync()
    life.write()
    for point in ("feed.slot_created", "join.ended", "copy.committed", "copy.before_record", "copy.recorded"):
        assert life.feed(kill_at=point).how == "killed"
        crashing.crash_and_recover()
        life.verdicts.sample()
        life.write()
    life.require_all()


@pytest.mark.parametrize("point", ["batch.committed", "record.before_commit", "batch.recorded"])
def test_m10_a_chunk_whose_creation_was_in_a_batch_that_was_cut_short_is_covered(streaming: Life, point: str) -> None:
    streaming.lake.run(
        "SELECT lakets._ensure_partitions(id, 1, 5) FROM lakets._chronotable_registry",
        "INSERT INTO m VALUES (date_trunc('day', now()) + interval '5 days', NULL, 1, 'in a new chunk')",
    )
    assert streaming.feed(kill_at=point).how == "killed"
    for _ in range(2):
        assert streaming.feed().caught_up
    assert not streaming.verdicts.uncovered(), "caught up, it said"
    streaming.require_all()


def test_m10_killed_at_the_same_point_again_and_again(streaming: Life) -> None:
    for point in ("batch.committed", "batch.committed", "feed.adopting", "lake.appended", "batch.recorded"):
        streaming.write()
        assert streaming.feed(kill_at=point).how in ("killed", "done")
    streaming.require_all()


# ---- the position of a copy ------------------------------------------------------------------

# A row in every chunk: whichever is copied first, this is a transaction that has written to it.
MEANWHILE = "".join(
    f"INSERT INTO {table} SELECT c.range_start, NULL, 0, 'meanwhile' FROM lakets._chunk_metadata c"
    f" WHERE c.chronotable_id = lakets._chronotable_id('{table}', 'public');"
    for table in TABLES
)
# Has written before and commits between position and snapshot; writes in between; has committed and is not seen yet.
WRITERS = ["before", "between", "unseen"]


@pytest.fixture
def joined(life: Life) -> Life:
    """Both tables are streamed, and nothing of them is copied."""
    life.sync()
    assert life.feed(kill_at="copy.locked").how == "killed"
    return life


def wait_until(came: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not came():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_asleep(child: Child) -> bool | None:
    """None as long as it runs."""
    try:
        status = psutil.Process(child.pid).status()
    except psutil.NoSuchProcess:
        return False
    return {psutil.STATUS_STOPPED: True, psutil.STATUS_ZOMBIE: False}.get(status)


def waits_for(life: Life, session: Session) -> tuple[str | None, str | None]:
    ((kind, what),) = life.lake.run(
        f"SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = {session.pid}"
    )
    return kind, what


@contextmanager
def unseen(life: Life, writer: Session) -> Iterator[None]:
    """A commit is in the log, and nobody sees it: its session waits for a standby, and is stopped there."""
    life.lake.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        while True:
            writer.run(MEANWHILE)
            ended = writer.start("COMMIT")
            wait_until(lambda ended=ended: ended.done() or waits_for(life, writer)[1] == "SyncRep")  # type: ignore[misc]
            if not ended.done():  # else the server has not read the setting yet
                break
        os.kill(writer.pid, signal.SIGSTOP)
    finally:
        life.lake.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        os.kill(writer.pid, signal.SIGCONT)
        ended.result(60)


def copy_beside(life: Life, writes: str, broken: Callable[[], None] | None = None) -> None:
    """Copy while somebody writes, at the worst moment: between the position of a copy and its snapshot."""
    prepare = [broken] if broken else []
    with Session(life.lake.dsn) as writer:
        if writes == "unseen":
            with unseen(life, writer):
                assert life.feed(prepare=partial(sabotage.all_of, prepare)).how == "done"
            return
        if writes == "before":
            writer.run(MEANWHILE)
        sleepy = partial(sabotage.all_of, [*prepare, partial(sabotage.sleep_at, "copy.positioned")])
        with Child(Run(life.lake.stack.settings, prepare=sleepy)) as child:
            wait_until(lambda: is_asleep(child) is not None)
            if is_asleep(child):
                if writes == "between":
                    begun = writer.start(MEANWHILE)
                    wait_until(lambda: begun.done() or waits_for(life, writer)[0] == "Lock")
                    if begun.done():
                        writer.commit()
                else:
                    writer.commit()
                os.kill(child.pid, signal.SIGCONT)
            assert child.wait().how == "done"
        writer.commit()


@pytest.mark.parametrize("writes", WRITERS)
def test_m21_a_copy_has_what_was_committed_below_its_position_and_no_more(joined: Life, writes: str) -> None:
    copy_beside(joined, writes)
    joined.require_all()


@pytest.mark.parametrize("writes", WRITERS)
def test_m21_a_copy_that_takes_no_lock_is_found_out(joined: Life, writes: str) -> None:
    copy_beside(joined, writes, sabotage.copy_without_a_lock)
    twice, lost = ("0", r"[1-9]\d*") if writes == "unseen" else ("1", "0")
    with pytest.raises(AssertionError, match=rf"is not exact: only in the lake {twice}, .* in PostgreSQL {lost}, as"):
        joined.require_all()


# ---- the harness itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "point", "told"),
    [
        (sabotage.forget_what_the_lake_has, "batch.committed", "is not exact|taken twice|removed and never added"),
        (sabotage.advance_the_slot_first, "batch.before_append", "ahead of the lake"),
        (sabotage.record_progress_first, "batch.before_append", "came later|recorded up to"),
        (sabotage.hear_no_truncate, "batch.recorded", "is not exact"),
        (sabotage.cover_before_copying, "copy.committed", "is not exact|never added"),
    ],
)
def test_a_feed_that_breaks_a_rule_is_found_out(
    crashing_dsn: str, make_lake: Callable[[str], Lake], broken: Callable[[], None], point: str, told: str
) -> None:
    life = Life(make_lake(crashing_dsn), broken)
    with pytest.raises(AssertionError, match=told):
        life.sync()
        life.write()
        life.feed(kill_at=point)
        life.write()
        life.feed()
        life.write()
        life.feed(kill_at=point)
        life.require_all()
