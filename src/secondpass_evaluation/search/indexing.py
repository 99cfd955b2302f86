"""Build an index in a folder, with progress."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from secondpass import InputError
from secondpass.formats.files import naming
from secondpass.formats.lines import AnyPath
from secondpass.ranking.candidates import kind_of
from secondpass.ranking.words import WORDS_VERSION
from secondpass.settings.arguments import explained
from secondpass.types import Progress, no_progress
from secondpass_evaluation.errors import IndexFaultError, first_few
from secondpass_evaluation.search.documents import (
    READER_VERSION,
    Source,
    changes,
    corpus_file,
    read_source,
)
from secondpass_evaluation.search.embedders import NamedEmbedder, embed_in_batches
from secondpass_evaluation.search.index import Index, open_existing
from secondpass_evaluation.search.index_files import (
    FORMAT,
    FORMAT_VERSION,
    LOCK,
    check_folder,
    index_lock,
    remove_leftovers,
    source_files,
    write_manifest,
    write_parts,
)
from secondpass_evaluation.search.passages import PASSAGE_SIZE
from secondpass_evaluation.search.retrieval import HybridRetriever, search_texts
from secondpass_evaluation.search.selection import (
    MANIFEST,
    UNFINISHED,
    Selection,
    selection_by,
    selection_of,
)
from secondpass_evaluation.search.stored import STORE_FILES
from secondpass_evaluation.search.unfinished import read_unfinished, write_unfinished

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Built:
    """The result of :func:`build_index`.

    Attributes:
        made: False if the source was unchanged, so that the index was not rebuilt.
        vectors: number of vectors, one for each distinct text.
        kept: number of vectors that were reused from the previous index.
        embedder: name of the embedder; None for an index without vectors.
        skipped: files that are not in the index, and why.
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


@explained()
def build_index(
    source: AnyPath,
    folder: AnyPath,
    embedder: NamedEmbedder | None = None,
    *,
    passage_size: int = PASSAGE_SIZE,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Index documents, or a corpus, into a folder.

    An existing index is replaced atomically when the new one is complete; it is left as it is if
    source and settings are unchanged. Vectors of unchanged texts are reused. A build that is
    interrupted leaves the vectors that it has made, and the next one goes on with them.

    Args:
        source: see :func:`~secondpass_evaluation.search.documents.read_source`.
        folder: a new or empty folder, or an index.
        embedder: embeds the passages; None builds an index without vectors.
        passage_size: maximum number of characters in a passage.
        include: patterns of the files to read; without any, all files are read.
        exclude: patterns of files and folders to leave out. Both are described in
            :class:`~secondpass_evaluation.search.selection.Selection`, and stored in the index.
        force: rebuild everything, and reuse nothing.
        progress: called as the build advances.

    Raises:
        FormatError: a line of the source is malformed.
        IndexFaultError: the source has no text, the folder has other files, or another process is
            building the index.
        InputError: an argument is wrong, or the source is an index or inside of one.
        MissingExtraError: a package of the extra ``evaluation`` is not installed.
        OSError: a file cannot be read or written.
    """
    started = time.perf_counter()
    source, folder = Path(source), Path(folder)
    if embedder is not None and not isinstance(embedder, NamedEmbedder):
        raise InputError(f"embedder: needs a 'name' and 'embed', not {kind_of(embedder)}")
    selection = selection_by(include, exclude)
    check_folder(folder)
    report = progress or no_progress
    has_folder = folder.exists()
    if has_folder:
        report("checking the index", 0, None)
    old = open_existing(folder, embedder)
    is_current = (
        old is not None
        and not force
        and _is_current(old, source, embedder, passage_size, selection)
    )
    if has_folder:
        report("checking the index", 1, 1)
    if old is not None and is_current:
        own_files = {MANIFEST, LOCK, UNFINISHED, old.manifest["folder"], *STORE_FILES}
        if {*os.listdir(folder)} - own_files:
            with suppress(IndexFaultError), index_lock(folder):
                remove_leftovers(folder)
        kept = old.manifest["counts"]["vectors"]
        return _summary(folder, old.manifest, made=False, kept=kept, started=started)

    read = read_source(source, passage_size=passage_size, selection=selection, progress=report)
    if not read.corpus:
        raise _no_text_error(read, selection)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with index_lock(folder):
        with suppress(IndexFaultError):
            remove_leftovers(folder)  # before more is written, or repeated kills fill the disk
        known = {} if force else _vectors_by_text(old, embedder)
        unfinished = {} if force else read_unfinished(folder, embedder, search_texts(read.corpus))
        vectors = _Vectors(embedder, {**unfinished, **known}, report)
        parts_folder = folder / f"parts-{uuid4().hex}"
        try:
            parts_folder.mkdir()
            report("indexing words", 0, None)  # bm25s reports no progress
            retriever = HybridRetriever(read.corpus, vectors if embedder else None)
            report("indexing words", 1, 1)
            report("writing the index", 0, None)
            with _naming_arrays(folder), naming(folder):
                parts = write_parts(parts_folder, retriever.parts)
            manifest = {
                **_about_source(read, passage_size, selection),
                "embedder": embedder.name if embedder else None,
                "counts": {
                    "files": len(read.files) - len(read.skipped),
                    "passages": len(read.corpus),
                    "vectors": vectors.made + vectors.kept,
                },
                "folder": parts_folder.name,
                "parts": parts,
            }
            write_manifest(folder, manifest)
            report("writing the index", 1, 1)
        except BaseException:
            shutil.rmtree(parts_folder, ignore_errors=True)
            _keep_or_remove(folder, embedder, {**unfinished, **vectors.new}, is_new=is_new)
            raise
        remove_leftovers(folder)
        (folder / UNFINISHED).unlink(missing_ok=True)
    return _summary(folder, manifest, made=True, kept=vectors.kept, started=started)


def _no_text_error(read: Source, selection: Selection) -> IndexFaultError:
    skipped = first_few([f"{name} {why}" for name, why in read.skipped.items()])
    noun = "file" if len(read.skipped) == 1 else "files"
    reason = f" ({len(read.skipped)} {noun} skipped: {skipped})" if skipped else ""
    if not read.files and selection.include:
        patterns = " or ".join(map(repr, selection.include))
        return IndexFaultError(str(read.path), f"has no file that matches {patterns}")
    return IndexFaultError(str(read.path), f"has no text to index{reason}")


def _about_source(read: Source, passage_size: int, selection: Selection) -> dict[str, Any]:
    """The part of a manifest that says what was read, and by which rules."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "words": WORDS_VERSION,
        "source": {
            "path": str(read.path.resolve()),
            "passage_size": passage_size,
            "reader": READER_VERSION,
            "include": list(selection.include),
            "exclude": list(selection.exclude),
            "files": {name: list(file) for name, file in read.files.items()},
        },
    }


