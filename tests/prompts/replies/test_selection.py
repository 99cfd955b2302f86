"""Selecting the answer of a reply, its rows, and the objects around them."""

import json

import pytest

from reply_cases import (
    BROKEN,
    FROM_1,
    NONE,
    OPAQUE,
    ROWS,
    SEVERAL,
    VALUES,
    G,
    check,
    order_of,
    scores_of,
)
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.json_text import JsonObject
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.selection import number_in
from secondpass.questions import Completion

INDICES = '{"1": 3, "2": 9, "3": 5}'

BESIDE = {
    "a label in square brackets": (" [b2c: see above]", VALUES),
    "two labels in one pair": (" [k4t: a, b2c: b oops]", BROKEN),
    "two labels in two pairs": (" [k4t: a b] [b2c: b c]", VALUES),
    "a label among words": (" [the b2c: above k4t: x y]", VALUES),
    "a label behind the brackets": (" [b2c: see above]. k4t: good", VALUES),
    "a label in braces": (" {b2c: see above}", BROKEN),
    "a label among words in braces": (" {see b2c: above}", BROKEN),
    "words in braces": (" {see below: above}", VALUES),
    "many pieces": (" {" + "x:" * 4998 + "}", VALUES),
    "too many pieces": (" {" + "x:" * 4999 + "}", BROKEN),
    "an unclosed bracket": ("\n[k4t is, b2c", BROKEN),
}


@pytest.mark.parametrize(("rest", "expected"), BESIDE.values(), ids=BESIDE)
def test_unread_brackets_behind(rest, expected):
    check(lambda: scores_of(G + rest), expected)


BESIDE_INDICES = {
    "the next index in braces": (" {see 4: x y}", BROKEN),
    "the one before in braces": (" {see 0: x y}", BROKEN),
    "another index in braces": (" {see 5: x y}", VALUES),
    "the next index in prose": (" [4: x y, 2: z w]", VALUES),
}


@pytest.mark.parametrize(("rest", "expected"), BESIDE_INDICES.values(), ids=BESIDE_INDICES)
def test_indices_in_unread_brackets(rest, expected):
    check(lambda: scores_of(INDICES + rest, FROM_1), expected)


def test_the_only_label_in_unread_brackets():
    single = Labels(["1"], 1)
    check(lambda: scores_of('{"1": 3} [1: x y]', single), BROKEN)
    check(lambda: scores_of('{"1": 3} [2: x y]', single), (3,))


# A single number in brackets is an order where nothing else stands beside it.
ALONE = {
    "alone": ("[2]", (1,)),
    "far behind": (" " * 50 + "[2]", (1,)),
    "too far behind": (" " * 51 + "[2]", NONE),
    "fenced": ("```json\n[2]\n```", (1,)),
    "fenced in capitals": ("```JSON\n[2]\n```", (1,)),
    "words before": ("It is [2]", NONE),
    "words behind": ("[2] is it", NONE),
    "words on the next line": ("[2]\nis it", (1,)),
    "brackets on the next line": ("[2]\nnot [x y: 3]", NONE),
}


@pytest.mark.parametrize(("reply", "expected"), ALONE.values(), ids=ALONE)
def test_numbers_in_prose(reply, expected):
    check(lambda: order_of(reply, FROM_1), expected)


# ---------------------------------------------------------------------- rows


REMARKS = [
    *("why", "reason", "reasons", "reasoning", "explanation", "justification", "rationale"),
    *("comment", "note", "notes", "title", "text", "passage", "document", "content"),
    *("summary", "snippet", "name", "description"),
]
LOW_IS_GOOD = [
    *("rank", "ranking", "position", "pos", "place", "placement", "order", "number", "no"),
    *("index", "tier", "distance", "cost", "#"),
]


@pytest.mark.parametrize("key", [*REMARKS, "Why"])
def test_remarks_are_no_members(key):
    rows = [{"id": "b2c", key: "it digs"}, {"id": "k4t", key: "so does it"}]
    check(lambda: order_of(json.dumps(rows)), (1, 0))
    check(lambda: scores_of(json.dumps({"k4t": {"score": 3, key: "it digs"}})), (3, None, None))


@pytest.mark.parametrize("key", LOW_IS_GOOD)
@pytest.mark.parametrize("form", ["{}", "final_{}", "{}Value"])
def test_falling_ranks_are_no_order(key, form):
    rows = [{"id": "b2c", form.format(key): 2}, {"id": "k4t", form.format(key): 1}]
    check(lambda: order_of(json.dumps(rows)), ROWS)


NUMBERS = {
    "integer": (7, (7, True)),
    "string": (" 7 ", (7.0, True)),
    "decimal point first": (".5", (0.5, True)),
    "decimal point last": ("5.", (5.0, True)),
    "exponent": ("7e-1", (0.7, True)),
    "list": ([7], (7, True)),
    "three deep": ([[[7]]], (7, True)),
    "four deep": ([[[[7]]]], (None, False)),
    "two in a list": ([7, 8], (None, False)),
    "value": ({"value": 7}, (7, True)),
    "score": ({"score": 7}, (7, True)),
    "grade": ({"Grade": 7}, (7, True)),
    "relevance": ({"relevance": 7}, (7, True)),
    "rank": ({"rank": 7}, (None, False)),
    "two numbers": ({"score": 7, "value": 7}, (None, False)),
    "percent": ("70%", (70.0, False)),
    "fraction": ("7/10", (7.0, False)),
    "out of": ("7 out of 10", (7.0, False)),
    "points": ("7 Points", (7.0, False)),
    "percent in words": ("7 percent", (7.0, False)),
    "other words": ("7 offers", (None, False)),
    "other digits": ("\uff17", (None, False)),
    "too large": ("9e999", (None, False)),
    "infinite": (float("inf"), (None, False)),
    "boolean": (True, (None, False)),
    "null": (None, (None, False)),
}


