"""Columns changed at random between and inside of batches: the lake holds what PostgreSQL has and what has left it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.lakes import NOON, Lake, chunk
from harness.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LENGTH = 14
SCHEDULES_EACH = 50
# By type: what a column may become, a default, and what the default reads.
KINDS = {"int": ("bigint", "7", 7), "text": ("varchar", "'seven'", "seven"), "float4": ("float8", "0.5", 0.5)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        found = seeds(metafunc.config)
        chosen = found[: max(1, len(found) // SCHEDULES_EACH)]
        metafunc.parametrize("seed", chosen, ids=[f"{number}" for number in range(len(chosen))])


@dataclass
class Story:
    """A table whose columns change, and the rows that have left it, by the numbers of their columns."""

    lake: Lake
    chance: random.Random
    told: list[str] = field(default_factory=list)
    left: list[dict[int, Any]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=lambda: {"a": "int", "b": "text", "c": "float4"})
    next_id: int = 1000
    days: tuple[int, ...] = (1, 2)
    """That take rows."""

    def columns(self) -> dict[int, str]:
        listed = self.lake.run(
            "SELECT attnum, attname FROM pg_attribute"
            " WHERE attrelid = 'm'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return {int(number): str(name) for number, name in listed}

    def run(self, *statements: str) -> None:
        self.told += statements
        self.lake.run(*statements)

    def name(self) -> str:
        """A new one, or one that a column has had."""
        free = [name for name in "abcdefgh" if name not in self.kinds]
        return self.chance.choice(free)

    def write(self) -> str:
        """A change that fits whatever columns there are."""
        chance, name = self.chance, self.chance.choice([*self.kinds, "id"])
        moment = NOON[chance.choice(self.days)]
        self.next_id += 1
        values = {"int": self.next_id, "bigint": self.next_id, "float4": 1.5, "float8": 2.5}
        value = values.get(self.kinds.get(name, "int"), f"'w{self.next_id}'")
        return chance.choice(
            [
                f"INSERT INTO m (ts, {name}) VALUES ('{moment}', {value})",
                f"UPDATE m SET {name} = {value} WHERE id % 7 = {chance.randrange(7)}",
                f"DELETE FROM m WHERE id % 11 = {chance.randrange(11)}",
                f"TRUNCATE {chunk(2)}" if chance.random() < 0.2 else f"DELETE FROM m WHERE {name} IS NULL",
            ]
        )

    def alter(self) -> list[str]:
        chance = self.chance
        how = chance.choice(["rename", "swap", "add", "default", "drop"])
        name = chance.choice(list(self.kinds))
        if how == "rename":
            new = self.name()
            self.kinds[new] = self.kinds.pop(name)
            return [f"ALTER TABLE m RENAME {name} TO {new}"]
        if how == "swap" and len(self.kinds) > 1:
            other = chance.choice([one for one in self.kinds if one != name])
            self.kinds[name], self.kinds[other] = self.kinds[other], self.kinds[name]
            steps = [(name, "x"), (other, name), ("x", other)]
            return [f"ALTER TABLE m RENAME {one} TO {new}" for one, new in steps]
        if how == "drop" and len(self.kinds) > 1:
            del self.kinds[name]
            return [f"ALTER TABLE m DROP COLUMN {name}"]
        new, kind = self.name(), chance.choice(list(KINDS))
        self.kinds[new] = kind
        default = f" DEFAULT {KINDS[kind][1]}" if how == "default" else ""
        return [f"ALTER TABLE m ADD COLUMN {new} {kind}{default}"]

    def followed(self, before: dict[int, str], statements: list[str]) -> None:
        """What rows that have left read in columns that have come."""
        for number, name in self.columns().items():
            if number not in before:
                added = next(one for one in statements if f"ADD COLUMN {name} " in one)
                kind = added.split(f"ADD COLUMN {name} ")[1].split()[0]
                for row in self.left:
                    row[number] = KINDS[kind][2] if "DEFAULT" in added else None

    def let_go(self) -> None:
        numbers = self.columns()
        rows = self.lake.run(f"SELECT {', '.join(numbers.values())} FROM {chunk(1)}")
        self.told.append("let go")
        if self.lake.drain().set_aside:
            return
        self.lake.let_go(1)
        self.days = (2,)
        self.left += [dict(zip(numbers, row, strict=True)) for row in rows]

    def require_all(self) -> None:
        numbers = self.columns()
        left = Counter(tuple(row.get(number) for number in numbers) for row in self.left)
        found, wanted = self.lake.content(), self.lake.hot() + left
        assert found == wanted, f"only in the lake {found - wanted}, not there {wanted - found}"


def test_m2_m17_random_changes_of_columns_leave_the_lake_exact(dsn: str, tmp_path: Path, seed: int) -> None:
    lake = Lake.of(dsn, tmp_path / "home").with_days("id int, a int, b text, c float4", "g, g, 'b' || g, g / 8.0")
    lake.synced().drain()
    story = Story(lake, random.Random(seed))
    numbers = story.columns()
    story.left = [dict(zip(numbers, row, strict=True)) for row in lake.run(f"TABLE {chunk(0)}")]
    lake.let_go(0)
    gone_at = story.chance.randrange(LENGTH)
    feed = lake.feed()
    feed.__enter__()
    try:
        for at in range(LENGTH):
            act = story.chance.random()
            before, statements = story.columns(), [story.write()]
            if act < 0.35:
                statements = [*story.alter(), *([story.write()] if story.chance.random() < 0.6 else [])]
            elif act < 0.45 and (narrow := [name for name, kind in story.kinds.items() if kind in KINDS]):
                feed.drain()  # a rewrite forgets what a default was, unless the feed has looked before
                name = story.chance.choice(narrow)
                wider = KINDS[story.kinds[name]][0]
                story.kinds[name] = wider
                statements = [f"ALTER TABLE m ALTER {name} TYPE {wider}"]
            elif act < 0.7:
                story.told.append("feed")
                feed.drain()
                continue
            if story.chance.random() < 0.4:
                story.run("; ".join(["BEGIN", *statements, "COMMIT"]))
            else:
                story.run(*statements)
            story.followed(before, statements)
            if at == gone_at or act > 0.95:
                feed.__exit__(None, None, None)
                if at == gone_at:
                    story.let_go()
                feed = lake.feed()
                feed.__enter__()
        while not feed.drain().caught_up:
            pass
        ((status, reason),) = lake.run("SELECT status, reason FROM thermocline.synced_table")
        if status == "SKIPPED" and "cannot be told from" in reason:
            story.run("SELECT lakets.resync('m')")  # refused rather than guessed at: the copy mends it
            while not feed.drain().caught_up:
                pass
        story.require_all()
    except BaseException as error:
        error.add_note("\n".join([f"seed {seed}", *story.told]))
        raise
    finally:
        feed.__exit__(None, None, None)
