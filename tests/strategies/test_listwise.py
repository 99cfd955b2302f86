"""The listwise strategy: answers are sent into it, then asked of plain functions."""

import asyncio
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import (
    ByTable,
    Model,
    always,
    in_answer,
    number_of,
    numbered,
    play,
    ranked,
    shown_in,
    task_of,
)
from secondpass import ConfigurationError, Reranker, RerankError
from secondpass.effects import Completion
from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.limits import Prices
from secondpass.strategies.listwise import Listwise

DOWN = LLMError("the server failed", "server_error")

WINDOWS = [
    # candidates, window, stride, where the windows start
    (2, 20, 10, [0]),
    (19, 20, 10, [0]),
    (20, 20, 10, [0]),
    (21, 20, 10, [1, 0]),
    (100, 20, 10, [80, 70, 60, 50, 40, 30, 20, 10, 0]),
    (100, None, 10, [0]),
    (5, 2, 1, [3, 2, 1, 0]),
    (10, 4, 3, [6, 3, 0]),
    (9, 5, 2, [4, 2, 0]),
    (12, 5, 4, [7, 3, 0]),
]


def judge(method, texts, reply=ranked, rounds=lambda asked: None):
    return play(method.judge(task_of(texts)), in_answer(reply), rounds)


def numbers_of(ask):
    """The passages that a round shows, by their numbers."""
    return [number_of(text) for text in shown_in(ask.questions[0].request).values()]


def ascending(count):
    """The best is at the back: each window carries it on."""
    return numbered(range(count))


# ---------------------------------------------------------------------- what is asked


@pytest.mark.parametrize(("count", "window", "stride", "starts"), WINDOWS)
def test_windows_slide_to_the_top(count, window, stride, starts):
    # An order that is right already is not changed, so windows show where they start.
    texts = numbered(range(count, 0, -1))
    judgement, asks = judge(Listwise(Model(), window=window, stride=stride), texts)
    assert [count - numbers_of(ask)[0] for ask in asks] == starts
    assert all(len(ask.questions) == 1 for ask in asks)
    assert {len(numbers_of(ask)) for ask in asks} <= {min(window or count, count)}
    assert list(judgement.scores) == [(count - at) / count for at in range(count)]
    assert not judgement.unjudged
    assert not judgement.issues


@pytest.mark.parametrize(("count", "window", "stride", "starts"), WINDOWS)
@pytest.mark.parametrize("mode", ["sync", "async", "async function"])
def test_usage(mode, count, window, stride, starts):
    def function(messages):
        return ranked(shown_in(messages))

    async def coroutine(messages):
        return function(messages)

    llm = coroutine if mode == "async function" else function
    reranker = Reranker({"type": "listwise", "llm": llm, "window": window, "stride": stride})
    texts = numbered(range(count, 0, -1))
    if mode == "sync":
        ranking = reranker.rerank("wombats", texts)
    else:
        ranking = asyncio.run(reranker.arerank("wombats", texts))
    usage = ranking.report.usage
    shown = len(starts) * min(window or count, count)
    assert (usage.calls, usage.rounds, usage.pairs) == (len(starts), len(starts), shown)
    report = ranking.report
    assert (report.status, report.score_kind, report.issues) == ("ok", "rank", ())
    assert ranking.order == tuple(range(count))
    assert [item.rerank_score for item in ranking] == [(count - at) / count for at in range(count)]


def test_best_is_carried_to_the_top():
    ranking = Reranker(Listwise(Model(ranked))).rerank("q", ascending(100))
    # A window carries as many as it has more than its stride.
    assert ranking.order[:10] == tuple(range(99, 89, -1))
    assert sorted(ranking.order) == list(range(100))


def test_one_window():
    numbers = random.Random(7).sample(range(1000), 20)
    ranking = Reranker(Listwise(Model(ranked))).rerank("q", numbered(numbers))
    assert [numbers[at] for at in ranking.order] == sorted(numbers, reverse=True)


def test_single_candidate():
    model = Model(ranked)
    ranking = Reranker(Listwise(model), strict=True).rerank("q", [{"text": "1 wombat", "score": 3}])
    assert model.prompts == []
    report, item = ranking.report, ranking[0]
    assert (report.status, report.method, report.issues) == ("ok", None, ())
    assert (item.status, item.rerank_score, item.final_score) == ("tail", None, 3.0)
    assert report.usage.calls == 0


