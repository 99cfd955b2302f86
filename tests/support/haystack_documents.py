"""Documents for the ranker, and scorers that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack import Document
from haystack.document_stores.in_memory import InMemoryDocumentStore

from secondpass import Report

QUERY = "castle garden"


class Numbers:
    """Scores a document by the number that is its text; counts calls."""

    model_name = "numbers"

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.warmed = 0
        self.closed = 0

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        self.seen.append(list(documents))
        return [float(document.rsplit(maxsplit=1)[-1]) for document in documents]

    def warm_up(self) -> None:
        self.warmed += 1

    def close(self) -> None:
        self.closed += 1


class Answers:
    """Returns the same result for all requests, valid or not."""

    model_name = "answers"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def numbered(*numbers: float, **fields: Any) -> list[Document]:
    """Documents whose content is a number, retrieved in this order."""
    count = len(numbers)
    return [
        Document(
            id=f"d{index}",
            content=str(number),
            score=1 - index / count,
            meta={"at": index},
            **fields,
        )
        for index, number in enumerate(numbers)
    ]


def castles() -> list[Document]:
    return [
        Document(id="built", content="The castle was built in 1386.", meta={"page": 0}),
        Document(id="garden", content="The castle garden opens at nine.", meta={"page": 1}),
        Document(id="market", content="The market is on Monday.", meta={"page": None}),
    ]


def store_of(documents: list[Document]) -> InMemoryDocumentStore:
    store = InMemoryDocumentStore()
    store.write_documents(documents)
    return store


def contents(documents: list[Document]) -> list[str | None]:
    return [document.content for document in documents]


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without its times."""
    report = {key: value for key, value in result["report"].items() if key not in Report.TIMES}
    return {**result, "report": report}
