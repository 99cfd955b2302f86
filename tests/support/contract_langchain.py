"""The LangChain compressor of the examples under the contract."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from langchain_compressor import SecondPassCompressor
from langchain_core.documents import Document

from contract import Carried
from secondpass import Reranker


class LangChain:
    """`SecondPassCompressor`: the Reranker has all settings but ``top_n``."""

    name = "langchain"
    document = ("Document", "Documents")
    names: ClassVar[dict[str, str]] = {"top_k": "top_n"}
    members = ("id", "metadata")

    def make(self, reranker: Any, **settings: Any) -> SecondPassCompressor:
        own = {self.names[name]: settings.pop(name) for name in self.names if name in settings}
        if not isinstance(reranker, Reranker):
            config = {"method": reranker} if isinstance(reranker, str) else reranker
            reranker = Reranker.from_config({**config, **settings})
        return SecondPassCompressor(reranker, **own)

    def core(self, component: SecondPassCompressor) -> Reranker:
        return component.reranker

    def given(self, text: Any, id: Any, score: Any = None, metadata: Any = None) -> Document:
        document = Document(page_content="", id=id, metadata={} if metadata is None else metadata)
        document.page_content = text
        return document

    def carried(self, document: Document) -> Carried:
        return Carried(document.page_content, document.id, None, document.metadata)

    def run(
        self, component: SecondPassCompressor, way: str, query: Any, documents: Any
    ) -> tuple[list[Document], None]:
        if way == "compress_documents":
            return component.compress_documents(documents, query), None
        return asyncio.run(component.acompress_documents(documents, query)), None

    async def arun(
        self, component: SecondPassCompressor, query: Any, documents: Any
    ) -> list[Document]:
        return await component.acompress_documents(documents, query)


ADAPTER = LangChain()
