"""The SQL installer: once, anew, upgraded, refused, raced, and taken out again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.roles import role
from harness.sessions import Session
from thermocline import __version__
from thermocline.checks import Verdict
from thermocline.errors import Busy, MigrationEdited, NewerInstalled, Refused, ServerUnsuited, StillInUse
from thermocline.hot import statements
from thermocline.hot.install import SCHEMAS, Release, check, install, installed, uninstall
from thermocline.hot.statements import SqlFile, query

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
    old_function = SqlFile("old", "CREATE OR REPLACE FUNCTION lakets.gone(int) RETURNS int LANGUAGE sql RETURN 1;")
    old = Release("0.0.1", whole.migrations[:known], [old_function])
    with server.database() as fresh, server.database() as upgraded:
        install(fresh, whole)
        install(upgraded, old)
        assert rows(upgraded, "SELECT version FROM lakets._version") == [("0.0.1",)]
        assert install(upgraded, whole) is True
        assert rows(upgraded, CATALOG) == rows(fresh, CATALOG)
        assert rows(upgraded, "SELECT version FROM lakets._version") == [(whole.version,)]


def test_functions_of_before_that_are_bound_to_each_other_go_together(empty_dsn: str) -> None:
    whole = Release()
    bodies = {"a": "RETURN 1", "b": "RETURN lakets.a()", "c": "RETURN lakets.b()"}
    made = [
        SqlFile(name, f"CREATE FUNCTION lakets.{name}() RETURNS int LANGUAGE sql {body};")
        for name, body in bodies.items()
    ]
    install(empty_dsn, Release("0.0.1", whole.migrations, made))
    install(empty_dsn, whole)
    assert rows(empty_dsn, "SELECT proname FROM pg_proc WHERE proname IN ('a', 'b', 'c')") == []


def test_a_function_that_a_user_needs_is_not_dropped_by_an_upgrade(empty_dsn: str) -> None:
    whole = Release()
    old_function = SqlFile("old", "CREATE OR REPLACE FUNCTION lakets.gone() RETURNS int LANGUAGE sql RETURN 1;")
    install(empty_dsn, Release("0.0.1", whole.migrations, [old_function]))
    with psycopg.connect(empty_dsn) as session:
        session.execute("CREATE VIEW mine AS SELECT lakets.gone()")
    with pytest.raises(StillInUse, match=r"view public\.mine depends on function lakets\.gone\(\)"):
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
    broken = SqlFile("zz_broken", "CREATE FUNCTION lakets.broken() RETURNS int LANGUAGE sql RETURN nonsense();")
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
    for name in ("lakets", "thermocline_lake"):
        with role(empty_dsn, name, "SUPERUSER") as named, pytest.raises(ServerUnsuited, match=name):
            install(named)


# ---- every function of ours -------------------------------------------------------------------


PIN_THEMSELVES = [
    # Commits, so it may have no SET clause. All that it does is to call functions by their schemas.
    "lakets.drop_chronotable_in_batches(text,text,integer)",
    # Sets it by its first statement; that no search_path bends it is tested with it.
    "lakets.ingest_batch(text,jsonb,text)",
]


def test_every_function_has_a_pinned_search_path_or_a_body_bound_at_creation(dsn: str) -> None:
    loose = rows(
        dsn,
        f"""
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ANY (ARRAY{list(SCHEMAS)}) AND p.prokind IN ('f', 'p') AND p.prosqlbody IS NULL
          AND NOT coalesce(p.proconfig, '{{}}') @> ARRAY['search_path=pg_catalog, pg_temp']
        """,
    )
    assert sorted(str(name) for (name,) in loose) == PIN_THEMSELVES


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


def test_what_was_removed_by_hand_is_noticed_and_can_be_made_anew(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("DROP FUNCTION lakets.time_bucket")
        present = installed(session)
        assert present is not None
        assert present.missing == (
            "function lakets.time_bucket(interval, timestamp with time zone, timestamp with time zone, text)",
        )
        assert check(present).verdict is Verdict.FAILED
    with pytest.raises(Refused, match=r"time_bucket.* is gone"):
        install(dsn)
    uninstall(dsn)
    assert install(dsn) is True


# ---- uninstall --------------------------------------------------------------------------------


def test_uninstall_leaves_users_tables_alone(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE TABLE mine AS SELECT 42 AS n")
    assert uninstall(dsn) == []
    assert rows(dsn, "SELECT n FROM mine") == [(42,)]
    assert rows(dsn, CATALOG) == []
    assert install(dsn) is True


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("CREATE VIEW days AS SELECT lakets.time_bucket('1 day', now())", "view public.days"),
        ("CREATE TABLE t (day timestamptz DEFAULT lakets.time_bucket('1 day', now()))", "column day of table public.t"),
        ("CREATE VIEW v AS SELECT * FROM thermocline_lake.iceberg_tables", "view public.v"),
        ("CREATE TABLE lakets.mine (id int)", "table lakets.mine"),
        ("CREATE TABLE thermocline_lake.mine (id int)", "table thermocline_lake.mine"),
        ("CREATE FUNCTION lakets.mine() RETURNS int LANGUAGE sql RETURN 1", "function lakets.mine()"),
        ("CREATE VIEW lakets.mine AS SELECT 1", "view lakets.mine"),
        ("CREATE MATERIALIZED VIEW lakets.mine AS SELECT 1", "materialized view lakets.mine"),
        ("CREATE SEQUENCE thermocline.mine", "sequence thermocline.mine"),
        ("CREATE TYPE lakets.mine AS ENUM ('a')", "type lakets.mine"),
        ("CREATE DOMAIN lakets.mine AS int", "type lakets.mine"),
        ('CREATE COLLATION lakets.mine FROM "C"; CREATE TABLE t (a text COLLATE lakets.mine)', "collation lakets.mine"),
        ("CREATE TABLE t () INHERITS (lakets._version)", "table public.t"),
    ],
)
def test_uninstall_is_refused_while_anything_of_the_users_is_in_the_way(dsn: str, made: str, named: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute(made.encode())
    before = rows(dsn, CATALOG)
    with pytest.raises(StillInUse) as caught:
        uninstall(dsn)
    assert named in caught.value.message
    assert rows(dsn, CATALOG) == before, "nothing was removed"


@pytest.mark.parametrize(
    "entry",
    [
        "INSERT INTO thermocline_lake.iceberg_tables VALUES ('lake', 'n', 't', 'file:///m')",
        "INSERT INTO thermocline_lake.iceberg_namespace_properties VALUES ('lake', 'n', 'exists', 'true')",
    ],
)
def test_uninstall_keeps_a_catalog_that_still_knows_something(dsn: str, entry: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute(entry.encode())
    assert uninstall(dsn) == ["thermocline_lake"]
    assert install(dsn) is True
    for table in ("iceberg_tables", "iceberg_namespace_properties"):
        assert len(rows(dsn, f"SELECT * FROM thermocline_lake.{table}")) == int(table in entry)


def test_uninstall_waits_for_a_writer_of_the_catalog_and_then_keeps_it(dsn: str) -> None:
    with Session(dsn) as writer, ThreadPoolExecutor(1) as pool:
        writer.run("INSERT INTO thermocline_lake.iceberg_tables VALUES ('lake', 'n', 't', 'file:///m')")
        removing = pool.submit(uninstall, dsn)
        time.sleep(0.5)
        assert not removing.done()
        writer.commit()
        assert removing.result(timeout=40) == ["thermocline_lake"]


def test_an_upgrade_leaves_a_users_function_in_our_schema_alone(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("CREATE FUNCTION lakets.mine() RETURNS int LANGUAGE sql RETURN 42")
    assert install(dsn, replace(Release(), version="0.2.0")) is True
    assert rows(dsn, "SELECT lakets.mine()") == [(42,)]


def test_an_install_does_not_wait_for_ever(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thermocline.hot.install.query", lambda name: query(name).replace("'30s'", "'300ms'"))
    with Session(dsn) as other, pytest.raises(Busy):
        other.run("SELECT pg_advisory_xact_lock(hashtextextended('thermocline.install', 0))")
        install(dsn, replace(Release(), version="0.2.0"))


def test_uninstall_of_nothing_is_done(empty_dsn: str) -> None:
    assert uninstall(empty_dsn) == []
