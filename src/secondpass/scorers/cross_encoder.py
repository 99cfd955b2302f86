"""Cross-encoders, run by OpenVINO, onnxruntime or torch.

A cross-encoder reads query and passage together, so that every token of one attends to every token
of the other: Nogueira and Cho, "Passage re-ranking with BERT", 2019.

One call and one round for all candidates. Cost is linear in their number and slightly superlinear
in their length, up to ``max_length`` tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from secondpass.concurrency.lazy import Lazy
from secondpass.concurrency.sharing import shared
from secondpass.errors import ConfigurationError, InputError, ModelLoadError
from secondpass.ranking.blending import sigmoid
from secondpass.scorers import choice
from secondpass.scorers.batching.lists import ListEngine
from secondpass.scorers.batching.pairs import PairEngine, Requests, Scored
from secondpass.scorers.checks.sizes import whole
from secondpass.scorers.families.descriptions import FAMILIES, FAMILY_SETTING
from secondpass.scorers.families.recognition import recognise
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.model import check_token, source_of
from secondpass.scorers.torch.pairs import INSTRUCTION
from secondpass.settings import SECRET, Variables, configurable
from secondpass.storage.digests import namespace
from secondpass.storage.score_cache import ScoreCache, check_cache, pair_keys
from secondpass.types import EngineInfo, Issue, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen


_MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"
_FAMILY = "classifier"
"""Of this model."""
_LENGTH = "model_max_length"
"""Name of ``max_length`` in the files of tokenizers."""


@configurable
@dataclass(eq=False, repr=False)
class CrossEncoderScorer:
    """Scores pairs with a cross-encoder, loaded on first use.

    Supports sequence classifiers with one label, and by torch all families of rerankers that are
    described (:mod:`secondpass.scorers.families.descriptions`): with heads or modules, causal and
    sequence to sequence models that answer, models that read a list, of late interaction, and
    encoders of single texts. A model that no description fits, or without all weights that its
    scores need, is refused.

    Args:
        model: a name on the Hugging Face hub, or a local folder.
        family: the name of a built-in family of rerankers, or the description of another, or the
            path of its YAML file. None recognises the family by the model's files. A built-in
            family but ``classifier`` needs ``model``.
        backend: what runs the model. ``auto`` is the fastest that is installed and correct for the
            model: OpenVINO or onnxruntime, by a table of processors, or torch. The first two need
            neither torch nor sentence-transformers, but a file of the model in their format, such
            as ``onnx/model.onnx`` (``secondpass export`` creates one).
        precision: ``auto`` multiplies in bfloat16 where that is faster, which changes scores by
            less than a percent of their spread; ``exact`` is float32. The others are the type of
            torch's weights, ``checkpoint`` that in which they are stored. Scores are float32.
        file: the ONNX or OpenVINO file within the model, such as ``onnx/model_int8.onnx``. None is
            the usual float32 file.
        device: ``auto`` selects an accelerator if there is one; or ``cpu``, ``cuda:1``, ….
        threads: number of batches that run concurrently on a CPU; None is the number of available
            CPUs. Torch has its own setting.
        cache_folder: where downloaded models are stored; a relative path is relative to the working
            directory. None is Hugging Face's own setting.
        revision: branch, tag or commit of the model.
        max_length: tokens per pair; longer pairs are truncated. None is the model's own limit. Its
            other name is ``tokenizer_kwargs: {model_max_length: …}``. Of models that encode single
            texts, tokens per passage.
        prompt: an instruction prepended to each pair, or put in its place by the description of the
            family, for models that were trained with one. A prompt with ``{instruction}`` is used
            only in calls that have an instruction, which replaces it; other calls use
            ``prompt_name`` or, without it, the model's default prompt.
        prompt_name: the name of one of the model's own prompts, instead of ``prompt``.
        batch_size: maximum number of pairs per forward pass. None limits only their tokens.
        activation: ``none`` returns logits, whatever the model's own setting; ``sigmoid`` returns
            probabilities.
        remember: number of passages whose tokens are kept, the last used ones, about 1 KB each. Of
            models that encode single texts, the vectors of 64 passages are kept instead.
        score_cache: number of pairs whose scores are kept in memory, or the path of a SQLite file
            for scores, which is created, or is a score cache of the same user. None keeps none.
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

    Only torch supports ``family``, ``prompt``, ``prompt_name``, ``trust_remote_code``, the three
    mappings, and a ``precision`` other than ``auto`` and ``exact``. Rerankers with the same
    settings share one loaded model. Safe for use from many threads, and after a fork.
    """

    joins_calls: ClassVar[bool] = True

    model: Annotated[str, MinLen(1)] = _MODEL
    _: KW_ONLY
    family: Annotated[Any, FAMILY_SETTING] = None
    backend: Literal["auto", "torch", "onnx", "openvino"] = "auto"
    precision: Literal["auto", "exact", "float16", "bfloat16", "checkpoint"] = "auto"
    file: Annotated[str, MinLen(1)] | None = None
    device: str = "auto"
    threads: Annotated[int, Ge(1)] | None = None
    cache_folder: str | None = None
    revision: str | None = None
    max_length: Annotated[int, Ge(8)] | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    batch_size: Annotated[int, Ge(1)] | None = None
    activation: Literal["none", "sigmoid"] = "none"
    remember: Annotated[int, Ge(0)] = 10_000
    score_cache: Annotated[int, Ge(1)] | Annotated[str, MinLen(1)] | None = None
    known_answers: bool = True
    local_files_only: bool = False
    token: Annotated[Any, SECRET] = None
    token_env: Variables = None
    trust_remote_code: bool = False
    model_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None
    config_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if (
            self.prompt is not None
            and self.prompt_name is not None
            and INSTRUCTION not in self.prompt
        ):
            raise ConfigurationError("prompt, prompt_name: give one of them")
        for name in ("dtype", "torch_dtype"):
            if name in (self.model_kwargs or {}) and self.precision != "auto":
                raise ConfigurationError(f"precision, model_kwargs.{name}: give one of them")
        if self.max_length is not None and _LENGTH in (self.tokenizer_kwargs or {}):
            raise ConfigurationError(f"max_length, tokenizer_kwargs.{_LENGTH}: give one of them")
        if self.model == _MODEL and self.family != _FAMILY and _is_built_in(self.family):
            raise ConfigurationError(
                f"model: is required with the family {self.family!r}; {_MODEL!r} is of the family "
                f"{_FAMILY!r}"
            )
        check_token(self)
        check_cache(self.score_cache)
        described = None if self.family is None else FAMILIES.resolve(self.family)
        self._kind: ScoreKind = "logit" if described is None else described.scale.kind
        self._torch_only = choice.settings_for_torch(vars(self))
        self._pairs = Lazy[CachedPairs](per_process=True)
        self._instructed = Lazy[bool]()
        self._shared: Lazy[choice.Loaded] | None = None

    @property
    def model_name(self) -> str:
        """The model's name or folder."""
        return self.model

    @property
    def score_kind(self) -> ScoreKind:
        """What the scores mean; known for certain if the model is loaded, or ``family`` is set."""
        pairs = self._pairs.loaded
        kind = self._kind if pairs is None else pairs.score_kind
        return "probability" if self.activation == "sigmoid" else kind

    @property
    def takes_instruction(self) -> bool:
        """Whether the prompt or the model's family names the instruction of a call.

        Of a model that is neither loaded nor in the hub's cache, it is not known, and then true.
        """
        pairs = self._pairs.loaded
        if pairs is not None:
            return pairs.takes_instruction
        return (self.prompt is not None and INSTRUCTION in self.prompt) or self._instructed.get(
            self._reads_instruction
        )

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        pairs = self._pairs.loaded
        return None if pairs is None else pairs.engine.info

    @property
    def doubt(self) -> str | None:
        """Why the model is doubtful; None if it is not, or is not loaded."""
        pairs = self._pairs.loaded
        return None if pairs is None else pairs.doubt

    @property
    def loaded_model(self) -> Any:
        """The engine's model, for ``secondpass doctor``; None if it is not loaded."""
        pairs = self._pairs.loaded
        return None if pairs is None else pairs.engine.model

    @property
    def token_limit(self) -> int | None:
        """The limit that the settings set, by either name; None is the model's own."""
        if self.max_length is not None:
            return self.max_length
        return whole((self.tokenizer_kwargs or {}).get(_LENGTH))

    def cache_issues(self) -> list[Issue]:
        """What is wrong with the score cache, for a report."""
        pairs = self._pairs.loaded
        return [] if pairs is None else pairs.cache_issues()

    def score_pairs(
        self, query: str, documents: Sequence[str], *, instruction: str | None = None
    ) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: a package of the backend is not installed.
            ModelLoadError: the model cannot be loaded, or has more than one label.
            InputError: neither the prompt nor the model's family names the instruction.
        """
        return self.score_many([(query, documents)], instruction=instruction)[0]

    def score_many(
        self, requests: Requests, *, instruction: str | None = None
    ) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length."""
        self._check(instruction)
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        activate = self._activation()
        pairs = self._pairs.get(self._load)
        lists = pairs.score(requests, instruction if pairs.takes_instruction else None)
        return [[activate(logit) for logit in logits] for logits in lists]

    def score_batches(
        self, requests: Requests, deadline: float | None, *, instruction: str | None = None
    ) -> Iterator[Scored]:
        """Scores in batches: the first documents first, until shortly before the deadline."""
        self._check(instruction)
        if not any(documents for _, documents in requests):
            return
        activate = self._activation()
        pairs = self._pairs.get(self._load)
        known = instruction if pairs.takes_instruction else None
        for batch in pairs.score_until(requests, deadline, known):
            yield [(request, document, activate(score)) for request, document, score in batch]

    def truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents that the model did not read whole, as far as it is known."""
        pairs = self._pairs.loaded
        return [] if pairs is None else pairs.engine.model.truncated.passages(query, documents)

    def query_truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents beside which the model did not read the whole query."""
        pairs = self._pairs.loaded
        return [] if pairs is None else pairs.engine.model.truncated.queries(query, documents)

    def passes(self, query: str, documents: Sequence[str]) -> int:
        """The number of passes that the list took when it was last scored; 1 if not known."""
        pairs = self._pairs.loaded
        if pairs is None or not isinstance(pairs.engine, ListEngine):
            return 1
        return pairs.engine.blocks(query, documents)

    def check_installed(self) -> None:
        choice.check_installed(self.backend, self._torch_only)

    def warm_up(self) -> None:
        self._pairs.retry(self._load)

    def close(self) -> None:
        """Release the model, unless others use it; the next call loads it again."""
        pairs = self._pairs.loaded
        if pairs is not None:
            pairs.close()
        self._pairs.clear()
        self._shared = None

    def _check(self, instruction: str | None) -> None:
        if instruction is not None and not self.takes_instruction:
            raise InputError(
                f"instruction: the prompt of this scorer does not name {INSTRUCTION}, and its "
                "model reads none"
            )

    def _reads_instruction(self) -> bool:
        """Whether the model's family reads the instruction of a call, by files that are here."""
        if self.family is not None:
            return bool(FAMILIES.resolve(self.family).input.takes_instruction)
        if self.prompt is not None or self._torch_only or self.backend not in {"auto", "torch"}:
            return False
        try:
            facts = read_facts(source_of(self), offline=True)
            if facts is None:
                return not source_of(self).is_local
            return recognise(self.model, facts).family.input.takes_instruction
        except Exception:  # of a file, which the loader reports
            return False

    def _activation(self) -> Callable[[float], float]:
        return float if self.activation == "none" else _probability

    def _options(self) -> dict[str, Any]:
        """Further arguments of the models on torch."""
        return {
            "max_length": self.token_limit,
            "trust_remote_code": self.trust_remote_code,
            "model_kwargs": self.model_kwargs,
            "processor_kwargs": self.tokenizer_kwargs,
            "config_kwargs": self.config_kwargs,
        }

    def _load(self) -> CachedPairs:
        options = self._options()
        source = source_of(self)
        # A file with another description is another setting.
        described = None if self.family is None else FAMILIES.resolve(self.family)
        settings = choice.EngineSettings(
            source,
            self.backend,
            self.precision,
            self.file,
            self.device,
            self.threads,
            self.batch_size,
            self.token_limit,
            self.prompt,
            self.prompt_name,
            self.remember,
            self._torch_only,
            repr((self.family, described, options)),
            self.family,
            options,
        )
        # A folder with changed files is another model.
        self._shared = shared((settings, source.stamp()))
        # This scorer remembers an error itself, so other scorers may try again.
        loaded = self._shared.retry(lambda: choice.load(settings))
        if self.activation != "none" and loaded.score_kind != "logit":
            raise ModelLoadError(
                f"activation: the scores of the model {self.model!r} are of kind "
                f"{loaded.score_kind!r}, and only logits have probabilities"
            )
        try:
            doubt = loaded.engine.doubt() if self.known_answers else None
        except ModelLoadError:
            self._shared = None  # releases it, unless others use it
            raise
        return CachedPairs(loaded.engine, self.score_cache, doubt, loaded.score_kind)


