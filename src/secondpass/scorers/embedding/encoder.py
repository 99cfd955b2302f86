"""Encoders of texts that are installed by pip, run by OpenVINO or onnxruntime.

A model is a subclass of :class:`Encoder`, which has all that models share: the batches, the
runtimes, and what becomes of the states of tokens.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from secondpass.concurrency.lazy import is_installed, require
from secondpass.concurrency.processor import usable_cpus
from secondpass.concurrency.sharing import shared
from secondpass.concurrency.workers import in_threads
from secondpass.errors import MissingExtraError, ModelLoadError
from secondpass.scorers.batching.batches import by_length
from secondpass.scorers.embedding.bert_graph import WIDTH
from secondpass.scorers.runtimes.runtime import (
    MODULES,
    Backend,
    Precision,
    Runtime,
    backends_by_speed,
    is_reduced,
    open_runtime,
    why_chosen,
)
from secondpass.types import Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = WIDTH
MAX_TOKENS = 512
"""Positions of the models, including special tokens."""

Choice: TypeAlias = Literal["auto", "onnx", "openvino"]
Kind: TypeAlias = Literal["query", "passage"]

_BUDGETS: dict[Backend, int] = {"openvino": 1024, "onnx": 512}
"""Padded tokens of a batch: the fastest of 512, 1,024, 2,048 and one text (docs/evidence.md)."""


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
        content: marks content tokens, bool, shape (tokens,): no special token, no token of a
            prefix, none of punctuation only. All are marked if a text has no content token.
        ids: the tokens' numbers in the vocabulary, int64, shape (tokens,).
        readable: marks content tokens that are in the vocabulary, bool, shape (tokens,).
    """

    states: NDArray[np.float32]
    content: NDArray[np.bool_]
    ids: NDArray[np.int64]
    readable: NDArray[np.bool_]


