"""Readers of replies: a table of every kind of reply, and properties of generated ones."""

import asyncio
import contextlib
import json
import math
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import shown_in
from secondpass import Reranker
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

OPAQUE = Labels(["k4t", "b2c", "z9x"], None)
FROM_0 = Labels(["0", "1", "2"], 0)
FROM_1 = Labels(["1", "2", "3"], 1)
IDS = Labels(["doc 1", "a&quot;b", "Ünïcode"], None)

NUMBERS = Labels(["7", "doc 8"], None)

EMPTY = "it is empty"
NONE = "it holds no JSON value of the form that was asked for"
SEVERAL = "it holds more than one JSON value of the form that was asked for"
DEEP = "it is nested too deeply"
THINKING = "it ends in the middle of thinking"
BASE_1 = "its numbers do not count from 1"
BASE_0 = "its numbers do not count from 0"
RANGE = "none of its numbers is one from 0 to 10"
SCALE = "it has a score outside the range from 0 to 10"
UNIT = "it has a score with a unit or a scale of its own"
ROWS = "its rows have numbers that do not fall along the list"
STRANGE = "it has more labels that were not shown than were shown"
BROKEN = "it holds another answer, which cannot be read"

G = '{"k4t": 3, "b2c": 9, "z9x": 5}'
GRADES = (3, 9, 5)

