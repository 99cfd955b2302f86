"""The preset `blended_scores`: short memories graded 0 to 1, blended, with a floor.

Every row of its table goes through the real SDK to a provider on the loopback interface.
"""

from __future__ import annotations

import time

import pytest

import fake_provider as fake
from reference_systems import MEMORIES, ORIGINALS, grades, memories, says
from secondpass import Reranker

PRESET = "blended_scores"


# ---------------------------------------------------------------------- the request


def test_the_prompt(provider, make):
    provider.play(grades(0.1, 0.2, 0.3, 0.4))
    make().rerank("what tea?", memories())
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


def test_nothing_is_cached(provider, make, rank):
    provider.play(grades(0.9, 0.1, 0.1, 0.1), grades(0.1, 0.1, 0.1, 0.9))
    reranker = make(blend=None, floor=None)
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
def test_the_blend_to_the_last_digit(provider, make, rank, given):
    provider.play(grades(*given))
    ranking = rank(make(floor=None), "q", memories())
    final = [
        original * 0.4 + float(llm) * 0.6 for original, llm in zip(ORIGINALS, given, strict=True)
    ]
    by_position = {item.position: item for item in ranking}
    assert [by_position[at].final_score for at in range(4)] == final
    assert ranking.order == tuple(sorted(range(4), key=lambda at: -final[at]))
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == "grade"


def test_the_output_has_the_four_fields_of_the_system(provider, make, rank):
    provider.play(grades(0.9, 0.1, 0.2, 1.0))
    ranking = rank(make(), "q", memories())
    assert [(one.id, one.rerank_score, one.score, one.final_score) for one in ranking] == [
        ("m3", 1.0, 0.42, 0.42 * 0.4 + 1.0 * 0.6),
        ("m0", 0.9, 0.31, 0.31 * 0.4 + 0.9 * 0.6),
        ("m1", 0.1, 0.77, 0.77 * 0.4 + 0.1 * 0.6),
        ("m2", 0.2, 0.05, 0.05 * 0.4 + 0.2 * 0.6),
    ]


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
def test_the_floor(provider, make, rank, original, llm, stays):
    provider.play(grades(0.9, llm))
    assert (original * 0.4 + llm * 0.6 >= 0.05) is stays
    ranking = rank(make(), "q", memories(["kept", "weak"], [0.5, original]))
    assert ranking.order == ((0, 1) if stays else (0,))
    assert ranking.report.left_out == ({} if stays else {"floor": (1,)})
    assert ranking.report.status == "ok"


def test_an_original_that_is_missing_is_told(provider, make, rank):
    provider.play(grades(0.4, 0.3))
    given = [{"id": "a", "content": "x", "score": 0.1}, {"id": "b", "content": "y"}]
    ranking = rank(make(), "q", given)
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
def test_replies_that_are_read(provider, make, rank, reply):
    provider.play(says(reply))
    ranking = rank(make(), "q", memories(["a", "b"], [0.5, 0.5]))
    assert [(item.id, item.rerank_score) for item in ranking] == [("m1", 0.9), ("m0", 0.2)]
    assert provider.calls == 1


@pytest.mark.parametrize("second", ["", ', {"index": 1, "score": null}'])
def test_a_memory_without_a_usable_score_is_kept_behind(provider, make, rank, second):
    provider.play(says('[{"index": 0, "score": 0.2}' + second + "]"))
    ranking = rank(make(), "q", memories(["a", "b"], [0.1, 0.9]))
    assert [(item.id, item.status) for item in ranking] == [("m0", "scored"), ("m1", "backfilled")]
    assert ranking.report.status == "partial"
    assert provider.calls == 1


# ---------------------------------------------------------------------- faults


def test_the_floor_does_not_apply_to_originals(provider, make, rank):
    provider.play(fake.status(500))
    ranking = rank(make(), "q", memories(["a", "b"], [0.01, 0.0]))
    assert [item.final_score for item in ranking] == [0.01, 0.0]


@pytest.mark.parametrize("setting", ["deadline", "timeout"])
def test_timeout_ms(provider, make, rank, setting):
    provider.play(fake.silence())
    seconds = 150 / 1000
    if setting == "deadline":
        reranker = make(limits={"deadline": seconds})
        assert reranker.limits.retries == 0
    else:
        reranker = make({"timeout": seconds})
    started = time.perf_counter()
    ranking = rank(reranker, "q", memories())
    assert time.perf_counter() - started < 30
    assert provider.calls <= 1  # none, where making a client takes all the time there is
    assert ranking.order == (0, 1, 2, 3)
    assert [item.final_score for item in ranking] == ORIGINALS
    [issue] = ranking.report.issues
    assert issue.code in {"deadline", "timeout"}


# ---------------------------------------------------------------------- edges


def test_one_memory_is_judged(provider, make, rank):
    provider.play(grades(0.5))
    ranking = rank(make(), "q", memories(["a"], [0.25]))
    assert provider.calls == 1
    assert ranking[0].final_score == 0.25 * 0.4 + 0.5 * 0.6


@pytest.mark.parametrize(("most", "tail"), [(20, "keep"), (5, "drop")])
def test_more_than_max_candidates(provider, make, rank, most, tail):
    count = 25
    texts = [f"memory {at}" for at in range(count)]
    provider.play(grades(*[at / count for at in range(most)]))
    overrides = {} if most == 20 else {"depth": most}
    given = memories(texts, [0.5] * count)
    ranking = rank(make(tail=tail, **overrides), "q", given)
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
