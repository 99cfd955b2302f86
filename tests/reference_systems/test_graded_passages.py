"""The preset `graded_passages`: passages graded 0 to 10 by schema, then laid out for learners.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import json
import logging
import os

import pytest

import fake_provider as fake
from reference_replies import logged, says
from secondpass import Candidate, InputError, Reranker, config

KEY = "AIza-test-SECRET"
QUERY = "what is free will?"
BUCKETS = {"introductory": 0, "intermediate": 1, "advanced": 2}


@pytest.fixture
def provider(provider_with):
    return provider_with({"GOOGLE_API_KEY": KEY}, "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")


@pytest.fixture
def graded_passages(preset_maker):
    return preset_maker("graded_passages", "google")


def passages(count, difficulties=()):
    """Numbered passages; those that a difficulty is given for have one."""
    given = [
        {"text": f"passage {at}", "id": f"p{at}", "score": 1 - at / count, "author": "anon"}
        for at in range(count)
    ]
    for one, difficulty in zip(given, difficulties, strict=False):
        one["difficulty"] = difficulty
    return given


def grades(*values):
    """A step: the scores of the passages, in the form of the schema."""
    rows = [{"index": at, "score": one} for at, one in enumerate(values)]
    return says(json.dumps({"grades": rows}))


def falling(count):
    """A step: the first passage is the best, and so on."""
    return fake.good(lambda text: 10 - 10 * fake.by_number(text) / count)


# ---------------------------------------------------------------------- the request


def test_the_defaults():
    reranker = Reranker.from_preset("graded_passages")
    llm = reranker.method.llm
    assert llm.package == "google.genai"
    assert llm.model.startswith("gemini-")
    assert "flash" in llm.model
    assert (llm.temperature, llm.structured) == (0.0, "auto")
    assert reranker.method.scale == (0.0, 10.0)
    assert reranker.log_level == "warning"
    assert reranker.order is None
    assert set(reranker.orders) == {"learn", "research"}


def test_what_is_sent(provider, graded_passages, rank):
    provider.play(grades(1, 2, 3))
    rank(graded_passages(), QUERY, passages(3))
    [request] = provider.requests
    assert request.path == "/google/v1/models/gemini-2.5-flash:generateContent"
    assert request.headers["user-agent"].startswith("google-genai-sdk/")
    assert request.key == KEY
    sent = request.body["generationConfig"]
    assert sent["temperature"] == 0.0
    assert sent["responseMimeType"] == "application/json"
    rows = request.schema["properties"]["grades"]
    assert rows["type"] == "array"
    assert rows["items"]["properties"] == {
        "index": {"type": "integer", "enum": [0, 1, 2]},
        "score": {"type": "number"},
    }
    assert rows["items"]["required"] == ["index", "score"]


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_the_key_comes_from_either_variable(provider, graded_passages, monkeypatch, variable):
    monkeypatch.delenv("GOOGLE_API_KEY")
    monkeypatch.setenv(variable, "another-key")
    provider.play(grades(1, 2))
    assert graded_passages().rerank(QUERY, passages(2)).report.status == "ok"
    assert provider.requests[0].key == "another-key"


def test_the_prompt(provider, graded_passages, rank):
    provider.play(grades(1, 2, 3))
    rank(graded_passages(), QUERY, passages(3))
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
def test_passages_are_cut_to_500_characters(provider, graded_passages, length, character):
    text = character * length
    provider.play(grades(1, 2))
    ranking = graded_passages().rerank(QUERY, [text, "another"])
    assert provider.requests[0].documents["0"] == text[:500]
    [whole] = [item for item in ranking if item.position == 0]
    assert whole.text == text


def test_all_passages_are_in_one_question(provider, graded_passages, rank):
    provider.play(falling(100))
    ranking = rank(graded_passages(), QUERY, passages(100))
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
def test_the_order_is_by_grade(provider, graded_passages, rank, given, order):
    provider.play(grades(*given))
    ranking = rank(graded_passages(), QUERY, passages(3))
    assert ranking.order == order
    assert [item.rerank_score for item in ranking] == [float(given[at]) for at in order]
    assert [item.final_score for item in ranking] == [item.rerank_score for item in ranking]
    assert (ranking.report.status, ranking.report.score_kind) == ("ok", "grade")
    for item in ranking:
        assert item.metadata == {"author": "anon", "rerank_score": item.rerank_score}


def test_what_is_no_grade_is_not_used(provider, graded_passages, rank, caplog):
    provider.play(grades(3, "high", 5))
    ranking = rank(graded_passages(), QUERY, passages(3))
    assert ranking.order == (2, 0, 1)
    assert [item.status for item in ranking] == ["scored", "scored", "backfilled"]
    assert ranking.report.status == "partial"
    [issue] = ranking.report.issues
    assert (issue.code, issue.ids) == ("grade_refused", ("p1",))
    assert len(logged(caplog)) == 1


def test_a_passage_that_is_left_out_follows(provider, graded_passages, rank, caplog):
    provider.play(says('{"grades": [{"index": 2, "score": 4}, {"index": 1, "score": 8}]}'))
    ranking = rank(graded_passages(), QUERY, passages(3))
    assert ranking.order == (1, 2, 0)
    [issue] = ranking.report.issues
    assert (issue.code, issue.ids) == ("not_in_reply", ("p0",))
    assert len(logged(caplog)) == 1


# ---------------------------------------------------------------------- edges


def test_no_passages_need_no_call(provider, graded_passages, rank):
    for order in (None, "learn", "research"):
        ranking = rank(graded_passages(strict=True), QUERY, [], order=order)
        assert len(ranking) == 0
        assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert provider.calls == 0


@pytest.mark.parametrize("order", [None, "learn"])
def test_one_passage_is_returned_as_it_is(provider, graded_passages, rank, caplog, order):
    given = passages(1, ["advanced"])
    [item] = ranking = rank(graded_passages(strict=True), QUERY, given, order=order)
    assert (item.id, item.text, item.score, item.final_score) == ("p0", "passage 0", 1.0, 1.0)
    assert item.rerank_score is None
    assert item.metadata == {"author": "anon", "difficulty": "advanced", "rerank_score": None}
    assert (provider.calls, ranking.report.issues, logged(caplog)) == (0, (), [])


@pytest.mark.parametrize("metadata", [None, {}, {"difficulty": None}])
@pytest.mark.parametrize("order", [None, "learn"])
def test_missing_metadata(provider, graded_passages, rank, metadata, order):
    provider.play(grades(1, 5, 9))
    given = [
        Candidate("hard", metadata={"difficulty": "advanced"}),
        Candidate("plain", metadata=metadata),
        Candidate("easy", metadata={"difficulty": "introductory"}),
    ]
    ranking = rank(graded_passages(), QUERY, given, order=order)
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
def test_learn_and_research(provider, graded_passages, rank, difficulties):
    count = len(difficulties)
    provider.play(falling(count))
    reranker, given = graded_passages(), passages(count, difficulties)
    relevance = tuple(range(count))
    expected = learned(relevance, difficulties)
    assert rank(reranker, QUERY, given, order="research").order == relevance
    assert rank(reranker, QUERY, given, order="learn").order == expected
    assert rank(reranker, QUERY, given).order == relevance
    assert rank(reranker, QUERY, given, order="learn", top_k=2).order == expected[:2]


def test_the_modes_can_be_the_usual_one(provider, graded_passages, rank):
    provider.play(falling(2))
    learn = config.preset("graded_passages")["orders"]["learn"]
    given = passages(2, ["advanced", "introductory"])
    reranker = graded_passages(order=learn)
    assert rank(reranker, QUERY, given).order == (1, 0)
    assert rank(reranker, QUERY, given, order="research").order == (0, 1)


def test_a_mode_that_is_none_is_refused(provider, graded_passages, rank):
    with pytest.raises(InputError, match="'learn'"):
        rank(graded_passages(), QUERY, passages(2), order="lern")
    assert provider.calls == 0


# ---------------------------------------------------------------------- faults

FAULTS = {
    "500": (fake.status(500), "server_error"),
    "prose": (says("The first passage deserves a 9."), "reply_refused"),
    "one below the scale": (grades(3, -1, 5), "score_out_of_range"),
}


@pytest.mark.parametrize("order", [None, "learn"])
@pytest.mark.parametrize(("step", "code"), FAULTS.values(), ids=FAULTS)
def test_faults(provider, graded_passages, rank, caplog, step, code, order):
    provider.play(step)
    given = passages(3, ["advanced", "intermediate", "introductory"])
    ranking = rank(graded_passages(), QUERY, given, order=order)
    # Learners get the order that came in by difficulty, as in the system itself.
    assert ranking.order == ((2, 1, 0) if order == "learn" else (0, 1, 2))
    assert [item.final_score for item in ranking] == [given[at]["score"] for at in ranking.order]
    assert ranking.report.status == "unchanged"
    codes = [issue.code for issue in ranking.report.issues]
    assert codes[-1 - (order == "learn")] == code
    assert ("order_applied_unjudged" in codes) == (order == "learn")
    assert ranking.report.usage.calls == provider.calls
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING
    assert code in record.getMessage()
    assert not any(secret in record.getMessage() for secret in (KEY, QUERY, "passage 0"))


def test_without_a_key(provider, graded_passages, rank, monkeypatch, caplog):
    monkeypatch.delenv("GOOGLE_API_KEY")
    reranker = Reranker.from_preset("graded_passages")
    ranking = rank(reranker, QUERY, passages(3), order="learn")
    assert ranking.order == (0, 1, 2)
    assert [issue.code for issue in ranking.report.issues] == ["no_key", "order_applied_unjudged"]
    assert provider.calls == 0
    [record] = logged(caplog)
    assert "GOOGLE_API_KEY or GEMINI_API_KEY" in record.getMessage()


# ---------------------------------------------------------------------- frameworks


@pytest.mark.integration
@pytest.mark.skipif(
    not (os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")),
    reason="needs GOOGLE_API_KEY or GEMINI_API_KEY",
)
def test_live():
    reranker = Reranker.from_preset("graded_passages", strict=True)
    given = [
        "The train from Lisbon to Porto takes about three hours.",
        "Compatibilists hold that an act is free where it flows from the agent's own reasons, "
        "even if those reasons are determined.",
    ]
    ranking = reranker.rerank(QUERY, given)
    reranker.close()
    assert ranking.order == (1, 0)
