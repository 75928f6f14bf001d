"""Hazards of the gate from end to end, with a real feed and a real lake; the hot side takes nothing from the lake."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from gate.metrics import metrics_table
from harness.lakes import BASE, NOON, Lake, age, chunk
from thermocline.gate.lifecycle import Lifecycle

if TYPE_CHECKING:
    from gate.metrics import Metrics

SOURCE = Path(__file__).parents[2] / "src" / "thermocline"
_OF_THE_LAKE = r"[`\"]?(?:lake|cold|thermocline_lake|thermocline_cold)[`\"]?\s*\.|`?\{"
"""How a table of the lake begins in a statement; in an f-string it may be anything, so that counts."""
_DELETES = re.compile(
    # The catalog.
    r"\.(?:drop|purge)_(?:table|view|namespace|catalog)\w*\(|\.(?:dropTable|dropNamespace|purgeTable)\("
    r"|\boverwrite ?= ?True\b"
    r"|\b(?:delete|update)\((?:\w+\.)?Iceberg\w+"
    # PyIceberg's tables, snapshots and refs.
    r"|\.(?:delete|overwrite|dynamic_partition_overwrite|upsert|delete_file|delete_by_predicate|manage_snapshots"
    r"|remove_(?:branch|tag|ref|snapshot)\w*|rollback_\w+|set_current_snapshot|maintenance|commit_table)\b(?=\s*[(.])"
    r"|\bRemove(?:Snapshot|PartitionSpec|Statistics)\w*\("
    # Spark: what writes over a table, its statements, and Iceberg's procedures.
    r"|\.(?:overwritePartitions|createOrReplace|replace)\(\)|\.mode\([\"']overwrite|\bINSERT\s+OVERWRITE\b"
    rf"|\b(?:DELETE\s+FROM|MERGE\s+INTO|UPDATE|TRUNCATE(?:\s+TABLE)?|(?:DROP|REPLACE)\s+(?:TABLE|VIEW|SCHEMA|NAMESPACE)"
    rf"|ALTER\s+TABLE|DROP)\s+(?:IF\s+EXISTS\s+)?(?:{_OF_THE_LAKE})"
    r"|\b(?:DROP|TRUNCATE|DELETE|UPDATE)\b[^;\n]*\bthermocline_(?:lake|cold)\b"
    r"|\b(?:expire_snapshots?|remove_orphan_files|rewrite_(?:data|position_delete)_files|rewrite_(?:manifests|table_path)"
    r"|rollback_to_(?:snapshot|timestamp)|set_current_snapshot|cherrypick_snapshot|fast_forward)\b"
    r"|\b(?:expireSnapshots|deleteOrphanFiles|deleteReachableFiles|rewriteDataFiles)\b"
    # Files.
    r"|\b(?:rmtree|unlink|rmdir|removedirs|delete_(?:file|object|dir|dir_contents)s?|rm_file)\(|\bos\.remove\("
    r"|\bfs\.(?:rm|delete)\(",
    re.IGNORECASE,
)
_MAY = {
    ("tour.py", ".drop_table("): (1, "the demo takes its own table out of the catalog, of a demo before"),
    ("lake/recovery.py", "overwrite=True"): (
        1,
        "points a catalog at a newer version of a table, never at an older one",
    ),
    ("lake/recovery.py", "update(IcebergTables"): (1, "the same, where the catalog is in PostgreSQL"),
    ("lake/recovery.py", ".drop_table("): (1, "words for a person"),
    ("lake/durable_io.py", "unlink("): (1, "a file that was cut short while it was written: nothing points at it"),
    ("feed/writing.py", ".delete"): (1, "files of a batch that was not committed: nothing points at them"),
    ("feed/service.py", "rmtree("): (1, "the checkpoint of a streaming query, in the home"),
    ("lake/spark.py", "unlink("): (1, "Spark's properties file, in the home"),
    ("lake/jars.py", "rmtree("): (2, "the folder that jars are fetched into, in the home"),
    ("hot/embedded.py", "rmtree("): (2, "a cluster of PostgreSQL that was not finished"),
    ("hot/embedded.py", "unlink("): (2, "small files of the server"),
    ("hot/install.py", "DROP {"): (1, "an uninstall: of the catalogs only one that lists nothing"),
    ("hot/install.py", "DROP SCHEMA IF EXISTS {"): (2, "the same"),
    ("gate/drop.py", "ALTER TABLE {"): (1, "detaches a chunk, in PostgreSQL"),
}
"""What matches and takes nothing from the lake: by file and spelling, how often, and why."""
_FORBIDDEN = [
    "catalog.drop_table('lake.m')",
    "catalog.purge_table(name)",
    "catalog.drop_namespace('public')",
    "catalog.drop_view(name)",
    "catalog.register_table(name, oldest, overwrite=True)",
    "session.execute(delete(IcebergTables))",
    "spark._jsparkSession.catalog().dropTable(name)",
    "table.delete('ts < now')",
    "transaction.delete(delete_filter)",
    "table.overwrite(rows)",
    "table.dynamic_partition_overwrite(rows)",
    "table.upsert(rows)",
    "update.delete_by_predicate(old)",
    "table.maintenance.expire_snapshots()",
    "table.manage_snapshots()",
    "manage.rollback_to_snapshot(1)",
    "manage.set_current_snapshot(1)",
    "manage.remove_branch('main')",
    "RemoveSnapshotsUpdate(snapshot_ids=[1])",
    "RemoveSnapshotRefUpdate(ref_name='main')",
    "catalog.commit_table(table, requirements, updates)",
    "frame.writeTo(name).overwritePartitions()",
    "frame.writeTo(name).createOrReplace()",
    "frame.write.mode('overwrite').save(path)",
    'frame.write.mode("overwrite").saveAsTable(name)',
    "spark.sql('DELETE FROM lake.public.lb_m_history')",
    "spark.sql(f'DELETE FROM {LAKE}.public.lb_m_history')",
    "spark.sql(f'DELETE FROM {name} WHERE ts < now()')",
    "spark.sql('DELETE FROM `lake`.public.m')",
    "DROP TABLE lake.public.m PURGE",
    "DROP TABLE IF EXISTS lake.public.m",
    "DROP NAMESPACE lake.public CASCADE",
    "session.execute(f'DROP {kind} {name}')",
    "TRUNCATE TABLE lake.public.m",
    "MERGE INTO lake.public.m USING x ON true WHEN MATCHED THEN DELETE",
    "UPDATE lake.public.m SET v = 0",
    "INSERT OVERWRITE lake.public.m SELECT * FROM x",
    "INSERT OVERWRITE TABLE lake.public.m SELECT * FROM x",
    "CREATE OR REPLACE TABLE lake.public.m AS SELECT 1",
    "ALTER TABLE lake.public.m DROP PARTITION FIELD ts",
    "CALL lake.system.expire_snapshots('public.m')",
    "CALL lake.system.remove_orphan_files(table => 'public.m')",
    "CALL lake.system.rewrite_data_files('public.m')",
    "CALL lake.system.rewrite_position_delete_files('public.m')",
    "CALL lake.system.rewrite_manifests('public.m')",
    "CALL lake.system.rollback_to_timestamp('public.m', now())",
    "CALL lake.system.set_current_snapshot('public.m', 1)",
    "actions.expireSnapshots(table)",
    "SparkActions.get().deleteOrphanFiles(table)",
    "DELETE FROM thermocline_lake.iceberg_tables",
    "UPDATE thermocline_lake.iceberg_tables SET metadata_location = NULL",
    "TRUNCATE thermocline_lake.iceberg_tables",
    "DROP SCHEMA thermocline_lake CASCADE",
    "DROP TABLE IF EXISTS thermocline_cold.iceberg_tables",
    "table.io.delete(path)",
    "os.remove(path)",
    "os.unlink(path)",
    "Path(path).unlink()",
    "shutil.rmtree(warehouse)",
    "folder.rmdir()",
    "fs.delete_file(path)",
    "fs.delete_dir_contents(path)",
    "fs.rm(path, recursive=True)",
    "client.delete_object(Bucket=bucket, Key=key)",
    "client.delete_objects(Bucket=bucket, Delete=keys)",
]
_ALLOWED = [
    "session.rollback()",
    "DELETE FROM thermocline.stream",
    "DROP TABLE IF EXISTS pg_temp.thermocline_answer",
    "TRUNCATE thermocline.trap",
    "UPDATE lakets._chunk_metadata SET status = 'dropped'",
    "SELECT i.metadata_location FROM thermocline_lake.iceberg_tables i",
    "frame.createOrReplaceTempView(name)",
    "text.replace('a', 'b')",
    "claims.remove(claim)",
    "def create(self, overwrite: bool = False) -> Any:",
]


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    return found


def gate(lake: Lake) -> Lifecycle:
    return Lifecycle(lake.dsn, lake.stack.prover(on_spark=False), "m")


WRITES = {
    "g7 into the child": [f"INSERT INTO {chunk(0)} VALUES ('{NOON[0]}', 900, 1)"],
    "g8 as a replica": [
        "BEGIN",
        "SET LOCAL session_replication_role = replica",
        f"INSERT INTO m VALUES ('{NOON[0]}', 901, 1)",
        f"UPDATE m SET v = -1 WHERE ts = '{BASE}'",
        "COMMIT",
    ],
    "g8 with triggers disabled": [
        f"ALTER TABLE {chunk(0)} DISABLE TRIGGER USER",
        f"DELETE FROM m WHERE ts = '{NOON[0]}'",
        f"ALTER TABLE {chunk(0)} ENABLE TRIGGER USER",
    ],
    "g9 truncate of one chunk": [f"TRUNCATE {chunk(0)}", f"INSERT INTO m VALUES ('{NOON[0]}', 902, 1)"],
    "g9 truncate with triggers disabled": [
        "BEGIN",
        "SET LOCAL session_replication_role = replica",
        f"TRUNCATE {chunk(0)}",
        "COMMIT",
    ],
}


@pytest.mark.parametrize("how", WRITES)
def test_g7_g8_g9_however_a_chunk_is_written_to_its_proof_is_gone(lake: Lake, how: str) -> None:
    """Closed by design: the fingerprint is of the rows themselves. What goes is in the lake, however it was written."""
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(1)}')")
    with lake.feeding():
        gate(lake).verify()
    with psycopg.connect(lake.dsn, autocommit=True) as session:
        for statement in WRITES[how]:
            session.execute(statement.encode())
    whole = lake.hot()
    first = gate(lake).retention(dry_run=True)[0]
    assert (first.verdict, first.reason) in {("would drop", "changed_since_receipt"), ("would drop", "rewritten")}
    with lake.feeding():
        line = next(line for line in gate(lake).retention() if line.chunk == f"public.{chunk(0)}")
    if line.verdict == "dropped":
        assert lake.folded() == whole
    else:
        assert line.reason == "content_differs", line
        assert lake.hot().total() >= whole.total() - 48, "the others may have gone"


def test_g16_a_chunk_that_a_user_has_detached_or_replaced_is_left_alone(lake: Lake) -> None:
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(1)}')")
    with lake.feeding():
        gate(lake).verify()
        lake.run(
            f"ALTER TABLE m DETACH PARTITION {chunk(0)}",
            f"ALTER TABLE {chunk(0)} RENAME TO mine",
            "CREATE TABLE theirs (LIKE m)",
            f"INSERT INTO theirs VALUES ('{NOON[0]}', 7, 7)",
            f"ALTER TABLE m ATTACH PARTITION theirs FOR VALUES FROM ('{BASE}') TO ('{BASE.replace(hour=23)}')",
        )
        lines = {line.range_start: line for line in gate(lake).retention()}
    assert lines[BASE].verdict == "stays"
    assert lines[BASE].reason == "moved"
    assert lake.run("SELECT count(*) FROM mine") == [(24,)]
    assert lake.run("SELECT count(*) FROM theirs") == [(1,)]


def test_g14_two_runs_of_retention_at_once_drop_each_chunk_once(lake: Lake) -> None:
    lake.run("SELECT lakets.add_retention_policy('m', '1 hour')")
    whole = lake.hot()
    with lake.feeding(), ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(gate(lake).retention) for _ in range(2)]:
            run.result()
        gate(lake).retention()
    assert lake.run("SELECT count(*) FROM m") == [(0,)]
    dropped = (
        "SELECT object, count(*) FROM thermocline.audit WHERE action = 'drop_chunk' GROUP BY 1 HAVING count(*) > 1"
    )
    assert lake.run(dropped) == []
    assert lake.folded() == whole


@pytest.mark.promise("000-01", "000-34")
def test_nothing_of_the_hot_side_can_delete_from_the_lake() -> None:
    """By its source: no call that removes rows, files, snapshots or tables, and no statement on the lake's catalog."""
    found: dict[tuple[str, str], list[int]] = {}
    for file in sorted(SOURCE.rglob("*")):
        if file.suffix in (".py", ".sql"):
            text = file.read_text("utf-8")
            for match in _DELETES.finditer(text):
                place = (file.relative_to(SOURCE).as_posix(), match[0])
                found.setdefault(place, []).append(text.count("\n", 0, match.start()) + 1)
    allowed = {place: count for place, (count, _) in _MAY.items()}
    assert {place: len(lines) for place, lines in found.items()} == allowed, found


