"""Columns that change while a table streams: the history follows by number, also in rows that have left PostgreSQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

from harness.lakes import LATELY, NOON, Lake, chunk
from thermocline.feed import feed as feeds
from thermocline.feed.shapes import Place, Shape, ShapeUnknown
from thermocline.hot.positions import number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    """A streaming table m whose first day has left PostgreSQL."""
    found = Lake.of(dsn, tmp_path / "home").with_days("id int, v float4, tag varchar(20)", "g, g / 8.0, 't' || g")
    found.synced().drain()
    found.let_go(0)
    return found


def status(lake: Lake) -> tuple[str, str | None]:
    ((found, reason),) = lake.run("SELECT status, reason FROM thermocline.synced_table WHERE chronotable_id = 1")
    return found, reason


def copies(lake: Lake) -> int:
    return sum(one == "truncate" for one in lake.history()["_change_type"].to_pylist())


def expected(lake: Lake, left: Sequence[Any]) -> Counter[tuple[Any, ...]]:
    """What is in PostgreSQL, and rows that have left."""
    return lake.hot() + Counter(left)


def first_day(*more: Any, tag: bool = True) -> list[tuple[Any, ...]]:
    """The rows that have left, with what they read in later columns."""
    start = NOON[0].replace(hour=0)
    return [(start.replace(hour=g), g, g / 8.0, *([f"t{g}"] if tag else []), *more) for g in range(24)]


def test_m2_a_renamed_column_keeps_the_values_of_rows_that_have_left(lake: Lake) -> None:
    before = copies(lake)
    with lake.feed() as feed:
        lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'before')")
        lake.run("ALTER TABLE m RENAME tag TO label", f"INSERT INTO m VALUES ('{NOON[1]}', 2, 1, 'between')")
        lake.run("ALTER TABLE m RENAME label TO note", "UPDATE m SET note = 'after' WHERE id = 1")
        feed.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day())
    assert "note" in lake.history().column_names
    assert copies(lake) == before, "nothing was copied for it"
    lake.let_go(1)


def test_m2_a_value_that_did_not_fit_keeps_its_old_name_until_the_chunk_is_copied_again(lake: Lake) -> None:
    lake.run("ALTER TABLE m ADD COLUMN p numeric(10, 2)", f"INSERT INTO m VALUES ('{NOON[1]}', 7, 1, 'x', 'NaN')")
    lake.drain()
    lake.run("ALTER TABLE m RENAME p TO price", f"INSERT INTO m VALUES ('{NOON[1]}', 8, 1, 'y', 'NaN')")
    lake.drain()
    with lake.feeding():
        assert not lake.stack.prover(on_spark=False).prove(lake.chunk_oid(1)).equal, "it stays until it is copied again"
    lake.run(f"SELECT lakets.resync('m', p_chunk_name => '{chunk(1)}')")
    lake.drain()
    lake.let_go(1)


def test_m2_columns_that_swap_their_names_in_one_batch_are_told_apart(lake: Lake) -> None:
    lake.run("ALTER TABLE m ADD COLUMN other varchar(20)", f"UPDATE m SET other = 'o' WHERE ts >= '{NOON[2]}'")
    lake.drain()
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 'is tag', 'is other')",
        "ALTER TABLE m RENAME tag TO x",
        "ALTER TABLE m RENAME other TO tag",
        "ALTER TABLE m RENAME x TO other",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1, 'is tag', 'is other')",
        "DELETE FROM m WHERE id = 1000",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day(None))


def test_the_time_column_may_have_another_name(lake: Lake) -> None:
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'before')",
        "ALTER TABLE m RENAME ts TO at",
        f"TRUNCATE {chunk(2)}",
        f"INSERT INTO m VALUES ('{NOON[2]}', 2, 1, 'after')",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day())
    lake.let_go(1)
    assert lake.content() == expected(
        lake, [*first_day(), *(row for row in lake.content() if row[0].date() == NOON[1].date())]
    )


def test_m16_a_column_that_came_between_the_join_and_the_first_look(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE n (ts timestamptz NOT NULL, v int)",
        "SELECT lakets.create_chronotable('n', 'ts', '1 day')",
        "SELECT lakets.enable_sync('n')",
        f"INSERT INTO n VALUES ('{LATELY}', 1)",
        "ALTER TABLE n ADD COLUMN w int DEFAULT 5",
        f"INSERT INTO n VALUES ('{LATELY}', 2, 6)",
    )
    assert not lake.drain().set_aside
    assert lake.content("n") == lake.hot("n")


def test_a_renamed_table_goes_on_in_the_same_history(lake: Lake) -> None:
    lake.run("ALTER TABLE m RENAME TO other", f"INSERT INTO other VALUES ('{NOON[1]}', 1000, 1, 'after')")
    lake.drain()
    lake.run("UPDATE other SET tag = 'later' WHERE id = 1000")
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert [row["tag"] for row in lake.history().to_pylist() if row["id"] == 1000] == ["after", "after", "later"]


DEFAULTS: dict[str, Any] = {
    "int NOT NULL DEFAULT 5": 5,
    "float8 DEFAULT 'NaN'": "NaN",
    "text DEFAULT 'it''s {a}, \"b\"'": 'it\'s {a}, "b"',
    "bool DEFAULT true": True,
    "numeric(12, 3) DEFAULT 1.5": Decimal("1.500"),
    "bytea DEFAULT '\\x00ff'": b"\x00\xff",
    "date DEFAULT '2024-02-29'": date(2024, 2, 29),
    "timestamptz DEFAULT '2024-02-29 12:00:00.000001+02'": datetime(2024, 2, 29, 10, 0, 0, 1, UTC),
    "timestamp DEFAULT '2024-02-29 12:00'": datetime(2024, 2, 29, 12, tzinfo=UTC).replace(tzinfo=None),
}


def test_m17_a_column_with_a_default_is_read_in_rows_from_before(lake: Lake) -> None:
    """All at once: each is a column of its own. The rows that PostgreSQL still has are not copied for it."""
    before = copies(lake)
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 'unread')")
    added = ", ".join(f"ADD COLUMN c{number} {one}" for number, one in enumerate(DEFAULTS))
    lake.run(
        f"ALTER TABLE m {added}",
        "UPDATE m SET c1 = 1, c2 = NULL WHERE id % 3 = 0",
        "DELETE FROM m WHERE id % 5 = 0",
        f"INSERT INTO m (ts, id) VALUES ('{NOON[2]}', 1001)",
        "ALTER TABLE m ALTER c0 SET DEFAULT 7, ALTER c2 SET DEFAULT 'later'",
        f"INSERT INTO m (ts, id) VALUES ('{NOON[2]}', 1002)",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day(*DEFAULTS.values()))
    assert copies(lake) == before
    lake.let_go(1, 2)
    lake.drain()
    assert {row[1]: row[4] for row in lake.content() if row[1] in (3, 1001, 1002)} == {3: 5, 1001: 5, 1002: 7}


def test_m17_a_default_in_the_transaction_that_wrote_before_it(lake: Lake) -> None:
    with psycopg.connect(lake.dsn) as session:
        session.execute("INSERT INTO m VALUES (%s, 1000, 1, 'before')", [NOON[1]])
        session.execute("ALTER TABLE m ADD COLUMN extra int DEFAULT 5")
        session.execute("INSERT INTO m VALUES (%s, 1001, 1, 'after', NULL)", [NOON[1]])
    lake.drain()
    assert lake.content() == expected(lake, first_day(5))


def test_m17_a_default_that_came_while_sync_was_off(lake: Lake) -> None:
    lake.run(
        "SELECT lakets.disable_sync('m')",
        "ALTER TABLE m ADD COLUMN extra int DEFAULT 5",
        "UPDATE m SET extra = NULL WHERE id % 2 = 0",
        "SELECT lakets.enable_sync('m')",
    )
    lake.drain()
    assert lake.content() == expected(lake, first_day(5))


def test_m17_a_volatile_default_has_the_chunks_copied_again(lake: Lake) -> None:
    before = copies(lake)
    lake.run("ALTER TABLE m ADD COLUMN extra float8 DEFAULT random()")
    lake.drain()
    assert lake.content() == expected(lake, first_day(None))
    assert copies(lake) > before


def test_m2_a_dropped_column_stays_in_the_history_and_its_name_may_come_again(lake: Lake) -> None:
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 'gone soon')",
        "ALTER TABLE m DROP COLUMN tag",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1)",
        "DELETE FROM m WHERE id = 1000",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day(tag=False))
    assert "gone soon" in lake.history()["tag"].to_pylist()
    lake.run("ALTER TABLE m ADD COLUMN tag int", "UPDATE m SET tag = id WHERE id % 2 = 0")
    lake.drain()
    assert lake.content() == expected(lake, first_day(None, tag=False))
    (old,) = (name for name in lake.history().column_names if name.startswith("tag_dropped_"))
    assert "gone soon" in lake.history()[old].to_pylist()
    lake.let_go(1)


def test_m2_drop_rename_and_add_between_two_batches(lake: Lake) -> None:
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 'old shape')",
        "ALTER TABLE m DROP COLUMN v",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 'without v')",
        "ALTER TABLE m RENAME tag TO v",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1002, 'is v now')",
        "ALTER TABLE m ADD COLUMN tag int",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1003, 'is v now', 7)",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, [(row[0], row[1], row[3], None) for row in first_day()])


def test_m2_a_column_that_came_and_went_between_two_looks(lake: Lake) -> None:
    lake.run(
        "ALTER TABLE m ADD COLUMN brief int",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 'with brief', 7)",
        "ALTER TABLE m DROP COLUMN brief",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1, 'without')",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day())


def test_m17_wider_types_are_followed_and_rewritten_chunks_copied_again(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days(
        "a int, b float4, c numeric(10, 2), d varchar(5), e smallint", "g, g / 8.0, g, 'd' || g, g"
    )
    lake.synced().drain()
    lake.let_go(0)
    left = [row for row in lake.content() if row[0] < NOON[0].replace(hour=23, minute=59)]
    before = copies(lake)
    lake.run(
        f"INSERT INTO m VALUES ('{NOON[1]}', 1000, 1, 1, 'x', 1)",
        "ALTER TABLE m ALTER c TYPE numeric(20, 2), ALTER d TYPE varchar(50)",
        f"INSERT INTO m VALUES ('{NOON[1]}', 1001, 1, 123456789012.25, 'x', 1)",
        "ALTER TABLE m ALTER a TYPE bigint, ALTER b TYPE float8, ALTER d TYPE text, ALTER e TYPE int",
        f"INSERT INTO m VALUES ('{NOON[1]}', 5000000000, 0.1, 1, repeat('x', 60), 100000)",
        "DELETE FROM m WHERE a = 1000",
    )
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, left)
    assert copies(lake) > before
    lake.let_go(1)
    before = copies(lake)
    lake.run("DELETE FROM m WHERE a > 4000000000", "ALTER TABLE m ALTER a TYPE int")  # the lake stays as wide
    lake.drain()
    assert status(lake) == ("STREAMING", None)
    assert max(row[1] for row in lake.content()) == 5000000000
    lake.let_go(2)


def test_m17_values_that_a_rewrite_has_changed_are_copied(lake: Lake) -> None:
    lake.run("ALTER TABLE m ALTER v TYPE float4 USING v * 2", f"VACUUM FULL {chunk(2)}")
    lake.drain()
    assert lake.content() == expected(lake, first_day())
    lake.let_go(1)


def test_m17_g21_a_renamed_label_has_the_chunks_copied_again(dsn: str, tmp_path: Path) -> None:
    lake = Lake.of(dsn, tmp_path / "home")
    lake.run("CREATE TYPE mood AS ENUM ('calm', 'wild')", "CREATE DOMAIN feeling AS mood")
    lake.with_days("id int, mood mood, feeling feeling", "g, 'calm', 'wild'").synced().drain()
    lake.let_go(0)
    before = copies(lake)
    lake.run("ALTER TYPE mood ADD VALUE 'new'")
    lake.drain()
    assert copies(lake) == before
    lake.run("ALTER TYPE mood RENAME VALUE 'calm' TO 'still'", "DELETE FROM m WHERE id % 2 = 0")
    lake.drain()
    lake.drain()
    assert copies(lake) > before
    left = [(NOON[0].replace(hour=g), g, "calm", "wild") for g in range(24)]
    assert lake.content() == expected(lake, left)
    lake.let_go(1)


def test_g9_a_truncated_chunk_is_not_taken_for_a_rewritten_one(lake: Lake) -> None:
    before = copies(lake)
    lake.run(f"TRUNCATE {chunk(1)}", f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'after')")
    lake.drain()
    lake.drain()
    assert copies(lake) == before + 1
    assert lake.content() == expected(lake, first_day())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ALTER TABLE m ALTER id TYPE text USING id::text", "the column id is int in the lake and string now"),
        ('ALTER TABLE m ADD COLUMN "TAG" text', "differ only in upper and lower case"),
        ("ALTER TABLE m RENAME tag TO _seq", "has a name that the lake uses itself"),
        ("ALTER TABLE m ADD COLUMN kind regtype", "the column kind has a type that reads differently"),
    ],
)
def test_m2_what_cannot_be_followed_sets_the_table_aside(lake: Lake, change: str, reason: str) -> None:
    lake.run(change)
    lake.drain()
    told, why = status(lake)
    assert told == "SKIPPED"
    assert reason.lower() in (why or "").lower()


@pytest.mark.parametrize(
    "change", ["ALTER TABLE m ADD COLUMN extra int DEFAULT 5", "ALTER TABLE m ALTER id TYPE bigint"]
)
def test_m2_columns_that_change_while_a_batch_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """A batch may end behind a transaction that came after the look at the columns: then it is read again."""
    done: list[str] = []

    def meanwhile(*_: object) -> int:
        if not done:
            done.append(change)
            written = f"INSERT INTO m VALUES ('{NOON[1]}', 5, 1, 'meanwhile' {', 6' if 'extra' in change else ''})"
            lake.run(f"BEGIN; {change}; {written}; COMMIT")
        ((flushed,),) = lake.run("SELECT pg_current_wal_flush_lsn()::text")
        return number(flushed)

    monkeypatch.setattr(feeds.Feed, "end_of_batch", meanwhile)
    lake.run(f"INSERT INTO m VALUES ('{NOON[1]}', 1, 1, 'before')")
    with lake.feed() as feed:
        assert feed.step() is not None
        monkeypatch.undo()
        for _ in range(3):
            feed.drain()
        assert feed.drain().caught_up
    assert done
    assert status(lake) == ("STREAMING", None)
    assert lake.content() == expected(lake, first_day(*([5] if "extra" in change else [])))


# ---- which columns these were ----------------------------------------------------------------

TEXT, INT = pa.string(), pa.int32()


def names(shape: Shape, *told: tuple[str, pa.DataType]) -> dict[str, int]:
    found = shape._placed([name for name, _ in told], pa.schema(told))
    return {name: place.number for name, place in found.items()}


def test_names_decide_only_where_numbers_do_not() -> None:
    gone = Place(2, "a", "a", TEXT, sure=False)
    late = Place(4, "c", "c", TEXT, sure=False, late=True)
    shape = Shape("m", (Place(1, "ts", "ts", INT), gone, Place(3, "b", "b", TEXT), late))
    every = [("ts", INT), ("x", TEXT), ("y", TEXT), ("z", TEXT)]
    assert list(names(shape, *every).values()) == [1, 2, 3, 4]
    assert list(names(shape, *every[:2]).values()) == [1, 3]
    assert list(names(shape, ("ts", INT), ("a", TEXT), ("b", TEXT)).values()) == [1, 2, 3]
    assert list(names(shape, ("ts", INT), ("b", TEXT), ("x", TEXT)).values()) == [1, 3, 4]
    assert list(names(shape, ("ts", INT), ("x", INT), ("b", TEXT)).values()) == [1, 3], "nobody knows x any more"
    for told in ([("ts", INT)], [("ts", INT), ("x", TEXT), ("y", TEXT)]):
        with pytest.raises(ShapeUnknown, match="cannot be told from"):
            names(shape, *told)
    with pytest.raises(ShapeUnknown):
        names(replace(shape, named=False), ("ts", INT), ("a", TEXT), ("b", TEXT))
