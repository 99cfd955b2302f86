"""Similarity of a query and the passages of a list, from encodings by a small model.

One pair::

    score = (cos(mean Q, mean P) + sum_i w_i max_j cos(q_i, p_j)) / 2

Q and P are the token states of query and passage. The first term compares sentence embeddings,
which is what the model was trained for. The second is late interaction (Khattab and Zaharia,
"ColBERT", SIGIR 2020): the best passage token for each query token, so that a short answer in a
long passage counts. The weights ``w_i = |q_i| / sum |q_k|`` are those that the first term has
implicitly: a mean of vectors weighs each by its length. i and j run over content tokens (no special
token, no single punctuation mark).

A list of passages (:func:`list_scores`) tells two things more.

IDF: which query tokens are rare. ``N`` passages, ``n_i`` of which have the token::

    idf_i = ln(1 + (N - n_i + 0.5) / (n_i + 0.5))        v_i = w_i idf_i / sum_k w_k idf_k

MaxSim has the weights ``(w + v) / 2``. With ``v`` alone, the subject of the query would count least
in a list that was found by its words: nearly every passage has them.

Feedback: what the best passages are about. The first term becomes ``cos(mean P, q)``::

    q = mean Q / |mean Q| + 10 sum_p max(0, s_p - s) mean P_p / |mean P_p|

``s_p`` are the scores before it, and ``s`` is the one after the ``feedback`` best of them. This is
Rocchio's update (in Salton, "The SMART Retrieval System", 1971) with the best passages in place of
relevant ones, as Li et al. apply it to embeddings ("Pseudo relevance feedback with deep language
models and dense retrievers", 2021). Weighted by their lead, passages enter and leave the sum
gradually: a rounding error cannot exchange one for another. A list without a lead has no feedback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.scorers import minilm

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
        tokens: shape (n, 384); zeros likewise.
        weights: shape (n,), with the sum 1.
        ids: the tokens' numbers in the vocabulary, shape (n,); those that are not readable are -1.
    """

    mean: NDArray[np.float32]
    tokens: NDArray[np.float32]
    weights: NDArray[np.float32]
    ids: NDArray[np.int64]


class Match(NamedTuple):
    """A query and a passage, compared.

    Attributes:
        query: the query.
        cosine: cosine of the means.
        best: the largest cosine of each query token with a passage token, shape (n,).
        present: whether the passage has that query token, shape (n,).
        mean: the mean of the passage, shape (384,).
    """

    query: Text
    cosine: float
    best: NDArray[np.float32]
    present: NDArray[np.bool_]
    mean: NDArray[np.float32]


def encoded_text(encoding: minilm.Encoding) -> Text:
    """The vectors of a text that its scores depend on.

    A token is readable if it is a content token and in the vocabulary. A text without one, such as
    most in a script that the vocabulary lacks, is like no other: its vectors are zeros, although
    the model's states of two such texts can be the same.
    """
    import numpy as np

    tokens, mean = encoding.states[encoding.content], encoding.states.mean(axis=0)
    lengths = np.linalg.norm(tokens, axis=1)
    ids = np.where(encoding.readable, encoding.ids, -1)[encoding.content]
    if not encoding.readable.any():
        tokens, mean = np.zeros_like(tokens), np.zeros_like(mean)
    return Text(minilm.unit(mean), minilm.unit(tokens), lengths / lengths.sum(), ids)


def match(query: Text, passage: Text) -> Match:
    """Compare a query with a passage."""
    present = (query.ids[:, None] == passage.ids).any(axis=1) & (query.ids >= 0)
    cosine = float(query.mean @ passage.mean)
    return Match(query, cosine, _largest(query.tokens, passage.tokens), present, passage.mean)


def _largest(rows: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest product of each row with one of the others."""
    import numpy as np

    size = max(1, min(len(others), _PRODUCT // rows.size))
    whole = len(others) - len(others) % size
    products = others[:whole].reshape(-1, size, others.shape[1]) @ rows.T
    largest: NDArray[np.float32] = products.max(axis=(0, 1))
    if whole < len(others):
        largest = np.maximum(largest, (others[whole:] @ rows.T).max(axis=0))
    return largest


def list_scores(
    matches: Sequence[Match], *, feedback: int, idf: bool, cosine: bool = True
) -> list[float]:
    """One score per passage of a list, -1 to 1, whatever the order of the list.

    Args:
        matches: one query with each passage.
        feedback: passages that the query is moved to: the best ones by the scores without it; 0
            for none.
        idf: weigh query tokens by their rarity in the list, too.
        cosine: False for the second term alone, without feedback.

    With neither, the score of a pair does not depend on the others.
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
        cosines = _products(means, minilm.unit(moved))
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
    """The weights of a query's tokens, half of them by their IDF in the list; the sum is 1.

    Args:
        query: the query.
        present: whether each passage has each token, shape (passages, tokens).
    """
    import numpy as np

    count, frequencies = len(present), present.sum(axis=0)
    idf = np.log1p((count - frequencies + 0.5) / (frequencies + 0.5))
    # An unknown token may be any word, so nothing is known of its rarity.
    rare = query.weights * idf * (query.ids >= 0)
    total = rare.sum()
    if not total:
        return query.weights
    weights: NDArray[np.float32] = ((query.weights + rare / total) / 2).astype(np.float32)
    return weights
