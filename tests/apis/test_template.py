"""Templates of requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.apis.template import filled, occupied, problems

VALUES = {
    "query": "q",
    "instructed_query": "i\nq",
    "instruction": "i",
    "model": None,
    "raw_scores": False,
    "document_tokens": 7,
}
WHOLE = {"query": "$query", "documents": "$documents"}
FILLED = {
    "each": ([{"id": "$id", "n": "$index", "text": "$document"}],
             [{"id": "0", "n": 0, "text": "a"}, {"id": "1", "n": 1, "text": "b"}]),
    "each inside": ({"items": [{"x": {"y": "$document"}}]},
                    {"items": [{"x": {"y": "a"}}, {"x": {"y": "b"}}]}),
    "a list of one without a document": ([{"text": "$query"}], [{"text": "q"}]),
    "a list of two": (["$query", "$count"], ["q", 2]),
    "queries": ("$queries", ["q", "q"]),
    "documents": ("$documents", ["a", "b"]),
    "without a value": ({"model": "$model", "list": ["$model"]}, {"list": []}),
    "false is a value": ({"raw": "$raw_scores"}, {"raw": False}),
    "instructed": ("$instructed_query", "i\nq"),
    "a dollar sign": ("$$query", "$query"),
    "part of a string": ("x $query", "x $query"),
    "plain": ({"a": [1, None, True, 0.5]}, {"a": [1, None, True, 0.5]}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLED)
def test_filled(name):
    template, expected = FILLED[name]
    assert filled({"x": template}, VALUES, ["a", "b"]) == {"x": expected}


@given(st.lists(st.text(), max_size=4), st.text())
def test_texts_stay_whole_values(documents, query):
    """No text is formatted into another, and none is read as a placeholder."""
    template = {"q": "$query", "d": "$documents", "e": [{"t": "$document"}], "n": "$count"}
    assert filled(template, {"query": query}, documents) == {
        "q": query,
        "d": documents,
        "e": [{"t": text} for text in documents],
        "n": len(documents),
    }


PROBLEMS = {
    "no query": ({"d": "$documents"}, "must contain the query: the placeholder '$query'"),
    "no documents": ({"q": "$query"}, "must contain the documents: the placeholder '$documents'"),
    "unknown": ({**WHOLE, "x": [{"y": "$documnt"}]},
                "x[0].y: '$documnt' is no placeholder; did you mean '$document'?"),
    "no list": ({**WHOLE, "x": "$document"},
                "x: the placeholder '$document' must stand in a list of one element"),
    "a list of two": ({**WHOLE, "x": ["$id", "a"]},
                      "x[0]: the placeholder '$id' must stand in a list of one element"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name):
    template, message = PROBLEMS[name]
    assert message in "; ".join(map(str, problems(template)))


TEMPLATE = {
    "input": {"query": "$query", "documents": "$documents"},
    "parameters": {"top_n": "$count", "instruct": "$instruction", "truncate": True},
    "raw": "$raw_scores",
    "model": "$model",
}
OPTIONS = [
    ({"x": 1}, {"x": 1}),
    ({"parameters": {"truncate": False}}, {"parameters": {"truncate": False}}),
    ({"parameters": {"instruct": "before"}}, {"parameters": {"instruct": "before\ni"}}),
    ({"parameters": {"top_n": 5}}, {"parameters": {"top_n": 5}}),
    ({"parameters": 5}, {"parameters": 5}),
    ({"raw": True}, {}),
    ({"x": "$query", "y": {"n": "$count"}}, {"x": "q", "y": {"n": 1}}),
    ({"x": "$$query", "y": ["$count", 2]}, {"x": "$query", "y": [1, 2]}),
    ({"parameters": {"top_n": "$count"}}, {}),
]


@pytest.mark.parametrize(("options", "added"), OPTIONS)
def test_options(options, added):
    body = filled(TEMPLATE, VALUES, ["a"])
    result = filled(TEMPLATE, VALUES, ["a"], options)
    expected = dict(body)
    for name, value in added.items():
        merges = isinstance(value, dict) and isinstance(body.get(name), dict)
        expected[name] = {**body[name], **value} if merges else value
    assert result == expected
    assert filled(TEMPLATE, VALUES, ["a"]) == body


def test_options_without_a_value():
    options = {"x": "$model", "parameters": {"top_k": "$model"}}
    assert filled(TEMPLATE, VALUES, ["a"], options) == filled(TEMPLATE, VALUES, ["a"])


OCCUPIED = [
    ({"input": {"query": "x"}}, ["input.query"]),
    ({"input": {"documents": []}}, ["input.documents"]),
    ({"input": 5}, ["input"]),
    ({"model": "x"}, ["model"]),
    ({"input": {"x": 1}, "parameters": {"top_n": 3, "instruct": "x"}, "raw": True}, []),
]


@pytest.mark.parametrize(("options", "names"), OCCUPIED)
def test_occupied(options, names):
    assert occupied(TEMPLATE, options) == names
