"""Scores by late interaction, with passages that are kept encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from secondpass.questions import text_key
from secondpass.scorers.engines.copies import distinct
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.score_cache import text_digest
from secondpass.scorers.engines.torch_vectors import VectorModel

if TYPE_CHECKING:
    from torch import Tensor

Requests: TypeAlias = Sequence[tuple[str, Sequence[str]]]
"""Queries, each with its passages."""

Scored: TypeAlias = list[tuple[int, int, float]]
"""Index of the query, index of the passage, score."""

_BLOCK = 256
"""Passages that are encoded before they are scored, which bounds the memory of their vectors."""

_WINDOW = 4
"""Batches whose passages are sorted by length together, if there is a deadline."""


class VectorScores:
    """Scores pairs with a model.

    Args:
        model: encodes texts, and compares their vectors.
        remembered: vectors of passages, by the digest of their text.
    """

    def __init__(self, model: VectorModel, remembered: LRU[bytes, Tensor]) -> None:
        self._model = model
        self._remembered = remembered

    def score(self, requests: Requests) -> list[list[float]]:
        """A score for each passage of each query. Equal passages are encoded once."""
        places: dict[Any, list[tuple[int, list[int]]]] = {}
        passages: dict[Any, str] = {}
        for query, (_, texts, copies) in enumerate(distinct(requests)):
            for passage, indices in zip(texts, copies, strict=True):
                key = text_key(passage)
                passages[key] = passage
                places.setdefault(key, []).append((query, indices))
        scores = [[0.0] * len(documents) for _, documents in requests]
        queries = self._queries(requests)
        texts = sorted(passages.values(), key=len)
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            encoded = [
                (query, indices, vectors)
                for text, vectors in zip(block, self._passages(block), strict=True)
                for query, indices in places[text_key(text)]
            ]
            for query, index, score in self._compare(queries, encoded):
                scores[query][index] = score
        return scores

    def score_until(self, requests: Requests, deadline: float | None) -> Iterator[Scored]:
        """Scores batch by batch, the first passages of each query first.

        Args:
            requests: with one passage or more.
            deadline: a value of ``time.monotonic()``; batches that are expected to end later are
                not started. None for none.
        """
        if deadline is None:
            for query, scores in enumerate(self.score(requests)):
                yield [(query, index, score) for index, score in enumerate(scores)]
            return
        if monotonic() >= deadline:
            return
        model = self._model
        ranked = sorted(
            (indices[0], query, passage, indices)
            for query, (_, passages, copies) in enumerate(distinct(requests))
            for passage, indices in zip(passages, copies, strict=True)
        )
        queries = self._queries(requests)
        done = 0
        while done < len(ranked):
            window = ranked[done : done + _WINDOW * model.batch_size]
            texts = [passage for _, _, passage, _ in window]
            sizes = self._sizes(texts)
            count = model.pace.fitting(sizes, deadline - monotonic())
            if not done:
                count = max(count, 1)  # at least one, so that a wrong pace is corrected
            if not count:
                return
            done += count
            order = sorted(range(count), key=sizes.__getitem__)
            for start in range(0, count, model.batch_size):
                batch = order[start : start + model.batch_size]
                began = monotonic()
                if start:  # the batches before may have taken longer than expected
                    lengths = [sizes[place] for place in batch]
                    batch = batch[: model.pace.fitting(lengths, deadline - began)]
                if not batch:
                    return
                vectors = self._passages([texts[place] for place in batch])
                encoded = [
                    (window[place][1], window[place][3], passage)
                    for place, passage in zip(batch, vectors, strict=True)
                ]
                scored = self._compare(queries, encoded)
                model.pace.learn([sizes[place] for place in batch], monotonic() - began)
                yield scored

    def _queries(self, requests: Requests) -> list[Tensor]:
        """The vectors of the query of each request."""
        texts = list(dict.fromkeys(query for query, _ in requests))
        known = dict(zip(texts, self._model.queries(texts), strict=True))
        return [known[query] for query, _ in requests]

    def _passages(self, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of each passage."""
        if not self._remembered.capacity:
            return self._model.passages(texts)
        keys = [text_digest(text) for text in texts]
        known = self._remembered.get_many(keys)
        missing = [place for place, vectors in enumerate(known) if vectors is None]
        new = self._model.passages([texts[place] for place in missing]) if missing else []
        self._remembered.put_many(
            (keys[place], vectors) for place, vectors in zip(missing, new, strict=True)
        )
        rest = iter(new)
        return [next(rest) if vectors is None else vectors for vectors in known]

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        """Characters of each passage that are read, 0 for one that is remembered."""
        sizes = [min(len(text), self._model.characters) or 1 for text in texts]
        if not self._remembered.capacity:
            return sizes
        known = self._remembered.get_many([text_digest(text) for text in texts])
        return [size if vectors is None else 0 for size, vectors in zip(sizes, known, strict=True)]

    def _compare(
        self, queries: Sequence[Tensor], encoded: Sequence[tuple[int, list[int], Tensor]]
    ) -> Scored:
        """The scores of (index of the query, indices of the passage's copies, its vectors)."""
        by_query: dict[int, list[tuple[list[int], Tensor]]] = {}
        for query, indices, vectors in encoded:
            by_query.setdefault(query, []).append((indices, vectors))
        scored: Scored = []
        for query, passages in by_query.items():
            scores = self._model.scores(queries[query], [vectors for _, vectors in passages])
            scored += [
                (query, index, score)
                for (indices, _), score in zip(passages, scores, strict=True)
                for index in indices
            ]
        return scored
