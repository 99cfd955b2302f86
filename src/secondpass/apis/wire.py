"""Requests to rerank and decision APIs, and how their responses are read. Does no I/O.

A span's offset in another unit, or into another text, would silently select a wrong part. So every
span of a document is checked against its text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

from secondpass.apis.descriptions import USAGE_TOKENS, Api, RerankApi, RerankSpans
from secondpass.apis.template import lookup
from secondpass.errors import MethodError, ReplyError
from secondpass.prompts.replies import base as reply_values
from secondpass.prompts.replies.base import BatchScores, are_places
from secondpass.questions import Answer, Completion, Span
from secondpass.ranking.issues import IssueCollector
from secondpass.ranking.scoring import in_range, range_of, to_float, to_span
from secondpass.services.client import token_count
from secondpass.services.diagnosis import Sent, names, words
from secondpass.settings import counted
from secondpass.types import ScoreKind

T = TypeVar("T")

_MAX_LOGIT = 50.0
"""Scores with a larger absolute value are no logits; they may be percentages."""


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A request: the query and the documents of a batch."""

    query: str
    documents: Sequence[str]
    instruction: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Response(Completion):
    """A response with its parsed JSON."""

    body: Any = field(default=None, repr=False)
    with_spans: bool = False  # whether spans were requested
    remark: str = ""
    """What the server answered instead of scores, safe to show; empty if it has scores."""


@dataclass(frozen=True, slots=True)
class ResponseScores(BatchScores):
    """The scores of one batch; ``outside`` are those outside the range of their kind."""

    outside: tuple[float, ...] = ()

    def is_about(self, count: int) -> bool:
        numbers = all(type(score) in {int, float} for score in self.outside)
        return numbers and BatchScores.is_about(self, count)


@dataclass(frozen=True, slots=True)
class SpanScores(ResponseScores):
    """The scores of one batch and the best span of each document that has one."""

    spans: tuple[Span | None, ...] = ()
    wrong_spans: tuple[int, ...] = ()
    """Places of documents with a score whose spans cannot be used."""

    def is_about(self, count: int) -> bool:
        return (
            ResponseScores.is_about(self, count)
            and are_places(self.wrong_spans, count)
            and len(self.spans) == count
            and all(
                span is None or (type(span) is tuple and value is not None)
                for span, value in zip(self.spans, self.values, strict=True)
            )
        )


def request_url(api: Api, base_url: str | None, path: str | None, model: str | None = None) -> str:
    """The URL of a request.

    A base URL may end with the API's version, as SDKs of language models write it, and have a
    query, which then follows the path. It may also be the whole URL, of any version; but a path
    that is set is always appended.
    """
    base, _, query = (base_url or api.url or "").partition("?")
    base = base.rstrip("/")
    named = path or api.path
    if named:
        named = "/" + named.replace("$model", quote(model or "", safe="/")).lstrip("/")
        version = _VERSION.match(named)
        if path is None and _is_whole(base, named):
            named = ""
        elif version and re.search(rf"[^/]{version[0]}$", base):  # the host may be v1
            base = base.removesuffix(version[0])
        base += named
    if not query:
        return base
    return f"{base}&{query}" if "?" in base else f"{base}?{query}"


_VERSION = re.compile(r"/v\d+(?=/)")


def _is_whole(base: str, path: str) -> bool:
    """Whether a base URL ends with the path of an API, in this version or another."""
    version = _VERSION.match(path)
    end = re.escape(path) if version is None else rf"/v\d+{re.escape(path[version.end() :])}"
    return re.search(rf"[^/]{end}$", base) is not None


# ---------------------------------------------------------------------- responses


def read_scores(
    body: Any,
    api: RerankApi,
    texts: Sequence[str],
    kind: ScoreKind,
    spans: RerankSpans | None = None,
) -> ResponseScores:
    """The scores in a parsed response about these texts, and their best spans if these are wanted.

    A row with an unknown index is skipped. A document with a score that is not finite, or with two
    different scores, counts as refused. A response without indices must have a score for each
    document.

    Raises:
        ReplyError: no list of rows, no usable score, or indices that do not count from 0.
    """
    count, rows = len(texts), _rows(body, api)
    if not isinstance(rows, list):
        raise ReplyError("it has no list of results")
    if api.index is None and len(rows) != count:
        results = counted(len(rows), "result")
        raise ReplyError(f"it has {results} for {counted(count, 'document')}")
    indices = _indices_of_rows(rows, api, count)
    bounds = range_of(kind)
    values: list[float | None] = [None] * count
    refused: set[int] = set()
    outside: list[float] = []
    usable: list[tuple[int, Any]] = []  # rows with a score, by the index of their document
    for index, row in zip(indices, rows, strict=True):
        if index is None:
            continue
        score = to_float(row if api.score is None else lookup(row, api.score))
        if score is None or not math.isfinite(score):
            refused.add(index)
            continue
        if values[index] is not None and values[index] != score:
            refused.add(index)
        values[index] = score
        if in_range(score, bounds) is None:
            outside.append(score)
        usable.append((index, row))
    for index in refused:
        values[index] = None
    if not outside and all(value is None for value in values):
        raise ReplyError("it has no usable score")
    scores = ResponseScores(
        tuple(values), tuple(sorted(refused)), indices.count(None), outside=tuple(outside)
    )
    if spans is None:
        return scores
    best, wrong = best_spans(usable, refused, spans, texts, bounds)
    return SpanScores(
        scores.values,
        scores.refused,
        scores.unknown,
        outside=scores.outside,
        spans=best,
        wrong_spans=wrong,
    )