def test_deterministic():
    first, again = (judge(Listwise(Model()), ascending(45)) for _ in range(2))
    assert first[0] == again[0]
    prompts = [[ask.questions[0].request for ask in asks] for _, asks in (first, again)]
    assert prompts[0] == prompts[1]


@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
@pytest.mark.parametrize(
    "wrapping", ["permutation", "bare permutation", "keyed", "pairs", "ranked"]
)
def test_reply_formats_and_labels(labels, wrapping):
    key = "index" if labels.startswith("index") else "id"

    def says(shown):
        best_first = json.loads(ranked(shown))["ranking"]
        if key == "index":
            best_first = [int(label) for label in best_first]
        ranks = {label: at for at, label in enumerate(best_first, start=1)}
        made = {
            "permutation": {"ranking": best_first},
            "bare permutation": best_first,
            "keyed": ranks,
            "ranked": best_first,
            "pairs": {"grades": [{key: label, "rank": ranks[label]} for label in ranks]},
        }
        if wrapping == "ranked":
            return " > ".join(f"[{label}]" for label in best_first)
        return json.dumps(made[wrapping])

    bare, reply = wrapping.startswith("bare"), wrapping.removeprefix("bare ")
    method = Listwise(Model(), reply=reply, labels=labels, bare=bare)
    judgement, asks = judge(method, numbered([3, 9, 5]), says)
    assert judgement.scores == [1 / 3, 1.0, 2 / 3]
    assert (asks[0].questions[0].request.schema is None) == (bare or reply == "ranked")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_ranked_through_the_reranker(asynchronous):
    def says(messages):
        shown = shown_in(messages)
        best_first = sorted(shown, key=lambda label: -number_of(shown[label]))
        return " > ".join(f"[{label}]" for label in best_first)

    config = {"type": "listwise", "llm": says, "reply": "ranked", "labels": "index1"}
    reranker = Reranker(config)
    texts = numbered([3, 9, 5, 7, 8, 1])
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", texts))
    else:
        ranking = reranker.rerank("q", texts)
    assert ranking.order == (1, 4, 3, 2, 0, 5)
    assert (ranking.report.status, ranking.report.usage.calls) == ("ok", 1)


# ---------------------------------------------------------------------- what comes of answers


def one_after_the_other(replies):
    """Each reply for one question."""

    def reply(shown):
        return next(replies)(shown)

    return reply


def leaving_out(*numbers):
    def reply(shown):
        order = json.loads(ranked(shown))["ranking"]
        return json.dumps([one for one in order if number_of(shown[one]) not in numbers])

    return reply


def changed(change):
    return lambda shown: json.dumps(change(json.loads(ranked(shown))["ranking"]))


