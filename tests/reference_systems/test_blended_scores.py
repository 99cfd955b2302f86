"""The preset `blended_scores`: short memories graded 0 to 1, blended, with a floor.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import json
import logging
import os
import time

import pytest

import fake_provider as fake
from reference_replies import logged, says
from secondpass import Candidate, Reranker

KEY = "gsk-test-SECRET"
MEMORIES = ["likes green tea", "lives in Lisbon", "has a dog named Rui", "drinks tea at 7"]
ORIGINALS = [0.31, 0.77, 0.05, 0.42]


@pytest.fixture
def provider(provider_with):
    return provider_with({"GROQ_API_KEY": KEY})


@pytest.fixture
def blended_scores(preset_maker):
    return preset_maker("blended_scores", "openai")


def memories(texts=MEMORIES, originals=ORIGINALS):
    return [
        {"id": f"m{at}", "content": text, "score": original, "day": at}
        for at, (text, original) in enumerate(zip(texts, originals, strict=True))
    ]


def grades(*values):
    """A step: the array of index and score that the system reads."""
    return says(json.dumps([{"index": at, "score": one} for at, one in enumerate(values)]))


# ---------------------------------------------------------------------- the request


def test_the_defaults():
    reranker = Reranker.from_preset("blended_scores")
    assert (reranker.depth, reranker.tail, reranker.floor) == (20, "keep", 0.05)
    assert (reranker.blend.original, reranker.blend.normalize) == (0.4, "none")
    assert (reranker.limits.retries, reranker.limits.repair) == (0, 0)
    llm = reranker.method.llm
    assert (llm.temperature, llm.base_url) == (0.1, "https://api.groq.com/openai/v1")
    assert llm.api_key_env == "GROQ_API_KEY"


def test_what_is_sent(provider, blended_scores, rank):
    provider.play(grades(0.1, 0.2, 0.3, 0.4))
    rank(blended_scores(), "what tea?", memories())
    [request] = provider.requests
    assert request.path == "/openai/v1/chat/completions"
    assert request.key == KEY
    assert request.body.keys() == {"model", "messages", "temperature"}
    assert request.body["temperature"] == 0.1
    assert request.body["model"] == "llama-3.1-8b-instant"
    assert not request.asks_for_json
    assert not request.body.get("stream")


def test_the_prompt(provider, blended_scores):
    provider.play(grades(0.1, 0.2, 0.3, 0.4))
    blended_scores().rerank("what tea?", memories())
    [request] = provider.requests
    system, user = request.messages
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert "how relevant each memory is to the query" in system
    assert "from 0.0" in system
    assert "to 1.0" in system
    query, documents, reply = user.split("\n\n")
    assert query == "<query>what tea?</query>"
    # Numbered, with nothing but the text of each: no score, no date, no id.
    assert documents.splitlines() == [
        f'<doc id="{at}">{text}</doc>' for at, text in enumerate(MEMORIES)
    ]
    assert "ONLY a JSON array" in reply
    assert '[{"index": <index>, "score": <score>}, ...]' in reply


def test_nothing_is_cached(provider, blended_scores, rank):
    provider.play(grades(0.9, 0.1, 0.1, 0.1), grades(0.1, 0.1, 0.1, 0.9))
    reranker = blended_scores(blend=None, floor=None)
    assert rank(reranker, "q", memories())[0].id == "m0"
    assert rank(reranker, "q", memories())[0].id == "m3"
    assert provider.calls == 2


def test_the_model_can_be_a_function_of_the_application(rank):
    def chat(messages):
        return '[{"index": 0, "score": 0.0}, {"index": 1, "score": 1.0}]'

    reranker = Reranker.from_preset("blended_scores", method={"llm": chat})
    assert [item.id for item in rank(reranker, "q", memories()[:2])] == ["m1", "m0"]


# ---------------------------------------------------------------------- scores


@pytest.mark.parametrize(
    "given",
    [
        [0.1, 0.2, 0.30000000000000004, 1 / 3],
        [1, 0, 1, 0],
        [1e-300, 0.9999999999999999, 5e-324, 0.123456789012345678],
    ],
)
def test_the_blend_to_the_last_digit(provider, blended_scores, rank, given):
    provider.play(grades(*given))
    ranking = rank(blended_scores(floor=None), "q", memories())
    final = [
        original * 0.4 + float(llm) * 0.6 for original, llm in zip(ORIGINALS, given, strict=True)
    ]
    by_position = {item.position: item for item in ranking}
    assert [by_position[at].final_score for at in range(4)] == final
    assert ranking.order == tuple(sorted(range(4), key=lambda at: -final[at]))
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == "grade"


def test_the_output_has_the_four_fields_of_the_system(provider, blended_scores, rank):
    provider.play(grades(0.9, 0.1, 0.2, 1.0))
    output = [
        {
            "id": item.id,
            "relevanceScore": item.rerank_score,
            "originalScore": item.score,
            "finalScore": item.final_score,
        }
        for item in rank(blended_scores(), "q", memories())
    ]
    assert output == [
        {"id": "m3", "relevanceScore": 1.0, "originalScore": 0.42,
         "finalScore": 0.42 * 0.4 + 1.0 * 0.6},
        {"id": "m0", "relevanceScore": 0.9, "originalScore": 0.31,
         "finalScore": 0.31 * 0.4 + 0.9 * 0.6},
        {"id": "m1", "relevanceScore": 0.1, "originalScore": 0.77,
         "finalScore": 0.77 * 0.4 + 0.1 * 0.6},
        {"id": "m2", "relevanceScore": 0.2, "originalScore": 0.05,
         "finalScore": 0.05 * 0.4 + 0.2 * 0.6},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("original", "llm", "stays"),
    [
        (0.125, 0.0, True),  # 0.05 to the last digit is not below it
        (0.12499999999999999, 0.0, False),
        (0.0, 0.0, False),
        (0.0, 0.1, True),
        (0.0, 0.08, False),
        (0.2, 0.0, True),
    ],
)
def test_the_floor(provider, blended_scores, rank, original, llm, stays):
    provider.play(grades(0.9, llm))
    assert (original * 0.4 + llm * 0.6 >= 0.05) is stays
    ranking = rank(blended_scores(), "q", memories(["kept", "weak"], [0.5, original]))
    assert ranking.order == ((0, 1) if stays else (0,))
    assert ranking.report.left_out == ({} if stays else {"floor": (1,)})
    assert ranking.report.status == "ok"


def test_what_is_known_of_a_memory_comes_back(provider, blended_scores, rank):
    provider.play(grades(0.1, 0.2, 0.3, 0.4))
    given = memories()
    for item in rank(blended_scores(), "q", given):
        assert item.text == MEMORIES[item.position]
        assert item.metadata == {"day": item.position, "rerank_score": item.rerank_score}
    assert given == memories()


def test_an_original_that_is_missing_is_told(provider, blended_scores, rank):
    provider.play(grades(0.4, 0.3))
    given = [{"id": "a", "content": "x", "score": 0.1}, {"id": "b", "content": "y"}]
    ranking = rank(blended_scores(), "q", given)
    assert {item.id: item.final_score for item in ranking} == {
        "a": 0.1 * 0.4 + 0.4 * 0.6,
        "b": 0.3,
    }
    [issue] = ranking.report.issues
    assert (issue.code, issue.ids) == ("original_missing", ("b",))


# ---------------------------------------------------------------------- replies

READ = {
    "in an object": '{"results": [{"index": 0, "score": 0.2}, {"index": 1, "score": 0.9}]}',
    "thought first, others graded too": (
        '<think>[{"index": 0, "score": 1}]</think>'
        '[{"index": 0, "score": 0.2}, {"index": 1, "score": 0.9}, {"index": 7, "score": 1.0}]'
    ),
}


@pytest.mark.parametrize("reply", READ.values(), ids=READ)
def test_replies_that_are_read(provider, blended_scores, rank, reply):
    provider.play(says(reply))
    ranking = rank(blended_scores(), "q", memories(["a", "b"], [0.5, 0.5]))
    assert [(item.id, item.rerank_score) for item in ranking] == [("m1", 0.9), ("m0", 0.2)]
    assert provider.calls == 1


@pytest.mark.parametrize("second", ["", ', {"index": 1, "score": null}'])
def test_a_memory_without_a_usable_score_is_kept_behind(provider, blended_scores, rank, second):
    provider.play(says('[{"index": 0, "score": 0.2}' + second + "]"))
    ranking = rank(blended_scores(), "q", memories(["a", "b"], [0.1, 0.9]))
    assert [(item.id, item.status) for item in ranking] == [("m0", "scored"), ("m1", "backfilled")]
    assert ranking.report.status == "partial"
    assert provider.calls == 1


# ---------------------------------------------------------------------- faults

FAULTS = {
    "malformed JSON": (says('[{"index": 0, "score": 0.2}, {"index": 1'), "reply_refused"),
    "one out of range": (grades(0.2, 1.2, 0.1, 0.4), "score_out_of_range"),
    "429": (fake.status(429, headers={"Retry-After": "0"}), "rate_limited"),
    "413": (fake.status(413), "too_long"),
}


@pytest.mark.parametrize(("step", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_costs_one_request_and_leaves_the_originals(
    provider, blended_scores, rank, caplog, step, code
):
    provider.play(step)
    ranking = rank(blended_scores(), "q", memories())
    assert provider.calls == 1
    assert ranking.report.usage.calls == 1
    assert ranking.order == (0, 1, 2, 3)
    assert [item.final_score for item in ranking] == ORIGINALS
    assert [item.rerank_score for item in ranking] == [None] * 4
    assert ranking.report.status == "unchanged"
    [issue] = ranking.report.issues
    assert issue.code == code
    [record] = logged(caplog)
    assert record.levelno == logging.WARNING
    assert code in record.getMessage()
    assert KEY not in record.getMessage()


def test_the_floor_does_not_apply_to_originals(provider, blended_scores, rank):
    provider.play(fake.status(500))
    ranking = rank(blended_scores(), "q", memories(["a", "b"], [0.01, 0.0]))
    assert [item.final_score for item in ranking] == [0.01, 0.0]


@pytest.mark.parametrize("setting", ["deadline", "timeout"])
def test_timeout_ms(provider, blended_scores, rank, setting):
    provider.play(fake.silence())
    seconds = 150 / 1000
    if setting == "deadline":
        reranker = blended_scores(limits={"deadline": seconds})
        assert reranker.limits.retries == 0
    else:
        reranker = blended_scores({"timeout": seconds})
    started = time.perf_counter()
    ranking = rank(reranker, "q", memories())
    assert time.perf_counter() - started < 30
    assert provider.calls <= 1  # none, where making a client takes all the time there is
    assert ranking.order == (0, 1, 2, 3)
    assert [item.final_score for item in ranking] == ORIGINALS
    [issue] = ranking.report.issues
    assert issue.code in {"deadline", "timeout"}


def test_a_model_that_takes_no_temperature_is_asked_without_it(provider, blended_scores):
    """The one reason for a second request: the first was no try. It is remembered."""
    refusal = fake.refusing(fake.has_temperature, fake.temperature_refused(), grades(*[0.5] * 4))
    provider.play(refusal)
    reranker = blended_scores()
    assert reranker.rerank("q", memories()).report.status == "ok"
    assert provider.calls == 2
    reranker.rerank("q", memories())
    assert provider.calls == 3


def test_without_a_key_nothing_is_sent(provider, blended_scores, rank, monkeypatch, caplog):
    monkeypatch.delenv("GROQ_API_KEY")
    ranking = rank(blended_scores(), "q", memories())
    assert provider.calls == 0
    assert [item.final_score for item in ranking] == ORIGINALS
    [issue] = ranking.report.issues
    assert issue.code == "no_key"
    assert "GROQ_API_KEY" in issue.message
    assert [record.levelno for record in logged(caplog)] == [logging.WARNING]


# ---------------------------------------------------------------------- edges


def test_no_memories_need_no_call(provider, blended_scores, rank):
    ranking = rank(blended_scores(), "q", [])
    assert len(ranking) == 0
    assert (ranking.report.status, ranking.report.issues, provider.calls) == ("ok", (), 0)


def test_one_memory_is_judged(provider, blended_scores, rank):
    provider.play(grades(0.5))
    ranking = rank(blended_scores(), "q", memories(["a"], [0.25]))
    assert provider.calls == 1
    assert ranking[0].final_score == 0.25 * 0.4 + 0.5 * 0.6


@pytest.mark.parametrize(("most", "tail"), [(20, "keep"), (5, "drop")])
def test_more_than_max_candidates(provider, blended_scores, rank, most, tail):
    count = 25
    texts = [f"memory {at}" for at in range(count)]
    provider.play(fake.good(lambda text: fake.by_number(text) / count, "index pairs", True))
    overrides = {} if most == 20 else {"depth": most}
    given = memories(texts, [0.5] * count)
    ranking = rank(blended_scores(tail=tail, **overrides), "q", given)
    assert list(provider.requests[0].documents.values()) == texts[:most]
    assert provider.calls == 1
    head, behind = list(reversed(range(most))), list(range(most, count))
    if tail == "drop":
        assert list(ranking.order) == head
        assert ranking.report.left_out == {"tail": tuple(behind)}
    else:
        assert list(ranking.order) == head + behind
        assert {item.status for item in ranking[most:]} == {"tail"}
    assert ranking.report.status == "ok"


# ---------------------------------------------------------------------- frameworks


@pytest.mark.integration
@pytest.mark.skipif(not os.environ.get("GROQ_API_KEY"), reason="needs GROQ_API_KEY")
def test_live():
    reranker = Reranker.from_preset("blended_scores", strict=True)
    given = [
        Candidate("drinks green tea every morning", "tea", 0.3),
        Candidate("the car is in the garage", "car", 0.4),
    ]
    ranking = reranker.rerank("what does the user like to drink?", given)
    reranker.close()
    assert ranking[0].id == "tea"
