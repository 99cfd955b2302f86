"""Anthropic's Messages API: parameters and schemas."""

import pytest

from secondpass.llms import anthropic as module
from secondpass.llms.anthropic import AnthropicMessages


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({}, {"temperature": 0}),
        ({"temperature": None, "max_tokens": 9}, {}),
        ({"options": {"top_k": 1, "temperature": 1}}, {"top_k": 1, "temperature": 1}),
    ],
    ids=str,
)
def test_parameters(settings, parameters):
    assert AnthropicMessages("m", **settings)._parameters() == parameters


def test_schemas_have_no_lengths_of_arrays():
    array = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {"ranking": array, "maxItems": {"type": "integer", "minimum": 0}},
        "anyOf": [array, {"minItems": 1}],
    }
    bare = {"type": "array", "items": {"type": "string"}}
    assert module._without_lengths(schema) == {
        "type": "object",
        "properties": {"ranking": bare, "maxItems": {"type": "integer", "minimum": 0}},
        "anyOf": [bare, {"minItems": 1}],
    }
    assert array["minItems"] == 2
