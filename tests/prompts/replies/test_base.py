"""Reply formats: their requests, schemas and sizes; values that were read come back from JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass import ConfigurationError
from secondpass.apis.wire import ResponseScores
from secondpass.prompts.replies.base import BatchScores, Order, dump, load
from secondpass.prompts.replies.numbers import Keyed, Pairs, Ranks, Scores
from secondpass.prompts.replies.permutation import Permutation, Ranked

SCORES = Scores(0, 100)
WHOLE_SCORES = Scores(0, 100, whole=True)

REQUESTS = [
    (
        Keyed(SCORES, "opaque"),
        'Reply with ONLY one JSON object that maps each id to its score, {"<id>": <score>, ...}. '
        "Every id has to be there exactly once.",
    ),
    (
        Keyed(Ranks(), "index0"),
        'Reply with ONLY one JSON object that maps each index to its rank, {"<index>": <rank>, '
        "...}. Every index has to be there exactly once. Rank 1 is the best. Indices count from 0.",
    ),
    (
        Pairs(SCORES, "id"),
        'Reply with ONLY one JSON object of this form: {"grades": [{"id": "<id>", "score": '
        "<score>}, ...]}. Every id has to be there exactly once.",
    ),
    (
        Pairs(Ranks()),
        'Reply with ONLY one JSON object of this form: {"grades": [{"id": "<id>", "rank": '
        "<rank>}, ...]}. Every id has to be there exactly once. Rank 1 is the best.",
    ),
    (
        Pairs(SCORES, "index1", bare=True),
        'Reply with ONLY a JSON array of this form: [{"index": <index>, "score": <score>}, ...]. '
        "Every index has to be there exactly once. Indices count from 1.",
    ),
    (
        Permutation("opaque"),
        'Reply with ONLY one JSON object of this form, best first: {"ranking": ["<id>", "<id>", '
        "...]}. Every id has to be there exactly once.",
    ),
    (
        Ranked("index1"),
        "Reply with ONLY one line of this form, best first: [<index>] > ... > [<index>]. Every "
        "index has to be there exactly once. Indices count from 1.",
    ),
    (
        Permutation("index1", bare=True),
        "Reply with ONLY a JSON array of this form, best first: [<index>, <index>, ...]. Every "
        "index has to be there exactly once. Indices count from 1.",
    ),
]


@pytest.mark.parametrize(("reply_format", "words"), REQUESTS)
def test_request(reply_format, words):
    assert reply_format.request() == words


def closed(properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items, count=2):
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


NUMBER, WHOLE = {"type": "number"}, {"type": "integer"}
NAMES, PLACES = {"type": "string", "enum": ["a", "b"]}, {"type": "integer", "enum": [0, 1]}

SCHEMAS = [
    (Keyed(SCORES, "opaque"), closed({"a": NUMBER, "b": NUMBER})),
    (Keyed(WHOLE_SCORES, "opaque"), closed({"a": WHOLE, "b": WHOLE})),
    (Keyed(Ranks()), closed({"a": WHOLE, "b": WHOLE})),
    (
        Pairs(SCORES, "id"),
        closed({"grades": array(closed({"id": NAMES, "score": NUMBER}))}),
    ),
    (Permutation("id"), closed({"ranking": array(NAMES)})),
    (Pairs(SCORES, "id", bare=True), None),
    (Permutation("index0", bare=True), None),
    (Ranked("index0"), None),
]


@pytest.mark.parametrize(("reply_format", "schema"), SCHEMAS)
def test_schema(reply_format, schema):
    assert reply_format.schema(["a", "b"]) == schema


@pytest.mark.parametrize(
    ("low", "high", "schema"),
    [
        (0, 20, {"type": "integer", "enum": [*range(21)]}),
        (0, 21, {"type": "integer"}),
        (-5, 20, {"type": "integer"}),
        (10, 13, {"type": "integer", "enum": [10, 11, 12, 13]}),
        (0.5, 3.5, {"type": "integer", "enum": [1, 2, 3]}),
    ],
)
def test_schema_lists_few_whole_numbers(low, high, schema):
    assert Scores(low, high, whole=True).schema() == schema


def test_expected_tokens():
    formats = [Keyed(SCORES), Pairs(SCORES), Permutation(), Ranked()]
    assert [each.expected_tokens(2) for each in formats] == [32, 48, 26, 28]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Keyed(SCORES, bare=True), "reply 'keyed' asks for an object"),
        (lambda: Ranked(bare=True), "reply 'ranked' asks for a line"),
    ],
)
def test_only_arrays_are_bare(make, message):
    with pytest.raises(ConfigurationError, match=f"bare: is for arrays; {message}"):
        make()


# ---------------------------------------------------------------------- values that were read


places = st.lists(st.integers(0, 5), unique=True).map(tuple)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
scores = st.lists(numbers, min_size=6, max_size=6).map(tuple)
values = st.one_of(
    st.builds(BatchScores, scores, places, st.integers(0, 9), declined=places),
    st.builds(Order, places, st.integers(0, 9), st.integers(0, 9), refused=places),
)


@examples(20)
@given(values)
def test_values_come_back(value):
    data = json.loads(json.dumps(dump(value)))
    again = load(data, 6)
    assert again == value
    assert [type(item) for item in vars_of(again)] == [type(item) for item in vars_of(value)]


def vars_of(value):
    return value.values if isinstance(value, BatchScores) else value.places


def test_values_of_subclasses_come_back():
    value = ResponseScores((7.0, None), (1,), outside=(7.0,))
    assert load(json.loads(json.dumps(dump(value))), 2, ResponseScores) == value
    with pytest.raises(ValueError, match="no answer"):
        load(dump(value), 2)


@pytest.mark.parametrize("value", [None, 1.0, "text", [1], object()])
def test_other_values_cannot_be_stored(value):
    with pytest.raises(TypeError, match="cannot be stored"):
        dump(value)


STORED_ORDER = {"places": [1, 0], "doubled": 0, "unknown": 0, "cut": False, "refused": []}
STORED_SCORES = {"values": [1.0, 2.0], "refused": [], "unknown": 0, "cut": False, "declined": []}
WRONG = {
    "no mapping": [1, 2],
    "no field": {},
    "a field less": {"places": [1, 0]},
    "a place too high": {**STORED_ORDER, "places": [2, 0]},
    "a place below 0": {**STORED_ORDER, "places": [-1, 0]},
    "a place twice": {**STORED_ORDER, "places": [1, 1]},
    "a place of another type": {**STORED_ORDER, "places": [True, 0]},
    "a refused place too high": {**STORED_ORDER, "refused": [2]},
    "no places": {**STORED_ORDER, "places": None},
    "too few scores": {**STORED_SCORES, "values": [1.0]},
    "too many scores": {**STORED_SCORES, "values": [1.0, 2.0, 3.0]},
    "not a number": {**STORED_SCORES, "values": [1.0, float("nan")]},
    "infinite": {**STORED_SCORES, "values": [1.0, float("inf")]},
    "a whole number": {**STORED_SCORES, "values": [1.0, 2]},
    "a count that is none": {**STORED_SCORES, "unknown": "x"},
    "a count below 0": {**STORED_ORDER, "doubled": -1},
    "scores that broke off": {**STORED_SCORES, "cut": True},
    "an order that broke off": {**STORED_ORDER, "cut": "yes"},
    "a declined place too high": {**STORED_SCORES, "declined": [2]},
    "scores outside of other types": {**STORED_SCORES, "outside": ["7"]},
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_values_of_other_questions_are_rejected(data):
    kinds = [ResponseScores] if "outside" in data else []
    with pytest.raises((AttributeError, TypeError, ValueError)):
        load(data, 2, *kinds)
    load(STORED_ORDER, 2)
    load(STORED_SCORES, 2)
