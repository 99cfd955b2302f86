"""Scores pairs with a loaded model: batches, threads, deadlines and remembered scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any, Protocol

from secondpass.scorers.engines.batches import by_length
from secondpass.scorers.engines.copies import distinct
from secondpass.scorers.engines.joining import Found, Item, JoinedBatches
from secondpass.scorers.engines.pace import TokenPace, most
from secondpass.types import EngineInfo

Requests = Sequence[tuple[str, Sequence[str]]]
"""(query, passages) pairs."""
Scored = list[tuple[int, int, Any]]
"""(index of the request, index of the passage, score)."""
Prepare = Callable[[str, Sequence[str]], Sequence[Any]]
"""Makes what a model needs of the pairs of a query and passages."""

_SHARE = 0.9
"""Of the time left, how much the next batches may take by the rate so far. The rate varies."""
_PART = 0.4
"""Of the time left, how much one batch may take."""
_LARGEST = 4
"""Batches of a thread that are planned together: sorted among more pairs, they pad less."""
_RESERVE = 0.005
"""Seconds before the deadline at which batches should have ended: what ends later is lost."""
_AHEAD = 32
"""Passages that are prepared at a time under a deadline."""


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
        """What :meth:`run` needs of each pair.

        Each has a ``length`` in tokens, 0 if the score is known already. A model whose prompt names
        the instruction of a call takes the keyword ``instruction``.
        """

    def run(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """One score, or what scores are made from, per prepared pair, in one forward pass."""


class PairEngine:
    """Runs a model for any number of threads and rerankers.

    Args:
        reason: why the model has its backend.
        at_most: pairs of a batch; None is as many as the model's budget of tokens allows.

    Not more batches run at a time than the model has threads, whoever asks. Pairs of calls that
    wait at the same time share batches. A passage that is in a list several times is scored once:
    rounding differs between batches, and equal passages must have equal scores.
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
        # These do not hold the engine, which is released with its last holder.
        self.plan = partial(by_length, budget=model.budget, threads=model.threads, at_most=at_most)
        self._joined = JoinedBatches(partial(_timed, model, self.pace), model.threads, self.plan)

    @property
    def calls(self) -> int:
        """Number of calls that score now."""
        return self._joined.calls

    def score(self, requests: Requests, instruction: str | None = None) -> list[list[Any]]:
        """One score per pair, in batches across the requests."""
        prepare = self.preparing(instruction)
        items = [
            (request, indices, pair)
            for request, (query, passages) in enumerate(distinct(requests))
            for indices, pair in zip(passages.values(), prepare(query, [*passages]), strict=True)
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
            deadline: as ``time.monotonic()`` tells the time; None for none.
            instruction: of the call, for a model whose prompt names it.

        The rate of the batches so far decides how many pairs are begun.
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
        model: Any = self.model  # one whose prompt names the instruction
        return partial(model.prepare, instruction=instruction)

    def _batches(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """Batches of pairs of similar lengths."""
        for batch in self.plan([pair.length for _, _, pair in items]):
            yield [items[index] for index in batch]


def _timed(model: PairModel, pace: TokenPace, pairs: Sequence[Any]) -> Sequence[Any]:
    """The model's scores of a batch; its time goes into the pace."""
    began = time.perf_counter()
    scores = model.run(pairs)
    pace.learn([pair.length for pair in pairs], time.perf_counter() - began)
    return scores


def _expanded(found: Found) -> Scored:
    """A score for each copy of a passage."""
    return [(request, index, score) for request, indices, score in found for index in indices]


class _Plan:
    """What to score next before a deadline: the first passages of each request first."""

    def __init__(
        self, engine: PairEngine, requests: Requests, deadline: float, prepare: Prepare
    ) -> None:
        self._engine = engine
        self._prepare_pairs = prepare
        self._requests = [
            (query, [*passages], [*passages.values()]) for query, passages in distinct(requests)
        ]
        self._deadline = deadline - _RESERVE
        self._prepared = self._prepare()
        self._waiting: list[Item] = []

    def batches(self) -> Iterator[Sequence[Item]]:
        """Batches that should end before the deadline, by the engine's rate when asked for them."""
        planned = 1  # at least, or a single slow batch would make the rate forbid all further ones
        while True:
            while sum(pair.length for _, _, pair in self._waiting) < self._most():
                items = next(self._prepared, None)
                if items is None:
                    break
                # What is known costs nothing, and must not be lost while the rest is prepared.
                known = [item for item in items if not item[2].length]
                if known:
                    yield known
                self._waiting += [item for item in items if item[2].length]
            if time.monotonic() >= self._deadline:
                return
            # What was planned with an earlier batch is scored, or better pairs would be left out.
            planned = max(planned, self._fitting())
            if not planned or not self._waiting:
                return
            # Only one batch: when the next is asked for, more pairs may fit, and they pad less.
            batch = min(self._plan(planned), key=min)
            yield [self._waiting[index] for index in batch]
            planned -= len(batch)
            left_out = set(range(len(self._waiting))).difference(batch)
            self._waiting = [self._waiting[index] for index in sorted(left_out)]

    def _prepare(self) -> Iterator[list[Item]]:
        """Prepared pairs in the order of their ranks, some at a time."""
        rank = 0
        share = max(1, _AHEAD // max(1, len(self._requests)))
        while any(rank < len(passages) for _, passages, _ in self._requests):
            parts = [
                [
                    (request, own, pair)
                    for own, pair in zip(
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
        """Seconds of threads that these requests may have, if all calls have equally many."""
        left = max(0.0, self._deadline - time.monotonic())
        return left * self._engine.model.threads / max(1, self._engine.calls)

    def _most(self) -> float:
        """Tokens that are planned together; 0 if there is no time for any."""
        model, rate = self._engine.model, self._engine.pace.seconds_per_token
        seconds = self._seconds()
        if rate is None:
            return min(1, seconds)  # one pair, to learn the rate
        return min(_LARGEST * model.budget * model.threads, seconds / rate)

    def _plan(self, count: int) -> list[list[int]]:
        """Batches of the first pairs, each with a part of the time left: a late one is lost."""
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

        # One alone may be longer than what is planned together.
        count = max(1, sum(total <= tokens for total in accumulate(lengths)))
        return most(count, seconds, self._seconds() * _SHARE)
