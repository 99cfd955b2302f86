"""Scores that are accepted are those that the answer states, on the scale that was asked for."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from fakes import InOrder, play, task_of
from sampling import examples
from secondpass import Reranker
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import Response
from secondpass.errors import LLMError, MethodError
from secondpass.questions import Answer
from secondpass.services.json_http import parse_json

SLACK = 1e-4
REFUSED = "refused"

in_range = st.sampled_from([0.0, 0.1, 0.4, 0.9, 1.0, -5e-5, 1.00005])
outside = st.sampled_from([7.2, -5.0, 1.001, 95, 1e300])
no_number = st.sampled_from([None, math.nan, math.inf, -math.inf, "0.5", True, [0.5]])
usual = st.one_of(in_range, in_range, in_range, no_number)
scores = st.one_of(usual, usual, usual, outside)


def clipped(score):
    return min(max(float(score), 0.0), 1.0)


def is_finite_number(score):
    return type(score) in {int, float} and math.isfinite(score)


def is_outside(score):
    return is_finite_number(score) and not -SLACK <= score <= 1 + SLACK


# ---------------------------------------------------------------------- scorers


@given(st.lists(scores, min_size=1, max_size=8), st.sampled_from([None, 2, 3]))
def test_scorer_on_another_scale_scores_nothing(answer, batch_size):
    limits = None if batch_size is None else {"deadline": 600}  # then texts are scored in slices
    texts = [str(number) for number in range(len(answer))]

    class Table:
        model_name, score_kind = "table", "probability"

        def score_pairs(self, query, documents):
            return [answer[int(document)] for document in documents]

    scorer = Table()
    scorer.batch_size = batch_size
    ranking = Reranker(scorer, limits=limits, log_level="debug").rerank("q", texts)
    stated = {index: clipped(one) for index, one in enumerate(answer) if is_finite_number(one)}
    if any(map(is_outside, answer)) or not stated:
        assert ranking.report.status == "unchanged"
        assert ranking.order == tuple(range(len(texts)))
        return
    accepted = {item.position: item.rerank_score for item in ranking if item.status == "scored"}
    assert accepted == stated
    assert ranking.report.status == ("ok" if len(stated) == len(texts) else "partial")


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_logits_have_no_range(answer):
    texts = [str(number) for number in range(len(answer))]
    ranking = Reranker(InOrder(answer, score_kind="logit")).rerank("q", texts)
    assert {item.position: item.rerank_score for item in ranking} == dict(enumerate(answer))


# ---------------------------------------------------------------------- rerank APIs

spellings = st.sampled_from([int, int, int, float, str, lambda index: f" {index}.0"])


@st.composite
def answered_batches(draw):
    """Batches of a list, each with the rows of its answer: (index as meant, as spelled, score)."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    sizes = [max(sizes)] * len(sizes)  # an endpoint makes batches of one size
    batches = []
    for size in sizes:
        indices = st.one_of(st.integers(0, size - 1), st.integers(-1, size))
        rows = draw(st.lists(st.tuples(indices, spellings, scores), max_size=size + 2))
        if draw(st.booleans()):  # a whole answer, perhaps counted from another number
            shift = draw(st.sampled_from([0, 0, 0, 1, -1]))
            rows = [(index + shift, int, draw(scores)) for index in range(size)]
        batches.append((size, [(row, spell(row), score) for row, spell, score in rows]))
    return batches


def stated_by(size, rows):
    """The scores that one answer states, by index; or that it is refused."""
    known = [
        (row, score) for row, written, score in rows if type(written) is int and 0 <= row < size
    ]
    strays = {row for row, written, _ in rows if type(written) is not int or not 0 <= row < size}
    present = {index for index, _ in known}
    if (size in strays and 0 not in present) or (-1 in strays and size - 1 not in present):
        return REFUSED
    by_index = {}
    for index, score in known:
        by_index.setdefault(index, []).append(score)
    stated = {
        index: given[0]
        for index, given in by_index.items()
        if all(map(is_finite_number, given)) and len(set(given)) == 1
    }
    if not stated and not any(is_outside(score) for _, score in known):
        return REFUSED
    return stated


@examples(20)
@given(answered_batches(), st.sampled_from(["cohere", "vllm", "infinity"]))
def test_endpoint_accepts_what_its_answers_state(batches, api):
    size = batches[0][0]
    count = size * len(batches)
    method = Endpoint(api, model="m", base_url="http://localhost", batch_size=size)
    replies = iter(
        json.dumps({"results": [{"index": w, "relevance_score": s} for _, w, s in rows]})
        for _, rows in batches
    )

    def answer(question):
        if question.repairs:  # about a half of one that was refused
            return Answer(error=LLMError("no time", "deadline"))
        try:
            return Answer(question.read(Response("", body=parse_json(next(replies)))))
        except MethodError as error:
            return Answer(error=error)

    stated = [stated_by(size, rows) for size, rows in batches]
    all_rows = [
        (row, score)
        for (size, rows), one in zip(batches, stated, strict=True)
        for row, written, score in rows
        if one != REFUSED and type(written) is int and 0 <= row < size
    ]
    try:
        judgement, _ = play(method.judge(task_of([str(index) for index in range(count)])), answer)
    except MethodError as error:
        off_scale = any(is_outside(score) for _, score in all_rows)
        assert off_scale or all(one == REFUSED for one in stated)
        if off_scale:
            assert error.code == "score_out_of_range"
        return
    if judgement.score_kind == "logit":
        assert api == "infinity"
        assert all(is_finite_number(score) and abs(score) <= 50 for _, score in all_rows)
    else:
        assert not any(is_outside(score) for _, score in all_rows)
    expected = [None] * count
    for number, one in enumerate(stated):
        if one != REFUSED:
            for index, score in one.items():
                kept = score if judgement.score_kind == "logit" else clipped(score)
                expected[number * size + index] = kept
    assert list(judgement.scores) == expected
