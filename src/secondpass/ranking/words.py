"""Splits texts into words, and brings each word into one form, however Unicode spells it.

All that compares words uses :func:`split_words`. docs/meanings.md has its rules with their sources,
and docs/decisions/0014 what was decided against.

Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without spaces between words, and Korean
attaches particles to words, so that such a run is a phrase. Characters of these scripts become
overlapping pairs (bigrams), as in Lucene's ``CJKAnalyzer``. Retrieval by bigrams is about as good
as by segmented words: Kwok, "Comparing representations in Chinese information retrieval", 1997; Nie
et al., "On the use of words and n-grams for Chinese information retrieval", 2000.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from operator import add

WORDS_VERSION = 2
"""Version of the rules. An index of another version is built again; its vectors are kept."""

# Character classes of regular expressions, without digits and punctuation of the scripts.
_HAN = (
    "\u2f00-\u2fd5"  # Kangxi radicals, which text from PDFs has in place of ideographs
    "\u3005-\u3007\u3021-\u3029\u3038-\u303c\u3192-\u3195"  # iteration mark, zero, numerals
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
_ARABIC = "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc"

# Default_Ignorable_Code_Point without U+200B and U+200C; the tatweel; Arabic vowels that stand on
# a tatweel or a space.
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200d-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\u0640\ufc5e-\ufc63\ufcf2-\ufcf4\ufe70-\ufe7f"
)
# Words in one character, and numbers whose plain form has punctuation.
_SPELLED_OUT = (
    "\u00bc-\u00be\u013f\u0140\u037a\u2150-\u215f\u2189\u2474-\u249b\u3200-\u33ff\ufdfa\ufdfb"
    "\U0001f100-\U0001f10a"
)

_ARABIC_LETTERS = str.maketrans(
    "\u0622\u0623\u0625\u0671\u0649\u06cc\u06a9\u0629\u06c0\u06c1\u06c3",
    "\u0627\u0627\u0627\u0627\u064a\u064a\u0643\u0647\u0647\u0647\u0647",
)
_GREEK_LETTER = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_GREEK_ACCENTS = re.compile("(?<=[\u0370-\u03ff])[\u0300-\u036f]+")
_STRESS = re.compile("(?<=[\u0400-\u052f])[\u0300\u0301]+")
_POINTS_AND_VOWELS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e"  # Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
    "\u0897-\u089f\u08ca-\u08e1\u08e3-\u08ff]+"
)
_DOTTED_I = re.compile("i\u0307+")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")

_WORD = re.compile(r"\w+")
_WORD_OR_NAME = re.compile(r"[a-z](?:\+\+|#)|\w+")  # C++, C#
# A letter with its vowel signs and tone marks, and in Khmer and Burmese with the consonants that
# are written below it, after U+17D2 and U+1039. Ideographs that this Python does not know are not
# marks.
_MARKS = r"[^\w\U00020000-\U0003ffff]*"
_CHARACTER = rf".{_MARKS}(?:(?<=[\u17d2\u1039])\w{_MARKS})*"

# Where combining marks are searched: not among those of symbols (U+20D0) and ideographs (U+302A).
_MARK_RANGES = (
    *(range(0x300, 0x1E00), range(0xA600, 0xAC00), range(0xFB1E, 0xFB1F), range(0xFE20, 0xFE30)),
    # Chakma, Newa, Rohingya, Miao, Hmong, Wancho, Adlam; no historic scripts
    *(range(0x10D00, 0x10D40), range(0x11100, 0x11150), range(0x11400, 0x11480)),
    *(range(0x16F00, 0x16FA0), range(0x1E100, 0x1E150), range(0x1E2C0, 0x1E300)),
    range(0x1E900, 0x1E960),
)
# Where plain characters are searched: Latin to Hebrew, more Latin, punctuation and symbols.
_PLAIN_RANGES = (range(0x80, 0x600), range(0x1E00, 0x1F00), range(0x2000, 0x2C00))
_PICTURES = "\U0001f300-\U0001faff"  # emoji, which are no letters

# More than 30 marks, as in the Stream-Safe Text Format of UAX #15, or other signs.
_MANY_MARKS = re.compile(r"([^\0-\x7f\w\u3200-\u33ff]{30})[^\0-\x7f\w\u3200-\u33ff]+")
_SHORT = 2000

_REMEMBERED_WORDS = 10_000
_REMEMBERED_LENGTH = 40


def split_words(text: str) -> list[str]:
    """Split a text into words, in their order.

    Spellings of a word that differ in their Unicode form, in case, in the script of digits, or in
    marks that Greek, Hebrew and Arabic often leave out are the same word. Runs of Han, Hiragana,
    Katakana, Hangul, Thai, Lao, Khmer and Myanmar characters become bigrams; a run of one character
    becomes that character. A letter with its combining marks is one character.

    A word stays what it is if it is split again.
    """
    return _split_lowered(text.lower()) if text.isascii() else _splitter().split(text)


def _split_lowered(text: str) -> list[str]:
    return (_WORD_OR_NAME if _may_have_names(text) else _WORD).findall(text)


def _may_have_names(text: str) -> bool:
    return "+" in text or "#" in text  # the longer pattern takes 1.2 times as long


class _Splitter:
    """Splits texts that are not ASCII. Made at the first of them, because it takes 20 ms."""

    def __init__(self) -> None:
        self._run = re.compile(f"[{_BIGRAMS}]")
        marks = _ranges(filter(self._is_mark, chain.from_iterable(_MARK_RANGES)))
        rewritten = f"{_IGNORED}\u200c{_SPELLED_OUT}"
        self._rewritten = _rough_pattern(rewritten)
        # Without these, words are runs of ``\w``.
        self._special = _rough_pattern(f"{_BIGRAMS}{marks}{rewritten}")
        # Without these, case is all that distinguishes the forms of a word.
        plain = _ranges(filter(self._is_plain, chain.from_iterable(_PLAIN_RANGES)))
        self._not_plain = re.compile(f"[^\0-\x7f{plain}{_PICTURES}]")
        self._arabic_space = re.compile(f"\u200c(?<=[{_ARABIC}]\u200c)(?=[{_ARABIC}])")
        self._ignored = re.compile(f"[{_IGNORED}\u200c]")
        self._spelled_out = re.compile(f"[{_SPELLED_OUT}]")
        self._marked_word = re.compile(rf"\w+(?:[{marks}]+\w*)*")
        run = f"[{_BIGRAMS}][{_BIGRAMS}{_VOICING}\u200b]*"
        letters = rf"[^\W{_BIGRAMS}]"
        word = f"{letters}+(?:[{marks}]+{letters}*)*"
        name = "[A-Za-z\u017f\uff21-\uff3a\uff41-\uff5a](?:[+\uff0b]{2}|[#\uff03])"
        self._run_or_word = re.compile(f"({run})|({word})")
        self._run_name_or_word = re.compile(f"({run})|({name}|{word})")
        self._character = re.compile(_CHARACTER, re.DOTALL)
        self._forms = _Forms()

    def _is_mark(self, code: int) -> bool:
        is_mark = unicodedata.category(chr(code)) in {"Mn", "Mc"}
        return is_mark and not self._run.match(chr(code))

    def _is_plain(self, code: int) -> bool:
        """Whether case folding is all that is done to the character."""
        character = chr(code)
        if self._special.match(character):
            return False
        return not character.isalnum() or _form(character) == character.casefold()

    def split(self, text: str) -> list[str]:
        if not self._not_plain.search(text):
            return _split_lowered(text.casefold())
        if "\ufe0f" in text:  # ignored anyway; without it, most texts with emoji are plain
            return self.split(text.replace("\ufe0f", ""))
        form = self._forms.__getitem__
        may_have_names = _may_have_names(text) or "\uff0b" in text or "\uff03" in text
        if not may_have_names and not self._special.search(text):
            return [*map(form, _WORD.findall(text))]
        text = _composed(text)
        rewritten = self._rewritten.sub(self._rewrite, self._arabic_space.sub(" ", text))
        if rewritten != text:
            text = _composed(rewritten)  # ignored characters may have kept marks apart
        if not may_have_names and not self._run.search(text):
            if not self._not_plain.search(text):  # it was only decomposed, or had soft hyphens
                return _split_lowered(text.casefold())
            return [*map(form, self._marked_word.findall(text))]
        words = []
        pattern = self._run_name_or_word if may_have_names else self._run_or_word
        for run, word in pattern.findall(text):
            if run:
                words += self._bigrams(run)
            else:
                words.append(form(word))
        return words

    def _rewrite(self, match: re.Match[str]) -> str:
        character = match[0]
        if self._ignored.match(character):
            return ""
        if not self._spelled_out.match(character):
            return character
        form = unicodedata.normalize("NFKC", character)
        return form if character.isalpha() else f" {form} "  # a digit before it is another word

    def _bigrams(self, run: str) -> list[str]:
        run = unicodedata.normalize("NFKC", run.replace("\u200b", ""))
        if run.isalnum():  # without marks each code point is a character
            characters: Sequence[str] = run
        else:
            characters = self._character.findall(run.lstrip(_VOICING))
        if len(characters) < 2:
            return list(characters)
        return list(map(add, characters, characters[1:]))


_splitter = cache(_Splitter)


class _Forms(dict[str, str]):
    """The forms of words. Those of common words are remembered, because they take 2 µs each."""

    def __missing__(self, word: str) -> str:
        form = _form(word)
        if len(word) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED_WORDS:
                self.clear()
            self[word] = form
        return form


def _ranges(codes: Iterable[int]) -> str:
    """Ascending code points as ranges of a character class."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


def _rough_pattern(characters: str) -> re.Pattern[str]:
    """Matches a character of the class, and any above U+FFFF, where each range takes time."""
    characters = re.sub("[\U00010000-\U0010ffff](?:-.)?", "", characters)
    return re.compile(f"[{characters}\U00010000-\U0010ffff]")


def _composed(text: str) -> str:
    """The text in NFC, without the marks of a letter that are more than 30."""
    if len(text) > _SHORT:  # normalizing takes a time of the square of their number
        text = _MANY_MARKS.sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


def _form(word: str) -> str:
    """The form in which a word is compared."""
    form = unicodedata.normalize("NFKC", word).casefold()
    if form.isascii():
        return form
    # Again, because case folding decomposes some letters.
    form = unicodedata.normalize("NFKC", _POINTS_AND_VOWELS.sub("", form))
    form = _STRESS.sub("", _DOTTED_I.sub("i", form))
    if _GREEK_LETTER.search(form):
        form = _GREEK_ACCENTS.sub("", unicodedata.normalize("NFD", form))
    form = unicodedata.normalize("NFC", form).translate(_ARABIC_LETTERS)
    return _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), form)