# reply -> the grades, or why it is refused
KEYED = [
    ("bare", G, GRADES),
    ("prose before", f"Here are the 3 grades: {G}", GRADES),
    ("prose around", f"Sure! {G}\nLet me know if you need 5 more.", GRADES),
    ("prose with brackets", f"Using the scale [of grades] {G}", GRADES),
    ("code fence", f"```json\n{G}\n```", GRADES),
    ("code fence without a language", f"```\n{G}\n```", GRADES),
    ("think block", f"<think>k4t is 1, or {{}}?</think>{G}", GRADES),
    ("think block with a draft", '<think>{"k4t": 1, "b2c": 1}</think>' + G, GRADES),
    ("think block that only ends", f"first k4t...</think>\n{G}", GRADES),
    ("thinking block", f"<thinking>hm</thinking>{G}", GRADES),
    ("think block that does not end", f"<think>hm {G}", THINKING),
    ("think block and nothing", "<think>hm</think>", EMPTY),
    ("white space", f"\n\n  {G}  \n", GRADES),
    ("byte order mark", f"\ufeff{G}", GRADES),
    ("wrapped in an object", f'{{"grades": {G}}}', GRADES),
    ("wrapped under another key", f'{{"scores": {G}}}', GRADES),
    ("wrapped with words beside", f'{{"note": "ok", "grades": {G}}}', GRADES),
    ("wrapped under another key with words beside", f'{{"note": "ok", "scores": {G}}}', GRADES),
    ("wrapped twice", f'{{"a": {{"b": {G}}}}}', NONE),
    ("wrapped twice as usual", f'{{"response": {{"grades": {G}}}}}', GRADES),
    ("wrapped in irrelevant ones", f'{{"irrelevant": {{"grades": {G}}}}}', NONE),
    ("wrapped among others", f'{{"a": {G}, "b": [1]}}', NONE),
    ("upper case labels", G.upper(), GRADES),
    ("labels with spaces", '{" k4t": 3, "b2c ": 9, "z9x": 5}', GRADES),
    ("floats", '{"k4t": 3.0, "b2c": 9e0, "z9x": 0.5e1}', GRADES),
    ("no reply", "", EMPTY),
    ("white space alone", " \n\t", EMPTY),
    ("prose", "The second document is best, I would give it 9.", NONE),
    ("labels in prose", "k4t: 3, b2c: 9, z9x: 5", NONE),
    ("a bulleted list", "- k4t: 3\n- b2c: 9\n- z9x: 5", NONE),
    ("a numbered list", "1. b2c (9)\n2. z9x (5)\n3. k4t (3)", NONE),
    ("an error text with digits", "Error 429: try again in 3 seconds", NONE),
    ("an error object", '{"error": {"code": 429, "message": "k4t"}}', NONE),
    ("HTML", "<html><body>{} 502 Bad Gateway</body></html>", NONE),
    ("null", "null", NONE),
    ("a number", "7", NONE),
    ("a string", '"k4t"', NONE),
    ("JSON in a string", json.dumps(G), GRADES),
    ("JSON in a string, fenced", f"```json\n{json.dumps(G)}\n```", GRADES),
    ("JSON in a string in an object", json.dumps({"result": G}), GRADES),
    ("an empty object", "{}", NONE),
    ("an empty array", "[]", NONE),
    ("an array of numbers", "[3, 9, 5]", NONE),
    ("an array of labels", '["b2c", "z9x", "k4t"]', NONE),
    ("an order", '{"ranking": ["b2c", "z9x", "k4t"]}', NONE),
    ("trailing comma", '{"k4t": 3, "b2c": 9, "z9x": 5,}', GRADES),
    ("single quotes", "{'k4t': 3, 'b2c': 9, 'z9x': 5}", GRADES),
    ("no quotes", "{k4t: 3, b2c: 9, z9x: 5}", GRADES),
    ("a missing comma", '{"k4t": 3 "b2c": 9, "z9x": 5}', GRADES),
    ("Python literals", "{'k4t': 3, 'b2c': None, 'z9x': 5}", (3, None, 5)),
    ("smart quotes", "{\u201ck4t\u201d: 3, \u201cb2c\u201d: 9, \u201cz9x\u201d: 5}", GRADES),
    ("raw control characters", '{"k4t":\x0b3, "b2c\t": 9, "z9x\n": 5}', GRADES),
    ("prose with an unclosed bracket", f"From 0-10] [best first: {G}", GRADES),
    ("prose with an unclosed brace", f"As {{id and score: {G}", GRADES),
    ("an object that does not close", f'{{"grades": {G}', NONE),
    ("objects that do not close", f'{{draft: {G}, final: {{"k4t": 9', NONE),
    ("comments", '{"k4t": 3, // the burrow\n "b2c": 9, "z9x": 5}', GRADES),
    ("a row in a comment", '{"k4t": 3, // "b2c": 9,\n "z9x": 5}', NONE),
    ("a comment after", f"{G} // by relevance", GRADES),
    ("an ellipsis", '{"k4t": 3, ...}', NONE),
    ("broken inside, whole within", '{"x": oops, "grades": {"k4t": 3}}', (3, None, None)),
    ("broken off", '{"k4t": 3, "b2c": 9, "z9', NONE),
    ("broken, then whole", f"{{k4t: 1}} {G}", SEVERAL),
    ("whole, then broken", f'{G} {{"k4t": 1, "b2c": "9, "z9x": 5}}', BROKEN),
    ("whole, then broken off", f'{G}\nNo: {{"k4t": 1,', BROKEN),
    ("more unknown than shown", '{"k4t": 3, "q1q": 1, "q2q": 2, "q3q": 0, "q4q": 0}', STRANGE),
    ("as many unknown as shown", '{"k4t": 3, "q1q": 1, "q2q": 2, "q3q": 0}', (3, None, None)),
    ("a row in a line", '{"k4t": 3}\n{"b2c": 9}\n{"z9x": 5}', GRADES),
    ("a row in a line, with commas", '{"k4t": 3},\n{"b2c": 9},\n{"z9x": 5}', GRADES),
    ("a row in a line, one twice", '{"k4t": 3}\n{"b2c": 9}\n{"k4t": 3}', SEVERAL),
    ("a row in a line, one broken", '{"k4t" 3}\n{"b2c": 9}\n{"z9x": 5}', BROKEN),
    ("rows with words between", '{"k4t": 3}\nor {"b2c": 9}', SEVERAL),
    (
        "a row in a line, with ids",
        '{"id": "k4t", "score": 3}\n{"id": "b2c", "score": 9}',
        (3, 9, None),
    ),
    ("labels in brackets", '{"[k4t]": 3, "<b2c>": 9, "(z9x)": 5}', GRADES),
    ("labels with a prefix", '{"doc k4t": 3, "id: b2c": 9, "Passage [z9x]": 5}', GRADES),
    ("labels in objects", '[{"id": {"id": "k4t"}, "score": 3}]', (3, None, None)),
    ("numbers in objects", '{"k4t": {"value": 3}, "b2c": {"score": 9, "why": "x"}}', (3, 9, None)),
    ("two numbers in an object", '{"k4t": {"value": 3, "of": 5}, "b2c": 9}', (None, 9, None)),
    ("two numbers in a list", '{"k4t": [3, 10], "b2c": 9}', (None, 9, None)),
    ("numbers in strings, one outside", '{"k4t": "95", "b2c": 9}', SCALE),
    ("percentages", '{"k4t": "95%", "b2c": 9}', SCALE),
    ("fractions", '{"k4t": "7/10", "b2c": 9}', UNIT),
    ("words", '{"k4t": "high", "b2c": 9}', (None, 9, None)),
    ("a rounding error", '{"k4t": 10.00005, "b2c": -0.00005}', (10, 0, None)),
    ("just more than that", '{"k4t": 10.0002, "b2c": 9}', SCALE),
    ("twice the same", f"{G}\n{G}", GRADES),
    ("two that differ", f'{G}\n{{"k4t": 4, "b2c": 9, "z9x": 5}}', SEVERAL),
    ("a part and a whole", f'{{"k4t": 3}} {G}', SEVERAL),
    ("an object that grades nothing, then it", f'{{"note": 1}} {G}', GRADES),
    ("one missing", '{"k4t": 3, "z9x": 5}', (3, None, 5)),
    ("one unknown", '{"k4t": 3, "b2c": 9, "z9x": 5, "q7q": 10}', GRADES),
    ("unknown only", '{"q7q": 3, "k4": 9}', NONE),
    ("the same twice in one", '{"k4t": 3, "k4t": 3, "b2c": 9, "z9x": 5}', GRADES),
    ("twice with other values", '{"k4t": 3, "k4t": 7, "b2c": 9}', (None, 9, None)),
    ("twice in another case", '{"k4t": 3, "K4T": 7, "b2c": 9}', (None, 9, None)),
    ("twice, once refused", '{"k4t": "3", "K4T": 3, "b2c": 9}', (3, 9, None)),
    ("three times", '{"k4t": 3, "K4t": 7, "K4T": 3, "b2c": 9}', (None, 9, None)),
    ("NaN", '{"k4t": NaN, "b2c": 9, "z9x": 5}', (None, 9, 5)),
    ("Infinity", '{"k4t": Infinity, "b2c": -Infinity, "z9x": 5}', (None, None, 5)),
    ("huge", '{"k4t": 1e999, "b2c": 1' + "0" * 5000 + ', "z9x": 5}', SCALE),
    ("huge and negative", '{"k4t": -1' + "0" * 5000 + ', "z9x": 5}', SCALE),
    ("beyond floats", '{"k4t": 1e999, "b2c": -1e999, "z9x": 5}', (None, None, 5)),
    ("tiny", '{"k4t": 1e-999, "z9x": 5}', (0, None, 5)),
    ("negative", '{"k4t": -1, "b2c": 9, "z9x": -0.01}', SCALE),
    ("negative nought", '{"k4t": -0.0, "b2c": 9, "z9x": 5}', (0, 9, 5)),
    ("above the scale", '{"k4t": 11, "b2c": 10.01, "z9x": 10}', SCALE),
    ("none on the scale", '{"k4t": 95, "b2c": 80, "z9x": 70}', SCALE),
    ("one of them on the scale", '{"k4t": 95, "b2c": 80, "z9x": 7}', SCALE),
    ("booleans", '{"k4t": true, "b2c": 9, "z9x": false}', (None, 9, None)),
    ("strings", '{"k4t": "3", "b2c": 9, "z9x": "high"}', (3, 9, None)),
    ("all strings", '{"k4t": "3", "b2c": "9", "z9x": "5"}', GRADES),
    ("all words", '{"k4t": "low", "b2c": "high"}', RANGE),
    ("nulls", '{"k4t": null, "b2c": 9, "z9x": null}', (None, 9, None)),
    ("nested numbers", '{"k4t": [3], "b2c": 9, "z9x": {"score": 5}}', GRADES),
    ("unicode digits in numbers", '{"k4t": \uff13, "b2c": 9}', NONE),
    ("unicode digits in labels", '{"k\uff14t": 3, "b2c": 9}', (None, 9, None)),
    ("deeply nested", "[" * 100_000, DEEP),
    ("deeply nested objects", '{"k4t":' * 50_000, DEEP),
    ("deep, but a value", '{"k4t": ' + "[" * 200 + "]" * 200 + ', "b2c": 9}', (None, 9, None)),
    ("megabytes", "wombat " * 500_000, "it is too long"),
    ("megabytes of JSON", f'{{"x": "{"y" * 2_000_000}"}}', "it is too long"),
    ("null characters", f"\x00{G}\x00", GRADES),
    ("lone surrogates", "\ud800" + G, GRADES),
    ("escaped labels", '{"\\u006b4t": 3, "b2c": 9, "z9x": 5}', GRADES),
    ("an array of objects", '[{"id": "k4t", "score": 3}, {"id": "b2c", "score": 9}]', (3, 9, None)),
    ("objects under a key", '{"grades": [{"id": "k4t", "score": 3}]}', (3, None, None)),
    ("objects with index", '[{"index": "k4t", "score": 3}]', (3, None, None)),
    ("objects with reasons", '[{"id": "k4t", "score": 3, "why": "dig"}]', (3, None, None)),
    ("objects without a number", '[{"id": "k4t"}, {"id": "b2c", "score": 9}]', (None, 9, None)),
    ("objects of another word", '[{"id": "k4t", "rating": 3}]', NONE),
    ("an object for an array", '{"id": "k4t", "score": 3}', (3, None, None)),
    ("objects by label", '[{"k4t": 3}, {"b2c": 9}]', (3, 9, None)),
    (
        "a row with two ids",
        '[{"id": "k4t", "id": "b2c", "score": 3}, {"id": "z9x", "score": 5}]',
        (None, None, 5),
    ),
    (
        "a row with two scores",
        '[{"id": "k4t", "score": 3, "score": 4}, {"id": "b2c", "score": 9}]',
        (None, 9, None),
    ),
    ("an object of ranks", '{"ranks": {"k4t": 1, "b2c": 2}}', NONE),
    ("nested ranks", '{"k4t": {"rank": 1}, "b2c": {"rank": 2}}', RANGE),
    ("scores under a key of orders", '{"ranking": [{"id": "k4t", "score": 3}]}', (3, None, None)),
    ("two answers, one in the other", '{"k4t": 1, "grades": {"k4t": 9, "b2c": 3}}', NONE),
    ("objects that contradict", '[{"id": "k4t", "score": 3}, {"id": "k4t", "score": 4}]', RANGE),
    (
        "an id that is a list",
        '[{"id": ["k4t"], "score": 3}, {"id": "b2c", "score": 9}]',
        (3, 9, None),
    ),
]

