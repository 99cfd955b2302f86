"""Replies of models, with what a reader makes of them: a value, or the message of its error."""

import json
import time

import pytest

from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.questions import Completion

OPAQUE = Labels(["k4t", "b2c", "z9x"], None)
FROM_0 = Labels(["0", "1", "2"], 0)
FROM_1 = Labels(["1", "2", "3"], 1)
IDS = Labels(["doc 1", "a&quot;b", "Ünïcode"], None)


EMPTY = "it is empty"
NONE = "it holds no JSON value of the form that was asked for"
SEVERAL = "it holds more than one JSON value of the form that was asked for"
DEEP = "it is nested too deeply"
THINKING = "it ends in the middle of thinking"
HIDDEN = "it holds another answer, which may be a part of its thinking"
BASE_1 = "its numbers do not count from 1"
BASE_0 = "its numbers do not count from 0"
RANGE = "none of its numbers is one from 0 to 10"
SCALE = "it has a score outside the range from 0 to 10"
UNIT = "it has a score with a unit or a scale of its own"
ROWS = "its rows have numbers that do not fall along the list"
STRANGE = "it has more labels that were not shown than were shown"
BROKEN = "it holds another answer, which cannot be read"
DRAFT = "it broke off, and its answer may be a draft"
OPEN = "it broke off in a bracket behind its answer, which may begin another"

G = '{"k4t": 3, "b2c": 9, "z9x": 5}'
VALUES = (3, 9, 5)

