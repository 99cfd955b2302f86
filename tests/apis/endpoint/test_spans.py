"""Spans of rerank APIs: what is accepted, where they end up, and what they survive."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_provider as fake
from fake_provider import http, refusing
from rankings import codes, scores
from rerank_answers import KEY, documents
from rerank_dialects import DIALECTS, NUMBERS
from sampling import examples
from secondpass import Candidate, Reranker
from secondpass.adapters.scores import provenance
from span_texts import TEXTS, span

ENDPOINT = {"type": "endpoint", "api": "cohere", "model": "m"}


def spanned(listed, score=0.5):
    """A response in which each document has the spans that a function lists for its text.

    Each score is 0.01 lower than the one before: equal scores of a model are an issue.
    """

    def step(request):
        rows = [
            {"index": place, "relevance_score": score - place / 100, "relevant_spans": listed(text)}
            for place, text in enumerate(documents(request))
        ]
        yield http(200, DIALECTS["cohere"].reply(rows))

    return step


def parts(ranking):
    """What each span cuts out, by input position."""
    return {
        item.position: None if item.span is None else item.text[slice(*item.span)]
        for item in ranking
    }


def test_the_best_span_of_each_document(make, rank, provider):
    def listed(text):
        place = text.index("b")
        return [span(0, 2, 0.2), span(place, len(text), 0.9), span(0, 1, 0.4)]

    provider.play(spanned(listed))
    texts = ["a 🦉 b 1", "é́ b 22", "xb"]
    ranking = rank(make("cohere", api_key=KEY, spans=True, batch_size=2), "q", texts)
    assert parts(ranking) == {0: "b 1", 1: "b 22", 2: "b"}
    assert ranking.report.issues == ()
    assert all(r.body["relevant_spans"]["mode"] == "enabled" for r in provider.requests)


def test_texts_that_were_cut(make, rank, provider):
    """Only the beginning was sent, so spans are within it."""
    texts = ["3 " + "🦉" * 5000, "9 b"]

    def too_long(request):
        return sum(map(len, documents(request))) > 3000

    rejected = fake.status(413, "the input is too long")
    last = spanned(lambda text: [span(len(text) - 1, len(text))])
    provider.play(refusing(too_long, rejected, last))
    ranking = rank(make("cohere", api_key=KEY, spans=True), "q", texts)
    assert {item.position: item.span for item in ranking} == {0: (1999, 2000), 1: (2, 3)}
    beyond = spanned(lambda text: [span(4000, 4001)] if len(text) > 3 else None)
    provider.play(refusing(too_long, rejected, beyond))
    ranking = rank(make("cohere", api_key=KEY, spans=True), "q", texts)
    assert parts(ranking) == {0: None, 1: None}
    assert "span_invalid" in codes(ranking)


def test_a_model_without_spans(make, rank, provider):
    """It is said of each ranking, and such answers are not stored as if nothing was relevant."""
    message = "relevant_spans is only supported for newer models"
    provider.play(
        refusing(lambda r: "relevant_spans" in r.body, fake.raw(http(400, {"message": message})))
    )
    reranker = make("cohere", api_key=KEY, spans=True)
    for requests in (2, 3):
        ranking = rank(reranker, "q", NUMBERS)
        assert (ranking.report.status, ranking.order) == ("ok", (1, 2, 0))
        assert "spans_not_supported" in codes(ranking)
        assert len(provider.requests) == requests


def test_stored_spans(make, rank, provider, tmp_path):
    cache = {"cache": str(tmp_path / "answers")}
    provider.play(spanned(lambda text: [span(0, 1) if "b" in text else span(0, 99)]))
    rankings = [
        rank(make("cohere", api_key=KEY, spans=True, whole=cache), "q", NUMBERS) for _ in range(2)
    ]
    first, again = rankings
    assert (again.report.usage.calls, again.report.usage.cached) == (0, 1)
    assert parts(first) == parts(again) == {0: None, 1: "9", 2: None}
    assert scores(first) == scores(again)
    assert codes(first) == codes(again) == {"span_invalid"}
    plain = rank(make("cohere", api_key=KEY, whole=cache), "q", NUMBERS)
    assert (plain.report.usage.calls, parts(plain)) == (1, dict.fromkeys(range(3)))


def test_wrong_spans_cost_no_score(make, rank, provider):
    texts = ["3 a", "9 b", "🦉 c"]
    provider.play(spanned(lambda text: [span(0, 1) if "b" in text else span(0, 99)]))
    ranking = rank(make("cohere", api_key=KEY, spans=True), "q", texts)
    assert scores(ranking) == {0: 0.5, 1: 0.49, 2: 0.48}
    assert parts(ranking) == {0: None, 1: "9", 2: None}
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("span_invalid", (0, 2))
    assert ranking.report.status == "ok"
    assert not any(text in json.dumps(ranking.report.to_dict()) for text in ("3 a", "9 b"))


TITLE = "Ti\u0300tle 🦉"


@pytest.fixture(scope="module")
def titled(provider):
    """Ranks candidates that are rendered behind their titles, two of them per request."""
    method = {**ENDPOINT, "base_url": provider.base_url("cohere"), "api_key": KEY, "spans": True}
    render = {"fields": ["title", "text"], "prefix": "passage: ", "suffix": "\n"}
    reranker = Reranker.from_config({"method": {**method, "batch_size": 2}, "render": render})
    yield reranker
    reranker.close()


SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 100))
"""Where a span begins and ends, by share of the text, and its score in hundredths."""
ASKED = st.lists(
    st.tuples(TEXTS, st.lists(SHARES, max_size=3, unique_by=lambda share: share[2])),
    min_size=1,
    max_size=5,
)


def test_rows_that_contradict_each_other(make, provider):
    def step(request):
        rows = [
            {"index": 0, "relevance_score": 0.5, "relevant_spans": [span(0, end)]} for end in (1, 2)
        ]
        rows.append({"index": 1, "relevance_score": "high", "relevant_spans": [span(0, 1)]})
        yield http(200, DIALECTS["cohere"].reply(rows))

    provider.play(step)
    ranking = make("cohere", api_key=KEY, spans=True).rerank("q", ["3 a", "9 b"])
    assert (scores(ranking), parts(ranking)) == ({0: 0.5, 1: None}, {0: None, 1: None})
    positions = {issue.code: issue.positions for issue in ranking.report.issues}
    assert positions == {"span_invalid": (0,), "score_refused": (1,)}


@given(asked=ASKED)
@examples(8)
def test_a_span_of_the_ranking_cuts_out_what_the_server_meant(asked, provider, titled):
    """Of its own text: what the server meant of a title or of a prefix is left out."""
    before = f"passage: {TITLE}\n"
    candidates = [
        Candidate(f"{number} {text}", metadata={"title": TITLE})
        for number, (text, _) in enumerate(asked)
    ]
    listed = {}
    for candidate, (_, shares) in zip(candidates, asked, strict=True):
        sent = f"{before}{candidate.text}\n"
        ends = [(sorted(int(share * len(sent)) for share in two), score) for *two, score in shares]
        places = {(start, stop): score for (start, stop), score in ends if start < stop}
        listed[sent] = [span(*place, score / 100) for place, score in places.items()]
    provider.play(spanned(listed.__getitem__))
    ranking = titled.rerank("q", candidates)
    assert ranking.report.issues == ()
    for item in ranking:
        sent = f"{before}{item.text}\n"
        best = max(listed[sent], key=lambda one: one["score"], default=span(0, 0))
        own = sent[max(best["start"], len(before)) : min(best["end"], len(sent) - 1)]
        found = provenance(item, {}).get("rerank_span")
        assert (None if found is None else item.text[slice(*found)]) == (own or None)


REQUEST = {"q": "$query", "d": "$documents"}


def test_an_api_of_your_own(make, provider, monkeypatch, rank, tmp_path):
    """Members that ask for spans may stand inside others."""
    monkeypatch.setitem(fake.APIS, "/v1/rank", "mine")
    api = {
        "path": "/v1/rank",
        "request": {**REQUEST, "return": {"text": False}},
        "spans": {
            "rows": "marks.list", "start": "from", "end": "to", "score": None, "unit": "utf16",
            "request": {"return": {"marks": True}},
        },
    }  # fmt: skip

    def step(request):
        assert request.body["return"] == {"text": False, "marks": True}
        rows = [
            {"index": place, "relevance_score": 1, "marks": {"list": [{"from": 2, "to": 3}]}}
            for place, _ in enumerate(request.body["d"])
        ]
        yield http(200, {"results": rows})

    provider.play(step)
    settings = {"base_url": f"http://127.0.0.1:{provider.port}/mine", "spans": True}
    whole = {"cache": str(tmp_path / "answers")}
    reranker = make(api, **settings, whole=whole)
    assert parts(rank(reranker, "q", ["🦉ab", "xyz"])) == {0: "a", 1: "z"}
    assert Reranker.from_config(reranker.to_config()).method.spans is True
    # Another description is another question.
    other = make({**api, "spans": {**api["spans"], "unit": "code_points"}}, **settings, whole=whole)
    assert parts(rank(other, "q", ["🦉ab", "xyz"])) == {0: "b", 1: "z"}
