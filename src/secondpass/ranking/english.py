"""Recognizes that a list of texts is not English, by its words.

For models that read English only. A list is not English if

- fewer than 15 % of its words are English function words,
- *and* the vocabulary of the model does not fit: more than 1.4 word pieces per word, or more than
  5 % of the pieces are unknown,
- *and* it has more signs of another language than of English, in at least three words and 5 % of
  all.

The first two also hold for English without sentences (code, product titles, names, terms of
chemistry), so the third is needed. Signs of English are function words, and longer words that are
whole in the vocabulary. Signs of another language are words with letters outside ASCII, and short
words that are followed by another word, like articles and prepositions. Capitalized words of
Latin letters are no sign, because they may be names; abbreviations have no vowel or no word after
them. Digits, punctuation and symbols are not words. Identifiers are split at underscores and
capitals.

A list that is not English is *unreadable* if more than 5 % of the pieces are unknown, or if the
vocabulary spells the script letter by letter: fewer than 1.5 letters a piece. The model has learnt
nothing about words that it reads as letters. Scripts other than Latin have 1.0 to 1.05 letters a
piece, languages in Latin letters 1.6 or more, English 4.8 (benchmarks/languages.py).

A query may be unreadable although its candidates are English. It is measured by itself: its words
of other than Latin letters are unreadable, and more than twice as many as those with a Latin
letter. So a name of two words beside one English word does not count. Characters that are written
without spaces are one word here, and single letters are none, because formulas have them.

A query in Latin letters may also be in another language than its candidates, where a corpus has
both. By the same three conditions, on the query alone, no query of the English test collections
counts as not English (0 of 1,551), but only 28 % of German questions do (329 of 1,190, and 66 % of
sentences), as most are too short. So these are scored as usual, and an issue says it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Literal, TypeAlias

from secondpass.types import Issue

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DOCUMENTS = 20  # that are read, from the first
_CHARACTERS = 500  # of each text that are read

_FUNCTION_SHARE = 0.15
_PIECES_PER_WORD = 1.4
_UNKNOWN_SHARE = 0.05
_LETTERS_PER_PIECE = 1.5
_FOREIGN_SHARE = 0.05
_FOREIGN_WORDS = 3
_FOREIGN_PER_LATIN = 2
"""Words of other letters for one word with a Latin letter, at most, in a query that is English."""

Language: TypeAlias = Literal["auto", "keep", "lean", "ignore"]
"""What to do with a list that is not English."""

LEAN = 0.5
"""Weight of the original order if a list is scored although it is not English."""

_INSTEAD = (
    "use the preset multilingual (method embedded_multilingual) or a multilingual cross_encoder, or"
    " set language: ignore to score them as English"
)

_FUNCTION_WORDS = """
    the this that these those some any all none each every both either neither such
    of at by from for with without into onto upon over under above below between among through
    during before after since until against about around across along behind beyond near within
    toward towards than like
    you he she it we they him her us them my your his its our their mine yours
    who whom whose which what when where why how
    are is was were be been being have has had having does did done doing
    can could will would shall should may might must
    and or but nor if then because while although though unless whether
    not there here very too also only just more most less other another own same
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_NEUTRAL = FUNCTION_WORDS | {"a", "i", "in", "on", "do", "to", "no", "me", "as", "so", "an", "am"}
"""Words that are no sign of either: function words that are frequent in other languages, too."""

_MARKS = "".join(
    chr(code) for code in range(0x300, 0x1000) if unicodedata.category(chr(code))[0] == "M"
)
"""Vowel signs and accents of the scripts from Latin to Tibetan, which ``\\w`` does not match."""
_WORD = re.compile(rf"[^\W\d_]+(?:[{_MARKS}\u200c\u200d]+[^\W\d_]*)*")
_ASCII_WORD = re.compile("[A-Za-z]+")  # the same in ASCII, in half the time
_IDEOGRAPH = "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_PART = re.compile(f"{_IDEOGRAPH}|[^{_IDEOGRAPH[1:-1]}]+")
_SIGN = re.compile(f"{_IDEOGRAPH}|[\uac00-\ud7a3]|..")
"""An ideograph or a Hangul syllable, or two letters."""
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00b5\u00ba-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2071-\u218f\u2c60-\u2c7f"
    "\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a]"
)
"""Latin letters, phonetic ones, and those of units and numerals."""
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])")
_SYMBOLS = re.compile("[\u02b0-\u02ff\u1d2c-\u1d6a\u2071\u207f\u2090-\u209c\U0001d400-\U0001d7ff]")
"""Letters of formulas, superscripts and subscripts."""
_SHORT = re.compile(r'[\s"(\[«„“¿¡](?<!\d\s)([a-z]{2,3})(?=[^\S\n][^\W\d_])')
_VOWEL = re.compile("[aeiouy]")
_LONG = 4


