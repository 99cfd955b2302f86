"""Tokens of query-passage pairs. Each query and each passage is tokenized once.

A pair's tokens are: special tokens, query, special tokens, passage, special tokens. The special
tokens are read from the encoding of a sample pair. The result equals that of the tokenizer for the
pair, including truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.concurrency.lazy import Lazy
from secondpass.errors import ModelLoadError
from secondpass.questions import affixes, cut, sliced, text_key, written_spans
from secondpass.ranking.rendering import well_formed
from secondpass.scorers.tokens.control_tokens import ControlTokens, Tokens
from secondpass.scorers.tokens.shortener import Shortener
from secondpass.scorers.tokens.truncated import TruncatedPairs
from secondpass.storage.lru import LRU

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_CHARACTERS_PER_TOKEN = 64
"""Characters of a text with a prefix or suffix that are tokenized, for each token of a pair."""
_LONGEST_KEY = 20_000
"""Characters of a passage that is remembered; its text is the key."""


class Pair(NamedTuple):
    """The tokens before the passage, those of the passage, and the number of all tokens."""

    head: NDArray[np.int32]
    passage: NDArray[np.int32]
    length: int


class _Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        ids: without special tokens, at most as many as a pair can have.
        total: their number before any were cut. It may be too low for texts with more than 16
            characters per token of a pair, which are truncated first, but it is then more than a
            pair can have.
        head, tail: the number of tokens of a prefix and a suffix that the configuration wrote.
        cut: whether the text was cut before these tokens were counted.
    """

    ids: NDArray[np.int32]
    total: int
    head: int = 0
    tail: int = 0
    cut: bool = False


