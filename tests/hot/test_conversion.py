"""Conversion into a ChronoTable: what people have built around a table is there afterwards, and works."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.questions import ask, one
from harness.roles import role
from harness.sessions import Session
from hot.readings import convert, orders

if TYPE_CHECKING:
    from typing import LiteralString

__all__ = ["orders"]


@pytest.mark.usefixtures("orders")
def test_foreign_keys_still_hold_k4(db: psycopg.Connection) -> None:
    db.execute("ALTER TABLE reading ADD CONSTRAINT known FOREIGN KEY (device) REFERENCES device ON DELETE CASCADE")
    convert(db)
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="known"):
        db.execute("INSERT INTO reading VALUES (now(), 10, 0)")
    db.execute("DELETE FROM device WHERE id = 3")
    assert ask(db, "SELECT count(*) FROM reading WHERE device = 3") == [(0,)]
    assert ask(db, "SELECT count(*) FROM reading") == [(35,)]


@pytest.mark.usefixtures("orders")
def test_triggers_fire_for_new_rows_and_keep_their_state_k4(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE heard (what text)")
    db.execute(
        "CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO heard VALUES (TG_NAME); RETURN NEW; END$$"
    )
    db.execute("CREATE TRIGGER a_row BEFORE INSERT ON reading FOR EACH ROW WHEN (NEW.v > 5) EXECUTE FUNCTION hear()")
    db.execute("CREATE TRIGGER b_statement AFTER INSERT ON reading EXECUTE FUNCTION hear()")
    db.execute("CREATE TRIGGER c_off AFTER INSERT ON reading FOR EACH ROW EXECUTE FUNCTION hear()")
    db.execute("ALTER TABLE reading DISABLE TRIGGER c_off")
    db.execute("ALTER TABLE reading ENABLE ALWAYS TRIGGER b_statement")
    db.execute("COMMENT ON TRIGGER a_row ON reading IS 'why'")
    convert(db)
    assert ask(db, "SELECT * FROM heard") == []
    db.execute("INSERT INTO reading VALUES (now(), 1, 6), (now(), 1, 4)")
    assert ask(db, "SELECT what FROM heard ORDER BY what") == [("a_row",), ("b_statement",)]
    found = ask(
        db,
        "SELECT tgname, tgenabled::text, obj_description(oid, 'pg_trigger') FROM pg_trigger"
        " WHERE tgrelid = 'reading'::regclass AND tgname ~ '^[abc]_' ORDER BY 1",
    )
    assert found == [("a_row", "O", "why"), ("b_statement", "A", None), ("c_off", "D", None)]


@pytest.mark.usefixtures("orders")
def test_row_security_shows_each_role_its_own_rows_k4(db: psycopg.Connection, dsn: str) -> None:
    db.execute("ALTER TABLE reading ENABLE ROW LEVEL SECURITY")
    db.execute("ALTER TABLE reading FORCE ROW LEVEL SECURITY")
    grants = ("GRANT USAGE ON SCHEMA public TO {role}", "GRANT SELECT, INSERT ON reading TO {role}")
    with role(dsn, "tenant", "", *grants):
        db.execute("CREATE POLICY own ON reading FOR SELECT TO tenant USING (device = 1)")
        db.execute("CREATE POLICY new ON reading FOR INSERT TO PUBLIC WITH CHECK (device < 3)")
        db.execute("CREATE POLICY never ON reading AS RESTRICTIVE USING (v < 1000)")
        before = ask(db, "SELECT polname, polcmd::text, polpermissive FROM pg_policy ORDER BY 1")
        convert(db)
        assert ask(db, "SELECT polname, polcmd::text, polpermissive FROM pg_policy ORDER BY 1") == before
        assert ask(db, "SELECT relforcerowsecurity FROM pg_class WHERE oid = 'reading'::regclass") == [(True,)]
        ((chunk,),) = ask(db, "SELECT max(chunk_name) FROM lakets._chunk_metadata")
        db.execute("SET ROLE tenant")
        try:
            assert ask(db, "SELECT count(*), min(device), max(device) FROM reading") == [(5, 1, 1)]
            db.execute("INSERT INTO reading VALUES (now(), 2, 1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                db.execute("INSERT INTO reading VALUES (now(), 3, 1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(f"SELECT * FROM {chunk}".encode())  # no way around it through a chunk
        finally:
            db.execute("RESET ROLE")
        db.execute("DROP TABLE reading CASCADE")


@pytest.mark.usefixtures("orders")
def test_views_and_views_of_views_are_there_as_they_were_k4(db: psycopg.Connection, dsn: str) -> None:
    db.execute(
        'CREATE VIEW "High One" (at, "Which") WITH (security_barrier = true)'
        " AS SELECT ts, device FROM reading WHERE v > 20"
    )
    db.execute('CREATE VIEW counted AS SELECT "Which", count(*) AS n FROM "High One" GROUP BY 1')
    db.execute("CREATE VIEW both_of_them AS SELECT c.n, r.v FROM counted c, reading r")
    db.execute('ALTER VIEW "High One" ALTER COLUMN at SET DEFAULT now()')
    db.execute("COMMENT ON VIEW counted IS 'how many'")
    db.execute("COMMENT ON COLUMN counted.n IS 'so many'")
    db.execute("CREATE FUNCTION put() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    db.execute("CREATE TRIGGER instead INSTEAD OF INSERT ON counted FOR EACH ROW EXECUTE FUNCTION put()")
    with role(dsn, "viewer", "", "GRANT SELECT ON counted TO {role}", 'GRANT SELECT (at) ON "High One" TO {role}'):
        definitions = "SELECT viewname, definition, viewowner FROM pg_views WHERE schemaname = 'public' ORDER BY 1"
        counts = 'SELECT "Which", n FROM counted ORDER BY 1'
        before, counted = ask(db, definitions), ask(db, counts)
        convert(db)
        assert ask(db, definitions) == before
        assert ask(db, counts) == counted
        assert ask(db, "SELECT has_table_privilege('viewer', 'counted', 'SELECT')") == [(True,)]
        assert ask(db, "SELECT has_column_privilege('viewer', '\"High One\"', 'at', 'SELECT')") == [(True,)]
    assert ask(db, "SELECT reloptions FROM pg_class WHERE relname = 'High One'") == [(["security_barrier=true"],)]
    assert ask(db, "SELECT obj_description('counted'::regclass), col_description('counted'::regclass, 2)") == [
        ("how many", "so many")
    ]
    assert ask(db, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'counted'::regclass") == [(1,)]
    assert ask(db, "SELECT count(*) FROM pg_attrdef WHERE adrelid = '\"High One\"'::regclass") == [(1,)]


def test_comments_on_keys_indexes_and_policies_are_kept_k4(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE kind (id int PRIMARY KEY)")
    db.execute(
        'CREATE TABLE noted (ts timestamptz, "Kind" int REFERENCES kind, v int CONSTRAINT positive CHECK (v > 0),'
        " PRIMARY KEY (ts, v))"
    )
    db.execute('CREATE INDEX "by Kind" ON noted ("Kind")')
    db.execute("CREATE POLICY all_of_it ON noted USING (true)")
    db.execute("COMMENT ON CONSTRAINT noted_pkey ON noted IS 'the key'")
    db.execute("COMMENT ON INDEX noted_pkey IS 'its index'")
    db.execute('COMMENT ON CONSTRAINT "noted_Kind_fkey" ON noted IS $$a kind, isn\'t it$$')
    db.execute("COMMENT ON CONSTRAINT positive ON noted IS 'more than none'")
    db.execute("COMMENT ON INDEX \"by Kind\" IS 'for dashboards'")
    db.execute("COMMENT ON POLICY all_of_it ON noted IS 'everybody'")
    said = """
        SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conrelid = 'noted'::regclass
        UNION ALL SELECT obj_description(indexrelid, 'pg_class') FROM pg_index WHERE indrelid = 'noted'::regclass
        UNION ALL SELECT obj_description(oid, 'pg_policy') FROM pg_policy WHERE polrelid = 'noted'::regclass
    """
    before = Counter(row[0] for row in db.execute(said) if row[0])
    assert len(before) == 6
    db.execute("SELECT lakets.create_chronotable('noted', 'ts')")
    assert Counter(row[0] for row in db.execute(said) if row[0]) == before


@pytest.mark.usefixtures("orders")
def test_a_conversion_that_fails_late_leaves_everything_as_it_was_k4(db: psycopg.Connection) -> None:
    db.execute("CREATE VIEW high AS SELECT * FROM reading WHERE v > 20")
    db.execute("CREATE TABLE reading_20200101_000000 (a int)")
    db.execute("INSERT INTO reading VALUES ('2020-01-01Z', 1, 1)")  # its chunk's name is taken
    with pytest.raises(psycopg.errors.RaiseException, match="is there already"):
        convert(db)
    assert ask(db, "SELECT relkind::text FROM pg_class WHERE oid = 'reading'::regclass") == [("r",)]
    assert ask(db, "SELECT count(*) FROM high") == [(19,)]
    assert ask(db, "SELECT count(*) FROM lakets._chronotable_registry") == [(0,)]


def test_k4_rows_that_others_commit_before_the_lock_are_kept_or_it_is_refused(db: psycopg.Connection, dsn: str) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    with psycopg.connect(dsn) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT 1 FROM pg_class LIMIT 1")
        db.execute("INSERT INTO m VALUES (now(), 3)")
        with pytest.raises(psycopg.errors.RaiseException, match=r"make public\.m a ChronoTable.*REPEATABLE READ"):
            session.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert ask(db, "SELECT v FROM m") == [(3,)]


def test_k4_rows_that_the_owner_may_not_see_are_not_lost(db: psycopg.Connection, dsn: str) -> None:
    grants = ("GRANT lakets_admin TO {role}", "GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    with role(dsn, "half_blind", "", *grants) as owners, psycopg.connect(owners, autocommit=True) as owner:
        owner.execute("CREATE TABLE m (ts timestamptz NOT NULL, tenant text)")
        owner.execute(
            "INSERT INTO m SELECT now(), CASE WHEN g > 50 THEN 'a' ELSE 'b' END FROM generate_series(1, 100) g"
        )
        owner.execute("CREATE POLICY p ON m USING (tenant = 'a')")
        owner.execute("ALTER TABLE m ENABLE ROW LEVEL SECURITY")
        owner.execute("ALTER TABLE m FORCE ROW LEVEL SECURITY")
        with pytest.raises(psycopg.errors.Error, match="row-level security"):
            owner.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
        assert ask(db, "SELECT count(*) FROM m") == [(100,)]


def test_the_owner_owns_every_part_of_a_table_that_somebody_else_converted(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "app_owner", "", "GRANT CREATE, USAGE ON SCHEMA public TO {role}") as owners:
        with psycopg.connect(owners, autocommit=True) as owner:
            owner.execute("CREATE TABLE m (id serial, ts timestamptz NOT NULL)")
            owner.execute("INSERT INTO m (ts) SELECT now() - g * interval '1 day' FROM generate_series(0, 3) g")
            db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
            owners_of = ask(db, "SELECT DISTINCT relowner::regrole::text FROM pg_class c JOIN lakets._chunk_metadata m"
                                " ON c.oid = m.chunk_oid")  # fmt: skip
            assert owners_of == [("app_owner",)]
            owner.execute("ALTER TABLE m ADD COLUMN note text")
            owner.execute("INSERT INTO m (ts) VALUES (now())")
            assert ask(owner, "SELECT max(id) FROM m") == [(5,)]
        db.execute("SELECT lakets.drop_chronotable('m')")


def test_the_sequence_of_an_identity_is_what_it_was_k4(db: psycopg.Connection, dsn: str) -> None:
    with role(dsn, "app_owner", "", "GRANT CREATE, USAGE ON SCHEMA public TO {role}") as owners, role(dsn, "reader"):
        with psycopg.connect(owners, autocommit=True) as owner:
            owner.execute(
                "CREATE TABLE m (id bigint GENERATED ALWAYS AS IDENTITY, n int GENERATED BY DEFAULT AS IDENTITY"
                ' (SEQUENCE NAME "Own Name" START 100 INCREMENT 10), ts timestamptz NOT NULL)'
            )
            owner.execute("INSERT INTO m (ts) SELECT now() FROM generate_series(1, 5)")
            owner.execute("GRANT USAGE ON SEQUENCE m_id_seq TO reader")
            owner.execute("GRANT SELECT ON SEQUENCE m_id_seq TO PUBLIC")
            owner.execute("COMMENT ON SEQUENCE m_id_seq IS 'numbers'")
        db.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT UPDATE ON SEQUENCES TO reader")
        state = """
            SELECT s, pg_get_userbyid(c.relowner), obj_description(c.oid),
                   has_sequence_privilege('reader', c.oid, 'USAGE'),
                   has_sequence_privilege('reader', c.oid, 'SELECT'), has_sequence_privilege('reader', c.oid, 'UPDATE'),
                   pg_sequence_last_value(c.oid), q.seqincrement, q.seqstart
            FROM unnest(ARRAY['id', 'n']) a, pg_get_serial_sequence('m', a) s
            JOIN pg_class c ON c.oid = s::regclass JOIN pg_sequence q ON q.seqrelid = c.oid ORDER BY s
        """
        before = ask(db, state)
        assert before == [
            ('public."Own Name"', "app_owner", None, False, False, False, 140, 10, 100),
            ("public.m_id_seq", "app_owner", "numbers", True, True, False, 5, 1, 1),
        ]
        db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
        assert ask(db, state) == before
        assert ask(db, "INSERT INTO m (ts) VALUES (now()) RETURNING id, n") == [(6, 150)]
        assert ask(db, "SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"
                       " ORDER BY 1") == [("Own Name",), ("m_id_seq",)]  # fmt: skip
        db.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE UPDATE ON SEQUENCES FROM reader")
        db.execute("SELECT lakets.drop_chronotable('m')")


@pytest.mark.usefixtures("orders")
def test_rows_and_sizes_of_the_chunks_are_known_after_a_conversion(db: psycopg.Connection) -> None:
    convert(db)
    known = ask(db, "SELECT chunk_name, row_count, size_bytes FROM lakets._chunk_metadata ORDER BY range_start")
    assert ask(db, "SELECT chunk_name, row_count, size_bytes FROM lakets.show_chunks('reading')") == known
    counted = ask(
        db,
        "SELECT m.chunk_name, (SELECT count(*) FROM reading r WHERE r.tableoid = m.chunk_oid),"
        " pg_total_relation_size(m.chunk_oid) FROM lakets._chunk_metadata m ORDER BY m.range_start",
    )
    assert known == counted
    assert sum(rows for _, rows, _ in known) == 40


@pytest.mark.parametrize("tolerant", [False, True])
def test_two_conversions_at_once(db: psycopg.Connection, dsn: str, tolerant: bool) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL)")
    call: LiteralString = "SELECT lakets.create_chronotable('m', 'ts', '1 day', p_if_not_exists => %s)"
    with Session(dsn) as one, Session(dsn) as two:
        one.run(call, [tolerant])
        waiting = two.start(call, [tolerant])
        two.wait_until_blocked()
        one.commit()
        if tolerant:
            assert waiting.result(60) == [(1,)]
        else:
            with pytest.raises(psycopg.errors.RaiseException, match=r"cannot make public\.m a ChronoTable"):
                waiting.result(60)
    assert ask(db, "SELECT count(*) FROM lakets._chronotable_registry") == [(1,)]


@pytest.mark.parametrize(
    "made",
    [
        ["CREATE UNIQUE INDEX ON m (v) INCLUDE (ts)"],
        ["ALTER TABLE m ADD CHECK (v > 0) NO INHERIT"],
        ["CREATE FUNCTION f(m) RETURNS int LANGUAGE sql AS 'SELECT 1'"],
        ["INSERT INTO m VALUES (now(), -1)", "ALTER TABLE m ADD CHECK (v > 0) NOT VALID"],
    ],
)
def test_k4_what_partitions_cannot_have_is_refused_in_words(db: psycopg.Connection, made: list[str]) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    for statement in made:
        db.execute(statement.encode())
    before = ask(db, "SELECT count(*) FROM m"), ask(db, "SELECT count(*) FROM pg_class")
    with pytest.raises(psycopg.errors.RaiseException, match=r"cannot make public\.m a ChronoTable"):
        db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert (ask(db, "SELECT count(*) FROM m"), ask(db, "SELECT count(*) FROM pg_class")) == before


def test_k4_every_reason_is_in_one_message_and_nothing_is_touched(db: psycopg.Connection) -> None:
    for statement in (
        "CREATE TABLE m (ts timestamptz NOT NULL, v int, id int PRIMARY KEY)",
        "INSERT INTO m VALUES (now(), -1, 1), (now(), NULL, 2), (now(), 7, 3)",
        "CREATE UNIQUE INDEX near ON m (v) INCLUDE (ts)",
        "ALTER TABLE m ADD CONSTRAINT only_here CHECK (id > 0) NO INHERIT",
        "ALTER TABLE m ADD CONSTRAINT positive CHECK (v > 0) NOT VALID",
        "CREATE FUNCTION taking(m) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE FUNCTION giving() RETURNS SETOF m LANGUAGE plpgsql AS 'BEGIN END'",
        "CREATE DOMAIN of_rows AS m[]",
        "CREATE VIEW seen AS SELECT v FROM m",
        "CREATE FUNCTION seeing(seen) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ):
        db.execute(statement.encode())
    today = one(db, "SELECT to_char(now() AT TIME ZONE 'UTC', '\"m_\"YYYYMMDD_000000')")
    db.execute(f"CREATE SEQUENCE {today}".encode())
    state = (
        "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_depend),"
        " (SELECT count(*) FROM pg_constraint), 'm'::regclass::oid, 'seen'::regclass::oid, (SELECT sum(v) FROM m),"
        " (SELECT count(*) FROM lakets._chronotable_registry)"
    )
    before = ask(db, state)
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    told = (caught.value.diag.message_primary or "").removeprefix("cannot make public.m a ChronoTable: ").split("; ")
    assert sorted(told) == sorted([
        "its primary key m_pkey does not contain the time column ts",
        "its unique index public.near does not contain the time column ts",
        f"public.{today} is there already and has the name of a chunk",
        "1 of its rows do not satisfy the constraint positive, which is NOT VALID",
        "its constraint only_here is NO INHERIT, which partitioned tables cannot have",
        "the function public.taking(public.m) depends on it or on a view of it",
        "the function public.giving() depends on it or on a view of it",
        "the function public.seeing(public.seen) depends on it or on a view of it",
        "the type public.of_rows depends on it or on a view of it",
    ])  # fmt: skip
    assert caught.value.diag.message_hint == "Nothing was changed. Mend what is listed and call again."
    assert ask(db, state) == before


def test_a_check_that_is_not_valid_is_kept_when_all_rows_satisfy_it_k4(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute("INSERT INTO m VALUES (now(), 1), (now(), NULL)")
    db.execute("ALTER TABLE m ADD CONSTRAINT positive CHECK (v > 0) NOT VALID")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert one(db, "SELECT convalidated FROM pg_constraint WHERE conrelid = 'm'::regclass AND contype = 'c'") is True
    with pytest.raises(psycopg.errors.CheckViolation, match="positive"):
        db.execute("INSERT INTO m VALUES (now(), -1)")


def test_a_table_in_the_way_of_no_chunk_does_not_matter(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute("CREATE TABLE m_19990101_000000 ()")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert one(db, "SELECT count(*) > 3 FROM lakets.show_chunks('m')") is True


def test_nothing_without_a_name_is_converted(db: psycopg.Connection) -> None:
    for arguments in ("NULL, 'ts'", "'m', NULL", "'m', 'ts', '1 day', NULL"):
        with pytest.raises(psycopg.errors.RaiseException, match="need names"):
            db.execute(f"SELECT lakets.create_chronotable({arguments})".encode())


@pytest.mark.parametrize(
    "taken",
    [
        "CREATE TABLE idx_m_ts ()",
        "CREATE TABLE other (v int); CREATE INDEX idx_m_ts ON other (v)",
        "CREATE INDEX idx_m_ts ON m (v)",
        "CREATE INDEX idx_m_ts ON m (ts) WHERE v > 0",
        "CREATE INDEX idx_m_ts ON m USING brin (ts)",
        "CREATE INDEX idx_m_ts ON m (v, ts)",
    ],
)
def test_the_time_index_is_there_although_something_else_has_its_name(db: psycopg.Connection, taken: str) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute(taken.encode())
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert ask(db, "SELECT indexdef FROM pg_indexes WHERE tablename = 'm' AND indexname = 'm_ts_idx'") == [
        ("CREATE INDEX m_ts_idx ON ONLY public.m USING btree (ts)",)
    ]
    assert ask(db, "SELECT to_regclass('idx_m_ts') IS NOT NULL") == [(True,)]


def test_an_index_of_that_name_which_serves_as_well_is_enough(db: psycopg.Connection) -> None:
    db.execute("CREATE TABLE m (ts timestamptz NOT NULL, v int)")
    db.execute("CREATE INDEX idx_m_ts ON m (ts, v)")
    db.execute("SELECT lakets.create_chronotable('m', 'ts', '1 day')")
    assert ask(db, "SELECT indexdef FROM pg_indexes WHERE tablename = 'm'") == [
        ("CREATE INDEX idx_m_ts ON ONLY public.m USING btree (ts, v)",)
    ]
