"""Texts for the embedded model, and the runtimes that it is tested with."""

import random

import pytest

from secondpass.concurrency.processor import has_fast_bfloat16

PASSAGES = [
    "The Eiffel Tower was completed in 1889.",
    "Bananas are rich in potassium.",
    "Paris is the capital of France.",
    "",
    "!!!",
    "The capital is a part of a column. " * 4,
]


RUNTIMES = [
    pytest.param(("onnx", "exact"), id="onnx-exact"),
    pytest.param(("openvino", "exact"), id="openvino-exact"),
    # Without bfloat16, that is the one before.
    pytest.param(
        ("openvino", "auto"),
        id="openvino-auto",
        marks=() if has_fast_bfloat16() else pytest.mark.long,
    ),
]


def english(count, longest=60):
    """Sentences of 1 to `longest` words, from words that the vocabulary has."""
    words = "the a tower is old and new in city of France bananas potassium river bridge".split()
    generator = random.Random(7)
    return [
        " ".join(generator.choices(words, k=generator.randint(1, longest))) for _ in range(count)
    ]
