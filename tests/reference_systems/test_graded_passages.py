"""The preset `graded_passages`: passages graded 0 to 10 by schema, then laid out for learners.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import pytest

import fake_provider as fake
from reference_systems import logged, passages, says
from reference_systems import schema_grades as grades
from secondpass import Candidate, InputError

PRESET = "graded_passages"
QUERY = "what is free will?"
BUCKETS = {"introductory": 0, "intermediate": 1, "advanced": 2}


def falling(count):
    """A step: the first passage is the best, and so on."""
    return fake.good(lambda text: 10 - 10 * fake.by_number(text) / count)


# ---------------------------------------------------------------------- the request


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_the_key_comes_from_either_variable(provider, make, monkeypatch, variable):
    monkeypatch.delenv("GOOGLE_API_KEY")
    monkeypatch.setenv(variable, "another-key")
    provider.play(grades(1, 2))
    assert make().rerank(QUERY, passages(2)).report.status == "ok"
    assert provider.requests[0].key == "another-key"


def test_the_prompt(provider, make, rank):
    provider.play(grades(1, 2, 3))
    rank(make(), QUERY, passages(3))
    system, user = provider.requests[0].messages
    for criterion in (
        "Direct relevance:",
        "Philosophical depth:",
        "Substantive explanation: it explains the matter, rather than mention it in passing.",
    ):
        assert system.count(criterion) == 1
    assert "Grade the philosophical relevance of each of the 3 passages" in user
    assert "from 0 (none) to 10 (exactly what is sought)" in user
    assert f"<query>{QUERY}</query>" in user
    assert provider.requests[0].documents == {
        "0": "passage 0",
        "1": "passage 1",
        "2": "passage 2",
    }


@pytest.mark.parametrize("length", [500, 501])
@pytest.mark.parametrize("character", ["ü", "\U0001d6c2", "<"])
def test_passages_are_cut_to_500_characters(provider, make, length, character):
    text = character * length
    provider.play(grades(1, 2))
    ranking = make().rerank(QUERY, [text, "another"])
    assert provider.requests[0].documents["0"] == text[:500]
    [whole] = [item for item in ranking if item.position == 0]
    assert whole.text == text


def test_all_passages_are_in_one_question(provider, make, rank):
    provider.play(falling(100))
    ranking = rank(make(), QUERY, passages(100))
    assert provider.calls == 1
    assert ranking.order == tuple(range(100))
    assert {item.status for item in ranking} == {"scored"}


# ---------------------------------------------------------------------- grades


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ((10, 0, 5), (0, 2, 1)),
        ((3.5, 3.25, 9.75), (2, 0, 1)),
        ((7, 7, 7), (0, 1, 2)),
    ],
)
def test_the_order_is_by_grade(provider, make, rank, given, order):
    provider.play(grades(*given))
    ranking = rank(make(), QUERY, passages(3))
    assert ranking.order == order
    assert [item.rerank_score for item in ranking] == [float(given[at]) for at in order]
    assert [item.final_score for item in ranking] == [item.rerank_score for item in ranking]
    assert (ranking.report.status, ranking.report.score_kind) == ("ok", "grade")
    for item in ranking:
        assert item.metadata == {"author": "anon", "rerank_score": item.rerank_score}


@pytest.mark.parametrize(
    ("reply", "order", "code", "passage"),
    [
        ('{"index": 0, "score": 3}, {"index": 1, "score": "high"}, {"index": 2, "score": 5}',
         (2, 0, 1), "grade_refused", "p1"),
        ('{"index": 2, "score": 4}, {"index": 1, "score": 8}', (1, 2, 0), "not_in_reply", "p0"),
    ],
)  # fmt: skip
def test_a_passage_without_a_grade_follows(
    provider, make, rank, caplog, reply, order, code, passage
):
    provider.play(says(f'{{"grades": [{reply}]}}'))
    ranking = rank(make(), QUERY, passages(3))
    assert ranking.order == order
    assert [item.status for item in ranking] == ["scored", "scored", "backfilled"]
    [issue] = ranking.report.issues
    assert (issue.code, issue.ids) == (code, (passage,))
    assert len(logged(caplog)) == 1


# ---------------------------------------------------------------------- edges


@pytest.mark.parametrize("order", [None, "learn"])
def test_one_passage_is_returned_as_it_is(provider, make, rank, caplog, order):
    given = passages(1, ["advanced"])
    [item] = ranking = rank(make(strict=True), QUERY, given, order=order)
    assert (item.id, item.text, item.score, item.final_score) == ("p0", "passage 0", 1.0, 1.0)
    assert item.rerank_score is None
    assert item.metadata == {"author": "anon", "difficulty": "advanced", "rerank_score": None}
    assert (provider.calls, ranking.report.issues, logged(caplog)) == (0, (), [])


@pytest.mark.parametrize("metadata", [None, {}, {"difficulty": None}])
@pytest.mark.parametrize("order", [None, "learn"])
def test_missing_metadata(provider, make, rank, metadata, order):
    provider.play(grades(1, 5, 9))
    given = [
        Candidate("hard", metadata={"difficulty": "advanced"}),
        Candidate("plain", metadata=metadata),
        Candidate("easy", metadata={"difficulty": "introductory"}),
    ]
    ranking = rank(make(), QUERY, given, order=order)
    assert ranking.order == (2, 1, 0)
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())


# ---------------------------------------------------------------------- difficulty


def learned(order, difficulties, window=20):
    """The order for learners, written down anew."""
    head = sorted(order[:window], key=lambda at: BUCKETS.get(str(difficulties[at]), 1))
    return (*head, *order[window:])


DIFFICULTIES = {
    "easiest last": ["advanced", "intermediate", "introductory"],
    "stable within a bucket": ["advanced", "introductory", "advanced", "introductory"],
    "unknown is intermediate": ["advanced", "weird", "intermediate", "", "introductory"],
    "other types are intermediate": ["advanced", 0, None, ["introductory"], "introductory", True],
    "case counts": ["Introductory", "introductory", "ADVANCED", "intermediate"],
    "one past the window": [*["advanced"] * 20, "introductory"],
    "two windows": ["advanced", "intermediate", "introductory", "unknown"] * 10,
}


@pytest.mark.parametrize("difficulties", DIFFICULTIES.values(), ids=DIFFICULTIES)
def test_learn_and_research(provider, make, rank, difficulties):
    count = len(difficulties)
    provider.play(falling(count))
    reranker, given = make(), passages(count, difficulties)
    relevance = tuple(range(count))
    expected = learned(relevance, difficulties)
    assert rank(reranker, QUERY, given, order="research").order == relevance
    assert rank(reranker, QUERY, given, order="learn").order == expected
    assert rank(reranker, QUERY, given).order == relevance
    assert rank(reranker, QUERY, given, order="learn", top_k=2).order == expected[:2]


def test_a_mode_that_is_none_is_refused(provider, make, rank):
    with pytest.raises(InputError, match="'learn'"):
        rank(make(), QUERY, passages(2), order="lern")
    assert provider.calls == 0
