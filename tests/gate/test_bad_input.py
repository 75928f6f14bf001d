"""What the gate says to input without sense, and to a lake that is not what it was: a reason, and nothing lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import psycopg
import pytest

from gate.fed import as_if_fed
from harness.lakes import BASE, NOON, Lake, age, chunk
from thermocline.errors import ThermoclineError
from thermocline.gate.lifecycle import Lifecycle

if TYPE_CHECKING:
    from gate.metrics import Metrics

DAY = timedelta(days=1)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


def gate(lake: Lake, table: str = "m") -> Lifecycle:
    return Lifecycle(lake.dsn, lake.stack.prover(on_spark=False), table, patience=2)


def test_what_there_is_not_is_named(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE other (ts timestamptz NOT NULL)",
        f"INSERT INTO other VALUES ('{BASE}')",
        "SELECT lakets.create_chronotable('other', 'ts', '1 day')",
        "CREATE TABLE plain (ts timestamptz)",
    )
    with pytest.raises(ThermoclineError, match=r"public\.m is not synced"):
        gate(lake).verify()
    lake.synced().drain()
    theirs = chunk(0).replace("m_", "other_")
    for wrong in ("nothing", theirs, f"public.{theirs}", ""):
        with pytest.raises(ThermoclineError, match=rf"public\.m has no resident chunk {wrong}"):
            gate(lake).verify(wrong)
    for table in ("nothing", "plain"):
        for call in (gate(lake, table).tier, gate(lake, table).retention):
            with pytest.raises(ThermoclineError, match=rf"public\.{table} is not a ChronoTable"):
                call(dry_run=True)
    assert lake.run("SELECT count(*) FROM thermocline.receipt") == [(0,)]


def test_the_way_out_fits_what_was_given(lake: Lake) -> None:
    lake.run(
        "CREATE SCHEMA plant",
        "CREATE TABLE plant.n (ts timestamptz NOT NULL)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day', p_schema_name => 'plant')",
        "SELECT lakets.enable_sync('n', 'plant')",
    )
    with pytest.raises(ThermoclineError) as no_chunk:
        gate(lake, "plant.n").verify("nothing")
    listing = no_chunk.value.next_step.removesuffix(" lists them.")
    assert lake.run(listing) == lake.run("SELECT chunk_name FROM lakets.show_chunks('n', p_schema_name => 'plant')")
    with pytest.raises(ThermoclineError) as no_table:
        gate(lake, "plant.nothing").tier(dry_run=True)
    assert no_table.value.next_step == "There is no table of that name. `thermocline tables` lists the ChronoTables."
    with pytest.raises(psycopg.errors.RaiseException) as dotted:
        lake.run("SELECT lakets.show_chunks('plant.n')")
    assert (dotted.value.diag.message_hint or "").endswith("; the schema is an argument of its own.")


def test_a_feed_that_never_ran(lake: Lake) -> None:
    lake.run("SELECT lakets.add_retention_policy('m', '1 hour')")
    lake.synced()
    for line in (*gate(lake).retention(dry_run=True), *gate(lake).retention()):
        assert (line.verdict, line.reason) == ("stays", "feed_not_streaming")
        assert line.next_step
    assert lake.run("SELECT count(*) FROM m") == [(72,)]


def _table_dropped(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        catalog.drop_table("public.lb_m_history")


def _file_deleted(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        for task in table.scan(row_filter=f"ts < '{NOON[0].isoformat()}'").plan_files():
            Path(urlparse(task.file.file_path).path).unlink()


def _file_damaged(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        for task in table.scan(row_filter=f"ts < '{NOON[0].isoformat()}'").plan_files():
            Path(urlparse(task.file.file_path).path).write_bytes(b"PAR1 no longer")


@pytest.mark.parametrize("harm", [_table_dropped, _file_deleted, _file_damaged], ids=["table", "file", "damage"])
@pytest.mark.parametrize("proven", [False, True], ids=["unproven", "proven"])
def test_g17_a_lake_that_was_harmed_by_hand_keeps_the_chunk_and_says_so(lake: Lake, harm: object, proven: bool) -> None:
    lake.synced().drain()
    lake.run(f"SELECT lakets.add_tiered_retention_policy('m', '1 hour', '{age(0)}')")
    if proven:
        with lake.feeding():
            gate(lake).verify()
    assert callable(harm)
    harm(lake)
    lake.run("UPDATE thermocline.receipt SET lake_checked_at = now() - interval '2 days'")
    with as_if_fed(lake):
        line = gate(lake).retention()[0]
    assert (line.chunk, line.verdict) == (f"public.{chunk(0)}", "stays")
    assert line.next_step
    assert lake.run("SELECT count(*) FROM m") == [(72,)]
    told = lake.stack.why(chunk(0))
    assert told.state != "dropped"
    if proven:
        assert line.reason == "lake_unchecked"
        assert "public.lb_m_history" in line.message or ".parquet" in line.message
    else:
        assert (line.reason, told.reason) == ("no_receipt", "lake.file_lost")


@pytest.mark.parametrize("harm", [_table_dropped, _file_deleted, _file_damaged], ids=["table", "file", "damage"])
def test_g17_a_lake_that_was_harmed_by_hand_gives_nothing_back_and_says_so(lake: Lake, harm: object) -> None:
    lake.synced().drain()
    lake.let_go(0)
    assert callable(harm)
    harm(lake)
    with as_if_fed(lake):
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, BASE + DAY)
    assert (line.verdict, line.reason) == ("stays", "lake.file_lost"), line
    assert "cannot be read" in line.message
    assert lake.run(f"SELECT to_regclass('{chunk(0)}')") == [(None,)]
    assert lake.run("SELECT range_start, size_bytes FROM thermocline.trap") == [(BASE, 0)]
    assert lake.run("SELECT staged_oid, reason LIKE 'lake.file_lost: %' FROM thermocline.rehydration") == [(None, True)]


def test_nan_and_infinities_are_compared_like_any_value(lake: Lake) -> None:
    lake.run(
        f"UPDATE m SET v = 'NaN' WHERE ts = '{NOON[0]}'",
        f"UPDATE m SET v = 'Infinity' WHERE ts = '{NOON[1]}'",
        f"UPDATE m SET v = '-Infinity' WHERE ts = '{NOON[2]}'",
        f"UPDATE m SET v = '-0' WHERE ts = '{BASE}'",
    )
    lake.synced().drain()
    with lake.feeding():
        lake.run(
            f"INSERT INTO m SELECT '{NOON[0]}', 77, x::float8 FROM unnest('{{NaN,Infinity,-Infinity,-0}}'::text[]) x"
        )
        assert {line.verdict for line in gate(lake).verify()} == {"proven"}
        lake.falsify("delete", "id", 77)  # while the feed has nothing to commit
        lake.run(f"UPDATE m SET v = '0' WHERE ts = '{BASE}'")
        (first, *others) = gate(lake).verify()
    assert (first.verdict, first.reason) == ("unproven", "content_differs")
    assert {line.verdict for line in others} == {"proven"}


def test_verdicts_on_what_is_not_there(metrics: Metrics) -> None:
    assert metrics.ask("SELECT * FROM thermocline._verdicts(-1)") == []
    assert metrics.ask("SELECT * FROM thermocline._verdicts(NULL)") == []
    assert metrics.ask("SELECT * FROM thermocline._verdicts(%s, 1)", metrics.id) == []
    assert metrics.ask("SELECT * FROM thermocline._chunks_against('{}')") == []
    assert metrics.ask("SELECT codes FROM thermocline._chunks_against('{1}', true)") == [(["unknown_chunk"],)]
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.nothing is not a ChronoTable"):
        metrics.ask("SELECT * FROM lakets.show_tiering_status('nothing', p_verdicts => true)")
