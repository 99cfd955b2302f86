"""Open an index: passages, BM25 and vectors in a folder.

The folder holds ``secondpass-index.json``, the manifest, and a folder of parts that the manifest
names. A build writes new parts under a new name, replaces the manifest atomically, and then deletes
the old parts. So a reader gets either the old index or the new one, even after a crash. Nothing is
pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secondpass import Candidate, InputError, MissingExtraError, SecondPassError
from secondpass.formats.lines import AnyPath
from secondpass.ranking.words import WORDS_VERSION
from secondpass.settings import counted
from secondpass.settings.arguments import explained
from secondpass_evaluation.errors import IndexFaultError, StaleIndexError
from secondpass_evaluation.search.documents import changes
from secondpass_evaluation.search.embedders import (
    EmbeddedEmbedder,
    Model,
    NamedEmbedder,
    default_embedder,
    embed_query,
    embedder_of,
)
from secondpass_evaluation.search.index_files import (
    check_parts,
    load_parts,
    read_manifest,
    rebuild_command,
    source_files,
)
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode, Parts
from secondpass_evaluation.search.selection import MANIFEST, selection_of


class Index(HybridRetriever):
    """A retriever in a folder, opened by :func:`open_index`. Its passages are read on demand.

    Attributes:
        changes: how its source has changed since the build; not empty only if it was opened with
            ``stale_ok``.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        parts: Parts,
        embedder: NamedEmbedder | None,
        *,
        depth: int,
        changes: tuple[str, ...],
    ) -> None:
        self.folder, self.manifest, self.changes = folder, manifest, changes
        self._take(parts, embedder, depth)

    def prepare(self, mode: Mode) -> None:
        """Load the model that a mode needs.

        Raises:
            InputError: the index has no vectors.
            MissingExtraError: the packages that the mode needs are not installed.
            ModelLoadError: the embedded model cannot be loaded.
        """
        if mode not in self.modes:
            if self.manifest["embedder"] is not None:
                needed_for = "searching by vectors"
                missing = EmbeddedEmbedder(model=model_of(self.manifest)).missing(needed_for)
                raise missing or MissingExtraError("embedded", needed_for)
            raise InputError(f"{self.folder}: the index has no vectors")
        if mode != "lexical" and self.embedder is not None:
            embed_query(self.embedder, "")

    def __repr__(self) -> str:
        return f"<Index {str(self.folder)!r}, {counted(len(self.corpus), 'passage')}>"


@explained()
def open_index(
    folder: AnyPath,
    embedder: NamedEmbedder | None = None,
    *,
    stale_ok: bool = False,
    depth: int = 100,
) -> Index:
    """Open an index, whose large parts are memory-mapped, and verify the checksum of every part.

    Args:
        folder: of the index.
        embedder: the embedder that built the index. None: the model that the index names, if its
            extra is installed; otherwise the only mode is ``lexical``.
        stale_ok: open an index whose source has changed; ``changes`` lists how.
        depth: how many candidates of each list the mode ``hybrid`` fuses.

    Raises:
        StaleIndexError: its source has changed, and ``stale_ok`` is not set.
        IndexFaultError: the folder is not an index, or the index is incomplete, of another format
            version, or was built with another embedder or other rules for words.
        InputError: the depth is out of range.
        FileNotFoundError: the folder does not exist.
    """
    folder = Path(folder)
    while True:
        before = _read_bytes(folder / MANIFEST)
        try:
            return _open(folder, embedder, check_source=True, stale_ok=stale_ok, depth=depth)
        except IndexFaultError:
            # Another process may have rebuilt it after the manifest was read.
            if _read_bytes(folder / MANIFEST) == before:
                raise


def model_of(manifest: Mapping[str, Any]) -> Model:
    """The model that an index names: of its vectors, and of its passage store."""
    name = manifest["embedder"]
    embedder = None if name is None else embedder_of(name)
    return "embedded" if embedder is None else embedder.model


def vectors_model(folder: Path) -> Model | None:
    """The model of the vectors of the index in a folder; None if it has none, or cannot be read."""
    try:
        manifest = read_manifest(folder)
    except (IndexFaultError, OSError):
        return None
    return None if manifest["embedder"] is None else model_of(manifest)


def index_model(folder: Path) -> Model:
    """The model for an index in a folder: that of its vectors, else the default."""
    return vectors_model(folder) or "embedded"


def passages_of(folder: Path) -> Sequence[Candidate]:
    """The passages of an index; none if there is no index that can be read."""
    index = open_existing(folder, None)
    return () if index is None else index.corpus


def open_existing(folder: Path, embedder: NamedEmbedder | None) -> Index | None:
    """Open an index to reuse its vectors: of any source, embedder and rules for words."""
    try:
        return _open(folder, embedder, check_source=False)
    except (IndexFaultError, OSError):
        return None


def _open(
    folder: Path,
    embedder: NamedEmbedder | None,
    *,
    check_source: bool,
    stale_ok: bool = False,
    depth: int = 100,
) -> Index:
    manifest = read_manifest(folder)
    rebuild = rebuild_command(folder, manifest)
    check_parts(folder, manifest, rebuild)
    stale: list[str] = []
    if check_source:
        if manifest.get("words") != WORDS_VERSION:
            problem = "its words were split by other rules than those of this program"
            raise IndexFaultError(str(folder), problem, rebuild)
        embedder = _matching_embedder(folder, manifest["embedder"], embedder, rebuild)
        source = manifest["source"]
        known = source_files(manifest)
        stale = list(changes(Path(source["path"]), known, selection_of(source)))
        if stale and not stale_ok:
            raise StaleIndexError(str(folder), stale, rebuild)
    try:
        parts = load_parts(folder / manifest["folder"], manifest)
    except (SecondPassError, MemoryError):
        raise
    except Exception as error:  # another version of bm25s may raise anything
        problem = f"cannot be loaded ({type(error).__name__}); bm25s may be of another version"
        raise IndexFaultError(str(folder), problem, rebuild) from error
    return Index(folder, manifest, parts, embedder, depth=depth, changes=tuple(stale))


def _matching_embedder(
    folder: Path, name: str | None, embedder: NamedEmbedder | None, rebuild: str
) -> NamedEmbedder | None:
    """The embedder for an index that one of this name built."""
    if name is None:
        return embedder
    if embedder is None:
        own = embedder_of(name)
        if own is None:
            problem = f"its vectors were made by another embedder ({name}), which is required"
            raise IndexFaultError(str(folder), problem, rebuild)
        return default_embedder(own.model)
    if embedder.name != name:
        problem = f"its vectors were made by another embedder: {name}, not {embedder.name}"
        raise IndexFaultError(str(folder), problem, rebuild)
    return embedder


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
