"""Scores pairs with a loaded model: batches, threads and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

from secondpass.concurrency.admission import CLAIM, Admission, Claim
from secondpass.concurrency.lazy import Lazy
from secondpass.errors import ModelLoadError
from secondpass.scorers.batching.batches import by_length
from secondpass.scorers.batching.calls import Found, Item
from secondpass.scorers.batching.copies import distinct
from secondpass.scorers.batching.joining import JoinedBatches
from secondpass.scorers.batching.pace import TokenPace
from secondpass.scorers.checks import known_answers
from secondpass.scorers.hub.model import first_line
from secondpass.scorers.tokens.truncated import Truncated
from secondpass.types import EngineInfo

Requests = Sequence[tuple[str, Sequence[str]]]
"""(query, passages) pairs."""
Scored = list[tuple[int, int, Any]]
"""(index of the request, index of the passage, score)."""
Prepare = Callable[[str, Sequence[str]], Sequence[Any]]
"""Prepares the pairs of a query and passages for a model."""

_PASSAGES_AHEAD = 32
"""Passages that are prepared together if there is a deadline."""


class PairModel(Protocol):
    """A loaded model of pairs. Safe for use from many threads.

    Properties: ``backend`` (``torch``, ``onnx`` or ``openvino``), ``precision`` in which it
    multiplies (such as ``float32``), ``threads`` (batches that run at a time), ``budget`` (padded
    tokens of a batch), and ``truncated`` (texts that were longer than the model reads when they
    were scored).

    A cross-encoder has two more members, for what only cross-encoders are used for:
    ``takes_instruction`` (whether :meth:`prepare` takes the keyword ``instruction``) and
    ``knows(word)`` (whether its vocabulary knows a word, and not only its letters).
    """

    @property
    def backend(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def budget(self) -> int: ...
    @property
    def truncated(self) -> Truncated: ...

    def identity(self) -> Mapping[str, Any]:
        """Everything but the texts that a score depends on, as JSON values."""

    def prepare(self, query: str, passages: Sequence[str]) -> Sequence[Any]:
        """One object per pair, for :meth:`run`.

        Each has a ``length`` in tokens, 0 if the score is known already.
        """

    def run(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """One score per prepared pair, or data to compute it from, in one forward pass."""


class PairEngine:
    """Runs a model for any number of threads and rerankers.

    Args:
        model: the loaded model.
        reason: why the model has its backend.
        at_most: maximum number of pairs in a batch; None limits only their tokens.

    At most as many batches run concurrently as the model has threads. Pairs of concurrent calls
    share batches. A passage that is several times in a list is scored once: rounding differs
    between batches, and equal passages must have equal scores.
    """

    def __init__(self, model: PairModel, reason: str = "", at_most: int | None = None) -> None:
        self.model = model
        limit = f"up to {model.budget:,} tokens"
        if at_most is not None:
            limit += f" and {at_most} pairs"
        self.info = EngineInfo(
            "", model.backend, model.precision, model.threads, f"{limit}, sorted by length", reason
        )
        self.pace = TokenPace()
        self._check = Lazy[tuple[str | None]]()
        # Without references to the engine, which is released with its last holder.
        self.plan = partial(by_length, budget=model.budget, threads=model.threads, at_most=at_most)
        run = partial(_timed, model, self.pace)
        self._joined = JoinedBatches(run, model.threads, self.plan, self.pace, model.budget)

    def doubt(self) -> str | None:
        """Why the model is doubtful, by its scores of known answers; None if it is not.

        They are computed once, in one forward pass.

        Raises:
            ModelLoadError: the model cannot score them, or ranks other passages first.
        """
        return self._check.get(partial(_check, self.model))[0]

    @property
    def calls(self) -> int:
        """Number of calls in progress."""
        return self._joined.calls

    @property
    def admission(self) -> Admission:
        """Decides who is next, of the calls with a deadline."""
        return self._joined.admission

    def score(self, requests: Requests, instruction: str | None = None) -> list[list[Any]]:
        """One score per pair, in batches across the requests."""
        prepare = self.preparing(instruction)
        items = [
            (request, indices, pair)
            for request, (query, passages, copies) in enumerate(distinct(requests))
            for indices, pair in zip(copies, prepare(query, passages), strict=True)
        ]
        scores: list[list[Any]] = [[0.0] * len(passages) for _, passages in requests]
        for scored in self._joined.run(self._batches(items)):
            for request, passage, score in _expanded(scored):
                scores[request][passage] = score
        return scores

    def score_until(
        self, requests: Requests, deadline: float | None, instruction: str | None = None
    ) -> Iterator[Scored]:
        """Score the first passages of each request first; stop before the deadline.

        Args:
            requests: (query, passages) pairs.
            deadline: a value of ``time.monotonic()``; None for none.
            instruction: of the call, for a model whose prompt has it.

        The claim of the context (:data:`~secondpass.concurrency.admission.CLAIM`), if any, says
        when its ranking made the call.

        Raises:
            OverloadedError: other calls leave no time for the first passages.
        """
        claim = CLAIM.get()
        if claim is None and deadline is not None:
            claim = Claim(deadline)
        if claim is None:
            for request, scores in enumerate(self.score(requests, instruction)):
                yield [(request, passage, score) for passage, score in enumerate(scores)]
            return
        lists = distinct(requests)
        pairs = sum(len(passages) for _, passages, _ in lists)
        parts = _parts(lists, self.preparing(instruction), claim)
        yield from map(_expanded, self._joined.run_in_time(parts, claim, pairs))

    def preparing(self, instruction: str | None) -> Prepare:
        """The model's ``prepare``, for calls with this instruction."""
        if instruction is None:
            return self.model.prepare
        model: Any = self.model  # its prepare() takes the keyword
        return partial(model.prepare, instruction=instruction)

    def _batches(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """Batches of pairs of similar lengths."""
        for batch in self.plan([pair.length for _, _, pair in items]):
            yield [items[index] for index in batch]


def _timed(model: PairModel, pace: TokenPace, pairs: Sequence[Any]) -> Sequence[Any]:
    """The model's scores of a batch; the pace is updated."""
    began = time.perf_counter()
    scores = model.run(pairs)
    pace.learn([pair.length for pair in pairs], time.perf_counter() - began)
    return scores


def _expanded(found: Found) -> Scored:
    """A score for each copy of a passage."""
    return [(request, index, score) for request, indices, score in found for index in indices]


def _check(model: PairModel) -> tuple[str | None]:
    """Why a model is doubtful, if it is."""

    def score(requests: Requests) -> list[list[Any]]:
        pairs = [pair for query, passages in requests for pair in model.prepare(query, passages)]
        scores = iter(model.run(pairs))
        return [[next(scores) for _ in passages] for _, passages in requests]

    cross_encoder: Any = model
    return (doubt_of(score, cross_encoder.knows),)


def doubt_of(
    score: Callable[[Requests], list[list[Any]]], knows: Callable[[str], bool]
) -> str | None:
    """Why a model is doubtful, by its scores of known answers; None if it is not.

    Raises:
        ModelLoadError: it cannot score them, or ranks other passages first.
    """
    try:
        return known_answers.doubt(score, knows)
    except ModelLoadError:
        raise
    except Exception as error:
        raise ModelLoadError(f"the model cannot score pairs: {first_line(error)}") from error


def _parts(
    lists: Sequence[tuple[str, list[str], list[list[int]]]], prepare: Prepare, claim: Claim
) -> Iterator[Sequence[Item]]:
    """Prepared pairs in the order of their ranks, in parts."""
    rank = 0
    share = max(1, _PASSAGES_AHEAD // max(1, len(lists)))
    while any(rank < len(passages) for _, passages, _ in lists):
        if time.monotonic() >= claim.deadline:
            return
        rows = [
            [
                (request, copies, pair)
                for copies, pair in zip(
                    indices[rank : rank + share],
                    prepare(query, passages[rank : rank + share]),
                    strict=True,
                )
            ]
            for request, (query, passages, indices) in enumerate(lists)
            if rank < len(passages)
        ]
        yield [item for row in zip_longest(*rows) for item in row if item is not None]
        rank += share
