"""``embedded``: similarity in English, without a hub, a key or torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from secondpass.ranking import english
from secondpass.scorers.embedding.encoder import Encoder
from secondpass.scorers.embedding.minilm import MODEL_NAME, MiniLM
from secondpass.scorers.embedding.scorer import EmbeddingScorer
from secondpass.scorers.embedding.similarity import PassageMatch, list_scores
from secondpass.settings import configurable

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddedScorer(EmbeddingScorer):
    """Scores passages by all-MiniLM-L6-v2, in English.

    Args:
        feedback: number of passages towards which the embedding of the query is moved, the best of
            the list by a first scoring; 0 for none. No text is encoded twice.
        idf: words of the query that are rare in the list count more.
        language: what to do with a list that is not English. ``keep`` keeps its order and encodes
            nothing. ``lean`` scores by MaxSim only, with a weight of 0.5 for the original order.
            ``ignore`` scores it as English. ``auto`` is ``keep`` if more than 5 % of the word
            pieces are unknown, or if the vocabulary spells the script letter by letter (such as
            Cyrillic, Greek or Arabic), and ``lean`` otherwise.

    The scores of a ranking, which thresholds are compared with, depend on the query and one passage
    only: they are those without ``feedback``, ``idf`` and ``language``. The order may follow other
    scores: with ``feedback`` or ``idf`` these depend on the other passages of the list, not on
    their order. :meth:`score_pairs` and :meth:`score_many` return the scores that order a list, and
    do not use ``language``. Rounding errors are up to 1e-5 with ``exact``, and with ``auto``
    a hundredth of the standard deviation (with feedback, three hundredths).
    """

    encoder: ClassVar[type[Encoder]] = MiniLM
    model_name: ClassVar[str] = MODEL_NAME

    feedback: Annotated[int, Ge(0)] = 5
    idf: bool = True
    language: english.Language = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pointwise = not (self.feedback or self.idf)

    def _judge(self, model: Encoder, query: str, documents: Sequence[str]) -> english.Verdict:
        return english.judge(self.language, query, documents, cast(MiniLM, model).tokenizer)

    def _scores(self, matches: Sequence[PassageMatch], *, lean: bool = False) -> list[float]:
        return list_scores(matches, feedback=self.feedback, idf=self.idf, cosine=not lean)