SCORES = {
    "bare": (G, VALUES),
    "prose around": (f"Sure! {G}\nLet me know if you need 5 more.", VALUES),
    "prose with brackets": (f"Using the scale [of grades] {G}", VALUES),
    "code fence": (f"```json\n{G}\n```", VALUES),
    "think block": (f"<think>k4t is 1, or {{}}?</think>{G}", VALUES),
    "think block with a draft": ('<think>{"k4t": 1, "b2c": 1}</think>' + G, VALUES),
    "think block that only ends": (f"first k4t...</think>\n{G}", VALUES),
    "think block that does not end": (f"<think>hm {G}", THINKING),
    "think block and nothing": ("<think>hm</think>", EMPTY),
    "white space": (f"\n\n  {G}  \n", VALUES),
    "byte order mark": (f"\ufeff{G}", VALUES),
    "wrapped with words beside": (f'{{"note": "ok", "grades": {G}}}', VALUES),
    "wrapped under another key with words beside": (
        f'{{"note": "ok", "scores": {G}}}',
        VALUES,
    ),
    "wrapped twice": (f'{{"a": {{"b": {G}}}}}', NONE),
    "wrapped in irrelevant ones": (f'{{"irrelevant": {{"grades": {G}}}}}', NONE),
    "wrapped among others": (f'{{"a": {G}, "b": [1]}}', NONE),
    "floats": ('{"k4t": 3.0, "b2c": 9e0, "z9x": 0.5e1}', VALUES),
    "no reply": ("", EMPTY),
    "white space alone": (" \n\t", EMPTY),
    "prose": ("The second document is best, I would give it 9.", NONE),
    "labels in prose": ("k4t: 3, b2c: 9, z9x: 5", NONE),
    "a numbered list": ("1. b2c (9)\n2. z9x (5)\n3. k4t (3)", NONE),
    "an error text with digits": ("Error 429: try again in 3 seconds", NONE),
    "an error object": ('{"error": {"code": 429, "message": "k4t"}}', NONE),
    "HTML": ("<html><body>{} 502 Bad Gateway</body></html>", NONE),
    "a string": ('"k4t"', NONE),
    "JSON in a string in an object": (json.dumps({"result": G}), VALUES),
    "an empty object": ("{}", NONE),
    "an empty array": ("[]", NONE),
    "an array of numbers": ("[3, 9, 5]", NONE),
    "an order": ('{"ranking": ["b2c", "z9x", "k4t"]}', NONE),
    "single quotes": ("{'k4t': 3, 'b2c': 9, 'z9x': 5}", NONE),
    "a missing comma": ('{"k4t": 3 "b2c": 9, "z9x": 5}', NONE),
    "a trailing comma": ('{"k4t": 3, "b2c": 9, "z9x": 5,}', NONE),
    "raw control characters": ('{"k4t":\x0b3, "b2c\t": 9, "z9x\n": 5}', VALUES),
    "an object that does not close": (f'{{"grades": {G}', NONE),
    "objects that do not close": (f'{{draft: {G}, final: {{"k4t": 9', NONE),
    "comments": ('{"k4t": 3, // the burrow\n "b2c": 9, "z9x": 5}', NONE),
    "a row in a comment": ('{"k4t": 3, // "b2c": 9,\n "z9x": 5}', NONE),
    "a comment after": (f"{G} // by relevance", VALUES),
    "an ellipsis": ('{"k4t": 3, ...}', NONE),
    "broken inside, whole within": ('{"x": oops, "grades": {"k4t": 3}}', NONE),
    "broken off": ('{"k4t": 3, "b2c": 9, "z9', NONE),
    "broken, then whole": (f"{{k4t: 1}} {G}", BROKEN),
    "whole, then broken": (f'{G} {{"k4t": 1, "b2c": "9, "z9x": 5}}', BROKEN),
    "whole, then broken off": (f'{G}\nNo: {{"k4t": 1,', BROKEN),
    "more unknown than shown": ('{"k4t": 3, "q1q": 1, "q2q": 2, "q3q": 0, "q4q": 0}', STRANGE),
    "as many unknown as shown": ('{"k4t": 3, "q1q": 1, "q2q": 2, "q3q": 0}', (3, None, None)),
    "a row in a line": ('{"k4t": 3}\n{"b2c": 9}\n{"z9x": 5}', VALUES),
    "a row in a line, with commas": ('{"k4t": 3},\n{"b2c": 9},\n{"z9x": 5}', VALUES),
    "a row in a line, one twice": ('{"k4t": 3}\n{"b2c": 9}\n{"k4t": 3}', SEVERAL),
    "a row in a line, one broken": ('{"k4t" 3}\n{"b2c": 9}\n{"z9x": 5}', BROKEN),
    "rows with words between": ('{"k4t": 3}\nor {"b2c": 9}', SEVERAL),
    "a row in a line, with ids": (
        '{"id": "k4t", "score": 3}\n{"id": "b2c", "score": 9}',
        (3, 9, None),
    ),
    "labels in objects": ('[{"id": {"id": "k4t"}, "score": 3}]', (3, None, None)),
    "numbers in objects": ('{"k4t": {"value": 3}, "b2c": {"score": 9, "why": "x"}}', (3, 9, None)),
    "percentages": ('{"k4t": "95%", "b2c": 9}', SCALE),
    "fractions": ('{"k4t": "7/10", "b2c": 9}', UNIT),
    "a rounding error": ('{"k4t": 10.00005, "b2c": -0.00005}', (10, 0, None)),
    "just more than that": ('{"k4t": 10.0002, "b2c": 9}', SCALE),
    "twice the same": (f"{G}\n{G}", VALUES),
    "two that differ": (f'{G}\n{{"k4t": 4, "b2c": 9, "z9x": 5}}', SEVERAL),
    "a part and a whole": (f'{{"k4t": 3}} {G}', SEVERAL),
    "an object that grades nothing, then it": (f'{{"note": 1}} {G}', VALUES),
    "one missing": ('{"k4t": 3, "z9x": 5}', (3, None, 5)),
    "one unknown": ('{"k4t": 3, "b2c": 9, "z9x": 5, "q7q": 10}', VALUES),
    "unknown only": ('{"q7q": 3, "k4": 9}', NONE),
    "the same twice in one": ('{"k4t": 3, "k4t": 3, "b2c": 9, "z9x": 5}', VALUES),
    "twice with other values": ('{"k4t": 3, "k4t": 7, "b2c": 9}', (None, 9, None)),
    "twice, once refused": ('{"k4t": "3", "K4T": 3, "b2c": 9}', (3, 9, None)),
    "three times": ('{"k4t": 3, "K4t": 7, "K4T": 3, "b2c": 9}', (None, 9, None)),
    "NaN": ('{"k4t": NaN, "b2c": 9, "z9x": 5}', (None, 9, 5)),
    "huge": ('{"k4t": 1e999, "b2c": 1' + "0" * 5000 + ', "z9x": 5}', SCALE),
    "huge and negative": ('{"k4t": -1' + "0" * 5000 + ', "z9x": 5}', SCALE),
    "beyond floats": ('{"k4t": 1e999, "b2c": -1e999, "z9x": 5}', (None, None, 5)),
    "negative": ('{"k4t": -1, "b2c": 9, "z9x": -0.01}', SCALE),
    "negative nought": ('{"k4t": -0.0, "b2c": 9, "z9x": 5}', (0, 9, 5)),
    "one of them on the scale": ('{"k4t": 95, "b2c": 80, "z9x": 7}', SCALE),
    "booleans": ('{"k4t": true, "b2c": 9, "z9x": false}', (None, 9, None)),
    "strings": ('{"k4t": "3", "b2c": 9, "z9x": "high"}', (3, 9, None)),
    "all words": ('{"k4t": "low", "b2c": "high"}', RANGE),
    "nulls": ('{"k4t": null, "b2c": 9, "z9x": null}', (None, 9, None)),
    "unicode digits in numbers": ('{"k4t": \uff13, "b2c": 9}', NONE),
    "unicode digits in labels": ('{"k\uff14t": 3, "b2c": 9}', (None, 9, None)),
    "deeply nested": ("[" * 100_000, DEEP),
    "deeply nested objects": ('{"k4t":' * 50_000, DEEP),
    "deep, but a value": ('{"k4t": ' + "[" * 200 + "]" * 200 + ', "b2c": 9}', (None, 9, None)),
    "null characters": (f"\x00{G}\x00", VALUES),
    "lone surrogates": ("\ud800" + G, VALUES),
    "escaped labels": ('{"\\u006b4t": 3, "b2c": 9, "z9x": 5}', VALUES),
    "an array of objects": ('[{"id": "k4t", "score": 3}, {"id": "b2c", "score": 9}]', (3, 9, None)),
    "objects under a key": ('{"grades": [{"id": "k4t", "score": 3}]}', (3, None, None)),
    "objects with index": ('[{"index": "k4t", "score": 3}]', (3, None, None)),
    "objects without a number": ('[{"id": "k4t"}, {"id": "b2c", "score": 9}]', (None, 9, None)),
    "objects of another word": ('[{"id": "k4t", "rating": 3}]', NONE),
    "an object for an array": ('{"id": "k4t", "score": 3}', (3, None, None)),
    "objects by label": ('[{"k4t": 3}, {"b2c": 9}]', (3, 9, None)),
    "a row with two ids": (
        '[{"id": "k4t", "id": "b2c", "score": 3}, {"id": "z9x", "score": 5}]',
        (None, None, 5),
    ),
    "a row with two scores": (
        '[{"id": "k4t", "score": 3, "score": 4}, {"id": "b2c", "score": 9}]',
        (None, 9, None),
    ),
    "an object of ranks": ('{"ranks": {"k4t": 1, "b2c": 2}}', NONE),
    "nested ranks": ('{"k4t": {"rank": 1}, "b2c": {"rank": 2}}', RANGE),
    "scores under a key of orders": ('{"ranking": [{"id": "k4t", "score": 3}]}', (3, None, None)),
    "two answers, one in the other": ('{"k4t": 1, "grades": {"k4t": 9, "b2c": 3}}', NONE),
    "objects that contradict": ('[{"id": "k4t", "score": 3}, {"id": "k4t", "score": 4}]', RANGE),
}
"""Reply, and the scores of ``OPAQUE`` on a scale from 0 to 10."""

