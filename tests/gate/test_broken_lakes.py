"""A lake that breaks at the worst moment: the chunk stays, in the table, and whoever asks later knows why."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import BASE, Lake
from thermocline.gate import drop

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    return lake


def prove(lake: Lake) -> None:
    with lake.feeding():
        assert lake.stack.prover(on_spark=False).prove(lake.chunk_oid()).receipt


def files(lake: Lake, pattern: str) -> list[Path]:
    return sorted((Path(lake.stack.settings.home) / "warehouse").rglob(pattern))


def overwrite(lake: Lake, pattern: str, change: Callable[[bytes], bytes]) -> None:
    for path in files(lake, pattern):
        path.write_bytes(change(path.read_bytes()))


def remove(lake: Lake, pattern: str) -> None:
    for path in files(lake, pattern):
        path.unlink()


BREAKS: dict[str, Callable[[Lake], object]] = {
    "data deleted": lambda lake: remove(lake, "*.parquet"),
    "data cut": lambda lake: overwrite(lake, "*.parquet", lambda was: was[:-10]),
    "manifests deleted": lambda lake: remove(lake, "*-m*.avro"),
    "manifests cut": lambda lake: overwrite(lake, "*.avro", lambda was: was[:-40]),
    "manifests garbage": lambda lake: overwrite(lake, "*.avro", lambda _: b"Obj\x01" + bytes(200)),
    "metadata deleted": lambda lake: remove(lake, "*.metadata.json"),
    "metadata emptied": lambda lake: overwrite(lake, "*.metadata.json", lambda _: b""),
    "table gone": lambda lake: lake.run("DELETE FROM thermocline_lake.iceberg_tables"),
    "catalog gone": lambda lake: lake.run("ALTER TABLE thermocline_lake.iceberg_tables RENAME TO gone"),
    "warehouse moved": lambda lake: shutil.move(
        Path(lake.stack.settings.home) / "warehouse", Path(lake.stack.settings.home) / "elsewhere"
    ),
}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("look", [1, 2], ids=["before", "between"])
def test_g17_a_lake_that_breaks_at_a_look_keeps_the_chunk_in_its_table(lake: Lake, how: str, look: int) -> None:
    prove(lake)
    prover, looks = lake.stack.prover(on_spark=False), []

    def check(chunk: int) -> None:
        looks.append(chunk)
        if len(looks) == look:
            BREAKS[how](lake)
        prover.look(chunk)

    outcome = drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=check)
    assert outcome.result is drop.Result.STAYS
    assert outcome.reason is not None
    assert outcome.reason.code == "lake_unchecked"
    assert lake.run("SELECT count(*) FROM m") == [(72,)]
    assert lake.run("SELECT count(*) FROM thermocline.audit WHERE action = 'drop_chunk'") == [(0,)]


def test_g17_a_look_that_failed_is_known_to_whoever_drops_by_sql(lake: Lake) -> None:
    prove(lake)
    remove(lake, f"_time={BASE:%Y-%m-%d}/*.parquet")
    prover = lake.stack.prover(on_spark=False)
    assert drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prover.look).result is drop.Result.STAYS
    assert lake.run("SELECT lakets.drop_chunks('m', '1 day')") == [(0,)]
    assert lake.run("SELECT count(*) FROM m") == [(72,)]


def test_g17_an_older_version_of_the_lakes_table_is_no_proof(lake: Lake) -> None:
    ((old,),) = lake.run("SELECT metadata_location FROM thermocline_lake.iceberg_tables WHERE catalog_name = 'lake'")
    lake.run(f"INSERT INTO m VALUES ('{BASE}', 1, 1)")
    lake.drain()
    prove(lake)
    lake.run(f"UPDATE thermocline_lake.iceberg_tables SET metadata_location = '{old}' WHERE catalog_name = 'lake'")
    assert lake.run("SELECT lakets.drop_chunks('m', '1 day')") == [(0,)]  # nobody has looked, but SQL sees the version
    prover = lake.stack.prover(on_spark=False)
    assert drop.drop_chunk(lake.dsn, lake.chunk_oid(), check_lake=prover.look).result is drop.Result.STAYS
    assert lake.run("SELECT count(*) FROM m") == [(73,)]


def test_g20_a_receipt_never_names_columns_that_were_not_compared(lake: Lake) -> None:
    """A column is being added while the prover waits for its lock."""
    lake.run("SELECT lakets.add_retention_policy('m', '1 day')")
    with lake.feeding(), psycopg.connect(lake.dsn) as alter:
        alter.execute("ALTER TABLE m ADD COLUMN extra int NOT NULL DEFAULT 5")
        timer = threading.Timer(0.7, alter.commit)
        timer.start()
        assert lake.stack.prover(on_spark=False).prove(lake.chunk_oid()).receipt
        timer.join()
    assert lake.run('SELECT columns @> \'[{"name": "extra"}]\' FROM thermocline.receipt') == [(True,)]
    with lake.feeding():
        lines = lake.stack.lifecycle("m", on_spark=False).retention()
    assert {line.verdict for line in lines} == {"dropped"}
    assert Counter(row[-1] for row in lake.content().elements()) == {5: 72}, "what has left has the default, too"


def test_the_audit_stays_also_for_a_replica(lake: Lake) -> None:
    lake.run("INSERT INTO thermocline.audit (action, object, reason) VALUES ('x', 'y', 'z')")
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        session.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            session.execute("DELETE FROM thermocline.audit")
