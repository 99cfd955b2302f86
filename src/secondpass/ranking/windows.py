"""Runs methods on the windows of long texts, and combines the scores of the windows.

Cost is linear in the texts: a scorer scores every window once, a language model reads one window of
each candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from secondpass.effects import Judgement, Method, Plan, Score, Span, Task, Windows
from secondpass.errors import MethodError
from secondpass.ranking.judgements import converted, judged
from secondpass.ranking.passages import Passages
from secondpass.ranking.rendering import Rendering
from secondpass.types import Issue


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

    Raises:
        MethodError: as :func:`~secondpass.ranking.judgements.judged`; or no candidate has a score.
    """
    needed = getattr(method, "windows", "one")
    if task.windows is None or needed == "task":
        return judged(method, task)
    if needed == "each":
        return _each_judged(method, task, task.windows)
    return _one_judged(method, task, task.windows)


def _each_judged(method: Method, task: Task, windows: Sequence[Windows]) -> Plan[Judgement]:
    """Have every window judged, and combine the results of each candidate."""
    owners = [index for index, item in enumerate(windows) for _ in item.spans]
    texts = _window_texts(task, windows)

    def combine(judgement: Judgement) -> Judgement:
        return _combined(judgement, windows, owners, mean=task.mean)

    part = converted(_part(task, texts, owners), task, combine)
    return combine((yield from judged(method, part)))


def _combined(
    judgement: Judgement, windows: Sequence[Windows], owners: Sequence[int], *, mean: bool
) -> Judgement:
    """The judgement of the candidates, from that of their windows.

    Raises:
        MethodError: no candidate has a score.
    """
    scores: list[float | None] = []
    order: list[float | None] = []
    ordering = judgement.scores if judgement.order_scores is None else judgement.order_scores
    spans: list[Span | None] = []
    best: list[int] = []
    first = 0
    for item in windows:
        reported = judgement.scores[first : first + len(item.spans)]
        values = ordering[first : first + len(item.spans)]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            scores.append(None)
            order.append(None)
            spans.append(None)
            best.append(first)
        else:
            highest = values.index(max(known))
            best.append(first + highest)
            combined = _mean if mean else max
            scores.append(combined([value for value in reported if value is not None]))
            order.append(combined(known))
            spans.append(_or_none(item.spans[highest]))
        first += len(item.spans)
    issues = [_about_owners(issue, owners) for issue in judgement.issues]
    unjudged = _owners_of(judgement.unjudged, owners)
    beyond = _owners_of(judgement.beyond, owners) - unjudged
    unscored = all(score is None for score in scores)
    if unscored and judgement.original != 1 and len(beyond) < len(windows):
        raise _error(issues)
    return replace(
        judgement,
        scores=scores,
        unjudged=unjudged,
        issues=issues,
        stage_scores=judgement.stage_scores and [judgement.stage_scores[index] for index in best],
        spreads=judgement.spreads and [judgement.spreads[index] for index in best],
        beyond=beyond,
        spans=spans,
        order_scores=None if judgement.order_scores is None else order,
    )


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
        return replace(judgement, spans=spans)

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
    scores = yield from _word_scores(task, windows)
    first = 0
    for index, item in enumerate(windows):
        window_scores = scores[first : first + len(item.spans)]
        first += len(item.spans)
        if index in unknown and window_scores:
            chosen[index] = item.spans[window_scores.index(max(window_scores))]
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
    return span if span[0] < span[1] else None


def _owners_of(indices: Iterable[int], owners: Sequence[int]) -> frozenset[int]:
    return frozenset(owners[index] for index in indices)


def _about_owners(issue: Issue, owners: Sequence[int]) -> Issue:
    return replace(issue, positions=tuple(sorted(_owners_of(issue.positions, owners))))


def _error(issues: Sequence[Issue]) -> MethodError:
    """Why no candidate has a score."""
    for issue in issues:
        if issue.positions:
            return MethodError(issue.message, issue.code)
    return MethodError("no candidate was scored in full", "nothing_judged")