O = '{"ranking": ["b2c", "z9x", "k4t"]}'  # noqa: E741
ORDER = (1, 2, 0)

# reply -> places, best first, or why it is refused
ORDERS = [
    ("bare", O, ORDER),
    ("an array", '["b2c", "z9x", "k4t"]', ORDER),
    ("prose around", f"Here you are: {O} Those are all 3.", ORDER),
    ("code fence", f"```json\n{O}\n```", ORDER),
    ("think block", f'<think>["k4t"]</think>{O}', ORDER),
    ("another key", '{"order": ["b2c", "z9x", "k4t"]}', ORDER),
    ("its key among others", '{"ids": ["k4t", "b2c"], "ranking": ["b2c", "k4t"]}', (1, 0)),
    ("other keys only", '{"a": ["k4t", "b2c"], "b": ["b2c", "k4t"]}', NONE),
    ("its key holds no array", '{"ranking": "b2c > k4t", "ids": ["k4t"]}', NONE),
    ("its key twice", '{"ranking": ["k4t"], "ranking": ["b2c"]}', NONE),
    ("its key twice alike", '{"ranking": ["k4t"], "ranking": ["k4t"]}', (0,)),
    ("objects with id", '[{"id": "b2c"}, {"id": "k4t"}]', (1, 0)),
    ("objects with id and words", '[{"id": "b2c", "why": "dig"}, {"id": "k4t"}]', (1, 0)),
    ("objects with id and a number", '[{"id": "b2c", "rank": 2}, {"id": "k4t", "rank": 1}]', ROWS),
    ("numbers that fall", '[{"id": "b2c", "score": 9}, {"id": "k4t", "score": "8"}]', (1, 0)),
    ("numbers in lists", '[{"id": "b2c", "score": [9]}, {"id": "k4t", "score": [8]}]', (1, 0)),
    ("numbers that rise", '[{"id": "b2c", "score": 1}, {"id": "k4t", "score": 2}]', ROWS),
    ("numbers that tie", '[{"id": "b2c", "score": 2}, {"id": "k4t", "score": 2}]', ROWS),
    ("ranks that fall", '[{"id": "b2c", "rank": 2}, {"id": "k4t", "rank": 1}]', ROWS),
    ("ranks of another name", '[{"id": "b2c", "newRank": 2}, {"id": "k4t", "newRank": 1}]', ROWS),
    ("distances", '[{"id": "b2c", "distance": 2}, {"id": "k4t", "distance": 1}]', ROWS),
    (
        "ranks that fall, called scores",
        '[{"id": "b2c", "score": {"rank": 2}}, {"id": "k4t", "score": {"rank": 1}}]',
        ROWS,
    ),
    ("ranks that rise", '[{"id": "b2c", "rank": 1}, {"id": "k4t", "rank": 2}]', ROWS),
    ("some without", '[{"id": "b2c", "score": 9}, {"id": "k4t"}]', ROWS),
    ("some labels alone", '[{"id": "b2c", "score": 9}, "k4t"]', ROWS),
    ("true", '[{"id": "b2c", "score": true}, {"id": "k4t", "score": true}]', ROWS),
    ("null", '[{"id": "b2c", "score": null}, {"id": "k4t", "score": null}]', ROWS),
    (
        "two numbers",
        '[{"id": "b2c", "rank": 1, "score": 9}, {"id": "k4t", "rank": 2, "score": 8}]',
        ROWS,
    ),
    ("of other names", '[{"id": "b2c", "score": 9}, {"id": "k4t", "grade": 8}]', ROWS),
    ("with a unit", '[{"id": "b2c", "score": "9/10"}, {"id": "k4t", "score": "8/10"}]', ROWS),
    ("with numbers, one twice", '[{"id": "b2c", "score": 9}, {"id": "b2c", "score": 8}]', ROWS),
    ("a row in a line", '{"id": "b2c"}\n{"id": "z9x"}\n{"id": "k4t"}', ORDER),
    ("a row in a line, rising", '{"id": "b2c", "score": 1}\n{"id": "z9x", "score": 2}', ROWS),
    ("a string in a line", '"b2c"\n"z9x"\n"k4t"', ORDER),
    ("an array in a line", '["b2c"]\n["z9x"]\n["k4t"]', ORDER),
    ("labels in brackets", '["[b2c]", "doc z9x", {"id": "k4t"}]', ORDER),
    ("JSON in a string", json.dumps(O), ORDER),
    ("wrapped once more", f'{{"response": {O}}}', ORDER),
    ("an unclosed bracket before", f"In order [best first: {O}", ORDER),
    ("a label in brackets before", f"I like [b2c] best. {O}", ORDER),
    (
        "all labels and many more",
        json.dumps(["k4t", "b2c", "z9x", "q1", "q2", "q3", "q4"]),
        STRANGE,
    ),
    ("an object of ranks", '{"k4t": 3, "b2c": 1, "z9x": 2}', NONE),
    ("missing", '["b2c"]', (1,)),
    ("unknown", '["q7q", "b2c", "k4t"]', (1, 0)),
    ("unknown only", '["q7q", "p"]', NONE),
    ("doubled", '["b2c", "k4t", "b2c"]', (1, 0)),
    ("reversed twice", '["b2c", "k4t"] ["k4t", "b2c"]', SEVERAL),
    ("nested", '[["b2c", "k4t"]]', NONE),
    ("nested one by one", '[["b2c"], ["k4t"]]', (1, 0)),
    ("nested under a key", '{"ranking": [["b2c", "k4t"]]}', NONE),
    ("null and numbers among labels", '[null, 1.5, true, "b2c", {}]', (1,)),
    ("RankGPT's arrows", "[b2c] > [k4t] > [z9x]", NONE),
    ("labels in prose", "b2c > k4t > z9x", NONE),
    ("a numbered list", "1. b2c\n2. k4t", NONE),
    ("trailing comma", '["b2c", "k4t",]', (1, 0)),
    ("single quotes", "['b2c', 'k4t']", (1, 0)),
    ("no commas", '["b2c" "k4t"]', (1, 0)),
    ("an ellipsis", '["b2c", "k4t", ...]', NONE),
    ("empty", "", EMPTY),
    ("an empty array", '{"ranking": []}', NONE),
    ("deeply nested", "[" * 100_000, DEEP),
    ("numbers for opaque labels", "[2, 3, 1]", NONE),
]

