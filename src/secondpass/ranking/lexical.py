"""BM25 over the candidates themselves.

Robertson and Zaragoza, "The probabilistic relevance framework: BM25 and beyond", 2009, with the
non-negative inverse document frequency ``ln(1 + (N - n + 0.5) / (n + 0.5))`` that Lucene uses.

One call, one round, no model. Document frequencies are those of the candidate list, so scores of
different lists cannot be compared (the scorer is not pointwise). Time is linear in the text.

Words are those of :mod:`secondpass.ranking.words`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from secondpass.ranking.words import split_words
from secondpass.settings import configurable
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le


@configurable
class LexicalScorer:
    """Scores documents by the words of the query.

    Args:
        k1: saturation of repeated words; 0 counts a word once.
        b: normalization by document length, 0 to 1.

    Scores are 0 or more, without an upper bound (kind ``unbounded``). Words are those of
    :func:`~secondpass.ranking.words.split_words`, without stemming or stop words.
    """

    score_kind: ScoreKind = "unbounded"
    model_name = "lexical"
    pointwise = False

    def __init__(
        self, *, k1: Annotated[float, Ge(0)] = 1.2, b: Annotated[float, Ge(0), Le(1)] = 0.75
    ) -> None:
        self.k1 = k1
        self.b = b

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; 0 if it has no word of the query."""
        counts = [Counter(split_words(document)) for document in documents]
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
        scores = [0.0] * len(documents)
        for word, times in Counter(split_words(query)).items():
            holders = [index for index, count in enumerate(counts) if word in count]
            rarity = math.log1p((len(counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index in holders:
                frequency = counts[index][word]
                damping = self.k1 * (1 - self.b + self.b * lengths[index] / mean)
                scores[index] += times * rarity * frequency / (frequency + damping)
        return scores
