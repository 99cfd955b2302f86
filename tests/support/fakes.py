"""Scorers that tests put in the place of models, and candidates of every odd kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from secondpass import Candidate


class ByTable:
    """Scores a text by a table; texts that are not in it get their length."""

    model_name = "by-table"

    def __init__(self, table: dict[str, Any] | None = None, **members: Any) -> None:
        self.table = table or {}
        self.calls: list[tuple[str, list[str]]] = []
        for name, value in members.items():
            setattr(self, name, value)

    def score_pairs(self, query: str, documents: list[str]) -> list[Any]:
        self.calls.append((query, list(documents)))
        return [self.table.get(document, float(len(document))) for document in documents]


class InOrder:
    """Gives the scores of a list, one after the other."""

    model_name = "in-order"

    def __init__(self, scores: Sequence[Any], **members: Any) -> None:
        self.scores = list(scores)
        for name, value in members.items():
            setattr(self, name, value)

    def score_pairs(self, query: str, documents: list[str]) -> list[Any]:
        return self.scores[: len(documents)]


class Answering:
    """Answers whatever a function makes of the number of documents; it may raise."""

    model_name = "answering"

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: list[str]) -> Any:
        return self.answer(len(documents))


class Batching(ByTable):
    """Takes several requests at once, and counts how often it is asked."""

    def __init__(self, table: dict[str, Any] | None = None) -> None:
        super().__init__(table)
        self.batches: list[int] = []

    def score_many(self, requests: Sequence[tuple[str, list[str]]]) -> list[list[Any]]:
        self.batches.append(len(requests))
        return [ByTable.score_pairs(self, query, documents) for query, documents in requests]


def raising(error: BaseException) -> Callable[[int], Any]:
    def answer(_count: int) -> Any:
        raise error

    return answer


ANSWERS: dict[str, Callable[[int], Any]] = {
    "none": lambda n: None,
    "a string": lambda n: "0.5",
    "a dict": lambda n: {0: 0.5},
    "a number": lambda n: 0.5,
    "empty": lambda n: [],
    "one too few": lambda n: [0.5] * (n - 1),
    "one too many": lambda n: [0.5] * (n + 1),
    "endless": lambda n: iter(float, 1.0),
    "strings": lambda n: ["0.5"] * n,
    "booleans": lambda n: [True] * n,
    "all nan": lambda n: [math.nan] * n,
    "all infinite": lambda n: [math.inf] * n,
    "huge integers": lambda n: [10**400] * n,
    "nested": lambda n: [[0.5]] * n,
    "objects": lambda n: [object()] * n,
    "a set": lambda n: {0.5 + at for at in range(n)},
    "another mapping": lambda n: MappingProxyType({float(at): at for at in range(n)}),
    "a bytearray": bytearray,
    "raises": raising(RuntimeError("passage text and sk-secret-key")),
    "raises a key error": raising(KeyError("sk-secret-key")),
    "raises memory error": raising(MemoryError()),
    "raises recursion error": raising(RecursionError()),
}
"""What a scorer may answer that gives no score at all."""

odd_scores = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**30), 10**30),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.just([0.5]),
    st.just(10**400),
)

odd_texts: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "same", "\x00", "\ud800", "a\u200bb", "</document>", "x" * 3000]),
    st.none(),
    st.integers(),
    st.binary(max_size=4),
)

odd_metadata = st.dictionaries(
    st.one_of(st.text(max_size=5), st.sampled_from(["rerank_score", "title"])),
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers())
    ),
    max_size=3,
)

candidates = st.builds(
    Candidate,
    text=odd_texts,
    id=st.one_of(st.none(), st.sampled_from(["a", "b", "a b", '"'])),
    score=st.one_of(st.none(), st.floats(), st.integers(-5, 5)),
    metadata=odd_metadata,
)

candidate_likes = st.one_of(
    candidates,
    st.text(max_size=10),
    st.fixed_dictionaries(
        {"text": odd_texts},
        optional={"id": st.text(max_size=3), "score": st.floats(), "url": st.text(max_size=3)},
    ),
)
