"""Splits long texts into overlapping windows, runs methods on these, and combines the scores.

Dai and Callan, "Deeper text understanding for IR with contextual neural language modeling", SIGIR
2019: the score of a document is that of its best passage (MaxP) or of its first (FirstP). Cost is
linear in the texts: a scorer scores every window once, a language model reads one window of each
candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from secondpass.effects import Judgement, Method, Plan, Score, Task
from secondpass.errors import ConfigurationError, MethodError, Problem
from secondpass.questions import Span, Windows, affixes
from secondpass.ranking.judgements import converted, judged
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.splitting import split
from secondpass.settings import configurable, nested

if TYPE_CHECKING:
    from annotated_types import Ge

T = TypeVar("T")


@configurable
@dataclass(frozen=True)
class Passages:
    """Splits long texts into overlapping windows, and combines the scores of the windows.

    Attributes:
        size: maximum length of a window, in characters. Shorter texts are one window. Models are
            trained on passages of a few hundred characters. If ``render.prefix`` and ``suffix``
            take more than half of it, a window has them and half of ``size``.
        overlap: maximum length of the text that two successive windows share, in characters;
            smaller than ``size``. None is a fifth of the size.
        combine: the score of a text: the score of its best window (``max``), the score of its first
            window, the only one that is judged then (``first``), or the mean over all (``mean``).

    A text of n characters has at most ``1 + 2 * n / (size - overlap)`` windows; up to twice as many
    if other fields, such as a title, are part of every window.
    """

    size: Annotated[int, Ge(1)] = 500
    overlap: Annotated[int, Ge(0)] | None = None
    combine: Literal["max", "first", "mean"] = "max"

    def __post_init__(self) -> None:
        if self.overlap is not None and self.overlap >= self.size:
            message = f"must be smaller than the size ({self.size})"
            raise ConfigurationError([Problem(("overlap",), message)])

    def windows(self, text: str, body: Span) -> Windows:
        """Return the windows of a rendered text, of which the part ``body`` is split.

        The text before and after it, such as a title, is part of every window if it takes at most
        half of ``size``. A prefix and a suffix of the configuration are always part of it.
        """
        start, stop = body
        room = self.size - (len(text) - (stop - start))
        if room < self.size / 2:
            head, tail = affixes(text)
            start, stop = head, len(text) - tail
            room = max(self.size - head - tail, self.size // 2, 1)
        overlap = self.size // 5 if self.overlap is None else self.overlap
        spans = split(text, room, overlap * room // self.size, start, stop)
        if self.combine == "first":
            return Windows([next(spans)], (start, stop))
        return Windows(list(spans), (start, stop))


PASSAGES = nested(Passages, optional=True)
"""A parameter whose value splits long texts."""


def with_windows(task: Task, passages: Passages, rendering: Rendering) -> Task:
    """Return the task with the windows of its texts."""
    windows = [
        passages.windows(text, rendering.body(candidate, text))
        for text, candidate in zip(task.texts, task.candidates, strict=True)
    ]
    return replace(task, windows=windows, mean=passages.combine == "mean")


def judged_by_windows(method: Method, task: Task) -> Plan[Judgement]:
    """Run the method on the windows of the task, if it has any, and validate its result.

    The method's member ``windows`` is what it gets: ``each`` window as a separate text, ``one``
    window of each candidate (the default), or the ``task`` unchanged.
    """
    needed = getattr(method, "windows", "one")
    if task.windows is None or needed == "task":
        return judged(method, task)
    if needed == "each":
        return _each_judged(method, task, task.windows)
    return _one_judged(method, task, task.windows)


def _each_judged(method: Method, task: Task, windows: Sequence[Windows]) -> Plan[Judgement]:
    """Have every window judged, and combine the results of each candidate."""
    owners: list[int] = []  # of each window, the index of its candidate
    for index, item in enumerate(windows):
        owners += [index] * len(item.spans)
    part = _part(task, _window_texts(task, windows), owners)

    def combine(judgement: Judgement) -> Judgement:
        return _combined(judgement, windows, owners, mean=task.mean)

    return combine((yield from judged(method, converted(part, task, combine))))


def _combined(
    judgement: Judgement, windows: Sequence[Windows], owners: Sequence[int], *, mean: bool
) -> Judgement:
    """The judgement of the candidates, from that of their windows.

    A candidate has a score if all of its windows have one.
    """
    combine = _mean if mean else max
    scores: list[float | None] = [None] * len(windows)
    order: list[float | None] = [None] * len(windows)
    spans: list[Span | None] = [None] * len(windows)
    ordering = judgement.scores if judgement.order_scores is None else judgement.order_scores
    best: list[int] = []  # of each candidate, the index of its best window
    first = 0
    for index, item in enumerate(windows):
        stop = first + len(item.spans)
        known = [value for value in ordering[first:stop] if value is not None]
        if len(known) == len(item.spans):
            highest = known.index(max(known))
            reported = [value for value in judgement.scores[first:stop] if value is not None]
            scores[index] = combine(reported)
            order[index] = combine(known)
            spans[index] = _or_none(item.spans[highest])
            best.append(first + highest)
        else:
            best.append(first)
        first = stop
    issues = [
        replace(issue, positions=tuple(sorted({owners[index] for index in issue.positions})))
        for issue in judgement.issues
    ]
    unjudged = frozenset(owners[index] for index in judgement.unjudged)
    beyond = frozenset(owners[index] for index in judgement.beyond) - unjudged
    nothing_scored = all(score is None for score in scores)
    if nothing_scored and judgement.original != 1 and len(beyond) < len(windows):
        for issue in issues:
            if issue.positions:
                raise MethodError(issue.message, issue.code)
        raise MethodError("no candidate was scored in full", "nothing_judged")
    return replace(
        judgement,
        scores=scores,
        unjudged=unjudged,
        issues=issues,
        stage_scores=_of(best, judgement.stage_scores),
        beyond=beyond,
        spans=spans,
        order_scores=None if judgement.order_scores is None else order,
        pieces=None,  # windows overlap
    )


def _of(indices: Sequence[int], values: Sequence[T] | None) -> list[T] | None:
    """The values of windows that these are the indices of; None if there are none."""
    return None if values is None else [values[index] for index in indices]


def _mean(values: Sequence[float]) -> float:
    mean = math.fsum(value / len(values) for value in values)
    # A rounding error must neither separate equal scores nor leave their range.
    return min(max(mean, min(values)), max(values))


def _one_judged(method: Method, task: Task, windows: Sequence[Windows]) -> Plan[Judgement]:
    """Have one window of each candidate judged."""
    chosen = yield from _chosen(task, windows)
    texts = [
        item.text(text, span) for item, text, span in zip(windows, task.texts, chosen, strict=True)
    ]

    def with_spans(judgement: Judgement) -> Judgement:
        spans = [
            None if score is None else _or_none(span)
            for span, score in zip(chosen, judgement.scores, strict=True)
        ]
        return replace(judgement, spans=spans, pieces=None)

    part = converted(_part(task, texts, range(len(texts))), task, with_spans)
    return with_spans((yield from judged(method, part)))


def _chosen(task: Task, windows: Sequence[Windows]) -> Plan[list[Span]]:
    """For each candidate, the window with the span of the stage before, else the best by words."""
    chosen = [item.spans[0] for item in windows]
    before = task.spans or [None] * len(windows)
    unknown = set()
    for index, (item, span) in enumerate(zip(windows, before, strict=True)):
        if span is not None:
            chosen[index] = _window_around(span, item)
        elif len(item.spans) > 1:
            unknown.add(index)
    if not unknown:
        return chosen
    scores = iter((yield from _word_scores(task, windows)))
    for index, item in enumerate(windows):
        of_windows = list(islice(scores, len(item.spans)))
        if index in unknown and of_windows:
            chosen[index] = item.spans[of_windows.index(max(of_windows))]
    return chosen


def _window_around(span: Span, windows: Windows) -> Span:
    """The window that contains a span; of several, the one whose nearer end is farthest from it."""
    start, stop = span
    return max(windows.spans, key=lambda window: min(start - window[0], window[1] - stop))


def _word_scores(task: Task, windows: Sequence[Windows]) -> Plan[list[float]]:
    """The lexical score of every window; empty if there was no time."""
    from secondpass.ranking.lexical import LexicalScorer  # costs time to import

    scorer, texts = LexicalScorer(), _window_texts(task, windows)
    if len(windows) == 1:
        # Not an effect: a single candidate needs no call, and this one would be in the report.
        return scorer.score_pairs(task.query, texts)
    raw = yield from Score(scorer, task.query, texts)
    return [] if raw.failures else raw.values


def _window_texts(task: Task, windows: Sequence[Windows]) -> list[str]:
    return [
        item.text(text, span)
        for item, text in zip(windows, task.texts, strict=True)
        for span in item.spans
    ]


def _part(task: Task, texts: Sequence[str], owners: Iterable[int]) -> Task:
    """A task about texts that stand for candidates."""
    candidates = [task.candidates[index] for index in owners]
    return replace(task, texts=texts, candidates=candidates, windows=None, spans=None)


def _or_none(span: Span) -> Span | None:
    """The span; None if it is empty."""
    return span if span[0] < span[1] else None
