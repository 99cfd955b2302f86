"""Tokens of query-passage pairs. Each query and each passage is tokenized once.

A pair's tokens are: special tokens, query, special tokens, passage, special tokens. The special
tokens are read from the encoding of a sample pair. The result equals that of the tokenizer for the
pair, including truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import ModelLoadError
from secondpass.rendering import well_formed
from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.truncation import Shortener

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_LONGEST_KEY = 20_000
"""Characters of a passage that is remembered; its text is the key."""


class Pair(NamedTuple):
    """The tokens of a pair, without those after the passage.

    Attributes:
        head: tokens before the passage.
        passage: tokens of the passage.
        length: number of all tokens.
    """

    head: NDArray[np.int32]
    passage: NDArray[np.int32]
    length: int


class _Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        ids: without special tokens, at most as many as a pair can have.
        total: their number before any were cut. It may be too low for texts with more than 16
            characters per token of a pair, which are truncated first.
    """

    ids: NDArray[np.int32]
    total: int


class PairTokenizer:
    """Tokenizes pairs for a model.

    Args:
        path: the file ``tokenizer.json``.
        max_length: tokens of a pair; None for no limit. The longer of query and passage is
            truncated first.
        pad: the id of the padding token.
        truncates_left: whether texts lose their beginning rather than their end.
        types: whether token types are used; else all are 0.
        remember: passages whose tokens are kept, the last used ones.

    Special tokens in a query or a passage are read as characters. Safe for use from many threads.

    Attributes:
        has_types: whether pairs have token types other than 0.

    Raises:
        ModelLoadError: the file is no tokenizer.
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
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
            self._parts = _Parts(tokenizer)
        except Exception as error:
            raise ModelLoadError(
                f"the tokenizer {path.name} cannot be loaded ({type(error).__name__})"
            ) from error
        # Set once: changing them while other threads encode is not safe.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._room = None if max_length is None else max_length - self._parts.special
        if self._room is not None and self._room < 1:
            raise ModelLoadError(f"max_length {max_length} has no room for a query and a passage")
        self._pad = pad
        self.has_types = types and self._parts.has_types
        self._truncates_left = truncates_left
        self._shortened = _shortener(tokenizer, self._room, truncates_left)
        self._remembered: LRU[str, _Tokens] = LRU(remember)
        # A few suffice: the batches of a ranking have the same query.
        self._queries: LRU[str, _Tokens] = LRU(16)

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        """The tokens of each pair."""
        ((query_tokens, count),) = self._tokens([query], self._queries)
        full = self._head(query_tokens)
        room, special = self._room, self._parts.special
        pairs = []
        for tokens, passage_count in self._tokens(passages, self._remembered):
            total = count + passage_count
            if room is None or total <= room:
                pairs.append(Pair(full, tokens, total + special))
                continue
            kept, rest = longest_first(count, passage_count, room)
            head = full if kept == count else self._head(self._cut(query_tokens, kept))
            pairs.append(Pair(head, self._cut(tokens, rest), kept + rest + special))
        return pairs

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

    def _tokens(self, texts: Sequence[str], remembered: LRU[str, _Tokens]) -> list[_Tokens]:
        """The tokens of each text."""
        import numpy as np

        known = remembered.get_many(texts)
        missing = [index for index, tokens in enumerate(known) if tokens is None]
        if missing:
            shortened = [self._shortened(well_formed(texts[index])) for index in missing]
            encodings = self._tokenizer.encode_batch_fast(shortened, add_special_tokens=False)
            new = []
            for index, encoding in zip(missing, encodings, strict=True):
                ids = np.array(encoding.ids, dtype=np.int32)
                kept = ids if self._room is None else self._cut(ids, self._room).copy()
                tokens = known[index] = _Tokens(kept, len(ids))
                if len(texts[index]) <= _LONGEST_KEY:
                    new.append((texts[index], tokens))
            remembered.put_many(new)
        return known  # type: ignore[return-value]

    def _head(self, query: NDArray[np.int32]) -> NDArray[np.int32]:
        import numpy as np

        parts = self._parts
        return np.concatenate([parts.prefix, query, parts.middle])

    def _cut(self, tokens: NDArray[np.int32], count: int) -> NDArray[np.int32]:
        if self._truncates_left:
            return tokens[max(0, len(tokens) - count) :]
        return tokens[:count]


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
    """The special tokens around the texts of a pair, and the token types.

    Attributes:
        prefix, middle, suffix: token ids before the query, between the texts, after the passage.
        special: number of all of these.
        head_type, passage_type, suffix_types: token types.
        has_types: whether any of them differs from 0.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
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
        types = encoding.type_ids
        self.head_type, self.passage_type = types[0], types[second]
        self.suffix_types = np.array(types[suffix:], dtype=np.int64)
        self.has_types = any(types)
        if set(types[:second]) != {self.head_type}:
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
