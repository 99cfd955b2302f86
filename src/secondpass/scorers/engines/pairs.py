"""Scores pairs with a loaded model: batches, threads, deadlines and remembered scores."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import zip_longest
from typing import Any, Protocol

from secondpass.scorers.engines.batches import by_length
from secondpass.types import EngineInfo

Requests = Sequence[tuple[str, Sequence[str]]]
"""(query, passages) pairs."""
Item = tuple[int, Sequence[int], Any]
"""(index of the request, indices of the passage in its list, prepared pair)."""
Scored = list[tuple[int, int, Any]]
"""(index of the request, index of the passage, score)."""

_SHARE = 0.7
"""Of the time left, how much the next batches may take by the rate so far. The rate varies, so
the last batches are small."""
_LARGEST = 4
"""Batches of a thread that are planned together: sorted among more pairs, they pad less."""
_RESERVE = 0.005
"""Seconds before the deadline at which batches should have ended: what ends later is lost."""
_MARGIN = 1.15
"""A pair is not begun unless the time left is that many times the time that it should take."""
_MEMORY = 0.3
"""Weight of the latest batch in the running rate."""
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

        Each has a ``length`` in tokens, 0 if the score is known already.
        """

    def run(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """One score, or what scores are made from, per prepared pair, in one forward pass."""


class PairEngine:
    """Runs a model for any number of threads and rerankers.

    Args:
        reason: why the model has its backend.
        at_most: pairs of a batch; None is as many as the model's budget of tokens allows.

    Not more batches run at a time than the model has threads, whoever asks, and those who ask take
    turns after each batch. A passage that is in a list several times is scored once: rounding
    differs between batches, and equal passages must have equal scores.
    """

    def __init__(self, model: PairModel, reason: str = "", at_most: int | None = None) -> None:
        self.model = model
        limit = f"up to {model.budget:,} tokens"
        if at_most is not None:
            limit += f" and {at_most} pairs"
        self.info = EngineInfo(
            "", model.backend, model.precision, model.threads, f"{limit}, sorted by length", reason
        )
        self._at_most = at_most
        self._turns = threading.Semaphore(model.threads)
        self._pool = ThreadPoolExecutor(model.threads, thread_name_prefix="secondpass-engine")
        self.seconds_per_token: float | None = None

    def score(self, requests: Requests) -> list[list[Any]]:
        """One score per pair, in batches across the requests."""
        items = [
            (request, indices, pair)
            for request, (query, passages) in enumerate(_distinct(requests))
            for indices, pair in zip(
                passages.values(), self.model.prepare(query, [*passages]), strict=True
            )
        ]
        scores: list[list[Any]] = [[0.0] * len(passages) for _, passages in requests]
        for scored in self._run_all(self._batches(items)):
            for request, passage, score in scored:
                scores[request][passage] = score
        return scores

    def score_until(self, requests: Requests, deadline: float | None) -> Iterator[Scored]:
        """Score the first passages of each request first; stop before the deadline.

        Args:
            requests: (query, passages) pairs.
            deadline: as ``time.monotonic()`` tells the time; None for none.

        The rate of the batches so far decides how many pairs are begun.
        """
        if deadline is None:
            for request, scores in enumerate(self.score(requests)):
                yield [(request, passage, score) for passage, score in enumerate(scores)]
            return
        plan = _Plan(self, requests, deadline)
        yield from self._run_all(plan.batches())

    def _batches(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """Batches of pairs of similar lengths."""
        lengths = [pair.length for _, _, pair in items]
        for batch in by_length(
            lengths, self.model.budget, threads=self.model.threads, at_most=self._at_most
        ):
            yield [items[index] for index in batch]

    def _run_all(self, batches: Iterator[Sequence[Item]]) -> Iterator[Scored]:
        """Run batches, as many at a time as the model has threads.

        The next batch is asked for when a thread is free. So a plan can take the time into account,
        and a long list does not hold all threads up for other callers.
        """
        if self.model.threads == 1:
            yield from map(self._run, batches)
            return
        running: set[Future[Scored]] = set()
        try:
            while True:
                while len(running) < self.model.threads and (batch := next(batches, None)):
                    running.add(self._pool.submit(self._run, batch))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()

    def _run(self, batch: Sequence[Item]) -> Scored:
        pairs = [pair for _, _, pair in batch]
        with self._turns:
            began = time.perf_counter()
            scores = self.model.run(pairs)
            seconds = time.perf_counter() - began
        lengths = [pair.length for pair in pairs if pair.length]
        if lengths:
            rate = seconds / (max(lengths) * len(lengths))
            known = self.seconds_per_token
            self.seconds_per_token = rate if known is None else known + _MEMORY * (rate - known)
        return [
            (request, index, score)
            for (request, indices, _), score in zip(batch, scores, strict=True)
            for index in indices
        ]


def _distinct(requests: Requests) -> list[tuple[str, dict[str, list[int]]]]:
    """Each query with its passages, in order, and the indices of each passage."""
    distinct = []
    for query, passages in requests:
        indices: dict[str, list[int]] = {}
        for index, passage in enumerate(passages):
            indices.setdefault(passage, []).append(index)
        distinct.append((query, indices))
    return distinct


class _Plan:
    """What to score next before a deadline: the first passages of each request first."""

    def __init__(self, engine: PairEngine, requests: Requests, deadline: float) -> None:
        self._engine = engine
        self._requests = [
            (query, [*passages], [*passages.values()]) for query, passages in _distinct(requests)
        ]
        self._deadline = deadline - _RESERVE
        self._prepared = self._prepare()
        self._waiting: list[Item] = []

    def batches(self) -> Iterator[Sequence[Item]]:
        """Batches that should end before the deadline, by the engine's rate when asked for them."""
        engine = self._engine
        first = True
        while True:
            left = self._deadline - time.monotonic()
            room = self._tokens_within(left)
            if room <= 0:
                return
            while sum(pair.length for _, _, pair in self._waiting) < room:
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
            # One pair at least, or a single slow batch would make the rate forbid all further ones.
            chunk = self._chunk(room, left) or self._waiting[:first]
            if not chunk:
                return
            first = False
            self._waiting = self._waiting[len(chunk) :]
            yield from engine._batches(chunk)

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
                        self._engine.model.prepare(query, passages[rank : rank + share]),
                        strict=True,
                    )
                ]
                for request, (query, passages, indices) in enumerate(self._requests)
                if rank < len(passages)
            ]
            yield [item for row in zip_longest(*parts) for item in row if item is not None]
            rank += share

    def _tokens_within(self, left: float) -> float:
        """Tokens that the next batches may have; 0 if there is no time for any."""
        model, rate = self._engine.model, self._engine.seconds_per_token
        if left <= 0:
            return 0
        if rate is None:
            return 1  # one pair, to learn the rate
        return min(_LARGEST * model.budget, left * _SHARE / rate) * model.threads

    def _chunk(self, room: float, left: float) -> Sequence[Item]:
        """The first pairs that have at most that many tokens; one if only that fits."""
        count, tokens = 0, 0
        for _, _, pair in self._waiting:
            tokens += pair.length
            if tokens > room:
                break
            count += 1
        if count or not self._waiting:
            return self._waiting[:count]
        rate = self._engine.seconds_per_token
        fits = rate is None or self._waiting[0][2].length * rate * _MARGIN <= left
        return self._waiting[:1] if fits else ()
