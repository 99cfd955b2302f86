"""Sends the events of a reranking to instrumentation and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

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
from secondpass import ConfigurationError, Problem, Report, RerankError
from secondpass.adapters import describe

dispatcher = get_dispatcher(__name__)


class SecondPassReportEvent(BaseEvent):
    """The report of a reranking. It is sent before the end event.

    Args:
        report (dict[str, Any]): the report as plain values: status, issues, usage, seconds, ….
    """

    report: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """The name of this kind of event."""
        return "SecondPassReportEvent"


def checked_manager(value: object) -> CallbackManager:
    """A callback manager; None, which other postprocessors take as well, stands for a new one."""
    if value is None:
        return CallbackManager()
    if not isinstance(value, CallbackManager):  # the class itself accepts anything
        message = f"give a CallbackManager or None, not {describe(value)}"
        raise ConfigurationError([Problem(("callback_manager",), message)])
    return value


Finish: TypeAlias = Callable[[list[NodeWithScore], Report], None]


@contextmanager
def observe(
    manager: CallbackManager,
    query: QueryType,
    nodes: Sequence[NodeWithScore],
    *,
    top_n: int,
    model: str,
) -> Iterator[Finish]:
    """Send the events of a reranking: start, report and end. What is yielded takes the result."""
    if not (manager.handlers or _has_handlers()):  # making the events takes time for each node
        yield lambda _ranked, _report: None
        return
    results: list[NodeWithScore] = []

    def finish(ranked: list[NodeWithScore], report: Report) -> None:
        results.extend(snapshot(ranked))
        dispatcher.event(SecondPassReportEvent(report=report.to_dict()))

    # Handlers may keep the nodes, so they get copies that other components do not write to.
    payload_nodes = snapshot(nodes)
    start = ReRankStartEvent(query=query, nodes=payload_nodes, top_n=top_n, model_name=model)
    dispatcher.event(start)
    payload: dict[str, Any] = {
        EventPayload.NODES: payload_nodes,
        EventPayload.MODEL_NAME: model,
        EventPayload.QUERY_STR: query.query_str if isinstance(query, QueryBundle) else query,
        EventPayload.TOP_K: top_n,
    }
    with manager.event(CBEventType.RERANKING, payload=payload) as event:
        try:
            yield finish
        except RerankError as error:  # under ``strict``
            dispatcher.event(SecondPassReportEvent(report=error.ranking.report.to_dict()))
            raise
        event.on_end(payload={EventPayload.NODES: results})
        dispatcher.event(ReRankEndEvent(nodes=results))


def _has_handlers() -> bool:
    """Whether an event of this module would reach a handler that uses it."""
    current: Dispatcher | None = dispatcher
    while current is not None:
        if any(not isinstance(handler, NullEventHandler) for handler in current.event_handlers):
            return True
        current = current.parent if current.propagate else None
    return False