ANSWERS = [
    # reply to the only question about 3, 9, 5, 7; order; how many are scored; issues
    ("whole", ranked, (1, 3, 2, 0), 4, {}),
    ("one missing", leaving_out(5), (1, 3, 0, 2), 3, {"not_in_reply": (2,)}),
    ("two missing", leaving_out(3, 9), (3, 2, 0, 1), 2, {"not_in_reply": (0, 1)}),
    ("doubled", changed(lambda order: order + order[::-1]), (1, 3, 2, 0), 4, {"doubled_label": ()}),
    ("unknown", changed(lambda order: ["zzzz", *order, 7]), (1, 3, 2, 0), 4, {"unknown_label": ()}),
    (
        "broken off",
        lambda shown: Completion(ranked(shown).rpartition(",")[0] + ', "', cut=True),
        (1, 3, 2, 0),
        3,
        {"not_in_reply": (0,)},
    ),
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
    ranks = [(4 - at) / 4 for at in range(scored)]
    assert [item.rerank_score for item in ranking] == ranks + [None] * (4 - scored)
    assert {issue.code: issue.positions for issue in ranking.report.issues} == issues
    assert ranking.report.status == ("ok" if scored == 4 else "partial")


def test_tied_ranks_keep_their_order():
    def tied(shown):
        return json.dumps({label: 1 + number_of(text) % 2 for label, text in shown.items()})

    judgement, _ = judge(Listwise(Model(), reply="keyed"), numbered([3, 8, 5, 6]), tied)
    assert judgement.scores == [0.5, 1.0, 0.25, 0.75]


def test_rank_out_of_range():
    def beyond(shown):
        return json.dumps(dict(zip(shown, [1, 99, 2], strict=True)))

    with pytest.raises(ReplyError) as caught:
        judge(Listwise(Model(), reply="keyed"), numbered([3, 9, 5]), beyond)
    assert caught.value.code == "score_out_of_range"


def test_unusable_rank():
    def strange(shown):
        return json.dumps(dict(zip(shown, [1, "high", 2], strict=True)))

    judgement, _ = judge(Listwise(Model(), reply="keyed"), numbered([3, 9, 5]), strange)
    assert judgement.scores == [1.0, None, 2 / 3]
    assert "doubled_label" not in [issue.code for issue in judgement.issues]


def test_another_window_may_score_it():
    # 30 candidates: windows at 10 and 0. The first leaves 25 out, which stays in its place.
    judgement, asks = judge(Listwise(Model()), ascending(30), leaving_out(25))
    assert len(asks) == 2
    assert judgement.scores[25] is None
    assert 25 not in judgement.unjudged
    assert [issue.code for issue in judgement.issues] == ["not_in_reply"]
    # Left out by the second window only, it has the place that the first gave it.
    replies = iter([ranked, leaving_out(25)])
    judgement, _ = judge(Listwise(Model()), ascending(30), one_after_the_other(replies))
    assert judgement.scores[25] is not None


def test_answered_windows_are_used():
    replies = iter([ranked, always(DOWN), ranked])
    judgement, asks = judge(Listwise(Model()), ascending(40), one_after_the_other(replies))
    assert [len(numbers_of(ask)) for ask in asks] == [20, 20, 20]
    # Nothing joins the last window to the top any more.
    behind = (*range(20, 40),)
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [
        ("server_error", (*range(10, 20), *range(30, 40))),
        ("windows_not_joined", behind),
    ]
    assert judgement.unjudged == set(behind)
    best_first = sorted(range(40), key=lambda at: -(judgement.scores[at] or 0))
    assert best_first[:20] == list(range(19, -1, -1))


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


def test_failed_middle_window_ends_the_run():
    # The windows at 4 and 0 share a place, but nothing was compared across the one at 2.
    texts = numbered(range(1, 10))
    method = Listwise(Model([ranked, always(DOWN), ranked]), window=5)
    ranking = Reranker(method, log_level="debug").rerank("q", texts)
    assert [number_of(item.text) for item in ranking] == [9, 4, 3, 2, 1, 5, 6, 7, 8]
    assert [item.status for item in ranking] == ["scored"] * 5 + ["unjudged"] * 4
    assert ranking.report.status == "partial"
    method = Listwise(Model([ranked, always(DOWN), ranked]), window=5)
    with pytest.raises(RerankError, match="windows_not_joined"):
        Reranker(method, strict=True, log_level="debug").rerank("q", texts)


def test_uncounted_window_scores_nothing():
    # 9 comes up from the window at 4, which does not count, and the topmost reply leaves it out.
    replies = iter([ranked, always(DOWN), leaving_out(9)])
    method = Listwise(Model(), window=5)
    judgement, _ = judge(method, numbered(range(1, 10)), one_after_the_other(replies))
    assert [number for number, score in enumerate(judgement.scores, 1) if score] == [1, 2, 3, 4]


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

    def reply(shown):
        what = fate[len(placed)]
        best_first = sorted(map(number_of, shown.values()), reverse=True)
        placed.append({"answered": best_first, "failed": [], "cut": best_first[:kept]}[what])
        if what == "failed":
            return DOWN
        labels = {number_of(text): label for label, text in shown.items()}
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
        (at for at in range(count) if judgement.scores[at] is not None),
        key=lambda at: -judgement.scores[at],
    )
    assert {numbers[at] for at in scored} == {number for asked in run for number in placed[asked]}
    assert [numbers[at] for at in scored][: len(placed[-1])] == placed[-1]
    shown = {number for asked in run for number in numbers_of(asks[asked])}
    assert {numbers[at] for at in judgement.unjudged} == set(range(count)) - shown
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


# ---------------------------------------------------------------------- when not all can be had