@pytest.mark.parametrize("spelling", _FORBIDDEN)
def test_whatever_takes_from_the_lake_is_found_by_its_spelling(spelling: str) -> None:
    assert _DELETES.search(spelling)


@pytest.mark.parametrize("spelling", _ALLOWED)
def test_what_takes_nothing_from_the_lake_is_not(spelling: str) -> None:
    assert not _DELETES.search(spelling)


@pytest.mark.promise("000-01", "000-31", "000-34")
def test_the_lake_has_the_same_entries_before_and_after_every_drop(lake: Lake) -> None:
    before = lake.history().to_pylist()
    assert "delete" not in {entry["_change_type"] for entry in before}
    lake.run(f"SELECT lakets.add_retention_policy('m', '{age(1)}')")
    with lake.feeding():
        assert [line.verdict for line in gate(lake).retention()] == ["dropped", "dropped"]
        lake.run("SELECT lakets.remove_retention_policy('m')", "SELECT lakets.add_retention_policy('m', '1 hour')")
        lake.run("SELECT lakets.execute_retention('m', p_force => true)")
    lake.drain()
    assert lake.run("SELECT count(*) FROM m") == [(0,)]
    assert lake.history().to_pylist() == before
    with lake.stack.catalog() as catalog:
        kept = catalog.load_table("public.lb_m_history").metadata.snapshots
    assert {one.summary.operation.value for one in kept if one.summary} == {"append"}


