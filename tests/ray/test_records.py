"""Rows of tables as JSON texts of requests."""

import pytest

from secondpass_ray.records import record_text, record_texts


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"request": '{"a" :1}', "other": 1}, b'{"a" :1}'),
        (
            {"query": "é", "top_k": None, "candidates": [{"text": "a", "score": None}]},
            b'{"query": "\\u00e9", "candidates": [{"text": "a"}]}',
        ),
    ],
    ids=["text", "nulls-are-absent"],
)
def test_records_as_text(record, text):
    assert record_text(record, "file", 1) == text


@pytest.mark.parametrize(
    "value", [b"bytes", float("nan"), object()], ids=["bytes", "nan", "object"]
)
def test_records_that_json_cannot_hold(value):
    error = record_text({"query": value}, "file", 3)
    assert str(error).startswith("file:3: JSON cannot hold its values")


def test_a_row_that_python_cannot_hold_does_not_fail_others():
    """A map with a key twice, a time far away, and bytes that are not UTF-8."""
    pa = pytest.importorskip("pyarrow")
    wrong = {
        "map": pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        "time": pa.array([1, 2**62], pa.timestamp("us")),
        "text": pa.array([b"ab", b"\xff\xfe"]).view(pa.string()),
    }
    for name, column in wrong.items():
        columns = {"query": pa.array(["q", "q"]), "candidates": pa.array([["a"], ["b"]])}
        first, second = record_texts(pa.table({**columns, "extra": column}), name, 1)
        assert b'"candidates": ["a"]' in first
        assert str(second).startswith(f"{name}:2: Python cannot hold its values (")
