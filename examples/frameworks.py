"""The demo's reranking through Haystack and LlamaIndex."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from secondpass_evaluation import HybridRetriever, Mode

HERE = Path(__file__).parent


def haystack_order(question: str, retriever: HybridRetriever, depth: int) -> list[str]:
    """Ids as ranked by the pipeline of haystack_pipeline.yaml, which fuses and reranks."""
    os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
    from haystack import Document, Pipeline

    pipeline = Pipeline.loads((HERE / "haystack_pipeline.yaml").read_text(encoding="utf-8"))
    inputs: dict[str, Any] = {"fusion": {"top_k": depth}, "ranker": {"query": question}}
    modes: dict[str, Mode] = {"by_vector": "vector", "by_words": "lexical"}
    for name, mode in modes.items():
        documents = [
            Document(id=str(one.id), content=one.text, score=one.score, meta=dict(one.metadata))
            for one in retriever.retrieve(question, retriever.depth, mode)
        ]
        inputs[name] = {"documents": documents}
    documents = pipeline.run(inputs)["ranker"]["documents"]
    return [document.id for document in documents]


def llama_index_order(question: str, retriever: HybridRetriever, depth: int) -> list[str]:
    """Ids as ranked by a query engine with `SecondPassRerank`."""
    from llama_index.core import Settings, get_response_synthesizer
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    from llama_index.postprocessor.secondpass import SecondPassRerank

    class Hybrid(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [
                NodeWithScore(
                    node=TextNode(id_=str(one.id), text=one.text, metadata=dict(one.metadata)),
                    score=one.score,
                )
                for one in retriever.retrieve(query_bundle.query_str, depth)
            ]

    Settings.llm = MockLLM()  # the default LLM would need a key, even though nothing is generated
    engine = RetrieverQueryEngine(
        retriever=Hybrid(),
        response_synthesizer=get_response_synthesizer(response_mode="no_text"),
        node_postprocessors=[SecondPassRerank(HERE / "demo.yaml")],
    )
    return [node.node_id for node in engine.query(question).source_nodes]
