"""Which suite the options name, and what searches its corpus."""

import inspect
from dataclasses import dataclass

import pytest
import typer

from fruit_suite import DOCUMENTS, QUERIES, systems
from secondpass_evaluation.cli.first_stages import IndexStage
from secondpass_evaluation.cli.suite_options import DocumentOptions, Searched, SuiteOptions, grouped
from secondpass_evaluation.first_stages import FirstStages
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.suites import Suite


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((None, None, None), 2),
        ((None, "queries", None), 2),
        ((None, None, "qrels"), 2),
        ((None, "queries", "qrels"), None),
        (("suite", None, None), None),
    ],
    ids=["nothing", "queries alone", "qrels alone", "both", "suite"],
)
def test_a_suite_or_its_parts_are_needed(parts, code, capsys):
    exited = None
    try:
        name, queries, qrels = parts
        SuiteOptions(queries, qrels).check(name)
    except typer.Exit as stop:
        exited = stop.exit_code
    assert exited == code
    missing = "missing SUITE, or --queries and --qrels (see --help)"
    assert (missing in capsys.readouterr().err) == (code is not None)


@pytest.mark.parametrize(
    ("candidates", "stages"),
    [(None, ["vector", "lexical", "hybrid"]), ({}, ["given"]), ({"q": []}, ["given"])],
    ids=["none", "for no query", "for a query"],
)
def test_candidates_of_the_suite_come_before_searching(candidates, stages):
    suite = Suite("s", {"q": "a"}, {}, candidates=candidates)
    assert Searched(suite, None, 10).default_stages == stages


@pytest.fixture
def opened(suite):
    """The suite of some options, and the retriever over its corpus by stages."""

    def opened(name=suite, *, stages=("lexical",), limit=None, qrels=None, **options):
        parts = SuiteOptions(qrels=qrels, documents=DocumentOptions(**options))
        found = parts.open(name, limit=limit, depth=2)
        return found.suite, found.retriever(stages, None, lambda *_: None)

    return opened


def ids(retriever, query="sweet fruit"):
    return [candidate.id for candidate in retriever.retrieve(query, 5, "lexical")]


def test_the_corpus_is_searched_for_stages_that_search(opened):
    found, retriever = opened()
    assert (list(found.queries), len(found.corpus)) == (list(QUERIES), len(DOCUMENTS))
    assert ids(retriever)[0] == "pear"
    assert opened(stages=["given"])[1] is None


def test_the_first_queries(opened):
    found, _ = opened(limit=2)
    assert list(found.queries) == ["q1", "q2"]


def test_a_folder_of_documents_is_read_as_passages(opened, write, tmp_path):
    write("docs/pear.md", "# Pear\n\nA sweet fruit. " + "It grows on trees. " * 40)
    write("judged", "q1 0 pear.md#1 1\n")
    found, retriever = opened(corpus=tmp_path / "docs", qrels=tmp_path / "judged", passage_size=200)
    assert found.corpus[0].id == ids(retriever)[0] == "pear.md#1"
    assert len(found.corpus) > 2
    assert max(len(passage.text) for passage in found.corpus) <= 200


def test_an_index_is_searched_as_it_is(opened, write, tmp_path):
    docs = write("docs.jsonl", [{"id": name, "text": text} for name, text in DOCUMENTS.items()])
    build_index(docs, tmp_path / "docs.index", None)
    found, retriever = opened(corpus=tmp_path / "docs.index")
    assert isinstance(retriever, IndexStage)
    assert ids(retriever)[0] == "pear"
    assert {passage.id for passage in found.corpus} == {*DOCUMENTS}
    docs.write_text(docs.read_text() * 2)
    with pytest.raises(typer.Exit):
        opened(corpus=tmp_path / "docs.index")
    assert ids(opened(corpus=tmp_path / "docs.index", stale_ok=True)[1])[0] == "pear"


def test_parts_may_be_named_one_by_one(secondpass, suite, write):
    run = write(
        "run", "".join(f"{q} Q0 {d} 1 {-at} t\n" for q in QUERIES for at, d in enumerate(DOCUMENTS))
    )
    files = ["--queries", suite / "queries.jsonl", "--qrels", suite / "qrels.tsv"]
    files += ["--corpus", suite / "corpus.jsonl"]
    told = secondpass("eval", *files, "--run", run, "--preset", "lexical", "--json")
    assert list(systems(told)) == ["given", "given+rerank"]
    told = secondpass("eval", *files, "--mode", "lexical", "--json")
    assert systems(told)["lexical"]["status"] == "ran"


@dataclass(frozen=True)
class Inner:
    b: int = 2
    c: str = "c"


@dataclass(frozen=True)
class Outer:
    a: int = 1
    inner: Inner = Inner()
    d: bool = False


def test_a_group_is_one_parameter_and_its_options_stand_in_its_place():
    calls = []

    @grouped
    def command(*, first: int = 0, group: Outer, last: str = "z") -> None:
        calls.append((first, group, last))

    options = inspect.signature(command).parameters
    assert {name: option.default for name, option in options.items()} == {
        "first": 0, "a": 1, "b": 2, "c": "c", "d": False, "last": "z",
    }  # fmt: skip
    assert list(options) == ["first", "a", "b", "c", "d", "last"]
    command(first=5, a=6, b=7, c="x", d=True, last="y")
    assert calls == [(5, Outer(6, Inner(7, "x"), True), "y")]


def test_the_default_stages_run_beside_one_that_rerankers_run_behind(suite):
    found = SuiteOptions().open(suite, limit=None, depth=2)
    retriever = found.retriever(None, None, lambda *_: None, behind=["lexical"])
    search = FirstStages(found.suite, retriever, 2, lambda *_: None)
    assert [search.retrieved(stage).reason for stage in found.default_stages] == [""] * 3