@pytest.mark.parametrize(("value", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_number(value, expected):
    if isinstance(value, dict):
        value = JsonObject(list(value.items()))
    assert number_in(value) == expected


def test_rank_in_an_object():
    assert number_in(JsonObject([("rank", 2)]), "rank") == (2, True)
    assert number_in(JsonObject([("grade", 2)]), "rank") == (None, False)


JOINED = {
    "spaces": ('{"id": "b2c"}   {"id": "k4t"}', (1, 0)),
    "semicolons": ('{"id": "b2c"}; {"id": "k4t"}', (1, 0)),
    "bullets": ('- {"id": "b2c"}\n- {"id": "k4t"}', (1, 0)),
    "stars": ('* {"id": "b2c"}\n* {"id": "k4t"}', (1, 0)),
    "words between": ('{"id": "b2c"} then {"id": "k4t"}', NONE),
    "one twice": ('{"id": "b2c"}\n{"id": "k4t"}\n{"id": "B2C"}', NONE),
    "an order behind": ('{"id": "b2c"}\n{"id": "k4t"}\n["k4t", "b2c"]', SEVERAL),
    "strings with commas": ('"b2c",\n"k4t"', (1, 0)),
    "one string": ('"b2c"', NONE),
    "strings, one twice": ('"b2c"\n"k4t"\n"b2c"', NONE),
    "strings and a number": ('"b2c"\n"k4t\n5', NONE),
    "no label in any of two": (
        '{"id": ["b2c", "z9x"]}\n{"id": ["z9x", "b2c"]}\n{"id": "k4t"}',
        NONE,
    ),
    "strings, fenced": ('```\n"b2c"\n"k4t"\n```', (1, 0)),
}


@pytest.mark.parametrize(("reply", "expected"), JOINED.values(), ids=JOINED)
def test_joined_rows(reply, expected):
    check(lambda: order_of(reply), expected)


def test_label_in_an_array_or_object():
    rows = [{"id": ["b2c"]}, {"id": {"index": "k4t"}}, {"id": {"name": "z9x"}}]
    check(lambda: order_of(json.dumps(rows)), (1, 0))


def test_rows_with_two_labels():
    for other in ('{"id": 2, "index": 2}', '{"id": 2}'):
        check(lambda other=other: order_of(f'[{{"id": 1, "index": 3}}, {other}]', FROM_1), ROWS)
    check(lambda: order_of('[{"id": "b2c", "id": "k4t"}, {"id": "z9x"}]'), ROWS)
    reply = '[{"id": "k4t", "id": "b2c", "score": 3}, {"id": "z9x", "score": 5}]'
    assert read_scores(Completion(reply), OPAQUE, 0, 10).refused == (0, 1)


def test_depth_of_a_label():
    check(lambda: order_of('[{"id": [["b2c"]]}, {"id": "k4t"}]'), (1, 0))
    check(lambda: order_of('[{"id": [[["b2c"]]]}, {"id": "k4t"}]'), (0,))


# ---------------------------------------------------------------------- objects around rows


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
LISTED = [{"id": label, "score": number} for label, number in KEYED.items()]


def ranks_of(value):
    return read_scores(Completion(json.dumps(value)), OPAQUE, 0, 3, word="rank").values


@pytest.mark.parametrize("key", [*SCORE_KEYS, *RANK_KEYS, *OTHER_KEYS])
@pytest.mark.parametrize("change", [str, str.upper])
def test_wrappers(key, change):
    labels = ["b2c", "z9x", "k4t"]
    check(lambda: order_of(json.dumps({change(key): labels})), (1, 2, 0))
    check(lambda: scores_of(json.dumps({change(key): LISTED})), (1, 3, 2))
    keyed = json.dumps({change(key): KEYED})
    check(lambda: scores_of(keyed), NONE if key in RANK_KEYS else (1, 3, 2))
    if key in SCORE_KEYS:
        with pytest.raises(ReplyError):
            ranks_of({change(key): KEYED})
    else:
        assert ranks_of({change(key): KEYED}) == (1, 3, 2)


@pytest.mark.parametrize("key", ["ranks", *SCORE_KEYS])
def test_numbers_of_a_wrapper_are_no_labels(key):
    labels = Labels(["1", "2", "3"], 1)
    check(lambda: order_of(json.dumps({key: [2, 1, 3]}), labels), NONE)
    check(lambda: order_of(json.dumps({"result": {key: [2, 1, 3]}}), labels), NONE)
    check(lambda: order_of(json.dumps({key: {"result": [2, 1, 3]}}), labels), NONE)


SCORE_DEPTHS = {
    "two": ({"data": {"grades": KEYED}}, (1, 3, 2)),
    "three": ({"data": {"answer": {"grades": KEYED}}}, (1, 3, 2)),
    "four": ({"data": {"answer": {"result": {"grades": KEYED}}}}, NONE),
    "three of rows": ({"data": {"answer": {"grades": LISTED}}}, (1, 3, 2)),
    "ranks around scores": ({"ranking": {"scores": KEYED}}, NONE),
    "scores in ranks, named": ({"ranking": {"scores": LISTED}}, (1, 3, 2)),
    "rows by label in ranks": ({"ranking": [{"k4t": 1}, {"b2c": 3}]}, NONE),
    "another wrapper beside": ({"result": LISTED[:1], "grades": KEYED}, (1, 3, 2)),
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
    labels = Labels(["grades", "b2c"], None)
    check(lambda: scores_of(reply, labels), expected)
