"""Embedders, those with a name, whose vectors can be stored, and the embedded model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from secondpass import InputError, MissingExtraError
from secondpass.concurrency.lazy import Lazy
from secondpass.types import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from secondpass.scorers.embedding.encoder import Encoder

_BATCH, _BATCH_CHARACTERS = 64, 12_000
"""Texts and characters per call: less than a second on two cores, for regular progress reports."""


Model: TypeAlias = Literal["embedded", "embedded_multilingual"]
"""The model of the method of that name: English only, or about 100 languages."""
MODELS: Sequence[Model] = get_args(Model)


class Embedder(Protocol):
    """Turns texts into vectors.

    One whose vectors of queries differ from those of passages also has ``embed_query``, which
    returns the vector of a text, of length 1.
    """

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Vectors of shape ``(len(texts), dimensions)``; each row has length 1."""
        ...


@runtime_checkable
class NamedEmbedder(Embedder, Protocol):
    """An embedder with a name. Embedders with the same name return the same vectors."""

    name: str


def embed_checked(embedder: Embedder, texts: list[str]) -> NDArray[np.float32]:
    """Embed texts, and check the vectors."""
    import numpy as np

    vectors: NDArray[np.float32] = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"embedder: must return vectors of shape ({len(texts)}, d), not {vectors.shape}"
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1) < 0.01):  # also if a length is NaN
        raise InputError("embedder: every vector must have length 1")
    return vectors


def embed_query(embedder: Embedder, text: str) -> NDArray[np.float32]:
    """Embed a query, and check its vector; shape ``(dimensions,)``."""
    own = getattr(embedder, "embed_query", None)
    vectors = embed_checked(embedder if own is None else _Queries(own), [text])
    vector: NDArray[np.float32] = vectors[0]
    return vector


class _Queries:
    """Embeds texts as queries."""

    def __init__(self, embed_one: Callable[[str], NDArray[np.floating[Any]]]) -> None:
        self._embed_one = embed_one

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        import numpy as np

        return np.stack([self._embed_one(text) for text in texts])


def embed_in_batches(
    embedder: Embedder, texts: Sequence[str], progress: Callable[[int, int], None]
) -> NDArray[np.floating[Any]]:
    """Embed texts batch by batch; ``progress`` is called with the number done and the total."""
    import numpy as np

    if not texts:
        return embedder.embed([])
    # Texts of similar length together: a batch is padded to its longest.
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    vectors, done = [], 0
    while done < len(order):
        progress(done, len(order))
        fitting = _BATCH_CHARACTERS // max(1, len(texts[order[done]]))
        batch = order[done : done + max(1, min(_BATCH, fitting))]
        vectors.append(embedder.embed([texts[index] for index in batch]))
        done += len(batch)
    progress(done, len(order))
    return np.concatenate(vectors)[np.argsort(order)]


class CorpusEmbedder:
    """Embeds a corpus in batches, with progress; a single text, such as a query, without."""

    def __init__(self, embedder: Embedder, progress: Progress) -> None:
        self.embedder = embedder
        self.progress = progress

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        if len(texts) == 1:
            return self.embedder.embed(texts)
        return embed_in_batches(self.embedder, texts, self._report)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return embed_query(self.embedder, text)

    def _report(self, done: int, count: int) -> None:
        self.progress("Encoding the corpus", done, count)


class EmbeddedEmbedder:
    """A model that is installed by pip, loaded on first use.

    It runs in float32, so that stored vectors do not depend on runtime and processor, except for
    rounding.
    """

    def __init__(self, max_tokens: int = 256, model: Model = "embedded") -> None:
        self.model = model
        self._kind = _encoder(model)
        self.name = f"{self._kind.name}, {max_tokens} tokens"
        self._max_tokens = max_tokens
        self._encoder: Lazy[Encoder] = Lazy()

    def missing(self, needed_for: str) -> MissingExtraError | None:
        """The error for a feature that needs the model; None if its packages are installed."""
        try:
            self._kind.check_installed()
        except MissingExtraError as error:
            return MissingExtraError(error.extra, needed_for)
        return None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1; shape ``(len(texts), 384)``."""
        return self._loaded().embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, of length 1; shape ``(384,)``."""
        return self._loaded().embed_query(text)

    def _loaded(self) -> Encoder:
        kind, max_tokens = self._kind, self._max_tokens
        return self._encoder.get(lambda: kind(max_tokens=max_tokens, precision="exact"))


def default_embedder(model: Model = "embedded") -> EmbeddedEmbedder | None:
    """The model of the method of that name; None if its extra is not installed."""
    embedder = EmbeddedEmbedder(model=model)
    return None if embedder.missing("searching by vectors") else embedder


def embedder_of(name: str) -> EmbeddedEmbedder | None:
    """The embedder that has a name, installed or not; None if it is another."""
    embedders = (EmbeddedEmbedder(model=model) for model in MODELS)
    return next((embedder for embedder in embedders if embedder.name == name), None)


def _encoder(model: Model) -> type[Encoder]:
    if model == "embedded":
        from secondpass.scorers.embedding.minilm import MiniLM

        return MiniLM
    from secondpass.scorers.embedding.e5 import MultilingualE5

    return MultilingualE5
