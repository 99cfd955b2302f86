"""Truncates long texts before a BERT tokenizer, without changing the tokens that it keeps.

Tokenizing ten megabytes takes ten seconds and more than a gigabyte, to keep 512 tokens. No fixed
number of characters is a safe limit: the tokenizer removes accents, control characters and runs of
spaces, and a word of more than 100 characters becomes one ``[UNK]``. So removed characters are
dropped and long words cut, which changes no token, until there are more words than tokens.

How a character is tokenized is determined by the tokenizer itself, once per character. It does not
depend on adjacent characters: normalization works per character, except for the order of combining
marks. Marks that are not removed are in no vocabulary, so their word is ``[UNK]`` in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from secondpass.types import Piece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_CHARACTERS_PER_TOKEN = 16
"""Texts with fewer are returned unchanged. More than 6 are rare."""
_BLOCK = 1 << 18
"""Maximum number of characters that are processed at once."""
_MAX_CLASSIFIED = 10_000
"""Maximum number of characters that are classified at once."""
_UNKNOWN, _REMOVED, _SPACE, _WORD, _SEPARATE = range(5)
"""Kinds of characters: not classified yet, removed, a space, part of a word, or separate words."""


class Shortener:
    """Truncates texts that have more tokens than a model reads. Safe for use from many threads.

    ``tokens`` is how many it reads. One word more is kept, so that the tokenizer, which cuts that
    off, shows that the model does not read the whole text. The tokenizer has BertNormalizer,
    BertPreTokenizer, WordPiece, and no added tokens.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int) -> None:
        import numpy as np

        self._tokenizer = tokenizer
        self._words = tokens + 1  # each has one token or more
        self._kinds = np.zeros(0x110000, dtype=np.uint8)
        self._kinds[0xD800:0xE000] = _SEPARATE  # surrogates: the tokenizer rejects them
        # A longer word is one unknown token, whatever its other characters.
        longest = tokenizer.model.max_input_chars_per_word
        self._longest = np.array([0, 0, 1, longest + 1, np.iinfo(np.int64).max])

    def __call__(self, text: str) -> str:
        """A text with the same first tokens that is not longer."""
        start, block = 0, _CHARACTERS_PER_TOKEN * self._words
        if len(text) <= block:
            return text
        kept, words = "", 0
        while start < len(text) and words <= self._words:
            kept, words = self._compacted(kept + text[start : start + block])
            start += block
            block = min(2 * block, _BLOCK)
        return kept

    def _compacted(self, text: str) -> tuple[str, int]:
        """The text without parts that change no token, and the number of words in it."""
        import numpy as np

        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        kinds = self._kinds[codes]
        if not kinds.all():
            self._classify(np.unique(codes[kinds == _UNKNOWN]))
            kinds = self._kinds[codes]
        codes, kinds = codes[kinds != _REMOVED], kinds[kinds != _REMOVED]
        indices = np.arange(len(kinds))
        first = np.ones(len(kinds), dtype=np.bool_)  # of a run of characters of one kind
        first[1:] = kinds[1:] != kinds[:-1]
        in_run = indices - np.maximum.accumulate(np.where(first, indices, 0))
        kept = in_run < self._longest[kinds]
        begins = (kinds == _SEPARATE) | ((kinds == _WORD) & first)
        starts = np.flatnonzero(begins)
        if len(starts) > self._words:  # the words before are complete
            kept[starts[self._words] :] = False
        return codes[kept].tobytes().decode("utf-32-le", "surrogatepass"), len(starts)

    def _classify(self, codes: NDArray[np.uint32]) -> None:
        for start in range(0, len(codes), _MAX_CLASSIFIED):
            batch = codes[start : start + _MAX_CLASSIFIED]
            self._kinds[batch] = self._kinds_of([chr(code) for code in batch])

    def _kinds_of(self, characters: list[str]) -> list[int]:
        """The kind of each character, as the tokenizer treats it between two letters."""
        probe = " ".join(f"a{character}b" for character in characters)
        probe = self._tokenizer.normalizer.normalize_str(probe)
        words = iter(self._tokenizer.pre_tokenizer.pre_tokenize_str(probe))
        kinds = []
        for word, _ in words:
            if word != "a":
                kinds.append(_REMOVED if word == "ab" else _WORD)
                continue
            between = 0
            while next(words)[0] != "b":
                between += 1
            kinds.append(_SEPARATE if between else _SPACE)
        return kinds


def pieces_before(text: str, shortened: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Convert pieces of a shortened text to those of the original text.

    Only characters that are removed everywhere, and the ends of runs, are missing. So each
    character is the next equal one of the text.
    """
    places = []
    place = -1
    for character in shortened[: pieces[-1][1]]:
        place = text.index(character, place + 1)
        places.append(place)
    return [(places[start], places[stop - 1] + 1, score) for start, stop, score in pieces]
