"""The life of a chunk with a real feed and a real lake: active, tiered, dropped, and nothing of it touches the lake."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.lakes import BASE, NOON, Lake, age, chunk
from harness.questions import ask
from harness.sessions import Session
from thermocline.gate.lifecycle import Lifecycle
from thermocline.gate.receipt import Prover
from thermocline.lake.catalogs import LAKE

GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "let-chunks-go.md"
STATES = "SELECT split_part(chunk_name, '.', 2), status FROM lakets._chunk_metadata ORDER BY range_start LIMIT 4"
DAYS = [chunk(day) for day in range(4)]


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Three days of 24 rows and an empty yesterday, not yet synced."""
    return Lake.of(dsn, tmp_path / "home").with_days()


def entries(lake: Lake) -> list[dict[str, Any]]:
    return list(lake.history().to_pylist())


def tier(lake: Lake, patience: float = 60) -> list[tuple[str, str, str]]:
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[LAKE], patience=patience)
    gate = Lifecycle(lake.dsn, prover, "m")
    return [(line.chunk.partition(".")[2], line.verdict, line.reason) for line in gate.tier()]


def retention(lake: Lake, patience: float = 60) -> list[tuple[str, str, str]]:
    prover = Prover(lake.dsn, lake.stack.catalog_descriptions[LAKE], patience=patience)
    gate = Lifecycle(lake.dsn, prover, "m")
    return [(line.chunk.partition(".")[2], line.verdict, line.reason) for line in gate.retention()]


def keep(lake: Lake, tier_after: str, drop_after: str) -> None:
    lake.run(
        "SELECT lakets.remove_retention_policy('m')",
        f"SELECT lakets.add_tiered_retention_policy('m', '{tier_after}', '{drop_after}')",
    )


def states(lake: Lake) -> list[str]:
    """Of the three days with rows and the empty one."""
    found = lake.run(STATES)
    assert [name for name, _ in found] == DAYS
    return [status for _, status in found]


@pytest.mark.promise("000-01", "000-02", "000-03", "000-04", "000-05", "000-07", "000-08", "000-31", "000-33")
def test_a_chunk_is_active_then_tiered_then_dropped_and_the_lake_keeps_it(lake: Lake) -> None:
    lake.synced().drain()
    lake.assert_same()
    written, rows = entries(lake), lake.hot()
    size = "SELECT sum(pg_total_relation_size(inhrelid)), count(*) FROM pg_inherits WHERE inhparent = 'm'::regclass"
    keep(lake, age(2), "30 days")
    before = lake.run(size)
    assert states(lake) == ["active"] * 4

    with lake.feeding():
        assert tier(lake) == [(day, "tiered", "proven") for day in DAYS[:3]], "all that are old enough, and no other"
        assert states(lake) == ["tiered", "tiered", "tiered", "active"]
        lake.run(f"SELECT lakets.untier_chunk('public.{chunk(2)}')")
        assert retention(lake) == []
        assert lake.run(size) == before, "flagged or not, all is there until drop_after"
        assert lake.hot() == rows
        read = lake.run(f"SELECT DISTINCT tableoid::regclass::text FROM m WHERE ts < '{BASE + timedelta(days=3)}'")
        assert sorted(name for (name,) in read) == DAYS[:3]
        assert lake.run(f"SELECT lakets.tier_chunk('public.{chunk(2)}')") == [(True,)]

        keep(lake, age(2), age(1))
        assert retention(lake) == [(day, "dropped", "proven") for day in DAYS[:2]]
    assert states(lake) == ["dropped", "dropped", "tiered", "active"]
    assert lake.run(f"SELECT to_regclass(name) FROM unnest(ARRAY{DAYS}) name") == [
        (None,),
        (None,),
        (DAYS[2],),
        (DAYS[3],),
    ]
    assert lake.run("SELECT count(*), min(ts) FROM m") == [(24, BASE + timedelta(days=2))]
    assert entries(lake) == written
    assert lake.folded() == rows


