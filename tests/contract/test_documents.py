"""What goes in and comes out: all documents, once, as they were, in the core's order."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract import (
    CANNOT,
    QUERY,
    Answers,
    Numbers,
    expected,
    first,
    needs,
    numbered,
    places,
    quiet,
    values,
)
from rankings import KEYS
from sampling import examples
from secondpass import InputError
from secondpass.questions import ListScores
from secondpass.ranking.rendering import is_blank

PATIENT = settings(
    examples(15), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

numbers = st.floats() | st.integers(-5, 5) | st.sampled_from([0.0, 0.5, 1.0])
lies = numbers | st.integers(-(10**400), 10**400) | st.none() | st.booleans() | st.text(max_size=3)
metadata = st.dictionaries(
    st.sampled_from(["title", "page", "rerank_score", "rerank_status", "retrieval_score"]),
    st.sampled_from([None, 0, "", False, "x", 2.5, "scored"]),
    max_size=3,
)
sources = st.lists(
    st.tuples(
        st.none() | st.text(max_size=5),
        st.sampled_from("abcdefgh"),
        st.none() | st.floats(),
        metadata,
    ),
    max_size=8,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Any], object]:
    """Documents, and an answer of a scorer that mostly has the length that it should have."""
    given_sources = draw(sources)
    readable = sum(text is not None and not is_blank(text) for text, *_ in given_sources)
    answers = st.lists(numbers, min_size=readable, max_size=readable)
    answers |= st.lists(lies, min_size=readable, max_size=readable)
    answers |= st.lists(lies, max_size=9)
    return given_sources, draw(answers | st.just(RuntimeError("down")))


def state_of(adapter: Any, document: Any) -> str:
    """Which objects a document holds, and what is in them."""
    holder = getattr(document, "node", document)
    one = adapter.carried(document)
    ids = [id(getattr(holder, name)) for name in adapter.members]
    excluded = [getattr(holder, f"excluded_{kind}_metadata_keys", ()) for kind in ("llm", "embed")]
    return repr((ids, excluded, one.text, one.id, one.score, {**one.metadata}))


@PATIENT
@given(
    case=cases(),
    top_k=st.none() | st.integers(1, 9),
    depth=st.none() | st.integers(1, 9),
    order=st.sampled_from([None, "lost_in_the_middle"]),
    dedupe=st.booleans(),
    asynchronous=st.booleans(),
)
def test_documents_are_those_of_the_core_and_inputs_stay(
    adapter: Any, case: Any, top_k: Any, depth: Any, order: Any, dedupe: bool, asynchronous: bool
) -> None:
    """Nothing lost or doubled; order, scores and metadata are the core's; nothing is modified."""
    documents = [
        adapter.given(text, id_, score, {"place": place, "tags": [place], **more})
        for place, (text, id_, score, more) in enumerate(case[0])
    ]
    before = [state_of(adapter, document) for document in documents]
    same = [*documents]
    config = quiet(Answers(case[1]), order=order or "none")
    component = adapter.make(
        {name: value for name, value in config.items() if name != "order" or order},
        **{"depth": depth, "dedupe": dedupe} if depth else {"dedupe": dedupe},
        **{"top_k": top_k} if top_k else {},
    )
    kind = "async" if asynchronous else "sync"
    ranked, _ = adapter.run(component, first(adapter, kind), QUERY, documents)
    assert [id(one) for one in documents] == [*map(id, same)]
    assert [state_of(adapter, document) for document in documents] == before
    core_config = {name: value for name, value in config.items() if name != "order" or order}
    options = {"top_k": top_k, "dedupe": dedupe} | ({"depth": depth} if depth else {})
    wanted = expected(adapter, core_config, documents, **options)
    assert repr([adapter.carried(one) for one in ranked]) == repr(wanted)
    scores = [adapter.carried(one).score for one in ranked]
    if "score" not in CANNOT[adapter.name]:
        assert all(type(score) is float and math.isfinite(score) for score in scores)
        assert scores == sorted(scores, reverse=True)
    if top_k is None and not dedupe:
        assert sorted(places(adapter, ranked)) == [*range(len(documents))]
    for one in ranked:
        source = documents[adapter.carried(one).place]
        assert one is not source
        assert adapter.carried(one).metadata is not adapter.carried(source).metadata
        assert adapter.carried(one).metadata["tags"] is adapter.carried(source).metadata["tags"]


