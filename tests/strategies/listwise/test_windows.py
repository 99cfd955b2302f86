"""Windows: what is asked, the settings, and the context window."""

import json

import pytest

from fakes import Model, numbered, ranked
from listwise_plans import judge, numbers_of
from secondpass import ConfigurationError, Reranker
from secondpass.strategies.listwise import Listwise

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


@pytest.mark.parametrize(("count", "window", "stride", "starts"), WINDOWS)
def test_windows_slide_to_the_top(count, window, stride, starts):
    # An order that is right already is not changed, so windows show where they start.
    texts = numbered(range(count, 0, -1))
    judgement, asks = judge(Listwise(Model(), window=window, stride=stride), texts)
    assert [count - numbers_of(ask)[0] for ask in asks] == starts
    assert all(len(ask.questions) == 1 for ask in asks)
    assert {len(numbers_of(ask)) for ask in asks} <= {min(window or count, count)}
    assert list(judgement.scores) == [(count - index) / count for index in range(count)]
    assert not judgement.unjudged
    assert not judgement.issues


@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
@pytest.mark.parametrize(
    "wrapping", ["permutation", "bare permutation", "keyed", "pairs", "ranked"]
)
def test_reply_formats_and_labels(labels, wrapping):
    key = "index" if labels.startswith("index") else "id"

    def says(passages):
        best_first = json.loads(ranked(passages))["ranking"]
        if key == "index":
            best_first = [int(label) for label in best_first]
        ranks = {label: index for index, label in enumerate(best_first, start=1)}
        wrapped = {
            "permutation": {"ranking": best_first},
            "bare permutation": best_first,
            "keyed": ranks,
            "ranked": best_first,
            "pairs": {"grades": [{key: label, "rank": ranks[label]} for label in ranks]},
        }
        if wrapping == "ranked":
            return " > ".join(f"[{label}]" for label in best_first)
        return json.dumps(wrapped[wrapping])

    bare, reply = wrapping.startswith("bare"), wrapping.removeprefix("bare ")
    method = Listwise(Model(), reply=reply, labels=labels, bare=bare)
    judgement, asks = judge(method, numbered([3, 9, 5]), says)
    assert judgement.scores == [1 / 3, 1.0, 2 / 3]
    assert (asks[0].questions[0].request.schema is None) == (bare or reply == "ranked")


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


def test_default_stride():
    texts = numbered(range(5, 0, -1))
    _, asks = judge(Listwise(Model(), window=2), texts)
    assert [5 - numbers_of(ask)[0] for ask in asks] == [3, 2, 1, 0]
    _, asks = judge(Listwise(Model(), window=3), texts)
    assert [5 - numbers_of(ask)[0] for ask in asks] == [2, 1, 0]


def keyed_ranks(*ranks):
    def reply(passages):
        return json.dumps(dict(zip(passages, ranks, strict=False)))

    return reply


@pytest.mark.parametrize(
    ("ranks", "scores", "codes"),
    [
        ((2, 1, 3), [2 / 3, 1.0, 1 / 3], []),
        ((1, 0, 2), [2 / 3, 1.0, 1 / 3], []),  # models count from 0 as well
        ((0, 1, 0), [1.0, 1 / 3, 2 / 3], []),
        ((2, 1.5, 3), [1.0, None, 2 / 3], ["rank_refused"]),
        ((1,), [1.0, None, None], ["not_in_reply"]),
    ],
)
def test_ranks(ranks, scores, codes):
    method = Listwise(Model(), reply="keyed")
    judgement, _ = judge(method, numbered([3, 9, 5]), keyed_ranks(*ranks))
    expected = [None if score is None else pytest.approx(score) for score in scores]
    assert list(judgement.scores) == expected
    assert [issue.code for issue in judgement.issues] == codes
    if codes:
        (issue,) = judgement.issues
        assert issue.positions == tuple(
            index for index, score in enumerate(scores) if score is None
        )
        assert issue.method == "listwise by model"


def test_context_window():
    model = Model(ranked, context_window=1200)
    _, asks = judge(Listwise(model), [f"{number} " + "wombat " * 2000 for number in range(3)])
    assert asks[0].questions[0].estimate.tokens <= 1200
