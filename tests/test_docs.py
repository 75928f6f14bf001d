"""The documentation: its reference keeps up with the code, its links lead somewhere, it runs anywhere."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from thermocline.errors import ThermoclineError
from thermocline.hot.statements import SqlFile

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

_FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)[^)]*\)")
# Where the gate's code says a reason's code: the place among the arguments of a call.
_REASON_AT = {"Reason": 0, "NotProven": 0, "line": 1, "Planned": 2, "Comparison": 4, "RangeLine": 4}
_REASON = re.compile(r"[a-z]+(?:_[a-z]+)*")
# What the audit calls them stands where reasons do.
_ACTIONS = {"rehydrate"}
_SQL_REASON = re.compile(r"(?:^\s+\(|VALUES \(|DETAIL = )'([a-z_]+)'", re.MULTILINE)
# Folders of whoever wrote the page: nobody else has them.
_MACHINE = re.compile(r"(?<![\w.~/-])/(?:root|work|home/\w+|Users/\w+|opt/wheels)(?![\w-])")


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _generator()


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_reference_is_up_to_date() -> None:
    assert reference.lagging() == [], "run: .venv/bin/python scripts/reference.py"


def test_check_names_the_page_that_lags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    for name, text in reference.pages().items():
        (tmp_path / name).write_text(text, "utf-8")
    assert reference.main(["--check"]) == 0
    (tmp_path / "cli.md").write_text("old", "utf-8")
    (tmp_path / "sql.md").unlink()
    assert reference.main(["--check"]) == 1
    assert re.findall(r"reference/(\S+\.md)", capsys.readouterr().out) == ["cli.md", "sql.md"]


def test_reference_does_not_depend_on_who_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.pages()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    assert reference.pages() == before


@pytest.mark.parametrize("name", sorted(set(reference.commands()) - {"thermocline"}))
def test_command_has_help_with_an_example(name: str) -> None:
    text = reference.commands()[name]
    assert re.search(r"^  Example: \S", text, re.MULTILINE), f"{name} --help has no line `Example:`"


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in reference.errors()]
    assert ThermoclineError.code in codes
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("CREATE OR REPLACE FUNCTION lakets.f() RETURNS int\nLANGUAGE sql\nRETURN 1;\n", "opening comment"),
        ("-- What it does.\nSELECT 1;\n", "signature"),
        (
            "-- What it does.\nCREATE OR REPLACE FUNCTION lakets.f() RETURNS int\nLANGUAGE sql\nRETURN 1;\n",
            "COMMENT",
        ),
    ],
)
def test_sql_file_that_is_not_described_is_refused(text: str, lacks: str) -> None:
    with pytest.raises(ValueError, match=lacks):
        reference.sql_page([SqlFile("f", text)])


def test_sql_page_shows_what_the_file_says() -> None:
    text = (
        "-- Opening, first line,\n-- and second.\n"
        "CREATE OR REPLACE FUNCTION lakets.f(p_a int DEFAULT 1)\nRETURNS TABLE (a int, b text)\n"
        "LANGUAGE sql\nSET search_path = pg_catalog, pg_temp\nAS $$ SELECT 1, 'x' $$;\n\n"
        "COMMENT ON FUNCTION lakets.f(int) IS\n    'It''s one, '\n    'and two.';\n"
    )
    page = reference.sql_page([SqlFile("f", text)])
    assert "## lakets.f\n" in page
    assert "It's one, and two." in page
    assert "FUNCTION lakets.f(p_a int DEFAULT 1)\nRETURNS TABLE (a int, b text)\n```" in page
    assert page.endswith("Opening, first line, and second.\n")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_resolve(page: Path) -> None:
    text = _CODE.sub("", _FENCE.sub("", page.read_text("utf-8")))
    broken = []
    for match in _LINK.finditer(text):
        target = match["target"]
        file = unquote(target.partition("#")[0])
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or not file:
            continue
        if not (page.parent / file).exists():
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_path_of_a_machine(page: Path) -> None:
    assert _MACHINE.findall(page.read_text("utf-8")) == []


def test_readme_names_both_commands_at_once() -> None:
    beginning = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:25])
    assert "make demo" in beginning
    assert "make test" in beginning


def reason_codes() -> set[str]:
    """Every code of a reason that stands in the gate's Python or in one of its SQL functions."""
    source = ROOT / "src" / "thermocline"
    found: set[str] = set()
    for file in (source / "hot" / "sql" / "functions").glob("*.sql"):
        text = file.read_text("utf-8")
        if file.stem == "_reason_words" or "DETAIL = '" in text:
            found |= set(_SQL_REASON.findall(text)) - _ACTIONS
        if file.stem == "_rehydration_plan":
            found |= set(re.findall(r"^\s+\(\d, '([a-z_]+)'", text, re.MULTILINE)) | {"resident", "never_there"}
        if file.stem == "_verdict":
            reasons = text[text.index("SELECT v.verdict") : text.index("FROM (SELECT")]
            found |= set(re.findall(r"(?:THEN|ELSE) '([a-z_]+)'", reasons))
    for file in (source / "gate").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            found |= {code for code in _reasons_said(node) if _REASON.fullmatch(code)}
    return found


def _reasons_said(node: ast.AST) -> list[str]:
    parts: list[ast.AST] = []
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        place = _REASON_AT.get(called)
        if place is not None and len(node.args) > place and not isinstance(node.args[0], ast.Starred):
            parts.append(node.args[place])
        parts += [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
    elif isinstance(node, ast.FunctionDef):
        named_last = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        defaults = zip(named_last, node.args.defaults, strict=True)
        parts += [default for argument, default in defaults if argument.arg == "reason"]
    inside = (piece for part in parts for piece in ast.walk(part))
    return [piece.value for piece in inside if isinstance(piece, ast.Constant) and isinstance(piece.value, str)]


def test_reason_codes_are_found_in_sql_and_python() -> None:
    from_sql, from_python = (
        {"isolation_level", "busy", "not_claimed", "no_policy"},
        {"feed_behind", "limit", "proven", "changing"},
    )
    assert reason_codes() >= from_sql | from_python


def test_page_of_reason_codes_has_each_of_them_once_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "reason-codes.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(reason_codes())
    rows = re.findall(r"^\| `[a-z_]+` \|(.*)\|(.*)\|$", page, re.MULTILINE)
    assert len(rows) == len(listed)
    assert all(len(meaning.strip()) > 10 and step.strip() for meaning, step in rows), "a cause and a next step for each"


@pytest.mark.parametrize("file", sorted((ROOT / "deploy").iterdir()), ids=named)
def test_examples_of_deployment_call_commands_that_there_are(file: Path) -> None:
    called = set(re.findall(r"(?:bin/|&& exec |\")thermocline (\w+)", file.read_text("utf-8")))
    assert called
    assert called <= {name.partition(" ")[2] for name in reference.commands()}
