"""What a database or a role is set to for its applications: the way to the lake and back is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness.lakes import BASE, NOON, Lake, age, chunk

if TYPE_CHECKING:
    from pathlib import Path

OF_OURS = (
    "-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off -c search_path=public"
    " -c datestyle=ISO"
)


@pytest.mark.parametrize(
    "settings",
    [
        ["default_transaction_isolation = 'serializable'"],
        ["default_transaction_read_only = on", "default_transaction_deferrable = on"],
        ["quote_all_identifiers = on", "search_path = elsewhere", "timezone = 'Pacific/Apia'", "datestyle = 'SQL, DMY'",
         "bytea_output = 'escape'", "extra_float_digits = 0", "statement_timeout = '1s'",
         "idle_in_transaction_session_timeout = '10ms'"],
    ],
    ids=["serializable", "read-only", "texts-and-times"],
)  # fmt: skip
def test_the_way_to_the_lake_and_back(dsn: str, tmp_path: Path, settings: list[str]) -> None:
    lake = Lake.of(dsn, tmp_path).with_days().synced()
    database = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True, options=OF_OURS) as session:
        for one in settings:
            session.execute(f'ALTER DATABASE "{database}" SET {one}'.encode())
    ours = Lake(make_conninfo(dsn, options=OF_OURS), lake.stack)
    lake.drain()
    before = ours.hot()
    ours.run("SELECT lakets.set_late_rows('m', 'lake')")
    prover = lake.stack.prover(on_spark=False)
    with lake.feeding():
        assert prover.prove(ours.chunk_oid(0)).equal
        ours.run(f"SELECT lakets.add_tiered_retention_policy('m', '1 hour', '{age(0)}')")
        lines = lake.stack.lifecycle("m", on_spark=False).retention()
        assert [line.verdict for line in lines if line.chunk == f"public.{chunk(0)}"] == ["dropped"]
        ours.run("SELECT lakets.remove_retention_policy('m')", f"INSERT INTO m VALUES ('{NOON[0]}', 99, 9)")
        (late,) = lake.stack.late_rows("m", on_spark=False, patience=2).settle()
        assert late.verdict == "settled", late
        (line,) = lake.stack.rehydrator(on_spark=False).bring_back("m", BASE, NOON[0])
        assert (line.verdict, line.rows) == ("back", 25), line
    assert lake.stack.why(chunk(0)).summary.startswith("It was brought back")
    after = ours.hot()
    assert after - before == {(NOON[0], 99, 9.0): 1}
    assert not before - after
