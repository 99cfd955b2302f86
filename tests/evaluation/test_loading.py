import gzip
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampling import examples
from secondpass import Candidate, InputError, SecondPassError
from secondpass_evaluation import (
    FormatError,
    load_suite,
    make_suite,
    write_corpus,
    write_qrels,
    write_queries,
    write_run,
)
from secondpass_evaluation.loading import read_candidates, read_query_log

QUERIES = {"q1": "owl", "q2": "sea"}
QRELS = {"q1": {"a": 2, "b": 0}, "q2": {"c": 1}}
CORPUS = [Candidate("the owl", "a"), Candidate("a cat", "b"), Candidate("the sea", "c")]


def json_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "animals"
    (place / "qrels").mkdir(parents=True)
    write_corpus(place / "corpus.jsonl", CORPUS)
    write_queries(place / "queries.jsonl", QUERIES)
    lines = "query-id\tcorpus-id\tscore", "q1\ta\t2", "q1\tb\t0", "q2\tc\t1"
    (place / "qrels" / "test.tsv").write_text("\n".join(lines))
    return place


def compress(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


NAMES = ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "candidates.jsonl"]


@pytest.mark.parametrize("names", [NAMES[:1], NAMES])
def test_compressed_files_are_found(folder: Path, names: list[str]) -> None:
    json_lines(folder / "candidates.jsonl", {"query_id": "q1", "candidates": [{"id": "c"}]})
    plain = load_suite(folder)
    for name in names:
        compress(folder / name)
    assert load_suite(folder) == plain
    assert [one.id for one in plain.candidates["q1"]] == ["c"]


@pytest.mark.parametrize("name", ["qrels.tsv", "qrels.txt", "qrels", "qrels.txt.gz"])
def test_qrels_beside_the_rest(folder: Path, name: str) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels").rmdir()
    write_qrels(folder / name, QRELS)
    assert load_suite(folder).qrels == QRELS


def test_separate_files(folder: Path) -> None:
    write_queries(folder / "asked.tsv", QUERIES)
    write_qrels(folder / "judged", QRELS)
    parts = {"queries": folder / "asked.tsv", "qrels": folder / "judged"}
    write_run(folder / "found", {"q1": {"b": 2.0, "a": 1.0}, "q2": {"a": 1.0, "b": 1.0}})
    suite = load_suite(**parts, corpus=folder / "corpus.jsonl", run=folder / "found")
    assert (suite.queries, suite.qrels, suite.corpus) == (QUERIES, QRELS, CORPUS)
    assert [(one.id, one.text, one.score) for one in suite.candidates["q1"]] == [
        ("b", "a cat", 2.0), ("a", "the owl", 1.0),
    ]  # fmt: skip
    assert [one.id for one in suite.candidates["q2"]] == ["a", "b"]


def test_file_replaces_that_of_folder(folder: Path) -> None:
    write_qrels(folder / "mine", {"q2": {"c": 3}})
    suite = load_suite(folder, qrels=folder / "mine")
    assert suite.qrels == {"q2": {"c": 3}}
    assert suite.notes == ("without judgements, left out: 1 of 2 queries ('q1')",)


@pytest.mark.parametrize("compressed", [False, True])
def test_queries_with_relevant_ids(folder: Path, compressed: bool) -> None:
    path = json_lines(
        folder / "asked.jsonl",
        {"query": "owl", "relevant": ["a"]},
        {"id": 7, "question": "sea", "relevant": {"c": 3, "b": 0}},
        {"_id": "none", "text": "nothing", "relevant": []},
    )
    if compressed:
        path = compress(path)
        compress(folder / "corpus.jsonl")
    suite = load_suite(path)
    assert suite.name == "asked"
    assert suite.queries == {"q1": "owl", "7": "sea"}
    assert suite.qrels == {"q1": {"a": 1}, "7": {"c": 3, "b": 0}}
    assert suite.corpus == CORPUS
    assert suite.notes == ("without judgements, left out: 1 of 3 queries ('none')",)
    other = json_lines(folder / "other", {"_id": "a", "text": "another owl"})
    assert [one.text for one in load_suite(path, corpus=other).corpus] == ["another owl"]


class _Dataset:
    """What ir_datasets gives for a name, of its documented interface."""

    def queries_iter(self):
        for query, text in QUERIES.items():
            yield SimpleNamespace(query_id=query, default_text=lambda text=text: text)

    def qrels_iter(self):
        for query, judged in QRELS.items():
            for document, relevance in judged.items():
                yield SimpleNamespace(query_id=query, doc_id=document, relevance=relevance)

    def docs_iter(self):
        for one in CORPUS:
            yield SimpleNamespace(doc_id=one.id, default_text=lambda one=one: one.text)