# labels, reply -> places or why
NUMBERED = [
    (FROM_1, "[2, 3, 1]", (1, 2, 0)),
    (FROM_1, '["2", "3", "1"]', (1, 2, 0)),
    (FROM_1, "[2.0, 3, 1]", (1, 2, 0)),
    (FROM_1, '{"scores": [2, 3, 1]}', NONE),
    (FROM_1, '{"ranks": ["2", "3", "1"]}', NONE),
    (FROM_1, '{"scores": [{"index": 2}, {"index": 3}]}', (1, 2)),
    (FROM_1, "[2.5, 3, 1]", (2, 0)),
    (FROM_1, "[true, 3]", (2,)),
    (FROM_1, "[1, 2, 0]", BASE_1),
    (FROM_1, "[0, 1]", BASE_1),
    (FROM_1, "[0, 1, 2, 3]", (0, 1, 2)),
    (FROM_1, "[4, 3, 2, 1]", (2, 1, 0)),
    (FROM_1, "[-1, 2]", (1,)),
    (FROM_1, "[1e400, 2]", (1,)),
    (FROM_1, "[NaN, 2]", (1,)),
    (FROM_1, "[1" + "0" * 5000 + ", 2]", (1,)),
    (FROM_1, '["\uff12", 3]', (2,)),
    (FROM_1, '["02", 3]', (1, 2)),
    (FROM_1, '["doc 2", 3]', (1, 2)),
    (FROM_1, '["rank 2", 3]', (2,)),
    (FROM_1, "[2] > [3] > [1]", NONE),
    (FROM_1, "[2], [3], [1]", NONE),
    (FROM_1, "2\n3\n1", NONE),
    (FROM_1, "[2]\n[3]\n[1]", NONE),
    (FROM_1, "[2]\n[3]", NONE),
    (FROM_1, "[3.0, 2.0, 1.0, 0.0]", (2, 1, 0)),
    (FROM_1, "[2.0, 1.0, 0.0]", BASE_1),
    (FROM_1, '["0", "1", "2"]', BASE_1),
    (FROM_1, '["doc 0", "doc 1", "doc 2"]', BASE_1),
    (FROM_1, '["[2]", "[1]", "[0]"]', BASE_1),
    (FROM_1, "[2, 3, 4]", BASE_1),
    (FROM_0, "[3.0, 2.0, 1.0]", BASE_0),
    (FROM_0, '["3", "2", "1"]', BASE_0),
    (FROM_0, "[-1, 0, 1]", BASE_0),
    (FROM_0, '["-1", "0", "1"]', BASE_0),
    (FROM_0, "[-1.0, 0.0, 1.0]", BASE_0),
    (FROM_0, "[2, 1, 0, -1]", (2, 1, 0)),
    (FROM_0, '[{"index": 3}, {"index": 2}, {"index": 1}]', BASE_0),
    (FROM_1, "Based on [1] and [2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_1, "Based on [1, 2]: [2, 1, 3]", (1, 0, 2)),
    (FROM_1, "2, 3, 1", NONE),
    (FROM_1, "Error 429: try again in 3 seconds", NONE),
    (FROM_0, "[1, 2, 0]", (1, 2, 0)),
    (FROM_0, "[2, 3, 1]", BASE_0),
    (FROM_0, "[3, 2, 1, 0]", (2, 1, 0)),
    (IDS, '["A&quot;B", "ünïcode", "DOC  1"]', (1, 2, 0)),
    (IDS, '["a\\"b", "doc 1"]', (0,)),
]

CUT = [
    # reply that reached its longest length -> grades, order
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
]


def grades_of(reply, labels=OPAQUE, cut=False):
    return read_scores(Completion(reply, cut), labels, 0, 10).values


def order_of(reply, labels=OPAQUE, cut=False):
    return read_order(Completion(reply, cut), labels).places


def check(read, expected):
    started = time.perf_counter()
    if isinstance(expected, str):
        with pytest.raises(ReplyError) as caught:
            read()
        assert str(caught.value) == expected
        codes = {EMPTY: "empty_reply", SCALE: "score_out_of_range"}
        assert caught.value.code == codes.get(expected, "reply_refused")
    else:
        assert read() == expected
    assert time.perf_counter() - started < 5  # nothing here takes time that grows with its square


@pytest.mark.parametrize(("reply", "expected"), [r[1:] for r in KEYED], ids=[r[0] for r in KEYED])
def test_grades(reply, expected):
    check(lambda: grades_of(reply), expected)


@pytest.mark.parametrize(("reply", "expected"), [r[1:] for r in ORDERS], ids=[r[0] for r in ORDERS])
def test_orders(reply, expected):
    check(lambda: order_of(reply), expected)


@pytest.mark.parametrize(("labels", "reply", "expected"), NUMBERED)
def test_orders_of_other_labels(labels, reply, expected):
    check(lambda: order_of(reply, labels), expected)


@pytest.mark.parametrize(("reply", "grades", "order"), CUT)
def test_replies_that_broke_off(reply, grades, order):
    check(lambda: grades_of(reply, cut=True), grades)
    check(lambda: order_of(reply, cut=True), order)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"1": 3, "2": 9, "3": 5}', (3, 9, 5)),
        ('{"0": 3, "1": 9, "2": 5}', BASE_1),
        ('[{"index": 1, "score": 3}, {"index": 3, "score": 5}]', (3, None, 5)),
        ('[{"index": 0, "score": 3}, {"index": 1, "score": 5}]', BASE_1),
        ('{"1": 3, "01": 9}', RANGE),
        ('{"0.0": 3, "1.0": 9}', BASE_1),
        ('{"doc 1": 3, "doc 3": 5}', (3, None, 5)),
        ("[3, 9, 5]", NONE),
    ],
)
def test_grades_of_numbered_labels(reply, expected):
    check(lambda: grades_of(reply, FROM_1), expected)


