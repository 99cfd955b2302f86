"""Start and end events, and callbacks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, Callbacks, Failing, pandas, plain, with_scorer
from secondpass import Reranker, RerankError


def test_start_and_end_events(events: list[Any]) -> None:
    reranker = with_scorer(ByLength())
    bundle = QueryBundle(QUERY)
    ranked = reranker.postprocess_nodes(pandas(), bundle)
    start, end = events
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(end, ReRankEndEvent)
    assert (start.query, start.top_n, start.model_name) == (bundle, 3, "by-length")
    assert plain(start.nodes) == plain(pandas_like(start.nodes))
    assert plain(end.nodes) == plain(ranked)


def pandas_like(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
    fresh = pandas()
    assert [node.node_id for node in nodes] == [one.node_id for one in fresh]
    return fresh


def test_events_hold_snapshots(events: list[Any]) -> None:
    nodes = pandas()
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    start, end = events
    before, after = plain(start.nodes), plain(end.nodes)
    for one in nodes + ranked:
        one.score = -1.0
        one.node.metadata["new"] = "value"
        one.node.set_content("another text")
    nodes.clear()
    ranked.clear()
    assert plain(start.nodes) == before
    assert plain(end.nodes) == after


@pytest.mark.parametrize(
    ("reranker", "nodes", "top_n"),
    [
        (SecondPassRerank("lexical", top_n=2), pandas(), 2),
        (SecondPassRerank({"method": "lexical", "top_k": 1}), pandas(), 1),
        (SecondPassRerank("lexical"), [], 0),
        (with_scorer(Failing()), pandas(), 3),
    ],
)
def test_events_also_when_empty_or_failing(
    reranker: SecondPassRerank, nodes: list[NodeWithScore], top_n: int, events: list[Any]
) -> None:
    ranked = reranker.postprocess_nodes(nodes, query_str=QUERY)
    ranked += asyncio.run(reranker.apostprocess_nodes(nodes, query_str=QUERY))
    assert [type(event) for event in events] == [ReRankStartEvent, ReRankEndEvent] * 2
    assert events[0].top_n == top_n
    assert plain(events[1].nodes) + plain(events[3].nodes) == plain(ranked)


def test_callbacks_through_whatever_manager_is_set() -> None:
    reranker = SecondPassRerank("lexical", top_n=2)
    handler = Callbacks()
    reranker.callback_manager = CallbackManager([handler])
    ranked = reranker.postprocess_nodes(pandas(), query_str=QUERY)
    (start, kind, told), (end, _, result) = handler.seen
    assert (start, end, kind) == ("start", "end", CBEventType.RERANKING)
    assert told[EventPayload.QUERY_STR] == QUERY
    assert told[EventPayload.TOP_K] == 2
    assert told[EventPayload.MODEL_NAME] == Reranker("lexical").method.name
    assert len(told[EventPayload.NODES]) == 3
    kept = plain(result[EventPayload.NODES])
    assert kept == plain(ranked)
    ranked[0].node.set_content("another text")
    assert plain(result[EventPayload.NODES]) == kept


def test_under_strict_the_callback_ends_with_the_error() -> None:
    handler = Callbacks()
    reranker = SecondPassRerank(
        Reranker(Failing(), strict=True, log_level="debug"),
        callback_manager=CallbackManager([handler]),
    )
    with pytest.raises(RerankError) as caught:
        reranker.postprocess_nodes(pandas(), query_str=QUERY)
    assert handler.seen[-1][2][EventPayload.EXCEPTION] is caught.value
