"""The files of an index: the parts, the manifest that names them, and the lock of builds.

The parts are in a folder that the manifest names. The manifest has the size and the checksum of
each part, and a checksum of itself, the seal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, overload
from uuid import uuid4

from secondpass import Candidate
from secondpass.formats.files import atomic_write, flush_file, flush_folder, lock
from secondpass_evaluation.errors import IndexFaultError, first_few
from secondpass_evaluation.search.documents import SourceFile
from secondpass_evaluation.search.embedders import embedder_of
from secondpass_evaluation.search.passages import PASSAGE_SIZE
from secondpass_evaluation.search.retrieval import Parts
from secondpass_evaluation.search.selection import MANIFEST, PARTS, UNFINISHED, is_index
from secondpass_evaluation.search.stored import STORE_FILES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT_VERSION = 4
"""Version of the parts. An index of another version is built again."""
FORMAT = "secondpass index"
LOCK = ".lock"
_DRAFT = re.compile(re.escape(MANIFEST) + r"\.[0-9a-f]{32}\.tmp")
_WORDS = "words"


class Passages(Sequence[Candidate]):
    """The candidates in a file of JSON lines, read on demand."""

    def __init__(self, path: Path, ends: NDArray[np.int64]) -> None:
        import numpy as np

        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        start = int(self._ends[index - 1]) if index else 0
        line = self._bytes[start : int(self._ends[index])].tobytes()
        text, identifier, metadata = json.loads(line)
        return Candidate(text, identifier, metadata=metadata)


def write_parts(folder: Path, parts: Parts) -> dict[str, list[Any]]:
    """Write the parts and flush them to disk; returns file name -> [size, sha256]."""
    import numpy as np

    ends = []
    with open(folder / "passages.jsonl", "wb") as file:
        for candidate in parts.corpus:
            record = [candidate.text, candidate.id, dict(candidate.metadata)]
            line = json.dumps(record, ensure_ascii=False) + "\n"
            file.write(line.encode("utf-8", "surrogatepass"))  # json.loads reads them, too
            ends.append(file.tell())
    arrays: dict[str, NDArray[Any]] = {"ends": np.array(ends, dtype=np.int64), "rows": parts.row_of}
    if parts.vectors is not None:
        arrays["vectors"] = parts.vectors
    for name, array in arrays.items():
        with open(folder / f"{name}.npy", "wb") as file:
            write_array(file, array)
    if parts.words is not None:
        parts.words.save(folder / _WORDS, show_progress=False)
    written: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb+") as file:
                flush_file(file)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            written[path.relative_to(folder).as_posix()] = [path.stat().st_size, digest]
        else:
            flush_folder(path)
    flush_folder(folder)
    return written


def write_array(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write an array in numpy's format; an OSError has the reason of the system.

    numpy says only that not all bytes of an array were written if it knows that it is a file.
    """
    import numpy as np

    writer: Any = SimpleNamespace(write=file.write)
    np.save(writer, array, allow_pickle=False)