ROUTES = {
    "execute_retention": "SELECT lakets.execute_retention('m')",
    "by force": "SELECT lakets.execute_retention('m', p_force => true)",
    "drop_chunks": "SELECT lakets.drop_chunks('m', '{age}')",
    "worker": "",
}


@pytest.mark.promise("000-31", "000-34", "000-23")
@pytest.mark.parametrize("route", ROUTES)
def test_no_route_takes_more_than_the_partition_and_none_touches_the_lake(lake: Lake, route: str) -> None:
    """Each by the one function that removes a chunk: a call in its transaction, the worker in one for each chunk."""
    lake.synced().drain()
    written, rows = entries(lake), lake.folded()
    keep(lake, age(2), age(1))
    others = (
        "SELECT array_agg(oid::int ORDER BY oid) FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'm\\_%'"
        f" AND relname NOT IN ('{DAYS[0]}', '{DAYS[1]}')"
    )
    before = lake.run(others)
    with lake.feeding():
        if route == "worker":
            assert [line[1] for line in retention(lake)] == ["dropped", "dropped"]
        else:
            prover = lake.stack.prover(on_spark=False)
            for day in range(2):
                assert prover.prove(lake.chunk_oid(day)).equal
                prover.look(lake.chunk_oid(day))
    if route != "worker":  # a call gives way to whoever uses a chunk, so no feed is about
        call = ROUTES[route].format(age=age(1))
        with psycopg.connect(lake.dsn) as session:
            session.execute("SET track_functions = 'all'")
            assert ask(session, call) == [(2,)]
            removed = (
                "SELECT calls FROM pg_stat_xact_user_functions"
                " WHERE schemaname = 'thermocline' AND funcname = '_remove_chunk'"
            )
            assert ask(session, removed) == [(2,)]
            session.rollback()
            assert lake.run("SELECT count(*) FROM m") == [(72,)], "it was all in the caller's transaction"
            ask(session, call)
        lake.drain()
    else:
        each = "SELECT count(DISTINCT xmin::text) FROM thermocline.audit WHERE action = 'drop_chunk'"
        assert lake.run(each) == [(2,)]
    assert states(lake) == ["dropped", "dropped", "active", "active"]
    assert lake.run(others) == before
    assert lake.run("SELECT count(*) FROM m") == [(24,)]
    lake.run("SELECT lakets.disable_sync('m')")
    assert entries(lake) == written
    lake.run("SELECT lakets.drop_chronotable('m')")
    assert entries(lake) == written
    assert lake.folded() == rows


@pytest.mark.promise("000-11", "000-13", "000-19", "000-20", "000-27")
def test_without_a_feed_that_streams_nothing_is_flagged_or_dropped_and_it_is_tried_again(lake: Lake) -> None:
    keep(lake, age(2), age(1))
    # Numbers of rows and bytes are estimates that follow the table's statistics, and when they changed is noted.
    estimates = "{row_count,size_bytes,last_modified_at}"
    known = f"SELECT to_jsonb(m) - '{estimates}'::text[] FROM lakets._chunk_metadata m ORDER BY range_start"
    before, rows = lake.run(known), lake.hot()
    for _ in range(2):
        assert tier(lake) == [(day, "unproven", "not_synced") for day in DAYS[:3]]
        assert retention(lake) == [(day, "stays", "not_synced") for day in DAYS[:2]]
    lake.synced()
    for _ in range(2):
        assert tier(lake, 0.2) == [(day, "unproven", "not_covered") for day in DAYS[:3]]
        assert retention(lake) == [(day, "stays", "feed_not_streaming") for day in DAYS[:2]]
    assert (lake.run(known), lake.hot()) == (before, rows)
    lake.drain()
    lake.run(f"UPDATE m SET v = 99 WHERE ts = '{NOON[0]}'")  # streams, and is behind
    assert {line[2] for line in tier(lake, 0.2)} == {"feed_behind"}
    assert retention(lake, 0.2) == [(day, "stays", "no_receipt") for day in DAYS[:2]]
    assert states(lake) == ["active"] * 4
    with lake.feeding():
        assert [line[1] for line in tier(lake)] == ["tiered"] * 3
        assert [line[1] for line in retention(lake)] == ["dropped"] * 2


