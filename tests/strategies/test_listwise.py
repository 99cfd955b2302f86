"""Listwise: where windows start, and what counts of incomplete and missing replies."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import (
    Limited,
    Model,
    always,
    best_first,
    failing,
    in_answer,
    judge,
    number_of,
    numbered,
    play,
    ranked,
    shown_in,
    task_of,
)
from sampling import examples
from secondpass import ConfigurationError, MethodError, Reranker
from secondpass.effects import Left
from secondpass.errors import LLMError, ReplyError
from secondpass.questions import Completion
from secondpass.strategies.listwise import Listwise

DOWN = LLMError("the server failed", "server_error")


def numbers_of(ask):
    """The passages that a round shows, by their numbers."""
    return [number_of(text) for text in shown_in(ask.questions[0].request).values()]


# ---------------------------------------------------------------------- windows

WINDOWS = [
    # candidates, window, stride, where the windows start
    (2, 20, 10, [0]),
    (19, 20, 10, [0]),
    (20, 20, 10, [0]),
    (21, 20, 10, [1, 0]),
    (100, 20, 10, [80, 70, 60, 50, 40, 30, 20, 10, 0]),
    (100, None, 10, [0]),
    (5, 2, None, [3, 2, 1, 0]),
    (5, 3, None, [2, 1, 0]),
    (10, 4, 3, [6, 3, 0]),
    (9, 5, 2, [4, 2, 0]),
    (12, 5, 4, [7, 3, 0]),
]


@pytest.mark.parametrize(("count", "window", "stride", "starts"), WINDOWS)
def test_windows_slide_to_the_top(count, window, stride, starts):
    # An order that is right already is not changed, so windows show where they start.
    texts = numbered(range(count, 0, -1))
    judgement, asks = judge(Listwise(Model(), window=window, stride=stride), texts)
    assert [count - numbers_of(ask)[0] for ask in asks] == starts
    assert all(len(ask.questions) == 1 for ask in asks)
    assert {len(numbers_of(ask)) for ask in asks} <= {min(window or count, count)}
    assert list(judgement.scores) == [(count - index) / count for index in range(count)]
    assert (judgement.unjudged, judgement.issues) == (frozenset(), [])


LEFT = [
    # rounds left before each window; where the windows start; what is passed over
    (lambda asked: 9 - asked, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
    (lambda asked: 100, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
    (lambda asked: 8 - asked, [70, 60, 50, 40, 30, 20, 10, 0], range(90, 100)),
    (lambda asked: 3 - asked, [20, 10, 0], range(40, 100)),
    (lambda asked: 1, [0], range(20, 100)),
    (lambda asked: 0, [0], range(20, 100)),
    # It turns out to be slower than the first window promised.
    (lambda asked: None if asked == 0 else 2 - asked, [80, 0], range(20, 100)),
]


@pytest.mark.parametrize(("rounds", "starts", "passed"), LEFT)
def test_the_last_are_skipped_without_rounds(rounds, starts, passed):
    judgement, asks = judge(Listwise(Model()), numbered(range(100, 0, -1)), rounds=rounds)
    assert [100 - numbers_of(ask)[0] for ask in asks] == starts
    assert judgement.unjudged == set(passed)
    assert {issue.code: issue.positions for issue in judgement.issues} == (
        {"windows_not_joined": tuple(passed)} if passed else {}
    )
    # Those that were judged have the highest ranks, in order.
    judged = [score for score in judgement.scores if score is not None]
    assert judged == [(100 - rank) / 100 for rank in range(100 - len(passed))]


NOT_JOINED = "no unbroken run of answered windows joins these to the top"
WHY_SKIPPED = {
    "time": ({"seconds": 9.0}, "too little time is left"),
    "calls": ({"calls": 9}, "too little of the budget is left"),
    "tokens": ({"tokens": 9.0}, "too little of the budget is left"),
    "cost": ({"cost": 9.0}, "too little of the budget is left"),
    "both": ({"seconds": 9.0, "calls": 9}, "too little time or budget is left"),
}


@pytest.mark.parametrize(("left", "reason"), WHY_SKIPPED.values(), ids=WHY_SKIPPED)
def test_the_issue_says_why_windows_were_skipped(left, reason):
    call = Limited(lambda asked: 3 - asked)
    call.limits_left = lambda: Left(**left)
    task = task_of(numbered(range(100)), call=call)
    judgement, _ = play(Listwise(Model()).judge(task), in_answer(ranked), call)
    (issue,) = judgement.issues
    expected = f"windows were skipped, because {reason}; {NOT_JOINED}"
    assert (issue.code, issue.message) == ("windows_not_joined", expected)


def test_a_window_without_a_reply_was_not_skipped():
    judgement, _ = judge(Listwise(Model()), numbered(range(40)), failing(1))
    assert [issue.message for issue in judgement.issues if issue.code != "server_error"] == [
        NOT_JOINED
    ]


# ---------------------------------------------------------------------- replies


@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
@pytest.mark.parametrize(
    "wrapping", ["permutation", "bare permutation", "keyed", "pairs", "ranked"]
)
def test_reply_formats_and_labels(labels, wrapping):
    key = "index" if labels.startswith("index") else "id"

    def reply(passages):
        order = json.loads(ranked(passages))["ranking"]
        if key == "index":
            order = [int(label) for label in order]
        ranks = {label: index for index, label in enumerate(order, start=1)}
        if wrapping == "ranked":
            return " > ".join(f"[{label}]" for label in order)
        wrapped = {
            "permutation": {"ranking": order},
            "bare permutation": order,
            "keyed": ranks,
            "pairs": {"grades": [{key: label, "rank": ranks[label]} for label in ranks]},
        }
        return json.dumps(wrapped[wrapping])

    bare, name = wrapping.startswith("bare"), wrapping.removeprefix("bare ")
    method = Listwise(Model(), reply=name, labels=labels, bare=bare)
    judgement, asks = judge(method, numbered([3, 9, 5]), reply)
    assert judgement.scores == [1 / 3, 1.0, 2 / 3]
    assert (asks[0].questions[0].request.schema is None) == (bare or name == "ranked")


def leaving_out(*numbers):
    def reply(passages):
        order = json.loads(ranked(passages))["ranking"]
        return json.dumps([one for one in order if number_of(passages[one]) not in numbers])

    return reply


def broken_off(passages):
    return Completion(ranked(passages).rpartition(",")[0] + ', "', cut=True)


ANSWERS = {
    # reply to the only question about 3, 9, 5, 7; order; how many are scored; issues
    "whole": (ranked, (1, 3, 2, 0), 4, {}),
    "two missing": (leaving_out(3, 9), (3, 2, 0, 1), 2, {"not_in_reply": (0, 1)}),
    "broken off": (broken_off, (1, 3, 2, 0), 3, {"not_in_reply": (0,)}),
}


@pytest.mark.parametrize(("reply", "order", "scored", "issues"), ANSWERS.values(), ids=ANSWERS)
def test_incomplete_replies(reply, order, scored, issues):
    reranker = Reranker(Listwise(Model(reply)), log_level="debug")
    ranking = reranker.rerank("q", numbered([3, 9, 5, 7]))
    assert ranking.order == order
    assert [item.status for item in ranking] == ["scored"] * scored + ["backfilled"] * (4 - scored)
    ranks = [(4 - index) / 4 for index in range(scored)]
    assert [item.rerank_score for item in ranking] == ranks + [None] * (4 - scored)
    assert {issue.code: issue.positions for issue in ranking.report.issues} == issues
    assert ranking.report.status == ("ok" if scored == 4 else "partial")


def test_an_unusable_reply_to_the_only_question_is_raised():
    method = Listwise(Model(), reply="keyed", labels="index0")
    with pytest.raises(ReplyError) as caught:
        judge(method, numbered(range(3)), always('{"0": 99, "1": 1}'))
    assert caught.value.code == "score_out_of_range"


def test_a_window_that_does_not_fit_is_not_asked_about():
    with pytest.raises(MethodError, match="fit into the 100 tokens"):
        judge(Listwise(Model(context_window=100)), numbered(range(9)))


def starts_of(count, window, stride, rounds):
    """Where windows start, by the rule in words: back to front, skipping the last if need be."""
    starts = [count - window]
    while True:
        left = rounds[min(len(starts), len(rounds)) - 1]
        if left is not None and starts[-1] > max(0, left - 1) * stride:
            starts[-1] = max(0, left - 1) * stride
        if starts[-1] == 0:
            return starts
        starts.append(max(0, starts[-1] - stride))


@examples(20)
@given(st.data())
def test_unbroken_run_is_scored(data):
    window = data.draw(st.integers(2, 6), "window")
    stride = data.draw(st.integers(1, window - 1), "stride")
    count = data.draw(st.integers(window, 25), "count")
    rounds = data.draw(st.lists(st.none() | st.integers(0, 12), min_size=1), "rounds")
    starts = starts_of(count, window, stride, rounds)
    faults = st.sampled_from(["answered", "answered", "failed", "cut"])
    fate = data.draw(st.lists(faults, min_size=len(starts), max_size=len(starts)), "fate")
    kept = data.draw(st.integers(1, window), "labels before the cut")
    numbers = data.draw(st.permutations(range(count)), "numbers")
    placed = []

    def reply(passages):
        what = fate[len(placed)]
        order = sorted(map(number_of, passages.values()), reverse=True)
        placed.append({"answered": order, "failed": [], "cut": order[:kept]}[what])
        if what == "failed":
            return DOWN
        labels = {number_of(text): label for label, text in passages.items()}
        text = json.dumps({"ranking": [labels[number] for number in placed[-1]]})
        return text if what == "answered" else Completion(text[:-2] + ', "', cut=True)

    def rounds_left(asked):
        return rounds[min(asked, len(rounds) - 1)]

    method = Listwise(Model(), window=window, stride=stride)
    if fate[-1] == "failed":
        with pytest.raises(LLMError, match="the server failed"):
            judge(method, numbered(numbers), reply, rounds_left)
        return
    judgement, asks = judge(method, numbered(numbers), reply, rounds_left)
    assert len(asks) == len(starts)
    run = [len(starts) - 1]
    while run[-1] > 0 and fate[run[-1] - 1] != "failed":
        if starts[run[-1] - 1] - starts[run[-1]] > stride:  # windows between them were skipped
            break
        run.append(run[-1] - 1)
    scored = [numbers[index] for index in best_first(judgement)]
    assert set(scored) == {number for asked in run for number in placed[asked]}
    assert scored[: len(placed[-1])] == placed[-1]
    shown = {number for asked in run for number in numbers_of(asks[asked])}
    assert {numbers[index] for index in judgement.unjudged} == set(range(count)) - shown
    if "failed" not in fate and all(left is None for left in rounds):
        assert "windows_not_joined" not in [issue.code for issue in judgement.issues]


# ---------------------------------------------------------------------- settings

WRONG = [
    ({"window": 1}, "window"),
    ({"stride": 0}, "stride"),
    ({"stride": 20}, "stride: must be smaller than the window"),
    ({"window": 5, "stride": 5}, "stride: must be smaller than the window"),
    ({"reply": "keyed", "bare": True}, "bare: is for arrays"),
    ({"reply": "ranked", "bare": True}, "bare: is for arrays"),
    ({"reply": "list"}, "reply"),
    ({"labels": "letters"}, "labels"),
    ({"scale": (0, 1)}, "scale"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Reranker({"type": "listwise", "llm": Model(), **settings})
