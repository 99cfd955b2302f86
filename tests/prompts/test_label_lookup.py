"""Looking up the labels that models write."""

import math

import pytest

from reply_cases import FROM_1, NUMBERS, OPAQUE


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
        (FROM_1, [1], None),
        (FROM_1, {"id": 1}, None),
    ],
)
def test_place(labels, value, place):
    assert labels.place(value) == place
