"""Shortens long texts for a BERT tokenizer that truncates, without changing its output.

Tokenizing ten megabytes takes ten seconds and more than a gigabyte, to keep 512 tokens. No fixed
number of characters is a safe bound: accents, control characters and runs of spaces vanish, and a
word of any length over 100 becomes one ``[UNK]``. So the vanishing parts are dropped and long words
cut, which changes no token, until there are as many words as there may be tokens.

What a character becomes is asked of the tokenizer itself, once for each character. It does not
depend on the characters around it: normalization works character by character, but for the order of
combining marks. Those that do not vanish are in no vocabulary, so their word is ``[UNK]`` in any
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_CHARACTERS_A_TOKEN = 16
"""Texts with fewer are not looked at; few have more than 6."""
_BLOCK = 1 << 18
"""Characters that are looked at in one go, at most."""
_CLASSIFIED = 10_000
"""Characters that are classified in one go, at most."""
_UNKNOWN, _GONE, _SPACE, _WORD, _APART = range(5)
"""What a character becomes: nothing, a space, a part of a word, or at least one word by itself."""


class Shortener:
    """Shortens texts so that their first tokens stay the same.

    Args:
        tokenizer: with BertNormalizer, BertPreTokenizer, WordPiece, and no added tokens.
        tokens: how many tokens of a text are used.

    May be used from many threads.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int) -> None:
        import numpy as np

        self._tokenizer = tokenizer
        self._tokens = tokens
        self._kinds = np.zeros(0x110000, dtype=np.uint8)
        self._kinds[0xD800:0xE000] = _APART  # surrogates: the tokenizer shall refuse them
        # A word of more characters is one unknown token, whatever follows in it.
        longest = tokenizer.model.max_input_chars_per_word
        self._longest = np.array([0, 0, 1, longest + 1, np.iinfo(np.int64).max])

    def __call__(self, text: str) -> str:
        """A text with the same first tokens, no longer than this one."""
        start, block = 0, _CHARACTERS_A_TOKEN * self._tokens
        if len(text) <= block:
            return text
        kept, words = "", 0
        while start < len(text) and words <= self._tokens:
            kept, words = self._compacted(kept + text[start : start + block])
            start += block
            block = min(2 * block, _BLOCK)
        return kept

    def _compacted(self, text: str) -> tuple[str, int]:
        """The text without what changes no token, and how many words it has begun."""
        import numpy as np

        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        kinds = self._kinds[codes]
        if not kinds.all():
            self._classify(np.unique(codes[kinds == _UNKNOWN]))
            kinds = self._kinds[codes]
        codes, kinds = codes[kinds != _GONE], kinds[kinds != _GONE]
        places = np.arange(len(kinds))
        first = np.ones(len(kinds), dtype=np.bool_)  # of a run of characters of one kind
        first[1:] = kinds[1:] != kinds[:-1]
        in_run = places - np.maximum.accumulate(np.where(first, places, 0))
        kept = in_run < self._longest[kinds]
        begins = (kinds == _APART) | ((kinds == _WORD) & first)
        starts = np.flatnonzero(begins)
        if len(starts) > self._tokens:  # the words before are complete, and each is a token or more
            kept[starts[self._tokens] :] = False
        return codes[kept].tobytes().decode("utf-32-le", "surrogatepass"), len(starts)

    def _classify(self, codes: NDArray[np.uint32]) -> None:
        for start in range(0, len(codes), _CLASSIFIED):
            some = codes[start : start + _CLASSIFIED]
            self._kinds[some] = self._kinds_of([chr(code) for code in some])

    def _kinds_of(self, characters: list[str]) -> list[int]:
        """What the characters become, seen between two letters."""
        probe = " ".join(f"a{character}b" for character in characters)
        probe = self._tokenizer.normalizer.normalize_str(probe)
        words = iter(self._tokenizer.pre_tokenizer.pre_tokenize_str(probe))
        kinds = []
        for word, _ in words:
            if word != "a":
                kinds.append(_GONE if word == "ab" else _WORD)
                continue
            between = 0
            while next(words)[0] != "b":
                between += 1
            kinds.append(_APART if between else _SPACE)
        return kinds
