"""Cross-encoders on torch, by sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.scorers.engines.checkpoints import SAMPLE, load_checked
from secondpass.scorers.engines.files import skipped_positions
from secondpass.scorers.engines.processor import has_fast_bfloat16
from secondpass.scorers.engines.runtimes import Precision
from secondpass.scorers.engines.score_cache import file_digest
from secondpass.scorers.hub import HubModel

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder
    from torch import Tensor

DType: TypeAlias = Literal["float32", "float16", "bfloat16", "auto"]

EXTRA = "sentence-transformers"
_CHARACTERS_PER_TOKEN = 4
_BUDGET, _BUDGET_ON_GPU = 768, 16_384
"""Estimated padded tokens of a batch."""


INSTRUCTION = "{instruction}"
"""The placeholder in a prompt for the instruction of a call."""


class TextPair(NamedTuple):
    """A pair, an estimate of its number of tokens, and its prompt; None for the model's own."""

    query: str
    passage: str
    length: int
    prompt: str | None


class TorchModel:
    """A sentence-transformers ``CrossEncoder``, in a separate thread.

    Calls from many threads take turns. A forked child can use torch: a thread that has used it in
    the parent would wait forever for other threads of torch, which do not exist in the child.

    Args:
        offline: whether the hub is not to be contacted.
        device: ``auto`` selects an accelerator if there is one.
        precision: if there is no ``dtype``: ``auto`` is bfloat16 where the processor has it, else
            float32; ``exact`` is float32.
        dtype: of the weights; ``auto`` is that of the checkpoint.
        options: further arguments of ``CrossEncoder``.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ModelLoadError: the model cannot be loaded, lacks weights that its scores need, or has more
            than one label.
    """

    threads = 1  # forward passes take turns; each has all of torch's threads
    backend = "torch"

    def __init__(
        self,
        source: HubModel,
        offline: bool,
        *,
        device: str,
        precision: Precision,
        dtype: DType | None,
        prompt: str | None,
        prompt_name: str | None,
        options: Mapping[str, Any],
    ) -> None:
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError(EXTRA, "the cross_encoder scorer") from error
        self._prompt, self._prompt_name = prompt, prompt_name
        self._source, self._options = source, options
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="secondpass-torch")
        reduced = precision == "auto" and _is_fast(device)
        arguments = source.loader_arguments(
            options,
            device=device,
            dtype=dtype or ("bfloat16" if reduced else "float32"),
            offline=offline,
        )

        def load() -> CrossEncoder:
            return load_checked(
                source,
                offline,
                "cross_encoder",
                lambda: CrossEncoder(source.name, **arguments),
                _scores_of_a_pair,
                trust_remote_code=bool(options.get("trust_remote_code")),
                prompt=prompt,
            )

        try:
            self.encoder: CrossEncoder = self._thread.submit(load).result()
        except ModelLoadError:
            raise
        except Exception as error:
            raise source.load_error(error, offline) from error
        encoder = self.encoder
        if prompt_name is not None and prompt_name not in encoder.prompts:
            known = ", ".join(encoder.prompts) or "none"
            raise ModelLoadError(
                f"the model {source.name!r} has no prompt {prompt_name!r}; it has: {known}"
            )
        if encoder.num_labels != 1:
            raise ModelLoadError(
                f"the model {source.name!r} has {encoder.num_labels} labels; a reranker has one"
            )
        with suppress(AttributeError):  # special tokens in a passage are read as characters
            # Not that of `backend_tokenizer`: every call sets it to this.
            encoder.tokenizer.split_special_tokens = True
        self.precision = str(next(encoder.parameters()).dtype).removeprefix("torch.")
        self.budget = _BUDGET if encoder.device.type == "cpu" else _BUDGET_ON_GPU
        self._longest = _limited(encoder)

    def identity(self) -> dict[str, Any]:
        """Everything but the texts that a score depends on."""
        import sentence_transformers
        import torch

        # Subfolders have modules of the model, or files of other engines, which do not matter here.
        files = [
            path
            for path in self._source.entries()
            if path.is_file() and path.parent.name not in {"onnx", "openvino"}
        ]
        config = getattr(getattr(self.encoder, "model", None), "config", None)
        return {
            "model": self._source.name,
            "files": [file_digest(path) for path in files],
            "commit": getattr(config, "_commit_hash", None),
            "versions": [torch.__version__, sentence_transformers.__version__],
            "device": self.device,
            "precision": self.precision,
            "prompt": self._prompt,
            "prompt_name": self._prompt_name,
            "options": repr(self._options),
        }

    @property
    def device(self) -> str:
        """The device of the model, such as ``cpu`` or ``cuda``."""
        return str(self.encoder.device.type)

    def prepare(
        self, query: str, passages: Sequence[str], *, instruction: str | None = None
    ) -> list[TextPair]:
        """The pairs with their estimated lengths."""
        prompt = self._prompt
        if prompt is not None and INSTRUCTION in prompt:
            prompt = None if instruction is None else prompt.replace(INSTRUCTION, instruction)
        start = len(prompt or "") + len(query)
        return [
            TextPair(
                query,
                passage,
                min(3 + (start + len(passage)) // _CHARACTERS_PER_TOKEN, self._longest),
                prompt,
            )
            for passage in passages
        ]

    def run(self, pairs: Sequence[TextPair]) -> list[float]:
        """The logit of each pair."""
        return self._thread.submit(self._predict, pairs).result()

    def _predict(self, pairs: Sequence[TextPair]) -> list[float]:
        import torch

        scores = [0.0] * len(pairs)
        # Calls with different instructions may share a batch, but not a forward pass.
        for prompt in dict.fromkeys(pair.prompt for pair in pairs):
            indices = [index for index, pair in enumerate(pairs) if pair.prompt == prompt]
            predicted = self.encoder.predict(
                [(pairs[index].query, pairs[index].passage) for index in indices],
                prompt=prompt,
                prompt_name=self._prompt_name if prompt is None else None,
                batch_size=len(indices),
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )
            for index, score in zip(indices, predicted.tolist(), strict=True):
                scores[index] = score
        return scores


def _scores_of_a_pair(encoder: CrossEncoder) -> Tensor:
    import torch

    return encoder.predict(
        [(SAMPLE, SAMPLE)],
        activation_fn=torch.nn.Identity(),
        show_progress_bar=False,
        convert_to_tensor=True,
    )


def _limited(encoder: CrossEncoder) -> int:
    """Truncate pairs to the positions that the model uses; returns the tokens of a pair.

    The limit of sentence-transformers includes positions that no token has
    (:func:`~secondpass.scorers.engines.files.skipped_positions`).
    """
    limit = encoder.max_seq_length
    longest = limit if isinstance(limit, int) else 1 << 30
    config: Any = getattr(getattr(encoder, "model", None), "config", None)
    skipped = 0 if config is None else skipped_positions(config.to_dict())
    if skipped:
        longest = min(longest, config.max_position_embeddings - skipped)
        encoder.max_seq_length = longest
    return longest


def _is_fast(device: str) -> bool:
    """Whether bfloat16 is fast on the device."""
    import torch

    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return has_fast_bfloat16()
    if device == "auto" or device.startswith("cuda"):
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    return False
