"""An index in a folder: passages, BM25 and vectors, kept between searches.

The folder holds ``secondpass-index.json``, the manifest, and one folder of parts that the manifest
names. Parts are made under a new name; then the manifest is replaced in one step; then the old
parts go. So whoever opens the folder finds the old index or the new one, whole, and so does who
comes after a kill or a crash. Nothing is pickled.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from secondpass.candidates import kind_of
from secondpass.errors import InputError, SecondPassError
from secondpass.formats.errors import IndexFaultError, StaleIndexError, few
from secondpass.formats.lines import AnyPath
from secondpass.search.documents import (
    PASSAGE_SIZE,
    Progress,
    changes,
    corpus_file,
    read_source,
)
from secondpass.search.embedders import NamedEmbedder, default_embedder, in_blocks
from secondpass.search.index_files import (
    FORMAT,
    FORMAT_VERSION,
    LOCK,
    MANIFEST,
    check_parts,
    check_place,
    files_of,
    load_parts,
    locked,
    read_manifest,
    renewal,
    sweep,
    write_manifest,
    write_parts,
)
from secondpass.search.retrieval import Embedder, HybridRetriever, Mode, searched
from secondpass.types import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Built:
    """What building an index did.

    Attributes:
        folder: the index.
        made: False where the source was unchanged, and so the index was left as it is.
        files: how many files of the source are in it.
        passages: how many passages it has.
        vectors: how many vectors, one for each distinct text.
        kept: how many of those were taken from the index that was there before.
        embedder: the name of what made them; None where words alone are indexed.
        skipped: files of which nothing is in it, and why.
        seconds: how long it took.
    """

    folder: Path
    made: bool
    files: int
    passages: int
    vectors: int
    kept: int
    embedder: str | None
    skipped: Mapping[str, str]
    seconds: float


class Index:
    """An index that was opened: a retriever.

    Attributes:
        folder: where it is.
        manifest: what it says of itself.
        changes: what has changed in its source since, if it was opened though it is stale.
        corpus: the passages, read from the file as they are needed.
        modes: what it can be asked for; without its embedder only ``lexical``.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        retriever: HybridRetriever,
        changes: Sequence[str],
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.changes = tuple(changes)
        self.retriever = retriever

    @property
    def corpus(self) -> Sequence[Candidate]:
        return self.retriever.corpus

    @property
    def modes(self) -> tuple[Mode, ...]:
        return self.retriever.modes

    def retrieve(
        self, query: str, k: int, mode: Mode = "hybrid", rrf_k: float = 60
    ) -> list[Candidate]:
        """The best ``k`` passages, as :meth:`HybridRetriever.retrieve` finds them.

        Raises:
            InputError: an argument out of range, or vectors are needed and there are none.
        """
        return self.retriever.retrieve(query, k, mode, rrf_k)

    def __repr__(self) -> str:
        return f"<Index {str(self.folder)!r}, {len(self.corpus)} passages>"


# ---------------------------------------------------------------------- making


