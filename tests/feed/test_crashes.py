"""The feed is killed, and PostgreSQL with it, at every point and at no point in particular: the lake stays exact."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from harness import feed_children, sabotage
from harness.feed_children import Outcome, Run
from harness.lakes import Lake
from harness.schedules import Schedule, chunk_name, kill_points
from harness.seeds import seeds
from harness.stage import Stage
from harness.verdicts import History, Verdicts
from thermocline.config import FeedSettings
from thermocline.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable
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

    def feed(self, mode: str = "drain", kill_at: str | None = None) -> Outcome:
        outcome = feed_children.run_in_turn(Run(self.lake.stack.settings, mode, kill_at, prepare=self._prepare))
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


def files(lake: Lake) -> int:
    return sum(1 for _ in lake.stack.home.root.rglob("*.parquet"))


@pytest.mark.parametrize("point", ["write.done", "batch.before_append", "lake.manifests_written"])
def test_m10_between_parquet_and_commit_the_batch_is_written_again(streaming: Life, point: str) -> None:
    before, there = state(streaming.lake), files(streaming.lake)
    assert streaming.feed(kill_at=point).how == "killed"
    assert files(streaming.lake) > there, "files are written, nothing points at them"
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