class PairTokenizer:
    """Tokenizes pairs for a model. Safe for use from many threads.

    Control tokens in a query or a passage are read as characters, except in what the configuration
    wrote around them (:class:`~secondpass.questions.RenderedText`), which is not cut either. Of a
    pair with more than ``max_length`` tokens, the longer text is truncated first; with
    ``truncates_left`` it loses its beginning. Without ``types``, all token types are 0.
    ``remember`` is the number of passages whose tokens are kept. ``words`` is the number of tokens,
    ``size`` with added ones, ``last_id`` the largest number of these.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_length: int | None,
        pad: int = 0,
        truncates_left: bool = False,
        types: bool = True,
        remember: int = 0,
    ) -> None:
        import numpy as np
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
            self._parts = _Parts(tokenizer, types=types)
        except Exception as error:
            raise ModelLoadError(
                f"the tokenizer {path.name} cannot be loaded ({type(error).__name__})"
            ) from error
        # Set once: changing them while other threads encode is not safe.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.words: int = tokenizer.get_vocab_size(with_added_tokens=False)
        self.size: int = tokenizer.get_vocab_size()
        self.last_id = max([0, *tokenizer.get_added_tokens_decoder()])
        self._path = path
        self._control = ControlTokens(tokenizer.get_added_tokens_decoder())
        self._control_ids = np.array(sorted(self._control.ids), dtype=np.int32)
        self._with_control = Lazy[Tokenizer]()
        self._room = None if max_length is None else max_length - self._parts.special
        if self._room is not None and self._room < 1:
            raise ModelLoadError(f"max_length {max_length} has no room for a query and a passage")
        self._pad = pad
        self.has_types = types and self._parts.has_types
        self._truncates_left = truncates_left
        self._shortened = _shortener(tokenizer, self._room, truncates_left)
        self._remembered: LRU[Any, _Tokens] = LRU(remember)
        # A few suffice: the batches of a ranking have the same query.
        self._queries: LRU[Any, _Tokens] = LRU(16)
        self.truncated = TruncatedPairs()

    def token_of(self, number: int) -> str | None:
        """The token of a number."""
        token: str | None = self._tokenizer.id_to_token(number)
        return token

    def read(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def knows(self, word: str) -> bool:
        """Whether the vocabulary knows a word, and not only its letters."""
        encoding = self._tokenizer.encode(word, add_special_tokens=False)
        unknown = getattr(self._tokenizer.model, "unk_token", None)
        # Of a part that a Unigram model does not know, the token is the part itself.
        known = all(
            token != unknown and self._tokenizer.token_to_id(token) == number
            for token, number in zip(encoding.tokens, encoding.ids, strict=True)
        )
        return known and are_more_than_letters(word, len(encoding.ids))

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        """The tokens of each pair."""
        (query_tokens,) = self._tokens([query], self._queries)
        count = query_tokens.total
        full = self._head(query_tokens.ids)
        room, special = self._room, self._parts.special
        pairs = []
        truncated = []
        beside = []  # passages beside which the query was truncated
        for passage, tokens in zip(passages, self._tokens(passages, self._remembered), strict=True):
            kept, rest = count, tokens.total
            head, ids = full, tokens.ids
            if room is not None and kept + rest > room:
                kept, rest = longest_first(count, tokens.total, room)
                ids = self._cut(tokens, rest)
                if kept < count:
                    head = self._head(self._cut(query_tokens, kept))
            pairs.append(Pair(head, ids, kept + rest + special))
            if rest < tokens.total or tokens.cut:
                truncated.append(passage)
            if kept < count or query_tokens.cut:
                beside.append(passage)
        self.truncated.add(query, passages=truncated, beside=beside)
        return pairs

    def shown(self, query: str, passage: str) -> list[str]:
        """The tokens of a pair as strings."""
        [(head, ids, _)] = self.pairs(query, [passage])
        every = [*head.tolist(), *ids.tolist(), *self._parts.suffix.tolist()]
        return [self._tokenizer.id_to_token(number) or f"[{number}]" for number in every]

    def arrays(self, pairs: Sequence[Pair], inputs: frozenset[str]) -> dict[str, NDArray[np.int64]]:
        """The inputs of a model for a batch: int64, shape (pairs, tokens of the longest)."""
        import numpy as np

        shape = len(pairs), max(pair.length for pair in pairs)
        parts = self._parts
        ids = np.full(shape, self._pad, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64) if "token_type_ids" in inputs else None
        for row, (head, passage, length) in enumerate(pairs):
            start, end = len(head), len(head) + len(passage)
            ids[row, :start] = head
            ids[row, start:end] = passage
            ids[row, end:length] = parts.suffix
            mask[row, :length] = 1
            if types is not None and self.has_types:
                types[row, :start] = parts.head_type
                types[row, start:end] = parts.passage_type
                types[row, end:length] = parts.suffix_types
        arrays = {"input_ids": ids, "attention_mask": mask}
        if types is not None:
            arrays["token_type_ids"] = types
        return arrays

    def _tokens(self, texts: Sequence[str], remembered: LRU[Any, _Tokens]) -> list[_Tokens]:
        """The tokens of each text."""
        keys = [text_key(text) for text in texts]
        known = remembered.get_many(keys)
        missing = [index for index, tokens in enumerate(known) if tokens is None]
        if missing:
            plain = [texts[index] for index in missing if not written_spans(texts[index])]
            encoded = iter(self._encoded(plain))
            new = []
            for index in missing:
                framed = written_spans(texts[index])
                known[index] = tokens = self._framed(texts[index]) if framed else next(encoded)
                if len(texts[index]) <= _LONGEST_KEY:
                    new.append((keys[index], tokens))
            remembered.put_many(new)
        return known  # type: ignore[return-value]

    def _encoded(self, texts: Sequence[str]) -> list[_Tokens]:
        """The tokens of plain texts."""
        import numpy as np

        shortened = [self._shortened(well_formed(text)) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(shortened, add_special_tokens=False)
        results = []
        for text, encoding in zip(shortened, encodings, strict=True):
            ids = np.array(encoding.ids, dtype=np.int32)
            if len(self._control_ids) and np.isin(ids, self._control_ids).any():
                _, (read, _) = self._read(self._tokenizer, text)
                ids = np.array(read, dtype=np.int32)
            tokens = _Tokens(ids, len(ids))
            if self._room is not None:
                tokens = tokens._replace(ids=self._cut(tokens, self._room).copy())
            results.append(tokens)
        return results

    def _framed(self, text: str) -> _Tokens:
        """The tokens of a text that the configuration wrote a part of."""
        import numpy as np

        excess = 0
        if self._room is not None:  # tokenizing ten megabytes takes ten seconds
            excess = len(text) - _CHARACTERS_PER_TOKEN * self._room
            if excess > 0 and self._truncates_left:
                head = affixes(text)[0]
                text = sliced(text, (0, head), (head + excess, len(text)))
            elif excess > 0:
                text = cut(text, len(text) - excess)
        has_control = self._control.written_in(text)
        tokenizer = (
            self._with_control.get(self._load_with_control) if has_control else self._tokenizer
        )
        text, (read, offsets) = self._read(tokenizer, text)
        prefix, suffix = affixes(text)
        body = len(text) - suffix
        head = sum(stop <= prefix for _, stop in offsets) if prefix else 0
        tail = sum(start >= body for start, _ in offsets) if suffix else 0
        ids = np.array(read, dtype=np.int32)
        tokens = _Tokens(ids, len(ids), head, min(tail, len(ids) - head), excess > 0)
        if self._room is None:
            return tokens
        return tokens._replace(ids=self._cut(tokens, self._room).copy())

    def _read(self, tokenizer: Tokenizer, text: str) -> tuple[str, Tokens]:
        """The tokens of a text, with spaces in it that keep its content from control tokens."""

        def encode(text: str) -> Tokens:
            encoding = tokenizer.encode(str(text), add_special_tokens=False)
            return encoding.ids, encoding.offsets

        return self._control.read(text, encode)

    def _load_with_control(self) -> Tokenizer:
        """The tokenizer for texts in which the configuration wrote control tokens."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def _head(self, query: NDArray[np.int32]) -> NDArray[np.int32]:
        import numpy as np

        parts = self._parts
        return np.concatenate([parts.prefix, query, parts.middle])

    def _cut(self, tokens: _Tokens, count: int) -> NDArray[np.int32]:
        """At most ``count`` of the tokens; those of prefix and suffix are cut last."""
        import numpy as np

        ids, tail = tokens.ids, min(tokens.tail, count)
        head = min(tokens.head, count - tail)
        if len(ids) <= count:
            return ids
        end = len(ids) - tail
        if not self._truncates_left:
            return np.concatenate([ids[: count - tail], ids[end:]]) if tail else ids[:count]
        return np.concatenate([ids[:head], ids[end - (count - head - tail) : end], ids[end:]])


