"""Embedders, those with a name, whose vectors can be stored, and the embedded model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from secondpass import InputError, MissingExtraError
from secondpass.concurrency.lazy import Lazy
from secondpass.types import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass.scorers.minilm import MiniLM

_BATCH, _BATCH_CHARACTERS = 64, 12_000
"""Texts and characters per call: less than a second on two cores, for regular progress reports."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Vectors of shape ``(len(texts), dimensions)``; each row has length 1."""
        ...


@runtime_checkable
class NamedEmbedder(Embedder, Protocol):
    """An embedder with a name. Embedders with the same name return the same vectors."""

    name: str


def embed_checked(embedder: Embedder, texts: list[str]) -> NDArray[np.float32]:
    """Embed texts, and check the vectors."""
    import numpy as np

    vectors: NDArray[np.float32] = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"embedder: must return vectors of shape ({len(texts)}, d), not {vectors.shape}"
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1) < 0.01):  # also if a length is NaN
        raise InputError("embedder: every vector must have length 1")
    return vectors


def embed_in_batches(
    embedder: Embedder, texts: Sequence[str], progress: Callable[[int, int], None]
) -> NDArray[np.floating[Any]]:
    """Embed texts batch by batch; ``progress`` is called with the number done and the total."""
    import numpy as np

    if not texts:
        return embedder.embed([])
    # Texts of similar length together: a batch is padded to its longest.
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    vectors, done = [], 0
    while done < len(order):
        progress(done, len(order))
        fitting = _BATCH_CHARACTERS // max(1, len(texts[order[done]]))
        batch = order[done : done + max(1, min(_BATCH, fitting))]
        vectors.append(embedder.embed([texts[index] for index in batch]))
        done += len(batch)
    progress(done, len(order))
    return np.concatenate(vectors)[np.argsort(order)]


class CorpusEmbedder:
    """Embeds a corpus in batches, with progress; a single text, such as a query, without."""

    def __init__(self, embedder: Embedder, progress: Progress) -> None:
        self.embedder = embedder
        self.progress = progress

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        if len(texts) == 1:
            return self.embedder.embed(texts)
        return embed_in_batches(self.embedder, texts, self._report)

    def _report(self, done: int, count: int) -> None:
        self.progress("Encoding the corpus", done, count)


class EmbeddedEmbedder:
    """The embedded model, loaded on first use.

    It runs in float32, so that stored vectors do not depend on runtime and processor, except for
    rounding.
    """

    def __init__(self, max_tokens: int = 256) -> None:
        from secondpass.scorers.minilm import MODEL_NAME

        self.name = f"{MODEL_NAME}, {max_tokens} tokens"
        self._max_tokens = max_tokens
        self._model: Lazy[MiniLM] = Lazy()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1; shape ``(len(texts), 384)``."""
        return self._model.get(lambda: _load(self._max_tokens)).embed(texts)


def default_embedder() -> EmbeddedEmbedder | None:
    """The embedded model; None if the extra ``embedded`` is not installed."""
    from secondpass.scorers.minilm import check_installed

    try:
        check_installed()
    except MissingExtraError:
        return None
    return EmbeddedEmbedder()


def _load(max_tokens: int) -> MiniLM:
    from secondpass.scorers.minilm import MiniLM

    return MiniLM(max_tokens=max_tokens, precision="exact")