def check_parts(folder: Path, manifest: Mapping[str, Any], rebuild: str) -> None:
    """Compare the size and checksum of every part with the manifest."""
    for name, (size, digest) in manifest["parts"].items():
        try:
            with open(folder / manifest["folder"] / name, "rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    problem = f"its part {name} was changed: its size differs"
                    raise IndexFaultError(str(folder), problem, rebuild)
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise IndexFaultError(str(folder), f"its part {name} was changed", rebuild)
        except FileNotFoundError:
            raise IndexFaultError(str(folder), f"its part {name} is missing", rebuild) from None


def load_parts(folder: Path, manifest: Mapping[str, Any]) -> Parts:
    """Load the parts; passages, words and vectors are memory-mapped."""
    import bm25s
    import numpy as np

    words = None
    if any(name.startswith(f"{_WORDS}/") for name in manifest["parts"]):
        words = bm25s.BM25.load(folder / _WORDS, mmap=True, show_progress=False)
    vectors = None
    if "vectors.npy" in manifest["parts"]:
        vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
    corpus = Passages(folder / "passages.jsonl", np.load(folder / "ends.npy", allow_pickle=False))
    return Parts(corpus, words, np.load(folder / "rows.npy", allow_pickle=False), vectors)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest atomically."""
    sealed = {**manifest, "seal": _seal(manifest)}
    with atomic_write(folder / MANIFEST, folder / f"{MANIFEST}.{uuid4().hex}.tmp") as file:
        file.write(json.dumps(sealed, indent=1).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and verify its seal."""
    rebuild = rebuild_command(folder, None)
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        os.stat(folder)  # raises if the folder does not exist
        if is_index(folder):
            problem = "is incomplete: indexing was interrupted"
            raise IndexFaultError(str(folder), problem, rebuild) from None
        raise IndexFaultError(str(folder), f"is not an index: it has no {MANIFEST}") from None
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise IndexFaultError(str(folder), f"its {MANIFEST} cannot be read", rebuild)
    # The right seal shows that it is unchanged, so the fields need no checks.
    intact = manifest.pop("seal", None) == _seal(manifest)
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        problem = f"its format is version {version!r}; this program reads {FORMAT_VERSION}"
        raise IndexFaultError(str(folder), problem, rebuild)
    if not intact:
        raise IndexFaultError(str(folder), f"its {MANIFEST} was changed", rebuild)
    return manifest


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def source_files(manifest: Mapping[str, Any]) -> dict[str, SourceFile]:
    """The files that the index was built from, by name."""
    return {name: SourceFile(*file) for name, file in manifest["source"]["files"].items()}


def rebuild_command(
    folder: Path, manifest: Mapping[str, Any] | None, *, with_vectors: bool = False
) -> str:
    """The command that rebuilds an index with its settings; always with vectors if requested."""
    source = shlex.quote(manifest["source"]["path"]) if manifest else "SOURCE"
    command = f"secondpass index {source} --into {shlex.quote(str(folder))}"
    if manifest and manifest["source"]["passage_size"] != PASSAGE_SIZE:
        command += f" --passage-size {manifest['source']['passage_size']}"
    for name in ("include", "exclude") if manifest else ():
        for pattern in manifest["source"].get(name, ()) if manifest else ():
            command += f" --{name} {shlex.quote(pattern)}"
    if manifest and manifest["embedder"] is None and not with_vectors:
        command += " --words-only"
    if manifest and (name := manifest["embedder"]) is not None:
        embedder = embedder_of(name)
        if embedder is not None and embedder.model != "embedded":
            command += f" --model {embedder.model}"
    return command


def check_folder(folder: Path) -> None:
    """Check that a folder is new or empty, or has files of an index only."""
    if not folder.exists():
        if folder.is_symlink():
            raise IndexFaultError(str(folder), "is a broken link; an index needs a folder")
        return
    if not folder.is_dir():
        raise IndexFaultError(str(folder), "is a file; an index needs a folder")
    own = {MANIFEST, LOCK, UNFINISHED, *STORE_FILES}
    names = [name for name in sorted(os.listdir(folder)) if name not in own]
    if foreign := [name for name in names if not (PARTS.fullmatch(name) or _DRAFT.fullmatch(name))]:
        problem = f"has other files ({first_few(foreign)}); choose a new folder, or an index"
        raise IndexFaultError(str(folder), problem)


def remove_leftovers(folder: Path) -> None:
    """Delete parts that the manifest does not name: of an older index, or of a killed process."""
    exists = (folder / MANIFEST).exists()
    keep = read_manifest(folder)["folder"] if exists else None
    for name in os.listdir(folder):
        if PARTS.fullmatch(name) and name != keep:
            shutil.rmtree(folder / name, ignore_errors=True)
        elif _DRAFT.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def index_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that one process at a time builds its index."""
    with open(folder / LOCK, "a") as file:
        try:
            lock(file)
        except OSError:
            problem = "another process is building this index"
            raise IndexFaultError(str(folder), problem) from None
        yield
