"""Document 001 from its first promise to its last: in shadow mode with the document's own names, and in direct mode.

Where direct mode differs it is the removal of the shadow that the document announces.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from harness.lakes import BASE, NOON, Lake, fold
from harness.transcripts import answer
from thermocline.gate import drop
from thermocline.hot.positions import number

if TYPE_CHECKING:
    from pathlib import Path

PROMISES = [f"001-{number:02}" for number in range(1, 22)]
PUBLISHED = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = 'thermocline' ORDER BY 1, 2"
TRIGGERS = (
    "SELECT count(*) FROM pg_trigger t JOIN pg_inherits i ON t.tgrelid IN (i.inhrelid, i.inhparent)"
    " WHERE i.inhparent = 'metrics'::regclass AND t.tgname LIKE 'trg_lakets_sync%'"
)


class Script:
    """What is said and done, and which promises were gone through."""

    def __init__(self, lake: Lake, mode: str) -> None:
        self.lake, self.mode, self.kept = lake, mode, []  # type: tuple[Lake, str, list[str]]
        self.shadow = mode == "shadow"

    def promise(self, *numbers: int) -> None:
        """What stands above holds these."""
        self.kept += [f"001-{number:02}" for number in numbers]

    def said(self, statement: str) -> list[str]:
        with psycopg.connect(self.lake.dsn, autocommit=True) as session:
            return answer(session, statement)

    @property
    def source(self) -> str:
        """What streams."""
        return "lakets_cdf._shadow_metrics" if self.shadow else "public.metrics"

    def entries(self, count: int) -> list[tuple[Any, ...]]:
        self.lake.drain()
        found = self.lake.history("_shadow_metrics" if self.shadow else "metrics")
        last = found.slice(found.num_rows - count)
        return list(
            zip(last["_change_type"].to_pylist(), last["host"].to_pylist(), last["cpu"].to_pylist(), strict=True)
        )

    def same(self) -> bool:
        """Mirror, if there is one, and history are what the table is."""
        self.lake.drain()
        hot = self.lake.hot("metrics")
        mirror = Counter(self.lake.run(f"SELECT * FROM {self.source}"))
        return self.lake.folded("_shadow_metrics" if self.shadow else "metrics", "time") == hot == mirror


@pytest.mark.parametrize("mode", ["shadow", "direct"])
@pytest.mark.promise(*PROMISES)
def test_every_promise_of_document_001(dsn: str, tmp_path: Path, mode: str) -> None:
    lake = Lake.of(dsn, tmp_path / "home")
    lake.run(
        "CREATE TABLE metrics (time timestamptz NOT NULL, host text, cpu float8)",
        f"INSERT INTO metrics SELECT '{BASE}'::timestamptz + g * interval '1 hour', 'h' || g % 3, g"
        " FROM generate_series(0, 47) g",
        "SELECT lakets.create_chronotable('metrics', 'time', '1 day')",
    )
    script = Script(lake, mode)
    enable = f"SELECT lakets.enable_sync('metrics', p_mode => '{mode}')"

    # Enabling: a registration and a warning, nothing is started, and the second time it is a notice.
    assert "warning: no feed is running, so nothing of public.metrics reaches the lake yet" in script.said(enable)
    assert lake.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    script.promise(16, 17)
    assert script.said(enable)[0] == "notice: public.metrics is synced already, left as it is"
    script.promise(15)

    # What streams: an unpartitioned mirror in a schema of its own, or the partitioned table itself.
    assert [".".join(row) for row in lake.run(PUBLISHED)] == [script.source]
    partitioned = "SELECT count(*) FROM pg_class WHERE relnamespace = 'lakets_cdf'::regnamespace AND relkind = 'p'"
    assert lake.run(partitioned) == [(0,)]
    script.promise(2)
    identity = f"SELECT relreplident::text FROM pg_class WHERE oid = '{script.source}'::regclass"
    assert lake.run(identity) == [("f",)]
    script.promise(4, 14)
    ((triggers,),) = lake.run(TRIGGERS)
    assert (triggers > 0) == script.shadow
    script.promise(5)
    ((chunk,),) = lake.run(f"SELECT chunk_name FROM lakets._chunk_metadata WHERE range_start = '{BASE}'")
    parent = f"SELECT lakets._resolve_partition_parent('public', '{chunk.removeprefix('public.')}')"
    assert lake.run(parent) == [("metrics",)]

    # Every change, through the table and through a chunk, arrives as what it was.
    assert script.same()
    lake.run(
        f"INSERT INTO metrics VALUES ('{NOON[0]}', 'new', 1)", f"INSERT INTO {chunk} VALUES ('{NOON[0]}', 'new', 1)"
    )
    assert script.entries(2) == [("insert", "new", 1.0)] * 2
    assert script.same()
    script.promise(6, 7)
    lake.run("UPDATE metrics SET cpu = 2 WHERE host = 'new'")
    assert Counter(script.entries(4)) == Counter(
        [("update_preimage", "new", 1.0), ("update_postimage", "new", 2.0)] * 2
    )
    assert script.same()
    script.promise(8, 13)
    lake.run("DELETE FROM metrics WHERE ctid = (SELECT min(ctid) FROM metrics WHERE host = 'new')")
    assert script.entries(1) == [("delete", "new", 2.0)]
    assert script.same()
    assert lake.run(f"SELECT count(*) FROM pg_index WHERE indrelid = '{script.source}'::regclass AND indisprimary") == [
        (0,)
    ]
    script.promise(9, 10)
    ((name,),) = lake.run("SELECT lake_table FROM thermocline.synced_table")
    assert name == ("public.lb__shadow_metrics_history" if script.shadow else "public.lb_metrics_history")
    script.promise(1, 12)

    # Progress, and what the gate makes of it.
    ((written,),) = lake.run("SELECT pg_current_wal_flush_lsn()")
    lake.drain()
    progress = (
        f"SELECT table_oid = '{script.source}'::regclass, status, committed_lsn >= '{written}' FROM wal2delta.tables"
    )
    assert lake.run(progress) == [(True, "STREAMING", True)]
    known = "SELECT lakets._cdf_committed_lsn('{}') >= '{}'".format(script.source.split(".")[1], written)
    assert lake.run(known) == [(True,)]
    script.promise(20)
    oid = int(lake.run(f"SELECT '{chunk}'::regclass::oid::bigint")[0][0])
    held = drop.drop_chunk(lake.dsn, oid)
    assert held.reason is not None
    assert held.reason.code == "no_receipt"
    lake.run("SELECT lakets.add_retention_policy('metrics', '1 hour')")
    everything = lake.hot("metrics")
    with lake.feeding():
        prover = lake.stack.prover(on_spark=False)
        assert prover.prove(oid).equal
        assert drop.drop_chunk(lake.dsn, oid, check_lake=prover.look).result is drop.Result.DROPPED
    before = script.entries(1)
    assert before == [("delete", "new", 2.0)], "a chunk leaves without a word in the history"
    script.promise(21)

    # A RollUp goes the same way.
    lake.run(
        "SELECT lakets.create_rollup('hourly', $$SELECT lakets.time_bucket('1 hour', time) AS bucket, max(cpu) AS most"
        " FROM metrics GROUP BY 1$$, '1 hour')",
        f"SELECT lakets.enable_sync('hourly', p_mode => '{mode}')",
    )
    streams = "_shadow_rollup_hourly" if script.shadow else "_rollup_hourly"
    assert streams in [table for _, table in lake.run(PUBLISHED)]
    lake.drain()
    assert lake.history(streams).num_rows > 0
    script.promise(11)

    # The shadow is removable, and comes back: nothing is lost, nothing is doubled.
    other = "direct" if script.shadow else "shadow"
    ((switched,),) = lake.run("SELECT pg_current_wal_lsn()")
    with lake.feeding():
        lake.run(f"SELECT lakets.enable_sync('metrics', p_mode => '{other}')")
        lake.run(f"INSERT INTO metrics VALUES ('{NOON[1]}', 'after', 7)")
    lake.drain()
    with lake.feeding():
        assert {line.verdict for line in lake.stack.lifecycle("metrics", on_spark=False).verify()} == {"proven"}
    history = lake.history("_shadow_metrics" if script.shadow else "metrics").to_pylist()
    assert fold((entry for entry in history if entry["_lsn"] <= number(switched)), "time") == everything
    everything[(NOON[1], "after", 7.0)] += 1
    assert fold(history, "time") == everything
    script.promise(3)

    # Ending it takes triggers and mirror away and leaves the lake as it is.
    entries = lake.history("_shadow_metrics" if script.shadow else "metrics").num_rows
    lake.run("SELECT lakets.disable_sync('metrics')", "SELECT lakets.disable_sync('hourly')")
    assert (lake.run(TRIGGERS), lake.run("SELECT to_regclass('lakets_cdf._shadow_metrics')")) == ([(0,)], [(None,)])
    assert lake.run("SELECT count(*) FROM pg_publication WHERE pubname = 'thermocline'") == [(1,)]
    assert lake.run(PUBLISHED) == [], "the publication stays, its tables are out of it"
    with lake.feed():
        pass
    assert lake.run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    script.promise(18)
    assert lake.history("_shadow_metrics" if script.shadow else "metrics").num_rows == entries
    script.promise(19)
    assert sorted(script.kept) == PROMISES