@contextmanager
def _naming_arrays(folder: Path) -> Iterator[None]:
    """Have numpy's error about an array that was not written whole name the folder.

    It has no error number and names no file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        reason = f"was not written whole; is the disk full? ({error})"
        raise OSError(errno.ENOSPC, reason, str(folder)) from error


def _keep_or_remove(
    folder: Path,
    embedder: NamedEmbedder | None,
    vectors: Mapping[str, NDArray[np.floating[Any]]],
    *,
    is_new: bool,
) -> None:
    """Keep the vectors of a build that was interrupted; without any, remove a new folder."""
    if vectors:
        write_unfinished(folder, embedder, vectors)
    elif is_new:
        with suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()


class _Vectors:
    """An embedder that reports progress, reuses known vectors, and keeps the new ones."""

    def __init__(
        self,
        embedder: NamedEmbedder | None,
        known: Mapping[str, NDArray[np.float32]],
        progress: Progress,
    ) -> None:
        self._embedder = embedder
        self._known = known
        self._progress = progress
        self.made = self.kept = 0
        self.new: dict[str, NDArray[np.floating[Any]]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        import numpy as np

        assert self._embedder is not None
        missing = [text for text in texts if text not in self._known]
        self.made, self.kept = len(missing), len(texts) - len(missing)
        self._progress("indexing words", 1, 1)
        if missing:
            embed_in_batches(_Kept(self._embedder, self.new), missing, self._report)
        return np.stack([self._known[t] if t in self._known else self.new[t] for t in texts])

    def _report(self, done: int, total: int) -> None:
        self._progress("encoding passages", done, total)


class _Kept:
    """An embedder that also writes its vectors to a mapping."""

    def __init__(
        self, embedder: NamedEmbedder, vectors: dict[str, NDArray[np.floating[Any]]]
    ) -> None:
        self._embedder = embedder
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        embedded = self._embedder.embed(texts)
        self._vectors.update(zip(texts, embedded, strict=True))
        return embedded


def _is_current(
    index: Index,
    source: Path,
    embedder: NamedEmbedder | None,
    passage_size: int,
    selection: Selection,
) -> bool:
    """Whether a build would produce the same index."""
    settings = index.manifest["source"]
    same_passages = corpus_file(source) is not None or (
        settings["passage_size"] == passage_size and settings.get("reader") == READER_VERSION
    )
    return (
        settings["path"] == str(source.resolve())
        and same_passages
        and index.manifest.get("words") == WORDS_VERSION
        and index.manifest["embedder"] == (embedder.name if embedder else None)
        and selection_of(settings) == selection
        and not any(changes(source, source_files(index.manifest), selection))
    )


def _vectors_by_text(
    index: Index | None, embedder: NamedEmbedder | None
) -> dict[str, NDArray[np.float32]]:
    """The vectors of an index that the same embedder made."""
    if index is None or embedder is None or index.manifest["embedder"] != embedder.name:
        return {}
    parts = index.parts
    if parts.vectors is None:
        return {}
    texts = search_texts(parts.corpus)
    return {text: parts.vectors[row] for text, row in zip(texts, parts.row_of, strict=True)}


def _summary(
    folder: Path, manifest: Mapping[str, Any], *, made: bool, kept: int, started: float
) -> Built:
    files = source_files(manifest)
    return Built(
        folder=folder,
        made=made,
        files=manifest["counts"]["files"],
        passages=manifest["counts"]["passages"],
        vectors=manifest["counts"]["vectors"],
        kept=kept,
        embedder=manifest["embedder"],
        skipped={name: file.skipped for name, file in files.items() if file.skipped},
        seconds=time.perf_counter() - started,
    )
