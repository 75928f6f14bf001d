"""What stands in the feed's way: it is named with a way out, and once it is gone nothing is lost or doubled."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from harness import feed_children
from harness.crash_servers import CrashServer
from harness.feed_children import Run
from harness.lakes import LATELY, NOON, Lake
from harness.roles import role
from harness.verdicts import History
from thermocline.errors import Refused
from thermocline.feed.refusals import SlotRefused
from thermocline.hot import install
from thermocline.hot.bulk import BulkReadFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake.of(dsn, tmp_path / "home").with_days()


def require_once(lake: Lake, *tables: str) -> None:
    """The history folds to what PostgreSQL has, and no entry is there twice."""
    for table in tables:
        lake.assert_same(table)
        History(lake, table).require_each_once()


# ---- the server ------------------------------------------------------------------------------


@pytest.fixture
def no_slots(dsn: str) -> Iterator[psycopg.Connection]:
    """Every replication slot of the server is taken, until the test drops some."""
    with psycopg.connect(dsn, autocommit=True) as session:
        try:
            for number in range(100):
                session.execute("SELECT pg_create_physical_replication_slot(%s)", [f"taken_{number}"])
        except psycopg.errors.ConfigurationLimitExceeded:
            yield session
        session.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ~ '^taken_'"
        )


def test_m14_no_replication_slot_is_free(lake: Lake, no_slots: psycopg.Connection) -> None:
    lake.synced()
    with pytest.raises(SlotRefused, match="all replication slots are in use") as caught:
        lake.drain()
    assert "thermocline doctor" in caught.value.next_step
    assert lake.run("SELECT count(*) FROM thermocline.stream") == [(0,)], "no stream is on record"
    lake.run("UPDATE m SET v = v + 1 WHERE id % 2 = 0")
    no_slots.execute("SELECT pg_drop_replication_slot('taken_0')")
    lake.drain()
    require_once(lake, "m")


@pytest.mark.slow
def test_m14_a_server_whose_wal_level_is_not_logical(tmp_path: Path, major: int) -> None:
    server = CrashServer(tmp_path / "server", major)
    server.start()
    try:
        install.install(server.server().dsn)
        lake = Lake.of(server.server().dsn, tmp_path / "home").with_days().synced()
        lake.run("ALTER SYSTEM SET wal_level = 'replica'")
        server.stop()
        server.start()
        with pytest.raises(SlotRefused, match="wal_level") as caught:
            lake.drain()
        assert "thermocline doctor" in caught.value.next_step
        with pytest.raises(psycopg.errors.RaiseException, match="wal_level is replica") as refused:
            lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.enable_sync('m')")
        assert "wal_level = logical" in (refused.value.diag.message_hint or "")
        lake.run("ALTER SYSTEM RESET wal_level")
        server.stop()
        server.start()
        lake.run("SELECT lakets.enable_sync('m')")
        lake.drain()
        require_once(lake, "m")
    finally:
        server.stop()


def test_m14_a_role_that_lacks_the_right_to_replicate(empty_dsn: str, tmp_path: Path) -> None:
    rights = ("GRANT CREATE ON DATABASE {database} TO {role}", "GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    with role(empty_dsn, "feeder", "REPLICATION CREATEROLE", *rights) as feeder:
        install.install(feeder)
        lake = Lake.of(feeder, tmp_path / "home").with_days().synced()
        admin = Lake(empty_dsn, lake.stack)
        admin.run("ALTER ROLE feeder NOREPLICATION")
        with pytest.raises(SlotRefused, match="permission denied") as caught:
            lake.drain()
        assert "thermocline doctor" in caught.value.next_step
        admin.run("ALTER ROLE feeder REPLICATION")
        lake.drain()
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)")
        admin.run("ALTER ROLE feeder NOREPLICATION")  # while there is a stream
        with pytest.raises(BulkReadFailed, match="REPLICATION"):
            lake.drain()
        admin.run("ALTER ROLE feeder REPLICATION")
        lake.drain()
        require_once(lake, "m")
        lake.run("SELECT lakets.disable_sync('m')")
        with lake.feed():  # the slot goes with the last table
            pass


def test_m14_a_slot_of_our_name_that_is_somebody_elses_is_left_alone(lake: Lake) -> None:
    lake.synced()
    ((name,),) = lake.run("SELECT 'thermocline_' || oid FROM pg_database WHERE datname = current_database()")
    lake.run(f"SELECT pg_create_physical_replication_slot('{name}')")
    try:
        with pytest.raises(Refused, match=f"slot {name} is there, but it is of another database or plugin") as caught:
            lake.drain()
        assert "pg_drop_replication_slot" in caught.value.next_step
        assert lake.run(f"SELECT slot_type FROM pg_replication_slots WHERE slot_name = '{name}'") == [("physical",)]
    finally:
        lake.run(f"SELECT pg_drop_replication_slot('{name}')")
    lake.drain()
    require_once(lake, "m")


# ---- the store -------------------------------------------------------------------------------


def heed_modes() -> None:
    """Root passes by what a folder's mode says, unless it gives that up, as here."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    capabilities = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, capabilities) == 0
    for at in (0, 1):  # effective and permitted; the first bits are of reading and writing what one may not
        capabilities[at] &= ~0b110
    assert libc.capset(header, capabilities) == 0