# ---- what is freed, and by force -------------------------------------------------------------


@pytest.mark.promise("000-05")
def test_m1_what_a_drop_frees_is_what_is_told_and_nothing_of_it_is_left(dsn: str) -> None:
    with metrics_table(dsn) as metrics:
        metrics.ask("ALTER TABLE metrics ADD COLUMN note text")
        metrics.ask("CREATE INDEX ON metrics (v)")
        metrics.ask(
            "UPDATE metrics SET note = (SELECT string_agg(md5(g::text || v), '') FROM generate_series(1, 200) g)"
        )
        metrics.ask("SELECT lakets.add_tiered_retention_policy('metrics', '12 hours', '84 hours')")
        name = metrics.name()
        parts = (
            "SELECT array_agg(o) FROM (SELECT %s::regclass::oid::int o UNION"
            " SELECT reltoastrelid::int FROM pg_class WHERE oid = %s::regclass UNION"
            " SELECT indexrelid::int FROM pg_index WHERE indrelid = %s::regclass) x"
        )
        relations = metrics.one(parts, name, name, name)
        assert len(relations) == 5, "the table, its TOAST table, a key and two indexes"
        size = metrics.one("SELECT pg_total_relation_size(%s::regclass)", name)
        assert metrics.one("SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = %s::regclass", name) > 0
        metrics.receipt()
        assert metrics.one("SELECT lakets.tier_chunk(%s)", name) is True
        freed = "SELECT reclaimable_bytes, reclaimed_bytes FROM lakets.show_tiering_status('metrics')"
        assert metrics.ask(freed) == [(size, 0)]
        whole = metrics.one("SELECT pg_database_size(current_database())")
        assert metrics.one("SELECT lakets.execute_retention('metrics')") == 1
        assert metrics.ask(freed) == [(0, size)]
        assert metrics.one("SELECT bytes FROM thermocline.audit") == size
        assert metrics.one("SELECT count(*) FROM pg_class WHERE oid = ANY (%s::oid[])", relations) == 0
        metrics.ask("CHECKPOINT")
        assert whole - metrics.one("SELECT pg_database_size(current_database())") > size // 2