O = '{"ranking": ["b2c", "z9x", "k4t"]}'  # noqa: E741
ORDER = (1, 2, 0)

ORDERS = {
    "bare": (O, ORDER),
    "an array": ('["b2c", "z9x", "k4t"]', ORDER),
    "another key": ('{"order": ["b2c", "z9x", "k4t"]}', ORDER),
    "its key among others": ('{"ids": ["k4t", "b2c"], "ranking": ["b2c", "k4t"]}', (1, 0)),
    "other keys only": ('{"a": ["k4t", "b2c"], "b": ["b2c", "k4t"]}', NONE),
    "its key holds no array": ('{"ranking": "b2c > k4t", "ids": ["k4t"]}', NONE),
    "its key twice": ('{"ranking": ["k4t"], "ranking": ["b2c"]}', NONE),
    "its key twice alike": ('{"ranking": ["k4t"], "ranking": ["k4t"]}', (0,)),
    "objects with id": ('[{"id": "b2c"}, {"id": "k4t"}]', (1, 0)),
    "objects with id and a number": ('[{"id": "b2c", "rank": 2}, {"id": "k4t", "rank": 1}]', ROWS),
    "numbers that fall": ('[{"id": "b2c", "score": 9}, {"id": "k4t", "score": "8"}]', (1, 0)),
    "numbers that rise": ('[{"id": "b2c", "score": 1}, {"id": "k4t", "score": 2}]', ROWS),
    "numbers that tie": ('[{"id": "b2c", "score": 2}, {"id": "k4t", "score": 2}]', ROWS),
    "ranks of another name": ('[{"id": "b2c", "newRank": 2}, {"id": "k4t", "newRank": 1}]', ROWS),
    "distances": ('[{"id": "b2c", "distance": 2}, {"id": "k4t", "distance": 1}]', ROWS),
    "ranks that fall, called scores": (
        '[{"id": "b2c", "score": {"rank": 2}}, {"id": "k4t", "score": {"rank": 1}}]',
        ROWS,
    ),
    "ranks that rise": ('[{"id": "b2c", "rank": 1}, {"id": "k4t", "rank": 2}]', ROWS),
    "some without": ('[{"id": "b2c", "score": 9}, {"id": "k4t"}]', ROWS),
    "some labels alone": ('[{"id": "b2c", "score": 9}, "k4t"]', ROWS),
    "true": ('[{"id": "b2c", "score": true}, {"id": "k4t", "score": true}]', ROWS),
    "two numbers": (
        '[{"id": "b2c", "rank": 1, "score": 9}, {"id": "k4t", "rank": 2, "score": 8}]',
        ROWS,
    ),
    "of other names": ('[{"id": "b2c", "score": 9}, {"id": "k4t", "grade": 8}]', ROWS),
    "with a unit": ('[{"id": "b2c", "score": "9/10"}, {"id": "k4t", "score": "8/10"}]', ROWS),
    "with numbers, one twice": ('[{"id": "b2c", "score": 9}, {"id": "b2c", "score": 8}]', ROWS),
    "a row in a line": ('{"id": "b2c"}\n{"id": "z9x"}\n{"id": "k4t"}', ORDER),
    "a row in a line, rising": ('{"id": "b2c", "score": 1}\n{"id": "z9x", "score": 2}', ROWS),
    "a string in a line": ('"b2c"\n"z9x"\n"k4t"', ORDER),
    "an array in a line": ('["b2c"]\n["z9x"]\n["k4t"]', ORDER),
    "an unclosed bracket before": (f"In order [best first: {O}", ORDER),
    "a label in brackets before": (f"I like [b2c] best. {O}", ORDER),
    "all labels and many more": (
        json.dumps(["k4t", "b2c", "z9x", "q1", "q2", "q3", "q4"]),
        STRANGE,
    ),
    "an object of ranks": ('{"k4t": 3, "b2c": 1, "z9x": 2}', NONE),
    "missing": ('["b2c"]', (1,)),
    "unknown": ('["q7q", "b2c", "k4t"]', (1, 0)),
    "unknown only": ('["q7q", "p"]', NONE),
    "doubled": ('["b2c", "k4t", "b2c"]', (1, 0)),
    "reversed twice": ('["b2c", "k4t"] ["k4t", "b2c"]', SEVERAL),
    "nested": ('[["b2c", "k4t"]]', NONE),
    "nested one by one": ('[["b2c"], ["k4t"]]', (1, 0)),
    "nested under a key": ('{"ranking": [["b2c", "k4t"]]}', NONE),
    "null and numbers among labels": ('[null, 1.5, true, "b2c", {}]', (1,)),
    "RankGPT's arrows": ("[b2c] > [k4t] > [z9x]", NONE),
    "labels in prose": ("b2c > k4t > z9x", NONE),
    "a numbered list": ("1. b2c\n2. k4t", NONE),
    "no commas": ('["b2c" "k4t"]', NONE),
    "an ellipsis": ('["b2c", "k4t", ...]', NONE),
    "empty": ("", EMPTY),
    "an empty array": ('{"ranking": []}', NONE),
    "numbers for opaque labels": ("[2, 3, 1]", NONE),
}
"""Reply, and the order of ``OPAQUE``."""


