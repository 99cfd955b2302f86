"""The layout of the packages: few rooms, one order of imports, no circles."""

import ast
import importlib
import re
import subprocess
import sys

import pytest

import rooms
import size
from rooms_picture import picture


def test_each_room_has_its_place():
    entries = [
        path
        for path in rooms.PACKAGE.iterdir()
        if not path.name.startswith("_") and path.name not in {"data", "py.typed"}
    ]
    assert {path.stem for path in entries} == {room for row in rooms.ROOMS for room in row}


@pytest.fixture(scope="module")
def whole_graph():
    """The modules of the three projects."""
    return rooms.import_graph(*rooms.SOURCES)


@pytest.fixture(scope="module")
def core_graph(whole_graph):
    """The modules of secondpass, which import none of the adapters."""
    return {
        name: names for name, names in whole_graph.items() if name.split(".")[0] == "secondpass"
    }


def test_lower_rooms_do_not_import_higher_ones(core_graph):
    assert len(core_graph) > 150
    outside = {a: names - core_graph.keys() for a, names in core_graph.items()}
    assert [a for a, names in outside.items() if names] == ["secondpass.cli.app"]
    assert rooms.upward_imports(core_graph) == []


BESIDE = ("secondpass_evaluation", "secondpass_server", "secondpass_ray")


def test_the_core_names_no_other_package():
    """Neither by an import nor in a string, but in the table of commands and in docstrings."""
    for path in rooms.PACKAGE.rglob("*.py"):
        if path.match("cli/app.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            named = isinstance(text, str) and text.startswith(BESIDE)
            assert not named, f"{path}:{node.lineno}"


DOORS = """
secondpass config extend monitoring effects types markup
settings settings.shared ranking.shared asking.shared adapters.shared formats.shared cli.shared
concurrency.lazy concurrency.threads concurrency.workers settings.loading
scorers.e5 scorers.encoder scorers.minilm scorers.shared concurrency.processor
""".split()
"""Modules of the core that the packages beside it import. A change of one may concern them."""


def test_the_other_packages_import_the_core_through_few_modules(whole_graph):
    imported = {
        name.removeprefix("secondpass.")
        for module, names in whole_graph.items()
        if module.startswith(BESIDE)
        for name in names
        if name.partition(".")[0] == "secondpass"
    }
    assert sorted(imported) == sorted(DOORS)


def test_no_circles(whole_graph):
    assert rooms.circles(whole_graph) == []


def sources():
    for folder in rooms.SOURCES:
        yield from folder.rglob("*.py")


def test_the_picture_is_up_to_date(core_graph):
    drawn = picture(rooms.room_graph(core_graph), rooms.room_sizes(core_graph))
    assert (rooms.ROOT / "docs" / "rooms.svg").read_text() == drawn


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("from package import b", True),
        ("import package.b", True),
        ("from package.b import x", True),
        ("def f():\n    from package import b", True),
        ("if TYPE_CHECKING:\n    from package.b import x", True),
        ("kind = 'package.b:Kind'", True),
        ("kind = 'package.beside'", False),
    ],
)
def test_circles_are_found(tmp_path, body, found):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(body)
    (package / "b.py").write_text("from package.c import y")
    (package / "c.py").write_text("from package.a import z")
    circle = ["package.a", "package.b", "package.c"]
    assert rooms.circles(rooms.import_graph(tmp_path)) == ([circle] if found else [])


def test_upward_imports_are_found():
    graph = {"secondpass.types": frozenset({"secondpass.cli.app"})}
    assert rooms.upward_imports(graph) == [("secondpass.types", "secondpass.cli.app")]


def test_a_public_name_has_one_place():
    places = {}
    for place in size.PUBLIC:
        for name in importlib.import_module(place).__all__:
            places.setdefault(name, []).append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


ADAPTERS = {
    **{path.name: [*path.rglob("src/**/*.py")] for path in (rooms.ROOT / "integrations").iterdir()},
    "langchain": [rooms.ROOT / "examples" / "langchain_compressor.py"],
}


@pytest.mark.parametrize("files", ADAPTERS.values(), ids=ADAPTERS)
def test_adapters_import_public_names_alone(files):
    """What is good enough for ours is what somebody else needs for another framework."""
    imported = [
        (node.module, alias.name)
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] == "secondpass"
        for alias in node.names
    ]
    assert imported
    private = {
        (module, name)
        for module, name in imported
        if module not in size.PUBLIC or name not in importlib.import_module(module).__all__
    }
    assert private == set()


def test_a_module_of_the_adapters_loads_not_all_of_them():
    code = "import secondpass.adapters.scores, sys; print('asyncio' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout == "False\n"
    assert "results" in dir(importlib.import_module("secondpass.adapters"))
    with pytest.raises(ImportError, match="resluts"):
        from secondpass.adapters import resluts  # noqa: F401 - there is none


KERNEL = """
import sys

from secondpass import Reranker

class Lengths:
    def score_pairs(self, query, documents):
        return [float(len(text)) for text in documents]

Reranker(Lengths()).rerank("a query", ["a passage", "another passage"])
print(*(name for name in sys.modules if name.partition(".")[0] == "secondpass"))
"""


def test_the_reading_path_has_the_modules_that_a_ranking_loads():
    run = subprocess.run(
        [sys.executable, "-c", KERNEL], capture_output=True, text=True, check=True, timeout=60
    )
    page = (rooms.ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("## The kernel")[2].partition("\n## ")[0]
    listed = re.findall(r"`([a-z_.]+)`", section)
    assert len(listed) == len(set(listed))
    named = {name if name == "secondpass" else f"secondpass.{name}" for name in listed}
    loaded = set(run.stdout.split())
    assert named == loaded
    assert f"load {len(loaded)} modules" in section
