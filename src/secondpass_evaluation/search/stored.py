"""The passage store of an index, and what fills a store with a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secondpass import Candidate, Reranker, Stored
from secondpass.types import Progress
from secondpass_evaluation.search.embedders import Model

STORE = "passages.store"
"""The file in the folder of an index."""
STORE_FILES = frozenset({STORE, f"{STORE}-wal", f"{STORE}-shm"})

PRESETS: Mapping[Model, str] = {"embedded": "embedded", "embedded_multilingual": "multilingual"}
"""The preset whose reranker reads the store of an index, by the index's model."""

_AT_ONCE = 256
"""Passages between two reports of progress."""


def stored_in(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """A configuration whose method keeps passages in a file."""
    method = config["method"]
    settings = {"type": method} if isinstance(method, str) else dict(method)
    store = settings.get("store")
    own = dict(store) if isinstance(store, Mapping) else {}
    return {**config, "method": {**settings, "store": {**own, "path": str(path)}}}


def fill(reranker: Reranker, corpus: Sequence[Candidate], progress: Progress) -> Stored:
    """Store a corpus, as :meth:`secondpass.Reranker.store`.

    If it is interrupted, the next call goes on where this one ended, since what is stored is known.
    """
    known = encoded = 0
    for start in range(0, len(corpus), _AT_ONCE):
        progress("storing passages", start, len(corpus))
        part = reranker.store(corpus[start : start + _AT_ONCE])
        known, encoded = known + part.known, encoded + part.encoded
    progress("storing passages", len(corpus), len(corpus))
    return Stored(known, encoded)