def build(
    source: AnyPath,
    folder: AnyPath,
    embedder: NamedEmbedder | None = None,
    *,
    passage_size: int = PASSAGE_SIZE,
    force: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Index a folder of documents, or a corpus, into a folder.

    An index that is there is replaced when the new one is whole, and left as it is where the source
    and the settings are unchanged. Vectors of texts that it has already are taken from it.

    Args:
        source: see :func:`~secondpass.search.documents.read_source`.
        folder: new, empty, or an index.
        embedder: makes the vectors; None indexes words alone.
        passage_size: characters of a passage, at most.
        force: make everything anew, whatever is there.
        progress: told how far it is.

    Raises:
        FormatError: a line of the source is malformed.
        IndexFaultError: the source holds no passage; the folder holds something else; or another
            process indexes into it just now.
        InputError: an argument is wrong.
        MissingExtraError: bm25s or numpy is not installed.
        OSError: a file cannot be read or written.
    """
    started = time.perf_counter()
    source, folder = Path(source), Path(folder)
    if embedder is not None and not isinstance(embedder, NamedEmbedder):
        raise InputError(f"embedder: needs a 'name' and 'embed', not {kind_of(embedder)}")
    check_place(folder)
    old = _old(folder, embedder)
    if old is not None and not force and _is_of(old, source, embedder, passage_size):
        if len(os.listdir(folder)) > len({MANIFEST, LOCK, old.manifest["folder"]}):
            with suppress(IndexFaultError), locked(folder):
                sweep(folder)
        return _built(old, made=False, kept=old.manifest["counts"]["vectors"], started=started)

    read = read_source(source, passage_size=passage_size, without=folder, progress=progress)
    if not read.corpus:
        told = f" ({len(read.skipped)} files skipped: {few(read.skipped)})" if read.skipped else ""
        raise IndexFaultError(str(source), f"holds no text to index{told}")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        with suppress(IndexFaultError):
            sweep(folder)  # or what killed processes have left would fill the disk
        vectors = _Vectors(embedder, {} if force else _known(old, embedder), progress)
        draft = folder / f"parts-{uuid4().hex}"
        try:
            draft.mkdir()
            retriever = _made(read.corpus, vectors if embedder else None, progress)
            parts = write_parts(draft, retriever.parts)
            manifest = {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "source": {
                    "path": str(source.resolve()),
                    "passage_size": passage_size,
                    "files": {name: list(file) for name, file in read.files.items()},
                },
                "embedder": embedder.name if embedder else None,
                "counts": {
                    "files": len(read.files) - len(read.skipped),
                    "passages": len(read.corpus),
                    "vectors": vectors.made + vectors.kept,
                },
                "folder": draft.name,
                "parts": parts,
            }
            write_manifest(folder, manifest)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    (folder / LOCK).unlink()
                    folder.rmdir()
            raise
        sweep(folder)
    made = Index(folder, manifest, retriever, ())
    return _built(made, made=True, kept=vectors.kept, started=started)


class _Vectors:
    """An embedder that tells how far it is, and takes from an older index what that has."""

    def __init__(
        self,
        embedder: Embedder | None,
        known: Mapping[str, NDArray[np.float32]],
        progress: Progress | None,
    ) -> None:
        self._embedder = embedder
        self._known = known
        self._progress = progress
        self.made = self.kept = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        import numpy as np

        assert self._embedder is not None
        new = [text for text in texts if text not in self._known]
        self.made, self.kept = len(new), len(texts) - len(new)
        if self._progress is not None:
            self._progress("indexing words", 1, 1)
        made = iter(in_blocks(self._embedder, new, self._told) if new else ())
        return np.stack([self._known[t] if t in self._known else next(made) for t in texts])

    def _told(self, done: int, of: int) -> None:
        if self._progress is not None:
            self._progress("encoding passages", done, of)


def in_memory(
    corpus: Sequence[Candidate],
    embedder: Embedder | None = None,
    *,
    depth: int = 100,
    progress: Progress | None = None,
) -> HybridRetriever:
    """A retriever that is kept nowhere, and tells how far it is while it is made."""
    vectors = _Vectors(embedder, {}, progress) if embedder is not None else None
    return HybridRetriever.from_parts(_made(corpus, vectors, progress).parts, embedder, depth=depth)


def _made(
    corpus: Sequence[Candidate], vectors: _Vectors | None, progress: Progress | None
) -> HybridRetriever:
    if progress is not None:  # nobody knows how far bm25s is
        progress("indexing words", 0, None)
    retriever = HybridRetriever(corpus, vectors)
    if progress is not None and vectors is None:
        progress("indexing words", 1, 1)
    return retriever


def _old(folder: Path, embedder: NamedEmbedder | None) -> Index | None:
    """The index that is there, if it is whole."""
    try:
        return _opened(folder, embedder, check_source=False)
    except (IndexFaultError, OSError):
        return None


def _is_of(old: Index, source: Path, embedder: NamedEmbedder | None, passage_size: int) -> bool:
    kept = old.manifest["source"]
    size_matters = corpus_file(source) is None
    return (
        kept["path"] == str(source.resolve())
        and (kept["passage_size"] == passage_size or not size_matters)
        and old.manifest["embedder"] == (embedder.name if embedder else None)
        and not any(changes(source, files_of(old.manifest), old.folder))
    )


def _known(old: Index | None, embedder: NamedEmbedder | None) -> dict[str, NDArray[np.float32]]:
    """The vectors of an older index by their texts."""
    if old is None or embedder is None or old.manifest["embedder"] != embedder.name:
        return {}
    parts = old.retriever.parts
    if parts.vectors is None:
        return {}
    texts = searched(parts.corpus)
    return {text: parts.vectors[row] for text, row in zip(texts, parts.row_of, strict=True)}


def _built(index: Index, *, made: bool, kept: int, started: float) -> Built:
    manifest = index.manifest
    return Built(
        folder=index.folder,
        made=made,
        files=manifest["counts"]["files"],
        passages=manifest["counts"]["passages"],
        vectors=manifest["counts"]["vectors"],
        kept=kept,
        embedder=manifest["embedder"],
        skipped={name: file.skipped for name, file in files_of(manifest).items() if file.skipped},
        seconds=time.perf_counter() - started,
    )


# ---------------------------------------------------------------------- opening


def open_index(
    folder: AnyPath,
    embedder: NamedEmbedder | None = None,
    *,
    stale_ok: bool = False,
    depth: int = 100,
) -> Index:
    """Open an index, with every part checked against its checksum.

    Args:
        folder: that of :func:`build`.
        embedder: that of :func:`build`; None takes the embedded model where that made the index,
            and is installed. Where it is not, the only mode is ``lexical``.
        stale_ok: serve an index whose source has changed since; ``changes`` says what.
        depth: how many of each list the mode ``hybrid`` fuses.

    Returns:
        The index. Its large parts are mapped into memory rather than read.

    Raises:
        StaleIndexError: its source has changed, and ``stale_ok`` is not set.
        IndexFaultError: it is no index, not whole, of another format, or of another embedder.
        InputError: the depth is out of range.
        MissingExtraError: bm25s or numpy is not installed.
        FileNotFoundError: there is no such folder.
    """
    folder = Path(folder)
    while True:
        before = _bytes(folder / MANIFEST)
        try:
            return _opened(folder, embedder, check_source=True, stale_ok=stale_ok, depth=depth)
        except IndexFaultError:
            # Another process may have renewed it between the manifest and its parts.
            if _bytes(folder / MANIFEST) == before:
                raise


def _opened(
    folder: Path,
    embedder: NamedEmbedder | None,
    *,
    check_source: bool,
    stale_ok: bool = False,
    depth: int = 100,
) -> Index:
    manifest = read_manifest(folder)
    renew = renewal(folder, manifest)
    check_parts(folder, manifest, renew)
    name = manifest["embedder"]
    if embedder is None and name is not None and check_source:
        embedder = default_embedder()
        if embedder is not None and embedder.name != name:
            told = f"its vectors were made by another embedder ({name}), which has to be given"
            raise IndexFaultError(str(folder), told, renew)
    if check_source and embedder is not None and name is not None and embedder.name != name:
        told = f"its vectors were made by another embedder: {name}, not {embedder.name}"
        raise IndexFaultError(str(folder), told, renew)
    found: list[str] = []
    if check_source:
        found = list(changes(Path(manifest["source"]["path"]), files_of(manifest), folder))
        if found and not stale_ok:
            raise StaleIndexError(str(folder), found, renew)
    try:
        parts = load_parts(folder / manifest["folder"], manifest)
    except (SecondPassError, MemoryError):
        raise
    except Exception as error:  # bm25s of another version may raise anything
        told = f"cannot be loaded ({type(error).__name__}); bm25s may be of another version"
        raise IndexFaultError(str(folder), told, renew) from error
    retriever = HybridRetriever.from_parts(parts, embedder, depth=depth)
    return Index(folder, manifest, retriever, found)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
