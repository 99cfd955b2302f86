import numpy as np
import pytest

from secondpass import Candidate, InputError, Reranker
from secondpass_evaluation import evaluate, make_suite, ranking_to_run
from secondpass_evaluation.judging.judged_texts import text_hashes
from secondpass_evaluation.suites import with_title

QUERIES = {"q1": "owl", "q2": "sea"}
QRELS = {"q1": {"a": 2, "b": 0}, "q2": {"c": 1}}
CORPUS = [Candidate("the owl", "a"), Candidate("a cat", "b"), Candidate("the sea", "c")]


def test_first_queries() -> None:
    suite = make_suite("s", QUERIES, QRELS, corpus=CORPUS)
    assert suite.first(None) is suite.first(2) is suite
    one = suite.first(1)
    assert (one.queries, one.qrels) == ({"q1": "owl"}, {"q1": QRELS["q1"]})
    assert one.notes == ("only the first 1 of 2 queries",)
    for wrong in (0, -1, True, 1.0):
        with pytest.raises(InputError, match="count: must be a whole number of 1 or more"):
            suite.first(wrong)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"queries": {}}, "there are no queries"),
        ({"qrels": {"q1": {}}}, "there are no judgements"),
        (
            {"qrels": {"Q1": {"a": 1}}},
            "no query has a judgement; the ids do not match: the queries are 'q1', 'q2', "
            "those of the judgements 'Q1'",
        ),
        ({"qrels": {"q1": {"a": 0, "b": -1}}}, "no document is judged relevant"),
        ({"qrels": {"q1": {"A": 1}}}, "no judged document is among the candidates: judged are 'A'"),
        ({"qrels": {"q1": {"a": 1.5}}}, r"qrels\['q1'\]\['a'\]: must be a whole number"),
        ({"queries": {1: "owl"}, "qrels": {1: {"a": 1}}}, "queries: an id must be a string, not 1"),
        ({"queries": ["owl"]}, "queries: must be a mapping"),
        ({"qrels": [("q1", "a", 1)]}, "qrels: must be a mapping"),
        (
            {"candidates": {"Q1": CORPUS}},
            "no query has candidates; the ids do not match: the queries are 'q1', 'q2', "
            "those of the candidates 'Q1'",
        ),
        ({"corpus": None}, "needs a corpus, or the candidates of a first stage; it is missing"),
        ({"corpus": []}, "needs a corpus, or the candidates of a first stage; it is empty"),
        ({"corpus": [*CORPUS, Candidate("x", "a")]}, r"corpus\[3\].id: 'a' is the id of \[0\]"),
        ({"corpus": ["a text alone"]}, r"corpus\[0\].id: must be a string"),
        ({"corpus": None, "candidates": {"q1": []}}, "first stage; it is empty"),
        ({"candidates": {"q1": [Candidate("x")]}}, r"candidates\['q1'\]\[0\].id: must be a string"),
    ],
)
def test_unfit_parts(parts, problem: str) -> None:
    whole = {"queries": QUERIES, "qrels": QRELS, "corpus": CORPUS, **parts}
    with pytest.raises(InputError, match=f"^s: .*{problem}"):
        make_suite("s", whole.pop("queries"), whole.pop("qrels"), **whole)


@pytest.mark.parametrize(
    ("parts", "note"),
    [
        ({"qrels": {"q1": {"a": 1}}}, "without judgements, left out: 1 of 2 queries ('q2')"),
        (
            {"qrels": {**QRELS, **{f"q{n}": {"a": 1} for n in range(6, 10)}}},
            "judgements of unknown queries, left out: 4 of 6 judged queries ('q6', 'q7', 'q8', …)",
        ),
        (
            {"qrels": {"q1": {"a": 1, "far": 1}, "q2": {"c": 1}}},
            "1 of 3 judged documents is not in the corpus ('far'): no search can find it",
        ),
        (
            {"qrels": {"q1": {"near": 0, "far": 1}, "q2": {"c": 1}}},
            "2 of 3 judged documents are not in the corpus ('far', 'near'): no search can find "
            "them, so 1 query scores 0 everywhere",
        ),
        (
            {"candidates": {"q1": CORPUS, "q2": []}},
            "without candidates, counted with no results: 1 of the queries ('q2')",
        ),
        (
            {"candidates": {"q1": CORPUS, "q2": CORPUS, "q3": CORPUS}},
            "candidates of unknown queries, left out: 1 ('q3')",
        ),
        (
            {"qrels": {**QRELS, "q1": {"a": 0, "b": -1}}},
            "without a relevant document, counted as 0: 1 of the queries ('q1')",
        ),
    ],
)
def test_notes_on_what_is_left_out(parts, note: str) -> None:
    whole = {"queries": QUERIES, "qrels": QRELS, "corpus": CORPUS, **parts}
    suite = make_suite("s", whole.pop("queries"), whole.pop("qrels"), **whole)
    assert suite.notes == (note,)