@pytest.mark.parametrize("reply", ['{"scores": {"k4t": 3, "b2c": 1}}', '{"k4t": {"score": 3}}'])
def test_scores_are_no_ranks(reply):
    with pytest.raises(ReplyError):
        read_scores(Completion(reply), OPAQUE, 0, 3, word="rank", whole=True)


def test_a_row_with_two_numbers_for_its_label_is_refused():
    reply = '[{"id": 1, "index": 3, "score": 9}, {"id": 2, "index": 2, "score": 3}]'
    assert grades_of(reply, FROM_1) == (None, 3, None)


def test_what_a_reading_tells():
    grades = read_scores(Completion('{"k4t": 3, "b2c": "high", "q": 1, "p": 2}'), OPAQUE, 0, 10)
    assert (grades.values, grades.refused, grades.unknown) == ((3.0, None, None), (1,), 2)
    assert not grades.cut
    assert read_scores(Completion('{"k4t": 3, "b2', cut=True), OPAQUE, 0, 10).cut
    order = read_order(Completion('["b2c", "q", "b2c", "k4t", "b2c"]'), OPAQUE)
    assert (order.places, order.doubled, order.unknown, order.cut) == ((1, 0), 2, 1, False)
    assert read_order(Completion('["b2c", "k4', cut=True), OPAQUE).cut


