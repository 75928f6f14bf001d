"""Registry and catalog agree, by oid, whatever somebody does to a table and its partitions behind our back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from harness.questions import ask
from harness.sessions import Session
from thermocline.hot.maintenance import maintain


def today() -> datetime:
    """Asked by each test: midnight may come between the first and the last of them."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.fixture
def db(db: psycopg.Connection) -> psycopg.Connection:
    """With a table of ten days."""
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v float8)")
    db.execute("INSERT INTO m SELECT now() - g * interval '1 day', g FROM generate_series(0, 9) g")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    return db


def chunk(day: int) -> str:
    return f"m_{today() - timedelta(days=day):%Y%m%d_%H%M%S}"


def reconciled(db: psycopg.Connection) -> list[tuple[str, str, str]]:
    """What is found; a second look finds nothing but what was left alone."""
    found = ask(db, "SELECT * FROM lakets._reconcile()")
    again = ask(db, "SELECT * FROM lakets._reconcile()")
    assert again == [one for one in found if one[2].startswith("left alone")]
    return found


def agree(db: psycopg.Connection) -> bool:
    """Every registered chunk is a partition and the other way round."""
    differences = ask(
        db,
        """SELECT m.chunk_oid, i.inhrelid
           FROM (SELECT * FROM lakets._chunk_metadata WHERE status <> 'dropped') m
           FULL JOIN (SELECT i.inhrelid FROM pg_inherits i
                      WHERE NOT EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.trap_oid = i.inhrelid)
                        AND i.inhparent IN (SELECT table_oid FROM lakets._chronotable_registry)) i
             ON i.inhrelid = m.chunk_oid
           WHERE m.chunk_oid IS NULL OR i.inhrelid IS NULL""",
    )
    return not differences


def test_what_agrees_is_left_alone(db: psycopg.Connection, dsn: str) -> None:
    assert reconciled(db) == []
    (done,) = maintain(dsn)
    assert (done.table, done.chunks_made, done.findings) == ("public.m", 0, ())
    assert agree(db)


def test_rows_and_sizes_are_filled(db: psycopg.Connection) -> None:
    db.execute("INSERT INTO m SELECT now() - interval '2 days', g FROM generate_series(1, 5000) g")
    db.execute("ANALYZE m")
    assert reconciled(db) == []
    rows = ask(db, "SELECT row_count, size_bytes > 200000 FROM lakets._chunk_metadata WHERE chunk_name = %s",
               f"public.{chunk(2)}")  # fmt: skip
    assert rows == [(5001, True)]
    assert ask(db, "SELECT sum(row_count) FROM lakets._chunk_metadata") == [(5010,)]


@pytest.mark.promise("004-24")
def test_when_a_chunk_was_modified_is_known_and_no_writer_waits_for_it(db: psycopg.Connection, dsn: str) -> None:
    modified = "SELECT chunk_name, last_modified_at FROM lakets._chunk_metadata ORDER BY 1"
    ask(db, "SELECT * FROM lakets._reconcile()")
    before = dict(ask(db, modified))
    assert None not in before.values()
    with Session(dsn) as one, Session(dsn) as other:  # both in one chunk, both open
        one.run("INSERT INTO m VALUES (now() - interval '3 days', 1)")
        other.run("SET lock_timeout = '1ms'")
        other.run("INSERT INTO m VALUES (now() - interval '3 days', 2)")
        other.commit()
        one.commit()
    db.execute(f"ANALYZE {chunk(3)}".encode())
    ask(db, "SELECT * FROM lakets._reconcile()")
    after = dict(ask(db, modified))
    assert {name for name in after if after[name] != before[name]} == {f"public.{chunk(3)}"}
    assert after[f"public.{chunk(3)}"] > before[f"public.{chunk(3)}"]


def test_a_renamed_table_is_found_under_its_new_name_at_once(db: psycopg.Connection) -> None:
    db.execute("ALTER TABLE m RENAME TO n")
    chunks = ask(db, "SELECT count(*) FROM lakets.show_chunks('n')")
    assert chunks[0][0] > 10
    with pytest.raises(psycopg.errors.RaiseException, match=r"public\.m is not a ChronoTable"):
        db.execute("SELECT lakets.show_chunks('m')")
    assert reconciled(db) == [("public.n", "it was public.m before", "registered under its new name")]
    assert ask(db, "SELECT schema_name, table_name FROM lakets._chronotable_registry") == [("public", "n")]


