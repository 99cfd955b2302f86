"""Replies that are incomplete or missing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, Model, always, number_of, numbered, ranked
from listwise_plans import ascending, judge, numbers_of
from sampling import examples
from secondpass import Reranker, RerankError
from secondpass.effects import Completion
from secondpass.errors import LLMError, ReplyError
from secondpass.strategies.listwise import Listwise

DOWN = LLMError("the server failed", "server_error")


def one_after_the_other(replies):
    """Each reply for one question."""

    def reply(passages):
        return next(replies)(passages)

    return reply


def leaving_out(*numbers):
    def reply(passages):
        order = json.loads(ranked(passages))["ranking"]
        return json.dumps([one for one in order if number_of(passages[one]) not in numbers])

    return reply


def changed(change):
    return lambda passages: json.dumps(change(json.loads(ranked(passages))["ranking"]))


def broken_off(passages):
    return Completion(ranked(passages).rpartition(",")[0] + ', "', cut=True)


ANSWERS = [
    # reply to the only question about 3, 9, 5, 7; order; how many are scored; issues
    ("whole", ranked, (1, 3, 2, 0), 4, {}),
    ("one missing", leaving_out(5), (1, 3, 0, 2), 3, {"not_in_reply": (2,)}),
    ("two missing", leaving_out(3, 9), (3, 2, 0, 1), 2, {"not_in_reply": (0, 1)}),
    ("doubled", changed(lambda order: order + order[::-1]), (1, 3, 2, 0), 4, {"doubled_label": ()}),
    ("unknown", changed(lambda order: ["zzzz", *order, 7]), (1, 3, 2, 0), 4, {"unknown_label": ()}),
    ("broken off", broken_off, (1, 3, 2, 0), 3, {"not_in_reply": (0,)}),
]


@pytest.mark.parametrize(
    ("reply", "order", "scored", "issues"),
    [row[1:] for row in ANSWERS],
    ids=[a[0] for a in ANSWERS],
)
def test_incomplete_replies(reply, order, scored, issues):
    ranking = Reranker(Listwise(Model(reply)), log_level="debug").rerank(
        "q", numbered([3, 9, 5, 7])
    )
    assert ranking.order == order
    assert [item.status for item in ranking] == ["scored"] * scored + ["backfilled"] * (4 - scored)
    ranks = [(4 - index) / 4 for index in range(scored)]
    assert [item.rerank_score for item in ranking] == ranks + [None] * (4 - scored)
    assert {issue.code: issue.positions for issue in ranking.report.issues} == issues
    assert ranking.report.status == ("ok" if scored == 4 else "partial")


def test_rank_out_of_range():
    def beyond(passages):
        return json.dumps(dict(zip(passages, [1, 99, 2], strict=True)))

    with pytest.raises(ReplyError) as caught:
        judge(Listwise(Model(), reply="keyed"), numbered([3, 9, 5]), beyond)
    assert caught.value.code == "score_out_of_range"


def test_failed_window_is_unjudged():
    replies = iter([always(DOWN), ranked])
    judgement, _ = judge(Listwise(Model()), ascending(30), one_after_the_other(replies))
    assert judgement.unjudged == set(range(20, 30))
    ranking = Reranker(Listwise(Model([always(DOWN), ranked])), log_level="debug").rerank(
        "q", ascending(30)
    )
    assert ranking.order == (*range(19, -1, -1), *range(20, 30))
    assert [item.status for item in ranking] == ["scored"] * 20 + ["unjudged"] * 10
    assert ranking.report.status == "partial"


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
        best_first = sorted(map(number_of, passages.values()), reverse=True)
        placed.append({"answered": best_first, "failed": [], "cut": best_first[:kept]}[what])
        if what == "failed":
            return DOWN
        labels = {number_of(text): label for label, text in passages.items()}
        order = json.dumps({"ranking": [labels[number] for number in placed[-1]]})
        return order if what == "answered" else Completion(order[:-2] + ', "', cut=True)

    method = Listwise(Model(), window=window, stride=stride)

    def rounds_left(asked):
        return rounds[min(asked, len(rounds) - 1)]

    if fate[-1] == "failed":
        with pytest.raises(LLMError):
            judge(method, numbered(numbers), reply, rounds_left)
        return
    judgement, asks = judge(method, numbered(numbers), reply, rounds_left)
    assert len(asks) == len(starts)
    run = [len(starts) - 1]
    while run[-1] > 0 and fate[run[-1] - 1] != "failed":
        if starts[run[-1] - 1] - starts[run[-1]] > stride:  # windows between them were skipped
            break
        run.append(run[-1] - 1)
    scored = sorted(
        (index for index in range(count) if judgement.scores[index] is not None),
        key=lambda index: -judgement.scores[index],
    )
    assert {numbers[index] for index in scored} == {
        number for asked in run for number in placed[asked]
    }
    assert [numbers[index] for index in scored][: len(placed[-1])] == placed[-1]
    shown = {number for asked in run for number in numbers_of(asks[asked])}
    assert {numbers[index] for index in judgement.unjudged} == set(range(count)) - shown
    if "failed" not in fate and all(left is None for left in rounds):
        assert "windows_not_joined" not in [issue.code for issue in judgement.issues]


def test_topmost_window_fails():
    replies = iter([ranked, always(DOWN)])
    with pytest.raises(LLMError, match="the server failed"):
        judge(Listwise(Model()), ascending(30), one_after_the_other(replies))
    model = Model([ranked, always(DOWN)])
    plain = Reranker(Listwise(model), log_level="debug").rerank("q", ascending(30))
    assert (plain.report.status, plain.order) == ("unchanged", tuple(range(30)))
    assert plain.report.issues[0].code == "server_error"
    assert plain.report.usage.calls == 2
    model = Model([ranked, always(DOWN)])
    fallback = ByTable({text: float(number_of(text)) for text in ascending(30)})
    helped = Reranker(Listwise(model), fallback=[fallback], log_level="debug")
    ranking = helped.rerank("q", ascending(30))
    assert (ranking.report.status, ranking.report.method) == ("degraded", "by-table")
    assert ranking.order == tuple(range(29, -1, -1))
    model = Model([ranked, always(DOWN)])
    with pytest.raises(RerankError, match="server_error"):
        Reranker(Listwise(model), strict=True, log_level="debug").rerank("q", ascending(30))
