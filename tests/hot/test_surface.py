"""The surface that callers rely on, pinned: arguments and results, what may run in parallel, who may call what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.questions import ask

if TYPE_CHECKING:
    import psycopg

SURFACE = Path(__file__).with_name("surface.txt")


def test_every_function_for_callers_has_the_arguments_and_results_that_they_know(db: psycopg.Connection) -> None:
    """A line that is new or changed is a change of the contract: more arguments come last and have defaults."""
    pinned = SURFACE.read_text("utf-8").splitlines()
    db.execute("SET timezone = 'UTC'")
    there = ask(
        db,
        "SELECT format('%%s(%%s)%%s', p.proname, pg_get_function_arguments(p.oid),"
        " coalesce(' returns ' || pg_get_function_result(p.oid), '')) FROM pg_proc p"
        " WHERE p.pronamespace = 'lakets'::regnamespace AND (p.proname !~ '^_' OR p.proname = ANY (%s))",
        [line.partition("(")[0] for line in pinned if line.startswith("_")],
    )
    assert sorted(line for (line,) in there) == sorted(pinned)


def test_functions_of_time_can_be_inlined_indexed_and_run_by_parallel_workers(db: psycopg.Connection) -> None:
    names = ["time_bucket", "time_bucket_gapfill", "first", "last", "locf", "interpolate", "delta", "rate", "histogram"]
    found = ask(
        db,
        "SELECT proname::text, provolatile::text, proparallel::text FROM pg_proc"
        " WHERE pronamespace = 'lakets'::regnamespace AND proname = ANY (%s)",
        [*names, "_rollup_watermark"],
    )
    immutable, stable, safe = "i", "s", "s"
    assert set(found) == {*((name, immutable, safe) for name in names), ("_rollup_watermark", stable, safe)}
    # By a SET clause it would not be inlined; its body is bound when it is made.
    bound = "SELECT proconfig IS NULL AND prosqlbody IS NOT NULL FROM pg_proc WHERE oid = 'lakets.time_bucket'::regproc"
    assert ask(db, bound) == [(True,)]


def test_who_may_call_what_runs_with_the_rights_of_whoever_installed(db: psycopg.Connection) -> None:
    """Anybody: what triggers and views of users call, and only shows or notes. The rest for those it was granted to."""
    anybody, readers, keepers = (True, True, True), (False, True, True), (False, False, True)
    db.execute("SELECT thermocline._grant_roles()")
    found = ask(
        db,
        "SELECT p.oid::regprocedure::text, has_function_privilege('public', p.oid, 'EXECUTE'),"
        " has_function_privilege('lakets_read', p.oid, 'EXECUTE'),"
        " has_function_privilege('lakets_admin', p.oid, 'EXECUTE')"
        " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        " WHERE p.prosecdef AND n.nspname IN ('lakets', 'thermocline', 'wal2delta', 'lakets_cdf', 'thermocline_lake')",
    )
    assert {name: may for name, *may in found} == {
        "lakets._late_written()": [*anybody],
        "lakets._lvc_changed()": [*anybody],
        "lakets._rollup_hidden(integer)": [*anybody],
        "lakets._rollup_pending(integer)": [*anybody],
        "lakets._rollup_pending_span(integer)": [*anybody],
        "lakets._rollup_pending_whole(integer)": [*anybody],
        "lakets._rollup_watermark(text)": [*anybody],
        "thermocline._cached_series(integer)": [*readers],
        "thermocline._chunk_truncated()": [*keepers],
        "thermocline._drop_shadow(integer)": [*keepers],
        "thermocline._make_shadow(integer)": [*keepers],
        "thermocline._mirrored()": [*keepers],
        "thermocline._rollup_truncated()": [*keepers],
        "thermocline._tell(jsonb)": [*keepers],
        "thermocline._written_after()": [False, False, False],  # by its trigger alone
    }
    # Who has no right on the schemas reaches none of them by name.
    assert ask(db, "SELECT has_schema_privilege('public', 'lakets', 'USAGE'),"
                   " has_schema_privilege('public', 'thermocline', 'USAGE')") == [(False, False)]  # fmt: skip