def test_every_way_gives_the_same(adapter: Any, way: str) -> None:
    documents = numbered(adapter, 0.2, 0.9, 0.5, 0.4)
    copies = copy.deepcopy([adapter.carried(document) for document in documents])
    scorer = Numbers()
    component = adapter.make({"method": scorer, "depth": 3}, top_k=3)
    ranked, report = adapter.run(component, way, QUERY, documents)
    assert [adapter.carried(one) for one in ranked] == expected(
        adapter, {"method": Numbers(), "depth": 3}, documents, top_k=3
    )
    assert places(adapter, ranked) == [1, 2, 0]
    assert [adapter.carried(document) for document in documents] == copies
    assert scorer.queries == [QUERY]
    if report is not None:
        assert (report["status"], report["method"], report["issues"]) == ("ok", "numbers", [])
        assert [*report["left_out"]["top_k"]] == [3]
        assert report["usage"]["pairs"] == 3


def test_no_documents_ask_nothing(adapter: Any, way: str) -> None:
    scorer = Numbers()
    component = adapter.make({"method": scorer})
    ranked, report = adapter.run(component, way, QUERY, [])
    assert ranked == []
    assert report is None or report["status"] == "ok"
    assert "score" not in [event for event, _ in scorer.events]


@needs("parameters")
def test_a_prefix_avoids_keys_of_others(adapter: Any, way: str) -> None:
    documents = numbered(adapter, 0.2, 0.9)
    for document in documents:
        adapter.carried(document).metadata["rerank_score"] = "theirs"
    component = adapter.make({"method": Numbers()}, prefix="ours_")
    ranked, report = adapter.run(component, way, QUERY, documents)
    assert report is None or report["issues"] == []
    assert values(adapter, ranked, "rerank_score") == ["theirs", "theirs"]
    assert values(adapter, ranked, "ours_rerank_score") == [0.9, 0.2]
    keys = {"place", "rerank_score", *(f"ours_{key}" for key in KEYS)}
    assert all(adapter.carried(one).metadata.keys() == keys for one in ranked)


@needs("parameters")
def test_keys_of_others_are_kept_and_the_report_says_so(adapter: Any, way: str) -> None:
    documents = numbered(adapter, 0.2, 0.9)
    adapter.carried(documents[1]).metadata["rerank_score"] = "theirs"
    ranked, report = adapter.run(adapter.make({"method": Numbers()}), way, QUERY, documents)
    assert values(adapter, ranked, "rerank_score") == ["theirs", 0.2]
    if report is not None:
        (issue,) = report["issues"]
        assert (report["status"], issue["code"]) == ("ok", "metadata_kept")
        assert [*issue["positions"]] == [1]
        assert issue["message"].endswith(f"set {adapter.names['prefix']}=")


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\ufeff"])
def test_a_document_without_a_visible_character_is_not_scored(
    adapter: Any, way: str, text: str
) -> None:
    documents = [adapter.given(text, "blank", 9.0, {"place": 0})]
    documents += numbered(adapter, 0.2, 0.9)
    for place, document in enumerate(documents):
        adapter.carried(document).metadata["place"] = place
    ranked, report = adapter.run(adapter.make(quiet(Numbers())), way, QUERY, documents)
    assert places(adapter, ranked) == [2, 1, 0]
    assert adapter.carried(ranked[2]).text == text
    assert values(adapter, ranked, "rerank_status") == ["scored", "scored", "unjudged"]
    assert values(adapter, ranked, "rerank_score") == [0.9, 0.2, None]
    if report is not None:
        [issue] = report["issues"]
        assert (report["status"], issue["code"], [*issue["positions"]]) == (
            "partial",
            "no_text",
            [0],
        )


