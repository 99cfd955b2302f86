"""Late interaction: ColBERT-style models, run by sentence-transformers.

``score = sum_i max_j q_i · p_j``

q_i and p_j are the model's vectors for the tokens of query and passage: Khattab and Zaharia,
"ColBERT", SIGIR 2020. i and j run over the tokens that the model scores: with expansion tokens of a
query, and without tokens on the model's skiplist (often punctuation).

Query and passage are encoded separately, so a passage that is kept encoded needs no model call for
the next query. One round; cost is linear in the number of passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from secondpass.concurrency.lazy import Lazy, require
from secondpass.scorers.engines.pairs import PairEngine, Requests, Scored
from secondpass.scorers.engines.torch_runner import EXTRA
from secondpass.scorers.engines.torch_vectors import VectorModel
from secondpass.scorers.hub import check_token, source_of
from secondpass.settings import SECRET, Variables, configurable
from secondpass.types import EngineInfo, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen


@configurable
@dataclass(eq=False, repr=False)
class LateInteractionScorer:
    """Scores pairs with a sentence-transformers ``MultiVectorEncoder``, loaded on first use.

    Loads models saved by sentence-transformers, by PyLate, and by Stanford's ColBERT. Prompts,
    query expansion and skiplist are the model's own.

    Args:
        model: a name on the Hugging Face hub, or a local folder.
        device: ``auto`` selects an accelerator if there is one; or ``cpu``, ``cuda:1``, ….
        cache_folder: where downloaded models are stored; a relative path is relative to the working
            directory. None is Hugging Face's own setting.
        revision: branch, tag or commit of the model.
        query_length: tokens per query; longer queries are truncated. A model with query expansion
            extends shorter queries to this length. None is the model's own setting.
        document_length: tokens per passage; longer passages are truncated. None is the model's own
            setting.
        prompts: ``query`` and ``document``, to replace the model's own prefixes.
        batch_size: texts per forward pass. None is 8 on a CPU, where padding costs more than a
            larger batch gains, and 32 elsewhere.
        remember: number of passages that are kept encoded, the last used ones, or 64 if it is
            lower. Scoring them again takes no model call. With 128 float32 numbers per token, as in
            most models, a passage takes 0.5 KB per token of the device's memory: 51 MB for 1,000
            passages of 100 tokens.
        precision: of weights and vectors: ``exact`` is float32, ``checkpoint`` that in which the
            weights are stored. Scores are summed in float32.
        known_answers: whether the loaded model scores six questions with obvious answers first. One
            that does not find them makes reports ``degraded``, with the issue ``model_doubtful``;
            one that ranks other passages first is refused.
        local_files_only: never contact Hugging Face.
        token: a token of Hugging Face. Prefer an environment variable.
        token_env: environment variable that holds a token of Hugging Face, or several to try in
            turn. None is Hugging Face's own setting.
        trust_remote_code: run code from the model's repository. Only for models you trust.
        model_kwargs: further arguments for the model's ``from_pretrained``.
        tokenizer_kwargs: the same for the tokenizer.
        config_kwargs: the same for the model's configuration.

    Scores have no bounds (kind ``unbounded``). Most models have vectors of length 1; their scores
    are between minus and plus the number of query tokens, so scores of different queries cannot be
    compared. Safe for use from many threads, whose forward passes take turns, and after a fork.
    """

    score_kind: ClassVar[ScoreKind] = "unbounded"
    joins_calls: ClassVar[bool] = True

    model: Annotated[str, MinLen(1)]
    _: KW_ONLY
    device: str = "auto"
    cache_folder: str | None = None
    revision: str | None = None
    query_length: Annotated[int, Ge(8)] | None = None
    document_length: Annotated[int, Ge(8)] | None = None
    prompts: Mapping[Literal["query", "document"], str] | None = None
    batch_size: Annotated[int, Ge(1)] | None = None
    remember: Annotated[int, Ge(0)] = 0
    precision: Literal["exact", "float16", "bfloat16", "checkpoint"] = "exact"
    known_answers: bool = True
    local_files_only: bool = False
    token: Annotated[Any, SECRET] = None
    token_env: Variables = None
    trust_remote_code: bool = False
    model_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None
    config_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_token(self)
        self._engine = Lazy[PairEngine](per_process=True)

    @property
    def model_name(self) -> str:
        """The model's name or folder."""
        return self.model

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        engine = self._engine.loaded
        return None if engine is None else engine.info

    @property
    def doubt(self) -> str | None:
        """Why the model is doubtful; None if it is not, or is not loaded."""
        engine = self._engine.loaded
        return engine.doubt() if engine is not None and self.known_answers else None

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelLoadError: the model cannot be loaded, or was not trained for late interaction.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Requests) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length."""
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        return self._engine.get(self._load).score(requests)

    def score_batches(self, requests: Requests, deadline: float | None) -> Iterator[Scored]:
        """Scores batch by batch, the first documents first, until shortly before the deadline."""
        if any(documents for _, documents in requests):
            yield from self._engine.get(self._load).score_until(requests, deadline)

    def truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents that the model did not read whole, as far as it is known."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.passages(query, documents)

    def query_truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents beside which the model did not read the whole query."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.queries(query, documents)

    def check_installed(self) -> None:
        require(["sentence_transformers"], EXTRA, "the late_interaction scorer")

    def warm_up(self) -> None:
        self._engine.retry(self._load)

    def close(self) -> None:
        """Release the model and the encoded passages; the next call loads it again."""
        self._engine.clear()

    def _load(self) -> PairEngine:
        source = source_of(self)
        model = VectorModel(
            source,
            source.is_offline(),
            device=self.device,
            precision=self.precision,
            query_length=self.query_length,
            document_length=self.document_length,
            batch_size=self.batch_size,
            remember=self.remember,
            options={
                "prompts": self.prompts,
                "trust_remote_code": self.trust_remote_code,
                "model_kwargs": self.model_kwargs,
                "processor_kwargs": self.tokenizer_kwargs,
                "config_kwargs": self.config_kwargs,
            },
        )
        engine = PairEngine(model, "late_interaction runs on torch only", model.batch_size)
        if self.known_answers:
            engine.doubt()  # computed once, here
        return engine
