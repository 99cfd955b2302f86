"""Pages that are written from the code are up to date, and list every issue code."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from secondpass.config import preset_names
from secondpass.settings import configurable

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = [
    *(ROOT / "src" / name for name in ("secondpass", "secondpass_ray", "secondpass_server")),
    *sorted((ROOT / "integrations").glob("*/src")),
]
IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z]+)*")


@pytest.fixture(scope="module")
def written():
    import docs_pages

    return docs_pages.pages()


def test_they_are_up_to_date(written):
    stale = [
        path
        for path, text in written.items()
        if not (DOCS / path).exists() or (DOCS / path).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python tools/docs_pages.py"


def test_the_reference_has_every_key_of_the_schema(written):
    from secondpass.config import json_schema

    named = set(re.findall(r"^\| `(\w+)` \|", written["settings.md"], re.MULTILINE))
    parts = json_schema()["$defs"]  # without the presets, which name orderings of their own
    schema = [part for name, part in parts.items() if "preset" not in name]
    assert keys_of(schema) - {"type", "preset", "env", "default"} <= named


def keys_of(schema):
    """The names of all properties of a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(keys_of, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties", {})
    others = [value for name, value in schema.items() if name != "properties"]
    return {*own, *keys_of(others), *keys_of(list(own.values()))}


def test_every_setting_has_a_meaning(written):
    rows = re.findall(r"^\| `\w+` .*$", written["settings.md"], re.MULTILINE)
    assert [row for row in rows if row.endswith("|  |")] == []
    assert len(rows) > 100


@configurable
class Undocumented:
    def __init__(self, size: int = 3) -> None: ...


@configurable
@dataclass(frozen=True)
class Fields:
    """A dataclass.

    Attributes:
        size: its size.
    """

    size: int = 3
    width: int = 3


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Undocumented, "Undocumented.size has no line in the docstring: add it under 'Args:'"),
        (Fields, "Fields.width has no line in the docstring: add it under 'Attributes:'"),
    ],
)
def test_a_setting_without_a_meaning_is_named(cls, message):
    import docs_pages

    with pytest.raises(SystemExit, match=re.escape(message)):
        list(docs_pages._table(docs_pages.Part("heading", cls, "")))


# ---------------------------------------------------------------------- public names

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def imported(code):
    """The names of ours that a program imports, by their modules."""
    return {
        f"{node.module}.{name.name}"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and "secondpass" in node.module
        for name in node.names
    }


def test_docs_and_examples_import_what_the_reference_has(written):
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    programs = [block for page in pages for block in BLOCK.findall(page.read_text())]
    own = {"demo.py", "frameworks.py", "python_docs.py"}  # parts of the project's demo
    programs += [
        path.read_text() for path in (ROOT / "examples").rglob("*.py") if path.name not in own
    ]
    reference = set(re.findall(r"^::: (\S+)$", "".join(written.values()), re.MULTILINE))
    modules = {name.rpartition(".")[0] for name in reference}
    used = set().union(*map(imported, programs)) - modules
    assert len(used) > 20
    assert used - reference == set()


# ---------------------------------------------------------------------- issue codes

ADDED_BY = {"_issue", "add", "add_issue", "_add_issue"}
RAISED = {"MethodError", "LLMError", "ReplyError", "ModelLoadError", "DeadlineError", "BudgetError"}
"""Exceptions whose second argument is the code of an issue."""


def codes_of(module):
    """The issue codes in a module: of exceptions, of issues, and in tables of them."""
    constants = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def strings(node):
        if isinstance(node, ast.Name):
            node = ast.Constant(constants.get(node.id))
        if isinstance(node, ast.IfExp):
            return strings(node.body) | strings(node.orelse)
        return {node.value} if isinstance(node, ast.Constant) else set()

    found = set()
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, code, *_]) if name in RAISED:
                found |= strings(code)
            case ast.Call(func=ast.Name(id="Issue"), args=[code, _, *_]):
                found |= strings(code)
            case ast.Call(func=ast.Attribute(attr=name), args=[code, _, *_]) if name in ADDED_BY:
                found |= strings(code)
            case ast.Assign(targets=[ast.Name(id="code")], value=code):
                found |= strings(code)
            case ast.Return(value=ast.Tuple(elts=[code, ast.Constant()])):
                found |= strings(code)
            case _:
                pass
    return {code for code in found if isinstance(code, str) and IDENTIFIER.fullmatch(code)}


@pytest.fixture(scope="module")
def codes_of_the_sources():
    from secondpass.services import provider_errors

    found = set()
    for source in SOURCES:
        for path in source.rglob("*.py"):
            if not {"cli", "evaluation", "search", "formats"} & set(path.parts):
                found |= codes_of(ast.parse(path.read_text(encoding="utf-8")))
    for table in (provider_errors._MESSAGES, provider_errors._MESSAGES_BY_CLASS):
        found |= {code for code, _ in table.values()}
    found |= {code for _, code, _ in provider_errors._FINAL}
    # The three words that numbers have in merge_batches; and no ranking of a dry run is returned.
    return (found | {"grade_refused", "score_refused"}) - {"dry_run"}


def codes_of_the_page():
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}


def test_troubleshooting_has_every_issue_code(codes_of_the_sources):
    assert len(codes_of_the_sources) > 60
    assert codes_of_the_sources - codes_of_the_page() == set()


def test_troubleshooting_has_no_code_that_no_report_has(codes_of_the_sources):
    assert codes_of_the_page() - codes_of_the_sources == set()


def test_each_preset_has_its_row():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = page.split("\n## Presets\n")[1].split("\nFive presets reproduce")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == preset_names()