@pytest.mark.parametrize(
    ("labels", "value", "place"),
    [
        (OPAQUE, "k4t", 0),
        (OPAQUE, " K4T\n", 0),
        (OPAQUE, "k 4t", None),
        (OPAQUE, "", None),
        (OPAQUE, None, None),
        (OPAQUE, 4, None),
        (FROM_1, 1, 0),
        (FROM_1, 1.0, 0),
        (FROM_1, "1", 0),
        (FROM_1, True, None),
        (FROM_1, 1.5, None),
        (FROM_1, math.nan, None),
        (FROM_1, math.inf, None),
        (FROM_1, 1e300, None),
        (FROM_1, -1, None),
        (FROM_1, "1.0", 0),
        (FROM_1, "+1", 0),
        (FROM_1, "1.5", None),
        (FROM_1, "[1]", 0),
        (FROM_1, "passage 3", 2),
        (FROM_1, "rank 3", None),
        (FROM_1, "index -1", None),
        (OPAQUE, "doc_k4t", 0),
        (OPAQUE, "dock4t", None),
        (NUMBERS, "7", 0),
        (NUMBERS, "[7]", 0),
        (NUMBERS, "passage 7", None),
        (NUMBERS, "doc 8", 1),
        (FROM_1, [1], None),
        (FROM_1, {"id": 1}, None),
    ],
)
def test_places_of_labels(labels, value, place):
    assert labels.place(value) == place


# ---------------------------------------------------------------------- what could deceive


@pytest.mark.parametrize(
    "reply",
    [
        "Error [3]: rate limit exceeded",
        "Document [2] is the best.",
        '{"error": "overloaded", "retry_after": [3]}',
    ],
)
def test_a_single_number_in_prose_is_no_order(reply):
    check(lambda: order_of(reply, FROM_1), NONE)


@pytest.mark.parametrize(
    "reply",
    [
        '```json\n{"ranking": ["b2c"]}\n```',
        '<think>hm</think>{"ranking": ["b2c"]}',
        'The order is {"ranking": ["b2c"]}',
    ],
)
def test_an_order_of_a_single_one_is_read_when_it_has_the_form_that_was_asked_for(reply):
    check(lambda: order_of(reply), (1,))


def test_a_quoted_end_of_thinking_does_not_hide_the_answer():
    reply = f'{O} A document said "</think>["k4t", "b2c", "z9x"]", which I ignored.'
    with contextlib.suppress(ReplyError):  # ambiguous is fine; what the document said is not
        assert order_of(reply) == ORDER


def test_a_deep_reply_that_broke_off_takes_linear_time():
    started = time.process_time()
    check(lambda: order_of("[x," + "[1," * 130_000, cut=True), NONE)
    assert time.process_time() - started < 5


