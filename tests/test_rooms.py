"""The layout of the packages: few rooms, one order of imports, no circles."""

import ast
import builtins
import collections.abc
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import rooms
import size
from rooms_picture import picture
from secondpass import Reranker


def test_each_room_has_its_place():
    entries = [
        path
        for path in rooms.PACKAGE.iterdir()
        if not path.name.startswith("_") and path.name not in {"data", "py.typed"}
    ]
    named = {room for row in rooms.ROOMS for room in row}
    nested = {room for room in named if "." in room}
    assert {path.stem for path in entries} == named - nested
    folders = (rooms.PACKAGE / "scorers").glob("*/__init__.py")
    assert {f"scorers.{path.parent.name}" for path in folders} == nested


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


PRIVATE_NAMES = """
secondpass: __version__
adapters.grouping: rerank_grouped
adapters.redaction: without_messages
adapters.scores: ScoreRule served_scores
asking.expected_use: Expected total
asking.life_cycle: aclose_all close_all
asking.response_cache: ResponseCache
attributes: unchangeable
cli.console: ERROR USAGE_ERROR check_usage decode_argument escaped excerpt fail info
  message_console on_terminal one_line print_json print_text print_yaml result_console warn write
cli.dry_run: NOTE TOKENS estimated print_estimate print_use_table shown_tokens total_record
  use_record
cli.options: AsJson DryRun Explain Instruction Order Quiet RankingOptions RerankerOptions Set
  Timings WithText complete_preset configuration grouped load_for new_folder note_new_stores
  parse_order with_depth
cli.progress: progress_bars
cli.rankings: EXPLANATION_INDENT ResultFormat chosen_format explained notes_below
  report_unexplained
cli.rerank_input: read_context
cli.tables: FittedTable
cli.warming: WarmUp
concurrency.lazy: Lazy public_names require
concurrency.processor: limit_cpus usable_cpus
concurrency.threads: retrieve_exception
concurrency.workers: in_threads
formats: to_json
formats.errors: FormatError check_numbers
formats.files: atomic_write find_file flush_file flush_folder lock naming open_input open_locked
  uncompressed_name
formats.lines: AnyPath DoubledKeyError INTEGER Line check_field conversion decode_line instead_of
  read_json_lines read_lines strict_json write_lines
formats.reading: parse_document parse_run_line read_queries single_precision trec_order
formats.requests: InputRequest UnknownKeys parse_request ranked_record ranking_record
formats.totals: count not_reranked summary
markup: block clean excerpt paragraph table
prompts.template: Prompting
questions: LLM
ranking.blending: Blend with_weight
ranking.candidates: comparable_id first_stage_scores kind_of query_key retrieval_score
  stated_score to_candidates
ranking.diagnostics: log log_exception log_issues
ranking.explanations: Explanation
ranking.fits: identity precision_of
ranking.floors: Fit Floor FloorOn Per Probabilities
ranking.judgements: INSTRUCTION_NOT_USED
ranking.methods: asks
ranking.options: CallOptions validate
ranking.partial_results: completed
ranking.rendering: Rendering well_formed
ranking.result: TEXT_LENGTH
ranking.scoring: TRUNCATED rerank_scores_alone scores_alone
ranking.splitting: split
ranking.words: WORDS_VERSION split_words
scorers.embedding.e5: MultilingualE5
scorers.embedding.encoder: Encoder
scorers.embedding.minilm: MiniLM
settings: Variables changed configurable counted describe suggestion variable variables
settings.arguments: explained
settings.environment: fill read
settings.keys: literal_keys may_name_key with_hidden_keys
settings.loading: has_store over_preset read
settings.messages: ALIKE did_you_mean most_similar reworded
settings.registry: dump_settings names
settings.yaml_text: NotYAMLError write
strategies.graded: Graded
types: DEGRADED_WORDS TIMES Progress Ranked Report changed_fields no_progress record_id
"""
"""Names of the core that are not public and that the packages of the same distribution import, by
module. A change of one may concern them; to others nothing is promised."""


def imports_of(path):
    """The imports of names in a file: pairs of module and name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


def test_the_private_names_that_other_packages_import_are_listed():
    public = {
        (place, name) for place in size.PUBLIC for name in importlib.import_module(place).__all__
    }
    imported = {
        f"{module.removeprefix('secondpass.')} {name}"
        for package in BESIDE
        for path in (rooms.ROOT / "src" / package).rglob("*.py")
        for module, name in imports_of(path)
        if module.partition(".")[0] == "secondpass" and (module, name) not in public
    }
    listed = set()
    for row in PRIVATE_NAMES.replace("\n  ", " ").strip().splitlines():
        module, names = row.split(": ")
        listed |= {f"{module} {name}" for name in names.split()}
    assert imported == listed


def test_names_are_imported_from_the_module_that_defines_them(whole_graph):
    """What a package's own file passes on is its front; no other module passes on anything."""
    asked = {}
    for path in sources():
        for module, name in imports_of(path):
            asked.setdefault(module, set()).add(name)
    passed_on = []
    for module in asked.keys() & whole_graph.keys() - set(size.PUBLIC):
        spec = importlib.util.find_spec(module)
        if spec.submodule_search_locations is None:
            taken = {name for _, name in imports_of(Path(spec.origin))}
            passed_on += [f"{module}: {name}" for name in asked[module] & taken]
    assert passed_on == []


def test_no_circles(whole_graph):
    assert rooms.circles(whole_graph) == []


def test_no_circles_of_benchmarks():
    graph = rooms.import_graph(rooms.ROOT, package="benchmarks")
    assert "benchmarks.speed.plots" in graph["benchmarks.speed.render"]
    assert rooms.circles(graph) == []


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


def public_names():
    return {name for place in size.PUBLIC for name in importlib.import_module(place).__all__}


def names_in(annotation):
    """The names in an annotation, without those that only describe it."""
    if isinstance(annotation, ast.Subscript):
        form = getattr(annotation.value, "id", None)
        if form == "Literal":
            return set()
        if form == "Annotated":
            return names_in(annotation.slice.elts[0])
    names = {annotation.id} if isinstance(annotation, ast.Name) else set()
    return names.union(*map(names_in, ast.iter_child_nodes(annotation)))


def test_what_a_reranker_takes_is_public():
    parameters = inspect.signature(Reranker).parameters.values()
    named = set().union(*(names_in(ast.parse(each.annotation, mode="eval")) for each in parameters))
    standard = {*dir(builtins), *dir(typing), *dir(collections.abc), *dir(os)}
    assert "Term" in named
    assert named - standard - public_names() == set()


CONTRIBUTORS = {"architecture.md", "meanings.md"}
"""Pages that name private classes."""
OTHERS = {"Authorization", "Client", "Document", "Secret"}
"""Classes of other packages, and a header, that are named as private classes of ours are."""


def test_classes_that_the_docs_name_are_public():
    ours = {
        node.name
        for sources in rooms.SOURCES
        for path in sources.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    adapters = {"SecondPassRanker", "SecondPassRerank", "SecondPassStore", "SecondPassStorer"}
    private = ours - public_names() - adapters - OTHERS
    named = {
        path.name: private.intersection(
            re.findall(r"`([A-Z]\w+)", path.read_text(encoding="utf-8"))
        )
        for path in (rooms.ROOT / "docs").rglob("*.md")
        if path.name not in CONTRIBUTORS and path.parent.name != "decisions"
    }
    assert {name: classes for name, classes in named.items() if classes} == {}


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
    files = [importlib.import_module(name).__file__ or "" for name in sorted(loaded)]
    lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)
    assert f"about {round(lines, -3):,} lines" in section