def _is_built_in(family: Any) -> bool:
    return isinstance(family, str) and family in FAMILIES


def _probability(logit: float) -> float:
    """The sigmoid; NaN for infinity, which is an overflow of the model, not certainty."""
    return sigmoid(logit) if isfinite(logit) else nan


class _Missing(NamedTuple):
    """The pairs of a request whose scores are not remembered: their indices and keys."""

    request: int
    query: str
    passages: list[str]
    indices: list[int]
    keys: list[bytes]


class CachedPairs:
    """Scores pairs by an engine, unless their scores are remembered.

    Those of a model that reads lists are not. ``cache`` is the setting ``score_cache``.
    """

    def __init__(
        self,
        engine: PairEngine | ListEngine,
        cache: int | str | None,
        doubt: str | None = None,
        score_kind: ScoreKind = "logit",
    ) -> None:
        self.engine = engine
        self.doubt, self.score_kind = doubt, score_kind
        self._cache: ScoreCache | None = None
        if cache is not None and not isinstance(engine, ListEngine):
            self._cache = ScoreCache(cache)
            self._namespace = namespace(engine.model.identity())

    @property
    def takes_instruction(self) -> bool:
        """Whether the model reads the instruction of a call."""
        model: Any = self.engine.model
        return bool(model.takes_instruction)

    def score(self, requests: Requests, instruction: str | None = None) -> list[list[float]]:
        """One score per pair."""
        if self._cache is None:
            return self.engine.score(requests, instruction)
        known, missing = self._recalled(self._cache, requests, instruction)
        scores = [[nan] * len(passages) for _, passages in requests]
        for request, passage, score in known:
            scores[request][passage] = score
        new = self.engine.score([(rest.query, rest.passages) for rest in missing], instruction)
        kept = []
        for rest, values in zip(missing, new, strict=True):
            for passage, key, score in zip(rest.indices, rest.keys, values, strict=True):
                scores[rest.request][passage] = score
                kept.append((key, score))
        self._cache.put_many(kept)
        return scores

    def score_until(
        self, requests: Requests, deadline: float | None, instruction: str | None = None
    ) -> Iterator[Scored]:
        """Scores in batches: those that are remembered, then others until the deadline."""
        if self._cache is None:
            yield from self.engine.score_until(requests, deadline, instruction)
            return
        known, missing = self._recalled(self._cache, requests, instruction)
        if known:
            yield known
        if not missing:
            return
        others = [(rest.query, rest.passages) for rest in missing]
        for batch in self.engine.score_until(others, deadline, instruction):
            found = [(missing[place], index, score) for place, index, score in batch]
            try:  # before they are stored, which may take seconds
                yield [(rest.request, rest.indices[index], score) for rest, index, score in found]
            finally:  # also if the batch was too late for the caller
                self._cache.put_many([(rest.keys[index], score) for rest, index, score in found])

    def cache_issues(self) -> list[Issue]:
        """What is wrong with the cache, for a report."""
        return [] if self._cache is None else self._cache.issues()

    def close(self) -> None:
        """Release the cache; the engine is released with its last holder."""
        if self._cache is not None:
            self._cache.close()

    def _recalled(
        self, cache: ScoreCache, requests: Requests, instruction: str | None
    ) -> tuple[Scored, list[_Missing]]:
        """The remembered scores, and the pairs that have none."""
        known: Scored = []
        missing = []
        for request, (query, passages) in enumerate(requests):
            keys = pair_keys(self._namespace, query, passages, instruction)
            rest = _Missing(request, query, [], [], [])
            for index, score in enumerate(cache.get_many(keys)):
                if score is not None:
                    known.append((request, index, score))
                    continue
                rest.passages.append(passages[index])
                rest.indices.append(index)
                rest.keys.append(keys[index])
            if rest.indices:
                missing.append(rest)
        return known, missing
