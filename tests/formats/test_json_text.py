"""JSON for every reader: no NaN, no separators of lines."""

import math

import pytest

from secondpass.formats import to_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True]}, '{"a": [1, 2.5, null, true]}'),
        ("ü 🦉", '"ü 🦉"'),
        ({"a": math.nan, "b": [(-math.inf, 1.0)]}, '{"a": null, "b": [[null, 1.0]]}'),
        ("a\u2028b\u2029c\x85\n", '"a\\u2028b\\u2029c\\u0085\\n"'),
        ("\x1b\x7f\x9b2J\u202e\u2066é", '"\\u001b\\u007f\\u009b2J\\u202e\\u2066é"'),
    ],
    ids=["plain", "not in ASCII", "not finite", "separators of lines", "terminal controls"],
)
def test_text(value, text):
    assert to_json(value) == text


def test_indent():
    assert to_json({"a": math.nan}, indent=2) == '{\n  "a": null\n}'