LASTING = [
    ("escaped quotes before braces", '\\"{x}' * 70_000),
    ("quotes before braces", '"{x} ' * 70_000),
    ("comments in brackets", "[//]" * 90_000),
    ("apostrophes in brackets", "['a]" * 90_000),
    ("unclosed prose", "[a b " * 70_000),
    ("spaces in brackets", ("[" + " " * 200 + ",") * 1900),
    ("almost-JSON", "[1,]" * 90_000),
    ("bare words in objects", "[" + "{a:b}" * 3900 + "]"),
    ("escaped quotes in broken JSON", '[x "' + '\\"' * 12_000),
    (
        "arrays that all differ",
        "".join(f"[{at},{other}]" for at in range(1, 71) for other in range(1, 71)),
    ),
]


def test_broken_row_beyond_the_labels_shows_another_base():
    labels = Labels(["0", "1", "2"], 0)
    for broken in ('{"id" -1, "score": 4}', '{"id" 3, "score": 4}'):
        with pytest.raises(ReplyError, match="another answer"):
            read_scores(Completion(f'{broken}\n{{"id": 0, "score": 1}}'), labels, 0, 10)


@pytest.mark.parametrize("reply", [row[1] for row in LASTING], ids=[row[0] for row in LASTING])
def test_reading_a_long_reply_takes_linear_time(reply):
    async def function(messages):
        return reply

    reranker = Reranker(
        Listwise(function, window=None, labels="index1"),
        limits={"deadline": 0.5, "repair": 0},
        log_level="debug",
    )
    texts = [f"passage {at}" for at in range(70)]
    started = time.process_time()  # reading computes; what else the machine does is no matter
    ranking = asyncio.run(reranker.arerank("q", texts))
    assert time.process_time() - started < 3  # busy machines count more; a quadratic one takes 10
    assert ranking.report.status == "unchanged"


# ---------------------------------------------------------------------- generated replies

# Ten times what the profile gives other properties, for these two hold up the promise.
BULK = 10 * settings().max_examples

NAMES = ["k4t", "b2c", "z9x", "d7f", "m3p"]
labels_of = st.integers(1, 5).map(lambda count: Labels(NAMES[:count], None))

prose = st.sampled_from(
    [
        "",
        "Sure! ",
        "Here are the 5 documents, best first:\n",
        "\n\nI hope this helps.",
        "(3 of 4) ",
        "k4t > b2c",
        "1. k4t",
        " // done",
        "\u2028\u200b",
        "Grade: 7/10. ",
    ]
)
thoughts = st.sampled_from(
    [
        "",
        "<think>k4t? 3.</think>",
        '<think>["b2c"] {"k4t": 1}</think>\n',
        "so...</think>",
        "<THINK></THINK>",
    ]
)
_THOUGHTS = re.compile(r".*</think>", re.S | re.I)
fences = st.sampled_from(
    [("", ""), ("```json\n", "\n```"), ("```\n", "```"), ("**", "**"), ("`", "`")]
)


GRADED = [
    lambda grades, pairs, strange: {**strange, **grades},
    lambda grades, pairs, strange: {"grades": grades},
    lambda grades, pairs, strange: {"grades": grades, "note": "5 of 5"},
    lambda grades, pairs, strange: pairs,
    lambda grades, pairs, strange: {"grades": pairs},
    lambda grades, pairs, strange: {"results": pairs},
]
ORDERED = [
    lambda shown, doubled: doubled,
    lambda shown, doubled: {"ranking": doubled},
    lambda shown, doubled: {"order": doubled},
    lambda shown, doubled: [{"id": name} for name in shown],
    lambda shown, doubled: [name.upper() for name in shown],
]
wrappings = st.tuples(thoughts, prose, fences, st.sampled_from([None, 1]), prose)


def wrapped(value, wrapping):
    """A value as JSON, in any wrapping that is well known."""
    thought, before, (opening, closing), indent, after = wrapping
    return f"{thought}{before}{opening}{json.dumps(value, indent=indent)}{closing}{after}"


@st.composite
def clear(draw):
    """(labels, grades, reply for them, order, reply for it), each reply of one meaning."""
    shown = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    labels = Labels(NAMES, None)
    numbers = st.integers(0, 10) | st.floats(0, 10)
    grades = dict(zip(shown, draw(st.lists(numbers, min_size=5, max_size=5)), strict=False))
    strange = draw(st.sampled_from([{}, {"zz": 3}, {"none": 10, "q1q": 0}]))
    pairs = [{"id": name, "score": grade} for name, grade in grades.items()]
    doubled = [*shown, *shown[: draw(st.integers(0, 2))], *strange]
    graded = draw(st.sampled_from(GRADED))(grades, pairs, strange)
    ordered = draw(st.sampled_from(ORDERED))(shown, doubled)
    wrapping = draw(wrappings)
    return labels, grades, wrapped(graded, wrapping), shown, wrapped(ordered, wrapping)


@settings(max_examples=BULK)
@given(clear())
def test_what_is_unambiguous_is_recovered_exactly(case):
    labels, grades, graded, order, ordered = case
    values = grades_of(graded, labels)
    assert values == tuple(grades.get(name) for name in labels.names)
    assert [labels.names[at] for at in order_of(ordered, labels)] == order


