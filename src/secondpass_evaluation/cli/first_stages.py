"""Indexes and retrievers that subcommands search."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass import Candidate
from secondpass.cli.console import fail, info, warn
from secondpass.formats.files import atomic_write
from secondpass.settings import counted
from secondpass_evaluation.errors import StaleIndexError, first_few
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.embedders import Embedder, embed_query
from secondpass_evaluation.search.index_files import write_array
from secondpass_evaluation.search.selection import SITE_REASON

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass_evaluation.search.index import Index

_MAX_SKIPPED = 10
"""Skipped files to print."""


def open_for_search(folder: Path, depth: int, *, stale_ok: bool) -> Index:
    """Open an index; exits if it is stale and ``stale_ok`` is not set."""
    from secondpass_evaluation.search.index import open_index

    try:
        index = open_index(folder, stale_ok=stale_ok, depth=depth)
    except StaleIndexError as error:
        fail(f"{error}. To search it as it is, use --stale-ok")
    if index.changes:
        warn(f"{folder}: searching a stale index: {first_few(index.changes)}")
    return index


def warn_of_skipped(skipped: Mapping[str, str]) -> None:
    """Warn of the files that were skipped, up to a limit."""
    no_pages = [name for name, reason in skipped.items() if reason == SITE_REASON]
    if no_pages:
        info(f"left out, not pages of the website: {first_few(no_pages)}")
        skipped = {name: reason for name, reason in skipped.items() if reason != SITE_REASON}
    for name, reason in [*skipped.items()][:_MAX_SKIPPED]:
        warn(f"skipped: {name} {reason}")
    if len(skipped) > _MAX_SKIPPED:
        warn(f"skipped: {counted(len(skipped) - _MAX_SKIPPED, 'more file')} (--json lists all)")


def read_passages(corpus: Path | None, passage_size: int) -> Path | list[Candidate] | None:
    """The passages of a folder of documents; the path of any other corpus."""
    if corpus is None or not corpus.is_dir():
        return corpus
    source = read_source(corpus, passage_size=passage_size)
    warn_of_skipped(source.skipped)
    return source.corpus


class CachedEmbedder:
    """Caches the vectors of a list of texts in a file, named by a hash of texts and embedder.

    A single text, such as a query, is not cached.
    """

    def __init__(self, embedder: Embedder, name: str, folder: Path) -> None:
        self.embedder = embedder
        self.name = name
        self.folder = folder

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The vectors of the texts."""
        if len(texts) == 1:
            return self.embedder.embed(texts)
        path = self.folder / f"vectors-{_hash(self.name, texts)}.npy"
        cached = _read(path, len(texts))
        if cached is not None:
            info(f"vectors: {counted(len(texts), 'text')}, read from {path}")
            return cached
        vectors = self.embedder.embed(texts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                write_array(file, vectors)
        except OSError as error:
            warn(f"{path}: cannot cache the vectors ({error.strerror or type(error).__name__})")
        else:
            info(f"vectors: {counted(len(texts), 'text')}, cached in {path}")
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query."""
        return embed_query(self.embedder, text)


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


@contextmanager
def saying_how_to_go_on() -> Iterator[None]:
    """Say after Ctrl-C that what was stored stays."""
    try:
        yield
    except KeyboardInterrupt:
        info("the passages that were encoded are stored; the same command goes on with the others")
        raise
