"""The fingerprint: changed by every write, kept by everything that changes no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from gate.metrics import Metrics


def evidence(metrics: Metrics) -> tuple[object, ...]:
    return metrics.ask("SELECT * FROM thermocline._chunk_evidence(%s)", metrics.chunk())[0]


def test_it_survives_what_changes_no_row(plain: Metrics) -> None:
    before = evidence(plain)
    name = plain.name()
    plain.ask(f"VACUUM (FREEZE, ANALYZE) {name}")
    assert evidence(plain) == before, "freezing"
    plain.ask("BEGIN")
    plain.ask(f"SELECT * FROM {name} FOR UPDATE")
    plain.ask("COMMIT")
    assert evidence(plain) == before, "row locks"
    plain.ask("BEGIN")
    plain.ask(f"UPDATE {name} SET v = v + 1")
    plain.ask(f"DELETE FROM {name} WHERE sensor = 1")
    plain.ask("ROLLBACK")
    assert evidence(plain) == before, "a rolled-back update"
    plain.ask("BEGIN")
    plain.ask(plain.late())
    plain.ask("SAVEPOINT s")
    plain.ask(f"DELETE FROM {name} WHERE sensor = 99")
    plain.ask("COMMIT")
    plain.ask(f"VACUUM {name}")
    assert evidence(plain) == before, "an insert and its delete"
    plain.ask(f"REINDEX TABLE {name}")
    assert evidence(plain) == before, "new indexes"


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO metrics (ts, sensor) SELECT ts, 99 FROM {chunk} LIMIT 1",
        "UPDATE metrics SET v = v WHERE ts = (SELECT min(ts) FROM {chunk})",
        "DELETE FROM metrics WHERE ts = (SELECT min(ts) FROM {chunk})",
        "UPDATE metrics SET ts = ts + interval '1 day', sensor = 99 WHERE ts = (SELECT min(ts) FROM {chunk})",
        "COPY {chunk} (ts, sensor) FROM STDIN",
    ],
)
def test_g7_it_changes_with_every_write(plain: Metrics, write: str) -> None:
    before = evidence(plain)
    statement = write.replace("{chunk}", plain.name())
    if statement.startswith("COPY"):
        with plain.db.cursor().copy(statement.encode()) as copy:
            copy.write_row((plain.start, 98))
    else:
        plain.ask(statement)
    assert evidence(plain)[1] != before[1]


def test_it_is_the_same_whatever_the_session_is_set_to(plain: Metrics) -> None:
    plain.ask("ALTER TABLE metrics ADD COLUMN seen timestamptz DEFAULT '2026-01-05 12:00+00'")
    plain.ask("ALTER TABLE metrics ADD COLUMN took interval DEFAULT '1 day 2 hours'")
    plain.ask("ALTER TABLE metrics ADD COLUMN raw bytea DEFAULT '\\xff00'")
    plain.ask("ALTER TABLE metrics ADD COLUMN f float8 DEFAULT 0.1::float8 + 0.2")
    before = evidence(plain)
    for setting in (
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'German'",
        "intervalstyle = 'iso_8601'",
        "bytea_output = 'escape'",
        "extra_float_digits = -5",
        "search_path = public",
    ):
        plain.ask(f"SET {setting}")
    assert evidence(plain) == before


def test_g21_enums_are_seen_in_arrays_and_behind_domains(plain: Metrics) -> None:
    plain.ask("CREATE DOMAIN feeling AS mood")
    plain.ask("ALTER TABLE metrics ADD COLUMN many mood[], ADD COLUMN felt feeling")
    plain.ask("ALTER TABLE metrics ADD COLUMN twice int GENERATED ALWAYS AS (sensor * 2) STORED")
    columns = plain.one("SELECT columns FROM thermocline._chunk_evidence(%s)", plain.chunk())
    assert [column["name"] for column in columns if column["labels"] == ["calm", "wild"]] == ["mood", "many", "felt"]
    assert next(column["generated"] for column in columns if column["name"] == "twice") == "(sensor * 2)"
    plain.ask("ALTER TYPE mood RENAME VALUE 'wild' TO 'stormy'")
    after = plain.one("SELECT columns FROM thermocline._chunk_evidence(%s)", plain.chunk())
    assert sum(column["labels"] == ["calm", "stormy"] for column in after) == 3


def test_g21_the_expression_of_a_virtual_column_is_seen(plain: Metrics, major: int) -> None:
    if major < 18:
        pytest.skip("PostgreSQL has virtual columns from 18 on")
    plain.ask("ALTER TABLE metrics ADD COLUMN half int GENERATED ALWAYS AS (sensor / 2) VIRTUAL")
    before = evidence(plain)
    plain.ask("ALTER TABLE metrics ALTER COLUMN half SET EXPRESSION AS (sensor / 3)")
    after = evidence(plain)
    assert after[:5] == before[:5], "no row was touched"
    assert after[5] != before[5]


def test_rows_that_the_reader_may_not_see_are_an_error_and_not_left_out(plain: Metrics) -> None:
    plain.ask(f"ALTER TABLE {plain.name()} ENABLE ROW LEVEL SECURITY")
    plain.ask(f"ALTER TABLE {plain.name()} FORCE ROW LEVEL SECURITY")
    chunk = plain.chunk()
    plain.ask("CREATE ROLE half_blind")
    try:
        plain.ask("GRANT USAGE ON SCHEMA thermocline, public TO half_blind")
        plain.ask(f"GRANT SELECT ON {plain.name()} TO half_blind")
        plain.ask("SET ROLE half_blind")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            plain.ask("SELECT * FROM thermocline._chunk_evidence(%s)", chunk)
    finally:
        plain.ask("RESET ROLE")
        plain.ask("DROP OWNED BY half_blind")
        plain.ask("DROP ROLE half_blind")
