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

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Le

from secondpass.concurrency.lazy import Lazy
from secondpass.scorers import minilm
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.pairs import PairEngine, Requests, Scored
from secondpass.scorers.engines.sharing import Shared, shared
from secondpass.settings import configurable
from secondpass.types import EngineInfo, ScoreKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_QUERIES = 256
"""Queries that are kept encoded."""


class Text(NamedTuple):
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
        backend: what runs the model. ``auto`` is OpenVINO if it is installed, else onnxruntime.
        precision: ``auto`` is bfloat16 with OpenVINO on a processor that multiplies bfloat16
            itself, and changes scores by at most 0.005; ``exact`` is float32.
        threads: batches that are encoded at a time; None is the number of available CPUs.
        remember: passages that are kept encoded, the last used ones. Scoring them again costs about
            a hundredth. Each takes 1.5 KB per token: 150 MB for 1,000 passages of 100 tokens.

    Scores are between -1 and 1 (kind ``similarity``). They do not depend on what else is scored,
    but for rounding: 1e-5 in ``exact``, and a hundredth of their standard deviation in ``auto``.
    Scorers with the same settings share one loaded model. Safe for use from many threads, and after
    a fork.
    """

    score_kind: ScoreKind = "similarity"
    model_name = minilm.MODEL_NAME
    batch_size = 32

    def __init__(
        self,
        *,
        max_length: Annotated[int, Ge(8), Le(minilm.MAX_TOKENS)] = minilm.MAX_TOKENS,
        backend: Literal["auto", "onnx", "openvino"] = "auto",
        precision: Literal["auto", "exact"] = "auto",
        threads: Annotated[int, Ge(1)] | None = None,
        remember: Annotated[int, Ge(0)] = 0,
    ) -> None:
        self.max_length = max_length
        self.backend = backend
        self.precision = precision
        self.threads = threads
        self.remember = remember
        self._engine = Lazy(self._load, per_process=True)
        self._shared: Shared[PairEngine] | None = None

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        engine = self._engine.loaded
        return None if engine is None else engine.info

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: the packages of the extra ``embedded``, or the backend, are not
                installed.
            ModelLoadError: the model file is not the expected one.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Requests) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        return self._engine.get().score(requests)

    def score_batches(self, requests: Requests, deadline: float | None) -> Iterator[Scored]:
        """Scores in batches, those of the first documents first, until shortly before the deadline.

        Args:
            requests: queries, each with its documents.
            deadline: a value of ``time.monotonic()``; None for none.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        yield from self._engine.get().score_until(requests, deadline)

    def check_installed(self) -> None:
        """Raise MissingExtraError if the packages are not installed; imports nothing."""
        minilm.check_installed(self.backend)

    def warm_up(self) -> None:
        """Load the model now.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        self._engine.retry()

    def close(self) -> None:
        """Release the model and the encoded passages, unless other scorers use them.

        The next call loads the model again.
        """
        self._engine.clear()
        self._shared = None

    def _load(self) -> PairEngine:
        def load() -> PairEngine:
            model = minilm.MiniLM(
                max_tokens=self.max_length,
                threads=self.threads,
                backend=self.backend,
                precision=self.precision,
            )
            return PairEngine(EmbeddedPairs(model, self.remember), model.reason)

        settings = (self.max_length, self.backend, self.precision, self.threads, self.remember)
        self._shared = shared(("embedded", *settings), load)
        # A failure is remembered by this scorer, so not there, too.
        return self._shared.value.retry()


class _Pair(NamedTuple):
    """A prepared pair.

    Attributes:
        length: tokens of the passage; 0 if ``score`` is known.
        key: the text of the passage as it is remembered.
    """

    length: int
    query: Text
    key: str
    tokens: NDArray[np.int64] | None
    score: float = 0.0


class EmbeddedPairs:
    """The model as one that scores pairs.

    Args:
        model: the loaded encoder.
        remember: passages that are kept encoded.
    """

    def __init__(self, model: minilm.MiniLM, remember: int = 0) -> None:
        self.model = model
        self.backend, self.precision = model.backend, model.precision
        self.threads, self.budget = model.threads, model.budget
        self.passages: LRU[str, Text] = LRU(remember)
        self._queries: LRU[str, Text] = LRU(_QUERIES)

    def identity(self) -> Mapping[str, Any]:
        """Everything but the texts that a score depends on."""
        return {
            "model": minilm.MODEL_NAME,
            "backend": self.backend,
            "version": self.model.version,
            "precision": self.precision,
        }

    def prepare(self, query: str, passages: Sequence[str]) -> list[_Pair]:
        """The tokens of each passage, or the score if the passage is remembered."""
        if not passages:
            return []
        encoded = self._query(query)
        keys = [self.model.shortened(passage) for passage in passages]  # bounds their size
        known: Sequence[Text | None] = [None] * len(keys)
        if self.passages.capacity:
            known = self.passages.get_many(keys)
        pairs = []
        for key, passage in zip(keys, known, strict=True):
            if passage is None:
                tokens = self.model.tokenize(key)
                pairs.append(_Pair(len(tokens), encoded, key, tokens))
            else:
                pairs.append(_Pair(0, encoded, key, None, similarity(encoded, passage)))
        return pairs

    def run(self, pairs: Sequence[_Pair]) -> list[float]:
        """One score per pair, in one call of the model.

        A passage that several pairs have is encoded once.
        """
        tokens = {pair.key: pair.tokens for pair in pairs if pair.tokens is not None}
        texts: dict[str, Text] = {}
        if self.passages.capacity:  # an earlier batch may have encoded it since
            known = zip(tokens, self.passages.get_many(tokens), strict=True)
            texts = {key: text for key, text in known if text is not None}
        missing = {key: ids for key, ids in tokens.items() if key not in texts}
        if missing:
            encodings = self.model.encode_batch([*missing.values()])
            new = dict(zip(missing, map(encoded_text, encodings), strict=True))
            texts.update(new)
            self.passages.put_many(new.items())
        return [
            pair.score if pair.tokens is None else similarity(pair.query, texts[pair.key])
            for pair in pairs
        ]

    def _query(self, query: str) -> Text:
        key = self.model.shortened(query)
        (encoded,) = self._queries.get_many([key])
        if encoded is None:
            encoded = encoded_text(self.model.encode(key))
            self._queries.put_many([(key, encoded)])
        return encoded


def similarity(query: Text, passage: Text) -> float:
    """The score of a pair."""
    best = (query.tokens @ passage.tokens.T).max(axis=1)
    return float(query.mean @ passage.mean + query.weights @ best) / 2


def encoded_text(encoding: minilm.Encoding) -> Text:
    """The vectors of a text that its scores depend on."""
    import numpy as np

    tokens = encoding.states[encoding.content]
    lengths = np.linalg.norm(tokens, axis=1)
    mean = minilm.unit(encoding.states.mean(axis=0))
    return Text(mean, minilm.unit(tokens), lengths / lengths.sum())
