"""Vectors of a corpus, cached in a folder between runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.cli.console import info, warn
from secondpass.formats.files import atomic_write
from secondpass_evaluation.search.embedders import NamedEmbedder, embed_in_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CachedEmbedder:
    """Caches the vectors of a list of texts in a file, named by a hash of texts and embedder.

    Args:
        embedder: computes the vectors.
        folder: the cache; None: no cache.
        progress: called with the number of vectors done, and the total.
    """

    def __init__(
        self, embedder: NamedEmbedder, folder: Path | None, progress: Callable[[int, int], None]
    ) -> None:
        self.embedder = embedder
        self.folder = folder
        self.progress = progress

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The vectors of the texts. A single text, such as a query, is not cached."""
        if len(texts) == 1:
            return self.embedder.embed(texts)
        if self.folder is None:
            return embed_in_batches(self.embedder, texts, self.progress)
        path = self.folder / f"vectors-{_hash(self.embedder.name, texts)}.npy"
        cached = _read(path, len(texts))
        if cached is not None:
            info(f"vectors: {len(texts):,} texts, read from {path}")
            return cached
        vectors = embed_in_batches(self.embedder, texts, self.progress)
        try:
            _write(path, vectors)
        except OSError as error:
            warn(f"{path}: cannot cache the vectors ({error.strerror or type(error).__name__})")
        else:
            info(f"vectors: {len(texts):,} texts, cached in {path}")
        return vectors


def _hash(name: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(name.encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw) + raw)  # with lengths, so that no two lists hash the same
    return digest.hexdigest()[:32]


def _read(path: Path, count: int) -> NDArray[np.float32] | None:
    """The vectors in a file; None if they are missing or broken."""
    import numpy as np

    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or len(vectors) != count:
        return None
    return vectors if vectors.dtype == np.float32 and bool(np.isfinite(vectors).all()) else None


def _write(path: Path, vectors: NDArray[np.floating[Any]]) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.save(file, vectors, allow_pickle=False)
