"""Who may do what: applications with no right on anything of ours, readers, and keepers of their own tables."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask
from harness.roles import role
from thermocline.hot.install import install, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator

KEEPER = ("GRANT lakets_admin TO {role}", "GRANT CREATE, USAGE ON SCHEMA public TO {role}")
REFUSED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)


@contextmanager
def sessions(*addresses: str) -> Iterator[tuple[psycopg.Connection, ...]]:
    with ExitStack() as held:
        yield tuple(held.enter_context(psycopg.connect(address, autocommit=True)) for address in addresses)


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """A clone has the roles' rights on everything in the database, but not those on the database itself."""
    db.execute("SELECT thermocline._grant_roles()")
    return db


def test_m8_an_application_needs_no_right_on_anything_of_ours(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    db.execute("SELECT lakets.enable_sync('m')")
    db.execute("SELECT lakets.add_tiering_policy('m', '1 day')")
    grants = "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON m TO {role}"
    with role(dsn, "writer", "", grants) as writers, sessions(writers) as (writer,):
        writer.execute("INSERT INTO m SELECT now(), g FROM generate_series(1, 9) g")
        writer.execute("UPDATE m SET ts = ts - interval '1 day' WHERE v = 1")
        writer.execute("DELETE FROM m WHERE v = 2")
        with writer.cursor().copy("COPY m FROM STDIN") as copy:
            copy.write_row(("now", 10))
        assert ask(writer, "SELECT count(*) FROM m") == [(9,)]
        writer.execute("TRUNCATE m")
        for statement in ("SELECT lakets.show_chunks('m')", "TABLE lakets._chunk_metadata", "TABLE thermocline.audit"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                writer.execute(statement.encode())


def test_a_reader_sees_everything_and_changes_nothing(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    db.execute("SELECT lakets.add_retention_policy('m', '1 day')")
    db.execute("INSERT INTO m VALUES (now(), 1)")
    grants = ("GRANT lakets_read TO {role}", "GRANT SELECT ON m TO {role}")
    with role(dsn, "viewer", "", *grants) as viewers, sessions(viewers) as (viewer,):
        assert ask(viewer, "SELECT count(*) > 3 FROM lakets.show_chunks('m')") == [(True,)]
        assert ask(viewer, "SELECT count(*) FROM lakets.show_retention_policy('m')") == [(1,)]
        assert ask(viewer, "SELECT lakets.last(v, ts) FROM m GROUP BY lakets.time_bucket('1 hour', ts)") == [(1,)]
        viewer.execute("TABLE thermocline.audit")
        viewer.execute("SELECT * FROM wal2delta.tables")
        for statement in (
            "TABLE thermocline.seal",
            "SELECT lakets.execute_retention('m', p_force => true)",
            "SELECT lakets.drop_chronotable('m')",
            "SELECT lakets.add_tiering_policy('m', '1 day')",
            "SELECT lakets.enable_sync('m')",
            "SELECT lakets._reconcile()",
            "SELECT thermocline._tell('{}')",
            "DELETE FROM lakets._chunk_metadata",
            "INSERT INTO thermocline.audit (action, object, reason) VALUES ('a', 'b', 'c')",
        ):
            with pytest.raises(REFUSED):
                viewer.execute(statement.encode())
        assert ask(viewer, "SELECT lakets.drop_chunks('m', '0')") == [(0,)]
    assert ask(db, "SELECT count(*) FROM m") == [(1,)]


def test_a_keeper_lives_with_its_own_tables_and_nobody_elses(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE theirs (ts timestamptz NOT NULL, v int)")
    db.execute("CREATE TABLE plain (ts timestamptz NOT NULL, v int)")
    db.execute("SELECT lakets.create_chronotable('theirs', 'ts', '1 day')")
    db.execute("INSERT INTO theirs VALUES (now(), 1)")
    with role(dsn, "keeper", "", *KEEPER) as keepers, sessions(keepers) as (keeper,):
        for statement in (
            "CREATE TABLE mine (ts timestamptz NOT NULL, v int)",
            "INSERT INTO mine SELECT now() - g * interval '1 day', g FROM generate_series(0, 9) g",
            "SELECT lakets.create_chronotable('mine', 'ts', '1 day')",
            "SELECT lakets.set_chunk_interval('mine', '2 days')",
            "SELECT lakets._ensure_partitions(id, 1, 9) FROM lakets._chronotable_registry WHERE table_name = 'mine'",
            "SELECT lakets.add_retention_policy('mine', '8 days')",
            "SELECT lakets.enable_sync('mine')",
            "SELECT lakets.set_commit_interval('mine', '1 s')",
            "SELECT lakets.disable_sync('mine')",
            "DROP TABLE mine_" + ask(db, "SELECT to_char((now() - interval '5 days') AT TIME ZONE 'UTC',"
                                         " 'YYYYMMDD')")[0][0] + "_000000",
        ):  # fmt: skip
            keeper.execute(statement.encode())
        found = ask(keeper, "SELECT finding FROM lakets._reconcile((SELECT id FROM lakets._chronotable_registry"
                            " WHERE table_name = 'mine'))")  # fmt: skip
        assert found == [("it was dropped by other means",)]
        assert ask(keeper, "SELECT lakets.execute_retention('mine')") == [(1,)]
        keeper.execute("SELECT lakets.enable_sync('mine')")
        keeper.execute("TRUNCATE mine")
        assert ask(db, "SELECT who, action FROM thermocline.audit ORDER BY id") == [("keeper", "drop_chunk")] * 2
        for statement in (
            "SELECT lakets.create_chronotable('plain', 'ts', '1 day')",
            "SELECT lakets.enable_sync('theirs')",
            "SELECT lakets.drop_chronotable('theirs')",
            "DELETE FROM thermocline.audit",
            "TABLE thermocline.seal",
        ):
            with pytest.raises(REFUSED):
                keeper.execute(statement.encode())
        assert ask(keeper, "SELECT lakets.drop_chunks('theirs', '0')") == [(0,)]
        keeper.execute("SELECT lakets.drop_chronotable('mine')")
        assert ask(db, "SELECT table_name FROM lakets._chronotable_registry") == [("theirs",)]
        db.execute("DROP PUBLICATION thermocline")
    assert ask(db, "SELECT count(*) FROM theirs") == [(1,)]


def test_two_keepers_share_one_publication(db: psycopg.Connection, dsn: str) -> None:
    with (
        role(dsn, "keeper", "", *KEEPER) as one,
        role(dsn, "other_keeper", "", *KEEPER) as two,
        sessions(one, two) as pair,
    ):
        for number, keeper in enumerate(pair):
            keeper.execute(f"CREATE TABLE t{number} (ts timestamptz NOT NULL)".encode())
            keeper.execute(f"SELECT lakets.create_chronotable('t{number}', 'ts', '1 day')".encode())
            keeper.execute(f"SELECT lakets.enable_sync('t{number}')".encode())
        assert ask(db, "SELECT tablename FROM pg_publication_tables WHERE pubname = 'thermocline' ORDER BY 1") == [
            ("t0",),
            ("t1",),
        ]
        db.execute("DROP PUBLICATION thermocline")


def test_whoever_may_make_no_roles_can_install_all_the_same(empty_dsn: str) -> None:
    grants = "GRANT CREATE ON DATABASE {database} TO {role}"
    with role(empty_dsn, "plain_installer", "", grants) as installers:
        assert install(installers)
        with psycopg.connect(installers, autocommit=True) as session:
            session.execute("SELECT lakets.time_bucket('1 day', now())")
        uninstall(installers)


def test_a_schema_of_somebody_else_earlier_in_the_path_changes_nothing(db: psycopg.Connection, dsn: str) -> None:
    traps = (
        "CREATE SCHEMA evil AUTHORIZATION {role}",
        "CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''1999-01-01'''",
        "CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT ''DROP TABLE m'''",
        "CREATE FUNCTION evil.to_regclass(text) RETURNS regclass LANGUAGE sql AS 'SELECT NULL::regclass'",
        "CREATE FUNCTION evil.time_bucket(interval, timestamptz) RETURNS timestamptz LANGUAGE sql RETURN now()",
        "CREATE TABLE evil._chronotable_registry (id int)",
        "CREATE OPERATOR evil.+ (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = timestamptz_mi_interval)",
    )  # fmt: skip
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    with role(dsn, "attacker", "", *traps) as _:
        db.execute("SET search_path = evil, lakets, public, pg_catalog")
        db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
        db.execute("INSERT INTO public.m SELECT pg_catalog.now(), 1")
        db.execute("SELECT lakets.add_retention_policy('m', '1 day')")
        db.execute("SELECT lakets.enable_sync('m')")
        assert ask(db, "SELECT lakets.execute_retention('m')") == [(0,)]
        assert ask(db, "SELECT pg_catalog.count(*) FROM lakets._reconcile()") == [(0,)]
        (bounds,) = ask(db, "SELECT pg_catalog.min(range_start) < pg_catalog.now(), pg_catalog.max(range_end) >"
                            " pg_catalog.now() FROM lakets.show_chunks('m')")  # fmt: skip
        assert bounds == (True, True)
        db.execute("SET search_path = public")
        db.execute("DROP PUBLICATION thermocline")


def test_a_keeper_decides_over_its_own_tables_only(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE theirs (ts timestamptz NOT NULL, v int)")
    db.execute("SELECT lakets.create_chronotable('theirs', 'ts', '1 day')")
    with role(dsn, "keeper", "", *KEEPER) as keepers, sessions(keepers) as (keeper,):
        for call in (
            "add_retention_policy('theirs', '1 day')",
            "add_tiering_policy('theirs', '1 day')",
            "remove_retention_policy('theirs')",
            "set_chunk_interval('theirs', '1 hour')",
            "enable_sync('theirs')",
            "set_commit_interval('theirs', '1 s')",
            "disable_sync('theirs')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table"):
                keeper.execute(f"SELECT lakets.{call}".encode())
        ((chunk,),) = ask(db, "UPDATE lakets._chunk_metadata SET status = 'tiered' WHERE range_start = (SELECT"
                              " min(range_start) FROM lakets._chunk_metadata) RETURNING chunk_name")  # fmt: skip
        for call in (f"untier_chunk('{chunk}')", "drop_chronotable('theirs')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table"):
                keeper.execute(f"SELECT lakets.{call}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table"):
            keeper.execute("CALL lakets.drop_chronotable_in_batches('theirs')")
        assert ask(db, "SELECT status FROM lakets._chunk_metadata WHERE chunk_name = %s", chunk) == [("tiered",)]
        db.execute("SELECT lakets.untier_chunk(%s)", [chunk])
        assert ask(db, "SELECT DISTINCT status FROM lakets._chunk_metadata") == [("active",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            keeper.execute("INSERT INTO thermocline.audit (who, action, object, reason) VALUES ('x', 'a', 'b', 'c')")


def test_options_and_bounds_on_record_are_not_taken_for_statements(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int) WITH (fillfactor = 90)")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    db.execute(
        "UPDATE lakets._chronotable_registry SET chunk_options = %s", [["fillfactor=80); DROP TABLE m; --", "a=b c"]]
    )
    db.execute("SELECT lakets._ensure_partitions(id, 1, 9) FROM lakets._chronotable_registry")
    assert ask(db, "SELECT count(*) > 9 FROM lakets.show_chunks('m')") == [(True,)]


def test_code_of_others_on_a_cache_does_not_run_with_our_rights(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "keeper", "", *KEEPER) as keepers, sessions(keepers) as (keeper,):
        for statement in (
            "CREATE TABLE lv (ts timestamptz NOT NULL, sensor int, v int)",
            "SELECT lakets.create_chronotable('lv', 'ts', '1 day')",
            "SELECT lakets.enable_lvc('lv', '{sensor}', '{v}')",
            "CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN EXECUTE 'ALTER ROLE keeper SUPERUSER'; RETURN new; END $$",
            "CREATE TRIGGER e BEFORE INSERT ON _lvc_lv FOR EACH ROW EXECUTE FUNCTION evil()",
            "INSERT INTO lv VALUES (now(), 1, 1)",
        ):
            keeper.execute(statement.encode())
        assert ask(db, "SELECT rolsuper FROM pg_roles WHERE rolname = 'keeper'") == [(False,)]
        with pytest.raises(psycopg.errors.RaiseException, match="no longer fits"):
            keeper.execute("SELECT * FROM lakets.latest_values('lv') AS r (sensor int, v int, at timestamptz)")
        keeper.execute("SELECT lakets.drop_chronotable('lv')")


@pytest.mark.parametrize("change", ["DROP COLUMN v", "RENAME v TO w", "ALTER v TYPE bigint"])
def test_a_cache_that_no_longer_fits_costs_nobody_a_write(db: psycopg.Connection, change: str) -> None:
    db.execute("CREATE TABLE lv (ts timestamptz NOT NULL, sensor int, v int)")
    db.execute("SELECT lakets.create_chronotable('lv', 'ts', '1 day')")
    db.execute("SELECT lakets.enable_lvc('lv', '{sensor}', '{v}')")
    db.execute(f"ALTER TABLE lv {change}".encode())
    db.execute("INSERT INTO lv (ts, sensor) VALUES (now(), 1)")
    assert ask(db, "SELECT count(*) FROM lv") == [(1,)]
    with pytest.raises(psycopg.errors.RaiseException, match="no longer fits"):
        db.execute("SELECT * FROM lakets.latest_values('lv') AS r (sensor int, v int, at timestamptz)")
    db.execute("SELECT lakets.disable_lvc('lv')")


def test_nobody_reads_past_row_security(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "app", "") as apps, sessions(apps) as (app,):
        db.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO app")
        db.execute("CREATE TABLE m (ts timestamptz NOT NULL, secret text)")
        db.execute("INSERT INTO m VALUES (now(), 'x')")
        db.execute("REVOKE ALL ON m FROM app")
        db.execute("GRANT SELECT (ts) ON m TO app")
        db.execute("CREATE POLICY nobody ON m USING (false)")
        db.execute("ALTER TABLE m ENABLE ROW LEVEL SECURITY")
        db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
        assert ask(app, "SELECT ts FROM m") == []
        ((chunk,),) = ask(db, "SELECT tableoid::regclass::text FROM m")
        for statement in ("SELECT secret FROM m", f"SELECT ts FROM {chunk}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(statement.encode())
        with pytest.raises(psycopg.errors.RaiseException, match="row security"):
            db.execute("SELECT lakets.enable_lvc('m', '{secret}', '{ts}')")
        db.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM app")
