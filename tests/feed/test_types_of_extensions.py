"""Columns of types that an extension has brought: copied, streamed and proven as any other, also in shadow mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.lakes import NOON, Lake

if TYPE_CHECKING:
    from pathlib import Path

# Its binary form is its own.
VECTOR = ("CREATE EXTENSION vector",)
# It has no binary form, no equality and no order.
PLAIN = (
    "CREATE TYPE plain",
    "CREATE FUNCTION plain_in(cstring) RETURNS plain LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION plain_out(plain) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
    "CREATE TYPE plain (INPUT = plain_in, OUTPUT = plain_out, LIKE = text)",
)
KINDS = {
    "vector(3)": (VECTOR, ["[1,2,3]", "[-0,1e-07,3.5]", "[0.1,1e+30,-2]"]),
    "sparsevec[]": (VECTOR, ['{"{1:1.5,5:-2}/5",NULL,"{}/5"}', "{}"]),
    "plain": (PLAIN, ["", "läßt \\ 'this'", "a\tb"]),
}


def made(dsn: str, folder: Path, kind: str) -> Lake:
    lake = Lake.of(dsn, folder).with_days()
    statements, values = KINDS[kind]
    lake.run(*statements, f"ALTER TABLE m ADD COLUMN odd {kind}")
    write(lake, values)
    return lake.with_days(table="n")


def write(lake: Lake, values: list[str]) -> None:
    quoted = ", ".join(f"('{NOON[1]}'::timestamptz, 1000 + {at}, {literal(value)})" for at, value in enumerate(values))
    lake.run(f"INSERT INTO m (ts, id, odd) VALUES {quoted}")


def literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def held(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(lake.run("SELECT ts, id, v, odd::text FROM m"), key=repr)


def verdicts(lake: Lake) -> set[str]:
    with lake.feeding():
        return {line.verdict for line in lake.stack.lifecycle("m", on_spark=False).verify()}


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("vector(3)", "direct"),
        ("vector(3)", "shadow"),
        ("sparsevec[]", "direct"),
        ("plain", "direct"),
        ("plain", "shadow"),
    ],
)
def test_m12_a_type_of_an_extension_is_copied_streamed_and_proven(
    dsn: str, tmp_path: Path, kind: str, mode: str
) -> None:
    lake = made(dsn, tmp_path / "home", kind)
    lake.run(f"SELECT lakets.enable_sync('m', p_mode => '{mode}')")
    lake.drain()
    values = KINDS[kind][1]
    write(lake, values)
    lake.run(
        f"UPDATE m SET odd = {literal(values[-1])} WHERE id = 1000",
        f"UPDATE m SET odd = {literal(values[0])} WHERE id = 3",
        "UPDATE m SET v = 9 WHERE id = 1000",
        f"DELETE FROM m WHERE ctid = (SELECT min(ctid) FROM m WHERE id = {999 + len(values)}) AND ts = '{NOON[1]}'",
    )
    lake.drain()
    assert lake.run("SELECT status, reason FROM thermocline.synced_table") == [("STREAMING", None)]
    assert sorted(lake.folded(lake.past("m")).elements(), key=repr) == held(lake)
    assert verdicts(lake) == {"proven"}


def test_m12_a_type_that_is_gone_before_its_values_are_read_sets_its_own_table_aside(dsn: str, tmp_path: Path) -> None:
    lake = made(dsn, tmp_path / "home", "vector(3)")
    lake.run("SELECT lakets.enable_sync('m')", "SELECT lakets.enable_sync('n')")
    lake.drain()
    write(lake, KINDS["vector(3)"][1])
    lake.run("DROP EXTENSION vector CASCADE", f"INSERT INTO n VALUES ('{NOON[1]}', 1000, 1)")
    assert lake.drain().set_aside == ("public.m",)
    lake.assert_same("n")
    ((reason,),) = lake.run("SELECT reason FROM thermocline.synced_table WHERE status = 'SKIPPED'")
    assert "public.m.odd: PostgreSQL does not say what values" in reason
    assert "it has no such type any more. Was it dropped with its extension?" in reason
    lake.run("SELECT lakets.resync('m')", f"INSERT INTO m VALUES ('{NOON[1]}', 2000, 1)")
    lake.drain()
    lake.assert_same("n")
    assert lake.content() == lake.hot()
