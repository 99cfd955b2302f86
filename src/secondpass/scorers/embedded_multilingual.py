"""``embedded_multilingual``: similarity in about 100 languages, without a hub, a key or torch.

The rule is that of ``embedded`` without feedback and IDF, which gained in English only
(docs/evidence.md). So a score depends on the query and one passage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from secondpass.scorers.embedding.e5 import MultilingualE5
from secondpass.scorers.embedding.encoder import Encoder
from secondpass.scorers.embedding.scorer import EmbeddingScorer
from secondpass.settings import configurable


@configurable
@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddedMultilingualScorer(EmbeddingScorer):
    """Scores passages by multilingual-e5-small, whatever their language and that of the query.

    A score depends on the query and one passage only. Rounding errors are up to 1e-5 with
    ``exact``, and with ``auto`` a hundredth of the standard deviation.
    """

    encoder: ClassVar[type[Encoder]] = MultilingualE5
    model_name: ClassVar[str] = MultilingualE5.name
