"""Input and output of a ranking pass. A *position* is an index of the input candidates, from 0."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, cast

from secondpass.attributes import unchangeable, unknown_attribute
from secondpass.errors import reraise_exit
from secondpass.settings.arguments import explained

ScoreKind: TypeAlias = Literal["logit", "probability", "grade", "similarity", "unbounded", "rank"]
"""What the scores of a method mean.

``logit``: any float, 0 is even odds. ``probability``: 0 to 1. ``grade``: on a stated scale.
``similarity``: -1 to 1. ``unbounded``: any float (BM25, and scorers that declare no kind).
``rank``: ``(n - i) / n`` for the i-th of n, counted from 0.
"""

ItemStatus: TypeAlias = Literal["scored", "backfilled", "unjudged", "tail"]
"""``scored``: the method gave it a score. ``backfilled``: missing from the method's result.
``unjudged``: the call failed, time ran out, the method declined, or there is nothing to show.
``tail``: beyond the depth, skipped, or a single candidate that the method does not judge."""

ReportStatus: TypeAlias = Literal["ok", "partial", "degraded", "unchanged"]
"""``ok``: all of the head is scored, or skipped. ``partial``: some of it is not. ``degraded``: the
order is not that of the whole method alone, or its model is doubtful; :data:`DegradedBy` says why.
``unchanged``: nothing was judged."""

DegradedBy: TypeAlias = Literal["fallback", "language", "original", "doubtful", "stage"]
"""Why a ranking is ``degraded``.

``fallback``: the method judged nothing, and a fallback gave the order. ``language``: query or
texts are not English, so the method gave the original order a weight. ``original``: it did so for
another reason, which an issue states. ``doubtful``: its model does not find obvious answers.
``stage``: a part of the method failed, such as a stage of a cascade, and the others gave the order.
"""

DEGRADED_WORDS: Mapping[DegradedBy, str] = {
    "fallback": "a fallback gave the order",
    "language": "query or texts are not English, so the original order has a weight",
    "original": "the method gave the original order a weight",
    "doubtful": "the model is doubtful",
    "stage": "a part of the method failed",
}


Piece: TypeAlias = tuple[int, int, float]
"""A part of a text, such as a sentence, and how well it matches: (start, stop, score).

start and stop are in characters. The scores of a list of texts can be compared with each other, and
with nothing else."""

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the name of a piece of work, the number of steps done, and their total; None where
the total is unknown."""


def no_progress(_name: str, _done: int, _total: int | None) -> None:
    """Ignore progress."""


_PLAIN_IDS = frozenset({int, str, type(None)})


def plain_id(identifier: Any) -> Any:
    """The id as a plain integer or string, None for NaN, or as given if it is another object.

    A boolean is no integer. A float without a fraction is one: pandas makes floats of integers
    where one is missing.
    """
    if isinstance(identifier, bool):
        return identifier
    if isinstance(identifier, str):
        return str.__str__(identifier)
    try:
        return operator.index(identifier)
    except BaseException as error:  # foreign methods may raise anything
        reraise_exit(error)
    try:
        if isinstance(identifier, Real) and (number := float(identifier)).is_integer():
            return int(number)
    except BaseException as error:
        reraise_exit(error)
    try:
        return identifier if identifier == identifier else None  # noqa: PLR0124
    except BaseException as error:  # of arrays, and of pandas.NA, which is no id
        reraise_exit(error)
        return None if type(identifier).__name__ == "NAType" else identifier


def record_id(identifier: object) -> str | int | None:
    """An id for JSON and comparisons: the ``str()`` of one that is no plain string or integer."""
    if type(identifier) in _PLAIN_IDS:
        return cast("str | int | None", identifier)
    try:
        return str(identifier)
    except BaseException as error:  # a foreign __str__ may raise anything
        reraise_exit(error)
        return f"<{type(identifier).__name__}>"


