"""The pairs of the speed benchmarks: queries with their passages, at stated lengths in tokens.

Workload A has about 80 tokens per pair (passages) and B about 170 (chunks of mixed length), with
100 passages per query. Without ``--collections`` the text is Python's language reference, which
ships with Python (``pydoc_data.topics``), cut into passages whose lengths follow a log-normal
distribution, as those of real collections do. With ``--collections`` it is one or two collections:
folders with corpus.jsonl, queries.jsonl and, if there is one, candidates.jsonl.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

SPECIAL = 3  # [CLS] query [SEP] passage [SEP]
MAX_LENGTH = 512
LONGEST_WORD = 12
"""Tokens of the longest word that is used."""


@dataclass(frozen=True)
class Shape:
    """Lengths of a workload: mean tokens of a pair, and the standard deviation of the logarithm."""

    tokens: float
    spread: float


SHAPES = {"A": Shape(80, 0.35), "B": Shape(172, 0.5)}


@dataclass(frozen=True)
class Request:
    """A query and its candidates."""

    query: str
    passages: list[str]


def shipped_text() -> str:
    """Python's language reference, without its tables of characters."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


@lru_cache(maxsize=4)
def counted_words(tokenizer: Any, text: str) -> tuple[list[str], list[int]]:
    """The words of a text that are not too long, and the number of tokens of each."""
    words = text.split()
    distinct = sorted(set(words))
    encoded = tokenizer.encode_batch(distinct, add_special_tokens=False)
    counts = {
        word: len(item.ids)
        for word, item in zip(distinct, encoded, strict=True)
        if 0 < len(item.ids) <= LONGEST_WORD
    }
    kept = [word for word in words if word in counts]
    return kept, [counts[word] for word in kept]


class Passages:
    """Cuts passages of given lengths from a text, at seeded positions."""

    def __init__(self, tokenizer: Any, text: str, seed: int) -> None:
        self._words, self._counts = counted_words(tokenizer, text)
        self._random = random.Random(seed)

    def take(self, tokens: int) -> str:
        """Consecutive words of at most ``tokens`` tokens together, at least one."""
        start = self._random.randrange(len(self._words))
        taken: list[str] = []
        total = 0
        for step in range(len(self._words)):
            place = (start + step) % len(self._words)
            total += self._counts[place]
            if taken and total > tokens:
                break
            taken.append(self._words[place])
        return " ".join(taken)

    def request(self, shape: Shape, count: int) -> Request:
        query_tokens = self._random.randint(8, 14)
        query = self.take(query_tokens)
        mean = shape.tokens - SPECIAL - query_tokens + 2  # passages end at a word, before the mean
        centre = math.log(mean) - shape.spread**2 / 2
        lengths = [self._random.lognormvariate(centre, shape.spread) for _ in range(count)]
        return Request(query, [self.take(min(max(8, round(n)), 480)) for n in lengths])


def generated(tokenizer: Any, name: str, queries: int, count: int, seed: int = 0) -> list[Request]:
    """Requests of a workload from the shipped text, equal for equal seeds."""
    passages = Passages(tokenizer, shipped_text(), seed + 1000 * sorted(SHAPES).index(name))
    return [passages.request(SHAPES[name], count) for _ in range(queries)]


def of_length(tokenizer: Any, tokens: int, count: int, seed: int = 0) -> Request:
    """A request whose pairs all have exactly ``tokens`` tokens, after truncation."""
    passages = Passages(tokenizer, shipped_text(), seed)
    query = passages.take(6)
    room = tokens - SPECIAL - len(tokenizer.encode(query, add_special_tokens=False).ids)
    return Request(
        query, [_cut(tokenizer, passages.take(room + LONGEST_WORD), room) for _ in range(count)]
    )


def _cut(tokenizer: Any, text: str, tokens: int) -> str:
    ids = tokenizer.encode(text, add_special_tokens=False).ids[:tokens]
    cut = str(tokenizer.decode(ids))
    # A cut text may have fewer tokens than were kept: pad with a word of one token.
    missing = tokens - len(tokenizer.encode(cut, add_special_tokens=False).ids)
    return cut + " the" * max(0, missing)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def from_collection(folder: Path, queries: int, count: int, seed: int = 0) -> list[Request]:
    """Requests from a collection: its own candidates, or documents drawn at random."""
    texts = {
        str(record["id"]): f"{record.get('title') or ''} {record['text']}".strip()
        for record in _records(folder / "corpus.jsonl")
    }
    questions = {str(record["id"]): record["text"] for record in _records(folder / "queries.jsonl")}
    requests = []
    if (folder / "candidates.jsonl").is_file():
        for record in _records(folder / "candidates.jsonl"):
            ids = [str(item["id"]) for item in record["candidates"]][:count]
            passages = [texts[item] for item in ids if item in texts]
            query = questions.get(str(record["query_id"]))
            if query and len(passages) == count:
                requests.append(Request(query, passages))
    else:
        draw = random.Random(seed)
        identifiers = sorted(texts)
        for query in questions.values():
            drawn = draw.choices(identifiers, k=count)
            requests.append(Request(query, [texts[item] for item in drawn]))
    if len(requests) < queries:
        raise SystemExit(f"{folder}: {len(requests)} of {queries} queries have {count} candidates")
    return requests[:queries]


def lengths(tokenizer: Any, requests: Sequence[Request], max_length: int) -> list[list[int]]:
    """Tokens of every pair, truncated, by request."""
    found = []
    for request in requests:
        query = len(tokenizer.encode(request.query, add_special_tokens=False).ids)
        encoded = tokenizer.encode_batch(request.passages, add_special_tokens=False)
        found.append([min(max_length, SPECIAL + query + len(item.ids)) for item in encoded])
    return found


def load_tokenizer(model: Path) -> Any:
    """The tokenizer of a model folder, without truncation and padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
