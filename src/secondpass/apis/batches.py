"""Splits lists into requests to APIs, and reads the limits that servers state in errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from secondpass.asking.batches import split_batches
from secondpass.errors import LLMError
from secondpass.questions import Answer, estimate_tokens
from secondpass.ranking.issues import IssueCollector
from secondpass.ranking.scoring import TRUNCATED
from secondpass.services.provider_errors import ErrorResponse

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


_FORM = re.compile(
    r"\b(?:unknown|unsupported|unrecogni[sz]ed|unexpected|missing|extra|additional|deprecated)\W{1,3}"
    r"(?:\w+\W{1,3}){0,3}?(?:fields?|param\w*|propert\w*|arguments?|keys?|options?|inputs|models?)\b"
    r"|extra_forbidden|\b(?:field|parameter|property) (?:is )?required"
    r"|\bmodel\b[^.\n]{0,60}\b(?:not (?:found|exist|available|support)|doesn't (?:exist|support))"
)
"""Words about members of a request, or about the model."""
_DOCUMENTS = re.compile(
    r"batch|too (?:many|much|big)|\bmax|at most|up to|(?:more|fewer|less) than|exceed|limit|larg"
    r"|\blong|length|\bsize|token|number of|\bcount|document|passage|text|content|item"
    r"|[最超限长多文]"
)
"""Words that may be about documents, their number, or their length."""


def blames_form(response: ErrorResponse, texts: Collection[str], others: Collection[str]) -> bool:
    """Whether a request was refused for a reason that one with fewer documents has, too.

    ``texts`` are the members of the request that hold texts, ``others`` all others.
    """
    message = response.text
    for name in others:  # such as return_documents
        message = message.replace(name.lower(), "")
    if response.status == 413 or _DOCUMENTS.search(message):
        return False
    if _FORM.search(response.text):
        return True
    return any(map(response.blames, others)) and not any(map(response.blames, texts))


class BatchRefusedError(LLMError):
    """A server refused a request with several documents for a reason that is not known.

    Attributes:
        form: the names of the members of the request.
    """

    form: frozenset[str] = frozenset()


class SizeSearch(Generic[T]):
    """Finds out how many documents a server accepts that refused a request for no known reason.

    One document is asked about first. If that is refused, too, the reason is no matter of size. If
    it is answered, half of the others are asked about, and again half of those that are refused.
    When these are answered, the rest of all is asked about in requests of that size. Of 8 documents
    and a server that takes 2:

        request    documents          the server    what waits
        before     0-8                refuses
        1          0-1                answers       1-8
        2          1-5                refuses       5-8
        3          1-3                answers       3-5, 5-8
        4          3-5, 5-6, 6-8      answers

    Each call of :meth:`next_parts` reads in ``answers`` how the part was answered that the call
    before it returned alone. A part that waits has there the error of the part that it is from.

    Attributes:
        answers: those so far; the answers about what is asked again are removed.
        in_vain: the refusal that is no matter of size; None if there is none.
    """

    def __init__(self, answers: dict[range, Answer[T]], issues: IssueCollector) -> None:
        self.answers = answers
        self.issues = issues
        self.in_vain: BatchRefusedError | None = None
        self._refusal: BatchRefusedError | None = None  # of what the first document is a part of
        self._first: range | None = None  # the single document
        self._last: range | None = None  # the part that was asked about last, alone

    @property
    def is_running(self) -> bool:
        """Whether a part is asked about alone, and the rest waits."""
        return self._last is not None

    def next_parts(self) -> list[range]:
        """The ranges to ask about next; none if there is nothing to ask, or no hope."""
        refused = {
            part: answer.error
            for part, answer in self.answers.items()
            if isinstance(answer.error, BatchRefusedError)
        }
        last, self._last = self._last, None
        if last is not None and last not in refused:
            is_answered = self.answers[last].value is not None
            if not is_answered:
                self.in_vain = self._refusal if last is self._first else None
                return []
            if last is not self._first:
                return self._removed(refused, len(last))
        whole = last if last in refused else next((part for part in refused if len(part) > 1), None)
        if whole is None:
            return self._removed(refused, 1)
        answer = self.answers.pop(whole)
        self.issues.add_recovered(answer)
        size = 1 if self._first is None else (len(whole) + 1) // 2
        self._last, rest = whole[:size], whole[size:]
        if self._first is None:
            self._first, self._refusal = self._last, refused[whole]
        self.answers[rest] = replace(answer, troubles=())
        return [self._last]

    def _removed(self, parts: Collection[range], size: int) -> list[range]:
        """These ranges, in parts of a size, without the answers about them."""
        for part in parts:
            del self.answers[part]
        return [smaller for part in parts for smaller in split(part, size, None, None)]


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
