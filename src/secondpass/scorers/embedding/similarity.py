"""Similarity of a query and the passages of a list, from encodings by a small model.

One pair::

    score = (cos(mean Q, mean P) + sum_i w_i max_j cos(q_i, p_j)) / 2

Q and P are the token states of query and passage. The first term compares sentence embeddings,
which is what the model was trained for. The second is late interaction (Khattab and Zaharia,
"ColBERT", SIGIR 2020): the best passage token for each query token, so that a short answer in a
long passage counts. The weights ``w_i = |q_i| / sum |q_k|`` are those that the first term has
implicitly: a mean of vectors weighs each by its length. i and j run over content tokens (no special
token, no single punctuation mark).

For a list of passages, :func:`list_scores` adds two terms.

IDF: which query tokens are rare in the list. ``N`` passages, ``n_i`` of which have the token::

    idf_i = ln(1 + (N - n_i + 0.5) / (n_i + 0.5))        v_i = w_i idf_i / sum_k w_k idf_k

MaxSim has the weights ``(w + v) / 2``. With ``v`` alone, the subject of the query would count least
in a list that was retrieved by its words, since nearly every passage has them.

Feedback: the subject of the best passages. The first term becomes ``cos(mean P, q)``::

    q = mean Q / |mean Q| + 10 sum_p max(0, s_p - s) mean P_p / |mean P_p|

``s_p`` are the scores without feedback, and ``s`` is the score after the ``feedback`` best of them.
This is Rocchio's update (in Salton, "The SMART Retrieval System", 1971) with the best passages in
place of relevant ones, as Li et al. apply it to embeddings ("Pseudo relevance feedback with deep
language models and dense retrievers", 2021). Since passages are weighted by their lead, they enter
and leave the sum gradually, and a rounding error cannot exchange one for another. A list without a
lead has no feedback.

The best-matching sentence of a passage is the one with the highest second term.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.questions import Span
from secondpass.ranking.splitting import short_sentences
from secondpass.scorers.embedding.encoder import Encoding, Tokens, unit
from secondpass.types import Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FEEDBACK = 10
"""Weight of feedback: a passage that leads by 0.1 counts as much as the query."""
_PRODUCT = 250_000
"""Multiplications of a matrix product. OpenBLAS runs larger ones in threads that wait actively for
the next one: ten times the processor time for products of this size."""


class Text(NamedTuple):
    """An encoded text; vectors have length 1.

    Attributes:
        mean: shape (384,); zeros if the text has no readable token.
        tokens: shape (n, 384); zeros if the text has no readable token.
        weights: shape (n,), with the sum 1.
        ids: the tokens' numbers in the vocabulary, shape (n,); those that are not readable are -1.
        sentences: (start, stop) of the sentences that have a token, in characters of the shortened
            text, long ones in parts; none for a query and for a text without a readable token.
        first: the first token of each of these sentences, ascending, the first of all being 0.
        truncated: whether the text has more tokens than the model reads, as far as it is known.
    """

    mean: NDArray[np.float32]
    tokens: NDArray[np.float32]
    weights: NDArray[np.float32]
    ids: NDArray[np.int64]
    sentences: Sequence[Span] = ()
    first: Sequence[int] = (0,)
    truncated: bool = False


class PassageMatch(NamedTuple):
    """A query and a passage, compared.

    Attributes:
        cosine: of the means.
        best: the largest cosine of each query token with a passage token, shape (n,).
        present: whether the passage has that query token, shape (n,).
        mean: of the passage, shape (384,).
        pieces: the sentences of the passage, and the second term of each, with the weights w.
        known: whether the passage was encoded before.
    """

    query: Text
    cosine: float
    best: NDArray[np.float32]
    present: NDArray[np.bool_]
    mean: NDArray[np.float32]
    pieces: Sequence[Piece] = ()
    known: bool = False

    @property
    def span(self) -> Span | None:
        """The sentence with the highest second term; None without any."""
        best = max(self.pieces, key=itemgetter(2), default=None)
        return None if best is None else best[:2]


def encoded_text(encoding: Encoding, tokens: Tokens | None = None) -> Text:
    """The vectors of a text that its scores depend on; with its tokens, its sentences, too.

    A token is readable if it is a content token and in the vocabulary. A text without a readable
    token, such as most texts in a script that the vocabulary lacks, gets zeros: the model's states
    of two such texts can be equal although the texts are not.
    """
    import numpy as np

    states, mean = encoding.states[encoding.content], encoding.states.mean(axis=0)
    lengths = np.linalg.norm(states, axis=1)
    ids = np.where(encoding.readable, encoding.ids, -1)[encoding.content]
    spans: Sequence[Span] = ()
    first: Sequence[int] = (0,)
    if not encoding.readable.any():
        states, mean = np.zeros_like(states), np.zeros_like(mean)
    elif tokens is not None:
        spans, first = _sentences(tokens.text, np.asarray(tokens.starts)[encoding.content])
    truncated = tokens is not None and tokens.truncated
    weights = lengths / lengths.sum()
    return Text(unit(mean), unit(states), weights, ids, spans, first, truncated)


def _sentences(text: str, starts: NDArray[np.int64]) -> tuple[list[Span], list[int]]:
    """The sentences that have a token, and the first token of each."""
    import numpy as np

    spans = short_sentences(text)
    owners = np.searchsorted([stop for _, stop in spans], starts, side="right")
    numbers, first = np.unique(owners, return_index=True)
    return [spans[number] for number in numbers], first.tolist()


def match(query: Text, passage: Text) -> PassageMatch:
    """Compare a query with a passage."""
    import numpy as np

    by_sentence = np.maximum.reduceat(
        products_in_blocks(passage.tokens, query.tokens), passage.first, axis=0
    )
    scores = (by_sentence @ query.weights).tolist()
    pieces = [
        (*span, score) for span, score in zip(passage.sentences, scores, strict=False)
    ]  # a text without a sentence has a score, too
    present = (query.ids[:, None] == passage.ids).any(axis=1) & (query.ids >= 0)
    cosine = float(query.mean @ passage.mean)
    return PassageMatch(query, cosine, by_sentence.max(axis=0), present, passage.mean, pieces)


def products_in_blocks(
    rows: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The product of each row with each of the others, shape (rows, others)."""
    import numpy as np

    size = max(1, min(len(rows), _PRODUCT // others.size))
    whole = len(rows) - len(rows) % size
    products = (rows[:whole].reshape(-1, size, rows.shape[1]) @ others.T).reshape(whole, -1)
    if whole == len(rows):
        return products
    return np.concatenate([products, rows[whole:] @ others.T])


def list_scores(
    matches: Sequence[PassageMatch], *, feedback: int, idf: bool, cosine: bool = True
) -> list[float]:
    """One score per passage of a list, -1 to 1, regardless of the order of the list.

    ``feedback`` is the number of passages that the query is moved to, ``idf`` weighs its tokens by
    their rarity in the list, and without ``cosine`` there is the second term only, without
    feedback. Without feedback and IDF, the score of a pair does not depend on the others.
    """
    import numpy as np

    if not matches:
        return []
    query = matches[0].query
    weights = query.weights
    if idf:
        weights = _idf_weights(query, np.stack([match.present for match in matches]))
    best = _products(np.stack([match.best for match in matches]), weights)
    if not cosine:
        return [float(score) for score in best]
    cosines = np.array([match.cosine for match in matches], dtype=np.float32)
    if feedback:
        means = np.stack([match.mean for match in matches])
        lead = _lead((cosines + best) / 2, feedback)
        moved = query.mean + _FEEDBACK * np.einsum("i,ij->j", lead, means)
        cosines = _products(means, unit(moved))
    scores: list[float] = ((cosines + best) / 2).tolist()
    return scores


def _products(rows: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of each row with a vector; the same for equal rows, unlike that of a matrix."""
    import numpy as np

    products: NDArray[np.float32] = np.einsum("ij,j->i", rows, vector)
    return products


def _lead(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.float32]:
    """By how much each of the best scores exceeds the one after them; 0 for the others."""
    import numpy as np

    after = len(scores) - 1 - count
    threshold = np.partition(scores, after)[after] if after > 0 else scores.min()
    lead: NDArray[np.float32] = np.maximum(scores - threshold, 0, dtype=np.float32)
    return lead


def _idf_weights(query: Text, present: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The weights of a query's tokens, half of them by their IDF in the list; the sum is 1."""
    import numpy as np

    count, frequencies = len(present), present.sum(axis=0)
    idf = np.log1p((count - frequencies + 0.5) / (frequencies + 0.5))
    # An unknown token may be any word, so its rarity is not known.
    rare = query.weights * idf * (query.ids >= 0)
    total = rare.sum()
    if not total:
        return query.weights
    weights: NDArray[np.float32] = ((query.weights + rare / total) / 2).astype(np.float32)
    return weights