@pytest.mark.promise("000-30")
def test_force_is_for_the_admin_role_alone_and_is_audited_as_forced(metrics: Metrics) -> None:
    metrics.ask("SELECT lakets.add_retention_policy('metrics', '4 days')")
    metrics.ask("CREATE ROLE gate_nobody; CREATE ROLE gate_owner; ALTER TABLE metrics OWNER TO gate_owner")
    for (chunk_name,) in metrics.ask("SELECT chunk_name FROM lakets.show_chunks('metrics')"):
        metrics.ask(f"ALTER TABLE {chunk_name} OWNER TO gate_owner")
    forced = "SELECT lakets.execute_retention('metrics', p_force => true)"
    try:
        for role in ("gate_nobody", "lakets_read", "gate_owner"):
            metrics.ask(f"SET ROLE {role}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                metrics.ask(forced)
            metrics.ask("RESET ROLE")
            assert metrics.is_there()
        metrics.ask("GRANT lakets_admin, gate_owner TO gate_nobody")
        metrics.ask("SET ROLE gate_nobody")
        assert metrics.one(forced) == 1
        metrics.ask("RESET ROLE")
        assert metrics.ask("SELECT forced, evidence ->> 'gated' FROM thermocline.audit") == [(True, "false")]
    finally:
        metrics.ask("RESET ROLE")
        metrics.ask("REASSIGN OWNED BY gate_owner, gate_nobody TO CURRENT_USER; DROP OWNED BY gate_nobody, gate_owner")
        metrics.ask("DROP ROLE gate_nobody; DROP ROLE gate_owner")
