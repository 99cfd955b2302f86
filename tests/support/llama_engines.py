"""LlamaIndex components without keys: retrievers, language models and engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field

from llama_index.postprocessor.secondpass import SecondPassRerank

QUERY = "what does the red panda eat"
TEXTS = {
    "car": "A car has four wheels.",
    "owl": "The owl sleeps by day and hunts at night.",
    "tea": "Green tea comes from the leaves of one single bush.",
    "bear": "The brown bear does eat berries.",
    "red": "The red panda does eat bamboo, whatever the weather.",
    "fox": "The red fox is no panda.",
}


class Overlap:
    """Scores by the number of shared words; records the queries."""

    model_name = "overlap"

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.threads: set[int] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.queries.append(query)
        self.threads.add(threading.get_ident())
        wanted = set(query.lower().split())
        return [float(len(wanted.intersection(document.lower().split()))) for document in documents]


class Retrieved(BaseRetriever):
    """Retrieves new copies of the nodes each time, as stores do."""

    def __init__(self, *nodes: NodeWithScore) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [node.model_copy(deep=True) for node in self.nodes]


class Scripted(CustomLLM):
    """A completion model whose replies come from a function."""

    script: Callable[[str], str] = Field(exclude=True)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=16000)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.script(prompt))

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Iterator[CompletionResponse]:
        text = ""
        for word in self.script(prompt).split(" "):
            text += f"{word} "
            yield CompletionResponse(text=text, delta=f"{word} ")


def nodes_of(*names: str, falling_from: float = 0.9) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(text=TEXTS[name], id_=name, metadata={"source": f"{name}.md"}),
            score=round(falling_from - index / 10, 6),
        )
        for index, name in enumerate(names or TEXTS)
    ]


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def by_overlap(scorer: Any = None, **settings: Any) -> SecondPassRerank:
    return SecondPassRerank({"method": scorer or Overlap(), "log_level": "debug"}, **settings)


def in_order(text: str, names: Sequence[str]) -> bool:
    """Whether the nodes have these texts in this order."""
    places = [text.find(TEXTS[name]) for name in names]
    return -1 not in places and places == sorted(places)


def echo() -> MockLLM:
    """Replies with the prompt, so that answers contain what the model was shown."""
    return MockLLM()


def engine_of(
    retriever: BaseRetriever, *behind: Any, llm: Any = None, **settings: Any
) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever, llm=llm or echo(), node_postprocessors=list(behind), **settings
    )


Ask = Callable[[Any, str], Any]


def inside_a_loop(call: Callable[[], Any]) -> Any:
    """The result of a synchronous call in a thread with a running event loop."""

    async def go() -> Any:
        return call()

    return asyncio.run(go())


def memory(*messages: ChatMessage) -> ChatMemoryBuffer:
    """The default one keeps a connection to a data base open."""
    return ChatMemoryBuffer.from_defaults(chat_history=list(messages), token_limit=4000)
