"""A small first stage: exact lexical, vector or hybrid search in memory.

BM25 is computed by bm25s (Lù, "BM25S: orders of magnitude faster lexical search via eager sparse
scoring", 2024), cosine similarity by a matrix product, and hybrid search by reciprocal rank fusion.
It suits up to about 100,000 passages; a query then takes milliseconds, and vectors of 384
dimensions take 150 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from secondpass import Candidate, CandidateLike, InputError, fuse
from secondpass.formats.errors import check_numbers
from secondpass.ranking.candidates import to_candidates
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.words import split_words
from secondpass.settings import describe
from secondpass.settings.arguments import explained
from secondpass.settings.messages import did_you_mean
from secondpass_evaluation.search.embedders import Embedder, embed_checked, embed_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Mode: TypeAlias = Literal["vector", "lexical", "hybrid"]


@cache
def _rendering() -> Rendering:
    return Rendering(fields=("title", "text"))  # not at import: the check imports pydantic


@dataclass(frozen=True, slots=True)
class Parts:
    """What a retriever computes from its corpus, and an index stores.

    Attributes:
        corpus: the candidates.
        words: the ``bm25s.BM25`` of their words; None if there are no words.
        row_of: for each candidate the row of its vector.
        vectors: the vectors of the distinct texts; None without an embedder.
    """

    corpus: Sequence[Candidate]
    words: Any
    row_of: NDArray[np.integer[Any]]
    vectors: NDArray[np.float32] | None


class HybridRetriever:
    """Retrieves by BM25, by cosine similarity of vectors, or by both.

    Args:
        corpus: candidates with unique ids. A title (``metadata["title"]``) is searched together
            with the text in every mode.
        embedder: embeds the corpus once, and each query. Without it the only mode is ``lexical``.
        depth: number of candidates of each list that the mode ``hybrid`` fuses.
        stem: maps a list of words to their stems, for example PyStemmer's ``stemWords``, which
            clearly improves BM25 for English and similar languages. It gets words in lower case,
            with accents, in which ``ß`` is ``ss``; and pairs of characters, which PyStemmer returns
            unchanged. None: no stemming.
        k1: saturation of the term frequency in BM25, 0 or more.
        b: length normalisation in BM25, 0 to 1.

    Words are those of :func:`~secondpass.ranking.words.split_words`: runs of letters, digits and
    underscores; in Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese, pairs of characters.
    Their spelling in Unicode makes no difference. There are no stop words: the inverse document
    frequency gives frequent words little weight. The defaults of ``k1`` and ``b`` are Lucene's.

    Raises:
        InputError: the corpus is empty, an id is missing or repeated, vectors have a wrong shape
            or length, or an argument is out of range.
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
        texts = search_texts(self.corpus)
        self._index: Any = None
        if any(tokens := self._words(texts)):
            self._index = bm25s.BM25(method="lucene", k1=k1, b=b)
            with _quiet("bm25s"):
                self._index.index(tokens, show_progress=False)
        # One vector for each distinct text: a matrix product may round equal rows differently, and
        # equal passages must tie.
        rows: dict[str, int] = {}
        self._row_of: NDArray[np.integer[Any]] = np.array(
            [rows.setdefault(text, len(rows)) for text in texts], dtype=np.int32
        )
        self._vectors = embed_checked(embedder, list(rows)) if embedder is not None else None

    @staticmethod
    def from_parts(
        parts: Parts, embedder: Embedder | None = None, *, depth: int = 100
    ) -> HybridRetriever:
        """Create a retriever, without a stemmer, from the parts of another."""
        retriever = HybridRetriever.__new__(HybridRetriever)
        retriever._take(parts, embedder, depth)
        return retriever

    def _take(self, parts: Parts, embedder: Embedder | None, depth: int) -> None:
        self.corpus = parts.corpus
        self.embedder = embedder
        check_numbers(depth=(depth, 1))
        self.depth = depth
        self.stem = None
        self._index = parts.words
        self._row_of = parts.row_of
        self._vectors = parts.vectors

    @property
    def parts(self) -> Parts:
        """The data that was computed from the corpus."""
        return Parts(self.corpus, self._index, self._row_of, self._vectors)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that :meth:`retrieve` accepts."""
        if self.embedder is None or self._vectors is None:
            return ("lexical",)
        return get_args(Mode)

    @explained()
    def retrieve(
        self, query: str, k: int, mode: Mode = "hybrid", rrf_k: float = 60
    ) -> list[Candidate]:
        """Return the best ``k`` candidates, best first; ties keep the order of the corpus.

        Args:
            query: the search query.
            k: maximum number of candidates to return.
            mode: ``lexical`` returns only candidates that share a word with the query; ``hybrid``
                at most the candidates in the two lists of ``depth``.
            rrf_k: see :func:`secondpass.fuse`.

        Returns:
            New candidates. The score is BM25 (0 or more), the cosine (-1 to 1), or that of
            :func:`secondpass.fuse` for the lists ``vector`` and ``lexical`` (0 to 1).

        Raises:
            InputError: an argument is out of range, or the mode needs an embedder.
        """
        query = _rendering().query(query)
        check_numbers(k=(k, 1))
        if mode not in get_args(Mode):
            known = ", ".join(get_args(Mode))
            hint = did_you_mean(mode, get_args(Mode))
            raise InputError(f"mode: must be one of {known}, not {describe(mode)}{hint}")
        if mode == "lexical":
            return self._by_words(query, k)
        if mode == "vector":
            return self._by_vectors(query, k)
        vector, lexical = self._by_vectors(query, self.depth), self._by_words(query, self.depth)
        return fuse({"vector": vector, "lexical": lexical}, rrf_k=rrf_k)[:k]

    def _words(self, texts: list[str]) -> list[list[str]]:
        known: dict[str, str] = {}  # one object for each distinct word, which saves memory
        words = [[known.setdefault(word, word) for word in split_words(text)] for text in texts]
        if self.stem is None:
            return words
        stems = dict(zip(known, self.stem(list(known)), strict=True))
        return [[stems[word] for word in passage] for passage in words]

    def _by_words(self, query: str, k: int) -> list[Candidate]:
        if self._index is None:
            return []
        words = self._index.get_tokens_ids(self._words([query])[0])
        if not words:
            return []
        return self._best(self._index.get_scores_from_ids(words), k, above=0.0)

    def _by_vectors(self, query: str, k: int) -> list[Candidate]:
        if self.embedder is None or self._vectors is None:
            raise InputError("vectors need an embedder")
        vector = embed_query(self.embedder, query)
        if vector.shape[0] != self._vectors.shape[1]:
            raise InputError(
                f"embedder: the query's vector has {vector.shape[0]} dimensions, "
                f"those of the corpus have {self._vectors.shape[1]}"
            )
        return self._best((self._vectors @ vector)[self._row_of], k)

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
            candidate = self.corpus[position]
            best.append(Candidate(candidate.text, candidate.id, score, candidate.metadata))
        return best


def search_texts(corpus: Sequence[Candidate]) -> list[str]:
    """The title and text of each candidate, as they are searched."""
    return [text or "" for text in _rendering().candidates(corpus)]


def _check_ids(corpus: Sequence[Candidate]) -> None:
    if not corpus:
        raise InputError("corpus: is empty")
    seen: dict[str, int] = {}
    for position, candidate in enumerate(corpus):
        if candidate.id is None:
            raise InputError(f"corpus[{position}].id: retrieval needs an id")
        first = seen.setdefault(str(candidate.id), position)
        if first != position:
            raise InputError(
                f"corpus[{position}].id: {candidate.id!r} is also the id of corpus[{first}]"
            )


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence the debug records of bm25s, which sets its own level to DEBUG."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
