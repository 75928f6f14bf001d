"""Policies of the hot tier, added, changed, removed and carried out: the lake is as the feed has made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.lakes import LATELY, Lake, age
from thermocline.gate.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Kept:
    """All that the lake keeps of the table m."""

    tables: list[tuple[str, ...]]
    of_the_namespace: dict[str, str]
    properties: dict[str, str]
    refs: dict[str, tuple[int, str, object]]
    snapshots: list[Snapshot]
    data_files: set[str]
    """That the newest snapshot has."""
    stored: set[Path]
    """In the warehouse, but for the versions of the metadata."""

    @staticmethod
    def of(lake: Lake) -> Kept:
        with lake.stack.catalog() as catalog:
            table = catalog.load_table("public.lb_m_history")
            return Kept(
                tables=sorted(catalog.list_tables("public")),
                of_the_namespace=dict(catalog.load_namespace_properties("public")),
                properties=dict(table.properties),
                refs={
                    name: (
                        one.snapshot_id,
                        one.snapshot_ref_type.value,
                        (one.min_snapshots_to_keep, one.max_snapshot_age_ms, one.max_ref_age_ms),
                    )
                    for name, one in table.refs().items()
                },
                snapshots=list(table.metadata.snapshots),
                data_files=set(table.inspect.files()["file_path"].to_pylist()),
                stored={
                    file
                    for file in (lake.stack.home.root / "warehouse").rglob("*")
                    if file.is_file() and not file.name.endswith(".metadata.json")
                },
            )


CALLS = [
    "add_retention_policy",
    "add_tiered_retention_policy",
    "add_tiering_policy",
    "remove_retention_policy",
    "remove_tiering_policy",
]
"""Every call that sets or removes a policy; a policy is changed by removing and adding it."""


@pytest.mark.promise("000-35")
def test_no_policy_of_the_hot_tier_sets_or_triggers_a_removal_from_the_lake(dsn: str, tmp_path: Path) -> None:
    """Nothing else removes from the lake today, either: that is asserted of the source."""
    lake = Lake.of(dsn, tmp_path / "home").with_days().synced()
    lake.drain()
    gate = Lifecycle(dsn, lake.stack.prover(on_spark=False), "m")
    known = lake.run(
        "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'lakets'::regnamespace"
        " AND proname ~ '^(add|set|remove|alter|change)_.*policy$' ORDER BY 1"
    )
    assert [name for (name,) in known] == CALLS

    def call(name: str, *ages: str) -> None:
        arguments = ", ".join(f"'{one}'" for one in ("m", *ages))
        lake.run(f"SELECT lakets.{name}({arguments})")

    before = Kept.of(lake)
    assert (len(before.snapshots) > 0, before.data_files != set()) == (True, True)
    with lake.feeding():
        # First with ages that nothing has, then with ages that some chunks have.
        for kind, far, later in (
            ("tiering", ["90 days"], ["80 days"]),
            ("retention", ["90 days"], ["80 days"]),
            ("tiered_retention", ["7 days", "90 days"], ["8 days", "80 days"]),
        ):
            remove = f"remove_{kind.removeprefix('tiered_')}_policy"
            call(f"add_{kind}_policy", *far)
            with pytest.raises(psycopg.errors.RaiseException, match="already"):
                call(f"add_{kind}_policy", *later)
            call(remove)
            call(f"add_{kind}_policy", *later)
            assert gate.tier() == gate.retention() == []
            call(remove)
        call("add_tiering_policy", age(1))
        assert [line.verdict for line in gate.tier()] == ["tiered", "tiered"]
        call("remove_tiering_policy")
        call("add_retention_policy", age(0))
        assert [line.verdict for line in gate.retention()] == ["dropped"]
        call("remove_retention_policy")
        call("add_tiered_retention_policy", age(2), age(1))
        assert [line.verdict for line in gate.tier()] == ["tiered"]
        assert [line.verdict for line in gate.retention()] == ["dropped"]
        call("remove_retention_policy")
        assert lake.run("SELECT count(*) FROM m") == [(24,)]
    lake.drain()
    assert Kept.of(lake) == before

    call("add_tiered_retention_policy", age(2), age(1))
    lake.run(f"INSERT INTO m VALUES ('{LATELY}', 1000, 1)", "DELETE FROM m WHERE id = 60")
    lake.drain()
    after = Kept.of(lake)
    assert (after.tables, after.of_the_namespace, after.properties) == (
        before.tables,
        before.of_the_namespace,
        before.properties,
    )
    assert after.snapshots[: len(before.snapshots)] == before.snapshots
    added = after.snapshots[len(before.snapshots) :]
    assert {one.summary.operation.value for one in added if one.summary} == {"append"}
    assert all(one.summary and one.summary["thermocline.batch"] for one in added)
    assert after.refs == {"main": (added[-1].snapshot_id, *before.refs["main"][1:])}
    assert after.data_files > before.data_files
    assert after.stored > before.stored
