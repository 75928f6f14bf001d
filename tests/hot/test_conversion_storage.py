"""Conversion into a ChronoTable: how a table is stored, and what its statistics are told, passes to every chunk."""

from __future__ import annotations

import psycopg
import pytest

from harness.questions import ask, one
from harness.roles import role
from hot.readings import convert, orders

__all__ = ["orders"]


def more_chunks(db: psycopg.Connection) -> None:
    """Five beyond those that a conversion makes."""
    assert one(db, "SELECT lakets._ensure_partitions(id, 1, 9) FROM lakets._chronotable_registry") >= 5


@pytest.mark.usefixtures("orders")
def test_storage_parameters_pass_to_every_chunk_k4(db: psycopg.Connection) -> None:
    db.execute("ALTER TABLE reading ADD COLUMN note text")
    db.execute(
        "ALTER TABLE reading SET (autovacuum_vacuum_cost_delay = 2.5, toast.autovacuum_enabled = off,"
        " toast.autovacuum_vacuum_scale_factor = 0.05)"
    )
    stored = (
        "SELECT DISTINCT c.reloptions, t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid"
        " WHERE c.oid IN (SELECT chunk_oid FROM lakets._chunk_metadata)"
    )
    options = (
        ["fillfactor=70", "autovacuum_vacuum_cost_delay=2.5"],
        ["autovacuum_enabled=off", "autovacuum_vacuum_scale_factor=0.05"],
    )
    convert(db)
    assert ask(db, stored) == [options]
    more_chunks(db)
    assert ask(db, stored) == [options]


COLUMN_SETTINGS = """
    SELECT DISTINCT a.attname, nullif(a.attstattarget, -1), a.attoptions FROM pg_attribute a
    WHERE a.attrelid IN (SELECT chunk_oid FROM lakets._chunk_metadata) AND a.attnum > 0
      AND (a.attstattarget >= 0 OR a.attoptions IS NOT NULL) ORDER BY 1
"""


@pytest.mark.usefixtures("orders")
def test_statistics_targets_and_options_of_columns_pass_to_the_table_and_every_chunk_k4(db: psycopg.Connection) -> None:
    """The number of distinct values was one for the whole table; of partitions that is the inherited one."""
    db.execute('ALTER TABLE reading DROP COLUMN v, ADD COLUMN "The Note" text')
    db.execute('ALTER TABLE reading ALTER COLUMN "The Note" SET STATISTICS 0')
    db.execute("ALTER TABLE reading ALTER COLUMN device SET STATISTICS 1234")
    db.execute("ALTER TABLE reading ALTER COLUMN device SET (n_distinct = 500)")
    db.execute("ALTER TABLE reading ALTER COLUMN ts SET (n_distinct = -0.25, n_distinct_inherited = -0.5)")
    convert(db)
    settings = [
        ("The Note", 0, None),
        ("device", 1234, ["n_distinct=500", "n_distinct_inherited=500"]),
        ("ts", None, ["n_distinct=-0.25", "n_distinct_inherited=-0.5"]),
    ]
    root = COLUMN_SETTINGS.replace("IN (SELECT chunk_oid FROM lakets._chunk_metadata)", "= 'reading'::regclass")
    assert ask(db, root) == settings
    assert ask(db, COLUMN_SETTINGS) == settings
    more_chunks(db)
    assert ask(db, COLUMN_SETTINGS) == settings
    known = "SELECT n_distinct FROM pg_stats WHERE tablename = 'reading' AND inherited AND attname = 'device'"
    assert ask(db, known) == [(500.0,)]


EXTENDED = """
    SELECT s.stxnamespace::regnamespace::text, s.stxname, s.stxowner::regrole::text, nullif(s.stxstattarget, -1),
           s.stxkind::text, pg_get_statisticsobjdef_columns(s.oid), obj_description(s.oid, 'pg_statistic_ext')
    FROM pg_statistic_ext s WHERE s.stxrelid = 'public.reading'::regclass ORDER BY 1, 2
"""


@pytest.mark.usefixtures("orders")
def test_extended_statistics_keep_name_schema_and_target_k4(db: psycopg.Connection, dsn: str) -> None:
    """Also where two are of the same, and where a name is one that LIKE chooses, or that of another table's."""
    for statement in (
        'CREATE SCHEMA "K"',
        "ALTER TABLE reading DROP COLUMN v, ADD COLUMN note text",
        'CREATE STATISTICS "K".st (dependencies, ndistinct) ON device, note FROM reading',
        "COMMENT ON STATISTICS \"K\".st IS 'why'",
        'ALTER STATISTICS "K".st SET STATISTICS 77',
        'CREATE STATISTICS "Same" (dependencies, ndistinct) ON device, note FROM reading',
        "CREATE STATISTICS reading_device_note_stat (mcv) ON device, note FROM reading",
        'CREATE STATISTICS "K".reading_device_note_stat1 ON lower(note), (device % 10) FROM reading',
        "CREATE STATISTICS alone ON (device * 2) FROM reading",
        "ALTER STATISTICS alone SET STATISTICS 0",
        "CREATE TABLE other (id int, v int)",
        "CREATE STATISTICS st (mcv) ON id, v FROM other",
    ):
        db.execute(statement.encode())
    with role(dsn, "app_owner", "", "GRANT CREATE, USAGE ON SCHEMA public TO {role}"):
        db.execute("ALTER TABLE reading OWNER TO app_owner")
        for name in ('"K".st', '"Same"', "reading_device_note_stat", '"K".reading_device_note_stat1', "alone"):
            db.execute(f"ALTER STATISTICS {name} OWNER TO app_owner".encode())
        before = ask(db, EXTENDED)
        assert [row[:5] for row in before] == [
            ('"K"', "reading_device_note_stat1", "app_owner", None, "{d,f,m,e}"),
            ('"K"', "st", "app_owner", 77, "{d,f}"),
            ("public", "Same", "app_owner", None, "{d,f}"),
            ("public", "alone", "app_owner", 0, "{e}"),
            ("public", "reading_device_note_stat", "app_owner", None, "{m}"),
        ]
        assert [row[6] for row in before] == [None, "why", None, None, None]
        convert(db)
        assert ask(db, EXTENDED) == before
        more_chunks(db)
        of_chunks = (
            "SELECT DISTINCT s.stxowner::regrole::text, nullif(s.stxstattarget, -1), s.stxkind::text,"
            " pg_get_statisticsobjdef_columns(s.oid), count(*) OVER (PARTITION BY s.stxrelid)"
            " FROM pg_statistic_ext s JOIN lakets._chunk_metadata m ON m.chunk_oid = s.stxrelid"
        )
        assert sorted(ask(db, of_chunks), key=str) == sorted(((*row[2:6], 5) for row in before), key=str)
        assert one(db, "SELECT stxrelid::regclass::text FROM pg_statistic_ext WHERE stxname = 'st'"
                       " AND stxnamespace = 'public'::regnamespace") == "other"  # fmt: skip
        db.execute("SELECT lakets.drop_chronotable('reading')")


