"""Anthropic's Messages API: schemas."""

from secondpass.llms import anthropic as module


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
