"""A history of which a file is damaged: its table is set aside, by name and with a way out, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.lakes import LATELY, NOON, Lake

if TYPE_CHECKING:
    from collections.abc import Callable

GARBAGE = b"Obj\x01" + bytes(200)


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Two tables whose histories have a few snapshots each."""
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, id int)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
    )
    found.drain()
    write(found, 1000)
    found.drain()
    return found


def write(lake: Lake, number: int) -> None:
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', {number}, 1)",
        f"INSERT INTO n VALUES ('{LATELY}', {number})",
        "UPDATE m SET v = v + 1 WHERE id % 7 = 1",
    )


def newest(lake: Lake, kind: str) -> Path:
    """The file of the history of m that the next commit begins with."""
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        found = {"metadata": table.metadata_location, "list": snapshot.manifest_list}
        return Path(found[kind].removeprefix("file://"))


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "metadata emptied": ("metadata", lambda _: b""),
    "metadata cut": ("metadata", lambda was: was[: len(was) // 2]),
    "list garbage": ("list", lambda _: GARBAGE),
    "list cut": ("list", lambda was: was[:-40]),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(("when", "work"), [("before", "changes"), ("beside", "changes"), ("beside", "a copy")])
def test_g17_a_damaged_history_sets_its_own_table_aside(lake: Lake, how: str, when: str, work: str) -> None:
    kind, change = DAMAGES[how]
    damaged = newest(lake, kind)
    was = damaged.read_bytes()
    if when == "before":
        damaged.write_bytes(change(was))
    with lake.feed() as feed:
        damaged.write_bytes(change(was))
        if work == "a copy":
            lake.run("SELECT lakets.resync('m')")
        write(lake, 1001)
        for _ in range(3):
            progress = feed.drain()
        assert progress.set_aside == ("public.m",)
        assert progress.held_back == ()
        lake.assert_same("n")
        write(lake, 1002)
        feed.drain()
        lake.assert_same("n")
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert ("metadata file" if kind == "metadata" else "list of manifests") in reason
    assert "thermocline feed resync TABLE --yes" in reason

    damaged.write_bytes(was)
    lake.stack.resync_table("public.m")
    lake.drain()
    lake.assert_same("m")
    lake.assert_same("n")
    assert lake.run("SELECT DISTINCT status, reason FROM thermocline.synced_table") == [("STREAMING", None)]


@pytest.mark.parametrize("change", [lambda was: was[:-40], lambda was: GARBAGE + bytes(len(was) - len(GARBAGE))])
def test_g17_a_damaged_manifest_is_not_written_together_with_others(
    lake: Lake, change: Callable[[bytes], bytes]
) -> None:
    """What was cut reads as if it had ended there: together with others it would lack some files, and nobody knew."""
    with lake.stack.catalog() as catalog:
        table = catalog.load_table("public.lb_m_history")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        path = Path(snapshot.manifests(table.io)[-1].manifest_path.removeprefix("file://"))
        with table.transaction() as transaction:
            transaction.set_properties({"commit.manifest.min-count-to-merge": "2"})
    before, was = snapshot.snapshot_id, path.read_bytes()
    path.write_bytes(change(was))
    with lake.feed() as feed:
        write(lake, 1001)
        feed.drain()
        assert feed.drain().set_aside == ("public.m",)
    path.write_bytes(was)
    with lake.stack.catalog() as catalog:
        assert catalog.load_table("public.lb_m_history").metadata.current_snapshot_id == before
    lake.assert_same("n")
    lake.stack.resync_table("public.m")
    lake.drain()
    lake.assert_same("m")
