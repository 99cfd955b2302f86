"""Embedders with a name, so that their vectors can be stored, and the embedded model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from secondpass.concurrency.lazy import Lazy
from secondpass.errors import MissingExtraError
from secondpass.search.retrieval import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass.scorers.minilm import MiniLM

_BATCH = 64
"""Texts per call, so that progress can be reported."""


@runtime_checkable
class NamedEmbedder(Embedder, Protocol):
    """An embedder with a name. Embedders with the same name return the same vectors."""

    name: str


def embed_in_batches(
    embedder: Embedder, texts: Sequence[str], progress: Callable[[int, int], None]
) -> NDArray[np.floating[Any]]:
    """Embed texts batch by batch; ``progress`` is called with the number done and the total."""
    import numpy as np

    if not texts:
        return embedder.embed([])
    batches = []
    for start in range(0, len(texts), _BATCH):
        progress(start, len(texts))
        batches.append(embedder.embed(texts[start : start + _BATCH]))
    progress(len(texts), len(texts))
    return np.concatenate(batches)


class EmbeddedEmbedder:
    """The embedded model, loaded on first use.

    It runs in float32, so that stored vectors are the same, but for rounding, whatever runtime and
    processor made them.

    Args:
        max_tokens: longer texts are truncated. Passages of 1,000 characters rarely have more than
            256.
    """

    def __init__(self, max_tokens: int = 256) -> None:
        from secondpass.scorers.minilm import MODEL_NAME

        self.name = f"{MODEL_NAME}, {max_tokens} tokens"
        self._model: Lazy[MiniLM] = Lazy(lambda: _load(max_tokens))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1; shape ``(len(texts), 384)``."""
        return self._model.get().embed(texts)


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
