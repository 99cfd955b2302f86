"""Hybrid retrieval in a query engine, followed by a cross-encoder.

    pip install -e . -e "./integrations/llama_index[embedded]"
    python examples/llama_index/hybrid_query_engine.py "How do I get one deleted file back?"

QueryFusionRetriever fuses a keyword retriever and a vector retriever, and its results are reranked.
The preset ``default`` uses a cross-encoder from the hub. If that is unavailable, it uses the
embedding model of the extra ``embedded``. The lines below the table name the method.
"""

from __future__ import annotations

import math
import sys
from typing import Any
from zlib import crc32

from _shared import model, show
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank
from secondpass import Reranker

QUESTION = "How do I get one deleted file back?"
MANUAL = [
    "Delete old snapshots with the command forget. Files that no snapshot holds are removed.",
    "The file with the password must not be deleted. Without it no snapshot can be opened.",
    "A single file that was deleted by mistake comes back with restore and its path.",
    "To get back a whole disk, restore the newest snapshot onto an empty one.",
    "How often backups run is set in the schedule. Once an hour is enough for most people.",
    "Exclude a file or a folder by a line in the file of exclusions.",
    "The server keeps what it is sent and cannot read it.",
    "Check reads every snapshot back and compares its sums.",
]


class ByWords(BaseRetriever):
    """BM25 over a few nodes; an application would use llama-index-retrievers-bm25."""

    def __init__(self, nodes: list[TextNode], similarity_top_k: int) -> None:
        self.nodes = nodes
        self.bm25 = Reranker("lexical", depth=None, top_k=similarity_top_k)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self.bm25.rerank(query_bundle.query_str, [node.text for node in self.nodes])
        return [
            NodeWithScore(node=self.nodes[item.position], score=item.final_score) for item in found
        ]


class Trigrams(BaseEmbedding):
    """Counts of letter trigrams, as a stub for an embedding model."""

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [0.0] * 256
        for at in range(len(text) - 2):
            vector[crc32(text[at : at + 3].lower().encode()) % 256] += 1
        length = math.hypot(*vector) or 1.0
        return [value / length for value in vector]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Reports(BaseEventHandler):
    """Collects the reports, which a query engine does not return."""

    reports: list[dict[str, Any]] = []  # noqa: RUF012 - a pydantic field

    def handle(self, event: Any, **_: Any) -> None:
        """Store the report of a rerank event."""
        if isinstance(event, SecondPassReportEvent):
            self.reports.append(event.report)


def main(question: str = QUESTION) -> None:
    """Query the engine and print the nodes it would answer from."""
    nodes = [TextNode(text=text, id_=f"manual-{at}") for at, text in enumerate(MANUAL)]
    index = VectorStoreIndex(nodes, embed_model=Trigrams())
    llm = model(MockLLM(max_tokens=8), "its answers have no meaning")
    hybrid = QueryFusionRetriever(
        [ByWords(nodes, 6), index.as_retriever(similarity_top_k=6)],
        llm=llm,
        num_queries=1,
        mode="reciprocal_rerank",
        similarity_top_k=8,
        use_async=False,
    )
    second_pass = SecondPassRerank("default", top_n=3)
    engine = RetrieverQueryEngine.from_args(hybrid, llm=llm, node_postprocessors=[second_pass])
    handler = Reports()
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    try:
        response = engine.query(question)
    finally:
        dispatcher.event_handlers.remove(handler)
    print(question)
    show(response.source_nodes, handler.reports[-1])


if __name__ == "__main__":
    main(*sys.argv[1:2])
