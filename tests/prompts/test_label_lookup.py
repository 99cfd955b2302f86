"""Looking up the labels that models write."""

import math

import pytest

from reply_cases import FROM_1, OPAQUE
from secondpass.prompts.labels import Labels

ESCAPED = Labels(["a&lt;b&gt;", "&quot;quoted&quot;", "?x=1&y=2"], None)


NUMBERS = Labels(["7", "doc 8"], None)


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
        (NUMBERS, 7, 0),
        (NUMBERS, 7.0, 0),
        (NUMBERS, 7.5, None),
        (Labels(["True"], None), True, None),
        (Labels(["1000000000"], None), 1e9, 0),
        (Labels(["1000000001"], None), 1_000_000_001.0, None),
        (Labels(["x" * 300], None), "x" * 300, 0),
        (Labels(["x" * 301], None), "x" * 301, None),
        (FROM_1, "1." + "0" * 298, 0),
        (FROM_1, "1." + "0" * 299, None),
        (FROM_1, [1], None),
        (ESCAPED, "a&lt;b&gt;", 0),
        (ESCAPED, "a<b>", 0),
        (ESCAPED, "A<B>", 0),
        (ESCAPED, "a&#60;b&#x3E;", 0),
        (ESCAPED, '"quoted"', 1),
        (ESCAPED, "?x=1&y=2", 2),
        (ESCAPED, "?x=1&amp;y=2", 2),
        (ESCAPED, "ab", None),
        (Labels(["a", "&quot;a&quot;"], None), '"a"', 1),
        (Labels(["&lt;b", "&lt;b#2"], None), "<b", 0),
        (Labels(["a&b", "a&amp;b"], None), "a&b", 0),
        (Labels(["a&b", "a&amp;b"], None), "a&amp;b", 1),
        (Labels(["a&b", "a&amp;b"], None), "a&amp;amp;b", None),
        (Labels(["a&lt;b", "a&amp;b"], None), "a&#38;b", 1),
        (Labels(["a&#38;b", "a&amp;b"], None), "a&b", None),
        (FROM_1, {"id": 1}, None),
    ],
)
def test_place(labels, value, place):
    assert labels.place(value) == place


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (91, 91),
        (-91, -91),
        (10**9, 10**9),
        (10**9 + 1, None),
        (-(10**9) - 1, None),
        (1e9, 10**9),
        (1e9 + 1, None),
        ("doc 91", 91),
        (None, None),
    ],
)
def test_number(value, number):
    assert FROM_1.number(value) == number


def test_beyond_the_ends():
    assert [FROM_1.is_beyond(value) for value in (-1, 0, 1, 3, 4, 5)] == [
        *(False, True, False, False, True, False)
    ]
    assert not any(map(OPAQUE.is_beyond, (-1, 3, "3", "k4t")))


def test_numeric():
    assert [labels.numeric for labels in (FROM_1, OPAQUE, NUMBERS)] == [True, False, False]
