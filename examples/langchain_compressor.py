"""A LangChain document compressor that reranks with secondpass.

    pip install -e ".[embedded]" langchain-core
    python examples/langchain_compressor.py

Copy it into your project, and use it wherever LangChain takes a `BaseDocumentCompressor`, such as
in a ``ContextualCompressionRetriever``::

    compressor = SecondPassCompressor(Reranker.from_preset("embedded"), top_n=5)
    documents = compressor.compress_documents(retriever.invoke(query), query)
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, ValidationError

from secondpass import Candidate, ConfigurationError, Ranking, Reranker
from secondpass.adapters import checked_list, problems_of, results, suggestion


class SecondPassCompressor(BaseDocumentCompressor):
    """Returns the documents best first: all of them, or the first ``top_n``.

    The returned documents are copies. ``rerank_score`` and the other keys of the ranking are added
    to their metadata.

    Args:
        reranker: ranks the documents.
        top_n: number of documents to return, the name in LangChain; None returns all.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Reranker
    top_n: int | None = Field(default=None, ge=1)

    def __init__(self, reranker: Reranker, **fields: Any) -> None:
        try:
            super().__init__(reranker=reranker, **fields)  # type: ignore[call-arg]
        except ValidationError as error:
            problems = problems_of(error, lambda name: suggestion(name, ["reranker", "top_n"]))
            raise ConfigurationError(problems, type(self).__name__) from None

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks = None,  # noqa: ARG002 - part of the interface
    ) -> list[Document]:
        """The documents, best first."""
        documents = checked_list(documents, Document, "documents", "Documents")
        ranking = self.reranker.rerank(query, _candidates(documents), top_k=self.top_n)
        return _ranked(documents, ranking)

    async def acompress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks = None,  # noqa: ARG002 - part of the interface
    ) -> list[Document]:
        """Asynchronous version of :meth:`compress_documents`."""
        documents = checked_list(documents, Document, "documents", "Documents")
        ranking = await self.reranker.arerank(query, _candidates(documents), top_k=self.top_n)
        return _ranked(documents, ranking)


def _candidates(documents: Sequence[Document]) -> list[Candidate]:
    # LangChain's documents have no score, so a blend uses their order. If your retriever writes one
    # into the metadata, pass it: score=document.metadata.get("score").
    return [
        Candidate(document.page_content, document.id, metadata=document.metadata)
        for document in documents
    ]


def _ranked(documents: Sequence[Document], ranking: Ranking) -> list[Document]:
    return [
        document.model_copy(update={"metadata": {**document.metadata, **added}})
        for document, _score, added in results(documents, ranking, attrgetter("metadata"))
    ]


def main() -> None:
    """Rerank two documents, and print them with their scores."""
    documents = [
        Document("Paris is the capital of France."),
        Document("Bananas are rich in potassium."),
    ]
    compressor = SecondPassCompressor(Reranker.from_preset("embedded"))
    for document in compressor.compress_documents(documents, "Which fruit is good for muscles?"):
        print(f"{document.metadata['rerank_score']:.2f}  {document.page_content}")


if __name__ == "__main__":
    main()
