"""``secondpass eval --corpus``: a folder of documents, or an index, as ``query`` has it."""

import json

import pytest

from secondpass import Candidate, Reranker
from secondpass_evaluation import (
    IndexFaultError,
    StaleIndexError,
    compare,
    load_suite,
    open_index,
)
from secondpass_evaluation.cli.first_stages import IndexStage
from secondpass_evaluation.search.embedders import default_embedder
from secondpass_evaluation.search.indexing import build_index

FILES = {
    "owl.md": "# Owls\n\nThe owl hunts mice at night.",
    "ship.txt": "Ships cross the sea under sail.",
    "more/cat.html": "<title>Cats</title><p>A cat sleeps for most of the day.</p>",
}
ASKED = [
    {"query": "who hunts at night", "relevant": ["owl.md#1"]},
    {"query": "how long do cats sleep", "relevant": ["more/cat.html#1"]},
]


@pytest.fixture
def asked(write, tmp_path):
    for name, text in FILES.items():
        write(f"docs/{name}", text)
    write("docs/picture.png", b"\x89PNG\0\0")
    return write("asked.jsonl", ASKED)


def systems(told):
    assert told.code == 0, told.err
    return {one["name"]: one for one in json.loads(told.out)["systems"]}


@pytest.mark.parametrize("kind", ["folder", "index"])
def test_a_folder_and_an_index_are_searched_in_all_modes(secondpass, asked, tmp_path, kind):
    corpus = tmp_path / "docs"
    if kind == "index":
        corpus = tmp_path / "docs.index"
        build_index(tmp_path / "docs", corpus, default_embedder())
    call = ("eval", asked, "--preset", "lexical", "--json", "--no-cache", "--corpus", corpus)
    told = secondpass(*call)
    found = systems(told)
    assert [*found] == ["vector", "lexical", "hybrid", "hybrid+rerank"]
    assert {one["status"] for one in found.values()} == {"ran"}
    assert found["vector"]["means"]["R@100"] == 1.0
    assert ("picture.png" in told.flat) == (kind == "folder")


def test_an_index_gives_what_its_folder_gives(secondpass, asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "docs.index", default_embedder())
    call = ("eval", asked, "--preset", "lexical", "--json", "--no-cache", "--corpus")
    one, other = (systems(secondpass(*call, tmp_path / name)) for name in ("docs", "docs.index"))
    for name in one:
        assert one[name]["per_query"] == other[name]["per_query"]


def test_an_index_of_words_is_searched_by_words(secondpass, asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    call = ("eval", asked, "--preset", "lexical", "--json", "--corpus", tmp_path / "words")
    found = systems(secondpass(*call))
    assert {name: one["status"] for name, one in found.items()} == {
        "vector": "not_run",
        "lexical": "ran",
        "hybrid": "not_run",
        "lexical+rerank": "ran",
    }
    assert "the index has no vectors" in found["vector"]["reason"]


def test_a_stale_index_is_told_not_searched(secondpass, asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    (tmp_path / "docs" / "new.txt").write_text("Bread is baked.")
    call = ("eval", asked, "--mode", "lexical", "--json", "--corpus", tmp_path / "words")
    told = secondpass(*call)
    assert told.code == 1
    assert "is stale: new.txt is new" in told.flat
    assert "--stale-ok" in told.flat
    told = secondpass(*call, "--stale-ok")
    assert systems(told)["lexical"]["status"] == "ran"
    assert "searching a stale index" in told.flat


def test_the_size_of_passages_is_that_of_the_option(secondpass, asked, write, tmp_path):
    write("docs/owl.md", "Owls are birds of the night, they say here.\n\n" * 3)
    write("asked.jsonl", [{"query": "night", "relevant": ["owl.md#1", "owl.md#3"]}])
    call = ("eval", asked, "--mode", "lexical", "--json", "--corpus", tmp_path / "docs")
    whole, cut = (secondpass(*call, "--passage-size", size) for size in (1000, 50))
    assert systems(whole)["lexical"]["means"]["R@100"] == 0.5
    assert systems(cut)["lexical"]["means"]["R@100"] == 1.0


def test_python_takes_them_too(asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    index = open_index(tmp_path / "words")
    suites = [
        load_suite(asked, corpus=corpus)
        for corpus in (tmp_path / "docs", tmp_path / "words", str(tmp_path / "words"), index.corpus)
    ]
    owl = next(one for one in suites[0].corpus if one.id == "owl.md#1")
    assert owl == Candidate(
        "Owls\n# Owls\n\nThe owl hunts mice at night.",
        "owl.md#1",
        metadata={"path": "owl.md", "passage": 1},
    )
    assert all(suite == suites[0] for suite in suites)
    found = compare("lexical", suites[0], retriever=index, first_stages=["lexical"])
    assert [one.name for one in found.ran] == ["lexical", "lexical+lexical"]
    (tmp_path / "docs" / "owl.md").unlink()
    with pytest.raises(StaleIndexError, match=r"owl\.md no longer exists"):
        load_suite(asked, corpus=tmp_path / "words")
    (tmp_path / "words" / "secondpass-index.json").write_text("{")
    with pytest.raises(IndexFaultError):
        open_index(tmp_path / "words")


class Reading:
    """Keeps what it is shown."""

    model_name = "reading"

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.texts.update(documents)
        return [1.0] * len(documents)


def test_rerankers_behind_an_index_read_titles(asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    index, reading = open_index(tmp_path / "words"), Reading()
    suite = load_suite(asked, corpus=index.corpus)
    compare(Reranker(reading), suite, retriever=index, first_stages=["lexical"])
    assert "Cats\nA cat sleeps for most of the day." in reading.texts
    wrapped = IndexStage(index, {"lexical"}).retrieve("cat", 1, "lexical")
    assert [one.text for one in wrapped] == ["Cats\nA cat sleeps for most of the day."]
