"""Similarity by a small embedding model, without a hub, a key or torch.

Query and passages are encoded separately, so this is not a cross-encoder. English only.
:mod:`secondpass.scorers.similarity` has the rule of the scores; docs/evidence.md has measurements,
and the rules that were tried.

One call, one round; cost is linear in the number of candidates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

from secondpass.concurrency.lazy import Lazy
from secondpass.effects import ListScores, Span
from secondpass.ranking import english
from secondpass.scorers import minilm
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.pairs import PairEngine, Requests
from secondpass.scorers.engines.sharing import shared
from secondpass.scorers.engines.truncated import TruncatedTexts
from secondpass.scorers.similarity import Match, Text, encoded_text, list_scores, match
from secondpass.scorers.truncation import span_before
from secondpass.settings import configurable
from secondpass.types import EngineInfo, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le

_QUERIES = 256
"""Queries that are kept encoded."""


class _Pair(NamedTuple):
    """A prepared pair.

    ``key`` is the passage, shortened to what its tokens need. If its encoding is remembered, there
    is a match in place of tokens, and the length is 0.
    """

    length: int
    query: Text
    passage: str
    key: str
    tokens: minilm.Tokens | None
    match: Match | None = None


class EmbeddedPairs:
    """Adapts the encoder to a :class:`~secondpass.scorers.engines.pairs.PairModel`."""

    def __init__(self, model: minilm.MiniLM, remember: int = 0) -> None:
        self.model = model
        self.backend, self.precision = model.backend, model.precision
        self.threads, self.budget = model.threads, model.budget
        self.passages: LRU[str, Text] = LRU(remember)
        self._queries: LRU[str, Text] = LRU(_QUERIES)
        self.truncated = TruncatedTexts()

    def identity(self) -> Mapping[str, Any]:
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
                truncated = tokens.truncated
                pairs.append(_Pair(len(tokens.ids), encoded, passage, key, tokens))
            else:
                truncated = text.truncated
                known_match = _match(encoded, text, passage, key)
                pairs.append(_Pair(0, encoded, passage, key, None, known_match))
            if truncated:
                self.truncated.add_passage(passage)
        return pairs

    def run(self, pairs: Sequence[_Pair]) -> list[Match]:
        """One match per pair, in one call of the model. Equal passages are encoded once."""
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
            encoded = encoded_text(self.model.encode_batch([tokens])[0])
            encoded = encoded._replace(truncated=tokens.truncated)
            self._queries.put_many([(key, encoded)])
        if encoded.truncated:
            self.truncated.add_query(query)
        return encoded


def _match(query: Text, text: Text, passage: str, key: str) -> Match:
    """Compare a query with a passage; the span is of the passage, not of its key."""
    result = match(query, text)
    if result.span is None or passage.startswith(key):
        return result
    return result._replace(span=span_before(passage, key, result.span))


_PAUSE = 20
"""With a deadline, a list is scored again after a pause of this many times the last scoring. Each
scoring covers the whole list, so one after each batch would make the cost quadratic."""


@configurable
@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddedScorer:
    """Scores passages by all-MiniLM-L6-v2, loaded on first use.

    Args:
        max_length: tokens per text; longer texts are truncated.
        backend: what runs the model. ``auto`` is OpenVINO if it is installed, else onnxruntime.
        precision: ``auto`` is bfloat16 with OpenVINO where that is faster, and changes scores by at
            most 0.005; ``exact`` is float32.
        threads: number of batches that are encoded concurrently; None is the number of available
            CPUs.
        remember: number of passages that are kept encoded, the last used ones. Scoring them again
            costs less than a hundredth. A passage takes 1.5 KB per token: 150 MB for 1,000 passages
            of 100 tokens.
        feedback: number of passages towards which the embedding of the query is moved, the best of
            the list by a first scoring; 0 for none. No text is encoded twice.
        idf: words of the query that are rare in the list count more.
        language: what to do with a list that is not English. ``keep`` keeps its order and encodes
            nothing; ``lean`` scores by MaxSim only, with a weight of 0.5 for the original order;
            ``auto`` is ``keep`` if more than 5 % of the word pieces are unknown, or the vocabulary
            spells the script letter by letter, as Cyrillic, Greek or Arabic, else ``lean``;
            ``ignore`` scores it as English.

    Scores are between -1 and 1 (kind ``similarity``). Rerankers call :meth:`score_lists`. The
    scores of a ranking, which thresholds are compared with, depend on the query and one passage
    only: they are those without ``feedback``, ``idf`` and ``language``. The order may follow other
    scores: with ``feedback`` or ``idf`` these depend on the other passages of the list, not on
    their order. :meth:`score_pairs` and :meth:`score_many` return the scores that order a list, and
    do not use ``language``. A text without a
    readable token has the score 0. Rounding errors are up to 1e-5 with ``exact``, and with ``auto``
    a hundredth of the standard deviation (with feedback, three hundredths). Scorers with the same
    settings share one model. Safe for many threads, and after a fork.
    """

    score_kind: ClassVar[ScoreKind] = "similarity"
    model_name: ClassVar[str] = minilm.MODEL_NAME
    joins_calls: ClassVar[bool] = True
    pair_scores: ClassVar[bool] = True

    max_length: Annotated[int, Ge(8), Le(minilm.MAX_TOKENS)] = minilm.MAX_TOKENS
    backend: Literal["auto", "onnx", "openvino"] = "auto"
    precision: Literal["auto", "exact"] = "auto"
    threads: Annotated[int, Ge(1)] | None = None
    remember: Annotated[int, Ge(0)] = 0
    feedback: Annotated[int, Ge(0)] = 5
    idf: bool = True
    language: english.Language = "auto"

    def __post_init__(self) -> None:
        self.pointwise = not (self.feedback or self.idf)
        self._engine = Lazy[PairEngine](per_process=True)
        self._shared: Lazy[PairEngine] | None = None

    @property
    def engine(self) -> EngineInfo | None:
        """How the model runs; None if it is not loaded."""
        engine = self._engine.loaded
        return None if engine is None else engine.info

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document, which orders the list; ``[]`` for none.

        Raises:
            MissingExtraError: the packages of the extra ``embedded``, or the backend, are not
                installed.
            ModelLoadError: the model file is not the expected one.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Requests) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length."""
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        return [self._scores(matches) for matches in self._engine.get(self._load).score(requests)]

    def score_lists(self, requests: Requests, deadline: float | None) -> Iterator[list[ListScores]]:
        """Scores of each list, for as many of its first passages as are read in time.

        Each list of results has one item per request, and replaces those before.
        """
        if not any(documents for _, documents in requests):
            yield [ListScores([]) for _ in requests]
            return
        engine = self._engine.get(self._load)
        tokenizer = cast(EmbeddedPairs, engine.model).model.tokenizer
        verdicts = [
            english.judge(self.language, query, documents, tokenizer)
            for query, documents in requests
        ]
        # If the order of a list is kept, none of its passages is read.
        to_score = [
            (query, () if verdict.original == 1 else documents)
            for (query, documents), verdict in zip(requests, verdicts, strict=True)
        ]
        lengths = [len(documents) for _, documents in requests]
        read: list[dict[int, Match]] = [{} for _ in requests]

        def lists() -> list[ListScores]:
            return [*map(self._list, lengths, read, verdicts)]

        due, changed = 0.0, any(verdict.original == 1 for verdict in verdicts)
        for batch in engine.score_until(to_score, deadline):
            for request, passage, result in batch:
                read[request][passage] = result
            began, changed = time.monotonic(), True
            if deadline is not None and began >= due:
                scored = lists()
                due, changed = began + (time.monotonic() - began) * (1 + _PAUSE), False
                yield scored
        if changed:
            yield lists()

    def _list(
        self, length: int, matches: Mapping[int, Match], verdict: english.Verdict
    ) -> ListScores:
        """The scores of the passages that were read; None for the others."""
        scores: list[float | None] = [None] * length
        order: list[float | None] = [None] * length
        spans: list[Span | None] = [None] * length
        indices = sorted(matches)  # the same order with or without a deadline
        read = [matches[index] for index in indices]
        pair_scores = list_scores(read, feedback=0, idf=False)
        lean = verdict.original is not None
        read_scores = pair_scores if self.pointwise and not lean else self._scores(read, lean=lean)
        for index, pair, score, part in zip(indices, pair_scores, read_scores, read, strict=True):
            scores[index], order[index], spans[index] = pair, score, part.span
        order_scores = None if read_scores is pair_scores else order
        return ListScores(scores, verdict.issues, verdict.original, spans, order_scores)

    def _scores(self, matches: Sequence[Match], *, lean: bool = False) -> list[float]:
        return list_scores(matches, feedback=self.feedback, idf=self.idf, cosine=not lean)

    def vectors(self, documents: Sequence[str]) -> list[Any]:
        """The vector of each document, of length 1, shape (384,): the mean of its token states.

        Zeros if it has no readable token.
        """
        if not documents:
            return []
        return [match.mean for match in self._engine.get(self._load).score([("", documents)])[0]]

    def truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents that the model did not read whole, as far as it is known."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.passages(query, documents)

    def query_truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents beside which the model did not read the whole query."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.queries(query, documents)

    def check_installed(self) -> None:
        minilm.check_installed(self.backend)

    def warm_up(self) -> None:
        self._engine.retry(self._load)

    def close(self) -> None:
        """Release the model and the encoded passages, unless other scorers use them.

        The next call loads the model again.
        """
        self._engine.clear()
        self._shared = None

    def _load(self) -> PairEngine:
        def load() -> PairEngine:
            model = minilm.MiniLM(
                max_tokens=self.max_length,
                threads=self.threads,
                backend=self.backend,
                precision=self.precision,
            )
            return PairEngine(EmbeddedPairs(model, self.remember), model.reason)

        settings = (self.max_length, self.backend, self.precision, self.threads, self.remember)
        self._shared = shared(("embedded", *settings))
        # This scorer remembers an error itself, so other scorers may try again.
        return self._shared.retry(load)
