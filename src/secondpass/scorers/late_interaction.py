"""Late interaction: ColBERT-style models, run by sentence-transformers.

``score = sum_i max_j q_i · p_j``

q_i and p_j are the model's vectors for the tokens of query and passage: Khattab and Zaharia,
"ColBERT", SIGIR 2020. i and j run over the tokens that the model scores: with expansion tokens of a
query, and without tokens on the model's skiplist (often punctuation).

Query and passage are encoded separately, so a passage that is kept encoded needs no model call for
the next query. One round; cost is linear in the number of passages.
"""

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
    from annotated_types import Ge, MinLen
    from torch import Tensor
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from secondpass.concurrency.lazy import Lazy, require
from secondpass.errors import ConfigurationError, ModelLoadError
from secondpass.scorers import known_answers
from secondpass.scorers.engines.torch_vectors import EXTRA
from secondpass.scorers.hub import HubModel, first_line
from secondpass.settings import SECRET, Secret, Variables, configurable, first_set, variables
from secondpass.types import EngineInfo, ScoreKind

if TYPE_CHECKING:
    from torch import Tensor


@configurable
class LateInteractionScorer:
    """Scores pairs with a sentence-transformers ``MultiVectorEncoder``, loaded on first use.

    Loads models saved by sentence-transformers, by PyLate, and by Stanford's ColBERT. Prompts,
    query expansion and skiplist are the model's own.

    Args:
        model: a name on the Hugging Face hub, or a local folder.
        device: ``auto`` selects an accelerator if there is one; or ``cpu``, ``cuda:1``, ….
        cache_folder: where downloaded models are stored; a relative path is relative to the working
            directory. None is the hub's own setting.
        revision: branch, tag or commit of the model.
        query_length: tokens per query; longer queries are truncated. A model with query expansion
            extends shorter queries to this length. None is the model's own setting.
        document_length: tokens per passage; longer passages are truncated. None is the model's own
            setting.
        prompts: ``query`` and ``document``, to replace the model's own prefixes.
        batch_size: texts per forward pass. None is 8 on a CPU, where padding costs more than a
            larger batch gains, and 32 elsewhere.
        remember: number of passages that are kept encoded, the last used ones. Scoring them again
            takes no model call. With 128 float32 numbers per token, as in most models, a passage
            takes 0.5 KB per token of the device's memory: 51 MB for 1,000 passages of 100 tokens.
        precision: of weights and vectors: ``exact`` is float32, ``checkpoint`` that in which the
            weights are stored. Scores are summed in float32.
        known_answers: whether the loaded model scores six questions with obvious answers first. One
            that does not find them makes reports ``degraded``, with the issue ``model_doubtful``.
        local_files_only: never contact the hub.
        token: a hub token. Prefer an environment variable.
        token_env: environment variable that holds a hub token, or several to try in turn. None is
            the hub's own setting.
        trust_remote_code: run code from the model's repository. Only for models you trust.
        model_kwargs: further arguments for the model's ``from_pretrained``.
        tokenizer_kwargs: the same for the tokenizer.
        config_kwargs: the same for the model's configuration.

    Scores have no bounds (kind ``unbounded``). Most models have vectors of length 1; their scores
    are between minus and plus the number of query tokens, so scores of different queries cannot be
    compared. Safe for use from many threads, whose forward passes take turns, and after a fork.
    """

    score_kind: ScoreKind = "unbounded"

    def __init__(
        self,
        model: Annotated[str, MinLen(1)],
        *,
        device: str = "auto",
        cache_folder: str | None = None,
        revision: str | None = None,
        query_length: Annotated[int, Ge(8)] | None = None,
        document_length: Annotated[int, Ge(8)] | None = None,
        prompts: Mapping[Literal["query", "document"], str] | None = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        remember: Annotated[int, Ge(0)] = 0,
        precision: Literal["exact", "float16", "bfloat16", "checkpoint"] = "exact",
        known_answers: bool = True,
        local_files_only: bool = False,
        token: Annotated[Any, SECRET] = None,
        token_env: Variables = None,
        trust_remote_code: bool = False,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        config_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if token is not None and token_env is not None:
            raise ConfigurationError("token, token_env: give one of them")
        if model_kwargs is not None and "token" in model_kwargs:
            raise ConfigurationError("model_kwargs.token: name its variable in token_env instead")
        self.model = model
        self.device = device
        self.cache_folder = cache_folder
        self.revision = revision
        self.query_length = query_length
        self.document_length = document_length
        self.prompts = prompts
        self.batch_size = batch_size
        self.remember = remember
        self.precision = precision
        self.known_answers = known_answers
        self.local_files_only = local_files_only
        self.token: Secret | None = token
        self.token_env = token_env
        self.trust_remote_code = trust_remote_code
        self.model_kwargs = model_kwargs
        self.tokenizer_kwargs = tokenizer_kwargs
        self.config_kwargs = config_kwargs
        self._model = Lazy(self._load, per_process=True)
        self._doubt: str | None = None
        self._remembered: LRU[bytes, Tensor] = LRU(remember)

    @property
    def model_name(self) -> str:
        """The model's name or folder."""
        return self.model

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        model = self._model.loaded
        return None if model is None else model.info

    @property
    def doubt(self) -> str | None:
        """Why the model is doubtful; None if it is not, or is not loaded."""
        return None if self._model.loaded is None else self._doubt

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelLoadError: the model cannot be loaded, or was not trained for late interaction.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Requests) -> list[list[float]]:
        """Scores for several queries. Each passage is encoded once, in batches sorted by length.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        return self._scores().score(requests)

    def score_batches(
        self, requests: Requests, deadline: float | None
    ) -> Iterator[list[tuple[int, int, float]]]:
        """Scores batch by batch, the first documents of each query first.

        Args:
            requests: queries, each with its documents.
            deadline: a value of ``time.monotonic()``; batches that are expected to end later are
                not started. None for none.

        Yields:
            Lists of (index of the request, index of the document, score).

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        if any(documents for _, documents in requests):
            yield from self._scores().score_until(requests, deadline)

    def truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents that the model did not read whole, as far as it is known."""
        model = self._model.loaded
        return [] if model is None else model.truncated(query, documents)

    def check_installed(self) -> None:
        """Raise MissingExtraError if the packages are not installed; imports nothing."""
        require(["sentence_transformers"], EXTRA, "the late_interaction scorer")

    def warm_up(self) -> None:
        """Load the model now, and check it by known answers.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        self._model.retry()

    def close(self) -> None:
        """Release the model and the encoded passages; the next call loads it again."""
        self._model.clear()
        self._remembered.clear()

    def _scores(self) -> VectorScores:
        return VectorScores(self._model.get(), self._remembered)

    def _load(self) -> VectorModel:
        token = first_set(variables(self.token_env))
        if self.token is not None:
            token = self.token.reveal()
        source = HubModel(
            self.model, self.revision, self.cache_folder, token, self.local_files_only
        )
        model = VectorModel(
            source,
            device=self.device,
            precision=self.precision,
            query_length=self.query_length,
            document_length=self.document_length,
            batch_size=self.batch_size,
            options={
                "prompts": self.prompts,
                "trust_remote_code": self.trust_remote_code,
                "model_kwargs": self.model_kwargs,
                "processor_kwargs": self.tokenizer_kwargs,
                "config_kwargs": self.config_kwargs,
            },
        )
        self._doubt = _doubt(model) if self.known_answers else None
        return model


def _doubt(model: VectorModel) -> str | None:
    """Why a model is doubtful, by its scores of known answers; None if it is not."""
    try:
        return known_answers.doubt(VectorScores(model, LRU(0)).score)
    except Exception as error:
        raise ModelLoadError(f"the model cannot score pairs: {first_line(error)}") from error


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
