"""Rows of an answer: remarks, numbers and their units."""

import json

import pytest

from reply_cases import FROM_1, NONE, OPAQUE, ROWS, SEVERAL, check, order_of, scores_of
from secondpass.effects import Completion
from secondpass.prompts.replies.json_text import JsonObject
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.selection import number_in

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
    "float": (7.5, (7.5, True)),
    "string": (" 7 ", (7.0, True)),
    "decimal point first": (".5", (0.5, True)),
    "decimal point last": ("5.", (5.0, True)),
    "sign": ("+7", (7.0, True)),
    "exponent": ("7e-1", (0.7, True)),
    "list": ([7], (7, True)),
    "three deep": ([[[7]]], (7, True)),
    "four deep": ([[[[7]]]], (None, False)),
    "two in a list": ([7, 8], (None, False)),
    "value": ({"value": 7}, (7, True)),
    "score": ({"score": 7}, (7, True)),
    "grade": ({"Grade": 7}, (7, True)),
    "rating": ({"rating": 7}, (7, True)),
    "relevance": ({"relevance": 7}, (7, True)),
    "rank": ({"rank": 7}, (None, False)),
    "two numbers": ({"score": 7, "value": 7}, (None, False)),
    "percent": ("70%", (70.0, False)),
    "spaced percent": ("70 %", (70.0, False)),
    "fraction": ("7/10", (7.0, False)),
    "out of": ("7 out of 10", (7.0, False)),
    "of": ("7 of 10", (7.0, False)),
    "point": ("7 point", (7.0, False)),
    "points": ("7 Points", (7.0, False)),
    "pt": ("7pt", (7.0, False)),
    "pts": ("7 pts", (7.0, False)),
    "percent in words": ("7 percent", (7.0, False)),
    "other words": ("7 offers", (None, False)),
    "words before": ("about 7", (None, False)),
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
