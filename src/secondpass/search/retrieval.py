"""A small first stage to measure rerankers behind: words, vectors, or both fused.

Everything is in memory and exact: BM25 by bm25s (Lù, "BM25S: orders of magnitude faster lexical
search via eager sparse scoring", 2024), cosine by one matrix product, fusion by reciprocal ranks.
Suits up to about 100,000 passages; a query then takes milliseconds, and vectors of 384 dimensions
take 150 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from secondpass.candidates import to_candidates
from secondpass.errors import InputError, MissingExtraError
from secondpass.formats.errors import check_numbers
from secondpass.fusion import reciprocal_rank_fusion
from secondpass.rendering import Rendering
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Mode: TypeAlias = Literal["vector", "lexical", "hybrid"]

_SHOWN = Rendering(fields=("title", "text"))
_WORD = r"\w+"


class Embedder(Protocol):
    """Turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Vectors of shape ``(len(texts), dimensions)``, rows of length 1."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a retriever has made of its corpus; :mod:`~secondpass.search.index` keeps it.

    Attributes:
        corpus: the candidates.
        words: the index of their words, a ``bm25s.BM25``; None where there is no word.
        row_of: for each candidate the row of its vector.
        vectors: those of the distinct texts; None where there was no embedder.
    """

    corpus: Sequence[Candidate]
    words: Any
    row_of: NDArray[np.integer[Any]]
    vectors: NDArray[np.float32] | None


class HybridRetriever:
    """Retrieves by words (BM25), by vectors (cosine), or by both.

    Args:
        corpus: candidates with ids, each id once. A title (``metadata["title"]``) is searched with
            the text, in both ways.
        embedder: makes the vectors, of the corpus once and of each query; None leaves only the
            mode ``lexical``.
        depth: how many of each list the mode ``hybrid`` fuses.
        stem: cuts a list of words down to their stems, for one language. None leaves words whole.
        k1: how soon repetitions of a word stop counting (BM25).
        b: how much long passages are held back, 0 to 1 (BM25).

    Words are runs of letters, digits and underscores, lower-cased; there is no list of stop words,
    whose work the inverse document frequency does in any language. That is also how
    :class:`secondpass.scorers.lexical.LexicalScorer` reads, and ``k1`` and ``b`` are Lucene's. For
    English and its kin, stemming raises BM25 clearly (PyStemmer's ``stemWords`` fits ``stem``).

    Raises:
        InputError: a candidate without an id, an id that repeats, no candidate at all,
            vectors of a wrong shape or length, or an argument out of range.
        MissingExtraError: bm25s or numpy is not installed.
    """

    def __init__(
        self,
        corpus: Iterable[CandidateLike],
        embedder: Embedder | None = None,
        *,
        depth: int = 100,
        stem: Callable[[list[str]], list[str]] | None = None,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        _check_installed()
        import bm25s
        import numpy as np

        self.corpus: Sequence[Candidate] = tuple(to_candidates(corpus, text_needed=False))
        self.embedder = embedder
        check_numbers(depth=(depth, 1))
        self.depth = depth
        self.stem = stem
        if not (0 <= k1 < float("inf") and 0 <= b <= 1):
            raise InputError(f"k1, b: must be 0 or more and 0 to 1, not {k1} and {b}")
        _check_ids(self.corpus)
        texts = searched(self.corpus)
        index = bm25s.BM25(method="lucene", k1=k1, b=b)
        self._index = index if self._index_words(index, texts) else None
        # Each distinct text has one vector: equal passages then score equally to the last bit,
        # whatever blocks the matrix product works in, and fall back on the order of the corpus.
        rows: dict[str, int] = {}
        self._row_of: NDArray[np.integer[Any]] = np.array(
            [rows.setdefault(text, len(rows)) for text in texts], dtype=np.int32
        )
        self._vectors = _vectors_of(embedder, list(rows)) if embedder is not None else None

    @classmethod
    def from_parts(
        cls,
        parts: Parts,
        embedder: Embedder | None = None,
        *,
        depth: int = 100,
        stem: Callable[[list[str]], list[str]] | None = None,
    ) -> HybridRetriever:
        """A retriever of what another has made.

        Args:
            parts: those of the other.
            embedder: that of the other; None leaves only the mode ``lexical``.
            depth: as for a new one.
            stem: that of the other.

        Raises:
            InputError: the depth is out of range.
            MissingExtraError: bm25s or numpy is not installed.
        """
        _check_installed()
        made = cls.__new__(cls)
        made.corpus = parts.corpus
        made.embedder = embedder
        check_numbers(depth=(depth, 1))
        made.depth = depth
        made.stem = stem
        made._index = parts.words
        made._row_of = parts.row_of
        made._vectors = parts.vectors
        return made

    @property
    def parts(self) -> Parts:
        """What was made of the corpus, to keep it."""
        return Parts(self.corpus, self._index, self._row_of, self._vectors)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that can be asked for."""
        if self.embedder is None or self._vectors is None:
            return ("lexical",)
        return get_args(Mode)

    def retrieve(
        self, query: str, k: int, mode: Mode = "hybrid", rrf_k: float = 60
    ) -> list[Candidate]:
        """The best ``k`` candidates, best first; ties in the order of the corpus.

        Args:
            query: what is searched for.
            k: how many to return, at most.
            mode: ``lexical`` returns only what shares a word with the query; ``hybrid`` at most
                what the two lists of ``depth`` hold.
            rrf_k: of the fusion; see :func:`~secondpass.fusion.reciprocal_rank_fusion`.

        Returns:
            New candidates with the score: BM25 (0 or more), cosine (-1 to 1), or the sum of
            reciprocal ranks. Of equal fused scores the vector list's candidates come first.

        Raises:
            InputError: an argument out of range, or vectors are needed and there is no embedder.
        """
        query = _SHOWN.query(query)
        check_numbers(k=(k, 1))
        if mode not in get_args(Mode):
            known = ", ".join(get_args(Mode))
            raise InputError(f"mode: must be one of {known}, not {describe(mode)}")
        if mode == "lexical":
            return self._by_words(query, k)
        if mode == "vector":
            return self._by_vectors(query, k)
        lists = [self._by_vectors(query, self.depth), self._by_words(query, self.depth)]
        return reciprocal_rank_fusion(lists, rrf_k=rrf_k)[:k]

    # ------------------------------------------------------------------ words

    def _index_words(self, index: Any, texts: list[str]) -> bool:
        tokens = self._words(texts)
        if not any(tokens):
            return False
        with _quiet("bm25s"):
            index.index(tokens, show_progress=False)
        return True

    def _words(self, texts: list[str]) -> list[list[str]]:
        import bm25s

        words: list[list[str]] = bm25s.tokenize(
            texts,
            token_pattern=_WORD,
            stopwords=[],
            stemmer=self.stem,
            return_ids=False,
            show_progress=False,
        )
        return words

    def _by_words(self, query: str, k: int) -> list[Candidate]:
        if self._index is None:
            return []
        words = self._index.get_tokens_ids(self._words([query])[0])
        if not words:
            return []
        return self._best(self._index.get_scores_from_ids(words), k, above=0.0)

    # ------------------------------------------------------------------ vectors

    def _by_vectors(self, query: str, k: int) -> list[Candidate]:
        if self.embedder is None or self._vectors is None:
            raise InputError("vectors need an embedder, and none was given")
        vector = _vectors_of(self.embedder, [query])[0]
        if vector.shape[0] != self._vectors.shape[1]:
            raise InputError(
                f"embedder: the query's vector has {vector.shape[0]} dimensions, "
                f"the corpus' have {self._vectors.shape[1]}"
            )
        return self._best((self._vectors @ vector)[self._row_of], k)

    # ------------------------------------------------------------------ both

    def _best(
        self, scores: NDArray[np.floating[Any]], k: int, above: float | None = None
    ) -> list[Candidate]:
        import numpy as np

        order = np.argsort(-scores, kind="stable")[:k]
        best = []
        for position in order.tolist():
            score = float(scores[position])
            if above is not None and score <= above:
                break
            found = self.corpus[position]
            best.append(Candidate(found.text, found.id, score, found.metadata))
        return best


def searched(corpus: Sequence[Candidate]) -> list[str]:
    """The text of each candidate that is searched: its title and its text."""
    return [text or "" for text in _SHOWN.candidates(corpus)]


def _check_installed() -> None:
    try:
        import bm25s  # noqa: F401 - so that its absence is told here
        import numpy  # noqa: F401
    except ImportError:
        raise MissingExtraError("evaluation", "HybridRetriever") from None


def _vectors_of(embedder: Embedder, texts: list[str]) -> NDArray[np.float32]:
    import numpy as np

    vectors: NDArray[np.float32] = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"embedder: {len(texts)} texts need vectors of shape ({len(texts)}, d), "
            f"not {vectors.shape}"
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1) < 0.01):  # false for NaN, too
        raise InputError("embedder: every vector must have length 1")
    return vectors


def _check_ids(corpus: Sequence[Candidate]) -> None:
    if not corpus:
        raise InputError("corpus: holds no candidate")
    seen: dict[str, int] = {}
    for position, candidate in enumerate(corpus):
        if candidate.id is None:
            raise InputError(f"corpus[{position}].id: retrieval needs an id")
        first = seen.setdefault(candidate.id, position)
        if first != position:
            raise InputError(f"corpus[{position}].id: {candidate.id!r} is that of corpus[{first}]")


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Hold back a library's debug lines; bm25s lets them through to any handler of the root."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
