"""The house: every room says what it is for, no module is two things, every error has its own code."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import thermocline
from thermocline.errors import ExitCode, ThermoclineError

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
ROOMS = ("hot", "feed", "lake", "gate", "upkeep", "tiers", "work", "cli", "console")


def errors(base: type[ThermoclineError] = ThermoclineError) -> list[type[ThermoclineError]]:
    return [base, *(found for sub in base.__subclasses__() for found in errors(sub))]


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_what_it_is_for_and_holds_no_logic_in_its_door(room: str) -> None:
    tree = ast.parse((ROOT / "src" / "thermocline" / room / "__init__.py").read_text())
    first = (ast.get_docstring(tree) or "").splitlines()[0]
    assert len(first) > 20
    assert len(tree.body) == 1


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_is_one_thing(module: Path) -> None:
    text = module.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 500


def test_each_error_has_a_code_of_its_own_a_meaning_and_a_next_step() -> None:
    for module in pkgutil.walk_packages(thermocline.__path__, "thermocline."):
        importlib.import_module(module.name)
    found = errors()
    codes = [error.code for error in found]
    assert len(codes) == len(set(codes))
    for error in found:
        assert error.__doc__
        one = error()
        assert one.next_step
        assert one.message == error.__doc__
        assert one.exit_code in ExitCode
        assert one.exit_code != ExitCode.DONE
    assert [error.code for error in found if error().exit_code is ExitCode.USAGE] == ["usage"]


def test_locks_hold_names_versions_and_hashes_only() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        for line in lock.read_text().splitlines():
            assert re.fullmatch(r"[\w.\[\],-]+==[\w.+!-]+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


def test_sql_lives_in_files() -> None:
    """Long statements belong into hot/sql; a line or two in Python is the most there may be."""
    statement = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH)\s", re.MULTILINE)
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
                assert not statement.search(node.value), f"{module}:{node.lineno}"