@needs("score")
@pytest.mark.parametrize(
    ("score", "example"), [("0.9", "a str"), (math.nan, "nan"), (math.inf, "inf")]
)
def test_a_retrieval_score_that_is_no_finite_number_is_reported(
    adapter: Any, way: str, score: Any, example: str
) -> None:
    documents = numbered(adapter, 0.2, 0.9, 0.5)
    object.__setattr__(documents[1], "score", score)  # neither converted nor warned about
    ranked, report = adapter.run(adapter.make({"method": Numbers()}), way, QUERY, documents)
    assert places(adapter, ranked) == [1, 2, 0]
    assert values(adapter, ranked, "retrieval_score") == [None, pytest.approx(1 / 3), 1.0]
    if report is not None:
        [issue] = report["issues"]
        assert (report["status"], issue["code"]) == ("ok", "score_unreadable")
        assert [*issue["positions"]] == [1]
        assert f"not finite numbers, such as {example};" in issue["message"]


class Spans(Numbers):
    """The first character of each text but the first matches best."""

    def score_lists(self, requests: Any, deadline: float | None) -> Any:
        for _, texts in requests:
            spans = [None, *[(0, 1)] * (len(texts) - 1)]
            yield [ListScores([1.0] * len(texts), spans=spans)]


def test_the_span_that_matches_best(adapter: Any, way: str) -> None:
    component = adapter.make({"method": Spans()})
    ranked, _ = adapter.run(component, way, QUERY, numbered(adapter, 1, 2))
    assert "rerank_span" not in adapter.carried(ranked[0]).metadata
    assert adapter.carried(ranked[1]).metadata["rerank_span"] == [0, 1]


@pytest.mark.parametrize("kind", [tuple, iter])
def test_other_iterables_of_documents(adapter: Any, way: str, kind: Any) -> None:
    component = adapter.make({"method": Numbers()})
    if way.startswith("pipeline") and kind is iter:
        pytest.skip("pipelines copy their inputs")
    if "postprocess" in way and kind is iter:
        pytest.skip("the framework takes a list")
    ranked, _ = adapter.run(component, way, QUERY, kind(numbered(adapter, 0.1, 0.2)))
    assert places(adapter, ranked) == [1, 0]


WRONG: list[tuple[Any, str]] = [
    (lambda one: None, "{name}: give a list of {many}, not None"),
    (lambda one: "text", "{name}: give a list of {many}, not a str"),
    (lambda one: one, "{name}: give a list of {many}, not a {kind}"),
    (lambda one: ["text"], r"{name}\[0\]: give a {kind}, not a str"),
    (lambda one: [one, None], r"{name}\[1\]: give a {kind}, not None"),
    (lambda one: [[one]], r"{name}\[0\]: give a {kind}, not a list"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_wrong_documents_are_named(adapter: Any, make: Any, message: str) -> None:
    one, many = adapter.document
    name = "nodes" if adapter.name == "llama_index" else "documents"
    pattern = "^" + message.format(name=name, kind=one, many=many) + "$"
    component = adapter.make("lexical")
    for kind in ("sync", "async"):
        wrong = make(adapter.given("x", "a", 0.1))
        with pytest.raises(InputError, match=pattern):
            adapter.run(component, first(adapter, kind), QUERY, wrong)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_query_that_is_no_text_is_named(adapter: Any, kind: str) -> None:
    scorer = Numbers()
    component = adapter.make({"method": scorer})
    for query in (None, 5):
        for documents in ([], numbered(adapter, 1)):
            with pytest.raises(ValueError, match=r"^query: "):
                adapter.run(component, first(adapter, kind), query, documents)
    assert scorer.events == []


# ---------------------------------------------------------------------- threads and event loops


def test_async_blocks_no_event_loop_and_sync_works_in_one(adapter: Any) -> None:
    scorer = Numbers()
    component = adapter.make({"method": scorer})

    async def both() -> int:
        ranked = await adapter.arun(component, QUERY, numbered(adapter, 1, 2))
        assert places(adapter, ranked) == [1, 0]
        again, _ = adapter.run(component, first(adapter), QUERY, numbered(adapter, 1, 2))
        assert places(adapter, again) == [1, 0]
        return threading.get_ident()

    loop = asyncio.run(both())
    asynchronous, synchronous = [thread for event, thread in scorer.events if event == "score"]
    assert asynchronous != loop == synchronous