@dataclass(frozen=True, slots=True)
class Measures:
    """Statistics of the words of a list; shares are 0 to 1.

    Attributes:
        words: number of words.
        function: share of English function words.
        pieces: word pieces per word, 1 or more.
        letters: letters per word piece of the words that are not unknown; 0 if all are.
        unknown: share of the word pieces that are ``[UNK]``.
        english: share of words that are a sign of English.
        foreign: share of words that are a sign of another language.
    """

    words: int
    function: float
    pieces: float
    letters: float
    unknown: float
    english: float
    foreign: float

    @property
    def is_english(self) -> bool:
        """False only for a list that is not English."""
        fits = self.pieces <= _PIECES_PER_WORD and self.unknown <= _UNKNOWN_SHARE
        return (
            self.function >= _FUNCTION_SHARE
            or fits
            or self.foreign <= self.english
            or self.foreign < max(_FOREIGN_SHARE, _FOREIGN_WORDS / self.words)
        )

    @property
    def is_unreadable(self) -> bool:
        """Whether the vocabulary lacks the script, or spells it letter by letter."""
        return self.unknown > _UNKNOWN_SHARE or self.letters < _LETTERS_PER_PIECE


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a list is scored.

    Attributes:
        original: weight of the original order: 1 to keep it, 0.5 where the scores are uncertain,
            None for a list that is English, or scored like one.
        issues: ``not_english``, if the list or its query is not.
    """

    original: float | None = None
    issues: tuple[Issue, ...] = ()


def judge(
    language: Language, query: str, documents: Sequence[str], tokenizer: Tokenizer
) -> Verdict:
    """How to score a list by a model that reads English only.

    A list is also not English if the query alone is unreadable. ``keep`` keeps the order of such a
    list, ``lean`` scores it with half the weight, ``auto`` keeps it if the vocabulary lacks its
    script or spells it letter by letter, and scores it otherwise, ``ignore`` scores it as English.

    If only the query is in another language with Latin letters, an issue is all that follows.
    """
    if language == "ignore":
        return Verdict()
    measures, alone = measure_foreign(query, documents, tokenizer), None
    if measures is None or not measures.is_unreadable:
        alone = measure_unreadable_query(query, tokenizer)
        measures = alone or measures
    if measures is None:
        return Verdict(None, _query_issues(query, tokenizer))
    keep = language == "keep" or (language == "auto" and measures.is_unreadable)
    unfit = f"{measures.pieces:.1f} word pieces a word"
    if measures.unknown > _UNKNOWN_SHARE:
        unfit = f"{measures.unknown:.0%} of the word pieces unknown"
    if alone is None:
        share = f"{measures.function:.0%} English function words"
        seen = f"the list is not English (query and candidates together: {share}, {unfit})"
        whose = "its"
    else:
        seen, whose = f"the query is not in Latin letters ({unfit})", "the candidates'"
    effect = f"{whose} order is kept" if keep else f"{whose} original order has half the weight"
    message = f"{seen}, and this model reads English only: {effect}; {_INSTEAD}"
    return Verdict(1.0 if keep else LEAN, (Issue("not_english", message),))


def _query_issues(query: str, tokenizer: Tokenizer) -> tuple[Issue, ...]:
    """The issue of a query that is not English, of candidates that are."""
    if measure_foreign(query, (), tokenizer) is None:
        return ()
    message = (
        "the query is not English, and this model reads English only: its scores say less, and"
        f" passages in English may be preferred; {_INSTEAD}"
    )
    return (Issue("not_english", message),)


def measure_foreign(query: str, documents: Sequence[str], tokenizer: Tokenizer) -> Measures | None:
    """The measures of a list that is not English; None if it is, or if there are no words.

    The first 20 documents are read, up to 500 characters of each. The tokenizer is WordPiece with
    its normalizer. Takes about a millisecond for 20 texts of 80 tokens. Most lists in English are
    recognized by their function words, without the tokenizer.
    """
    texts = [text[:_CHARACTERS] for text in (query, *documents[:_DOCUMENTS])]
    words = [_words(text) for text in texts]
    counts = _count(words)
    if not counts or _function_words(counts) >= _FUNCTION_SHARE * counts.total():
        return None
    measures = _measure(texts, words, counts, tokenizer)
    return None if measures.is_english else measures


def measure_unreadable_query(query: str, tokenizer: Tokenizer) -> Measures | None:
    """The measures of the words of a query that are not of Latin letters.

    None if the vocabulary reads them, or if they are not most of the query.
    """
    query = query[:_CHARACTERS]
    if query.isascii():
        return None
    words = _words(query)
    other = [
        word
        for word in words
        if _SIGN.match(word)
        and not _LATIN.search(word)
        and not _SYMBOLS.search(word)
        and not any(map(str.isdigit, word))  # ²
    ]
    latin = sum(_LATIN.search(word) is not None for word in words)
    if len(other) <= _FOREIGN_PER_LATIN * latin:
        return None
    measures = measure([" ".join(other)], tokenizer)
    return measures if measures is not None and measures.is_unreadable else None


def function_word_share(texts: Sequence[str]) -> float | None:
    """The share of English function words, 0 to 1; None if there are no words."""
    counts = _count([_words(text[:_CHARACTERS]) for text in texts])
    return _function_words(counts) / counts.total() if counts else None


def measure(texts: Sequence[str], tokenizer: Tokenizer) -> Measures | None:
    """The measures of texts; None if there are no words."""
    words = [_words(text) for text in texts]
    counts = _count(words)
    return _measure(texts, words, counts, tokenizer) if counts else None


def _measure(
    texts: Sequence[str], words: Sequence[Sequence[str]], counts: Counter[str], tokenizer: Tokenizer
) -> Measures:
    """The measures of texts, of the words of each, and of the counts of all."""
    pieces_of = _pieces_by(tokenizer)
    total = counts.total()
    all_pieces = all_unknown = whole = other_letters = letters = 0
    broken = set()  # longer words that the vocabulary lacks, and no names
    for word, count in counts.items():
        pieces, unknown, length = pieces_of(word)
        all_pieces += count * pieces
        all_unknown += count * unknown
        letters += count * length
        if not word.isascii():
            if _is_foreign(word):
                other_letters += count
        elif len(word) >= _LONG:
            if pieces == 1:
                whole += 0 if word.lower() in FUNCTION_WORDS else count
            elif word.islower():
                broken.add(word)
    function = _function_words(counts)
    short = sum(map(_count_short, texts, words, repeat(broken)))
    return Measures(
        words=total,
        function=function / total,
        pieces=all_pieces / total,
        letters=letters / max(1, all_pieces - all_unknown),
        unknown=all_unknown / max(1, all_pieces),
        english=(function + whole) / total,
        foreign=(other_letters + short) / total,
    )


def _pieces_by(tokenizer: Tokenizer) -> Callable[[str], tuple[int, bool, int]]:
    """A function that returns the word pieces of a word, whether it is unknown, and its letters.

    The letters are counted as the model reads them: without accents and vowel signs.
    """
    known, normalizer, model = tokenizer.token_to_id, tokenizer.normalizer, tokenizer.model
    unknown = model.unk_token

    def pieces_of(word: str) -> tuple[int, bool, int]:
        lower = word.lower()
        if known(lower) is not None:
            return 1, False, len(lower)
        # The model itself: encoding takes five times as long.
        if not word.isascii():
            lower = normalizer.normalize_str(lower).strip()
        pieces = model.tokenize(lower)
        if len(pieces) == 1 and pieces[0].value == unknown:
            return 1, True, 0
        return len(pieces), False, len(lower)

    return pieces_of


def _words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def _count(words: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word is in the texts; identifiers and ideographs are split."""
    counts = Counter(chain.from_iterable(words))
    for word in [*counts]:
        if word.isascii() and (word.islower() or word.istitle() or word.isupper()):
            continue
        count = counts.pop(word)
        for part in _parts(word):
            counts[part] += count
    return counts


def _parts(word: str) -> list[str]:
    if word.isascii():
        return _HUMP.split(word)
    return [] if _SYMBOLS.search(word) else _PART.findall(word)


def _function_words(counts: Counter[str]) -> int:
    return sum(count for word, count in counts.items() if word.lower() in FUNCTION_WORDS)


def _is_foreign(word: str) -> bool:
    """Whether a word with letters outside ASCII is neither a name nor a letter of a formula."""
    if _SIGN.match(word) is None:
        return False
    # Other letters with capitals: a pair may be of a formula, longer words are no Latin names.
    return not word.istitle() or (len(word) > 2 and _LATIN.search(word) is None)


def _count_short(text: str, words: Sequence[str], broken: Set[str]) -> int:
    """How many words of a text are probably function words of another language."""
    short = sum(
        word not in _NEUTRAL and _VOWEL.search(word) is not None
        for word in _SHORT.findall(f"\n{text}")
    )
    # Sentences have more long words than function words; names and shorthand do not.
    return min(short, sum(word in broken for word in words)) if short else 0
