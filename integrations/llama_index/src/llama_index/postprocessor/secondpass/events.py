"""What handlers of both kinds, instrumentation and callbacks, are told of a reranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation import (  # type: ignore[attr-defined]  # no __all__
    Dispatcher,
    NullEventHandler,
    get_dispatcher,
)
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

from llama_index.postprocessor.secondpass.nodes import snapshot
from secondpass import Report, RerankError

dispatcher = get_dispatcher(__name__)


class SecondPassReportEvent(BaseEvent):
    """What a reranking did, what it cost and what went wrong. Comes before the end event.

    Args:
        report (dict[str, Any]): the report as plain values: status, issues, usage, seconds, ….
    """

    report: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """The name of this kind of event."""
        return "SecondPassReportEvent"


class Observed:
    """A reranking under way, whose end is told by calling this."""

    def __init__(self, listened: bool) -> None:
        self.listened = listened
        self.nodes: list[NodeWithScore] = []

    def __call__(self, nodes: list[NodeWithScore], report: Report) -> None:
        self.nodes = snapshot(nodes) if self.listened else nodes
        dispatcher.event(SecondPassReportEvent(report=report.to_dict()))


@contextmanager
def observed(
    manager: CallbackManager,
    query: QueryType,
    nodes: Sequence[NodeWithScore],
    *,
    top_n: int,
    model: str,
) -> Iterator[Observed]:
    """Tell that a reranking starts, and what came of it when it has ended.

    Under ``strict`` the report of a ranking that raises is told as well.
    """
    # What handlers keep must not change when components behind write to the nodes. Copies are
    # spared where nobody listens.
    told = Observed(bool(manager.handlers) or _has_handlers())
    shown = snapshot(nodes) if told.listened else list(nodes)
    dispatcher.event(ReRankStartEvent(query=query, nodes=shown, top_n=top_n, model_name=model))
    payload: dict[str, Any] = {
        EventPayload.NODES: shown,
        EventPayload.MODEL_NAME: model,
        EventPayload.QUERY_STR: query.query_str if isinstance(query, QueryBundle) else query,
        EventPayload.TOP_K: top_n,
    }
    with manager.event(CBEventType.RERANKING, payload=payload) as event:
        try:
            yield told
        except RerankError as error:
            dispatcher.event(SecondPassReportEvent(report=error.ranking.report.to_dict()))
            raise
        event.on_end(payload={EventPayload.NODES: told.nodes})
        dispatcher.event(ReRankEndEvent(nodes=told.nodes))


def _has_handlers() -> bool:
    """Whether an event of this module would reach a handler that does something with it."""
    at: Dispatcher | None = dispatcher
    while at is not None:
        if any(not isinstance(handler, NullEventHandler) for handler in at.event_handlers):
            return True
        at = at.parent if at.propagate else None
    return False
