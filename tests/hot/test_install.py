"""The SQL installer: once, anew, upgraded, refused, raced, and taken out again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.roles import role
from harness.sessions import Session
from thermocline import __version__
from thermocline.errors import MigrationEdited, NewerInstalled, Refused, ServerUnsuited, StillInUse
from thermocline.hot import statements
from thermocline.hot.install import SCHEMAS, Release, install, uninstall
from thermocline.hot.statements import SqlFile

if TYPE_CHECKING:
    from harness.servers import Server


def rows(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as session:
        return session.execute(statement.encode()).fetchall()


CATALOG = """
SELECT 'column', c.oid::regclass::text,
       a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
       || ' ' || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE n.nspname LIKE 'thermocline%' OR n.nspname = 'lakets'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname || ' ' || pg_get_constraintdef(t.oid)
FROM pg_constraint t JOIN pg_namespace n ON n.oid = t.connamespace
WHERE n.nspname LIKE 'thermocline%' OR n.nspname = 'lakets'
UNION ALL
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE (n.nspname LIKE 'thermocline%' OR n.nspname = 'lakets') AND p.prokind IN ('f', 'p')
UNION ALL
SELECT 'comment', pg_describe_object(classoid, objoid, objsubid), description
FROM pg_description WHERE pg_describe_object(classoid, objoid, objsubid) ~ '(lakets|thermocline)'
ORDER BY 1, 2, 3
"""


def test_a_fresh_install_records_what_it_did(empty_dsn: str) -> None:
    assert install(empty_dsn) is True
    assert rows(empty_dsn, "SELECT version FROM thermocline.release") == [(__version__,)]
    assert rows(empty_dsn, "SELECT version FROM lakets._version") == [(__version__,)]
    done = rows(empty_dsn, "SELECT name, sha256 FROM thermocline.migration ORDER BY name")
    assert done == [(file.name, file.sha256) for file in statements.migrations()]


def test_a_second_install_does_nothing(empty_dsn: str) -> None:
    install(empty_dsn)
    before = rows(empty_dsn, "SELECT installed_at, xmin::text FROM thermocline.release")
    assert install(empty_dsn) is False
    assert rows(empty_dsn, "SELECT installed_at, xmin::text FROM thermocline.release") == before


@pytest.mark.parametrize("known", range(1, len(statements.migrations())))
def test_an_upgrade_equals_a_fresh_install(server: Server, known: int) -> None:
    """From every earlier state that a database can be in: the first migrations, and other functions."""
    whole = Release()
    old_function = SqlFile(
        "old", "CREATE OR REPLACE FUNCTION lakets.gone(int) RETURNS int LANGUAGE sql RETURN 1;"
    )
    old = Release("0.0.1", whole.migrations[:known], [old_function])
    with server.database() as fresh, server.database() as upgraded:
        install(fresh, whole)
        install(upgraded, old)
        assert rows(upgraded, "SELECT version FROM lakets._version") == [("0.0.1",)]
        assert install(upgraded, whole) is True
        assert rows(upgraded, CATALOG) == rows(fresh, CATALOG)
        assert rows(upgraded, "SELECT version FROM lakets._version") == [(whole.version,)]


def test_a_function_that_a_user_needs_is_not_dropped_by_an_upgrade(empty_dsn: str) -> None:
    whole = Release()
    old_function = SqlFile(
        "old", "CREATE OR REPLACE FUNCTION lakets.gone() RETURNS int LANGUAGE sql RETURN 1;"
    )
    install(empty_dsn, Release("0.0.1", whole.migrations, [old_function]))
    with psycopg.connect(empty_dsn) as session:
        session.execute("CREATE VIEW mine AS SELECT lakets.gone()")
    with pytest.raises(StillInUse, match=r"lakets\.gone\(\).*view mine"):
        install(empty_dsn, whole)
    assert rows(empty_dsn, "SELECT version FROM lakets._version") == [("0.0.1",)]
    assert rows(empty_dsn, "SELECT * FROM mine") == [(1,)]


def test_an_edited_migration_is_refused_and_nothing_changes(empty_dsn: str) -> None:
    install(empty_dsn)
    whole = Release()
    edited = replace(whole.migrations[0], text=whole.migrations[0].text + "\n-- edited\n")
    before = rows(empty_dsn, CATALOG)
    with pytest.raises(MigrationEdited, match="0001_foundation"):
        install(empty_dsn, replace(whole, migrations=[edited, *whole.migrations[1:]]))
    assert rows(empty_dsn, CATALOG) == before


def test_installing_over_a_newer_version_is_refused(empty_dsn: str) -> None:
    install(empty_dsn, replace(Release(), version="99.0.0"))
    with pytest.raises(NewerInstalled, match=r"99\.0\.0"):
        install(empty_dsn)
    assert rows(empty_dsn, "SELECT version FROM thermocline.release") == [("99.0.0",)]


def test_a_migration_that_we_do_not_know_means_a_newer_database(empty_dsn: str) -> None:
    whole = Release()
    later = SqlFile("9999_later", "CREATE TABLE thermocline.later ();")
    install(empty_dsn, replace(whole, migrations=[*whole.migrations, later]))
    with pytest.raises(NewerInstalled, match="9999_later"):
        install(empty_dsn)


def test_a_failing_file_installs_nothing_at_all(empty_dsn: str) -> None:
    broken = SqlFile(
        "zz_broken", "CREATE FUNCTION lakets.broken() RETURNS int LANGUAGE sql RETURN nonsense();"
    )
    whole = Release()
    with pytest.raises(Refused, match="zz_broken"):
        install(empty_dsn, replace(whole, functions=[*whole.functions, broken]))
    assert rows(empty_dsn, CATALOG) == []


def test_installs_at_once_take_turns(empty_dsn: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        changed = list(pool.map(install, [empty_dsn] * 4))
    assert sorted(changed) == [False, False, False, True]


def test_an_install_does_not_wait_for_writers_of_users_tables(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as setup:
        setup.execute("CREATE TABLE users_own (id int)")
    with Session(empty_dsn) as writer:
        writer.run("INSERT INTO users_own VALUES (1)")
        assert install(empty_dsn) is True
        writer.commit()


def test_no_superuser_is_needed(empty_dsn: str) -> None:
    grant = "GRANT CREATE ON DATABASE {database} TO {role}"
    with role(empty_dsn, "plain_owner", "REPLICATION", grant) as owner:
        assert install(owner) is True


def test_a_role_without_the_right_is_told_so(empty_dsn: str) -> None:
    with role(empty_dsn, "plain_guest") as guest, pytest.raises(ServerUnsuited, match="permission denied"):
        install(guest)


def test_a_role_named_like_our_schema_is_refused(empty_dsn: str) -> None:
    """Its unqualified tables would land among ours, and uninstall would take them along."""
    with role(empty_dsn, "lakets", "SUPERUSER") as named, pytest.raises(ServerUnsuited, match="lakets"):
        install(named)


# ---- every function of ours -------------------------------------------------------------------


def test_every_function_has_a_pinned_search_path_or_a_body_bound_at_creation(dsn: str) -> None:
    loose = rows(
        dsn,
        f"""
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ANY (ARRAY{list(SCHEMAS)}) AND p.prokind IN ('f', 'p') AND p.prosqlbody IS NULL
          AND NOT coalesce(p.proconfig, '{{}}') @> ARRAY['search_path=pg_catalog, pg_temp']
        """,
    )
    assert loose == []


def test_every_function_says_what_it_does(dsn: str) -> None:
    silent = rows(
        dsn,
        f"""
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ANY (ARRAY{list(SCHEMAS)}) AND obj_description(p.oid, 'pg_proc') IS NULL
        """,
    )
    assert silent == []


def test_the_lint_of_search_paths_can_fail(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE FUNCTION lakets.loose() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    with pytest.raises(AssertionError):
        test_every_function_has_a_pinned_search_path_or_a_body_bound_at_creation(dsn)


def test_an_attackers_schema_in_front_changes_nothing(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE SCHEMA evil")
        session.execute(
            "CREATE FUNCTION evil.date_bin(interval, timestamptz, timestamptz) RETURNS timestamptz"
            " LANGUAGE sql AS $$ SELECT timestamptz '1666-01-01' $$"
        )
        session.execute("SET search_path = evil, pg_catalog, public")
        row = session.execute(
            "SELECT lakets.time_bucket('1 day', '2026-01-05 13:00+00') = timestamptz '2026-01-05 00:00+00'"
        ).fetchone()
    assert row == (True,)


def test_every_sql_file_opens_with_a_comment() -> None:
    for file in [*statements.migrations(), *statements.functions()]:
        assert file.text.startswith("-- "), file.name


# ---- uninstall --------------------------------------------------------------------------------


def test_uninstall_leaves_users_tables_alone(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE TABLE mine AS SELECT 42 AS n")
    assert uninstall(dsn) == []
    assert rows(dsn, "SELECT n FROM mine") == [(42,)]
    assert rows(dsn, CATALOG) == []
    assert install(dsn) is True


def test_uninstall_is_refused_while_something_of_the_users_depends_on_ours(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE VIEW days AS SELECT lakets.time_bucket('1 day', now())")
        session.execute("CREATE TABLE logged (day timestamptz DEFAULT lakets.time_bucket('1 day', now()))")
    with pytest.raises(StillInUse, match=r"column day of table logged.*view days"):
        uninstall(dsn)
    assert len(rows(dsn, "SELECT * FROM days")) == 1


def test_uninstall_is_refused_while_a_table_of_the_users_is_in_our_schema(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE TABLE lakets.mine (id int)")
    with pytest.raises(StillInUse, match=r"table lakets\.mine"):
        uninstall(dsn)
    assert rows(dsn, "SELECT * FROM lakets.mine") == []


def test_uninstall_keeps_a_catalog_that_still_knows_lake_tables(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("INSERT INTO thermocline_lake.iceberg_tables VALUES ('lake', 'n', 't', 'file:///m')")
    assert uninstall(dsn) == ["thermocline_lake"]
    assert install(dsn) is True
    assert rows(dsn, "SELECT table_name FROM thermocline_lake.iceberg_tables") == [("t",)]


def test_uninstall_of_nothing_is_done(empty_dsn: str) -> None:
    assert uninstall(empty_dsn) == []
