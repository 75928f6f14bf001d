"""Receipts: made when the lake provably holds a chunk, refused with a reason otherwise, whatever the feed claims."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from harness.lakes import BASE, Lake
from harness.sessions import Session
from thermocline.gate import drop
from thermocline.gate.drop import Result
from thermocline.gate.receipt import Prover
from thermocline.gate.sides import NotProven
from thermocline.lake.catalogs import LAKE

NOON = BASE + timedelta(hours=12)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """A synced ChronoTable of day chunks with every type that the lake holds, and the odd values of each."""
    lake = Lake.of(dsn, tmp_path / "home")
    lake.run(
        "CREATE TYPE mood AS ENUM ('fine', 'bad')",
        "CREATE TABLE m (ts timestamptz NOT NULL, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, ok bool, tag text,"
        " d date, naive timestamp, far timestamptz, n numeric(12, 3), free numeric, u uuid, j jsonb, raw bytea,"
        " m mood)",
        f"INSERT INTO m SELECT '{BASE}'::timestamptz + g * interval '30 minutes', g, g, g, g / 3.0, g / 7.0, g % 2 = 0,"
        " 't' || g, '2026-01-01'::date + g, now(), CASE g % 7 WHEN 0 THEN 'infinity'::timestamptz WHEN 1 THEN NULL ELSE"
        " now() END, CASE g % 5 WHEN 0 THEN 'NaN' ELSE g / 8.0 END, g / 16.0, gen_random_uuid(),"
        " jsonb_build_object('g', g), decode(md5(g::text), 'hex'), 'fine' FROM generate_series(0, 95) g",
        f"INSERT INTO m (ts, f8, f4, tag) VALUES ('{NOON}', '-0', '-0', ''), ('{NOON}', 0, 0, NULL),"
        f" ('{NOON}', 'NaN', 'Infinity', ''), ('{NOON}', 'NaN', 'Infinity', '')",
        "SELECT lakets.create_chronotable('m', 'ts', '1 day')",
        "SELECT lakets.enable_sync('m')",
    )
    lake.drain()
    return lake


def prover(lake: Lake, patience: float = 20) -> Prover:
    return Prover(lake.dsn, lake.stack.catalog_descriptions[LAKE], patience=patience)


def test_every_type_and_odd_value_is_equal_on_both_sides(lake: Lake) -> None:
    lake.run(
        f"UPDATE m SET tag = tag || 'x', far = '-infinity', n = 'NaN' WHERE ts < '{NOON}'",
        f"DELETE FROM m WHERE i4 % 3 = 0 AND ts >= '{NOON}'",
        f"INSERT INTO m (ts, j, raw, m) VALUES ('{NOON}', '[1, null]', '', 'bad')",
    )
    with lake.feeding():
        for day in range(2):
            proven = prover(lake).prove(lake.chunk_oid(day))
            assert proven.equal, proven
            assert proven.receipt is not None
            assert (
                proven.hot.rows
                == lake.run(
                    f"SELECT count(*) FROM m WHERE ts >= '{BASE + timedelta(days=day)}'"
                    f" AND ts < '{BASE + timedelta(days=day + 1)}'"
                )[0][0]
            )


@pytest.mark.promise("000-15")
def test_g13_an_idle_table_and_an_empty_chunk_are_proven(lake: Lake) -> None:
    with lake.feeding():
        empty = prover(lake).prove(lake.chunk_oid(3))
    assert (empty.hot.rows, empty.lake.rows, empty.receipt is not None) == (0, 0, True)


def test_a_receipt_lets_the_chunk_go_and_the_lake_keeps_it(lake: Lake) -> None:
    before = lake.folded()
    with lake.feeding():
        prove = prover(lake)
        assert prove.prove(lake.chunk_oid()).equal
        outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look)
    assert (outcome.result, outcome.reason) == (Result.DROPPED, None)
    assert lake.folded() == before
    assert lake.run("SELECT count(*) FROM m") == [(48,)]
    assert lake.run("SELECT action, row_count FROM thermocline.audit")[-1][1] == 52


def test_g1_g2_an_open_writer_into_an_old_chunk_keeps_it(lake: Lake) -> None:
    writer = Session(lake.dsn)
    try:
        with lake.feeding():
            prove = prover(lake)
            writer.run("INSERT INTO m (ts, tag) VALUES (%s, 'late and open')", [NOON])
            lake.run(f"INSERT INTO m (ts, tag) VALUES ('{BASE + timedelta(days=1)}', 'elsewhere')")
            assert prove.prove(lake.chunk_oid()).equal  # what is committed is in the lake
            held = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look, patience=0.5)
            assert held.result is Result.DEFERRED
            assert held.reason is not None
            assert held.reason.code == "busy"
            writer.commit()
            refused = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look)
            assert refused.reason is not None
            assert refused.reason.code == "changed_since_receipt"
            assert prove.prove(lake.chunk_oid()).equal
            assert drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look).result is Result.DROPPED
    finally:
        writer.close()
    assert [row for row in lake.folded() if row[7] == "late and open"]


# ---- a feed that lies ------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "difference"), [("delete", -1), ("insert", 1)])
def test_g11_a_feed_that_lost_or_doubled_a_row_is_found_out(lake: Lake, change: str, difference: int) -> None:
    lake.falsify(change, "i4", 5)
    with lake.feeding():
        found = prover(lake).prove(lake.chunk_oid())
    assert (found.equal, found.receipt, found.reason) == (False, None, "content_differs")
    assert found.lake.rows - found.hot.rows == difference
    assert "52 rows, the lake" in found.message
    outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid())
    assert outcome.reason is not None
    assert outcome.reason.code == "no_receipt"


def test_g11_a_feed_that_reports_progress_too_early_is_found_out(lake: Lake) -> None:
    lake.run(f"INSERT INTO m (ts, tag) VALUES ('{NOON}', 'not in the lake')")
    # No feed runs; somebody says that it has come past the end of the log.
    lake.run("UPDATE thermocline.synced_table SET committed_lsn = pg_current_wal_insert_lsn() + 1000000")
    found = prover(lake, patience=5).prove(lake.chunk_oid())
    assert (found.equal, found.receipt, found.reason) == (False, None, "content_differs")
    assert found.message == "PostgreSQL has 53 rows, the lake 52"


def test_g11_both_sides_have_as_many_rows_but_not_the_same(lake: Lake) -> None:
    lake.falsify("delete", "i4", 5)
    lake.falsify("insert", "i4", 5)
    lake.run(f"UPDATE m SET tag = 'x' WHERE ts < '{NOON}' AND i4 = 7")
    with lake.feeding():
        assert prover(lake).prove(lake.chunk_oid()).equal  # lost and doubled is as it was
    lake.run("ALTER TABLE m DISABLE TRIGGER ALL")
    lake.run("UPDATE thermocline.synced_table SET committed_lsn = pg_current_wal_insert_lsn() + 1000000")
    lake.run(f"UPDATE m SET tag = 'y' WHERE ts < '{NOON}' AND i4 = 7")
    found = prover(lake, patience=5).prove(lake.chunk_oid())
    assert (found.reason, found.message) == ("content_differs", "both have 52 rows, but not the same")


@pytest.mark.promise("000-20")
def test_a_feed_that_does_not_run_is_a_reason(lake: Lake) -> None:
    with pytest.raises(NotProven, match="has not come to") as behind:
        prover(lake, patience=0.2).prove(lake.chunk_oid())
    assert behind.value.reason == "feed_behind"


@pytest.mark.promise("000-15")
def test_g4_an_uncovered_chunk_and_an_unsynced_table_are_refused(lake: Lake) -> None:
    lake.run("DELETE FROM thermocline.chunk_copy")
    with pytest.raises(NotProven) as uncovered:
        prover(lake).prove(lake.chunk_oid())
    assert uncovered.value.reason == "not_covered"
    lake.run("SELECT lakets.disable_sync('m')")
    with pytest.raises(NotProven) as unsynced:
        prover(lake).prove(lake.chunk_oid())
    assert unsynced.value.reason == "not_synced"


# ---- the lake changes between receipt and drop ------------------------------------------------


def test_g17_rows_deleted_in_the_lake_by_hand_make_the_receipt_useless(lake: Lake) -> None:
    with lake.feeding():
        prove = prover(lake)
        assert prove.prove(lake.chunk_oid()).equal
        with lake.stack.catalog() as catalog:
            catalog.load_table("public.lb_m_history").delete("i4 = 5")
        outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look)
        assert outcome.result is not Result.DROPPED
        assert outcome.reason is not None
        assert "changed by others" in outcome.reason.message
        assert prove.prove(lake.chunk_oid()).reason == "content_differs"


def test_g17_a_lake_rolled_back_makes_the_receipt_useless(lake: Lake) -> None:
    lake.run(f"INSERT INTO m (ts, tag) VALUES ('{NOON}', 'one more')")
    with lake.feeding():
        prove = prover(lake)
        assert prove.prove(lake.chunk_oid()).equal
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(table.metadata.snapshots[-2].snapshot_id)
    outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look)
    assert outcome.result is not Result.DROPPED


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_a_lake_file_deleted_or_damaged_by_hand_is_noticed(lake: Lake, how: str) -> None:
    with lake.feeding():
        prove = prover(lake)
        assert prove.prove(lake.chunk_oid()).equal
        for file in Path(lake.stack.home.root).rglob(f"**/_time={BASE:%Y-%m-%d}/*.parquet"):
            if how == "deleted":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:-20])
        outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prove.look)
        assert outcome.result is not Result.DROPPED
        assert outcome.reason is not None
        assert ".parquet" in outcome.reason.message
