# ruff: noqa: RUF001
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_lists import NATIVE_LISTS
from secondpass import Reranker
from secondpass.ranking.lexical import LexicalScorer, split_words


def test_bm25_by_hand():
    documents = ["cat food", "the cat sat on the mat", "dog"]
    scores = LexicalScorer(k1=1.2, b=0.75).score_pairs("cat food", documents)
    mean = (2 + 6 + 1) / 3

    def part(holders, frequency, length):
        rarity = math.log(1 + (3 - holders + 0.5) / (holders + 0.5))
        return rarity * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / mean))

    assert scores == pytest.approx([part(2, 1, 2) + part(1, 1, 2), part(2, 1, 6), 0.0])


@pytest.mark.parametrize("language", NATIVE_LISTS)
def test_languages_without_spaces(language):
    passages, questions = NATIVE_LISTS[language]
    reranker = Reranker("lexical")
    best = {question: reranker.rerank(question, passages)[0].position for question in questions}
    assert best == questions


def test_nothing_to_go_by():
    assert LexicalScorer().score_pairs("q", []) == []
    assert LexicalScorer().score_pairs("", ["a"]) == [0.0]
    assert LexicalScorer(k1=0).score_pairs("a", ["a a a", "a"]) == pytest.approx(
        [math.log(1.2)] * 2
    )
    assert LexicalScorer().score_pairs("a", ["", "!?"]) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Snake_case, x2!", ["snake_case", "x2"]),
        ("die Straße", ["die", "straße"]),
        ("北京大学", ["北京", "京大", "大学"]),
        ("水", ["水"]),
        ("很好，谢谢。", ["很好", "谢谢"]),
        ("iPhone15を買う", ["iphone15", "を買", "買う"]),
        ("Tシャツ", ["t", "シャ", "ャツ"]),
        ("サーバー", ["サー", "ーバ", "バー"]),
        ("人々", ["人々"]),
        ("二〇二四年", ["二〇", "〇二", "二四", "四年"]),
        ("２０２４年", ["２０２４", "年"]),
        ("👍好吃👍🏽", ["好吃"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("\U00031350\U00031351", ["\U00031350\U00031351"]),  # newer than some Pythons
        ("한국어를 배워요", ["한국", "국어", "어를", "배워", "워요"]),
        ("จำได้", ["จํา", "าไ", "ได้"]),
        ("ปี๒๕๖๗", ["ปี", "๒๕๖๗"]),
        ("ພາສາລາວ", ["ພາ", "າສ", "ສາ", "າລ", "ລາ", "າວ"]),
        ("ភាសាខ្មែរ។", ["ភាសា", "សាខ្មែ", "ខ្មែរ"]),
        ("မြန်မာစာ", ["မြန်", "န်မာ", "မာစာ"]),
        ("e\u3099か", ["e", "か"]),
        ("हिन्दी भाषा, २०२४।", ["हिन्दी", "भाषा", "२०२४"]),
        ("தமிழ்_x மொழி 漢字", ["தமிழ்_x", "மொழி", "漢字"]),
        ("বাংলা nai\u0308ve", ["বাংলা", "nai", "ve"]),
        ("བོད་སྐད།", ["བོད", "སྐད"]),
        (" \u093f\u200d क", ["क"]),
    ],
)
def test_words_and_bigrams(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ﾊﾟｽﾜｰﾄﾞ", "パスワード"),
        ("か\u3099く", "がく"),
        (unicodedata.normalize("NFD", "한국어"), "한국어"),
        ("葛\U000e0100城", "葛城"),
        ("⽇本", "日本"),
        ("ภาษา\u200bไทย", "ภาษาไทย"),
        ("क्\u200dष", "क्ष"),
        ("শ্রী র\u200d্য", "শ্রী র্য"),
        ("\u0958लम", "क\u093cलम"),
        ("ক\u09c7\u09be", "ক\u09cb"),
    ],
)
def test_spellings_of_the_same_text_are_equal(text, same):
    assert split_words(text) == split_words(same)


@given(
    st.text(
        st.sampled_from(
            "a_1 क\u093f\u094dत\u093c\u200d漢字かカｶﾞｰ한ᄒ\u1161กีำ๑ខ្ម။\u3099\u200b\ufe0f。-"
        )
    )
)
def test_joined_texts_share_the_words_of_each(text):
    words = split_words(text)
    assert all(words)
    assert split_words(f"{text} {text}") == words * 2
    assert split_words(text.upper()) == words
