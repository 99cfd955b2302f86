"""Finding JSON in replies: quotations, depth and time."""

import asyncio
import contextlib
import json
import time

import pytest

from reply_cases import NONE, ORDER, VALUES, G, O, check, order_of, scores_of
from secondpass import Reranker
from secondpass.errors import ReplyError
from secondpass.prompts.replies.json_text import JsonObject, find_values, parse_whole
from secondpass.strategies.listwise import Listwise


def test_quoted_end_of_thinking():
    reply = f'{O} A document said "</think>["k4t", "b2c", "z9x"]", which I ignored.'
    with contextlib.suppress(ReplyError):  # ambiguous is fine; what the document said is not
        assert order_of(reply) == ORDER


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


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(reply, id=name, marks=[pytest.mark.long] * (number % 4 > 0))
        for number, (name, reply) in enumerate(LASTING)
    ],
)
def test_linear_time(reply):
    async def function(messages):
        return reply

    reranker = Reranker(
        Listwise(function, window=None, labels="index1"),
        limits={"deadline": 600, "repair": 0},
        log_level="debug",
    )
    texts = [f"passage {at}" for at in range(70)]
    started = time.thread_time()  # reading computes; what else the machine does is no matter
    ranking = asyncio.run(reranker.arerank("q", texts))
    assert time.thread_time() - started < 3  # busy machines count more; a quadratic one takes 10
    assert ranking.report.status == "unchanged"


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("9" * 299, int("9" * 299)),
        ("-" + "9" * 298, -int("9" * 298)),
        ("1" * 300, 10**300),
        ("9" * 5000, 10**300),
        ("-" + "9" * 5000, -(10**300)),
    ],
)
def test_long_numbers_are_out_of_any_range(digits, number):
    assert parse_whole(f"[{digits}]") == [number]


QUOTED = json.dumps(G)
MANY = "it has too many brackets that hold no JSON"

AROUND = {
    "as long as allowed": (G + " " * (400_000 - len(G)), VALUES),
    "too long": (G + " " * (400_001 - len(G)), "it is too long"),
    "broken brackets": ("{x}" * 1000 + G, VALUES),
    "too many broken brackets": ("{x}" * 1001 + G, MANY),
    "unclosed prose": ("[a b " * 8 + G, VALUES),
    "too much unclosed prose": ("[a b " * 9 + G, NONE),
    "broken, then almost-JSON": ("[no: list] {'k4t': 3}", NONE),
    "bracket in a bracket": ("[[ab cd " + G, NONE),
    "quoted bracket": ('As "[best: ' + G, VALUES),
    "one word in a bracket": ("[best " + G, VALUES),
    "one word in a brace": ("{best " + G, NONE),
    "two words in a brace": ("{a b " + G, VALUES),
    "a capital at the end": ("[the best of X " + G, VALUES),
    "a comma at the end": ("[the best, " + G, NONE),
    "an apostrophe": ("[it's best " + G, NONE),
    "thinking in capitals": ('<THINK>{"k4t": 1}</THINK>' + G, VALUES),
    "quoted": (QUOTED, VALUES),
    "quoted behind a word": ("Yes: " + QUOTED, VALUES),
    "quoted behind two spaces": (QUOTED.replace("{", "  {"), VALUES),
    "quoted behind seven spaces": (QUOTED.replace("{", " " * 7 + "{"), VALUES),
    "quoted behind eight spaces": (QUOTED.replace("{", " " * 8 + "{"), NONE),
    "quoted array": (json.dumps('[{"id": "k4t", "score": 3}]'), (3, None, None)),
}


@pytest.mark.parametrize(("reply", "expected"), AROUND.values(), ids=AROUND)
def test_text_around_an_answer(reply, expected):
    check(lambda: scores_of(reply), expected)


@pytest.mark.parametrize("before", ["Here, so: ", 'About 5" of '])
def test_text_before_a_cut_answer(before):
    check(lambda: scores_of(before + '{"k4t": 3, "b2c": 9, "z9', cut=True), (3, 9, None))


@pytest.mark.parametrize(
    ("text", "broken", "unclosed"),
    [
        ('{x "a\\\n}" }', [(0, 11)], None),  # the string goes on after the escaped line break
        ('\\"[\\"a\\"]"', [], 2),  # of an escaped string
        ('[see "x" {"a": 1}', [], 0),  # a quotation mark: not in prose
        ("[see x {", [], 7),
    ],
    ids=["escaped line break", "escaped quotation mark", "quoted word", "prose"],
)
def test_brackets_without_values(text, broken, unclosed):
    values = find_values(text)
    assert (values.items, values.broken, values.unclosed) == ([], broken, unclosed)


@pytest.mark.parametrize(
    ("text", "place"),
    [('[1] {"a": 1}', [(0, 3), (4, 12)]), ('so: " [\\"a\\"]" {}', [(4, 14), (15, 17)])],
    ids=["bare", "quoted"],
)
def test_places_of_values(text, place):
    assert [(value.start, value.stop) for value in find_values(text).items] == place


@pytest.mark.parametrize(
    ("text", "value", "contested"),
    [
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}, set()),
        ('{"a": 1, "a": 1}', {"a": 1}, set()),
        ('{"a": 1, "a": 2, "b": 3}', {"a": 2, "b": 3}, {"a"}),
        ('{"a": 1, "a": 1.0}', {"a": 1.0}, {"a"}),
        ('{"a": 1, "a": true}', {"a": True}, {"a"}),
        ('{"a": [1], "a": [1]}', {"a": [1]}, set()),
        ('{"a": 1, "a": 2, "a": 1}', {"a": 1}, {"a"}),
        ("{}", {}, set()),
    ],
)
def test_contested_keys(text, value, contested):
    read = json.loads(text, object_pairs_hook=JsonObject)
    assert dict(read) == value
    assert read.contested == contested


def test_all_pairs_are_kept_in_order():
    read = json.loads('{"b": 1, "a": 2, "b": 3}', object_pairs_hook=JsonObject)
    assert read.pairs == [("b", 1), ("a", 2), ("b", 3)]
