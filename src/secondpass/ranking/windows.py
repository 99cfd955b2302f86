"""Splits long texts into overlapping windows, runs methods on these, and combines the scores.

Dai and Callan, "Deeper text understanding for IR with contextual neural language modeling", SIGIR
2019: the score of a document is that of its best passage (MaxP) or of its first (FirstP). Cost is
linear in the texts: a scorer scores every window once, a language model reads one window of each
candidate.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from secondpass.effects import Judgement, Method, Plan, Score, Task
from secondpass.errors import ConfigurationError, MethodError, Problem
from secondpass.questions import Span, Windows, affixes
from secondpass.ranking.methods import converted, judged
from secondpass.ranking.rendering import Rendering
from secondpass.settings import configurable, nested

if TYPE_CHECKING:
    from annotated_types import Ge


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


# Quotes and brackets may follow. First the marks of scripts that have a space after a sentence
# (Latin, Devanagari, Arabic, Urdu), then those of Chinese, Japanese, Khmer and Burmese.
PASSAGES = nested(Passages, optional=True)
"""A parameter whose value splits long texts."""

_MARK = r"[.!?\u2026\u0964\u061f\u06d4][\"')\]\u2019\u201d\u00bb]{0,3}"
_WIDE_MARK = (
    r"[\u3002\uff01\uff1f\uff61\u17d4\u104b]"
    r"[\u2019\u201d\u3009\u300b\u300d\u300f\u3011\uff09\uff63]{0,3}"
)
# Other line breaks may be those of wrapped lines.
_PARAGRAPH_END = re.compile(rf"\n[ \t\r]*\n|(?:{_MARK}|{_WIDE_MARK})[ \t\r]{{0,3}}\n")
_SENTENCE_END = re.compile(rf"{_MARK}(?=\s)|{_WIDE_MARK}|[\n\x85\u2028\u2029]")
_COMMA = r"\u3001\uff0c\uff1a\uff1b"  # of Chinese and Japanese; commas and colons
_WORD_END = re.compile(rf"(?=\s)|(?<=[{_COMMA}])")
_BETWEEN_WORDS = re.compile(rf"[\s{_COMMA}]")
_LONG_SENTENCE = 300
"""Characters; a long sentence in English has 200."""
_NOT_SPACE = re.compile(r"\S")
_ZERO_WIDTH_JOINER = "\u200d"
_VIRAMA = 9
"""Combining class of the signs that join a consonant to the next one, in India's scripts, Khmer and
Burmese."""


def split(
    text: str, size: int, overlap: int, start: int = 0, stop: int | None = None
) -> Iterator[Span]:
    """Split a text into windows, in time linear in its length.

    A window ends after a paragraph if one ends in its last part, else after a sentence, else after
    a word, else anywhere; the next window begins by the same rule. White space between windows is
    in none.

    Args:
        text: any text.
        size: maximum length of a window, at least 1.
        overlap: maximum length of the text that successive windows share, less than ``size``.
        start: where the part to split begins.
        stop: where it ends; None is the end of the text.

    Yields:
        (start, stop) of each window, in characters of the text. At least one.
    """
    stop = len(text) if stop is None else stop
    if stop - start <= size:
        yield start, stop
        return
    end = start + len(text[start:stop].rstrip())
    if end == start:  # white space alone
        yield start, start + size
        return
    start = _next_word(text, start)
    covered = start
    while end - start > size:
        # Longer than the overlap by half of the rest, so that the next window begins later.
        cut = _cut(text, start + (size + overlap) // 2, start + size)
        last = start + len(text[start:cut].rstrip())
        if last > covered:  # else only white space is new
            yield start, last
            covered = last
        start = _next_word(text, _resume(text, cut - overlap, cut))
    yield start, end


def sentences(text: str) -> list[Span]:
    """Split a text into its sentences, as (start, stop) without the white space between them."""
    spans: list[Span] = []
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if stripped := text[start:end].strip():
            first = _next_word(text, start)
            spans.append((first, first + len(stripped)))
        start = end
    return spans


def short_sentences(text: str) -> list[Span]:
    """Split a text into its sentences, and long ones, as of scripts without marks, into parts."""
    spans: list[Span] = []
    for start, stop in sentences(text):
        spans += split(text, _LONG_SENTENCE, 0, start, stop)
    return spans


def _next_word(text: str, start: int) -> int:
    """The first position from ``start`` on that is not white space."""
    match = _NOT_SPACE.search(text, start)
    return match.start() if match else len(text)


def _cut(text: str, low: int, high: int) -> int:
    """Where to end a window: after ``low``, not after ``high``."""
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        # One character more, since the end of a sentence or word depends on what follows it.
        ends = [match.end() for match in boundary.finditer(text, low, high + 1)]
        if ends := [end for end in ends if low < end <= high]:
            return ends[-1]
    for cut in range(high, low, -1):
        if not _inside_character(text, cut):
            return cut
    return high


def _resume(text: str, low: int, cut: int) -> int:
    """Where to begin the window after ``cut``: not before ``low``, not after ``cut``."""
    if low == cut:
        return cut
    high = (low + cut) // 2  # an overlap of only a few words would be useless
    # From one character before, which may be the end of a sentence.
    boundary = _PARAGRAPH_END.search(text, low - 1, cut) or _SENTENCE_END.search(
        text, low - 1, high + 1
    )
    if boundary is None and not _BETWEEN_WORDS.match(text, low - 1):
        boundary = _BETWEEN_WORDS.search(text, low, high)
    if boundary is not None:
        return boundary.end()
    for start in range(low, cut):
        if not _inside_character(text, start):
            return start
    return cut


def _inside_character(text: str, position: int) -> bool:
    """Whether a cut here would divide a character as readers see it; an approximation."""
    before, after = text[position - 1], text[position]
    if after.isascii():
        return False
    return (
        # Accents, vowel signs, variation selectors; joiners, tags of flags
        unicodedata.category(after) in {"Mn", "Mc", "Me", "Cf"}
        or before == _ZERO_WIDTH_JOINER
        or unicodedata.combining(before) == _VIRAMA
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\u1160" <= after <= "\u11ff"  # vowels and finals of Korean syllables
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
        or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff")
    )


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
    owners = [index for index, item in enumerate(windows) for _ in item.spans]
    part = _part(task, _window_texts(task, windows), owners)

    def combine(judgement: Judgement) -> Judgement:
        return _combined(judgement, windows, owners, mean=task.mean)

    return combine((yield from judged(method, converted(part, task, combine))))


def _combined(
    judgement: Judgement, windows: Sequence[Windows], owners: Sequence[int], *, mean: bool
) -> Judgement:
    """The judgement of the candidates, from that of their windows."""
    scores: list[float | None] = [None] * len(windows)
    order: list[float | None] = [None] * len(windows)
    spans: list[Span | None] = [None] * len(windows)
    ordering = judgement.scores if judgement.order_scores is None else judgement.order_scores
    best: list[int] = []  # of each candidate, the index of its best window
    first = 0
    for index, item in enumerate(windows):
        stop = first + len(item.spans)
        best.append(first)
        known = [value for value in ordering[first:stop] if value is not None]
        if len(known) == len(item.spans):
            highest = known.index(max(known))
            best[index] += highest
            combined = _mean if mean else max
            reported = judgement.scores[first:stop]
            scores[index] = combined([value for value in reported if value is not None])
            order[index] = combined(known)
            spans[index] = _or_none(item.spans[highest])
        first = stop
    issues = [
        replace(issue, positions=tuple(sorted({owners[index] for index in issue.positions})))
        for issue in judgement.issues
    ]
    unjudged = frozenset(owners[index] for index in judgement.unjudged)
    beyond = frozenset(owners[index] for index in judgement.beyond) - unjudged
    unscored = all(score is None for score in scores)
    if unscored and judgement.original != 1 and len(beyond) < len(windows):
        for issue in issues:
            if issue.positions:
                raise MethodError(issue.message, issue.code)
        raise MethodError("no candidate was scored in full", "nothing_judged")
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
        pieces=None,  # windows overlap
    )


def _mean(values: Sequence[float]) -> float:
    mean = math.fsum(value / len(values) for value in values)
    # A rounding error must neither separate equal scores nor leave their range.
    return min(max(mean, min(values)), max(values))


def _one_judged(method: Method, task: Task, windows: Sequence[Windows]) -> Plan[Judgement]:
    """Have one window of each candidate judged."""
    chosen = yield from _chosen(task, windows)
    shown = zip(windows, task.texts, chosen, strict=True)
    texts = [item.text(text, span) for item, text, span in shown]

    def with_spans(judgement: Judgement) -> Judgement:
        pairs = zip(chosen, judgement.scores, strict=True)
        spans = [None if score is None else _or_none(span) for span, score in pairs]
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
    return span if span[0] < span[1] else None
