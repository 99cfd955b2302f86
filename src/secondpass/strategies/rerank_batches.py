"""Splits lists into requests to rerank APIs, and reads the limits that servers state in errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from secondpass.prompts.truncation import estimate_tokens
from secondpass.scoring import TRUNCATED
from secondpass.strategies.base import IssueCollector, split_batches
from secondpass.types import Issue

_BATCH_LIMIT = re.compile(r"maximum allowed batch size:? (\d{1,6})")
_TOKEN_LIMIT = re.compile(
    r"max(?:imum)? allowed tokens per submitted batch is (\d{1,9})\D{0,40}?has (\d{1,9}) tokens"
)
_SEARCHED = 2000
"""Characters of a server's message that are searched, from the first."""


def split(
    whole: range, documents: int, sizes: Sequence[float] | None, tokens: float | None
) -> Iterator[range]:
    """Split a range of documents into requests, as equal as possible.

    Args:
        whole: the range.
        documents: the most documents of a request.
        sizes: tokens of each document of the task; None if there is no limit.
        tokens: the most tokens of a request; a document that is longer gets a request alone.
    """
    for part in split_batches(len(whole), documents):
        batch = range(whole.start + part.start, whole.start + part.stop)
        if sizes is None or tokens is None:
            yield batch
        else:
            yield from _halved(batch, sizes, tokens)


def _halved(batch: range, sizes: Sequence[float], tokens: float) -> Iterator[range]:
    """A range, halved by tokens until each part fits."""
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        sums = list(itertools.accumulate(sizes[part.start : part.stop]))
        if len(part) < 2 or sums[-1] <= tokens:
            yield part
            continue
        middle = min(range(1, len(part)), key=lambda cut: abs(2 * sums[cut - 1] - sums[-1]))
        waiting += [
            range(part.start + middle, part.stop),
            range(part.start, part.start + middle),
        ]


def blank(texts: Iterable[str]) -> tuple[int, ...]:
    """The places of texts without a visible character."""
    return tuple(place for place, text in enumerate(texts) if not text.strip())


def batch_limit(message: str) -> int | None:
    """The number of documents per request that an error message asks for."""
    match = _BATCH_LIMIT.search(message[:_SEARCHED])
    return None if match is None else int(match[1])


def token_limit(message: str) -> tuple[int, int] | None:
    """The tokens per request that an error message allows, and those that the request had."""
    match = _TOKEN_LIMIT.search(message[:_SEARCHED])
    if match is None or not 0 < int(match[1]) < int(match[2]):
        return None
    return int(match[1]), int(match[2])


def add_truncated(issues: IssueCollector, texts: Sequence[str], tokens: int | None) -> None:
    """Add an issue about texts that are longer than what the API reads of each, by an estimate."""
    if tokens is None:
        return
    long = [place for place, text in enumerate(texts) if estimate_tokens(text) > tokens]
    if long:
        message = (
            f"the API reads {tokens} tokens of a text, and these have more, by an estimate: "
            "set document_tokens or passages"
        )
        issues.add(TRUNCATED, message, long)


def named_empty(issues: Iterable[Issue]) -> list[Issue]:
    """The issues, with ``empty_text`` in place of ``declined`` for texts that were not sent."""
    message = "the server rejects empty texts, so these were not sent"
    return [
        Issue("empty_text", message, issue.positions, issue.ids, issue.method)
        if issue.code == "declined"
        else issue
        for issue in issues
    ]
