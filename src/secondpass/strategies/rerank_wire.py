"""Requests to rerank APIs, and how their responses are read. Does no I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.scoring import in_range, range_of, to_float
from secondpass.services.client import token_count
from secondpass.services.diagnosis import names, words
from secondpass.services.echoes import Sent
from secondpass.strategies import rerank_template
from secondpass.strategies.rerank_apis import USAGE_TOKENS, RerankApi
from secondpass.strategies.rerank_scores import ResponseScores, SpanScores
from secondpass.strategies.rerank_spans import SpanReader
from secondpass.strategies.rerank_template import lookup
from secondpass.types import ScoreKind


@dataclass(frozen=True, slots=True)
class Pairs:
    """A request: a query, documents to score for it, and what counts as relevant.

    Attributes:
        query: of the call.
        documents: that are sent.
        instruction: of the call, if the API takes one.
        skipped: places of documents of the batch that are not sent.
    """

    query: str
    documents: Sequence[str]
    instruction: str | None = field(default=None, repr=False)
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Response(Completion):
    """A response with its parsed JSON.

    Attributes:
        body: the parsed JSON.
        with_spans: whether spans were requested.
        remark: what the server answered instead of scores, safe to show; empty if it has scores.
    """

    body: Any = field(default=None, repr=False)
    with_spans: bool = False
    remark: str = ""


def request_url(
    api: RerankApi, base_url: str | None, path: str | None, model: str | None = None
) -> str:
    """The URL of a request.

    A base URL may end with the API's version, as SDKs of language models write it, and have a
    query, which then follows the path.
    """
    whole = (base_url or api.url or "").rstrip("/")
    path = (api.path if path is None else path).replace("$model", quote(model or "", safe="/"))
    if not path:
        return whole
    base, _, query = whole.partition("?")
    base, path = base.rstrip("/"), "/" + path.lstrip("/")
    if query:
        path += ("&" if "?" in path else "?") + query
    version = re.match(r"/v\d+(?=/)", path)
    if version is not None and re.search(rf"[^/]{version[0]}$", base):  # the host may be v1
        base = base.removesuffix(version[0])
    return base + path


def request_body(
    api: RerankApi,
    query: str,
    documents: Sequence[str],
    *,
    model: str | None,
    raw_scores: bool,
    options: Mapping[str, Any] | None,
    instruction: str | None = None,
    document_tokens: int | None = None,
    spans: bool = False,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """The JSON body of a request, without some of its optional members.

    The instruction follows one that is set in ``options``.
    """
    values = {
        "query": query,
        "instructed_query": f"{instruction}\n{query}" if instruction else query,
        "instruction": instruction,
        "model": model,
        "raw_scores": raw_scores,
        "document_tokens": document_tokens or api.document_tokens,
    }
    asked = api.template(with_spans=spans).items()
    template = {name: part for name, part in asked if name not in without}
    body = rerank_template.filled(template, values, documents)
    return rerank_template.laid_over(template, body, options or {})


def member_option(api: RerankApi, name: str, options: Mapping[str, Any] | None) -> int | None:
    """A number that ``options`` set in place of a placeholder."""
    for member, part in api.request.items():
        if part == f"${name}" and type(option := (options or {}).get(member)) is int:
            return option
    return None


def read_scores(
    body: Any,
    api: RerankApi,
    count: int,
    kind: ScoreKind,
    spans: SpanReader | None = None,
) -> ResponseScores:
    """The scores in a parsed response.

    A row with an unknown index is skipped. A document with a score that is not finite, or with two
    different scores, counts as refused.

    Args:
        body: the response.
        api: whose it is.
        count: documents in the request.
        kind: of the scores.
        spans: reads the spans, if they are wanted.

    Raises:
        ReplyError: no list of rows, no usable score, or indices that do not count from 0.
    """
    rows = _rows(body, api)
    if not isinstance(rows, list):
        raise ReplyError("it has no list of results")
    if api.index is None and len(rows) != count:
        raise ReplyError(f"it has {len(rows)} results for {count} documents")
    values: list[float | None] = [None] * count
    refused: set[int] = set()
    unknown = 0
    indices: set[int | None] = set()
    outside: list[float] = []
    usable: list[tuple[int, Any]] = []
    bounds = range_of(kind)
    for place, row in enumerate(rows):
        stated = place if api.index is None else lookup(row, api.index)
        index = _from_string(stated, count) if api.named_by_string else stated
        if type(index) is not int or not 0 <= index < count:
            unknown += 1
            if (number := _as_integer(stated)) in {-1, count}:
                indices.add(number)
            continue
        indices.add(index)
        score = to_float(row if api.score is None else lookup(row, api.score))
        if score is None or not math.isfinite(score):
            refused.add(index)
            continue
        if values[index] not in {None, score}:
            refused.add(index)
        values[index] = score
        if in_range(score, bounds) is None:
            outside.append(score)
        usable.append((index, row))
    if (count in indices and 0 not in indices) or (-1 in indices and count - 1 not in indices):
        raise ReplyError("its indices do not count from 0")
    for index in refused:
        values[index] = None
    if not outside and all(value is None for value in values):
        raise ReplyError("it has no usable score")
    read = tuple(values), tuple(sorted(refused)), unknown, False, (), tuple(outside)
    if spans is None:
        return ResponseScores(*read)
    return SpanScores(*read, *spans.read(usable, refused))


def _rows(body: Any, api: RerankApi) -> Any:
    """The list of results in a response; anything else if it has none."""
    bare = not isinstance(body, dict) and (api.index is not None or not api.rows)
    return body if bare else lookup(body, api.rows)


def is_null(body: Any, api: RerankApi) -> bool:
    """Whether a response has no results, or null in place of all scores."""
    rows = _rows(body, api)
    if not isinstance(rows, list):
        return rows is None
    scores = [row if api.score is None else lookup(row, api.score) for row in rows]
    return bool(scores) and all(score is None for score in scores)


def lacks_scores(body: Any, api: RerankApi) -> bool:
    """Whether a response has no list of results, or one in which no row has a score."""
    rows = _rows(body, api)
    if not isinstance(rows, list):
        return True
    return api.score is not None and all(lookup(row, api.score) is None for row in rows)


def remark(body: Any, api: RerankApi, sent: Sent) -> str:
    """What a response without scores has instead, for the end of a message.

    Args:
        body: the response.
        api: whose it is.
        sent: texts and keys that must not appear.
    """
    rows = _rows(body, api)
    if isinstance(rows, list):
        members = {name: None for row in rows[:9] if isinstance(row, dict) for name in row}
        known = ", ".join(map(repr, names(members, sent)))
        return f": {api.score!r} is wanted, and rows have {known}" if known else ""
    said = words(body, sent)
    if said:
        return f"; the server says: {said}"
    known = ", ".join(map(repr, names(body, sent))) if isinstance(body, dict) else ""
    return f": {api.rows!r} is wanted, and it has {known}" if known and api.rows else ""


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