def _indices_of_rows(rows: Sequence[Any], api: RerankApi, count: int) -> list[int | None]:
    """The index of the document that each row is about; None for one that was not sent.

    Raises:
        ReplyError: the indices seem to count from 1, or from -1.
    """
    if api.index is None:  # there is a row for each document
        return [*range(count)]
    stated = [lookup(row, api.index) for row in rows]
    indices: list[int | None] = []
    others: set[int | None] = set()  # indices of no document, as far as they are whole numbers
    for item in stated:
        index = _from_string(item, count) if "id" in api.placeholders else item
        if type(index) is int and 0 <= index < count:
            indices.append(index)
        else:
            indices.append(None)
            others.add(_as_integer(item))
    counts_from_1 = count in others and 0 not in indices
    counts_from_minus_1 = -1 in others and count - 1 not in indices
    if counts_from_1 or counts_from_minus_1:
        raise ReplyError("its indices do not count from 0")
    return indices


def _rows(body: Any, api: RerankApi) -> Any:
    """The list of results in a response; anything else if it has none."""
    bare = not isinstance(body, dict) and (api.index is not None or not api.rows)
    return body if bare else lookup(body, api.rows)


def lacks_scores(body: Any, api: RerankApi) -> bool:
    """Whether a response has no list of results, or one in which no row has a score or an index."""
    rows = _rows(body, api)
    if not isinstance(rows, list):
        return True
    if api.score is None:
        return all(row is None for row in rows)
    return bool(_missing(rows, api))


def remark(body: Any, api: RerankApi, sent: Sent) -> str:
    """What a response that lacks scores has instead, for the end of a message."""
    rows = _rows(body, api)
    if not isinstance(rows, list):
        return remark_without(api.rows, body, sent)
    if api.score is None:
        return f": {api.rows!r} has only null" if rows else ""
    place = _missing(rows, api)[0]
    if any(_has(row, place) for row in rows):
        return f": {place!r} is null in each row"
    members = {name: None for row in rows[:9] if isinstance(row, dict) for name in row}
    known = ", ".join(map(repr, names(members, sent)))
    return f": {place!r} is wanted, and rows have {known}" if known else ""


def _missing(rows: Sequence[Any], api: RerankApi) -> list[str]:
    """The places of score and index at which no row has a value."""
    places = [place for place in (api.score, api.index) if place is not None]
    return [place for place in places if all(lookup(row, place) is None for row in rows)]


def remark_without(place: str, body: Any, sent: Sent) -> str:
    """What a response has that lacks the list or object of results at a place."""
    if said := words(body, sent):
        return f"; the server says: {said}"
    if _has(body, place) and lookup(body, place) is None:
        return f": {place!r} is null"
    known = ", ".join(map(repr, names(body, sent))) if isinstance(body, dict) else ""
    return f": {place!r} is wanted, and it has {known}" if known and place else ""


def _has(value: Any, place: str) -> bool:
    """Whether there is a member at a place, which may be null."""
    holder, _, name = place.rpartition(".")
    members = lookup(value, holder) if holder else value
    return isinstance(members, dict) and name in members


def _from_string(stated: Any, count: int) -> int | None:
    """The index that was sent as this string; None if there is none."""
    if not isinstance(stated, str) or not re.fullmatch(r"0|[1-9][0-9]{0,8}", stated):
        return None
    return int(stated) if int(stated) < count else None


def _as_integer(index: Any) -> int | None:
    """An index that may be a string or a float; None if it is no whole number."""
    if isinstance(index, str):
        text = index.strip()
        return int(float(text)) if re.fullmatch(r"[+-]?\d{1,9}(?:\.0*)?", text) else None
    if isinstance(index, bool) or not isinstance(index, int | float):
        return None
    return int(index) if abs(index) < 1e9 and index == int(index) else None


