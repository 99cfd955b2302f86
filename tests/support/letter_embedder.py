"""An embedder that counts letters, so that neighbours are predictable."""

from collections.abc import Sequence

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class LetterEmbedder:
    """Counts letters."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.seen.extend(texts)
        counts = np.array([[text.lower().count(one) for one in LETTERS] for text in texts], float)
        counts += 0.01
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def ids(found) -> list[str]:
    return [candidate.id for candidate in found]
