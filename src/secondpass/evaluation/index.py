"""An index in a folder: passages, BM25 and vectors, kept between searches.

The folder holds ``secondpass-index.json``, the manifest, and one folder of parts that the manifest
names. Parts are made under a new name; then the manifest is replaced in one step; then the old
parts go. So whoever opens the folder finds the old index or the new one, whole, and so does who
comes after a kill or a crash. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable
from uuid import uuid4

from secondpass.candidates import kind_of
from secondpass.errors import InputError, MissingExtraError, SecondPassError
from secondpass.evaluation.documents import (
    PASSAGE_SIZE,
    Progress,
    SourceFile,
    changes,
    corpus_file,
    read_source,
)
from secondpass.evaluation.lines import AnyPath
from secondpass.evaluation.retrieval import Embedder, HybridRetriever, Mode, Parts, searched
from secondpass.lazy import Lazy
from secondpass.types import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass.minilm import MiniLM

FORMAT_VERSION = 1
MANIFEST = "secondpass-index.json"

_FORMAT = "secondpass index"
_LOCK = ".lock"
_PARTS = re.compile(r"parts-[0-9a-f]{32}")
_DRAFT = re.compile(re.escape(MANIFEST) + r"\.[0-9a-f]{32}\.tmp")
_WORDS = "words"
_TEXTS_AT_A_TIME = 64


class IndexFaultError(SecondPassError, ValueError):
    """A folder is no index, or holds one that is not served: not whole, or made otherwise.

    Args:
        folder: the index.
        problem: what is wrong with it.
        renew: the command that makes it anew.
    """

    def __init__(self, folder: str, problem: str, renew: str = "") -> None:
        self.folder = folder
        self.problem = problem
        self.renew = renew
        super().__init__(folder, problem, renew)

    def __str__(self) -> str:
        told = f"{self.folder}: {self.problem}"
        return f"{told}. Make it anew: {self.renew}" if self.renew else told


class StaleIndexError(IndexFaultError):
    """The source of an index is no longer what it was made of.

    Args:
        folder: the index.
        changes: what has changed, one file each.
        renew: the command that makes it anew.
    """

    def __init__(self, folder: str, changes: Sequence[str], renew: str) -> None:
        self.changes = tuple(changes)
        IndexFaultError.__init__(self, folder, f"is stale: {summed_up(changes)}", renew)
        self.args = (folder, self.changes, renew)


@runtime_checkable
class NamedEmbedder(Embedder, Protocol):
    """An embedder whose vectors can be kept: the same name has to mean the same vectors."""

    name: str


class EmbeddedEmbedder:
    """The embedded model, loaded when it is first asked.

    Args:
        max_tokens: longer texts are cut. Passages of 1,000 characters rarely have more than 256.
    """

    def __init__(self, max_tokens: int = 256) -> None:
        from secondpass.minilm import MODEL_NAME

        self.name = f"{MODEL_NAME}, {max_tokens} tokens"
        self._model: Lazy[MiniLM] = Lazy(lambda: _minilm(max_tokens))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1, shape ``(len(texts), 384)``."""
        return self._model.get().embed(texts)


def default_embedder() -> EmbeddedEmbedder | None:
    """The embedded model; None where the extra ``embedded`` is not installed."""
    from secondpass.minilm import check_installed

    try:
        check_installed()
    except MissingExtraError:
        return None
    return EmbeddedEmbedder()


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
        source: see :func:`~secondpass.evaluation.documents.read_source`.
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
    _check_place(folder)
    old = _old(folder, embedder)
    if old is not None and not force and _is_of(old, source, embedder, passage_size):
        if len(os.listdir(folder)) > len({MANIFEST, _LOCK, old.manifest["folder"]}):
            with suppress(IndexFaultError), _locked(folder):
                _sweep(folder)
        return _built(old, made=False, kept=old.manifest["counts"]["vectors"], started=started)

    read = read_source(source, passage_size=passage_size, without=folder, progress=progress)
    if not read.corpus:
        told = f" ({len(read.skipped)} files skipped: {_few(read.skipped)})" if read.skipped else ""
        raise IndexFaultError(str(source), f"holds no text to index{told}")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        blocks = _Blocks(embedder, {} if force else _known(old, embedder), progress)
        draft = folder / f"parts-{uuid4().hex}"
        try:
            draft.mkdir()
            retriever = _made(read.corpus, blocks if embedder else None, progress)
            parts = _write_parts(draft, retriever.parts)
            manifest = {
                "format": _FORMAT,
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
                    "vectors": blocks.made + blocks.kept,
                },
                "folder": draft.name,
                "parts": parts,
            }
            _write_manifest(folder, manifest)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    (folder / _LOCK).unlink()
                    folder.rmdir()
            raise
        _sweep(folder)
    made = Index(folder, manifest, retriever, ())
    return _built(made, made=True, kept=blocks.kept, started=started)