def tokens_used(body: Any, places: Sequence[str] = USAGE_TOKENS) -> int | None:
    """The input tokens that a response reports."""
    counts = (token_count(lookup(body, place)) for place in places)
    return next((count for count in counts if count is not None), None)


def units_used(body: Any, places: Sequence[str]) -> float | None:
    """The billed units that a response reports, which are not tokens."""
    for place in places:
        units = to_float(lookup(body, place))
        if units is not None and math.isfinite(units) and units >= 0:
            return units
    return None


# ---------------------------------------------------------------------- scores of a ranking


def equal(count: int, score: float, *, with_spans: bool) -> ResponseScores:
    """A response that gives all documents this score, and no spans."""
    if with_spans:
        return SpanScores((score,) * count, (), spans=(None,) * count)
    return ResponseScores((score,) * count, ())


def dump(scores: ResponseScores, *, with_spans: bool) -> dict[str, Any] | None:
    """The scores for the response cache; None if spans are wanted, but were not requested."""
    complete = isinstance(scores, SpanScores) or not with_spans
    return reply_values.dump(scores) if complete else None


def load(data: Any, texts: Sequence[str], *, with_spans: bool) -> ResponseScores:
    """The scores of a batch from the response cache; any exception if they are of other texts."""
    kind = SpanScores if with_spans else ResponseScores
    loaded: ResponseScores = reply_values.load(data, len(texts), kind)
    if isinstance(loaded, SpanScores):
        for span, text in zip(loaded.spans, texts, strict=True):
            if span is not None and to_span(span, len(text)) != span:
                raise ValueError("a span is outside its text")
    return loaded


def spans_of(
    answers: Mapping[range, Answer[ResponseScores]], count: int, issues: IssueCollector
) -> list[Span | None]:
    """The best span of each text of a task, with issues about those that are wrong or unknown."""
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
    """The kind of the scores of one ranking, decided over all of its batches that were answered.

    ``maybe_logits`` accepts logits in place of probabilities: of ``tei`` and ``infinity``, whose
    APIs document both, unless a setting states the kind. They are recognized if every batch has a
    score outside 0 to 1, every score is a number, and none is beyond 50, as percentages are.

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


def clipped(batch: ResponseScores, kind: ScoreKind) -> ResponseScores:
    """The scores, with rounding errors clipped to the range of the kind."""
    low, high = range_of(kind)
    values = [None if value is None else min(max(value, low), high) for value in batch.values]
    return replace(batch, values=tuple(values))


def best_spans(
    rows: Iterable[tuple[int, Any]],
    refused: Set[int],
    places: RerankSpans,
    texts: Sequence[str],
    bounds: tuple[float, float],
) -> tuple[tuple[Span | None, ...], tuple[int, ...]]:
    """The best span of each document, and the documents whose spans cannot be used.

    A document with a wrong span, or with different spans in two rows, gets none.
    """
    spans: dict[int, Span | None] = {}
    wrong: set[int] = set()
    for index, row in rows:
        try:
            span = _best_span(row, places, texts[index], bounds)
        except ValueError:
            wrong.add(index)
        else:
            if spans.setdefault(index, span) != span:
                wrong.add(index)
    usable = spans.keys() - wrong - refused
    best = (spans[index] if index in usable else None for index in range(len(texts)))
    return tuple(best), tuple(sorted(wrong - refused))


def _best_span(
    row: Any, places: RerankSpans, text: str, bounds: tuple[float, float]
) -> Span | None:
    """The best span of a row; None if it has none.

    Raises:
        ValueError: it is no list of spans; or a span is not within the text, states another text,
            or has no finite score within the bounds; or the same span has two scores.
    """
    items = lookup(row, places.rows)
    if items is None:
        return None
    if not isinstance(items, list):
        raise ValueError("no list of spans")
    are_indices = places.unit == "code_points" or text.isascii()
    indices = None if not items or are_indices else _indices(text, places.unit)
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
        if score is None or (places.score is not None and in_range(score, bounds) is None):
            raise ValueError("a span without a score in range")
        if scores.setdefault(span, score) != score:
            raise ValueError("a span with two scores")
    return max(scores, key=scores.__getitem__, default=None)


def _indices(text: str, unit: str) -> dict[int, int]:
    """The index of each character, and of the end of the text, by its offset in this unit."""
    if unit == "bytes":
        sizes = [len(character.encode("utf-8", "replace")) for character in text]
    else:  # code units of UTF-16
        sizes = [2 if character > "\uffff" else 1 for character in text]
    offsets = itertools.accumulate(sizes, initial=0)
    return {offset: index for index, offset in enumerate(offsets)}
