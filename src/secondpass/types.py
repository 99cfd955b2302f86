"""The records that go into and come out of a ranking pass.

A candidate is identified by its *position* in the input. Ids and texts may repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

if TYPE_CHECKING:
    from secondpass.runtime.explanations import Explanation
    from secondpass.runtime.trace import Trace

ScoreKind: TypeAlias = Literal["logit", "probability", "grade", "similarity", "unbounded", "rank"]
"""What the scores of a method mean.

``logit``: any float, 0 is even odds. ``probability``: 0 to 1. ``grade``: on a stated scale.
``similarity``: -1 to 1. ``unbounded``: any float (BM25, and scorers that declare no kind).
``rank``: ``(n - i) / n`` for the i-th of n, counted from 0.
"""

ItemStatus: TypeAlias = Literal["scored", "backfilled", "unjudged", "tail"]
"""``scored``: the method gave it a score. ``backfilled``: shown to the method, missing from its
result. ``unjudged``: the call failed, or there is nothing to show. ``tail``: beyond the depth, or a
single candidate that the method does not judge."""

ReportStatus: TypeAlias = Literal["ok", "partial", "degraded", "unchanged"]
"""``ok``: all of the head is scored. ``partial``: some of it is not. ``degraded``: a fallback
gave the order, or the method stated a weight of the original order. ``unchanged``: nothing was
judged; items are in input order, to which an ordering by metadata is applied."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One retrieved document.

    Attributes:
        text: what a method is shown by default. A value that is not a string is returned unread.
        id: the caller's identifier; may repeat or be absent.
        score: the retrieval score, higher is better; None if there is none.
        metadata: any further fields; never modified.
    """

    text: str
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        # Records are logged, and passages must not be.
        size = f"{len(self.text)} characters" if isinstance(self.text, str) else "no text"
        return f"Candidate(<{size}>, id={self.id!r}, score={self.score!r})"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its rank.

    Attributes:
        rank: 1, 2, 3, … from the top.
        position: index in the input, from 0.
        candidate: the object from the input, or the one made from a string or mapping.
        status: ``scored``, ``backfilled``, ``unjudged`` or ``tail``.
        rerank_score: the method's score, a finite float; None unless ``status`` is ``scored``.
        final_score: what items are sorted by: the rerank score, or its blend with the retrieval
            score. The retrieval score if the report is ``unchanged``. None if there is none.
        stage_scores: scores of the stages of a cascade that judged it, first stage first.
        metadata: a copy of the candidate's mapping with ``rerank_score`` added, and if it has them
            ``rerank_span``, a list, and ``rerank_spread``; without one, None replaces that of an
            earlier pass. Values are shared.
        span: the part of the candidate's text that matched best, as (start, stop) in characters:
            with ``passages`` the best window, else what the method states. None if the method does
            not say, or saw other fields of the candidate there.
        spread: with ``shuffles``, its highest score in a shuffle less its lowest, 0 or more, in the
            units of the method's scores; None otherwise, or if fewer than two shuffles scored it.
    """

    rank: int
    position: int
    candidate: Candidate
    status: ItemStatus
    rerank_score: float | None
    final_score: float | None
    stage_scores: tuple[float, ...]
    metadata: dict[str, Any] = field(repr=False)
    span: tuple[int, int] | None = None
    spread: float | None = None

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
        """The retrieval score."""
        return self.candidate.score


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that went wrong in a ranking. Holds no text of the query or of a candidate.

    Attributes:
        code: a stable identifier for programs, such as ``score_not_finite``.
        message: a description for people.
        positions: input positions of the candidates concerned; empty if it concerns all.
        ids: their ids, in the same order.
        method: the name of the method concerned, if any.
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
        calls: calls of scorers and questions to services. One for several rankings counts in each.
        rounds: number of these that had to follow one another.
        pairs: query-candidate pairs that were passed to a method; of a scorer that yields batches
            or lists, those that it scored.
        input_tokens, output_tokens: None if a method did not report them.
        cost: in the currency of the configured prices; None without prices.
        retries: calls that repeated a question after an error, as it was or shortened.
        repairs: calls that repeated a question because the reply could not be used.
        cached: answers from the response cache. They are no calls, and cost nothing.
    """

    calls: int = 0
    rounds: int = 0
    pairs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    retries: int = 0
    repairs: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """How a local model ran. Holds no path.

    Attributes:
        method: the name of the method, as in :attr:`Report.method`.
        backend: ``torch``, ``onnx`` or ``openvino``.
        precision: of its arithmetic: ``float32``, ``bfloat16``, ``float16``, ``int8 weights``, …
        threads: threads of one model call, 1 or more.
        batch_rule: how pairs are grouped, such as ``up to 1,024 tokens, sorted by length``.
        reason: why this backend was chosen.
    """

    method: str
    backend: str
    precision: str
    threads: int
    batch_rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a ranking pass did.

    Attributes:
        status: ``ok``, ``partial``, ``degraded`` or ``unchanged``.
        method: the name of the method that gave the order; None if none did.
        score_kind: what its scores mean; None if no method gave the order.
        issues: everything that went wrong, in the order in which it happened.
        usage: calls, rounds, pairs, tokens and cost.
        seconds: wall-clock time of this ranking.
        left_out: input positions of the candidates that are not in the ranking, by reason:
            ``duplicate``, ``floor``, ``tail``, ``top_k``. Reasons without candidates are absent.
        engines: how each local model ran, in the order of first use; also those of stages that
            failed after running. Methods without an engine, such as ``lexical``, are absent.
        choices: by the name of each method that ``auto`` chose, why it did.
        final: False in an interim ranking: issues, usage and status are those so far.
    """

    status: ReportStatus
    method: str | None = None
    score_kind: ScoreKind | None = None
    issues: tuple[Issue, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engines: tuple[EngineInfo, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    final: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers, ready for JSON."""
        from secondpass.formats import rankings

        return dict(rankings.plain(self))


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Ranked]):
    """The ranked candidates, best first, and a report.

    Attributes:
        query: the query as passed by the caller.
        items: the ranked candidates.
        report: what was done, what it cost, and what went wrong.
        trace: what :meth:`explain` reads; None in a ranking that no reranker made.
    """

    query: str
    items: tuple[Ranked, ...]
    report: Report
    trace: Trace | None = field(default=None, compare=False)

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

    def explain(self, id: object = None, *, position: int | None = None) -> Explanation:
        """Explain the rank of a candidate, by id (the best of several) or by input position.

        Raises:
            InputError: there is no such candidate, or the ranking has no trace.
        """
        from secondpass.runtime.explanations import explain

        return explain(self, id, position)

    def to_dict(self, *, text: bool = False) -> dict[str, Any]:
        """Return plain values; with ``text`` also the query, texts and metadata."""
        from secondpass.formats import rankings

        return rankings.to_dict(self, text=text)

    def to_pandas(self, *, text: bool = False) -> Any:
        """Return a DataFrame of the items, one a row; with ``text`` also their texts.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from secondpass.formats import rankings

        return rankings.to_pandas(self, text=text)

    def _repr_html_(self) -> str:
        from secondpass.formats import rankings

        return rankings.to_html(self)

    def __repr__(self) -> str:
        from secondpass.formats import rankings

        return rankings.to_repr(self)


CandidateLike: TypeAlias = str | Candidate | Ranked | Mapping[str, Any]
"""A string is a text. A mapping has ``text`` (or ``content``), and may have ``id`` (converted to a
string), ``score`` and ``metadata``; its other keys are added to the metadata. Objects with such a
text, like LangChain's documents, are accepted too."""


class Request(NamedTuple):
    """One request of ``rerank_many``; a ``(query, candidates)`` tuple is accepted as well.

    Attributes:
        query: the search query.
        candidates: in the retriever's order.
        context: further information about this query, passed to the method.
    """

    query: str
    candidates: Sequence[CandidateLike]
    context: Any = None


RequestLike: TypeAlias = Request | tuple[str, Sequence[CandidateLike]]
"""A request, or the tuple of its values."""