@explained()
@unchangeable
@dataclass(frozen=True, slots=True)
class Candidate:
    """One retrieved document.

    Attributes:
        text: what a method is shown by default. Only strings are read; others are only returned.
        id: the caller's identifier; may repeat, or be None. Integers of other libraries, such as
            numpy's, and floats without a fraction become an int, and NaN, which pandas has for a
            missing value, None. Other objects, such as a UUID, are kept; their ``str()`` stands in
            records.
        score: the retrieval score, higher is better; None if there is none.
        metadata: any further fields; never modified.
    """

    text: str
    id: str | int | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.id) not in _PLAIN_IDS:
            object.__setattr__(self, "id", plain_id(self.id))

    def __repr__(self) -> str:
        size = f"{len(self.text)} characters" if isinstance(self.text, str) else "no text"
        return f"Candidate(<{size}>, id={self.id!r}, score={self.score!r})"


@unchangeable
@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its rank. Its repr has no text, because reprs are logged: see :attr:`text`.

    Attributes:
        rank: 1, 2, 3, … from the top.
        position: index in the input, from 0.
        candidate: the object from the input, or the one made from a string or mapping.
        status: ``scored``, ``backfilled``, ``unjudged`` or ``tail``.
        rerank_score: the method's score, a finite float; None unless ``scored``.
        final_score: what items are sorted by: the rerank score, its blend with the retrieval score,
            either with the terms added, or the retrieval score if the report is ``unchanged``. None
            if there is none. A method may order a list by another score than the rerank score, as
            ``embedded`` does; then it is that one here, too.
        stage_scores: scores of the stages of a cascade that judged it, first stage first.
        metadata: a copy of the candidate's mapping with ``rerank_score`` added, and ``rerank_`` and
            ``span``, ``probability`` and ``terms`` if this or an earlier pass has them.
        span: (start, stop) of the best part of the text, in characters; None if none is stated.
        probability: of relevance, 0 to 1, by the setting ``probabilities``; None without it.
        terms: what was added to its score, 0 to 1, by the field of each of ``terms``; None without.
        pieces: the parts of the text that were scored, in its order, without overlap; empty if the
            method scores texts only as a whole.
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
    probability: float | None = None
    terms: Mapping[str, float] | None = field(default=None, repr=False)
    pieces: Sequence[Piece] = field(default=(), repr=False)

    @property
    def id(self) -> str | int | None:
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

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            metadata = None if name == "metadata" else self.metadata
            raise unknown_attribute(self, name, metadata=metadata)

        def __getitem__(self, key: object) -> NoReturn:
            raise TypeError("a Ranked has attributes, not keys: item.text, item.id, …")

        __iter__ = None  # or Python would try the keys 0, 1, …

    def __repr__(self) -> str:
        parts = [] if self.id is None else [f"id {self.id!r}"]
        parts.append(f"position {self.position:,}")
        for name in ("score", "rerank_score", "final_score", "probability"):
            value = getattr(self, name)
            if name == "final_score" and value == self.rerank_score:
                continue
            if isinstance(value, Real) and not isinstance(value, bool):
                with suppress(OverflowError):  # a retrieval score may be any integer
                    parts.append(f"{name} {float(value):.4g}")
        if self.status != "scored":
            parts.append(self.status)
        return f"<Ranked {self.rank:,}: {', '.join(parts)}>"


@unchangeable
@dataclass(frozen=True, slots=True)
class Issue:
    """Something that went wrong in a ranking. Holds no text of the query or of a candidate.

    Attributes:
        code: a stable identifier for programs, such as ``score_not_finite``.
        message: a description for people.
        positions, ids: of the candidates concerned, in the input; empty if it concerns all.
        method: the name of the method concerned, if any.
    """

    code: str
    message: str
    positions: tuple[int, ...] = ()
    ids: tuple[str | int | None, ...] = ()
    method: str | None = None

    def __repr__(self) -> str:
        about = f" of {self.method!r}" if self.method else ""
        first = [*map(str, self.positions[:3]), *(["…"] if len(self.positions) > 3 else [])]
        places = f" at {', '.join(first)}" if first else ""
        return f"<Issue {self.code}{about}{places}: {self.message}>"


