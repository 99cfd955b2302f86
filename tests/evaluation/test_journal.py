"""A journal gives back what was finished, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import numbered
from sampling import examples
from secondpass import Candidate, InputError, Reranker
from secondpass.ranking.lexical import LexicalScorer
from secondpass_evaluation import compare, make_suite
from secondpass_evaluation.journal import Journal, ranking_key

TEXTS = ["the owl hunts mice", "a cat sleeps", "night tickets", "owl", "", "an owl and an owl"]
CANDIDATES = [
    Candidate(text, f"d{index}", 1.0 / (index + 1), {"title": "T", "n": [index]})
    for index, text in enumerate(TEXTS)
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rankings.jsonl"


@examples(20)
@given(
    settings=st.fixed_dictionaries(
        {},
        optional={
            "depth": st.integers(1, 8),
            "top_k": st.integers(1, 8),
            "floor": st.floats(0, 2),
            "blend": st.just({"original": 0.4, "normalize": "minmax"}),
        },
    ),
    count=st.integers(0, len(CANDIDATES)),
)
def test_a_ranking_is_given_back(tmp_path_factory, settings, count) -> None:
    path = tmp_path_factory.mktemp("journal") / "rankings.jsonl"
    items = CANDIDATES[:count]
    ranking = Reranker("lexical", **settings).rerank("owl hunts", items)
    with Journal(path) as journal:
        journal.add("key", ranking)
    with Journal(path) as journal:
        found = journal.find("key", "owl hunts", items)
        assert journal.find("other", "owl hunts", items) is None
    if ranking.report.status not in {"ok", "partial"}:
        assert found is None
        return
    assert found.report == ranking.report
    bare = [replace(item, metadata=dict(item.candidate.metadata)) for item in ranking]
    assert list(found) == bare
    assert not path.exists() or "owl" not in path.read_text()  # it has no texts


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call | {"system": "given+b"},
        lambda call: call | {"config": {"depth": 9}},
        lambda call: call | {"query_id": "q2"},
        lambda call: call | {"query": "owls"},
        lambda call: call | {"candidates": CANDIDATES[:5]},
        lambda call: call | {"candidates": CANDIDATES[::-1]},
        lambda call: call | {"candidates": [replace(CANDIDATES[0], text="x"), *CANDIDATES[1:]]},
        lambda call: call | {"candidates": [replace(CANDIDATES[0], score=0), *CANDIDATES[1:]]},
        lambda call: call | {"candidates": [replace(CANDIDATES[0], metadata={}), *CANDIDATES[1:]]},
    ],
)
def test_whatever_a_ranking_depends_on_changes_its_key(change) -> None:
    call = {"system": "given+a", "config": {"depth": 8}, "query_id": "q1", "query": "owl",
            "candidates": CANDIDATES}  # fmt: skip
    assert ranking_key(**call) == ranking_key(**call)
    assert ranking_key(**change(call)) != ranking_key(**call)


@pytest.mark.parametrize("torn", [b'{"key": "b", "items"', b"\xff\xfe"])
def test_an_incomplete_line_is_removed(path: Path, torn: bytes) -> None:
    ranking = Reranker("lexical").rerank("owl", CANDIDATES)
    with Journal(path) as journal:
        journal.add("a", ranking)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with Journal(path) as journal:
        assert journal.find("a", "owl", CANDIDATES) is not None
        journal.add("b", ranking)
    assert path.read_bytes() == whole + whole.replace(b'"key":"a"', b'"key":"b"')


@pytest.mark.parametrize("items", ["1", "[[9]]"])
def test_lines_that_make_no_sense_are_no_rankings(path: Path, items: str) -> None:
    path.write_text(f'{{"key": "a", "items": {items}, "report": {{}}}}\n')
    with Journal(path) as journal:
        assert journal.find("a", "owl", CANDIDATES) is None


@pytest.mark.parametrize(
    "content",
    [b"[]\n", b'{"query": "q"}\n{"query"', b"\xff\xfe", b'{"key": "a", "text": "b"}\n'],
)
def test_a_file_of_something_else_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a file of finished rankings"):
        Journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("torn", [b"", b'{"key":"', b'{"key":"a","items":[['])
def test_a_journal_without_rankings_leaves_no_file(path: Path, torn: bytes) -> None:
    """Not that of an incomplete first line either."""
    path.write_bytes(torn)
    with Journal(path) as journal:
        assert (path.read_bytes(), len(journal)) == (b"", 0)
    assert not path.exists()


@pytest.mark.parametrize(
    ("reasons", "scored", "kept", "whole_kept"),
    [
        (("doubtful",), 5, True, True),  # another attempt would be so, too
        (("doubtful",), 4, True, False),
        (("fallback", "doubtful"), 5, False, False),
        (("language",), 5, False, False),
    ],
)
def test_which_degraded_rankings_are_kept(path: Path, reasons, scored, kept, whole_kept) -> None:
    ranking = Reranker("lexical").rerank("owl", CANDIDATES)
    report = replace(
        ranking.report,
        status="degraded",
        degraded_by=reasons,
        depth_asked=5,
        depth_done=scored,
    )
    for partial, expected in ((True, kept), (False, whole_kept)):
        with Journal(path, partial=partial) as journal:
            journal.add("a", replace(ranking, report=report))
            found = journal.find("a", "owl", CANDIDATES)
            assert (found is not None) is expected
            assert found is None or found.report == report
            journal.clear()


def test_one_process_writes(path: Path) -> None:
    ranking = Reranker("lexical").rerank("owl", CANDIDATES)
    with Journal(path) as journal:
        for _ in range(2):  # before its first ranking, too
            with pytest.raises(InputError, match="another process is writing"):
                Journal(path)
            journal.add("a", ranking)
    with Journal(path) as other:
        for change in (journal.clear, journal.delete, lambda: journal.add("b", ranking)):
            with pytest.raises(InputError, match="another process is writing"):
                change()
        assert len(other) == 1
    journal.delete()
    assert not path.exists()


def test_a_journal_is_cleared(path: Path) -> None:
    ranking = Reranker("lexical").rerank("owl", CANDIDATES)
    with Journal(path) as journal:
        journal.add("a", ranking)
        journal.clear()
        assert journal.find("a", "owl", CANDIDATES) is None
        journal.add("b", ranking)
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["b"]


def containing_itself(value):
    metadata = {"b": value}
    metadata["self"] = [metadata]
    return metadata


@pytest.mark.parametrize(
    ("metadata", "other"),
    [
        ({1: "a", "b": 2, None: 3}, {1: "a", "b": 2, None: 4}),
        ({("a", 1): "x"}, {("a", 1): "y"}),
        ({1: "x"}, {"1": "x"}),
        ({"a": {"b": 1}}, {"a": [["b", 1]]}),
        (containing_itself("a"), containing_itself("b")),
    ],
    ids=["none", "tuple", "integer", "mapping", "itself"],
)
def test_metadata_of_any_kind_count(metadata, other) -> None:
    def key(metadata):
        candidate = replace(CANDIDATES[0], metadata=metadata)
        return ranking_key("given+a", {}, "q1", "owl", [candidate])

    assert key(metadata) == key(metadata) != key(other)
    if "self" not in metadata:
        assert key(metadata) == key(dict(reversed(metadata.items())))


class Lengths:
    name = "lengths"
    score_kind = "unbounded"

    def score_pairs(self, query, texts):
        return [float(len(text)) for text in texts]


def suite_of(queries):
    corpus = [{"id": one.id, "text": one.text or "x"} for one in CANDIDATES]
    return make_suite("s", queries, {query: {"d0": 1} for query in queries}, corpus=corpus)


def test_only_what_can_be_recognized_and_has_not_failed_is_kept(path: Path) -> None:
    suite = suite_of({"q": "owl hunts"})
    rerankers = {
        "kept": {"method": "lexical"},
        "object": Reranker(Lengths()),  # its configuration cannot be serialised
        "failed": {"method": {"type": "endpoint", "api": "vllm", "model": "m",
                              "base_url": "http://127.0.0.1:9"}, "limits": {"retries": 0}},
    }  # fmt: skip
    for expected in (0, 1):
        with Journal(path) as journal:
            found = compare(rerankers, suite, first_stages=["lexical"], journal=journal)
            assert journal.reused == expected
        assert found["lexical+kept"].status == found["lexical+object"].status == "ran"
    assert len(path.read_text().splitlines()) == 1
    assert json.loads(path.read_text())["report"]["status"] == "ok"


def test_with_threads_all_that_finish_are_kept(path: Path, monkeypatch) -> None:
    queries = {f"q{index}": f"owl {index}" for index in range(20)}
    scored = []
    score = LexicalScorer.score_pairs

    def counted(self, query, texts):
        if query == "owl 9":
            raise KeyboardInterrupt
        result = score(self, query, texts)
        scored.append(query)
        return result

    monkeypatch.setattr(LexicalScorer, "score_pairs", counted)
    call = {"rerankers": {"a": {"method": "lexical"}}, "suite": suite_of(queries),
            "concurrency": 4, "first_stages": ["lexical"]}  # fmt: skip
    with Journal(path) as journal, pytest.raises(KeyboardInterrupt):
        compare(**call, journal=journal)
    assert len(path.read_text().splitlines()) == len(scored) >= 9
    monkeypatch.setattr(LexicalScorer, "score_pairs", score)
    with Journal(path) as journal:
        compare(**call, journal=journal)
        assert (journal.reused, journal.added) == (len(scored), len(queries) - len(scored))


def test_a_skipped_pass_is_kept(path):
    candidates = [Candidate(f"text {i}", str(i), score) for i, score in enumerate([10.0, 4, 3])]
    ranking = Reranker("lexical", when={"margin": {"below": 0.5}}).rerank("q", candidates)
    assert ranking.report.skipped is not None
    with Journal(path) as journal:
        journal.add("key", ranking)
        assert journal.find("key", "q", candidates).report == ranking.report


NUMBERS = numbered([1, 5, 3, 9])
QUERIES = {"q1": "one", "q2": "two", "q3": "three"}
NUMBERED = [Candidate(text, f"d{index}", 1.0 / (index + 1)) for index, text in enumerate(NUMBERS)]


@pytest.fixture
def run(provider, path):
    """Compares two systems that ask the same two questions for each query."""
    llm = {"type": "openai", "model": "m", "base_url": provider.base_url("openai")}
    config = {"method": {"type": "graded", "batch_size": 2, "llm": llm}}
    suite = make_suite(
        "suite",
        QUERIES,
        {query: {"d3": 1} for query in QUERIES},
        candidates=dict.fromkeys(QUERIES, NUMBERED),
    )

    def compared(delete=True):
        with Journal(path) as journal:
            found = compare({"a": config, "b": config}, suite, journal=journal)
            if delete:
                journal.delete()
        return found

    return compared


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when a ranking is made and not yet recorded."""

    def arm(number):
        add, calls = Journal.add, []

        def stopping(self, key, ranking):
            calls.append(key)
            if len(calls) == number:
                raise KeyboardInterrupt
            add(self, key, ranking)

        monkeypatch.setattr(Journal, "add", stopping)

    return arm


def test_each_system_asks_for_itself(run, provider, path):
    comparison = run()
    assert provider.calls == 2 * 2 * len(QUERIES)
    assert [result.cost.cached for result in comparison.ran[1:]] == [0, 0]
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("number", [1, 2, 5])
def test_no_question_is_asked_twice(run, provider, interrupted, path, number):
    interrupted(number)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert provider.calls == 2 * number
    assert path.with_name("rankings.jsonl.answers.sqlite").exists()
    interrupted(0)
    comparison = run()
    assert provider.calls == 2 * 2 * len(QUERIES)
    assert sum(result.cost.cached for result in comparison.ran) == 2
    assert "2 answers came from a response cache" in comparison.to_markdown(details=True)
    assert not list(path.parent.iterdir())


def test_a_cleared_journal_has_no_answers(run, provider, interrupted, path):
    interrupted(2)
    with pytest.raises(KeyboardInterrupt):
        run()
    interrupted(0)
    with Journal(path) as journal:
        journal.clear()
    run()
    assert provider.calls == 2 * 2 + 2 * 2 * len(QUERIES)