@pytest.mark.promise("000-40")
def test_a_chunk_that_was_written_to_after_it_was_tiered_is_proven_anew_before_it_goes(lake: Lake) -> None:
    lake.synced().drain()
    keep(lake, age(2), age(1))
    with lake.feeding():
        assert len(tier(lake)) == 3
    lake.run(f"INSERT INTO m VALUES ('{NOON[0]}', 1000, 0.5)")
    rows = lake.hot()
    assert {name: why for name, _, why in retention(lake, 0.2)}[DAYS[0]] == "changed_since_receipt"
    assert lake.run(f"SELECT count(*) FROM {DAYS[0]}") == [(25,)]
    with lake.feeding():
        assert retention(lake) == [(DAYS[0], "dropped", "proven")]
    assert lake.folded() == rows
    assert [row[1] for row in lake.folded() if row[0] == NOON[0]] == [12, 1000]


@pytest.mark.promise("000-17")
def test_other_tables_do_not_keep_an_idle_chunk_from_being_proven(lake: Lake) -> None:
    lake.synced().drain()
    keep(lake, age(2), age(1))
    lake.run("CREATE TABLE noise (x text)")
    with lake.feeding(), Session(lake.dsn) as other:
        other.run("INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
        other.commit()
        other.run("INSERT INTO noise VALUES ('open')")
        assert [line[1] for line in tier(lake)] == ["tiered"] * 3


@pytest.mark.promise("000-09", "000-18")
def test_a_policy_puts_nothing_on_the_table_and_positions_come_from_the_stream(lake: Lake) -> None:
    lake.synced().drain()
    triggers = "SELECT tgrelid, tgname FROM pg_trigger ORDER BY 1, 2"
    before = lake.run(triggers)
    lake.run("SELECT lakets.add_tiering_policy('m', '7 days')")
    assert lake.run(triggers) == before
    position = f"SELECT last_write_lsn FROM lakets._chunk_metadata WHERE range_start = '{BASE}'"
    ((at_first,),) = lake.run(position)
    with Session(lake.dsn) as one, Session(lake.dsn) as other:
        for session in (one, other):  # into one chunk at once, and neither waits
            session.run("SET lock_timeout = '2s'")
            session.run(f"INSERT INTO m VALUES ('{NOON[0]}', 1, 1)")
            session.run("INSERT INTO m VALUES (now(), 2, 2)")
        rows_locked = lake.run(
            "SELECT DISTINCT relation::regclass::text FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
            " JOIN lakets._chunk_metadata m ON true"
            f" WHERE pid IN ({one.pid}, {other.pid}) AND mode = 'RowExclusiveLock'"
            " AND c.oid IN ('lakets._chunk_metadata'::regclass, 'lakets._chronotable_registry'::regclass,"
            " 'lakets._policy_registry'::regclass, 'thermocline.synced_table'::regclass)"
        )
        assert rows_locked == []
        one.commit()
        other.commit()
    assert lake.run(position) == [(at_first,)], "nobody but the feed tells"
    lake.drain()
    ((at_last, passed),) = lake.run(
        "SELECT last_write_lsn, committed_lsn >= last_write_lsn FROM lakets._chunk_metadata m"
        f" JOIN thermocline.synced_table USING (chronotable_id) WHERE range_start = '{BASE}'"
    )
    assert lake.run(f"SELECT '{at_last}'::pg_lsn > '{at_first}'::pg_lsn") == [(True,)]
    assert passed
    ((told,),) = lake.run(
        "SELECT verdicts -> 0 ->> 'last_write_lsn' FROM lakets.show_tiering_status('m', p_verdicts => true)"
    )
    assert told == at_last


@pytest.mark.promise("000-22")
def test_caught_up_is_what_the_feed_has_reached(lake: Lake) -> None:
    """Not what it had reached when it was stopped, and whatever other tables write."""
    asked = "SELECT pending_chunks, caught_up FROM lakets.show_tiering_status('m')"
    lake.run(f"SELECT lakets.add_tiering_policy('m', '{age(2)}')", "SELECT lakets.enable_sync('m')")
    assert lake.run(asked) == [(3, False)]
    lake.drain()
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")
    assert lake.run(asked) == [(3, False)]  # nobody brings it
    with lake.feed() as feed:
        assert lake.run(asked) == [(3, False)]  # it has not been read yet
        feed.drain()
        assert lake.run(asked) == [(3, True)]
        lake.run("CREATE TABLE other AS SELECT g FROM generate_series(1, 1000) g")
        assert lake.run(asked) == [(3, True)]
        lake.run(f"DELETE FROM m WHERE ts = '{NOON[2]}'")
        assert lake.run(asked) == [(3, False)]
        feed.drain()
        assert lake.run(asked) == [(3, True)]
    assert lake.run(asked) == [(3, False)]


@pytest.mark.promise("000-41")
def test_the_guide_says_how_to_choose_the_ages() -> None:
    (advice,) = re.findall(r"^\*\*Which ages\.\*\*(.+?)\n\n", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for word in ("`tier_after`", "`drop_after`", "late row", "longest delay"):
        assert word in advice
    assert len(re.findall(r"`'\d+ days'`", advice)) >= 3


def test_g6_writers_in_other_zones_and_another_interval_meet_their_own_chunks(dsn: str, tmp_path: Path) -> None:
    """Closed by design: a chunk is a range of absolute time on a grid in UTC, whatever a session is set to."""
    lake = Lake.of(dsn, tmp_path / "home").with_days()
    lake.synced().drain()
    for number, zone in enumerate(("Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "Europe/Berlin")):
        with psycopg.connect(dsn) as session:
            session.execute("SELECT set_config('timezone', %s, false)", [zone])
            session.execute(
                "INSERT INTO m SELECT (%s::timestamptz + g * interval '1 hour')::timestamp, %s, g"
                " FROM generate_series(0, 23) g",
                [BASE, 1000 + number],
            )
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET timezone = 'Asia/Kathmandu'")
        session.execute("SELECT lakets.set_chunk_interval('m', '7 hours')")
        session.execute("SELECT lakets._ensure_partitions(id, 0, 30) FROM lakets._chronotable_registry")
        session.execute("INSERT INTO m VALUES (now() + interval '3 hours', 2000, 1)")
    ranges = lake.run("SELECT chunk_name, range_start, range_end FROM lakets.show_chunks('m') ORDER BY range_start")
    assert all(end == start for (_, _, end), (_, start, _) in itertools.pairwise(ranges))
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    of_now = [start for _, start, end in ranges if end - start == timedelta(hours=7)]
    assert of_now
    assert all((start - epoch) % timedelta(hours=7) == timedelta(0) for start in of_now)
    for name, start, end in ranges:
        outside = f"SELECT count(*) FROM {name} WHERE ts < '{start}' OR ts >= '{end}'"
        assert lake.run(outside) == [(0,)]
    day = f"SELECT count(*) FROM m WHERE ts >= '{BASE}' AND ts < '{BASE + timedelta(days=1)}'"
    assert lake.run(day) == [(24 * 5,)]
    whole = lake.hot()
    lake.let_go(0)
    assert lake.run(day) == [(0,)]
    assert lake.run("SELECT row_count FROM thermocline.audit WHERE action = 'drop_chunk'") == [(24 * 5,)]
    assert lake.folded() == whole
