"""The scores and spans in responses of rerank APIs: of one batch, and of all of a ranking."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from secondpass.effects import Answer
from secondpass.errors import MethodError
from secondpass.prompts.replies import values
from secondpass.prompts.replies.values import BatchScores, are_places
from secondpass.questions import Span
from secondpass.scoring import range_of, to_span
from secondpass.strategies.base import IssueCollector
from secondpass.types import ScoreKind

T = TypeVar("T")

_MAX_LOGIT = 50.0
"""Scores with a larger absolute value are no logits; they may be percentages."""


@dataclass(frozen=True, slots=True)
class ResponseScores(BatchScores):
    """The scores of one batch.

    Attributes:
        outside: the scores that are outside the range of the score kind.
    """

    outside: tuple[float, ...] = ()

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        numbers = all(type(score) in {int, float} for score in self.outside)
        return numbers and BatchScores.is_about(self, count)


@dataclass(frozen=True, slots=True)
class SpanScores(ResponseScores):
    """The scores of one batch and the best span of each document.

    Attributes:
        spans: one for each document; None for documents without one.
        wrong_spans: places of documents with a score whose spans cannot be used.
    """

    spans: tuple[Span | None, ...] = ()
    wrong_spans: tuple[int, ...] = ()

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        return (
            ResponseScores.is_about(self, count)
            and are_places(self.wrong_spans, count)
            and len(self.spans) == count
            and all(
                span is None or (type(span) is tuple and value is not None)
                for span, value in zip(self.spans, self.values, strict=True)
            )
        )

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether each span is within its text."""
        return all(
            span is None or to_span(span, len(text)) == span
            for span, text in zip(self.spans, texts, strict=True)
        )


def equal(count: int, score: float, *, with_spans: bool) -> ResponseScores:
    """A response that gives all documents this score, and no spans."""
    if with_spans:
        return SpanScores((score,) * count, (), spans=(None,) * count)
    return ResponseScores((score,) * count, ())


def dump(scores: ResponseScores, *, with_spans: bool) -> dict[str, Any] | None:
    """The scores for the response cache; None if spans are wanted, but were not requested."""
    complete = isinstance(scores, SpanScores) or not with_spans
    return values.dump(scores) if complete else None


def load(data: Any, texts: Sequence[str], *, with_spans: bool) -> ResponseScores:
    """The scores of a batch from the response cache.

    Raises:
        ArithmeticError | AttributeError | TypeError | ValueError: they are of other texts.
    """
    loaded: ResponseScores = values.load(
        data, len(texts), SpanScores if with_spans else ResponseScores
    )
    if isinstance(loaded, SpanScores) and not loaded.fits(texts):
        raise ValueError("a span is outside its text")
    return loaded


def with_skipped(scores: ResponseScores, skipped: Collection[int]) -> ResponseScores:
    """The scores of a whole batch, of which some documents were not sent."""
    if not skipped:
        return scores
    count = len(scores.values) + len(skipped)
    sent = [place for place in range(count) if place not in skipped]
    whole = replace(
        scores,
        values=_spread(scores.values, sent, count),
        refused=tuple(sent[place] for place in scores.refused),
        declined=tuple(sorted(skipped)),
    )
    if not isinstance(whole, SpanScores):
        return whole
    wrong = tuple(sent[place] for place in whole.wrong_spans)
    return replace(whole, spans=_spread(whole.spans, sent, count), wrong_spans=wrong)


def _spread(values: Sequence[T], places: Sequence[int], count: int) -> tuple[T | None, ...]:
    """The values at their places, and None elsewhere."""
    by_place = dict(zip(places, values, strict=True))
    return tuple(by_place.get(place) for place in range(count))


def spans_of(
    answers: Mapping[range, Answer[ResponseScores]], count: int, issues: IssueCollector
) -> list[Span | None]:
    """The best span of each text of a task, with issues about those that are wrong or unknown.

    Args:
        answers: by the indices of their texts.
        count: of all texts.
        issues: of the method.
    """
    spans: list[Span | None] = [None] * count
    for batch, answer in answers.items():
        if isinstance(answer.value, SpanScores):
            spans[batch.start : batch.stop] = answer.value.spans
            if wrong := [batch[place] for place in answer.value.wrong_spans]:
                issues.add("span_invalid", "the server's spans of these are wrong", wrong)
        elif answer.value is not None:
            message = "the server does not support spans, so these have none"
            issues.add("spans_not_supported", message, batch)
    return spans


def kind_of_scores(
    batches: Sequence[ResponseScores], kind: ScoreKind, *, maybe_logits: bool
) -> ScoreKind:
    """The kind of the scores of one ranking, decided over all of its batches.

    Args:
        batches: those that were answered.
        kind: that the settings or the API state.
        maybe_logits: whether logits are accepted in place of probabilities. They are recognized if
            every batch has a score outside 0 to 1, every score is a number, and none is beyond 50,
            as percentages are.

    Raises:
        MethodError: the scores have another range.
    """
    outside = [score for batch in batches for score in batch.outside]
    if not outside:
        return kind
    if (
        maybe_logits
        and all(batch.outside and not batch.refused for batch in batches)
        and all(abs(score) <= _MAX_LOGIT for score in outside)
    ):
        return "logit"
    low, high = range_of(kind)
    raise MethodError(
        f"a score of {outside[0]:.6g} is outside {low:g} to {high:g}, so no score is used; "
        "if the model's scores have another range, set scores",
        "score_out_of_range",
    )


def clipped(batch: ResponseScores, kind: ScoreKind) -> BatchScores:
    """The scores, with rounding errors clipped to the range of the kind."""
    low, high = range_of(kind)
    values = [None if value is None else min(max(value, low), high) for value in batch.values]
    return replace(batch, values=tuple(values))
