"""Reply formats: their requests, schemas and sizes."""

import pytest

from secondpass import ConfigurationError
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
