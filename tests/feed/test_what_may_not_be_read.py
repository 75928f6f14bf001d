"""A table that the feed may not read, or not all of it: set aside with a reason before rows are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake, chunk
from harness.roles import role
from thermocline.hot import install

if TYPE_CHECKING:
    from pathlib import Path

RIGHTS = ("GRANT CREATE ON DATABASE {database} TO {role}", "GRANT CREATE, USAGE ON SCHEMA public TO {role}")
HIDDEN = (
    f"ALTER TABLE {chunk(1)} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    f"CREATE POLICY few ON {chunk(1)} USING (id < 30)",
)
SHOWN = (f"ALTER TABLE {chunk(1)} DISABLE ROW LEVEL SECURITY",)
CLOSED = (f"REVOKE ALL ON {chunk(1)} FROM feeder",)
OPENED = (f"GRANT ALL ON {chunk(1)} TO feeder",)


@pytest.mark.parametrize(
    ("mode", "closed", "opened", "why"),
    [
        ("direct", HIDDEN, SHOWN, "cannot be copied: row security hides rows"),
        ("shadow", HIDDEN, SHOWN, "cannot be mirrored: query would be affected by row-level security"),
        ("direct", CLOSED, OPENED, "cannot be copied: permission denied"),
        ("shadow", CLOSED, OPENED, "cannot be mirrored: permission denied"),
    ],
)
def test_d18_what_may_not_be_read_sets_its_own_table_aside(
    empty_dsn: str, tmp_path: Path, mode: str, closed: tuple[str, ...], opened: tuple[str, ...], why: str
) -> None:
    with role(empty_dsn, "feeder", "REPLICATION CREATEROLE", *RIGHTS) as dsn:
        install.install(dsn)
        lake = Lake.of(dsn, tmp_path / "home").with_days().with_days(table="n")
        admin = Lake(empty_dsn, lake.stack)
        lake.run(f"SELECT lakets.enable_sync('m', p_mode => '{mode}')", "SELECT lakets.enable_sync('n')")
        admin.run(*closed)
        lake.run(f"INSERT INTO n VALUES ('{NOON[1]}', 1000, 1)")
        with lake.feed() as feed:
            feed.drain()
            assert feed.drain().set_aside == ("public.m",)
        lake.assert_same("n")
        ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
        assert f"{chunk(1)} {why}" in reason
        assert "feed resync TABLE --yes" in reason
        admin.run(*opened)
        lake.run("SELECT lakets.resync('m')")
        lake.drain()
        assert lake.folded(lake.past("m")) == admin.hot()
        lake.run("SELECT lakets.disable_sync('m')", "SELECT lakets.disable_sync('n')")
        with lake.feed():  # the slot goes with the last table
            pass
