"""Indexes and retrievers that subcommands search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass import Candidate, InputError, MissingExtraError, ModelLoadError
from secondpass.cli.shared import fail, info, warn
from secondpass.formats.shared import StaleIndexError, atomic_write, first_few
from secondpass.types import Progress
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.embedders import NamedEmbedder, embed_in_batches
from secondpass_evaluation.search.selection import SPHINX_REASON

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass_evaluation.first_stages import Retriever
    from secondpass_evaluation.search.index import Index
    from secondpass_evaluation.search.retrieval import Mode
    from secondpass_evaluation.suites import Suite


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
    sphinx = [name for name, reason in skipped.items() if reason == SPHINX_REASON]
    if sphinx:
        info(f"left out, not pages of the Sphinx site: {', '.join(sphinx)}")
        skipped = {name: reason for name, reason in skipped.items() if reason != SPHINX_REASON}
    for name, reason in [*skipped.items()][:_MAX_SKIPPED]:
        warn(f"skipped: {name} {reason}")
    if len(skipped) > _MAX_SKIPPED:
        warn(f"skipped: {len(skipped) - _MAX_SKIPPED} more files (--json lists all)")


def read_passages(corpus: Path | None, passage_size: int) -> Path | list[Candidate] | None:
    """The passages of a folder of documents; the path of any other corpus."""
    if corpus is None or not corpus.is_dir():
        return corpus
    source = read_source(corpus, passage_size=passage_size)
    warn_of_skipped(source.skipped)
    return source.corpus


def suite_retriever(
    suite: Suite, stages: set[str], depth: int, cache: Path | None, progress: Progress
) -> Retriever | None:
    """A retriever over the corpus of a suite; None if no stage searches."""
    if suite.corpus is None or stages == {"given"}:
        return None
    from secondpass.scorers.minilm import check_installed
    from secondpass_evaluation.search.embedders import EmbeddedEmbedder
    from secondpass_evaluation.search.retrieval import HybridRetriever

    if not stages & {"vector", "hybrid"}:
        return HybridRetriever(suite.corpus, depth=depth)

    def report(done: int, total: int) -> None:
        progress("Encoding the corpus", done, total)

    try:
        check_installed()
        embedder = CachedEmbedder(EmbeddedEmbedder(), cache, report)
        retriever = HybridRetriever(suite.corpus, embedder, depth=depth)
        embedder.embed([""])  # load the model now, not during the first query
        return retriever
    except (MissingExtraError, ModelLoadError) as error:
        return _LexicalOnly(HybridRetriever(suite.corpus, depth=depth), error)


class _LexicalOnly:
    """A retriever without vectors, which raises the reason for the other modes."""

    def __init__(self, retriever: Retriever, reason: MissingExtraError | ModelLoadError) -> None:
        self.retriever = retriever
        self.reason = reason

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """Search by words."""
        if mode != "lexical":
            raise self.reason
        return self.retriever.retrieve(query, k, mode)


class IndexStage:
    """Searches an index. Passages have title and text joined, like those of a suite."""

    def __init__(self, index: Index, stages: set[str]) -> None:
        self.index = index
        embedder = index.retriever.embedder
        if embedder is not None and stages.intersection(index.modes) - {"lexical"}:
            with suppress(ModelLoadError):  # searching raises it again
                embedder.embed([""])  # load the model now, not during the first query

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best passages."""
        from secondpass_evaluation.suites import with_title

        if mode not in self.index.modes:
            if self.index.manifest["embedder"] is not None:
                raise MissingExtraError("embedded", "searching by vectors")
            raise InputError(f"{self.index.folder}: the index has no vectors")
        return [with_title(candidate) for candidate in self.index.retrieve(query, k, mode)]


class CachedEmbedder:
    """Caches the vectors of a list of texts in a file, named by a hash of texts and embedder."""

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