def are_more_than_letters(word: str, tokens: int) -> bool:
    """Whether so many tokens of a word are no single letters, which many vocabularies of other
    languages have.
    """
    return 0 < tokens <= ((len(word) + 1) // 2 if word.isascii() else len(word))


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts are kept if together they have more than ``room``.

    The longer text is cut to the length of the shorter, then both are cut equally. This is the rule
    of the library ``tokenizers``; with an odd ``room``, the longer one keeps one token more.
    """
    if first > second:
        second, first = longest_first(second, first, room)
        return first, second
    second = first if first > room else max(first, room - first)
    if first + second > room:
        first = room // 2
        second = first + room % 2
    return first, second


class _Parts:
    """The token ids before the query, between the texts and after the passage, and the types."""

    def __init__(self, tokenizer: Tokenizer, *, types: bool) -> None:
        import numpy as np

        tokenizer.no_padding()
        tokenizer.no_truncation()
        encoding = tokenizer.encode("a", "a")
        ids = np.array(encoding.ids, dtype=np.int32)
        owners = encoding.sequence_ids
        first = owners.index(0)
        middle = len(owners) - owners[::-1].index(0)
        second = owners.index(1)
        suffix = len(owners) - owners[::-1].index(1)
        if None in owners[first:middle] or None in owners[second:suffix] or first > second:
            raise ValueError("the tokens of a pair are not query, passage")
        self.prefix, self.middle, self.suffix = ids[:first], ids[middle:second], ids[suffix:]
        self.special = len(self.prefix) + len(self.middle) + len(self.suffix)
        type_ids = encoding.type_ids
        self.head_type, self.passage_type = type_ids[0], type_ids[second]
        self.suffix_types = np.array(type_ids[suffix:], dtype=np.int64)
        self.has_types = types and any(type_ids)
        if self.has_types and set(type_ids[:second]) != {self.head_type}:
            raise ValueError("the tokens before the passage are of several types")


def _shortener(tokenizer: Tokenizer, room: int | None, truncates_left: bool) -> Any:
    """A function that truncates very long texts before tokenizing, if the tokenizer is BERT's."""
    names = [type(part).__name__ for part in (tokenizer.normalizer, tokenizer.pre_tokenizer)]
    plain = all(token.special for token in tokenizer.get_added_tokens_decoder().values())
    is_bert = [*names, type(tokenizer.model).__name__] == [
        "BertNormalizer",
        "BertPreTokenizer",
        "WordPiece",
    ]
    if is_bert and plain and room is not None and not truncates_left:
        return Shortener(tokenizer, room)
    return lambda text: text
