"""Similarity by an embedding model that is installed by pip: what such scorers share.

Query and passages are encoded separately, so this is not a cross-encoder.
:mod:`secondpass.scorers.embedding.similarity` has the rule of the scores; docs/evidence.md has
measurements, and the rules that were tried.

One call, one round; cost is linear in the number of candidates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

from secondpass.concurrency.lazy import Lazy
from secondpass.concurrency.sharing import shared
from secondpass.errors import StoreError
from secondpass.questions import ListScores, Span
from secondpass.ranking.english import Verdict
from secondpass.scorers.batching.pairs import PairEngine, Requests, Scored
from secondpass.scorers.embedding import packing
from secondpass.scorers.embedding.encoder import MAX_TOKENS, Encoder, Tokens
from secondpass.scorers.embedding.packing import Record
from secondpass.scorers.embedding.passage_store import PASSAGE_STORE, KnownPassages, PassageStore
from secondpass.scorers.embedding.similarity import (
    PassageMatch,
    Text,
    encoded_text,
    list_scores,
    match,
)
from secondpass.scorers.tokens.truncated import TruncatedTexts
from secondpass.storage.lru import LRU
from secondpass.types import EngineInfo, Issue, Piece, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le

_QUERIES = 256
"""Queries that are kept encoded."""


class _Pair(NamedTuple):
    """A prepared pair; ``key`` is the passage, shortened to what its tokens need."""

    length: int
    query: Text
    passage: str
    key: str
    tokens: Tokens


class EmbeddedPairs:
    """Adapts the encoder to a :class:`~secondpass.scorers.batching.pairs.PairModel`.

    With ``known``, each passage is packed, whether it was known or has just been encoded.
    """

    def __init__(self, model: Encoder, known: KnownPassages | None = None) -> None:
        self.model = model
        self.backend = model.backend
        # A fit is for one of them: packing moves scores by a hundredth.
        rounded = "" if known is None else ", passages rounded to 2 bits per number"
        self.precision = f"{model.precision}{rounded}"
        self.threads, self.budget = model.threads, model.budget
        self.known = known
        self._queries: LRU[str, Text] = LRU(_QUERIES)
        self.truncated = TruncatedTexts()

    def identity(self) -> Mapping[str, Any]:
        return {
            "model": self.model.name,
            "backend": self.backend,
            "version": self.model.version,
            "precision": self.precision,
        }

    def recall(self, query: str, passages: Sequence[str]) -> dict[int, PassageMatch]:
        """The matches of the passages that are known, by index."""
        if self.known is None or not passages:
            return {}
        keys = [self.model.shortened(passage) for passage in passages]  # bounds their size
        indices, records = [], []
        for index, record in enumerate(self.known.get_many(keys)):
            if record is not None:
                indices.append(index)
                records.append(record)
        if not records:
            return {}
        for index, record in zip(indices, records, strict=True):
            if record.truncated:
                self.truncated.add_passage(passages[index])
        known_keys = [keys[index] for index in indices]
        matches = packing.matches(self._query(query), records, known_keys)
        return {
            index: self._of_passage(result._replace(known=True), passages[index], keys[index])
            for index, result in zip(indices, matches, strict=True)
        }

    def prepare(self, query: str, passages: Sequence[str]) -> list[_Pair]:
        """The tokens of each passage."""
        if not passages:
            return []
        encoded = self._query(query)
        pairs = []
        for passage in passages:
            key = self.model.shortened(passage)  # bounds its size
            tokens = self.model.tokens(key, "passage")
            if tokens.truncated:
                self.truncated.add_passage(passage)
            pairs.append(_Pair(len(tokens.ids), encoded, passage, key, tokens))
        return pairs

    def run(self, pairs: Sequence[_Pair]) -> list[PassageMatch]:
        """One match per pair, in one call of the model. Equal passages are encoded once."""
        distinct = {pair.key: pair for pair in pairs}
        if self.known is None:
            texts = self._encoded(distinct)
            return [
                self._of_passage(match(pair.query, texts[pair.key]), pair.passage, pair.key)
                for pair in pairs
            ]
        records = self._records(self.known, distinct)
        found: list[PassageMatch] = []
        for pair in pairs:
            (result,) = packing.matches(pair.query, [records[pair.key]], [pair.key])
            found.append(self._of_passage(result, pair.passage, pair.key))
        return found

    def _encoded(self, pairs: Mapping[str, _Pair]) -> dict[str, Text]:
        """The passages of pairs, by key, encoded."""
        encodings = self.model.encode_batch([pair.tokens for pair in pairs.values()])
        return {
            key: encoded_text(encoding, pair.tokens)
            for (key, pair), encoding in zip(pairs.items(), encodings, strict=True)
        }

    def _records(self, known: KnownPassages, pairs: Mapping[str, _Pair]) -> dict[str, Record]:
        """The passages of pairs, by key, packed. Those that are not known are encoded and kept."""
        # Another batch may have encoded some of them since they were looked up.
        stored = dict(zip(pairs, known.get_many([*pairs]), strict=True))
        records = {key: record for key, record in stored.items() if record is not None}
        missing = {key: pair for key, pair in pairs.items() if key not in records}
        if missing:
            new = {key: packing.pack(text, key) for key, text in self._encoded(missing).items()}
            kept = known.put_many(new)
            records.update((key, packing.unpack(data)) for key, data in kept.items())
        return records

    def _query(self, query: str) -> Text:
        key = self.model.shortened(query)
        (encoded,) = self._queries.get_many([key])
        if encoded is None:
            tokens = self.model.tokens(key, "query")
            encoded = encoded_text(self.model.encode_batch([tokens])[0])
            encoded = encoded._replace(truncated=tokens.truncated)
            self._queries.put_many([(key, encoded)])
        if encoded.truncated:
            self.truncated.add_query(query)
        return encoded

    def _of_passage(self, result: PassageMatch, passage: str, key: str) -> PassageMatch:
        """The match with pieces of the passage, in place of those of its key."""
        if not result.pieces or passage.startswith(key):
            return result
        return result._replace(pieces=self.model.pieces_before(passage, result.pieces))


_STORED_AT_ONCE = 64
"""Passages that are encoded before they are written."""

_PAUSE = 20
"""With a deadline, a list is scored again after a pause of this many times the last scoring. Each
scoring covers the whole list, so one after each batch would make the cost quadratic."""


@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddingScorer:
    """Scores passages by an encoder, loaded on first use.

    Args:
        max_length: tokens per text; longer texts are truncated.
        backend: what runs the model. ``auto`` is OpenVINO or onnxruntime: the one that is
            installed, or of both the faster one, by a table of processors.
        precision: ``auto`` is bfloat16 with OpenVINO where that is faster, and changes scores by at
            most 0.005; ``exact`` is float32.
        threads: number of batches that are encoded concurrently; None is the number of available
            CPUs.
        store: a file in which passages are kept encoded: a path or a :class:`PassageStore`. A
            passage that it has costs less than a hundredth. Without ``store`` and ``memory_mb``,
            passages are encoded for each ranking.
        memory_mb: size in 1e6 bytes of the passages that are kept encoded in memory, the last used
            ones; 100 bytes per token.

    Scores are between -1 and 1 (kind ``similarity``). Rerankers call :meth:`score_lists`.
    A text without a readable token has the score 0. Scorers with the same settings share one model.
    Safe for many threads, and after a fork.
    """

    encoder: ClassVar[type[Encoder]]
    """The model."""
    model_name: ClassVar[str]
    score_kind: ClassVar[ScoreKind] = "similarity"
    joins_calls: ClassVar[bool] = True
    pair_scores: ClassVar[bool] = True

    max_length: Annotated[int, Ge(8), Le(MAX_TOKENS)] = MAX_TOKENS
    backend: Literal["auto", "onnx", "openvino"] = "auto"
    precision: Literal["auto", "exact"] = "auto"
    threads: Annotated[int, Ge(1)] | None = None
    store: Annotated[PassageStore | None, PASSAGE_STORE] = None
    memory_mb: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        self.pointwise = True
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
            MissingExtraError: the packages of the extra, or the backend, are not installed.
            ModelLoadError: the model file is not the expected one.
        """
        return self.score_many([(query, documents)])[0]

    def score_many(self, requests: Requests) -> list[list[float]]:
        """Scores for several queries, in common batches sorted by length."""
        return [self._scores(matches) for matches in self._matches(requests)]

    def score_lists(self, requests: Requests, deadline: float | None) -> Iterator[list[ListScores]]:
        """Scores of each list, for as many of its first passages as are read in time.

        Each list of results has one item per request, and replaces those before.
        """
        if not any(documents for _, documents in requests):
            yield [ListScores([]) for _ in requests]
            return
        engine = self._engine.get(self._load)
        model = cast(EmbeddedPairs, engine.model).model
        verdicts = [self._judge(model, query, documents) for query, documents in requests]
        # If the order of a list is kept, none of its passages is read.
        to_score = [
            (query, () if verdict.original == 1 else documents)
            for (query, documents), verdict in zip(requests, verdicts, strict=True)
        ]
        lengths = [len(documents) for _, documents in requests]
        read: list[dict[int, PassageMatch]] = [{} for _ in requests]

        def lists() -> list[ListScores]:
            return [*map(self._list, lengths, read, verdicts)]

        due, changed = 0.0, any(verdict.original == 1 for verdict in verdicts)
        for batch in _read_until(engine, to_score, deadline):
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
        self, length: int, matches: Mapping[int, PassageMatch], verdict: Verdict
    ) -> ListScores:
        """The scores of the passages that were read; None for the others."""
        scores: list[float | None] = [None] * length
        order: list[float | None] = [None] * length
        spans: list[Span | None] = [None] * length
        pieces: list[Sequence[Piece] | None] = [None] * length
        indices = sorted(matches)  # the same order with or without a deadline
        read = [matches[index] for index in indices]
        pair_scores = list_scores(read, feedback=0, idf=False)
        lean = verdict.original is not None
        read_scores = pair_scores if self.pointwise and not lean else self._scores(read, lean=lean)
        for index, pair, score, part in zip(indices, pair_scores, read_scores, read, strict=True):
            scores[index], order[index] = pair, score
            spans[index], pieces[index] = part.span, part.pieces
        known = sum(part.known for part in read)
        return ListScores(
            scores,
            verdict.issues,
            verdict.original,
            spans,
            order_scores=None if read_scores is pair_scores else order,
            known=known,
            encoded=len(read) - known,
            pieces=pieces,
        )

    def _judge(self, _model: Encoder, _query: str, _documents: Sequence[str]) -> Verdict:
        """How a list is scored."""
        return Verdict()

    def _scores(self, matches: Sequence[PassageMatch], *, lean: bool = False) -> list[float]:
        """What orders a list; without ``lean``, and if ``pointwise``, the scores of its pairs."""
        return list_scores(matches, feedback=0, idf=False, cosine=not lean)

    def vectors(self, documents: Sequence[str]) -> list[Any]:
        """The vector of each document, of length 1, shape (384,): the mean of its token states.

        Zeros if it has no readable token.
        """
        if not documents:
            return []
        return [match.mean for match in self._matches([("", documents)])[0]]

    def _matches(self, requests: Requests) -> list[list[PassageMatch]]:
        """The match of each passage."""
        if not any(documents for _, documents in requests):
            return [[] for _ in requests]
        found: list[dict[int, PassageMatch]] = [{} for _ in requests]
        for batch in _read_until(self._engine.get(self._load), requests, None):
            for request, passage, result in batch:
                found[request][passage] = result
        return [[matches[index] for index in sorted(matches)] for matches in found]

    @property
    def token_limit(self) -> int | None:
        """The limit that the settings set; None is the model's own."""
        return self.max_length if self.max_length < MAX_TOKENS else None

    def truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents that the model did not read whole, as far as it is known."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.passages(query, documents)

    def query_truncated(self, query: str, documents: Sequence[str]) -> list[int]:
        """The indices of documents beside which the model did not read the whole query."""
        engine = self._engine.loaded
        return [] if engine is None else engine.model.truncated.queries(query, documents)

    def store_passages(self, documents: Sequence[str]) -> tuple[int, int]:
        """Encode what ``store`` does not have, and write it to the file.

        Returns:
            The number of documents that were known, and of those that were encoded.

        Raises:
            StoreError: there is no store, or not all documents could be stored. Nothing that the
                file has is deleted for them.
        """
        known = self._stored()
        shortened = cast(EmbeddedPairs, self._engine.get(self._load).model).model.shortened
        counts = [0, 0]
        for start in range(0, len(documents), _STORED_AT_ONCE):
            part = documents[start : start + _STORED_AT_ONCE]
            keys = map(shortened, part)
            known.check_room(sum(packing.largest_size(key, self.max_length) for key in keys))
            for batch in _read_until(self._engine.get(self._load), [("", part)], None):
                for _, _, result in batch:
                    counts[0 if result.known else 1] += 1
            known.flush()
        return counts[0], counts[1]

    def forget_passages(self, documents: Sequence[str]) -> None:
        """Delete documents from ``store``, and from the memory of this process.

        Raises:
            StoreError: there is no store, or the file cannot be written.
        """
        known = self._stored()
        shortened = cast(EmbeddedPairs, self._engine.get(self._load).model).model.shortened
        known.forget([shortened(text) for text in documents])

    def store_contents(self) -> dict[str, Any] | None:
        """What the file of ``store`` holds, once the model is loaded; None if it is not known.

        Its ``path``, the number of its ``rows``, its size in ``bytes`` and ``max_bytes``, and
        whether it is ``writable``.
        """
        known = self._known()
        contents = None if known is None else known.contents()
        if contents is None or self.store is None:
            return None
        return {"path": self.store.path, **contents}

    def _stored(self) -> KnownPassages:
        known = cast(EmbeddedPairs, self._engine.get(self._load).model).known
        if self.store is None or known is None:
            raise StoreError("there is no store: set 'store' of the method to the path of a file")
        return known

    def cache_issues(self) -> list[Issue]:
        """What is wrong with the store, for a report."""
        known = self._known()
        return [] if known is None else known.issues()

    def check_installed(self) -> None:
        self.encoder.check_installed(self.backend)

    def warm_up(self) -> None:
        self._engine.retry(self._load)

    def close(self) -> None:
        """Release the model and the encoded passages, unless other scorers use them.

        The next call loads the model again. What is not yet written to the store is written.
        """
        if (known := self._known()) is not None:
            known.close()
        self._engine.clear()
        self._shared = None

    def _load(self) -> PairEngine:
        def load() -> PairEngine:
            model = self.encoder(
                max_tokens=self.max_length,
                threads=self.threads,
                backend=self.backend,
                precision=self.precision,
            )
            return PairEngine(EmbeddedPairs(model, self._kept()), model.reason)

        kept = self.store, self.memory_mb
        settings = (self.max_length, self.backend, self.precision, self.threads, *kept)
        self._shared = shared((self.encoder.name, *settings))
        # This scorer remembers an error itself, so other scorers may try again.
        return self._shared.retry(load)

    def _known(self) -> KnownPassages | None:
        """The passages that the loaded engine keeps; None if it keeps none."""
        engine = self._engine.loaded
        return None if engine is None else cast(EmbeddedPairs, engine.model).known

    def _kept(self) -> KnownPassages | None:
        """A place for the passages that are kept; None if none are."""
        if self.store is None and not self.memory_mb:
            return None
        # Not the runtime: what one kind of processor has written, another one reads. Bfloat16
        # changes less than packing does; ``exact`` reads what float32 has written.
        settings = {
            "model": self.encoder.identity(),
            "tokens": self.max_length,
            "precision": self.precision,
            "packing": packing.VERSION,
        }
        return KnownPassages(settings, self.memory_mb * 1_000_000, self.store)


def _read_until(engine: PairEngine, requests: Requests, deadline: float | None) -> Iterator[Scored]:
    """The matches of the passages of each request: first of those that are known."""
    pairs = cast(EmbeddedPairs, engine.model)
    known = [pairs.recall(query, documents) for query, documents in requests]
    if any(known):
        yield [
            (request, index, result)
            for request, matches in enumerate(known)
            for index, result in matches.items()
        ]
    missing = [
        [index for index in range(len(documents)) if index not in matches]
        for (_, documents), matches in zip(requests, known, strict=True)
    ]
    if not any(missing):
        return
    rest = [
        (query, [documents[index] for index in indices])
        for (query, documents), indices in zip(requests, missing, strict=True)
    ]
    for batch in engine.score_until(rest, deadline):
        yield [(request, missing[request][place], result) for request, place, result in batch]