CUT_REPLIES = [
    ('{"k4t": 3, "b2c": 9, "z9', (3, 9, None), NONE),
    ('{"k4t": 3, "b2c": 9, "z9x": 5', (3, 9, None), NONE),
    ('{"k4t": 3, "b2c": 1', (3, None, None), NONE),
    ('{"k4t": 3', NONE, NONE),
    ('{"grades": {"k4t": 3, "b2c": 9, "z9', (3, 9, None), NONE),
    ('{"note": 1, "grades": {"k4t": 3, "b2c": 9, "z9', NONE, NONE),
    ('{"grades": [{"id": "k4t", "score": 3}, {"id": "b2c", "sc', (3, None, None), NONE),
    ('{"ranking": ["b2c", "k4t", "z9', NONE, (1, 0)),
    ('["b2c", "k4t", "z9', NONE, (1, 0)),
    ('```json\n["b2c", "k4t", "z9', NONE, (1, 0)),
    ('["b2c', NONE, NONE),
    ("<think>I wonder", THINKING, THINKING),
    ("<think>I wonder</think>", EMPTY, EMPTY),
    ("", EMPTY, EMPTY),
    ("k4t is", NONE, NONE),
    ('{"k4t": 3, "b2c": 9, "z9x": 5}', (3, 9, 5), NONE),
    ('["b2c", "k4t"] and', NONE, (1, 0)),
    ('{"k4t": 3, "b2c": [}', NONE, NONE),
    ('{"k4t": 3, "b2c": "an unfinished, reason', (3, None, None), NONE),
    # An explanation behind the answer, until the limit.
    (f"{G} Because k4t is", VALUES, NONE),
    (f"{O} Because k4t is", NONE, ORDER),
    (f"\ufeff```json\n{G}\n```\n\nThe first", VALUES, NONE),
    (f"<think>\n\n</think>\n\n{G} Because", VALUES, NONE),
    # A draft, or an answer that text introduces.
    (f"First thought: {G} Wait, b2c is about", DRAFT, NONE),
    (f"First thought: {O} Wait, b2c is about", NONE, DRAFT),
    (f"Here it is: {G}", VALUES, NONE),
    (f"Here it is:\n```json\n{G}\n```\n", VALUES, NONE),
    (f"First: {G} Yes: {G}", VALUES, NONE),
    (f"First: {G} Yes: {G} Because", DRAFT, NONE),
    (f"<think>Hm.</think>{G}", VALUES, NONE),
    (f"<think>Hm.</think>{G} Because", DRAFT, NONE),
    (f"analysisWe assistantfinal{G}", VALUES, NONE),
    (f'analysisWe read "assistantfinal{G}", which', DRAFT, NONE),
    (f"<think>It says </think>{G}<think> and", DRAFT, NONE),
    (f"<think>It says </think>{G}<think>", DRAFT, NONE),
    (f"<think>It says </think>{G}<think>and</think>", DRAFT, NONE),
    (f"So <think>it</think>{G}", VALUES, NONE),
    (f"Hm.</think>{G}", VALUES, NONE),
    # A bracket that may begin another answer.
    (f"{G}\nNo: {{", OPEN, NONE),
    (f"{G}\nNo: [see", OPEN, NONE),
    (f"First: {O} Or: [", NONE, OPEN),
    (f"{G} [see below] as", VALUES, NONE),
    ('{"k4t": 3}\n{"b2c": 9', OPEN, NONE),
    ('{"k4t": 3}\n{"b2c": 9}\n{"z9x"', (3, 9, None), NONE),
    ('Rows: {"k4t": 3}\n{"b2c": 9}\n{"z9x"', (3, 9, None), NONE),
]
"""Reply that broke off, its scores, its order."""


def scores_of(reply, labels=OPAQUE, cut=False):
    return read_scores(Completion(reply, cut), labels, 0, 10).values


def order_of(reply, labels=OPAQUE, cut=False):
    return read_order(Completion(reply, cut), labels).places


def check(read, expected):
    started = time.thread_time()
    if isinstance(expected, str):
        with pytest.raises(ReplyError) as caught:
            read()
        assert str(caught.value) == expected
        codes = {EMPTY: "empty_reply", SCALE: "score_out_of_range"}
        assert caught.value.code == codes.get(expected, "reply_refused")
    else:
        assert read() == expected
    assert time.thread_time() - started < 5  # nothing here takes time that grows with its square
