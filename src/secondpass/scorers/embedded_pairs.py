"""Pairs of a query and a passage for :mod:`secondpass.scorers.embedded`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from secondpass.scorers import minilm
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.truncated import TruncatedPairs
from secondpass.scorers.similarity import Match, Text, encoded_text, match
from secondpass.scorers.truncation import span_before

_QUERIES = 256
"""Queries that are kept encoded."""


class _Pair(NamedTuple):
    """A prepared pair.

    Attributes:
        length: tokens of the passage; 0 if it is remembered.
        passage: the passage.
        key: its text, shortened to what its tokens need; the key of its encoding.
        tokens: of the passage; None if it is remembered, and ``match`` is set.
    """

    length: int
    query: Text
    passage: str
    key: str
    tokens: minilm.Tokens | None
    match: Match | None = None


class EmbeddedPairs:
    """Adapts the encoder to a :class:`~secondpass.scorers.engines.pairs.PairModel`.

    Args:
        model: the loaded encoder.
        remember: number of passages that are kept encoded.
    """

    def __init__(self, model: minilm.MiniLM, remember: int = 0) -> None:
        self.model = model
        self.backend, self.precision = model.backend, model.precision
        self.threads, self.budget = model.threads, model.budget
        self.passages: LRU[str, Text] = LRU(remember)
        self._queries: LRU[str, Text] = LRU(_QUERIES)
        self._truncated = TruncatedPairs()

    def identity(self) -> Mapping[str, Any]:
        """Everything but the texts that a match depends on."""
        return {
            "model": minilm.MODEL_NAME,
            "backend": self.backend,
            "version": self.model.version,
            "precision": self.precision,
        }

    def prepare(self, query: str, passages: Sequence[str]) -> list[_Pair]:
        """The tokens of each passage, or the match if the passage is remembered."""
        if not passages:
            return []
        encoded = self._query(query)
        keys = [self.model.shortened(passage) for passage in passages]  # bounds their size
        known: Sequence[Text | None] = [None] * len(keys)
        if self.passages.capacity:
            known = self.passages.get_many(keys)
        pairs = []
        for passage, key, text in zip(passages, keys, known, strict=True):
            if text is None:
                tokens = self.model.tokenize(key)
                if self.model.is_truncated(passage, tokens):
                    self._truncated.add("", [passage])
                pairs.append(_Pair(len(tokens.ids), encoded, passage, key, tokens))
            else:
                known_match = _match(encoded, text, passage, key)
                pairs.append(_Pair(0, encoded, passage, key, None, known_match))
        return pairs

    def truncated(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that were not read whole; all if the query was not."""
        if self._truncated.indices("", [query]):
            return list(range(len(passages)))
        return self._truncated.indices("", passages)

    def run(self, pairs: Sequence[_Pair]) -> list[Match]:
        """One match per pair, in one call of the model.

        A passage of several pairs is encoded once.
        """
        tokens = {pair.key: pair.tokens for pair in pairs if pair.tokens is not None}
        texts: dict[str, Text] = {}
        if self.passages.capacity:  # an earlier batch may have encoded it since
            known = zip(tokens, self.passages.get_many(tokens), strict=True)
            texts = {key: text for key, text in known if text is not None}
        missing = {key: value for key, value in tokens.items() if key not in texts}
        if missing:
            encodings = self.model.encode_batch([*missing.values()])
            new = dict(zip(missing, map(encoded_text, encodings, missing.values()), strict=True))
            texts.update(new)
            self.passages.put_many(new.items())
        return [
            pair.match or _match(pair.query, texts[pair.key], pair.passage, pair.key)
            for pair in pairs
        ]

    def _query(self, query: str) -> Text:
        key = self.model.shortened(query)
        (encoded,) = self._queries.get_many([key])
        if encoded is None:
            tokens = self.model.tokenize(key)
            if self.model.is_truncated(query, tokens):
                self._truncated.add("", [query])
            encoded = encoded_text(self.model.encode_batch([tokens])[0])
            self._queries.put_many([(key, encoded)])
        return encoded


def _match(query: Text, text: Text, passage: str, key: str) -> Match:
    """Compare a query with a passage; the span is of the passage, not of its key."""
    result = match(query, text)
    if result.span is None or passage.startswith(key):
        return result
    return result._replace(span=span_before(passage, key, result.span))