@unchangeable
@dataclass(frozen=True, slots=True)
class Usage:
    """What a ranking used.

    Attributes:
        calls: calls of scorers and questions to services; a shared one counts in each ranking.
            Plans and ``limits.calls`` count the questions alone.
        rounds: number of rounds of these calls, each of which waited for the one before. Plans
            count those of questions alone.
        pairs: query-candidate pairs that a method was passed, or that a scorer of batches scored.
        input_tokens, output_tokens, units: None if not reported. Units are billed, but no tokens.
        cost: in the currency of the configured prices; None without prices.
        retries, repairs: calls that repeated a question, after an error or an unusable reply; calls
            about a part of a refused question are repairs.
        cached: answers from the response cache, which count neither as calls nor as cost.
        known: passages whose encoding was kept, in memory or in a store (``embedded`` and
            ``embedded_multilingual`` only), and ``encoded``: those that had to be encoded.
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
    units: float | None = None
    known: int = 0
    encoded: int = 0

    def __repr__(self) -> str:
        return f"Usage({', '.join(changed_fields(self))})"


class Stored(NamedTuple):
    """What :meth:`~secondpass.Reranker.store` has stored.

    Attributes:
        known: number of texts that were stored already.
        encoded: number of texts that were encoded.
    """

    known: int
    encoded: int


@unchangeable
@dataclass(frozen=True, slots=True)
class EngineInfo:
    """How a local model ran.

    Attributes:
        method: its name, as in :attr:`Report.method`.
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


@unchangeable
@dataclass(frozen=True, slots=True)
class Skipped:
    """What the setting ``when`` left out of a pass.

    Attributes:
        reason: such as ``margin 0.42 is not below 0.3``.
        pairs: number of candidates within the depth that were not judged.
        depth: number of candidates to judge instead; 0 if the pass was skipped.
    """

    reason: str
    pairs: int
    depth: int = 0


@unchangeable
@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold that a ranking pass applied.

    Attributes:
        at: candidates with a lower score were left out.
        on: which score: the ``final`` one, or the method's ``rerank`` score. A candidate that the
            latter keeps may have a final score below the threshold.
    """

    at: float
    on: Literal["final", "rerank"]


@unchangeable
@dataclass(frozen=True, slots=True)
class Report:
    """What a ranking pass did.

    Attributes:
        status: ``ok``, ``partial``, ``degraded`` or ``unchanged``.
        degraded_by: why it is ``degraded``, in the order of :data:`DegradedBy`; empty if it is not.
        method: the name of the method that determined the order; None if none did.
        score_kind: what its scores mean; None if no method determined the order.
        issues: everything that went wrong, in the order in which it happened.
        usage: calls, rounds, pairs, tokens and cost.
        seconds: wall-clock time of this ranking.
        left_out: ``duplicate``, ``floor``, ``tail`` or ``top_k`` -> input positions left out by it.
            Adapters with ``max_tokens`` add that, ``repeated`` and ``no_text``.
        engines: how each local model ran, in the order of first use, also if its stage then failed.
        final: False in an interim ranking, whose report covers the pass so far.
        nothing_relevant: whether all rerank scores are below the ``floor.nothing``, if known.
        skipped: what the setting ``when`` left out for this query; None if nothing.
        threshold: the threshold that was applied (the setting ``floor``); None if none was.
        depth_asked: number of candidates that were to be judged.
        depth_done: number of candidates that were scored.
        beyond_depth: number of candidates that were not to be judged because they stand beyond the
            setting ``depth``.
        waiting_seconds: time that its calls waited: for a thread, for a model that other rankings
            use, or for ``limits.concurrency``.
        calling_seconds: time that these calls then took.
    """

    status: ReportStatus
    method: str | None = None
    score_kind: ScoreKind | None = None
    issues: tuple[Issue, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engines: tuple[EngineInfo, ...] = ()
    final: bool = True
    skipped: Skipped | None = None
    nothing_relevant: bool | None = None
    threshold: Threshold | None = None
    depth_asked: int = 0
    depth_done: int = 0
    waiting_seconds: float = 0.0
    calling_seconds: float = 0.0
    degraded_by: tuple[DegradedBy, ...] = ()
    beyond_depth: int = 0

    @property
    def status_text(self) -> str:
        """The status in words, such as ``degraded by fallback, doubtful``."""
        reasons = f" by {', '.join(self.degraded_by)}" if self.degraded_by else ""
        return f"{self.status}{reasons}"

    @property
    def scored_text(self) -> str:
        """How many candidates were scored, such as ``50 of 151 scored (depth 50)``."""
        head = self.depth_asked + (0 if self.skipped is None else self.skipped.pairs)
        if not self.beyond_depth:
            return f"{self.depth_done:,} of {self.depth_asked:,} scored"
        return f"{self.depth_done:,} of {head + self.beyond_depth:,} scored (depth {head:,})"

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers, ready for JSON."""
        return dict(plain(self))

    def __repr__(self) -> str:
        parts = [] if self.final else ["interim"]
        if self.method is not None:
            parts.append(f"method {self.method!r}")
        if self.depth_asked:
            parts.append(self.scored_text)
        if self.skipped is not None:
            parts.append(f"skipped {self.skipped.pairs:,}")
        if self.usage.cost is not None:
            parts.append(f"cost {self.usage.cost:.4g}")
        parts += [f"{self.seconds:.3g} s", *findings(self)]
        return f"<Report {self.status_text}: {'; '.join(parts)}>"


