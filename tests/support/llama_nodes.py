"""Nodes for the postprocessor, and scorers that need no model."""

from __future__ import annotations

import threading
from typing import Any

from llama_index.core.callbacks import CBEventType
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import Reranker

QUERY = "red panda"


class ByLength:
    """The longer the text, the higher the score."""

    model_name = "by-length"

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[int] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.calls += 1
        self.threads.add(threading.get_ident())
        return [float(len(document)) for document in documents]


class Failing:
    model_name = "failing"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise RuntimeError("the service is down")


class Callbacks(BaseCallbackHandler):
    def __init__(self) -> None:
        super().__init__([], [])
        self.seen: list[tuple[str, CBEventType, dict[str, Any]]] = []

    def on_event_start(self, event_type: Any, payload: Any = None, **kwargs: Any) -> str:
        self.seen.append(("start", event_type, payload))
        return ""

    def on_event_end(self, event_type: Any, payload: Any = None, **kwargs: Any) -> None:
        self.seen.append(("end", event_type, payload))

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: Any = None, trace_map: Any = None) -> None: ...


def node(text: str, score: float | None = None, **kwargs: Any) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text, **kwargs), score=score)


def pandas() -> list[NodeWithScore]:
    return [
        node("A car has four wheels.", 0.9, id_="car", metadata={"page": 0, "tags": ["a"]}),
        node("The red panda eats bamboo.", 0.8, id_="panda", metadata={"page": 1}),
        node("A panda is a bear.", 0.7, id_="bear"),
    ]


def with_scorer(scorer: object, **settings: Any) -> SecondPassRerank:
    return SecondPassRerank(Reranker(scorer, log_level="debug", **settings))


def texts(nodes: list[NodeWithScore]) -> list[str]:
    return [node.node.get_content() for node in nodes]


def plain(nodes: list[NodeWithScore]) -> list[dict[str, Any]]:
    return [node.to_dict() for node in nodes]
