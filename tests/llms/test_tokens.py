"""Tokens of equal text."""

import math

import pytest

from secondpass.llms.provider import token_logprobs

MERGED = [
    # The token itself, its alternatives, and probabilities of their texts.
    (("a", 0.5), [("a", 0.5), ("b", 0.25)], {"a": 0.5, "b": 0.25}),
    (("a", 0.25), [("b", 0.5), ("c", 0.125)], {"a": 0.25, "b": 0.5, "c": 0.125}),
    (("a", 0.5), [("a", 0.25), ("b", 0.5), ("a", 0.125)], {"a": 0.375, "b": 0.5}),
    (("a", 0.5), [("a", 0.5), ("b", 0.25), ("a", 0.5)], {"a": 0.5, "b": 0.25}),
    (("a", 0.5), [], {"a": 0.5}),
    (("a", 0.5), [("b", None), ("c", 0.0)], {"a": 0.5}),
    (("a", None), [("a", None), ("b", 0.5)], None),
]


@pytest.mark.parametrize(("own", "others", "merged"), MERGED)
def test_tokens_of_one_text(own, others, merged):
    def logs(entry):
        text, value = entry
        return text, None if value is None else -math.inf if value == 0 else math.log(value)

    tokens = token_logprobs([(logs(own), [logs(other) for other in others])])
    if merged is None:
        assert tokens is None
        return
    (token,) = tokens
    assert next(iter(token)) == own[0]
    assert {text: math.exp(value) for text, value in token.items()} == pytest.approx(merged)
