"""Documents, components that need no model, and each way to run a pipeline."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.rankers import LostInTheMiddleRanker
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage

from haystack_documents import store_of
from haystack_integrations.components.rankers.secondpass import SecondPassRanker

QUERY = "castle garden"
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
AT_ONCE = 16

Result = dict[str, Any]


def worth(query: str, text: str) -> float:
    """A number between 0 and 1 that depends on query and text."""
    return int.from_bytes(hashlib.sha256(f"{query}|{text}".encode()).digest()[:6]) / 2**48


class ByWorth:
    """Scores by :func:`worth`, slowly, so that calls overlap."""

    model_name = "by-worth"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        time.sleep(self.seconds)
        return [worth(query, document) for document in documents]


class Broken:
    """Raises an error."""

    model_name = "broken"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        raise OSError("no such model")


def in_order(messages: list[ChatMessage]) -> str:
    """The correct reply by :func:`worth`."""
    text = messages[-1].text or ""
    query = re.search(r"<query>(.*?)</query>", text, re.S)
    assert query is not None
    shown = re.findall(r'<doc id="([^"]*)">(.*?)</doc>', text, re.S)
    best = sorted(shown, key=lambda one: -worth(query.group(1), one[1]))
    return json.dumps({"ranking": [label for label, _ in best]})


def passages() -> list[Document]:
    return [
        Document(
            id=f"p{index}", content=text, meta={"page": index, "level": ("hard", "easy")[index % 2]}
        )
        for index, text in enumerate(PASSAGES)
    ]


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order."""
    count = len(numbers)
    return [
        Document(
            id=f"d{index}", content=f"number {number}", score=1 - index / count, meta={"at": index}
        )
        for index, number in enumerate(numbers)
    ]


def retrieving(ranker: SecondPassRanker) -> Pipeline:
    """One retriever, and the ranker behind it."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(passages())))
    pipeline.add_component("ranker", ranker)
    pipeline.connect("retriever", "ranker")
    return pipeline


def asking(*names: str, query: str = QUERY) -> Result:
    return {name: {"query": query} for name in names}


def falls(documents: list[Document]) -> bool:
    scores = [document.score or 0.0 for document in documents]
    return scores == sorted(scores, reverse=True)


def with_run(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    return pipeline.run(data, **more)


def with_run_async(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    return asyncio.run(pipeline.run_async(data, **more))


def with_generator(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    async def last() -> Result:
        partials = [one async for one in pipeline.run_async_generator(data, **more)]
        return partials[-1]

    return asyncio.run(last())


def with_stream(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    async def result() -> Result:
        handle = pipeline.stream(data, **more)
        async for _ in handle:
            pass
        return handle.result

    return asyncio.run(result())


Way = Callable[..., Result]
WAYS: list[Way] = [with_run, with_run_async, with_generator]
if hasattr(Pipeline, "stream"):  # since Haystack 3
    WAYS.append(with_stream)
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])


def answering(ranker: SecondPassRanker) -> Pipeline:
    pipeline = retrieving(ranker)
    pipeline.add_component("middle", LostInTheMiddleRanker())
    template = "{{ report.status }}: {% for one in documents %}{{ one.content }}|{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("ranker.documents", "middle.documents")
    pipeline.connect("middle.documents", "prompt.documents")
    pipeline.connect("ranker.report", "prompt.report")
    return pipeline


def calls() -> list[tuple[str, list[Document]]]:
    """Queries, each with documents of its own; the same texts have other worth in each."""
    return [
        (
            f"query {index}",
            [
                Document(
                    id=f"{index}-{n}", content=f"passage {(index + n) % 11}", score=1 / (n + 1)
                )
                for n in range(9)
            ],
        )
        for index in range(AT_ONCE)
    ]
