"""What a ranking pass asks of the world outside.

A pass is a generator. It yields effects and is sent their results; it opens no connection, starts
no thread and reads no clock. A driver (:mod:`secondpass.drivers`) carries the effects out. So the
synchronous and the asynchronous interface share every line of logic, passes nest by ``yield from``,
and all of it is tested by sending answers in.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.errors import MethodError
from secondpass.types import Candidate, Issue, ScoreKind

T = TypeVar("T")


@runtime_checkable
class Scorer(Protocol):
    """Gives a float for each query-document pair. Any class with these two members is one.

    Optional members:

    ``score_kind``
        a :data:`secondpass.types.ScoreKind`; ``unbounded`` where absent.
    ``scale``
        ``(lowest, highest)``, for the score kind ``grade``.
    ``score_many(requests)``
        scores a list of ``(query, documents)`` in one go and returns a list of lists; used by
        ``rerank_many`` so that batches form across queries.
    ``pointwise``
        False where a document's score depends on the others of its list (True where absent).
        Pointwise scorers are called with a part of the documents at a time when a deadline is set.
    ``batch_size``
        how many documents that part holds (32 where absent).
    ``warm_up()``
        loads what is needed for the first call.
    ``close()``
        lets go of it.
    """

    @property
    def model_name(self) -> str: ...

    def score_pairs(self, query: str, documents: list[str]) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Score:
    """Effect: score ``texts`` for ``query``. Its result is a :class:`RawScores`.

    Attributes:
        at_most: texts a call while a deadline runs; None for all at once.
    """

    scorer: Scorer
    query: str
    texts: Sequence[str]
    at_most: int | None = None


@dataclass(slots=True)
class RawScores:
    """What a scorer returned, unread.

    Attributes:
        values: one per text; meaningless where a failure covers the index.
        failures: stretches of texts whose call failed, as (start, stop, why).
        troubles: faults that cost no text its score.
    """

    values: list[Any]
    failures: list[tuple[int, int, MethodError]] = field(default_factory=list)
    troubles: list[MethodError] = field(default_factory=list)


Effect: TypeAlias = Score
Plan: TypeAlias = Generator[Effect, Any, T]
"""A computation that yields effects and returns a T."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a method is asked to judge.

    Attributes:
        query: as rendered.
        texts: the rendered candidates.
        candidates: the candidates themselves, aligned with ``texts``.
        context: whatever the caller gave for this query.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A method's answer, aligned with the texts of its task.

    Attributes:
        scores: a finite float for each text that was judged, else None.
        unjudged: indices that were not judged because a call failed. An index that has neither a
            score nor a place here was shown to the method and is missing from its answer.
        issues: what went wrong; their positions are indices into the task.
        stage_scores: for cascades, the scores of every stage that judged each text.
    """

    scores: Sequence[float | None]
    unjudged: frozenset[int] = frozenset()
    issues: Sequence[Issue] = ()
    stage_scores: Sequence[tuple[float, ...]] | None = None


class Method(Protocol):
    """Judges candidates. A scorer becomes one; strategies that ask a model are ones."""

    @property
    def name(self) -> str:
        """For reports."""

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""

    @property
    def scale(self) -> tuple[float, float] | None:
        """Lowest and highest grade, where the scores are grades."""

    def judge(self, task: Task) -> Plan[Judgement]:
        """Judge the task.

        Raises:
            MethodError: nothing could be judged.
        """
