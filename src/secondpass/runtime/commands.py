"""The commands of the scheduler to a driver, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from secondpass.effects import Answer, Ask, ListScores
from secondpass.errors import DeadlineError, MethodError
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ScorerCall:
    """A command to call a scorer once for several requests.

    Attributes:
        requests: (query, documents) pairs.
        ledgers: one per request.
        instruction: of all requests; None for none.
    """

    scorer: Any
    requests: Sequence[tuple[str, list[str]]]
    ledgers: Sequence[Ledger]
    instruction: str | None = field(default=None, repr=False)

    @property
    def keywords(self) -> dict[str, str]:
        """Keyword arguments of the call."""
        return {} if self.instruction is None else {"instruction": self.instruction}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the latest deadline of its passes; None if one of them has none."""
        return _longest(ledger.seconds_left for ledger in self.ledgers)

    @property
    def scorer_seconds_left(self) -> float | None:
        """The same if the scorer has scored something by :attr:`seconds_left`."""
        return _longest(ledger.scorer_seconds_left for ledger in self.ledgers)

    def end_keeping(self) -> None:
        """Give the scorer the time that was kept in case that it scores nothing."""
        for ledger in self.ledgers:
            ledger.end_keeping()


def _longest(seconds: Iterable[float | None]) -> float | None:
    values = [*seconds]
    return None if None in values else max(value for value in values if value is not None)


class CallScorer(ScorerCall):
    """Command: score all requests in one call, with ``score_many`` if there are several.

    Outcome: a list of scores per request, or a MethodError.
    """

    __slots__ = ()


class CallLists(ScorerCall):
    """Command: score all requests with ``score_lists``, until the deadline if there is one.

    Outcome: a :class:`PartialList` per request, or a MethodError if there are no scores.
    """

    __slots__ = ()
    member = "score_lists"


class CallBatches(ScorerCall):
    """Command: score the documents of one request with ``score_batches`` until the deadline.

    Outcome: :class:`PartialScores`.
    """

    __slots__ = ()
    member = "score_batches"


@dataclass(frozen=True, slots=True)
class PartialScores:
    """The scores of some documents.

    Attributes:
        scores: by index of the document; the scores themselves are not validated.
        error: why the other documents, if any, have no score.
    """

    scores: Mapping[int, Any]
    error: MethodError


@dataclass(frozen=True, slots=True)
class PartialList:
    """The scores of one list of documents.

    Attributes:
        result: validated except for the scores.
        error: why some documents have no score; None if the scorer left them out.
    """

    result: ListScores
    error: MethodError | None


@dataclass(frozen=True, slots=True)
class StartQuestions:
    """Command: start asking the questions of pass ``number``. Outcome: None, at once."""

    number: int
    effect: Ask[Any, Any]
    ledger: Ledger
    gate: Gate

    def failed(self, error: MethodError) -> list[Answer[Any]]:
        """An answer with this error for each question."""
        return [Answer(error=error)] * len(self.effect.questions)


@dataclass(frozen=True, slots=True)
class WaitForAnswers:
    """Command: wait until started questions of at least one pass are answered.

    Outcome: a list of (number of the pass, answers).
    """


Command: TypeAlias = CallScorer | CallBatches | CallLists | StartQuestions | WaitForAnswers


def scoring_deadline_error(ledgers: Sequence[Ledger] = ()) -> DeadlineError:
    """The outcome of a scorer call that the deadline cut off.

    Args:
        ledgers: of the call.
    """
    return DeadlineError(f"{_deadline(ledgers)} passed before these were scored")


def question_deadline_error(ledger: Ledger, missed: Literal["asked", "answered"]) -> DeadlineError:
    """The error of a question that was not asked, or not answered, before its deadline."""
    if ledger.began_late or (missed == "asked" and ledger.question_seconds_left):
        return DeadlineError("not asked: too little time is left for an answer")
    return DeadlineError(f"{_deadline([ledger])} passed before this was {missed}")


def _deadline(ledgers: Sequence[Ledger]) -> str:
    kept = any(ledger.keeps_time for ledger in ledgers)
    return "the deadline, less the time kept for other methods," if kept else "the deadline"
