"""The LlamaIndex transformation that stores nodes ahead, for ingestion pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent
from pydantic import Field

from llama_index.postprocessor.secondpass.base import SecondPassRerank
from llama_index.postprocessor.secondpass.parameters import plain_errors


class SecondPassStore(TransformComponent):
    """Encodes nodes while they are ingested, so that no query has to.

    The nodes pass through unchanged. What is stored is what the postprocessor asks for: give it one
    with the arguments of that in the query engine, whose method has a ``store``::

        method = {"type": "embedded", "store": "passages.store"}
        rerank = SecondPassRerank({"method": method})
        pipeline = IngestionPipeline(transformations=[splitter, SecondPassStore(rerank=rerank)])

    A pipeline with a cache of its own does not call this again for nodes that it knows.

    Args:
        rerank: the postprocessor whose method has the store.

    Raises:
        ConfigurationError: it is no SecondPassRerank.
    """

    rerank: SecondPassRerank = Field(description="The postprocessor whose method has the store.")

    def __init__(self, rerank: SecondPassRerank, **fields: Any) -> None:
        fields["rerank"] = rerank
        with plain_errors(type(self).__name__):
            super().__init__(**fields)

    def __call__(self, nodes: Sequence[BaseNode], **_kwargs: Any) -> Sequence[BaseNode]:
        """Store nodes, and return them. Those that are stored already are not encoded again.

        Raises:
            StoreError: the postprocessor has no store, or not all nodes could be stored.
        """
        self.rerank.store([NodeWithScore(node=node) for node in nodes])
        return nodes

    @classmethod
    def class_name(cls) -> str:
        """The name under which this is serialised."""
        return "SecondPassStore"