@pytest.mark.usefixtures("orders")
def test_options_and_statistics_targets_of_indexes_pass_to_every_chunk_k4(db: psycopg.Connection) -> None:
    db.execute('ALTER TABLE reading ADD CONSTRAINT "The Key" PRIMARY KEY (device, ts) WITH (fillfactor = 60)')
    db.execute(
        "ALTER TABLE reading ADD CONSTRAINT once UNIQUE (ts, v) INCLUDE (device)"
        " WITH (fillfactor = 50, deduplicate_items = off) DEFERRABLE INITIALLY DEFERRED"
    )
    db.execute("CREATE INDEX parted ON reading (device, (device / 2), (device % 2)) WITH (fillfactor = 40)")
    db.execute("ALTER INDEX parted ALTER COLUMN 3 SET STATISTICS 44")
    settings = (
        "SELECT DISTINCT i.indnatts, c.reloptions, i.indimmediate,"
        " ARRAY(SELECT nullif(a.attstattarget, -1) FROM pg_attribute a WHERE a.attrelid = c.oid ORDER BY a.attnum)"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid {} AND i.indnatts > 1 ORDER BY 1, 2"
    )
    before = ask(db, settings.format("= 'reading'::regclass"))
    assert before == [
        (2, ["fillfactor=60"], True, [None, None]),
        (3, ["fillfactor=40"], True, [None, None, 44]),
        (3, ["fillfactor=50", "deduplicate_items=off"], False, [None, None, None]),
    ]
    convert(db)
    of_chunks = settings.format("IN (SELECT chunk_oid FROM lakets._chunk_metadata)")
    assert ask(db, settings.format("= 'reading'::regclass")) == before
    assert ask(db, of_chunks) == before
    more_chunks(db)
    assert ask(db, of_chunks) == before


@pytest.mark.usefixtures("orders")
def test_the_cluster_mark_passes_to_every_chunk_k4(db: psycopg.Connection) -> None:
    """A partitioned table cannot have one. Chunks that are made later have that of the newest."""
    db.execute('CREATE INDEX "By Device" ON reading (device)')
    db.execute("CREATE INDEX by_v ON reading (v)")
    db.execute('ALTER TABLE reading CLUSTER ON "By Device"')
    convert(db)
    marked = (
        "SELECT h.inhparent::regclass::text, count(*), (SELECT count(*) FROM lakets._chunk_metadata)"
        " FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indisclustered GROUP BY 1"
    )
    ((index, at_first, chunks),) = ask(db, marked)
    assert (index, at_first) == ('"By Device"', chunks)
    more_chunks(db)
    ((index, later, chunks),) = ask(db, marked)
    assert (index, later) == ('"By Device"', chunks)
    assert later > at_first
    newest = one(db, "SELECT chunk_name FROM lakets._chunk_metadata ORDER BY range_start DESC LIMIT 1")
    db.execute(f"ALTER TABLE {newest} SET WITHOUT CLUSTER".encode())
    assert one(db, "SELECT lakets._ensure_partitions(id, 1, 12) FROM lakets._chronotable_registry") == 3
    assert ask(db, marked) == [('"By Device"', later - 1, chunks + 3)]


def test_a_place_or_a_way_of_storing_that_chunks_would_not_have_is_refused_k4(db: psycopg.Connection) -> None:
    db.execute("SET allow_in_place_tablespaces = on")
    db.execute("CREATE TABLESPACE elsewhere LOCATION ''")
    try:
        db.execute("CREATE ACCESS METHOD heaped TYPE TABLE HANDLER heap_tableam_handler")
        db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int) USING heaped TABLESPACE elsewhere")
        db.execute("CREATE INDEX by_v ON m (v) TABLESPACE elsewhere")
        with pytest.raises(psycopg.errors.RaiseException) as caught:
            db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
        assert caught.value.diag.message_primary == (
            "cannot make public.m a ChronoTable: it is in the tablespace elsewhere; it is stored by the access method"
            " heaped, and chunks would be by heap; its index public.by_v is in the tablespace elsewhere"
        )
        db.execute("DROP TABLE m")
    finally:
        db.execute("DROP TABLESPACE elsewhere")
