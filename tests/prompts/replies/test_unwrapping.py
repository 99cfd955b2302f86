"""Answers in objects: which keys count as wrappers, and what their numbers mean."""

import json

import pytest

from reply_cases import NONE, OPAQUE, check, order_of, scores_of
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.replies.numbers import read_scores

SCORE_KEYS = ["grades", "ratings", "relevance", "scores"]
RANK_KEYS = [
    *("order", "ordered", "permutation", "ranked", "ranking", "rankings", "ranks", "reranked"),
    "sorted",
]
OTHER_KEYS = [
    *("answer", "answers", "arguments", "content", "data", "docs", "documents", "final"),
    *("final_answer", "ids", "indices", "input", "items", "json", "list", "message", "output"),
    *("parameters", "passages", "payload", "reply", "response", "result", "results"),
]
KEYED = {"k4t": 1, "b2c": 3, "z9x": 2}
ROWS = [{"id": label, "score": number} for label, number in KEYED.items()]


def ranks_of(value):
    return read_scores(Completion(json.dumps(value)), OPAQUE, 0, 3, word="rank").values


@pytest.mark.parametrize("key", [*SCORE_KEYS, *RANK_KEYS, *OTHER_KEYS])
@pytest.mark.parametrize("change", [str, str.upper])
def test_wrappers(key, change):
    labels = ["b2c", "z9x", "k4t"]
    check(lambda: order_of(json.dumps({change(key): labels})), (1, 2, 0))
    check(lambda: scores_of(json.dumps({change(key): ROWS})), (1, 3, 2))
    keyed = json.dumps({change(key): KEYED})
    check(lambda: scores_of(keyed), NONE if key in RANK_KEYS else (1, 3, 2))
    if key in SCORE_KEYS:
        with pytest.raises(ReplyError):
            ranks_of({change(key): KEYED})
    else:
        assert ranks_of({change(key): KEYED}) == (1, 3, 2)


@pytest.mark.parametrize("key", ["ranks", *SCORE_KEYS])
def test_numbers_of_a_wrapper_are_no_labels(key):
    labels = type(OPAQUE)(["1", "2", "3"], 1)
    check(lambda: order_of(json.dumps({key: [2, 1, 3]}), labels), NONE)
    check(lambda: order_of(json.dumps({"result": {key: [2, 1, 3]}}), labels), NONE)
    check(lambda: order_of(json.dumps({key: {"result": [2, 1, 3]}}), labels), NONE)


SCORE_DEPTHS = {
    "two": ({"data": {"grades": KEYED}}, (1, 3, 2)),
    "three": ({"data": {"answer": {"grades": KEYED}}}, (1, 3, 2)),
    "four": ({"data": {"answer": {"result": {"grades": KEYED}}}}, NONE),
    "three of rows": ({"data": {"answer": {"grades": ROWS}}}, (1, 3, 2)),
    "ranks around scores": ({"ranking": {"scores": KEYED}}, NONE),
    "scores in ranks, named": ({"ranking": {"scores": ROWS}}, (1, 3, 2)),
    "rows by label in ranks": ({"ranking": [{"k4t": 1}, {"b2c": 3}]}, NONE),
    "another wrapper beside": ({"result": ROWS[:1], "grades": KEYED}, (1, 3, 2)),
    "row in a wrapper": ({"result": {"id": "k4t", "score": 1}}, (1, None, None)),
}


@pytest.mark.parametrize(("value", "expected"), SCORE_DEPTHS.values(), ids=SCORE_DEPTHS)
def test_depth_of_scores(value, expected):
    check(lambda: scores_of(json.dumps(value)), expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"grades": 3, "b2c": 9}', (3, 9)),
        ('{"grades": 3, "zzz": 4}', (3, None)),
        ('{"grades": {"grades": 3, "b2c": 9}}', (3, 9)),
        ('{"grades": [{"id": "grades", "score": 3}, {"id": "b2c", "score": 9}]}', (3, 9)),
    ],
)
def test_label_that_is_a_wrapper(reply, expected):
    labels = type(OPAQUE)(["grades", "b2c"], None)
    check(lambda: scores_of(reply, labels), expected)
