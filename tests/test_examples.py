"""The examples of the SQL reference: one for each public function, and each answers what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from harness.transcripts import Step, answer, in_the_words_of, steps
from scripts import reference
from thermocline.hot import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.servers import Server

EXAMPLES = reference.examples()
FUNCTIONS = [file.name for file in reference.public(statements.functions())]
COMMITTING = {"drop_chronotable_in_batches"}
SEQUENCES = "SELECT schemaname, sequencename FROM pg_sequences WHERE schemaname IN ('lakets', 'thermocline')"


@pytest.fixture(scope="module")
def dsn(server: Server, template: str) -> Iterator[str]:
    """One database for all of them: each leaves it as it was."""
    with server.database(template) as address:
        yield address


@pytest.fixture
def fresh(dsn: str) -> Iterator[psycopg.Connection]:
    """A session whose work is undone, in one transaction, so that `now()` is one moment; numbers begin at 1."""
    with psycopg.connect(dsn, options="-c timezone=UTC") as session, session.transaction(force_rollback=True):
        for names in session.execute(SEQUENCES).fetchall():
            session.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(*names)))
        yield session


def test_each_public_function_has_an_example_and_no_example_is_of_anything_else() -> None:
    assert sorted(EXAMPLES) == sorted(["_before", *FUNCTIONS]), f"they are in {reference.EXAMPLES.name}/<function>.sql"


def test_the_page_has_public_functions_with_their_examples_and_then_inner_ones() -> None:
    page = reference.pages()["sql.md"]
    public, inner = page.split("## Inner functions\n")
    assert re.findall(r"^## lakets\.(\w+)$", public, re.MULTILINE) == FUNCTIONS
    assert [name for name in EXAMPLES if f"```sql\n{EXAMPLES[name]}```" not in public] == []
    others = re.findall(r"^#+ lakets\.(\w+)$", inner, re.MULTILINE)
    assert {"_cdf_committed_lsn", "_ensure_partitions", "_get_chunks_to_tier"} <= set(others)
    assert not {"_add_policy", "_bound_of", *FUNCTIONS} & set(others)
    assert "thermocline._" not in "".join(re.findall(r"^#.*$", page, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"_before"}))
def test_example_calls_its_function_and_shows_what_comes_of_it(name: str) -> None:
    found = steps(EXAMPLES[name])
    assert any(f"lakets.{name}(" in step.statement for step in found)
    assert any(step.said for step in found)


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - COMMITTING))
def test_example_answers_what_it_says(fresh: psycopg.Connection, name: str) -> None:
    plays(fresh, name)


@pytest.mark.parametrize("name", sorted(COMMITTING))
def test_example_that_commits_answers_what_it_says(server: Server, template: str, name: str) -> None:
    with (
        server.database(template) as address,
        psycopg.connect(address, options="-c timezone=UTC", autocommit=True) as session,
    ):
        plays(session, name)


def plays(session: psycopg.Connection, name: str) -> None:
    for file in dict.fromkeys(["_before", name]):
        for step in steps(EXAMPLES[file]):
            heard = answer(session, step.statement)
            assert in_the_words_of(step.said, heard) == step.said, f"{file}.sql: {step.statement}"


def test_a_transcript_is_statements_with_their_answers() -> None:
    text = "-- For people.\nSELECT 1,  -- one;\n       2; -- two\n-- => 1 | 2\n\n-- error: x\nSELECT 3;\n"
    assert steps(text) == [
        Step("SELECT 1,  -- one;\n       2; -- two", ["=> 1 | 2", "error: x"]),
        Step("SELECT 3;", []),
    ]
    with pytest.raises(ValueError, match="a statement has no end: SELECT 3"):
        steps("SELECT 3")


def test_an_answer_is_written_down_as_psql_shows_it(fresh: psycopg.Connection) -> None:
    assert answer(fresh, "SELECT n, NULL, n > 1, '' FROM generate_series(1, 2) n") == [
        "=> 1 | NULL | f |",
        "=> 2 | NULL | t |",
    ]
    assert answer(fresh, "SELECT 1 WHERE false") == ["=> no rows"]
    assert answer(fresh, "SELECT pg_sleep(0)") == []
    assert answer(fresh, "DO $$ BEGIN RAISE WARNING 'heard'; RAISE 'no'; END $$") == ["warning: heard", "error: no"]
    assert answer(fresh, "SELECT 1") == ["=> 1"]


def test_dots_stand_for_anything_but_nothing() -> None:
    assert in_the_words_of(["notice: a_... stays"], ["notice: a_1 stays"]) == ["notice: a_... stays"]
    assert in_the_words_of(["notice: a_... stays"], ["notice: a_ stays"]) == ["notice: a_ stays"]
    assert in_the_words_of(["=> 1"], ["=> 1", "=> 2"]) == ["=> 1", "=> 2"]
    assert in_the_words_of(["=> 1.5"], ["=> 125"]) == ["=> 125"]