class _Unreachable:
    def queries_iter(self):
        raise OSError("no network")


def test_ir_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict.fromkeys(["animals/test", "animals/1.0/test"], _Dataset())
    known["far/away"] = _Unreachable()
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=known.__getitem__))
    suite = load_suite("animals/test")
    assert (suite.name, suite.queries, suite.qrels) == ("animals/test", QUERIES, QRELS)
    assert suite.corpus == CORPUS
    assert load_suite("animals/1.0/test").queries == QUERIES
    with pytest.raises(InputError, match="ir_datasets has no such collection"):
        load_suite("animals/train")
    with pytest.raises(InputError, match=r"ir_datasets cannot load it here \(OSError\)"):
        load_suite("far/away")


def test_without_ir_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"no such file or folder; .*pip install ir-datasets"):
        load_suite("animals/test")


ids = st.text("abcdefg", min_size=1, max_size=2)


@given(
    st.dictionaries(ids, st.text(max_size=5), max_size=4),
    st.dictionaries(ids, st.dictionaries(ids, st.integers(-1, 3), max_size=3), max_size=4),
    st.lists(ids, unique=True, max_size=5),
)
@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path: Path, queries, qrels, corpus) -> None:
    passages = [Candidate(f"text of {one}", one) for one in corpus]
    qrels = {query: judged for query, judged in qrels.items() if judged}
    try:
        made = make_suite(tmp_path.name, queries, qrels, corpus=passages)
    except InputError:
        return
    assert list(made.queries) == list(made.qrels)
    assert made.queries.items() <= queries.items()
    write_corpus(tmp_path / "corpus.jsonl", passages)
    write_queries(tmp_path / "queries.jsonl", queries)
    write_qrels(tmp_path / "qrels.tsv", qrels)
    assert load_suite(tmp_path) == made


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ("queries.jsonl", "has no queries (queries.jsonl, queries.tsv)"),
        ("qrels/test.tsv", "has no qrels (qrels/test.tsv, qrels.tsv, "),
        ("corpus.jsonl", "needs a corpus, or the candidates of a first stage"),
    ],
)
def test_missing_files(folder: Path, missing: str, problem: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(InputError, match=re.escape(f"animals: {problem}")):
        load_suite(folder)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{]", "is not JSON"),
        ('{"relevant": ["a"]}', "needs a 'query'"),
        ('{"query": "x"}', "needs 'relevant'"),
        ('{"query": "x", "relevant": "a"}', "needs 'relevant'"),
        ('{"query": "x", "relevant": [null]}', "an id in 'relevant' must be"),
        ('{"query": "x", "relevant": {"a": 0.5}}', "the grade of 'a' must be"),
        ('{"query": "x", "relevant": [], "id": "r0"}', "the id 'r0' is a duplicate"),
        ('{"query": "x", "relevant": [], "_id": null}', "the id must be a string"),
    ],
)
def test_malformed_queries_with_relevant_ids(tmp_path: Path, line: str, problem: str) -> None:
    path = json_lines(tmp_path / "asked.jsonl", {"_id": "r0", "query": "", "relevant": []})
    path.write_text(path.read_text() + line)
    with pytest.raises(FormatError, match=re.escape(problem)) as caught:
        load_suite(path)
    assert (caught.value.path, caught.value.line) == (str(path), 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "queries and qrels: missing; a suite is a folder or file"),
        ({"source": "./none"}, "none: there is no such file or folder"),
        ({"source": ".", "run": "run"}, "has document 'z', which is not in"),
        ({"queries": "queries.jsonl"}, "qrels: missing; a suite is"),
        (
            {"queries": "queries.jsonl", "qrels": "qrels/test.tsv", "run": "run"},
            "a run has no texts; it needs a corpus",
        ),
        (
            {"source": "queries.jsonl", "qrels": "qrels/test.tsv"},
            "is a file of queries and judgements; leave out qrels",
        ),
    ],
)
def test_wrong_calls(folder: Path, monkeypatch, arguments, problem: str) -> None:
    monkeypatch.chdir(folder)
    write_run("run", {"q1": {"z": 1.0}})
    with pytest.raises(SecondPassError, match=re.escape(problem)):
        load_suite(**arguments)