def test_a_judged_file_is_in_the_corpus_if_a_passage_of_it_is() -> None:
    corpus = [Candidate("the owl", "deep/a.md#1"), Candidate("more", "deep/a.md#2")]
    suite = make_suite("s", {"q1": "owl"}, {"q1": {"deep/a.md": 1, "b.md": 1}}, corpus=corpus)
    assert suite.notes == (
        "1 of 2 judged documents is not in the corpus ('b.md'): no search can find it",
    )


def test_documents_whose_text_changed_since_they_were_judged_are_named() -> None:
    corpus = [Candidate(item.text, item.id) for item in CORPUS]
    texts = text_hashes(QRELS, corpus)
    assert make_suite("s", QUERIES, QRELS, corpus=CORPUS, texts=texts).notes == ()
    shifted = [Candidate("new", "a"), Candidate("the owl", "b"), Candidate("the sea", "c")]
    note = (
        "2 of 3 judged documents have another text than the one that was judged ('a', 'b'); "
        "judge them again, or the file instead"
    )
    assert make_suite("s", QUERIES, QRELS, corpus=shifted, texts=texts).notes == (note,)
    listed = dict.fromkeys(QUERIES, shifted)
    assert make_suite("s", QUERIES, QRELS, candidates=listed, texts=texts).notes == (note,)
    assert not make_suite("s", QUERIES, QRELS, corpus=CORPUS, candidates=listed, texts=texts).notes


def test_candidates_may_repeat_or_lack_text() -> None:
    listed = {"q1": [Candidate("x", "a"), Candidate("x", "a"), {"id": "b"}], "q2": CORPUS}
    suite = make_suite("s", QUERIES, QRELS, candidates=listed)
    assert [(one.id, one.text) for one in suite.candidates["q1"]] == [
        ("a", "x"), ("a", "x"), ("b", None),
    ]  # fmt: skip


@pytest.mark.parametrize("relevant", [3, "3", np.int64(3)])
@pytest.mark.parametrize("document", [3, "3", np.int64(3)])
def test_ids_are_compared_with_judgements_as_text(document, relevant):
    candidates = {"q": [{"id": 4, "text": "b"}, {"id": document, "text": "a"}]}
    suite = make_suite("s", {"q": "a"}, {"q": {relevant: 1}}, candidates=candidates)
    assert suite.qrels == {"q": {"3": 1}}
    run = ranking_to_run({"q": Reranker("lexical").rerank("a", candidates["q"])})
    assert evaluate(run, {"q": {relevant: 1}}, ["RR"]).mean["RR"] == 1


@pytest.mark.parametrize(
    ("title", "text", "moved"),
    [
        ("Owls", "# Owls\n\nThey hunt.", "Owls\nThey hunt."),
        ("Owls > Food", "# Owls\n\n## Food ##\n\nMice.", "Owls > Food\nMice."),
        ("Owls > Mice", "# Owls\n## Food\nText", "Owls > Mice\n## Food\nText"),
        ("Owls", "Owls\n====\n\nThey hunt.", "Owls\nThey hunt."),
        ("Owls", "Owls hunt.", "Owls\nOwls hunt."),
        ("Owls", "# Birds\n# Owls\nText", "Owls\n# Birds\n# Owls\nText"),
        ("Owls", "# Owls", "Owls\n"),
    ],
)
def test_a_title_is_not_repeated_as_a_heading(title, text, moved):
    passage = with_title(Candidate(text, "a", metadata={"title": title, "page": 3}))
    assert (passage.text, passage.metadata) == (moved, {"page": 3})
