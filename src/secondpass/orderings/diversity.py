"""Diverse orderings: items with new content come before items that repeat those above them.

Carbonell and Goldstein, "The use of MMR, diversity-based reranking for reordering documents and
producing summaries", SIGIR 1998. Near-duplicates are recognized by their common words and pairs of
words: Broder, "On the resemblance and containment of documents", 1997.

Time grows with the square of the window and with the length of the texts: 100 passages of 60 words
take 0.01 to 0.02 s in the calling thread. Similarity by a model takes one call and one round more,
to encode each passage in the thread of a scorer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import Call, Plan, Score
from secondpass.ranking.candidates import as_candidate, field_value
from secondpass.ranking.ordering import Item
from secondpass.ranking.words import split_words
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.embedded_multilingual import EmbeddedMultilingualScorer
from secondpass.scorers.embedding.scorer import EmbeddingScorer
from secondpass.settings import configurable, nested
from secondpass.types import EngineInfo, Ranked

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le

_SCORERS: Mapping[str, type[EmbeddingScorer]] = {
    "embedded": EmbeddedScorer,
    "embedded_multilingual": EmbeddedMultilingualScorer,
}


@configurable
@dataclass(frozen=True)
class Cap:
    """A limit on the number of items of one source at the top.

    Attributes:
        field: the metadata key that holds the source, such as a site; a dot reads nested mappings
            and objects.
        at_most: number of items of each source, the best ones, that are not demoted.
    """

    field: str
    at_most: Annotated[int, Ge(1)]


@configurable
@dataclass(frozen=True)
class Diverse:
    """Prefers items that differ from those above them (maximal marginal relevance).

    Each place goes to the item with the highest ``relevance * r - (1 - relevance) * s``: r is its
    final score, mapped to 0 for the lowest and 1 for the highest of the window, and s its highest
    similarity to an item above it. If an item has no score, or all have the same, r is the place in
    the ranking, from 1 for the first down to 0. Near-duplicates and items beyond the cap follow
    after all others of the window, in the order of the ranking, and make nothing else a
    near-duplicate. No item is lost.

    Attributes:
        relevance: weight of the ranking, 0 to 1. With 1, only near-duplicates and items beyond the
            cap are moved.
        similarity: how the similarity of two texts is computed. ``words``: the share of their words
            and pairs of words that they have in common. ``embedded`` and ``embedded_multilingual``:
            the cosine of their vectors by the model of the method of that name. Cosines by the
            latter count from 0.7, since those of unrelated texts are hardly lower.
        duplicate: minimum share of common words and pairs of words that makes the lower of two
            items a near-duplicate, with either ``similarity``; None disables this.
        cap: maximum number of items per source; None for no limit. Items without a source are not
            limited.
        window: number of items at the top to arrange; the others keep their places.
        memory_mb: with a model, size in 1e6 bytes of the passages that are kept encoded. They are
            shared with a method of that name with the same size and default settings of its model.

    Raises:
        MissingExtraError: the packages of the model are not installed.
    """

    relevance: Annotated[float, Ge(0), Le(1)] = 0.9
    similarity: Literal["words", "embedded", "embedded_multilingual"] = "words"
    duplicate: Annotated[float, Gt(0), Le(1)] | None = 0.7
    cap: Annotated[Cap | None, nested(Cap, optional=True)] = None
    window: Annotated[int, Ge(1)] = 100
    memory_mb: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        if self.similarity != "words":
            _SCORERS[self.similarity].encoder.check_installed()

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """The items in their new order. A model runs in this thread."""
        vectors = None
        if self.similarity != "words":
            vectors = self._encoder.score_pairs("", self._texts(items))
        return self._ordered(items, vectors)

    def effects(self, items: Sequence[Item], call: Call) -> Plan[list[Item]]:
        """The order as a plan, so that a model runs where scorers do, until the deadline."""
        if self.similarity == "words" or not items:
            return self._ordered(items, None)
        raw = yield from Score(self._encoder, "", self._texts(items))
        if raw.failures:
            _, _, error = raw.failures[0]
            raise error
        if not raw.called:  # a dry run
            return list(items)
        if (engine := self._encoder.engine) is not None:
            call.ran(replace(engine, method=self._encoder.model_name))
        return self._ordered(items, raw.values)

    def warm_up(self) -> None:
        """Load the model, if there is one."""
        if self.similarity != "words":
            self._encoder.warm_up()

    def close(self) -> None:
        """Release the model; it is loaded again when it is used again."""
        if self.similarity != "words":
            self._encoder.close()

    @property
    def _unrelated(self) -> float:
        return _SCORERS[self.similarity].encoder.unrelated

    @cached_property
    def _encoder(self) -> TextVectors:
        assert self.similarity != "words"
        return TextVectors(_SCORERS[self.similarity](memory_mb=self.memory_mb))

    def _texts(self, items: Sequence[Item]) -> list[str]:
        return [_text(item) for item in items[: self.window]]

    def _ordered(self, items: Sequence[Item], vectors: Sequence[Any] | None) -> list[Item]:
        head = items[: self.window]
        order = self._first(head, None if vectors is None else _cosines(vectors, self._unrelated))
        chosen = {*order}
        order += [index for index in range(len(head)) if index not in chosen]
        return [*(head[index] for index in order), *items[len(head) :]]

    def _first(self, items: Sequence[Item], cosines: list[list[float]] | None) -> list[int]:
        """The items that are neither near-duplicates nor beyond the cap, in their new order."""
        by_words = cosines is None or self.duplicate is not None
        features = [_features(_text(item)) for item in items] if by_words else []
        sources = [None if self.cap is None else _source(item, self.cap.field) for item in items]
        used: Counter[str | int] = Counter()
        relevances = _relevances(items)
        highest = [0.0] * len(items)
        waiting = list(range(len(items)))
        order: list[int] = []

        def value(index: int) -> float:
            return self.relevance * relevances[index] - (1 - self.relevance) * highest[index]

        while waiting:
            best = max(waiting, key=value)  # the first of equal ones
            order.append(best)
            waiting.remove(best)
            source = sources[best]
            if self.cap is not None and source is not None:
                used[source] += 1
                if used[source] == self.cap.at_most:
                    waiting = [index for index in waiting if sources[index] != source]
            overlaps: dict[int, float] = {}
            if by_words:
                overlaps = {index: _overlap(features[best], features[index]) for index in waiting}
            if self.duplicate is not None:
                threshold = self.duplicate
                waiting = [index for index in waiting if overlaps[index] < threshold]
            similarities = overlaps if cosines is None else cosines[best]
            for index in waiting:
                highest[index] = max(highest[index], similarities[index])
        return order


class TextVectors:
    """Encodes texts as a scorer: instead of a score, each text gets a vector of length 1."""

    pointwise = False  # all vectors are needed, so the texts must not be split by the deadline

    def __init__(self, scorer: EmbeddingScorer) -> None:
        self._scorer = scorer
        self.model_name = scorer.model_name
        self.warm_up = scorer.warm_up
        self.close = scorer.close

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        return self._scorer.engine

    def score_pairs(self, _query: str, documents: Sequence[str]) -> list[Any]:
        """One vector per document, shape (384,); zeros for a text without a readable token."""
        return self._scorer.vectors(documents)


def _relevances(items: Sequence[object]) -> list[float]:
    """The relevance of each item, 0 to 1: by final score, or by place if any has no score."""
    scores = [item.final_score for item in items if isinstance(item, Ranked)]
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(items) or min(known) == max(known):
        return [1 - index / len(items) for index in range(len(items))]
    low, high = min(known) / 2, max(known) / 2  # halved: the difference may overflow
    return [(score / 2 - low) / (high - low) for score in known]


def _cosines(vectors: Sequence[Any], unrelated: float) -> list[list[float]]:
    """The cosines of all pairs of texts, shape (texts, texts); 0 for unrelated texts."""
    import numpy as np

    stacked = np.stack(list(vectors))
    cosines = (stacked @ stacked.T - unrelated) / (1 - unrelated)
    similarities: list[list[float]] = np.maximum(cosines, 0.0).tolist()
    return similarities


def _text(item: object) -> str:
    text = field_value(as_candidate(item), "text")
    return text if isinstance(text, str) else ""


def _features(text: str) -> frozenset[str]:
    """The words and pairs of words of a text."""
    words = split_words(text)
    return frozenset((*words, *map(" ".join, pairwise(words))))


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of features that two texts have in common, 0 to 1 (Jaccard)."""
    common = len(first & second)
    all_features = len(first) + len(second) - common
    return common / all_features if all_features else 0.0


def _source(item: object, field: str) -> str | int | None:
    value = field_value(as_candidate(item), field)
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None