def test_a_table_in_another_schema_and_its_time_column_by_another_name(db: psycopg.Connection) -> None:
    db.execute("CREATE SCHEMA plant")
    db.execute("ALTER TABLE m SET SCHEMA plant")
    db.execute("ALTER TABLE plant.m RENAME ts TO at")
    assert [one[1] for one in reconciled(db)] == ["it was public.m before", "its time column was called ts before"]
    assert ask(db, "SELECT schema_name, time_column FROM lakets._chronotable_registry") == [("plant", "at")]
    db.execute("SELECT lakets._ensure_partitions(id, 1, 9) FROM lakets._chronotable_registry")
    assert agree(db)


def test_two_tables_that_swap_their_names(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE n (at timestamptz NOT NULL)")
    db.execute("SELECT lakets.create_chronotable('n', 'at', '1 day')")
    before = dict(ask(db, "SELECT table_name, table_oid FROM lakets._chronotable_registry"))
    db.execute("ALTER TABLE m RENAME TO swap")
    db.execute("ALTER TABLE n RENAME TO m")
    db.execute("ALTER TABLE swap RENAME TO n")
    reconciled(db)
    after = dict(ask(db, "SELECT table_name, table_oid FROM lakets._chronotable_registry"))
    assert after == {"m": before["n"], "n": before["m"]}


def test_g12_a_dropped_table_is_audited_and_its_name_is_free(db: psycopg.Connection) -> None:
    reconciled(db)
    known = ask(db, "SELECT sum(row_count), sum(size_bytes) FROM lakets._chunk_metadata")
    db.execute("DROP TABLE m")
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, other text)")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '7 days')")
    assert ask(db, "SELECT action, object, forced FROM thermocline.audit") == [("table_gone", "public.m", True)]
    assert ask(db, "SELECT row_count, bytes FROM thermocline.audit") == known
    assert known[0][1] > 0
    assert ask(db, "SELECT chunk_interval FROM lakets._chronotable_registry") == [(timedelta(days=7),)]
    assert agree(db)


def test_g12_a_dropped_chunk_is_audited_and_its_range_trapped(db: psycopg.Connection) -> None:
    db.execute(f"DROP TABLE {chunk(3)}".encode())
    db.execute(f"DROP TABLE {chunk(4)}".encode())
    found = reconciled(db)
    assert [one[0] for one in found] == [f"public.{chunk(4)}", f"public.{chunk(3)}"]
    assert {one[1] for one in found} == {"it was dropped by other means"}
    audit = ask(
        db, "SELECT object, forced, reason, (evidence ->> 'noticed')::boolean FROM thermocline.audit ORDER BY id"
    )
    assert audit == [(f"public.{chunk(day)}", True, "noticed: it was dropped by other means", True) for day in (4, 3)]
    with pytest.raises(psycopg.errors.RaiseException, match="left PostgreSQL"):
        db.execute("INSERT INTO m VALUES (now() - interval '3 days', 1)")
    db.execute("SELECT lakets._ensure_partitions(id, 9) FROM lakets._chronotable_registry")
    assert agree(db)


def test_k5_a_dropped_chunk_of_now_comes_back_to_life(db: psycopg.Connection) -> None:
    before = ask(db, "SELECT id FROM lakets._chunk_metadata WHERE chunk_name = %s", f"public.{chunk(0)}")
    db.execute(f"DROP TABLE {chunk(0)}".encode())
    ((_, _, done),) = reconciled(db)
    assert done == "audited, and made again, empty: its range is not over"
    db.execute("INSERT INTO m VALUES (now(), 1)")
    after = ask(db, "SELECT id FROM lakets._chunk_metadata WHERE chunk_name = %s AND status = 'active'",
                f"public.{chunk(0)}")  # fmt: skip
    assert after == before
    assert agree(db)


def test_a_renamed_chunk_keeps_its_row(db: psycopg.Connection) -> None:
    db.execute(f"ALTER TABLE {chunk(2)} RENAME TO another".encode())
    assert reconciled(db) == [("public.another", f"it was public.{chunk(2)} before", "registered under its new name")]
    assert agree(db)


