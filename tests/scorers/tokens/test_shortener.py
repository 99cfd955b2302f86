"""Long texts are shortened before they are tokenized, and no token changes."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sampling import examples
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.embedding.minilm import load_tokenizer
from secondpass.scorers.tokens.shortener import Shortener, pieces_before

TOKENS = 8
"""Small, so that small texts are longer than what is used of them."""

ODD = [
    *"aZ9é.,-_|=<[]#$ \t\n\r",
    *"\x00\x0b\x0c\x1c\x7f\x85\xa0\xad",  # controls, and spaces that are none here
    *"\u0300\u0301\u034f\u0344\u20dd\ufe0f",  # combining marks
    *"\u302e\u302f\U0001d165\U00016ff0\u08d4\u1ac0",  # marks that stay, and are reordered
    *"\u200b\u200d\u202e\u2060\ufeff\ufffd\ue000\U000e0041\U0010fffd",  # invisible or private
    *"\u1680\u2003\u2028\u202f\u3000",  # spaces
    *"中日\u3400\U00020000\uf900\u3042",  # ideographs are words by themselves, kana are not
    *"가각\u1100",  # Hangul is decomposed
    *"İ\u0131ẞßΣςK\u212bΩ",  # case changes
    *"≠≮\u037e\u0387\u1fef",  # decomposed into punctuation
    *"\U0001f600\u0378",  # an emoji; not assigned
    "[SEP]",
    "[UNK]",
    "##ing",
    "word",
    " the",
]

pieces = st.tuples(
    st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])),
    st.sampled_from([1, 1, 1, 2, 3, 99, 100, 101, 102, 300]),
)
hostile = st.lists(pieces, max_size=30).map(
    lambda some: "".join(text * count for text, count in some)
)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(TOKENS + 2)


@pytest.fixture(scope="module")
def tokenizer_of_32():
    return load_tokenizer(32 + 2)


@examples(100)
@given(text=hostile)
@example("a" * 99 + "\u0301" * 300 + "b" + " c" * 9)
@example("a" * 101 + "." + "a" * 100 + " b" * 300)
@example("\u302e\u034f\u08d4" * 200 + " b")
@example("\n" * 500 + "word " * 500)
@example("word " * 8 + " " * 500)
@example("word " * 8 + "\u200b" * 500)
def test_the_tokens_stay_the_same(tokenizer, text):
    shortened = Shortener(tokenizer, TOKENS)(text)
    assert len(shortened) <= len(text)
    before, after = tokenizer.encode(text), tokenizer.encode(shortened)
    assert after.ids == before.ids
    # Or nobody could tell that the model does not read the whole text.
    assert bool(after.overflowing) == bool(before.overflowing)


@given(text=hostile, block=st.integers(1, 40))
@example("aaaaaa.\u0300\u302e", 1)
@example("aaaaaa\u0300\u302e\u302e", 1)
def test_tokens_are_found_in_the_text_before(tokenizer, text, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secondpass.scorers.tokens.shortener._CHARACTERS_PER_TOKEN", 1)
        patch.setattr("secondpass.scorers.tokens.shortener._BLOCK", block)
        shortened = Shortener(tokenizer, TOKENS)(text)
    before, after = (tokenizer.encode(whole).offsets[1:-1] for whole in (text, shortened))
    parts = [pieces_before(text, shortened, [(*span, 0.5)])[0] for span in after]
    for (start, stop, _), (first, end) in zip(parts, before, strict=True):
        assert start < stop
        # The tokenizer reorders marks, and reports the place of another mark of the same character.
        assert start == first or are_marks(text[min(start, first) : max(start, first)])
        assert stop <= end or are_marks(text[end:stop])


def are_marks(text):
    """Whether all characters combine with the one before them."""
    return all(map(unicodedata.combining, text))


def test_reordered_marks(tokenizer):
    marks = {
        chr(code)
        for code in range(0x110000)
        if unicodedata.combining(chr(code)) and tokenizer.normalizer.normalize_str(chr(code))
    }
    assert marks
    assert marks.isdisjoint("".join(tokenizer.get_vocab()))


MANY = 1_000_000
LONG = {
    "prose": "The quick brown fox jumps. " * (MANY // 27),
    "one word": "x" * MANY + " end",
    "spaces": "word" + " " * MANY + "next",
    "zeros": "\x00" * MANY + "word",
    "zero width": "a" + "\u200b" * MANY + "b",
    "accents": "e" + "\u0301" * MANY + " end",
    "ideographs": "中" * MANY,
    "punctuation": "." * MANY,
    "long words": ("y" * 300 + " ") * (MANY // 301),
    "mixed": "\u0301 \u200b\n" * (MANY // 4) + "end",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_little_of_a_long_text_is_tokenized(text, tokenizer_of_32):
    shortened = Shortener(tokenizer_of_32, 32)(text)
    assert len(shortened) <= 33 * 102
    encode = tokenizer_of_32.encode
    assert encode(shortened).ids == encode(text[:11_000] + text[-9:]).ids


def test_scores_of_long_passages_and_queries():
    scorer = EmbeddedScorer(max_length=16, memory_mb=1)
    long = "the capital of France is Paris " * 20
    longer = long.replace(" ", "  \u200b") * 200
    (expected,) = scorer.score_pairs("capital", [long])
    assert scorer.score_pairs("capital", [longer]) == [expected]
    assert scorer.score_pairs(longer, ["capital"]) == scorer.score_pairs(long, ["capital"])
    [pair] = scorer._engine.get(scorer._load).model.prepare("capital", [longer])
    assert len(pair.key) < 1000
