"""Similarity by a small embedding model that needs no hub, no key and no torch.

``score = (cos(mean Q, mean P) + sum_i w_i max_j cos(q_i, p_j)) / 2``

Q and P are the token states of query and passage. The first term compares the two as wholes, which
is what the model was trained for. The second asks of each query token how well the best passage
token matches it (late interaction: Khattab and Zaharia, "ColBERT", SIGIR 2020), so that a short
answer inside a long passage counts. The weights ``w_i = |q_i| / sum |q_k|`` are those that the
first term has implicitly: a mean of vectors weighs each by its length. i and j run over tokens that
say something (no special token, no single punctuation mark).

It is not a cross-encoder: query and passage are read apart. It is English. docs/quality.md has what
it gains and where it loses, and the rules that were tried and left.

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
    """What the rule needs of a text; rows have length 1.

    ``whole`` has shape (384,), ``tokens`` (n, 384), ``weights`` (n,) with the sum 1.
    """

    whole: NDArray[np.float32]
    tokens: NDArray[np.float32]
    weights: NDArray[np.float32]


@configurable
class EmbeddedScorer:
    """Scores pairs by all-MiniLM-L6-v2, loaded when first used.

    Args:
        max_length: longer texts are cut, in tokens.
        threads: how many texts are encoded at a time; None takes the CPUs this process may use.
        remember: how many passages are kept encoded, the last used ones. Scoring a passage again
            then costs about a hundredth. Each takes 1.5 KB a token: 150 MB for 1,000 of 100 tokens.

    Scores lie between -1 and 1 (kind ``similarity``), and a score does not depend on what else is
    scored. May be used from many threads, and after a fork.
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
        asked = _read(model, query)

        def score(document: str) -> float:
            passage = self._passage(model, document)
            best = (asked.tokens @ passage.tokens.T).max(axis=1)
            return float(asked.whole @ passage.whole + asked.weights @ best) / 2

        return model.map(score, documents)

    def _passage(self, model: minilm.MiniLM, document: str) -> _Text:
        if not self.remember:
            return _read(model, document)
        document = model.shortened(document)  # a key of megabytes would be kept as well
        with self._turn:
            known = self._remembered.get(document)
            if known is not None:
                self._remembered.move_to_end(document)
                return known
        text = _read(model, document)
        with self._turn:
            self._remembered[document] = text
            while len(self._remembered) > self.remember:
                self._remembered.popitem(last=False)
        return text

    def check_installed(self) -> None:
        """Raise MissingExtraError if the packages are not there; imports nothing."""
        minilm.check_installed()

    def warm_up(self) -> None:
        """Load the model now.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        self._model.retry()

    def close(self) -> None:
        """Let go of the model and what was remembered; the next call loads it again."""
        self._model.clear()
        with self._turn:
            self._remembered.clear()


def _read(model: minilm.MiniLM, text: str) -> _Text:
    import numpy as np

    encoding = model.encode(text)
    tokens = encoding.states[encoding.content]
    lengths = np.linalg.norm(tokens, axis=1)
    whole = minilm.unit(encoding.states.mean(axis=0))
    return _Text(whole, minilm.unit(tokens), lengths / lengths.sum())
