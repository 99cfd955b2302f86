"""The files of an index: its parts, the manifest that names them, and the lock of who writes.

Parts stand in a folder of their own; the manifest, replaced in one step, says which. It has the
size and the checksum of each part, and a seal over itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from uuid import uuid4

from secondpass.errors import MissingExtraError
from secondpass.formats.errors import IndexFaultError, few
from secondpass.formats.files import flush_file, flush_folder, replacing
from secondpass.formats.lines import AnyPath
from secondpass.search.documents import PASSAGE_SIZE, SourceFile
from secondpass.search.retrieval import Parts
from secondpass.types import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT_VERSION = 1
MANIFEST = "secondpass-index.json"

FORMAT = "secondpass index"
LOCK = ".lock"
_PARTS = re.compile(r"parts-[0-9a-f]{32}")
_DRAFT = re.compile(re.escape(MANIFEST) + r"\.[0-9a-f]{32}\.tmp")
_WORDS = "words"


def is_index(folder: AnyPath) -> bool:
    """Whether a folder is an index, or was to become one."""
    folder = Path(folder)
    if (folder / MANIFEST).exists():
        return True
    return folder.is_dir() and any(_PARTS.fullmatch(name) for name in os.listdir(folder))


class Passages(Sequence[Candidate]):
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


def write_parts(folder: Path, parts: Parts) -> dict[str, list[Any]]:
    """Write them, to the disk; returns name -> size and sha256."""
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
                flush_file(file)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            written[path.relative_to(folder).as_posix()] = [path.stat().st_size, digest]
        else:
            flush_folder(path)
    flush_folder(folder)
    return written


def check_parts(folder: Path, manifest: Mapping[str, Any], renew: str) -> None:
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


def load_parts(folder: Path, manifest: Mapping[str, Any]) -> Parts:
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
    corpus = Passages(folder / "passages.jsonl", np.load(folder / "ends.npy", allow_pickle=False))
    return Parts(corpus, words, np.load(folder / "rows.npy", allow_pickle=False), vectors)


# ---------------------------------------------------------------------- manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    sealed = {**manifest, "seal": _seal(manifest)}
    with replacing(folder / MANIFEST, folder / f"{MANIFEST}.{uuid4().hex}.tmp") as file:
        file.write(json.dumps(sealed, indent=1).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    anew = renewal(folder, None)
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
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
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


def files_of(manifest: Mapping[str, Any]) -> dict[str, SourceFile]:
    return {name: SourceFile(*file) for name, file in manifest["source"]["files"].items()}


def renewal(folder: Path, manifest: Mapping[str, Any] | None, *, with_vectors: bool = False) -> str:
    """The command that makes an index anew, as it was made or with vectors in any case."""
    source = shlex.quote(manifest["source"]["path"]) if manifest else "SOURCE"
    command = f"secondpass index {source} --into {shlex.quote(str(folder))}"
    if manifest and manifest["source"]["passage_size"] != PASSAGE_SIZE:
        command += f" --passage-size {manifest['source']['passage_size']}"
    if manifest and manifest["embedder"] is None and not with_vectors:
        command += " --words-only"
    return command


# ---------------------------------------------------------------------- the folder


def check_place(folder: Path) -> None:
    """Refuse a folder that holds anything of somebody else."""
    if not folder.exists():
        if folder.is_symlink():
            raise IndexFaultError(str(folder), "is a link to nothing; an index needs a folder")
        return
    if not folder.is_dir():
        raise IndexFaultError(str(folder), "is a file; an index needs a folder")
    foreign = [name for name in sorted(os.listdir(folder)) if not _is_ours(name)]
    if foreign:
        told = f"holds other files ({few(foreign)}); name a new folder, or an index"
        raise IndexFaultError(str(folder), told)


def _is_ours(name: str) -> bool:
    return (
        name in {MANIFEST, LOCK}
        or _PARTS.fullmatch(name) is not None
        or _DRAFT.fullmatch(name) is not None
    )


def sweep(folder: Path) -> None:
    """Take away what an older index or a killed process has left.

    Raises:
        IndexFaultError: the manifest that is there cannot be read, so nothing is taken away.
    """
    keep = read_manifest(folder)["folder"] if (folder / MANIFEST).exists() else None
    for name in os.listdir(folder):
        if _PARTS.fullmatch(name) and name != keep:
            shutil.rmtree(folder / name, ignore_errors=True)
        elif _DRAFT.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from indexing into a folder; a killed one holds no lock."""
    with open(folder / LOCK, "a") as file:
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
