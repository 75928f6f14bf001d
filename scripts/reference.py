"""Writes docs/reference/ from the code itself: commands, settings, errors, SQL. `--check` names what lags."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

import thermocline
from thermocline import meters
from thermocline.cli.main import app
from thermocline.config import Settings, described_keys, variable
from thermocline.errors import ExitCode, ThermoclineError
from thermocline.hot import statements
from thermocline.service.state import SEEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from thermocline.hot.statements import SqlFile

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
EXAMPLES = FOLDER / "examples"
WIDTH = 100
_NOTE = "<!-- Written by scripts/reference.py; run it again instead of editing this page. -->"


def pages() -> dict[str, str]:
    """Every page by its file name, as it has to be."""
    return {
        "cli.md": cli_page(),
        "settings.md": settings_page(),
        "exit-codes-and-errors.md": errors_page(),
        "metrics.md": metrics_page(),
        "sql.md": sql_page(statements.functions(), examples()),
    }


def lagging() -> list[str]:
    """The pages that differ from what the code says now."""
    return [name for name, text in pages().items() if _read(FOLDER / name) != text]


def _read(file: Path) -> str | None:
    return file.read_text("utf-8") if file.is_file() else None


# ---- commands --------------------------------------------------------------------------------


def commands() -> dict[str, str]:
    """Every command with what `--help` prints, at a fixed width; the command itself comes first."""
    root: Any = typer.main.get_command(app)
    above = _context(root, "thermocline")
    helps = {"thermocline": above.get_help()}
    for name, command in root.commands.items():
        if command.hidden:
            continue
        context = _context(command, name, above)
        helps[f"thermocline {name}"] = context.get_help()
        for under, inner in getattr(command, "commands", {}).items():
            helps[f"thermocline {name} {under}"] = _context(inner, under, context).get_help()
    return {name: _without_trailing_blanks(text) for name, text in helps.items()}


def _context(command: Any, name: str, above: Any = None) -> Any:
    return command.make_context(
        name, [], parent=above, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )


def cli_page() -> str:
    """docs/reference/cli.md."""
    parts = [
        "# Commands",
        _NOTE,
        "Each command says the same with `--help`. With `--json` it prints exactly one JSON object on"
        " standard output instead of text, also when it fails or the call is not understood. The"
        " [exit code](exit-codes-and-errors.md) tells how it ended. In a checkout the command is"
        " `.venv/bin/thermocline`.",
    ]
    for name, text in commands().items():
        parts += [f"## {name}", f"```text\n{text}\n```"]
    return _page(parts)


# ---- settings --------------------------------------------------------------------------------


def settings_page() -> str:
    """docs/reference/settings.md."""
    parts = [
        "# Settings",
        _NOTE,
        "Nothing has to be set. What is set is taken from a file, then from the environment; the environment"
        " wins. `thermocline config` shows every setting in force and where it came from, with secrets"
        " masked. A name that does not exist is refused, and the nearest one that does is named.",
        "The file is the one that `THERMOCLINE_CONFIG` names; otherwise `thermocline.toml` in the current"
        " folder, else in the home. Only one file is read. A key such as `hot.port` stands in it as `port`"
        " under `[hot]`:",
        '```toml\nhome = "~/readings"\n\n[hot]\nport = 5433\n\n[lake.properties]\n"s3.region" = "eu-central-1"\n```',
        "In the environment a table of text is written as JSON:"
        ' `THERMOCLINE_LAKE_PROPERTIES=\'{"s3.region": "eu-central-1"}\'`.',
    ]
    rows: dict[str, list[Sequence[str]]] = {}
    for key, field in described_keys():
        section = key.rpartition(".")[0]
        row = (f"`{key}`", f"`{variable(key)}`", _type(field), _default(field), field.description or "")
        rows.setdefault(section, []).append(row)
    for section, lines in rows.items():
        if section:
            meaning = inspect.getdoc(Settings.model_fields[section].annotation) or ""
            parts += [f"## {section}", meaning]
        else:
            parts += ["## Top level"]
        parts.append(_table(("key", "variable", "type", "default", "meaning"), lines))
    return _page(parts)


def _type(field: Any) -> str:
    kind = _without_none(field.annotation)
    if get_origin(kind) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is dict:
        return "table of text"
    names = {int: "whole number", str: "text", Path: "path", SecretStr: "text, secret", bool: "true or false"}
    return names.get(kind, getattr(kind, "__name__", str(kind))) + _limits(field.metadata)


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        return kinds[0] if len(kinds) == 1 else annotation
    return annotation


def _limits(metadata: Iterable[Any]) -> str:
    least = next((rule.ge for rule in metadata if getattr(rule, "ge", None) is not None), None)
    most = next((rule.le for rule in metadata if getattr(rule, "le", None) is not None), None)
    if least is not None and most is not None:
        return f", {least} to {most}"
    return f", at least {least}" if least is not None else f", at most {most}" if most is not None else ""


def _default(field: Any) -> str:
    value = field.default
    if value is PydanticUndefined:
        value = field.default_factory() if field.default_factory else None
    if value is None or value == {}:
        return "unset"
    if isinstance(value, Path) and value.is_relative_to(Path.home()):
        value = Path("~") / value.relative_to(Path.home())
    return f"`{value}`"


# ---- exit codes and errors -------------------------------------------------------------------


def errors() -> list[type[ThermoclineError]]:
    """Every error of ours, by exit code and then by its own code."""
    for module in pkgutil.walk_packages(thermocline.__path__, "thermocline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = {kind for kind in _below(ThermoclineError) if kind.__module__.partition(".")[0] == "thermocline"}
    return sorted(ours, key=lambda kind: (kind.exit_code, kind.code))


def _below(kind: type[ThermoclineError]) -> Iterator[type[ThermoclineError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def errors_page() -> str:
    """docs/reference/exit-codes-and-errors.md."""
    parts = [
        "# Exit codes and errors",
        _NOTE,
        "A command that fails says two things on standard error: what happened, with a code that never"
        " changes, and what to do. With `--json` the same stands on standard output as"
        ' `{"error": {"code", "message", "next_step", "exit_code"}}`.',
        "## Exit codes",
        _table(("code", "name", "meaning"), [(str(int(c)), c.name.lower(), c.meaning) for c in ExitCode]),
        "## Errors",
        "The message usually says more than the meaning given here, and the next step may be more exact than"
        " the general one.",
    ]
    found = errors()
    for code in ExitCode:
        of_code = [kind for kind in found if kind.exit_code is code]
        if of_code:
            rows = [
                (f"`{kind.code}`", f"`{kind.__name__}`", _first_paragraph(kind), kind.next_step_by_default)
                for kind in of_code
            ]
            heading = f"### Exit code {int(code)}: {code.name.lower()}"
            parts += [heading, _table(("code", "class", "meaning", "what to do in general"), rows)]
    return _page(parts)


def _first_paragraph(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


# ---- metrics ---------------------------------------------------------------------------------


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    counted = []
    for family in (one for meter in meters.ALL for one in meter.describe()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = next(meter for meter in meters.ALL if meter._name == family.name)._labelnames
        counted.append((f"`{name}`", family.type, _labels(labels), family.documentation))
    read = [(f"`{meters.PREFIX}{name}`", _labels(seen.labels), seen.help) for name, seen in SEEN.items()]
    return _page(
        [
            "# Metrics",
            _NOTE,
            "What `thermocline run` answers at `/metrics`, in the format of Prometheus. How to scrape it and what to"
            " be woken for: [Run the service](../howto/run-the-service.md).",
            "## Counted by the process",
            "Each process counts what it does itself, from its start on: the service, and a node that was started with"
            " `thermocline work --port`. Add them up over all processes.",
            _table(("name", "type", "labels", "meaning"), counted),
            "## Read from the database",
            "Gauges, the same whichever process is asked: take the largest over all processes, not the sum.",
            _table(("name", "labels", "meaning"), read),
            "`process_...` are those of the Prometheus client for the process itself.",
        ]
    )


def _labels(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


# ---- SQL -------------------------------------------------------------------------------------

_CREATE = re.compile(
    r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE|AGGREGATE)\s+(?P<name>[\w.]+)\s*\(.*?"
    r"(?=^\s*(?:LANGUAGE|AS|RETURN|BEGIN|SET|IMMUTABLE|STABLE|VOLATILE|SECURITY|STRICT|PARALLEL)\b)",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(
    r"^COMMENT ON (?:FUNCTION|PROCEDURE|AGGREGATE|ROUTINE)\s+[\w.]+\s*\(.*?\)\s+IS\s+"
    r"(?P<text>'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*)\s*;",
    re.MULTILINE | re.DOTALL,
)
_OPENING = re.compile(r"\A(?:--[^\n]*\n)+")


# What jobs and queries of users call although its name begins with `_`.
_INNER = (
    "lakets._build_rollup_dag",
    "lakets._cdf_committed_lsn",
    "lakets._detect_bucket_column",
    "lakets._ensure_partitions",
    "lakets._get_chunks_to_tier",
    "lakets._get_dirty_chunks",
    "lakets._inject_time_predicate",
    "lakets._refresh_buckets_batch",
    "lakets._refresh_buckets_chunked",
    "lakets._resolve_partition_parent",
    "lakets._rollup_watermark",
)


class NotDescribed(ValueError):
    """A SQL file that lacks what the reference is made of."""


def public(files: Sequence[SqlFile]) -> list[SqlFile]:
    """The functions that are for people: those of schema lakets, unless their names begin with `_`."""
    return [file for file in files if _full_name(file).startswith("lakets.") and not file.name.startswith("_")]


def examples() -> dict[str, str]:
    """The example of each function by its name; `_before` is what all of them begin with."""
    return {file.stem: file.read_text("utf-8") for file in sorted(EXAMPLES.glob("*.sql"))}


def sql_page(files: Sequence[SqlFile], shown: Mapping[str, str] | None = None) -> str:
    """docs/reference/sql.md. Refuses a file without an opening comment, a signature or a COMMENT."""
    shown = shown or {}
    parts = [
        "# SQL functions",
        _NOTE,
        "What `thermocline up` installs into the database for people to call. `\\df+ lakets.*` in `psql`"
        " lists it with the same remarks.",
    ]
    if "_before" in shown:
        parts += [
            "The examples run in the tests, each in a database that holds the following and nothing else. A line with"
            " `=>` is a row of the answer, in the time zone UTC; three dots stand for what differs from day to day.",
            _code(shown["_before"]),
        ]
    for file in public(files):
        parts += [f"## {_full_name(file)}", *_sql_section(file)]
        if file.name in shown:
            parts += ["For example:", _code(shown[file.name])]
    inner = [file for file in files if _full_name(file) in _INNER]
    if inner:
        parts += [
            "## Inner functions",
            "Jobs call these, and queries may. They may change with any release; what has a public function above is"
            " better asked there. Other functions whose names begin with `_` are not for calling.",
        ]
    for file in inner:
        parts += [f"### {_full_name(file)}", *_sql_section(file)]
    return _page(parts)


def _described(file: SqlFile) -> tuple[str, list[re.Match[str]], list[re.Match[str]]]:
    """The opening comment, the signatures and the COMMENTs of a file; each has to be there."""
    opening = _OPENING.match(file.text)
    signatures = list(_CREATE.finditer(file.text))
    remarks = list(_COMMENT.finditer(file.text))
    for found, what in ((opening, "opening comment"), (signatures, "signature"), (remarks, "COMMENT")):
        if not found:
            raise NotDescribed(f"functions/{file.name}.sql has no {what} that the reference could show.")
    return opening[0] if opening else "", signatures, remarks


def _full_name(file: SqlFile) -> str:
    return _described(file)[1][0]["name"]


def _sql_section(file: SqlFile) -> list[str]:
    opening, signatures, remarks = _described(file)
    said = " ".join(line.removeprefix("--").strip() for line in opening.splitlines())
    # An aggregate's definition opens a second bracket, which is not part of how it is called.
    heads = (match[0].rstrip().removesuffix(" (").removeprefix("CREATE OR REPLACE ") for match in signatures)
    comments = dict.fromkeys(_text_of(match["text"]) for match in remarks)
    return [*comments, _code("\n\n".join(heads)), said]


def _text_of(literal: str) -> str:
    """What an SQL string says: neighbouring literals are one, and a doubled quote is a quote."""
    pieces = re.findall(r"'((?:[^']|'')*)'", literal)
    return " ".join("".join(pieces).replace("''", "'").split())


# ---- Markdown --------------------------------------------------------------------------------


def _code(text: str) -> str:
    return f"```sql\n{text.rstrip()}\n```"


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _without_trailing_blanks(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main(arguments: Sequence[str]) -> int:
    """Write the pages; with --check write nothing, and 1 if one of them lags."""
    parser = argparse.ArgumentParser(description="Write docs/reference/ from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page lags")
    if parser.parse_args(arguments).check:
        late = lagging()
        for name in late:
            print(f"docs/reference/{name} lags behind the code: run python scripts/reference.py")
        return 1 if late else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