@pytest.mark.parametrize("folder", ["data", "metadata"])
def test_m10_a_folder_of_the_lake_that_may_only_be_read(lake: Lake, folder: str) -> None:
    lake.run("CREATE TABLE n (ts timestamptz NOT NULL, id int)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    lake.run("SELECT lakets.enable_sync('n')")
    lake.synced().drain()
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1)", f"INSERT INTO n VALUES ('{LATELY}', 1)")
    with lake.stack.catalog() as catalog:
        place = Path(catalog.load_table("public.lb_m_history").location().removeprefix("file://")) / folder
    closed = [place, *(one for one in place.iterdir() if one.is_dir())]
    for one in closed:
        one.chmod(0o500)
    try:
        outcome = feed_children.run(Run(lake.stack.settings, prepare=heed_modes))
    finally:
        for one in closed:
            one.chmod(0o700)
    assert outcome.how == "failed", outcome
    assert outcome.is_clear, outcome
    assert "denied" in outcome.told, outcome
    require_once(lake, "n")
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1)", f"INSERT INTO n VALUES ('{LATELY}', 2)")
    lake.drain()
    require_once(lake, "m", "n")


# ---- names -----------------------------------------------------------------------------------

LONG = "a" * 62
NAMES = [
    ("public", "m"),
    ("plant", "m"),
    ("Plant", "m"),
    ("public", LONG + "b"),
    ("public", LONG + "c"),
    ("public", 'say "it"'),
    ("public", "it's; DROP TABLE m --"),
    ("public", "100% {x} %s"),
    ("public", "größe"),
    ("public", "Größe"),
    ("public", "select"),
]


def test_m7_no_name_clashes_and_each_is_quoted(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home")
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute('CREATE SCHEMA plant; CREATE SCHEMA "Plant"')
        for number, (schema, table) in enumerate(NAMES):
            quoted = psycopg.sql.Identifier(schema, table).as_string()
            columns = ", ".join(
                psycopg.sql.Identifier(one).as_string() + " text"
                for one in ("v", LONG + "d", LONG + "e", 'a "b"', "it's", "100% {x}", "Größe", "order")
            )
            session.execute(f'CREATE TABLE {quoted} ("the time" timestamptz NOT NULL, id int, {columns})'.encode())
            session.execute(f"INSERT INTO {quoted} VALUES (now(), {number}, 'before')".encode())
            session.execute("SELECT lakets.create_chronotable(%s, 'the time', '1 day', %s)", [table, schema])
            session.execute("SELECT lakets.enable_sync(%s, %s)", [table, schema])
        lake.drain()
        for number, (schema, table) in enumerate(NAMES):
            quoted = psycopg.sql.Identifier(schema, table).as_string()
            session.execute(
                f"INSERT INTO {quoted} VALUES (now(), {100 + number}, 'a', 'b', 'c', 'd', 'e', 'f')".encode()
            )
            session.execute(f"UPDATE {quoted} SET v = 'after', \"it's\" = 'it''s' WHERE id = {number}".encode())
        lake.drain()
        listed = session.execute(
            "SELECT lake_table, table_oid::regclass::text FROM thermocline.synced_table"
        ).fetchall()
    assert len({lake_table for lake_table, _ in listed}) == len(NAMES)
    assert lake.run("SELECT DISTINCT status FROM thermocline.synced_table") == [("STREAMING",)]
    with lake.stack.catalog() as catalog:
        for lake_table, quoted in listed:
            entries = (
                catalog.load_table(lake_table).scan().to_arrow().sort_by([("_lsn", "ascending"), ("_seq", "ascending")])
            )
            counting = [one for one in entries.to_pylist() if one["_change_type"] != "truncate"]
            kinds = [one["_change_type"] for one in counting]
            assert kinds == ["insert", "insert", "update_preimage", "update_postimage"], quoted
            own = [name for name in entries.column_names if not name.startswith("_")]
            rows = {tuple(one[name] for name in own) for one in counting[1:2] + counting[3:]}
            assert rows == set(lake.run(f"SELECT * FROM {quoted}")), quoted
            assert [counting[3][name] for name in ("v", "it's")] == ["after", "it's"]


def test_m7_a_table_that_takes_the_name_of_one_that_was_synced_is_refused(lake: Lake) -> None:
    lake.synced().drain()
    lake.run("SELECT lakets.disable_sync('m')", "ALTER TABLE m RENAME TO old")
    lake.with_days()
    with pytest.raises(psycopg.errors.RaiseException, match="is the history of another table") as refused:
        lake.synced()
    assert "Rename this table" in (refused.value.diag.message_hint or "")
    before = lake.history().num_rows
    lake.run("ALTER TABLE m RENAME TO newer", "SELECT lakets.enable_sync('newer')")
    lake.drain()
    lake.assert_same("newer")
    assert lake.history().num_rows == before


def test_m7_a_table_of_somebody_else_in_the_lake_is_left_alone(lake: Lake) -> None:
    with lake.stack.catalog() as catalog:
        catalog.create_namespace_if_not_exists("public")
        theirs = catalog.create_table("public.lb_m_history", pa.schema([("x", pa.int64())]))
        theirs.append(pa.table({"x": [1, 2, 3]}))
    lake.run("CREATE TABLE n (ts timestamptz NOT NULL, id int)", "SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    lake.run("SELECT lakets.enable_sync('n')", f"INSERT INTO n VALUES ('{LATELY}', 1)")
    lake.synced()
    with lake.feed() as feed:
        feed.drain()
        assert feed.drain().set_aside == ("public.m",)
    lake.assert_same("n")
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert "is the history of a stranger, not of public.m" in reason
    with lake.stack.catalog() as catalog:
        assert catalog.load_table("public.lb_m_history").scan().to_arrow()["x"].to_pylist() == [1, 2, 3]
