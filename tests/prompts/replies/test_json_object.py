"""JSON objects with keys that occur twice."""

import json

import pytest

from secondpass.prompts.replies.json_text import JsonObject


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
