"""Whatever a scorer answers: no document is lost or doubled, and the core's order is kept."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from haystack import Document
from haystack.dataclasses import ByteStream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from sampling import examples
from secondpass import Candidate, Reranker

PATIENT = settings(examples(25), suppress_health_check=[HealthCheck.too_slow])


class Liar:
    """Answers with what it was given, for as many documents as it likes."""

    model_name = "liar"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: Sequence[str]) -> Any:
        if self.answer is None:
            raise RuntimeError("a scorer may raise anything")
        return self.answer


NUMBERS = st.floats() | st.integers(-5, 5) | st.sampled_from([0.0, 0.5, 1.0])
VALUES = NUMBERS | st.none() | st.booleans() | st.text(max_size=3)
METADATA = st.dictionaries(
    st.sampled_from(["title", "page", "rerank_score", "rerank_status", "retrieval_score"]),
    st.sampled_from([None, 0, "", False, "x", 2.5, "scored"]),
    max_size=3,
)


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Documents in the order of a retriever; ids repeat, and some have no text."""
    created = []
    for index in range(draw(st.integers(0, 8))):
        content = draw(st.none() | st.text(max_size=5))
        created.append(
            Document(
                id=draw(st.sampled_from("abcdefgh")),
                content=content,
                blob=ByteStream(b"image") if content is None else None,
                score=draw(st.none() | st.floats()),
                meta={"at": index, **draw(METADATA)},
            )
        )
    return created


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Document], object]:
    """Documents, and an answer that mostly has the length it should have."""
    given_documents = draw(documents())
    readable = sum(document.content is not None for document in given_documents)
    right = st.lists(VALUES, min_size=readable, max_size=readable)
    good = st.lists(NUMBERS, min_size=readable, max_size=readable)
    return given_documents, draw(good | right | st.lists(VALUES, max_size=9) | st.none())


def fields(document: Document) -> tuple[Any, ...]:
    return document.id, document.content, document.blob, document.score, dict(document.meta)


def positions(ranked: list[Document]) -> list[int]:
    return [document.meta["at"] for document in ranked]


def shown(result: dict[str, Any]) -> str:
    """All of a result but its time, so that NaN equals NaN."""
    report = {key: value for key, value in result["report"].items() if key != "seconds"}
    return repr(([fields(document) for document in result["documents"]], report))


@PATIENT
@given(cases())
def test_no_document_is_lost_or_doubled_and_none_is_changed(
    case: tuple[list[Document], object],
) -> None:
    before, answer = case
    copies = [fields(document) for document in before]
    ranker = SecondPassRanker({"method": Liar(answer)}, dedupe=False)
    result = ranker.run("query", before)
    assert sorted(positions(result["documents"])) == list(range(len(before)))
    assert repr([fields(document) for document in before]) == repr(copies)
    for document in result["documents"]:
        source = before[document.meta["at"]]
        assert document is not source
        assert document.meta is not source.meta
        assert (document.id, document.content) == (source.id, source.content)
        assert document.blob is source.blob
        assert source.meta.keys() <= document.meta.keys()


@PATIENT
@given(cases(), st.booleans())
def test_duplicates_are_left_out_once_for_each_id_and_reported(
    case: tuple[list[Document], object], fallback: bool
) -> None:
    before, answer = case
    config: dict[str, Any] = {"method": Liar(answer)}
    if fallback:
        config["fallback"] = ["lexical"]
    result = SecondPassRanker(config).run("query", before)
    kept = positions(result["documents"])
    left = result["report"]["left_out"].get("duplicate", [])
    assert sorted([*kept, *left]) == list(range(len(before)))
    assert sorted(document.id for document in result["documents"]) == sorted(
        {document.id for document in before}
    )


@PATIENT
@given(cases(), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_the_order_is_the_core_s(
    case: tuple[list[Document], object], top_k: int | None, depth: int | None
) -> None:
    before, answer = case
    reranker = Reranker(Liar(answer))
    candidates = [
        Candidate(document.content, document.id, document.score, document.meta)  # type: ignore[arg-type]
        for document in before
    ]
    ranking = reranker.rerank("query", candidates, top_k=top_k, depth=depth, dedupe=True)
    result = SecondPassRanker(reranker).run("query", before, top_k, depth=depth)
    assert positions(result["documents"]) == list(ranking.order)
    assert result["report"]["status"] == ranking.report.status


@PATIENT
@given(cases(), st.sampled_from([None, "lost_in_the_middle"]))
def test_scores_are_finite_floats_that_never_rise(
    case: tuple[list[Document], object], order: str | None
) -> None:
    before, answer = case
    result = SecondPassRanker({"method": Liar(answer)}, dedupe=False).run(
        "query", before, order=order
    )
    scores = [document.score for document in result["documents"]]
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)
    resorted = sorted(result["documents"], key=lambda document: -(document.score or 0))
    assert positions(resorted) == positions(result["documents"])


@PATIENT
@given(cases(), st.booleans())
def test_waiting_for_it_changes_nothing(case: tuple[list[Document], object], dedupe: bool) -> None:
    before, answer = case
    ranker = SecondPassRanker({"method": Liar(answer)}, dedupe=dedupe)
    assert shown(asyncio.run(ranker.run_async("query", before))) == shown(
        ranker.run("query", before)
    )
