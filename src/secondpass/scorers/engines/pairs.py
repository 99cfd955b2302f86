"""Scores pairs with a loaded model: batches, threads, deadlines and remembered scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any, Protocol

from secondpass.concurrency.lazy import Lazy
from secondpass.errors import ModelLoadError
from secondpass.scorers import known_answers
from secondpass.scorers.engines.batches import by_length
from secondpass.scorers.engines.copies import distinct
from secondpass.scorers.engines.joining import Found, Item, JoinedBatches
from secondpass.scorers.engines.pace import TokenPace, most
from secondpass.scorers.hub import first_line
from secondpass.types import EngineInfo

Requests = Sequence[tuple[str, Sequence[str]]]
"""(query, passages) pairs."""
Scored = list[tuple[int, int, Any]]
"""(index of the request, index of the passage, score)."""
Prepare = Callable[[str, Sequence[str]], Sequence[Any]]
"""Prepares the pairs of a query and passages for a model."""

_SHARE = 0.9
"""Share of the time left that the next batches may take by the rate so far, since rates vary."""
_PART = 0.4
"""Share of the time left that one batch may take."""
_LARGEST = 4
"""Batches per thread that are planned together: sorted among more pairs, they need less padding."""
_RESERVE = 0.005
"""Seconds before the deadline at which batches should have ended; late results are lost."""
_AHEAD = 32
"""Passages that are prepared together if there is a deadline."""


class PairModel(Protocol):
    """A loaded cross-encoder. Safe for use from many threads.

    Properties: ``backend`` (``torch``, ``onnx`` or ``openvino``), ``precision`` in which it
    multiplies (such as ``float32``), ``threads`` (batches that run at a time), and ``budget``
    (padded tokens of a batch).
    """

    @property
    def backend(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def budget(self) -> int: ...

    def identity(self) -> Mapping[str, Any]:
        """Everything but the texts that a score depends on, as JSON values."""

    def prepare(self, query: str, passages: Sequence[str]) -> Sequence[Any]:
        """One object per pair, for :meth:`run`.

        Each has a ``length`` in tokens, 0 if the score is known already. A model whose prompt has
        the instruction of a call takes the keyword ``instruction``.
        """

    def run(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """One score per prepared pair, or data to compute it from, in one forward pass."""

    def truncated(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that were longer than the model reads when they were scored."""


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
        self._check = Lazy(partial(_check, model))
        # Without references to the engine, which is released with its last holder.
        self.plan = partial(by_length, budget=model.budget, threads=model.threads, at_most=at_most)
        self._joined = JoinedBatches(partial(_timed, model, self.pace), model.threads, self.plan)

    def doubt(self) -> str | None:
        """Why the model is doubtful, by its scores of known answers; None if it is not.

        They are computed once, in one forward pass.

        Raises:
            ModelLoadError: the model cannot score them.
        """
        return self._check.get()[0]

    @property
    def calls(self) -> int:
        """Number of calls in progress."""
        return self._joined.calls

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

        The rate of the batches so far decides how many pairs are started.
        """
        if deadline is None:
            for request, scores in enumerate(self.score(requests, instruction)):
                yield [(request, passage, score) for passage, score in enumerate(scores)]
            return
        plan = _Plan(self, requests, deadline, self.preparing(instruction))
        yield from map(_expanded, self._joined.run(plan.batches(), until=deadline))

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

    return (doubt_of(score),)


def doubt_of(score: Callable[[Requests], list[list[Any]]]) -> str | None:
    """Why a model is doubtful, by its scores of known answers; None if it is not.

    Raises:
        ModelLoadError: it cannot score them.
    """
    try:
        return known_answers.doubt(score)
    except Exception as error:
        raise ModelLoadError(f"the model cannot score pairs: {first_line(error)}") from error


class _Plan:
    """Plans what to score before a deadline: the first passages of each request first."""

    def __init__(
        self, engine: PairEngine, requests: Requests, deadline: float, prepare: Prepare
    ) -> None:
        self._engine = engine
        self._prepare_pairs = prepare
        self._requests = distinct(requests)
        self._deadline = deadline - _RESERVE
        self._prepared = self._prepare()
        self._waiting: list[Item] = []

    def batches(self) -> Iterator[Sequence[Item]]:
        """Batches that should end before the deadline, by the engine's rate at the time."""
        planned = 1  # at least one, or a single slow batch would prevent all further ones
        while True:
            while sum(pair.length for _, _, pair in self._waiting) < self._most():
                items = next(self._prepared, None)
                if items is None:
                    break
                # Known scores cost nothing, and must not be late because the rest is prepared.
                known = [item for item in items if not item[2].length]
                if known:
                    yield known
                self._waiting += [item for item in items if item[2].length]
            if time.monotonic() >= self._deadline:
                return
            # Pairs planned with an earlier batch are always scored: they are the best ones left.
            planned = max(planned, self._fitting())
            if not planned or not self._waiting:
                return
            # One batch at a time: more pairs may fit by the next one, which then pads less.
            batch = min(self._plan(planned), key=min)
            yield [self._waiting[index] for index in batch]
            planned -= len(batch)
            left_out = set(range(len(self._waiting))).difference(batch)
            self._waiting = [self._waiting[index] for index in sorted(left_out)]

    def _prepare(self) -> Iterator[list[Item]]:
        """Prepared pairs in the order of their ranks, in parts."""
        rank = 0
        share = max(1, _AHEAD // max(1, len(self._requests)))
        while any(rank < len(passages) for _, passages, _ in self._requests):
            parts = [
                [
                    (request, copies, pair)
                    for copies, pair in zip(
                        indices[rank : rank + share],
                        self._prepare_pairs(query, passages[rank : rank + share]),
                        strict=True,
                    )
                ]
                for request, (query, passages, indices) in enumerate(self._requests)
                if rank < len(passages)
            ]
            yield [item for row in zip_longest(*parts) for item in row if item is not None]
            rank += share

    def _lengths(self) -> list[int]:
        return [pair.length for _, _, pair in self._waiting]

    def _seconds(self) -> float:
        """Thread seconds for these requests, if all calls in progress get an equal part."""
        left = max(0.0, self._deadline - time.monotonic())
        return left * self._engine.model.threads / max(1, self._engine.calls)

    def _most(self) -> float:
        """Maximum number of tokens that are planned together; 0 if there is no time."""
        model, rate = self._engine.model, self._engine.pace.seconds_per_token
        seconds = self._seconds()
        if rate is None:
            return min(1, seconds)  # one pair, to learn the rate
        return min(_LARGEST * model.budget * model.threads, seconds / rate)

    def _plan(self, count: int) -> list[list[int]]:
        """Batches of the first pairs, none longer than a part of the time left."""
        model, rate = self._engine.model, self._engine.pace.seconds_per_token
        budget = model.budget
        if rate is not None:
            tokens = _PART * self._seconds() / model.threads / rate
            budget = max(1, round(min(budget, tokens)))
        return self._engine.plan(self._lengths()[:count], budget=budget)

    def _fitting(self) -> int:
        """How many of the first pairs should end in time."""
        engine, tokens, lengths = self._engine, self._most(), self._lengths()
        if engine.pace.seconds_per_token is None:
            return min(1, len(lengths))

        def seconds(count: int) -> float:
            batches = [[lengths[index] for index in batch] for batch in self._plan(count)]
            return engine.pace.seconds(batches)

        # A single pair may have more tokens than are planned together.
        count = max(1, sum(total <= tokens for total in accumulate(lengths)))
        return most(count, seconds, self._seconds() * _SHARE)
