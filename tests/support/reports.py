"""Comparisons for tests of reports, and a parser that checks pages."""

from __future__ import annotations

import base64
import hashlib
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from secondpass_evaluation import (
    Change,
    Comparison,
    Cost,
    Difference,
    Evaluation,
    Result,
    Shown,
    Stability,
)

MEASURES = ("nDCG@10", "RR")
VOID = {"meta", "br", "img", "link", "input", "hr"}
INJECTIONS = {
    "script": "<script>alert(1)</script>",
    "attribute": "\"'><img src=x onerror=alert(1)>",
    "closing tags": "</title></style></svg><svg onload=alert(1)>",
    "comment and math": "]]><!-- -- > &lt;&amp; $x^{2}$ \\frac",
    "control characters": "\x00\x07\x1b[31m\x85\u202e\ud800\ufffe\nnext",
    "url": "javascript:alert(1) url(http://example.org) @import 'x'",
    "template": "{{ 7 * 7 }} {% raw %} {# x #}",
    "scripts": "\u65e5\u672c\u8a9e \u05e9\u05dc\u05d5\u05dd \U0001f600",
}


def make(
    count=6,
    text="how far is it",
    *,
    gain=0.1,
    p=0.01,
    low=0.05,
    high=0.15,
    rerankers=("rerank",),
    **changes: Any,
) -> Comparison:
    """A comparison of a first stage and rerankers in which no field is empty."""
    rng = random.Random(7)
    queries = {f"q{index}": f"{text} {index}" for index in range(count)}
    base = {query: rng.random() / 2 for query in queries}
    results = [
        Result(
            "lexical",
            "ran",
            evaluation=evaluation(base),
            cost=Cost(dict.fromkeys(queries, 0.0021)),
        )
    ]
    for number, name in enumerate(rerankers):
        after = {
            query: value + (gain if index % 3 else -gain / 2)
            for index, (query, value) in enumerate(base.items())
        }
        top = tuple(
            Shown(rank, f"d{rank}", f"{text} passage", relevance, before)
            for rank, relevance, before in ((1, 2, 4), (2, 0, None), (3, None, 3))
        )
        change = Change("q1", f"{text} 1", 0.25, 0.75, top, top[::-1])
        results.append(
            Result(
                f"lexical+{name}",
                "ran",
                first_stage="lexical",
                config={"method": {"type": name}, "note": text},
                evaluation=evaluation(after),
                cost=Cost(
                    {q: 0.04 * (number + 1) + index / 1000 for index, q in enumerate(queries)},
                    calls=count,
                    pairs=count * 100,
                    input_tokens=count * 1234,
                    output_tokens=count * 7,
                    cost=count * 0.0021,
                ),
                statuses={"ok": count - 1, "degraded": 1},
                degraded_by={"stage": 1},
                issues={"timeout": 1},
                stability=Stability(2, 0.912, 0.834, "nDCG@10", (0.4011, 0.4213)),
                differences={
                    measure: Difference(measure, count, gain, low, high, 0.95, p, p, 4, 0, 2)
                    for measure in MEASURES
                },
                gains=(change,),
                losses=(replace(change, before=0.75, after=0.25),),
            )
        )
    results.append(Result("lexical+none", "not_run", f"{text}: no key", "lexical"))
    comparison = Comparison(
        f"suite {text}",
        queries,
        {query: {"d1": 1} for query in queries},
        MEASURES,
        "lexical",
        tuple(results),
        {"depth": 100, "test": "randomization", "versions": {"secondpass": "0.1.0"}},
        (f"only a part {text}",),
    )
    return replace(comparison, **changes)


def evaluation(values: dict[str, float]) -> Evaluation:
    return Evaluation(
        {name: dict(values) for name in MEASURES},
        {name: sum(values.values()) / len(values) for name in MEASURES},
    )


def with_reranker(comparison: Comparison, **changes: Any) -> Comparison:
    """The comparison with other fields in its rerankers that ran."""
    results = tuple(
        replace(result, **changes) if result.first_stage and result.status == "ran" else result
        for result in comparison.results
    )
    return replace(comparison, results=results)


_NOTHING = make(results=(Result("lexical", "not_run", "no corpus"),), baseline=None, queries={})
_FREE = Cost({f"q{index}": 0.0 for index in range(6)}, cost=0.0)
EDGES = {
    "nothing ran": _NOTHING,
    "no systems": replace(_NOTHING, results=(), notes=(), settings={}),
    "one query": make(count=1, p=None, low=None, high=None),
    "no differences": with_reranker(make(), differences={}),
    "no gains": with_reranker(make(gain=0.0, p=1.0), gains=(), losses=()),
    "no time": with_reranker(make(), cost=Cost()),
    "no time and no cost": with_reranker(make(), cost=_FREE),
    "calls not known": with_reranker(make(), cost=replace(_FREE, calls=None, pairs=None)),
    "first stage not measured": with_reranker(make(), first_stage="vector"),
    "no shuffles": with_reranker(make(), stability=Stability(0, 1.0, 1.0, "nDCG@10", ())),
    "more queries than bars": make(count=1_001),
    "many systems": make(rerankers=tuple(f"{'long-name-' * 9}{index}" for index in range(4))),
}


@contextmanager
def without(package: str) -> Iterator[None]:
    """As if the package was not installed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*(name for name in sys.modules if name.startswith(package)), package]:
            patch.setitem(sys.modules, name, None)
        yield


class Parsed(HTMLParser):
    """The elements of a page; fails on one that is closed in the wrong place or not at all."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.cells = [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def all(self, name):
        """The values of all attributes of this name."""
        return [value for _, attribute, value in self.attributes if attribute == name]


def check(page: str) -> Parsed:
    """Well-formed, self-contained, with unique ids and references that lead somewhere."""
    parsed = Parsed(page)
    # One script, which sorts tables; the policy allows no other.
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page
    assert parsed.tags.count("script") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(parsed.tags)
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name == "src"]
    ids = parsed.all("id")
    assert len(ids) == len(set(ids))
    for target in parsed.all("href"):
        assert target.startswith("#")
        assert target[1:] in ids
    assert set(parsed.all("aria-labelledby")) <= set(ids)
    for value in (*parsed.all("style"), *parsed.all("clip-path")):
        assert all(target in ids for target in re.findall(r"url\(#?(.*?)\)", value))
    assert "@import" not in re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
    page.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    return parsed
