"""Rankings as plain values, as DataFrames and in notebooks."""

import json
import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import InOrder
from secondpass import Candidate, MissingExtraError, Ranked, Ranking, Reranker
from secondpass.types import TIMES, Issue, Report

FRUIT = [
    {"id": "moon", "text": "a secret moon", "score": 0.9, "page": 4},
    {"id": "pear", "text": "a secret fruit", "score": 0.8},
]


def ranked(**settings):
    reranker = Reranker(InOrder([0.2, 0.6]), log_level="debug", **settings)
    return reranker.rerank("a secret query", FRUIT)


def shown(text, span=None, query="q", identifier="d", issue="message"):
    """The HTML of a ranking with this text, among other things."""
    item = Ranked(1, 0, Candidate(text, identifier), "scored", 0.5, 0.5, (), {}, span)
    report = Report("ok", "method", issues=(Issue("code", issue),))
    return Ranking(query, (item,), report)._repr_html_()


HOSTILE = [
    "<script>alert(1)</script>",
    "</td></table><img src=x onerror=alert(1)>",
    "&lt;script&gt;",
    '" onmouseover="alert(1)',
    "<!-- ",
    "]]><?php",
    "\x00\x1b[31m\u202e\ud800\ufffe",
    "</mark></div><style>*{display:none}</style>",
]
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.lists(st.sampled_from([*"<>&\"'/! =x-", "script", "mark", "\ud800", "\r\n"])).map("".join),
)
TAG = re.compile(r"<([^ >]*)[^>]*>?")
BENIGN = TAG.findall(shown("plain"))


@given(texts, texts, texts, texts, st.integers(0, 30), st.integers(1, 30))
@example(*HOSTILE[:4], 2, 9)
@example(*HOSTILE[4:], 0, 30)
def test_hostile_texts_are_escaped(text, query, identifier, issue, start, length):
    span = (start, start + length) if start + length <= len(text) else None
    page = shown(text, span, query, identifier, issue)
    tags = TAG.findall(page)
    assert [tag for tag in tags if tag not in {"mark", "/mark"}] == BENIGN
    assert tags.count("mark") == tags.count("/mark") <= 1
    assert set(re.findall('([a-z]+)="', page)) == {"class", "style", "dir"}
    assert not {*page} & {"\x00", "\x1b", "\u202e", "\ud800", "\ufffe"}


@pytest.mark.parametrize(
    ("text", "span", "cell"),
    [
        ("abc", None, "abc"),
        ("abcdef", (2, 4), "ab<mark>cd</mark>ef"),
        ("a<b>c", (1, 4), "a<mark>&lt;b&gt;</mark>c"),
        ("x" * 201, None, "x" * 200 + "…"),
        ("x" * 300 + "yes", (300, 303), "…<mark>yes</mark>"),
        ("x" * 199 + "yes!", (199, 202), "x" * 199 + "<mark>y</mark>…"),
    ],
)
def test_span_is_highlighted(text, span, cell):
    assert f'dir="auto">{cell}</td>' in shown(text, span)


def test_place_was_and_score():
    cells = re.findall("<td[^>]*>(.*?)</td>", ranked()._repr_html_())
    assert cells == [
        *("1", "2", "0.6000", "pear", "a secret fruit"),
        *("2", "1", "0.2000", "moon", "a secret moon"),
    ]


def test_unscored_items_show_their_status():
    assert "0.2000 (tail)" not in ranked(depth=1)._repr_html_()
    assert "(tail)" in ranked(depth=1)._repr_html_()


def test_long_rankings_are_cut():
    ranking = Reranker("lexical").rerank("a", ["a"] * 70)
    page = ranking._repr_html_()
    assert page.count("<tr>") == 51
    assert "and 20 more" in page


@pytest.mark.parametrize("text", [None, 5, b"x"])
def test_text_that_is_no_string(text):
    assert 'dir="auto"></td></tr></tbody>' in shown(text)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "<Ranking ok: 2 items; method 'in-order'; first 'pear', 'moon'>"),
        ({"top_k": 1}, "<Ranking ok: 1 item; method 'in-order'; first 'pear'; 1 left out>"),
    ],
)
def test_repr_has_no_text(settings, expected):
    assert repr(ranked(**settings)) == str(ranked(**settings)) == expected


def test_plain_values():
    record = ranked().to_dict()
    assert "secret" not in json.dumps(record)
    assert record["ranking"][0] == {
        "rank": 1,
        "id": "pear",
        "position": 1,
        "status": "scored",
        "score": 0.8,
        "rerank_score": 0.6,
        "final_score": 0.6,
        "stage_scores": [],
        "span": None,
        "probability": None,
    }
    times = {name: record["report"][name] for name in TIMES}
    assert record["report"] == ranked().report.to_dict() | times
    record = ranked().to_dict(text=True)
    assert record["query"] == "a secret query"
    assert record["ranking"][1]["text"] == "a secret moon"
    assert record["ranking"][1]["metadata"] == {"page": 4}


def test_data_frames():
    pytest.importorskip("pandas")
    frame = ranked().to_pandas()
    assert list(frame["id"]) == ["pear", "moon"]
    assert "secret" not in frame.to_csv()
    assert list(ranked().to_pandas(text=True)["text"]) == ["a secret fruit", "a secret moon"]
    empty = Reranker("lexical").rerank("q", []).to_pandas()
    assert list(empty.columns) == list(frame.columns)


def test_data_frames_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"to_pandas needs .*\[pandas\]"):
        ranked().to_pandas()
