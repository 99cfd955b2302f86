"""Requests to rerank APIs, and how their responses are read. Does no I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from secondpass.effects import Completion
from secondpass.errors import MethodError, ReplyError
from secondpass.prompts.replies.values import BatchScores
from secondpass.scoring import in_range, range_of, to_float
from secondpass.services.client import token_count
from secondpass.strategies.rerank_apis import RerankApi
from secondpass.types import ScoreKind

_MAX_LOGIT = 50.0
_BATCH_LIMIT = re.compile(r"maximum allowed batch size:? (\d{1,6})")
_TOKEN_FIELDS = ("total_tokens", "prompt_tokens", "input_tokens")


@dataclass(frozen=True, slots=True)
class Pairs:
    """A request: a query, documents to score for it, and what counts as relevant."""

    query: str
    documents: Sequence[str]
    instruction: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Response(Completion):
    """A response with its parsed JSON, so that it is parsed once."""

    body: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ResponseScores(BatchScores):
    """The scores of one batch; ``outside`` lists those outside the range of the score kind."""

    outside: tuple[float, ...] = ()

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        numbers = all(type(score) in {int, float} for score in self.outside)
        return numbers and BatchScores.is_about(self, count)


def request_url(api: RerankApi, base_url: str | None, path: str | None) -> str:
    """The URL of a request.

    A base URL may end with the API's version, as SDKs of language models write it.
    """
    base = (base_url or api.url or "").rstrip("/")
    path = "/" + (path or api.path).lstrip("/")
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
) -> dict[str, Any]:
    """The JSON body of a request. The instruction follows one that is set in ``options``."""
    body = {api.query: query, api.documents: list(documents), **api.fixed, **(options or {})}
    if api.instruction is not None and instruction is not None:
        configured = body.get(api.instruction)
        body[api.instruction] = f"{configured}\n{instruction}" if configured else instruction
    if api.model and model is not None:
        body["model"] = model
    if api.raw_scores:
        body["raw_scores"] = raw_scores
    return body


def read_scores(body: Any, api: RerankApi, count: int, kind: ScoreKind) -> ResponseScores:
    """The scores in a parsed response.

    A row with an unknown index is skipped. A document with a score that is not finite, or with two
    different scores, counts as refused.

    Args:
        body: the response.
        api: whose it is.
        count: documents in the request.
        kind: of the scores.

    Raises:
        ReplyError: no list of rows, no usable score, or indices that do not count from 0.
    """
    rows = body.get(api.rows) if isinstance(body, dict) else body
    if not isinstance(rows, list):
        raise ReplyError("it has no list of results")
    values: list[float | None] = [None] * count
    refused: set[int] = set()
    unknown = 0
    indices: set[int | None] = set()
    outside: list[float] = []
    bounds = range_of(kind)
    for row in rows:
        index = row.get(api.index) if isinstance(row, dict) else None
        if type(index) is not int or not 0 <= index < count:
            unknown += 1
            if (number := _as_integer(index)) in {-1, count}:
                indices.add(number)
            continue
        indices.add(index)
        score = to_float(row.get(api.score))
        if score is None or not math.isfinite(score):
            refused.add(index)
            continue
        if values[index] not in {None, score}:
            refused.add(index)
        values[index] = score
        if in_range(score, bounds) is None:
            outside.append(score)
    if (count in indices and 0 not in indices) or (-1 in indices and count - 1 not in indices):
        raise ReplyError("its indices do not count from 0")
    for index in refused:
        values[index] = None
    if not outside and all(value is None for value in values):
        raise ReplyError("it has no usable score")
    return ResponseScores(tuple(values), tuple(sorted(refused)), unknown, outside=tuple(outside))


def _as_integer(index: Any) -> int | None:
    """An index, which may be written as a string or a float."""
    if isinstance(index, str):
        text = index.strip()
        return int(float(text)) if re.fullmatch(r"[+-]?\d{1,9}(?:\.0*)?", text) else None
    if isinstance(index, bool) or not isinstance(index, int | float):
        return None
    return int(index) if abs(index) < 1e9 and index == int(index) else None


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


def tokens_used(body: Any) -> int | None:
    """The input tokens that a response reports."""
    if not isinstance(body, dict):
        return None
    meta = body.get("meta")
    for usage in (body.get("usage"), meta.get("tokens") if isinstance(meta, dict) else None):
        if isinstance(usage, dict):
            counts = (token_count(usage.get(name)) for name in _TOKEN_FIELDS)
            count = next((count for count in counts if count is not None), None)
            if count is not None:
                return count
    return None


def batch_limit(message: str) -> int | None:
    """The number of documents per request that an error message asks for."""
    match = _BATCH_LIMIT.search(message[:2000])
    return None if match is None else int(match[1])
