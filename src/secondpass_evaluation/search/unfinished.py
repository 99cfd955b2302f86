"""The vectors of a build that was interrupted, in a file from which the next build goes on."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass_evaluation.search.embedders import NamedEmbedder
from secondpass_evaluation.search.selection import UNFINISHED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def write_unfinished(
    folder: Path,
    embedder: NamedEmbedder | None,
    vectors: Mapping[str, NDArray[np.floating[Any]]],
) -> None:
    """Write the vectors, each with a hash of its text and of the embedder's name."""
    import numpy as np

    keys = [_key(embedder, text) for text in vectors]
    with suppress(OSError):  # the error that interrupted the build is raised
        np.savez(
            folder / UNFINISHED,
            keys=np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1),
            vectors=np.stack([*vectors.values()]).astype(np.float32),
        )


def read_unfinished(
    folder: Path, embedder: NamedEmbedder | None, texts: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """The vectors of these texts, as far as there are some; none if the file is damaged."""
    import numpy as np

    if embedder is None:
        return {}
    try:
        with open(folder / UNFINISHED, "rb") as file, np.load(file, allow_pickle=False) as stored:
            found = dict(zip(map(bytes, stored["keys"]), stored["vectors"], strict=True))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
    keys = {text: _key(embedder, text) for text in texts}
    return {text: found[key] for text, key in keys.items() if key in found}


def _key(embedder: NamedEmbedder | None, text: str) -> bytes:
    name = "" if embedder is None else embedder.name
    return hashlib.sha256(f"{name}\0{text}".encode("utf-8", "surrogatepass")).digest()
