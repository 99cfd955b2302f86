"""What the contract suite (`tests/contract`) asks of an adapter, and what it asks with.

`contract_haystack`, `contract_llama_index` and `contract_langchain` implement `Adapter` with the
frameworks' own objects. What stands here needs none of them installed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pytest

from secondpass import Candidate, Reranker
from secondpass.adapters.scores import falling_scores, provenance

QUERY = "castle garden"

WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "haystack": {
        "sync": ("run", "pipeline.run"),
        "async": ("run_async", "pipeline.run_async"),
    },
    "llama_index": {
        "sync": ("rerank_nodes", "postprocess_nodes"),
        "async": ("arerank_nodes", "apostprocess_nodes"),
    },
    "langchain": {"sync": ("compress_documents",), "async": ("acompress_documents",)},
}
"""The entry points of each adapter; the first of each has all options and the report."""

CANNOT: dict[str, dict[str, str]] = {
    "haystack": {},
    "llama_index": {
        "options.depth": "a node postprocessor's depth is assigned",
        "options.floor": "its similarity_cutoff is assigned",
    },
    "langchain": {
        "report": "a compressor returns documents",
        "score": "documents have no score",
        "options": "a compressor is called with documents and a query",
        "options.depth": "see options",
        "options.floor": "see options",
        "parameters": "it has a Reranker, and top_k",
        "language models": "the Reranker has one",
        "saving": "the Reranker is an object",
        "life": "the Reranker is warmed up and closed",
    },
}
"""What an adapter cannot do, and why not. Tests that need it are skipped for it."""


def needs(*abilities: str) -> Callable[[Any], Any]:
    """Skips a test for adapters that lack one of these."""

    def mark(test: Any) -> Any:
        test.needs = abilities
        return test

    return mark


@dataclass(frozen=True)
class Carried:
    """A document or node as it came out of an adapter. Its place came along in its metadata."""

    text: Any
    id: Any
    score: Any
    metadata: dict[str, Any]

    @property
    def place(self) -> int:
        """Where it stood in what went in."""
        return int(self.metadata["place"])


class Adapter(Protocol):
    """An adapter under test.

    Attributes:
        name: as in `WAYS`.
        document: name of the framework's class, and that of a list of them.
        names: setting of the core -> name of the parameter.
        unknown: the error for an unknown parameter.
        frozen: the error for assigning a parameter of the construction.
        llms: kinds of language model.
        members: attributes of a document that must be the same objects afterwards.
    """

    name: str
    document: tuple[str, str]
    names: Mapping[str, str]
    unknown: type[Exception]
    frozen: type[Exception]
    llms: Sequence[str]
    members: Sequence[str]

    def make(self, reranker: Any, **settings: Any) -> Any:
        """The component; settings have the core's names."""

    def core(self, component: Any) -> Reranker:
        """Its reranker."""

    def given(self, text: Any, id: Any, score: Any = None, metadata: Any = None) -> Any:
        """A document of the framework; without a text, one that has none."""

    def carried(self, document: Any) -> Carried:
        """What a document holds."""

    def run(
        self, component: Any, way: str, query: Any, documents: Any, **options: Any
    ) -> tuple[list[Any], dict[str, Any] | None]:
        """The documents that come out, and the report as values, if this way gives one."""

    async def arun(self, component: Any, query: Any, documents: Any, **options: Any) -> list[Any]:
        """The documents by the first asynchronous way, in this event loop."""

    def llm(self, kind: str, answer: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """A language model of the framework.

        ``answer`` is called with messages in OpenAI's dialect, and returns a response in it, or an
        `Odd` thing that the model returns as it is.
        """

    def save(self, component: Any) -> str:
        """The component as text, as the framework writes it."""

    def load(self, text: str, **more: Any) -> Any:
        """The component back; ``llm`` again where the framework does not save it."""

    def life(self, component: Any) -> tuple[Any, Any, Any, Any]:
        """Its methods ``warm_up``, ``awarm_up``, ``close`` and ``aclose``."""


@dataclass(frozen=True)
class Odd:
    """What a language model of a framework returns instead of a response."""

    value: Any


def way_of(adapter: Adapter, row: int) -> str:
    """The entry point for a row of a table: they take turns."""
    ways = [way for kind in ("sync", "async") for way in WAYS[adapter.name][kind]]
    return ways[row % len(ways)]


def first(adapter: Adapter, kind: str = "sync") -> str:
    """The first entry point, synchronous or asynchronous, which has all options and the report."""
    return WAYS[adapter.name][kind][0]


def adapter_of(name: str) -> Adapter:
    """The adapter of this name; skips the test if its framework is not installed."""
    # A module inside, because examples/haystack and examples/llama_index have the packages' names.
    pytest.importorskip("langchain_core" if name == "langchain" else f"{name}.core")
    adapter: Adapter = import_module(f"contract_{name}").ADAPTER
    return adapter


# ---------------------------------------------------------------------- what it is asked with


class Numbers:
    """Scores a text by the number that it ends with; notes texts, threads and its life."""

    model_name = "numbers"

    def __init__(self, make: Callable[[list[float]], Any] = list) -> None:
        self.make = make
        self.seen: list[list[str]] = []
        self.queries: list[str] = []
        self.events: list[tuple[str, int]] = []

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        self.seen.append(list(documents))
        self.queries.append(query)
        self._note("score")
        return self.make([float(text.rsplit(maxsplit=1)[-1]) for text in documents])

    def warm_up(self) -> None:
        self._note("warm_up")

    def close(self) -> None:
        self._note("close")

    def _note(self, event: str) -> None:
        self.events.append((event, threading.get_ident()))


class Answers:
    """Returns, or raises, the same whatever it is asked."""

    model_name = "answers"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def quiet(method: Any, **settings: Any) -> dict[str, Any]:
    """A configuration that logs no degraded ranking."""
    return {"method": method, "log_level": "debug", **settings}


def numbered(adapter: Adapter, *numbers: float, ids: str = "abcdefghij") -> list[Any]:
    """Documents whose text is a number, retrieved in this order with falling scores."""
    return [
        adapter.given(str(number), id_, 1 - place / len(numbers), {"place": place})
        for place, (number, id_) in enumerate(zip(numbers, ids, strict=False))
    ]


def places(adapter: Adapter, documents: Sequence[Any]) -> list[int]:
    """Where documents stood in what went in."""
    return [adapter.carried(document).place for document in documents]


def values(adapter: Adapter, documents: Sequence[Any], key: str) -> list[Any]:
    """A key of the documents' metadata."""
    return [adapter.carried(document).metadata.get(key) for document in documents]


def expected(
    adapter: Adapter, reranker: Any, documents: Sequence[Any], prefix: str = "", **options: Any
) -> list[Carried]:
    """What has to come out, by the core and what it adds to metadata."""
    given = [adapter.carried(document) for document in documents]
    candidates = [Candidate(one.text, one.id, one.score, one.metadata) for one in given]
    core = reranker if isinstance(reranker, Reranker) else Reranker.from_config(reranker)
    ranking = core.rerank(QUERY, candidates, **options)
    return [
        Carried(
            source.text,
            source.id,
            score if "score" not in CANNOT[adapter.name] else None,
            {**source.metadata, **provenance(item, source.metadata, prefix)},
        )
        for item, score in zip(ranking.items, falling_scores(ranking), strict=True)
        for source in [given[item.position]]
    ]


def says(text: str | None, finish_reason: str = "stop", **usage: int) -> dict[str, Any]:
    """A response in OpenAI's dialect."""
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": usage}
