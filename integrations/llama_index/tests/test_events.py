"""Events, spans and callbacks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, EventPayload
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank
from llama_objects import (
    PANDA,
    QUERY,
    Callbacks,
    Said,
    asking,
    ids,
    nodes_of,
    pandas,
    plain,
    scripted,
)
from secondpass import RerankError


def test_start_and_end_events(events: list[Any]) -> None:
    bundle = QueryBundle(PANDA)
    ranked = SecondPassRerank("lexical").postprocess_nodes(pandas(), bundle)
    start, _, end = events
    assert (start.query, start.top_n, start.model_name) == (bundle, 3, "lexical")
    assert ids(start.nodes) == ids(pandas())
    assert plain(end.nodes) == plain(ranked)


def test_callbacks_through_whatever_manager_is_set() -> None:
    reranker = SecondPassRerank("lexical", top_n=2)
    handler = Callbacks()
    reranker.callback_manager = CallbackManager([handler])
    ranked = reranker.postprocess_nodes(pandas(), query_str=PANDA)
    (start, told), (end, result) = handler.seen
    assert (start, end) == ("start", "end")
    assert told[EventPayload.QUERY_STR] == PANDA
    assert told[EventPayload.TOP_K] == 2
    assert told[EventPayload.MODEL_NAME] == "lexical"
    assert len(told[EventPayload.NODES]) == 3
    kept = plain(result[EventPayload.NODES])
    assert kept == plain(ranked)
    ranked[0].node.set_content("another text")
    assert plain(result[EventPayload.NODES]) == kept


def broken(*_: Any) -> Said:
    return RuntimeError("down")


REPORTED = [
    # what is asked; the nodes; the status
    (lambda: asking("graded", scripted()), nodes_of(), "ok"),
    (lambda: asking("graded", scripted()), [], "ok"),
    (lambda: asking("graded", scripted(broken)), nodes_of(), "unchanged"),
    (lambda: SecondPassRerank("lexical", top_n=1), nodes_of(), "ok"),
    (
        lambda: SecondPassRerank(
            {"method": "graded", "fallback": ["lexical"], "log_level": "debug"},
            llm=scripted(broken),
        ),
        nodes_of(),
        "degraded",
    ),
]


@pytest.mark.parametrize(("make", "nodes", "status"), REPORTED)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_report_is_an_event_between_start_and_end(
    make: Any, nodes: list[NodeWithScore], status: str, asynchronous: bool, events: list[Any]
) -> None:
    reranker = make()
    if asynchronous:
        _, report = asyncio.run(reranker.arerank_nodes(nodes, QUERY))
    else:
        _, report = reranker.rerank_nodes(nodes, QUERY)
    start, told, end = events
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(told, SecondPassReportEvent)
    assert isinstance(end, ReRankEndEvent)
    assert report.status == status
    assert told.report == report.to_dict()
    assert json.loads(json.dumps(told.report)) == told.report
    assert json.loads(told.model_dump_json())["report"] == told.report
    assert told.class_name() == told.model_dump()["class_name"] == "SecondPassReportEvent"


def test_strict_reports_before_the_error(events: list[Any]) -> None:
    reranker = asking("listwise", scripted(broken), strict=True)
    for call in (
        lambda: reranker.postprocess_nodes(nodes_of(), query_str=QUERY),
        lambda: asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY)),
    ):
        events.clear()
        with pytest.raises(RerankError) as caught:
            call()
        start, told = events
        assert isinstance(start, ReRankStartEvent)
        assert told.report == caught.value.ranking.report.to_dict()


def test_handlers_and_callers_do_not_write_to_each_other(events: list[Any]) -> None:
    class Meddling(BaseEventHandler):
        @classmethod
        def class_name(cls) -> str:
            return "Meddling"

        def handle(self, event: Any, **kwargs: Any) -> None:
            if isinstance(event, SecondPassReportEvent):
                event.report.clear()
            elif isinstance(event, ReRankStartEvent | ReRankEndEvent):
                for node in event.nodes:
                    node.score = -1.0
                    node.node.metadata["meddled"] = True
                    node.node.set_content("meddled")
                event.nodes.clear()

    expected = plain(SecondPassRerank("lexical").postprocess_nodes(nodes_of(), None, QUERY))
    root, meddling = get_dispatcher(), Meddling()
    root.event_handlers.append(meddling)
    try:
        nodes = nodes_of()
        ranked, report = SecondPassRerank("lexical").rerank_nodes(nodes, QUERY)
    finally:
        root.event_handlers.remove(meddling)
    assert plain(ranked) == expected
    assert plain(nodes) == plain(nodes_of())
    assert report.to_dict()["status"] == "ok"


def test_both_have_a_span(spans: SimpleSpanHandler) -> None:
    reranker = SecondPassRerank("lexical")
    reranker.postprocess_nodes(pandas(), query_str=PANDA)
    asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=PANDA))
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names == ["SecondPassRerank._postprocess_nodes", "SecondPassRerank._apostprocess_nodes"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_spans_of_the_llm_are_inside_ours(asynchronous: bool, spans: SimpleSpanHandler) -> None:
    reranker = asking("graded", scripted(), choice_batch_size=2)
    if asynchronous:
        asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY))
    else:
        reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    by_id = {span.id_: span for span in spans.completed_spans}
    outer = [id_ for id_ in by_id if id_.startswith("SecondPassRerank.")]
    assert len(outer) == 1
    assert by_id[outer[0]].parent_id is None
    inner = [span for span in by_id.values() if span.id_.startswith("Scripted.chat")]
    assert len(inner) == 3
    for span in inner:
        while span.parent_id in by_id and span.id_ != outer[0]:
            span = by_id[span.parent_id]  # noqa: PLW2901 - up to the root
        assert span.id_ == outer[0]


def test_without_handlers_no_node_is_copied_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index.postprocessor.secondpass.events.snapshot", None)
    assert len(SecondPassRerank("lexical").postprocess_nodes(pandas(), query_str=PANDA)) == 3
