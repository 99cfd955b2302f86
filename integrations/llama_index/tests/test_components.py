"""Behind retrievers and in query engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, node, pandas, plain, texts, with_scorer


class Given(BaseRetriever):
    """Retrieves the nodes that it was given."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(self.nodes)


@pytest.fixture
def llm() -> MockLLM:
    return MockLLM(max_tokens=16)


def engine(retriever: BaseRetriever, llm: MockLLM, *behind: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever,
        llm=llm,
        node_postprocessors=list(behind),
        callback_manager=CallbackManager([]),
    )


def test_in_a_query_engine_sync_and_async(llm: MockLLM, events: list[Any]) -> None:
    query_engine = engine(Given(pandas()), llm, SecondPassRerank("lexical", top_n=2))
    response = query_engine.query(QUERY)
    assert [result.node_id for result in response.source_nodes] == ["panda", "bear"]
    again = asyncio.run(query_engine.aquery(QUERY))
    assert plain(again.source_nodes) == plain(response.source_nodes)
    assert len(events) == 4


def test_behind_a_vector_index(llm: MockLLM) -> None:
    nodes = [result.node for result in pandas()]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    query_engine = index.as_query_engine(
        llm=llm, similarity_top_k=3, node_postprocessors=[SecondPassRerank("lexical")]
    )
    first = query_engine.query(QUERY).source_nodes
    second = query_engine.query(QUERY).source_nodes
    assert texts(first)[0] == "The red panda eats bamboo."
    assert plain(first) == plain(second)


def test_components_behind_keep_the_order(llm: MockLLM) -> None:
    nodes = [node("x" * length, 0.5, id_=str(length)) for length in (3, 5, 1, 4, 2)]
    reranker = with_scorer(ByLength())
    kept = engine(Given(nodes), llm, reranker, SimilarityPostprocessor(similarity_cutoff=3.0))
    assert [result.node_id for result in kept.retrieve(QueryBundle(QUERY))] == ["5", "4", "3"]
    reordered = engine(Given(nodes), llm, reranker, LongContextReorder())
    ends = [result.node_id for result in reordered.retrieve(QueryBundle(QUERY))]
    assert {ends[0], ends[-1]} == {"5", "4"}
    assert ends[2] == "1"


def test_behind_a_fusion_of_retrievers(llm: MockLLM) -> None:
    retrievers = [Given(pandas()), Given(pandas()[::-1])]
    fusion = QueryFusionRetriever(
        retrievers, llm=llm, num_queries=1, mode="reciprocal_rerank", use_async=False,
        similarity_top_k=3,
    )  # fmt: skip
    ranked = engine(fusion, llm, SecondPassRerank("lexical")).retrieve(QueryBundle(QUERY))
    assert [one.node_id for one in ranked] == ["panda", "bear", "car"]
