"""Scorers, chat generators and documents for the cases of Haystack's own rankers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage

from haystack_integrations.components.rankers.secondpass import SecondPassRanker

CROSS_ENCODER = {"method": {"type": "cross_encoder"}}
BY_INDEX = {"method": {"type": "listwise", "labels": "index1"}}
QUERY = "cat food"

Call = Callable[..., dict[str, Any]]


class Recorder:
    """Scores a document by its length, and records the texts."""

    model_name = "recorder"

    def __init__(self, make: Callable[[list[float]], Any] = list) -> None:
        self.make = make
        self.queries: list[str] = []
        self.shown: list[str] = []

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        self.queries.append(query)
        self.shown.extend(documents)
        return self.make([float(len(document)) for document in documents])


class Says:
    """A chat generator with fixed replies, which counts calls."""

    def __init__(self, *texts: str | None, error: Exception | None = None) -> None:
        self.replies = [
            ChatMessage.from_assistant(text) if text is not None else ChatMessage.from_assistant()
            for text in texts
        ]
        self.error = error
        self.asked: list[list[ChatMessage]] = []

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.asked.append(messages)
        if self.error is not None:
            raise self.error
        return {"replies": self.replies}


def indices(*numbers: object) -> str:
    """A reply of the form that Haystack's LLMRanker asks for."""
    return json.dumps({"documents": [{"index": number} for number in numbers]})


def ids(result: dict[str, Any]) -> list[str]:
    return [document.id for document in result["documents"]]


def scores(result: dict[str, Any]) -> list[float]:
    return [document.score for document in result["documents"]]


def saved_and_loaded(ranker: SecondPassRanker) -> SecondPassRanker:
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    back = Pipeline.loads(pipeline.dumps()).get_component("ranker")
    assert isinstance(back, SecondPassRanker)
    assert back.to_dict() == ranker.to_dict()
    return back


def sentences() -> list[Document]:
    texts = ["the cat sat on a mat", "no dog", "yes", "food ran", "query a food cat"]
    return [Document(id=str(index), content=text) for index, text in enumerate(texts)]


FIRST_TO_FOURTH = ["a", "b", "c", "d"]


def four() -> list[Document]:
    return [Document(id=name, content=f"text {name}") for name in FIRST_TO_FOURTH]