def test_a_detached_chunk_is_reported_with_the_way_back(db: psycopg.Connection) -> None:
    db.execute(f"ALTER TABLE m DETACH PARTITION {chunk(2)}".encode())
    ((name, finding, done),) = reconciled(db)
    assert (name, finding) == (f"public.{chunk(2)}", "it is a chunk, and somebody has detached it")
    way_back = done.partition("(")[2].rpartition(")")[0]
    db.execute(way_back.encode())
    assert reconciled(db) == []
    assert agree(db)


def test_a_chunk_for_another_range_is_reported(db: psycopg.Connection) -> None:
    start = today() - timedelta(days=2)
    db.execute(f"ALTER TABLE m DETACH PARTITION {chunk(2)}".encode())
    db.execute(f"DELETE FROM {chunk(2)}".encode())
    bound = f"FROM ('{start}') TO ('{start + timedelta(hours=5)}')"
    db.execute(f"ALTER TABLE m ATTACH PARTITION {chunk(2)} FOR VALUES {bound}".encode())
    ((name, finding, _),) = reconciled(db)
    assert name == f"public.{chunk(2)}"
    assert finding.startswith("its range is another one than before")


def test_m19_an_attached_partition_becomes_a_chunk(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE guest (LIKE m INCLUDING ALL)")
    db.execute("ALTER TABLE m ATTACH PARTITION guest FOR VALUES FROM ('2020-01-01') TO ('2020-03-01')")
    assert reconciled(db) == [("public.guest", "somebody has attached it", "it is a chunk now")]
    assert ask(db, "SELECT relreplident::text FROM pg_class WHERE relname = 'guest'") == [("f",)]
    assert agree(db)


@pytest.mark.parametrize("day", [0, 3])
def test_k5_a_chunk_that_somebody_has_replaced_comes_back_to_life(db: psycopg.Connection, day: int) -> None:
    start = today() - timedelta(days=day)
    db.execute(f"DROP TABLE {chunk(day)}".encode())
    db.execute("CREATE TABLE guest (LIKE m INCLUDING ALL)")
    bound = f"FROM ('{start}') TO ('{start + timedelta(days=1)}')"
    db.execute(f"ALTER TABLE m ATTACH PARTITION guest FOR VALUES {bound}".encode())
    assert reconciled(db) == [
        (f"public.{chunk(day)}", "it was dropped by other means", "audited; another partition is in its place"),
        ("public.guest", "somebody has attached it", "it is a chunk now"),
    ]
    db.execute("INSERT INTO m VALUES (%s, 1)", [start])
    assert agree(db)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["CREATE TABLE guest PARTITION OF m DEFAULT"], "not a range of time"),
        (["CREATE TABLE guest PARTITION OF m FOR VALUES FROM (MINVALUE) TO ('1990-01-01')"], "not a range of time"),
        (["CREATE TABLE guest PARTITION OF m FOR VALUES FROM ('-infinity') TO ('1990-01-01')"], "not finite"),
        (
            ["CREATE TABLE guest PARTITION OF m FOR VALUES FROM ('1990-01-01') TO ('1991-01-01')"
             " PARTITION BY RANGE (ts)"],
            "not a plain table",
        ),
        (
            [f"ALTER TABLE m DETACH PARTITION {chunk(2)}",
             f"CREATE TABLE guest PARTITION OF m FOR VALUES FROM ('{today() - timedelta(days=2)}')"
             f" TO ('{today() - timedelta(days=1)}')"],
            "overlaps its own",
        ),
    ],
)  # fmt: skip
def test_a_partition_that_can_be_no_chunk_is_reported(db: psycopg.Connection, statements: list[str], why: str) -> None:
    for statement in statements:
        db.execute(statement.encode())
    (found,) = [one for one in reconciled(db) if one[0] == "public.guest"]
    assert why in found[1]
    assert found[2].startswith("left alone")


