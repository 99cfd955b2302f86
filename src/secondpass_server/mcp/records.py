"""Arguments and results of the tools, which define their schemas."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from secondpass.types import Ranked, Ranking


class Document(BaseModel):
    """A document with more than its text."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str
    id: str | int | None = Field(None, description="Your identifier of the document.")
    score: float | None = Field(None, description="Score of the search, higher is better.")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Further fields; `title`, `source` and `url` name sources.",
    )


Query = Annotated[str, Field(description="The question or search query.")]
Documents = Annotated[
    list[str | Document],
    Field(description="What a search found, in its order: texts, or objects with `text`."),
]
Instruction = Annotated[
    str | None, Field(description="What counts as relevant, such as: prefer recent documents.")
]
Model = Annotated[str | None, Field(description="Which reranker; omit for the default.")]


class Outcome(BaseModel):
    """Whether the documents were really reranked, and why not."""

    reranked: bool = Field(
        description="Whether all documents that can be were scored; false if there was none."
    )
    status: str = Field(
        description="`ok`, `partial` (some are not scored), `degraded` (a fallback gave the order) "
        "or `unchanged` (the order is that of the input)."
    )
    method: str | None = Field(description="What gave the order; null if nothing did.")
    why_not: list[str] = Field(
        description="What went wrong, or was skipped on purpose; empty if nothing was."
    )


class Result(BaseModel):
    """A document in its new place."""

    index: int = Field(description="Index of the document in the request, from 0.")
    id: str | int | None
    rank: int = Field(description="From 1.")
    score: float | None = Field(description="What documents are sorted by; null if not scored.")
    rerank_score: float | None = Field(description="The reranker's own score.")
    status: str = Field(description="`scored`, or why not: `backfilled`, `unjudged`, `tail`.")
    span: list[int] | None = Field(description="Start and stop of the best part, in characters.")
    text: str | None = Field(None, description="The text, if `include_text` is true.")


class Reranked(Outcome):
    """The documents, best first."""

    results: list[Result]
    left_out: dict[str, list[int]] = Field(
        description="Indices of documents that are not among the results, by reason."
    )


class Explained(Outcome):
    """Why a document has its rank."""

    explanation: str
    details: dict[str, Any]


class PackedSource(BaseModel):
    """Where a part of the packed text comes from."""

    number: int
    start: int = Field(description="First character of the passage within the text.")
    stop: int
    index: int = Field(description="Index of the document in the request, from 0.")
    id: str | int | None
    rank: int
    score: float | None
    span: list[int] | None = Field(description="Part of the document; null for all of it.")
    metadata: dict[str, str]


class PackedText(Outcome):
    """Passages within a budget of tokens, best first, and their sources."""

    text: str
    tokens: int
    sources: list[PackedSource]
    left_out: list[int] = Field(description="Indices of documents that did not fit.")
    repeated: list[int] = Field(description="Indices of documents whose passage is in the text.")


def outcome(ranking: Ranking) -> dict[str, Any]:
    """The fields of :class:`Outcome`."""
    report = ranking.report
    why_not = [f"{issue.code}: {issue.message}" for issue in report.issues]
    if report.skipped is not None:
        why_not.insert(0, f"skipped by `when`: {report.skipped.reason}")
    elif report.status == "ok" and report.method is None:  # as of a single document
        why_not.insert(0, "there was nothing to put into another order")
    return {
        "reranked": report.status == "ok" and report.skipped is None and report.method is not None,
        "status": report.status,
        "method": report.method,
        "why_not": why_not,
    }


def result(item: Ranked, *, text: bool) -> Result:
    """A ranked item as a record."""
    return Result(
        index=item.position,
        id=item.id,
        rank=item.rank,
        score=item.final_score,
        rerank_score=item.rerank_score,
        status=item.status,
        span=None if item.span is None else [*item.span],
        text=item.text if text else None,
    )


def explained(ranking: Ranking, position: int) -> Explained:
    """The explanation of the candidate at a position."""
    explanation = ranking.explain(position=position)
    details = explanation.to_dict()
    return Explained(explanation=str(explanation), details=details, **outcome(ranking))
