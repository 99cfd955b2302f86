import pytest

from secondpass import Candidate, InputError, Reranker
from secondpass_evaluation import HybridRetriever, compare
from topic_suites import CANDIDATES, SUITE, ByGrade, ByTopic, failing, suite_of


def test_without_embedder_vectors_are_not_run() -> None:
    found = compare("lexical", SUITE, retriever=HybridRetriever(SUITE.corpus))
    assert {one.name: one.status for one in found.results} == {
        "vector": "not_run",
        "lexical": "ran",
        "hybrid": "not_run",
        "lexical+lexical": "ran",
    }
    assert "vectors need an embedder" in found["vector"].reason
    assert found.baseline == "lexical"


@pytest.mark.parametrize(
    ("parts", "settings", "modes", "behind"),
    [
        ({}, {}, ["vector", "lexical", "hybrid"], "hybrid"),
        ({}, {"first_stages": ["lexical", "vector"]}, ["lexical", "vector"], "lexical"),
        ({}, {"first_stages": ["lexical"], "behind": "vector"}, ["lexical", "vector"], "vector"),
        ({}, {"first_stages": ["vector", "vector"]}, ["vector"], "vector"),
        ({"candidates": CANDIDATES}, {}, ["given"], "given"),
        ({"candidates": CANDIDATES}, {"first_stages": ["hybrid"]}, ["hybrid"], "hybrid"),
        (
            {"candidates": CANDIDATES},
            {"first_stages": ["hybrid", "given"]},
            ["hybrid", "given"],
            "given",
        ),
    ],
)
def test_choice_of_stages(parts, settings, modes, behind) -> None:
    suite = suite_of(SUITE.corpus, **parts)
    retriever = HybridRetriever(SUITE.corpus, ByTopic())
    found = compare({"x": Reranker(ByGrade())}, suite, retriever=retriever, **settings)
    assert [one.name for one in found.ran] == [*modes, f"{behind}+x"]
    assert found.baseline == behind


def test_given_candidates() -> None:
    suite = suite_of(candidates=CANDIDATES)
    found = compare({"x": Reranker(ByGrade())}, suite, depth=7)
    assert list(found["given"].run["q-owls"]) == [one.id for one in SUITE.corpus[:7]]
    assert set(found["given+x"].run["q-owls"]) == set(found["given"].run["q-owls"])
    searched = compare([], suite, first_stages=["given", "lexical"])
    assert searched["lexical"].reason == "the suite has no corpus to search"
    assert compare([], SUITE, first_stages=["given"])["given"].reason == (
        "the suite has no candidates of its own"
    )


def test_too_many_candidates_are_cut() -> None:
    class Generous:
        def retrieve(self, query: str, k: int, mode: str = "hybrid") -> list[Candidate]:
            return SUITE.corpus

    found = compare([], SUITE, retriever=Generous(), first_stages=["vector"], depth=3)
    assert {len(documents) for documents in found["vector"].run.values()} == {3}


def test_depth_beyond_corpus() -> None:
    retriever = HybridRetriever(SUITE.corpus, ByTopic(), depth=1000)
    found = compare({"x": Reranker(ByGrade())}, SUITE, retriever=retriever, depth=1000)
    assert {len(documents) for documents in found["hybrid+x"].run.values()} == {len(SUITE.corpus)}


@pytest.mark.parametrize(
    ("retrieved", "error", "problem"),
    [
        (lambda *_: [Candidate("x")], InputError, r"\.id: a run needs ids"),
        (failing(ConnectionError("refused")), ConnectionError, "refused"),
    ],
)
def test_retriever_errors_pass_through(retrieved, error, problem) -> None:
    class Mine:
        retrieve = staticmethod(retrieved)

    with pytest.raises(error, match=problem):
        compare([], SUITE, retriever=Mine(), first_stages=["lexical"])