def test_judged_passages_whose_texts_changed_are_named(tmp_path: Path) -> None:
    docs, kept = tmp_path / "docs", tmp_path / "asked.texts.json"
    docs.mkdir()
    (docs / "a.md").write_text("# Owl\n\nhoo\n\n# Sea\n\nwet")
    asked = json_lines(
        tmp_path / "asked.jsonl",
        {"query": "owl", "relevant": ["a.md#1", "a.md"]},
        {"query": "sea", "relevant": ["a.md#2"]},
    )
    assert load_suite(asked, corpus=docs).notes == ()
    hashes = json.loads(kept.read_text())
    assert {query: [*texts] for query, texts in hashes.items()} == {
        "q1": ["a.md#1"],
        "q2": ["a.md#2"],
    }
    before = kept.read_bytes()
    (docs / "a.md").write_text("# Owl\n\nhoo\n\n# New\n\nx\n\n# Sea\n\nwet")
    for _ in range(2):
        (note,) = load_suite(asked, corpus=docs).notes
        assert "1 of 3 judged documents has another text" in note
        assert "('a.md#2')" in note
    assert kept.read_bytes() == before
    json_lines(
        asked,
        {"query": "owl", "relevant": ["a.md#1", "a.md"]},
        {"query": "sea", "relevant": ["a.md#3"]},
    )
    assert load_suite(asked, corpus=docs).notes == ()
    assert "a.md#3" in kept.read_text()


def test_ids_that_do_not_shift_get_no_file_of_hashes(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    load_suite(folder)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('{"query": "a b", "user": 1}\n{"question": "c"}\n{"text": "d"}\n', ["a b", "c", "d"]),
        ('{"query": "Pears"}\n{"query": " pears "}\n{"query": "  "}\n', ["Pears"]),
        ("q1\tpears\nq2\tplums\nq3\tPEARS\n", ["pears", "plums"]),
        ('\ufeff{"query": "pears"}\n', ["pears"]),
        ('{"query": "\\ud800"}\n{"query": "\\udfff"}\n', ["?"]),
    ],
    ids=["keys", "repeated", "tabs", "byte order mark", "surrogates"],
)
def test_each_text_once(tmp_path, content, texts):
    path = tmp_path / "log"
    path.write_text(content, encoding="utf-8")
    assert list(read_query_log(path).values()) == texts


def test_ids_are_kept_or_made_of_the_text(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"query": "pears"}\n')
    (before,) = read_query_log(path)
    path.write_text('{"query": "plums", "id": 7}\n{"query": "pears"}\n')
    assert list(read_query_log(path)) == ["7", before]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", InputError, "there are no queries"),
        ('{"q": "pears"}\n', FormatError, "needs a 'query'"),
        ('{"query": 3}\n', FormatError, "a string, not"),
        ('{"query": "a", "id": 1}\n{"query": "b", "id": 1}\n', FormatError, "'1' has another text"),
        ("pears\n", FormatError, "there is no tab"),
    ],
    ids=["empty", "no query", "number", "same id", "no tab"],
)
def test_malformed_lines_are_named(tmp_path, content, error, message):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(error, match=message):
        read_query_log(path)


PASSAGES = [replace(CORPUS[0], metadata={"year": 3}), *CORPUS[1:]]


def test_candidates_have_their_own_text_or_that_of_the_corpus(tmp_path):
    items = [
        {"id": "c", "score": 2},
        {"_id": "b", "text": None},
        {"id": "z", "title": "Far", "text": "from elsewhere", "score": -1.5},
        {"id": "a", "title": "Owls", "text": "hunt", "originalScore": 0.25},
        {"id": 7, "text": "seven"},
    ]
    path = tmp_path / "candidates.jsonl"
    rows = [{"query_id": "q1", "candidates": items}, {"query_id": 2, "candidates": []}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_candidates(path, PASSAGES) == {
        "q1": [
            Candidate("the sea", "c", 2),
            Candidate("a cat", "b"),
            Candidate("Far\nfrom elsewhere", "z", -1.5),
            Candidate("Owls\nhunt", "a", 0.25, {"year": 3}),
            Candidate("seven", "7"),
        ],
        "2": [],
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": true}', "the 'query_id' must be a string"),
        ('{"query_id": "p"}', "needs 'candidates': a list"),
        ('{"query_id": "p", "candidates": ["a"]}', "must be an object"),
        ('{"query_id": "p", "candidates": [{}]}', "the id of a candidate"),
        ('{"query_id": "p", "candidates": [{"id": "z"}]}', "'z' has no text"),
        (
            '{"query_id": "p", "candidates": [{"id": "a", "score": "1"}]}',
            "the score of 'a' must be a number",
        ),
        ('{"query_id": "r", "candidates": []}', "'r' is a duplicate"),
    ],
)
def test_malformed_second_line(tmp_path, line, problem):
    path = tmp_path / "candidates.jsonl"
    path.write_text('{"query_id": "r", "candidates": []}\n' + line)
    with pytest.raises(FormatError, match=re.escape(problem)) as caught:
        read_candidates(path, PASSAGES)
    assert (caught.value.path, caught.value.line) == (str(path), 2)
