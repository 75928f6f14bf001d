"""A catalog that was restored from a backup has forgotten the newest versions: that is noticed, and mended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake
from harness.processes import Command
from thermocline.errors import Refused, StoreFailed
from thermocline.feed.refusals import FeedTaken
from thermocline.lake.recovery import PointerMoved, Recoverer

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.lakes import Row

HISTORY = "public.lb_m_history"
BACKUP = "CREATE TABLE backup AS SELECT * FROM thermocline_lake.iceberg_tables"


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """Copied; then comes the backup of the catalog."""
    found = Lake.of(dsn, tmp_path / "home").with_days().synced()
    found.drain()
    found.run(BACKUP)
    return found


def write(lake: Lake, *numbers: int) -> None:
    """A batch of its own for each number."""
    for number in numbers:
        lake.run(
            f"INSERT INTO m VALUES ('{NOON[1]}', {number}, 1)",
            f"UPDATE m SET v = v + 1 WHERE id % 7 = {number % 7}",
            f"DELETE FROM m WHERE id = {number % 70}",
        )
        lake.drain()


def restore(lake: Lake) -> None:
    """The catalog as it was at the backup."""
    lake.run("DELETE FROM thermocline_lake.iceberg_tables; INSERT INTO thermocline_lake.iceberg_tables TABLE backup")


def pointer(lake: Lake) -> str:
    ((found,),) = lake.run("SELECT metadata_location FROM thermocline_lake.iceberg_tables WHERE table_name ~ '_m_'")
    return str(found)


def state(lake: Lake) -> Row:
    ((*found,),) = lake.run("SELECT status, reason FROM thermocline.synced_table")
    return tuple(found)


def entries(lake: Lake) -> int:
    return int(lake.history().num_rows)


def test_m18_the_feed_notices_a_restored_catalog_and_names_the_way_out(lake: Lake) -> None:
    write(lake, 1000, 1001)
    restore(lake)
    before = pointer(lake)
    with lake.feed() as feed:
        assert feed.drain().set_aside == ("public.m",)
    status, reason = state(lake)
    assert status == "SKIPPED"
    assert "restored from a backup" in reason
    assert "thermocline lake recover" in reason
    assert pointer(lake) == before, "nothing was written to it"


def roll_back(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        table = catalog.load_table(HISTORY)
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(table.metadata.snapshots[-2].snapshot_id)


def write_as_another(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        table = catalog.load_table(HISTORY)
        table.append(table.scan(limit=1).to_arrow(), snapshot_properties={"thermocline.batch": "another's"})


@pytest.mark.parametrize("work", ["changes", "a copy"])
@pytest.mark.parametrize(
    ("move", "reason", "next_step"),
    [
        (restore, "restored from a backup", "thermocline lake recover"),
        (roll_back, "was rolled back", "lakets.disable_sync"),
        (write_as_another, "written to by another database", "a lake of its own"),
    ],
)
def test_m18_a_history_that_is_moved_beside_a_feed_is_not_written_to_and_the_others_go_on(
    lake: Lake, move: Callable[[Lake], None], reason: str, next_step: str, work: str
) -> None:
    write(lake, 1000)
    lake.run("CREATE TABLE n (ts timestamptz NOT NULL, v int)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    lake.run("SELECT lakets.enable_sync('n')", "DROP TABLE backup", BACKUP)
    lake.drain()
    write(lake, 1001)
    with lake.feed() as feed:
        lake.run("INSERT INTO backup SELECT * FROM thermocline_lake.iceberg_tables WHERE table_name ~ '_n_'")
        move(lake)
        before = pointer(lake)
        if work == "a copy":
            lake.run("SELECT lakets.resync('m')")
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1002, 1)", "INSERT INTO n VALUES (now(), 1)")
        feed.drain()
        assert feed.drain().set_aside == ("public.m",)
        lake.run("INSERT INTO n VALUES (now(), 2)")
        feed.drain()
    lake.assert_same("n")
    assert pointer(lake) == before, "nothing was written to it"
    ((status, told),) = lake.run("SELECT status, reason FROM thermocline.synced_table WHERE reason IS NOT NULL")
    assert status == "SKIPPED"
    assert reason in told
    assert next_step in told


def test_m18_what_a_running_feed_has_set_aside_goes_on_after_the_recovery(lake: Lake) -> None:
    write(lake, 1000)
    with lake.feed() as feed:
        restore(lake)
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1)")
        assert feed.drain().set_aside == ("public.m",)
    assert [one.verdict for one in lake.stack.recover_lake(execute=True)] == ["adopted"]
    lake.stack.resync_table("public.m")
    lake.drain()
    lake.assert_same()


def test_m18_recovered_the_feed_goes_on_and_nothing_is_lost_or_doubled(lake: Lake) -> None:
    write(lake, 1000, 1001, 1002)
    newest, there, snapshot = (
        pointer(lake),
        entries(lake),
        lake.run("SELECT lake_snapshot FROM thermocline.synced_table"),
    )
    restore(lake)
    restored = pointer(lake)
    (planned,) = lake.stack.recover_lake()
    assert (planned.table, planned.verdict, planned.snapshots) == (HISTORY, "adopt", 3)
    assert (planned.pointer, planned.newest) == (restored, newest)
    assert pointer(lake) == restored, "a plan changes nothing"

    (done,) = lake.stack.recover_lake(execute=True)
    assert (done.verdict, done.newest) == ("adopted", newest)
    assert pointer(lake) == newest
    assert entries(lake) == there
    audit = lake.run("SELECT action, object, evidence FROM thermocline.audit")
    told = {"pointer": restored, "adopted": newest, "snapshots": 3}
    assert audit == [("recover_history", HISTORY, told)]

    lake.drain()
    assert entries(lake) == there, "nothing is copied or read again"
    assert lake.run("SELECT lake_snapshot FROM thermocline.synced_table") == snapshot
    write(lake, 1003)
    lake.assert_same()
    assert state(lake) == ("STREAMING", None)
    assert [one.verdict for one in lake.stack.recover_lake(execute=True)] == ["current"]


def test_m18_what_was_set_aside_is_copied_again_after_the_recovery(lake: Lake) -> None:
    write(lake, 1000)
    restore(lake)
    with lake.feed() as feed:
        feed.drain()
    write(lake, 1001)  # passed by
    (done,) = lake.stack.recover_lake(execute=True)
    assert done.verdict == "adopted"
    assert "thermocline feed resync public.m --yes" in done.next_step
    lake.stack.resync_table("public.m")
    lake.drain()
    lake.assert_same()
    assert state(lake) == ("STREAMING", None)


def test_m18_dropped_chunks_are_readable_again(lake: Lake) -> None:
    write(lake, 1000)
    before = lake.hot()
    lake.let_go(0)
    restore(lake)
    assert [one.verdict for one in lake.stack.recover_lake(execute=True)] == ["adopted"]
    lake.drain()
    assert lake.folded() == before
    assert sum(before.values()) > sum(lake.hot().values())


def test_m18_a_pointer_to_a_version_that_was_removed_long_ago(lake: Lake) -> None:
    write(lake, *range(1000, 1024))  # twenty versions are kept
    newest = pointer(lake)
    restore(lake)
    with pytest.raises(FileNotFoundError):
        lake.history()
    with lake.feed() as feed:
        assert feed.drain().set_aside == ("public.m",)
    assert "not in the store" in state(lake)[1]
    (done,) = lake.stack.recover_lake(execute=True)
    assert (done.verdict, done.newest) == ("adopted", newest)
    lake.stack.resync_table("public.m")
    lake.drain()
    lake.assert_same()


def test_m18_a_table_that_the_restored_catalog_does_not_know(lake: Lake) -> None:
    lake.run("CREATE TABLE n (ts timestamptz NOT NULL, v int)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    lake.run("SELECT lakets.enable_sync('n')", "INSERT INTO n VALUES (now(), 1)")
    lake.drain()
    restore(lake)
    other, line = lake.stack.recover_lake(execute=True)
    assert (other.table, other.verdict) == (HISTORY, "current")
    assert (line.table, line.verdict, line.pointer) == ("public.lb_n_history", "adopted", None)
    lake.run("INSERT INTO n VALUES (now(), 2)")
    lake.drain()
    lake.assert_same("n")


def test_m18_two_branches_are_refused(lake: Lake) -> None:
    write(lake, 1000)
    lake.run("SELECT lakets.disable_sync('m')")
    restore(lake)
    lake.run("SELECT lakets.enable_sync('m')")  # synced anew, what is there is taken as it is
    lake.drain()
    lake.run("UPDATE thermocline.synced_table SET lake_snapshot = NULL")
    mine = pointer(lake)
    restore(lake)
    restored = pointer(lake)
    (line,) = lake.stack.recover_lake(execute=True)
    assert (line.verdict, line.newest) == ("refused", None)
    assert "Two branches" in line.reason
    assert mine in line.reason
    assert pointer(lake) == restored


def test_m18_of_two_branches_the_one_on_record_counts(lake: Lake) -> None:
    write(lake, 1000)
    lake.run("SELECT lakets.disable_sync('m')")
    restore(lake)
    lake.run("SELECT lakets.enable_sync('m')")
    lake.drain()
    mine = pointer(lake)
    restore(lake)
    (line,) = lake.stack.recover_lake(execute=True)
    assert (line.verdict, line.newest) == ("adopted", mine)
    lake.drain()
    lake.assert_same()


def test_m18_m20_batches_that_this_database_does_not_know_are_not_taken_for_its_own(lake: Lake) -> None:
    """As when PostgreSQL was restored together with the catalog in it: the lake has what it has lost."""
    lake.run("CREATE TABLE kept AS SELECT marker_lsn, lake_snapshot FROM thermocline.synced_table")
    write(lake, 1000, 1001)
    newest, there = pointer(lake), entries(lake)
    restore(lake)
    lake.run(
        "UPDATE thermocline.synced_table s SET marker_lsn = k.marker_lsn, lake_snapshot = k.lake_snapshot FROM kept k",
        "DELETE FROM thermocline.batch",
    )
    (line,) = lake.stack.recover_lake(execute=True)
    assert (line.verdict, line.newest) == ("refused", newest)
    assert "batch id that this database does not know" in line.reason
    assert "--unknown" in line.next_step
    assert pointer(lake) != newest

    (line,) = lake.stack.recover_lake(execute=True, unknown=True)
    assert line.verdict == "adopted"
    assert entries(lake) == there
    with lake.feed() as feed:  # it is to be read, and not to be written to
        assert feed.drain().set_aside == ("public.m",)
    assert "another database" in state(lake)[1]


def test_g17_m18_a_lake_that_was_rolled_back_on_purpose_stays_so(lake: Lake) -> None:
    write(lake, 1000, 1001)
    roll_back(lake)
    before = pointer(lake)
    (line,) = lake.stack.recover_lake(execute=True)
    assert line.verdict == "refused"
    assert "does not have the snapshot" in line.reason
    assert pointer(lake) == before


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_m18_a_version_whose_files_are_not_all_there_is_refused(lake: Lake, kind: str) -> None:
    before = set(lake.stack.home.root.rglob(f"*.{kind}"))
    write(lake, 1000)
    lost = sorted(set(lake.stack.home.root.rglob(f"*.{kind}")) - before)[0]
    lost.unlink()
    restore(lake)
    (line,) = lake.stack.recover_lake(execute=True)
    assert line.verdict == "refused"
    assert lost.name in line.reason


def test_m18_a_version_with_a_damaged_list_is_refused(lake: Lake) -> None:
    before = set(lake.stack.home.root.rglob("snap-*.avro"))
    write(lake, 1000)
    newest = pointer(lake)
    for one in set(lake.stack.home.root.rglob("snap-*.avro")) - before:
        one.write_bytes(b"Obj\x01" + bytes(200))
    restore(lake)
    restored = pointer(lake)
    (line,) = lake.stack.recover_lake(execute=True)
    assert (line.verdict, line.newest) == ("refused", newest)
    assert "cannot be read" in line.reason
    assert "backup of the store" in line.next_step
    assert pointer(lake) == restored


def test_m18_a_store_that_does_not_answer_is_said_to_be_so(lake: Lake) -> None:
    write(lake, 1000)
    folder = Path(pointer(lake).removeprefix("file://")).parent
    restore(lake)
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()  # no folder, so that it cannot be listed
    with pytest.raises(StoreFailed, match="The store does not take files of the lake") as caught:
        lake.stack.recover_lake(execute=True)
    assert caught.value.next_step
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    assert [one.verdict for one in lake.stack.recover_lake(execute=True)] == ["adopted"]


def test_m18_half_a_metadata_file_is_passed_by(lake: Lake) -> None:
    write(lake, 1000)
    newest = pointer(lake)
    restore(lake)
    folder = newest.removeprefix("file://").rpartition("/")[0]
    Path(f"{folder}/00099-half.metadata.json").write_text('{"format-version": 2, "table-')
    (line,) = lake.stack.recover_lake(execute=True)
    assert (line.verdict, line.newest) == ("adopted", newest)


def test_m18_a_pointer_that_moves_between_plan_and_act_is_left_alone(lake: Lake) -> None:
    write(lake, 1000)
    newest = pointer(lake)
    restore(lake)
    description = lake.stack.catalog_descriptions["lake"]
    (line,) = lake.stack.recover_lake()
    lake.run(f"UPDATE thermocline_lake.iceberg_tables SET metadata_location = '{newest}'")
    with description.open() as catalog, pytest.raises(PointerMoved, match=r"lb_m_history in the catalog is not at"):
        Recoverer(description, catalog).adopt(line)
    assert pointer(lake) == newest


def test_m18_nothing_is_recovered_beside_a_feed(lake: Lake) -> None:
    write(lake, 1000)
    with lake.feed():
        restore(lake)
        before = pointer(lake)
        with pytest.raises(FeedTaken) as told:
            lake.stack.recover_lake(execute=True)
        assert "Stop `thermocline feed` or `thermocline run`" in told.value.next_step
        with pytest.raises(FeedTaken, match="this is done without one"):
            lake.stack.resync_feed()
        assert [one.verdict for one in lake.stack.recover_lake()] == ["adopt"], "looking is allowed"
    assert pointer(lake) == before


def test_m18_the_command(lake: Lake, dsn: str) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    write(lake, 1000)
    newest = pointer(lake)
    restore(lake)
    shown = command.run("lake", "recover")
    assert shown.code == 0, shown.err
    assert HISTORY in shown.out
    assert newest.rpartition("/")[2][:14] in shown.out
    assert "With --execute it is" in shown.out
    ended = command.run("lake", "recover", HISTORY, "--execute", "--json")
    assert ended.code == 0, ended.err
    (line,) = ended.json["tables"]
    assert (line["verdict"], line["newest"], line["snapshots"]) == ("adopted", newest, 1)
    unheard = command.run("lake", "recover", "public.lb_nowhere_history", "--json")
    assert (unheard.code, unheard.json["error"]["code"]) == (3, "refused")
    with pytest.raises(Refused, match="no history table"):
        lake.stack.recover_lake("nowhere")


def test_m18_the_command_ends_with_3_when_a_table_is_refused(lake: Lake, dsn: str) -> None:
    command = Command(lake.stack.home.root, {"THERMOCLINE_HOT_DSN": dsn})
    lake.run("UPDATE thermocline.synced_table SET lake_snapshot = 4711")
    ended = command.run("lake", "recover")
    assert ended.code == 3
    assert "4711" in ended.out
