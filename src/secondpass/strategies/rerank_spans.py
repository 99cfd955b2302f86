"""Reads the relevant spans of documents from the responses of rerank APIs.

An offset in another unit, or into another text, would silently select a wrong part. So every span
of a document is checked against its text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.questions import Span
from secondpass.scoring import in_range, range_of, to_float, to_span
from secondpass.settings import configurable
from secondpass.strategies.rerank_template import lookup
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import MinLen


@configurable
@dataclass(frozen=True)
class RerankSpans:
    """Where a rerank API has the parts of a document that are relevant.

    Places are names, joined by dots where one is inside another.

    Attributes:
        rows: place of the list of spans in the row of a document; without it, there are none.
        start: place of the offset of a span's first character, from 0.
        end: place of the offset after its last character.
        score: place of a span's score, on the scale of the documents' scores; None if the best
            span is the first.
        text: place of the span's own text, which is compared if it is there.
        unit: what offsets count: ``code_points``, ``utf16`` code units, or ``bytes`` of UTF-8.
        request: members of the request that ask for spans.
    """

    rows: Annotated[str, MinLen(1)] = "spans"
    start: Annotated[str, MinLen(1)] = "start"
    end: Annotated[str, MinLen(1)] = "end"
    score: Annotated[str, MinLen(1)] | None = "score"
    text: Annotated[str, MinLen(1)] | None = "text"
    unit: Literal["code_points", "utf16", "bytes"] = "code_points"
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SpanReader:
    """Reads the best span of each document of one response.

    Attributes:
        places: where the spans are.
        texts: that were sent.
        kind: of the scores.
    """

    places: RerankSpans
    texts: Sequence[str]
    kind: ScoreKind

    def read(
        self, rows: Iterable[tuple[int, Any]], refused: Set[int]
    ) -> tuple[tuple[Span | None, ...], tuple[int, ...]]:
        """The best span of each document, and the documents whose spans cannot be used.

        A document with a wrong span, or with different spans in two rows, gets none.

        Args:
            rows: indices of documents, and their rows.
            refused: documents that get no span.
        """
        bounds = range_of(self.kind)
        spans: dict[int, Span | None] = {}
        wrong: set[int] = set()
        for index, row in rows:
            try:
                span = best_span(row, self.places, self.texts[index], bounds)
            except ValueError:
                wrong.add(index)
            else:
                if spans.setdefault(index, span) != span:
                    wrong.add(index)
        unusable = wrong | refused
        places = range(len(self.texts))
        best = (None if index in unusable else spans.get(index) for index in places)
        return tuple(best), tuple(sorted(wrong - refused))


def best_span(
    row: Any, places: RerankSpans, text: str, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Span | None:
    """The best span of a row; None if it has none.

    Args:
        row: of a document.
        places: where its spans are.
        text: that was sent.
        bounds: of the scores.

    Raises:
        ValueError: it is no list of spans; or a span is not within the text, states another text,
            or has no finite score within the bounds; or the same span has two scores.
    """
    items = lookup(row, places.rows)
    if items is None:
        return None
    if not isinstance(items, list):
        raise ValueError("no list of spans")
    indices = None if not items or _is_plain(places.unit, text) else _indices(text, places.unit)
    scores: dict[Span, float] = {}
    for number, item in enumerate(items):
        offsets = [lookup(item, places.start), lookup(item, places.end)]
        if any(type(offset) is not int for offset in offsets):
            raise ValueError("an offset that is no integer")
        if indices is not None:
            offsets = [indices.get(offset, -1) for offset in offsets]
        span = to_span(offsets, len(text))
        if span is None:
            raise ValueError("a span outside the text")
        stated = None if places.text is None else lookup(item, places.text)
        if stated is not None and stated != text[slice(*span)]:
            raise ValueError("a span of another text")
        score = -float(number) if places.score is None else to_float(lookup(item, places.score))
        if score is None or not math.isfinite(score):
            raise ValueError("a span without a score")
        if places.score is not None and in_range(score, bounds) is None:
            raise ValueError("a span with a score out of range")
        if scores.setdefault(span, score) != score:
            raise ValueError("a span with two scores")
    return max(scores, key=scores.__getitem__, default=None)


def _is_plain(unit: str, text: str) -> bool:
    """Whether offsets are indices of the text."""
    return unit == "code_points" or text.isascii()


def _indices(text: str, unit: str) -> dict[int, int]:
    """The index of each character, and of the end of the text, by its offset in this unit."""
    sizes = (
        (len(character.encode("utf-8", "replace")) for character in text)
        if unit == "bytes"
        else (2 if character > "\uffff" else 1 for character in text)
    )
    offsets = itertools.accumulate(sizes, initial=0)
    return {offset: index for index, offset in enumerate(offsets)}
