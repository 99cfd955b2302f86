"""Words for messages about settings."""

import pytest

from secondpass.settings import describe, suggestion


class Unprintable(str):
    def __repr__(self):
        raise RuntimeError


class Foreign:
    pass


Foreign.__name__, Foreign.__module__ = "bool", "numpy"

DESCRIBED = {
    "none": (None, "None"),
    "text": ("ab", "'ab'"),
    "true": (True, "True"),
    "number": (0.5, "0.5"),
    "long text": ("x" * 100, "a str"),
    "huge number": (10**5000, "an int"),
    "unprintable": (Unprintable("x"), "an Unprintable"),
    "list": ([1], "a list"),
    "foreign type of a built-in name": (Foreign(), "a numpy.bool"),
}


@pytest.mark.parametrize(("value", "words"), DESCRIBED.values(), ids=DESCRIBED)
def test_describes(value, words):
    assert describe(value) == words


SUGGESTIONS = {
    "similar": ("depht", ["depth", "floor"], "; did you mean 'depth'?"),
    "not similar": ("zork", ["floor", "depth"], "; known are: depth, floor"),
    "nothing known": ("zork", [], ""),
}


@pytest.mark.parametrize(("word", "known", "words"), SUGGESTIONS.values(), ids=SUGGESTIONS)
def test_suggests(word, known, words):
    assert suggestion(word, known) == words
