"""Cross-encoders, run by sentence-transformers.

A cross-encoder reads query and passage together, so that every token of one attends to every token
of the other: Nogueira and Cho, "Passage re-ranking with BERT", 2019.

One call and one round for all candidates. Cost is linear in their number and slightly superlinear
in their length, up to ``max_length`` tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, MinLen

from secondpass.concurrency.lazy import ForkLock, Lazy, require
from secondpass.errors import ConfigurationError, MissingExtraError, ModelLoadError
from secondpass.settings import SECRET, Secret, Variables, configurable, first_set, variables
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_EXTRA = "sentence-transformers"
_HUB_TIMEOUT = 10.0  # seconds


@configurable
class CrossEncoderScorer:
    """Scores pairs with a sentence-transformers ``CrossEncoder``, loaded on first use.

    Supports sequence classifiers with one label, and causal models that answer yes or no (such as
    Qwen3-Reranker), whose score is the log-odds of yes.

    Args:
        model: a name on the Hugging Face hub, or a local folder.
        device: ``auto`` selects an accelerator if there is one; or ``cpu``, ``cuda:1``, ….
        cache_folder: where downloaded models are stored; a relative path is relative to the working
            directory. None is the hub's own setting.
        revision: branch, tag or commit of the model.
        max_length: tokens per pair; longer pairs are truncated. None is the model's own limit.
        backend: runtime of the model.
        prompt: an instruction prepended to each pair, for models that were trained with one.
        prompt_name: the name of one of the model's own prompts, instead.
        prompts: named prompts that replace the model's own.
        batch_size: pairs per forward pass. None is 8 on a CPU, where padding costs more than a
            larger batch gains, and 32 elsewhere.
        activation: ``none`` returns logits, whatever the model's own setting; ``sigmoid`` returns
            probabilities.
        dtype: of the weights; ``auto`` is that of the checkpoint. Scores are always float32.
        local_files_only: never contact the hub.
        token: a hub token. Prefer an environment variable.
        token_env: environment variable that holds a hub token, or several to try in turn. None is
            the hub's own setting.
        trust_remote_code: run code from the model's repository. Only for models you trust.
        model_kwargs: further arguments for the model's ``from_pretrained``.
        tokenizer_kwargs: the same for the tokenizer.
        config_kwargs: the same for the model's configuration.

    Safe for use from many threads; forward passes take turns.
    """

    def __init__(
        self,
        model: Annotated[str, MinLen(1)] = "cross-encoder/ms-marco-MiniLM-L6-v2",
        *,
        device: str = "auto",
        cache_folder: str | None = None,
        revision: str | None = None,
        max_length: Annotated[int, Ge(8)] | None = None,
        backend: Literal["torch", "onnx", "openvino"] = "torch",
        prompt: str | None = None,
        prompt_name: str | None = None,
        prompts: Mapping[str, str] | None = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        activation: Literal["none", "sigmoid"] = "none",
        dtype: Literal["float32", "float16", "bfloat16", "auto"] = "float32",
        local_files_only: bool = False,
        token: Annotated[Any, SECRET] = None,
        token_env: Variables = None,
        trust_remote_code: bool = False,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        config_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if prompt is not None and prompt_name is not None:
            raise ConfigurationError("prompt, prompt_name: give one of them")
        if token is not None and token_env is not None:
            raise ConfigurationError("token, token_env: give one of them")
        if model_kwargs is not None and "token" in model_kwargs:
            raise ConfigurationError("model_kwargs.token: name its variable in token_env instead")
        self.model = model
        self.device = device
        self.cache_folder = cache_folder
        self.revision = revision
        self.max_length = max_length
        self.backend = backend
        self.prompt = prompt
        self.prompt_name = prompt_name
        self.prompts = prompts
        self.batch_size = batch_size
        self.activation = activation
        self.dtype = dtype
        self.local_files_only = local_files_only
        self.token: Secret | None = token
        self.token_env = token_env
        self.trust_remote_code = trust_remote_code
        self.model_kwargs = model_kwargs
        self.tokenizer_kwargs = tokenizer_kwargs
        self.config_kwargs = config_kwargs
        self.score_kind: ScoreKind = "logit" if activation == "none" else "probability"
        self._encoder = Lazy(self._load)
        # Fast tokenizers and some backends are not thread-safe.
        self._turn = ForkLock()

    @property
    def model_name(self) -> str:
        """The model's name or folder."""
        return self.model

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; ``[]`` for none.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelLoadError: the model cannot be loaded, or has more than one label.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        pairs = [(query, document) for query, documents in requests for document in documents]
        if not pairs:
            return [[] for _ in requests]
        encoder = self._encoder.get()
        import torch

        function = torch.nn.Identity() if self.activation == "none" else torch.nn.Sigmoid()
        with self._turn:
            scores = encoder.predict(
                pairs,
                prompt=self.prompt,
                prompt_name=self.prompt_name,
                batch_size=self.batch_size or (8 if encoder.device.type == "cpu" else 32),
                activation_fn=function,
                show_progress_bar=False,
            ).tolist()
        rest = iter(scores)
        return [[next(rest) for _ in documents] for _, documents in requests]

    def check_installed(self) -> None:
        """Raise MissingExtraError if the packages are not installed; imports nothing."""
        require(["sentence_transformers"], _EXTRA, "the cross_encoder scorer")

    def warm_up(self) -> None:
        """Load the model now.

        Raises:
            MissingExtraError | ModelLoadError: as :meth:`score_pairs`.
        """
        self._encoder.retry()

    def close(self) -> None:
        """Release the model; the next call loads it again."""
        self._encoder.clear()

    def _load(self) -> CrossEncoder:
        try:
            import torch
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError(_EXTRA, "the cross_encoder scorer") from error
        token = first_set(variables(self.token_env))
        if self.token is not None:
            token = self.token.reveal()
        offline = self.local_files_only or not self._hub_answers(token)
        model_kwargs = dict(self.model_kwargs or {})
        if self.backend == "torch" and not model_kwargs.keys() & {"dtype", "torch_dtype"}:
            model_kwargs["dtype"] = "auto" if self.dtype == "auto" else getattr(torch, self.dtype)
        try:
            encoder: CrossEncoder = CrossEncoder(
                self.model,
                device=None if self.device == "auto" else self.device,
                prompts=None if self.prompts is None else dict(self.prompts),
                cache_folder=self.cache_folder,
                revision=self.revision,
                max_length=self.max_length,
                backend=self.backend,
                local_files_only=offline,
                token=token,
                trust_remote_code=self.trust_remote_code,
                model_kwargs=model_kwargs,
                # Copies: the constructor changes both.
                processor_kwargs=dict(self.tokenizer_kwargs or {}),
                config_kwargs=dict(self.config_kwargs or {}),
            )
        except Exception as error:
            reason = _first_line(error, token)
            absent = isinstance(error, OSError) and not Path(self.model).exists()
            if offline and absent and not self._cached():
                reason = "no such folder, and the hub was not contacted or did not answer"
            raise ModelLoadError(f"the model {self.model!r} cannot be loaded: {reason}") from error
        if self.prompt_name is not None and self.prompt_name not in encoder.prompts:
            known = ", ".join(encoder.prompts) or "none"
            raise ModelLoadError(
                f"the model {self.model!r} has no prompt {self.prompt_name!r}; it has: {known}"
            )
        if encoder.num_labels != 1:
            raise ModelLoadError(
                f"the model {self.model!r} has {encoder.num_labels} labels; a reranker has one"
            )
        return encoder

    def _cached(self) -> bool:
        """Whether the hub's cache has the model."""
        from huggingface_hub import try_to_load_from_cache

        try:
            path = try_to_load_from_cache(
                self.model, "config.json", cache_dir=self.cache_folder, revision=self.revision
            )
        except Exception:  # not a valid name
            return False
        return isinstance(path, str)

    def _hub_answers(self, token: str | None) -> bool:
        """Whether the hub can be reached. The loader would retry for most of a minute."""
        if Path(self.model).exists():
            return True
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError

        try:
            huggingface_hub.model_info(
                self.model, revision=self.revision, token=token, timeout=_HUB_TIMEOUT
            )
        except HfHubHTTPError:
            return True  # mirrors may lack this route; the loader reports the error
        except Exception:
            return False
        return True


def _first_line(error: Exception, token: str | None) -> str:
    """The first line of a loader's error. It holds no query and no passage."""
    lines = str(error).strip().splitlines()
    message = lines[0][:200] if lines else ""
    if token:
        message = message.replace(token, "***")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