LEFT = [
    # rounds left before each window; where the windows start; what is passed over
    (lambda asked: None, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
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
def test_last_are_skipped_without_rounds(rounds, starts, passed):
    texts = numbered(range(100, 0, -1))
    judgement, asks = judge(Listwise(Model()), texts, rounds=rounds)
    assert [100 - numbers_of(ask)[0] for ask in asks] == starts
    assert judgement.unjudged == set(passed)
    codes = [issue.code for issue in judgement.issues]
    assert codes == (["windows_not_joined"] if passed else [])
    # Those that were judged have the highest ranks, in order.
    judged = [at for at in range(100) if at not in passed]
    assert [judgement.scores[at] for at in judged] == [
        (100 - rank) / 100 for rank in range(len(judged))
    ]


def test_nothing_overtakes_a_gap():
    # The first window is asked before anything is known of its speed; then only one more fits in.
    # Those of the first were never compared with any but themselves.
    model = Model(ranked, seconds=0.25)
    reranker = Reranker(Listwise(model), limits={"deadline": 0.65}, log_level="debug")
    ranking = reranker.rerank("q", numbered(range(100, 0, -1)))
    assert len(model.prompts) == 2
    assert ranking.order == tuple(range(100))


def test_only_unjudged_are_reported_skipped():
    texts = numbered(range(100, 0, -1))
    judgement, _ = judge(Listwise(Model()), texts, rounds=lambda asked: 1 if asked else None)
    (issue,) = judgement.issues
    assert set(issue.positions) <= judgement.unjudged


LIMITS = [
    ({"calls": 9}, 9, "ok"),
    ({"calls": 3}, 3, "partial"),
    ({"calls": 1}, 1, "partial"),
]


@pytest.mark.parametrize(("limits", "calls", "status"), LIMITS)
def test_few_calls_reach_the_top(limits, calls, status):
    model = Model(ranked)
    reranker = Reranker(Listwise(model), limits=limits, log_level="debug")
    ranking = reranker.rerank("q", numbered(range(100, 0, -1)))
    assert ranking.report.usage.calls == len(model.prompts) == calls
    assert ranking.report.status == status
    assert ranking[0].rerank_score == 1.0
    scored = 10 + 10 * calls
    assert [item.status for item in ranking] == ["scored"] * scored + ["unjudged"] * (100 - scored)


def test_retries_leave_fewer_windows():
    down = LLMError("busy", "server_error", retryable=True)
    model = Model([always("no idea"), ranked, always(down), ranked])
    reranker = Reranker(Listwise(model), limits={"calls": 3, "repair": 1}, log_level="debug")
    ranking = reranker.rerank("q", numbered(range(40, 0, -1)))
    # 40 candidates take three windows; repairing the first costs the place of the second.
    assert len(model.prompts) == 3
    assert ranking.report.usage.calls == 3


@pytest.mark.parametrize("limit", ["tokens", "cost"])
def test_few_tokens_reach_the_top(limit):
    class Counting(Model):
        async def complete(self, prompt):
            completion = await super().complete(prompt)
            return Completion(completion.text, input_tokens=900, output_tokens=100)

    # A million tokens are a unit of money, so both limits leave room for three windows.
    given = {"tokens": 3500, "cost": 0.0035}
    model = Counting(ranked, prices=Prices(1, 1))
    reranker = Reranker(Listwise(model), limits={limit: given[limit]}, log_level="debug")
    ranking = reranker.rerank("q", numbered(range(100, 0, -1)))
    assert len(model.prompts) == 3
    assert ranking.report.usage.input_tokens == 2700
    assert ranking.report.status == "partial"
    assert [item.status for item in ranking][:20] == ["scored"] * 20
    assert {issue.code for issue in ranking.report.issues} == {"windows_not_joined"}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_short_deadline_reaches_the_top(asynchronous):
    model = Model(ranked, seconds=0.1)
    reranker = Reranker(Listwise(model), limits={"deadline": 0.6}, log_level="debug")
    texts = numbered(range(100, 0, -1))
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", texts))
    else:
        ranking = reranker.rerank("q", texts)
    assert ranking.report.seconds < 0.6 + 0.25
    assert ranking.report.status == "partial"
    assert [item.status for item in ranking][:20] == ["scored"] * 20
    assert len(model.prompts) < 9


# ---------------------------------------------------------------------- settings

WRONG = [
    ({"window": 1}, "window"),
    ({"window": 0}, "window"),
    ({"window": "20"}, "window"),
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


def test_blends_of_ranks():
    with pytest.raises(ConfigurationError):
        Reranker(Listwise(Model()), blend={"original": 0.5, "normalize": "none"})
    Reranker(Listwise(Model()), blend={"original": 0.5, "normalize": "rrf"})


def test_name():
    assert Listwise(Model()).name == "listwise by model"


# ---------------------------------------------------------------------- details


def test_settings_are_kept():
    method = Listwise(Model())
    assert (method.window, method.stride, method.reply) == (20, None, "permutation")
    assert (method.labels, method.bare, method.scale) == ("opaque", False, None)
    assert Listwise(Model(), window=9, stride=4).stride == 4


def test_default_stride():
    texts = numbered(range(5, 0, -1))
    _, asks = judge(Listwise(Model(), window=2), texts)
    assert [5 - numbers_of(ask)[0] for ask in asks] == [3, 2, 1, 0]
    _, asks = judge(Listwise(Model(), window=3), texts)
    assert [5 - numbers_of(ask)[0] for ask in asks] == [2, 1, 0]


@pytest.mark.parametrize("reply", ["keyed", "pairs"])
def test_ranks_are_whole_numbers(reply):
    _, asks = judge(
        Listwise(Model(), reply=reply),
        numbered([3, 9]),
        lambda shown: json.dumps(
            {"grades": [{"id": label, "rank": at} for at, label in enumerate(shown, start=1)]}
        ),
    )
    prompt = asks[0].questions[0].request
    assert '"rank"' in json.dumps(prompt.schema) or reply == "keyed"
    assert '"integer"' in json.dumps(prompt.schema)
    assert "its rank" in prompt.turns[0].text or '"rank": <rank>' in prompt.turns[0].text
    assert "Rank 1 is the best." in prompt.turns[0].text


def keyed_ranks(*ranks):
    def reply(shown):
        return json.dumps(dict(zip(shown, ranks, strict=False)))

    return reply


@pytest.mark.parametrize(
    ("ranks", "scores", "codes"),
    [
        ((2, 1, 3), [2 / 3, 1.0, 1 / 3], []),
        ((1, 0, 2), [2 / 3, 1.0, 1 / 3], []),  # models count from 0 as well
        ((0, 1, 0), [1.0, 1 / 3, 2 / 3], []),
        ((2, 1.5, 3), [1.0, None, 2 / 3], ["rank_refused"]),
        ((2, None, 3), [1.0, None, 2 / 3], ["rank_refused"]),
        ((2, 1), [2 / 3, 1.0, None], ["not_in_reply"]),
        ((1,), [1.0, None, None], ["not_in_reply"]),
    ],
)
def test_ranks(ranks, scores, codes):
    method = Listwise(Model(), reply="keyed")
    judgement, _ = judge(method, numbered([3, 9, 5]), keyed_ranks(*ranks))
    expected = [None if one is None else pytest.approx(one) for one in scores]
    assert list(judgement.scores) == expected
    assert [issue.code for issue in judgement.issues] == codes
    if codes:
        (issue,) = judgement.issues
        assert issue.positions == tuple(at for at, one in enumerate(scores) if one is None)
        assert issue.method == "listwise by model"


@pytest.mark.parametrize("count", [2, 3])
def test_equal_ranks_are_no_order(count):
    method = Listwise(Model(), reply="keyed")
    with pytest.raises(MethodError, match="all documents the same rank"):
        judge(method, numbered(range(count)), keyed_ranks(*[1] * count))


def test_cut_or_unknown_ranks():
    def cut(shown):
        first, second, *_ = shown
        return Completion(f'{{"{first}": 2, "{second}": 1, "', cut=True)

    def strange(shown):
        return json.dumps({"zzz9": 1, **{label: at for at, label in enumerate(shown, 1)}})

    method = Listwise(Model(), reply="keyed")
    judgement, _ = judge(method, numbered([3, 9, 5]), cut)
    (issue,) = judgement.issues
    assert (issue.code, issue.message) == ("not_in_reply", "the reply broke off before them")
    judgement, _ = judge(method, numbered([3, 9, 5]), leaving_out_rank)
    assert judgement.issues[0].message == "the reply leaves them out"
    judgement, _ = judge(method, numbered([3, 9, 5]), strange)
    assert [issue.code for issue in judgement.issues] == ["unknown_label"]


def leaving_out_rank(shown):
    return json.dumps({label: at for at, label in enumerate([*shown][:-1], start=1)})


def test_context_window():
    model = Model(ranked, context_window=1200)
    _, asks = judge(Listwise(model), [f"{number} " + "wombat " * 2000 for number in range(3)])
    assert asks[0].questions[0].estimate.tokens <= 1200