class _Blocks:
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
        blocks = []
        for start in range(0, len(new), _TEXTS_AT_A_TIME):
            if self._progress is not None:
                self._progress("encoding passages", start, len(new))
            blocks.append(self._embedder.embed(new[start : start + _TEXTS_AT_A_TIME]))
        if self._progress is not None and new:
            self._progress("encoding passages", len(new), len(new))
        if not self.kept:
            return np.concatenate(blocks)
        made = iter(np.concatenate(blocks)) if blocks else iter(())
        return np.stack([self._known[t] if t in self._known else next(made) for t in texts])


def in_memory(
    corpus: Sequence[Candidate],
    embedder: Embedder | None = None,
    *,
    depth: int = 100,
    progress: Progress | None = None,
) -> HybridRetriever:
    """A retriever that is kept nowhere, and tells how far it is while it is made."""
    blocks = _Blocks(embedder, {}, progress) if embedder is not None else None
    return HybridRetriever.from_parts(_made(corpus, blocks, progress).parts, embedder, depth=depth)


def _made(
    corpus: Sequence[Candidate], blocks: _Blocks | None, progress: Progress | None
) -> HybridRetriever:
    if progress is not None:  # nobody knows how far bm25s is
        progress("indexing words", 0, None)
    retriever = HybridRetriever(corpus, blocks)
    if progress is not None and blocks is None:
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
        and not any(changes(source, _files(old.manifest), old.folder))
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
        skipped={name: file.skipped for name, file in _files(manifest).items() if file.skipped},
        seconds=time.perf_counter() - started,
    )


# ---------------------------------------------------------------------- opening


def is_index(folder: AnyPath) -> bool:
    """Whether a folder is an index, or was to become one."""
    folder = Path(folder)
    if (folder / MANIFEST).exists():
        return True
    return folder.is_dir() and any(_PARTS.fullmatch(name) for name in os.listdir(folder))


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
    manifest = _read_manifest(folder)
    renew = _renew(folder, manifest)
    _check_parts(folder, manifest, renew)
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
        found = list(changes(Path(manifest["source"]["path"]), _files(manifest), folder))
        if found and not stale_ok:
            raise StaleIndexError(str(folder), found, renew)
    try:
        parts = _load_parts(folder / manifest["folder"], manifest)
    except (SecondPassError, MemoryError):
        raise
    except Exception as error:  # bm25s of another version may raise anything
        told = f"cannot be loaded ({type(error).__name__}); bm25s may be of another version"
        raise IndexFaultError(str(folder), told, renew) from error
    retriever = HybridRetriever.from_parts(parts, embedder, depth=depth)
    return Index(folder, manifest, retriever, found)


class _Passages(Sequence[Candidate]):
    """Candidates of a file of JSON lines, read as they are needed."""

    def __init__(self, path: Path, ends: NDArray[np.int64]) -> None:
        import numpy as np

        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> list[Candidate]: ...
    def __getitem__(self, at: int | slice) -> Candidate | list[Candidate]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        start = int(self._ends[at - 1]) if at else 0
        text, identifier, metadata = json.loads(self._bytes[start : int(self._ends[at])].tobytes())
        return Candidate(text, identifier, metadata=metadata)


# ---------------------------------------------------------------------- parts


def _write_parts(folder: Path, parts: Parts) -> dict[str, list[Any]]:
    """Write them; returns name -> size and sha256."""
    import numpy as np

    ends = []
    with open(folder / "passages.jsonl", "wb") as file:
        for one in parts.corpus:
            record = json.dumps([one.text, one.id, dict(one.metadata)], ensure_ascii=False)
            # Lone surrogates are carried along, as json does when it reads.
            file.write(record.encode("utf-8", "surrogatepass") + b"\n")
            ends.append(file.tell())
    np.save(folder / "ends.npy", np.array(ends, dtype=np.int64))
    np.save(folder / "rows.npy", parts.row_of)
    if parts.vectors is not None:
        np.save(folder / "vectors.npy", parts.vectors)
    if parts.words is not None:
        parts.words.save(folder / _WORDS, show_progress=False)
    written: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            written[path.relative_to(folder).as_posix()] = [path.stat().st_size, digest]
    return written


