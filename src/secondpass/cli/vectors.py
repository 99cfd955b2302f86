"""Vectors of a corpus, kept in a folder between runs."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.cli.terminal import tell, warn
from secondpass.formats.files import atomic_write
from secondpass.search.embedders import NamedEmbedder, embed_in_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def cache_folder() -> Path:
    """Where this platform wants what can be made again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "secondpass"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "secondpass"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "secondpass"


class KeptVectors:
    """An embedder that keeps the vectors of many texts in a file, by a hash of them and its name.

    Args:
        embedder: makes them.
        folder: None keeps nothing.
        progress: is told how many are made, and of how many.
    """

    def __init__(
        self, embedder: NamedEmbedder, folder: Path | None, progress: Callable[[int, int], None]
    ) -> None:
        self.embedder = embedder
        self.folder = folder
        self.progress = progress

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The vectors; of one text, a query, without looking for a file."""
        if len(texts) == 1:
            return self.embedder.embed(texts)
        if self.folder is None:
            return embed_in_batches(self.embedder, texts, self.progress)
        path = self.folder / f"vectors-{_key(self.embedder.name, texts)}.npy"
        found = _read(path, len(texts))
        if found is not None:
            tell(f"vectors: {len(texts):,} texts, read from {path}")
            return found
        vectors = embed_in_batches(self.embedder, texts, self.progress)
        try:
            _keep(path, vectors)
        except OSError as error:
            warn(f"{path}: the vectors cannot be kept ({error.strerror or type(error).__name__})")
        else:
            tell(f"vectors: {len(texts):,} texts, kept in {path}")
        return vectors


def _key(name: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(name.encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw) + raw)  # so that no two lists of texts read the same
    return digest.hexdigest()[:32]


def _read(path: Path, count: int) -> NDArray[np.float32] | None:
    """The vectors in a file; None where there are none that can be used."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = isinstance(found, np.ndarray) and found.ndim == 2 and len(found) == count
    return found if fits and found.dtype == np.float32 and bool(np.isfinite(found).all()) else None


def _keep(path: Path, vectors: NDArray[np.floating[Any]]) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.save(file, vectors, allow_pickle=False)
