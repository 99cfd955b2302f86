"""An engine with a cache of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from secondpass.scorers.engines.pairs import PairEngine, Requests, Scored
from secondpass.scorers.engines.score_cache import (
    ScoreCache,
    namespace,
    open_cache,
    pair_keys,
    with_instruction,
)
from secondpass.types import EngineInfo, Issue


class CachedPairs:
    """Scores pairs by an engine, unless their scores are remembered.

    Args:
        cache: pairs whose scores are kept in memory, or the path of a SQLite file; None for none.
        doubt: why the model is doubtful; None if it is not.
    """

    def __init__(
        self, engine: PairEngine, cache: int | str | None, doubt: str | None = None
    ) -> None:
        self._engine = engine
        self.doubt = doubt
        self._cache: ScoreCache | None = None
        if cache is not None:
            self._cache = open_cache(cache)
            self._namespace = namespace(engine.model.identity())

    @property
    def info(self) -> EngineInfo:
        """How the model runs."""
        return self._engine.info

    def score(self, requests: Requests, instruction: str | None = None) -> list[list[float]]:
        """One score per pair."""
        if self._cache is None:
            return self._engine.score(requests, instruction)
        known, keys = self._known(requests, instruction)
        scores = [list(values) for values in known]
        rest, indices = self._missing(requests, known)
        new = self._engine.score(rest, instruction) if rest else []
        kept = []
        for (request, passages), values in zip(indices, new, strict=True):
            for passage, score in zip(passages, values, strict=True):
                scores[request][passage] = score
                kept.append((keys[request][passage], score))
        self._cache.put_many(kept)
        return scores  # type: ignore[return-value]

    def score_until(
        self, requests: Requests, deadline: float | None, instruction: str | None = None
    ) -> Iterator[Scored]:
        """Scores in batches: those that are remembered, then others until the deadline."""
        if self._cache is None:
            yield from self._engine.score_until(requests, deadline, instruction)
            return
        known, keys = self._known(requests, instruction)
        first = [
            (request, passage, score)
            for request, scores in enumerate(known)
            for passage, score in enumerate(scores)
            if score is not None
        ]
        if first:
            yield first
        rest, indices = self._missing(requests, known)
        if not rest:
            return
        for batch in self._engine.score_until(rest, deadline, instruction):
            scored = [
                (indices[place][0], indices[place][1][passage], score)
                for place, passage, score in batch
            ]
            try:
                yield scored  # before it is stored, which may take seconds
            finally:  # also if the batch was too late for the caller
                self._cache.put_many([(keys[r][p], score) for r, p, score in scored])

    def truncated(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that the model did not read whole, as far as it is known."""
        return self._engine.model.truncated(query, passages)

    def cache_issues(self) -> list[Issue]:
        """What is wrong with the cache, for a report."""
        return [] if self._cache is None else self._cache.issues()

    def close(self) -> None:
        """Release the cache; the engine is released with its last holder."""
        if self._cache is not None:
            self._cache.close()

    def _known(
        self, requests: Requests, instruction: str | None
    ) -> tuple[list[list[float | None]], list[list[bytes]]]:
        """The remembered scores of each pair, and the keys."""
        assert self._cache is not None
        space = self._namespace
        if instruction is not None:
            space = with_instruction(space, instruction)
        keys = [pair_keys(space, query, passages) for query, passages in requests]
        return [self._cache.get_many(query_keys) for query_keys in keys], keys

    @staticmethod
    def _missing(
        requests: Requests, known: list[list[float | None]]
    ) -> tuple[list[tuple[str, list[str]]], list[tuple[int, list[int]]]]:
        """Requests for the pairs without a score, and the indices of these pairs."""
        rest: list[tuple[str, list[str]]] = []
        indices: list[tuple[int, list[int]]] = []
        for number, ((query, passages), scores) in enumerate(zip(requests, known, strict=True)):
            missing = [index for index, score in enumerate(scores) if score is None]
            if missing:
                rest.append((query, [passages[index] for index in missing]))
                indices.append((number, missing))
        return rest, indices
