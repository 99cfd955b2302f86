"""The records that go in and come out of a ranking pass.

A candidate is known by its *position* in the input, never by its id or its text: both may repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, overload

ScoreKind: TypeAlias = Literal["logit", "probability", "grade", "similarity", "unbounded", "rank"]
"""What a method's scores mean.

``logit`` any float, 0 is even odds; ``probability`` 0 to 1; ``grade`` on a stated scale;
``similarity`` -1 to 1; ``unbounded`` any float (BM25, scorers that say nothing);
``rank`` ``(n - i) / n`` for the i-th of n, counted from 0.
"""

ItemStatus: TypeAlias = Literal["scored", "backfilled", "unjudged", "tail"]
"""``scored``: judged by the method. ``backfilled``: shown to it, missing from its answer.
``unjudged``: its call failed, or it has no text. ``tail``: beyond the depth, or a single candidate
that the method leaves alone."""

ReportStatus: TypeAlias = Literal["ok", "partial", "degraded", "unchanged"]
"""``ok``: all of the head is scored. ``partial``: some of it is not. ``degraded``: a fallback
method gave the order. ``unchanged``: nothing was judged; the order that came in, after an ordering
that chooses by metadata."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One retrieved document.

    Attributes:
        text: what a method reads by default. Anything but a string is carried along and not read.
        id: the caller's name for it; may repeat or be absent.
        score: what the retriever said; higher is better. None where there is none.
        metadata: any further fields; never changed.
    """

    text: str
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        # Records end up in logs, and passages should not.
        size = f"{len(self.text)} characters" if isinstance(self.text, str) else "no text"
        return f"Candidate(<{size}>, id={self.id!r}, score={self.score!r})"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place.

    Attributes:
        rank: 1-based, sequential.
        position: 0-based place in the input.
        candidate: the very object that came in (or was made from the string or mapping that did).
        status: how it came to its place.
        rerank_score: what the method said; a finite float, or None unless ``status`` is scored.
        final_score: what the order is by: the rerank score, blended where a blend is set. When the
            report says ``unchanged``, the retriever's score. None where there is none.
        stage_scores: the score of each stage of a cascade that judged it, first stage first.
        metadata: a copy of the candidate's mapping with ``rerank_score`` added; values are shared.
    """

    rank: int
    position: int
    candidate: Candidate
    status: ItemStatus
    rerank_score: float | None
    final_score: float | None
    stage_scores: tuple[float, ...]
    metadata: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str | None:
        """The candidate's id."""
        return self.candidate.id

    @property
    def text(self) -> str:
        """The candidate's text."""
        return self.candidate.text

    @property
    def score(self) -> float | None:
        """What the retriever said."""
        return self.candidate.score


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that did not go as asked. Holds no text of the query or of a candidate.

    Attributes:
        code: a stable word for programs, such as ``score_not_finite``.
        message: the same for people.
        positions: input positions of the candidates concerned; empty when it concerns all.
        ids: their ids, in the same order.
        method: the name of the method concerned, if one is.
    """

    code: str
    message: str
    positions: tuple[int, ...] = ()
    ids: tuple[str | None, ...] = ()
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a ranking cost.

    Attributes:
        calls: how often a method was asked (one call of a scorer, one question to a model). A call
            that served several rankings counts in each.
        rounds: how many of those had to wait for each other.
        pairs: query-candidate pairs that were put before a method.
        input_tokens: None where a method did not say.
        output_tokens: None where a method did not say.
        cost: in the currency of the configured prices; None where there are none.
    """

    calls: int = 0
    rounds: int = 0
    pairs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a ranking pass did.

    Attributes:
        status: ok, partial, degraded or unchanged.
        method: the name of the method that gave the order; None when the order came in.
        score_kind: what its scores mean; None when the order came in.
        issues: everything that did not go as asked, in the order it was met.
        usage: calls, rounds, pairs, tokens, cost.
        seconds: wall-clock time of this ranking.
        left_out: input positions of the candidates that are not in the ranking, by the reason:
            ``duplicate``, ``floor``, ``tail``, ``top_k``. Reasons that left none out are absent.
    """

    status: ReportStatus
    method: str | None = None
    score_kind: ScoreKind | None = None
    issues: tuple[Issue, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, as JSON and pipelines want them."""
        usage = self.usage
        return {
            "status": self.status,
            "method": self.method,
            "score_kind": self.score_kind,
            "issues": [
                {
                    "code": issue.code,
                    "message": issue.message,
                    "positions": list(issue.positions),
                    "ids": list(issue.ids),
                    "method": issue.method,
                }
                for issue in self.issues
            ],
            "usage": {name: getattr(usage, name) for name in Usage.__slots__},
            "seconds": self.seconds,
            "left_out": {reason: list(positions) for reason, positions in self.left_out.items()},
        }


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Ranked]):
    """The candidates, best first, with a report of how that came about.

    Attributes:
        query: the query as given.
        items: the ranked candidates.
        report: what was done, what it cost, what went wrong.
    """

    query: str = field(repr=False)
    items: tuple[Ranked, ...]
    report: Report

    @property
    def order(self) -> tuple[int, ...]:
        """The input positions of the items, best first."""
        return tuple(item.position for item in self.items)

    @overload
    def __getitem__(self, index: int) -> Ranked: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Ranked, ...]: ...
    def __getitem__(self, index: int | slice) -> Ranked | tuple[Ranked, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.items)


CandidateLike: TypeAlias = str | Candidate | Ranked | Mapping[str, Any]
"""A string is a text. A mapping has ``text`` (or ``content``), and may have ``id`` (made a string),
``score`` and ``metadata``; its further keys become metadata."""


class Request(NamedTuple):
    """One ranking among many; a plain ``(query, candidates)`` tuple does as well.

    Attributes:
        query: the query.
        candidates: in the order of the retriever.
        context: anything the method wants to know about this query.
    """

    query: str
    candidates: Sequence[CandidateLike]
    context: Any = None


RequestLike: TypeAlias = Request | tuple[str, Sequence[CandidateLike]]
"""A request, or the tuple of its values."""
