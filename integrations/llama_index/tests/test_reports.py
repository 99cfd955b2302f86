"""The report as an event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, EventPayload
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore

from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank
from llama_llms import QUERY, Callbacks, Listening, Said, asking, nodes_of, scripted
from llama_nodes import plain
from secondpass import RerankError


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
    make: Any, nodes: list[NodeWithScore], status: str, asynchronous: bool, listening: Listening
) -> None:
    reranker = make()
    if asynchronous:
        _, report = asyncio.run(reranker.arerank_nodes(nodes, QUERY))
    else:
        _, report = reranker.rerank_nodes(nodes, QUERY)
    start, told, end = listening.seen
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(told, SecondPassReportEvent)
    assert isinstance(end, ReRankEndEvent)
    assert report.status == status
    assert told.report == report.to_dict()
    assert json.loads(json.dumps(told.report)) == told.report
    assert json.loads(told.model_dump_json())["report"] == told.report
    assert told.class_name() == told.model_dump()["class_name"] == "SecondPassReportEvent"


def test_strict_reports_before_the_error(listening: Listening) -> None:
    reranker = asking("listwise", scripted(broken), strict=True)
    for call in (
        lambda: reranker.postprocess_nodes(nodes_of(), query_str=QUERY),
        lambda: asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY)),
    ):
        listening.seen.clear()
        with pytest.raises(RerankError) as caught:
            call()
        start, told = listening.seen
        assert isinstance(start, ReRankStartEvent)
        assert told.report == caught.value.ranking.report.to_dict()


def test_handlers_and_callers_do_not_write_to_each_other(listening: Listening) -> None:
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


def test_events_name_the_model_that_is_asked(listening: Listening) -> None:
    callbacks = Callbacks()
    reranker = asking("listwise", scripted(), callback_manager=CallbackManager([callbacks]))
    reranker.rerank_nodes(nodes_of(), QUERY, top_n=3)
    start = listening.seen[0]
    assert (start.model_name, start.top_n, start.query) == ("listwise by scripted", 3, QUERY)
    assert callbacks.payloads[0][EventPayload.MODEL_NAME] == "listwise by scripted"
    assert callbacks.payloads[0][EventPayload.TOP_K] == 3
    assert len(callbacks.payloads[1][EventPayload.NODES]) == 3
