"""Embedders whose vectors can be kept."""

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

_TEXTS_AT_A_TIME = 64


@runtime_checkable
class NamedEmbedder(Embedder, Protocol):
    """An embedder whose vectors can be kept: the same name has to mean the same vectors."""

    name: str


def in_blocks(
    embedder: Embedder, texts: Sequence[str], told: Callable[[int, int], None]
) -> NDArray[np.floating[Any]]:
    """The vectors of texts, some at a time; ``told`` how many are made, and of how many."""
    import numpy as np

    if not texts:
        return embedder.embed([])
    blocks = []
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        told(start, len(texts))
        blocks.append(embedder.embed(texts[start : start + _TEXTS_AT_A_TIME]))
    told(len(texts), len(texts))
    return np.concatenate(blocks)


class EmbeddedEmbedder:
    """The embedded model, loaded when it is first asked.

    Args:
        max_tokens: longer texts are cut. Passages of 1,000 characters rarely have more than 256.
    """

    def __init__(self, max_tokens: int = 256) -> None:
        from secondpass.scorers.minilm import MODEL_NAME

        self.name = f"{MODEL_NAME}, {max_tokens} tokens"
        self._model: Lazy[MiniLM] = Lazy(lambda: _minilm(max_tokens))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1, shape ``(len(texts), 384)``."""
        return self._model.get().embed(texts)


def default_embedder() -> EmbeddedEmbedder | None:
    """The embedded model; None where the extra ``embedded`` is not installed."""
    from secondpass.scorers.minilm import check_installed

    try:
        check_installed()
    except MissingExtraError:
        return None
    return EmbeddedEmbedder()


def _minilm(max_tokens: int) -> MiniLM:
    from secondpass.scorers.minilm import MiniLM

    return MiniLM(max_tokens=max_tokens)
