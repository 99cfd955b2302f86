"""Documents, scorers, chat generators and pipelines of Haystack, which need no model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from haystack_integrations.components.rankers.secondpass import SecondPassRanker

QUERY = "cat food"
CROSS_ENCODER = {"method": {"type": "cross_encoder"}}
BY_INDEX = {"method": {"type": "listwise", "labels": "index1"}}

Result = dict[str, Any]


# ---------------------------------------------------------------------- documents


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order."""
    count = len(numbers)
    return [
        Document(id=f"d{index}", content=str(number), score=1 - index / count, meta={"at": index})
        for index, number in enumerate(numbers)
    ]


def named(count: int) -> list[Document]:
    return [
        Document(id=f"d{index}", content=f"text {index}", score=1 - index / (count + 1))
        for index in range(count)
    ]


def four() -> list[Document]:
    return [Document(id=name, content=f"text {name}") for name in "abcd"]


def ids(documents: list[Document] | Result) -> list[str]:
    """Of documents, or of those in a result."""
    found = documents if isinstance(documents, list) else documents["documents"]
    return [document.id for document in found]


def scores(result: Result) -> list[float]:
    return [document.score for document in result["documents"]]


# ---------------------------------------------------------------------- scorers and generators


class Broken:
    """Raises an error."""

    model_name = "broken"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        raise OSError("no such model")


class Says:
    """A chat generator with fixed replies, which counts calls."""

    def __init__(self, *texts: str, error: Exception | None = None) -> None:
        self.replies = [ChatMessage.from_assistant(text) for text in texts]
        self.error = error
        self.asked: list[list[ChatMessage]] = []

    def run(self, messages: list[ChatMessage]) -> Result:
        self.asked.append(messages)
        if self.error is not None:
            raise self.error
        return {"replies": self.replies}


def indices(*numbers: object) -> str:
    """A reply of the form that Haystack's LLMRanker asks for; numbers count from 1."""
    return json.dumps({"documents": [{"index": number} for number in numbers]})


def both(ranker: Any, *args: Any, **kwargs: Any) -> Result:
    """The result of a ranker, which must be the same with ``run`` and ``run_async``."""
    result: Result = ranker.run(*args, **kwargs)
    if hasattr(ranker, "run_async"):
        waited = asyncio.run(ranker.run_async(*args, **kwargs))
        assert (ids(waited), scores(waited)) == (ids(result), scores(result))
    return result


# ---------------------------------------------------------------------- pipelines

CASTLES = "castle garden"
"""A query for `passages`."""
PASSAGES = (
    "The castle garden opens at nine.",
    "The castle was built in 1386.",
    "The garden of the monastery has herbs.",
    "The market is on Monday.",
    "A garden, a castle, a bridge: the walk takes two hours.",
    "The bridge of the castle was burnt in the war.",
    "Buses leave from the market.",
    "Garden tools are in the shed.",
)


def passages() -> list[Document]:
    return [
        Document(
            id=f"p{index}", content=text, meta={"page": index, "level": ("hard", "easy")[index % 2]}
        )
        for index, text in enumerate(PASSAGES)
    ]


def retriever() -> InMemoryBM25Retriever:
    store = InMemoryDocumentStore()
    store.write_documents(passages())
    return InMemoryBM25Retriever(store)


def retrieving(ranker: SecondPassRanker) -> Pipeline:
    """One retriever, and the ranker behind it."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever())
    pipeline.add_component("ranker", ranker)
    pipeline.connect("retriever", "ranker")
    return pipeline


def asking(*names: str) -> Result:
    return {name: {"query": CASTLES} for name in names}


Way = Callable[..., Result]
WAYS: dict[str, Way] = {
    "run": Pipeline.run,
    "run_async": lambda pipeline, *data, **more: asyncio.run(pipeline.run_async(*data, **more)),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
