"""Splits lists into requests to rerank APIs, and reads the limits that servers state in errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from secondpass.effects import Answer
from secondpass.errors import LLMError
from secondpass.questions import estimate_tokens
from secondpass.ranking.scoring import TRUNCATED
from secondpass.strategies.base import IssueCollector, split_batches

T = TypeVar("T")

_BATCH_LIMIT = re.compile(
    r"(?:maximum allowed batch size:?|batch size[^.\d]{0,60} larger than|at most(?= \d+ items)) "
    r"(\d{1,6})"
)
"""As TEI, DashScope and servers with pydantic say it."""
_TOKEN_LIMIT = re.compile(
    r"max(?:imum)? allowed tokens per submitted batch is (\d{1,9})\D{0,40}?has (\d{1,9}) tokens"
)
_SEARCHED = 2000
"""Characters of a server's message that are searched, from the first."""


def split(
    whole: range, documents: int, sizes: Sequence[float] | None, tokens: float | None
) -> Iterator[range]:
    """Split a range of documents into requests, as equal as possible.

    ``documents`` and ``tokens`` are the most of a request, ``sizes`` the tokens of each document of
    the task; one with more than ``tokens`` gets a request alone.
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
        waiting += [part[middle:], part[:middle]]


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


class BatchRefusedError(LLMError):
    """A server refused a request with several documents for a reason that is not known."""


def next_parts(
    answers: dict[range, Answer[T]], half: range | None, issues: IssueCollector
) -> tuple[list[range], range | None]:
    """The ranges to ask about after requests that were refused for a reason that is not known.

    The first half of one is asked. If that is refused too, its own first half; if it is answered,
    the rest of all, in requests of its size. Answers about what is asked again are removed.
    ``half`` is the first half that was asked last; the new one, if it is asked alone, is returned.
    """
    refused = [
        part for part, answer in answers.items() if isinstance(answer.error, BatchRefusedError)
    ]
    if half is not None and answers[half].value is not None:
        for part in refused:
            del answers[part]
        size = len(half)
        return [smaller for part in refused for smaller in split(part, size, None, None)], None
    whole = next((part for part in refused if len(part) > 1), None) if half is None else half
    if whole is None or whole not in refused:
        return [], None
    answer = answers.pop(whole)
    issues.add_recovered(answer)
    half, rest = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    answers[rest] = replace(answer, troubles=())
    return [half], half


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