class Encoder(ABC):
    """A model, loaded.

    Args:
        max_tokens: 8 to 512; longer texts are truncated, without tokenizing all of them.
        threads: number of batches that are encoded concurrently; None is the number of available
            CPUs.
        backend: ``auto`` is the faster of those that are installed, on this processor.
        precision: ``exact`` is float32; ``auto`` is bfloat16 with OpenVINO on a processor that has
            fast bfloat16.

    Raises:
        MissingExtraError: the packages of the extra, or the backend, are not installed.
        ModelLoadError: the model file is not the expected one.

    Texts are encoded in batches of similar length. The states of a text differ by less than 1e-5
    between batches; with bfloat16, by its rounding errors. Safe for use from many threads, and
    after a fork.

    Attributes:
        backend: the runtime in use, and ``reason``: why.
        budget: padded tokens of a batch.
    """

    name: ClassVar[str]
    extra: ClassVar[str]
    """The extra that installs the model."""
    package: ClassVar[str]
    """The package that has its file."""
    distribution: ClassVar[str]
    """What installs the package, with its version."""
    file: ClassVar[str]
    sha256: ClassVar[str]
    needed_for: ClassVar[str]
    unrelated: ClassVar[float] = 0.0
    """The lowest cosine that embeddings of two texts usually have."""

    def __init__(
        self,
        *,
        max_tokens: int = MAX_TOKENS,
        threads: int | None = None,
        backend: Choice = "auto",
        precision: Precision = "exact",
    ) -> None:
        self.check_installed(backend)
        self.threads = threads or usable_cpus()
        self.backend, self.reason = choose_backend(backend, precision, self.extra, self.needed_for)
        self.budget = _BUDGETS[self.backend]
        self._precision: Precision = precision
        self._max_tokens = max_tokens
        try:
            self._read_vocabulary()
        except ImportError as error:
            raise MissingExtraError(self.extra, self.needed_for) from error
        # Models with other settings, such as that of an index, read with the same weights.
        settings = self.backend, is_reduced(self.backend, precision), self.threads
        self._lazy = shared((self.sha256, *settings))
        self._lazy.retry(self._open)

    @classmethod
    def check_installed(cls, backend: Choice = "auto") -> None:
        """Raise MissingExtraError if the packages are not installed; imports nothing."""
        require(["tokenizers", "numpy", cls.package], cls.extra, cls.needed_for)
        choose_backend(backend, extra=cls.extra, needed_for=cls.needed_for)

    @classmethod
    @abstractmethod
    def identity(cls) -> str:
        """A digest of what token states depend on, besides rounding: weights and vocabulary."""

    @abstractmethod
    def shortened(self, text: str) -> str:
        """A text cut to what its first ``max_tokens`` tokens need, and one word more."""

    @abstractmethod
    def pieces_before(self, text: str, pieces: Sequence[Piece]) -> list[Piece]:
        """Convert pieces of a text after it was shortened to those of the text."""

    @abstractmethod
    def tokens(self, shortened: str, kind: Kind, /) -> Tokens:
        """The tokens of a text that was shortened, with special tokens."""

    def tokenize(self, text: str, kind: Kind = "passage") -> Tokens:
        """The tokens of a text, with special tokens."""
        return self.tokens(self.shortened(text), kind)

    @abstractmethod
    def _read_vocabulary(self) -> None:
        """Make what :meth:`shortened`, :meth:`tokens` and :meth:`_inputs` need."""

    @abstractmethod
    def _graph(self) -> bytes:
        """The model, as an ONNX file."""

    @abstractmethod
    def _inputs(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Mapping[str, Any]:
        """The inputs of the graph for padded rows of tokens."""

    @abstractmethod
    def _content(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The content tokens of a text, and those of them that are in the vocabulary."""

    def _runtime(self) -> Runtime:
        runtime: Runtime = self._lazy.get(self._open)
        return runtime

    def _open(self) -> Runtime:
        import numpy as np

        runtime = open_runtime(
            self._graph(), self.backend, precision=self._precision, threads=self.threads
        )
        ids = np.zeros((1, 2), dtype=np.int64)
        runtime.run(self._inputs(ids, np.ones_like(ids)))  # what a first inference sets up
        return runtime

    @property
    def precision(self) -> str:
        """The precision of matrix products: ``float32`` or ``bfloat16``."""
        return self._runtime().precision

    @property
    def version(self) -> str:
        """The version of the runtime."""
        return self._runtime().version

    def encode_batch(self, texts: Sequence[Tokens]) -> list[Encoding]:
        """The token states of tokenized texts, in one call of the model."""
        import numpy as np

        rows = [text.ids for text in texts]
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        states = self._runtime().run(self._inputs(ids, mask))
        encodings = []
        for row, tokens in enumerate(rows):
            content, readable = self._content(tokens)
            content = content if content.any() else np.ones_like(content)
            encodings.append(Encoding(states[row, : len(tokens)], content, tokens, readable))
        return encodings

    def encode(self, text: str, kind: Kind = "passage") -> Encoding:
        """The token states of one text."""
        return self.encode_batch([self.tokenize(text, kind)])[0]

    def embed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Sentence embeddings, float32, shape (texts, 384); rows have length 1.

        The mean of the token states, as in the model's training.
        """
        import numpy as np

        means = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        tokens = [self.tokenize(text, kind) for text in texts]
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

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The embedding of a query, for comparison with those of :meth:`embed`; shape (384,)."""
        row: NDArray[np.float32] = self.embed([text], "query")[0]
        return row

    @classmethod
    def _file(cls) -> bytes:
        """The content of the model file, whose digest is checked."""
        spec = find_spec(cls.package)
        if spec is None or spec.origin is None:
            raise MissingExtraError(cls.extra, cls.needed_for)
        try:
            data = (Path(spec.origin).parent / cls.file).read_bytes()
        except OSError as error:
            raise ModelLoadError(
                f"{cls.needed_for} cannot be read ({type(error).__name__})"
            ) from None
        if hashlib.sha256(data).hexdigest() != cls.sha256:
            raise ModelLoadError(
                f"{cls.needed_for} is not the expected file; reinstall {cls.distribution}"
            )
        return data


def choose_backend(
    choice: Choice,
    precision: Precision = "auto",
    extra: str = "embedded",
    needed_for: str = "the embedded model",
) -> tuple[Backend, str]:
    """The runtime for a setting, and why; MissingExtraError if it is not installed."""
    backend: Backend = "onnx" if choice == "auto" else choice
    reason = "the backend is set"
    installed = [name for name in backends_by_speed() if is_installed(MODULES[name])]
    if choice == "auto" and installed:
        backend = installed[0]
        reason = why_chosen(backend, "bfloat16" if is_reduced(backend, precision) else "float32")
    require([MODULES[backend]], extra if backend == "onnx" else "openvino", needed_for)
    return backend, reason


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors along the last axis, scaled to length 1; zero vectors stay zero."""
    import numpy as np

    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = rows / np.maximum(length, np.float32(1e-12))
    return scaled
