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
Scored = list[tuple[int, int, float]]
"""(request, passage, score): both are indices."""

_SHARE = 0.5
"""Of the time left, how much the next batches may take by the rate so far. The rate varies, so
the last batches are small."""
_MARGIN = 1.15
"""A pair is not begun unless the time left is that many times the time that it should take."""
_MEMORY = 0.3
"""Weight of the latest batch in the running rate."""
_AHEAD = 64
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

    def run(self, pairs: Sequence[Any]) -> Sequence[float]:
        """One score per prepared pair, in one forward pass."""


class PairEngine:
    """Runs a model for any number of threads and rerankers.

    Args:
        reason: why the model has its backend.
        at_most: pairs of a batch; None is as many as the model's budget of tokens allows.

    Not more batches run at a time than the model has threads, whoever asks, and those who ask take
    turns after each batch.
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
        self._seconds_per_token: float | None = None

    def score(self, requests: Requests) -> list[list[float]]:
        """One score per pair, in batches across the requests."""
        prepared = [self.model.prepare(query, passages) for query, passages in requests]
        places = [(r, p) for r, pairs in enumerate(prepared) for p in range(len(pairs))]
        scores = [[0.0] * len(pairs) for pairs in prepared]
        for scored in self._batches([prepared[r][p] for r, p in places], places):
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
        waiting: list[tuple[int, int, Any]] = []
        coming = self._prepared(requests)
        first = True
        while True:
            left = deadline - time.monotonic()
            room = self._tokens_within(left)
            if room is None:
                return
            while sum(pair.length for _, _, pair in waiting) < room:
                more = next(coming, None)
                if more is None:
                    break
                # What is known costs nothing, and must not be lost while the rest is prepared.
                known = [item for item in more if not item[2].length]
                if known:
                    values = self.model.run([pair for _, _, pair in known])
                    yield [(r, p, score) for (r, p, _), score in zip(known, values, strict=True)]
                waiting += [item for item in more if item[2].length]
                if time.monotonic() >= deadline:
                    return
            # One pair at least, or a single slow batch would make the rate forbid all further ones.
            chunk = self._chunk(waiting, room, left) or waiting[:first]
            if not chunk:
                return
            first = False
            waiting = waiting[len(chunk) :]
            pairs = [pair for _, _, pair in chunk]
            places = [(request, passage) for request, passage, _ in chunk]
            yield from self._batches(pairs, places)

    def _prepared(self, requests: Requests) -> Iterator[list[tuple[int, int, Any]]]:
        """Prepared pairs in the order of their ranks, some at a time."""
        rank = 0
        while any(rank < len(passages) for _, passages in requests):
            share = max(1, _AHEAD // len(requests))
            parts = [
                [
                    (request, rank + index, pair)
                    for index, pair in enumerate(
                        self.model.prepare(query, passages[rank : rank + share])
                    )
                ]
                for request, (query, passages) in enumerate(requests)
                if rank < len(passages)
            ]
            yield [item for row in zip_longest(*parts) for item in row if item is not None]
            rank += share

    def _tokens_within(self, left: float) -> float | None:
        """Tokens that the next batches may have; None if there is no time for any."""
        if left <= 0:
            return None
        most = self.model.budget * self.model.threads
        if self._seconds_per_token is None:
            return 1  # one pair, to learn the rate
        return min(most, left * _SHARE / self._seconds_per_token * self.model.threads)

    def _chunk(
        self, waiting: Sequence[tuple[int, int, Any]], room: float, left: float
    ) -> Sequence[tuple[int, int, Any]]:
        """The first pairs that have at most that many tokens; one if only that fits."""
        count, tokens = 0, 0
        for _, _, pair in waiting:
            tokens += pair.length
            if tokens > room:
                break
            count += 1
        if count or not waiting:
            return waiting[:count]
        rate = self._seconds_per_token
        fits = rate is None or waiting[0][2].length * rate * _MARGIN <= left
        return waiting[:1] if fits else ()

    def _batches(self, pairs: Sequence[Any], places: Sequence[tuple[int, int]]) -> Iterator[Scored]:
        lengths = [pair.length for pair in pairs]
        batches = by_length(
            lengths, self.model.budget, threads=self.model.threads, at_most=self._at_most
        )

        def run(batch: list[int]) -> Scored:
            scores = self._run([pairs[index] for index in batch])
            return [(*places[index], score) for index, score in zip(batch, scores, strict=True)]

        if len(batches) <= 1 or self.model.threads == 1:
            yield from map(run, batches)
            return
        rest = iter(batches)
        # A few at a time, so that a long list does not hold all threads up for other callers.
        running: set[Future[Scored]] = set()
        try:
            while True:
                while len(running) < self.model.threads and (batch := next(rest, None)):
                    running.add(self._pool.submit(run, batch))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()

    def _run(self, batch: Sequence[Any]) -> Sequence[float]:
        with self._turns:
            began = time.perf_counter()
            scores = self.model.run(batch)
            seconds = time.perf_counter() - began
        lengths = [pair.length for pair in batch if pair.length]
        if not lengths:
            return scores
        rate = seconds / (max(lengths) * len(lengths))
        known = self._seconds_per_token
        self._seconds_per_token = rate if known is None else known + _MEMORY * (rate - known)
        return scores
