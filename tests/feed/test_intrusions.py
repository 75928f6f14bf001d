"""What others may do to the feed's tables, its messages and its sessions: nothing of it stops it or makes it lie."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from harness.lakes import BASE, LATELY, NOON, Lake, chunk
from harness.roles import role
from harness.trials import on_the_way
from thermocline.feed import copying
from thermocline.feed.batches import carry
from thermocline.feed.refusals import PublicationLost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days().synced()


@pytest.mark.parametrize(
    "event",
    [
        {"event": "chunk_truncated", "chronotable": 1},
        {"event": "chunk_created", "chronotable": 1},
        {"event": "x", "chronotable": [1]},
        {"event": ["chunk_created"]},
        {"event": "chunk_truncated", "chronotable": 1, "chunk": 1, "range_start": 5, "range_end": 6},
        {"event": "chunk_truncated", "chronotable": 1, "chunk": 1, "range_start": "soon", "range_end": "later"},
        {"event": "chunk_created", "chronotable": 1, "chunk": "x"},
        {"event": "chunk_created", "chronotable": True, "chunk": 1},
        [1, 2],
        None,
    ],
)
def test_a_message_that_makes_no_sense_is_passed_by(lake: Lake, dsn: str, event: Any) -> None:
    lake.drain()
    with role(dsn, "stranger") as strangers, psycopg.connect(strangers) as session:
        session.execute("SELECT pg_logical_emit_message(true, 'thermocline', %s)", [json.dumps(event)])
        session.commit()
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")
        lake.drain()
    lake.assert_same()


@pytest.mark.parametrize("resident", [True, False])
def test_g9_nobody_else_can_say_that_a_chunk_was_truncated(lake: Lake, dsn: str, resident: bool) -> None:
    lake.drain()
    if not resident:
        lake.run(f"SELECT lakets.add_retention_policy('m', now() - '{BASE + timedelta(days=1)}'::timestamptz)")
        with lake.feeding():
            lines = lake.stack.lifecycle("m", on_spark=False).retention()
        assert [line.verdict for line in lines] == ["dropped"]
    before = lake.folded()
    ours = json.dumps(
        {"event": "chunk_truncated", "chronotable": 1, "chunk": 1, "range_start": f"{BASE}", "range_end": f"{NOON[0]}"}
    )
    with role(dsn, "stranger") as strangers, psycopg.connect(strangers, autocommit=True) as session:
        for seal in ("", "\n", "\n" + "0" * 64):
            session.execute("SELECT pg_logical_emit_message(true, 'thermocline', %s)", [ours + seal])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT thermocline._tell('{}')")
    lake.drain()
    assert lake.folded() == before
    assert sum(before.values()) == 72


def test_g9_whoever_may_truncate_a_chunk_needs_no_right_of_ours(lake: Lake, dsn: str) -> None:
    lake.drain()
    with role(dsn, "cleaner", "", f"GRANT TRUNCATE ON {chunk(1)} TO {{role}}") as cleaners:
        with psycopg.connect(cleaners) as session:
            session.execute(f"TRUNCATE {chunk(1)}".encode())
        lake.drain()
        lake.assert_same()
    assert lake.run("SELECT count(*) FROM m") == [(48,)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "5874897-12-31"),
        ("date", "0044-03-15 BC"),
        ("timestamp", "294276-12-31 23:59:59"),
        ("timestamp", "4713-01-01 00:00:00 BC"),
        ("timestamptz", "10000-01-01 00:00:00+00"),
        ("numeric", "1e1000"),
        ("float8", "5e-324"),
        ('"char"', "x"),
    ],
)
def test_m12_an_odd_value_stops_nothing_and_is_proven(lake: Lake, kind: str, value: str) -> None:
    lake.run(
        f"CREATE TABLE n (ts timestamptz NOT NULL, v {kind})",
        f"INSERT INTO n VALUES ('{LATELY}', '{value}')",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
    )
    lake.drain()
    lake.run(f"INSERT INTO n VALUES ('{LATELY}', '{value}')", "UPDATE n SET v = v")
    lake.drain()
    ((oid,),) = lake.run(f"SELECT tableoid::bigint FROM n WHERE ts = '{LATELY}' LIMIT 1")
    prover = lake.stack.prover(on_spark=False)
    with lake.feeding():
        assert prover.prove(oid).equal
    lake.assert_same("m")


def meanwhile(monkeypatch: pytest.MonkeyPatch, lake: Lake, *statements: str) -> None:
    """Statements of somebody else, once, after the chunks were listed and before they are locked."""
    plain = copying.standing_together
    done: list[bool] = []

    def together(*given: Any, **more: Any) -> Any:
        if not done:
            done.append(True)
            lake.run(*statements)
        return plain(*given, **more)

    monkeypatch.setattr(copying, "standing_together", together)


def drained(lake: Lake) -> None:
    """A chunk that was busy is copied in the next pass."""
    for _ in range(3):
        with lake.feed() as feed:
            if feed.drain().caught_up:
                return
    raise AssertionError("chunks stay uncovered")


def test_m20_chunks_that_swap_names_before_they_are_locked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(
        monkeypatch,
        lake,
        f"ALTER TABLE {chunk(1)} RENAME TO swap",
        f"ALTER TABLE {chunk(2)} RENAME TO {chunk(1)}",
        f"ALTER TABLE swap RENAME TO {chunk(2)}",
        "DELETE FROM m WHERE id = 30",
    )
    drained(lake)
    lake.assert_same()


def test_m20_a_chunk_that_is_renamed_before_it_is_locked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lake, f"ALTER TABLE {chunk(1)} RENAME TO another_name")
    drained(lake)
    lake.assert_same()


@pytest.mark.parametrize("change", ["ADD COLUMN extra int", "DROP COLUMN v"])
def test_m20_columns_that_change_before_a_chunk_is_locked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    then = ["UPDATE m SET extra = 7"] if "ADD" in change else []
    meanwhile(monkeypatch, lake, f"ALTER TABLE m {change}", *then)
    drained(lake)
    if "ADD" in change:
        lake.assert_same()
        assert {row["extra"] for row in lake.history().to_pylist() if row["_change_type"] == "insert"} >= {7}
    assert lake.run("SELECT status FROM thermocline.synced_table") == [("STREAMING",)]


LONG_AGO = f"FOR VALUES FROM ('{BASE - timedelta(days=400)}') TO ('{BASE - timedelta(days=399)}')"
ATTACHED = (
    "CREATE TABLE foreign_one (LIKE m INCLUDING ALL)",
    f"INSERT INTO foreign_one VALUES ('{BASE - timedelta(days=399, hours=12)}', 4711, 1)",
)


def test_a_partition_that_can_be_no_chunk_is_refused_by_name(lake: Lake) -> None:
    lake.run("SELECT lakets.disable_sync('m')", ATTACHED[0], "ALTER TABLE m ATTACH PARTITION foreign_one DEFAULT")
    with pytest.raises(psycopg.errors.RaiseException, match=r"its partition public\.foreign_one is not a chunk"):
        lake.run("SELECT lakets.enable_sync('m')")


def test_m19_a_partition_that_somebody_attached_is_a_chunk_once_the_table_is_synced(lake: Lake) -> None:
    lake.run("SELECT lakets.disable_sync('m')", *ATTACHED, f"ALTER TABLE m ATTACH PARTITION foreign_one {LONG_AGO}")
    lake.run("SELECT lakets.enable_sync('m')", "UPDATE m SET v = 3")
    drained(lake)
    lake.assert_same()
    assert lake.run("SELECT count(*) FROM m WHERE id = 4711 AND v = 3") == [(1,)]


def test_m19_a_partition_that_somebody_attaches_to_a_synced_table_is_copied(lake: Lake) -> None:
    lake.drain()
    lake.run(*ATTACHED, f"ALTER TABLE m ATTACH PARTITION foreign_one {LONG_AGO}")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        lake.run("UPDATE m SET v = 3")
    drained(lake)
    lake.run("UPDATE m SET v = 3")
    drained(lake)
    lake.assert_same()
    ((oid,),) = lake.run("SELECT 'foreign_one'::regclass::oid::bigint")
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(oid).equal


def chunk_of_now(lake: Lake) -> str:
    """Where a row of this moment goes, which is not the day that the tests began on when midnight has passed."""
    ((name,),) = lake.run(
        "SELECT split_part(chunk_name, '.', 2) FROM lakets._chunk_metadata"
        " WHERE chronotable_id = lakets._chronotable_id('m', 'public') AND now() >= range_start AND now() < range_end"
    )
    return str(name)


@pytest.mark.parametrize("is_over", [True, False])
def test_g12_a_chunk_that_somebody_drops_is_noticed_by_the_feed(lake: Lake, is_over: bool) -> None:
    lake.run("INSERT INTO m VALUES (now(), 4712, 1)")
    lake.drain()
    before = lake.folded()
    gone = chunk(1) if is_over else chunk_of_now(lake)
    lake.run(f"DROP TABLE {gone}")
    drained(lake)
    audit = lake.run("SELECT action, object, forced, reason FROM thermocline.audit")
    assert audit == [("drop_chunk", f"public.{gone}", True, "noticed: it was dropped by other means")]
    if is_over:  # a range that is over: the lake keeps what it has
        assert lake.folded() == before
        with pytest.raises(psycopg.errors.RaiseException, match="left PostgreSQL"):
            lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1)")
    else:  # the range of now: made again, empty, here and in the lake
        lake.run("INSERT INTO m VALUES (now(), 4713, 1)")
        drained(lake)
        lake.assert_same()
        assert lake.run("SELECT count(*) FROM m WHERE id > 4700") == [(1,)]


@pytest.fixture
def setting(lake: Lake, request: pytest.FixtureRequest) -> Iterator[str]:
    ((name,),) = lake.run("SELECT current_database()")
    try:
        lake.run(f"ALTER DATABASE {name} SET {request.param}")
    except psycopg.errors.UndefinedObject:
        pytest.skip("this version does not know the setting")
    yield request.param
    unbent(lake, request.param).run(f"ALTER DATABASE {name} RESET ALL")


def unbent(lake: Lake, setting: str) -> Lake:
    """The same lake, and a test that looks at it through sessions of its own that no setting ends."""
    name = setting.partition(" ")[0]
    return replace(lake, dsn=make_conninfo(lake.dsn, options=f"-c {name}=0")) if "timeout" in name else lake


@pytest.mark.parametrize(
    "setting",
    [
        "intervalstyle = 'sql_standard'",
        "statement_timeout = '30ms'",
        "idle_in_transaction_session_timeout = '20ms'",
        "idle_session_timeout = '20ms'",
        "transaction_timeout = '2s'",
        "default_transaction_isolation = 'serializable'",
    ],
    indirect=True,
)
def test_what_a_database_is_set_to_does_not_bend_our_sessions(
    lake: Lake, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting.startswith("transaction_timeout"):  # the catalog's transactions heed it, and are short
        on_the_way(monkeypatch, copying, "copy.standing", lambda: time.sleep(2.5))
    drained(lake)
    unbent(lake, setting).assert_same()


@pytest.mark.parametrize("column", ["price money", "kinds regtype[]"])
def test_m12_a_column_that_the_lake_cannot_hold_sets_its_own_table_aside(lake: Lake, column: str) -> None:
    lake.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v int)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
    )
    lake.drain()
    lake.run(
        f"ALTER TABLE m ADD COLUMN {column}",
        f"INSERT INTO m (ts, id) VALUES ('{NOON[1]}', 1)",
        "INSERT INTO n VALUES (now(), 1)",
    )
    assert lake.drain().set_aside == ("public.m",)
    lake.assert_same("n")
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert column.split()[0] in reason
    lake.run(f"ALTER TABLE m DROP COLUMN {column.split()[0]}")
    lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    for _ in range(2):
        assert lake.drain().set_aside == ()
    lake.assert_same("m")


@pytest.fixture
def neighbour(lake: Lake) -> Lake:
    """The lake with a second table, n, which nothing of the first may stop."""
    lake.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v int)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
    )
    lake.drain()
    return lake


def reason_for(lake: Lake) -> str:
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    return str(reason)


def sync_anew(lake: Lake) -> None:
    lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
    for _ in range(2):
        assert lake.drain().set_aside == ()
    lake.assert_same("m")


def test_m12_a_chunk_that_sends_no_old_rows_sets_its_own_table_aside(neighbour: Lake) -> None:
    neighbour.run(
        f"ALTER TABLE {chunk(1)} ADD UNIQUE (id, ts)",
        f"ALTER TABLE {chunk(1)} ALTER id SET NOT NULL",
        f"ALTER TABLE {chunk(1)} REPLICA IDENTITY USING INDEX {chunk(1)}_id_ts_key",
        f"UPDATE m SET v = 7 WHERE id = {24 + 12}",
        "INSERT INTO n VALUES (now(), 1)",
    )
    assert neighbour.drain().set_aside == ("public.m",)
    neighbour.assert_same("n")
    assert "REPLICA IDENTITY FULL" in reason_for(neighbour)
    neighbour.run("UPDATE m SET v = 8", "INSERT INTO n VALUES (now(), 2)")  # passed by
    neighbour.drain()
    neighbour.assert_same("n")
    neighbour.run(f"ALTER TABLE {chunk(1)} REPLICA IDENTITY FULL")
    sync_anew(neighbour)


def test_a_column_with_a_name_of_ours_sets_its_own_table_aside(neighbour: Lake) -> None:
    neighbour.run("ALTER TABLE m ADD COLUMN _lsn int", "UPDATE m SET v = 8", "INSERT INTO n VALUES (now(), 1)")
    assert neighbour.drain().set_aside == ("public.m",)
    neighbour.assert_same("n")
    assert "_lsn" in reason_for(neighbour)
    neighbour.run("ALTER TABLE m DROP COLUMN _lsn")
    sync_anew(neighbour)


def test_m9_a_table_that_is_synced_anew_between_two_batches_goes_on(neighbour: Lake) -> None:
    with neighbour.feed() as feed:
        neighbour.run("UPDATE m SET v = 8", "INSERT INTO n VALUES (now(), 1)")
        feed.drain()
        neighbour.run(
            "UPDATE m SET v = 9 WHERE id < 10",
            "SELECT lakets.disable_sync('m')",
            "UPDATE m SET v = 10 WHERE id > 60",
            "SELECT lakets.enable_sync('m')",
            "INSERT INTO n VALUES (now(), 2)",
        )
        feed.step()
        neighbour.run("UPDATE m SET v = 11 WHERE id = 30")
        for _ in range(3):
            feed.drain()
        assert feed.drain().caught_up
    neighbour.assert_same("m")
    neighbour.assert_same("n")


def test_m9_a_table_that_is_synced_anew_while_a_batch_is_read_goes_on(neighbour: Lake) -> None:
    with neighbour.feed() as feed:
        stream = feed.stream
        assert stream
        neighbour.run("UPDATE m SET v = 8")
        feed.refresh()
        neighbour.run(
            "SELECT lakets.disable_sync('m')",
            "UPDATE m SET v = 10 WHERE id > 60",
            "SELECT lakets.enable_sync('m')",
            "INSERT INTO n VALUES (now(), 2)",
        )
        slot = feed.ledger.slot_state(stream.slot)
        assert slot
        feed.settle(carry(*feed.reading(stream, slot.flushed)))
        for _ in range(3):
            feed.drain()
        assert feed.drain().caught_up
    neighbour.assert_same("m")
    neighbour.assert_same("n")


@pytest.mark.parametrize(
    "change",
    [
        "SET (publish = 'insert')",
        "SET (publish_via_partition_root = false)",
        "SET TABLE m WHERE (id > 5), n",
        "DROP TABLE m",
    ],
)
def test_m13_a_publication_that_leaves_something_out_is_refused_and_made_anew(neighbour: Lake, change: str) -> None:
    neighbour.run(f"ALTER PUBLICATION thermocline {change}", "UPDATE m SET v = 8")
    with pytest.raises(PublicationLost, match="was changed"):
        neighbour.drain()
    neighbour.stack.resync_feed()
    drained(neighbour)
    neighbour.assert_same("m")
    neighbour.assert_same("n")


def test_a_publication_of_somebody_else_is_not_taken_for_ours(lake: Lake) -> None:
    lake.run("SELECT lakets.disable_sync('m')", "DROP PUBLICATION thermocline", "CREATE PUBLICATION thermocline")
    with pytest.raises(psycopg.errors.RaiseException, match="does not publish everything"):
        lake.run("SELECT lakets.enable_sync('m')")


def test_a_table_that_cannot_be_reconciled_does_not_stop_the_others(neighbour: Lake) -> None:
    neighbour.run(
        f"DROP TABLE {chunk_of_now(neighbour)}",
        "CREATE TABLE other PARTITION OF m DEFAULT",
        "INSERT INTO m VALUES (now(), 1, 1)",
    )
    neighbour.run("INSERT INTO n VALUES (now(), 1)")
    with neighbour.feed() as feed:
        feed.drain()
    neighbour.assert_same("n")


def test_m13_a_chunk_that_was_away_for_a_while_is_copied_again(lake: Lake) -> None:
    lake.drain()
    bound = f"FOR VALUES FROM ('{BASE + timedelta(days=1)}') TO ('{BASE + timedelta(days=2)}')"
    lake.run(f"ALTER TABLE m DETACH PARTITION {chunk(1)}")
    lake.drain()
    lake.run(f"DELETE FROM {chunk(1)} WHERE id = 30", f"ALTER TABLE m ATTACH PARTITION {chunk(1)} {bound}")
    drained(lake)
    lake.assert_same()
