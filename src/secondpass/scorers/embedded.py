"""Similarity by a small embedding model, without a hub, a key or torch.

``score = (cos(mean Q, mean P) + sum_i w_i max_j cos(q_i, p_j)) / 2``

Q and P are the token states of query and passage. The first term compares sentence embeddings,
which is what the model was trained for. The second is late interaction (Khattab and Zaharia,
"ColBERT", SIGIR 2020): the best passage token for each query token, so that a short answer in a
long passage counts. The weights ``w_i = |q_i| / sum |q_k|`` are those that the first term has
implicitly: a mean of vectors weighs each by its length. i and j run over content tokens (no special
token, no single punctuation mark).

Not a cross-encoder: query and passage are encoded separately. English only. docs/quality.md has
measurements, and the rules that were tried.

One call, one round; cost is linear in the number of candidates.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from annotated_types import Ge, Le

from secondpass.concurrency.lazy import ForkLock, Lazy
from secondpass.scorers import minilm
from secondpass.settings import configurable
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Text(NamedTuple):
    """An encoded text; vectors have length 1.

    ``mean`` has shape (384,), ``tokens`` (n, 384), ``weights`` (n,) with the sum 1.
    """

    mean: NDArray[np.float32]
    tokens: NDArray[np.float32]
    weights: NDArray[np.float32]


@configurable
class EmbeddedScorer:
    """Scores pairs by all-MiniLM-L6-v2, loaded on first use.

    Args:
        max_length: tokens per text; longer texts are truncated.
        threads: texts that are encoded at a time; None is the number of available CPUs.
        remember: passages that are kept encoded, the last used ones. Scoring them again costs about
            a hundredth. Each takes 1.5 KB per token: 150 MB for 1,000 passages of 100 tokens.

    Scores are between -1 and 1 (kind ``similarity``) and do not depend on what else is scored. Safe
    for use from many threads, and after a fork.
    """

    score_kind: ScoreKind = "similarity"
    model_name = minilm.MODEL_NAME
    batch_size = 32

    def __init__(
        self,
        *,
        max_length: Annotated[int, Ge(8), Le(minilm.MAX_TOKENS)] = minilm.MAX_TOKENS,
        threads: Annotated[int, Ge(1)] | None = None,
        remember: Annotated[int, Ge(0)] = 0,
    ) -> None:
        self.max_length = max_length
        self.threads = threads
        self.remember = remember
        self._model = Lazy(lambda: minilm.MiniLM(max_tokens=max_length, threads=threads))
        self._remembered: OrderedDict[str, _Text] = OrderedDict()
        self._turn = ForkLock()

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: the packages of the extra ``embedded`` are not installed.
            ModelLoadError: the model file is not the expected one.
        """
        if not documents:
            return []
        model = self._model.get()
        encoded_query = _encode(model, query)

        def score(document: str) -> float:
            passage = self._passage(model, document)
            best = (encoded_query.tokens @ passage.tokens.T).max(axis=1)
            similarity = encoded_query.mean @ passage.mean + encoded_query.weights @ best
            return float(similarity) / 2

        return model.map(score, documents)

    def _passage(self, model: minilm.MiniLM, document: str) -> _Text:
        if not self.remember:
            return _encode(model, document)
        document = model.shortened(document)  # bounds the size of the key
        with self._turn:
            cached = self._remembered.get(document)
            if cached is not None:
                self._remembered.move_to_end(document)
                return cached
        text = _encode(model, document)
        with self._turn:
            self._remembered[document] = text
            while len(self._remembered) > self.remember:
                self._remembered.popitem(last=False)
        return text

    def check_installed(self) -> None:
        """Raise MissingExtraError if the packages are not installed; imports nothing."""
        minilm.check_installed()

    def warm_up(self) -> None:
        """Load the model now.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        self._model.retry()

    def close(self) -> None:
        """Release the model and the encoded passages; the next call loads it again."""
        self._model.clear()
        with self._turn:
            self._remembered.clear()


def _encode(model: minilm.MiniLM, text: str) -> _Text:
    import numpy as np

    encoding = model.encode(text)
    tokens = encoding.states[encoding.content]
    lengths = np.linalg.norm(tokens, axis=1)
    mean = minilm.unit(encoding.states.mean(axis=0))
    return _Text(mean, minilm.unit(tokens), lengths / lengths.sum())