odd_numbers = st.one_of(
    st.integers(-2, 12),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=2),
    st.just(10**400),
    st.sampled_from(["3", "٣", "³", [3], {"score": 3}]),
)
odd_labels = st.one_of(
    st.sampled_from([*NAMES, *map(str.upper, NAMES), "k4t ", "zz", "", "ranking", "grades", "id"]),
    st.text(max_size=3),
)
odd_json = st.recursive(
    odd_numbers | odd_labels,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(odd_labels, inner, max_size=4),
        st.fixed_dictionaries({"id": odd_labels, "score": inner}),
        st.fixed_dictionaries({"ranking": st.lists(odd_labels, max_size=6)}),
        st.fixed_dictionaries({"grades": st.dictionaries(odd_labels, odd_numbers, max_size=6)}),
    ),
    max_leaves=5,
)


@st.composite
def broken(draw, text):
    """A text with a piece cut out, or something put in."""
    at = draw(st.integers(0, len(text)))
    if draw(st.booleans()):
        return text[:at] + text[draw(st.integers(at, len(text))) :]
    return (
        text[:at]
        + draw(st.sampled_from([",", "}", "]", "'", '"', "\\", "NaN", "[", "{", "\x00"]))
        + text[at:]
    )


whole_replies = st.one_of(
    odd_json.map(json.dumps),
    st.tuples(thoughts, prose, odd_json, prose).map(
        lambda parts: "".join([*parts[:2], json.dumps(parts[2]), parts[3]])
    ),
    st.tuples(odd_json, odd_json).map(lambda two: f"{json.dumps(two[0])} {json.dumps(two[1])}"),
    st.sampled_from([row[1] for row in [*KEYED, *ORDERS] if len(row[1]) < 300]),
    st.text(max_size=30),
    st.text(alphabet='[]{}",:k4tb2c 0123456789\\', max_size=40),
)
replies = st.one_of(whole_replies, whole_replies.flatmap(broken))


@settings(max_examples=BULK)
@given(labels_of, replies, st.booleans())
def test_any_reply_is_read_or_refused(labels, reply, cut):
    completion = Completion(reply, cut)
    try:
        grades = read_scores(completion, labels, 0, 10)
    except ReplyError as error:
        assert not any(name in str(error) for name in NAMES)
    else:
        assert len(grades.values) == len(labels)
        for value in grades.values:
            assert value is None or (type(value) is float and 0 <= value <= 10)
        assert any(value is not None for value in grades.values)
        assert all(grades.values[at] is None for at in grades.refused)
        assert not grades.cut or cut
    try:
        order = read_order(completion, labels)
    except ReplyError:
        return
    assert order.places
    assert len(set(order.places)) == len(order.places)
    assert all(0 <= at < len(labels) for at in order.places)


@given(clear(), clear())
def test_two_answers_that_differ_are_refused(one, other):
    both = Labels(NAMES, None)
    for read, at in ((grades_of, 2), (order_of, 4)):
        first, second = (_THOUGHTS.sub("", case[at]) for case in (one, other))
        if read(first, both) != read(second, both):
            with pytest.raises(ReplyError, match="more than one"):
                read(f"{first}\n{second}", both)


KINDS = [
    (Graded, {}),
    (Graded, {"labels": "index1", "reply": "pairs"}),
    (Graded, {"labels": "id", "batch_size": 2}),
    (Listwise, {"window": 3, "stride": 2}),
    (Listwise, {"labels": "index0", "reply": "pairs"}),
    (Listwise, {"labels": "id", "bare": True}),
    (Listwise, {"reply": "keyed"}),
]


class Saying:
    """Says what it was given, with the labels that it is shown in the place of ``NAMES``.

    It is asynchronous and never waits: a thread for each example would take most of the time.
    """

    name = "saying"

    def __init__(self, reply, cut):
        self.reply = reply
        self.cut = cut

    async def complete(self, prompt):
        said = self.reply
        for name, label in zip(NAMES, shown_in(prompt), strict=False):
            said = said.replace(name, label)
        return Completion(said, self.cut)


@settings(max_examples=BULK)
@given(st.sampled_from(KINDS), replies, st.integers(1, 5), st.booleans())
def test_no_reply_loses_doubles_or_raises(kind, reply, count, cut):
    method, given_settings = kind
    reranker = Reranker(
        method(Saying(reply, cut), **given_settings), limits={"repair": 0}, log_level="debug"
    )
    candidates = [{"text": f"passage {at}", "id": NAMES[at]} for at in range(count)]
    ranking = reranker.rerank("query", candidates)
    assert sorted(ranking.order) == list(range(count))
    for item in ranking:
        score = item.rerank_score
        assert (item.status == "scored") == (score is not None)
        assert score is None or (type(score) is float and math.isfinite(score))
    unscored = {item.position for item in ranking if item.status != "scored"}
    told = {at for issue in ranking.report.issues for at in issue.positions}
    if ranking.report.status == "unchanged":
        assert ranking.report.issues
        assert ranking.order == tuple(range(count))
    elif ranking[0].status == "tail":
        assert (count, ranking.report.issues) == (1, ())  # a single candidate, left alone
    else:
        assert unscored <= told
        assert ranking.report.status == ("partial" if unscored else "ok")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_megabyte_is_refused_before_a_deadline(asynchronous):
    reranker = Reranker(
        Graded(lambda messages: "{" * 1_000_000), limits={"deadline": 2}, log_level="debug"
    )
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", ["a", "b"]))
    else:
        ranking = reranker.rerank("q", ["a", "b"])
    assert ranking.report.issues[0].code == "reply_refused"