def _check_parts(folder: Path, manifest: Mapping[str, Any], renew: str) -> None:
    for name, (size, digest) in manifest["parts"].items():
        try:
            with open(folder / manifest["folder"] / name, "rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    told = f"its part {name} has another size than it had"
                    raise IndexFaultError(str(folder), told, renew)
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise IndexFaultError(str(folder), f"its part {name} was changed", renew)
        except FileNotFoundError:
            raise IndexFaultError(str(folder), f"its part {name} is missing", renew) from None


def _load_parts(folder: Path, manifest: Mapping[str, Any]) -> Parts:
    try:
        import bm25s
        import numpy as np
    except ImportError:
        raise MissingExtraError("evaluation", "an index") from None
    words = None
    if any(name.startswith(f"{_WORDS}/") for name in manifest["parts"]):
        words = bm25s.BM25.load(folder / _WORDS, mmap=True, show_progress=False)
    vectors = None
    if "vectors.npy" in manifest["parts"]:
        vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
    corpus = _Passages(folder / "passages.jsonl", np.load(folder / "ends.npy", allow_pickle=False))
    return Parts(corpus, words, np.load(folder / "rows.npy", allow_pickle=False), vectors)


# ---------------------------------------------------------------------- manifest


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    sealed = {**manifest, "seal": _seal(manifest)}
    draft = folder / f"{MANIFEST}.{uuid4().hex}.tmp"
    try:
        with open(draft, "x", encoding="utf-8", newline="\n") as file:
            json.dump(sealed, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, folder / MANIFEST)
    finally:
        draft.unlink(missing_ok=True)


def _read_manifest(folder: Path) -> dict[str, Any]:
    anew = _renew(folder, None)
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        os.stat(folder)  # raises where there is no such folder
        if is_index(folder):
            raise IndexFaultError(str(folder), "is not whole: indexing was cut off", anew) from None
        raise IndexFaultError(str(folder), f"is no index: it has no {MANIFEST}") from None
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise IndexFaultError(str(folder), f"its {MANIFEST} cannot be read", anew)
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        told = f"its format is version {version!r}, and this program reads {FORMAT_VERSION}"
        raise IndexFaultError(str(folder), told, anew)
    # Whoever has this seal right has written the manifest as we do, so its fields need no check.
    if manifest.pop("seal", None) != _seal(manifest):
        raise IndexFaultError(str(folder), f"its {MANIFEST} was changed", anew)
    return manifest


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _files(manifest: Mapping[str, Any]) -> dict[str, SourceFile]:
    return {name: SourceFile(*file) for name, file in manifest["source"]["files"].items()}


def _renew(folder: Path, manifest: Mapping[str, Any] | None) -> str:
    source = shlex.quote(manifest["source"]["path"]) if manifest else "SOURCE"
    command = f"secondpass index {source} --into {shlex.quote(str(folder))}"
    if manifest and manifest["source"]["passage_size"] != PASSAGE_SIZE:
        command += f" --passage-size {manifest['source']['passage_size']}"
    if manifest and manifest["embedder"] is None:
        command += " --words-only"
    return command


# ---------------------------------------------------------------------- the folder


def _check_place(folder: Path) -> None:
    """Refuse a folder that holds anything of somebody else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise IndexFaultError(str(folder), "is a file; an index needs a folder")
    foreign = [name for name in sorted(os.listdir(folder)) if not _is_ours(name)]
    if foreign:
        told = f"holds other files ({_few(foreign)}); name a new folder, or an index"
        raise IndexFaultError(str(folder), told)


def _is_ours(name: str) -> bool:
    return (
        name in {MANIFEST, _LOCK}
        or _PARTS.fullmatch(name) is not None
        or _DRAFT.fullmatch(name) is not None
    )


def _sweep(folder: Path) -> None:
    """Take away what an older index or a killed process has left."""
    keep = _read_manifest(folder)["folder"]
    for name in os.listdir(folder):
        if _PARTS.fullmatch(name) and name != keep:
            shutil.rmtree(folder / name, ignore_errors=True)
        elif _DRAFT.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from indexing into a folder; a killed one holds no lock."""
    with open(folder / _LOCK, "a") as file:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            told = "another process indexes into it just now"
            raise IndexFaultError(str(folder), told) from None
        yield


# ---------------------------------------------------------------------- words for people


def summed_up(changes: Sequence[str]) -> str:
    """The first few of what has changed, and how many more there are."""
    return _few(changes)


def _few(names: Sequence[str] | Mapping[str, str], shown: int = 3) -> str:
    first = ", ".join([*names][:shown])
    return first if len(names) <= shown else f"{first}, and {len(names) - shown} more"


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _minilm(max_tokens: int) -> MiniLM:
    from secondpass.minilm import MiniLM

    return MiniLM(max_tokens=max_tokens)