TIMES = ("seconds", "waiting_seconds", "calling_seconds")
"""Attributes of a report that differ between two equal rankings."""


def findings(report: Report) -> list[str]:
    """What was left out and what went wrong, by issue codes, for a line of text."""
    parts = ["nothing relevant"] if report.nothing_relevant else []
    if left_out := sum(map(len, report.left_out.values())):
        parts.append(f"{left_out:,} left out")
    if codes := dict.fromkeys(issue.code for issue in report.issues):
        parts.append(f"issues {', '.join(codes)}")
    return parts


def changed_fields(record: Any) -> list[str]:
    """``name=value`` for each field of a dataclass that is shown and not at its default."""
    shown = [(part, getattr(record, part.name)) for part in fields(record) if part.repr]
    return [
        f"{part.name}={value:.6g}" if isinstance(value, float) else f"{part.name}={value!r}"
        for part, value in shown
        if value != part.default
    ]


_SCALARS = frozenset({bool, int, float, str, type(None)})


def plain(record: Any) -> Any:
    """A record as a dict, with lists for tuples; only tuples of records are converted deeply."""
    if type(record) in _SCALARS:  # most values, and the checks below are slow for them
        return record
    if isinstance(record, Mapping):
        return {key: plain(value) for key, value in record.items()}
    if isinstance(record, tuple):
        nested = bool(record) and is_dataclass(record[0])
        return [plain(value) for value in record] if nested else [*record]
    if is_dataclass(record):
        values = {part.name: plain(getattr(record, part.name)) for part in fields(record)}
        if "id" in values:
            values["id"] = record_id(values["id"])
        if "ids" in values:
            values["ids"] = [*map(record_id, values["ids"])]
        return values
    return record


class _HasText(Protocol):
    """Such as a node of LlamaIndex."""

    @property
    def text(self) -> str: ...


class _HasPageContent(Protocol):
    """Such as a document of LangChain."""

    @property
    def page_content(self) -> str: ...


class _HasContent(Protocol):
    """Such as a document of Haystack."""

    @property
    def content(self) -> str | None: ...


if TYPE_CHECKING:
    _Document: TypeAlias = _HasText | _HasPageContent | _HasContent
else:
    _Document = Candidate  # pydantic, which reads annotations at run time, takes no such protocol

CandidateLike: TypeAlias = str | Mapping[str, Any] | Candidate | Ranked | _Document
"""A string, a mapping, a Candidate, or a document of Haystack, LlamaIndex or LangChain.

A string is a text. A mapping has ``text`` (or ``page_content`` or ``content``), and may have ``id``
(see :class:`Candidate`), ``score`` and ``metadata``; other keys are added to the metadata, of which
``_id`` and ``_score`` also are id and score without those. Of an object, the text is ``text``,
``page_content`` or ``content``, the id ``id`` or ``node_id``, and the metadata ``metadata`` or
``meta``, or else its other attributes."""


@explained()
class Request(NamedTuple):
    """One request of ``rerank_many``, or a tuple of its values.

    Attributes:
        query: the search query.
        candidates: in the retriever's order.
        context: of this query, passed to the method.
    """

    query: str
    candidates: Sequence[CandidateLike]
    context: Any = None


RequestLike: TypeAlias = Request | tuple[str, Sequence[CandidateLike]]