def test_a_partition_in_use_is_a_chunk_the_next_time(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE guest PARTITION OF m FOR VALUES FROM ('1990-01-01') TO ('1991-01-01')")
    reader = Session(dsn)
    try:
        reader.run("SELECT FROM guest")
        ((_, finding, done),) = ask(db, "SELECT * FROM lakets._reconcile()")
        assert "lock timeout" in finding
        assert done.startswith("left alone")
    finally:
        reader.close()
    assert reconciled(db) == [("public.guest", "somebody has attached it", "it is a chunk now")]


@pytest.mark.parametrize(("interval", "ahead"), [("10 minutes", 49), ("1 hour", 25), ("1 day", 3), ("1 month", 3)])
def test_k3_there_are_chunks_for_a_day_without_maintenance(db: psycopg.Connection, interval: str, ahead: int) -> None:
    """And for the five minutes between two runs; of short chunks 48 instead of the day."""
    with db.transaction():  # in which it is one moment
        db.execute("CREATE TABLE fine (ts timestamptz NOT NULL)")
        db.execute("SELECT lakets.create_chronotable('fine', 'ts', %s::interval)", [interval])
        ((found,),) = ask(db, "SELECT count(*) FROM lakets.show_chunks('fine') WHERE range_start > now()")
    assert found == ahead


def test_chunks_that_swap_their_names(db: psycopg.Connection) -> None:
    for old, new in ((chunk(2), "swap"), (chunk(3), chunk(2)), ("swap", chunk(3))):
        db.execute(f"ALTER TABLE {old} RENAME TO {new}".encode())
    assert len(reconciled(db)) == 2
    assert agree(db)


def test_the_name_of_a_dropped_chunk_is_free(db: psycopg.Connection) -> None:
    assert ask(db, "SELECT lakets.drop_chunks('m', '7 days')")[0][0] > 0
    db.execute(f"ALTER TABLE {chunk(2)} RENAME TO {chunk(9)}".encode())
    assert [one[0] for one in reconciled(db)] == [f"public.{chunk(9)}"]
    db.execute("ALTER TABLE m RENAME TO m_old")
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL)")
    db.execute("INSERT INTO m SELECT now() - g * interval '1 day' FROM generate_series(7, 8) g")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert agree(db)


def test_part_of_a_chunk_that_was_replaced_leaves_the_rest_as_it_was(db: psycopg.Connection) -> None:
    start = today() - timedelta(days=3)
    db.execute(f"DROP TABLE {chunk(3)}".encode())
    db.execute("CREATE TABLE half (LIKE m INCLUDING ALL)")
    bound = f"FROM ('{start}') TO ('{start + timedelta(hours=6)}')"
    db.execute(f"ALTER TABLE m ATTACH PARTITION half FOR VALUES {bound}".encode())
    reconciled(db)
    assert ask(db, "SELECT range_start, range_end FROM thermocline.dropped_range") == [
        (start + timedelta(hours=6), start + timedelta(days=1))
    ]
    db.execute("INSERT INTO m VALUES (%s, 1)", [start])
    with pytest.raises(psycopg.errors.RaiseException, match="left PostgreSQL"):
        db.execute("INSERT INTO m VALUES (%s, 1)", [start + timedelta(hours=7)])
    assert agree(db)


@pytest.mark.parametrize("change", ["SET UNLOGGED", "DETACH"])
def test_a_chunk_whose_changes_do_not_stream_is_reported(db: psycopg.Connection, change: str) -> None:
    table, what = ("m", f"DETACH PARTITION {chunk(2)}") if change == "DETACH" else (chunk(2), change)
    db.execute(f"ALTER TABLE {table} {what}".encode())
    ((name, _, done),) = reconciled(db)
    assert name == f"public.{chunk(2)}"
    assert done.startswith("left alone: ")


def test_one_table_in_trouble_does_not_cost_the_others_their_chunks(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE n (ts timestamptz NOT NULL)")
    db.execute("SELECT lakets.create_chronotable('n', 'ts', '1 day')")
    ahead = today() + timedelta(days=3)
    for table in ("m", "n"):
        db.execute(f"DROP TABLE {table}_{ahead:%Y%m%d}_000000".encode())
    db.execute(f"CREATE TABLE m_{ahead:%Y%m%d}_000000 ()".encode())
    trouble, fine = maintain(dsn)
    assert [found.open for found in trouble.findings] == [True] * len(trouble.findings)
    assert trouble.findings
    assert f"m_{ahead:%Y%m%d}_000000" in trouble.findings[0].finding
    assert not any(found.open for found in fine.findings)
    assert ask(db, "SELECT count(*) FROM lakets.show_chunks('n') WHERE range_start = %s", ahead) == [(1,)]


def test_functions_on_a_table_that_is_gone_say_so(db: psycopg.Connection) -> None:
    db.execute("DROP TABLE m")
    for call in (
        "enable_sync('m')",
        "drop_chunks('m', '1 day')",
        "show_chunks('m')",
        "add_retention_policy('m', '1 day')",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match=r"public\.m was dropped by other means"):
            db.execute(f"SELECT lakets.{call}".encode())
