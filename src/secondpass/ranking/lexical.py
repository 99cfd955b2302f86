"""BM25 over the candidates themselves, and the words that it counts.

Robertson and Zaragoza, "The probabilistic relevance framework: BM25 and beyond", 2009, with the
non-negative inverse document frequency ``ln(1 + (N - n + 0.5) / (n + 0.5))`` that Lucene uses.

One call, one round, no model. Document frequencies are those of the candidate list, so scores of
different lists cannot be compared (the scorer is not pointwise). Time is linear in the text.

Words are runs of letters, digits and underscores. Chinese, Japanese, Thai, Lao, Khmer and Burmese
are written without spaces between words, and Korean attaches particles to words, so that such a run
is a phrase. Characters of these scripts become overlapping pairs (bigrams), as in Lucene's
``CJKAnalyzer``. Retrieval by bigrams is about as good as by segmented words: Kwok, "Comparing
representations in Chinese information retrieval", 1997; Nie et al., "On the use of words and
n-grams for Chinese information retrieval", 2000.

The scripts of India, Sri Lanka and Tibet write vowels as marks on a letter. Regular expressions
count marks as neither letters nor digits, but they are part of the word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from operator import add
from typing import TYPE_CHECKING, Annotated

from secondpass.settings import configurable
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le

# Character classes of regular expressions, without digits and punctuation of the scripts.
_HAN = (
    "\u2f00-\u2fd5"  # Kangxi radicals, which text from PDFs has in place of ideographs
    "\u3005-\u3007\u3021-\u3029\u3038-\u303c"  # iteration mark, zero, numerals
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # the two planes of ideographs, assigned or not
)
_KANA = (
    "\u3031-\u3035\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\uff66-\uff9f"  # half-width
    "\U0001aff0-\U0001b16f"
)
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
_THAI = "\u0e01-\u0e3a\u0e40-\u0e4e"
_LAO = "\u0e81-\u0ece\u0edc-\u0edf"
_KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
_MYANMAR = (
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
)
_BIGRAMS = _HAN + _KANA + _HANGUL + _THAI + _LAO + _KHMER + _MYANMAR
_VOICING = "\u3099\u309a"  # combining; composed with the kana before them
_BRAHMIC = "\u0900-\u0dff\u0f00-\u0fff"  # Devanagari to Sinhala, and Tibetan
# Zero-width spaces and joiners, and variation selectors: two spellings of one text.
_INVISIBLE = "\u200b-\u200d\u2060\ufe00-\ufe0f\U000e0100-\U000e01ef"

# A letter with its vowel signs and tone marks, and in Khmer and Burmese with the consonants that
# are written below it, after U+17D2 and U+1039. Ideographs that this Python does not know are not
# marks.
_MARKS = r"[^\w\U00020000-\U0003ffff]*"
_WORD = re.compile(r"\w+")


class _Scripts:
    """Patterns of these scripts, made at the first text that is not ASCII: it takes 15 ms."""

    def __init__(self) -> None:
        brahmic = map(chr, [*range(0x900, 0xE00), *range(0xF00, 0x1000)])
        signs = "".join(item for item in brahmic if unicodedata.category(item)[0] == "M")
        letters = rf"[^\W{_BIGRAMS}]"
        self.any = re.compile(f"[{_BIGRAMS}{_BRAHMIC}]")
        self.word_or_run = re.compile(
            rf"([{_BIGRAMS}][{_BIGRAMS}{_VOICING}{_INVISIBLE}]*)"
            rf"|{letters}+(?:\u200d?[{signs}][{signs}\u200c\u200d]*{letters}*)*"
        )
        self.brahmic = re.compile(f"[{_BRAHMIC}]")
        self.removed = re.compile(f"[{_INVISIBLE}]+")
        self.character = re.compile(rf".{_MARKS}(?:(?<=[\u17d2\u1039])\w{_MARKS})*", re.DOTALL)


_scripts = cache(_Scripts)


def split_words(text: str) -> list[str]:
    """Split a text into lower-cased words, in their order.

    Runs of Han, Hiragana, Katakana, Hangul, Thai, Lao, Khmer and Myanmar characters become
    bigrams; a run of one character becomes that character. A letter with its combining marks is one
    character. In such runs compatibility forms are equal (NFKC: half-width Katakana, decomposed
    Hangul), and zero-width characters are ignored. A word in a script of India, Sri Lanka or Tibet
    includes its vowel signs; equivalent spellings of it are equal (NFC), and joiners are ignored.
    Other text is not normalized.
    """
    text = text.lower()
    if text.isascii() or not _scripts().any.search(text):
        return _WORD.findall(text)
    words = []
    for match in _scripts().word_or_run.finditer(text):
        word = match[0]
        if match.lastindex:
            words += _bigrams(word)
        elif word.isascii() or not _scripts().brahmic.search(word):
            words.append(word)
        else:
            words.append(unicodedata.normalize("NFC", _scripts().removed.sub("", word)))
    return words


def _bigrams(run: str) -> list[str]:
    if not run.isalnum():
        run = _scripts().removed.sub("", run)
    run = unicodedata.normalize("NFKC", run)
    # Without marks, which are neither letters nor digits, each code point is a character.
    characters = run if run.isalnum() else _scripts().character.findall(run)
    if len(characters) < 2:
        return list(characters)
    return list(map(add, characters, characters[1:]))


@configurable
class LexicalScorer:
    """Scores documents by the words of the query.

    Args:
        k1: saturation of repeated words; 0 counts a word once.
        b: normalization by document length, 0 to 1.

    Scores are 0 or more, without an upper bound (kind ``unbounded``). Words are those of
    :func:`~secondpass.ranking.lexical.split_words`, without stemming or stop words.
    """

    score_kind: ScoreKind = "unbounded"
    model_name = "lexical"
    pointwise = False

    def __init__(
        self, *, k1: Annotated[float, Ge(0)] = 1.2, b: Annotated[float, Ge(0), Le(1)] = 0.75
    ) -> None:
        self.k1 = k1
        self.b = b

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document; 0 if it has no word of the query."""
        counts = [Counter(split_words(document)) for document in documents]
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
        scores = [0.0] * len(documents)
        for word, times in Counter(split_words(query)).items():
            holders = [index for index, count in enumerate(counts) if word in count]
            rarity = math.log1p((len(counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index in holders:
                frequency = counts[index][word]
                damping = self.k1 * (1 - self.b + self.b * lengths[index] / mean)
                scores[index] += times * rarity * frequency / (frequency + damping)
        return scores
